"""Bayes error of shared-covariance classes by importance sampling with bounded weights.

The error is ∫ (Σ_k q_k − max_k q_k) with joint densities q_k = π_k p_k. Class j beats class k at z = c_k + ε iff
ε·u > t_kj, where u is the unit vector from c_k to c_j and t_kj = δ/2 + log(π_k/π_j)/δ, δ = |c_j − c_k|. Draw an
ordered pair (k, j) with probability proportional to π_k Φ(−t_kj), then z from class k in that half-space. With the
joints sorted in falling order q_0 ≥ q_1 ≥ ..., the density of z is Σ_i i·q_i / W, where W = Σ_{k≠j} π_k Φ(−t_kj) is
the union bound. So the weight of a draw is W Σ_{i≥1} q_i / Σ_{i≥1} i·q_i: it lies in [2/K, 1]·W for any classes,
and tends to W as errors get rare. Two classes have no variance at all.

When W ≥ 1 the bound says nothing, and half of the draws come from the classes themselves (balance heuristic); the
known integral of Σ i·q_i is then a control variate.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from hardpan.bayes.gaussians.sampling import (
    MAX_DRAWS,
    NO_OTHERS,
    QuasiRandomPoints,
    ScaledError,
    replicated_means,
    sampled_indices,
)
from hardpan.bayes.gaussians.shared_covariance import Float, Index, SharedClasses

_PILOT_DRAWS = 4096
_EQUAL = 1e-9  # means this close, in standard deviations, count as equal: it moves the error by no larger share


class ImportanceProposal:
    """The proposal of this module: half-spaces of ordered pairs, and the classes themselves where W ≥ 1."""

    def __init__(self, classes: SharedClasses) -> None:
        self.coordinates = classes.coordinates
        self.log_priors = classes.log_priors
        distance = cdist(classes.coordinates, classes.coordinates)
        self.distance = np.where(distance < _EQUAL, 0.0, distance)
        self.squared = np.square(self.distance)
        ratio = self.log_priors[:, None] - self.log_priors[None, :]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            threshold = self.distance / 2 + ratio / self.distance
        # Equal means: the larger prior always wins, and a tie is split evenly between the two orders.
        self.threshold = np.where(np.isnan(threshold), 0.0, threshold)
        self.log_mass = self.log_priors[:, None] + log_ndtr(-self.threshold)
        np.fill_diagonal(self.log_mass, -np.inf)
        self.log_union = float(logsumexp(self.log_mass))
        self.class_share = 0.5 if self.log_union >= 0 else 0.0
        self._class_cdf = np.cumsum(np.exp(self.log_priors))
        self._class_cdf /= self._class_cdf[-1]
        if self.log_union > -np.inf:  # else there is nothing to draw
            self._pair_cdf = np.cumsum(np.exp(self.log_mass.ravel() - self.log_union))
            self._pair_cdf /= self._pair_cdf[-1]

    @property
    def bounds(self) -> tuple[float, float]:
        """Between which the mean weight lies, in units of W."""
        return 2 / len(self.log_priors), 1.0

    @property
    def n_normal(self) -> int:
        """Normals that one draw needs; it needs two uniforms besides."""
        return int(self.coordinates.shape[1])

    def pick(self, uniforms: Float) -> tuple[Index, Index]:
        """Pairs (k, j) chosen by the uniforms (n,); j = k marks a draw from class k without condition."""
        n_classes, share = len(self.log_priors), self.class_share
        pair = sampled_indices(self._pair_cdf, (uniforms - share) / (1 - share))
        winner, loser = pair % n_classes, pair // n_classes
        if share > 0:
            single = sampled_indices(self._class_cdf, uniforms / share)
            unconditional = uniforms < share
            winner, loser = np.where(unconditional, single, winner), np.where(unconditional, single, loser)
        return loser, winner

    def log_joints(self, k: Index, j: Index, along: Float, normals: Float) -> Float:
        """log q_i(c_k + ε) for all i, up to one constant a draw, shape (n, K).

        ε is the normals (n, r) with their coordinate towards class j replaced by ``along``, unless means are equal.
        Only differences from class k enter, so that means far away cost no accuracy where it counts; the products
        (c_j − c_k)·(c_i − c_k) come from squared distances, which saves a pass over r columns.
        """
        rows = np.arange(len(k))
        result = normals @ self.coordinates.T
        gap = self.distance[k, j]
        apart = np.where(gap > 0, gap, 1.0)
        own = result[rows, k]
        half = np.where(gap > 0, (along - (result[rows, j] - own) / apart) / (2 * apart), 0.0)
        result -= (own - half * np.square(gap))[:, None]
        result += (half - 0.5)[:, None] * self.squared[k]
        result -= half[:, None] * self.squared[j]
        result += self.log_priors
        return result

    def draw(self, uniforms: Float, normals: Float) -> tuple[Index, Index, Float]:
        """Pairs and log joints (n, K) of n draws from the proposal."""
        k, j = self.pick(uniforms[:, 0])
        along = -ndtri_exp(np.log(uniforms[:, 1]) + log_ndtr(-self.threshold[k, j]))
        return k, j, self.log_joints(k, j, along, normals)

    def scaled(self, log_rising: Float) -> tuple[Float, Float, Float]:
        """Joints, Σ i·q_i and W times the proposal density, in one unit a draw, for rising log joints (n, K)."""
        gaps = log_rising - log_rising[:, -2:-1]
        gaps[:, -1] = np.minimum(gaps[:, -1], 700.0)
        relative = np.exp(gaps, out=gaps)
        ranked = relative[:, :-1] @ np.arange(relative.shape[1] - 1.0, 0.0, -1.0)
        density = (1 - self.class_share) * ranked
        if self.class_share > 0:
            density += self.class_share * math.exp(self.log_union) * relative.sum(axis=1)
        return relative, ranked, density


def importance_error(classes: SharedClasses, *, seed: int, rtol: float, max_draws: int = MAX_DRAWS) -> ScaledError:
    """The error in units of the union bound W."""
    proposal = ImportanceProposal(classes)
    if proposal.log_union == -np.inf:
        return ScaledError(-np.inf)
    slope = control_variate_slope(proposal, seed)

    def integrands(uniforms: Float, normals: Float) -> tuple[Float, Float]:
        weight, control = _importance_weights(proposal, uniforms, normals)
        return np.asarray(weight - slope * (control - 1.0)), NO_OTHERS

    result = replicated_means(
        integrands,
        n_uniform=2,
        n_normal=proposal.n_normal,
        width=len(proposal.log_priors),
        seed=seed,
        rtol=rtol,
        max_draws=max_draws,
    )
    return ScaledError(proposal.log_union, result, bounds=proposal.bounds)


def control_variate_slope(proposal: ImportanceProposal, seed: int) -> float:
    """Regression of weight on control, from draws of their own so that it biases nothing."""
    if proposal.class_share == 0:
        return 0.0  # the control is constant
    pilot = QuasiRandomPoints(2, proposal.n_normal, (seed, 2**31), net=False)
    weight, control = _importance_weights(proposal, *pilot.next(_PILOT_DRAWS))
    variance = float(np.var(control))
    return float(np.mean((weight - weight.mean()) * (control - control.mean())) / variance) if variance > 0 else 0.0


def _importance_weights(proposal: ImportanceProposal, uniforms: Float, normals: Float) -> tuple[Float, Float]:
    _, _, log_joints = proposal.draw(uniforms, normals)
    log_joints.sort(axis=1)
    joints, ranked, density = proposal.scaled(log_joints)
    return joints[:, :-1].sum(axis=1) / density, ranked / density
