"""A dataset prepared for its floor: checked labels, equal inputs, groups, a split, scaled features."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import stats
from hardpan.bayes.floors.classifiers import Table
from hardpan.bayes.floors.entries import Sampling
from hardpan.bayes.floors.error_estimates import Floats, Labels
from hardpan.bayes.floors.repeats import EqualInputs, equal_inputs, equal_texts
from hardpan.data.dataset import Dataset, Split
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files.reading import check_memory

ROWS, EQUAL, GROUPS = "rows", "equal inputs", "groups"
"""What was drawn independently: every test row, groups of equal rows, or the groups that the user names."""
BYTES_PER_NUMBER = 32  # of a table beside itself: scaled features, their hashes, copies in between
FEWEST_NUMBERED = 20  # rows, from which a column that rises with the row number is said to number them


@dataclass(frozen=True, slots=True, eq=False)
class FloorInputs:
    """A dataset prepared for its floor.

    Attributes:
        dataset: the examples.
        labels: (N,) class numbers.
        split: row numbers of train, validation and test.
        table: features for trees and for distances.
        equal: groups of equal inputs.
        test: test rows on which classifiers are evaluated.
        copied: test rows that equal a row of train or validation.
        group: (N,) groups that no split and no fold takes apart: those that the user names, else equal inputs.
        unit: what was drawn independently: :data:`ROWS`, :data:`EQUAL` or :data:`GROUPS`.
        apart: whether the upper end of the bracket must hold without ``copied``, too.
        numbering: columns that differ in every row and rise or fall with the row number; the upper end of the
            bracket must hold without them, too.
        order: (N,) row numbers in the order of the file.
        decisions: classes of ``test`` by the name of each classifier that the floor evaluated itself.
    """

    dataset: Dataset
    labels: Labels
    split: Split
    table: Table
    equal: EqualInputs
    test: Labels
    copied: Labels
    group: Labels
    unit: str = ROWS
    apart: bool = False
    numbering: tuple[str, ...] = ()
    order: Labels = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    decisions: dict[str, Labels] = field(default_factory=dict)

    @property
    def is_images(self) -> bool:
        """Whether the examples are images."""
        return self.dataset.x.ndim > 2

    @property
    def sampling(self) -> Sampling:
        """How the test rows were drawn."""
        group = None if self.unit == ROWS else self.group[self.test]
        return Sampling(group, ~np.isin(self.test, self.copied) if self.apart else None)

    @property
    def known_groups(self) -> int:
        """How many of the groups of the test rows occur in train or validation, too."""
        known = self.group[np.concatenate([self.split.train, self.split.validation])]
        return int(np.isin(np.unique(self.group[self.test]), known).sum())

    def without_numbering(self) -> FloorInputs:
        """The same, where the columns that number the rows say nothing."""
        raw, scaled = self.table.raw.copy(), self.table.scaled.copy()
        first = self.table.directions
        raw[:, first:][:, np.isin(feature_columns(self.dataset).names, self.numbering)] = 0.0
        names = self.dataset.feature_names or tuple(map(str, range(scaled.shape[1] - first)))
        scaled[:, first:][:, np.isin(names, self.numbering)] = 0.0
        table = dataclasses.replace(self.table, raw=raw, scaled=scaled)
        return dataclasses.replace(self, table=table, numbering=(), decisions={})

    def share(self, hits: NDArray[np.bool_], rows: Labels, confidence: float) -> Estimate:
        """The proportion of ``rows`` with a hit, its interval by what was drawn independently."""
        if self.unit == ROWS:
            return stats.share(int(hits.sum()), len(hits), confidence)
        return stats.grouped_share(hits, self.group[rows], confidence)


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Feature columns as the file has them.

    Attributes:
        values: (N, d) floats; a category is its number, NaN is a missing value.
        names: the d names.
        categorical: (d,) booleans.
    """

    values: Floats
    names: tuple[str, ...]
    categorical: NDArray[np.bool_]


