"""A dataset prepared for its floor: checked labels, a split without copies across it, scaled features."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import arguments
from hardpan.bayes.floors.classifiers import Table
from hardpan.bayes.floors.error_estimates import Labels
from hardpan.bayes.floors.repeats import EqualInputs, equal_inputs
from hardpan.data.dataset import Dataset, Split
from hardpan.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class FloorInputs:
    """A dataset prepared for its floor.

    Attributes:
        dataset: the examples.
        labels: (N,) class numbers.
        split: row numbers of train, validation and test.
        table: features for trees and for distances.
        equal: groups of equal inputs.
        test: test rows on which classifiers are evaluated: of copies one, and none with a copy in train or
            validation.
        copied: test rows that have a copy in train or validation.
        decisions: of classifiers that the floor evaluated itself, by name: computes their classes of ``test``.
    """

    dataset: Dataset
    labels: Labels
    split: Split
    table: Table
    equal: EqualInputs
    test: Labels
    copied: Labels
    decisions: dict[str, Callable[[], Labels]] = field(default_factory=dict)

    @property
    def is_images(self) -> bool:
        """Whether the examples are images."""
        return self.dataset.x.ndim > 2

    def train_and_test(self) -> tuple[NDArray[Any], Labels, NDArray[Any], Labels]:
        """Scaled features and labels of train, and of the test rows."""
        x, y, train, test = self.table.scaled, self.labels, self.split.train, self.test
        return x[train], y[train], x[test], y[test]


def prepare_floor_inputs(dataset: Dataset, seed: int = 0) -> FloorInputs:
    """Check labels, split, and find equal inputs.

    Rows that coincide by chance are split one by one; copies stay together.
    """
    if dataset.x.dtype.kind not in "biuf" or 0 in dataset.x.shape:
        raise InputError(f"{dataset.name}: x must be numbers; got shape {dataset.x.shape} of {dataset.x.dtype}")
    labels = arguments.labels(f"{dataset.name}: labels", dataset.require_labels(), len(dataset.x))
    equal = equal_inputs(dataset.x if dataset.table is None else dataset.table.values)
    split = split_with_copies_together(dataset, equal, seed)
    if not len(split.test) or len(np.unique(labels[split.train])) < 2:
        raise InputError(f"{dataset.name}: needs test examples, and training examples of two classes")
    return floor_inputs(dataset, labels, equal, split)


def floor_inputs(dataset: Dataset, labels: Labels, equal: EqualInputs, split: Split) -> FloorInputs:
    """What the floor is computed from, of checked labels and a split with test examples."""
    raw = dataset.x if dataset.table is None else dataset.table.values
    categorical = np.zeros(raw[0].size, dtype=bool) if dataset.table is None else dataset.table.categorical
    scaled = standardised(dataset.x, split.train)
    table = Table(raw.reshape(len(raw), -1), scaled, labels, dataset.n_classes, categorical)
    has_copy = equal.with_copy_in(split.test, np.concatenate([split.train, split.validation]))
    test = equal.without_repeats(split.test[~has_copy])
    return FloorInputs(dataset, labels, split, table, equal, test, split.test[has_copy])


def split_with_copies_together(dataset: Dataset, equal: EqualInputs, seed: int) -> Split:
    """The split of a dataset; rows that coincide by chance are split one by one."""
    if equal.by_chance and dataset.split is None:
        apart = ((equal.sizes > 1) & ~equal.copies)[equal.group]
        names = [f"{name}." if alone else str(name) for name, alone in zip(dataset.ids, apart, strict=True)]
        dataset = dataclasses.replace(dataset, ids=np.array(names))
    return dataset.splits(seed)


def standardised(x: NDArray[Any], train: NDArray[np.int64]) -> NDArray[Any]:
    """Features (N, d) for distances: 8-bit images as they are, others scaled; vectors to deviation 1 on train.

    Args:
        x: (N, H, W), (N, H, W, C) or (N, d).
        train: rows whose mean and deviation the scaling uses.

    Example:
        >>> standardised(np.array([[1.0, 50.0], [3.0, 50.0]]), np.array([0, 1])).round(6).tolist()
        [[-1.0, 0.0], [1.0, 0.0]]
    """
    flat = x.reshape(len(x), -1)
    if flat.dtype.kind != "f" and x.ndim > 2:
        return flat
    scaled = flat.astype(np.float64)
    # Dividing by the largest number first keeps squares of very large or very small ones representable.
    largest = np.abs(scaled).max(axis=0 if x.ndim == 2 else None)
    scaled /= np.where(largest > 0, largest, 1.0)
    if x.ndim == 2:
        deviation = scaled[train].std(axis=0)
        scaled -= scaled[train].mean(axis=0)
        # A feature that is constant up to rounding says nothing; dividing by its deviation would make it shout.
        scaled /= np.where(deviation > 1e-12, deviation, 1.0)
    return scaled


def half_of_rows(n: int, seed: int) -> Labels:
    """A random half of n rows, in order: an estimate on it shows whether one on all still changes."""
    return np.sort(np.random.default_rng([seed, 31]).permutation(n)[: n // 2])


def half_with_all_classes(y: Labels, seed: int) -> Labels | None:
    """A random half of the rows, None where a class is not in it or no class is in it twice."""
    rows, classes = half_of_rows(len(y), seed), len(np.unique(y))
    return rows if len(np.unique(y[rows])) == classes and len(rows) > classes else None
