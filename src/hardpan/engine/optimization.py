"""Optimisers, learning-rate schedules and weight averages whose whole step stays on the device."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from hardpan.arguments import one_of, real_number, whole_number
from hardpan.errors import InputError

OPTIMIZERS = ("sgd", "adamw", "adam")


def build_optimizer(
    name: str, parameters: Iterable[nn.Parameter], *, rate: Tensor, weight_decay: float = 0.0, momentum: float = 0.9
) -> torch.optim.Optimizer:
    """Make an optimiser whose rate is a tensor on the device; fused, and on a GPU fit for a captured graph.

    Weight decay spares vectors and single numbers (biases, scales of normalisations), as is usual.

    Args:
        name: ``sgd``, ``adamw`` or ``adam``.
        parameters: what is trained.
        rate: the learning rate, a tensor of one number that a schedule writes to.
        weight_decay: of matrices and filters.
        momentum: Nesterov's, for ``sgd``; 0 turns it off.
    """
    trained = [item for item in parameters if item.requires_grad]
    if not trained:
        raise InputError("the model has no trainable parameter")
    groups: list[dict[str, Any]] = [
        {"params": [item for item in trained if item.ndim > 1], "weight_decay": weight_decay},
        {"params": [item for item in trained if item.ndim <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if name == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=momentum, nesterov=momentum > 0, fused=True)
    one_of("optimizer", name, OPTIMIZERS)
    kinds: dict[str, type[torch.optim.Adam]] = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}
    # On the CPU capturable has no meaning, and its step would be kept on a device that is not there.
    return kinds[name](groups, lr=rate, fused=True, capturable=trained[0].is_cuda)


def allocate_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Give every trained parameter a gradient of zeros; a captured step then finds it at a fixed address."""
    for item in parameters:
        if item.requires_grad and item.grad is None:
            item.grad = torch.zeros_like(item, memory_format=torch.preserve_format)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimiser's state as named tensors; its settings come from the configuration and are not in it."""
    results: dict[str, Tensor] = {}
    for index, values in optimizer.state_dict()["state"].items():
        for name, value in values.items():
            if value is not None:
                results[f"{index}.{name}"] = value if isinstance(value, Tensor) else torch.tensor(value)
    return results


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what :func:`optimizer_tensors` gave, into an optimiser of the same parameters."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = value
    # load_state_dict takes settings from what it is given: give it those that are there, the rate's own tensor too.
    rates = [group["lr"] for group in optimizer.param_groups]
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    # A checkpoint holds plain layouts; fused kernels want the layout of the parameter (channels last, say).
    for parameter, values in optimizer.state.items():
        for name, value in values.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape and value.ndim > 1:
                values[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value).requires_grad_(False)


SCHEDULES = ("constant", "cosine", "step")


def rate_table(kind: str, *, rate: float, steps: int, warmup: int = 0, final: float = 0.0) -> Tensor:
    """The learning rate of every step of a run.

    Warm-up rises linearly over its steps: rate·(i+1)/(warmup+1). After it, with t from 0 to 1 over the rest:
    ``constant`` stays; ``cosine`` is final + (rate − final)·(1 + cos πt)/2; ``step`` falls to a tenth at half of
    the whole run and again at three quarters.

    Args:
        kind: one of ``constant``, ``cosine``, ``step``.
        rate: the highest rate.
        steps: how many steps the run takes.
        warmup: how many of them rise to the rate.
        final: for ``cosine``, where it ends.

    Returns:
        (steps,) float32.

    Example:
        >>> rate_table("cosine", rate=1.0, steps=5, warmup=1).tolist()
        [0.5, 1.0, 0.8535534143447876, 0.5, 0.1464466154575348]
    """
    one_of("schedule", kind, SCHEDULES)
    real_number("learning rate", rate, "(0, inf)")
    whole_number("steps", steps, 1)
    warmup = min(whole_number("warmup", warmup), steps - 1)
    step = torch.arange(steps, dtype=torch.float64)
    after = (step - warmup).clamp(min=0) / (steps - warmup)
    table = torch.full_like(step, rate)
    if kind == "cosine":
        table = final + (rate - final) * (1 + torch.cos(math.pi * after)) / 2
    elif kind == "step":
        for drop in (0.5, 0.75):
            table = torch.where(step >= round(drop * steps), table * 0.1, table)
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
        index = self.step.clamp(max=len(self.table) - 1)
        self.rate.copy_(self.table.index_select(0, index).reshape(()))
        self.step.add_(1)

    def tensors(self) -> dict[str, Tensor]:
        """What an exact resume needs."""
        return {"step": self.step}

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Resume from the state that :meth:`tensors` returned."""
        self.step.copy_(tensors["step"])


class WeightAverage:
    """The running mean of weights, w̄ ← d·w̄ + (1 − d)·w, with d = min(decay, (1 + t)/(10 + t)) at update t.

    The smaller decay of the first updates lets the average leave the random start quickly. Buffers of floats (the
    statistics of batch normalisation) are averaged as well, whole numbers are copied. Everything stays in place on
    the device, so that an update can be part of a captured step.

    Example:
        >>> model = nn.Linear(1, 1, bias=False)
        >>> average = WeightAverage(model, decay=0.5)
        >>> with torch.no_grad():
        ...     _ = model.weight.fill_(average.values["weight"].item() + 10.0)
        >>> before = average.values["weight"].item()
        >>> average.update()
        >>> round(average.values["weight"].item() - before, 4)
        9.0
    """

    def __init__(self, model: nn.Module, decay: float = 0.999) -> None:
        real_number("decay", decay, "(0, 1)")
        self._live = {name: value.detach() for name, value in model.state_dict(keep_vars=True).items()}
        self.values = {name: value.clone() for name, value in self._live.items()}
        self.decay = decay
        device = next(iter(self._live.values())).device
        self.count = torch.zeros((), dtype=torch.float32, device=device)
        self._floats = [name for name, value in self._live.items() if value.is_floating_point()]
        self._others = [name for name, value in self._live.items() if not value.is_floating_point()]

    @torch.no_grad()
    def update(self) -> None:
        """Move the average towards the weights of now."""
        weight = 1 - torch.clamp((1 + self.count) / (10 + self.count), max=self.decay)
        means = [self.values[name] for name in self._floats]
        change = torch._foreach_sub([self._live[name] for name in self._floats], means)
        torch._foreach_mul_(change, weight)
        torch._foreach_add_(means, change)
        for name in self._others:
            self.values[name].copy_(self._live[name])
        self.count.add_(1)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Let the model have the averaged weights inside the block, and its own again after it.

        Values are exchanged in place: the addresses that a captured graph knows stay true.
        """
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for name, value in self.values.items():
            previous = value.clone()
            value.copy_(self._live[name])
            self._live[name].copy_(previous)

    def tensors(self) -> dict[str, Tensor]:
        """What an exact resume needs."""
        return {**{f"value.{name}": value for name, value in self.values.items()}, "count": self.count}

    @torch.no_grad()
    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Resume from the state that :meth:`tensors` returned."""
        for name, value in self.values.items():
            value.copy_(tensors[f"value.{name}"])
        self.count.copy_(tensors["count"])
