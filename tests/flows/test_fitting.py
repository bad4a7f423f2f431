"""Fits find planted answers, are exact in resuming, and stop with a sentence when they cannot go on."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from tests.flows.small import blobs
from tests.refusals import refused

from hardpan import bayes, engine, flows
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.flows import FlowConfig

QUICK = FlowConfig(preset="tiny", epochs=3, steps=1, levels=1, width=8, batch_size=128)


@pytest.fixture(scope="module")
def digits() -> Dataset:
    whole = Dataset.open("digits")
    rows = slice(0, 400)
    assert whole.labels is not None
    return Dataset("some digits", whole.x[rows], whole.ids[rows], whole.labels[rows], whole.class_names)


def test_a_vector_flow_finds_the_bayes_error_of_gaussian_classes():
    data = blobs(1500, d=4)
    exact = bayes.gaussian(2.0 * np.eye(3, 4)).value
    flow = flows.fit(data, FlowConfig(preset="tiny", epochs=10, transforms=2, hidden=32))
    # −log π_y p_y(x) of the truth: entropy of the labels plus that of four normals
    truth = np.log(3) + 2 * np.log(2 * np.pi * np.e)
    assert flow.record.fitted["test_nll"] == pytest.approx(truth, abs=0.25)
    assert flow.bayes_error().value == pytest.approx(exact, abs=0.06)
    np.testing.assert_allclose(flow.priors, 1 / 3, atol=0.02)


def test_an_image_flow_learns_and_says_how_it_went(digits, tmp_path):
    lines: list[str] = []
    flow = flows.fit(digits, QUICK, out=tmp_path / "flow", progress=lambda line, _: lines.append(line))
    fitted = flow.record.fitted
    assert fitted["epochs"] == 3
    assert [floor["epoch"] for floor in flow.record.floors] == [1, 2, 3]
    nll = [floor["validation_nll"] for floor in flow.record.floors]
    assert nll[2] < nll[0]
    assert fitted["validation_nll"] == pytest.approx(min(nll), rel=1e-3)
    assert fitted["test_nll"] == pytest.approx(flow.nll(*rows_of(digits, "test")).value, rel=0.02)
    assert fitted["validation_bits_per_dim"] == pytest.approx(flow.bits_per_dimension(fitted["validation_nll"]))
    assert any("bits per dim" in line and "nll" in line for line in lines)
    again = flows.load(tmp_path / "flow")
    np.testing.assert_array_equal(again.log_joint(digits.x[:9]), flow.log_joint(digits.x[:9]))
    counts = np.bincount(rows_of(digits, "train")[1], minlength=10)
    np.testing.assert_allclose(flow.priors, counts / counts.sum(), rtol=1e-5)


def rows_of(dataset, part):
    rows = getattr(dataset.splits(), part)
    return dataset.x[rows], dataset.labels[rows]


def test_equal_seeds_give_equal_flows_and_others_do_not(digits):
    one, two = flows.fit(digits, QUICK), flows.fit(digits, QUICK)
    np.testing.assert_array_equal(one.log_joint(digits.x[:20]), two.log_joint(digits.x[:20]))
    other = flows.fit(digits, dataclasses.replace(QUICK, seed=1))
    assert not np.array_equal(other.means, one.means)


@pytest.mark.parametrize("data", ["digits", "blobs"])
def test_a_run_that_was_cut_goes_on_to_the_same_bits(data, digits, tmp_path):
    given = digits if data == "digits" else blobs(300)
    whole = flows.fit(given, QUICK, out=tmp_path / "whole")

    class Cut(Exception):
        pass

    def cut(line: str, fraction: float) -> None:
        if fraction > 0.6:
            raise Cut

    with pytest.raises(Cut):
        flows.fit(given, QUICK, out=tmp_path / "cut", progress=cut)
    again = flows.fit(given, QUICK, out=tmp_path / "cut")
    np.testing.assert_array_equal(again.log_joint(given.x[:20]), whole.log_joint(given.x[:20]))
    assert again.record.floors == whole.record.floors


def test_other_examples_under_the_same_name_are_not_given_the_old_flow(tmp_path):
    first = blobs(120)
    quick = FlowConfig(preset="tiny", epochs=1)
    flows.fit(first, quick, out=tmp_path)
    for changed in (
        dataclasses.replace(first, x=first.x + 1e-6),
        dataclasses.replace(first, labels=np.roll(first.labels, 1)),
    ):
        with pytest.raises(InputError, match="data_sha256"):
            flows.fit(changed, quick, out=tmp_path)
    flows.fit(first, quick, out=tmp_path)


def test_a_second_process_on_the_same_fit_is_refused(tmp_path):
    config = FlowConfig(preset="tiny", epochs=1)
    with (
        engine.locked_run_folder(tmp_path / "flow"),
        pytest.raises(InputError, match="flow"),
    ):
        flows.fit(blobs(), config, out=tmp_path / "flow")
    flows.fit(blobs(), config, out=tmp_path / "flow")


def test_a_loss_that_is_not_a_number_stops_the_run(digits, tmp_path):
    wild = dataclasses.replace(QUICK, learning_rate=1e30, clip=1e30, warmup=0.0)
    with pytest.raises(InputError, match="checkpoints"):
        flows.fit(digits, wild, out=tmp_path / "wild")
    with pytest.raises(InputError, match="checkpoint"):
        flows.fit(digits, wild)


def test_after_a_nan_the_last_good_checkpoint_is_there_and_is_named(digits, tmp_path, monkeypatch):
    from hardpan.flows.fitting import FlowTask

    plain = FlowTask.begin_epoch

    def break_later(task, epoch):
        plain(task, epoch)
        if epoch == 2:
            with torch.no_grad():
                task.optimizer.parameters[0].fill_(float("nan"))

    monkeypatch.setattr(FlowTask, "begin_epoch", break_later)
    with pytest.raises(InputError, match="checkpoints") as caught:
        flows.fit(digits, QUICK, out=tmp_path / "run")
    assert "\n" not in str(caught.value)
    kept = engine.load_checkpoint(tmp_path / "run" / "checkpoints")
    assert kept is not None
    assert all(torch.isfinite(item).all() for item in kept.tensors.values() if item.is_floating_point())
    monkeypatch.setattr(FlowTask, "begin_epoch", plain)
    again = flows.fit(digits, QUICK, out=tmp_path / "run")
    assert again.record.floors == flows.fit(digits, QUICK).record.floors


@pytest.mark.parametrize("data", ["digits", "blobs"])
def test_the_test_rows_choose_nothing(data, digits):
    given = digits if data == "digits" else blobs(300)
    parts = given.splits()
    other = dataclasses.replace(given, x=given.x.copy(), labels=given.labels.copy())
    other.x[parts.test] = other.x[parts.test][::-1]
    other.labels[parts.test] = (other.labels[parts.test] + 1) % given.n_classes
    settings = dataclasses.replace(QUICK, patience=1)
    first, second = flows.fit(given, settings), flows.fit(other, settings)
    for name, value in first.network.state_dict().items():
        assert torch.equal(value, second.network.state_dict()[name]), name
    assert first.record.floors == second.record.floors
    assert first.record.fitted["test_error"] != second.record.fitted["test_error"]


def test_progress_names_likelihood_and_bits(digits):
    lines = []
    flows.fit(digits, QUICK, progress=lambda line, fraction: lines.append((line, fraction)))
    assert any("nll" in line and "bits per dim" in line and "left" in line for line, _ in lines)
    fractions = [fraction for _, fraction in lines]
    assert fractions == sorted(fractions)


def test_early_stop_on_validation(digits):
    stuck = dataclasses.replace(QUICK, learning_rate=1e-30, epochs=9, patience=2, ema=0.0)
    assert flows.fit(digits, stuck).record.fitted["epochs"] < 9


def test_coupling_networks_in_bf16_fit_nearly_alike(digits):
    exact = flows.fit(digits, QUICK).record.fitted["validation_nll"]
    rounded = flows.fit(digits, dataclasses.replace(QUICK, precision="bf16")).record.fitted["validation_nll"]
    assert rounded == pytest.approx(exact, rel=2e-3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("preset", "huge"),
        ("epochs", 0),
        ("learning_rate", -1.0),
        ("precision", "int8"),
        ("grey_levels", 4),
        ("ema", 1.0),
    ],
)
def test_bad_settings_are_refused(digits, name, value):
    with refused(name):
        flows.fit(digits, dataclasses.replace(QUICK, **{name: value}))


def test_data_that_no_flow_can_take_is_refused(digits):
    assert digits.labels is not None
    nameless = dataclasses.replace(digits, labels=None)
    with pytest.raises(InputError, match="labels"):
        flows.fit(nameless, QUICK)
    missing = dataclasses.replace(digits, class_names=(*digits.class_names, "ten"))
    with pytest.raises(InputError, match="'ten'"):
        flows.fit(missing, QUICK)
    with pytest.raises(InputError, match="NaN"):
        flows.fit(dataclasses.replace(blobs(60), x=np.full((60, 4), np.nan)), QUICK)


def test_damaged_flows_are_refused(digits, tmp_path):
    place = flows.fit(digits, dataclasses.replace(QUICK, epochs=1)).save(tmp_path / "flow")
    with pytest.raises(InputError, match=r"flow\.json"):
        flows.load(tmp_path / "nothing")
    weights = place / "weights.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match=r"flow\.json"):
        flows.load(place)
    weights.write_bytes(content)
    card = json.loads((place / "flow.json").read_text())
    card["config"]["width"] = 9
    (place / "flow.json").write_text(json.dumps(card))
    with pytest.raises(InputError):
        flows.load(place)
    (place / "flow.json").write_text("{")
    with pytest.raises(InputError, match=r"flow\.json"):
        flows.load(place)


def test_nothing_random_of_the_caller_is_touched(digits):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    flows.fit(digits, dataclasses.replace(QUICK, epochs=1))
    assert torch.equal(before, torch.get_rng_state())
