"""The topic ``floor``: its sets have the floors they say, and planted estimators get the scores they must get."""

import sys

import numpy as np
import pytest
from bench._floor_estimators import ESTIMATORS, find_estimator
from bench._known_sets import SOURCES, find_source
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from bench import floor
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.estimates import Estimate


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("error", [0.001, 0.2])
def test_a_source_has_the_floor_and_the_posteriors_that_it_says(name, error):
    known = SOURCES[name](20_000, error, 3)
    wrong = known.posterior.argmax(axis=1) != known.y
    spread = np.sqrt(error * (1 - error) / 20_000)
    assert wrong.mean() == pytest.approx(error, abs=4.5 * spread)
    risk = 1 - known.posterior.max(axis=1)
    assert risk.mean() == pytest.approx(error, abs=4.5 * risk.std() / np.sqrt(20_000) + 1e-3 * error)
    # Calibrated: among examples called uncertain, as many are wrong as the posterior says.
    unsure = risk > np.quantile(risk, 0.9)
    expected = risk[unsure].sum()
    assert wrong[unsure].sum() == pytest.approx(expected, abs=4.5 * np.sqrt(expected) + 1)


@pytest.mark.parametrize("name", SOURCES)
def test_draws_repeat_with_their_seed_and_differ_without(name):
    first, again, other = (SOURCES[name](300, 0.2, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.x, again.x)
    assert not np.array_equal(first.x, other.x)


def test_the_warp_leaves_nothing_gaussian():
    plain, bent = (SOURCES[name](6000, 0.2, 0) for name in ("ten-gaussians", "warped"))
    np.testing.assert_array_equal(plain.posterior, bent.posterior)
    for known, fits in ((plain, True), (bent, False)):
        model = LinearDiscriminantAnalysis().fit(known.x[:3000], known.y[:3000])
        assert (abs((model.predict(known.x[3000:]) != known.y[3000:]).mean() - 0.2) < 0.02) == fits


def test_a_flow_is_a_source(tmp_path):
    flows = pytest.importorskip("hardpan.flows")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    data = Dataset.from_arrays(rng.normal(size=(600, 2)) + 2.0 * y[:, None], y)
    flows.fit(data, flows.FlowConfig(preset="tiny", epochs=2)).save(tmp_path / "flow")
    source = find_source(f"flow:{tmp_path / 'flow'}")
    drawn = source(4000, 0.2, 0)
    assert drawn.x.shape == (4000, 2)
    assert (1 - drawn.posterior.max(axis=1)).mean() == pytest.approx(0.2, abs=0.01)
    assert (drawn.posterior.argmax(axis=1) != drawn.y).mean() == pytest.approx(0.2, abs=0.03)
    shorter = source(500, 0.2, 0)
    np.testing.assert_array_equal(shorter.y, drawn.y[:500])
    np.testing.assert_allclose(shorter.x, drawn.x[:500], rtol=1e-4, atol=1e-4)
    assert not np.array_equal(source(500, 0.2, 1).y, shorter.y)


def test_every_estimator_gives_the_numbers_that_it_names():
    rows = floor.estimator_table("ten-gaussians", list(ESTIMATORS), (0.2,), (300,), 1)["rows"]
    names = [f"{name} {quantity}".strip() for name, item in ESTIMATORS.items() for quantity in item.roles]
    assert [row["estimator"] for row in rows] == names
    for row in rows:
        assert 0 <= row["at 0.2"] <= 1


def constant(x_train, y_train, x_test, y_test):
    return Estimate(0.1, 0.0, 0.06, 0.3, method="a constant")


def ends(*, n_classes, seed):
    return {"low": Estimate(0.06, 0, 0.055, 0.07), "high": Estimate(0.06, 0, 0.01, 0.19)}


ends.roles = {"low": "lower", "high": "upper"}


def refuses(x_train):
    raise InputError("it cannot be done")


def crashes(x_train):
    return 1 / 0


def gives_a_number(x_train):
    return 0.1


@pytest.fixture
def mine(monkeypatch):
    """This module under a name on the import path, as someone's own module would be."""
    monkeypatch.setitem(sys.modules, "mine", sys.modules[__name__])


def test_scores_of_planted_estimators_are_what_they_must_be(mine):
    table = floor.estimator_table("two-gaussians", ["mine:constant", "mine:ends"], (0.05, 0.2), (200,), 3)
    rows = {row["estimator"]: row for row in table["rows"]}
    first = rows["mine:constant"]
    assert (first["at 0.05"], first["at 0.2"]) == (pytest.approx(0.1), pytest.approx(0.1))
    assert (first["relative error"], first["holds"]) == (pytest.approx(0.75), 0.5)
    assert [rows[f"mine:ends {end}"]["holds"] for end in ("low", "high")] == [0.5, 0.5]


def test_own_functions_that_fail_leave_a_note_and_stop_nothing(mine):
    names = ["mine:refuses", "mine:crashes", "mine:gives_a_number", "votes"]
    table = floor.estimator_table("two-gaussians", names, (0.1,), (100,), 2)
    assert [row["at 0.1"] is None for row in table["rows"]] == [True, True, True, False, False]
    for name, reason in zip(names, ("it cannot be done", "division by zero", "not an Estimate"), strict=False):
        assert any(name in note and reason in note for note in table["notes"])


def test_votes_of_a_perfect_crowd_are_covered():
    for row in floor.estimator_table("ten-gaussians", ["votes", "soft-labels"], (0.001, 0.2), (1000,), 20)["rows"]:
        assert row["holds"] >= 0.8


def test_unknown_names_are_refused():
    with pytest.raises(InputError) as caught:
        find_source("sea")
    assert caught.value.argument == "source"
    for name in ("tea-leaves", "os:sep", "no_such_module:f"):
        with pytest.raises(InputError) as caught:
            find_estimator(name)
        assert caught.value.argument == "estimator"
