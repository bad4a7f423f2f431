"""The first screen of an audit: the verdict, the model beside guessing and the upper bound, what to do next."""

from __future__ import annotations

import shlex

from hardpan.auditing.evidence import AuditNote
from hardpan.auditing.metrics import ScoreMetrics
from hardpan.auditing.problems import TRIFLES, BenchmarkProblem
from hardpan.auditing.running import Audit
from hardpan.bayes.floors.entries import GUESSING
from hardpan.estimates import Estimate
from hardpan.pages import floors, formatting
from hardpan.pages.auditing.problems import title_and_advice
from hardpan.pages.sections import Action

LEADING = ("leak-feature", "order", "index-feature")
"""Kinds whose notes lead the verdict where they can move the score beyond its interval."""
SCORE_WITHOUT = {"test-copies": "without them", "near-copies": "without them", "labels": "by the reviewer's labels"}
"""Kinds for which the score without the problem is measured on the best model itself."""
SEARCHED = {
    "test-copies": "copies of training rows",
    "near-copies": "near-copies",
    "leak-feature": "columns that alone predict the label",
    "shift": "differences between train and test",
    "groups": "groups of rows that belong together",
    "order": "changes along the file",
    "labels": "labels that differ from predictions",
    "slices": "slices on which the model errs more",
}
PENDING = {"models": "further models, hard examples and the lowest possible error"}
FIX = {
    "test-copies": "Remove the copies: tag them “exclude” in hardpan browse, or cut a new split",
    "near-copies": "Look at the pairs; tag copies “exclude” in hardpan browse",
    "labels": "Judge the labels that differ, one by one (Labels to judge); answers are saved as corrections",
    "leak-feature": "Drop a column that is known only after the outcome (--set drop=NAME); split by one that names "
    "whose rows they are (--group NAME)",
    "index-feature": "Drop columns that number the rows (--set drop=NAME), or name the time",
    "groups": "Split by group: --group COLUMN",
    "order": "Split by time, if the order is that of time: --column time=COLUMN",
    "shift": "State for which rows the score holds, or cut a test set like the data to come",
    "missing-classes": "Cut a new split in which train and test have every class",
    "permuted-classes": "Check the order of the class columns of the predictions",
    "imbalance": "Report the error per class, and collect more of the rare classes",
    "one-class": "Check the label column and the split",
}


def verdict(audit: Audit) -> str:
    """What a manager should know first: whether the score can be trusted, else the fact that speaks against it."""
    broken = [item for item in audit.problems if item.breaks]
    if broken:
        return f"{audit.dataset} is broken as a benchmark: {formatting.lower_case(title_and_advice(broken[0])[0])}."
    best = audit.measures.get("best_error")
    if audit.pending and best is None:
        found = [p for p in audit.problems if p.severity in ("high", "medium") and p.kind not in TRIFLES]
        return f"{found[0].title}." if found else "Nothing found so far; the audit is not finished."
    if audit.floor is None or best is None:
        return f"On {audit.dataset} nothing could be measured."
    claims = [
        item
        for item in audit.problems
        if item.severity != "note" and item.kind in SCORE_WITHOUT and moves_the_score(audit, item)
    ]
    if claims:
        title = formatting.lower_case(title_and_advice(claims[0])[0])
        return f"Do not trust this score yet: {title}{_score_without(claims[0], best.value)}."
    guessing = _guessing_words(audit.metrics, best.value)
    if guessing:
        return guessing
    facts = _leading_facts(audit, best)
    if facts:
        return f"{title_and_advice(facts[0])[0]}."
    if audit.pending:
        return "Nothing found so far; the audit is not finished."
    if not audit.searched:  # of an earlier version, which did not say what it searched
        return f"The best model here has {formatting.estimate(best)} error."
    few = [item for item in audit.problems if item.kind == "small-test"]
    if set(dropped_steps(audit)) & set(SEARCHED):
        return "Nothing found so far, but the budget was too small to search for everything."
    asked = [item for item in audit.problems if item.kind in FIX and item.reach == item.reach]
    look = [item for item in asked if not item.trifling(best)]
    if look:
        title = formatting.lower_case(title_and_advice(look[0])[0])
        return f"No test found a problem with this score; to look at first: {title}."
    more = f"; {few[0].details['n']:,} test examples are too few to compare close models" if few else ""
    return f"Nothing found that speaks against this score{more}."


