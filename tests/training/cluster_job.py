"""What a worker of the cluster tests imports: a classifier whose first run waits to be killed."""

import os
import time
from pathlib import Path

import torch


class Waiting(torch.nn.Module):
    """A linear classifier; the first process that trains a second epoch with it leaves its number, and waits."""

    def __init__(self, inputs: int, n_classes: int, mark: str, pause_after: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(inputs, n_classes))
        self._mark, self._left = Path(mark), pause_after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self._left -= self.training
        if self._left == 0 and not self._mark.exists():
            unfinished = self._mark.with_suffix(f".{os.getpid()}")
            unfinished.write_text(str(os.getpid()))
            try:
                os.link(unfinished, self._mark)  # one of them comes first
            except FileExistsError:
                return self.layers(x)
            time.sleep(120)
            raise AssertionError("nobody killed this worker")
        return self.layers(x)


def waiting(*, input_shape, n_classes, mark, pause_after):
    return Waiting(int(torch.tensor(input_shape).prod()), n_classes, mark, pause_after)
