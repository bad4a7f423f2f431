"""Closed forms: two classes with one covariance, and any number of classes whose means lie on one line."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.special import log_ndtr, logsumexp

from hardpan.bayes.gaussians.problem import Float, SharedProblem
from hardpan.bayes.gaussians.sampling import MAX_DRAWS, Outcome
from hardpan.errors import InputError


def run(problem: SharedProblem, *, seed: int = 0, rtol: float = 0.0, max_draws: int = MAX_DRAWS) -> Outcome:
    """The closed form; the options of the methods that draw have no effect on it."""
    return Outcome(log_error(problem))


def log_error(problem: SharedProblem) -> float:
    """Natural logarithm of the Bayes error of classes on one line (r ≤ 1); −inf for a single class.

    On the line the log joint densities of N(c_k, 1) differ by straight lines in x, so the winners are the upper
    envelope of K lines. A winner k loses beyond its neighbours j on the envelope; every other class always loses:

        E = Σ_{k never wins} π_k + Σ_{k wins} π_k Σ_{j beside k} Φ(−t_kj),
        t_kj = |c_j − c_k| / 2 + log(π_k / π_j) / |c_j − c_k|.

    All terms are positive, so nothing cancels, however small the error is.
    """
    log_priors = problem.log_priors
    if problem.coordinates.shape[1] > 1:
        raise InputError(
            "'exact' needs two classes, or means on one line; "
            f"got {len(log_priors)} classes in {problem.coordinates.shape[1]} dimensions: use method='importance'",
            argument="method",
        )
    positions = problem.coordinates[:, 0] if problem.coordinates.shape[1] else np.zeros(len(log_priors))
    winners = _envelope(positions, log_priors)
    terms = list(log_priors[np.setdiff1d(np.arange(len(log_priors)), winners)])
    for left, right in pairwise(winners):
        distance = positions[right] - positions[left]
        shift = (log_priors[left] - log_priors[right]) / distance
        terms.append(log_priors[left] + log_ndtr(-(distance / 2 + shift)))
        terms.append(log_priors[right] + log_ndtr(-(distance / 2 - shift)))
    return float(logsumexp(terms)) if terms else -np.inf


def _envelope(positions: Float, log_priors: Float) -> list[int]:
    """Classes that win somewhere, from left to right."""
    winners: list[int] = []
    for k in np.lexsort((log_priors, positions)):
        if winners and positions[winners[-1]] == positions[k]:
            winners.pop()  # same place, and the order of the sort gives k the larger prior
        while len(winners) >= 2 and _meeting(positions, log_priors, winners[-1], k) <= _meeting(
            positions, log_priors, winners[-2], winners[-1]
        ):
            winners.pop()
        winners.append(int(k))
    return winners


def _meeting(positions: Float, log_priors: Float, left: int, right: int) -> float:
    """Where the joint densities of two neighbours are equal."""
    distance = positions[right] - positions[left]
    return float((positions[left] + positions[right]) / 2 + (log_priors[left] - log_priors[right]) / distance)
