"""Reading a matrix of right and wrong as leaderboards publish it."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.data.opening import parse_source, subset_rows
from hardpan.errors import InputError
from hardpan.testbed.columns import Columns, numbers, read_columns
from hardpan.testbed.items.fit import check_matrix
from hardpan.testbed.read_predictions import read_sets
from hardpan.testbed.read_store import is_store

_RIGHT = ("right", "correct", "matrix", "responses")
# What NumPy raises for files that are not npz, whatever their ending says.
_UNREADABLE = (OSError, ValueError, EOFError, KeyError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error)
_IDS = ("id", "example", "image", "index", "item")


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """Right (1), wrong (0) and not tried (NaN), (M, N), with the names of models and examples."""

    models: tuple[str, ...]
    ids: tuple[str, ...]
    right: NDArray[Any]


def read_matrix(path: Path, which: str | None = None) -> Matrix:
    """Read models × examples from npz, CSV or Parquet.

    Forms: npz with ``right`` (M, N) and optional ``models`` and ``ids``; a table with a row a model (column
    ``model``) or a row an example (other columns are models); a long table (``model``, ``id``, ``correct``); or
    predictions with labels, as the other testbed commands read them, in a file or in a store.

    Args:
        path: the file; ``FILE@hard.json`` takes only the examples that a subset's manifest names.
        which: the test set, where a file of predictions holds several.
    """
    data, manifest = parse_source(str(path))
    if manifest and not path.exists():
        whole = read_matrix(Path(data), which)
        rows = subset_rows(manifest, whole.ids)
        return Matrix(whole.models, tuple(whole.ids[row] for row in rows), whole.right[:, rows])
    matrix: Matrix | None = None
    if not is_store(path):
        if not path.is_file():
            raise InputError(f"{path}: no such file; give models × examples as npz, CSV or Parquet, or a store")
        matrix = _from_npz(path) if path.suffix.lower() == ".npz" else _from_columns(read_columns(path), str(path))
    if matrix is None:
        matrix = _from_predictions(path, which)
    check_matrix(matrix.right)
    if len(set(matrix.models)) < len(matrix.models):
        raise InputError(f"{path}: a model appears twice; give each once")
    return matrix


def _from_npz(path: Path) -> Matrix | None:
    try:
        with np.load(path, allow_pickle=False) as stored:
            found = next((name for name in _RIGHT if name in stored), None)
            if found is None:
                return None
            right = stored[found]
            models = stored["models"].tolist() if "models" in stored else None
            ids = stored["ids"].tolist() if "ids" in stored else None
    except _UNREADABLE as error:
        raise InputError(f"{path}: cannot be read as npz ({error})") from error
    return _named(right, models, ids, str(path))


def _from_columns(columns: Columns, where: str) -> Matrix | None:
    if "label" in columns or "prediction" in columns:
        return None
    ids = next((name for name in _IDS if name in columns), None)
    if "model" in columns and "correct" in columns and ids is not None:
        return _from_long(columns, ids, where)
    if "model" in columns:
        names = [name for name in columns if name != "model"]
        right = np.array([numbers(name, columns[name], where, blank=np.nan) for name in names]).T
        return _named(right, list(columns["model"]), names, where)
    names = [name for name in columns if name != ids]
    right = np.array([numbers(name, columns[name], where, blank=np.nan) for name in names])
    return _named(right, names, None if ids is None else list(columns[ids]), where)


def _from_long(columns: Columns, ids: str, where: str) -> Matrix:
    models, row = np.unique(np.asarray(columns["model"], dtype=np.str_), return_inverse=True)
    names, column = np.unique(np.asarray(columns[ids], dtype=np.str_), return_inverse=True)
    right = np.full((len(models), len(names)), np.nan)
    right[row, column] = numbers("correct", columns["correct"], where, blank=np.nan)
    if len(np.unique(row * len(names) + column)) < len(row):
        raise InputError(f"{where}: a model answers an example twice; give each pair once")
    return _named(right, models.tolist(), names.tolist(), where)


def _from_predictions(path: Path, which: str | None) -> Matrix:
    sets = read_sets(path)
    name = which if which is not None else next(iter(sets)) if len(sets) == 1 else None
    if name is None or name not in sets:
        raise InputError(f"{path}: say which set with --set; it has {', '.join(sets)}")
    found = sets[name]
    ids = None if found.ids is None else found.ids.tolist()
    return _named(found.guesses[:, :, 0] == found.labels, list(found.models), ids, str(path))


def _named(right: NDArray[Any], models: list[Any] | None, ids: list[Any] | None, where: str) -> Matrix:
    if right.ndim != 2:
        raise InputError(f"{where}: must be models × examples; got shape {right.shape}")
    rows, columns = right.shape
    named = tuple(str(name) for name in models) if models is not None else tuple(f"model-{i}" for i in range(rows))
    ids_given = (
        tuple(str(name) for name in ids) if ids is not None else tuple(f"row-{i:07d}" for i in range(columns))
    )
    if (len(named), len(ids_given)) != right.shape:
        raise InputError(
            f"{where}: {len(named)} models and {len(ids_given)} ids do not fit the matrix {right.shape}"
        )
    return Matrix(named, ids_given, right)
