"""The parts add up to the whole, and agree with simulated decisions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm
from tests.refusals import refused

from hardpan import bayes, files


@pytest.fixture(scope="module")
def problem() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    return 2.0 * rng.normal(size=(5, 4)), root @ root.T + np.eye(4), rng.dirichlet(5 * np.ones(5))


def test_parts_add_up(problem: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    means, cov, priors = problem
    detail = bayes.gaussian_detail(means, cov, priors)
    assert np.allclose(detail.confusion.sum(axis=1), 1)
    assert detail.class_error @ priors == pytest.approx(detail.top_k[0], rel=1e-9)
    assert detail.top_k[0] == pytest.approx(detail.error.value, rel=5e-3)
    assert detail.top_k[-1] == 0
    assert np.all(np.diff(detail.top_k) < 0)
    assert detail.error.value == pytest.approx(bayes.gaussian(means, cov, priors).value, rel=1e-12)


def test_against_simulated_decisions(problem: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    means, cov, priors = problem
    detail = bayes.gaussian_detail(means, cov, priors, temperature=1.5)
    rng = np.random.default_rng(1)
    n = 200_000
    labels = rng.choice(5, size=n, p=priors)
    x = means[labels] + 1.5 * rng.normal(size=(n, 4)) @ np.linalg.cholesky(cov).T
    order = np.argsort(-bayes.posterior(x, means, cov, priors, temperature=1.5), axis=1)
    place = np.argmax(order == labels[:, None], axis=1)
    for k in range(1, 5):
        spread = math.sqrt(0.25 / n) + detail.top_k_stderr[k - 1]
        assert abs((place >= k).mean() - detail.top_k[k - 1]) < 5 * spread
    for k in range(5):
        mine = order[labels == k, 0]
        for j in range(5):
            spread = math.sqrt(0.25 / len(mine)) + detail.confusion_stderr[k, j]
            assert abs((mine == j).mean() - detail.confusion[k, j]) < 5 * spread


def test_slope_is_the_derivative(problem: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    means, cov, priors = problem
    for tau in (0.4, 1.0, 2.5):
        slope = bayes.gaussian_detail(means, cov, priors, temperature=tau, rtol=5e-4).slope
        step = 0.02 * tau
        above = bayes.gaussian(means, cov, priors, temperature=tau + step, rtol=2e-4)
        below = bayes.gaussian(means, cov, priors, temperature=tau - step, rtol=2e-4)
        numeric = (above.value - below.value) / (2 * step)
        noise = math.hypot(above.stderr, below.stderr) / (2 * step)
        assert abs(slope.value - numeric) <= 5 * math.hypot(slope.stderr, noise) + 2e-3 * numeric


def test_two_classes_in_closed_form() -> None:
    detail = bayes.gaussian_detail([[0.0], [3.0]], priors=[0.8, 0.2])
    shift = math.log(4) / 3
    assert detail.confusion[0, 1] == pytest.approx(norm.cdf(-(1.5 + shift)), rel=1e-3)
    assert detail.confusion[1, 0] == pytest.approx(norm.cdf(-(1.5 - shift)), rel=1e-3)
    assert detail.pairwise[0, 1] == detail.pairwise[1, 0] == pytest.approx(detail.error.value, rel=1e-9)


def test_class_of_prior_zero_is_nan_and_never_chosen() -> None:
    detail = bayes.gaussian_detail(3 * np.eye(3), priors=[0.5, 0.0, 0.5])
    assert np.isnan(detail.class_error[1])
    assert np.isnan(detail.confusion[1]).all()
    assert detail.confusion[0, 1] == 0
    assert detail.top_k.shape == (3,)


def test_json_round_trip() -> None:
    detail = bayes.gaussian_detail(3 * np.eye(3))
    again = files.from_json(files.to_json(detail))
    assert again.error == detail.error
    assert np.array_equal(again.confusion, detail.confusion)


def test_refusals() -> None:
    with refused("means"):
        bayes.gaussian_detail([[1.0]])
    with refused("temperature"):
        bayes.gaussian_detail(3 * np.eye(3), temperature=1e-3)
