"""The closed forms of hardpan against fifty digits of mpmath, and against quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri_exp
from tests.bayes.gaussians import truth

from hardpan import bayes


@pytest.mark.parametrize("dimension", [1, 2, 784, 3072])
@pytest.mark.parametrize("prior", [0.5, 0.3, 0.999, 1e-6])
@pytest.mark.parametrize("exponent", [-0.4, -1, -3, -12, -50, -150, -300])
def test_two_classes_to_twelve_digits(dimension: int, prior: float, exponent: float) -> None:
    distance = -2 * float(ndtri_exp(exponent * math.log(10)))
    direction = np.random.default_rng(dimension).normal(size=dimension)
    gap = distance * direction / np.linalg.norm(direction)
    means = np.stack([np.zeros(dimension), gap])
    estimate = bayes.gaussian(means, priors=[prior, 1 - prior])
    expected = truth.two_classes(float(np.sqrt(math.fsum(gap**2))), prior)
    assert estimate.method == "exact"
    assert estimate.value == pytest.approx(float(expected), rel=1e-12, abs=0)
    assert estimate.low == estimate.high == estimate.value
    assert estimate.stderr == 0


def test_log10_far_below_the_smallest_float() -> None:
    estimate = bayes.gaussian([[0.0], [400.0]])
    import mpmath

    with mpmath.workdps(60):
        expected = float(mpmath.log10(mpmath.ncdf(-200)))
    assert estimate.value == 0.0
    assert estimate.log10 == pytest.approx(expected, rel=1e-12)
    assert any("underflows" in note for note in estimate.notes)


@given(
    # Rounded: the roots of the reference overflow where two means differ by less than 1e-300.
    means=st.lists(st.floats(-20, 20).map(lambda mean: round(mean, 9)), min_size=1, max_size=6),
    logits=st.lists(st.floats(-5, 5), min_size=6, max_size=6),
    seed=st.integers(0, 99),
)
def test_classes_on_a_line(means: list[float], logits: list[float], seed: int) -> None:
    positions = np.array(means)
    priors = np.exp(logits[: len(means)])
    priors /= priors.sum()
    direction = np.random.default_rng(seed).normal(size=5)
    direction /= np.linalg.norm(direction)
    estimate = bayes.gaussian(np.outer(positions, direction) + 3.0, priors=priors)
    assert estimate.method == "exact"
    expected = truth.on_a_line(positions, priors, np.ones(len(positions)))
    assert estimate.value == pytest.approx(expected, rel=1e-7, abs=1e-11)


def test_every_form_of_covariance_gives_the_same() -> None:
    rng = np.random.default_rng(0)
    means = rng.normal(size=(2, 6))
    variances = rng.uniform(0.5, 2, size=6)
    values = [
        bayes.gaussian(means / np.sqrt(variances)).value,
        bayes.gaussian(means, variances).value,
        bayes.gaussian(means, np.diag(variances)).value,
        bayes.gaussian(2 * means, 4 * variances).value,
        bayes.gaussian(means, variances / 9, temperature=3.0).value,
        bayes.gaussian(means, covs=np.stack([variances, variances])).value,
    ]
    assert values == pytest.approx([values[0]] * len(values), rel=1e-12)
    assert bayes.gaussian(means, 4.0).value == pytest.approx(bayes.gaussian(means / 2).value, rel=1e-13)


def test_one_class_has_no_error() -> None:
    by_method = [bayes.gaussian([[1.0, 2.0]], method=method) for method in ("auto", "importance", "hdr")]
    own = [bayes.gaussian([[1.0]], covs=[[2.0]], method=method) for method in ("chernoff", "contour")]
    for estimate in (*by_method, *own, bayes.gaussian([[1.0], [2.0]], priors=[1, 0])):
        assert (estimate.value, estimate.stderr, estimate.method) == (0.0, 0.0, "exact")
        assert estimate.log10 == -math.inf


def test_equal_means_leave_the_prior() -> None:
    estimate = bayes.gaussian(np.ones((4, 7)), priors=[0.4, 0.3, 0.2, 0.1])
    assert estimate.method == "exact"
    assert estimate.value == pytest.approx(0.6, rel=1e-14)


def test_a_class_that_never_wins_adds_its_prior() -> None:
    estimate = bayes.gaussian([[0.0], [0.01], [40.0]], priors=[0.6, 1e-3, 0.399])
    assert estimate.value == pytest.approx(1e-3, rel=1e-9)
