"""What ``hardpan testbed`` prints for a person."""

from __future__ import annotations

from pathlib import Path

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from hardpan import testbed
from hardpan.records import Estimate
from hardpan.testbed.shown import headline, line_sentence


def comparison(report: testbed.Comparison, page: Path | None) -> RenderableType:
    """A table as the paper's Table 1, the lines, and who is in them."""
    level = f"{100 * report.config.confidence:g} %"
    title = f"{report.metric}: accuracies in percent and new rank with {level} intervals; gap, residual in points"
    table = _table(title, "#", "model", "original", "new", "gap", "new rank", "Δ", "resid.")
    for row in report.rows:
        table.add_row(
            str(row.original_rank),
            escape(row.model) + ("" if row.in_fit else " *"),
            accuracy(row.original),
            accuracy(row.new),
            f"{100 * row.gap.value:z.1f}",
            f"{row.new_rank} ({row.new_rank_low}–{row.new_rank_high})",
            f"{row.delta_rank:+d}" if row.delta_rank else "0",
            f"{100 * row.residual.value:+z.1f}",
        )
    lines: list[RenderableType] = [table, *map(Text, headline(report))]
    lines += [Text(line_sentence(fit)) for fit in (report.fit, report.other_fit)]
    lines.append(Text(f"Models in the lines: {report.fit.n} of {len(report.rows)}{_left_out(report.excluded)}."))
    lines += _without_groups(report.without_group)
    lines.append(Text(f"Ties: {report.ties}. Rank intervals: {report.rank_method}.", style="dim"))
    lines += [Text(note, style="yellow") for note in report.notes]
    if page is not None:
        lines.append(Text(f"Page: {page}"))
    return Group(*lines)


def fitted(result: testbed.FitReport) -> RenderableType:
    """The line, its models, and the lines without each group."""
    lines: list[RenderableType] = [Text(line_sentence(result.fit)), Text(result.fit.slope.method, style="dim")]
    lines.append(Text(f"Models in the line: {', '.join(result.models)}{_left_out(result.excluded)}."))
    lines += _without_groups(result.without_group)
    if result.difficulty is not None:
        mu, sigma = result.difficulty.mu, result.difficulty.sigma
        lines.append(
            Text(
                f"Difficulty of the new set: mean {mu.value:.3f} [{mu.low:.3f}, {mu.high:.3f}], spread "
                f"{sigma.value:.3f} [{sigma.low:.3f}, {sigma.high:.3f}] ({'; '.join(result.difficulty.notes)})."
            )
        )
    return Group(*lines, *(Text(note, style="yellow") for note in result.notes))


def paired(result: testbed.Pairs) -> RenderableType:
    """A row a pair."""
    table = _table(
        f"{result.metric} on the {result.test_set} set; difference in points; examples that only one gets right",
        *("first", "second", "difference", "only 1st", "only 2nd", "p", "p (Holm)"),
    )
    for row in result.rows:
        table.add_row(
            escape(row.first),
            escape(row.second),
            _points(row.difference),
            str(row.only_first),
            str(row.only_second),
            f"{row.p:.2g}",
            f"{row.p_holm:.2g}",
        )
    told = f"{result.told_apart} of {len(result.rows)} pairs are told apart at level {1 - result.confidence:.3g} "
    return Group(table, Text(told + "(McNemar's exact test, Holm's correction)."))


def sampled(result: testbed.Strategies) -> RenderableType:
    """The paper's Table 2."""
    table = _table(
        "Average change of accuracy, in points",
        "test set",
        "selected",
        *(f"{metric} change" for metric in result.metrics),
    )
    for row in result.rows:
        frequency = "–" if row.selection_frequency is None else f"{row.selection_frequency:.2f}"
        table.add_row(escape(row.name), frequency, *(_points(row.change[metric]) for metric in result.metrics))
    spans = ", ".join(f"{100 * span:.1f} points ({metric})" for metric, span in result.span.items())
    models = ", ".join(f"{count} models ({metric})" for metric, count in result.rows[0].models.items())
    notes = (Text(note, style="yellow") for note in result.notes)
    return Group(table, Text(f"The averages span {spans}; they are over {models}."), *notes)


