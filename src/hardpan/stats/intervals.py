"""Confidence intervals for shares and means."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hardpan import arguments
from hardpan.arguments import check_confidence, whole_number
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record

Floats = NDArray[np.float64]
FEW_EXAMPLES = 300  # below, intervals are exact or by bootstrap-t, not normal
FEW_EVENTS = 15  # likewise where fewer answers than this are right, or wrong
_BETTING_CELLS, _HALVINGS = 1 << 20, 25


def clopper_pearson(successes: ArrayLike, trials: ArrayLike, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Exact binomial confidence limits for a proportion, element by element.

    The limits invert the two one-sided binomial tests, each at level α/2 with α = 1 − confidence:
    low = B⁻¹(α/2; k, n−k+1) and high = B⁻¹(1 − α/2; k+1, n−k), with B⁻¹ the quantile of the beta distribution;
    low is 0 where k = 0 and high is 1 where k = n.

    Args:
        successes: whole numbers k, 0 ≤ k ≤ n, of any shape.
        trials: whole numbers n ≥ 1; broadcasts against ``successes``.
        confidence: the level, between 0 and 1.

    Returns:
        (low, high), each of the broadcast shape.

    Source: Clopper and Pearson, "The use of confidence or fiducial limits" (1934).

    Example:
        >>> low, high = clopper_pearson([0, 1800], [10, 2000])
        >>> low.round(3).tolist(), high.round(3).tolist()
        ([0.0, 0.886], [0.308, 0.913])
    """
    return _clopper_pearson_limits(*_successes_and_trials(successes, trials), check_confidence(confidence))


def _clopper_pearson_limits(k: Any, n: Any, confidence: float) -> tuple[Floats, Floats]:
    tail = (1.0 - confidence) / 2.0
    # Placeholder parameters where the limit is known exactly keep the special functions away from their edges.
    low = np.where(k == 0, 0.0, special.betaincinv(np.maximum(k, 1.0), n - k + 1.0, tail))
    high = np.where(k == n, 1.0, special.betainccinv(k + 1.0, np.maximum(n - k, 1.0), tail))
    return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)


def share(
    count: int,
    total: int,
    confidence: float = 0.95,
    *,
    method: str = "Clopper–Pearson",
    seed: int | None = None,
) -> Estimate:
    """A share k/n of examples with its exact interval (:func:`clopper_pearson`) and standard error √(p(1 − p)/n).

    Args:
        count: k, how many of them, a whole number.
        total: n, of how many; of none, the share is NaN and its interval 0 to 1.
        confidence: level of the interval.
        method: how the number was made, in words.
        seed: of the draw that chose the examples.

    Example:
        >>> share(5, 10)
        Estimate(0.5 ± 0.16, 95 % [0.187086, 0.812914], Clopper–Pearson, n=10)
    """
    if count == total == 0:
        return Estimate(np.nan, np.nan, 0.0, 1.0, check_confidence(confidence), method, 0, seed)
    n = whole_number("total", total, 1)
    k = whole_number("count", count, most=n)
    low, high = _clopper_pearson_limits(np.float64(k), np.float64(n), check_confidence(confidence))
    value = k / n
    error = (value * (1.0 - value) / n) ** 0.5
    return Estimate(value, error, float(low), float(high), confidence, method, n, seed)


@record
class GroupedSample:
    """What a share of examples in independent groups rests on.

    Attributes:
        n: examples.
        groups: G.
        effective: how many independent examples have the same standard error, n/deff with the linearised variance
            of a ratio of group totals, at most n; G where no group has a hit, or all have only hits.
        least: the same if the examples of each group were all alike, (Σ m_g)²/Σ m_g² (Kish), m_g the group sizes.
        df: degrees of freedom of the variance: (Σ h_g)²/Σ h_g² groups carry the h hits, or the misses where fewer
            groups carry these; at most G − 1.
    """

    n: int
    groups: int
    effective: float
    least: float
    df: float

    def limits(self, value: float, confidence: float = 0.95) -> tuple[float, float]:
        """Confidence limits of the share ``value``: those of :func:`grouped_share`."""
        tail = (1.0 - check_confidence(confidence)) / 2.0
        size = self.effective
        if 0.0 < value < 1.0:
            shrunk = float(special.stdtrit(self.n - 1, tail) / special.stdtrit(self.df, tail)) ** 2 * size
            size = min(float(self.n), max(shrunk, min(size, self.least)))
        hits = value * size
        low = 0.0 if value == 0.0 else float(special.betaincinv(hits, size - hits + 1.0, tail))
        high = 1.0 if value == 1.0 else float(special.betainccinv(hits + 1.0, size - hits, tail))
        return low, high


