"""Two processes by torchrun train the classifiers of one process, and write one store."""

import numpy as np
import pytest
from tests.engine.launch import torchrun

from hardpan import training
from hardpan.predictions import Predictions


@pytest.mark.soak  # slow to start
def test_two_processes_record_what_one_records(tmp_path):
    torchrun("tests.training.torchrun_job", str(tmp_path))
    together = Predictions.open(tmp_path / "run")
    training.train(
        "digits",
        training.TrainConfig(model="mlp", seeds=2, epochs=2, batch=64, device="cpu", model_options={"width": 20}),
        out=tmp_path / "alone",
    )
    alone = Predictions.open(tmp_path / "alone")
    assert together.seeds == alone.seeds == (0, 1)
    assert together.epochs == alone.epochs == (1, 2)
    # Sums over two halves round otherwise than sums over the whole; a step of float16 near 1 is 0.0005.
    np.testing.assert_allclose(together.to_array().astype(float), alone.to_array().astype(float), atol=2e-3)
