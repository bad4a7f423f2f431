"""Bayes error of two Gaussian classes with different covariances, exact to about ten digits in any dimension.

With φ(s) = log ∫ (π₀p₀)^{1−s} (π₁p₁)^s (:mod:`~hardpan.bayes.gaussians.unequal_covariances`), the moment generating
function of the log density ratio, a generalised chi-square variable, inverting it for both classes gives

    E = 1/(2πi) ∫ exp φ(s) / (s (1 − s)) ds,

over any path from −i∞ to i∞ that crosses the real axis between 0 and 1: all singularities of the integrand are on
the real axis outside. The path starts at the saddle point c, the minimum of φ(s) − log s(1 − s), so that
exp φ(c) / (c (1 − c)) is taken out of the integral, and errors far below 1e-300 keep their relative accuracy. The
trapezoidal rule in u on s = c + w (i sinh u + b (cosh u − 1)) converges exponentially: b = 0 is the vertical line,
on which the integrand is nowhere larger than at c; in few dimensions it decays slowly there, and b = ±½ bends the
path to the side where it decays fastest. Two classes with one mean and proportional covariances have a closed form,
two incomplete gamma functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincc

from hardpan.bayes.gaussians.sampling import ScaledError
from hardpan.bayes.gaussians.shared_covariance import Float
from hardpan.bayes.gaussians.unequal_covariances import UnequalClasses
from hardpan.errors import HardpanError, InputError

Complex = NDArray[np.complex128]

TOLERANCE = 1e-11  # relative change of the integral when the step is halved
_SMALL = 1e-17  # integrands below this times the largest are left out
_BLOCK_NUMBERS = 2**18
_MOST_NODES = 2**15
_BENDS = (0.5, 0.0)
_SMALLEST = 1e-280


class NotConverged(HardpanError):
    """The integral did not converge to :data:`TOLERANCE`; use method="chernoff"."""


def contour_error(classes: UnequalClasses, **_: Any) -> ScaledError:
    """The error of two classes."""
    if len(classes.log_priors) != 2:
        raise InputError(
            f"must not be 'contour' for {len(classes.log_priors)} classes: it is for two; use 'chernoff'",
            argument="method",
        )
    return ScaledError(contour_log_error(*classes.ratios_gaps_counts(), classes.log_priors))


def contour_log_error(ratio: Float, gap: Float, times: Float, log_priors: Float) -> float:
    """Natural logarithm of the error.

    Args:
        ratio: (d,) λ₁/λ₀, precisions of class 1 where class 0 is standard normal.
        gap: (d,) squared differences of the means there.
        times: (d,) how many dimensions each entry stands for.
        log_priors: (2,).

    Example:
        >>> half = np.log([0.5, 0.5])
        >>> error = contour_log_error(np.ones(1), np.full(1, 4.0), np.ones(1), half)  # Φ(−1)
        >>> round(math.exp(error), 9)
        0.158655254
    """
    if (
        not gap.any()
        and np.all(ratio == ratio[0])
        and (error := _error_without_contour(float(ratio[0]), times, log_priors))
    ):
        return math.log(error)
    bend, pull = ratio - 1, gap * ratio
    slope = float(log_priors[1] - log_priors[0] + 0.5 * (times @ np.log(ratio)))

    def phi(s: Complex) -> Complex:
        """φ(s) at (n,) complex numbers."""
        total = np.empty(len(s), dtype=np.complex128)
        block = max(1, _BLOCK_NUMBERS // max(len(ratio), 1))
        for start in range(0, len(s), block):
            points = s[start : start + block, None]
            mixed = 1 + points * bend
            terms = np.log(mixed) + points * (1 - points) * pull / mixed
            total[start : start + block] = -0.5 * (terms @ times)
        return np.asarray(log_priors[0] + s * slope + total)

    def derivative(s: float) -> float:
        """φ′(s) at a real number."""
        mixed = 1 + s * bend
        terms = bend / mixed + pull * ((1 - 2 * s) * mixed - s * (1 - s) * bend) / np.square(mixed)
        return slope - 0.5 * float(terms @ times)

    centre, curvature = _contour_saddle_point(derivative)
    at_centre = float(phi(np.array([centre + 0j]))[0].real) - math.log(centre * (1 - centre))

    def integrand(s: Complex) -> Complex:
        with np.errstate(under="ignore", over="ignore", invalid="ignore"):
            return np.asarray(np.exp(phi(s) - at_centre) / (s * (1 - s)))

    # Far from the real axis φ is s times this, up to a constant; where some ratios are 1 it falls on its own.
    differ = np.abs(bend) > 1e-9
    far = slope + 0.5 * float((times * pull)[differ] @ (1 / bend[differ]))
    for tilt in _BENDS:
        integral = _contour_integral(integrand, centre, 1 / math.sqrt(curvature), -tilt * np.sign(far))
        if integral is not None:
            return at_centre + math.log(integral)
    raise NotConverged("the integral of method 'contour' did not converge; use method='chernoff'")


def _error_without_contour(ratio: float, times: Float, log_priors: Float) -> float:
    """Error of N(0, I) and N(0, I / ratio), or 0 where a part of it is too small for the incomplete gamma function.

    Class 1 is chosen where q = ‖x‖² is on one side of t = (2 log(π₀/π₁) − d log ratio) / (1 − ratio); q is χ²_d
    under class 0, and ratio · q under class 1.
    """
    half, (first, second) = 0.5 * float(times.sum()), np.exp(log_priors)
    if ratio == 1:
        return float(min(first, second))
    t = (2 * (log_priors[0] - log_priors[1]) - 2 * half * math.log(ratio)) / (1 - ratio)
    if t <= 0:
        return float(first if ratio < 1 else second)
    upper, lower = (gammaincc, gammainc) if ratio < 1 else (gammainc, gammaincc)
    errors = first * upper(half, t / 2), second * lower(half, ratio * t / 2)
    return float(sum(errors)) if min(errors) > _SMALLEST else 0.0


def _contour_saddle_point(derivative: Callable[[float], float]) -> tuple[float, float]:
    """The minimum of φ(s) − log s(1 − s), a convex function on (0, 1), and its second derivative there."""
    low, high = 0.0, 1.0

    def slope(s: float) -> float:
        return derivative(s) - 1 / s + 1 / (1 - s)

    for _ in range(60):
        middle = 0.5 * (low + high)
        if slope(middle) > 0:
            high = middle
        else:
            low = middle
        if high - low <= 1e-8 * min(low, 1 - high):  # near enough: any path close to the saddle gives the integral
            break
    centre = 0.5 * (low + high)
    width = 1e-4 * min(centre, 1 - centre)
    return centre, max((slope(centre + width) - slope(centre - width)) / (2 * width), 1e-300)


def _contour_integral(
    integrand: Callable[[Complex], Complex], centre: float, width: float, tilt: float
) -> float | None:
    """1/π Im ∫₀^∞ f(s(u)) s'(u) du, or None where it grows away from the centre or does not converge."""

    def values(u: Float) -> Float:
        s = centre + width * (1j * np.sinh(u) + tilt * (np.cosh(u) - 1))
        direction = width * (1j * np.cosh(u) + tilt * np.sinh(u))
        return np.asarray((integrand(s) * direction).imag)

    def sizes(u: Float) -> Float:
        s = centre + width * (1j * np.sinh(u) + tilt * (np.cosh(u) - 1))
        return np.asarray(np.abs(integrand(s)) * width * np.cosh(u))

    scan = np.linspace(0.0, 60.0, 241)
    result = sizes(scan)
    if not np.isfinite(result).all() or result.max() > 100 * result[0]:
        return None
    over = np.flatnonzero(result > _SMALL * result[0])
    end = float(scan[min(int(over[-1]) + 1, len(scan) - 1)])
    count = 32
    total = values(np.linspace(0.0, end, count + 1))
    total[[0, -1]] *= 0.5
    before = float(total.sum()) * end / count
    while count < _MOST_NODES:
        between = values((np.arange(count) + 0.5) * end / count)
        after = 0.5 * before + float(between.sum()) * 0.5 * end / count
        count *= 2
        if count > 64 and after > 0 and abs(after - before) <= TOLERANCE * after:
            return after / math.pi
        before = after
    return None
