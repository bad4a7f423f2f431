"""What a gate says: sentences and tables, the report as Markdown for a CI job, JUnit XML."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from xml.etree import ElementTree

from hardpan import arguments
from hardpan.errors import counted, few
from hardpan.leaderboard.gating import LEAST_SHARED, Gate
from hardpan.pages import formatting
from hardpan.pages.field_views import view
from hardpan.pages.sections import Aligned, Cell, Section, Table, View, differences, table_of, table_of_columns
from hardpan.report import Provenance, versions_of

METHODS = (
    "Pass if the lower limit of candidate − baseline is above −margin; otherwise fail if the upper limit is below "
    "0; otherwise cannot tell. The limits are one-sided. The score is the mean over tasks.",
    "With H runs of the baseline and K of the candidate: difference of the mean scores, standard error "
    "s √(1/K + 1/H) with s the standard deviation of the H scores, Student's t with H − 1 degrees of freedom.",
    "Without a history: per task the paired interval over its items (right and wrong: Tango's score interval with "
    "McNemar's exact test; groups of items: delete-a-group jackknife), joined over tasks by squared half-widths.",
    "Tasks are tested one-sidedly for a loss and corrected by Holm; they do not change the decision.",
)


@view.register
def _gate_view(result: Gate) -> View:
    section = Section(
        "Gate",
        tuple(_gate_sentences(result)),
        warnings=tuple(_gate_warnings(result)),
        tables=(_task_table(result),) if len(result.tasks) > 1 else (),
        folded=(_flipped_table(result),) if len(result.flipped) else (),
        methods=METHODS,
    )
    notes = (Section("How the scores were read", result.notes),) if result.notes else ()
    scores = dict(zip(("baseline", "candidate", "past runs"), result.flipped_scores.T, strict=False))
    made = View(
        title="Gate",
        headline=_gate_headline(result),
        sections=(section, *notes),
        terminal=(section,),
        provenance=Provenance(method=METHODS, versions=versions_of("numpy", "scipy")),
        columns={"item": result.flipped, "task": result.flipped_tasks} | scores,
        name=result.candidate,
        size=counted(sum(task.shared for task in result.tasks), "shared item"),
    )
    return replace(made, downloads={"card.md": render_markdown(made), "junit.xml": _junit_xml(result, made)})


def _gate_headline(result: Gate) -> str:
    margin, difference = formatting.in_points(result.margin), formatting.signed(result.difference)
    if result.verdict == "pass":
        within = f"differs by less than {margin}" if result.equivalent else f"is not worse by more than {margin}"
        return f"Pass: the candidate {within}: {difference}."
    if result.verdict == "fail":
        return f"Fail: the candidate is worse than the baseline: {difference}."
    if result.reason == "uncertain":
        return f"Cannot tell: {difference}; this neither excludes a drop of {margin} nor shows a drop."
    least = min(result.tasks, key=lambda task: task.shared / task.items)
    if result.reason == "missing tasks":
        missing = [task.task or "the task" for task in result.tasks if not task.shared]
        return f"Cannot tell: the runs share no items of {counted(len(missing), 'task')}: {few(missing, 5)}."
    where = f" of {least.task}" if least.task else ""
    return (
        f"Cannot tell: the runs share {least.shared:,} of {counted(least.items, 'item')}{where}; "
        f"{100 * LEAST_SHARED:.0f} % are needed."
    )


def _gate_sentences(result: Gate) -> Iterator[str]:
    shared, past = sum(task.shared for task in result.tasks), result.runs
    tasks = f" (mean over {len(result.tasks)} tasks)" if len(result.tasks) > 1 else ""
    names = f"Baseline {result.baseline}, candidate {result.candidate}"
    runs = f" over {past} runs" if past else ""
    of_candidate = f" over {result.candidate_runs} runs" if result.candidate_runs > 1 else ""
    old, new = (f"{formatting.points(score, '')} %" for score in (result.score_baseline, result.score_candidate))
    yield f"{names}: {old}{runs} and {new}{of_candidate} on {counted(shared, 'shared item')}{tasks}."
    sure, alarm = formatting.level(result.confidence), formatting.level(1 - result.confidence)
    covered = "" if past else ", apart from effects of whole runs"
    yield (
        f"Each end of the interval is a one-sided {sure} limit: an unchanged candidate fails in at most {alarm} of "
        f"cases{covered}."
    )
    basis = f"this history of {past} runs and these items" if past else "these items"
    smallest = formatting.points(result.smallest_margin, "", 2)
    yield (
        f"The smallest margin that {basis} can pass is {smallest} points: an unchanged candidate then passes in 80 "
        f"% of cases. The margin is {formatting.points(result.margin, '', 2)}."
    )
    if math.isfinite(result.items_needed):
        yield (
            f"If the true difference is the measured one, about {formatting.round_up(result.items_needed)} items "
            "like these decide (80 % power)."
        )
    if math.isfinite(result.runs_needed):
        yield (
            f"If the true difference is the measured one, {result.runs_needed:.0f} runs of the candidate and "
            f"{max(past, result.runs_needed):.0f} of the baseline decide (80 % power); more items do not."
        )
    lost = int((result.flipped_scores[:, 1] < result.flipped_scores[:, 0]).sum())
    yield (
        f"Against the current baseline the candidate is worse on {counted(lost, 'item')} and better on "
        f"{len(result.flipped) - lost:,}."
    )


def _gate_warnings(result: Gate) -> Iterator[str]:
    if not result.runs:
        yield (
            "Effects of a whole run (seed, server, hardware) are not covered: give past runs of the baseline with "
            "--history."
        )
    if any(result.unscored):
        old, new = (counted(count, "answer") for count in result.unscored)
        yield (
            f"Answers without a score (empty, timeout, not parsed) count as wrong: {old} of the baseline, {new} of "
            "the candidate; --unparsed missing leaves them out."
        )
    if result.unshared:
        yield (
            f"Not used: {counted(result.unshared, 'item')} that a run lacks, or has with another task or key. If "
            f"they were wrong: {formatting.points(result.difference_unshared_wrong, '+', 2)} points."
        )
    if result.new_items:
        yield f"{counted(result.new_items, 'item')} of tasks that the baseline lacks are not used."
    if result.equal_runs:
        yield (
            f"On every item {counted(result.equal_runs, 'run')} of the baseline equal another one; if they are "
            "copies of one run, the noise is understated."
        )
    worse = [task.task for task in result.tasks if task.worse]
    if worse and len(result.tasks) > 1 and result.verdict != "fail":
        yield f"Worse by themselves, corrected for {len(result.tasks)} tasks: {few(worse, 10)}."


def _task_table(result: Gate) -> Table:
    level = formatting.level(result.difference.confidence)
    columns: dict[str, Cell | Aligned] = {
        "task": "task",
        "shared": lambda task: f"{task.shared:,} of {task.items:,}",
        "baseline, %": lambda task: formatting.points(task.score_baseline, ""),
        "candidate, %": lambda task: formatting.points(task.score_candidate, ""),
        f"difference, points ({level})": differences("difference"),
        "p of a loss (Holm)": lambda task: formatting.p_value(task.p_worse),
        "": lambda task: "worse" if task.worse else "",
    }
    return table_of("Tasks", result.tasks, columns)


def _flipped_table(result: Gate) -> Table:
    columns = {"item": result.flipped}
    if len(result.tasks) > 1:
        columns["task"] = result.flipped_tasks
    names = ("baseline", "candidate", "mean of all runs")
    columns |= dict(zip(names, result.flipped_scores.round(3).T, strict=False))
    return table_of_columns(f"Items that changed ({len(result.flipped):,}), largest loss first", columns)


def _junit_xml(result: Gate, made: View) -> str:
    """One test case for the decision, and one that says how a task did for each of several tasks."""
    several = result.tasks if len(result.tasks) > 1 else ()
    failed, skipped = result.exit_code != 0, result.exit_code == 0 and result.verdict == "cannot tell"
    counts = {"tests": 1 + len(several), "failures": int(failed), "errors": 0, "skipped": int(skipped)}
    suite = ElementTree.Element("testsuite", {"name": "hardpan gate"} | {k: str(v) for k, v in counts.items()})
    case = ElementTree.SubElement(suite, "testcase", classname="hardpan.gate", name="decision")
    if failed or skipped:
        attributes = {"message": made.headline} | ({"type": result.verdict} if failed else {})
        ElementTree.SubElement(case, "failure" if failed else "skipped", attributes)
    ElementTree.SubElement(case, "system-out").text = "\n".join([made.headline, *made.sections[0].sentences])
    for task in several:
        case = ElementTree.SubElement(suite, "testcase", classname="hardpan.gate.task", name=task.task)
        words = f"{formatting.signed(task.difference)}, {task.shared:,} of {counted(task.items, 'item')} shared"
        ElementTree.SubElement(case, "system-out").text = words + (", worse" if task.worse else "")
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


MOST_ROWS = 50  # of a table
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~#&])")


def render_markdown(view: View) -> str:
    """Headline, sentences, warnings and tables as GitHub-flavoured Markdown; folded tables behind a click.

    Example:
        >>> from hardpan.pages.sections import Section, table_of_columns
        >>> table = table_of_columns("Tasks", {"task": ["a|b"], "items": [3]})
        >>> print(render_markdown(View("Gate", "Pass.", (Section("Gate", ("All is *well*.",), tables=(table,)),))))
        ## Pass.
        <BLANKLINE>
        All is \\*well\\*.
        <BLANKLINE>
        **Tasks**
        <BLANKLINE>
        | task | items |
        |---|---|
        | a\\|b | 3 |
        <BLANKLINE>
    """
    blocks = [f"## {_markdown_text(view.headline)}", *map(_markdown_text, view.lede)]
    for number, section in enumerate(view.sections):
        blocks += [f"### {_markdown_text(section.title)}"] if number else []
        blocks += ["  \n".join(map(_markdown_text, section.sentences))] if section.sentences else []
        blocks += [f"> {_markdown_text(sentence)}" for sentence in section.warnings]
        for table in section.tables:
            blocks += [f"**{_markdown_text(table.title)}**", *_markdown_rows(table)]
        for item in section.folded:
            if isinstance(item, Table):
                title = f"<details><summary>{_markdown_text(item.title)}</summary>"
                blocks += [title, *_markdown_rows(item), "</details>"]
    return "\n\n".join(blocks) + "\n"


def _markdown_text(text: str) -> str:
    """Names of files, models and items as they are: none of their letters is markup."""
    return _SPECIAL.sub(r"\\\1", arguments.clean_text(text))


def _markdown_rows(table: Table) -> Iterator[str]:
    cells = [formatting.column(column) for column in zip(*table.rows[:MOST_ROWS], strict=True)]
    lines = [table.columns, *zip(*cells, strict=True)]
    rows = [f"| {' | '.join(map(_markdown_text, line))} |" for line in lines]
    yield "\n".join([rows[0], "|" + "---|" * len(table.columns), *rows[1:]])
    if len(table.rows) > MOST_ROWS:
        yield f"{len(table.rows) - MOST_ROWS:,} more rows are in report.json."
