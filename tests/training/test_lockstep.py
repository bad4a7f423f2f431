"""Scores alone, seeds in lockstep: those of the predictions that were not kept, also after a kill."""

import io
import json
import shutil
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from hardpan import cli, confusion, engine, training
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.predictions import open_scores
from hardpan.predictions.recorder import Recorder
from hardpan.training import fitting, seed_runs
from hardpan.training.saved import describe_model

SMALL = training.TrainConfig(
    model="mlp", seeds=3, epochs=3, device="cpu", model_options={"width": 20, "dropout": 0.1}
)
N, C = 400, 10


@pytest.fixture(scope="module")
def digits():
    whole = Dataset.open("digits")
    return Dataset("some-digits", whole.x[:N], whole.ids[:N], whole.labels[:N], whole.class_names)


@pytest.fixture(scope="module")
def floats(digits):
    """The probabilities themselves, (seeds, epochs, examples, classes) float32."""
    parts = digits.splits()
    return training.fit_arrays(digits.x[parts.train], digits.labels[parts.train], digits.x, SMALL).probs


@pytest.fixture(scope="module")
def reference(digits, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lockstep")
    return training.train(digits, SMALL, out=folder / "run", scalars_only=True)


def test_scores_have_the_bits_of_those_from_the_predictions(reference, floats, digits):
    found = open_scores(reference.stores[0])
    assert (found.seeds, found.epochs, found.ids.tolist()) == (3, (1, 2, 3), digits.ids.tolist())
    np.testing.assert_array_equal(found.values, np.asarray(confusion.scores(floats.astype(np.float64))))


def test_scores_are_those_of_a_full_store_but_for_its_rounding(reference, digits, tmp_path):
    made = training.train(digits, SMALL, out=tmp_path / "full")
    found, expected = open_scores(reference.stores[0]), confusion.scores(tmp_path / "full")
    # Half precision moves p by at most p/2048 (or 2^-25), and −p log₂ p by at most |log₂ p + log₂ e| times that.
    tolerance = (np.log2(C) + 1.45) / 2048 + C * 25 * 2.0**-25
    assert np.abs(found.values - expected.values).max() < tolerance
    assert found.split.tolist() == expected.split.tolist()
    for one, other in zip(made.runs, reference.runs, strict=True):
        assert one.accuracy == other.accuracy
        assert one.values == pytest.approx(other.values, rel=1e-6)


def test_models_are_those_that_the_seeds_become_alone(reference, floats, digits):
    for run in reference.runs:
        np.testing.assert_array_equal(training.predict(run.weights, digits, device="cpu"), floats[run.seed, -1])
    models = Path(reference.runs[0].weights).parent
    with np.load(models / "correct.npz") as kept:
        assert kept["ids"].tolist() == digits.ids.tolist()
        np.testing.assert_array_equal(kept["seeds"], floats[:, -1].argmax(-1) == digits.labels)
        np.testing.assert_array_equal(kept["ensemble"], floats[:, -1].mean(0).argmax(-1) == digits.labels)
    assert sorted(path.name for path in models.iterdir()) == ["correct.npz", "seed-0", "seed-1", "seed-2"]


def test_a_chunk_that_is_smaller_than_the_set_changes_no_bit(reference, digits, tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "_CHUNK_BYTES", 1)
    settings = {"evaluation_batch": 128, "epochs": 1}
    training.train(digits, SMALL, out=tmp_path / "run", scalars_only=True, **settings)
    parts = digits.splits()
    x, labels = digits.x[parts.train], digits.labels[parts.train]
    probs = training.fit_arrays(x, labels, digits.x, SMALL, **settings).probs
    expected = confusion.scores(probs.astype(np.float64))
    np.testing.assert_array_equal(open_scores(tmp_path / "run").values, expected.values)


def test_averaged_weights_and_fewer_epochs_are_what_is_scored(digits, tmp_path):
    settings = {"ema": 0.9, "record_every": 2, "seeds": 2}
    training.train(digits, SMALL, out=tmp_path / "run", scalars_only=True, **settings)
    parts = digits.splits()
    x, labels = digits.x[parts.train], digits.labels[parts.train]
    fit = training.fit_arrays(x, labels, digits.x, SMALL, **settings)
    found = open_scores(tmp_path / "run")
    assert found.epochs == fit.epochs == (2, 3)
    np.testing.assert_array_equal(found.values, np.asarray(confusion.scores(fit.probs.astype(np.float64))))


class Killed(BaseException):
    """Ends a run where no handler of errors sees it."""


@pytest.mark.parametrize("moment", ["in a chunk", "after the scores", "after the checkpoint", "before a model"])
@pytest.mark.parametrize("at", [1, 2])
def test_a_run_that_died_anywhere_goes_on_to_the_same_bits(reference, digits, tmp_path, monkeypatch, moment, at):
    calls = {"count": 0}

    def dying(function, after):
        def call(*arguments, **options):
            calls["count"] += 1
            if calls["count"] == at and not after:
                raise Killed
            result = function(*arguments, **options)
            if calls["count"] == at:
                raise Killed
            return result

        return call

    with monkeypatch.context() as patch:
        if moment == "after the checkpoint":
            patch.setattr("hardpan.engine.loop.save_checkpoint", dying(engine.save_checkpoint, True))
        elif moment == "before a model":
            patch.setattr(seed_runs, "save_model", dying(seed_runs.save_model, False))
        else:
            patch.setattr(Recorder, "record", dying(Recorder.record, moment == "after the scores"))
        with pytest.raises(Killed):
            training.train(digits, SMALL, out=tmp_path / "run", scalars_only=True)
    made = training.train(digits, SMALL, out=tmp_path / "run", scalars_only=True)
    found, expected = open_scores(tmp_path / "run"), open_scores(reference.stores[0])
    assert found.epochs == expected.epochs
    np.testing.assert_array_equal(found.values, expected.values)
    for one, other in zip(made.runs, reference.runs, strict=True):
        assert describe_model(one.weights)["sha256"] == describe_model(other.weights)["sha256"]
        assert describe_model(one.weights)["history"] == describe_model(other.weights)["history"]


def test_what_is_whole_is_not_run_again_and_scores_that_were_removed_are_made_again(
    reference, digits, tmp_path, monkeypatch
):
    out = tmp_path / "run"
    training.train(digits, SMALL, out=out, scalars_only=True)
    with monkeypatch.context() as patch:
        patch.setattr(seed_runs, "LockstepTask", lambda *_, **__: pytest.fail("it was run again"))
        again = training.train(digits, SMALL, out=out, scalars_only=True)
    assert [run.resumed_at for run in again.runs] == [3, 3, 3]
    assert [run.values for run in again.runs] == [run.values for run in reference.runs]
    shutil.rmtree(out)
    training.train(digits, SMALL, out=out, scalars_only=True)
    np.testing.assert_array_equal(open_scores(out).values, open_scores(reference.stores[0]).values)


def test_what_cannot_be_is_refused(reference, digits, tmp_path):
    with pytest.raises(InputError, match="patience"):
        training.train(digits, SMALL, out=tmp_path / "run", scalars_only=True, patience=2)
    with pytest.raises(InputError, match="lockstep_seeds"):
        training.train(digits, SMALL, out=reference.stores[0], scalars_only=True, seeds=2)
    with pytest.raises(InputError, match="record_every"):
        training.train(digits, SMALL, out=reference.stores[0], scalars_only=True, record_every=2)
    with pytest.raises(InputError, match="kind"):
        training.train(digits, SMALL, out=reference.stores[0])
    with pytest.raises(engine.Diverged):
        training.train(digits, SMALL, out=tmp_path / "bad", scalars_only=True, rate=1e30, warmup=0.9, epochs=20)


def command(*arguments):
    with redirect_stdout(io.StringIO()) as told, pytest.raises(SystemExit) as ended:
        cli.main([str(item) for item in arguments])
    assert ended.value.code in (0, None), told.getvalue()
    return told.getvalue()


def test_commands_read_what_scalars_only_wrote(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = ("--model", "linear", "--seeds", 2, "--epochs", 2, "--device", "cpu", "--workers", 1)
    made = json.loads(command("train", "digits", *settings, "--out", "run", "--scalars-only", "--json"))
    assert made["scalars_only"]
    assert "confusion subset run" in command("train", "digits", *settings, "--out", "run", "--scalars-only")
    scores = open_scores("run")
    command("confusion", "subset", "run", "--quantile", "0.9", "--out", "hard.json")
    hard = confusion.load_subset("hard.json")
    assert set(hard.ids) == set(scores.ids[scores.values >= np.quantile(scores.values, 0.9)])
    correct = "correct=run-models/linear/correct.npz"
    told = json.loads(command("confusion", "score", "run", "--set", correct, "--json"))["by_split"]
    command("train", "digits", *settings, "--out", "full")
    full = json.loads(command("confusion", "score", "full", "--json"))["by_split"]
    for part in ("train", "test"):
        assert told["splits"][part]["error"] == full["splits"][part]["error"]
    np.savez("other.npz", ids=scores.ids[1:], seeds=np.ones((2, len(scores.ids) - 1), dtype=bool))
    for given in ((), ("--set", "correct=nowhere.npz"), ("--set", "correct=other.npz")):
        with pytest.raises(SystemExit) as ended:
            cli.main(["confusion", "score", "run", "--only", "bands", *given])
        assert ended.value.code == 2
