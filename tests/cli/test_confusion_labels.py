"""Predictions and a dataset that both know labels: by position they must agree, by id differences are counted."""

import json

import numpy as np
import pytest

from hardpan.cli import main
from hardpan.data.dataset import Dataset

N = 20


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(N, 3)), np.arange(N) % 4
    np.savez("data.npz", x=x, y=y)
    np.savez("newer.npz", x=x, y=np.where(np.arange(N) < 2, 3 - y, y))
    probs = rng.dirichlet(np.ones(4), size=(2, 2, N))
    np.savez("by_place.npz", probs=probs, labels=y)
    np.savez("by_id.npz", probs=probs, labels=y, ids=Dataset.open("data.npz").ids)
    return tmp_path


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["confusion", "score", *arguments, "--json"])
    printed = capsys.readouterr()
    return ended.value.code, printed.err or json.loads(printed.out)["relabelled"]


def test_labels_that_agree_are_no_matter(folder, capsys):
    assert run(capsys, "by_place.npz", "--data", "data.npz", "--by-order") == (0, 0)
    assert run(capsys, "by_id.npz", "--data", "data.npz") == (0, 0)


def test_by_place_other_labels_mean_other_examples(folder, capsys):
    code, said = run(capsys, "by_place.npz", "--data", "newer.npz", "--by-order")
    assert code == 2
    assert "by_place.npz: its labels differ" in said


def test_by_id_other_labels_are_told(folder, capsys):
    assert run(capsys, "by_id.npz", "--data", "newer.npz") == (0, 2)


def test_a_part_that_is_not_there_is_named_as_one(folder, capsys):
    code, said = run(capsys, "by_id.npz", "--split", "test")
    assert code == 2
    assert "split 'test'" in said
