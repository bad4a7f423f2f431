"""Where a drop comes from: chance, diminishing returns, the rest; and whether cross-validation predicts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hardpan import tables
from hardpan.errors import InputError
from hardpan.estimates import Estimate, Interval
from hardpan.files import record
from hardpan.report.base import Report
from hardpan.stats.intervals import check_confidence, clopper_pearson, share
from hardpan.testbed.comparison import CompareConfig, compare, settings_of
from hardpan.testbed.line import LineFit
from hardpan.testbed.sets import TwoSets, two_sets

Returns = Literal["diminishing", "not diminishing", "undecided"]
Spread = Literal["larger", "smaller", "undecided"]
_UNIFORM = "Clopper–Pearson, Bonferroni over models"


@record
class GapParts:
    """The gap of one model in two parts: gap = remainder + generalization.

    Attributes:
        model: its name.
        gap: original − new accuracy, as observed.
        generalization: limits of what drawing the new set explains, accuracy on its population − on the set.
        remainder: original accuracy − accuracy on the new population, adaptivity and distribution gap together.
        uniform_generalization: limits that hold for all models at once.
        uniform_remainder: likewise for the remainder.
    """

    model: str
    gap: float
    generalization: Interval
    remainder: Estimate
    uniform_generalization: Interval
    uniform_remainder: Interval


@record
class Decomposition(Report):
    """What :func:`decompose` returns.

    Attributes:
        parts: one per model, in the order of the original ranks.
        largest_chance: the largest distance that sampling alone explains, for all models at once at ``confidence``.
        beyond_chance: how many models drop by more than that.
        linear: the line on the linear scale: a slope below 1 would mean diminishing returns.
        probit: the line on the probit scale: a slope below 1 means a larger spread of difficulty.
        diminishing_p: proportion of draws of the linear slope at or above 1 (one-sided p for "slope below 1").
        returns: whether the linear slope is "diminishing" (below 1), "not diminishing" (above 1) or "undecided".
        spread: whether the new set's spread of difficulty is "larger", "smaller" or "undecided", by the probit
            slope.
        by_date: change of the gap per year, where dates are known.
        confidence: level of all limits.
        notes: what a reader has to know.
    """

    parts: tuple[GapParts, ...]
    largest_chance: float
    beyond_chance: int
    linear: LineFit
    probit: LineFit
    diminishing_p: float
    returns: Returns
    spread: Spread
    by_date: Estimate | None
    confidence: float
    notes: tuple[str, ...]


def decompose(
    original: Any,
    new: Any = None,
    *,
    confidence: float = 0.95,
    config: CompareConfig | None = None,
    **choices: Any,
) -> Decomposition:
    """Split every gap into what drawing the new set explains and the rest, and test for diminishing returns.

    The new set is independent of the models, so its sampling error is bounded by Clopper–Pearson limits: for one
    model at ``confidence``, and for all models at once with the level divided among them. What lies beyond is
    adaptivity and distribution gap together.

    Args:
        original: as for :func:`compare`; scores must be 0 or 1.
        new: likewise.
        confidence: level of the limits.
        config: settings of the lines; further keyword arguments replace its fields.

    Source: Recht et al., section 2.

    Example:
        >>> table = {"model": list("abcd"), "original_correct": [90, 80, 70, 60], "original_total": [100] * 4,
        ...          "new_correct": [85, 69, 51, 35], "new_total": [100] * 4}
        >>> decompose(table, bootstrap=1000).beyond_chance
        3
    """
    level = check_confidence(confidence)
    settings = replace(settings_of(config, choices), confidence=level)
    sets = two_sets(original, new, metric=settings.metric)
    if not sets.new.binary:
        raise InputError("decompose needs scores of 0 and 1; got fractions")
    report = compare(sets, config=replace(settings, scale="linear"))
    parts = gap_parts(sets, level, [row.model for row in report.rows])
    largest = max(max(-item.uniform_generalization.low, item.uniform_generalization.high) for item in parts)
    slopes = report.fit.draws[:, 0]
    slopes = slopes[np.isfinite(slopes)]
    at_least_one = float(np.mean(slopes >= 1.0)) if len(slopes) else float("nan")
    linear, probit = report.fit.slope, report.other_fit.slope
    returns: Returns = "diminishing" if linear.high < 1 else "not diminishing" if linear.low > 1 else "undecided"
    spread: Spread = "larger" if probit.high < 1 else "smaller" if probit.low > 1 else "undecided"
    return Decomposition(
        parts=parts,
        largest_chance=float(largest),
        beyond_chance=sum(item.uniform_remainder.low > 0 for item in parts),
        linear=report.fit.compact(),
        probit=report.other_fit.compact(),
        diminishing_p=at_least_one,
        returns=returns,
        spread=spread,
        by_date=report.by_date,
        confidence=level,
        notes=report.notes,
    )


def gap_parts(sets: TwoSets, level: float = 0.95, order: Sequence[str] | None = None) -> tuple[GapParts, ...]:
    """The gap of every model in two parts, for one model and, with Bonferroni's correction, for all at once."""
    uniform = 1.0 - (1.0 - level) / len(sets)
    low, high = clopper_pearson(sets.new.correct, sets.new.total, level)
    all_low, all_high = clopper_pearson(sets.new.correct, sets.new.total, uniform)
    original, new = sets.original.accuracy, sets.new.accuracy
    error = np.sqrt(new * (1.0 - new) / sets.new.total)
    rows = {name: row for row, name in enumerate(sets.models)}
    parts = []
    for name in sets.models if order is None else order:
        i = rows[name]
        remainder = Estimate(
            float(original[i] - new[i]),
            float(error[i]),
            float(original[i] - high[i]),
            float(original[i] - low[i]),
            confidence=level,
            method="original accuracy minus Clopper–Pearson limits of the new one",
            n=int(sets.new.total[i]),
        )
        parts.append(
            GapParts(
                name,
                float(original[i] - new[i]),
                Interval(float(low[i] - new[i]), float(high[i] - new[i]), level, "Clopper–Pearson"),
                remainder,
                Interval(float(all_low[i] - new[i]), float(all_high[i] - new[i]), level, _UNIFORM),
                Interval(float(original[i] - all_high[i]), float(original[i] - all_low[i]), level, _UNIFORM),
            )
        )
    return tuple(parts)


