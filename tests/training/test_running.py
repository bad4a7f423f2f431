"""hardpan.training.train: what a store holds, exact resume, more seeds, other back ends, models on disk."""

import contextlib
import functools
import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import hardpan
from hardpan import confusion, engine, files, training
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.execution import mapping
from hardpan.predictions import Predictions, storage
from hardpan.predictions.recorder import Recorder
from hardpan.training import runs
from hardpan.training.saved import describe_model

SMALL = training.TrainConfig(
    model="mlp", seeds=2, epochs=3, device="cpu", model_options={"width": 30, "dropout": 0.1}
)


@pytest.fixture(scope="module")
def digits():
    whole = Dataset.open("digits")
    keep = slice(0, 500)
    return Dataset("some-digits", whole.x[keep], whole.ids[keep], whole.labels[keep], whole.class_names)


@pytest.fixture(scope="module")
def reference(digits, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    made = training.train(digits, SMALL, out=folder / "run")
    return made, Predictions.open(folder / "run")


def same(one, other):
    assert one.seeds == other.seeds
    assert one.epochs == other.epochs
    np.testing.assert_array_equal(one.to_array(), other.to_array())


def test_a_store_holds_every_example_after_every_epoch(reference, digits):
    made, found = reference
    assert found.seeds == (0, 1)
    assert found.epochs == (1, 2, 3)
    assert found.ids.tolist() == digits.ids.tolist()
    assert found.labels.tolist() == digits.labels.tolist()
    parts = digits.splits()
    assert set(np.flatnonzero(found.split == "test")) == set(parts.test.tolist())
    assert set(np.flatnonzero(found.split == "train")) == set(parts.train.tolist())
    assert found.config["architecture"] == "mlp"
    assert found.class_names == digits.class_names
    for run in made.runs:
        probs = found.read(run.seed, 3)
        right = (probs.argmax(1) == digits.labels)[parts.test]
        assert run.accuracy["test"].value == pytest.approx(right.mean())
        assert run.accuracy["test"].n == len(parts.test)
        assert run.accuracy["test"].low < right.mean() < run.accuracy["test"].high


def test_saved_models_predict_what_was_recorded(reference, digits):
    made, found = reference
    for run in made.runs:
        probs = training.predict(run.weights, digits, device="cpu")
        np.testing.assert_array_equal(probs.astype(np.float16), found.read(run.seed, 3))
        part = training.predict(training.load_model(run.weights), digits.x[:7], device="cpu", batch=2)
        np.testing.assert_allclose(part, probs[:7], atol=1e-6)
        assert not (engine.load_checkpoint(f"{run.weights}/checkpoint"))


def test_a_damaged_model_and_other_data_are_refused(reference, digits, tmp_path):
    made, _ = reference
    shutil.copytree(made.runs[0].weights, tmp_path / "model")
    with pytest.raises(InputError, match=r"\bdata\b"):
        training.predict(tmp_path / "model", digits.x[:, :4], device="cpu")
    weights = tmp_path / "model" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(InputError, match="model"):
        training.load_model(tmp_path / "model")
    with pytest.raises(InputError, match="model"):
        training.load_model(tmp_path)


@pytest.mark.parametrize("name", ["input_shape", "scale", "model", "seed"])
def test_a_description_that_lacks_a_value_is_refused(reference, tmp_path, name):
    made, _ = reference
    shutil.copytree(made.runs[0].weights, tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    content = json.loads(path.read_text())
    del content[name]
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="model"):
        training.load_model(tmp_path / "model")


def test_arrays_give_the_numbers_that_a_store_gets(reference, digits):
    _, found = reference
    parts = digits.splits()
    fit = training.fit_arrays(digits.x[parts.train], digits.labels[parts.train], digits.x, SMALL)
    np.testing.assert_array_equal(fit.probs.astype(np.float16), found.to_array())


class Killed(BaseException):
    """Ends a run where no handler of errors sees it."""


@pytest.mark.parametrize(
    "moment", ["before the record", "after the record", "after the checkpoint", "before the model"]
)
@pytest.mark.parametrize("at", [1, 2])
def test_a_run_that_died_anywhere_goes_on_to_the_same_numbers(reference, digits, tmp_path, monkeypatch, moment, at):
    uninterrupted, expected = reference
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
        if moment.endswith("record"):
            patch.setattr(Recorder, "record", dying(Recorder.record, moment.startswith("after")))
        elif moment == "after the checkpoint":
            patch.setattr("hardpan.engine.loop.save_checkpoint", dying(engine.save_checkpoint, True))
        else:
            patch.setattr(runs, "save_model", dying(runs.save_model, False))
        with pytest.raises(Killed):
            training.train(digits, SMALL, out=tmp_path / "run")
    made = training.train(digits, SMALL, out=tmp_path / "run")
    same(Predictions.open(tmp_path / "run"), expected)
    for run, other in zip(made.runs, uninterrupted.runs, strict=True):
        assert len(describe_model(run.weights)["history"]) == 3
        for name in ("model.json", "model.safetensors"):
            assert (Path(run.weights) / name).read_bytes() == (Path(other.weights) / name).read_bytes()


def test_what_is_whole_is_not_run_again_and_seeds_can_be_added(reference, digits, tmp_path, monkeypatch):
    _, expected = reference
    first = training.train(digits, SMALL, out=tmp_path / "run", seeds=1)
    assert first.runs[0].resumed_at == 0
    with monkeypatch.context() as patch:
        patch.setattr(runs, "fit_model", lambda *_, **__: pytest.fail("a run that is there was run again"))
        again = training.train(digits, SMALL, out=tmp_path / "run", seeds=1)
    assert again.runs[0].resumed_at == 3
    assert again.runs[0].values == first.runs[0].values
    training.train(digits, SMALL, out=tmp_path / "run")
    same(Predictions.open(tmp_path / "run"), expected)


def test_a_store_that_was_removed_is_made_again(reference, digits, tmp_path):
    _, expected = reference
    training.train(digits, SMALL, out=tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    training.train(digits, SMALL, out=tmp_path / "run")
    same(Predictions.open(tmp_path / "run"), expected)


def test_processes_give_the_same_numbers(reference, digits, tmp_path):
    _, expected = reference
    with hardpan.parallel("processes", workers=2):
        made = training.train(digits, SMALL, out=tmp_path / "run")
    same(Predictions.open(tmp_path / "run"), expected)
    assert [run.seed for run in made.runs] == [0, 1]


def test_several_architectures_get_a_store_each_and_fewer_epochs_can_be_kept(digits, tmp_path):
    made = training.train(
        digits,
        out=tmp_path / "runs",
        model="linear,convnet",
        seeds=1,
        epochs=5,
        record_every=2,
        device="cpu",
    )
    assert made.stores == (str(tmp_path / "runs" / "linear"), str(tmp_path / "runs" / "convnet"))
    for place in made.stores:
        assert Predictions.open(place).epochs == (2, 4, 5)
    for run in made.runs:
        probs = training.predict(run.weights, digits, device="cpu")
        np.testing.assert_array_equal(probs.astype(np.float16), Predictions.open(run.store).read(0, 5))
    assert (tmp_path / "runs-models" / "linear" / "seed-0" / "model.safetensors").exists()
    assert files.from_json(json.loads(files.json_text(made))) == made


def own_factory(*, input_shape, n_classes):
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(int(np.prod(input_shape)), n_classes))


def test_a_file_never_decides_what_is_imported(digits, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "own_models", sys.modules[__name__])
    own = {"model": "own_models:own_factory", "model_options": {}, "seeds": 1}
    made = training.train(digits, SMALL, out=tmp_path / "run", **own)
    for use in (training.load_model, lambda folder: training.predict(folder, digits)):
        with pytest.raises(InputError) as caught:
            use(made.runs[0].weights)
        assert caught.value.argument == "model"
        with pytest.raises(InputError):
            training.load_model(made.runs[0].weights, model="")
    loaded = training.load_model(made.runs[0].weights, model="own_models:own_factory")
    probs = training.predict(loaded, digits, device="cpu")
    np.testing.assert_array_equal(probs.astype(np.float16), Predictions.open(tmp_path / "run").read(0, 3))


def test_averaged_weights_are_what_predicts(digits, tmp_path):
    made = training.train(digits, SMALL, out=tmp_path / "run", seeds=1, ema=0.95)
    probs = training.predict(made.runs[0].weights, digits, device="cpu")
    np.testing.assert_array_equal(probs.astype(np.float16), Predictions.open(tmp_path / "run").read(0, 3))


def test_a_hard_subset_becomes_a_group(digits, tmp_path):
    groups = (np.arange(len(digits)) % 3 == 0).astype(np.int64)
    settings = {"out": tmp_path / "run", "seeds": 1, "objective": "reweight"}
    training.train(digits, SMALL, group=groups, **settings)
    manifest = confusion.subset_of_ids(digits.ids[groups == 1], examples=len(digits)).save(tmp_path / "some.json")
    again = training.train(digits, SMALL, group=manifest, **settings)
    assert again.runs[0].resumed_at == 3  # the same groups, so nothing is left to do
    with pytest.raises(InputError, match="groups_sha256="):
        training.train(digits, SMALL, group=1 - groups, **settings)


def test_a_manifest_of_confusion_is_taken(digits, tmp_path):
    training.train(digits, SMALL, out=tmp_path / "run")
    hard = confusion.subset(confusion.scores(tmp_path / "run"), fraction=0.2)
    hard.save(tmp_path / "hard.json")
    made = training.train(
        digits, SMALL, out=tmp_path / "dro", seeds=1, objective="groupdro", group=tmp_path / "hard.json"
    )
    assert made.runs[0].epochs == 3


def test_what_cannot_be_is_refused_before_anything_runs(digits, tmp_path):
    def refused(message, data=digits, **changes):
        with pytest.raises(InputError, match=message):
            training.train(data, SMALL, out=tmp_path / "run", **changes)
        assert not list(tmp_path.iterdir())

    refused("resnet7", model="resnet7")
    refused(r"\bgroup\b", objective="groupdro")
    refused(r"\bgroup\b", group=np.zeros(500, dtype=int))
    refused(r"\bgroup\b", objective="reweight", group=np.zeros(3, dtype=int))
    refused("labels", data=Dataset("x", digits.x, digits.ids))
    refused("digitz", data="digitz")
    with pytest.raises(InputError, match=r"\bout\b"):
        training.train(digits, SMALL, out="")
    with pytest.raises(InputError, match=r"\bweights\b"):
        training.train(digits, SMALL, out="memory://run")


def test_other_settings_into_the_same_store_are_refused(digits, tmp_path):
    training.train(digits, SMALL, out=tmp_path / "run", seeds=1)
    with pytest.raises(InputError, match=r"rate=.*0\.7"):
        training.train(digits, SMALL, out=tmp_path / "run", seeds=1, rate=0.7)


def test_a_second_process_on_the_same_run_is_refused_and_disturbs_nothing(digits, tmp_path):
    config = training.TrainConfig(model="linear", seeds=1, epochs=1, device="cpu")
    claimed = tmp_path / "run-models" / "linear" / "seed-0"
    with (
        engine.locked_run_folder(claimed),
        pytest.raises(InputError, match=claimed.name),
    ):
        training.train(digits, config, out=tmp_path / "run")
    training.train(digits, config, out=tmp_path / "run")
    assert not list(tmp_path.rglob(".in-use"))


def test_changed_examples_under_the_same_ids_are_refused(digits, tmp_path):
    training.train(digits, SMALL, out=tmp_path / "run", seeds=1)
    x = digits.x.copy()
    x[7, 3, 3] += 1
    changed = Dataset(digits.name, x, digits.ids, digits.labels, digits.class_names)
    with pytest.raises(InputError, match="examples_sha256="):
        training.train(changed, SMALL, out=tmp_path / "run", seeds=1)


def test_cores_are_those_that_the_process_may_use():
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("processes cannot be bound to cores here")
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert mapping.available_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert mapping.available_cores() == len(before)


class Diverging(torch.nn.Module):
    """A model whose first loss is not a number."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.inner = torch.nn.Linear(n_in, n_out)

    def forward(self, x):
        return self.inner(x.flatten(1)) * float("nan")


class DivergingLater(Diverging):
    """A model whose losses are numbers for the batches of an epoch, and none after."""

    def forward(self, x):
        self.batches = getattr(self, "batches", 0) + self.training
        return super().forward(x) if self.batches > 10 else self.inner(x.flatten(1))


def diverging_later(*, input_shape, n_classes):
    return DivergingLater(int(np.prod(input_shape)), n_classes)


def test_divergence_is_said_and_what_was_good_is_kept(digits, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "failing_models", sys.modules[__name__])
    config = training.TrainConfig(model="failing_models:diverging_later", seeds=1, epochs=9, batch=50, device="cpu")
    with pytest.raises(engine.Diverged, match="rate"):
        training.train(digits, config, out=tmp_path / "run")
    assert Predictions.open(tmp_path / "run").epochs == (1,)


def diverging(*, input_shape, n_classes):
    return Diverging(int(np.prod(input_shape)), n_classes)


def raising(*, input_shape, n_classes):
    """A factory that works when it is tried, and not when the run wants its model."""
    if "TRIED" in os.environ:
        raise RuntimeError("no more models")
    os.environ["TRIED"] = "1"
    return Diverging(int(np.prod(input_shape)), n_classes)


TOO_FAST = {"rate": 1e38, "warmup": 0.0}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"model": "failing_models:diverging"}, engine.Diverged),
        ({"model": "failing_models:raising"}, RuntimeError),
        (TOO_FAST, engine.Diverged),
        ({"model": "linear,failing_models:diverging"}, engine.Diverged),
    ],
)
def test_a_run_that_fails_in_its_first_epoch_leaves_no_empty_store(digits, tmp_path, monkeypatch, changes, error):
    monkeypatch.setitem(sys.modules, "failing_models", sys.modules[__name__])
    monkeypatch.setenv("TRIED", "")
    monkeypatch.delenv("TRIED")
    out = tmp_path / "new" / "run"
    settings = {"model": "linear", "seeds": 2, "epochs": 2, "device": "cpu", "out": out}
    with pytest.raises(error):
        training.train(digits, **settings | changes)
    if "," in changes.get("model", ""):  # what the first architecture recorded is kept
        assert sorted(place.name for place in out.iterdir()) == ["linear"]
        shutil.rmtree(tmp_path / "new")
    assert not out.exists()
    made = training.train(digits, **settings)  # other settings would be refused by a store that was left
    assert [run.epochs for run in made.runs] == [2, 2]


def test_a_store_that_another_run_has_in_use_or_that_was_there_is_not_removed(digits, tmp_path, monkeypatch):
    settings = {"model": "linear", "seeds": 1, "epochs": 2, "device": "cpu"}
    held = contextlib.ExitStack()

    def fails(piece, progress=None):
        if not (tmp_path / "held").exists():  # as another seed that has opened the store and recorded nothing yet
            (tmp_path / "held").touch()
            held.enter_context(storage.locked_storage(piece.store, shared=True))
        raise RuntimeError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(runs, "train_run", fails)
        with pytest.raises(RuntimeError, match="planted"):
            training.train(digits, out=tmp_path / "run", **settings)
        assert Predictions.open(tmp_path / "run").seeds == ()
        held.close()
        with pytest.raises(RuntimeError, match="planted"):
            training.train(digits, out=tmp_path / "run", **settings)
    assert Predictions.open(tmp_path / "run").seeds == ()  # this call did not make it
    training.train(digits, out=tmp_path / "run", **settings)
    assert Predictions.open(tmp_path / "run").epochs == (1, 2)


def test_a_seed_that_failed_takes_nothing_from_seeds_that_recorded(digits, tmp_path, monkeypatch):
    fit = runs.fit_model

    def second_fails(*arguments, seed, **options):
        if seed == 1:
            raise RuntimeError("planted")
        return fit(*arguments, seed=seed, **options)

    with monkeypatch.context() as patch:
        patch.setattr(runs, "fit_model", second_fails)
        with pytest.raises(RuntimeError, match="planted"):
            training.train(digits, SMALL, out=tmp_path / "run")
    assert Predictions.open(tmp_path / "run").seeds == (0,)


def test_a_remote_store_is_written_through_its_address(digits, tmp_path, reference):
    _, expected = reference
    place = "memory://" + tmp_path.name
    training.train(digits, SMALL, out=place, weights=tmp_path / "models")
    same(Predictions.open(place), expected)


def test_data_that_was_written_anew_is_read_anew(tmp_path):
    rng = np.random.default_rng(0)
    for shift in (0, 1):
        x, y = rng.normal(size=(40, 3)), (np.arange(40) + shift) % 2
        np.savez(tmp_path / "data.npz", x_train=x, y_train=y, x_test=x[:9], y_test=y[:9])
        out = tmp_path / f"run-{shift}"
        training.train(tmp_path / "data.npz", model="linear", seeds=1, epochs=1, device="cpu", out=out)
        assert sorted(Predictions.open(out).labels[:40].tolist()) == sorted(y.tolist())
        assert Predictions.open(out).labels.tolist() == [*y.tolist(), *y[:9].tolist()]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"precision": "tf32"}, "precision"),
        ({"objective_options": {"step": 1}}, "step"),
        ({"objective": "groupdro", "group": np.zeros(500, int)}, "groups"),
        ({"objective": "reweight", "group": 2 * (np.arange(500) % 2)}, "groups"),
        ({"weights": "/dev/null/models"}, "weights"),
    ],
)
def test_refused_settings_leave_no_store_that_would_refuse_the_right_ones(digits, tmp_path, changes, message):
    settings = {"model": "linear", "seeds": 1, "epochs": 1, "device": "cpu", "out": tmp_path / "run"}
    with pytest.raises(InputError, match=message):
        training.train(digits, **settings | changes)
    assert not (tmp_path / "run").exists()


def test_a_cluster_that_does_not_answer_leaves_no_store_behind(digits, tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("hardpan.execution.mapping.ANSWER_SECONDS", 1)
    config = training.TrainConfig(model="linear", seeds=2, epochs=1, device="cpu")
    away = functools.partial(hardpan.parallel, "dask", address="tcp://127.0.0.1:1")
    with pytest.raises(InputError, match="Dask"), away():
        training.train(digits, config, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
    made = training.train(digits, SMALL, out=tmp_path / "run", seeds=1)
    with pytest.raises(InputError, match="linear"), away():
        training.train(digits, config, out=tmp_path / "run")  # known before anybody is called
    assert Predictions.open(made.stores[0]).seeds == (0,)