def _leading_facts(audit: Audit, best: Estimate | None) -> list[BenchmarkProblem]:
    """What the verdict states where no claim moves the score, the first one first."""
    facts = [p for p in audit.problems if p.severity in ("high", "medium") and p.kind not in TRIFLES]
    facts += [item for item in audit.problems if item.kind == "groups" and item.details.get("large")]
    return facts + [
        item
        for item in audit.problems
        if item.severity == "note" and item.kind in LEADING and not item.trifling(best) and item.reach == item.reach
    ]


def moves_the_score(audit: Audit, item: BenchmarkProblem) -> bool:
    """Whether a problem that passed its test moves the score by more than its interval."""
    best = audit.measures.get("best_error")
    tested = item.p_value is not None or item.details.get("from") == "review"
    if best is None or item.effect is None or not tested:
        return False
    return not best.low <= best.value + item.effect.value <= best.high and item.effect.low * item.effect.high > 0


def _score_without(item: BenchmarkProblem, error: float) -> str:
    """What the error would be, after a semicolon; of copies also what a model gains that remembers them."""
    assert item.effect is not None
    change = item.details.get("without") or item.effect
    after = formatting.percent(min(1.0, max(0.0, error + change.value)), change.stderr)
    words = f"; {SCORE_WITHOUT[item.kind]} the error is {after}"
    if change is item.effect:
        return words
    return f"{words}, and a model that remembers them gains {formatting.rounded_points(item.effect.value)}"


def _guessing_words(metrics: ScoreMetrics | None, error: float) -> str:
    """A verdict on models that do not beat guessing; empty where the best one does."""
    if metrics is None or metrics.gain is None or metrics.gain.low > 0:
        return ""
    always = f"always answering “{metrics.guess}” has {formatting.estimate(metrics.guessing)} error"
    if metrics.gain.value > 0:
        words = f"The best model is not measurably better than guessing: {always}"
    else:
        words = f"By its error the best model is no better than guessing: {always}"
    if metrics.auroc is not None and metrics.auroc.low > 0.5:
        words += f"; it does rank “{metrics.rare}” higher, with an AUROC of {formatting.plain(metrics.auroc)}"
    return words + "."


def numbers(audit: Audit) -> list[str]:
    """The best model beside guessing and the upper bound; metrics of a rare class; how the test set was cut."""
    best, floor, metrics = audit.measures.get("best_error"), audit.floor, audit.metrics
    results = pending_words(audit)
    if audit.pending and best is None and metrics is not None:
        results.append(
            f"Guessing (always “{metrics.guess}”) has {formatting.percent(metrics.guessing.value, 0.01)} error."
        )
    if floor is None or best is None or any(item.breaks for item in audit.problems):
        return results
    name = "The best model here" if floor.best is None else f"The best model here ({floor.best.name})"
    said = f"{name} has {formatting.estimate(best)} error"
    if metrics is not None:
        said += f"; guessing (always “{metrics.guess}”) has {formatting.percent(metrics.guessing.value, 0.01)}"
    words = floors.bracket_words(floor)
    if any(item.details.get("code") == "unused_column" for item in audit.problems):
        words = f"from the columns that were used, {words}"
    if floor.bracket.high_from != GUESSING:
        words += "" if floor.bracket.low_from else "; how much lower it may be is not known"
    results.append(f"{said}. {formatting.capital(words)}.{floors.refused_words(floor)}")
    results += _own_models(audit)
    if metrics is not None and metrics.rare:
        results.append(rare_class_words(metrics))
    if audit.cut and audit.size:
        n, total = audit.size["test"], audit.size["examples"]
        results.append(
            f"The data have no test set of their own: hardpan drew {n:,} of {total:,} rows for it, {audit.cut}."
        )
    results += [sampled_words(n) for n in audit.notes if not isinstance(n, str) and n.code == "sampled"]
    searched = [words for kind, words in SEARCHED.items() if kind in audit.searched]
    if searched:
        results.append(f"Searched: {formatting.listed(searched)}.")
    dropped = [SEARCHED.get(step, step) for step in dropped_steps(audit)]
    if dropped:
        seconds = formatting.fixed(audit.config.budget, 0)
        results.append(
            f"Left out or cut short to keep to the budget of {seconds} s: {formatting.listed(dropped)}; "
            "a larger --budget includes them."
        )
    return results


