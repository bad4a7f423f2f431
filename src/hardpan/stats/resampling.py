"""The bootstrap for statistics that are functions of column means, computed in blocks.

Many statistics of a sample depend on it only through means of columns: a mean, a difference, a ratio, a
correlation, a least-squares line. For these a resample is a vector of how often each row was drawn, and a block
of resamples is one matrix product. Blocks hold at most :data:`BLOCK_CELLS` counts, so memory does not grow with
the number of resamples beyond the draws themselves; their size depends on the sample alone, so the same seed
gives the same draws on any machine.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from hardpan import arguments
from hardpan.arguments import check_confidence, right_or_wrong
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.stats.intervals import normal

# Small enough for a block's arrays to stay in the processor's cache, which halves the time.
BLOCK_CELLS = 2**17

DRAWS = 2000
_FEWEST_DRAWS = 200
_CELLS = 100_000_000  # random numbers that a bootstrap may draw
_MANY = 50_000  # examples, from which on the jackknife takes the place of the bootstrap
_LONG_ROW = 1000  # from here on a call a resample costs less than numbering all cells of a block

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]


def block_sizes(rows: int, resamples: int) -> Iterator[int]:
    """How many resamples of ``rows`` rows each block holds; the sizes sum to ``resamples``."""
    size = max(1, min(4096, BLOCK_CELLS // rows))
    for start in range(0, resamples, size):
        yield min(size, resamples - start)


def resample_counts(rows: int, resamples: int, seed: int = 0) -> Iterator[Floats]:
    """Blocks (b, rows) of how often each row is drawn when ``rows`` rows are drawn with replacement.

    Block i uses its own generator, seeded with [seed, i].

    Example:
        >>> [block.sum(axis=1).tolist() for block in resample_counts(5, 3)]
        [[5.0, 5.0, 5.0]]
    """
    for index, size in enumerate(block_sizes(rows, resamples)):
        rng = np.random.default_rng([seed, index])
        # Small integers come several to a random word, which is most of the time saved here.
        indices = rng.integers(0, rows, size=(size, rows), dtype=np.uint16 if rows < 2**16 else np.int64)
        if rows < _LONG_ROW:
            cells = indices + np.arange(size)[:, None] * rows
            yield np.bincount(cells.ravel(), minlength=size * rows).reshape(size, rows).astype(np.float64)
        else:
            yield np.stack([np.bincount(row, minlength=rows) for row in indices]).astype(np.float64)


def bootstrap_draws(columns: ArrayLike, statistic: Statistic, resamples: int = 10_000, seed: int = 0) -> Floats:
    """The statistic of each resample of the rows.

    Args:
        columns: (n, d) numbers, one row an independent unit.
        statistic: maps column means (b, d) to values (b,) or (b, k).
        resamples: how many.
        seed: of the draws.

    Returns:
        (resamples,) or (resamples, k).
    """
    table = _columns_to_resample(columns)
    arguments.whole_number("resamples", resamples, 2)
    n = len(table)
    # Many small products: threads of the linear algebra would spend their time waiting for one another.
    with threadpool_limits(limits=1, user_api="blas"):
        return np.concatenate([statistic(counts @ table / n) for counts in resample_counts(n, resamples, seed)])


def percentile_interval(draws: ArrayLike, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """The (1 ∓ confidence)/2 quantiles of bootstrap draws along the first axis; NaN draws are left out."""
    tail = (1.0 - check_confidence(confidence)) / 2.0
    low, high = _quantiles_without_nan(np.asarray(draws, dtype=np.float64), np.array([tail, 1.0 - tail]))
    return low, high


def bootstrap(
    columns: ArrayLike,
    statistic: Statistic,
    *,
    resamples: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """A scalar function of column means with its bootstrap standard error and interval.

    Args:
        columns: (n, d) or (n,) numbers, one row an independent unit.
        statistic: maps column means (b, d) to values (b,).
        resamples: how many resamples of the rows.
        confidence: the level.
        seed: of the draws.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993).

    Example:
        >>> bootstrap([0.0, 1.0, 2.0, 3.0], lambda means: means[:, 0]).value
        1.5
    """
    table = _columns_to_resample(columns)
    value = float(statistic(table.mean(axis=0, keepdims=True))[0])
    draws = bootstrap_draws(table, statistic, resamples, seed)
    method = f"percentile bootstrap, {resamples:,} resamples"
    return _bootstrap_estimate(value, draws, confidence, method, len(table), seed)


def _bootstrap_estimate(value: float, draws: Floats, confidence: float, method: str, n: int, seed: int) -> Estimate:
    low, high = (float(limit) for limit in percentile_interval(draws, confidence))
    return Estimate(value, bootstrap_standard_error(draws), low, high, confidence, method, n, seed)


def normal_draws(covariance: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Draws (count, n) from a normal distribution with mean 0; covariance (n, n), or variances (n,)."""
    standard = rng.standard_normal((count, len(covariance)))
    if covariance.ndim == 1:
        return standard * np.sqrt(covariance)
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(standard @ (vectors * np.sqrt(np.maximum(values, 0.0))).T)


