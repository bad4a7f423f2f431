"""Several runs: pass@k by brute force, random effects of statsmodels, planted effects, the noise of equal runs."""

from __future__ import annotations

import itertools

import numpy as np
import pandas
import pytest
import statsmodels.formula.api as smf
from scipy.special import expit
from scipy.stats import binom
from statsmodels.stats.anova import anova_lm

from hardpan import Outcomes, leaderboard
from hardpan.errors import InputError


@pytest.mark.parametrize(("n", "k"), [(4, 1), (5, 2), (5, 5)])
def test_pass_at_k_is_the_mean_over_all_choices_of_k_runs(n: int, k: int) -> None:
    for right in range(n + 1):
        runs = np.arange(n) < right
        chosen = [list(choice) for choice in itertools.combinations(range(n), k)]
        some = np.mean([runs[choice].any() for choice in chosen])
        every = np.mean([runs[choice].all() for choice in chosen])
        assert leaderboard.pass_at_k(np.array(right), np.array(n), k) == pytest.approx(some)
        assert 1 - leaderboard.pass_at_k(np.array(n - right), np.array(n), k) == pytest.approx(every)


def test_means_flaky_items_and_intervals() -> None:
    scores = np.zeros((1, 40, 4))
    scores[0, :20] = 1
    scores[0, 20:30, 0] = 1
    result = leaderboard.runs(Outcomes.from_arrays(scores))
    assert result.k.tolist() == [1, 2, 4]
    np.testing.assert_allclose(result.passed[0], [0.5625, 0.5 + 0.25 / 2, 0.75])
    np.testing.assert_allclose(result.all_passed[0], [0.5625, 0.5, 0.5])
    assert (result.flaky[0], result.differing[0]) == pytest.approx((0.25, 0.25 * 2 * 3 / 12))
    assert (result.passed_low < result.passed).all()
    assert (result.passed < result.passed_high).all()


def test_the_effect_of_a_run_is_that_of_the_analysis_of_variance() -> None:
    rng = np.random.default_rng(0)
    scores = np.clip(0.5 + 0.05 * rng.normal(size=(1, 60, 5)) + 0.03 * rng.normal(size=(1, 1, 5)), 0, 1)
    result = leaderboard.runs(Outcomes.from_arrays(scores))
    item, run = (axis.ravel() for axis in np.indices((60, 5)))
    frame = pandas.DataFrame({"y": scores[0].ravel(), "item": item, "run": run})
    table = anova_lm(smf.ols("y ~ C(item) + C(run)", frame).fit())
    squares = table["mean_sq"]
    assert result.run_effect.value == pytest.approx(np.sqrt((squares["C(run)"] - squares["Residual"]) / 60))
    assert result.p_value == pytest.approx(table["PR(>F)"]["C(run)"])
    assert result.run_spread[0] == pytest.approx(scores.mean(axis=(0, 1)).std(ddof=1))
    assert result.k.size == 0


def test_no_effect_is_seldom_found_and_equal_runs_stay_within_the_noise() -> None:
    rng, trials, found, within = np.random.default_rng(2), 80, 0, 0
    for _ in range(trials):
        chance = expit(rng.normal(1, 1.5, (1, 80, 1)))
        scores = (rng.random((2, 80, 5)) < chance).astype(float)
        result = leaderboard.runs(Outcomes.from_arrays(scores[:, :, :4]))
        found += result.p_value <= 0.05
        apart = np.abs(scores[:, :, 4].mean(axis=1) - scores[:, :, 0].mean(axis=1))
        within += int((apart <= result.noise).sum())
    assert found <= binom.ppf(0.9999, trials, 0.05)
    assert within >= binom.ppf(0.0001, 2 * trials, 0.95)


def test_runs_keep_their_numbers_where_a_cell_lacks_one() -> None:
    rows = [{"model": "m", "item": i, "run": r, "score": float(r == 1)} for i in range(9) for r in range(3)]
    del rows[0]  # run 0 of item 0
    result = leaderboard.runs(Outcomes.open(rows))
    assert result.run_spread[0] == pytest.approx(np.std([0, 1, 0], ddof=1))
    assert result.runs.tolist() == [2]


def test_one_run_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        leaderboard.runs(Outcomes.from_arrays([[1, 0, 1]]))
    assert caught.value.argument == "outcomes"
