"""Draws until the answer is good enough: independent replicates of randomised quasi-Monte-Carlo sums.

Every stochastic method of this package is a mean over draws. The draws come in R independent replicates (piece i
uses ``default_rng([seed, i])``), each a scrambled Sobol sequence in its leading dimensions and pseudo-random
numbers in the rest, where a net no longer helps. Points within a replicate are dependent, replicates are not: the
standard error comes from the spread of the replicates' means, and the interval from Student's t with R − 1 degrees
of freedom.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit

from hardpan.bayes.gaussians.shared_covariance import Float, Index
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

# From uniforms (n, u) and normals (n, m) of n draws to the first integrand at each (n,), and sums of others (q,).
Integrands = Callable[[Float, Float], tuple[Float, Float]]
NO_OTHERS = np.empty(0)


@functools.lru_cache(maxsize=8 * REPLICATES)
def _scrambled_net(dimensions: int, seed: tuple[int, ...]) -> Any:
    """A Sobol sequence before its first point; who draws from it takes a copy."""
    from scipy.stats import qmc  # slow to import

    return qmc.Sobol(dimensions, scramble=True, rng=np.random.default_rng(seed).spawn(1)[0])


class QuasiRandomPoints:
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
class ReplicatedMeans:
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

    @property
    def interval_factor(self) -> float:
        """How many standard errors the interval reaches to each side: a quantile of Student's t."""
        return float(stdtrit(len(self.means) - 1, (1 + CONFIDENCE) / 2))


class _SpreadCarryingDraws:
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


def replicated_means(
    integrands: Integrands,
    *,
    n_uniform: int,
    n_normal: int,
    width: int,
    seed: int,
    rtol: float,
    max_draws: int = MAX_DRAWS,
) -> ReplicatedMeans:
    """Double the draws until the first integrand's relative standard error is below rtol, or max_draws are made.

    ``width`` is the largest number of columns that ``integrands`` holds for a draw; it sets the size of the blocks,
    which bounds the memory and does not change the result beyond rounding.
    """
    streams = [QuasiRandomPoints(n_uniform, n_normal, (seed, i), net=True) for i in range(REPLICATES)]
    block = 2 ** int(np.clip(math.log2(_BLOCK_NUMBERS / max(width, 1)), 4, 14))
    totals: Float | None = None
    spread = _SpreadCarryingDraws()
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
        result = ReplicatedMeans(totals / made, draws, reached=False, resolved=spread.is_carried(draws))
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
    replicates: ReplicatedMeans | None = None
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

    def _interval(self, replicates: ReplicatedMeans, mean: float, error: float) -> tuple[float, float]:
        reach = replicates.interval_factor * error
        low, high = mean - reach, mean + reach
        if not replicates.resolved:
            # What differs from the rest is rarer than the draws can show: at most 3/n of them, at 95 %.
            unseen = _UNSEEN / replicates.draws
            low -= unseen * (mean - self.bounds[0])
            high += unseen * (self.bounds[1] - mean) if math.isfinite(self.bounds[1]) else 0.0
        return min(max(low, self.bounds[0]), mean), max(min(high, self.bounds[1]), mean)


def sampled_indices(cdf: Float, uniforms: Float) -> Index:
    """Numbers drawn from cumulative probabilities, one per uniform."""
    return np.minimum(np.searchsorted(cdf, uniforms, side="right"), len(cdf) - 1)
