"""Kendall and Pearson against SciPy, definitions and one another."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from hardpan import stats
from hardpan.stats.correlation import dominated, pair_sums


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=40))
def test_kendall_is_scipys_with_any_ties(pairs):
    a, b = np.array(pairs, dtype=float).T
    sign_a, sign_b = np.sign(a[:, None] - a), np.sign(b[:, None] - b)
    sums = pair_sums(a, b)
    assert np.array_equal(sums[:, 0], (sign_a * sign_b).sum(axis=1))
    assert np.array_equal(sums[:, 1:], np.stack([abs(sign_a).sum(axis=1), abs(sign_b).sum(axis=1)], axis=1))
    if len(set(a)) > 1 and len(set(b)) > 1:
        assert stats.kendall_tau(a, b, resample=True).value == pytest.approx(scipy_stats.kendalltau(a, b).statistic)
    else:
        assert np.isnan(stats.kendall_tau(a, b, resample=True).value)


@given(st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70)), min_size=1, max_size=60))
def test_dominated_counts_what_is_smaller_in_both(pairs):
    a, b = np.array(pairs).T
    assert np.array_equal(dominated(a, b), ((a < a[:, None]) & (b < b[:, None])).sum(axis=1))


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