def grouped_sample(hits: ArrayLike, group: ArrayLike) -> GroupedSample:
    """How many independent examples a share of examples in groups is worth.

    Args:
        hits: (n,) booleans, n ≥ 1.
        group: (n,) group of each example.

    Example:
        >>> round(grouped_sample([True, True, False, False], [0, 0, 1, 1]).effective, 6)
        1.333333
    """
    values = np.asarray(hits, dtype=np.float64)
    number, sizes = np.unique(np.asarray(group), return_inverse=True, return_counts=True)[1:]
    n, groups, p = len(values), len(sizes), float(values.mean())
    least = n**2 / float((sizes.astype(np.float64) ** 2).sum())
    if groups < 2 or p in (0.0, 1.0):
        return GroupedSample(n, groups, float(groups), least, max(1.0, groups - 1.0))
    hit = np.bincount(number.ravel(), values)
    variance = groups / (groups - 1) * float(((hit - p * sizes) ** 2).sum()) / n**2
    effective = n * p * (1 - p) / (n - 1) / variance if variance > 0 else float(n)
    carry = min(float(carried.sum() ** 2 / (carried**2).sum()) for carried in (hit, sizes - hit))
    return GroupedSample(n, groups, min(float(n), effective), least, max(1.0, min(carry, groups - 1.0)))


def grouped_share(hits: ArrayLike, group: ArrayLike, confidence: float = 0.95) -> Estimate:
    """A share of examples that come in independent groups, with its interval.

    Clopper and Pearson's limits for n* = n_eff · (t_{n−1}/t_df)² examples, t the quantile of Student's distribution
    at (1 + confidence)/2, at most n and at least min(n_eff, (Σ m_g)²/Σ m_g²); where there is no hit, or nothing
    else, n* is the number of groups. The degrees of freedom are those of the groups that carry the hits, not G − 1:
    few large groups with hits give a variance that is too small, and with G − 1 an upper limit of 95 % missed in up
    to 26 % of draws.

    Args:
        hits: (n,) booleans; of none, the share is NaN and its interval 0 to 1.
        group: (n,) group of each example.
        confidence: level of the interval.

    Source: Korn and Graubard, "Confidence intervals for proportions with small expected number of positive counts
    estimated from survey data" (1998).

    Example:
        >>> hits = np.arange(100) % 10 == 0
        >>> round(grouped_share(hits, np.arange(100)).high - share(10, 100).high, 9)      # no two in one group
        0.0
        >>> grouped_share(np.sort(hits), np.arange(100) // 10)                            # one group has all hits
        Estimate(0.1 ± 0.099, 95 % [0.00183345, 0.467106], Korn–Graubard, n=100)
    """
    right, method = np.asarray(hits, dtype=np.float64), "Korn–Graubard"
    if not len(right):
        return share(0, 0, confidence, method=method)
    value, sample = float(right.mean()), grouped_sample(right, group)
    low, high = sample.limits(value, confidence)
    error = (value * (1.0 - value) / sample.effective) ** 0.5
    return Estimate(value, error, low, high, confidence, method, len(right))