@record
class CrossValidated:
    """One model: accuracy on the original set, on each split, and on the new set.

    Attributes:
        model: its name.
        original: accuracy on the original test set.
        splits: accuracy on each cross-validation split, in the order given.
        new: accuracy on the new test set.
        spread: largest − smallest accuracy over the splits.
        drop: mean accuracy over the splits − accuracy on the new set.
        predicted: whether the new accuracy lies within the range of the splits, widened by its own interval.
    """

    model: str
    original: Estimate
    splits: tuple[Estimate, ...]
    new: Estimate
    spread: float
    drop: float
    predicted: bool


@record
class CrossValidation(Report):
    """What :func:`cross_validation` returns: one row per model, in the order of the table."""

    rows: tuple[CrossValidated, ...]
    confidence: float


def cross_validation(table: Any, confidence: float = 0.95) -> CrossValidation:
    """Accuracies on cross-validation splits beside the original and the new test set.

    Args:
        table: rows, columns or a file with ``model, dataset, correct, total``; dataset is "original", "new", or
            anything else for a split.
        confidence: level of the Clopper–Pearson intervals.

    Source: Recht et al., appendix B.2.7 and Table 4.

    Example:
        >>> names = ["original", "split 1", "split 2", "new"]
        >>> rows = [{"model": "a", "dataset": d, "correct": c, "total": 1000}
        ...         for d, c in zip(names, [936, 939, 938, 849])]
        >>> result = cross_validation(rows).rows[0]
        >>> round(result.drop, 4), result.predicted
        (0.0895, False)
    """
    where = str(table) if isinstance(table, (str, Path)) else "table"
    columns = tables.read_columns(table, required=("model", "dataset", "correct", "total"))
    results: dict[str, dict[str, Estimate]] = {}
    for i, (model, dataset) in enumerate(zip(columns["model"], columns["dataset"], strict=True)):
        sets = results.setdefault(str(model), {})
        if str(dataset) in sets:
            raise InputError(f"{where}: model {model} has two rows for {dataset!r}")
        sets[str(dataset)] = share(
            _whole(columns, "correct", i, where), _whole(columns, "total", i, where), confidence
        )
    return CrossValidation(tuple(_row(model, sets, where) for model, sets in results.items()), confidence)


def _row(model: str, sets: dict[str, Estimate], where: str) -> CrossValidated:
    for name in ("original", "new"):
        if name not in sets:
            raise InputError(f"{where}: model {model} has no row for the {name} set")
    splits = tuple(item for name, item in sets.items() if name not in ("original", "new"))
    if len(splits) < 2:
        raise InputError(f"{where}: model {model} needs at least 2 cross-validation splits; got {len(splits)}")
    values = [item.value for item in splits]
    new = sets["new"]
    return CrossValidated(
        model,
        sets["original"],
        splits,
        new,
        max(values) - min(values),
        float(np.mean(values)) - new.value,
        new.low <= max(values) and new.high >= min(values),
    )


def _whole(columns: dict[str, list[Any]], name: str, row: int, where: str) -> int:
    try:
        value = float(str(columns[name][row]).replace(",", ""))
    except ValueError:
        value = float("nan")
    if not value >= 0 or value != int(value):
        raise InputError(
            f"{where}: column {name!r} must hold whole numbers; got {columns[name][row]!r} in row {row + 1}"
        )
    return int(value)
