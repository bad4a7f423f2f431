"""Labels and predictions as people have them: read from files, encoded as class numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError, few
from hardpan.files import read_json, read_npy, read_npz
from hardpan.tables import find_columns, read_columns


@dataclass(frozen=True, slots=True, eq=False)
class LabelFile:
    """One class for each example, and the examples' ids where the file names them."""

    values: NDArray[Any]
    ids: tuple[str, ...] | None = None

    def in_order_of(self, ids: list[str]) -> NDArray[Any]:
        """The classes in the order of a ledger's ids."""
        if self.ids is None:
            raise InputError(
                "must name their examples, as this ledger does; give a CSV with columns id,prediction",
                argument="predictions",
            )
        row_of = {name: row for row, name in enumerate(self.ids)}
        different = sorted(row_of.keys() ^ set(ids))
        if different or len(row_of) < len(self.ids):
            reason = f"{different[0]!r} is missing or unknown" if different else "an id occurs twice"
            raise InputError(f"must name each of the {len(ids)} examples once; {reason}", argument="predictions")
        return self.values[[row_of[name] for name in ids]]


def read_label_file(path: Path, *roles: str) -> LabelFile:
    """Read one class per example from npy, npz, a table (perhaps with ids) or JSON (a list, or ids to classes).

    Args:
        path: the file; its ending says the format.
        roles: of the column or array of classes (:data:`hardpan.tables.ROLES`); the first that is there is taken.
    """
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return LabelFile(read_npy(path))
    if suffix == ".json":
        data = read_json(path)
        values = list(data.values()) if isinstance(data, dict) else data
        if not isinstance(values, list) or any(isinstance(item, (list, dict)) for item in values):
            raise InputError(f"{path}: must be a list of classes, or an object with ids and classes")
        return LabelFile(_label_file_values(values), tuple(data) if isinstance(data, dict) else None)
    columns = read_npz(path) if suffix == ".npz" else read_columns(path, text=True)
    usual = {"label": "y_test"} if "label" in roles and "y_test" in columns else {}
    names = find_columns(list(columns), ("id", *roles), usual, where=str(path))
    name = next((names[role] for role in roles if role in names), None)
    if name is None and len(columns) == 1:
        name = next(iter(columns))
    if name is None:
        raise InputError(f"{path}: no column or array of {' or '.join(roles)}; it has {few(columns)}")
    values = columns[name]
    if isinstance(values, list):
        if "" in values:
            raise InputError(f"{path}: column {name} has an empty cell; give every example a class")
        values = _label_file_values(values)
    return LabelFile(values, tuple(str(item) for item in columns[names["id"]]) if "id" in names else None)


def as_ledger_labels(values: NDArray[Any], what: str) -> NDArray[Any]:
    """Give one class per example as int64 or text; a table of scores per class becomes its largest column."""
    values = np.asarray(values)
    if values.ndim == 2 and values.dtype.kind == "f" and values.shape[1] > 1:
        if not np.isfinite(values).all():
            raise InputError("must be finite; got NaN or infinity; replace them", argument=what)
        values = values.argmax(axis=1)
    if values.ndim != 1 or values.size == 0:
        raise InputError(f"must hold one class per example; got shape {values.shape}", argument=what)
    if values.dtype.kind == "f" and (np.abs(values) < 2**53).all() and (values == np.round(values)).all():
        values = values.astype(np.int64)
    if values.dtype.kind == "S":
        values = values.astype(np.str_)
    if values.dtype.kind in "iub":
        return values.astype(np.int64)
    if values.dtype.kind == "U":
        return values
    raise InputError(
        f"must be whole numbers or text; got {values.dtype}; give class numbers or names", argument=what
    )


def _label_file_values(values: list[Any]) -> NDArray[Any]:
    if all(isinstance(value, (int, float)) for value in values):  # JSON; as_ledger_labels refuses what is not whole
        return np.array(values)
    try:
        return np.array([int(value) for value in values], dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        return np.array([str(value) for value in values], dtype=np.str_)


def encode_labels(labels: NDArray[Any], classes: int | None) -> tuple[NDArray[np.int32], list[Any]]:
    """Give labels as class numbers, and the classes in order."""
    values = as_ledger_labels(labels, "labels")
    if values.dtype.kind == "U":
        names, codes = np.unique(values, return_inverse=True)
        return codes.astype(np.int32), names.tolist()
    if values.min() < 0:
        raise InputError(f"must be class numbers from 0; got {values.min()}", argument="labels")
    count = int(values.max()) + 1 if classes is None else classes
    if values.max() >= count:
        raise InputError(f"labels go up to {values.max()}, beyond the {count} classes given; raise --classes")
    if count > 1_000_000:
        raise InputError(f"labels go up to {values.max()}; class numbers must be below 1,000,000: are these ids?")
    return values.astype(np.int32), list(range(count))
