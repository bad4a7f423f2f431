"""Items: flags, cohorts, information, the rank test."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import false_discovery_control, mannwhitneyu

from hardpan import Outcomes
from hardpan.errors import InputError
from hardpan.leaderboard import items
from hardpan.leaderboard.item_analysis import _broken_test
from hardpan.stats.hypothesis_tests import benjamini_hochberg

COLUMNS = ["item", "slope", "slope_stderr", "intercept", "intercept_stderr", "mean_score", "flag"]


@pytest.fixture(scope="module")
def planted():
    rng = np.random.default_rng(0)
    slope = np.exp(rng.normal(0.2, 0.3, 150))
    slope[:4] *= -1.5
    skill = rng.normal(size=300)
    p = expit(skill[:, None] * slope + rng.normal(0, 1, 150))
    scores = (rng.random(p.shape) < p).astype(float)
    scores[:, 148:] = [1.0, 0.0]
    return scores


def test_planted_broken_and_dead_items_are_flagged(planted):
    fit = items(Outcomes.from_arrays(planted))
    assert (fit.flag[:4] == "broken").all()
    assert (fit.flag[148:] == "dead").all()
    assert (fit.flag[4:148] == "").all()
    frame = fit.to_frame("pandas")
    assert list(frame.columns) == COLUMNS
    np.testing.assert_allclose(frame.mean_score, planted.mean(axis=0))
    assert "4 items" in fit.headline


@pytest.mark.parametrize("skewed", [False, True])
def test_chance_flags_nothing(skewed):
    """Few models, many items, no broken one: false flags in at most a few sets of fifty."""
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(50):
        skill = rng.gamma(0.5, 1.4, 41) if skewed else rng.normal(size=41)
        p = expit(skill[:, None] * rng.normal(0.8, 0.3, 300).clip(0.05) + rng.normal(0, 1.5, 300))
        p_values = _broken_test((rng.random(p.shape) < p).astype(float), True)
        wrong += bool((benjamini_hochberg(p_values) <= 0.05).any())
    assert wrong <= 6


def test_rank_test_is_that_of_mann_and_whitney():
    rng = np.random.default_rng(2)
    scores = rng.integers(0, 2, (40, 12)).astype(float)
    found = _broken_test(scores, True)
    for i in (0, 5, 11):
        rest = np.delete(scores - scores.mean(axis=0), i, axis=1).mean(axis=1).round(12)
        right, wrong = rest[scores[:, i] == 1], rest[scores[:, i] == 0]
        expected = mannwhitneyu(right, wrong, alternative="less", method="asymptotic").pvalue
        assert found[i] == pytest.approx(expected, rel=1e-9)


def test_benjamini_hochberg_is_that_of_scipy():
    p = np.random.default_rng(3).random(50) ** 3
    np.testing.assert_allclose(benjamini_hochberg(p), false_discovery_control(p), rtol=1e-12)


def test_information_of_one_item_has_a_closed_form(planted):
    fit = items(Outcomes.from_arrays(planted), "3pl", choices=5)
    where = np.linspace(-2, 2, 9)

    def probability(skills):
        return 0.2 + 0.8 / (1 + np.exp(-(skills[:, None] * fit.slope + fit.intercept)))

    p = probability(where)
    step = 1e-5
    slope = (probability(where + step) - probability(where - step)) / (2 * step)
    expected = (slope**2 / (p * (1 - p))).sum(axis=1)
    np.testing.assert_allclose(fit.information(where), expected, rtol=1e-5)
    assert fit.guessing == 0.2


def test_cohorts_count_the_items_that_separate_nobody(planted):
    fit = items(Outcomes.from_arrays(planted))
    assert [cohort.size for cohort in fit.cohorts] == [5, 10, 25, 300]
    best = np.argsort(-fit.skill, kind="stable")[:5]
    part = planted[best]
    assert fit.cohorts[0].all_right == (part == 1).all(axis=0).sum()
    assert fit.cohorts[0].dead == (part == part[0]).all(axis=0).sum()
    assert fit.cohorts[-1].dead == 2


def test_power_grows_with_slope_and_models():
    rng = np.random.default_rng(4)
    few = items(Outcomes.from_arrays(rng.integers(0, 2, (20, 100))))
    many = items(Outcomes.from_arrays(rng.integers(0, 2, (150, 100))))
    assert list(few.broken_power) == sorted(few.broken_power)
    assert many.broken_power[1] > few.broken_power[1]


def test_missing_rows_and_columns_become_nan():
    rng = np.random.default_rng(5)
    scores = rng.integers(0, 2, (30, 20)).astype(float)
    scores[3], scores[:, 7] = np.nan, np.nan
    fit = items(Outcomes.from_arrays(scores))
    assert np.flatnonzero(np.isnan(fit.skill)).tolist() == [3]
    assert np.flatnonzero(np.isnan(fit.slope)).tolist() == [7]
    assert np.isnan(fit.mean_score[7])
    assert fit.headline


@pytest.mark.parametrize(
    ("arguments", "name"),
    [({"model": "4pl"}, "model"), ({"model": "3pl", "choices": 1}, "choices"), ({"choices": "four"}, "choices")],
)
def test_wrong_arguments_are_named(arguments, name):
    with pytest.raises(InputError, match=name):
        items(Outcomes.from_arrays(np.eye(4)), **arguments)


def test_equal_scores_are_refused():
    with pytest.raises(InputError, match="outcomes"):
        items(Outcomes.from_arrays(np.ones((4, 5))))


@pytest.mark.parametrize("m", [5, 40])
def test_the_test_of_broken_items_is_that_of_mann_and_whitney(m: int) -> None:
    rng = np.random.default_rng(m)
    scores = (rng.random((m, 60)) < 1 / (1 + np.exp(-rng.normal(size=(m, 1)) * 2))).astype(np.float64)
    found = _broken_test(scores, binary=True)
    for item in np.flatnonzero((scores.mean(axis=0) > 0) & (scores.mean(axis=0) < 1)):
        right, rest = scores[:, item] == 1, scores.sum(axis=1) - scores[:, item]
        if np.ptp(rest) > 0:
            expected = mannwhitneyu(rest[right], rest[~right], alternative="less", method="asymptotic").pvalue
            assert found[item] == pytest.approx(expected, abs=1e-12)
