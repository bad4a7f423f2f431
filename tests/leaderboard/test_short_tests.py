"""Shorter tests: the estimate of the full score, its coverage, and the lists of items."""

import json

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import hypergeom

from hardpan import Outcomes
from hardpan.errors import InputError
from hardpan.leaderboard import shorten
from hardpan.leaderboard.short_tests import _covers_too_seldom
from hardpan.stats.intervals import hypergeometric_limits


def simulated(seed=0, models=40, items=500, **more):
    rng = np.random.default_rng(seed)
    slope, ease = np.exp(rng.normal(0, 0.3, items)), rng.normal(0.3, 1.3, items)
    p = expit(rng.normal(size=models)[:, None] * slope + ease)
    return Outcomes.from_arrays((rng.random(p.shape) < p).astype(float), **more)


@pytest.fixture(scope="module")
def outcomes():
    return simulated(groups=np.arange(500) % 5)


@pytest.mark.parametrize("method", ["random", "stratified"])
def test_full_score_of_a_new_model_is_covered(outcomes, method):
    """Fresh models that took no part in the calibration, several selections."""
    fresh = simulated(0, models=200)  # same items, other models: the first draws of the seed are the items
    hits = total = 0
    for seed in range(2):
        short = shorten(outcomes, 80, method=method, seed=seed)
        for row in fresh.scores[40:100]:
            found = short.estimate(row[short.rows])
            hits += found.low <= row.mean() <= found.high
            total += 1
    assert hits / total > 0.88
    assert short.coverage > 0.85


def test_all_items_but_few_leave_little_doubt(outcomes):
    short = shorten(outcomes, 490)
    assert short.half_width < 0.01
    np.testing.assert_allclose(
        short.estimate(outcomes.scores[0, short.rows]).value, outcomes.scores[0].mean(), atol=0.01
    )


def test_more_items_are_better(outcomes):
    short = shorten(outcomes, 100)
    assert (np.diff(short.size_half_width[1:]) < 0).all()
    assert (short.sizes[0], short.sizes[-1]) == (10, 250)  # up to half of the test
    assert len(short.items) == len(set(short.items.tolist())) == 100


def test_strata_are_sampled_in_proportion(outcomes):
    short = shorten(outcomes, 100, method="stratified")
    assert np.bincount(short.rows % 5).tolist() == [20] * 5


def test_perfect_model_has_an_interval(outcomes):
    found = shorten(outcomes, 40).estimate(np.ones(40))
    assert found.low < 1
    assert found.value > 0.8


def test_list_for_lm_eval():
    data = simulated(items=60, groups={"task": ["a"] * 30 + ["b"] * 30, "doc_id": [*range(30), *range(30)]})
    short = shorten(data, 20)
    found = json.loads(short.samples())
    assert sorted(found) == ["a", "b"]
    assert sum(len(docs) for docs in found.values()) == 20
    assert all(data.groups["task"][row] == task for row, task in zip(short.rows, short.tasks, strict=True))
    assert {int(doc) for doc in short.doc_ids} <= set(range(30))
    assert "samples.json" in short.view().downloads
    other = shorten(simulated(items=60), 20).view()
    assert "short_items.csv" in other.downloads
    assert "samples.json" not in other.downloads


def test_missing_cells_are_allowed():
    data = simulated(3)
    scores = data.scores.copy()
    scores[np.random.default_rng(0).random(scores.shape) < 0.2] = np.nan
    assert 0.8 < shorten(Outcomes.from_arrays(scores), 100).coverage <= 1


@pytest.mark.parametrize(
    ("arguments", "name"),
    [({"items": 500}, "items"), ({"items": 2.5}, "items"), ({"method": "best"}, "method")],
)
def test_wrong_arguments_are_named(outcomes, arguments, name):
    with pytest.raises(InputError, match=name):
        shorten(outcomes, **arguments)


def test_wrong_scores_of_a_new_model_are_refused(outcomes):
    with pytest.raises(InputError, match="scores"):
        shorten(outcomes, 40).estimate(np.ones(39))


@pytest.mark.parametrize("method", ["random", "stratified"])
def test_the_full_score_of_a_model_near_the_top_is_covered(method):
    """Models that score about 96 %, calibrated by models that score about 60 %, on 40 of 500 items."""
    hits, scores = [], []
    for seed in range(6):
        rng = np.random.default_rng([seed, 11])
        ease = rng.normal(0.8, 1.5, 500)
        known = (rng.random((30, 500)) < expit(rng.normal(size=(30, 1)) + ease)).astype(float)
        short = shorten(Outcomes.from_arrays(known, groups=np.arange(500) % 4), 40, method=method, seed=seed)
        p = expit(rng.normal(3.2, 0.3, (50, 1)) + 0.6 * ease + 0.8 * rng.normal(size=(50, 500)))
        for row in (rng.random(p.shape) < p).astype(float):
            found = short.estimate(row[short.rows])
            hits.append(found.low <= row.mean() <= found.high)
            scores.append(row.mean())
    assert 0.94 < np.mean(scores) < 0.98
    assert np.mean(hits) >= 0.93


def test_hypergeometric_limits_cover_every_share():
    total, n, level = 60, 20, 0.9
    limits = np.array([hypergeometric_limits(count, n, total, level) for count in range(n + 1)])
    for marked in range(total + 1):
        covered = (limits[:, 0] <= marked / total) & (marked / total <= limits[:, 1])
        assert hypergeom.pmf(np.arange(n + 1), total, marked, n)[covered].sum() >= level


def test_a_selection_that_covers_too_seldom_is_not_offered():
    errors = np.zeros((200, 5))
    errors[:, 4] = np.repeat(np.arange(20), 10)
    errors[:, 2] = np.tile(np.arange(10) < 8, 20)  # 80 % for every model
    assert _covers_too_seldom(errors, 0.95)
    errors[:, 2] = np.random.default_rng(0).random(200) < 0.95
    assert not _covers_too_seldom(errors, 0.95)
