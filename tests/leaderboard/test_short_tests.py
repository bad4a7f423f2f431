"""Shorter tests: the estimate of the full score, its coverage, and the lists of items."""

import json

import numpy as np
import pytest
from scipy.special import expit

from hardpan import Outcomes
from hardpan.errors import InputError
from hardpan.leaderboard import shorten


def simulated(seed=0, models=40, items=500, **more):
    rng = np.random.default_rng(seed)
    slope, ease = np.exp(rng.normal(0, 0.3, items)), rng.normal(0.3, 1.3, items)
    p = expit(rng.normal(size=models)[:, None] * slope + ease)
    return Outcomes.from_arrays((rng.random(p.shape) < p).astype(float), **more)


@pytest.fixture(scope="module")
def outcomes():
    return simulated(groups=np.arange(500) % 5)


@pytest.mark.parametrize("method", ["random", "stratified", "information"])
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