def bootstrap_standard_error(draws: Floats) -> float:
    """Standard deviation of the finite draws; NaN when there are fewer than two."""
    finite = draws[np.isfinite(draws)]
    return float(np.std(finite, ddof=1)) if finite.size > 1 else float("nan")


def _quantiles_without_nan(sample: Floats, levels: Floats) -> Floats:
    if np.isnan(sample).any():
        if sample.ndim > 1:
            return np.stack([_quantiles_without_nan(column, levels) for column in sample.T], axis=1)
        sample = sample[~np.isnan(sample)]
        if sample.size == 0:
            return np.full(len(levels), np.nan)
    return np.asarray(np.quantile(sample, levels, axis=0), dtype=np.float64)


def _columns_to_resample(columns: ArrayLike) -> Floats:
    table = arguments.real_numbers("columns", columns)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or len(table) < 2:
        raise InputError(
            f"must hold at least 2 rows to resample; got shape {np.shape(columns)}", argument="columns"
        )
    return table


def resamples_for(examples: int) -> int:
    """Number of bootstrap resamples that this many examples allow in reasonable time."""
    return max(_FEWEST_DRAWS, min(DRAWS, _CELLS // max(examples, 1)))


def bootstrap_or_jackknife(
    name: str, columns: Floats, statistic: Callable[[Floats], Floats], confidence: float, seed: int
) -> Estimate:
    """A function of column means with its bootstrap interval over rows.

    From 50,000 rows on the bootstrap gives a normal distribution, and the jackknife gives the same one in one pass.
    """
    n = len(columns)
    if n <= _MANY:
        result = bootstrap(columns, statistic, resamples=DRAWS, confidence=confidence, seed=seed)
        return dataclasses.replace(result, method=f"{name}, {result.method} of examples")
    value = float(statistic(columns.mean(axis=0, keepdims=True))[0])
    left_out = statistic((columns.sum(axis=0) - columns) / (n - 1))
    error = float(np.sqrt((n - 1) / n * np.sum((left_out - left_out.mean()) ** 2)))
    return normal(value, error, n, confidence, method=f"{name}, jackknife of examples")


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
    draws, value = (counts[:, 0] - counts[:, 1]) / n, float((cells[0] - cells[1]) / n)
    method = f"paired percentile bootstrap, {resamples:,} resamples"
    return _bootstrap_estimate(value, draws, level, method, n, seed)


def _sum_in_order(rows: Iterable[Floats]) -> Floats:
    """The sum of arrays of one shape, added one after another.

    NumPy chooses the order of a sum by the shape, so that the last bit would depend on the size of a block.
    """
    return functools.reduce(np.add, rows)


def jackknife_variance(left_out: Floats) -> Floats:
    """Variance of a statistic from its values without each of S units: (S−1)/S Σ (θ₍ᵢ₎ − θ̄)².

    Args:
        left_out: (S, ...) the values.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 11.

    Example:
        >>> import numpy as np
        >>> float(jackknife_variance(np.array([1.0, 2.0, 3.0])).round(4))  # of the means without one of three
        1.3333
    """
    count = len(left_out)
    centre = _sum_in_order(left_out) / count
    return np.asarray((count - 1) / count * _sum_in_order((row - centre) ** 2 for row in left_out))


def block_bootstrap_variance(curve: Floats) -> Floats:
    """Variance of the mean over epochs when blocks of neighbouring epochs are drawn with replacement.

    With circular blocks of L epochs (L the cube root of T) the bootstrap needs no draws: the blocks' means B_i are
    independent and equally likely, so Var = (L/T)·1/T Σ_i (B_i − x̄)².

    Args:
        curve: (T, ...) one value per epoch.

    Returns:
        (...) variances.

    Source: Politis and Romano, "A circular block-resampling procedure for stationary data" (1992).

    Example:
        >>> import numpy as np
        >>> float(block_bootstrap_variance(np.array([0.0, 1.0])))  # blocks of one: the ordinary bootstrap
        0.125
    """
    epochs = len(curve)
    centre = _sum_in_order(curve) / epochs
    length = max(1, round(float(epochs) ** (1 / 3)))
    blocks = (curve[np.arange(first, first + length) % epochs] for first in range(epochs))
    spread = _sum_in_order((_sum_in_order(block) / length - centre) ** 2 for block in blocks)
    return np.asarray(spread * length / epochs**2)
