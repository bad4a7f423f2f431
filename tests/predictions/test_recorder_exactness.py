"""What is stored is softmax in single precision, rounded to half: to the bit here, within one step from a GPU."""

import numpy as np
import pytest
import torch

from hardpan.predictions import Predictions
from hardpan.predictions.checks import softmax
from hardpan.predictions.recorder import Recorder

N, C = 700, 100


def logits(scale):
    return (scale * np.random.default_rng(3).standard_normal((N, C))).astype(np.float32)


def recorded(path, given, rows, **options):
    """Record in batches of 64, and read back in the order in which they were given."""
    with Recorder(path, ids=range(N), n_classes=C, block=150, **options) as recorder:
        for start in range(0, N, 64):
            recorder.record(given[start : start + 64], rows[start : start + 64], epoch=0)
    return Predictions.open(path).read(0, 0)[np.asarray(rows)]


ORDERS = {"in order": np.arange(N), "shuffled": np.random.default_rng(1).permutation(N)}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("scale", [1.0, 12.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_tensors_are_recorded_to_the_bit(tmp_path, dtype, scale, order):
    given = torch.from_numpy(logits(scale)).to(dtype)
    found = recorded(tmp_path / "run", given, torch.from_numpy(ORDERS[order]))
    assert np.array_equal(found, torch.softmax(given.float(), dim=1).half().numpy())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("scale", [1.0, 12.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_arrays_are_recorded_to_the_bit(tmp_path, dtype, scale, order):
    given = logits(scale).astype(dtype)
    found = recorded(tmp_path / "run", given, ORDERS[order])
    assert np.array_equal(found, softmax(given).astype(np.float16))
    again = recorded(tmp_path / "again", softmax(given), ORDERS[order], outputs="probabilities")
    assert np.array_equal(found, again)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("scale", [1.0, 12.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("index_on", ["cpu", "cuda"])
def test_tensors_from_a_gpu_are_recorded_within_one_step(tmp_path, index_on, dtype, scale, order):
    given = torch.from_numpy(logits(scale)).to(dtype)
    index = torch.from_numpy(ORDERS[order]).to(index_on)
    with Recorder(tmp_path / "run", ids=range(N), n_classes=C, block=150) as recorder:
        for outputs, rows in zip(given.cuda().split(64), index.split(64), strict=True):
            there, of_them = outputs.clone(), rows.clone()
            recorder.record(there, of_them, epoch=0)
            there.fill_(torch.nan)  # what was handed over may be used again at once
            of_them.fill_(0)
        assert recorder.done(epoch=0)
    found = Predictions.open(tmp_path / "run").read(0, 0)[ORDERS[order]]
    wanted = torch.softmax(given.float(), dim=1).half().numpy()
    steps = found.view(np.int16).astype(int) - wanted.view(np.int16)  # bits of numbers from 0 on count steps
    assert np.abs(steps).max() <= 1
