import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import norm, rankdata
from tests.refusals import refused

from hardpan import stats

scores = arrays(np.float64, st.integers(2, 30), elements=st.sampled_from([0.1, 0.2, 0.5, 0.7, 0.9]))


@given(scores)
def test_ranks_agree_with_scipy(values: np.ndarray) -> None:
    np.testing.assert_array_equal(stats.ranks(values), rankdata(-values, method="min"))


def test_rank_intervals_contain_the_rank_and_shrink_with_the_noise() -> None:
    values = np.linspace(0.5, 0.9, 20)
    for variance in (1e-12, 1e-5, 1.0):
        low, high, _ = stats.rank_intervals(values, np.full(20, variance))
        place = stats.ranks(values)
        assert ((low <= place) & (place <= high)).all()
        if variance == 1e-12:
            assert (low == high).all()
        if variance == 1.0:
            assert (low == 1).all()
            assert (high == 20).all()


def test_shared_noise_does_not_blur_ranks() -> None:
    values = np.linspace(0.5, 0.6, 6)
    shared = np.full((6, 6), 1e-2) + np.diag(np.full(6, 1e-8))
    low, high, _ = stats.rank_intervals(values, shared)
    np.testing.assert_array_equal(low, high)
    low, high, _ = stats.rank_intervals(values, np.diag(shared))
    assert (high - low).max() == 5


def test_rank_intervals_cover_close_values() -> None:
    rng = np.random.default_rng(0)
    truth = np.sort(rng.normal(0, 0.5, 15))[::-1]
    hits, trials = 0, 0
    for run in range(60):
        noisy = truth + rng.normal(size=15)
        low, high, _ = stats.rank_intervals(noisy, np.ones(15), resamples=400, seed=run)
        hits += int(((low <= np.arange(1, 16)) & (np.arange(1, 16) <= high)).sum())
        trials += 15
    assert hits / trials > 0.92


@pytest.mark.parametrize("covariance", [0.0, 0.3, -0.4])
def test_two_units_are_told_apart_from_a_known_difference_on(covariance: float) -> None:
    spread = np.array([[1.0, covariance], [covariance, 0.5]])
    limit = norm.ppf(0.95) * np.sqrt(1.5 - 2 * covariance)  # of the variance of the difference, at 90 %
    for factor, apart in ((1.001, True), (0.97, False)):  # the draws' quantile may lie a little below
        low, high, _ = stats.rank_intervals([factor * limit, 0.0], spread, confidence=0.9)
        assert (low.tolist(), high.tolist()) == (([1, 2], [1, 2]) if apart else ([1, 1], [2, 2]))


def test_many_units_are_told_apart_by_holm() -> None:
    n = 401
    limit = norm.ppf(1 - 0.05 / (2 * (n - 1))) * np.sqrt(2.0)
    for factor, best in ((1.0001, n - 1), (0.9999, n)):
        values = np.zeros(n)
        values[0] = -factor * limit
        _, high, _ = stats.rank_intervals(values, np.ones(n))
        assert (high[1:] == best).all()


def test_many_units_use_the_closed_form() -> None:
    values = np.linspace(0, 1, 400)
    low, high, method = stats.rank_intervals(values, np.full(400, 1e-12))
    assert "Bonferroni" in method
    np.testing.assert_array_equal(low, np.arange(400, 0, -1))
    np.testing.assert_array_equal(high, low)


def test_identical_units_cannot_be_told_apart() -> None:
    low, high, _ = stats.rank_intervals([0.5, 0.5, 0.5], np.full((3, 3), 1e-4))
    assert low.tolist() == [1, 1, 1]
    assert high.tolist() == [3, 3, 3]


def test_refusals() -> None:
    with refused("values"):
        stats.ranks([0.1, np.nan])
    for shape in ((0,), (2, 2)):
        with refused("values"):
            stats.ranks(np.zeros(shape))
    with refused("covariance"):
        stats.rank_intervals([0.1, 0.2], [0.1])
