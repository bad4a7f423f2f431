"""Two processes by torchrun: each sees half of every batch, and the model is that of one process."""

import pytest
import torch
from safetensors.torch import load_file
from tests.engine.launch import torchrun
from tests.engine.small_task import Regression

from hardpan import engine
from hardpan.engine import distributed


@pytest.mark.soak  # ten seconds of importing torch three times
def test_two_processes_train_the_model_of_one(tmp_path):
    torchrun("tests.engine.torchrun_job", str(tmp_path))
    ranks = [load_file(str(tmp_path / f"rank-{number}.safetensors")) for number in (0, 1)]
    assert ranks[0]["values"].tolist() == ranks[1]["values"].tolist() == [0.5, 10.0]
    assert all(torch.equal(ranks[0][name], ranks[1][name]) for name in ranks[0])
    alone = Regression()
    alone.model[2].p = 0.0
    history = engine.run_epochs(alone, 3)
    for name, item in alone.weights().items():
        assert torch.allclose(ranks[0][name], item, atol=1e-5)
    losses = [values["loss"] for values in history.epochs]
    assert torch.allclose(ranks[0]["losses"], torch.tensor(losses, dtype=torch.float64), atol=1e-5)
    assert len(engine.load_checkpoint(tmp_path / "checkpoint").state["history"]) == 3


def test_one_process_is_its_own_world():
    values = torch.tensor([3.0])
    distributed.all_reduce_mean([values])
    assert (distributed.rank(), distributed.world_size(), distributed.is_main_process(), values.item()) == (
        0,
        1,
        True,
        3.0,
    )
