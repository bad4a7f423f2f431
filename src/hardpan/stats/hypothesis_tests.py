"""Tests of hypotheses: McNemar's, the least difference that a test finds, corrections of many tests."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hardpan import arguments
from hardpan.errors import InputError
from hardpan.stats.intervals import log_binomial, root_between
from hardpan.stats.resampling import Floats

POWER = 0.8
_MOST_COUNTS = 1000  # of discordant examples, for which the power is computed


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
    fewer, apart = np.minimum(b, c), b + c
    size = int(apart.max(initial=0)) + 1
    if size**2 > apart.size:
        return np.asarray(np.minimum(1.0, 2.0 * special.bdtr(fewer, apart, 0.5)))
    # Each pair of counts is computed once.
    table = special.bdtr(np.arange(size, dtype=np.float64)[:, None], np.arange(size), 0.5)
    return np.asarray(np.minimum(1.0, 2.0 * table[fewer, apart]))


def unpaired_shares(right: ArrayLike, total: ArrayLike, other_right: ArrayLike, other_total: ArrayLike) -> Floats:
    """Two-sided p-values that two independent samples have the same share of right answers; inputs broadcast.

    Fisher's exact test, twice the smaller tail; the pooled normal test where both samples together have more than
    1,000 right and 1,000 wrong answers.

    Args:
        right: right answers of the first sample.
        total: its size.
        other_right: right answers of the second.
        other_total: its size.

    Source: Fisher, "Statistical methods for research workers" (1934).

    Example:
        >>> unpaired_shares([9, 10, 5000], [10, 10, 9000], [4, 10, 4900], [10, 10, 9000]).round(4).tolist()
        [0.0573, 1.0, 0.1341]
    """
    from scipy.stats import hypergeom  # the gate starts without scipy.stats

    a, n, b, m = np.broadcast_arrays(
        *(np.asarray(x, dtype=np.float64) for x in (right, total, other_right, other_total))
    )
    share, events = (a + b) / (n + m), np.minimum(a + b, n + m - a - b)
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.abs(a / n - b / m) / np.sqrt(share * (1 - share) * (1 / n + 1 / m))
    p = np.asarray(2 * special.ndtr(-np.nan_to_num(z)))
    few = events <= _MOST_COUNTS
    tails = (chance(a[few], (n + m)[few], (a + b)[few], n[few]) for chance in (hypergeom.cdf, _at_least))
    p[few] = np.minimum(1.0, 2 * np.minimum(*tails))
    return p


def _at_least(count: Floats, *sizes: Floats) -> Floats:
    from scipy.stats import hypergeom

    return np.asarray(hypergeom.sf(count - 1, *sizes))


def mcnemar_power(difference: float, discordant: float, n: int, alpha: float = 0.05) -> float:
    """Probability that McNemar's exact test of n examples finds a true difference of two proportions, exactly.

    K ~ Binomial(n, d) examples differ, and B ~ Binomial(K, (d + x)/(2d)) of them favour the better classifier; the
    sum is over all K within 7 standard deviations, of more than 1,000 over evenly spaced ones.

    Args:
        difference: x, the true difference, 0 to ``discordant``.
        discordant: d, the probability that exactly one of the two is right.
        n: number of examples.
        alpha: two-sided level of the test.

    Example:
        >>> [round(mcnemar_power(x, 0.2, 500), 3) for x in (0.0, 0.06)]
        [0.039, 0.835]
    """
    d = float(discordant)
    spread = 7.0 * np.sqrt(n * d * (1.0 - d)) + 10.0
    low, high = max(0, int(n * d - spread)), min(n, int(n * d + spread) + 1)
    k = np.arange(low, high + 1, max(1, (high - low) // _MOST_COUNTS))
    weight = np.exp(log_binomial(n, k) + special.xlogy(k, d) + special.xlog1py(n - k, -d))
    # The most that the smaller of the two counts may be: P(Binomial(k, 1/2) ≤ c) ≤ α/2, or −1.
    with np.errstate(invalid="ignore"):
        c = np.floor(np.nan_to_num(special.bdtrik(alpha / 2.0, k, 0.5), nan=-1.0))
    c = np.clip(c + 1.0, -1.0, k)
    for _ in range(3):
        c = np.where((c >= 0) & (special.bdtr(np.maximum(c, 0.0), k, 0.5) > alpha / 2.0), c - 1.0, c)
    p = min((d + difference) / (2.0 * d), 1.0) if d > 0 else 0.5
    few = np.maximum(c, 0.0)
    rejects = special.bdtr(few, k, p) + special.bdtr(few, k, 1.0 - p)  # by symmetry: B ≤ c, and k − B ≤ c
    return float(min((weight * np.where(c >= 0, rejects, 0.0)).sum() / weight.sum(), 1.0))


def smallest_difference(discordant: float | Callable[[float], float], n: int, alpha: float = 0.05) -> float:
    """The difference of two proportions that McNemar's exact test finds with power 0.8; NaN where it finds none.

    Args:
        discordant: probability that exactly one of the two is right, or a function of the difference; taken as the
            difference where that is larger, so that 0 stands for nested errors.
        n: number of examples.
        alpha: two-sided level of the test.

    Example:
        >>> round(smallest_difference(0.2, 500), 4), round(smallest_difference(0.0, 500), 4)
        (0.0574, 0.0158)
    """

    def lacking(x: float) -> float:
        differ = discordant(x) if callable(discordant) else discordant
        return mcnemar_power(x, min(max(differ, x), 1.0), n, alpha) - POWER

    from scipy.optimize import brentq  # the gate starts without scipy.optimize

    return float(brentq(lacking, 1e-9, 1.0, xtol=1e-7, rtol=1e-4)) if lacking(1.0) > 0 else float("nan")


def mcnemar_sample_size(difference: float, discordant: float, alpha: float = 0.05) -> int:
    """How many examples McNemar's test needs to find a true difference of two proportions with power 0.8.

    n = ((z √d + w √(d − x²)) / x)² with z = Φ⁻¹(1 − α/2) and w = Φ⁻¹(0.8), by the normal approximation.

    Args:
        difference: x, the true difference, above 0.
        discordant: d, the probability that exactly one of the two is right.
        alpha: two-sided level of the test.

    Source: Connor, "Sample size for testing differences in proportions for the paired-sample design" (1987).

    Example:
        >>> mcnemar_sample_size(0.06, 0.2), round(mcnemar_power(0.06, 0.2, 434), 2)
        (434, 0.77)
    """
    x, d = difference, discordant
    z_level, z_power = special.ndtri(1.0 - alpha / 2.0), special.ndtri(POWER)
    return int(np.ceil(((z_level * d**0.5 + z_power * (d - x * x) ** 0.5) / x) ** 2))


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


def kept_together_test(
    units: NDArray[np.int64], in_test: NDArray[np.bool_], level: float = 0.02, exceptions: float = 0.1
) -> bool:
    """Whether a split keeps the rows of a unit together, as it would not if rows were drawn one by one.

    With f the proportion of test rows, a unit of n rows then has rows in both splits with probability
    q = 1 − f^n − (1 − f)^n. Units are kept together if s of them have rows in both, at most a tenth of Σq
    (``exceptions``), and so few have at most probability ``level``: ∏(1 − q) for s = 0, else Chernoff's bound
    exp(s − Σq)·(Σq/s)^s.

    Example:
        >>> user, rng = np.repeat(np.arange(50), 6), np.random.default_rng(0)
        >>> kept_together_test(user, user >= 40), kept_together_test(user, rng.random(300) < 0.2)
        (True, False)
    """
    number, size = np.unique(units, return_inverse=True, return_counts=True)[1:]
    inside = np.bincount(number.ravel(), in_test, minlength=len(size))
    f, both = float(in_test.mean()), float(np.count_nonzero((inside > 0) & (inside < size)))
    outside = np.minimum(f**size + (1 - f) ** size, 1.0)
    expected = float((1 - outside).sum())
    if expected <= 0 or both > exceptions * expected:
        return False
    chance = float(np.log(np.maximum(outside, 1e-300)).sum())
    if both:
        chance = both - expected + both * np.log(expected / both)
    return bool(chance <= np.log(level))


def benjamini_hochberg(p_values: ArrayLike) -> Floats:
    """Adjusted p-values; those at most α have an expected share of false ones of at most α.

    The i-th smallest p (from 1) of m becomes min over j ≥ i of m p_(j)/j, cut off at 1.

    Source: Benjamini and Hochberg, "Controlling the false discovery rate" (1995).

    Example:
        >>> benjamini_hochberg([0.01, 0.02, 0.9]).round(3).tolist()
        [0.03, 0.03, 0.9]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")[::-1]
    ranks = np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(p[order] * len(p) / ranks))
    return adjusted


def smallest_difference_by_t(stderr: float, degrees: int, alpha: float) -> float:
    """The true difference that a two-sided t-test at level alpha finds with power 0.8, for a normal mean.

    r · stderr with r the solution of E Φ(r − c s) = 0.8, c = t_{degrees}(1 − α/2) and s² ~ χ²/degrees.
    """
    return stderr * _smallest_t(degrees, alpha)


@functools.lru_cache(maxsize=1024)
def _smallest_t(degrees: int, alpha: float) -> float:
    """The smallest difference in standard errors."""
    critical = float(special.stdtrit(degrees, 1 - alpha / 2))
    chi = 2 * special.gammaincinv(degrees / 2, (np.arange(2000) + 0.5) / 2000)
    spread = critical * np.sqrt(chi / degrees)
    most = float(spread[-1]) + 10
    return root_between(lambda r: float(special.ndtr(r - spread).mean()) - POWER, 0.0, most)
