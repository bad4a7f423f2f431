"""The table of all examples: the results of every step of an audit per example, joined by id, in one Parquet file.

Every table has the columns ``id``, ``split`` ("train", "validation" or "test") and ``label``. It has the others if
a step of the audit computed them:

- ``confusion``, ``confusion_stderr``: confusion score in bits, and its standard error;
- ``predicted``, ``p_label``: what the ensemble says, and the probability that it gives the label;
- ``floor_posterior``: probability that the flow gives the label; ``floor_difficulty``: 1 − its largest posterior;
- ``selection_frequency``: proportion of annotators that selected the image for its class;
- ``duplicate``, ``duplicate_distance``, ``duplicate_split``: of a test example, the nearest training example;
- ``text``, ``feature: NAME``: what the row contains, the most telling columns first (at most 30);
- ``correct: MODEL``: whether a model is right; ``proportion_correct``: the proportion of models that are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hardpan.data.dataset import Dataset
from hardpan.data.images import LARGEST_THUMBNAIL, images_as_bytes
from hardpan.errors import InputError
from hardpan.files import read_npy

TABLE = "examples.parquet"
THUMBNAILS = "thumbnails.npy"
MOST_THUMBNAIL_BYTES = 512 * 2**20


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """The joined table, and a small picture of every row where the examples are images.

    Attributes:
        table: one row per example.
        thumbnails: (N, h, w) or (N, h, w, 3) bytes, or None.
    """

    table: pa.Table
    thumbnails: NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return int(self.table.num_rows)


def join_example_table(
    dataset: Dataset, splits: Mapping[str, NDArray[np.int64]], columns: Mapping[str, NDArray[Any]]
) -> pa.Table:
    """Join what is known of every example into one table.

    Args:
        dataset: N labelled examples.
        splits: row numbers by the name of the split.
        columns: further columns of length N; NaN in a column of numbers means that nothing is known.

    Example:
        >>> from hardpan import Dataset
        >>> digits = Dataset.open("digits")
        >>> rows = {"train": np.arange(1000), "test": np.arange(1000, 1797)}
        >>> join_example_table(digits, rows, {"confusion": np.zeros(1797)}).column_names
        ['id', 'split', 'row', 'label', 'confusion']
    """
    n = len(dataset)
    split = np.full(n, "", dtype=object)
    for name, rows in splits.items():
        split[rows] = name
    results: dict[str, Any] = {
        "id": pa.array(dataset.ids.astype(object)),
        "split": pa.array(split).dictionary_encode(),
    }
    if "row" in dataset.metadata:
        results["row"] = pa.array(np.asarray(dataset.metadata["row"], dtype=np.int64))
    if "path" in dataset.metadata:
        results["path"] = pa.array(np.asarray(dataset.metadata["path"]).astype(object))
    if dataset.labels is not None:
        names = np.array(dataset.class_names, dtype=object)
        results["label"] = pa.array(names[dataset.labels]).dictionary_encode()
    for name, values in columns.items():
        if len(values) != n:
            raise InputError(f"column {name!r} must have one value per example, {n:,}; got {len(values):,}")
        results[name] = _example_column(np.asarray(values))
    return pa.table(results)


def example_table_files(table: pa.Table, dataset: Dataset) -> dict[str, Callable[[Path], object] | None]:
    """The files of a joined table for :func:`hardpan.files.write_together`: thumbnails, then the table."""
    pictures = example_thumbnails(dataset)
    return {
        THUMBNAILS: None if pictures is None else lambda path: np.save(path, pictures),
        TABLE: lambda path: pq.write_table(table, path, compression="zstd"),
    }


def read_example_table(folder: str | os.PathLike[str]) -> Examples:
    """Read the table of an audit's folder; the thumbnails stay on the disk until they are looked at."""
    root = Path(folder)
    path = root / TABLE
    if not path.is_file():
        raise InputError(f"{root}: holds no {TABLE}; make it with: hardpan audit DATA --out {root}")
    try:
        table = pq.read_table(path)
        table.validate(full=True)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(
            f"{path}: is not a Parquet file that can be read ({error}); run the audit again"
        ) from error
    if "id" not in table.column_names:
        raise InputError(f"{path}: has no column id; run the audit again")
    pictures = None
    if (root / THUMBNAILS).is_file():
        pictures = read_npy(root / THUMBNAILS, mmap=True)
        sides = all(0 < side <= LARGEST_THUMBNAIL for side in pictures.shape[1:3])
        colours = pictures.ndim == 3 or pictures.shape[3:] == (3,)
        if pictures.dtype != np.uint8 or not sides or not colours or len(pictures) != table.num_rows:
            raise InputError(f"{root / THUMBNAILS}: does not belong to {TABLE}; run the audit again")
    return Examples(table, pictures)


def example_thumbnails(dataset: Dataset) -> NDArray[np.uint8] | None:
    """Images as bytes of at most 64 pixels a side; None for feature vectors, or where they would fill the disk."""
    x = dataset.x
    if x.ndim not in (3, 4) or (x.ndim == 4 and x.shape[3] not in (1, 3)):
        return None
    step = max(1, -(-max(x.shape[1:3]) // LARGEST_THUMBNAIL))
    small = x[:, ::step, ::step]
    if small.size > MOST_THUMBNAIL_BYTES:
        return None
    if small.ndim == 4 and small.shape[3] == 1:
        small = small[..., 0]
    return images_as_bytes(small, float(small.min(initial=0)), float(small.max(initial=0)))


def _example_column(values: NDArray[Any]) -> pa.Array:
    if values.dtype.kind == "f":
        return pa.array(values.astype(np.float32), from_pandas=True)
    if values.dtype.kind in "US":
        return pa.array(values.astype(object)).dictionary_encode()
    if values.dtype == object:
        try:
            return pa.array(values.tolist())
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # of several types
            return pa.array([None if value is None else str(value) for value in values.tolist()])
    return pa.array(values)
