"""Learning rates by step, as one table on the device: a captured step reads its rate from it by a counter."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from hardpan.errors import InputError

SCHEDULES = ("constant", "cosine", "step")


def rate_table(
    kind: str,
    *,
    rate: float,
    steps: int,
    warmup: int = 0,
    drops: Sequence[float] = (0.5, 0.75),
    factor: float = 0.1,
    final: float = 0.0,
) -> Tensor:
    """Give the learning rate of every step of a run.

    Warm-up rises linearly over its steps: rate·(i+1)/(warmup+1). After it, with t from 0 to 1 over the rest:
    ``constant`` stays; ``cosine`` is final + (rate − final)·(1 + cos πt)/2; ``step`` multiplies by ``factor`` at
    each of the ``drops`` (fractions of the whole run).

    Args:
        kind: one of ``constant``, ``cosine``, ``step``.
        rate: the highest rate.
        steps: how many steps the run takes.
        warmup: how many of them rise to the rate.
        drops: for ``step``, where the rate drops.
        factor: for ``step``, by how much.
        final: for ``cosine``, where it ends.

    Returns:
        (steps,) float32.

    Example:
        >>> rate_table("cosine", rate=1.0, steps=5, warmup=1).tolist()
        [0.5, 1.0, 0.8535534143447876, 0.5, 0.1464466154575348]
    """
    if kind not in SCHEDULES:
        raise InputError(f"schedule must be one of {', '.join(SCHEDULES)}; got {kind!r}")
    if not (math.isfinite(rate) and rate > 0):
        raise InputError(f"learning rate must be a number above 0; got {rate!r}")
    if steps < 1 or warmup < 0:
        raise InputError(f"a schedule needs at least 1 step and a warm-up of at least 0; got {steps} and {warmup}")
    warmup = min(warmup, steps - 1)
    step = torch.arange(steps, dtype=torch.float64)
    after = (step - warmup).clamp(min=0) / (steps - warmup)
    if kind == "cosine":
        table = final + (rate - final) * (1 + torch.cos(math.pi * after)) / 2
    elif kind == "step":
        table = torch.full_like(step, rate)
        for drop in drops:
            table = torch.where(step >= round(drop * steps), table * factor, table)
    else:
        table = torch.full_like(step, rate)
    rising = rate * (step + 1) / (warmup + 1)
    return torch.where(step < warmup, rising, table).float()


class RateSchedule:
    """A rate that moves along its table, as tensors on the device: nothing leaves it, so a graph can hold the move.

    ``rate`` is a tensor of one number for the optimiser (``lr=schedule.rate``); :meth:`advance` comes once a step,
    before the optimiser's own step.
    """

    def __init__(self, table: Tensor, device: torch.device) -> None:
        self.table = table.to(device)
        self.step = torch.zeros(1, dtype=torch.int64, device=device)
        self.rate = self.table[:1].clone().reshape(())

    def advance(self) -> None:
        """Set the rate of this step and count it."""
        place = self.step.clamp(max=len(self.table) - 1)
        self.rate.copy_(self.table.index_select(0, place).reshape(()))
        self.step.add_(1)

    def tensors(self) -> dict[str, Tensor]:
        """Give what an exact resume needs."""
        return {"step": self.step}

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Go on where :meth:`tensors` was taken."""
        self.step.copy_(tensors["step"])
