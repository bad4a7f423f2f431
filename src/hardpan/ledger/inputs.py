"""Reading labels and predictions as people have them: npy, npz, CSV, JSON."""

from __future__ import annotations

import csv
import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError

# What NumPy raises for files that are not what their ending says.
UNREADABLE = (
    *(OSError, ValueError, EOFError, KeyError, TypeError, AttributeError, SyntaxError, NotImplementedError),
    *(zipfile.BadZipFile, zlib.error),
)


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """One class for each example, and the examples' ids where the file names them."""

    values: NDArray[Any]
    ids: tuple[str, ...] | None = None


def read_answers(path: Path, names: tuple[str, ...]) -> Answers:
    """Read one class an example from npy, npz, CSV (optional column ``id``) or JSON (a list, or ids to classes).

    Args:
        path: the file; its ending says the format.
        names: column or key names that hold the classes, the first that is there is taken.
    """
    readers = {".npy": _read_npy, ".npz": _read_npz, ".csv": _read_csv, ".json": _read_json}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: ending must be one of {', '.join(readers)}; convert the file")
    try:
        return reader(path, names)
    except (*UNREADABLE, csv.Error, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be read ({error}); give a file with one class an example") from error


def as_classes(values: NDArray[Any], what: str) -> NDArray[Any]:
    """Give one class an example as int64 or text; a table of scores per class becomes its largest column."""
    values = np.asarray(values)
    if values.ndim == 2 and values.dtype.kind == "f" and values.shape[1] > 1:
        if not np.isfinite(values).all():
            raise InputError(f"{what} must be finite; got NaN or infinity; replace them")
        values = values.argmax(axis=1)
    if values.ndim != 1 or values.size == 0:
        raise InputError(f"{what} must hold one class an example; got shape {values.shape}")
    if values.dtype.kind == "f" and np.isfinite(values).all() and (values == np.round(values)).all():
        values = values.astype(np.int64)
    if values.dtype.kind == "S":
        values = values.astype(np.str_)
    if values.dtype.kind in "iub":
        return values.astype(np.int64)
    if values.dtype.kind == "U":
        return values
    raise InputError(f"{what} must be whole numbers or text; got {values.dtype}; give class numbers or names")


def order_by_ids(answers: Answers, ids: tuple[str, ...]) -> NDArray[Any]:
    """Put answers that name their examples into the ledger's order."""
    if answers.ids is None:
        raise InputError(
            "predictions must name their examples, as this ledger does; give a CSV with columns id,prediction"
        )
    place = {name: row for row, name in enumerate(answers.ids)}
    if len(place) != len(answers.ids):
        raise InputError("predictions name an id twice; give each example once")
    missing = [name for name in ids if name not in place]
    if missing:
        raise InputError(
            f"predictions lack {len(missing)} of {len(ids)} ids, first {missing[0]!r}; predict every example"
        )
    if len(place) > len(ids):
        unknown = next(name for name in answers.ids if name not in set(ids))
        raise InputError(f"predictions have ids that this ledger lacks, first {unknown!r}; remove them")
    return answers.values[[place[name] for name in ids]]


def _read_npy(path: Path, names: tuple[str, ...]) -> Answers:
    return Answers(np.load(path, allow_pickle=False))


def _read_npz(path: Path, names: tuple[str, ...]) -> Answers:
    with np.load(path, allow_pickle=False) as stored:
        found = next((name for name in names if name in stored), None)
        if found is None and len(stored.files) == 1:
            found = stored.files[0]
        if found is None:
            raise InputError(f"{path}: no array named {' or '.join(names)}; it has {', '.join(stored.files)}")
        ids = tuple(str(item) for item in stored["ids"].tolist()) if "ids" in stored else None
        return Answers(stored[found], ids)


def _read_csv(path: Path, names: tuple[str, ...]) -> Answers:
    with path.open(newline="", encoding="utf-8-sig") as stream:
        reader = csv.DictReader(stream, strict=True)
        columns = reader.fieldnames or []
        found = next((name for name in names if name in columns), None)
        if found is None:
            raise InputError(f"{path}: no column named {' or '.join(names)}; it has {', '.join(columns)}")
        rows = list(reader)
    values = [row[found] for row in rows]
    if any(value in (None, "") for value in values):
        raise InputError(f"{path}: column {found} has an empty cell; give every example a class")
    ids = tuple(row["id"] for row in rows) if "id" in columns else None
    return Answers(_numbers_or_text(values), ids)


def _read_json(path: Path, names: tuple[str, ...]) -> Answers:
    data = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(data, dict):
        found = next((name for name in names if isinstance(data.get(name), list)), None)
        if found is None:
            return Answers(_numbers_or_text(list(data.values())), tuple(data))
        data = data[found]
    if not isinstance(data, list):
        raise InputError(f"{path}: expected a list of classes or a mapping from ids to classes")
    return Answers(_numbers_or_text(data))


def _numbers_or_text(values: list[Any]) -> NDArray[Any]:
    try:
        return np.array([int(value) for value in values], dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        return np.array([str(value) for value in values], dtype=np.str_)
