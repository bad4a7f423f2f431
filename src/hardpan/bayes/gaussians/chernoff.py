"""Bayes error of classes with different covariances, by importance sampling with weights in [0, 1].

For each pair of classes min(π_k p_k, π_j p_j) ≤ (π_k p_k)^{1−s} (π_j p_j)^s = c_kj q_kj with a Gaussian q_kj; s is
chosen to make c_kj smallest (Chernoff). Draw z from the mixture Σ c_kj q_kj / C, C = Σ c_kj, and weight it by

    (Σ_k π_k p_k(z) − max_k π_k p_k(z)) / Σ_{kj} c_kj q_kj(z) ∈ [0, 1];

the mean weight times C is unbiased, and C bounds the error. Where C ≥ 1 half of the draws come from the classes.
Pairs whose c_kj add up to less than a hundredth of rtol times the error are left out; their sum is stated, and
added to the upper end of the interval.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

from hardpan.bayes.gaussians.sampling import (
    MAX_DRAWS,
    NO_OTHERS,
    QuasiRandomPoints,
    ScaledError,
    replicated_means,
    sampled_indices,
)
from hardpan.bayes.gaussians.shared_covariance import Float, Index
from hardpan.bayes.gaussians.unequal_covariances import UnequalClasses

_GOLDEN = (math.sqrt(5) - 1) / 2
_SEARCH_STEPS = 16  # the bound is flat at its minimum: s within 5e-4 of the best is as good
_PAIR_NUMBERS = 2**21
_PILOT_DRAWS = 2048


class ChernoffProposal:
    """Mixture of the Chernoff Gaussians of the strongest pairs, and the classes themselves where C ≥ 1."""

    def __init__(self, classes: UnequalClasses, k: Index, j: Index, s: Float, log_bound: Float) -> None:
        self.classes = classes
        self.k, self.j, self.s = k, j, s
        self.log_total = float(logsumexp(log_bound))
        self.class_share = 0.5 if self.log_total >= 0 else 0.0
        weights = np.exp(np.concatenate([log_bound - self.log_total, classes.log_priors]))
        weights[: len(k)] *= (1 - self.class_share) / weights[: len(k)].sum()
        weights[len(k) :] *= self.class_share / weights[len(k) :].sum()
        self._cdf = np.cumsum(weights) / weights.sum()
        alone = np.arange(len(classes.log_priors))
        self._k, self._j = np.append(k, alone), np.append(j, alone)
        self._s = np.append(s, np.zeros(len(alone)))

    def weights(self, uniforms: Float, normals: Float) -> tuple[Float, Float]:
        """Weight and control of each draw, in units of C; the control has mean 1."""
        index = sampled_indices(self._cdf, uniforms[:, 0])
        draws = self.classes.draw(self._k[index], self._j[index], self._s[index], uniforms[:, 1:], normals)
        log_joints = self.classes.log_joints(draws)
        between = (1 - self.s) * log_joints[:, self.k] + self.s * log_joints[:, self.j]
        log_pairs = logsumexp(between, axis=1)
        log_joints.sort(axis=1)
        with np.errstate(under="ignore"):
            lost = np.exp(log_joints[:, :-1] - log_pairs[:, None]).sum(axis=1)
            density = np.full(len(draws), 1 - self.class_share)
            if self.class_share > 0:
                every = np.exp(np.minimum(log_joints - log_pairs[:, None], 700.0)).sum(axis=1)
                density += self.class_share * math.exp(self.log_total) * every
        return np.minimum(lost, 1.0) / density, 1 / density


def chernoff_error(classes: UnequalClasses, *, seed: int, rtol: float, max_draws: int = MAX_DRAWS) -> ScaledError:
    """The error in units of C."""
    k, j = np.triu_indices(len(classes.log_priors), 1)
    step = max(1, _PAIR_NUMBERS // max(classes.n_normal, 1))
    blocks = [slice(start, start + step) for start in range(0, len(k), step)]
    s, log_bound = np.concatenate([_chernoff_exponents(classes, k[rows], j[rows]) for rows in blocks], axis=1)
    order = np.argsort(-log_bound)
    k, j, s, log_bound = k[order], j[order], s[order], log_bound[order]
    relative = np.exp(log_bound - logsumexp(log_bound))
    tails = np.append(np.cumsum(relative[::-1])[::-1][1:], 0.0)  # what is left out if pairs 0..i are kept
    allowed = 1e-6 * rtol
    while True:
        count = 1 + int(np.argmax(tails <= allowed))
        proposal = ChernoffProposal(classes, k[:count], j[:count], s[:count], log_bound[:count])
        pilot = QuasiRandomPoints(1 + classes.n_uniform, classes.n_normal, (seed, 2**31), net=False)
        block = max(16, 2**19 // (count + classes.n_normal))
        draws = [pilot.next(min(block, _PILOT_DRAWS - start)) for start in range(0, _PILOT_DRAWS, block)]
        weight, control = np.concatenate([proposal.weights(*points) for points in draws], axis=1)
        tolerance = 0.01 * rtol * float(weight.mean())
        if tails[count - 1] <= tolerance:
            break
        allowed = min(tolerance, allowed / 10)
    variance = float(np.var(control))
    slope = float(np.cov(weight, control, bias=True)[0, 1] / variance) if variance > 0 else 0.0

    def integrands(uniforms: Float, normals: Float) -> tuple[Float, Float]:
        weight, control = proposal.weights(uniforms, normals)
        return np.asarray(weight - slope * (control - 1.0)), NO_OTHERS

    result = replicated_means(
        integrands,
        n_uniform=1 + classes.n_uniform,
        n_normal=classes.n_normal,
        width=max(classes.n_normal, count),
        seed=seed,
        rtol=rtol,
        max_draws=max_draws,
    )
    return ScaledError(proposal.log_total, result, left_out=float(tails[count - 1]), bounds=(0.0, 1.0))


def _chernoff_exponents(classes: UnequalClasses, k: Index, j: Index) -> tuple[Float, Float]:
    """For each pair the s in [0, 1] that makes the Chernoff bound smallest, and the bound's logarithm."""
    low, high = np.zeros(len(k)), np.ones(len(k))
    left, right = 1 - _GOLDEN * np.ones(len(k)), _GOLDEN * np.ones(len(k))
    at_left, at_right = classes.log_chernoff(k, j, left), classes.log_chernoff(k, j, right)
    for _ in range(_SEARCH_STEPS):
        falls = at_left < at_right
        low, high = np.where(falls, low, left), np.where(falls, right, high)
        fresh = np.where(falls, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
        value = classes.log_chernoff(k, j, fresh)
        left, right = np.where(falls, fresh, right), np.where(falls, left, fresh)
        at_left, at_right = np.where(falls, value, at_right), np.where(falls, at_left, value)
    # The ends are bounds, too (the smaller prior), and the search only comes near them.
    ends = np.stack([classes.log_priors[k], classes.log_priors[j], at_left, at_right])
    where = np.stack([np.zeros(len(k)), np.ones(len(k)), left, right])
    best = np.argmin(ends, axis=0)[None]
    return np.take_along_axis(where, best, 0)[0], np.take_along_axis(ends, best, 0)[0]
