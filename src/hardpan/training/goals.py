"""The objective of a run with its state on the device, as a captured step needs it: changed in place."""

from __future__ import annotations

import torch
from torch import Tensor

from hardpan import engine
from hardpan.training import objectives
from hardpan.training.config import TrainConfig


class Goal:
    """What a step minimises, and in which order rows are seen."""

    def __init__(self, config: TrainConfig, groups: Tensor | None, rows: Tensor, seed: int) -> None:
        self._rows, self._seed = rows.cpu(), seed
        self._groups = groups
        self._objective = objectives.build(
            config.objective,
            n_rows=len(rows),
            groups=None if groups is None else groups.index_select(0, rows).cpu().numpy(),
            total=_total if engine.world_size() > 1 else None,
            **config.objective_options,
        )
        self._state = self._objective.init(rows.device)
        self._nobody = torch.zeros(1, dtype=torch.int64, device=rows.device)

    @property
    def length(self) -> int:
        """How many rows an epoch sees."""
        return self._objective.length

    def order(self, epoch: int) -> Tensor:
        """Give the rows of an epoch in the order in which they are seen, on the CPU."""
        return self._rows[torch.from_numpy(self._objective.rows(self._seed, epoch))]

    def loss(self, losses: Tensor, rows: Tensor) -> Tensor:
        """Give the number to be minimised from the losses of a batch and its rows."""
        groups = self._nobody.expand(len(rows)) if self._groups is None else self._groups.index_select(0, rows)
        loss, state = self._objective.update(self._state, losses, groups)
        with torch.no_grad():
            for name, item in state.items():
                if item is not self._state[name]:
                    self._state[name].copy_(item)
        return loss

    def tensors(self) -> dict[str, Tensor]:
        """Give what an exact resume needs."""
        return dict(self._state)

    @torch.no_grad()
    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Go on where :meth:`tensors` was taken."""
        for name, item in self._state.items():
            item.copy_(tensors[name])


def _total(values: Tensor) -> Tensor:
    engine.all_reduce_sum(values)
    return values
