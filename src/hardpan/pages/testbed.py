"""What the results of a testbed say and show: sentences, tables, charts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hardpan.errors import counted
from hardpan.estimates import Estimate
from hardpan.pages import formatting
from hardpan.pages.field_views import frame_of_fields, view, view_of_fields
from hardpan.pages.sections import Aligned, Chart, Section, Table, View, differences, fields_of, percents, table_of
from hardpan.report import Provenance, versions_of
from hardpan.tables import columns_of
from hardpan.testbed.comparison import TIES, ComparedPairs, Comparison, ModelRow
from hardpan.testbed.decomposition import Decomposition
from hardpan.testbed.explanations import Explanations
from hardpan.testbed.humans import Humans
from hardpan.testbed.line import AccuracyLine
from hardpan.testbed.subset_accuracies import Breakdown, ClassBalance, Duplicates, Hardest

BAND_POINTS = 60
MOST_ROWS = 80
MOST_PAIRS = 20  # in a chart
_LONGEST_NAME = 32  # of a model in a terminal
_XY = {axis: (axis, f"{axis}_low", f"{axis}_high") for axis in "xy"}


@view.register
def _comparison_view(result: Comparison) -> View:
    full, rows = comparison_section(result), result.rows
    models = table_of(
        f"Accuracies in percent; gap in points with its {formatting.level(result.config.confidence)} interval",
        rows,
        {
            "#": "original_rank",
            "model": lambda row: _short(row.model),
            "original": lambda row: formatting.fixed(100 * row.original.value, 1),
            "new": lambda row: formatting.fixed(100 * row.new.value, 1),
            "gap": differences("gap"),
            "new #": "new_rank",
        },
    )
    terminal = Section(
        "Models", _line_sentences(result), tables=(models, *_group_tables(result)), warnings=result.notes
    )
    tested = () if result.pairs is None else (pairs_section(result.pairs),)
    return View(
        f"{len(rows):,} models on two test sets",
        full.sentences[0],
        (dataclasses.replace(full, sentences=full.sentences[3:]), *tested),
        full.sentences[1:3],
        provenance=comparison_provenance(result),
        columns=columns_of(
            rows,
            *("model", "original.value", "new.value", "gap.value", "gap.low", "gap.high", "original_rank"),
            *("new_rank", "new_rank_low", "new_rank_high", "residual.value", "in_fit"),
        ),
        terminal=(terminal, *tested),
    )


@view.register
def _explanations_view(result: Explanations) -> View:
    """The pages of the explanations one below the other: each headline, then the sections under it."""
    views = {name: item.view() for name, item in result.results.items()}
    sections = []
    for name, made in views.items():
        first, *rest = made.sections or (Section(made.title),)
        sentences = (made.headline, *first.sentences)
        sections += [dataclasses.replace(first, title=made.title, sentences=sentences, key=name), *rest]
    skipped = [f"{name}: {reason}" for name, reason in result.skipped.items()]
    if skipped:
        sections.append(Section("Not computed", tuple(skipped)))
    count = counted(len(views), "possible explanation")
    headline = f"{count} of the drop: {formatting.listed([made.title.lower() for made in views.values()])}."
    if len(views) == 1:
        headline = next(iter(views.values())).headline
    columns = {"explanation": list(views), "finding": [made.headline for made in views.values()]}
    return View("What could explain the drop", headline, tuple(sections), columns=columns)


def pairs_section(result: ComparedPairs) -> Section:
    """How many pairs of models differ, the best model against the others, and all pairs."""
    best = [row for row in result.rows if row.first == result.rows[0].first][:MOST_PAIRS]
    listed = (f"{row.second} {formatting.signed(row.difference)}" for row in best)
    chart = Chart(
        "deviations",
        f"{best[0].first} minus each other model",
        tuple({"name": row.second, "role": "in the fit", **fields_of(row.difference)} for row in best),
        f"A dot with its interval per model: {'; '.join(listed)}.",
        {"x_title": "difference of accuracy"},
    )
    made = view_of_fields(result)
    return dataclasses.replace(made.sections[0], title="Pairs", sentences=(made.headline,), charts=(chart,))


@view.register
def _testbed_pairs_view(result: ComparedPairs) -> View:
    return dataclasses.replace(view_of_fields(result, title="Pairs"), sections=(pairs_section(result),))


@view.register
def _decomposition_view(result: Decomposition) -> View:
    slopes = [formatting.plain(fit.slope) for fit in (result.linear, result.probit)]
    sentences = [
        f"Returns: {result.returns}; one point on the original set is worth {slopes[0]} points on the new one.",
        f"The new set's spread of difficulty is {result.spread}: probit slope {slopes[1]}.",
    ]
    if result.by_date is not None:
        sentences.append(f"The gap changes by {_per_year(result.by_date)}.")
    sentences += [
        "gap = remainder + chance; the remainder is adaptivity and distribution gap together, with the sign of a "
        "drop.",
        "A constant adaptivity gap cannot be distinguished from a distribution gap by any number of models.",
    ]
    headline = (
        f"Drawing both test sets explains at most {100 * result.largest_chance:.1f} points for all models at once; "
        f"{result.beyond_chance} of {len(result.parts)} models drop beyond chance."
    )
    ordered = sorted(result.parts, key=lambda part: -part.gap)[:MOST_ROWS]
    limits = f"{formatting.level(result.confidence)} limits"
    chart = Chart(
        "deviations",
        "Drop beyond chance, limits for all models at once",
        tuple(
            {"name": row.model, "role": "in the fit", "value": row.gap}
            | {"low": row.uniform_remainder.low, "high": row.uniform_remainder.high}
            for row in ordered
        ),
        f"Drop of {len(ordered)} models with the {limits} of what drawing the two sets does not explain, for all "
        "models at once.",
        {"x_title": "drop"},
    )
    table = table_of(
        f"Parts of the gap in points, {limits}",
        result.parts,
        {
            "model": "model",
            "gap": lambda part: formatting.points(part.gap),
            "chance": differences("generalization"),
            "remainder": differences("remainder"),
            "all at once": differences("uniform_remainder"),
        },
    )
    parts = Section("Parts of the drop", tuple(sentences), charts=(chart,), folded=(table,), warnings=result.notes)
    return View("Parts of the drop", headline, (parts,), columns=frame_of_fields(result))


@view.register
def _humans_view(result: Humans) -> View:
    headline = (
        f"{result.better_on_original} people did better on the original set, {result.better_on_new} on the new "
        f"one; the mean gap is {formatting.signed(result.mean_gap)}."
    )
    words = (
        f"A point per person with intervals; {result.better_on_original} are below the identity line, "
        f"{result.better_on_new} above it."
    )
    marks = tuple(
        {"name": row.name, "role": "in the fit"}
        | fields_of(row.original, *_XY["x"])
        | fields_of(row.new, *_XY["y"])
        for row in result.rows
    )
    options = {"x_title": "accuracy on the original set", "y_title": "accuracy on the new set"}
    chart = Chart("scatter", "Accuracy of each person on both sets", marks, words, options)
    made = view_of_fields(result, headline, title="People on both test sets", warnings=result.notes)
    first, *rest = made.sections
    return dataclasses.replace(made, sections=(dataclasses.replace(first, charts=(chart,)), *rest))


@view.register
def _hardest_view(result: Hardest) -> View:
    headline = (
        f"The hardest {100 * result.fraction:g} % are {len(result.original):,} examples of the original set and "
        f"{len(result.new):,} of the new one."
    )
    columns = {
        "set": ["original"] * len(result.original) + ["new"] * len(result.new),
        "row": [*result.original.tolist(), *result.new.tolist()],
    }
    made = view_of_fields(result, headline, title="Hardest examples")
    return dataclasses.replace(made, columns=columns)


@view.register
def _testbed_duplicates_view(result: Duplicates) -> View:
    most = max(row.explained for row in result.rows)
    headline = (
        f"{result.duplicates:,} of {result.examples:,} examples are near-duplicates of training data; they explain "
        f"at most {100 * most:.1f} points of a model's accuracy."
    )
    return view_of_fields(result, headline, title="Near-duplicates")


@view.register
def _testbed_class_balance_view(result: ClassBalance) -> View:
    moved = max(abs(row.balanced.value - row.accuracy.value) for row in result.rows)
    headline = f"Weighting every class equally changes the accuracies by up to {100 * moved:.1f} points."
    return view_of_fields(result, headline, title="Class-balanced accuracy")


@view.register
def _testbed_breakdown_view(result: Breakdown) -> View:
    by_model: dict[str, dict[str, Estimate]] = {}
    for row in result.rows:
        by_model.setdefault(row.model, {})[row.group] = row.accuracy
    groups = list(dict.fromkeys(row.group for row in result.rows))
    cells = [formatting.aligned((values[group] for values in by_model.values()), scale=100) for group in groups]
    table = Table("Accuracies in percent", ("model", *groups), tuple(zip(by_model, *cells, strict=True)))
    means = {group: float(np.mean([values[group].value for values in by_model.values()])) for group in groups}
    best, worst = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
    headline = (
        f"By {result.by}, the mean accuracy of {len(by_model)} models is highest for {best} "
        f"({formatting.percent(means[best])}) and lowest for {worst} ({formatting.percent(means[worst])})."
    )
    sections = (Section("Models", tables=(table,)),)
    return View(f"Accuracy by {result.by}", headline, sections, columns=frame_of_fields(result))


def comparison_section(report: Comparison, *, original: str = "original", new: str = "new") -> Section:
    """What a comparison says, with its charts: accuracies and lines, gaps, ranks, residuals.

    Args:
        report: from :func:`hardpan.testbed.compare`; with its bootstrap draws, the lines have bands.
        original: what to call the original test set.
        new: what to call the new test set.
    """
    beyond = f"new accuracy beyond the {report.fit.scale} line"
    residuals = (
        (_deviations_chart(report, "residual", "Effective robustness", beyond),) if report.fit.defined else ()
    )
    return Section(
        title="Will the score hold?",
        sentences=(*comparison_headlines(report), *_line_sentences(report)),
        charts=(
            _accuracies_chart(report, original, new),
            _deviations_chart(report, "gap", "Drop by model", "drop in accuracy"),
            _ranks_chart(report, original, new),
        ),
        folded=(_models_table(report), *_group_tables(report), *residuals),
        warnings=report.notes,
    )


def comparison_provenance(report: Comparison) -> Provenance:
    """How a comparison was computed: method in words, papers, versions, and hashes of the files."""
    return Provenance(
        method=(
            "Accuracies have Clopper–Pearson intervals (fractional scores: Student's t). The gap is original minus "
            f"new accuracy. Ranks are over all models; {TIES}. Rank intervals: {report.rank_method}.",
            f"Mean gap: {_kind(report.mean_gap.confidence, report.evidence)}.",
            f"The line is fitted by least squares on the {report.fit.scale} scale; intervals: "
            f"{report.fit.slope.method}. The residual (effective robustness) is the new accuracy minus what the "
            "line predicts.",
            "A slope below 1 on the linear scale would mean diminishing returns, as adaptive overfitting gives; "
            "a probit slope below 1 means a larger spread of difficulty in the new set.",
        ),
        citations=(
            "Recht, Roelofs, Schmidt, Shankar: Do ImageNet Classifiers Generalize to ImageNet? (2019)",
            "Taori et al.: Measuring Robustness to Natural Distribution Shifts in Image Classification (2020)",
            "Mogstad, Romano, Shaikh, Wilhelm: Inference for Ranks with Applications (2024)",
        ),
        seed=report.config.seed,
        versions=versions_of("numpy"),
        hashes={f"{name}, sha256": value for name, value in report.hashes.items()},
    )


def comparison_headlines(report: Comparison) -> tuple[str, str, str]:
    """The drop, what its interval covers, and the order."""
    gap, rows = report.mean_gap, report.rows
    moved = sum(row.delta_rank != 0 for row in rows)
    verb = "lose" if gap.value >= 0 else "gain"
    drop = formatting.plain(_absolute(gap, gap.value), scale=100, unit="points")
    over_models = _absolute(report.gap_over_models, gap.value)
    return (
        f"{len(rows):,} models {verb} {drop} on average from the original to the new test set "
        f"({report.metric}; {_span([row.gap.value for row in rows])}).",
        f"{_kind(gap.confidence, report.evidence)}; for other models on these two test sets it is "
        f"{100 * over_models.low:.1f} to {formatting.in_points(over_models.high)}.",
        f"Ranks change for {moved:,} of {len(rows):,} models; Kendall's τ between the two orders is "
        f"{formatting.plain(report.kendall)}.",
    )


def _absolute(item: Estimate, sign: float) -> Estimate:
    """A drop as a positive number, or, where ``sign`` is negative, a gain as one."""
    return item if sign >= 0 else dataclasses.replace(item, value=-item.value, low=-item.high, high=-item.low)


def _kind(confidence: float, evidence: str) -> str:
    covered = f"The {formatting.level(confidence)} interval covers the sampling of both test sets"
    if evidence == "examples":
        return covered
    return f"{covered}; from counts it is an upper bound, since counts do not show which examples models share"


def _span(gaps: Sequence[float]) -> str:
    """The smallest and the largest drop, without signs: the words state the direction."""
    low, high = min(gaps), max(gaps)
    if low < 0 < high:
        return f"from a gain of {formatting.in_points(-low)} to a loss of {formatting.in_points(high)}"
    ends = sorted((abs(low), abs(high)))
    return f"each between {100 * ends[0]:.1f} and {formatting.in_points(ends[1])}"


def line_sentence(fit: AccuracyLine) -> str:
    """A line in words: slope and offset with their intervals; on the linear scale the offset in points."""
    if not fit.defined:
        return f"On the {fit.scale} scale there is no line: {'; '.join(fit.slope.notes)}."
    offset = formatting.signed(fit.offset) if fit.scale == "linear" else formatting.plain(fit.offset)
    return (
        f"On the {fit.scale} scale the new accuracy is the original one times "
        f"{formatting.plain(fit.slope)}, with an offset of {offset}; "
        f"{formatting.level(fit.slope.confidence)} intervals, {fit.n:,} models, r² = {fit.r2:.3f}."
    )


def _line_sentences(report: Comparison) -> tuple[str, ...]:
    sentences = [line_sentence(fit) for fit in (report.fit, report.other_fit)]
    if report.fit.resample == "models":
        sentences.append("The intervals of the lines are over models and take the two test sets as they are.")
    else:
        limits = "slopes are corrected for noise in the original accuracies"
        limits = "from counts they are upper bounds" if report.evidence == "counts" else limits
        sentences.append(f"The intervals of the lines cover the sampling of both test sets; {limits}.")
    if report.by_date is not None:
        sentences.append(f"With the date of publication the drop changes by {_per_year(report.by_date)}.")
    sentences.append(f"Models in the lines: {report.fit.n:,} of {len(report.rows):,}.")
    if report.excluded:
        sentences.append(f"Left out of the lines: {', '.join(report.excluded)}.")
    if report.difficulty is not None:
        mean, spread = formatting.plain(report.difficulty.mu), formatting.plain(report.difficulty.sigma)
        notes = "; ".join(report.difficulty.notes)
        sentences.append(f"Difficulty of the new set: mean {mean}, spread {spread}; {notes}.")
    return tuple(sentences)


def _accuracies_chart(report: Comparison, original: str, new: str) -> Chart:
    rows = tuple(
        {"name": row.model, "role": _role(row)} | fields_of(row.original, *_XY["x"]) | fields_of(row.new, *_XY["y"])
        for row in report.rows
    )
    by_scale = {fit.scale: fit for fit in (report.other_fit, report.fit)}
    lines = {
        axes: _band(by_scale.get(axes, report.fit), rows)
        for axes in ("linear", "probit")
        if by_scale.get(axes, report.fit).defined
    }
    return Chart(
        "scatter",
        f"Accuracy on the {new} against the {original} test set",
        rows,
        f"Scatter of {len(rows)} models with {formatting.level(report.config.confidence)} crosses, the identity as "
        f"a dashed line, and the fitted line with its band. {line_sentence(report.fit)}",
        {
            "x_title": f"accuracy on the {original} set",
            "y_title": f"accuracy on the {new} set",
            "scale": "probit" if report.fit.scale == "probit" else "linear",
            "lines": lines,
        },
    )


def _band(fit: AccuracyLine, rows: Sequence[Mapping[str, Any]]) -> tuple[dict[str, float], ...]:
    low, high = min(float(row["x_low"]) for row in rows), max(float(row["x_high"]) for row in rows)
    if fit.scale != "linear":
        low, high = max(low, 1e-5), min(high, 1.0 - 1e-5)
    x = np.linspace(low, high, BAND_POINTS)
    y = fit.predict(x)
    limits = fit.band(x) if len(fit.draws) else (y, y)
    columns = zip(x.tolist(), y.tolist(), limits[0].tolist(), limits[1].tolist(), strict=True)
    return tuple({"x": a, "y": b, "low": c, "high": d} for a, b, c, d in columns)


def _deviations_chart(report: Comparison, field: str, title: str, x_title: str) -> Chart:
    values = {row.model: getattr(row, field) for row in report.rows}
    rows = sorted(report.rows, key=lambda row: -values[row.model].value)
    half = MOST_ROWS // 2
    extremes = rows if len(rows) <= MOST_ROWS else [*rows[:half], *rows[-half:]]
    title = title if len(extremes) == len(rows) else f"{title}: the {len(extremes)} most extreme of {len(rows):,}"
    marks = tuple({"name": row.model, "role": _role(row), **fields_of(values[row.model])} for row in extremes)
    ends = (extremes[0].model, extremes[-1].model)
    first, last = (f"{name} ({formatting.points(values[name].value)})" for name in ends)
    return Chart("deviations", title, marks, f"From {first} to {last}.", {"x_title": x_title})


def _per_year(change: Estimate) -> str:
    return formatting.signed(change, unit="points per year")


def _ranks_chart(report: Comparison, original: str, new: str) -> Chart:
    rows, title = report.rows, "Ranks on the two sets"
    listed = sorted(rows, key=lambda row: -abs(row.delta_rank))[:MOST_ROWS] if len(rows) > MOST_ROWS else list(rows)
    listed.sort(key=lambda row: row.original_rank)
    title = title if len(listed) == len(rows) else f"{title}: the {len(listed)} largest changes of {len(rows):,}"
    largest = max(rows, key=lambda row: abs(row.delta_rank))
    marks = tuple({"name": row.model, "original": row.original_rank, "new": row.new_rank} for row in listed)
    words = f"One line per model from its rank on the {original} to that on the {new} set; the largest change is "
    words += f"{largest.delta_rank:+d} ({largest.model}). Ties: {TIES}."
    return Chart("slope", title, marks, words, {"left": original, "right": new})


def _models_table(report: Comparison) -> Table:
    level = formatting.level(report.config.confidence)
    return table_of(
        f"Accuracies in percent with {level} intervals; gap and residual in points; ties: {TIES}",
        report.rows,
        {
            "rank": "original_rank",
            "model": lambda row: row.model if row.in_fit else f"{row.model} (left out of the line)",
            "original": percents("original"),
            "new": percents("new"),
            "gap": differences("gap"),
            "new rank": "new_rank",
            "Δ rank": "delta_rank",
            "new rank interval": lambda row: f"{row.new_rank_low}–{row.new_rank_high}",
            "residual": lambda row: formatting.points(row.residual.value),
        },
    )


def _group_tables(report: Comparison) -> tuple[Table, ...]:
    if not report.without_group:
        return ()
    table = table_of(
        f"The {report.fit.scale} line without each group of models",
        report.without_group,
        {
            "group left out": "left_out",
            "models": "models",
            "slope": Aligned("fit.slope"),
            "offset": Aligned("fit.offset"),
            "change of the slope": lambda item: round(item.fit.slope.value - report.fit.slope.value, 3),
        },
    )
    return (table,)


def _role(row: ModelRow) -> str:
    return "in the fit" if row.in_fit else "left out"


def _short(name: str) -> str:
    half = _LONGEST_NAME // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[: half + 1]}…{name[-half + 2 :]}"
