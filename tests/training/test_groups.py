"""Runs with groups tell the accuracy of each: what the recorded predictions say of the test part."""

import numpy as np
import pytest

from hardpan import files, training
from hardpan.data.dataset import Dataset
from hardpan.predictions import Predictions


@pytest.fixture(scope="module")
def groups():
    return np.isin(Dataset.open("digits").labels, (1, 8)).astype(np.int64)


def settings(groups, out):
    return {"model": "linear", "seeds": 2, "epochs": 2, "device": "cpu", "objective": "groupdro", "group": groups,
            "out": out}  # fmt: skip


def test_it_is_what_the_predictions_say(tmp_path, groups):
    made = training.train("digits", **settings(groups, tmp_path / "run"))
    digits = Dataset.open("digits")
    test = digits.splits().test
    kept = Predictions.open(tmp_path / "run")
    for run in made.runs:
        right = kept.read(run.seed, 2)[test].argmax(axis=1) == digits.labels[test]
        assert sorted(run.group_accuracy) == ["0", "1"]
        for group, told in run.group_accuracy.items():
            mine = groups[test] == int(group)
            assert (told.value, told.n) == (pytest.approx(right[mine].mean()), mine.sum())
    again = training.train("digits", **settings(groups, tmp_path / "run"))
    assert [run.group_accuracy for run in again.runs] == [run.group_accuracy for run in made.runs]
    assert files.from_json(files.to_json(made)).runs == made.runs


def test_without_groups_there_is_nothing_to_tell(tmp_path):
    made = training.train("digits", model="linear", seeds=1, epochs=1, device="cpu", out=tmp_path / "run")
    assert made.runs[0].group_accuracy == {}
    assert not any("group" in name for name in made.runs[0].values)
