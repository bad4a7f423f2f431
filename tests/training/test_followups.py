"""Follow-up experiments in worlds where the answer is known, and on digits from the command line."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reproductions import followups
from reproductions.followups import Experiment, accuracy_difference, balanced_parts

from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.predictions.checks import row_ids
from hardpan.training import TrainConfig

NAMES = ("a", "b", "c")


def gaussians(
    n: int, seed: int, *, turn: int = 0, away: float = 0.0, test: int = 0, name: str = "world"
) -> Dataset:
    """Three classes in the plane, far apart; ``turn`` gives each the place of another, ``away`` moves them all."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    angle = 2 * np.pi * ((labels + turn) % 3) / 3
    x = 3 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + rng.standard_normal((n, 2)) + away
    split = np.where(np.arange(n) < n - test, "train", "test") if test else None
    return Dataset(name, x, row_ids(n), labels.astype(np.int64), NAMES, split)


@pytest.fixture(scope="session")
def world() -> Dataset:
    """240 training and 120 test examples."""
    return gaussians(360, 0, test=120)


@pytest.fixture(scope="session")
def same() -> Dataset:
    """A new test set from the same distribution."""
    return gaussians(120, 1, name="same")


@pytest.fixture(scope="session")
def turned() -> Dataset:
    """A new test set in which the classes have changed places."""
    return gaussians(120, 2, turn=1, name="turned")


@pytest.fixture(scope="session")
def moved() -> Dataset:
    """The same elsewhere, where nothing was trained on, so that it can be learnt beside the old places."""
    return gaussians(120, 2, turn=1, away=15.0, name="moved")


@pytest.fixture(scope="session")
def quick() -> TrainConfig:
    return TrainConfig(model="linear", seeds=1, epochs=6, batch=32, device="cpu")


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(1, 6), st.integers(0, 99), st.integers(0, 3)
)
def test_parts_are_a_partition_with_even_sizes_and_classes(labels, parts, seed, draw):
    values = np.array(labels)
    found = balanced_parts(values, parts, seed, draw)
    assert sorted(np.concatenate(found).tolist()) == list(range(len(values)))
    assert np.ptp([len(part) for part in found]) <= 1
    for label in set(labels):
        assert np.ptp([int((values[part] == label).sum()) for part in found]) <= 1


def test_cross_validation_as_in_table_four():
    shown = {"original": 93.6, "s1": 93.9, "s2": 93.8, "s3": 94.0, "s4": 94.0, "s5": 93.5}
    counts = [
        {"model": "vgg", "dataset": name, "correct": round(100 * value), "total": 10_000}
        for name, value in shown.items()
    ]
    counts.append({"model": "vgg", "dataset": "new", "correct": 1715, "total": 2021})
    (row,) = followups.cross_validation(counts)
    original, new = row["original"], row["new"]
    assert [round(100 * item, 1) for item in (original.low, original.high)] == [93.1, 94.1]
    assert [round(100 * item, 1) for item in (new.value, new.low, new.high)] == [84.9, 83.2, 86.4]
    assert row["spread"] == pytest.approx(0.005)
    assert row["drop"] > 10 * row["spread"]
    assert not row["predicted"]


def test_cross_validation_foresees_the_same_distribution_and_not_another(world, same, turned, quick, tmp_path):
    as_before, changed, again = (
        followups.crossval(Experiment.open(world, new, quick, tmp_path))["table"]["rows"][0]
        for new in (same, turned, turned)
    )
    assert as_before["original"]["value"] > 0.9
    assert as_before["predicted"]
    assert not changed["predicted"]
    assert changed["splits"] == as_before["splits"]  # the folds know nothing of the new set
    assert [item["n"] for item in changed["splits"]] == [48] * 5
    assert again == changed
    assert len(list((tmp_path / "runs").iterdir())) == 12  # what is finished is read


