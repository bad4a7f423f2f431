"""Where a drop comes from: chance, diminishing returns, the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from hardpan.arguments import check_confidence
from hardpan.errors import InputError
from hardpan.estimates import Estimate, Interval
from hardpan.files import record
from hardpan.report import Report
from hardpan.stats.intervals import share
from hardpan.testbed.comparison import CompareConfig, compare, gap_estimate, settings_of
from hardpan.testbed.line import AccuracyLine
from hardpan.testbed.sets import TwoSets, two_sets

Returns = Literal["diminishing", "not diminishing", "undecided"]
Spread = Literal["larger", "smaller", "undecided"]
_LIMITS = ("Clopper–Pearson", "Clopper–Pearson, Bonferroni over models")


@record
class GapParts:
    """The gap of one model in two parts: gap = remainder + generalization.

    Attributes:
        model: its name.
        gap: original − new accuracy, as observed.
        generalization: limits of what drawing the two sets explains, gap − difference of the populations.
        remainder: original − new accuracy on the populations, adaptivity and distribution gap together.
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
        largest_chance: the largest gap that drawing both sets explains, for all models at once at ``confidence``.
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
    linear: AccuracyLine
    probit: AccuracyLine
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
    """Split every gap into what drawing the two sets explains and the rest, and test for diminishing returns.

    Limits of the difference of two independent samples, from their Clopper–Pearson limits: for one model at
    ``confidence``, and for all models at once with the level divided among them. What lies beyond is adaptivity and
    distribution gap together.

    Args:
        original: as for :func:`compare`; scores must be 0 or 1.
        new: likewise.
        confidence: level of the limits.
        config: settings of the lines; further keyword arguments replace its fields.

    Source: Recht et al., section 2, without the original set's sampling; Newcombe, "Interval estimation for the
    difference between independent proportions" (1998).

    Example:
        >>> table = {"model": list("abcd"), "original_correct": [90, 80, 70, 60], "original_total": [100] * 4,
        ...          "new_correct": [85, 69, 51, 35], "new_total": [100] * 4}
        >>> decompose(table, bootstrap=1000).beyond_chance
        2
    """
    level = check_confidence(confidence)
    settings = replace(settings_of(config, choices), confidence=level)
    sets = two_sets(original, new, metric=settings.metric)
    if not (sets.original.binary and sets.new.binary):
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
        linear=report.fit,
        probit=report.other_fit,
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
    rows = {name: row for row, name in enumerate(sets.models)}
    parts = []
    for name in sets.models if order is None else order:
        gap, every = (_population_gap(sets, rows[name], confidence) for confidence in (level, uniform))
        limits = Interval(gap.value - gap.high, gap.value - gap.low, level, _LIMITS[0])
        of_all = Interval(gap.value - every.high, gap.value - every.low, level, _LIMITS[1])
        remainder = Interval(every.low, every.high, level, _LIMITS[1])
        parts.append(GapParts(name, gap.value, limits, gap, of_all, remainder))
    return tuple(parts)


def _population_gap(sets: TwoSets, row: int, level: float) -> Estimate:
    """Original − new accuracy of one model, with the sampling of both sets."""
    sides = (
        share(round(float(side.correct[row])), int(side.total[row]), level) for side in (sets.original, sets.new)
    )
    return gap_estimate(*sides)
