"""What rows contain, as people read it: text, the columns of a table with the most telling first, metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.auditing.evidence import Evidence
from hardpan.bayes.floors.classifiers import class_differences
from hardpan.bayes.floors.error_estimates import Floats, Labels
from hardpan.bayes.floors.inputs import feature_columns
from hardpan.data.dataset import Dataset

FEATURE = "feature: "  # in front of the name of a column in the table of examples
MOST_COLUMNS = 30  # of a wide table, the most telling ones
MOST_COMPARED = 200  # columns in which two rows are compared
MOST_ROWS = 10_000  # rows by which columns are ordered
_NOT_CONTENT = ("row", "path", "votes", "soft_labels")


@dataclass(frozen=True, slots=True, eq=False)
class RowContents:
    """What rows contain besides an image.

    Attributes:
        columns: (N,) values by name: "text", columns of the table with the most telling first, metadata.
        numbers: names of those that are numbers.
        scaled: (N, c) numbers in which two rows are compared; a category is compared by whether it is equal.
        compared: names of these c columns.
        categorical: (c,) booleans.
    """

    columns: dict[str, NDArray[Any]]
    numbers: frozenset[str]
    scaled: Floats
    compared: tuple[str, ...]
    categorical: NDArray[np.bool_]

    def differences(self, row: int, other: int) -> list[str]:
        """Names of the columns in which two rows differ, those that differ by most deviations first."""
        a, b = self.scaled[row], self.scaled[other]
        gap = np.where(np.isnan(a) & np.isnan(b), 0.0, np.nan_to_num(np.abs(a - b), nan=np.inf))
        gap = np.where(self.categorical & (gap > 0), 1.0, gap)
        order = np.argsort(-gap, kind="stable")
        return [self.compared[j] for j in order.tolist() if gap[j] > 0]

    def nearest(self, rows: Labels, candidates: Labels) -> Labels:
        """Of each row the other candidate that differs least: Σ of squared deviations, 1 per category."""
        values = np.nan_to_num(self.scaled)
        nearest = np.empty(len(rows), dtype=np.int64)
        for at, row in enumerate(rows.tolist()):
            gap = values[candidates] - values[row]
            away = np.where(self.categorical, gap != 0, gap**2).sum(axis=1)
            away[candidates == row] = np.inf
            nearest[at] = candidates[int(away.argmin())]
        return nearest


def row_contents(evidence: Evidence) -> RowContents:
    """The contents of the rows of an audit; of images the metadata alone."""
    dataset = evidence.dataset
    columns: dict[str, NDArray[Any]] = {}
    if dataset.texts is not None:
        columns["text"] = dataset.texts
    scaled, compared = np.zeros((len(dataset), 0)), ()
    categorical, numbers = np.zeros(0, dtype=bool), set()
    if not evidence.is_images and dataset.feature_names:
        features = feature_columns(dataset)
        telling = telling_order(features.values, features.categorical, evidence.labels, evidence.split.train)
        used = telling[:MOST_COMPARED]
        categorical, compared = (
            features.categorical[used],
            tuple(features.names[j] for j in used),
        )
        scaled = np.asarray(features.values[:, used], dtype=np.float64)
        deviation = np.nanstd(np.where(np.isfinite(scaled), scaled, np.nan), axis=0) if len(used) else np.ones(0)
        scaled = np.where(categorical, scaled, scaled / np.where(deviation > 0, deviation, 1.0))
        for j in telling[:MOST_COLUMNS].tolist():
            columns.setdefault(features.names[j], readable_column(dataset, features.values[:, j], j))
            if not features.categorical[j]:
                numbers.add(features.names[j])
    for name, values in dataset.metadata.items():
        if name not in (*_NOT_CONTENT, "text") and values.ndim == 1:
            columns.setdefault(name, values.astype(object))
    return RowContents(columns, frozenset(numbers), scaled, compared, categorical)


def telling_order(values: Floats, categorical: NDArray[np.bool_], labels: Labels, train: Labels) -> Labels:
    """Column numbers, those first in which classes differ most: by the squared t of a class against the others.

    Of a category, the largest of its values.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = np.arange(100) % 2
        >>> x = np.column_stack([rng.normal(size=100), y + rng.normal(size=100)])
        >>> telling_order(x, np.zeros(2, dtype=bool), y, np.arange(100)).tolist()
        [1, 0]
    """
    rows = train[:: max(1, -(-len(train) // MOST_ROWS))]
    own = labels[rows]
    score = class_differences(values[rows], own, np.arange(len(rows)))
    for j in np.flatnonzero(categorical).tolist():
        levels = np.unique(values[rows, j])[:100]
        flags = (values[rows, j][:, None] == levels[None, :]).astype(np.float64)
        score[j] = class_differences(flags, own, np.arange(len(rows))).max(initial=0.0)
    return np.argsort(-score, kind="stable")


def readable_column(dataset: Dataset, values: Floats, column: int) -> NDArray[Any]:
    """A column as the file has it: names of categories, None for what is missing."""
    table = dataset.table
    if table is not None and table.categorical[column]:
        levels = np.array([*table.levels[column], None], dtype=object)
        number = np.where(np.isnan(values), len(levels) - 1, values).astype(np.int64)
        return np.asarray(levels[np.clip(number, 0, len(levels) - 1)])
    known = values[np.isfinite(values)]
    whole = bool((known == np.round(known)).all()) and bool((np.abs(known) < 2**53).all())
    result = np.full(len(values), None, dtype=object)
    result[np.isfinite(values)] = [int(v) if whole else float(v) for v in known.tolist()]
    return result
