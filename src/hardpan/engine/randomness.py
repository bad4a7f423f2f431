"""Random numbers of a run: seeds of its parts, and the state of torch's generators as tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor


def derived_seed(*parts: int | str) -> int:
    """One seed from several numbers or names, the same on every machine: 63 bits of their sha256.

    Example:
        >>> derived_seed(0, "shuffle", 3) == derived_seed(0, "shuffle", 3) != derived_seed(0, "shuffle", 4)
        True
    """
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def permutation(n: int, *parts: int | str) -> Tensor:
    """The numbers 0..n-1 in an order that depends on the parts alone, not on the device or on former draws.

    Example:
        >>> permutation(5, 0, "epoch", 1).sort().values.tolist()
        [0, 1, 2, 3, 4]
    """
    generator = torch.Generator().manual_seed(derived_seed(*parts))
    return torch.randperm(n, generator=generator)


def rng_state(device: torch.device | None = None) -> dict[str, Tensor]:
    """The state of torch's generators (the CPU's, and the given GPU's) as tensors for a checkpoint."""
    state = {"cpu": torch.get_rng_state()}
    if device is not None and device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_rng_state(state: Mapping[str, Tensor], device: torch.device | None = None) -> None:
    """Put back what :func:`rng_state` gave."""
    torch.set_rng_state(state["cpu"].cpu())
    if "cuda" in state and device is not None and device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"].cpu(), device)
