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
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
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
from hardpan.safe_files import read_npz
from hardpan.training.config import TrainConfig

_OF_GROUP = "_accuracy_group_"

GroupSource = str | os.PathLike[str] | NDArray[Any] | None
Rows = NDArray[np.int64]
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
        losses: (B,), one per example.
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
    risen = torch.log_softmax(risen - risen.max(), dim=0)  # the maximum first: rounding is relative to the largest
    # Gradients are averaged over processes afterwards, so each counts its part as many times as there are.
    loss = (processes * risen.exp() * share * sums).sum()
    return loss, {"log_weights": risen, "scale": scale}


def weights(state: State) -> Tensor:
    """The group weights q (G,) of a GroupDRO state."""
    return state["log_weights"].exp()


def group_sizes(groups: ArrayLike, n_rows: int | None = None) -> tuple[Rows, Rows]:
    """Group numbers 0..G−1 as int64, (N,), and how many rows each has, (G,); every group has at least one."""
    numbers = arguments.whole_numbers("groups", groups, n_rows)
    if numbers.ndim != 1 or not len(numbers):
        raise InputError(f"must be whole numbers of shape (N,); got shape {numbers.shape}", argument="groups")
    sizes = np.bincount(numbers)
    if not sizes.all():
        empty = int(np.flatnonzero(sizes == 0)[0])
        raise InputError(
            f"must be numbered 0 to {len(sizes) - 1} without gaps; group {empty} has no examples", argument="groups"
        )
    return numbers, sizes


_SUBSET, _ORDER = 1, 2  # streams of one seed that must not be the same


def shuffled(n: int, seed: int, epoch: int) -> Rows:
    """All rows in a new order.

    Example:
        >>> sorted(shuffled(4, seed=0, epoch=1).tolist())
        [0, 1, 2, 3]
    """
    return np.random.default_rng([seed, _ORDER, epoch]).permutation(n)


