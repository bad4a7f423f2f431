"""One of the processes that torchrun starts: trains the small task and writes its weights."""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tests.engine.small_task import Regression

from hardpan import engine
from hardpan.engine import distributed


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    with distributed.process_group(torch.device("cpu")):
        task = Regression()
        task.model[2].p = 0.0
        values = torch.tensor([float(distributed.rank()), 10.0])
        distributed.all_reduce_mean([values])
        history = engine.run_epochs(task, 3, folder=folder / "checkpoint")
        losses = torch.tensor([epoch["loss"] for epoch in history.epochs], dtype=torch.float64)
        tensors = {"values": values, "losses": losses} | task.weights()
        save_file(tensors, str(folder / f"rank-{distributed.rank()}.safetensors"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
