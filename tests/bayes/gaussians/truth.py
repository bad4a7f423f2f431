"""Closed forms that the estimators are held against, written apart from them."""

from __future__ import annotations

import math
from itertools import pairwise

import mpmath
import numpy as np
from scipy import integrate, stats
from scipy.special import log_ndtr


def two_classes(distance: float, prior: float) -> mpmath.mpf:
    """Two classes of one covariance: π Φ(−t₁) + (1 − π) Φ(−t₂), with fifty digits."""
    with mpmath.workdps(50):
        d, p = mpmath.mpf(distance), mpmath.mpf(prior)
        shift = mpmath.log(p / (1 - p)) / d
        return p * mpmath.ncdf(-(d / 2 + shift)) + (1 - p) * mpmath.ncdf(-(d / 2 - shift))


def equidistant(n_classes: int, length: float) -> float:
    """K means of one length on orthogonal axes, uniform priors: ∫ φ(x − a) (1 − Φ(x)^{K−1}) dx."""

    def density(x: float) -> float:
        return (
            math.exp(-0.5 * (x - length) ** 2) / math.sqrt(2 * math.pi) * -math.expm1((n_classes - 1) * log_ndtr(x))
        )

    edges = np.linspace(-9, length + 9, 13)
    return sum(integrate.quad(density, a, b, epsabs=0, epsrel=1e-11)[0] for a, b in pairwise(edges))


def lattice(distances: tuple[float, ...], priors: tuple[float, ...]) -> float:
    """Corners of a box with independent priors in each coordinate: right in all coordinates or wrong."""
    right = 1.0
    for distance, prior in zip(distances, priors, strict=True):
        right *= 1 - float(two_classes(distance, prior))
    return 1 - right


def lattice_problem(distances: tuple[float, ...], priors: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Means (2^m, m) and priors (2^m,) of :func:`lattice`."""
    corners = np.indices((2,) * len(distances)).reshape(len(distances), -1).T
    weights = np.prod(np.where(corners == 0, priors, 1 - np.array(priors)), axis=1)
    return corners * np.array(distances), weights


def concentric(dimension: int, scale: float) -> float:
    """N(0, I) against N(0, s²I), uniform priors: the radius decides, and it is χ² in both classes."""
    cut = 2 * dimension * math.log(scale) / (1 - scale**-2)
    return 0.5 * float(stats.chi2.sf(cut, dimension) + stats.chi2.cdf(cut / scale**2, dimension))


def on_a_line(means: np.ndarray, priors: np.ndarray, variances: np.ndarray) -> float:
    """Any Gaussian classes in one dimension, by quadrature of the whole minus the largest joint density."""
    deviations = np.sqrt(variances)
    places = means[:, None] + deviations[:, None] * np.linspace(-12, 12, 97)
    # Between the points where two joints are equal the integrand is smooth.
    crossings = _crossings(means, priors, variances)
    crossings = crossings[(crossings > places.min()) & (crossings < places.max())]
    edges = np.unique(np.concatenate([places.ravel(), crossings]))
    nodes, weights = np.polynomial.legendre.leggauss(16)
    half = np.diff(edges)[:, None] / 2
    x = edges[:-1, None] + half * (1 + nodes)
    joints = np.sort(
        priors[:, None, None] * stats.norm.pdf(x, means[:, None, None], deviations[:, None, None]), axis=0
    )
    return float(np.sum(joints[:-1].sum(axis=0) * weights * half))


def _crossings(means: np.ndarray, priors: np.ndarray, variances: np.ndarray) -> np.ndarray:
    logs = np.log(priors) - 0.5 * np.log(variances)
    found = [np.empty(0)]
    for k in range(len(means)):
        for j in range(k):
            quadratic = -0.5 / variances[k] + 0.5 / variances[j]
            linear = means[k] / variances[k] - means[j] / variances[j]
            constant = logs[k] - logs[j] - means[k] ** 2 / variances[k] / 2 + means[j] ** 2 / variances[j] / 2
            roots = np.roots([quadratic, linear, constant])
            found.append(np.real(roots[np.isreal(roots)]))
    return np.concatenate(found)
