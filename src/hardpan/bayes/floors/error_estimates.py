"""Estimates of errors, with their intervals: means, proportions, held-out errors and bounds of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hardpan import arguments, stats
from hardpan.estimates import Estimate
from hardpan.stats import GroupedSample, normal, share

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
FEW = 50  # examples that carry a sum: below, Student's t is too short


def mean_error_estimate(
    values: Floats,
    *,
    method: str,
    confidence: float = 0.95,
    group: Labels | None = None,
) -> Estimate:
    """Give the mean of independent values in 0..1 with its interval, cut at 0 and 1.

    Student's t interval; but where the sum y rests on few examples, (Σv)²/Σv² < 50, it would be too short, and the
    gamma interval takes its place: from Γ⁻¹(α/2; y²/s) · s/y to Γ⁻¹(1−α/2; (y+1)²/(s+1)) · (s+1)/(y+1), both
    divided by n, with s = Σv² and Γ⁻¹ the quantile of the gamma distribution.

    Args:
        values: (n,) one for each example.
        group: (n,) independent groups that the values come in: sums v of groups take the place of values.

    Source: Fay and Feuer, "Confidence intervals for directly standardized rates" (1997), for the gamma interval.

    Example:
        >>> import numpy as np
        >>> mean_error_estimate(np.array([0.0, 0.2, 0.1, 0.1]), method="m").value
        0.1
    """
    n = len(values)
    value = float(values.mean())
    number = np.arange(n) if group is None else np.unique(group, return_inverse=True)[1].ravel()
    sums, away = np.bincount(number, values), np.bincount(number, values - value)
    m = len(sums)
    variance = m / (m - 1) * float((away**2).sum()) / n**2 if m > 1 else 0.0
    item = normal(value, math.sqrt(variance), n, confidence, least=0.0, most=1.0, method=method, df=m - 1)
    item = dataclasses.replace(item, log10=math.log10(value) if value > 0 else None)
    total, squares = float(values.sum()), float((sums**2).sum())
    if total**2 >= FEW * squares and total > 0:
        return item
    tail = (1 - confidence) / 2
    low = special.gammaincinv(total**2 / squares, tail) * squares / total / n if total > 0 else 0.0
    high = special.gammainccinv((total + 1) ** 2 / (squares + 1), tail) * (squares + 1) / (total + 1) / n
    return dataclasses.replace(item, low=float(low), high=min(1.0, float(high)))


def held_out_error(
    errors: int, n: int, *, method: str, confidence: float = 0.95, sample: GroupedSample | None = None
) -> Estimate:
    """Give a classifier's error on held-out examples with its Clopper–Pearson interval.

    Args:
        errors: how many of the examples it got wrong.
        n: how many there were.
        method: which classifier, trained on what.
        confidence: level of the interval.
        sample: of examples that come in groups: the interval is :meth:`hardpan.stats.GroupedSample.limits`.

    Example:
        >>> e = held_out_error(0, 100, method="always right")
        >>> e.value, e.low, round(e.high, 4)
        (0.0, 0.0, 0.0362)
    """
    result = share(errors, n, confidence, method=method)
    if sample is not None:
        low, high = sample.limits(result.value, confidence)
        stderr = math.sqrt(result.value * (1 - result.value) / sample.effective)
        result = dataclasses.replace(result, stderr=stderr, low=low, high=high)
    return dataclasses.replace(result, log10=math.log10(result.value) if errors > 0 else None)


def estimate_of_bound(error: Estimate, bound: Callable[[float], float], method: str) -> Estimate:
    """An estimate of a rising function of an error: its interval is the error's, carried over."""
    value, low, high = (bound(point) for point in (error.value, error.low, error.high))
    return Estimate(
        value,
        # Ratios of intervals stand in for the slope, which turns vertical where the error is that of guessing.
        error.stderr * (high - low) / max(error.high - error.low, 1e-300),
        low,
        high,
        confidence=error.confidence,
        method=method,
        n=error.n,
        seed=error.seed,
        log10=float(np.log10(value)) if value > 0 else None,
    )


def cover_hart(error: float, n_classes: int) -> float:
    """Give the smallest Bayes error that a limiting nearest-neighbour error allows.

    E ≥ (K−1)/K · (1 − √(1 − K/(K−1) · e)), the inverse of e ≤ E (2 − K/(K−1) · E); above e = (K−1)/K, the error
    of guessing, the bound is (K−1)/K.

    Args:
        error: the nearest-neighbour error e, 0..1.
        n_classes: K ≥ 2.

    Source: Cover and Hart, "Nearest neighbor pattern classification" (1967), equation 32.

    Example:
        >>> round(cover_hart(0.18, 2), 12), cover_hart(0.0, 10), cover_hart(1.0, 2)
        (0.1, 0.0, 0.5)
    """
    arguments.whole_number("n_classes", n_classes, 2)
    arguments.real_number("error", error, "[0, 1]")
    guessing = (n_classes - 1) / n_classes
    # e / (1 + √(1 − e/g)) is the same number as g (1 − √(1 − e/g)) without the loss of digits at small e.
    return min(error, guessing) / (1.0 + float(np.sqrt(max(0.0, 1.0 - error / guessing))))


def error_of_best_classifier(
    error: Estimate, classifiers: int, sample: stats.GroupedSample | None = None
) -> Estimate:
    """The error of the best of several classifiers: chosen on the same examples, so they share the level."""
    if classifiers < 2 or not error.n:
        return error
    level = 1 - (1 - error.confidence) / classifiers
    if sample is None:
        exact = share(round(error.value * error.n), error.n, level)
        low, high = exact.low, exact.high
    else:
        low, high = sample.limits(error.value, level)
    method = f"{error.method}; interval for the best of {classifiers} (Bonferroni)"
    return dataclasses.replace(error, low=low, high=high, method=method)
