import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from hardpan.bayes.floors.fitted import fit_shared
from hardpan.errors import InputError


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
    ("x", "labels", "message"),
    [
        (np.eye(3), np.arange(3), "two training examples of some class"),
        (np.ones((6, 2)), np.arange(6) % 2, "must vary inside the classes"),
        (np.repeat(np.eye(2), 3, axis=0), np.repeat([0, 1], 3), "must vary inside the classes"),
        (np.ones((4, 9)), np.arange(4) % 2, "features must vary"),
    ],
)
def test_what_has_no_covariance_is_refused(x, labels, message):
    with pytest.raises(InputError, match=message):
        fit_shared(x, labels)
