"""What a step minimises, and in which order rows are seen: plain risk, or an objective over groups."""

from __future__ import annotations

import torch
from torch import Tensor

from hardpan.engine import permutation
from hardpan.training.config import TrainConfig


class Goal:
    """The objective of a run, its state on the device, and the rows of each epoch."""

    def __init__(self, config: TrainConfig, groups: Tensor | None, rows: Tensor, seed: int) -> None:
        self._rows, self._seed = rows.cpu(), seed
        self._state: dict[str, Tensor] = {}

    @property
    def length(self) -> int:
        """How many rows an epoch sees."""
        return len(self._rows)

    def order(self, epoch: int) -> Tensor:
        """Give the rows of an epoch in the order in which they are seen, on the CPU."""
        return self._rows[permutation(len(self._rows), self._seed, "order", epoch)]

    def loss(self, losses: Tensor, rows: Tensor) -> Tensor:
        """Give the number to be minimised from the losses of a batch and its rows."""
        return losses.mean()

    def tensors(self) -> dict[str, Tensor]:
        """Give what an exact resume needs."""
        return dict(self._state)

    @torch.no_grad()
    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Go on where :meth:`tensors` was taken."""
        for name, item in self._state.items():
            item.copy_(tensors[name])
