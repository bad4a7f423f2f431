"""Groups of examples for objectives that weigh them: a hard subset and the rest, or numbers from a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.data.dataset import Dataset, Split
from hardpan.errors import InputError
from hardpan.safe_files import read_npz

_OF_GROUP = "_accuracy_group_"

Groups = str | os.PathLike[str] | NDArray[Any] | None


def read_groups(groups: Groups, dataset: Dataset, objective: str) -> NDArray[np.int64] | None:
    """A group number for every example of a dataset, where the objective asks for groups.

    A manifest of ``hardpan confusion subset`` (JSON) makes group 1 of its examples and group 0 of the others. An
    npz file holds ``groups`` (N,) in the order of the dataset, or with ``ids`` in any order.

    Args:
        groups: a file, (N,) numbers 0, 1, ..., or None.
        dataset: whose examples are meant.
        objective: ``erm`` takes none, the others need them.
    """
    if objective == "erm":
        if groups is not None:
            raise InputError("groups need an objective over groups; got objective 'erm'")
        return None
    if groups is None:
        raise InputError(
            f"objective {objective!r} needs groups; pass the JSON of a subset, an npz file or group numbers"
        )
    if isinstance(groups, (str, os.PathLike)):
        path = Path(groups)
        return _from_npz(path, dataset) if path.suffix.lower() == ".npz" else _from_subset(path, dataset)
    return group_numbers(np.asarray(groups), len(dataset), "groups")


def check_subset(groups: Groups, numbers: NDArray[np.int64] | None, split: Split) -> None:
    """Refuse a subset whose examples, or whose rest, hold no training example: there is nothing to weigh."""
    if numbers is None or not isinstance(groups, (str, os.PathLike)) or Path(groups).suffix.lower() == ".npz":
        return
    named = int(np.count_nonzero(numbers[split.train]))
    if named in (0, len(split.train)):
        what = "no" if named == 0 else "every"
        raise InputError(
            f": the subset {groups} names {what} training example ({int(numbers.sum()):,} examples, "
            f"{named:,} of the {len(split.train):,} that are trained on); give one that holds some of them, cut by "
            "hardpan confusion subset with --split train or all",
            argument="groups",
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
        return group_numbers(arrays["groups"], len(dataset), f"{path}: groups")
    row_of = {str(name): row for row, name in enumerate(arrays["ids"].tolist())}
    missing = [name for name in dataset.ids.tolist() if name not in row_of]
    if missing:
        raise InputError(f"{path}: {len(missing)} examples have no group (first {missing[0]}); name every id")
    values = group_numbers(arrays["groups"], len(arrays["ids"]), f"{path}: groups")
    return values[[row_of[name] for name in dataset.ids.tolist()]]


def group_numbers(values: NDArray[Any], n: int, what: str) -> NDArray[np.int64]:
    """The group numbers of n examples, or refuse them; ``what`` names them in messages."""
    if values.shape != (n,) or values.dtype.kind not in "iu" or (values < 0).any():
        raise InputError(
            f"must be {n} whole numbers of at least 0; got {values.dtype} of shape {values.shape}", argument=what
        )
    return values.astype(np.int64)
