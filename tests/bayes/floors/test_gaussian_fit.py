import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest
from scipy.stats import t as student
from sklearn.covariance import ledoit_wolf
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from tests.refusals import refused

from hardpan import bayes
from hardpan.bayes.floors.error_estimates import held_out_error
from hardpan.bayes.floors.gaussian_fit import DRAWS, FitError, fit_shared, gaussian_floor, own_decisions_p_value
from hardpan.estimates import Estimate


def planted(n, d, k, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    spread = np.diag(np.linspace(0.5, 2.0, d))
    return 3.0 + rng.normal(size=(k, d))[labels] + rng.normal(size=(n, d)) @ spread, labels


def by_hand(x, labels):
    """The same model, written down directly: scikit-learn's weight for the residuals, scaled to n - K."""
    classes = np.unique(labels)
    means = np.array([x[labels == c].mean(axis=0) for c in classes])
    residuals = x - means[np.searchsorted(classes, labels)]
    residuals *= np.sqrt(len(x) / (len(x) - len(classes)))
    cov, weight = ledoit_wolf(residuals, assume_centered=True)
    return means, cov, weight


@pytest.mark.parametrize(("n", "d", "k"), [(300, 5, 3), (5000, 8, 4), (60, 40, 3), (40, 100, 3), (30, 500, 10)])
def test_the_model_is_ledoit_and_wolfs_in_and_out_of_the_span(n, d, k):
    x, labels = planted(n, d, k)
    means, cov, weight = by_hand(x, labels)
    model = fit_shared(x, labels)
    assert model.shrinkage == pytest.approx(weight, rel=1e-8)
    assert model.means.shape[1] == (d if d <= n else n - 1)
    centred, ours = means - means.mean(axis=0), model.means - model.means.mean(axis=0)
    gram = centred @ np.linalg.solve(cov, centred.T)
    np.testing.assert_allclose(ours @ np.linalg.solve(model.cov, ours.T), gram, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(("n", "d"), [(400, 6), (50, 200)])
def test_decisions_are_those_of_a_linear_discriminant(n, d):
    x, labels = planted(n, d, 3)
    fresh, _ = planted(500, d, 3, seed=1)
    model = fit_shared(x, labels)
    means, cov, _ = by_hand(x, labels)
    weights = np.linalg.solve(cov, means.T)
    scores = fresh @ weights - 0.5 * np.sum(means.T * weights, axis=0) + np.log(np.bincount(labels) / n)
    assert (model.decide(fresh) == scores.argmax(axis=1)).mean() > 0.999


def test_with_many_examples_it_is_scikit_learns_discriminant():
    x, labels = planted(20_000, 4, 3)
    expected = LinearDiscriminantAnalysis(solver="lsqr").fit(x, labels).predict(x)
    assert (fit_shared(x, labels).decide(x) == expected).mean() > 0.999


def test_constant_features_and_missing_classes_do_no_harm():
    x, labels = planted(200, 4, 2)
    x = np.hstack([x, np.full((200, 3), 7.0)])
    model = fit_shared(x, labels * 5)
    assert model.classes.tolist() == [0, 5]
    assert np.linalg.eigvalsh(model.cov)[0] > 0
    assert set(model.decide(x).tolist()) == {0, 5}


@pytest.mark.parametrize(
    ("x", "labels", "argument"),
    [
        (np.eye(3), np.arange(3), "labels"),
        (np.ones((6, 2)), np.arange(6) % 2, "features"),
        (np.repeat(np.eye(2), 3, axis=0), np.repeat([0, 1], 3), "features"),
        (np.ones((4, 9)), np.arange(4) % 2, "features"),
    ],
)
def test_what_has_no_covariance_is_refused(x, labels, argument):
    with refused(argument):
        fit_shared(x, labels)


def allowed(runs, level):
    return int(binom.ppf(0.999, runs, level))


def drawn(n, seed, means, priors):
    rng = np.random.default_rng(seed)
    labels = rng.choice(len(means), n, p=priors)
    return means[labels] + rng.normal(size=(n, means.shape[1])), labels


CASES = {
    "two classes, many features": (2, 30, 150, 1.0),
    "five classes": (5, 10, 300, 2.0),
    "half as many features as examples": (2, 50, 100, 1.2),
}


@pytest.mark.parametrize("case", CASES)
def test_gaussian_data_do_not_contradict_the_gaussian_model(case):
    """In 12 draws the test rejects, and the interval misses, no more often than the level allows."""
    k, d, n, size = CASES[case]
    means = size * np.random.default_rng([7, k, d]).normal(size=(k, d)) * np.sqrt(2 / d)
    truth, spread = bayes.gaussian(means, seed=1).value, np.linspace(0.5, 2.0, d)
    runs, alarms, covered = 12, 0, 0
    for seed in range(runs):
        x, y = drawn(n + 1500, [seed, k, d], means, np.full(k, 1 / k))
        x = x * spread
        model = fit_shared(x[:n], y[:n])
        error, fit = gaussian_floor(model, seed=seed)
        wrong = int((model.decide(x[n:]) != y[n:]).sum())
        alarms += fit.p_value(wrong, 1500) < 0.05
        covered += error.low <= truth <= error.high
    assert alarms <= allowed(runs, 0.05)
    assert runs - covered <= allowed(runs, 0.05)


def test_a_fit_to_many_examples_needs_no_correction():
    means = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
    x, y = drawn(20_000, 0, means, [0.5, 0.3, 0.2])
    model = fit_shared(x, y)
    found = gaussian_floor(model)[0]
    plain = bayes.gaussian(model.means, model.cov, model.priors)
    assert found.value == pytest.approx(plain.value, rel=0.02)
    assert found.low < plain.value < found.high
    half = student.ppf(0.975, DRAWS - 1) * found.stderr / found.value
    assert (found.low, found.high) == pytest.approx((found.value * np.exp(-half), found.value * np.exp(half)))
    assert gaussian_floor(model)[0] == found


@given(st.integers(0, 200), st.floats(0.001, 0.6))
def test_the_p_value_of_own_decisions_is_twice_the_smaller_binomial_tail(wrong, promised):
    exact = Estimate(promised, 0.0, promised, promised)
    found = own_decisions_p_value(exact, held_out_error(wrong, 200, method="m"))
    tails = [binomtest(wrong, 200, promised, alternative=side).pvalue for side in ("less", "greater")]
    assert found == pytest.approx(min(1.0, 2 * min(tails)), rel=1e-6, abs=1e-12)
    fit = FitError(exact, np.array([promised, promised]))
    assert fit.p_value(wrong, 200) == pytest.approx(min(1.0, 2 * min(tails)), rel=1e-6, abs=1e-12)


def test_a_rough_prediction_is_rejected_less():
    made = Estimate(0.13, 0.0, 0.1, 0.16, n=1000)
    sure, rough = (own_decisions_p_value(Estimate(0.1, error, 0.0, 1.0), made) for error in (0.0, 0.02))
    assert sure < 0.01 < 0.05 < rough
