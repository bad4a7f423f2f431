"""Optimisers whose whole step stays on the device, and their state as named tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from hardpan.errors import InputError

OPTIMIZERS = ("sgd", "adamw", "adam")


def build_optimizer(
    name: str,
    parameters: Iterable[nn.Parameter],
    *,
    rate: Tensor,
    weight_decay: float = 0.0,
    momentum: float = 0.9,
    nesterov: bool = True,
    betas: tuple[float, float] = (0.9, 0.999),
) -> torch.optim.Optimizer:
    """Make an optimiser whose rate is a tensor on the device; fused, and on a GPU fit for a captured graph.

    Weight decay spares vectors and single numbers (biases, scales of normalisations), as is usual.

    Args:
        name: ``sgd``, ``adamw`` or ``adam``.
        parameters: what is trained.
        rate: the learning rate, a tensor of one number that a schedule writes to.
        weight_decay: of matrices and filters.
        momentum: for ``sgd``; 0 turns it off.
        nesterov: for ``sgd`` with momentum.
        betas: for ``adamw`` and ``adam``.
    """
    trained = [item for item in parameters if item.requires_grad]
    if not trained:
        raise InputError("there is nothing to train: no parameter of the model asks for a gradient")
    groups: list[dict[str, Any]] = [
        {"params": [item for item in trained if item.ndim > 1], "weight_decay": weight_decay},
        {"params": [item for item in trained if item.ndim <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if name == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=momentum, nesterov=nesterov and momentum > 0, fused=True)
    kinds: dict[str, type[torch.optim.Adam]] = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}
    if name not in kinds:
        raise InputError(f"optimizer must be one of {', '.join(OPTIMIZERS)}; got {name!r}")
    # On the CPU capturable has no meaning, and its step would be kept on a device that is not there.
    return kinds[name](groups, lr=rate, betas=betas, fused=True, capturable=trained[0].is_cuda)


def allocate_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Give every trained parameter a gradient of zeros; a captured step then finds it at a fixed address."""
    for item in parameters:
        if item.requires_grad and item.grad is None:
            item.grad = torch.zeros_like(item, memory_format=torch.preserve_format)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Give an optimiser's state as named tensors; its settings come from the configuration and are not in it."""
    found: dict[str, Tensor] = {}
    for place, values in optimizer.state_dict()["state"].items():
        for name, value in values.items():
            if value is not None:
                found[f"{place}.{name}"] = value if isinstance(value, Tensor) else torch.tensor(value)
    return found


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what :func:`optimizer_tensors` gave, into an optimiser of the same parameters."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        place, _, name = key.partition(".")
        state.setdefault(int(place), {})[name] = value
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
