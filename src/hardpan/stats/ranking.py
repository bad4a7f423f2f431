"""Ranks and their confidence intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hardpan import arguments
from hardpan.arguments import check_confidence
from hardpan.errors import InputError
from hardpan.stats.resampling import Floats, normal_draws

MAX_T_MODELS = 300


def ranks(values: ArrayLike) -> NDArray[np.float64]:
    """Rank 1 for the largest value; equal values all get the best of their places, as on leaderboards: 1, 2, 2, 4.

    Args:
        values: (n,) finite numbers.

    Example:
        >>> ranks([0.9, 0.8, 0.8, 0.7]).tolist()
        [1.0, 2.0, 2.0, 4.0]
    """
    numbers = _ranked_values(values)
    return np.asarray(len(numbers) - np.searchsorted(np.sort(numbers), numbers, side="right") + 1, dtype=np.float64)


def rank_intervals(
    values: ArrayLike,
    covariance: ArrayLike,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[NDArray[np.int64], NDArray[np.int64], str]:
    """Confidence intervals for the true rank of each of n estimated values.

    For unit j every difference to another unit is tested at once: with c_j the ``confidence`` quantile over
    bootstrap draws ε ~ N(0, covariance) of max_k |ε_j − ε_k| / s_jk, the rank lies between 1 + (how many are better
    by more than c_j s_jk) and n − (how many are worse by more); separated units leave the maximum, and c_j is
    found again until none is added. The plain percentile interval of resampled ranks
    is not used: it misses the true rank too often where values are close. Above 300 units c_j is the
    normal quantile after a Bonferroni correction, which is wider.

    Args:
        values: (n,) estimates.
        covariance: (n, n) covariance of the estimates, or (n,) variances when they are independent.
        confidence: the level for each unit's interval.
        resamples: bootstrap draws.
        seed: of the draws.

    Returns:
        (low, high, method): whole ranks, 1 the largest value, and how they were made.

    Source: Mogstad, Romano, Shaikh and Wilhelm, "Inference for ranks" (2024).

    Example:
        >>> low, high, _ = rank_intervals([0.9, 0.5, 0.499], [1e-4, 1e-4, 1e-4])
        >>> low.tolist(), high.tolist()
        ([1, 2, 2], [1, 3, 3])
    """
    estimates, level = _ranked_values(values), check_confidence(confidence)
    n, spread = len(estimates), np.asarray(covariance, dtype=np.float64)
    if spread.shape not in ((n,), (n, n)):
        raise InputError(f"must have shape ({n},) or ({n}, {n}); got {spread.shape}", argument="covariance")
    variances = spread if spread.ndim == 1 else np.diag(spread)
    if not np.isfinite(spread).all() or variances.min() < 0:
        raise InputError("must be finite with variances of at least 0", argument="covariance")
    low, high = np.ones(n, dtype=np.int64), np.full(n, n, dtype=np.int64)
    if n == 1:
        return low, high, "one unit"
    by_bootstrap = n <= MAX_T_MODELS
    noise = normal_draws(spread, resamples, np.random.default_rng([seed, 0])) if by_bootstrap else None
    for j in range(n):
        shared = spread[j] if spread.ndim == 2 else np.zeros(n)
        error = np.sqrt(np.maximum(variances[j] + variances - 2.0 * shared, 0.0))
        error[j] = 0.0
        difference = estimates - estimates[j]
        apart = _differences_in_rank(j, difference, error, noise, level)
        low[j] = 1 + np.count_nonzero(apart & (difference > 0))
        high[j] = n - np.count_nonzero(apart & (difference < 0))
    method = f"max-t bootstrap over pairs, {resamples:,} draws" if by_bootstrap else "Bonferroni–Holm over pairs"
    return low, high, method


def _differences_in_rank(
    j: int, difference: Floats, error: Floats, noise: Floats | None, level: float
) -> NDArray[np.bool_]:
    """Which differences from unit j are real, all tests together at ``level``, by stepping down.

    Once a difference is significant it no longer counts among those that chance could have made large. The closed
    Bonferroni limit is above the bootstrap's, so it may go first and leave the bootstrap the close ones only.
    """
    apart: NDArray[np.bool_] = np.asarray((error == 0) & (difference != 0))
    active: NDArray[np.bool_] = np.asarray(error > 0)

    def bonferroni() -> float:
        return float(special.ndtri(1.0 - (1.0 - level) / (2.0 * np.count_nonzero(active))))

    def max_t(draws: Floats) -> float:
        deviations = np.abs(draws[:, active] - draws[:, j : j + 1]) / error[active]
        return float(np.quantile(deviations.max(axis=1), level))

    for draws in (None,) if noise is None else (None, noise):
        while active.any():
            critical = bonferroni() if draws is None else max_t(draws)
            result = active & (np.abs(difference) > critical * error)
            if not result.any():
                break
            apart |= result
            active &= ~result
    return apart


def _ranked_values(values: ArrayLike) -> Floats:
    row = arguments.real_numbers("values", values)
    if row.ndim != 1 or row.size == 0:
        raise InputError(f"must be one row of numbers; got shape {row.shape}", argument="values")
    return row
