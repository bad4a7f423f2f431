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
    numbers = _values_to_rank(values)
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
    estimates = _values_to_rank(values)
    level = check_confidence(confidence)
    spread = _covariance_for_ranks(covariance, len(estimates))
    n = len(estimates)
    variances = spread if spread.ndim == 1 else np.diag(spread)
    low, high = np.ones(n, dtype=np.int64), np.full(n, n, dtype=np.int64)
    if n == 1:
        return low, high, "one unit"
    by_bootstrap = n <= MAX_T_MODELS
    noise = normal_draws(spread, resamples, np.random.default_rng([seed, 0])) if by_bootstrap else None
    for j in range(n):
        shared = spread[j] if spread.ndim == 2 else np.zeros(n)
        difference_variance = np.maximum(variances[j] + variances - 2.0 * shared, 0.0)
        difference_variance[j] = 0.0
        error = np.sqrt(difference_variance)
        difference = estimates - estimates[j]
        apart = _units_ranked_apart(j, difference, error, noise, level)
        low[j] = 1 + np.count_nonzero(apart & (difference > 0))
        high[j] = n - np.count_nonzero(apart & (difference < 0))
    method = f"max-t bootstrap over pairs, {resamples:,} draws" if by_bootstrap else "Bonferroni–Holm over pairs"
    return low, high, method


def _units_ranked_apart(
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


def _covariance_for_ranks(covariance: ArrayLike, n: int) -> Floats:
    spread = np.asarray(covariance, dtype=np.float64)
    if spread.shape not in ((n,), (n, n)):
        raise InputError(f"must have shape ({n},) or ({n}, {n}); got {spread.shape}", argument="covariance")
    if not np.isfinite(spread).all() or (np.diag(spread) if spread.ndim == 2 else spread).min() < 0:
        raise InputError("must be finite with variances of at least 0", argument="covariance")
    return spread


def _values_to_rank(values: ArrayLike) -> Floats:
    row = arguments.real_numbers("values", values)
    if row.ndim != 1 or row.size == 0:
        raise InputError(f"must be one row of numbers; got shape {row.shape}", argument="values")
    return row


def count_smaller_in_both(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each example, the number of others that are smaller in both of two rows of whole numbers ≥ 0.

    Sorted by a (equal ones by falling b, so that they do not count), this is the number of smaller b's to the left:
    counted bit by bit, from the highest. Examples that agree in all higher bits are neighbours, in order; one whose
    next bit is 1 has all earlier ones of its group whose bit is 0 below it.

    Example:
        >>> import numpy as np
        >>> count_smaller_in_both(np.array([0, 1, 2, 2]), np.array([5, 6, 0, 9])).tolist()
        [0, 1, 0, 2]
    """
    order = np.lexsort((-b, a))
    number = b[order]
    count = np.zeros(len(b), dtype=np.int64)
    position = np.arange(len(b))  # position in the sorted row of each member of the grouped order
    here = np.arange(len(b))
    for bit in range(int(number.max()).bit_length() - 1, -1, -1):
        grouped = number[position]
        zero = 1 - ((grouped >> bit) & 1)
        prefix = grouped >> (bit + 1)
        first = np.flatnonzero(np.concatenate([[True], prefix[1:] != prefix[:-1]]))
        group = np.repeat(np.arange(len(first)), np.diff(first, append=len(b)))
        before = np.cumsum(zero) - zero
        inside = before - before[first][group]
        count[position] += np.where(zero, 0, inside)
        # Zeros go before ones within each group, both in their order.
        zeros = np.add.reduceat(zero, first)[group]
        moved = np.empty_like(position)
        moved[np.where(zero, first[group] + inside, here + zeros - inside)] = position
        position = moved
    result = np.empty(len(b), dtype=np.int64)
    result[order] = count
    return result


def dense_ranks(values: Floats) -> NDArray[np.int64]:
    """Ranks from 0, the lowest value first; equal values share one and the next value has the next number."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)
