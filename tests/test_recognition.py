"""``hardpan PATH`` and ``hardpan.look``: every kind of input is recognised, and its first command runs."""

import contextlib
import json
import shlex

import numpy as np
import pyarrow
import pytest
from sklearn.datasets import load_iris
from tests.soak.invocations import call, fixtures

import hardpan as hp
from hardpan import tables
from hardpan.errors import InputError
from hardpan.pages.recognition import KINDS, QUESTIONS
from hardpan.recognition import STEPS

RNG = np.random.default_rng(0)
X, Y = load_iris(return_X_y=True)
IRIS = {**{name: X[:, k].tolist() for k, name in enumerate("abcd")}, "species": [["s", "v", "w"][c] for c in Y]}
PROBS = RNG.dirichlet(np.ones(3), 60)
VOTES = {"example": [f"e{k // 3}" for k in range(60)], "annotator": [f"a{k % 3}" for k in range(60)]}
SAMPLES = {
    "digits": "dataset",
    "points.npz": "dataset",
    "labelled.csv": "dataset",
    "iris.csv": "unlabelled",
    "means.npy": "unlabelled",
    "probs.npz": "predictions",
    "classes.csv": "predictions",
    "store-0": "predictions",
    "outcomes.csv": "scores",
    "binary.csv": "scores",
    "logs": "scores",
    "counts.csv": "counts",
    "battles.csv": "battles",
    "votes.csv": "votes",
    "project": "project",
    "book": "ledger",
    "board": "report",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Inputs of every kind."""
    path = tmp_path_factory.mktemp("looks")
    fixtures(path)
    tables.write_table(path / "iris.csv", IRIS)
    tables.write_table(path / "labelled.csv", {("label" if k == "species" else k): v for k, v in IRIS.items()})
    tables.write_table(path / "binary.csv", {f"q{k}": RNG.integers(0, 2, 50).tolist() for k in range(12)})
    tables.write_table(
        path / "classes.csv", {name: PROBS[:, k].tolist() for k, name in enumerate(("cat", "cow", "dog"))}
    )
    tables.write_table(path / "votes.csv", {**VOTES, "label": RNG.integers(0, 3, 60).tolist()})
    sides = {"model_a": ["a", "b"] * 30, "model_b": ["c", "d"] * 30}
    tables.write_table(path / "battles.csv", {**sides, "winner": ["model_a", "model_b", "tie"] * 20})
    tables.write_table(path / "house.csv", {"a": X[:, 0].tolist(), "target": (X[:, 1] + 0.05).tolist()})
    hp.leaderboard.rank(hp.Outcomes.open(path / "outcomes.csv")).save(path / "board")
    return path


@pytest.mark.parametrize(("name", "kind"), SAMPLES.items())
def test_every_kind_is_recognised_and_its_commands_name_it(folder, name, kind):
    with contextlib.chdir(folder):
        found = hp.look(name)
    assert found.what == kind
    assert all(name in shlex.split(step.command.replace("::", " ")) for step in found.steps if step.ready)
    assert name in found.headline


def test_sizes_and_columns_are_those_of_the_data(folder):
    found = hp.look(folder / "labelled.csv")
    assert (found.sizes, found.columns) == ({"row": 150, "class": 3, "feature": 4}, {"label": "label"})
    found = hp.look(folder / "outcomes.csv")
    assert (found.sizes, set(found.columns)) == ({"model": 6, "item": 60}, {"model", "item", "score"})


def test_unlabelled_data_get_the_columns_that_may_be_the_label(folder):
    assert hp.look(folder / "iris.csv").ready.endswith("--label species")


@pytest.mark.parametrize("name", ["house.csv", "owner.key", "labels.csv", "nothing.csv"])
def test_what_nothing_reads_is_refused_by_name(folder, name):
    with pytest.raises(InputError, match=name):
        hp.look(str(folder / name))


OBJECTS = [
    (hp.Dataset.from_arrays(X, Y), "dataset"),
    ((X, Y), "dataset"),
    (pyarrow.table({**IRIS, "label": IRIS["species"]}), "dataset"),
    (PROBS, "predictions"),
    (hp.Predictions.from_arrays(PROBS), "predictions"),
    (hp.Outcomes.from_arrays(RNG.integers(0, 2, (4, 30))), "scores"),
    (hp.leaderboard.rank(RNG.integers(0, 2, (4, 30)).astype(float)), "report"),
]


@pytest.mark.parametrize(("value", "kind"), OBJECTS)
def test_objects_in_memory_get_lines_of_python(value, kind):
    found = hp.look(value)
    assert found.what == kind
    assert all(step.command.startswith("hardpan.") for step in found.steps)


def test_every_kind_and_question_has_words():
    assert set(KINDS) == set(STEPS)
    assert {question for steps in STEPS.values() for question, _, _ in steps} | {"resume"} == set(QUESTIONS)


def test_go_runs_the_first_command(folder, capsys):
    with contextlib.chdir(folder):
        from hardpan import cli

        with pytest.raises(SystemExit) as ended:
            cli.main(["book", "--go", "--json"])
        assert ended.value.code == 0
        assert json.loads(capsys.readouterr().out)["kind"] == "Check"
        assert call(["means.npy", "--go"])[0] == 2  # a label has to be named first
