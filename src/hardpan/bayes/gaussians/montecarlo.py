"""The honest baseline: the mean of 1 − max posterior over independent draws from the classes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import softmax

from hardpan.bayes.gaussians.importance import PairProposal
from hardpan.bayes.gaussians.problem import Float, Index, SharedProblem
from hardpan.bayes.gaussians.sampling import MAX_DRAWS, NO_OTHERS, Outcome, replicate
from hardpan.bayes.gaussians.unequal import UnequalClasses

# From class numbers (n,), uniforms (n, u) and normals (n, m) to log joints (n, K) at draws from those classes.
LogJoints = Callable[[Index, Float, Float], Float]


def run(problem: SharedProblem | UnequalClasses, *, seed: int, rtol: float, max_draws: int = MAX_DRAWS) -> Outcome:
    """The error itself."""
    if isinstance(problem, SharedProblem):
        n_uniform, n_normal, at_draws = 0, problem.coordinates.shape[1], _shared(PairProposal(problem))
    else:
        n_uniform, n_normal, at_draws = problem.n_uniform, problem.n_normal, _unequal(problem)
    cdf = np.cumsum(np.exp(problem.log_priors))
    cdf /= cdf[-1]

    def integrands(uniforms: Float, normals: Float) -> tuple[Float, Float]:
        labels = np.minimum(np.searchsorted(cdf, uniforms[:, 0], side="right"), len(cdf) - 1)
        posterior = softmax(at_draws(labels, uniforms[:, 1:], normals), axis=1)
        posterior.sort(axis=1)
        return np.asarray(posterior[:, :-1].sum(axis=1)), NO_OTHERS  # not 1 − max, which rounds small errors away

    width = max(n_normal, len(problem.log_priors))
    result = replicate(
        integrands,
        n_uniform=1 + n_uniform,
        n_normal=n_normal,
        width=width,
        seed=seed,
        rtol=rtol,
        max_draws=max_draws,
        net=False,
    )
    return Outcome(0.0, result, bounds=(0.0, 1.0))


_NOWHERE = np.zeros(1)  # a draw without condition goes in no direction


def _shared(proposal: PairProposal) -> LogJoints:
    return lambda labels, _, normals: proposal.log_joints(labels, labels, _NOWHERE, normals)


def _unequal(classes: UnequalClasses) -> LogJoints:
    def at_draws(labels: Index, uniforms: Float, normals: Float) -> Float:
        return classes.log_joints(classes.draw(labels, labels, np.zeros(len(labels)), uniforms, normals))

    return at_draws
