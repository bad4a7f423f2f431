"""Studies in worlds where the answer is known."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardpan as hp
from hardpan import files
from hardpan.errors import InputError
from hardpan.studies import settings_search, training_sets
from hardpan.studies.study_runs import accuracy_difference, run_accuracy
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
    config = settings_search.RetuneConfig(quick, {"rate": (1e-5, 2e-5)}, extensions=0)
    stuck = settings_search.search_settings(world, same, config)
    assert stuck.at_edge == ("rate",)
    grid = {"rate": (1e-4, 1e-2)}
    found = settings_search.search_settings(world, same, settings_search.RetuneConfig(quick, grid, extensions=6))
    assert found.at_edge == ()
    assert 1.0 in found.grid["rate"]  # by the factor of 100 between the two
    rates = found.grid["rate"]
    assert rates[0] < found.best.values["rate"] < rates[-1]
    assert len(found.settings) == len(rates)


def test_the_best_is_the_best_and_the_start_is_compared_with_itself(world, same, quick):
    config = settings_search.RetuneConfig(
        quick, {"rate": (0.001, 0.05, 0.2), "weight_decay": (1e-4, 1e-3, 1e-2)}, extensions=0
    )
    study = settings_search.search_settings(world, same, config)
    assert len(study.settings) == 9
    assert study.best.new.value == max(item.new.value for item in study.settings)
    assert study.start.values == {"rate": 0.05, "weight_decay": 1e-3}
    assert study.start.gain.value == 0.0
    assert study.start.p_holm == 1.0
    assert study.better == 0
    # The best on the whole set is at least as good on it as any mixture of what its halves chose.
    assert study.fair_gain.value <= study.best.gain.value + 1e-12


def test_a_setting_that_diverges_counts_as_nothing_right(world, same, quick):
    config = settings_search.RetuneConfig(
        dataclasses.replace(quick, model="mlp"), {"rate": (0.01, 0.02, 1e12)}, extensions=0
    )
    study = settings_search.search_settings(world, same, config)
    lost = [item for item in study.settings if item.diverged]
    assert [item.values["rate"] for item in lost] == [1e12]
    assert lost[0].new.value == 0.0


def test_the_papers_grid_is_the_default_for_vgg_and_without_dropout_for_others():
    grid = settings_search.initial_grid(settings_search.RetuneConfig())
    assert grid == settings_search.PAPER_GRID
    start = settings_search.starting_setting(grid)
    assert start == {"rate": 0.1, "dropout": 1.0, "weight_decay": 5e-4}
    assert not settings_search.grid_edges(grid, start)
    grid = settings_search.initial_grid(settings_search.RetuneConfig(TrainConfig(model="resnet18")))
    assert list(grid) == ["rate", "weight_decay"]


@given(
    st.sampled_from(["rate", "dropout", "weight_decay"]),
    st.lists(st.floats(0.01, 0.9), min_size=2, max_size=5, unique=True),
    st.sampled_from(["low", "high"]),
)
def test_an_extended_range_goes_on_in_its_direction_and_within_bounds(name, values, side):
    ordered = tuple(sorted(values))
    longer = settings_search.extended_range(name, ordered, side)
    if longer is None:
        return
    assert list(longer) == sorted(set(longer))
    assert longer[1:] == ordered if side == "low" else longer[:-1] == ordered
    assert min(longer) >= 0
    if name == "dropout":
        assert max(longer) < 1


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=200))
def test_a_paired_difference_is_antisymmetric_and_holds_its_value(pairs):
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    one, other = accuracy_difference(first, second), accuracy_difference(second, first)
    assert one.value == pytest.approx(run_accuracy(first).value - run_accuracy(second).value)
    assert (one.value, one.low, one.high) == pytest.approx((-other.value, -other.high, -other.low))
    assert -1 <= one.low <= one.high <= 1
    assert one.low <= one.value + 2 / len(pairs)
    assert one.high >= one.value - 2 / len(pairs)


def test_the_paired_interval_covers_the_true_difference_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(2000):
        cells = rng.choice(4, size=100, p=[0.85, 0.07, 0.03, 0.05])  # both, only first, only second, none
        found = accuracy_difference((cells == 0) | (cells == 1), (cells == 0) | (cells == 2))
        hits.append(found.low <= 0.04 <= found.high)
    assert 0.93 <= np.mean(hits) <= 0.98  # 2,000 draws: ±0.01


def test_other_processes_and_a_kept_folder_give_the_same_study(world, same, quick, tmp_path):
    config = training_sets.CrossvalConfig(quick, folds=2)
    here = training_sets.cross_validate(world, same, config)
    with hp.parallel("processes", workers=2):
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
        settings_search.search_settings(
            world, None, settings_search.RetuneConfig(quick, {"rate": (0.01, 0.1)}, extensions=1)
        ),
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
        ("extensions", lambda: settings_search.RetuneConfig(extensions=-1)),
        ("model", lambda: settings_search.RetuneConfig(TrainConfig(model="mlp,linear"))),
        ("grid", lambda: settings_search.initial_grid(settings_search.RetuneConfig(grid={"speed": (1,)}))),
        ("grid", lambda: settings_search.initial_grid(settings_search.RetuneConfig(grid={"rate": (0.0, 1)}))),
        ("grid", lambda: settings_search.initial_grid(settings_search.RetuneConfig(grid={"rate": ()}))),
    ],
)
def test_bad_settings_name_the_argument(name, make):
    with pytest.raises(InputError) as caught:
        make()
    assert caught.value.argument == name
