"""Inputs of the Gaussian topics, the closed forms that they are held against, and rows with several requirements.

Nothing here uses hardpan: these numbers are an outside opinion.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import integrate, optimize
from scipy.special import log_ndtr, ndtr, ndtri_exp


def unit_means(classes: int, dimension: int, seed: int = 0) -> np.ndarray:
    """Random unit vectors (K, d), as in the paper."""
    means = np.random.default_rng(seed).standard_normal((classes, dimension))
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def warm_up() -> None:
    """Import what a first call would import, so that calls are timed and not imports."""
    for name in ("hardpan.bayes", "scipy.stats.qmc"):
        importlib.import_module(name)


def exact_distance(means: np.ndarray, variances: np.ndarray | None = None) -> Any:
    """Mahalanobis distance of two means, as an mpmath number of 50 digits, from the given doubles."""
    import mpmath

    with mpmath.workdps(50):
        gaps = [mpmath.mpf(float(b)) - mpmath.mpf(float(a)) for a, b in zip(*means, strict=True)]
        squares = [gap * gap for gap in gaps]
        if variances is not None:
            squares = [square / mpmath.mpf(float(v)) for square, v in zip(squares, variances, strict=True)]
        return mpmath.sqrt(mpmath.fsum(squares))


def two_classes(distance: Any, priors: Sequence[float]) -> Any:
    """Error of two classes at this distance: π₁ Φ(−t₁) + π₂ Φ(−t₂), with 50 digits."""
    import mpmath

    with mpmath.workdps(50):
        first, second = (mpmath.mpf(float(prior)) for prior in priors)
        first, second = first / (first + second), second / (first + second)
        shift = mpmath.log(first / second) / distance
        root = mpmath.sqrt(2)
        return (
            first * mpmath.erfc((distance / 2 + shift) / root) / 2
            + second * mpmath.erfc((distance / 2 - shift) / root) / 2
        )


def distance_for(error: float) -> float:
    """Distance of two unit-variance classes with equal priors and this error."""
    return float(-2 * ndtri_exp(math.log(error)))


def equidistant(classes: int, length: float) -> float:
    """Error of classes N(a·e_k, I), a the length: 1 − ∫ φ(x − a) Φ(x)^{K−1} dx, without the cancellation."""

    def lost(noise: float) -> float:
        density = math.exp(-noise * noise / 2) / math.sqrt(2 * math.pi)
        return -density * math.expm1((classes - 1) * float(log_ndtr(length + noise)))

    # The integrand is largest where noise and the others' maximum meet, about half way.
    points = sorted({-length / 2 + step for step in (-6, -3, -1, 0, 1, 3, 6)})
    edges = [-length - 40, *points, max(points[-1], 0) + 40]
    return math.fsum(
        integrate.quad(lost, left, right, epsabs=0, epsrel=1e-11, limit=500)[0] for left, right in pairwise(edges)
    )


def length_for(classes: int, error: float) -> float:
    """The length a at which equidistant classes have this error."""
    return float(
        optimize.brentq(
            lambda a: math.log(max(equidistant(classes, a), 1e-300) / error), 1e-3, 60.0, xtol=1e-12, rtol=1e-12
        )
    )


def lattice(lengths: Sequence[float], shares: Sequence[float]) -> tuple[np.ndarray, np.ndarray, float]:
    """Means on the corners of a box, product priors, and the error: every axis is a problem of two classes.

    A decision is right iff every axis is: E = 1 − Π (1 − E_i).
    """
    corners = np.array(np.meshgrid(*[(0, 1)] * len(lengths), indexing="ij")).reshape(len(lengths), -1).T
    means = corners * np.asarray(lengths)
    priors = np.prod(np.where(corners == 1, shares, 1 - np.asarray(shares)), axis=1)
    right = 0.0
    for length, share in zip(lengths, shares, strict=True):
        shift = math.log((1 - share) / share) / length
        error = (1 - share) * ndtr(-(length / 2 + shift)) + share * ndtr(-(length / 2 - shift))
        right += math.log1p(-float(error))
    return means, priors, -math.expm1(right)


def concentric(variances: Sequence[float], dimension: int) -> float:
    """Error of classes N(0, v_k I) with equal priors, by the χ² distribution of the squared radius."""
    from scipy.stats import chi2

    spread = np.sort(np.asarray(variances, dtype=float))
    # Joints differ in ρ = |z|² by straight lines of their logarithms: the winners change from narrow to wide.
    meet = [dimension * math.log(wide / narrow) / (1 / narrow - 1 / wide) for narrow, wide in pairwise(spread)]
    assert meet == sorted(meet), "a class never wins: this closed form does not cover that"
    terms = []
    for k, variance in enumerate(spread):
        if k < len(meet):
            terms.append(chi2.sf(meet[k] / variance, dimension))
        if k > 0:
            terms.append(chi2.cdf(meet[k - 1] / variance, dimension))
    return math.fsum(terms) / len(spread)


def scale_for(dimension: int, error: float) -> float:
    """The s > 1 at which N(0, I) and N(0, s²I) have this error."""
    return float(
        optimize.brentq(
            lambda s: math.log(max(concentric([1.0, s * s], dimension), 1e-300) / error),
            1 + 1e-6,
            50.0,
            xtol=1e-13,
            rtol=1e-13,
        )
    )


def together(*checks: Mapping[str, Any]) -> dict[str, Any]:
    """Several requirements of one row: all in words, and whether all are met."""
    return {
        "must": "; ".join(check["must"] for check in checks),
        "met": all(check["met"] for check in checks),
    }
