"""Two classes with different covariances by contour integration: closed forms, also far in the tail."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from tests.refusals import refused

from hardpan import bayes
from hardpan.bayes.gaussians import contour


def on_a_line(distance: float, variance: float, prior: float) -> mpmath.mpf:
    """The error of N(0, 1) and N(distance, variance), from the roots of their log density ratio."""
    with mpmath.workdps(60):
        d, v, p = (mpmath.mpf(value) for value in (distance, variance, prior))
        square, line = (1 / v - 1) / 2, -d / v
        constant = d * d / v / 2 + mpmath.log(v) / 2 + mpmath.log(p / (1 - p))
        under = line**2 - 4 * square * constant
        if under <= 0:
            return min(p, 1 - p)
        low, high = sorted((-line + sign * mpmath.sqrt(under)) / (2 * square) for sign in (-1, 1))
        deviation = mpmath.sqrt(v)
        inner, outer = (low, high), ((low - d) / deviation, (high - d) / deviation)
        if square > 0:
            return p * _between(*inner) + (1 - p) * _outside(*outer)
        return p * _outside(*inner) + (1 - p) * _between(*outer)


def _between(low: mpmath.mpf, high: mpmath.mpf) -> mpmath.mpf:
    if low > 0:
        low, high = -high, -low
    return mpmath.ncdf(high) - mpmath.ncdf(low)


def _outside(low: mpmath.mpf, high: mpmath.mpf) -> mpmath.mpf:
    return mpmath.ncdf(low) + mpmath.ncdf(-high)


@pytest.mark.parametrize("seed", range(40))
def test_one_dimension_has_a_closed_form(seed: int) -> None:
    rng = np.random.default_rng(seed)
    variance, distance, prior = math.exp(rng.normal()), 3 * rng.normal(), rng.uniform(0.02, 0.98)
    found = bayes.gaussian([[0.0], [distance]], covs=[[1.0], [variance]], priors=[prior, 1 - prior])
    assert found.method == "contour"
    assert found.value == pytest.approx(float(on_a_line(distance, variance, prior)), rel=1e-11)


@pytest.mark.parametrize("distance", [40.0, 80.0, 200.0])
def test_tails_beyond_what_floats_hold(distance: float) -> None:
    found = bayes.gaussian([[0.0], [distance]], covs=[[1.0], [1.7]])
    expected = mpmath.log10(on_a_line(distance, 1.7, 0.5))
    assert found.log10 == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("variance", [1.0, 1 + 1e-12, 1 + 1e-6])
@pytest.mark.parametrize("distance", [0.0, 1e-3, 2.0, 30.0])
def test_nearly_equal_covariances_give_the_shared_closed_form(variance: float, distance: float) -> None:
    priors = [0.4, 0.6]
    means = [[0.0, 0.0], [distance, 0.0]]
    found = bayes.gaussian(means, covs=[[1.0, 1.0], [variance, 1.0]], priors=priors, method="contour")
    shared = bayes.gaussian(means, priors=priors)
    assert found.log10 == pytest.approx(shared.log10, rel=2e-6)


def test_matrices_diagonals_and_a_turned_frame_agree() -> None:
    rng = np.random.default_rng(0)
    means, variances = rng.normal(size=(2, 6)), np.exp(rng.normal(size=(2, 6)))
    turn = np.linalg.qr(rng.normal(size=(6, 6))).Q
    plain = bayes.gaussian(means, covs=variances).value
    turned = [turn @ np.diag(row) @ turn.T for row in variances]
    assert bayes.gaussian(means @ turn.T, covs=np.array(turned)).value == pytest.approx(plain, rel=1e-9)
    swapped = bayes.gaussian(means[::-1], covs=variances[::-1]).value
    assert swapped == pytest.approx(plain, rel=1e-9)


def test_many_dimensions_agree_with_importance_sampling() -> None:
    rng = np.random.default_rng(3)
    means, variances = 0.1 * rng.normal(size=(2, 200)), np.exp(0.3 * rng.normal(size=(2, 200)))
    exact = bayes.gaussian(means, covs=variances, priors=[0.3, 0.7])
    sampled = bayes.gaussian(means, covs=variances, priors=[0.3, 0.7], method="chernoff", rtol=1e-2)
    assert abs(sampled.value - exact.value) < 5 * sampled.stderr


def test_it_is_for_two_classes() -> None:
    with refused("method"):
        bayes.gaussian(np.zeros((3, 1)), covs=[1.0, 2.0, 3.0], method="contour")
    assert issubclass(contour.NotConverged, Exception)


@pytest.mark.parametrize("priors", [(0.5, 0.5), (0.98, 0.02), (0.02, 0.98)])
@pytest.mark.parametrize(("d", "ratio"), [(1, 0.01), (2, 3.0), (10, 0.113), (10, 8.85), (100, 0.5), (5000, 0.25)])
def test_one_mean_and_proportional_covariances(d: int, ratio: float, priors: tuple[float, float]) -> None:
    log_priors, times = np.log(priors), np.array([float(d)])
    closed = contour.contour_log_error(np.array([ratio]), np.zeros(1), times, log_priors)
    # Means that differ by nothing visible go through the integral.
    integral = contour.contour_log_error(np.array([ratio]), np.full(1, 1e-200), times, log_priors)
    assert closed == pytest.approx(integral, rel=1e-9, abs=1e-9)
