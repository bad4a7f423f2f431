"""Costs, times and losses: closed forms, planted fronts, coverage of skewed means, scores without a range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from hardpan import Outcomes, leaderboard
from hardpan.errors import InputError

COSTS = {"large": 10.0, "small": 2.0, "slow": 8.0, "weak": 1.0}
SHARES = {"large": 0.9, "small": 0.9, "slow": 0.5, "weak": 0.4}


def rows(seed: int = 0, n: int = 400) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    ease = rng.random(n)
    return [
        {"model": m, "item": f"i{k}", "correct": ease[k] < SHARES[m], "cost_usd": COSTS[m] * rng.gamma(2.0) / 1e4}
        for m in COSTS
        for k in range(n)
    ]


def test_the_front_and_models_that_are_as_good() -> None:
    result = leaderboard.amounts(Outcomes.open(rows()), margin=0.02)
    trades = {trade.model: trade for trade in result.trade_offs}
    assert [trade.model for trade in result.trade_offs] == ["weak", "small", "slow", "large"]  # cheapest first
    assert {name for name, trade in trades.items() if trade.on_front} == {"weak", "small"}
    assert not trades["slow"].as_good
    assert trades["small"].as_good
    ratio = trades["small"].ratio
    assert ratio.value == pytest.approx(trades["small"].mean / trades["large"].mean)
    assert ratio.low < ratio.value < ratio.high < 0.4
    assert result.amounts[0].models[0] == "weak"
    assert result.amounts[0].rank_high[0] == 1
    keys = [section.key for section in leaderboard.summarize(Outcomes.open(rows())).view().sections]
    assert "cost" in keys


def test_means_medians_and_trimmed_means() -> None:
    outcomes = Outcomes.open(rows(1))
    amount = leaderboard.amounts(outcomes).amounts[0]
    for row, name in enumerate(amount.models):
        x = outcomes.measures["cost"][outcomes.index(name)]
        found = amount.mean[row], amount.median[row], amount.trimmed[row]
        assert found == pytest.approx((x.mean(), np.median(x), stats.trim_mean(x, 0.1)))
        assert amount.stderr[row] == pytest.approx(stats.sem(x))


def test_bootstrap_t_covers_a_skewed_mean_better_than_the_normal_interval() -> None:
    rng, trials, ours, normal = np.random.default_rng(2), 25, 0, 0
    for _ in range(trials):
        x = rng.lognormal(0.0, 1.0, (3, 40))
        outcomes = Outcomes.open(
            [{"model": f"m{m}", "item": i, "loss": x[m, i]} for m in range(3) for i in range(40)],
            columns={"score": "loss"},
            max_score=np.inf,
        )
        amount = leaderboard.amounts(outcomes).amounts[0]
        true = np.exp(0.5)
        ours += int(((amount.low <= true) & (true <= amount.high)).sum())
        normal += int((np.abs(amount.mean - true) <= 1.96 * amount.stderr).sum())
    assert ours > normal


def test_scores_without_a_range_are_ranked_as_they_are_and_refused_elsewhere() -> None:
    values = {"a": 3.0, "b": 40.0}
    table = [{"model": m, "item": i, "seconds": v + i % 7} for m, v in values.items() for i in range(60)]
    outcomes = Outcomes.open(table, columns={"score": "seconds"}, max_score=np.inf)
    assert outcomes.is_unbounded()
    result = leaderboard.amounts(outcomes)
    assert (result.amounts[0].name, result.amounts[0].lower_is_better) == ("loss", True)
    assert (result.amounts[0].models, result.trade_offs) == (("a", "b"), ())
    assert result.amounts[0].mean[1] == pytest.approx(40 + np.mean(np.arange(60) % 7))
    with pytest.raises(InputError) as caught:
        leaderboard.rank(outcomes)
    assert caught.value.argument == "outcomes"


def test_rewards_are_higher_is_better_and_matrices_work() -> None:
    rewards = np.random.default_rng(0).normal(size=(2, 50)) + np.array([[0.0], [500.0]])
    result = leaderboard.amounts(Outcomes.open(rewards, max_score=np.inf))
    assert (result.amounts[0].name, result.amounts[0].models[0]) == ("score", "model-1")
    np.testing.assert_allclose(result.amounts[0].mean, rewards.mean(axis=1)[::-1])


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"max_score": -1.0}, "max_score"),
        ({"min_score": 1.0}, "min_score"),
        ({"max_score": float("nan")}, "max_score"),
    ],
)
def test_ranges_are_checked(options: dict[str, float], argument: str) -> None:
    with pytest.raises(InputError) as caught:
        Outcomes.open([{"model": "m", "item": 1, "score": 1}], **options)
    assert caught.value.argument == argument


def test_boards_without_costs_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        leaderboard.amounts(Outcomes.from_arrays([[1, 0, 1]]))
    assert caught.value.argument == "outcomes"
