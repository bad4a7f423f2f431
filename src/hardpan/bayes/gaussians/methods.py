"""The Bayes error of Gaussian classes: one function, five methods; and the posterior of their classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, logsumexp, softmax

from hardpan import arguments
from hardpan.arguments import one_of, real_number, whole_number
from hardpan.bayes.gaussians.chernoff import chernoff_error
from hardpan.bayes.gaussians.contour import NotConverged, contour_error
from hardpan.bayes.gaussians.hdr import hdr_error
from hardpan.bayes.gaussians.importance import importance_error
from hardpan.bayes.gaussians.sampling import MAX_DRAWS, ScaledError
from hardpan.bayes.gaussians.shared_covariance import (
    Float,
    SharedClasses,
    check_cov,
    check_means,
    check_priors,
    shared_classes,
    whitened_rows,
)
from hardpan.bayes.gaussians.unequal_covariances import UnequalClasses, check_covs, unequal_classes
from hardpan.errors import InputError
from hardpan.estimates import Estimate


def gaussian(
    means: ArrayLike,
    cov: ArrayLike | None = None,
    priors: ArrayLike | None = None,
    *,
    covs: ArrayLike | None = None,
    temperature: float = 1.0,
    method: str = "auto",
    rtol: float = 1e-3,
    seed: int = 0,
    max_draws: int = MAX_DRAWS,
) -> Estimate:
    """Bayes error of classes N(means[k], τ²Σ) or N(means[k], τ²Σ_k).

    E = ∫ (Σ_k π_k p_k(z) − max_k π_k p_k(z)) dz, the error of the best possible classifier.

    Args:
        means: (K, d); may be a memory-mapped float32 array, which is read in blocks.
        cov: covariance shared by all classes: None (identity), scalar, (d,) diagonal, or (d, d).
        priors: (K,), nonnegative and of sum 1; default uniform. Classes with prior 0 do not count.
        covs: one covariance per class instead: (K,) isotropic, (K, d) diagonal, or (K, d, d).
        temperature: τ; multiplies every covariance by τ².
        method: "auto", or by name:

            - "exact": two classes with one covariance, or means on one line;
            - "importance": shared covariance, bounded weights (:mod:`hardpan.bayes.gaussians.importance`);
            - "contour": two classes whose covariances differ, exact (:mod:`hardpan.bayes.gaussians.contour`);
            - "chernoff": covariances that differ (:mod:`hardpan.bayes.gaussians.chernoff`);
            - "hdr": Holmes–Diaconis–Ross integration, as the paper (:mod:`hardpan.bayes.gaussians.hdr`).

        rtol: draw until the standard error is below rtol times the value ...
        max_draws: ... or this many draws are made; ``notes`` says when the cap came first.
        seed: same seed, same result.

    Returns:
        An :class:`~hardpan.estimates.Estimate`; ``log10`` is right far below 1e-308, where ``value`` is 0.

    Reference:
        Theisen et al. 2021, "Evaluating State-of-the-Art Classification Models Against Bayes Optimality", Eqs. 4–8,
        there for uniform priors; the estimators "importance" and "chernoff" are this package's own.

    Example:
        >>> gaussian([[0.0, 0.0], [2.0, 0.0]])  # Φ(−1)
        Estimate(0.158655 ± 0, 95 % [0.158655, 0.158655], exact)
        >>> e = gaussian([[0, 0], [4, 0], [0, 4]], priors=[0.5, 0.25, 0.25])
        >>> e.method, round(e.value, 4)
        ('importance', 0.0321)
    """
    temperature = real_number("temperature", temperature, "(0, inf)")
    check_integration_options(method, rtol, seed, max_draws)
    if covs is not None and cov is not None:
        raise InputError("must not both be given; use covs for one covariance per class", argument=("cov", "covs"))
    if covs is not None:
        array = check_covs(covs, *check_means(means).shape)
        if method in ("chernoff", "contour") or np.any(array != array[:1]):
            classes = unequal_classes(means, array, priors, temperature)
            return solve_classes(classes, method, rtol=rtol, seed=seed, max_draws=max_draws)
        cov = array[0]  # one covariance after all
    shared = shared_classes(means, cov, priors).at(temperature)
    return solve_classes(shared, method, rtol=rtol, seed=seed, max_draws=max_draws)


def solve_classes(
    classes: SharedClasses | UnequalClasses, method: str, *, rtol: float, seed: int, max_draws: int = MAX_DRAWS
) -> Estimate:
    """The error of checked classes by a named method."""
    if len(classes.log_priors) == 1:
        return Estimate(0.0, 0.0, 0.0, 0.0, method="exact", notes=("one class only: no error",), log10=-math.inf)
    if isinstance(classes, SharedClasses):
        fitting, described = SHARED_METHODS, "one covariance for all classes"
        best = "exact" if classes.coordinates.shape[1] <= 1 else "importance"
    else:
        fitting, described = UNEQUAL_METHODS, "a covariance for each class"
        best = "contour" if len(classes.log_priors) == 2 else "chernoff"
    automatic = method == "auto"
    method = best if automatic else method
    if method not in fitting:
        raise InputError(f"must be one of {', '.join(fitting)} for {described}; got {method!r}", argument="method")
    try:
        result = fitting[method](classes, seed=seed, rtol=rtol, max_draws=max_draws)
    except NotConverged:
        if not automatic:
            raise
        method = "chernoff"
        result = fitting[method](classes, seed=seed, rtol=rtol, max_draws=max_draws)
    return result.estimate(method=method, seed=seed, rtol=rtol)


def check_integration_options(method: str, rtol: float, seed: int, max_draws: int) -> None:
    """Check the options that every estimator takes."""
    one_of("method", method, METHODS)
    real_number("rtol", rtol, "(0, 1)")
    whole_number("seed", seed)
    whole_number("max_draws", max_draws, 1)


def exact_error(classes: SharedClasses, **_: Any) -> ScaledError:
    """The closed form for two classes, or for means on one line (r ≤ 1).

    On the line the log joint densities of N(c_k, 1) differ by straight lines in x, so the winners are the upper
    envelope of K lines. A winner k loses beyond its neighbours j on the envelope; every other class always loses:

        E = Σ_{k never wins} π_k + Σ_{k wins} π_k Σ_{j beside k} Φ(−t_kj),
        t_kj = |c_j − c_k| / 2 + log(π_k / π_j) / |c_j − c_k|.

    All terms are positive, so nothing cancels, however small the error is.
    """
    log_priors = classes.log_priors
    if classes.coordinates.shape[1] > 1:
        raise InputError(
            "must not be 'exact' unless there are two classes or means on one line; "
            f"got {len(log_priors)} classes in {classes.coordinates.shape[1]} dimensions: use 'importance'",
            argument="method",
        )
    positions = classes.coordinates[:, 0] if classes.coordinates.shape[1] else np.zeros(len(log_priors))
    winners = _winning_classes(positions, log_priors)
    terms = list(log_priors[np.setdiff1d(np.arange(len(log_priors)), winners)])
    for left, right in pairwise(winners):
        distance = positions[right] - positions[left]
        shift = (log_priors[left] - log_priors[right]) / distance
        terms.append(log_priors[left] + log_ndtr(-(distance / 2 + shift)))
        terms.append(log_priors[right] + log_ndtr(-(distance / 2 - shift)))
    return ScaledError(float(logsumexp(terms)) if terms else -np.inf)


def _winning_classes(positions: Float, log_priors: Float) -> list[int]:
    """Classes that win somewhere, from left to right."""
    winners: list[int] = []
    for k in np.lexsort((log_priors, positions)):
        if winners and positions[winners[-1]] == positions[k]:
            winners.pop()  # same place, and the order of the sort gives k the larger prior
        while len(winners) >= 2 and _decision_boundary(positions, log_priors, winners[-1], k) <= _decision_boundary(
            positions, log_priors, winners[-2], winners[-1]
        ):
            winners.pop()
        winners.append(int(k))
    return winners


def _decision_boundary(positions: Float, log_priors: Float, left: int, right: int) -> float:
    """Where the joint densities of two neighbours are equal."""
    distance = positions[right] - positions[left]
    return float((positions[left] + positions[right]) / 2 + (log_priors[left] - log_priors[right]) / distance)


# From checked classes and the options seed, rtol and max_draws to the error: a new method is a function and a line.
SHARED_METHODS: dict[str, Callable[..., ScaledError]] = {
    "exact": exact_error,
    "importance": importance_error,
    "hdr": hdr_error,
}
UNEQUAL_METHODS: dict[str, Callable[..., ScaledError]] = {"contour": contour_error, "chernoff": chernoff_error}
METHODS = ("auto", *SHARED_METHODS, *UNEQUAL_METHODS)


def posterior(
    x: ArrayLike,
    means: ArrayLike,
    cov: ArrayLike | None = None,
    priors: ArrayLike | None = None,
    *,
    covs: ArrayLike | None = None,
    temperature: float = 1.0,
) -> Float:
    """P(class | x) for classes N(means[k], τ²Σ) or N(means[k], τ²Σ_k), shape (n, K).

    P(k | x) = π_k p_k(x) / Σ_i π_i p_i(x). Its largest entry is the decision that no classifier can beat.

    Args:
        x: (n, d) or (d,), which counts as one row.
        means: (K, d); with cov, priors, covs and temperature as in :func:`hardpan.bayes.gaussian`.

    Example:
        >>> posterior([[1.0], [0.0]], means=[[0.0], [2.0]]).round(3).tolist()
        [[0.5, 0.5], [0.881, 0.119]]
    """
    return np.asarray(softmax(_log_joint_densities(x, means, cov, priors, covs, temperature), axis=1))


def _log_joint_densities(
    x: ArrayLike,
    means: ArrayLike,
    cov: ArrayLike | None,
    priors: ArrayLike | None,
    covs: ArrayLike | None,
    temperature: float,
) -> Float:
    centres = arguments.real_numbers("means", check_means(means))
    rows = np.atleast_2d(arguments.real_numbers("x", x))
    n_classes, d = centres.shape
    if rows.ndim != 2 or rows.shape[1] != d:
        raise InputError(f"must have shape (n, {d}) to match means; got shape {rows.shape}", argument="x")
    if cov is not None and covs is not None:
        raise InputError("must not both be given; use covs for one covariance per class", argument=("cov", "covs"))
    tau = arguments.real_number("temperature", temperature, "(0, inf)")
    with np.errstate(divide="ignore"):
        log_priors = np.log(check_priors(priors, n_classes))
    if covs is None:
        # One whitening serves all classes, and differences from their centre keep the digits that decide.
        shared, centre = check_cov(cov, d), centres.mean(axis=0)
        white, _ = whitened_rows("cov", shared, rows - centre, tau)
        targets, _ = whitened_rows("cov", shared, centres - centre, tau)
        return np.asarray(white @ targets.T - 0.5 * np.einsum("kd,kd->k", targets, targets) + log_priors)
    own = check_covs(covs, n_classes, d)
    result = np.empty((len(rows), n_classes))
    for k in range(n_classes):
        white, log_scale = whitened_rows(f"covs[{k}]", own[k], rows - centres[k], tau)
        result[:, k] = log_priors[k] - log_scale - 0.5 * np.einsum("nd,nd->n", white, white)
    return result
