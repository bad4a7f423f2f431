"""Objectives as pairs of pure functions: ``init`` gives a state, ``update`` a loss and the next state.

A state is a dictionary of tensors on the device of the losses; nothing is read back from it on the way, so a step
may be captured as a CUDA graph, and the caller copies the new state over the old.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardpan.errors import InputError

State = dict[str, Tensor]
Total = Callable[[Tensor], Tensor]  # sums a tensor over the processes that share a batch


class Objective(NamedTuple):
    """What a training run minimises, and the rows that its epochs see.

    Attributes:
        init: from a device to the first state.
        update: from state, losses (B,) and group numbers (B,) to the number to be minimised and the next state.
        rows: from seed and epoch to the row numbers of that epoch, in order.
        length: how many rows an epoch has, the same for all.
    """

    init: Callable[[torch.device], State]
    update: Callable[[State, Tensor, Tensor], tuple[Tensor, State]]
    rows: Callable[[int, int], NDArray[np.int64]]
    length: int


def init_mean(device: torch.device) -> State:
    """Plain risk keeps nothing."""
    return {}


def update_mean(state: State, losses: Tensor, groups: Tensor) -> tuple[Tensor, State]:
    """Empirical risk: the mean of the losses.

    Example:
        >>> update_mean({}, torch.tensor([1.0, 3.0]), torch.tensor([0, 1]))
        (tensor(2.), {})
    """
    return losses.mean(), state


def init_reweighted(sizes: NDArray[np.int64], device: torch.device) -> State:
    """A weight n / (G n_g) for each of G groups, so that every group counts the same and weights average to 1.

    Example:
        >>> init_reweighted(np.array([3, 1]), torch.device("cpu"))["weights"]
        tensor([0.6667, 2.0000])
    """
    weights = sizes.sum() / (len(sizes) * sizes)
    return {"weights": torch.tensor(weights, dtype=torch.float32, device=device)}


def update_reweighted(state: State, losses: Tensor, groups: Tensor) -> tuple[Tensor, State]:
    """Mean of w_g(i) · loss_i: in expectation the mean over groups of the group's mean loss."""
    return (state["weights"].index_select(0, groups) * losses).mean(), state


def init_robust(sizes: NDArray[np.int64], device: torch.device) -> State:
    """Group weights 1/G, kept as logarithms: exponentiated updates then never under- or overflow."""
    count = len(sizes)
    return {
        "log_weights": torch.full((count,), -math.log(count), device=device),
        "scale": torch.tensor(1.0 / np.sqrt(sizes), dtype=torch.float32, device=device),
    }


def update_robust(
    state: State,
    losses: Tensor,
    groups: Tensor,
    *,
    step: float,
    adjustment: float = 0.0,
    total: Total | None = None,
) -> tuple[Tensor, State]:
    """One step of GroupDRO: groups that do badly gain weight, then the weighted group losses are minimised.

    With the mean loss L_g of group g in the batch, q_g ← q_g exp(step · (L_g + adjustment / √n_g)), normalised, and
    the loss is Σ_g q_g L_g. A group that the batch does not hold keeps its weight up to the normalisation.

    Args:
        state: of :func:`init_robust`; it holds log q and 1/√n_g.
        losses: (B,), one an example.
        groups: (B,) numbers in 0..G−1.
        step: η_q, the step size of the weights.
        adjustment: C, for the larger generalisation gap of small groups.
        total: sums over processes, where several share the batch; the weights are then the same in all of them.

    Source: Sagawa, Koh, Hashimoto and Liang (2020), Algorithm 1 and equation (5).

    Example:
        >>> state = init_robust(np.array([90, 10]), torch.device("cpu"))
        >>> loss, state = update_robust(state, torch.tensor([0.0, 1.0]), torch.tensor([0, 1]), step=math.log(3))
        >>> loss, weights(state)
        (tensor(0.7500), tensor([0.2500, 0.7500]))
    """
    log_weights, scale = state["log_weights"], state["scale"]
    # A product with a 0/1 matrix, not a scatter: sums in a fixed order give the same bits every time.
    member = (groups[:, None] == torch.arange(len(scale), device=groups.device)).to(losses.dtype)
    sums, counts = losses @ member, member.sum(dim=0)
    seen_sums, seen, processes = sums.detach(), counts, torch.ones(1, device=losses.device)
    if total is not None:
        joined = total(torch.cat([seen_sums, counts, processes]))
        seen_sums, seen, processes = joined[: len(scale)], joined[len(scale) : -1], joined[-1:]
    present = (seen > 0).to(losses.dtype)
    share = present / seen.clamp(min=1.0)
    risen = log_weights + step * present * (seen_sums * share + adjustment * scale)
    risen = risen - torch.logsumexp(risen, dim=0)
    # Gradients are averaged over processes afterwards, so each counts its part as many times as there are.
    loss = (processes * risen.exp() * share * sums).sum()
    return loss, {"log_weights": risen, "scale": scale}


def weights(state: State) -> Tensor:
    """The group weights q (G,) of a GroupDRO state."""
    return state["log_weights"].exp()


def checked_groups(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many rows each group has, (G,); refuses numbers that are not 0..G−1, each at least once."""
    if groups.ndim != 1 or not len(groups) or groups.dtype.kind not in "iu":
        raise InputError(f"groups must be whole numbers of shape (N,); got {groups.dtype} {groups.shape}")
    if groups.min() < 0:
        row = int(np.flatnonzero(groups < 0)[0])
        raise InputError(f"groups must be numbers 0, 1, ...; row {row} has {groups[row]}")
    sizes = np.bincount(groups)
    if not sizes.all():
        empty = int(np.flatnonzero(sizes == 0)[0])
        raise InputError(f"group {empty} has no examples; number the groups 0 to {len(sizes) - 1} without gaps")
    return sizes
