"""A judge corrected by people: the closed form, coverage, models that the judge favours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from hardpan import Outcomes, leaderboard
from hardpan.errors import InputError


def judged(judge: Any, people: Any) -> Outcomes:
    return replace(Outcomes.from_arrays(judge), measures={"human": np.asarray(people, dtype=float)})


def simulated(rng: Any, share: Any, agree: Any, labelled: int, n: int = 400) -> Outcomes:
    """A judge who sees the truth with probability ``agree`` and else says right; people see some of it."""
    truth = (rng.random((len(share), n)) < np.reshape(share, (-1, 1))).astype(float)
    said = np.where(rng.random(truth.shape) < np.reshape(agree, (-1, 1)), truth, 1.0)
    people = np.where(np.arange(n) < labelled, truth, np.nan)
    return judged(said, people)


def test_the_estimate_is_the_closed_form() -> None:
    rng = np.random.default_rng(0)
    judge = rng.random((1, 500))
    people = np.where(np.arange(500) < 100, np.clip(judge + 0.2 * rng.normal(size=(1, 500)) - 0.1, 0, 1), np.nan)
    result = leaderboard.judge(judged(judge, people))
    y, f, rest = people[0, :100], judge[0, :100], judge[0, 100:]
    weight = np.cov(y, f)[0, 1] / ((1 + 100 / 400) * judge.var(ddof=1))
    residual = y - weight * f
    variance = residual.var(ddof=1) * 99 / 98 / 100 + weight**2 * rest.var(ddof=1) / 400
    assert result.weight[0] == pytest.approx(weight)
    assert result.score[0] == pytest.approx(residual.mean() + weight * rest.mean())
    assert result.stderr[0] == pytest.approx(np.sqrt(variance))
    assert result.bias[0].value == pytest.approx((f - y).mean())
    assert result.gain[0] > 1.5


@pytest.mark.parametrize(("share", "agree", "labelled"), [(0.7, 0.8, 30), (0.9, 0.9, 60), (0.6, 0.0, 40)])
def test_intervals_cover_and_equal_models_are_seldom_separated(share: float, agree: float, labelled: int) -> None:
    rng, trials, covered, wrong = np.random.default_rng(1), 150, 0, 0
    for _ in range(trials):
        result = leaderboard.judge(simulated(rng, [share] * 2, [agree] * 2, labelled))
        covered += int(((result.low <= share) & (share <= result.high)).sum())
        wrong += result.rank_high.min() < 2
    assert covered >= binom.ppf(0.0001, 2 * trials, 0.95)
    assert wrong <= binom.ppf(0.9999, trials, 0.05)


def test_a_model_that_the_judge_favours_is_put_right() -> None:
    outcomes = simulated(np.random.default_rng(2), [0.8, 0.6], [1.0, 0.2], 200, 2000)
    assert leaderboard.rank(outcomes).models[0] == "model-1"
    result = leaderboard.judge(outcomes)
    assert (result.models[0], result.rank_high[0]) == ("model-0", 1)
    assert result.same_bias < 1e-6
    keys = [section.key for section in leaderboard.summarize(outcomes).view().sections]
    assert "judge" in keys


def test_tables_have_a_column_of_people_in_the_range_of_the_judge() -> None:
    rows = [
        {"model": "m", "item": i, "score": 1 + i % 10, "human_rating": 1 + i % 9 if i < 40 else None}
        for i in range(90)
    ]
    outcomes = Outcomes.open(rows, min_score=1, max_score=10)
    np.testing.assert_allclose(outcomes.item_scores()[0, :10], np.arange(10) / 9)
    np.testing.assert_allclose(outcomes.measures["human"][0, :9], np.arange(9) / 9)
    assert np.isnan(outcomes.measures["human"][0, 40:]).all()
    assert leaderboard.judge(outcomes).labelled.tolist() == [40]


@pytest.mark.parametrize("people", [np.full((1, 50), np.nan), None])
def test_too_few_scores_by_people_are_refused(people: Any) -> None:
    outcomes = Outcomes.from_arrays(np.arange(50)[None] % 2)
    with pytest.raises(InputError) as caught:
        leaderboard.judge(outcomes if people is None else judged(outcomes.scores, people))
    assert caught.value.argument == "outcomes"


def test_groups_of_items_are_clustered_and_groups_of_one_are_not() -> None:
    rng = np.random.default_rng(7)
    trials, passages, size, covered, alone = 150, 30, 12, 0, 0
    group = [f"p{k // size}" for k in range(passages * size)]
    for _ in range(trials):
        shared = np.repeat(rng.normal(size=passages), size)
        people = (shared + rng.normal(size=passages * size) > 0).astype(float)
        scores = np.where(rng.random(len(people)) < 0.8, people, 1 - people)
        people[rng.random(len(people)) < 0.6] = np.nan
        outcomes = replace(judged(scores[None], people[None]), groups={"passage": np.array(group)})
        result = leaderboard.judge(outcomes)
        assert result.cluster == "passage"
        covered += bool(result.low[0] <= 0.5 <= result.high[0])
        plain = leaderboard.judge(outcomes, group="")
        alone += bool(plain.low[0] <= 0.5 <= plain.high[0])
    assert binom.ppf(0.001, trials, 0.95) <= covered
    assert alone < covered
    one = replace(outcomes, groups={"id": np.array([f"i{k}" for k in range(len(group))])})
    np.testing.assert_allclose(leaderboard.judge(one, group="id").stderr, leaderboard.judge(one, group="").stderr)
