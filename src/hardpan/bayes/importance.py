"""Bayes error of shared-covariance classes by importance sampling with bounded weights.

The error is ∫ (Σ_k q_k − max_k q_k) with joint densities q_k = π_k p_k. Class j beats class k at z = c_k + ε iff
ε·u > t_kj, where u is the unit vector from c_k to c_j and t_kj = δ/2 + log(π_k/π_j)/δ, δ = |c_j − c_k|. Draw an
ordered pair (k, j) with probability proportional to π_k Φ(−t_kj), then z from class k in that half-space. With the
joints sorted in falling order q_0 ≥ q_1 ≥ ..., the density of z is Σ_i i·q_i / W, where W = Σ_{k≠j} π_k Φ(−t_kj) is
the union bound. So the weight of a draw is W Σ_{i≥1} q_i / Σ_{i≥1} i·q_i: it lies in [2/K, 1]·W for any problem,
and tends to W as errors get rare. Two classes have no variance at all.

When W ≥ 1 the bound says nothing, and half of the draws come from the classes themselves (balance heuristic); the
known integral of Σ i·q_i is then a control variate.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from hardpan.bayes.problem import Float, SharedProblem
from hardpan.bayes.sampling import MAX_DRAWS, NO_OTHERS, Points, Replicates, replicate

_PILOT_DRAWS = 4096


class PairProposal:
    """The proposal of this module: half-spaces of ordered pairs, and the classes themselves where W ≥ 1."""

    def __init__(self, problem: SharedProblem) -> None:
        self.coordinates = problem.coordinates
        self.log_priors = problem.log_priors
        self.distance = cdist(problem.coordinates, problem.coordinates)
        ratio = self.log_priors[:, None] - self.log_priors[None, :]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            threshold = self.distance / 2 + ratio / self.distance
        # Equal means: the larger prior always wins, and a tie is split evenly between the two orders.
        self.threshold = np.where(np.isnan(threshold), 0.0, threshold)
        self.log_mass = self.log_priors[:, None] + log_ndtr(-self.threshold)
        np.fill_diagonal(self.log_mass, -np.inf)
        self.log_union = float(logsumexp(self.log_mass))
        self.class_share = 0.5 if self.log_union >= 0 else 0.0
        self._pair_cdf = _cdf(np.exp(self.log_mass.ravel() - self.log_union)) if self.log_union > -np.inf else None
        self._class_cdf = _cdf(np.exp(self.log_priors))

    @property
    def n_normal(self) -> int:
        """Normals that one draw needs; it needs two uniforms besides."""
        return int(self.coordinates.shape[1])

    def pick(self, uniforms: Float) -> tuple[np.ndarray, np.ndarray]:
        """Pairs (k, j) chosen by the uniforms (n,); j = k marks a draw from class k without condition."""
        assert self._pair_cdf is not None
        n_classes, share = len(self.log_priors), self.class_share
        pair = _invert(self._pair_cdf, (uniforms - share) / (1 - share))
        winner, loser = pair % n_classes, pair // n_classes
        if share > 0:
            single = _invert(self._class_cdf, uniforms / share)
            unconditional = uniforms < share
            winner, loser = np.where(unconditional, single, winner), np.where(unconditional, single, loser)
        return loser, winner

    def noise(self, k: np.ndarray, j: np.ndarray, along: Float, normals: Float) -> Float:
        """ε (n, r): normals whose coordinate towards class j is replaced by ``along`` (where the means differ)."""
        distance = self.distance[k, j][:, None]
        direction = self.coordinates[j] - self.coordinates[k]
        np.divide(direction, distance, out=direction, where=distance > 0)
        shift = np.where(distance[:, 0] > 0, along - np.einsum("nr,nr->n", normals, direction), 0.0)
        return np.asarray(normals + shift[:, None] * direction)

    def log_joints(self, k: np.ndarray, noise: Float) -> Float:
        """log q_i(c_k + ε) for all i, up to one constant a draw, shape (n, K).

        Written with differences from class k, so that far-away means cost no accuracy where it counts.
        """
        projected = noise @ self.coordinates.T
        projected -= np.take_along_axis(projected, k[:, None], axis=1)
        projected -= 0.5 * np.square(self.distance[k])
        projected += self.log_priors
        return projected

    def draw(self, uniforms: Float, normals: Float) -> tuple[np.ndarray, np.ndarray, Float]:
        """Pairs and log joints (n, K) of n draws from the proposal."""
        k, j = self.pick(uniforms[:, 0])
        along = -ndtri_exp(np.log(uniforms[:, 1]) + log_ndtr(-self.threshold[k, j]))
        return k, j, self.log_joints(k, self.noise(k, j, along, normals))

    def scaled(self, log_sorted: Float) -> tuple[Float, Float]:
        """Joints over the proposal density, in units of W: (n, K) for falling log joints, and Σ i·q_i likewise."""
        relative = np.exp(np.minimum(log_sorted - log_sorted[:, 1:2], 700.0))
        ranked = relative[:, 1:] @ np.arange(1.0, relative.shape[1])
        density = (1 - self.class_share) * ranked
        if self.class_share > 0:
            density += self.class_share * math.exp(self.log_union) * relative.sum(axis=1)
        return relative / density[:, None], ranked / density


def run(problem: SharedProblem, *, seed: int, rtol: float, max_draws: int = MAX_DRAWS) -> tuple[float, Replicates]:
    """Log of the union bound W, and replicates of the mean weight in units of W."""
    proposal = PairProposal(problem)
    if proposal.log_union == -np.inf:
        return -np.inf, Replicates(np.ones((2, 1)), 0, reached=True)
    slope = control_slope(proposal, seed)

    def integrands(uniforms: Float, normals: Float) -> tuple[Float, Float]:
        weight, control = _weights(proposal, uniforms, normals)
        return np.asarray(weight - slope * (control - 1.0)), NO_OTHERS

    result = replicate(
        integrands,
        n_uniform=2,
        n_normal=proposal.n_normal,
        width=len(proposal.log_priors),
        seed=seed,
        rtol=rtol,
        max_draws=max_draws,
    )
    return proposal.log_union, result


def control_slope(proposal: PairProposal, seed: int) -> float:
    """Regression of weight on control, from draws of their own so that it biases nothing."""
    if proposal.class_share == 0:
        return 0.0  # the control is constant
    pilot = Points(2, proposal.n_normal, (seed, 2**31), net=False)
    weight, control = _weights(proposal, *pilot.next(_PILOT_DRAWS))
    variance = float(np.var(control))
    return float(np.mean((weight - weight.mean()) * (control - control.mean())) / variance) if variance > 0 else 0.0


def _weights(proposal: PairProposal, uniforms: Float, normals: Float) -> tuple[Float, Float]:
    _, _, log_joints = proposal.draw(uniforms, normals)
    log_joints.sort(axis=1)
    joints, control = proposal.scaled(log_joints[:, ::-1])
    return np.asarray(joints[:, 1:].sum(axis=1)), control


def _cdf(probabilities: Float) -> Float:
    total = np.cumsum(probabilities)
    return np.asarray(total / total[-1])


def _invert(cdf: Float, uniforms: Float) -> np.ndarray:
    return np.minimum(np.searchsorted(cdf, uniforms, side="right"), len(cdf) - 1)
