"""What a training run minimises: mean loss, the worst group's loss (GroupDRO), or baselines with groups.

An objective is a pair of pure functions: ``init`` returns a state, ``update`` a loss and the next state. A state is
a dictionary of tensors on the device of the losses; nothing is read back from it, so a step can be captured as a
CUDA graph. The rows of an epoch depend on groups, seed and epoch alone, so a run that resumes sees the same rows.

Example:
    >>> import torch
    >>> from hardpan.training import objectives
    >>> objective = objectives.build("reweight", n_rows=4, groups=[0, 0, 0, 1])
    >>> state = objective.init(torch.device("cpu"))
    >>> loss, state = objective.update(state, torch.tensor([3.0, 1.0]), torch.tensor([0, 1]))
    >>> float(loss)
    2.0
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from hardpan import arguments
from hardpan.arguments import one_of, real_number, whole_number
from hardpan.data.dataset import Dataset, Split
from hardpan.engine import distributed
from hardpan.errors import InputError
from hardpan.training.config import OBJECTIVES, TrainConfig

_SUBSET, _ORDER = 1, 2  # streams of one seed that must not be the same

GroupSource = str | os.PathLike[str] | NDArray[Any] | None
Rows = NDArray[np.int64]
State = dict[str, Tensor]
SumOverProcesses = Callable[[Tensor], Tensor]


class Objective(NamedTuple):
    """What a training run minimises, by default the mean loss, and the rows that its epochs see.

    Attributes:
        rows: from seed and epoch to the row numbers of that epoch, in order.
        length: how many rows an epoch has, the same for all.
        init: from a device to the first state.
        update: from state, losses (B,) and group numbers (B,) to the number to be minimised and the next state.
    """

    rows: Callable[[int, int], NDArray[np.int64]]
    length: int
    init: Callable[[torch.device], State] = lambda device: {}
    update: Callable[[State, Tensor, Tensor], tuple[Tensor, State]] = lambda state, losses, _: (
        losses.mean(),
        state,
    )


def init_groupdro(sizes: NDArray[np.int64], device: torch.device) -> State:
    """Group weights 1/G, kept as logarithms: exponentiated updates then never under- or overflow."""
    count = len(sizes)
    return {
        "log_weights": torch.full((count,), -math.log(count), device=device),
        "scale": torch.tensor(1.0 / np.sqrt(sizes), dtype=torch.float32, device=device),
    }


def groupdro_loss(
    state: State,
    losses: Tensor,
    groups: Tensor,
    *,
    step: float,
    adjustment: float = 0.0,
    total: SumOverProcesses | None = None,
) -> tuple[Tensor, State]:
    """One step of GroupDRO: groups that do badly gain weight, then the weighted group losses are minimised.

    With the mean loss L_g of group g in the batch, q_g ← q_g exp(step · (L_g + adjustment / √n_g)), normalised, and
    the loss is Σ_g q_g L_g. A group that the batch does not hold keeps its weight up to the normalisation.

    Args:
        state: of :func:`init_groupdro`; it holds log q and 1/√n_g.
        losses: (B,), one per example.
        groups: (B,) numbers in 0..G−1.
        step: η_q, the step size of the weights.
        adjustment: C, for the larger generalisation gap of small groups.
        total: sums over processes, where several share the batch; the weights are then the same in all of them.

    Source: Sagawa, Koh, Hashimoto and Liang (2020), Algorithm 1 and equation (5).

    Example:
        >>> state = init_groupdro(np.array([90, 10]), torch.device("cpu"))
        >>> loss, state = groupdro_loss(state, torch.tensor([0.0, 1.0]), torch.tensor([0, 1]), step=math.log(3))
        >>> loss, group_weights(state)
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
    fraction = present / seen.clamp(min=1.0)
    risen = log_weights + step * present * (seen_sums * fraction + adjustment * scale)
    risen = torch.log_softmax(risen - risen.max(), dim=0)  # the maximum first: rounding is relative to the largest
    # Gradients are averaged over processes afterwards, so each counts its part as many times as there are.
    loss = (processes * risen.exp() * fraction * sums).sum()
    return loss, {"log_weights": risen, "scale": scale}