def feature_columns(dataset: Dataset) -> Columns:
    """The feature columns of a table before they were encoded.

    Example:
        >>> feature_columns(Dataset.from_arrays(np.eye(3), feature_names=("a", "b", "c"))).names
        ('a', 'b', 'c')
    """
    if dataset.table is not None:
        return Columns(dataset.table.values, dataset.table.names, dataset.table.categorical)
    d = dataset.x.shape[1]
    names = dataset.feature_names or tuple(map(str, range(d)))
    values = dataset.x if dataset.x.dtype.kind == "f" else dataset.x.astype(np.float64)
    return Columns(values, names, np.zeros(d, dtype=bool))


def numbering_columns(columns: Columns, order: Labels, split: Sequence[Labels] = ()) -> dict[str, str]:
    """Columns that differ in every row and rise or fall with the row number: "rises" or "falls" by name.

    Args:
        columns: the feature columns.
        order: (N,) row numbers in the order of the file.
        split: rows of files that were joined; within each a column may count anew.

    Example:
        >>> x = np.column_stack([np.arange(30.0), -np.arange(30.0), np.arange(30.0) % 7])
        >>> numbering_columns(Columns(x, ("a", "b", "c"), np.zeros(3, dtype=bool)), np.arange(30))
        {'a': 'rises', 'b': 'falls'}
    """
    files = [order[np.isin(order, rows)] for rows in split] or [order]
    numbering = {}
    for j in np.flatnonzero(~columns.categorical) if len(order) >= FEWEST_NUMBERED else ():
        for word, sign in (("rises", 1.0), ("falls", -1.0)):
            if all(bool((sign * np.diff(columns.values[rows, j]) > 0).all()) for rows in files):
                numbering[columns.names[j]] = word
    return numbering


def file_order(dataset: Dataset) -> tuple[Labels, list[Labels]]:
    """Rows in the order of the file, and the rows of each file where every split may have its own."""
    row = dataset.metadata.get("row", np.arange(len(dataset)))
    order = np.argsort(np.asarray(row, dtype=np.int64), kind="stable")
    if dataset.split is None:
        return order, []
    return order, [np.flatnonzero(dataset.split == name) for name in np.unique(dataset.split)]


def prepare_floor_inputs(dataset: Dataset, seed: int = 0) -> FloorInputs:
    """Check labels, find equal inputs and split; an official test set is used as it is.

    Whether test rows that equal a training row are copies is not tested here, so the bracket holds with and without
    them.
    """
    if dataset.x.dtype.kind not in "biuf" or (0 in dataset.x.shape and not dataset.is_texts):
        raise InputError(f"{dataset.name}: x must be numbers; got shape {dataset.x.shape} of {dataset.x.dtype}")
    labels = dataset.require_labels()
    inputs = split_inputs(dataset.with_descriptors(), labels, seed)
    if not len(inputs.split.test) or len(np.unique(labels[inputs.split.train])) < 2:
        raise InputError(f"{dataset.name}: needs test examples, and training examples of two classes")
    return dataclasses.replace(inputs, apart=dataset.split is not None and bool(len(inputs.copied)))


