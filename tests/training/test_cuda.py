"""On a GPU: a captured step trains as the plain one does, evaluation too, and a run resumes. Skipped elsewhere."""

import dataclasses

import numpy as np
import pytest
import torch

from hardpan import engine
from hardpan.errors import InputError
from hardpan.training import TrainConfig, fit_arrays
from hardpan.training.config import with_defaults
from hardpan.training.examples import examples_on, normalization
from hardpan.training.fitting import Evaluation, TrainingSet, fit_model, fitting_device

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

CONFIG = TrainConfig(seeds=1, epochs=4, batch=64, device="cuda", precision="float32", evaluation_batch=300)


def planted(n=2000, seed=0):
    """Colour images whose class is where a bright row lies, so that everything learns them."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, n)
    x = rng.integers(0, 60, (n, 16, 16, 3), dtype=np.uint8)
    x[np.arange(n), 4 * labels + 2] = 255
    return x, labels


@pytest.mark.parametrize("model", ["mlp", "convnet", "resnet20"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_captured_run_is_the_plain_run(model, optimizer):
    x, labels = planted()
    changes = {"model": model, "optimizer": optimizer, "clip": 1.0, "ema": 0.9, "augment": "crop"}
    plain = fit_arrays(x, labels, x[:700], CONFIG, capture=False, **changes)
    captured = fit_arrays(x, labels, x[:700], CONFIG, **changes)
    # Other orders of summation grow over the steps; weights that were wrong would be far off.
    assert np.abs(plain.probs - captured.probs).mean() < 0.02
    assert captured.history[0][-1]["loss"] < captured.history[0][0]["loss"]


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_precisions_reach_the_same_place(precision):
    x, labels = planted()
    seen, wanted = planted(1000, seed=1)
    fit = fit_arrays(x, labels, seen, CONFIG, model="convnet", precision=precision, augment="none", epochs=6)
    assert (fit.probs[0, -1].argmax(1) == wanted).mean() > 0.95


def test_dropout_is_drawn_anew_in_every_replay():
    drawn = engine.CapturedStep(lambda x: torch.nn.functional.dropout(x, 0.5), torch.device("cuda"))
    x = torch.ones(10_000, device="cuda")
    seen = [drawn(x).clone() for _ in range(8)]
    assert drawn.captured
    assert all(not torch.equal(seen[i], seen[j]) for i in range(8) for j in range(i))
    assert all(abs(item.mean().item() - 1) < 0.06 for item in seen)
    torch.manual_seed(3)
    first = drawn(x).clone()
    torch.manual_seed(3)
    assert torch.equal(drawn(x), first)


@pytest.mark.parametrize("objective", ["groupdro", "reweight", "upsample", "subsample"])
def test_objectives_are_captured(objective):
    x, labels = planted()
    groups = (labels == 0).astype(int)
    fit = fit_arrays(x, labels, x[:500], CONFIG, model="mlp", objective=objective, group=groups)
    assert np.isfinite(fit.probs).all()


def test_a_step_that_reads_values_back_is_said():
    step = engine.CapturedStep(lambda x: x * x.sum().item(), torch.device("cuda"))
    x = torch.ones(4, device="cuda")
    for _ in range(3):
        assert step(x).tolist() == [4.0] * 4
    with pytest.raises(InputError, match="capture"):
        step(x)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_run_goes_on_from_its_checkpoint(tmp_path, optimizer):
    x, labels = planted()
    config = with_defaults(dataclasses.replace(CONFIG, optimizer=optimizer), "convnet", (3, 16, 16))

    class Stopped(Exception):
        pass

    def run(folder, stop_after):
        kept = {}

        def record(epoch, probs):
            kept[epoch] = probs
            if epoch == stop_after:
                raise Stopped

        with fitting_device(config) as (device, precision):
            examples = examples_on(x, normalization(x), device)
            rows, targets = torch.arange(len(x), device=device), torch.from_numpy(labels).to(device)
            given = TrainingSet(examples, rows, targets, 4)
            fit_model(config, given, Evaluation(examples, record), seed=0, precision=precision, folder=folder)
        return kept

    whole = run(tmp_path / "whole", stop_after=None)
    with pytest.raises(Stopped):
        run(tmp_path / "cut", stop_after=3)
    resumed = run(tmp_path / "cut", stop_after=None)
    assert sorted(resumed) == [3, 4]
    assert np.abs(resumed[4] - whole[4]).mean() < 0.02
