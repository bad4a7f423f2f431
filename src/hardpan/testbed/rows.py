"""One row a model: accuracies, gap, ranks with their intervals, and the distance to the line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.stats.intervals import clopper_pearson, normal
from hardpan.stats.ranking import rank_intervals, ranks
from hardpan.stats.resampling import Floats
from hardpan.testbed.line import LineFit
from hardpan.testbed.redraw import Sampling
from hardpan.testbed.tables import Booleans, Counts, Integers


@record
@dataclass(frozen=True, slots=True)
class ModelRow:
    """One model on both sets.

    Attributes:
        model: its name.
        group: its family, if known.
        original: accuracy on the original set with its Clopper–Pearson interval.
        new: likewise on the new set.
        gap: original − new accuracy, with an interval for two independent samples.
        original_rank: place among all models, 1 the best.
        new_rank: likewise on the new set.
        delta_rank: original rank − new rank; negative for a fall.
        original_rank_low: lower end of the interval of the true rank on the original set.
        original_rank_high: its upper end.
        new_rank_low: lower end of the interval of the true rank on the new set.
        new_rank_high: its upper end.
        residual: effective robustness, new accuracy minus what the line predicts.
        in_fit: whether the model entered the line.
        date: publication date as a decimal year, if known.
        parameters: number of parameters, if known.
    """

    model: str
    group: str
    original: Estimate
    new: Estimate
    gap: Estimate
    original_rank: int
    new_rank: int
    delta_rank: int
    original_rank_low: int
    original_rank_high: int
    new_rank_low: int
    new_rank_high: int
    residual: Estimate
    in_fit: bool
    date: float | None = None
    parameters: float | None = None


def model_rows(
    counts: Counts, sampling: Sampling, in_fit: Booleans, fit: LineFit, level: float, seed: int
) -> tuple[tuple[ModelRow, ...], str]:
    """A row a model in the order of the original ranks, and how the rank intervals were made."""
    first, method = _side(
        counts.original_correct, counts.original_total, sampling.variance("original"), level, seed
    )
    second, _ = _side(counts.new_correct, counts.new_total, sampling.variance("new"), level, seed)
    residuals = _residuals(counts, fit, first.error, second.error, level)
    rows = tuple(
        ModelRow(
            model=counts.models[i],
            group=counts.group[i] if counts.group else "",
            original=_accuracy(first, i, level),
            new=_accuracy(second, i, level),
            gap=_gap(first, second, i, level),
            original_rank=int(first.rank[i]),
            new_rank=int(second.rank[i]),
            delta_rank=int(first.rank[i] - second.rank[i]),
            original_rank_low=int(first.rank_low[i]),
            original_rank_high=int(first.rank_high[i]),
            new_rank_low=int(second.rank_low[i]),
            new_rank_high=int(second.rank_high[i]),
            residual=residuals[i],
            in_fit=bool(in_fit[i]),
            date=_known(counts.date, i),
            parameters=_known(counts.parameters, i),
        )
        for i in np.lexsort((np.arange(len(counts)), second.rank, first.rank))
    )
    shared = "models share examples" if sampling.new_covariance is not None else "models independent"
    return rows, f"{method}; {shared}"


def _known(column: tuple[float, ...], i: int) -> float | None:
    return float(column[i]) if column and np.isfinite(column[i]) else None


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """Columns of one test set, each (M,)."""

    accuracy: Floats
    error: Floats
    low: Floats
    high: Floats
    total: Integers
    rank: Integers
    rank_low: Integers
    rank_high: Integers


def _side(correct: Integers, total: Integers, variance: Floats, level: float, seed: int) -> tuple[_Side, str]:
    accuracy = correct / total
    low, high = clopper_pearson(correct, total, level)
    rank_low, rank_high, method = rank_intervals(accuracy, variance, confidence=level, seed=seed)
    error = np.sqrt(accuracy * (1.0 - accuracy) / total)
    place = ranks(accuracy).astype(np.int64)
    return _Side(accuracy, error, low, high, total, place, rank_low, rank_high), method


def _accuracy(side: _Side, i: int, level: float) -> Estimate:
    value, error, low, high = (float(column[i]) for column in (side.accuracy, side.error, side.low, side.high))
    return Estimate(value, error, low, high, confidence=level, method="Clopper–Pearson", n=int(side.total[i]))


def _gap(first: _Side, second: _Side, i: int, level: float) -> Estimate:
    value = float(first.accuracy[i] - second.accuracy[i])
    error = float(np.hypot(first.error[i], second.error[i]))
    # Each end combines the distances to the Clopper–Pearson limits (Newcombe's construction), so that the
    # interval stays sensible where an accuracy is 0 or 1 and its standard error vanishes.
    low = value - float(np.hypot(first.accuracy[i] - first.low[i], second.high[i] - second.accuracy[i]))
    high = value + float(np.hypot(first.high[i] - first.accuracy[i], second.accuracy[i] - second.low[i]))
    return Estimate(
        value,
        error,
        max(low, -1.0),
        min(high, 1.0),
        confidence=level,
        method="difference of independent proportions, from Clopper–Pearson limits",
        n=int(second.total[i]),
    )


def _residuals(
    counts: Counts, fit: LineFit, original_error: Floats, new_error: Floats, level: float
) -> list[Estimate]:
    x = counts.original_accuracy
    if fit.scale != "linear":
        x = np.clip(x, 0.5 / counts.original_total, 1.0 - 0.5 / counts.original_total)
    predicted = fit.predict(x)
    step = 1e-6
    inner = np.clip(x, step, 1 - step)
    steepness = (fit.predict(inner + step / 2) - fit.predict(inner - step / 2)) / step
    error = np.sqrt(new_error**2 + (steepness * original_error) ** 2 + fit.prediction_error(x) ** 2)
    value = counts.new_accuracy - predicted
    method = f"new accuracy minus the {fit.scale} line, delta method"
    return [normal(float(v), float(e), fit.n, level, method=method) for v, e in zip(value, error, strict=True)]
