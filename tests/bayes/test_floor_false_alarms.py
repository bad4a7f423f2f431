"""The verdict against planted truths: true models are seldom called false, and false ones are found.

Counts of false alarms are held against the binomial limit that the stated level allows, so that a test fails by
chance about once in a thousand.
"""

import functools

import numpy as np
import pytest
from scipy.stats import binom

from hardpan import bayes
from hardpan.bayes.floors.fitted import fit_shared
from hardpan.bayes.floors.from_features import GAUSSIAN, from_gaussian, gaussian_floor
from hardpan.bayes.floors.weighing import own_decisions_check
from hardpan.estimates import Estimate

MEANS = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
PRIORS = np.array([0.5, 0.3, 0.2])


def allowed(runs, level):
    return int(binom.ppf(0.999, runs, level))


def drawn(n, seed, means=MEANS, priors=PRIORS):
    rng = np.random.default_rng(seed)
    labels = rng.choice(len(means), n, p=priors)
    return means[labels] + rng.normal(size=(n, means.shape[1])), labels


@pytest.fixture(scope="module")
def exact():
    return bayes.gaussian(MEANS, priors=PRIORS)


def verdict(exact, n, seed):
    """A model that is the data, or promises another error than the data has, weighed with its own posteriors."""
    x, labels = drawn(n, seed)
    probs = bayes.posterior(x, MEANS, priors=PRIORS)
    return bayes.floor(labels, exact={"model": exact}, predictions={"model": probs}, calibrations=(), n_classes=3)


def test_a_model_that_is_the_data_is_seldom_doubted(exact):
    found = [verdict(exact, 400, seed) for seed in range(400)]
    doubted = sum(item["Exact error of model"].status != "stands" for item in found)
    either = sum(bool(item.refuted or item.unfounded) or item.high < exact.value for item in found)
    assert doubted <= allowed(400, 0.05)
    assert either <= allowed(400, 0.05)


@pytest.mark.parametrize("factor", [0.5, 1.8])
def test_a_model_that_promises_another_error_is_found(exact, factor):
    value = factor * exact.value
    wrong = Estimate(value, 0.0, value, value, method="a model that is not the data")
    found = [verdict(wrong, 1500, seed)["Exact error of model"].status for seed in range(30)]
    assert all(status != "stands" for status in found)


def test_a_promise_that_is_known_roughly_is_doubted_less():
    """A Monte Carlo error of the promise widens what is compatible with it."""
    made = Estimate(0.13, 0.0, 0.1, 0.16, n=1000)
    sure, rough = (own_decisions_check(Estimate(0.1, error, 0.0, 1.0), made).p_value for error in (0.0, 0.02))
    assert sure < 0.01 < 0.05 < rough
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(400):
        promised = Estimate(0.1 + 0.01 * rng.normal(), 0.01, 0.0, 1.0)
        wrong = int(rng.binomial(1000, 0.1))
        alarms += own_decisions_check(promised, Estimate(wrong / 1000, 0.0, 0.0, 1.0, n=1000)).p_value < 0.05
    assert alarms <= allowed(400, 0.05)


CASES = {
    "two classes, many features": (2, 30, 150, 1.0),
    "three classes": (3, 4, 120, 1.1),
    "ten classes": (10, 20, 600, 2.5),
    "rare errors": (3, 10, 300, 2.5),
    "half as many features as examples": (2, 50, 100, 1.2),
}


@functools.cache
def planted_means(case):
    """Means of the classes of a case, and their exact error: the same for all seeds, so worked out once."""
    k, d, _, size = CASES[case]
    means = size * np.random.default_rng([7, k, d]).normal(size=(k, d)) * np.sqrt(2 / d)
    return means, bayes.gaussian(means, seed=1).value


def planted(case, seed):
    """Gaussian classes in random places, with features of unlike spread; train and test."""
    k, d, n, _ = CASES[case]
    (means, truth), spread = planted_means(case), np.linspace(0.5, 2.0, d)
    x, y = drawn(n + 1500, [seed, k, d], means, np.full(k, 1 / k))
    parts = bayes.Examples(x[:n] * spread, y[:n], x[n:] * spread, y[n:], n_classes=k)
    return parts, truth


@pytest.mark.parametrize("case", CASES)
def test_gaussian_data_do_not_contradict_the_gaussian_model(case):
    runs, alarms, covered = 20, 0, 0
    for seed in range(runs):
        parts, truth = planted(case, seed)
        model, _ = from_gaussian(parts, 0.95, seed)
        assert model.assumption == GAUSSIAN
        alarms += model.check.p_value < 0.05
        covered += model.estimate.low <= truth <= model.estimate.high
    assert alarms <= allowed(runs, 0.05)
    assert runs - covered <= allowed(runs, 0.05)


def test_what_is_not_gaussian_contradicts_the_gaussian_model():
    """Two classes, each in two opposite corners: one Gaussian a class promises guessing, or nearly so."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 9000)
    side = rng.choice([-1.0, 1.0], 9000)
    x = np.stack([3 * side, 3 * side * (1 - 2 * y)], axis=1) + rng.normal(size=(9000, 2))
    x[:, 0] += 0.8 * y  # a little that a line can see
    skewed = np.exp(x / 2)
    model, _ = from_gaussian(bayes.Examples(skewed[:5000], y[:5000], skewed[5000:], y[5000:]), 0.95, 0)
    assert model.check.p_value < 1e-3
    assert "its own decisions would err" in model.check.sentence


def test_a_fit_to_many_examples_needs_no_correction():
    x, y = drawn(20_000, 0)
    model = fit_shared(x, y)
    found, error = gaussian_floor(model)
    plain = bayes.gaussian(model.means, model.cov, model.priors)
    assert found.value == pytest.approx(plain.value, rel=0.02)
    assert found.low < plain.value < found.high
    assert error.factor == pytest.approx(1.0, abs=0.02)
    assert found.stderr < 0.03 * found.value
    assert gaussian_floor(model)[0] == found


def test_what_is_too_large_for_refits_says_what_it_leaves_out(monkeypatch):
    monkeypatch.setattr("hardpan.bayes.floors.refits.MOST_ROWS", 1)
    x, y = drawn(600, 0)
    model, _ = from_gaussian(bayes.Examples(x[:300], y[:300], x[300:], y[300:]), 0.95, 0)
    assert model.assumption == "the classes are the Gaussians that were fitted"
    assert "integral alone" in " ".join(model.estimate.notes)
