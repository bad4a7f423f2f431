"""The Bayes error of Gaussian classes: one function, six methods."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from hardpan.arguments import one_of, real_number, whole_number
from hardpan.bayes.gaussians import chernoff, contour, exact, hdr, importance, montecarlo
from hardpan.bayes.gaussians.problem import SharedProblem, check_means, shared_problem
from hardpan.bayes.gaussians.sampling import MAX_DRAWS, Outcome
from hardpan.bayes.gaussians.unequal import UnequalClasses, check_covs, unequal_classes
from hardpan.errors import InputError
from hardpan.estimates import Estimate

# From a problem and the options seed, rtol, max_draws to an Outcome: a new method is a file with run() and a line.
SHARED: dict[str, Callable[..., Outcome]] = {
    "exact": exact.run,
    "importance": importance.run,
    "hdr": hdr.run,
    "montecarlo": montecarlo.run,
}
UNEQUAL: dict[str, Callable[..., Outcome]] = {
    "contour": contour.run,
    "chernoff": chernoff.run,
    "montecarlo": montecarlo.run,
}
METHODS = ("auto", *dict.fromkeys([*SHARED, *UNEQUAL]))


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
            - "hdr": Holmes–Diaconis–Ross integration, as the paper (:mod:`hardpan.bayes.gaussians.hdr`);
            - "montecarlo": plain Monte Carlo, the baseline.

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
    check_options(method, rtol, seed, max_draws)
    if covs is not None and cov is not None:
        raise InputError("cov and covs exclude each other; got both: give covs for one covariance per class")
    if covs is not None:
        array = check_covs(covs, *check_means(means).shape)
        if method in ("chernoff", "contour") or np.any(array != array[:1]):
            classes = unequal_classes(means, array, priors, temperature)
            return solve(classes, method, rtol=rtol, seed=seed, max_draws=max_draws)
        cov = array[0]  # one covariance after all
    problem = shared_problem(means, cov, priors).at(temperature)
    return solve(problem, method, rtol=rtol, seed=seed, max_draws=max_draws)


def solve(
    problem: SharedProblem | UnequalClasses, method: str, *, rtol: float, seed: int, max_draws: int = MAX_DRAWS
) -> Estimate:
    """The error of a checked problem by a named method."""
    if len(problem.log_priors) == 1:
        return Estimate(0.0, 0.0, 0.0, 0.0, method="exact", notes=("one class only: no error",), log10=-math.inf)
    if isinstance(problem, SharedProblem):
        fitting, described = SHARED, "one covariance for all classes"
        best = "exact" if problem.coordinates.shape[1] <= 1 else "importance"
    else:
        fitting, described = UNEQUAL, "a covariance for each class"
        best = "contour" if len(problem.log_priors) == 2 else "chernoff"
    automatic = method == "auto"
    method = best if automatic else method
    if method not in fitting:
        raise InputError(f"method {method!r} cannot be used with {described}; use one of {', '.join(fitting)}")
    try:
        result = fitting[method](problem, seed=seed, rtol=rtol, max_draws=max_draws)
    except contour.NotConverged:
        if not automatic:
            raise
        method = "chernoff"
        result = fitting[method](problem, seed=seed, rtol=rtol, max_draws=max_draws)
    return result.estimate(method=method, seed=seed, rtol=rtol)


def check_options(method: str, rtol: float, seed: int, max_draws: int) -> None:
    """Check the options that every estimator takes."""
    one_of("method", method, METHODS)
    real_number("rtol", rtol, "(0, 1)")
    whole_number("seed", seed)
    whole_number("max_draws", max_draws, 1)
