"""Kendall and Pearson against SciPy, definitions and one another."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from tests.refusals import refused

from hardpan import stats
from hardpan.stats.correlation import count_smaller_in_both, kendall_pair_sums


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=40))
def test_kendall_is_scipys_with_any_ties(pairs):
    a, b = np.array(pairs, dtype=float).T
    sign_a, sign_b = np.sign(a[:, None] - a), np.sign(b[:, None] - b)
    sums = kendall_pair_sums(a, b)
    assert np.array_equal(sums[:, 0], (sign_a * sign_b).sum(axis=1))
    assert np.array_equal(sums[:, 1:], np.stack([abs(sign_a).sum(axis=1), abs(sign_b).sum(axis=1)], axis=1))
    if len(set(a)) > 1 and len(set(b)) > 1:
        for resample in (True, False):
            value = stats.kendall_tau(a, b, resample=resample).value
            assert value == pytest.approx(scipy_stats.kendalltau(a, b).statistic)
    else:
        assert np.isnan(stats.kendall_tau(a, b, resample=True).value)


@given(st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70)), min_size=1, max_size=60))
def test_dominated_counts_what_is_smaller_in_both(pairs):
    a, b = np.array(pairs).T
    assert np.array_equal(count_smaller_in_both(a, b), ((a < a[:, None]) & (b < b[:, None])).sum(axis=1))


def test_kendall_jackknife_is_leave_one_out():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=25), rng.normal(size=25)
    left_out = np.array([scipy_stats.kendalltau(np.delete(a, i), np.delete(b, i)).statistic for i in range(25)])
    expected = np.sqrt(24 / 25 * np.sum((left_out - left_out.mean()) ** 2))
    found = stats.kendall_tau(a, b, 0.9)
    assert found.stderr == pytest.approx(expected, rel=1e-10)
    assert (found.low, found.high) == pytest.approx(scipy_stats.norm.interval(0.9, found.value, expected))


def test_kendall_in_blocks():
    rng = np.random.default_rng(1)
    a = rng.normal(size=1300)
    b = a + rng.normal(size=1300)
    assert stats.kendall_tau(a, b).value == pytest.approx(scipy_stats.kendalltau(a, b).statistic, abs=1e-12)


def test_rows_of_other_lengths_are_refused():
    with refused(("a", "b")):
        stats.kendall_tau([1, 2], [1, 2, 3])


def test_kendalls_interval_is_that_of_the_jackknife():
    rng = np.random.default_rng(0)
    a = rng.normal(size=400)
    b = a + rng.normal(size=400)
    ours, slow = stats.kendall_tau(a, b, resample=True), stats.kendall_tau(a, b)
    assert ours.value == pytest.approx(slow.value)
    assert ours.stderr == pytest.approx(slow.stderr, rel=0.08)


def test_many_examples_need_no_resamples():
    rng = np.random.default_rng(1)
    a = rng.normal(size=60_000)
    b = a + rng.normal(size=60_000)
    for measure in (functools.partial(stats.kendall_tau, resample=True), stats.pearson):
        few, many = measure(a[:15_000], b[:15_000]), measure(a, b)
        assert "bootstrap" in few.method
        assert "jackknife" in many.method
        assert many.stderr == pytest.approx(few.stderr / 2, rel=0.12)
        assert many.low < many.value < many.high
