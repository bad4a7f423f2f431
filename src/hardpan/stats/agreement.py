"""Two classifiers on the same examples: McNemar's test, the paired bootstrap, κ, and Holm's correction."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hardpan import arguments
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.stats.intervals import check_confidence, normal
from hardpan.stats.resampling import Floats, percentile_interval, standard_error


def mcnemar(only_first: ArrayLike, only_second: ArrayLike) -> Floats:
    """Exact two-sided p-values that two classifiers err equally often, from the discordant counts.

    Under the null each example that exactly one of them gets right is a fair coin: p = min(1, 2 P(X ≤ min(b, c)))
    with X ~ Binomial(b + c, 1/2); p = 1 where b + c = 0.

    Args:
        only_first: b, how many examples only the first gets right; any shape.
        only_second: c, likewise for the second; broadcasts.

    Source: McNemar, "Note on the sampling error of the difference between correlated proportions" (1947).

    Example:
        >>> mcnemar([0, 5], [5, 5]).tolist()
        [0.0625, 1.0]
    """
    b, c = np.broadcast_arrays(
        arguments.whole_numbers("only_first", only_first), arguments.whole_numbers("only_second", only_second)
    )
    return np.asarray(np.minimum(1.0, 2.0 * special.bdtr(np.minimum(b, c), b + c, 0.5)), dtype=np.float64)


def paired_bootstrap(
    first: ArrayLike, second: ArrayLike, *, resamples: int = 10_000, confidence: float = 0.95, seed: int = 0
) -> Estimate:
    """The difference of two accuracies on the same examples, first minus second, resampling the examples.

    A resample of n examples changes the difference only through how many discordant ones it draws, so it is one
    draw from a multinomial with cells (only first right, only second right, the rest).

    Args:
        first: (n,) right or wrong of the first classifier.
        second: (n,) likewise, same examples in the same order.
        resamples: how many.
        confidence: level of the percentile interval.
        seed: of the draws.

    Example:
        >>> paired_bootstrap([1, 1, 1, 0], [0, 1, 0, 0]).value
        0.5
    """
    a, b = right_or_wrong("first", first), right_or_wrong("second", second)
    if a.shape != b.shape or a.ndim != 1 or a.size == 0:
        raise InputError(
            f"must be rows of one length; got shapes {a.shape} and {b.shape}", argument=("first", "second")
        )
    level = check_confidence(confidence)
    arguments.whole_number("resamples", resamples, 2)
    n = a.size
    cells = np.array([np.count_nonzero(a & ~b), np.count_nonzero(~a & b)])
    counts = np.random.default_rng([seed, 0]).multinomial(n, [*(cells / n), 1.0 - cells.sum() / n], size=resamples)
    draws = (counts[:, 0] - counts[:, 1]) / n
    low, high = percentile_interval(draws, level)
    return Estimate(
        float((cells[0] - cells[1]) / n),
        standard_error(draws),
        float(low),
        float(high),
        confidence=level,
        method=f"paired percentile bootstrap, {resamples:,} resamples",
        n=n,
        seed=seed,
    )


def holm(p_values: ArrayLike) -> Floats:
    """Holm's step-down adjusted p-values; rejecting those below α keeps the chance of any false rejection below α.

    The i-th smallest p (from 0) of m becomes max over j ≤ i of (m − j) p_(j), cut off at 1.

    Source: Holm, "A simple sequentially rejective multiple test procedure" (1979).

    Example:
        >>> holm([0.01, 0.04, 0.03]).round(4).tolist()
        [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise InputError("must be one row of numbers between 0 and 1", argument="p_values")
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)))
    return adjusted


def right_or_wrong(name: str, values: ArrayLike) -> NDArray[np.bool_]:
    """Give an array of right (1) and wrong (0) as booleans, or refuse other values."""
    array: NDArray[Any] = np.asarray(values)
    if array.dtype == np.bool_:
        return cast(NDArray[np.bool_], array)
    if array.dtype.kind not in "iuf" or not np.isin(array, (0, 1)).all():
        raise InputError("must hold only right (1) and wrong (0)", argument=name)
    return array.astype(np.bool_)


def kappa_from_table(table: Floats, n: int, confidence: float) -> Estimate:
    """Agreement of two raters beyond chance, κ = (p_o − p_e)/(1 − p_e), with its asymptotic interval.

    Args:
        table: (K, K) shares of the n items, by the category of the first rater and of the second.
        n: how many items.
        confidence: level of the normal interval, cut off at −1 and 1.

    Returns:
        κ; NaN where both raters use one and the same category only.

    Source: Fleiss, Cohen and Everitt, "Large sample standard errors of kappa and weighted kappa" (1969).

    Example:
        >>> kappa_from_table(np.array([[0.5, 0.0], [0.25, 0.25]]), 4, 0.95).value
        0.5
    """
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    observed, expected = float(np.trace(table)), float(rows @ columns)
    kappa = error = float("nan")
    if expected < 1.0 - 1e-12:
        kappa = (observed - expected) / (1.0 - expected)
        margins = rows[None, :] + columns[:, None]
        on_diagonal = np.diag(table) @ (1.0 - np.diag(margins) * (1.0 - kappa)) ** 2
        off_diagonal = (1.0 - kappa) ** 2 * (np.sum(table * margins**2) - np.diag(table) @ np.diag(margins) ** 2)
        variance = on_diagonal + off_diagonal - (kappa - expected * (1.0 - kappa)) ** 2
        error = float(np.sqrt(max(variance, 0.0) / n) / (1.0 - expected))
    return normal(kappa, error, n, confidence, least=-1.0, most=1.0, method="Cohen κ, asymptotic")
