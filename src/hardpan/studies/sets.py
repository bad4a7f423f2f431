"""The three sets of a follow-up study: training examples, the original test set, and the new one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.data.dataset import Dataset
from hardpan.data.opening import as_dataset
from hardpan.errors import InputError
from hardpan.files import array_hash

Source = str | Path | Dataset
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """Examples and their class numbers."""

    x: NDArray[Any]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: Rows) -> Labelled:
        """Only these rows."""
        return Labelled(self.x[rows], self.labels[rows])

    def join(self, other: Labelled) -> Labelled:
        """These examples, then the others."""
        return Labelled(np.concatenate([self.x, other.x]), np.concatenate([self.labels, other.labels]))


@dataclass(frozen=True, slots=True, eq=False)
class Sets:
    """What a follow-up study is about.

    Attributes:
        train: all training examples, validation included.
        original: the original test set.
        new: the new test set.
        n_classes: C.
        name: of the data.
        new_name: of the new test set.
        stand_in: True where no new set was given, and half of the test set stands in for it.
        fingerprint: sha256 over all of it.
    """

    train: Labelled
    original: Labelled
    new: Labelled
    n_classes: int
    name: str
    new_name: str
    stand_in: bool
    fingerprint: str


def read_sets(data: Source, new: Source | None = None, seed: int = 0) -> Sets:
    """The sets of a study, from a dataset with a test set and a new test set of the same classes.

    Without a new set, the test set is cut into class-balanced halves, and the second stands in for it: a control,
    in which there is no drop to be explained.

    Args:
        data: a dataset, or a name, file or folder of one; without official test set, 20 % of it are the test set.
        new: the new test set; of a dataset with a split its test part, else all of it.
        seed: of the split and of the halves.

    Example:
        >>> sets = read_sets("digits")
        >>> len(sets.train), len(sets.original), len(sets.new), sets.stand_in
        (1438, 180, 179, True)
    """
    if all(isinstance(item, (str, os.PathLike)) for item in (data, new) if item is not None):
        return _cached_sets(str(data), None if new is None else str(new), seed)
    return _sets(data, new, seed)


@lru_cache(maxsize=2)  # a worker that gets many runs of one study reads its data once
def _cached_sets(data: str, new: str | None, seed: int) -> Sets:
    return _sets(data, new, seed)


def _sets(data: Source, new: Source | None, seed: int) -> Sets:
    old = as_dataset(data)
    labels = _labels(old)
    parts = old.splits(seed=seed)
    if not len(parts.test):
        raise InputError(f"{old.name} has no test examples; give a dataset with a test set")
    train = Labelled(old.x, labels).take(np.sort(np.concatenate([parts.train, parts.validation])))
    test = Labelled(old.x, labels).take(parts.test)
    if new is None:
        first, second = balanced_parts(test.labels, 2, seed)
        original, fresh, new_name = test.take(first), test.take(second), "half of the test set"
    else:
        other = as_dataset(new)
        original, fresh, new_name = test, _new(old, other), other.name
    arrays = (train.x, train.labels, original.x, original.labels, fresh.x, fresh.labels)
    marks = "".join(array_hash(array) for array in arrays).encode()
    fingerprint = array_hash(np.frombuffer(marks, dtype=np.uint8))
    return Sets(train, original, fresh, old.n_classes, old.name, new_name, new is None, fingerprint)


def balanced_parts(labels: NDArray[np.int64], parts: int, seed: int, draw: int = 0) -> list[Rows]:
    """Cut rows at random into parts that have as many of each class as can be, and as many rows, up to one.

    The rows are put in order of class, shuffled within each, and dealt out in turn, so sizes of parts differ by at
    most one, and so do their counts of any class.

    Example:
        >>> [part.tolist() for part in balanced_parts(np.array([0, 0, 1, 1]), 2, seed=0)]
        [[0, 2], [1, 3]]
    """
    rng = np.random.default_rng([seed, draw])
    order = rng.permutation(len(labels))
    dealt = order[np.argsort(labels[order], kind="stable")]
    return [np.sort(dealt[start::parts]) for start in range(parts)]


def _labels(dataset: Dataset) -> NDArray[np.int64]:
    if dataset.labels is None:
        raise InputError(f"{dataset.name} has no labels; give a dataset with labels")
    return dataset.labels


def _new(old: Dataset, new: Dataset) -> Labelled:
    labels = _labels(new)
    if new.x.shape[1:] != old.x.shape[1:] or new.x.dtype != old.x.dtype:
        raise InputError(
            f"new set {new.name} must hold examples like {old.name}, {old.x.dtype} {old.x.shape[1:]}; "
            f"it has {new.x.dtype} {new.x.shape[1:]}"
        )
    if tuple(new.class_names) != tuple(old.class_names):
        raise InputError(
            f"new set {new.name} must have the classes of {old.name} in the same order; "
            f"it has {_few(new.class_names)}, not {_few(old.class_names)}"
        )
    whole = Labelled(new.x, labels)
    if new.split is not None and (new.split == "test").any():
        whole = whole.take(np.flatnonzero(new.split == "test"))
    if not len(whole):
        raise InputError(f"new set {new.name} has no examples")
    return whole


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