def mean(
    values: ArrayLike,
    confidence: float = 0.95,
    *,
    least: float = -np.inf,
    most: float = np.inf,
    method: str = "mean, normal interval",
    seed: int | None = None,
    df: int = 0,
) -> Estimate:
    """The mean of independent values with its normal interval, x̄ ± z s/√n.

    Args:
        values: (n,) numbers, at least one; a single one has no standard error: NaN.
        confidence: level of the interval.
        least: what no mean can be below, such as 0 for errors: the interval ends there.
        most: what no mean can be above.
        method: how the number was made, in words.
        seed: of the draw of the values.
        df: n − 1 for Student's t in the place of the normal.

    Example:
        >>> mean([1.0, 2.0, 3.0])
        Estimate(2 ± 0.58, 95 % [0.868414, 3.13159], mean, normal interval, n=3)
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or not len(numbers):
        raise InputError(f"must be one row of at least one number; got shape {numbers.shape}", argument="values")
    n = len(numbers)
    value, error = float(numbers.mean()), float(numbers.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    limits = {"least": least, "most": most}
    return normal(value, error, n, confidence, **limits, method=method, seed=seed, df=df)


def bounded_mean_limits(values: ArrayLike, confidence: float = 0.95, *, seed: int = 0) -> tuple[Floats, Floats]:
    """Confidence limits of row means of independent values in [0, 1], valid for every distribution and every n.

    The lower end is the smallest m with Π_{i≤t} (1 + λ_i (x_i − m)) < 2/α for all t from 0.9 n to n: no bet
    against a mean of m has made so much. With all t it is a tenth narrower, but the first values may decide it, so
    that it ends at the mean. λ_i = min(√(2 log(2/α)/(n v_{i−1})), 0.9/m) with v the variance of the values before,
    which are taken in a random order; the upper end is that of 1 − x. About 1.3 times as wide as the normal one
    where that is right, and wider for few or very skewed values, where the normal one misses too often.

    Args:
        values: (M, n) numbers from 0 to 1.
        confidence: level of each interval.
        seed: of the order.

    Returns:
        (low, high), each (M,).

    Source: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (2024).

    Example:
        >>> low, high = bounded_mean_limits([[0.0] * 90 + [0.5] * 10])
        >>> low.round(3).tolist(), high.round(3).tolist()
        ([0.015], [0.097])
    """
    x = arguments.real_numbers("values", values)
    if x.ndim != 2 or not x.size or x.min() < 0 or x.max() > 1:
        raise InputError("must be rows of numbers from 0 to 1", argument="values")
    level = check_confidence(confidence)
    order = np.random.default_rng([seed, 0]).permutation(x.shape[1])
    rows = max(1, _BETTING_CELLS // x.shape[1])
    ends = []
    for start in range(0, len(x), rows):
        block = x[start : start + rows, order]
        ends.append((_betting_limit(block, level), 1.0 - _betting_limit(1.0 - block, level)))
    low, high = (np.concatenate(columns) for columns in zip(*ends, strict=True))
    return low, high


def _betting_limit(x: Floats, level: float) -> Floats:
    """The lower ends of :func:`bounded_mean_limits` by bisection; what the bets have made falls with m."""
    n = x.shape[1]
    count = np.arange(2.0, n + 2.0)
    mean = (0.5 + np.cumsum(x, axis=1)) / count
    start = 0.25 / np.sqrt(n)
    variance = (start + np.cumsum((x - mean) ** 2, axis=1)) / count
    before = np.concatenate([np.full((len(x), 1), start), variance[:, :-1]], axis=1)
    target = float(np.log(2.0 / (1.0 - level)))
    bets = np.sqrt(2.0 * target / (n * before))
    low, high = np.zeros(len(x)), x.mean(axis=1)
    for _ in range(_HALVINGS):
        m = (low + high) / 2
        made = np.log1p(np.minimum(bets, 0.9 / np.maximum(m, 1e-12)[:, None]) * (x - m[:, None]))
        refuted = np.cumsum(made, axis=1)[:, 9 * n // 10 :].max(axis=1) >= target
        low, high = np.where(refuted, m, low), np.where(refuted, high, m)
    return low


def normal(
    value: float,
    stderr: float,
    n: int,
    confidence: float = 0.95,
    *,
    least: float = -np.inf,
    most: float = np.inf,
    method: str = "normal interval",
    seed: int | None = None,
    df: int = 0,
) -> Estimate:
    """A value with the normal interval of its standard error, value ± z stderr, cut at what can be.

    Args:
        value: the number.
        stderr: its standard error; where it is NaN, so are the interval's ends.
        n: examples that it rests on.
        confidence: level of the interval.
        least: where the interval ends below.
        most: where the interval ends above.
        method: how the number was made, in words.
        seed: of the draw behind it.
        df: where the standard error itself is estimated from few values, its degrees of freedom: Student's t in the
            place of the normal.

    Example:
        >>> normal(0.01, 0.02, 50, least=0.0)
        Estimate(0.01 ± 0.02, 95 % [0, 0.0491993], normal interval, n=50)
    """
    level = 0.5 + check_confidence(confidence) / 2.0
    reach = float(special.stdtrit(df, level) if df > 0 else special.ndtri(level)) * stderr
    low, high = (float(end) for end in np.clip([value - reach, value + reach], least, most))
    return Estimate(value, stderr, low, high, confidence, method, n, seed)


def normal_quantile(confidence: float) -> float:
    """Half the width of a two-sided normal interval in standard errors, z = Φ⁻¹(½ + confidence/2).

    Example:
        >>> round(normal_quantile(0.95), 3)
        1.96
    """
    return float(special.ndtri(0.5 + check_confidence(confidence) / 2.0))


def _successes_and_trials(successes: ArrayLike, trials: ArrayLike) -> tuple[Floats, Floats]:
    k = arguments.whole_numbers("successes", successes).astype(np.float64)
    n = arguments.whole_numbers("trials", trials).astype(np.float64)
    try:
        k, n = np.broadcast_arrays(k, n)
    except ValueError as error:
        raise InputError(
            f"must broadcast; got shapes {np.shape(successes)} and {np.shape(trials)}",
            argument=("successes", "trials"),
        ) from error
    if (n < 1).any():
        raise InputError("must be at least 1; got 0", argument="trials")
    if (k > n).any():
        where = np.argmax(k > n)
        raise InputError(
            f"must not exceed trials; got {k.flat[where]:g} of {n.flat[where]:g}", argument="successes"
        )
    return k, n


def beta_interval(selected: ArrayLike, votes: ArrayLike, confidence: float = 0.95) -> tuple[Any, Any]:
    """Equal-tailed limits of the Beta(k + ½, n − k + ½) posterior of a selection probability (Jeffreys' prior).

    The lower limit is 0 where k = 0 and the upper one 1 where k = n.

    Example:
        >>> low, high = beta_interval([7, 10], [10, 10])
        >>> low.round(3).tolist(), high.round(3).tolist()
        ([0.394, 0.783], [0.907, 1.0])
    """
    k, n = np.asarray(selected), np.asarray(votes)
    tail = (1.0 - confidence) / 2.0
    low = np.where(k == 0, 0.0, special.betaincinv(k + 0.5, n - k + 0.5, tail))
    return low, np.where(k == n, 1.0, special.betainccinv(k + 0.5, n - k + 0.5, tail))


def tango_limits(ahead: int, behind: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Tango's score interval for the difference (b − c)/n of two paired proportions.

    The ends are the Δ at which |b − c − nΔ| / √(n(2q + Δ(1 − Δ))) equals the normal quantile, with q the
    estimate of the smaller discordant probability given Δ.

    Args:
        ahead: b, how many items only the first gets right.
        behind: c, how many only the second gets right.
        n: number of items.
        confidence: level of the interval.

    Example:
        >>> [round(end, 4) for end in tango_limits(12, 2, 53)]
        [0.0577, 0.3272]
    """
    z = normal_quantile(confidence)
    b, c = float(ahead), float(behind)

    def score(delta: float) -> float:
        lead = b - c - n * delta
        if lead == 0.0:
            return 0.0
        linear = -b - c + (2 * n - b + c) * delta
        q = (np.sqrt(max(linear**2 + 8 * n * c * delta * (1 - delta), 0.0)) - linear) / (4 * n)
        return float(lead / np.sqrt(max(n * (2 * q + delta * (1 - delta)), 1e-300)))

    centre, edge = (b - c) / n, 1 - 1e-12
    low = root_between(lambda x: score(x) - z, -edge, centre) if score(-edge) > z else -1.0
    high = root_between(lambda x: score(x) + z, centre, edge) if score(edge) < -z else 1.0
    return low, high


def root_between(function: Callable[[float], float], low: float, high: float) -> float:
    """The root of a function that changes its sign once between two numbers, by bisection.

    Example:
        >>> round(root_between(lambda x: x**2 - 2, 0.0, 2.0), 12)
        1.414213562373
    """
    rising = function(low) < 0
    for _ in range(54):
        middle = (low + high) / 2
        low, high = (middle, high) if (function(middle) < 0) == rising else (low, middle)
    return (low + high) / 2


def bootstrap_t_limits(
    values: Floats, confidence: float, *, resamples: int = 4000, seed: int = 0
) -> tuple[Floats, Floats, Floats]:
    """Bootstrap-t limits of row means: x̄ − q·SE with q the quantiles of t* = (x̄* − x̄)/SE* over resampled columns.

    Args:
        values: (M, n), resampled jointly.
        confidence: level of each interval.
        resamples: how many.
        seed: of the draws.

    Returns:
        (low, high, p), each (M,); p is the two-sided p-value that the mean is 0, from the share of |t*| above |t|.
    """
    n = values.shape[1]
    centre = values.mean(axis=1, keepdims=True)
    shifted = values - centre
    error = values.std(axis=1, ddof=1) / np.sqrt(n)
    counts = np.random.default_rng([seed, 0]).multinomial(n, np.full(n, 1 / n), size=resamples) / n
    mean = counts @ shifted.T
    variance = np.maximum(counts @ (shifted**2).T - mean**2, 0.0) * n / (n - 1)
    # A resample without spread says nothing about the tail; half of the smallest possible spread keeps it finite.
    spread = np.sqrt(np.maximum(variance, (error**2 * n / 100)[None, :]) / n)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(spread > 0, mean / spread, 0.0)
    tail = (1 - confidence) / 2
    upper, lower = np.quantile(t, [1 - tail, tail], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        beyond = np.abs(t) >= np.where(error > 0, np.abs(centre[:, 0]) / error, 0.0)
    p = (1 + beyond.sum(axis=0)) / (resamples + 1)
    return centre[:, 0] - upper * error, centre[:, 0] - lower * error, p


def proportion_limits(right: Floats, total: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Limits of shares: exact for few items or few events, else normal."""
    share = right / total
    reach = normal_quantile(confidence) * np.sqrt(share * (1 - share) / np.maximum(total - 1, 1))
    exact = clopper_pearson(right, total, confidence)
    few = (total < FEW_EXAMPLES) | (np.minimum(right, total - right) < FEW_EVENTS)
    return np.where(few, exact[0], share - reach), np.where(few, exact[1], share + reach)


def constant_limits(
    value: Floats | float, units: Floats | float, confidence: float, least: float = 0.0
) -> tuple[Floats, Floats]:
    """Limits of a mean between ``least`` and 1 where all of the units have the same value.

    At most 1 − ((1 − confidence)/2)^(1/units) of all units may have another one: Clopper–Pearson for 0 and 1.
    """
    other = 1 - ((1 - confidence) / 2) ** (1 / np.maximum(np.asarray(units, dtype=np.float64), 1.0))
    rest = np.asarray(value) * (1 - other)
    return rest + least * other, rest + other


@functools.lru_cache(maxsize=4096)
def hypergeometric_limits(count: int, n: int, total: int, level: float) -> tuple[float, float]:
    """Exact limits of the share of marked items among all, with ``count`` marked of n drawn without replacement.

    All numbers of marked items that neither one-sided test at (1 − level)/2 refutes.
    """
    sampled, every, tail = np.arange(count + 1.0), log_binomial(total, n), (1 - level) / 2

    def chance(marked: int) -> Floats:
        """Of drawing 0, 1, ..., count of the marked items."""
        possible = (sampled <= marked) & (n - sampled <= total - marked)
        with np.errstate(invalid="ignore"):
            terms = log_binomial(marked, sampled) + log_binomial(total - marked, n - sampled)
        return np.exp(np.where(possible, terms, -np.inf) - every)

    # The more items are marked, the more are drawn: both tests turn once.
    possible = range(count, total - (n - count) + 1)
    low = bisect.bisect_left(possible, True, key=lambda marked: bool(1 - chance(marked)[:-1].sum() > tail))
    high = bisect.bisect_left(possible, True, key=lambda marked: bool(chance(marked).sum() <= tail))
    return possible[low] / total, possible[high - 1] / total


def clustered_stderr(sums: Floats, total: float) -> Floats:
    """SE of a mean from sums of deviations per group: √(G/(G−1) Σ_g (Σ_{i∈g}(s_i − s̄))²)/n, along the last axis.

    Args:
        sums: (..., G) Σ_{i∈g} (s_i − s̄).
        total: n.
    """
    count = sums.shape[-1]
    return np.asarray(np.sqrt(count / (count - 1) * (sums**2).sum(axis=-1)) / total)


def jackknife_stderr(sums: Floats, sizes: Floats) -> Floats:
    """SE of a mean by leaving out one group at a time: √((G−1)/G Σ_g (Σ_{i∈g}(s_i − s̄)/(n − n_g))²).

    Equal to :func:`clustered_stderr` for groups of one size, larger for unequal ones.
    """
    count = len(sizes)
    rest = np.maximum(sizes.sum() - sizes, 1.0)
    return np.asarray(np.sqrt((count - 1) / count * ((sums / rest) ** 2).sum(axis=-1)))


def log_binomial(n: ArrayLike, k: ArrayLike) -> Floats:
    """Logarithms of the numbers of ways to choose k of n."""
    a, b = np.asarray(n, dtype=np.float64), np.asarray(k, dtype=np.float64)
    return np.asarray(special.gammaln(a + 1.0) - special.gammaln(b + 1.0) - special.gammaln(a - b + 1.0))
