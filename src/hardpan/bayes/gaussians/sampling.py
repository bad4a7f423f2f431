"""Draws until the answer is good enough: independent replicates of randomised quasi-Monte-Carlo sums.

Every stochastic method of this package is a mean over draws. The draws come in R independent replicates (piece i
uses ``default_rng([seed, i])``), each a scrambled Sobol sequence in its leading dimensions and pseudo-random
numbers in the rest, where a net no longer helps. Points within a replicate are dependent, replicates are not: the
standard error comes from the spread of the replicates' means, and the interval from Student's t with R − 1 degrees
of freedom.

:class:`Sobol` gives the points of ``scipy.stats.qmc.Sobol`` to the bit, in up to 32 dimensions: importing
``scipy.stats`` takes longer than most computations of this package. Direction numbers: Joe and Kuo (2008);
scrambling: a random lower triangular matrix and a digital shift per dimension (Matoušek 1998).
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from hardpan.bayes.gaussians.shared import Float
from hardpan.estimates import Estimate

REPLICATES = 32
FIRST_DRAWS = 128  # of each replicate; doubled until the relative standard error is below rtol
MAX_DRAWS = 2**22
CONFIDENCE = 0.95

_NET_DIMENSIONS = 24
_BLOCK_NUMBERS = 2**19  # numbers in one (draws, width) array: 4 MB, which stays in cache

_CARRIERS = 300  # draws that must carry the spread before its estimate is believed ...
_CARRIER_DRAWS = 2**16  # ... but no more draws than this are made for that reason alone
_UNSEEN = 3.0  # the rule of three: an event not seen in n draws has probability below 3/n at 95 %

_BITS = 30
_Bits = NDArray[np.uint32]

# Primitive polynomial of each dimension, and its first direction numbers.
_DIRECTIONS: tuple[tuple[int, tuple[int, ...]], ...] = (
    (1, ()), (3, (1,)), (7, (1, 3)), (11, (1, 3, 1)), (13, (1, 1, 1)), (19, (1, 1, 3, 3)), (25, (1, 3, 5, 13)),
    (37, (1, 1, 5, 5, 17)), (41, (1, 1, 5, 5, 5)), (47, (1, 1, 7, 11, 19)), (55, (1, 1, 5, 1, 1)),
    (59, (1, 1, 1, 3, 11)), (61, (1, 3, 5, 5, 31)), (67, (1, 3, 3, 9, 7, 49)), (91, (1, 1, 1, 15, 21, 21)),
    (97, (1, 3, 1, 13, 27, 49)), (103, (1, 1, 1, 15, 7, 5)), (109, (1, 3, 1, 15, 13, 25)),
    (115, (1, 1, 5, 5, 19, 61)), (131, (1, 3, 7, 11, 23, 15, 103)), (137, (1, 3, 7, 13, 13, 15, 69)),
    (143, (1, 1, 3, 13, 7, 35, 63)), (145, (1, 3, 5, 9, 1, 25, 53)), (157, (1, 3, 1, 13, 9, 35, 107)),
    (167, (1, 3, 1, 5, 27, 61, 31)), (171, (1, 1, 5, 11, 19, 41, 61)), (185, (1, 3, 5, 3, 3, 13, 69)),
    (191, (1, 1, 7, 13, 1, 19, 1)), (193, (1, 3, 7, 5, 13, 19, 59)), (203, (1, 1, 3, 9, 25, 29, 41)),
    (211, (1, 3, 5, 13, 23, 1, 55)), (213, (1, 3, 7, 3, 13, 59, 17)),
)  # fmt: skip
MOST_DIMENSIONS = len(_DIRECTIONS)

# From uniforms (n, u) and normals (n, m) of n draws to the first integrand at each (n,), and sums of others (q,).
Integrands = Callable[[Float, Float], tuple[Float, Float]]
NO_OTHERS = np.empty(0)


@functools.lru_cache(maxsize=8 * REPLICATES)
def _scrambled_net(dimensions: int, seed: tuple[int, ...]) -> Any:
    """A Sobol sequence before its first point; who draws from it takes a copy."""
    generator = np.random.default_rng(seed).spawn(1)[0]
    if dimensions <= MOST_DIMENSIONS:
        return Sobol(dimensions, generator.spawn(1)[0])
    from scipy.stats import qmc  # slow to import

    return qmc.Sobol(dimensions, scramble=True, rng=generator)


class Points:
    """One replicate's stream of uniforms in (0, 1) and standard normals, a net where that pays."""

    def __init__(self, n_uniform: int, n_normal: int, seed: tuple[int, ...], *, net: bool) -> None:
        self._n_uniform, self._n_normal = n_uniform, n_normal
        self._net_normal = min(n_normal, max(_NET_DIMENSIONS - n_uniform, 0)) if net else 0
        self._generator = np.random.default_rng(seed)
        # A curve asks for the same nets at every temperature, and scrambling one takes longer than copying it.
        self._net = copy.deepcopy(_scrambled_net(n_uniform + self._net_normal, seed)) if net else None

    def next(self, n: int) -> tuple[Float, Float]:
        """The next n draws: uniforms (n, n_uniform) and normals (n, n_normal)."""
        normals = np.empty((n, self._n_normal))
        normals[:, self._net_normal :] = self._generator.standard_normal((n, self._n_normal - self._net_normal))
        if self._net is None:
            return np.maximum(self._generator.random((n, self._n_uniform)), 2.0**-54), normals
        # The net has 30 bits and may hold 0: half a cell keeps it inside (0, 1).
        points = self._net.random(n) + 2.0**-31
        ndtri(points[:, self._n_uniform :], out=normals[:, : self._net_normal])
        return points[:, : self._n_uniform], normals


