"""An exponential moving average of a model's weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from hardpan.errors import InputError


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
        if not 0 < decay < 1:
            raise InputError(f"decay must lie between 0 and 1; got {decay!r}")
        self._live = {name: value.detach() for name, value in _state(model).items()}
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
            kept = value.clone()
            value.copy_(self._live[name])
            self._live[name].copy_(kept)

    def tensors(self) -> dict[str, Tensor]:
        """Give what an exact resume needs."""
        return {**{f"value.{name}": value for name, value in self.values.items()}, "count": self.count}

    @torch.no_grad()
    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Go on where :meth:`tensors` was taken."""
        for name, value in self.values.items():
            value.copy_(tensors[f"value.{name}"])
        self.count.copy_(tensors["count"])


def _state(model: nn.Module) -> dict[str, Tensor]:
    return dict(model.state_dict(keep_vars=True))
