"""Studies in worlds where the answer is known."""

from __future__ import annotations

import dataclasses
import functools
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpan import files
from hardpan.errors import InputError
from hardpan.studies import retune, training_sets
from hardpan.studies.runs import Run, _train, accuracy, difference, run_all
from hardpan.training import TrainConfig


def test_cross_validation_foresees_the_same_distribution_and_not_another(world, same, turned, quick):
    config = training_sets.CrossvalConfig(quick)
    as_before = training_sets.cross_validate(world, same, config).table.rows[0]
    changed = training_sets.cross_validate(world, turned, config).table.rows[0]
    assert as_before.predicted
    assert as_before.original.value > 0.9
    assert not changed.predicted
    assert changed.drop > 0.7
    assert changed.splits == as_before.splits  # the folds know nothing of the new set
    assert [item.n for item in changed.splits] == [48] * 5


def test_part_of_a_changed_set_helps_and_part_of_the_same_one_does_not(world, same, moved, quick):
    # Two places for a class are not linear; one hidden layer can learn them.
    config = training_sets.PartialConfig(dataclasses.replace(quick, model="mlp", epochs=20), splits=2)
    for row in training_sets.train_on_part(world, moved, config).rows:
        assert row.gain.low > 0
        assert row.p < 0.01
        assert row.beyond is not None
        assert row.beyond.low > 0
        assert (row.added, row.without.n) == (60, 60)
    for row in training_sets.train_on_part(world, same, config).rows:
        assert row.gain.low < 0 < row.gain.high
        assert row.with_new.value > 0.85


def test_the_grid_grows_until_the_best_is_inside(world, same, quick):
    config = retune.RetuneConfig(quick, {"rate": (1e-5, 2e-5)}, extensions=0)
    stuck = retune.search_settings(world, same, config)
    assert stuck.at_edge == ("rate",)
    grid = {"rate": (1e-4, 1e-2)}
    found = retune.search_settings(world, same, retune.RetuneConfig(quick, grid, extensions=6))
    assert found.at_edge == ()
    assert found.extended[0] == ("rate", 1.0)  # by the factor of 100 between the two
    rates = found.grid["rate"]
    assert rates[0] < found.best.values["rate"] < rates[-1]
    assert len(found.settings) == len(rates)


def test_the_best_is_the_best_and_the_start_is_compared_with_itself(world, same, quick):
    config = retune.RetuneConfig(
        quick, {"rate": (0.001, 0.05, 0.2), "weight_decay": (1e-4, 1e-3, 1e-2)}, extensions=0
    )
    study = retune.search_settings(world, same, config)
    assert len(study.settings) == 9
    assert study.best.new.value == max(item.new.value for item in study.settings)
    assert study.start.values == {"rate": 0.05, "weight_decay": 1e-3}
    assert study.start.gain.value == 0.0
    assert study.start.p_holm == 1.0
    assert study.better == 0
    # The best on the whole set is at least as good on it as any mixture of what its halves chose.
    assert study.fair_gain.value <= study.best.gain.value + 1e-12
    on_original = retune.search_settings(world, same, dataclasses.replace(config, choose="original"))
    assert on_original.best.original.value == max(item.original.value for item in study.settings)


def test_a_setting_that_diverges_counts_as_nothing_right(world, same, quick):
    config = retune.RetuneConfig(
        dataclasses.replace(quick, model="mlp"), {"rate": (0.01, 0.02, 1e12)}, extensions=0
    )
    study = retune.search_settings(world, same, config)
    lost = [item for item in study.settings if item.diverged]
    assert [item.values["rate"] for item in lost] == [1e12]
    assert lost[0].new.value == 0.0


def test_the_papers_grid_is_the_default_for_vgg_and_without_dropout_for_others():
    grid, _ = retune._grid_of(retune.RetuneConfig())
    assert grid == retune.PAPER_GRID
    assert len(retune.settings_of(grid)) == 7 * 5 * 5
    assert retune.starting_point(grid, {}) == {"rate": 0.1, "dropout": 1.0, "weight_decay": 5e-4}
    assert not retune.edges(grid, retune.starting_point(grid, {}))
    grid, _ = retune._grid_of(retune.RetuneConfig(TrainConfig(model="resnet18")))
    assert list(grid) == ["rate", "weight_decay"]


