"""The true posterior of Gaussian classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from hardpan import arguments
from hardpan.bayes.gaussians.shared_covariance import Float, check_cov, check_means, check_priors, whitened_rows
from hardpan.bayes.gaussians.unequal_covariances import check_covs
from hardpan.errors import InputError


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
