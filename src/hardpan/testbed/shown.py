"""A comparison as a part of a report: sentences, pictures and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardpan import numbers
from hardpan.estimates import Estimate
from hardpan.files import file_hash, versions_of
from hardpan.report.sections import Chart, Provenance, Section, Table
from hardpan.testbed.chosen import place_and_manifest
from hardpan.testbed.comparison import Comparison
from hardpan.testbed.line import LineFit
from hardpan.testbed.rows import ModelRow

BAND_POINTS = 60
_TAKEN_AS_GIVEN = ", which takes the examples of the two test sets as they are"
MOST_ROWS = 80


def section(report: Comparison, *, original: str = "original", new: str = "new") -> Section:
    """What a comparison says, with its pictures: accuracies and lines, gaps, ranks, residuals.

    Args:
        report: from :func:`compare`; with its bootstrap draws, the lines have bands.
        original: what to call the original test set.
        new: what to call the new test set.
    """
    return Section(
        title="Will the score hold?",
        sentences=(*headline(report), *_line_sentences(report)),
        charts=(
            _scatter(report, original, new),
            *_dates(report),
            _deviations(report, "gap", "Drop by model", "drop, original minus new accuracy"),
            _slope(report, original, new),
            _deviations(
                report, "residual", "Effective robustness", f"new accuracy beyond the {report.fit.scale} line"
            ),
        ),
        tables=tuple(_tables(report)),
        warnings=report.notes,
    )


def provenance(report: Comparison, sources: Sequence[Path], command: str = "") -> Provenance:
    """How a comparison was made: method in words, papers, versions, and hashes of the files it read."""
    hashes: dict[str, str] = {}
    for given in sources:
        source, manifest = place_and_manifest(given)
        hashes |= {f"{Path(manifest).name}, sha256": file_hash(Path(manifest))} if manifest else {}
        files = [source] if source.is_file() else sorted(item for item in source.iterdir() if item.is_file())
        hashes |= {f"{item.name}, sha256": file_hash(item) for item in files}
    return Provenance(
        method=(
            "Accuracies have Clopper–Pearson intervals. The gap is original minus new accuracy. Ranks are over all "
            f"models; {report.ties}. Rank intervals: {report.rank_method}.",
            f"The line is fitted by least squares on the {report.fit.scale} scale; its intervals are from a "
            f"{_resampling(report)}. "
            "The residual (effective robustness) is the new accuracy minus what the line predicts.",
            "A slope below 1 on the linear scale would mean diminishing returns, as adaptive overfitting gives; "
            "a probit slope below 1 means a larger spread of difficulty in the new set.",
        ),
        citations=(
            "Recht, Roelofs, Schmidt, Shankar: Do ImageNet Classifiers Generalize to ImageNet? (2019)",
            "Taori et al.: Measuring Robustness to Natural Distribution Shifts in Image Classification (2020)",
            "Mogstad, Romano, Shaikh, Wilhelm: Inference for Ranks with Applications (2024)",
        ),
        command=command,
        seed=report.config.seed,
        versions=versions_of("numpy"),
        hashes=hashes,
    )


def headline(report: Comparison) -> tuple[str, str]:
    """The drop and the order, in two sentences."""
    gap, rows = report.mean_gap, report.rows
    moved = sum(row.delta_rank != 0 for row in rows)
    verb = "lose" if gap.value >= 0 else "gain"
    return (
        f"{len(rows)} models {verb} {_points(abs(gap.value))} on average from the original to the new test set "
        f"({report.metric}; {_span([row.gap.value for row in rows])}).",
        f"Ranks change for {moved} of {len(rows)} models; Kendall's τ between the two orders is "
        f"{numbers.plain(report.kendall)}.",
    )


def _span(gaps: Sequence[float]) -> str:
    """The smallest and the largest drop, without signs: the words say which way."""
    low, high = min(gaps), max(gaps)
    if low < 0 < high:
        return f"from a gain of {_points(-low)} to a loss of {_points(high)}"
    ends = sorted((abs(low), abs(high)))
    return f"each between {100 * ends[0]:.1f} and {_points(ends[1])}"


def line_sentence(fit: LineFit) -> str:
    """A line in words: slope and offset with their intervals; on the linear scale the offset in points."""
    return (
        f"On the {fit.scale} scale the new accuracy is the original one times {numbers.plain(fit.slope)}, with an "
        f"offset of {_offset(fit)}; {100 * fit.slope.confidence:g} % intervals, {fit.n} models, r² = {fit.r2:.3f}."
    )


def _line_sentences(report: Comparison) -> tuple[str, ...]:
    sentences = [line_sentence(fit) for fit in (report.fit, report.other_fit)]
    how = f"The intervals are from a {_resampling(report)}"
    sentences.append(f"{how}{_TAKEN_AS_GIVEN if report.fit.resample == 'models' else ''}.")
    if report.by_date is not None:
        sentences.append(f"With the date of publication the drop changes by {_change(report.by_date)}.")
    if report.excluded:
        sentences.append(f"Left out of the lines: {', '.join(report.excluded)}.")
    return tuple(sentences)


def _resampling(report: Comparison) -> str:
    return report.fit.slope.method.removeprefix("least squares, ")


def _scatter(report: Comparison, original: str, new: str) -> Chart:
    rows = tuple(
        {
            "name": row.model,
            "x": row.original.value,
            "x_low": row.original.low,
            "x_high": row.original.high,
            "y": row.new.value,
            "y_low": row.new.low,
            "y_high": row.new.high,
            "role": _role(row),
        }
        for row in report.rows
    )
    by_scale = {fit.scale: fit for fit in (report.other_fit, report.fit)}
    lines = {axes: _band(by_scale.get(axes, report.fit), rows) for axes in ("linear", "probit")}
    return Chart(
        "scatter",
        f"Accuracy on the {new} against the {original} test set",
        rows,
        f"Scatter of {len(rows)} models with {100 * report.config.confidence:g} % crosses, the identity as a "
        f"dashed line, and the fitted line with its band. {line_sentence(report.fit)}",
        {
            "x_title": f"accuracy on the {original} set",
            "y_title": f"accuracy on the {new} set",
            "scale": "probit" if report.fit.scale == "probit" else "linear",
            "lines": lines,
        },
    )


def _band(fit: LineFit, rows: Sequence[Mapping[str, Any]]) -> tuple[dict[str, float], ...]:
    low, high = min(float(row["x_low"]) for row in rows), max(float(row["x_high"]) for row in rows)
    if fit.scale != "linear":
        low, high = max(low, 1e-5), min(high, 1.0 - 1e-5)
    x = np.linspace(low, high, BAND_POINTS)
    y = fit.predict(x)
    limits = fit.band(x) if len(fit.draws) else (y, y)
    columns = zip(x.tolist(), y.tolist(), limits[0].tolist(), limits[1].tolist(), strict=True)
    return tuple({"x": a, "y": b, "low": c, "high": d} for a, b, c, d in columns)


def _deviations(report: Comparison, field: str, title: str, x_title: str) -> Chart:
    rows = sorted(report.rows, key=lambda row: -_value(row, field).value)
    shown = _extremes(rows)
    title = title if len(shown) == len(rows) else f"{title}: the {len(shown)} most extreme of {len(rows)}"
    marks = tuple(
        {
            "name": row.model,
            "value": _value(row, field).value,
            "low": _value(row, field).low,
            "high": _value(row, field).high,
            "role": _role(row),
        }
        for row in shown
    )
    first, last = shown[0], shown[-1]
    words = (
        f"From {first.model} ({_signed(_value(first, field).value)}) "
        f"to {last.model} ({_signed(_value(last, field).value)})."
    )
    return Chart("deviations", title, marks, words, {"x_title": x_title})


def _dates(report: Comparison) -> tuple[Chart, ...]:
    dated = [(row.date, row) for row in report.rows if row.date is not None]
    if report.by_date is None:
        return ()
    marks = tuple(
        {
            "name": row.model,
            "date": date,
            "value": row.gap.value,
            "low": row.gap.low,
            "high": row.gap.high,
            "role": _role(row),
        }
        for date, row in dated
    )
    years = np.array([date for date, _ in dated])
    centre, level = float(years.mean()), float(np.mean([row.gap.value for _, row in dated]))
    ends = (float(years.min()), float(years.max()))
    line = tuple({"date": end, "value": level + report.by_date.value * (end - centre)} for end in ends)
    words = f"Drop against year of publication for {len(dated)} models; it changes by {_change(report.by_date)}."
    options = {"y_title": "drop, original minus new accuracy", "line": line}
    return (Chart("dates", "Drop by year of publication", marks, words, options),)


def _change(change: Estimate) -> str:
    return numbers.signed(change, unit="points a year")


def _slope(report: Comparison, original: str, new: str) -> Chart:
    rows = report.rows
    shown = sorted(rows, key=lambda row: -abs(row.delta_rank))[:MOST_ROWS] if len(rows) > MOST_ROWS else list(rows)
    shown.sort(key=lambda row: row.original_rank)
    title = "Ranks on the two sets"
    title = title if len(shown) == len(rows) else f"{title}: the {len(shown)} largest changes of {len(rows)}"
    largest = max(rows, key=lambda row: abs(row.delta_rank))
    marks = tuple({"name": row.model, "original": row.original_rank, "new": row.new_rank} for row in shown)
    words = f"A line a model from its rank on the {original} to that on the {new} set; the largest change is "
    words += f"{largest.delta_rank:+d} ({largest.model}). Ties: {report.ties}."
    return Chart("slope", title, marks, words, {"left": original, "right": new})


def _extremes(rows: list[ModelRow]) -> list[ModelRow]:
    half = MOST_ROWS // 2
    return rows if len(rows) <= MOST_ROWS else [*rows[:half], *rows[-half:]]


def _tables(report: Comparison) -> list[Table]:
    level = f"{100 * report.config.confidence:g} %"
    columns = ("rank", "model", "original", "new", "gap", "new rank", "Δ rank", "new rank interval", "residual")
    accuracies = [
        numbers.aligned(items, scale=100)
        for items in ([row.original for row in report.rows], [row.new for row in report.rows])
    ]
    rows = tuple(
        (
            row.original_rank,
            row.model if row.in_fit else f"{row.model} (left out of the line)",
            original,
            new,
            round(100 * row.gap.value, 1),
            row.new_rank,
            row.delta_rank,
            f"{row.new_rank_low}–{row.new_rank_high}",
            round(100 * row.residual.value, 1),
        )
        for row, original, new in zip(report.rows, *accuracies, strict=True)
    )
    title = f"Accuracies in percent with {level} intervals; gap and residual in points; ties: {report.ties}"
    tables = [_summary(report), Table(title, columns, rows)]
    if report.without_group:
        fits = tuple(
            (
                item.left_out,
                item.models,
                numbers.plain(item.fit.slope),
                _offset(item.fit),
                round(item.fit.slope.value - report.fit.slope.value, 3),
            )
            for item in report.without_group
        )
        names = ("group left out", "models", "slope", "offset", "change of the slope")
        tables.append(Table(f"The {report.fit.scale} line without each group of models", names, fits))
    return tables


def _summary(report: Comparison) -> Table:
    gap = report.mean_gap
    rows = [
        ("average drop", numbers.signed(gap), gap.method),
        ("Kendall's τ of the two orders", numbers.plain(report.kendall), report.kendall.method),
    ]
    for fit in (report.fit, report.other_fit):
        rows.append((f"slope, {fit.scale} scale", numbers.plain(fit.slope), fit.slope.method))
        rows.append((f"offset, {fit.scale} scale", _offset(fit), fit.offset.method))
    return Table("The numbers", ("what", f"value and {100 * gap.confidence:g} % interval", "how"), tuple(rows))


def _offset(fit: LineFit) -> str:
    return numbers.signed(fit.offset) if fit.scale == "linear" else numbers.plain(fit.offset)


def _value(row: ModelRow, field: str) -> Estimate:
    return row.gap if field == "gap" else row.residual


def _role(row: ModelRow) -> str:
    return "in the fit" if row.in_fit else "left out"


def _points(value: float) -> str:
    return f"{100 * value:.1f} points"


def _signed(value: float) -> str:
    return f"{100 * value:+z.1f}"