@given(
    st.sampled_from(["rate", "dropout", "momentum", "weight_decay"]),
    st.lists(st.floats(0.01, 0.9), min_size=2, max_size=5, unique=True),
    st.sampled_from(["low", "high"]),
)
def test_an_extended_range_goes_on_in_its_direction_and_within_bounds(name, values, side):
    ordered = tuple(sorted(values))
    longer = retune.extended(name, ordered, side)
    if longer is None:
        return
    assert list(longer) == sorted(set(longer))
    assert longer[1:] == ordered if side == "low" else longer[:-1] == ordered
    assert min(longer) >= 0
    if name in ("dropout", "momentum"):
        assert max(longer) < 1


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=200))
def test_a_paired_difference_is_antisymmetric_and_holds_its_value(pairs):
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    one, other = difference(first, second), difference(second, first)
    assert one.value == pytest.approx(accuracy(first).value - accuracy(second).value)
    assert (one.value, one.low, one.high) == pytest.approx((-other.value, -other.high, -other.low))
    assert -1 <= one.low <= one.high <= 1
    assert one.low <= one.value + 2 / len(pairs)
    assert one.high >= one.value - 2 / len(pairs)


def test_the_paired_interval_covers_the_true_difference_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(2000):
        cells = rng.choice(4, size=100, p=[0.85, 0.07, 0.03, 0.05])  # both, only first, only second, none
        found = difference((cells == 0) | (cells == 1), (cells == 0) | (cells == 2))
        hits.append(found.low <= 0.04 <= found.high)
    assert 0.93 <= np.mean(hits) <= 0.98  # 2,000 draws: ±0.01


def test_sent_runs_and_a_kept_folder_give_the_same_study(world, same, quick, tmp_path):
    config = training_sets.CrossvalConfig(quick, folds=2)
    here = training_sets.cross_validate(world, same, config)
    run = Run(training_sets.Fold(0, 2, 0), quick)
    sent = pickle.loads(pickle.dumps(functools.partial(_train, data=world, new=same, split_seed=0)))
    expected = run_all([run], world, same, 0)[0]  # as a worker elsewhere would compute it
    np.testing.assert_array_equal(sent(run, None).correct["held out"], expected.correct["held out"])
    kept = training_sets.cross_validate(world, same, config, out=tmp_path)
    assert kept == here
    paths = sorted((tmp_path / "runs").glob("*.json"))
    assert len(paths) == 3
    paths[0].unlink()
    paths[1].write_text("{cut", encoding="utf-8")
    before = paths[2].stat().st_mtime_ns
    told: list[str] = []
    resumed = training_sets.cross_validate(
        world, same, config, out=tmp_path, progress=lambda text, fraction: told.append(text)
    )
    assert resumed == here
    assert told[0] == "1 of 3 runs"  # the one that was left whole
    assert paths[2].stat().st_mtime_ns == before
    other = dataclasses.replace(config, train=dataclasses.replace(quick, epochs=7))
    training_sets.cross_validate(world, same, other, out=tmp_path)
    assert len(sorted((tmp_path / "runs").glob("*.json"))) == 6  # other settings, other runs


def test_studies_are_records_and_make_pages(world, turned, quick):
    studies = [
        training_sets.cross_validate(world, turned, training_sets.CrossvalConfig(quick, folds=2)),
        training_sets.train_on_part(world, turned, training_sets.PartialConfig(quick, splits=1)),
        retune.search_settings(world, None, retune.RetuneConfig(quick, {"rate": (0.01, 0.1)}, extensions=1)),
    ]
    for study in studies:
        back = files.from_json(json.loads(study.to_json()))
        assert back == study
        assert study.headline.split(";")[0][:30] in study.to_html()
        assert len(study.to_frame("pyarrow"))


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("folds", lambda: training_sets.CrossvalConfig(folds=1)),
        ("splits", lambda: training_sets.PartialConfig(splits=0)),
        ("choose", lambda: retune.RetuneConfig(choose="best")),
        ("extensions", lambda: retune.RetuneConfig(extensions=-1)),
        ("model", lambda: retune.RetuneConfig(TrainConfig(model="mlp,linear"))),
        ("grid", lambda: retune.checked_grid({}, ())),
        ("grid", lambda: retune.checked_grid({"speed": [1]}, ("width",))),
        ("grid", lambda: retune.checked_grid({"rate": [0.0, 1]}, ())),
        ("grid", lambda: retune.checked_grid({"rate": []}, ())),
        ("start", lambda: retune.starting_point({"rate": (1.0,)}, {"rate": 2.0})),
        ("start", lambda: retune.starting_point({"rate": (1.0,)}, {"x": 2.0})),
    ],
)
def test_bad_settings_name_the_argument(name, make):
    with pytest.raises(InputError, match=rf"^{name}\b"):
        make()
