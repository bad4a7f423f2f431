"""Where a drop comes from: what chance can explain, whether returns diminish, and what remains."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardpan import numbers
from hardpan.estimates import Estimate, Interval
from hardpan.files import record
from hardpan.stats.intervals import check_confidence, clopper_pearson
from hardpan.testbed.comparison import CompareConfig, compare
from hardpan.testbed.line import LineFit
from hardpan.testbed.reading import as_table
from hardpan.testbed.tables import Counts, Outcomes


@record
@dataclass(frozen=True, slots=True)
class GapParts:
    """The gap of one model in two parts: gap = remainder + generalization.

    Attributes:
        model: its name.
        gap: original − new accuracy, as observed.
        generalization: limits of the part due to drawing the new set, accuracy on its population − on the set.
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
@dataclass(frozen=True, slots=True)
class Decomposition:
    """What :func:`decompose` returns.

    Attributes:
        parts: one a model, in the order of the original ranks.
        largest_chance: the largest distance that sampling alone explains, for all models at once at ``confidence``.
        beyond_chance: how many models drop by more than that.
        linear: the line on the linear scale: a slope below 1 would mean diminishing returns.
        probit: the line on the probit scale: a slope below 1 means a larger spread of difficulty.
        diminishing_p: share of bootstrap draws of the linear slope at or above 1 (one-sided p for "slope below 1").
        verdict: what the linear slope says, in a sentence.
        spread: what the probit slope says, in a sentence.
        by_date: change of the gap a year, where dates are known.
        confidence: level of all limits.
        notes: how to read the parts.
    """

    parts: tuple[GapParts, ...]
    largest_chance: float
    beyond_chance: int
    linear: LineFit
    probit: LineFit
    diminishing_p: float
    verdict: str
    spread: str
    by_date: Estimate | None
    confidence: float
    notes: tuple[str, ...]


NOTES = (
    "gap = (adaptivity + distribution) + generalization, in accuracies: the signs are those of a drop, "
    "opposite to the paper's losses",
    "a constant adaptivity gap cannot be told from a distribution gap by any number of models; "
    "both are given as one remainder",
)


def decompose(
    table: Any, *, confidence: float = 0.95, config: CompareConfig | None = None, **choices: Any
) -> Decomposition:
    """Split every gap into what drawing the new set explains and the rest, and test for diminishing returns.

    The new set is independent of the models, so its sampling error is bounded by Clopper–Pearson limits: for one
    model at ``confidence``, and for all models at once with the level divided among them. What lies beyond is
    adaptivity and distribution gap together.

    Args:
        table: as for :func:`compare`.
        confidence: level of the limits.
        config: choices of the line fits; further keyword arguments replace its fields.

    Source: Recht et al., section 2.

    Example:
        >>> from hardpan.testbed import counts_table
        >>> table = counts_table(list("abcd"), [90, 80, 70, 60], 100, [85, 69, 51, 35], 100)
        >>> decompose(table, bootstrap=1000).beyond_chance
        3
    """
    level = check_confidence(confidence)
    source = as_table(table)
    chosen = replace(config or CompareConfig(), confidence=level, **choices)
    report = compare(source, replace(chosen, scale="linear"))
    counts = source.counts() if isinstance(source, Outcomes) else source
    counts = counts.for_metric(chosen.metric)
    uniform = 1.0 - (1.0 - level) / len(counts)
    parts = _parts(counts, level, uniform, [row.model for row in report.rows])
    largest = max(max(-item.uniform_generalization.low, item.uniform_generalization.high) for item in parts)
    slopes = report.fit.draws[:, 0]
    at_least_one = float(np.mean(slopes[np.isfinite(slopes)] >= 1.0))
    return Decomposition(
        parts=parts,
        largest_chance=float(largest),
        beyond_chance=sum(item.uniform_remainder.low > 0 for item in parts),
        linear=report.fit.compact(),
        probit=report.other_fit.compact(),
        diminishing_p=at_least_one,
        verdict=_verdict(report.fit),
        spread=_spread(report.other_fit),
        by_date=report.by_date,
        confidence=level,
        notes=NOTES + report.notes,
    )


def _parts(counts: Counts, level: float, uniform: float, order: list[str]) -> tuple[GapParts, ...]:
    low, high = clopper_pearson(counts.new_correct, counts.new_total, level)
    all_low, all_high = clopper_pearson(counts.new_correct, counts.new_total, uniform)
    original, new = counts.original_accuracy, counts.new_accuracy
    error = np.sqrt(new * (1.0 - new) / counts.new_total)
    place = {name: row for row, name in enumerate(counts.models)}
    parts = []
    for name in order:
        i = place[name]
        remainder = Estimate(
            float(original[i] - new[i]),
            float(error[i]),
            float(original[i] - high[i]),
            float(original[i] - low[i]),
            confidence=level,
            method="original accuracy minus Clopper–Pearson limits of the new one",
            n=int(counts.new_total[i]),
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


_UNIFORM = "Clopper–Pearson, Bonferroni over models"


def _verdict(fit: LineFit) -> str:
    slope = numbers.plain(fit.slope)
    if fit.slope.low > 1.0:
        return f"No diminishing returns: a point on the original set brings {slope} points on the new one."
    if fit.slope.high < 1.0:
        return (
            f"Diminishing returns: a point on the original set brings only {slope} points on the new one, "
            "as adaptive overfitting would; a set that spreads models less would show the same."
        )
    return f"Undecided: a point on the original set brings {slope} points on the new one, and 1 lies inside."


def _spread(fit: LineFit) -> str:
    slope = numbers.plain(fit.slope)
    if fit.slope.high < 1.0:
        return (
            f"Probit slope {slope}: the new set has the larger spread of difficulty; this is no sign of adaptivity."
        )
    if fit.slope.low > 1.0:
        return f"Probit slope {slope}: the new set has the smaller spread of difficulty."
    return f"Probit slope {slope}: no difference in the spread of difficulty is shown."
