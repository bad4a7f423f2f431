"""Bayes error by Holmes–Diaconis–Ross integration, the method of the paper, for comparison.

Region (k, j) is where a draw from class k is decided as class j: K − 1 linear constraints A ε + b ≥ 0 on a standard
normal ε. Its probability is a product of conditional probabilities of nested regions A ε + b + γ_i ≥ 0 with falling
shifts γ_i, found by subset simulation so that each holds about half of the one before (Holmes–Diaconis–Ross, as in
Gessner, Kanjilal and Hennig 2020). Elliptical slice sampling moves inside a region without rejection: on the
ellipse ε cos θ + ν sin θ each constraint forbids one arc, known in closed form, and θ is uniform on what is left.

The paper integrates the K regions of right decisions and subtracts from 1, which rounds small errors away. Here a
class whose draws go wrong often enough is counted like that (its region holds most of the draws, so that the
product has one factor); of every other class the K − 1 regions of wrong decisions are integrated instead,
E_k = Σ_{j≠k} P_k(decide j), and nothing cancels. Priors count. The chains carry A ε instead of ε: the constraints'
values are all that a move needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from hardpan.bayes.gaussians.importance import ImportanceProposal
from hardpan.bayes.gaussians.sampling import MAX_DRAWS, REPLICATES, ReplicatedMeans, ScaledError
from hardpan.bayes.gaussians.shared_covariance import Float, Index, SharedClasses

_SHARE = 0.5  # of a region that the next one should hold
_SIMULATED = 512  # draws of a region in the subset simulation
_CHAINS = 8  # of each replicated_means, in each region
_STEPS = 16  # of each chain in the first round; doubled until rtol is reached
_BURN_IN = 8
_OFTEN = 0.01  # a class with at least this union bound on its error is counted directly
_BLOCK_NUMBERS = 2**21


@dataclass(frozen=True, slots=True, eq=False)
class _Regions:
    """B regions of m constraints each: normals of the constraints (B, m, r), offsets (B, m), log priors (B,)."""

    normals: Float
    offsets: Float
    log_priors: Float

    def projected_normals(self, generator: np.random.Generator, n: int) -> Float:
        """A ν of n standard normals ν for each region, shape (B, n, m)."""
        noise = generator.standard_normal((len(self.normals), n, self.normals.shape[2]))
        return np.asarray(noise @ self.normals.transpose(0, 2, 1))


def hdr_error(classes: SharedClasses, *, seed: int, rtol: float, max_draws: int = MAX_DRAWS) -> ScaledError:
    """The error in units of the union bound W.

    ``classes.coordinates`` may hold unreduced means: the result is the same, the cost is not.
    """
    proposal = ImportanceProposal(classes)
    if proposal.log_union == -np.inf:
        return ScaledError(-np.inf)
    often, k, j, left_out = _direct_classes_and_hdr_pairs(proposal, rtol)
    walks: list[_RegionChains] = []
    width = max(len(classes.log_priors), classes.coordinates.shape[1])
    step = max(1, _BLOCK_NUMBERS // (REPLICATES * _CHAINS * width))
    for first, second in ((often, often), (k, j)):
        for block in (slice(start, start + step) for start in range(0, len(first), step)):
            regions = _decision_regions(classes, proposal, first[block], second[block])
            walks.append(_RegionChains(regions, np.random.default_rng([seed, len(walks)]), right=first is second))
    in_one_step = sum(walk.chains for walk in walks)
    steps = max(1, min(_STEPS, max_draws // in_one_step))
    while True:
        shares = sum(walk.error_shares(steps, proposal.log_union) for walk in walks)
        draws = sum(walk.draws for walk in walks)
        result = ReplicatedMeans(np.asarray(shares)[:, None], draws, reached=False)
        if result.stderr[0] <= rtol * result.value[0]:
            return ScaledError(proposal.log_union, replace(result, reached=True), left_out)
        if 2 * draws > max_draws:
            return ScaledError(proposal.log_union, result, left_out)
        steps = walks[0].steps  # as many again: the work doubles


def _direct_classes_and_hdr_pairs(proposal: ImportanceProposal, rtol: float) -> tuple[Index, Index, Index, float]:
    """Classes to count directly; ordered pairs (k, j) of the others; and the bound on what is left out.

    Pairs are left out while their bounds π_k Φ(−t_kj) add up to less than rtol/1000 of all.
    """
    with np.errstate(under="ignore"):
        bounds = np.exp(proposal.log_mass - proposal.log_priors[:, None]).sum(axis=1)
        often = np.flatnonzero(bounds >= _OFTEN)
        relative = np.exp(proposal.log_mass - proposal.log_union)
    relative[often] = 0.0
    order = np.argsort(-relative, axis=None)
    tails = np.append(np.cumsum(relative.ravel()[order][::-1])[::-1], 0.0)
    count = int(np.argmax(tails <= 1e-3 * rtol))
    k, j = np.divmod(order[:count], len(proposal.log_priors))
    return often, k, j, float(tails[count])


class _RegionChains:
    """Chains in every nested level of a block of regions, and how many of their draws lay in the next level."""

    def __init__(self, regions: _Regions, generator: np.random.Generator, *, right: bool) -> None:
        self.regions = regions
        self.steps = 0
        self.draws = 0
        self._generator = generator
        self._right = right  # regions of right decisions, counted without levels; else of wrong ones
        if right:
            shape = (len(regions.offsets), REPLICATES * _CHAINS, regions.offsets.shape[1])
            self._shifts = np.array([np.full(shape[0], np.inf), np.zeros(shape[0])])
            self._values = [np.zeros(shape)]
        else:
            self._shifts, self._values = _subset_simulation(regions, generator)
        self._hits = np.zeros((len(self._values), len(regions.offsets), REPLICATES))
        self.chains = sum(values.shape[0] * values.shape[1] for values in self._values)

    def error_shares(self, steps: int, log_union: float) -> Float:
        """Make more steps in every chain; the share of E / W that these regions have by now, per replicate."""
        for level, values in enumerate(self._values):
            inside = np.zeros(values.shape[:2])
            for _ in range(steps):
                values = _elliptical_slice_step(self.regions, self._shifts[level], values, self._generator)
                margin = np.min(values + self.regions.offsets[:, None], axis=2)
                inside += margin >= -self._shifts[level + 1][:, None]
            self._hits[level] += inside.reshape(len(values), REPLICATES, _CHAINS).sum(axis=2)
            self._values[level] = values
            self.draws += steps * inside.size
        self.steps += steps
        shares = self._hits / (self.steps * _CHAINS)
        log_priors = (self.regions.log_priors - log_union)[:, None]
        if self._right:
            return np.asarray((np.exp(log_priors) * (1 - shares[0])).sum(axis=0))
        with np.errstate(divide="ignore", under="ignore"):
            return np.asarray(np.exp(np.log(shares).sum(axis=0) + log_priors).sum(axis=0))


def _decision_regions(classes: SharedClasses, proposal: ImportanceProposal, k: Index, j: Index) -> _Regions:
    """Constraints "j beats i at c_k + ε" for every i ≠ j, scaled to unit normals."""
    n_classes = len(classes.log_priors)
    others = np.arange(n_classes - 1) + (np.arange(n_classes - 1) >= j[:, None])
    normals = classes.coordinates[j][:, None] - classes.coordinates[others]
    half_squares = 0.5 * proposal.squared
    offsets = (classes.log_priors - half_squares[k])[np.arange(len(k)), j][:, None] - np.take_along_axis(
        classes.log_priors - half_squares[k], others, axis=1
    )
    length = proposal.distance[j[:, None], others]
    scale = np.where(length > 0, length, 1.0)
    return _Regions(normals / scale[:, :, None], offsets / scale, classes.log_priors[k])


def _subset_simulation(regions: _Regions, generator: np.random.Generator) -> tuple[Float, list[Float]]:
    """Falling shifts (levels, B) that end at 0, and for each level starting values (B, chains, m) inside it."""
    n_starts = REPLICATES * _CHAINS
    values = regions.projected_normals(generator, max(_SIMULATED, n_starts))
    shifts, starts = [np.full(len(values), np.inf)], [values[:, :n_starts]]
    while np.any(shifts[-1] > 0):
        margin = np.min(values + regions.offsets[:, None], axis=2)
        shift = np.maximum(-np.quantile(margin, 1 - _SHARE, axis=1), 0.0)
        shift = np.minimum(shift, shifts[-1])
        inside = np.argsort(margin < -shift[:, None], axis=1, kind="stable")
        count = np.sum(margin >= -shift[:, None], axis=1)
        # A region met by no draw at all keeps its best draw's shift: the next level starts from there.
        pick = np.take_along_axis(inside, np.arange(values.shape[1])[None] % np.maximum(count, 1)[:, None], axis=1)
        values = np.take_along_axis(values, pick[:, :, None], axis=1)
        for _ in range(_BURN_IN):
            values = _elliptical_slice_step(regions, shift, values, generator)
        shifts.append(shift)
        starts.append(values[:, :n_starts])
    return np.array(shifts), starts[:-1]


def _elliptical_slice_step(regions: _Regions, shift: Float, values: Float, generator: np.random.Generator) -> Float:
    """One step of elliptical slice sampling in every chain, inside A ε + b + shift ≥ 0."""
    other = regions.projected_normals(generator, values.shape[1])
    if np.all(np.isinf(shift)):
        return other  # the whole space: an independent draw is the best move
    uniform = generator.random(values.shape[:2])
    bound = regions.offsets[:, None] + shift[:, None, None]
    radius = np.hypot(values, other)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = -bound / radius
    # Where the bound is beyond the ellipse nothing is forbidden; −1 gives an arc of no width.
    half = math.pi - np.arccos(np.clip(np.where(np.isnan(ratio), -1.0, ratio), -1.0, 1.0))
    centre = np.mod(np.arctan2(other, values) + math.pi, 2 * math.pi)
    # θ = 0 is the current point of the chain: allowed, so no forbidden arc contains it and none wraps around.
    begin, end = np.maximum(centre - half, 0.0), np.minimum(centre + half, 2 * math.pi)
    order = np.argsort(begin, axis=2)
    begin, end = np.take_along_axis(begin, order, 2), np.take_along_axis(end, order, 2)
    covered = np.maximum.accumulate(end, axis=2)
    before = np.concatenate([np.zeros((*covered.shape[:2], 1)), covered], axis=2)
    gaps = np.maximum(np.concatenate([begin, np.full((*begin.shape[:2], 1), 2 * math.pi)], axis=2) - before, 0.0)
    reach = np.cumsum(gaps, axis=2)
    target = uniform * reach[:, :, -1]
    gap = np.argmax(reach > target[:, :, None], axis=2)[:, :, None]
    theta = np.take_along_axis(before - (reach - gaps), gap, 2) + target[:, :, None]
    return np.asarray(values * np.cos(theta) + other * np.sin(theta))
