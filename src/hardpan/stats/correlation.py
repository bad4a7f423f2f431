"""Kendall's τ in n log n and Pearson's ρ, with intervals over examples."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import arguments
from hardpan.arguments import check_confidence
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.stats.intervals import normal
from hardpan.stats.resampling import bootstrap_or_jackknife

Floats = NDArray[np.float64]


def kendall_tau(
    a: ArrayLike, b: ArrayLike, confidence: float = 0.95, *, resample: bool = False, seed: int = 0
) -> Estimate:
    """Kendall's τ-b of two rows of numbers in O(n log n), with its standard error and interval over rows.

    τ_b = S/√(P_a P_b): S sums the products of signs over pairs, P_a and P_b count the pairs untied in a and b. Each
    is a U-statistic of pairs, so a resample moves it by twice what it moves the mean of the rows' own sums.

    Args:
        a: (n,) numbers.
        b: (n,) numbers of the same rows.
        confidence: level of the interval, cut off at ±1.
        resample: bootstrap the rows (from 50,000 rows on, their jackknife) instead of the exact delete-one
            jackknife, which suits few rows.
        seed: of the resamples.

    Source: Kendall, "The treatment of ties in ranking problems" (1945); Knight (1966) for the order of the work.

    Example:
        >>> round(kendall_tau([1, 2, 3, 4], [1, 2, 4, 3]).value, 4)
        0.6667
    """
    x, y = _rows_to_correlate(a, b)
    level, n = check_confidence(confidence), len(x)
    if n < 2 and not resample:
        raise InputError(f"must have one length of at least 2; got {n}", argument=("a", "b"))
    sums = kendall_pair_sums(x, y)
    means = sums.mean(axis=0)
    if resample and (n < 2 or means[1] == 0 or means[2] == 0):  # no pair is untied: there is no order to agree on
        return _undefined_correlation(level, "Kendall τ-b: no order", n)
    if not resample:
        total = sums.sum(axis=0) / 2.0
        left_out = _tau_of_pair_sums(total - sums)
        usable = np.isfinite(left_out).all() and n > 2
        error = float(np.sqrt((n - 1) / n * np.sum((left_out - left_out.mean()) ** 2))) if usable else float("nan")
        return normal(
            float(_tau_of_pair_sums(total)), error, n, level, least=-1.0, most=1.0, method="Kendall τ-b, jackknife"
        )

    def tau(resample_means: Floats) -> Floats:
        moved = means + 2.0 * (resample_means - means)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = moved[:, 0] / np.sqrt(np.maximum(moved[:, 1], 0) * np.maximum(moved[:, 2], 0))
        return np.asarray(np.clip(np.where(np.isfinite(ratio), ratio, np.nan), -1.0, 1.0))

    return bootstrap_or_jackknife("Kendall τ-b", sums, tau, level, seed)


def _tau_of_pair_sums(sums: Floats) -> Floats:
    untied = np.sqrt(sums[..., 1] * sums[..., 2])
    return np.where(untied > 0, sums[..., 0] / np.where(untied > 0, untied, 1.0), np.nan)


def kendall_pair_sums(a: ArrayLike, b: ArrayLike) -> Floats:
    """For each example, sums over all others: of the product of signs, and of pairs untied in a and in b.

    Returns:
        (n, 3).

    Example:
        >>> kendall_pair_sums([1.0, 2.0, 2.0], [1.0, 3.0, 2.0]).tolist()
        [[2.0, 2.0, 2.0], [1.0, 1.0, 2.0], [1.0, 1.0, 2.0]]
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    first, second = (np.unique(values, return_inverse=True)[1] for values in (x, y))
    above_first, above_second = first.max() - first, second.max() - second
    agree = count_smaller_in_both(first, second) + count_smaller_in_both(above_first, above_second)
    oppose = count_smaller_in_both(first, above_second) + count_smaller_in_both(above_first, second)
    untied = [len(x) - np.bincount(ranks)[ranks] for ranks in (first, second)]
    return np.stack([agree - oppose, *untied], axis=1).astype(np.float64)