def decomposed(result: testbed.Decomposition) -> RenderableType:
    """Chance and remainder by model, then the verdicts."""
    level = f"{100 * result.confidence:g} %"
    table = _table(
        f"Parts of the gap in points, {level} limits", "model", "gap", "chance", "remainder", "all at once"
    )
    for part in result.parts:
        table.add_row(
            escape(part.model),
            f"{100 * part.gap:+z.1f}",
            f"[{100 * part.generalization.low:+z.1f}, {100 * part.generalization.high:+z.1f}]".replace("[", r"\["),
            _points(part.remainder),
            rf"\[{100 * part.uniform_remainder.low:+z.1f}, {100 * part.uniform_remainder.high:+z.1f}]",
        )
    sentences = [
        f"Chance explains at most {100 * result.largest_chance:.1f} points for all models at once; "
        f"{result.beyond_chance} of {len(result.parts)} drop by more.",
        result.verdict,
        result.spread,
    ]
    if result.by_date is not None:
        sentences.append(f"The gap changes by {_points(result.by_date, markup=False)} points a year.")
    return Group(table, *map(Text, sentences), *(Text(note, style="dim") for note in result.notes))


def people(result: testbed.Humans) -> RenderableType:
    """The paper's Table 3."""
    table = _table("Accuracy of people in percent", "participant", "original", "new", "gap")
    for row in result.rows:
        table.add_row(escape(row.name), accuracy(row.original), accuracy(row.new), f"{100 * row.gap:+z.1f}")
    better = f"{result.better_on_original} did better on the original set, {result.better_on_new} on the new one"
    return Group(table, Text(f"{better}; the average gap is {_points(result.mean_gap, markup=False)} points."))


def hard(result: testbed.Hardest) -> RenderableType:
    """How many examples are in the hardest part of each set."""
    table = _table(
        f"The hardest {100 * result.fraction:g} % by number of models right",
        "set",
        "examples",
        "of",
        "right by at most",
    )
    for name, rows, total, most in (
        ("original", result.original, result.original_total, result.original_most),
        ("new", result.new, result.new_total, result.new_most),
    ):
        table.add_row(name, f"{len(rows):,}", f"{total:,}", f"{most} of {result.models} models")
    return Group(table, Text("Their row numbers are in the JSON (--json)."))


def cross_validated(result: testbed.CrossValidation) -> RenderableType:
    """The paper's Table 4, a row a model."""
    table = _table("Accuracies in percent", "model", "original", "splits", "new", "drop")
    for row in result.rows:
        values = [item.value for item in row.splits]
        splits = f"{100 * min(values):.1f} to {100 * max(values):.1f} ({len(values)})"
        drop = f"{100 * row.drop:z.1f}"
        table.add_row(escape(row.model), accuracy(row.original), splits, accuracy(row.new), drop)
    foreseen = sum(row.foreseen for row in result.rows)
    return Group(
        table, Text(f"Cross-validation foresees the new accuracy of {foreseen} of {len(result.rows)} models.")
    )


_NAMES = ("model", "first", "second", "test set", "participant", "group", "set")


def accuracy(item: Estimate) -> str:
    """An accuracy in percent with its interval, as the paper prints it."""
    return rf"{100 * item.value:.1f} \[{100 * item.low:.1f}, {100 * item.high:.1f}]"


def _points(item: Estimate, markup: bool = True) -> str:
    text = f"{100 * item.value:+z.1f} [{100 * item.low:+z.1f}, {100 * item.high:+z.1f}]"
    return text.replace("[", r"\[") if markup else text


def _left_out(excluded: tuple[str, ...]) -> str:
    return f"; left out (*): {', '.join(excluded)}" if excluded else ""


def _without_groups(fits: tuple[testbed.GroupFit, ...]) -> list[RenderableType]:
    if not fits:
        return []
    table = _table("The line without each group", "group", "models", "slope", "offset")
    for item in fits:
        slope, offset = item.fit.slope, item.fit.offset
        table.add_row(
            escape(item.left_out),
            str(item.models),
            rf"{slope.value:.3f} \[{slope.low:.3f}, {slope.high:.3f}]",
            rf"{offset.value:.3f} \[{offset.low:.3f}, {offset.high:.3f}]",
        )
    return [table]


def _table(title: str, *columns: str) -> Table:
    table = Table(title=escape(title), title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in columns:
        if name in _NAMES:
            table.add_column(name, overflow="fold", min_width=8)
        else:
            table.add_column(name, justify="right", no_wrap=True)
    return table
