import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

from hardpan.bayes.floors import neighbours
from hardpan.errors import InputError


@given(st.floats(0, 1), st.integers(2, 10_000))
def test_the_bound_inverts_cover_and_hart(share, k):
    guessing = (k - 1) / k
    bayes = share * guessing
    asymptotic = bayes * (2 - bayes / guessing)
    assert neighbours.cover_hart(min(1.0, asymptotic), k) == pytest.approx(bayes, rel=1e-6, abs=2e-8)


@given(st.floats(0, 1), st.floats(0, 1), st.integers(2, 1000))
def test_the_bound_rises_and_lies_between_half_the_error_and_the_error(a, b, k):
    low, high = sorted([a, b])
    assert neighbours.cover_hart(low, k) <= neighbours.cover_hart(high, k)
    assert neighbours.cover_hart(low, k) <= low
    assert neighbours.cover_hart(low, k) >= min(low, (k - 1) / k) / 2 - 1e-15


@pytest.mark.parametrize("distance", [1.0, 2.0, 3.0])
def test_the_bracket_holds_the_known_bayes_error(distance):
    rng = np.random.default_rng(int(distance))
    labels = rng.integers(0, 2, 8000)
    x = rng.normal(distance * labels, 1.0)[:, None]
    found = neighbours.bracket(x[:4000], labels[:4000], x[4000:], labels[4000:])
    assert found.low <= norm.cdf(-distance / 2) <= found.high
    errors = round(found.error.value * 4000)
    exact = binomtest(errors, 4000).proportion_ci(method="exact")
    assert (found.error.low, found.error.high) == pytest.approx((exact.low, exact.high))
    assert found.upper == found.error
    assert found.low == pytest.approx(neighbours.cover_hart(exact.low, 2))
    assert found.lower_assumption != found.upper_assumption
    assert found.lower.notes


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_nearest_is_brute_force(dtype):
    rng = np.random.default_rng(0)
    train, test = (rng.integers(0, 200, (n, 3, 3)).astype(dtype) for n in (150, 40))
    slow = ((test[:, None].astype(float) - train[None].astype(float)) ** 2).sum(axis=(2, 3))
    found = neighbours.nearest(train, test)
    np.testing.assert_allclose(slow[np.arange(40), found], slow.min(axis=1))


def test_nearest_keeps_its_digits_far_from_the_origin():
    train = 1e9 + np.arange(50.0)[:, None]
    assert neighbours.nearest(train, train + 0.3).tolist() == list(range(50))


@pytest.mark.parametrize(("error", "k"), [(-0.1, 2), (1.1, 2), (float("nan"), 2), (0.1, 1)])
def test_bad_numbers_are_refused(error, k):
    with pytest.raises(InputError, match="must"):
        neighbours.cover_hart(error, k)


def test_lengths_that_disagree_are_refused():
    with pytest.raises(InputError, match="one row for each example"):
        neighbours.bracket(np.eye(3), np.arange(2), np.eye(3), np.arange(3))