def upsampled(groups: Rows, seed: int, epoch: int) -> Rows:
    """As many rows as there are, every group as often as any other (up to one row), in random order.

    A group is gone through as a whole as often as its share allows and the remainder is drawn without repeats, so
    no example is seen twice more than another of its group. An epoch costs what it costs without groups.

    Example:
        >>> rows = upsampled(np.array([0, 0, 0, 0, 0, 1]), seed=0, epoch=0)
        >>> np.bincount(np.array([0, 0, 0, 0, 0, 1])[rows]).tolist()
        [3, 3]
    """
    rng = np.random.default_rng([seed, _ORDER, epoch])
    count = int(groups.max()) + 1
    shares = np.full(count, len(groups) // count)
    shares[rng.permutation(count)[: len(groups) % count]] += 1  # the odd rows go to other groups in other epochs
    rows = []
    for group, share in enumerate(shares.tolist()):
        members = np.flatnonzero(groups == group)
        whole, rest = divmod(share, len(members))
        rows += [np.tile(members, whole), rng.permutation(members)[:rest]]
    return rng.permutation(np.concatenate(rows))


def subsampled(groups: Rows, seed: int, epoch: int, *, fresh: bool = False) -> Rows:
    """Every group cut to the size of the smallest, in random order.

    The rows that stay are the same in all epochs; with ``fresh`` they are drawn again for each, so that in time all
    are seen. An epoch has G · min n_g rows: give more epochs where runs should cost the same.

    Example:
        >>> len(subsampled(np.array([0, 0, 0, 0, 1, 1]), seed=0, epoch=0))
        4
    """
    drawing = np.random.default_rng([seed, _SUBSET, epoch if fresh else 0])
    smallest = int(np.bincount(groups).min())
    rows = [
        drawing.permutation(np.flatnonzero(groups == group))[:smallest] for group in range(int(groups.max()) + 1)
    ]
    return np.random.default_rng([seed, _ORDER, epoch]).permutation(np.sort(np.concatenate(rows)))


def build(
    name: str, *, n_rows: int, groups: ArrayLike | None = None, total: Total | None = None, **options: Any
) -> Objective:
    """An objective for n training rows, in groups 0..G−1 where it needs them.

    - ``erm``: mean loss over all rows.
    - ``groupdro``: the worst group's loss, by online weights. Options ``step`` (0.01), ``adjustment`` (0), and
      ``balanced`` (True): batches hold every group as often, as Algorithm 1 draws them.
    - ``reweight``: losses weighted by n / (G n_g).
    - ``upsample``: every group seen as often as any other.
    - ``subsample``: every group cut to the smallest. Option ``fresh`` (False): other rows in every epoch.

    Args:
        name: one of :func:`names`.
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
    one_of("objective", name, _OPTIONS)
    known = _OPTIONS[name]
    for option, value in options.items():
        if option not in known:
            offered = f"its options are {', '.join(known)}" if known else "it has none"
            raise InputError(f"objective {name} has no option {option!r}; {offered}")
        if known[option] == "flag" and not isinstance(value, bool):
            raise InputError(f"{option} of {name} must be True or False; got {value!r}")
        if known[option] != "flag":
            real_number(f"{option} of {name}", value, known[option])
    n = whole_number("n_rows", n_rows, 1)
    everything = partial(shuffled, n)
    if name == "erm":
        return Objective(init_mean, update_mean, everything, n)
    numbers, sizes = _required_groups(name, n, groups)
    balanced = partial(upsampled, numbers)
    if name == "groupdro":
        step, adjustment = float(options.get("step", 0.01)), float(options.get("adjustment", 0.0))
        update = partial(update_robust, step=step, adjustment=adjustment, total=total)
        return Objective(
            partial(init_robust, sizes), update, balanced if options.get("balanced", True) else everything, n
        )
    if name == "reweight":
        return Objective(partial(init_reweighted, sizes), update_reweighted, everything, n)
    if name == "upsample":
        return Objective(init_mean, update_mean, balanced, n)
    rows = partial(subsampled, numbers, fresh=options.get("fresh", False))
    return Objective(init_mean, update_mean, rows, len(sizes) * int(sizes.min()))


# Every objective with its options: a flag, or a number in an interval.
_OPTIONS: dict[str, dict[str, str]] = {
    "erm": {},
    "groupdro": {"step": "[0, inf)", "adjustment": "[0, inf)", "balanced": "flag"},
    "reweight": {},
    "upsample": {},
    "subsample": {"fresh": "flag"},
}


def names() -> tuple[str, ...]:
    """The names that :func:`build` knows."""
    return tuple(_OPTIONS)


def _required_groups(name: str, n_rows: int, groups: ArrayLike | None) -> tuple[Rows, Rows]:
    if groups is None:
        raise InputError(f"objective {name} needs groups; give each training row's group number, or use erm")
    numbers, sizes = group_sizes(groups, n_rows)
    if len(sizes) < 2:
        raise InputError(f"objective {name} needs at least 2 groups; all rows are in group 0; use erm")
    return numbers, sizes


class Goal:
    """What a step minimises, and in which order rows are seen."""

    def __init__(self, config: TrainConfig, groups: Tensor | None, rows: Tensor, seed: int) -> None:
        self._rows, self._seed = rows.cpu(), seed
        self._groups = groups
        self._objective = build(
            config.objective,
            n_rows=len(rows),
            groups=None if groups is None else groups.index_select(0, rows).cpu().numpy(),
            total=_total if distributed.world_size() > 1 else None,
            **config.objective_options,
        )
        self._state = self._objective.init(rows.device)
        self._one_group = torch.zeros(1, dtype=torch.int64, device=rows.device)

    @property
    def length(self) -> int:
        """How many rows an epoch sees."""
        return self._objective.length

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


def _total(values: Tensor) -> Tensor:
    distributed.all_reduce_sum(values)
    return values


def read_groups(group: GroupSource, dataset: Dataset, objective: str) -> Rows | None:
    """A group number for every example of a dataset, where the objective asks for groups.

    A manifest of ``hardpan confusion subset`` (JSON) makes group 1 of its examples and group 0 of the others. An
    npz file holds ``groups`` (N,) in the order of the dataset, or with ``ids`` in any order.

    Args:
        group: a file, (N,) numbers 0, 1, ..., or None: the group column of the dataset.
        dataset: whose examples are meant.
        objective: ``erm`` takes none, the others need them.
    """
    if objective == "erm":
        if group is not None:
            raise InputError("needs an objective over groups; got objective 'erm'", argument="group")
        return None
    if group is None and "group" in dataset.metadata:
        return np.unique(dataset.metadata["group"], return_inverse=True)[1].astype(np.int64)
    if group is None:
        raise InputError(
            f"objective {objective!r} needs group: a column, the JSON of a subset, an npz file or group numbers"
        )
    if isinstance(group, (str, os.PathLike)):
        path = Path(group)
        return _from_npz(path, dataset) if path.suffix.lower() == ".npz" else _from_subset(path, dataset)
    return arguments.whole_numbers("group", group, len(dataset))


def check_subset(group: GroupSource, numbers: Rows | None, split: Split) -> None:
    """Refuse a subset whose examples, or whose rest, hold no training example: there is nothing to weigh."""
    if numbers is None or not isinstance(group, (str, os.PathLike)) or Path(group).suffix.lower() == ".npz":
        return
    named = int(np.count_nonzero(numbers[split.train]))
    if named in (0, len(split.train)):
        what = "no" if named == 0 else "every"
        raise InputError(
            f": the subset {group} names {what} training example ({int(numbers.sum()):,} examples, "
            f"{named:,} of the {len(split.train):,} that are trained on); give one that holds some of them, cut by "
            "hardpan confusion subset with --split train or all",
            argument="group",
        )


def accuracy_by_group(split: str, right: NDArray[np.bool_], groups: NDArray[np.int64] | None) -> dict[str, float]:
    """The accuracy of each group that a part holds, under names that :func:`group_accuracies` reads.

    Example:
        >>> accuracy_by_group("test", np.array([True, False, True]), np.array([0, 0, 2]))
        {'test_accuracy_group_0': 0.5, 'test_accuracy_group_2': 1.0}
    """
    if groups is None:
        return {}
    return {f"{split}{_OF_GROUP}{group}": float(right[groups == group].mean()) for group in np.unique(groups)}


def group_accuracies(split: str, values: Mapping[str, float]) -> dict[int, float]:
    """The accuracy of each group of a part, from the values of an epoch.

    Example:
        >>> group_accuracies("test", {"loss": 0.3, "test_accuracy": 0.7, "test_accuracy_group_2": 1.0})
        {2: 1.0}
    """
    begins = f"{split}{_OF_GROUP}"
    return {int(name.removeprefix(begins)): value for name, value in values.items() if name.startswith(begins)}


def _from_subset(path: Path, dataset: Dataset) -> NDArray[np.int64]:
    from hardpan.confusion import load_subset

    result = np.zeros(len(dataset), dtype=np.int64)
    result[load_subset(path).rows(dataset.ids)] = 1
    return result


def _from_npz(path: Path, dataset: Dataset) -> NDArray[np.int64]:
    arrays = read_npz(path, ("groups", "ids"))
    if "groups" not in arrays:
        raise InputError(f"{path}: has no array 'groups'; give (N,) group numbers under that name")
    if "ids" not in arrays:
        return arguments.whole_numbers(f"{path}: groups", arrays["groups"], len(dataset))
    row_of = {str(name): row for row, name in enumerate(arrays["ids"].tolist())}
    missing = [name for name in dataset.ids.tolist() if name not in row_of]
    if missing:
        raise InputError(f"{path}: {len(missing)} examples have no group (first {missing[0]}); name every id")
    values = arguments.whole_numbers(f"{path}: groups", arrays["groups"], len(arrays["ids"]))
    return values[[row_of[name] for name in dataset.ids.tolist()]]
