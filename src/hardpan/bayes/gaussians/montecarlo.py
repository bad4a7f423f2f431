"""The honest baseline: the mean of 1 − max posterior over independent draws from the classes."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from hardpan.bayes.gaussians.importance import PairProposal
from hardpan.bayes.gaussians.problem import Float, Index, SharedProblem
from hardpan.bayes.gaussians.sampling import MAX_DRAWS, NO_OTHERS, Outcome, replicate
from hardpan.bayes.gaussians.unequal import UnequalClasses

_NOWHERE = np.zeros(1)  # a draw without condition goes in no direction


def run(problem: SharedProblem | UnequalClasses, *, seed: int, rtol: float, max_draws: int = MAX_DRAWS) -> Outcome:
    """The error itself."""
    if isinstance(problem, SharedProblem):
        proposal = PairProposal(problem)
        n_uniform, n_normal = 0, proposal.n_normal

        def log_joints(labels: Index, uniforms: Float, normals: Float) -> Float:
            """Of all classes (n, K), at a draw from each class of ``labels`` (n,)."""
            return proposal.log_joints(labels, labels, _NOWHERE, normals)
    else:
        classes = problem
        n_uniform, n_normal = classes.n_uniform, classes.n_normal

        def log_joints(labels: Index, uniforms: Float, normals: Float) -> Float:
            return classes.log_joints(classes.draw(labels, labels, np.zeros(len(labels)), uniforms, normals))

    cdf = np.cumsum(np.exp(problem.log_priors))
    cdf /= cdf[-1]

    def integrands(uniforms: Float, normals: Float) -> tuple[Float, Float]:
        labels = np.minimum(np.searchsorted(cdf, uniforms[:, 0], side="right"), len(cdf) - 1)
        posterior = softmax(log_joints(labels, uniforms[:, 1:], normals), axis=1)
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
