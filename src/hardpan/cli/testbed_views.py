"""What ``hardpan testbed`` prints for a person."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from hardpan import numbers, testbed
from hardpan.testbed.shown import headline, line_sentence


def comparison(report: testbed.Comparison, page: Path | None) -> RenderableType:
    """A table as the paper's Table 1, the lines, and who is in them."""
    level = f"{100 * report.config.confidence:g} %"
    title = f"{report.metric}: accuracies in percent and new rank with {level} intervals; gap, residual in points"
    table = _table(title, "#", "model", "original", "new", "gap", "new rank", "Δ", "resid.")
    accuracies = [_percents(row.original for row in report.rows), _percents(row.new for row in report.rows)]
    for row, original, new in zip(report.rows, *accuracies, strict=True):
        table.add_row(
            str(row.original_rank),
            escape(row.model) + ("" if row.in_fit else " *"),
            original,
            new,
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
        mean, spread = numbers.plain(result.difficulty.mu), numbers.plain(result.difficulty.sigma)
        notes = "; ".join(result.difficulty.notes)
        lines.append(Text(f"Difficulty of the new set: mean {mean}, spread {spread}; {notes}."))
    return Group(*lines, *(Text(note, style="yellow") for note in result.notes))


def paired(result: testbed.Pairs) -> RenderableType:
    """A row a pair."""
    table = _table(
        f"{result.metric} on the {result.test_set} set; difference in points; examples that only one gets right",
        *("first", "second", "difference", "only 1st", "only 2nd", "p", "p (Holm)"),
    )
    for row, difference in zip(result.rows, _points(row.difference for row in result.rows), strict=True):
        table.add_row(
            escape(row.first),
            escape(row.second),
            difference,
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
    changes = [_points(row.change[metric] for row in result.rows) for metric in result.metrics]
    for row, *cells in zip(result.rows, *changes, strict=True):
        frequency = "–" if row.selection_frequency is None else f"{row.selection_frequency:.2f}"
        table.add_row(escape(row.name), frequency, *cells)
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
    columns = (
        [escape(part.model) for part in result.parts],
        [f"{100 * part.gap:+z.1f}" for part in result.parts],
        _points(part.generalization for part in result.parts),
        _points(part.remainder for part in result.parts),
        _points(part.uniform_remainder for part in result.parts),
    )
    for cells in zip(*columns, strict=True):
        table.add_row(*cells)
    sentences = [
        f"Chance explains at most {100 * result.largest_chance:.1f} points for all models at once; "
        f"{result.beyond_chance} of {len(result.parts)} drop by more.",
        result.verdict,
        result.spread,
    ]
    if result.by_date is not None:
        sentences.append(f"The gap changes by {numbers.signed(result.by_date, unit='points a year')}.")
    return Group(table, *map(Text, sentences), *(Text(note, style="dim") for note in result.notes))


def people(result: testbed.Humans) -> RenderableType:
    """The paper's Table 3."""
    table = _table("Accuracy of people in percent", "participant", "original", "new", "gap")
    accuracies = [_percents(row.original for row in result.rows), _percents(row.new for row in result.rows)]
    for row, original, new in zip(result.rows, *accuracies, strict=True):
        table.add_row(escape(row.name), original, new, f"{100 * row.gap:+z.1f}")
    better = f"{result.better_on_original} did better on the original set, {result.better_on_new} on the new one"
    return Group(table, Text(f"{better}; the average gap is {numbers.signed(result.mean_gap)}."))


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
    accuracies = [_percents(row.original for row in result.rows), _percents(row.new for row in result.rows)]
    for row, original, new in zip(result.rows, *accuracies, strict=True):
        values = [item.value for item in row.splits]
        splits = f"{100 * min(values):.1f} to {100 * max(values):.1f} ({len(values)})"
        drop = f"{100 * row.drop:z.1f}"
        table.add_row(escape(row.model), original, splits, new, drop)
    foreseen = sum(row.foreseen for row in result.rows)
    return Group(
        table, Text(f"Cross-validation foresees the new accuracy of {foreseen} of {len(result.rows)} models.")
    )


_NAMES = ("model", "first", "second", "test set", "participant", "group", "set")


_percents = partial(numbers.aligned, scale=100)
_points = partial(numbers.aligned, scale=100, sign="+")


def _left_out(excluded: tuple[str, ...]) -> str:
    return f"; left out (*): {', '.join(excluded)}" if excluded else ""


def _without_groups(fits: tuple[testbed.GroupFit, ...]) -> list[RenderableType]:
    if not fits:
        return []
    table = _table("The line without each group", "group", "models", "slope", "offset")
    slopes, offsets = numbers.aligned(i.fit.slope for i in fits), numbers.aligned(i.fit.offset for i in fits)
    for item, slope, offset in zip(fits, slopes, offsets, strict=True):
        table.add_row(escape(item.left_out), str(item.models), slope, offset)
    return [table]


def _table(title: str, *columns: str) -> Table:
    table = Table(title=escape(title), title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in columns:
        if name in _NAMES:
            table.add_column(name, overflow="fold", min_width=8)
        else:
            table.add_column(name, justify="right", no_wrap=True)
    return table