@dataclass(frozen=True, slots=True, eq=False)
class Replicates:
    """Means of each replicate (R, q), all draws, whether rtol was reached, and whether the spread is believable."""

    means: Float
    draws: int
    reached: bool
    resolved: bool = True

    @property
    def value(self) -> Float:
        """Means over the replicates, shape (q,)."""
        return np.asarray(self.means.mean(axis=0))

    @property
    def stderr(self) -> Float:
        """Standard errors of :attr:`value`, shape (q,)."""
        return np.asarray(self.means.std(axis=0, ddof=1) / math.sqrt(len(self.means)))


class _Spread:
    """How many draws carry the spread of the first integrand: (Σ|f − c|)² / Σ(f − c)² for a fixed centre c.

    About 0.64 n for n normal numbers, and four times the number of hits for a rare event: while it is small, a
    standard error from the same draws is too small more often than not.
    """

    def __init__(self) -> None:
        self._centre: float | None = None
        self._absolute = 0.0
        self._squared = 0.0

    def add(self, first: Float) -> None:
        if self._centre is None:
            self._centre = float(first.mean())
        gap = np.abs(first - self._centre)
        self._absolute += float(gap.sum())
        self._squared += float(gap @ gap)

    def is_rounding(self, draws: int) -> bool:
        assert self._centre is not None
        return self._squared <= draws * (1e-14 * self._centre) ** 2

    def is_carried(self, draws: int) -> bool:
        return not self.is_rounding(draws) and self._absolute**2 >= _CARRIERS * self._squared


def replicate(
    integrands: Integrands,
    *,
    n_uniform: int,
    n_normal: int,
    width: int,
    seed: int,
    rtol: float,
    max_draws: int = MAX_DRAWS,
) -> Replicates:
    """Double the draws until the first integrand's relative standard error is below rtol, or max_draws are made.

    ``width`` is the largest number of columns that ``integrands`` holds for a draw; it sets the size of the blocks,
    which bounds the memory and does not change the result beyond rounding.
    """
    streams = [Points(n_uniform, n_normal, (seed, i), net=True) for i in range(REPLICATES)]
    block = 2 ** int(np.clip(math.log2(_BLOCK_NUMBERS / max(width, 1)), 4, 14))
    totals: Float | None = None
    spread = _Spread()
    made, target = 0, FIRST_DRAWS
    while True:
        for i, stream in enumerate(streams):
            for start in range(made, target, block):
                first, others = integrands(*stream.next(min(block, target - start)))
                totals = np.zeros((REPLICATES, 1 + len(others))) if totals is None else totals
                totals[i, 0] += first.sum()
                totals[i, 1:] += others
                spread.add(first)
        made = target
        assert totals is not None
        draws = made * REPLICATES
        result = Replicates(totals / made, draws, reached=False, resolved=spread.is_carried(draws))
        enough = result.resolved or spread.is_rounding(draws) or draws >= _CARRIER_DRAWS
        if enough and result.stderr[0] <= rtol * abs(result.value[0]):
            return replace(result, reached=True)
        if 2 * made * REPLICATES > max_draws:
            return result
        target = 2 * made


