"""The dial: monotone, invertible, and honest about its range."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bayes.gaussians import truth
from tests.refusals import refused

from hardpan import bayes

TRIANGLE = 4.0 * np.eye(3)


def test_curve_against_closed_forms() -> None:
    temperatures = [2.0, 0.5, 1.0]  # in any order
    curve = bayes.gaussian_curve(TRIANGLE, temperatures=temperatures)
    assert curve.temperatures == (2.0, 0.5, 1.0)
    assert "isotonic" in curve.method
    for t, estimate in zip(curve.temperatures, curve.estimates, strict=True):
        assert abs(estimate.value - truth.equidistant(3, 4.0 / t)) <= 5 * estimate.stderr


def test_curve_never_falls() -> None:
    means = np.random.default_rng(0).normal(size=(6, 5))
    curve = bayes.gaussian_curve(means, temperatures=np.geomspace(0.02, 50, 60), rtol=0.05)
    logs = [e.log10 for e in curve.estimates if e.log10 is not None]
    assert len(logs) == 60
    assert all(a <= b for a, b in pairwise(logs))


def test_curve_with_a_covariance_for_each_class_may_fall() -> None:
    # Three long ellipses at 0, 60 and 120 degrees, moved across their long axes by 2.
    angles = np.deg2rad([0, 60, 120])
    turns = np.array([[[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]] for a in angles])
    covs = turns @ np.diag([100.0, 1.0]) @ turns.transpose(0, 2, 1)
    means = turns @ np.array([0.0, 2.0])
    curve = bayes.gaussian_curve(means, covs=covs, temperatures=[0.5, 1.0, 1000.0])
    assert curve.method == "chernoff"
    assert [round(float(v), 3) for v in curve.values] == [0.128, 0.122, 0.109]
    with refused("covs"):
        bayes.temperature_for(means, covs=covs, error=0.12)


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_with_diagonal_covariances_the_curve_rises(seed: int) -> None:
    rng = np.random.default_rng(seed)
    classes, dimension = int(rng.integers(3, 6)), int(rng.integers(1, 4))
    means = rng.normal(0, 2, size=(classes, dimension))
    variances = np.exp(rng.normal(0, 2, size=(classes, dimension)))
    priors = rng.dirichlet(np.full(classes, 3.0))
    temperatures = [0.2, 0.5, 1.0, 2.0, 5.0, 50.0]
    curve = bayes.gaussian_curve(means, None, priors, covs=variances, temperatures=temperatures, rtol=0.01)
    for before, after in pairwise(curve.estimates):
        assert after.value >= before.value - 5 * math.hypot(before.stderr, after.stderr)


def test_an_error_that_the_scan_meets_exactly_is_found() -> None:
    # One of the temperatures of the scan has the very error, in the very draws of the scan.
    covs = [[1.0, 1.0], [9.0, 0.5], [0.5, 4.0]]
    means = [[0.0, 0.0], [2.0, 0.0], [0.0, 3.0]]
    found = bayes.gaussian(means, covs=covs, method="chernoff", rtol=5e-3, max_draws=2**14).value
    assert bayes.temperature_for(means, covs=covs, error=found) == pytest.approx(1.0, rel=0.02)


@settings(max_examples=6)
@given(exponent=st.floats(-12, -0.4), seed=st.integers(0, 20))
def test_temperature_for_is_the_inverse(exponent: float, seed: int) -> None:
    means = np.random.default_rng(seed).normal(size=(4, 3))
    error = 10.0**exponent
    tau = bayes.temperature_for(means, error=error)
    found = bayes.gaussian(means, temperature=tau, rtol=2e-4, seed=99)
    assert found.value == pytest.approx(error, rel=1e-3 + 5 * 2e-4)


def test_two_classes_invert_exactly() -> None:
    tau = bayes.temperature_for([[0.0], [2.0]], error=1e-200)
    assert bayes.gaussian([[0.0], [2.0]], temperature=tau).value == pytest.approx(1e-200, rel=1e-3)


def test_errors_out_of_range_are_refused_with_the_range() -> None:
    with refused("error"):
        bayes.temperature_for(TRIANGLE, error=0.7)
    twins = np.array([[0.0, 0.0], [0.0, 0.0], [9.0, 0.0]])
    with refused("error"):
        bayes.temperature_for(twins, priors=[0.3, 0.2, 0.5], error=0.1)
    with refused("error"):
        bayes.temperature_for(TRIANGLE, error=math.nan)
    with refused("error"):
        bayes.temperature_for([[0.0], [2.0]], covs=[[1.0], [4.0]], error=0.9)
    with refused("temperatures"):
        bayes.gaussian_curve(TRIANGLE, temperatures=[])
