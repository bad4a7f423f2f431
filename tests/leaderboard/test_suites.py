"""Averages over tasks: closed forms, statsmodels, planted orders, error rates; tasks that decide the order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

from hardpan import Outcomes, leaderboard
from hardpan.errors import InputError

SIZES = (20, 60, 220)
TASKS = np.repeat(["a", "b", "c"], SIZES)
RNG = np.random.default_rng(0)
RIGHT = (RNG.random((3, 300)) < [[0.8], [0.75], [0.4]]).astype(float)


def board(scores: Any, **more: Any) -> Outcomes:
    return Outcomes.from_arrays(scores, ["x", "y", "z"][: len(scores)], groups={"task": TASKS, **more})


def task_means(scores: Any) -> Any:
    return np.array([scores[:, task == TASKS].mean(axis=1) for task in "abc"]).T


def test_the_average_and_its_errors_are_the_closed_forms() -> None:
    result = leaderboard.suite(board(RIGHT), weights={"a": 2, "b": 1, "c": 1})
    w = np.array([0.5, 0.25, 0.25])
    means = task_means(RIGHT)
    errors = np.array(
        [RIGHT[:, t == TASKS].std(axis=1, ddof=1) / np.sqrt(n) for t, n in zip("abc", SIZES, strict=True)]
    )
    order = [["x", "y", "z"].index(name) for name in result.models]
    np.testing.assert_allclose(result.score, (means @ w)[order])
    np.testing.assert_allclose(result.stderr, np.sqrt(w**2 @ errors**2)[order])
    np.testing.assert_allclose(result.task_scores, means[order])
    np.testing.assert_allclose(result.pooled, RIGHT.mean(axis=1)[order])
    assert result.lead.sum() == pytest.approx(result.score[0] - result.score[1])


def test_weights_by_items_give_the_pooled_mean_and_order() -> None:
    result = leaderboard.suite(board(RIGHT), weights=dict(zip("abc", SIZES, strict=True)))
    pooled = leaderboard.rank(board(RIGHT), group="")
    np.testing.assert_allclose(result.score, pooled.raw_score)
    assert (result.models, result.rank_low.tolist()) == (pooled.models, pooled.rank_low.tolist())


def test_clusters_in_tasks_and_a_weight_of_zero() -> None:
    passages = np.concatenate([np.arange(n) // 5 + 1000 * k for k, n in enumerate(SIZES)])
    shared = np.repeat(RNG.random((3, 60)) < 0.6, 5, axis=1).astype(float)
    plain, clustered = (leaderboard.suite(board(shared, passage=passages), group=group) for group in ("", None))
    assert (plain.cluster, clustered.cluster) == ("", "passage")
    np.testing.assert_allclose(clustered.stderr / plain.stderr, np.sqrt(5), rtol=0.2)
    assert leaderboard.suite(board(shared), weights={"a": 1, "b": 1, "c": 0}).tasks == ("a", "b")


def test_the_task_that_decides_the_order_is_named() -> None:
    scores = np.zeros((2, 300))
    for model, shares in enumerate(((0.9, 0.5, 0.5), (0.2, 0.6, 0.6))):
        for task, share in zip("abc", shares, strict=True):
            at = np.flatnonzero(task == TASKS)
            scores[model, at[: round(share * len(at))]] = 1
    result = leaderboard.suite(board(scores))
    assert result.models[0] == "x"
    assert dict(zip(result.tasks, result.first_without, strict=True)) == {"a": "y", "b": "x", "c": "x"}
    assert result.moved.tolist() == [1, 0, 0]
    view = leaderboard.summarize(board(scores)).view()
    assert "task-weights" in [problem.kind for problem in view.problems]  # y leads where items are pooled
    assert "suite" in [section.key for section in view.sections]


def test_models_without_a_task_have_no_average() -> None:
    scores = RIGHT.copy()
    scores[2, TASKS == "b"] = np.nan
    scores[1, 250:] = np.nan
    result = leaderboard.suite(board(scores))
    assert (set(result.models), result.lacking) == ({"x", "y"}, ("z",))


def test_whole_runs_widen_the_errors() -> None:
    rng = np.random.default_rng(3)
    effect = 0.5 * rng.normal(size=(3, 1, 4))
    runs = (rng.random((3, 300, 4)) < expit(1 + effect)).astype(float)
    steady = (rng.random((3, 300, 4)) < expit(1.0)).astype(float)
    assert leaderboard.suite(board(runs)).run_stderr > 0.05
    assert leaderboard.suite(board(steady)).run_stderr < 0.02
    assert np.isnan(leaderboard.suite(board(runs[:, :, 0])).run_stderr)


@pytest.mark.parametrize(("sizes", "middle"), [((30,) * 6, 1.5), ((5,) * 20, 1.5), ((10, 200), 3.0)])
def test_intervals_cover_and_equal_models_are_seldom_separated(sizes: tuple[int, ...], middle: float) -> None:
    rng, trials, covered, wrong = np.random.default_rng(1), 120, 0, 0
    tasks = np.repeat(np.arange(len(sizes)).astype(str), sizes)
    for _ in range(trials):
        chance = np.repeat(expit(rng.normal(middle, 1, len(sizes))), sizes)
        true = np.mean([chance[tasks == task].mean() for task in np.unique(tasks)])
        scores = rng.random((3, len(chance))) < chance
        result = leaderboard.suite(Outcomes.from_arrays(scores, groups={"task": tasks}))
        covered += int(((result.low <= true) & (true <= result.high)).sum())
        wrong += result.separated > 0
    assert covered / 3 >= binom.ppf(0.0001, trials, 0.95)
    assert wrong <= binom.ppf(0.9999, trials, 0.05)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"weights": {"a": 1}}, "weights"),
        ({"weights": {"a": 1, "b": 1, "c": -1}}, "weights"),
        ({"weights": {"a": 1, "b": 1, "c": 1, "d": 1}}, "weights"),
        ({"task": "topic"}, "task"),
        ({"group": "topic"}, "group"),
    ],
)
def test_refusals(options: dict[str, Any], argument: str) -> None:
    with pytest.raises(InputError) as caught:
        leaderboard.suite(board(RIGHT), **options)
    assert caught.value.argument == argument
