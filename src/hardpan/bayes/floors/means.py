"""Estimates of means and of shares, as every estimator of the floor gives them."""

from __future__ import annotations

import dataclasses
import math

from scipy import special

from hardpan.bayes.floors.inputs import Floats
from hardpan.estimates import Estimate
from hardpan.stats import normal, share

FEW = 50  # examples that carry a sum: below, Student's t is too short


def mean_estimate(
    values: Floats,
    *,
    method: str,
    confidence: float = 0.95,
    extra_variance: float = 0.0,
    notes: tuple[str, ...] = (),
    seed: int | None = None,
) -> Estimate:
    """Give the mean of independent values in 0..1 with its interval, cut at 0 and 1.

    Student's t interval; but where the sum y rests on few examples, (Σv)²/Σv² < 50, it would be too short, and the
    gamma interval takes its place: from Γ⁻¹(α/2; y²/s) · s/y to Γ⁻¹(1−α/2; (y+1)²/(s+1)) · (s+1)/(y+1), both
    divided by n, with s = Σv² and Γ⁻¹ the quantile of the gamma distribution.

    Args:
        values: (n,) one for each example.
        extra_variance: variance of the mean that does not come from these values (of a calibration, say).

    Source: Fay and Feuer, "Confidence intervals for directly standardized rates" (1997), for the gamma interval.

    Example:
        >>> import numpy as np
        >>> mean_estimate(np.array([0.0, 0.2, 0.1, 0.1]), method="m").value
        0.1
    """
    n = len(values)
    value = float(values.mean())
    spread = math.sqrt((float(values.var(ddof=1)) / n if n > 1 else 0.0) + extra_variance)
    item = share_estimate(value, spread, n, method=method, confidence=confidence, df=n - 1, notes=notes, seed=seed)
    total, squares = float(values.sum()), float((values**2).sum()) + n**2 * extra_variance
    if total**2 >= FEW * squares and total > 0:
        return item
    tail = (1 - confidence) / 2
    low = special.gammaincinv(total**2 / squares, tail) * squares / total / n if total > 0 else 0.0
    high = special.gammainccinv((total + 1) ** 2 / (squares + 1), tail) * (squares + 1) / (total + 1) / n
    return dataclasses.replace(item, low=float(low), high=min(1.0, float(high)))


def share_estimate(
    value: float,
    stderr: float,
    n: int,
    *,
    method: str,
    confidence: float,
    df: int = 0,
    notes: tuple[str, ...] = (),
    seed: int | None = None,
) -> Estimate:
    """Give an estimate in 0..1 with its logarithm; see :func:`hardpan.stats.normal` for its interval and ``df``."""
    found = normal(value, stderr, n, confidence, least=0.0, most=1.0, method=method, df=df, notes=notes, seed=seed)
    return dataclasses.replace(found, log10=math.log10(value) if value > 0 else None)


def held_out_error(errors: int, n: int, *, method: str, confidence: float = 0.95) -> Estimate:
    """Give a classifier's error on held-out examples with its Clopper–Pearson interval.

    Args:
        errors: how many of the examples it got wrong.
        n: how many there were.
        method: which classifier, trained on what.
        confidence: level of the interval.

    Example:
        >>> e = held_out_error(0, 100, method="always right")
        >>> e.value, e.low, round(e.high, 4)
        (0.0, 0.0, 0.0362)
    """
    found = share(errors, n, confidence, method=method)
    return dataclasses.replace(found, log10=math.log10(found.value) if errors > 0 else None)
