"""Estimates of means and of shares, as every estimator of the floor gives them."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from hardpan.bayes.floors.inputs import Floats
from hardpan.records import Estimate
from hardpan.stats import clopper_pearson


def mean_estimate(
    values: Floats,
    *,
    method: str,
    confidence: float = 0.95,
    extra_variance: float = 0.0,
    notes: tuple[str, ...] = (),
    seed: int | None = None,
) -> Estimate:
    """Give the mean of independent values in 0..1 with its t interval, cut at 0 and 1.

    Args:
        values: (n,) one for each example.
        extra_variance: variance of the mean that does not come from these values (of a calibration, say).

    Example:
        >>> mean_estimate(np.array([0.0, 0.2, 0.1, 0.1]), method="m").value
        0.1
    """
    n = len(values)
    value = float(values.mean())
    spread = math.sqrt((float(values.var(ddof=1)) / n if n > 1 else 0.0) + extra_variance)
    return with_normal_interval(
        value, spread, n, method=method, confidence=confidence, df=n - 1, notes=notes, seed=seed
    )


def with_normal_interval(
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
    """Give an estimate in 0..1 with the interval of Student's t (of the normal where ``df`` is 0)."""
    level = 0.5 + confidence / 2
    factor = float(special.stdtrit(df, level)) if df > 0 else float(special.ndtri(level))
    return Estimate(
        value,
        stderr,
        max(0.0, value - factor * stderr),
        min(1.0, value + factor * stderr),
        confidence=confidence,
        method=method,
        n=n,
        seed=seed,
        notes=notes,
        log10=math.log10(value) if value > 0 else None,
    )


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
    low, high = (float(limit) for limit in clopper_pearson(errors, n, confidence))
    value = errors / n
    return Estimate(
        value,
        float(np.sqrt(value * (1 - value) / n)),
        low,
        high,
        confidence=confidence,
        method=method,
        n=n,
        log10=float(np.log10(value)) if value > 0 else None,
    )