@dataclass(frozen=True, slots=True, eq=False)
class ScaledError:
    """The error that a method found, exp(log_scale) × (mean of the first integrand).

    Attributes:
        log_scale: kept as a logarithm, because errors get smaller than floats do.
        replicates: None for a closed form, whose mean is 1.
        left_out: bound on what the mean leaves out; it is added to the upper end of the interval.
        bounds: between which the first integrand lies at every draw; the mean, too.
    """

    log_scale: float
    replicates: Replicates | None = None
    left_out: float = 0.0
    bounds: tuple[float, float] = (0.0, math.inf)

    def estimate(self, *, method: str, seed: int, rtol: float) -> Estimate:
        """The error as an estimate, with notes on what a reader has to know."""
        notes: list[str] = []
        mean, error, low, high, draws = 1.0, 0.0, 1.0, 1.0, 0
        if self.replicates is not None:
            mean, error = float(self.replicates.value[0]), float(self.replicates.stderr[0])
            draws = self.replicates.draws
            low, high = self._interval(self.replicates, mean, error)
            if not self.replicates.reached:
                share = error / mean if mean > 0 else math.inf
                notes.append(
                    f"stopped at the cap of {draws} draws: relative standard error {share:.2g} > rtol {rtol:g}"
                )
        scale = math.exp(self.log_scale)
        log10 = (self.log_scale + math.log(mean)) / math.log(10) if mean > 0 else -math.inf
        if scale * mean == 0.0 and log10 > -math.inf:
            notes.append(f"value underflows to 0; the error is 10^{log10:.6f} ± {100 * error / mean:.2g} %")
        if self.left_out > 0:
            notes.append(f"pairs that can add at most {scale * self.left_out:.2g} were left out")
        return Estimate(
            scale * mean,
            scale * error,
            scale * low,
            scale * (high + self.left_out),
            CONFIDENCE,
            method,
            draws,
            seed if draws else None,
            tuple(notes),
            log10,
        )

    def _interval(self, replicates: Replicates, mean: float, error: float) -> tuple[float, float]:
        reach = interval_factor(len(replicates.means)) * error
        low, high = mean - reach, mean + reach
        if not replicates.resolved:
            # What differs from the rest is rarer than the draws can show: at most 3/n of them, at 95 %.
            unseen = _UNSEEN / replicates.draws
            low -= unseen * (mean - self.bounds[0])
            high += unseen * (self.bounds[1] - mean) if math.isfinite(self.bounds[1]) else 0.0
        return min(max(low, self.bounds[0]), mean), max(min(high, self.bounds[1]), mean)


def interval_factor(n_replicates: int) -> float:
    """How many standard errors the interval reaches to each side: a quantile of Student's t."""
    return float(stdtrit(n_replicates - 1, (1 + CONFIDENCE) / 2))


class Sobol:
    """A scrambled Sobol sequence in (0, 1)^d, 30 bits per coordinate.

    Args:
        dimensions: d, at most 32.
        generator: of the scrambling.

    Example:
        >>> points = Sobol(2, np.random.default_rng(0)).random(4)
        >>> np.sort((points * 4).astype(int), axis=0).tolist()  # one point in each quarter of every axis
        [[0, 0], [1, 1], [2, 2], [3, 3]]
    """

    def __init__(self, dimensions: int, generator: np.random.Generator) -> None:
        powers = np.uint32(1) << np.arange(_BITS, dtype=np.uint32)
        flips = generator.integers(2, size=(dimensions, _BITS), dtype=np.uint32)
        self._point: _Bits = (flips * powers).sum(axis=1, dtype=np.uint32)
        lower = np.tril(generator.integers(2, size=(dimensions, _BITS, _BITS), dtype=np.uint32))
        lower[:, np.arange(_BITS), np.arange(_BITS)] = 1
        columns = _direction_numbers()[:dimensions]
        # Bit p of a scrambled column is the parity of row p of the matrix and the column, bits from the highest.
        digits = (columns[:, :, None] >> _shifts()) & np.uint32(1)
        mixed = np.einsum("dpk,djk->djp", lower.astype(np.int64), digits.astype(np.int64)) & 1
        self._columns: _Bits = (mixed.astype(np.uint32) << _shifts()).sum(axis=2, dtype=np.uint32)
        self._count = 0

    def random(self, n: int) -> Float:
        """The next n points, (n, d)."""
        points = np.empty((n, len(self._point)), dtype=np.uint32)
        if n:
            # Point i differs from the one before by the column of the lowest zero bit of i − 1 (Gray code).
            numbers = np.arange(self._count, self._count + n, dtype=np.int64) - 1
            lowest = np.log2(np.maximum(~numbers & (numbers + 1), 1)).astype(np.intp)
            points[:] = self._columns.T[lowest]
            if self._count == 0:
                points[0] = 0
            points[0] ^= self._point
            np.bitwise_xor.accumulate(points, axis=0, out=points)
            self._point = points[-1].copy()
            self._count += n
        return np.asarray(points * 2.0**-_BITS)


def _shifts() -> _Bits:
    """Shifts of the bits of a number, highest first."""
    return np.arange(_BITS - 1, -1, -1, dtype=np.uint32)


@functools.lru_cache(maxsize=1)
def _direction_numbers() -> _Bits:
    """(32, 30) direction numbers, by the recurrence of Bratley and Fox (1988)."""
    table = np.ones((MOST_DIMENSIONS, _BITS), dtype=np.uint32)
    for row, (polynomial, first) in zip(table[1:], _DIRECTIONS[1:], strict=True):
        degree = len(first)
        values = list(first)
        for j in range(degree, _BITS):
            value = values[j - degree]
            for k in range(degree):
                if (polynomial >> (degree - 1 - k)) & 1:
                    value ^= values[j - k - 1] << (k + 1)
            values.append(value)
        row[:] = values
    return np.asarray(table << _shifts())