def test_part_of_a_changed_set_helps_and_part_of_the_same_one_does_not(world, same, moved, quick, tmp_path):
    # Two places for a class are not linear; one hidden layer can learn them.
    config = dataclasses.replace(quick, model="mlp", epochs=20)
    for row in followups.part_of_new_set(Experiment.open(world, moved, config, tmp_path))["rows"]:
        assert row["gain"]["low"] > 0
        assert row["p"] < 0.01
        assert row["beyond"]["low"] > 0
        assert (row["added"], row["without"]["n"]) == (60, 60)
    for row in followups.part_of_new_set(Experiment.open(world, same, config, tmp_path))["rows"]:
        assert row["gain"]["low"] < 0 < row["gain"]["high"]
        assert row["with_new"]["value"] > 0.85


def test_the_grid_grows_until_the_best_is_inside(world, same, quick, tmp_path):
    experiment = Experiment.open(world, same, quick, tmp_path)
    assert followups.retune(experiment, {"rate": (1e-5, 2e-5)}, extensions=0)["at_edge"] == ["rate"]
    study = followups.retune(experiment, {"rate": (1e-4, 1e-2)}, extensions=6)
    rates, best = study["grid"]["rate"], study["settings"][0]
    assert study["at_edge"] == []
    assert rates[0] < best["values"]["rate"] < rates[-1]
    assert 1.0 in rates  # by the factor of 100 between the two
    assert best["new"]["value"] == max(row["new"]["value"] for row in study["settings"])
    assert study["fair_gain"]["value"] <= best["gain"]["value"] + 1e-12
    start = next(row for row in study["settings"] if row["values"] == study["start"])
    assert (start["gain"]["value"], start["p_holm"]) == (0.0, 1.0)


def test_a_setting_that_diverges_counts_as_nothing_right(world, same, quick, tmp_path):
    config = dataclasses.replace(quick, model="mlp")
    grid = {"rate": (0.01, 0.02, 1e12)}
    study = followups.retune(Experiment.open(world, same, config, tmp_path), grid, extensions=0)
    assert study["settings"][-1]["values"]["rate"] == 1e12
    assert study["settings"][-1]["new"]["value"] == 0.0


@given(
    st.sampled_from(["rate", "dropout", "weight_decay"]),
    st.lists(st.floats(0.01, 0.9), min_size=2, max_size=5, unique=True),
    st.sampled_from(["low", "high"]),
)
def test_an_extended_range_goes_on_in_its_direction_and_within_bounds(name, values, side):
    ordered = tuple(sorted(values))
    longer = followups.extended_range(name, ordered, side)
    if longer is None:
        return
    assert list(longer) == sorted(set(longer))
    assert longer[1:] == ordered if side == "low" else longer[:-1] == ordered
    assert min(longer) >= 0
    assert name != "dropout" or max(longer) < 1


def test_the_paired_interval_covers_the_true_difference_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(2000):
        cells = rng.choice(4, size=100, p=[0.85, 0.07, 0.03, 0.05])  # both, only first, only second, none
        found = accuracy_difference((cells == 0) | (cells == 1), (cells == 0) | (cells == 2))
        hits.append(found.low <= 0.04 <= found.high)
    assert 0.93 <= np.mean(hits) <= 0.98  # 2,000 draws: ±0.01


def test_a_new_set_that_does_not_fit_is_refused(world, turned, quick, tmp_path):
    for changes in ({"x": np.zeros((120, 3))}, {"class_names": ("a", "c", "b")}, {"labels": None}):
        with pytest.raises(InputError):
            Experiment.open(world, dataclasses.replace(turned, **changes), quick, tmp_path)


def test_every_experiment_runs_on_digits_from_the_command_line(tmp_path):
    for name in followups.EXPERIMENTS:
        settings = ["--model", "linear", "--set", "epochs=2", "--set", 'device="cpu"', "--out", str(tmp_path)]
        more = ["--grid", "rate=0.02,0.05,0.1"] if name == "retune" else []
        followups.main([name, "digits", *settings, *more])
        record = json.loads((tmp_path / f"{name}.json").read_text())
        assert record["examples"] == {"train": 1438, "original": 180, "new": 179}
        assert record["new"] == "half of the test set"
