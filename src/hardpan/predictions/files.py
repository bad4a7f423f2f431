"""Labels, ids, split or class names in a file of their own: npy, npz, CSV or text."""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError

_WORDS = {
    "labels": ("labels", "label", "y", "targets", "target", "y_true"),
    "ids": ("ids", "id", "example", "filename"),
    "split": ("split",),
    "class_names": ("class_names", "classes", "name", "class"),
}


def read_column(path: Path, what: str) -> NDArray[Any]:
    """Read one column: an array, an array of an npz file, a column of a CSV file, or one value a line.

    Args:
        path: .npy, .npz, .csv, or any other text file.
        what: "labels", "ids", "split" or "class_names": how it is called in a file that holds several.
    """
    suffix = path.suffix.lower()
    try:
        if suffix == ".npy":
            with path.open("rb") as stream:
                return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
        if suffix == ".npz":
            with np.load(path, allow_pickle=False) as stored:
                return np.asarray(stored[_one_of(path, what, list(stored.files))])
        found = _text(path, what, suffix == ".csv")
    except InputError:
        raise
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)[:120]
        raise InputError(f"{path}: {what} cannot be read ({reason}); give npy, npz, CSV or text") from error
    if what != "labels":
        return np.array(found, dtype=np.str_)
    try:
        return np.array([int(value) for value in found], dtype=np.int64)
    except ValueError:
        return np.array(found, dtype=np.str_)  # names of classes


def _one_of(path: Path, what: str, names: list[str]) -> str:
    found = next((word for word in _WORDS[what] if word in names), None)
    if found is None and len(names) == 1:
        return names[0]
    if found is None:
        raise InputError(f"{path}: holds no {what!r}; it holds {', '.join(names) or 'nothing'}")
    return found


def _text(path: Path, what: str, table: bool) -> list[str]:
    with path.open(newline="", encoding="utf-8-sig") as lines:
        if not table:
            return [line.rstrip("\r\n") for line in lines if line.strip()]
        rows = [row for row in csv.reader(lines) if row]
    if not rows:
        raise InputError(f"{path}: holds no rows")
    header = [name.strip().lower() for name in rows[0]]
    if len(header) == 1 and header[0] not in _WORDS[what]:
        return [row[0] for row in rows]
    column = header.index(_one_of(path, what, header))
    if any(len(row) != len(header) for row in rows):
        raise InputError(f"{path}: rows must have {len(header)} cells, as the first has")
    return [row[column] for row in rows[1:]]