def group_weights(state: State) -> Tensor:
    """The group weights q (G,) of a GroupDRO state."""
    return state["log_weights"].exp()


def _objective_rows_shuffled(n: int, seed: int, epoch: int) -> Rows:
    return np.random.default_rng([seed, _ORDER, epoch]).permutation(n)


def _objective_rows_upsampled(groups: Rows, seed: int, epoch: int) -> Rows:
    """As many rows as there are, every group as often as any other (up to one row), in random order.

    A group is repeated as a whole as often as possible and the remainder is drawn without repeats, so no example is
    seen twice more than another of its group.
    """
    rng = np.random.default_rng([seed, _ORDER, epoch])
    count = int(groups.max()) + 1
    sizes = np.full(count, len(groups) // count)
    sizes[rng.permutation(count)[: len(groups) % count]] += 1  # the odd rows go to other groups in other epochs
    rows = []
    for group, size in enumerate(sizes.tolist()):
        members = np.flatnonzero(groups == group)
        whole, rest = divmod(size, len(members))
        rows += [np.tile(members, whole), rng.permutation(members)[:rest]]
    return rng.permutation(np.concatenate(rows))


def _objective_rows_subsampled(groups: Rows, seed: int, epoch: int) -> Rows:
    """Every group cut to the size of the smallest, the same rows in all epochs, in random order."""
    drawing = np.random.default_rng([seed, _SUBSET, 0])
    smallest = int(np.bincount(groups).min())
    rows = [
        drawing.permutation(np.flatnonzero(groups == group))[:smallest] for group in range(int(groups.max()) + 1)
    ]
    return np.random.default_rng([seed, _ORDER, epoch]).permutation(np.sort(np.concatenate(rows)))


def build(
    name: str,
    *,
    n_rows: int,
    groups: ArrayLike | None = None,
    total: SumOverProcesses | None = None,
    **options: Any,
) -> Objective:
    """An objective for n training rows, in groups 0..G−1 where it needs them.

    - ``erm``: mean loss over all rows.
    - ``groupdro``: the worst group's loss, by online weights. Options ``step`` (0.01) and ``adjustment`` (0).
      Batches hold every group as often, as Algorithm 1 draws them.
    - ``reweight``: losses weighted by n / (G n_g).
    - ``upsample``: every group seen as often as any other.
    - ``subsample``: every group cut to the smallest; an epoch has G · min n_g rows.

    Args:
        name: one of ``OBJECTIVES``.
        n_rows: how many training rows there are.
        groups: (n,) the group number of each.
        total: sums a tensor over the processes that share a batch, for GroupDRO.
        options: as above.

    Example:
        >>> import torch
        >>> objective = build("groupdro", n_rows=4, groups=[0, 0, 0, 1], step=0.1)
        >>> state = objective.init(torch.device("cpu"))
        >>> loss, state = objective.update(state, torch.tensor([1.0, 2.0]), torch.tensor([0, 1]))
        >>> objective.length, float(loss) > 1.5
        (4, True)
    """
    one_of("objective", name, OBJECTIVES)
    known = {"step": 0.01, "adjustment": 0.0} if name == "groupdro" else {}
    for option, value in options.items():
        if option not in known:
            offered = f"its options are {', '.join(known)}" if known else "it has none"
            raise InputError(f"objective {name} has no option {option!r}; {offered}")
        real_number(f"{option} of {name}", value, "[0, inf)")
    n = whole_number("n_rows", n_rows, 1)
    mean_loss = Objective(partial(_objective_rows_shuffled, n), n)
    if name == "erm":
        return mean_loss
    if groups is None:
        raise InputError(f"objective {name} needs groups; give each training row's group number, or use erm")
    numbers = arguments.whole_numbers("groups", groups, n)
    sizes = np.bincount(numbers)
    if len(sizes) < 2 or not sizes.all():
        raise InputError(
            f"must be numbered 0, 1, ... without gaps, at least two; got {np.flatnonzero(sizes).tolist()}",
            argument="groups",
        )
    if name == "subsample":
        return Objective(partial(_objective_rows_subsampled, numbers), len(sizes) * int(sizes.min()))
    if name == "reweight":  # w_g = n / (G n_g): every group counts the same, and weights average to 1
        weights = sizes.sum() / (len(sizes) * sizes)
        return mean_loss._replace(
            init=lambda device: {"weights": torch.tensor(weights, dtype=torch.float32, device=device)},
            update=lambda state, losses, g: ((state["weights"].index_select(0, g) * losses).mean(), state),
        )
    upsampled = Objective(partial(_objective_rows_upsampled, numbers), n)
    if name == "upsample":
        return upsampled
    update = partial(groupdro_loss, **(known | options), total=total)
    return upsampled._replace(init=partial(init_groupdro, sizes), update=update)


class AppliedObjective:
    """What a step minimises, and in which order rows are seen; ``length`` of them in an epoch."""

    def __init__(self, config: TrainConfig, groups: Tensor | None, rows: Tensor, seed: int) -> None:
        self._rows, self._seed = rows.cpu(), seed
        self._groups = groups
        self._objective = build(
            config.objective,
            n_rows=len(rows),
            groups=None if groups is None else groups.index_select(0, rows).cpu().numpy(),
            total=distributed.all_reduce_sum if distributed.world_size() > 1 else None,
            **config.objective_options,
        )
        self._state = self._objective.init(rows.device)
        self._one_group = torch.zeros(1, dtype=torch.int64, device=rows.device)
        self.length = self._objective.length

    def order(self, epoch: int) -> Tensor:
        """The rows of an epoch in the order in which they are seen, on the CPU."""
        return self._rows[torch.from_numpy(self._objective.rows(self._seed, epoch))]

    def loss(self, losses: Tensor, rows: Tensor) -> Tensor:
        """The number to be minimised from the losses of a batch and its rows."""
        groups = self._one_group.expand(len(rows)) if self._groups is None else self._groups.index_select(0, rows)
        loss, state = self._objective.update(self._state, losses, groups)
        with torch.no_grad():
            for name, item in state.items():
                if item is not self._state[name]:
                    self._state[name].copy_(item)
        return loss

    def tensors(self) -> dict[str, Tensor]:
        """What an exact resume needs."""
        return dict(self._state)

    @torch.no_grad()
    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Resume from the state that :meth:`tensors` returned."""
        for name, item in self._state.items():
            item.copy_(tensors[name])


def read_objective_groups(group: GroupSource, dataset: Dataset, objective: str, split: Split) -> Rows | None:
    """A group number for every example of a dataset, where the objective asks for groups.

    A manifest of ``hardpan confusion subset`` (JSON) makes group 1 of its examples and group 0 of the others.

    Args:
        group: such a file, (N,) numbers 0, 1, ..., or None: the group column of the dataset.
        dataset: whose examples are meant.
        objective: ``erm`` takes none, the others need them.
        split: of the dataset: a subset must divide its training examples.
    """
    if objective == "erm":
        if group is not None:
            raise InputError("needs an objective over groups; got objective 'erm'", argument="group")
        return None
    if group is None and "group" in dataset.metadata:
        return np.unique(dataset.metadata["group"], return_inverse=True)[1].astype(np.int64)
    if group is None:
        raise InputError(f"objective {objective!r} needs group: a column, the JSON of a subset or group numbers")
    if not isinstance(group, (str, os.PathLike)):
        return arguments.whole_numbers("group", group, len(dataset))
    from hardpan.confusion import load_subset

    numbers = np.zeros(len(dataset), dtype=np.int64)
    numbers[load_subset(group).rows(dataset.ids)] = 1
    named = int(np.count_nonzero(numbers[split.train]))
    if named in (0, len(split.train)):
        raise InputError(
            f": the subset {os.fspath(group)} names {named:,} of {len(split.train):,} training examples; give one "
            "that holds some of them, cut by hardpan confusion subset with --split train or all",
            argument="group",
        )
    return numbers