def split_inputs(dataset: Dataset, labels: Labels, seed: int) -> FloorInputs:
    """Equal inputs, groups, split and features of a dataset with checked labels.

    Groups that the user names, else equal rows, stay on one side of every random cut that is made here. An official
    test set, or that of the latest rows, is used as it is: its rows were drawn one by one unless the user names
    groups or it keeps equal rows together, and rows of it that equal a training row are part of what it measures.
    """
    raw = dataset.x if dataset.table is None else dataset.table.values
    if not dataset.is_images:
        check_memory(dataset.name, BYTES_PER_NUMBER * raw.size, "give fewer rows, or fewer columns by --drop")
    equal = equal_inputs(raw) if dataset.texts is None else equal_texts(dataset.texts, raw)
    if dataset.split is None:
        by_input = dataset.times() is None and bool((equal.sizes > 1).any())
    else:
        by_input = stats.kept_together_test(equal.group, dataset.split == "test")
    group, unit = equal.group, EQUAL if by_input else ROWS
    if dataset.texts is not None:  # texts that differ in case, spaces and marks only are on one side of a cut
        from hardpan.neighbors.text_copies import normalised_text

        plain = np.array([normalised_text(text) for text in dataset.texts], dtype=object)
        group = equal_texts(plain, raw[:, :0]).group
    if "group" in dataset.metadata:
        group, unit = np.unique(dataset.metadata["group"], return_inverse=True)[1].ravel().astype(np.int64), GROUPS
    split = dataset.splits(seed, together=group)
    categorical = np.zeros(raw[0].size, dtype=bool) if dataset.table is None else dataset.table.categorical
    if dataset.is_images and dataset.vectors is not None:  # pixels are not columns beside the vectors
        raw = scaled = np.zeros((len(raw), 0))
        categorical = np.zeros(0, dtype=bool)
    else:
        scaled = standardised(dataset.x, split.train)
    table = Table(raw.reshape(len(raw), raw[0].size), scaled, labels, dataset.n_classes, categorical)
    if dataset.vectors is not None:
        table = _with_directions(table, unit_vectors(dataset.vectors, split.train))
    elif dataset.texts is not None:
        table = _with_texts(table, dataset.texts, seed)
    copied = equal.occurs_in(split.test, np.concatenate([split.train, split.validation]))
    order, files = file_order(dataset)
    numbering = () if dataset.is_images else numbering_columns(feature_columns(dataset), order, files)
    copied_rows, columns = split.test[copied], tuple(numbering)
    return FloorInputs(
        dataset, labels, split, table, equal, split.test, copied_rows, group, unit, numbering=columns, order=order
    )


def _with_texts(table: Table, texts: NDArray[Any], seed: int) -> Table:
    """The table with n-grams, and their directions before its other columns.

    Both are those of all texts, whatever their split and without labels, so that rows stay exchangeable.
    """
    from hardpan.encoders.ngrams import dense_directions, fit_ngrams

    ngrams, values = fit_ngrams(texts.tolist())
    table = _with_directions(table, dense_directions(values, seed=seed))
    return dataclasses.replace(table, ngrams=values, vocabulary=ngrams)


def _with_directions(table: Table, directions: NDArray[Any]) -> Table:
    """The table with rows of length 1 before its other columns."""
    k = directions.shape[1]
    return dataclasses.replace(
        table,
        raw=np.concatenate([directions, table.raw], axis=1, dtype=np.float64) if table.raw.shape[1] else directions,
        # Deviations are about 1, as those of other columns.
        scaled=np.concatenate([directions * np.sqrt(np.float32(k)), table.scaled], axis=1, dtype=np.float32),
        categorical=np.concatenate([np.zeros(k, dtype=bool), table.categorical]),
        directions=k,
    )


def unit_vectors(vectors: NDArray[Any], train: NDArray[np.int64]) -> NDArray[np.float32]:
    """Vectors (N, d) of an encoder less their mean on ``train``, each of length 1: distances follow the cosine.

    Example:
        >>> unit_vectors(np.array([[5.0, 1.0], [1.0, 1.0], [3.0, 9.0]]), np.array([0, 1])).tolist()
        [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]
    """
    centred = np.asarray(vectors - vectors[train].mean(axis=0), dtype=np.float32)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.asarray(centred / np.where(length > 0, length, 1), dtype=np.float32)


def standardised(x: NDArray[Any], train: NDArray[np.int64]) -> NDArray[Any]:
    """Features (N, d) for distances: 8-bit images as they are, others scaled; vectors to deviation 1 on train.

    Args:
        x: (N, H, W), (N, H, W, C) or (N, d).
        train: rows whose mean and deviation the scaling uses.

    Example:
        >>> standardised(np.array([[1.0, 50.0], [3.0, 50.0]]), np.array([0, 1])).round(6).tolist()
        [[-1.0, 0.0], [1.0, 0.0]]
    """
    flat = x.reshape(len(x), int(np.prod(x.shape[1:])))
    if not flat.shape[1]:
        return flat.astype(np.float64)
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