def pearson(a: ArrayLike, b: ArrayLike, *, confidence: float = 0.95, seed: int = 0) -> Estimate:
    """Pearson's correlation with a bootstrap interval over examples; NaN where one of the two does not vary.

    Example:
        >>> round(pearson([0.0, 1.0, 2.0, 3.0], [1.0, 3.0, 5.0, 7.0]).value, 6)
        1.0
    """
    x, y = _rows_to_correlate(a, b)
    x, y = x - x.mean(), y - y.mean()
    if len(x) < 2 or not x.any() or not y.any():
        return _undefined_correlation(confidence, "Pearson: no variation", len(x))
    x, y = x / np.abs(x).max(), y / np.abs(y).max()
    columns = np.stack([x, y, x * x, x * y, y * y], axis=1)
    return bootstrap_or_jackknife("Pearson", columns, pearson_of_means, confidence, seed)


def pearson_of_means(means: Floats) -> Floats:
    """Correlations from means of x, y, x², xy, y² in the last axis."""
    x, y, xx, xy, yy = np.moveaxis(np.asarray(means), -1, 0)
    product = np.maximum(xx - x * x, 0.0) * np.maximum(yy - y * y, 0.0)
    usable = product > 0
    return np.where(usable, np.clip((xy - x * y) / np.sqrt(np.where(usable, product, 1.0)), -1, 1), np.nan)


def fisher_interval(value: float, draws: Floats, n: int, confidence: float, method: str, seed: int) -> Estimate:
    """A correlation over bands with an interval from the spread of its resamples on Fisher's scale.

    The ends are tanh(artanh ρ ± z s), with s the standard deviation of artanh of the draws. Resamples that empty a
    small band or move its error pull ρ to one side, so that quantiles of the draws may miss the estimate; their
    spread does not.

    Args:
        value: ρ.
        draws: (B,) of the resamples; those that are not finite do not count.
        n: examples.
        confidence: level of the interval.
        method: how it was computed.
        seed: of the draws.

    Example:
        >>> fisher_interval(0.9, np.array([0.7, 0.8, 0.85]), 100, 0.95, "by band", 0)
        Estimate(0.9 ± 0.076, 95 % [0.796466, 0.952267], by band, n=100)
    """
    finite = draws[np.isfinite(draws)]
    if not np.isfinite(value) or len(finite) < 2:
        return _undefined_correlation(confidence, method, n)
    inside = 1.0 - 1e-9
    spread = float(np.std(np.arctanh(np.clip(finite, -inside, inside)), ddof=1))
    moved = normal(float(np.arctanh(np.clip(value, -inside, inside))), spread, n, confidence)
    low, high = (float(end) for end in np.tanh([moved.low, moved.high]))
    return Estimate(value, float(np.std(finite, ddof=1)), low, high, confidence, method, n, seed)


def _undefined_correlation(confidence: float, method: str, n: int) -> Estimate:
    nan = float("nan")
    return Estimate(nan, nan, nan, nan, confidence, method, n)


def _rows_to_correlate(a: ArrayLike, b: ArrayLike) -> tuple[Floats, Floats]:
    x, y = arguments.real_numbers("a", a), arguments.real_numbers("b", b)
    if x.ndim != 1 or x.shape != y.shape or x.size == 0:
        raise InputError(f"must be rows of one length; got {x.shape} and {y.shape}", argument=("a", "b"))
    return x, y


def count_smaller_in_both(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each example, the number of others that are smaller in both of two rows of whole numbers ≥ 0.

    Sorted by a (equal ones by falling b, so that they do not count), this is the number of smaller b's to the left:
    counted bit by bit, from the highest. Examples that agree in all higher bits are neighbours, in order; one whose
    next bit is 1 has all earlier ones of its group whose bit is 0 below it.

    Example:
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
