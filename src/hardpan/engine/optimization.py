"""Optimisers, learning-rate schedules and weight averages whose whole step stays on the device."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from hardpan.arguments import one_of, real_number, whole_number
from hardpan.engine.checkpoints import join_state_tensors, tensors_with_prefix
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


class ScheduledOptimizer:
    """An optimiser whose rate moves along a table, and a running mean of the weights: what a training step moves.

    Everything stays on the device, so that a captured graph can hold the step; trained parameters get gradients of
    zeros, which such a step then finds at fixed addresses.

    Args:
        model: what is trained.
        name: of the optimiser, as in :func:`build_optimizer`, with its ``weight_decay`` and ``momentum``.
        table: (steps,) the rate of every step, as :func:`rate_table` gives it.
        ema: decay of the :class:`WeightAverage`; 0: none.
    """

    def __init__(
        self,
        model: nn.Module,
        name: str,
        table: Tensor,
        *,
        weight_decay: float = 0.0,
        momentum: float = 0.9,
        ema: float = 0.0,
    ) -> None:
        self._model = model
        self.parameters = [item for item in model.parameters() if item.requires_grad]
        self.table = table.to(next((item.device for item in self.parameters), torch.device("cpu")))
        self._step = torch.zeros(1, dtype=torch.int64, device=self.table.device)
        self.rate = self.table[:1].clone().reshape(())
        self.optimizer = build_optimizer(
            name, self.parameters, rate=self.rate, weight_decay=weight_decay, momentum=momentum
        )
        for item in self.parameters:
            item.grad = torch.zeros_like(item, memory_format=torch.preserve_format)
        self.average = WeightAverage(model, ema) if ema else None

    def zero_gradients(self) -> None:
        """Set all gradients to 0, in place."""
        self.optimizer.zero_grad(set_to_none=False)

    def step(self) -> None:
        """Set the rate of this step, take it, and update the average."""
        self.rate.copy_(self.table.index_select(0, self._step.clamp(max=len(self.table) - 1)).reshape(()))
        self._step.add_(1)
        self.optimizer.step()
        if self.average is not None:
            self.average.update()

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Let the model have the averaged weights, if there are any, inside the block."""
        with nullcontext() if self.average is None else self.average.applied():
            yield

    def weights(self) -> dict[str, Tensor]:
        """The weights that predict: the model's, or their running mean."""
        return dict(self._model.state_dict() if self.average is None else self.average.values)

    def tensors(self, separator: str = "/") -> dict[str, Tensor]:
        """What an exact resume needs beside the model; settings come from the configuration and are not in it."""
        state = {
            f"{index}.{name}": value if isinstance(value, Tensor) else torch.tensor(value)
            for index, values in self.optimizer.state_dict()["state"].items()
            for name, value in values.items()
            if value is not None
        }
        average = {} if self.average is None else self.average.tensors()
        groups = {"optimizer": state, "schedule": {"step": self._step}, "average": average}
        return join_state_tensors({name + separator: items for name, items in groups.items()})

    def load_tensors(self, tensors: Mapping[str, Tensor], separator: str = "/") -> None:
        """Resume from the state that :meth:`tensors` returned, with an optimiser of the same parameters."""
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors_with_prefix(f"optimizer{separator}", tensors).items():
            index, _, name = key.partition(".")
            state.setdefault(int(index), {})[name] = value
        # load_state_dict takes settings from its argument: give it those that are there, and the rate's own tensor.
        self.optimizer.load_state_dict(
            {"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]}
        )
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate
        # A checkpoint holds plain layouts; fused kernels want the layout of the parameter (channels last, say).
        for parameter, values in self.optimizer.state.items():
            for name, value in values.items():
                if isinstance(value, Tensor) and value.shape == parameter.shape and value.ndim > 1:
                    values[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value).requires_grad_(False)
        self._step.copy_(tensors[f"schedule{separator}step"])
        if self.average is not None:
            self.average.load_tensors(tensors_with_prefix(f"average{separator}", tensors))
