import numpy as np
import pytest
from scipy.stats import norm
from tests.refusals import refused

from hardpan import bayes
from hardpan.bayes.floors import bhattacharyya, overlap


def drawn(seed=0, n=4000, k=3, d=4):
    rng = np.random.default_rng(seed)
    means = 1.5 * rng.normal(size=(k, d))
    roots = [np.eye(d) + 0.4 * rng.normal(size=(d, d)) for _ in range(k)]
    y = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    x = np.stack([means[c] + roots[c] @ rng.normal(size=d) for c in y])
    return x, y, means, np.stack([root @ root.T for root in roots])


def test_two_unit_gaussians_have_the_closed_form():
    rng = np.random.default_rng(0)
    y = np.arange(20_000) % 2
    found = bhattacharyya(rng.normal(2.0 * y)[:, None], y)
    rho = np.exp(-0.5)  # exp(−distance²/8)
    assert found.upper.value == pytest.approx(rho / 2, abs=4 * found.upper.stderr)
    assert found.lower.value == pytest.approx((1 - np.sqrt(1 - rho**2)) / 2, abs=4 * found.lower.stderr)
    assert found.lower.value < norm.cdf(-1) < found.upper.value
    assert 10**found.lower.log10 == pytest.approx(found.lower.value)
    assert found.classifier is None


def test_classes_that_cannot_be_told_apart_leave_the_largest_prior():
    y = np.repeat([0, 1, 2], [600, 300, 100])
    found = bhattacharyya(np.random.default_rng(0).normal(size=(1000, 1)), y)
    assert found.upper.value == pytest.approx(0.4)


def test_a_far_class_changes_the_bounds_of_two_by_their_priors_only():
    rng = np.random.default_rng(0)
    y = np.arange(3000) % 3
    x = rng.normal(np.array([0.0, 2.0, 60.0])[y])[:, None]
    three, two = bhattacharyya(x, y), bhattacharyya(x[y < 2], y[y < 2])
    assert (three.lower.value, three.upper.value) == pytest.approx(
        (two.lower.value * 2 / 3, two.upper.value * 2 / 3), rel=1e-2
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_bounds_hold_the_exact_error_of_such_classes(seed):
    x, y, means, covs = drawn(seed)
    found = bhattacharyya(x, y, x_test=x, y_test=y)
    exact = bayes.gaussian(means, covs=covs, rtol=1e-2).value
    assert found.lower.low < exact < found.upper.high
    assert found.classifier.low < 1.5 * exact + 0.01


def test_standard_errors_are_those_of_repetition():
    found = [bhattacharyya(*drawn_again(i)) for i in range(40)]
    for end in ("lower", "upper"):
        spread = np.std([getattr(item, end).value for item in found], ddof=1)
        assert np.mean([getattr(item, end).stderr for item in found]) == pytest.approx(spread, rel=0.4)


def drawn_again(i):
    _, _, means, covs = drawn(7)
    rng = np.random.default_rng(100 + i)
    y = rng.integers(0, 3, 1500)
    roots = np.linalg.cholesky(covs)
    return means[y] + np.einsum("nij,nj->ni", roots[y], rng.normal(size=(1500, 4))), y


def test_far_classes_keep_their_logarithm_below_the_smallest_number():
    y = np.arange(400) % 2
    x = np.random.default_rng(0).normal(size=(400, 2)) + 200.0 * y[:, None]
    found = bhattacharyya(x, y)
    assert found.upper.value == 0.0
    assert found.upper.log10 < -400
    assert found.lower.log10 == pytest.approx(2 * found.upper.log10, rel=1e-2)


def test_more_features_than_examples_and_absent_classes_are_no_trouble():
    rng = np.random.default_rng(0)
    y = 2 * (np.arange(30) % 2)
    found = bhattacharyya(rng.normal(size=(30, 100)) + y[:, None], y)
    assert 0 <= found.lower.value <= found.upper.value <= 0.5


def test_too_much_work_is_refused(monkeypatch):
    monkeypatch.setattr(overlap, "MOST_WORK", 10.0)
    with refused("features"):
        bhattacharyya(np.random.default_rng(0).normal(size=(40, 5)), np.arange(40) % 4)
    with refused("n_classes"):
        bhattacharyya(np.eye(3), np.zeros(3, dtype=int))