def pending_words(audit: Audit) -> list[str]:
    """What a version of the page lacks that was saved while the audit ran; true whether it still runs or not."""
    if not audit.pending:
        return []
    lacking = [PENDING.get(part) or SEARCHED[part] for part in audit.pending]
    results = [
        "The audit was not finished when this version was written. While it runs, the page is written again and "
        "reloads itself; after a stop, the same command resumes.",
        f"Not computed in this version: {formatting.listed(lacking)}.",
    ]
    searched = [words for kind, words in SEARCHED.items() if kind in audit.searched]
    if searched and "best_error" not in audit.measures:
        results.append(f"Searched so far: {formatting.listed(searched)}.")
    return results


def dropped_steps(audit: Audit) -> list[str]:
    """Steps that were left out because the budget was used up."""
    return [
        note.details["step"]
        for note in audit.notes
        if not isinstance(note, str) and note.code == "skipped" and note.details["why"] == "no-time"
    ]


def _own_models(audit: Audit) -> list[str]:
    """The errors of the models that the user passed, where another one is the best."""
    evidence, floor = audit.evidence, audit.floor
    if evidence is None or floor is None:
        return []
    own = {model.name for model in evidence.models if not model.trained_here}
    errors = {e.name: e.estimate for e in (*floor.entries, *floor.seen) if e.role == "classifier"}
    known = [
        f"{name} has {formatting.estimate(errors[name])} error"
        for name in sorted(own & set(errors))
        if floor.best is None or name != floor.best.name
    ]
    return [f"Your models: {'; '.join(known)}."] if known else []


def rare_class_words(metrics: ScoreMetrics) -> str:
    """The metrics of a rare class in one sentence, each with its interval."""
    said = []
    if metrics.balanced_error is not None:
        said.append(f"balanced error {formatting.estimate(metrics.balanced_error)}")
    if metrics.auroc is not None:
        said.append(f"AUROC {formatting.plain(metrics.auroc)}")
    if metrics.average_precision is not None and metrics.share is not None:
        usual = formatting.plain(metrics.average_precision)
        said.append(f"average precision {usual}, of guessing {formatting.number(metrics.share.value, 2)}")
    if metrics.recall is not None:
        said.append(f"recall at the usual threshold {formatting.estimate(metrics.recall)}")
    if metrics.precision is not None:
        said.append(f"precision {formatting.estimate(metrics.precision)}")
    share = "" if metrics.share is None else f" is {formatting.percent(metrics.share.value, 0.01)} of the test rows"
    said_of = formatting.capital(metrics.model)
    return f"Class “{metrics.rare}”{share}, so the error alone says little. {said_of}: {'; '.join(said)}."


def actions(audit: Audit) -> tuple[Action, ...]:
    """Three things to do: look, fix, audit again."""
    if audit.evidence is None or audit.pending:
        return ()
    leading = _leading_facts(audit, audit.measures.get("best_error"))
    listed = [item.kind for item in (*leading, *audit.problems) if item.kind in FIX]
    kind = listed[0] if listed else "labels"
    browse = f"hardpan browse {shlex.quote(audit.folder)}" if audit.folder else ""
    in_browser = kind in ("labels", "test-copies", "near-copies")
    return (
        Action("Look", "See every example, the problems first", browse),
        Action("Fix", FIX[kind], browse if in_browser else ""),
        Action(
            "Audit again",
            "With your corrections" if in_browser and audit.folder else "After the fix",
            audit.next_command if in_browser else audit.origin.command,
        ),
    )


def sampled_words(note: AuditNote) -> str:
    """What a sample was used for, and what is known of all examples."""
    rows, of = note.details["rows"], note.details["of"]
    return (
        f"Models, near-copies and estimates use {rows:,} of the {of:,} examples, drawn from each split at random; "
        "exact and turned copies, conflicting labels, missing cells and classes are those of all."
    )
