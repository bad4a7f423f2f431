"""Where a drop comes from: chance, diminishing returns, the rest; whether cross-validation predicts it; and how it
depends on the way in which the new images were sampled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hardpan import tables
from hardpan.arguments import whole_numbers
from hardpan.errors import InputError
from hardpan.estimates import Estimate, Interval, unit
from hardpan.files import record
from hardpan.report.base import Report
from hardpan.stats.intervals import check_confidence, clopper_pearson, share
from hardpan.testbed.comparison import CompareConfig, compare, mean_gap, over_models, settings_of
from hardpan.testbed.line import LineFit
from hardpan.testbed.sets import Evidence, TwoSets, two_sets

Returns = Literal["diminishing", "not diminishing", "undecided"]
Spread = Literal["larger", "smaller", "undecided"]
_UNIFORM = "Clopper–Pearson, Bonferroni over models"
METRICS = ("top1", "top5")  # of several new test sets


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
    spread: float = field(metadata=unit("points"))
    drop: float = field(metadata=unit("points"))
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
    columns = tables.read_columns(table, text=True, required=("model", "dataset", "correct", "total"))
    counts = [_whole_cells(columns[name], name, where) for name in ("correct", "total")]
    results: dict[str, dict[str, Estimate]] = {}
    for model, dataset, correct, total in zip(columns["model"], columns["dataset"], *counts, strict=True):
        sets = results.setdefault(model, {})
        if dataset in sets:
            raise InputError(f"{where}: model {model} has two rows for {dataset!r}")
        sets[dataset] = share(correct, total, confidence)
    return CrossValidation(tuple(_validated(model, sets, where) for model, sets in results.items()), confidence)


def _validated(model: str, sets: dict[str, Estimate], where: str) -> CrossValidated:
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


def _whole_cells(cells: Sequence[str], name: str, where: str) -> list[int]:
    try:
        return list(map(int, whole_numbers(name, [float(cell.replace(",", "")) for cell in cells])))
    except ValueError as error:
        raise InputError(f"{where}: column {name!r} must hold whole numbers ({error})") from error


@record
class Strategy:
    """One new test set against the original one.

    Attributes:
        name: of the set or of its sampling strategy.
        selection_frequency: mean proportion of annotators that selected its images, if stated.
        change: mean change of accuracy by metric, new − original; the interval contains the sampling of both sets.
        over_models: the same means with intervals over models, the test sets as they are.
        models: how many models each change rests on.
    """

    name: str
    selection_frequency: float | None
    change: Mapping[str, Estimate] = field(metadata=unit("points"))
    over_models: Mapping[str, Estimate] = field(metadata=unit("points"))
    models: Mapping[str, int]


@record
class Strategies(Report):
    """What :func:`strategies` returns: sets in order, metrics, and the span of the mean changes.

    ``evidence`` by metric is "counts" where any set has counts only: the intervals are then upper bounds.
    """

    rows: tuple[Strategy, ...]
    metrics: tuple[str, ...]
    span: Mapping[str, float]
    confidence: float
    evidence: Mapping[str, Evidence]
    notes: tuple[str, ...] = ()


def strategies(
    tables: Mapping[str, Any],
    *,
    frequencies: Mapping[str, float] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    **options: Any,
) -> Strategies:
    """Mean change of accuracy on several new test sets, each against the original.

    Only models that every set has are averaged, so that the sets can be compared. Both top1 and top5 are read where
    every table has them.

    Args:
        tables: a table or a pair (as for :func:`compare`) by the name of its set.
        frequencies: mean selection frequency by the name of the set.
        confidence: level of the intervals.
        seed: of the draws of models.
        options: how to open the tables: ``original_total``, ``new_total``, ...

    Source: Recht et al., section 4 and Table 2.

    Example:
        >>> def table(new):
        ...     return {"model": ["a", "b"], "original_correct": [90, 80], "original_total": [100] * 2,
        ...             "new_correct": new, "new_total": [100] * 2}
        >>> result = strategies({"hard": table([70, 66]), "easy": table([92, 82])})
        >>> [round(row.change["top1"].value, 2) for row in result.rows]
        [-0.17, 0.02]
    """
    if not isinstance(tables, Mapping) or not tables:
        raise InputError("must have at least one new test set by name", argument="tables")
    stated = dict(frequencies or {})
    for name in stated:
        if name not in tables:
            raise InputError(f"frequencies names {name!r}, which is none of the sets {', '.join(tables)}")
        if not 0.0 <= float(stated[name]) <= 1.0:
            raise InputError(
                f": the frequency of {name} must lie in 0..1; got {stated[name]!r}", argument="frequencies"
            )
    sets: dict[str, dict[str, TwoSets]] = {}
    for metric in METRICS:
        with contextlib.suppress(InputError):
            sets[metric] = {name: two_sets(table, metric=metric, **options) for name, table in tables.items()}
    if not sets:  # another metric, or tables that cannot be read: the error says which
        parts = {name: two_sets(table, **options) for name, table in tables.items()}
        sets = {next(iter(parts.values())).metric: parts}
    shared = {metric: _shared(parts, metric) for metric, parts in sets.items()}
    rows = []
    for name in tables:
        taken = {metric: _of_models(sets[metric][name], shared[metric]) for metric in sets}
        rows.append(
            Strategy(
                name,
                float(stated[name]) if name in stated else None,
                {metric: _negated(mean_gap(pair, confidence)) for metric, pair in taken.items()},
                {metric: over_models(-pair.gaps, confidence, seed) for metric, pair in taken.items()},
                {metric: len(pair) for metric, pair in taken.items()},
            )
        )
    span = {metric: float(np.ptp([row.change[metric].value for row in rows])) for metric in sets}
    evidence: dict[str, Evidence] = {
        metric: "counts" if any(item.evidence == "counts" for item in parts.values()) else "examples"
        for metric, parts in sets.items()
    }
    return Strategies(tuple(rows), tuple(sets), span, confidence, evidence, _notes(sets, shared))


def _negated(gap: Estimate) -> Estimate:
    return replace(gap, value=-gap.value, low=-gap.high, high=-gap.low)


def _shared(parts: Mapping[str, TwoSets], metric: str) -> tuple[str, ...]:
    shared = set.intersection(*(set(item.models) for item in parts.values()))
    if len(shared) < 2:
        raise InputError(f"must share at least 2 models for {metric}; they share {len(shared)}", argument="tables")
    return tuple(sorted(shared))


def _of_models(sets: TwoSets, models: tuple[str, ...]) -> TwoSets:
    return sets.take(np.array([sets.models.index(name) for name in models]))


def _notes(sets: Mapping[str, Mapping[str, TwoSets]], shared: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    notes = [note for parts in sets.values() for item in parts.values() for note in item.notes]
    for metric, models in shared.items():
        most = max(len(item) for item in sets[metric].values())
        if most > len(models):
            notes.append(
                f"{metric}: {most - len(models)} of {most} models are left out, as not every set has them."
            )
    return tuple(dict.fromkeys(notes))
