"""Files of predictions: npz, CSV, JSON, Parquet; one table, or one file a model in a folder."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError
from hardpan.testbed.columns import TABLE_SUFFIXES, Columns, columns_of, read_columns, read_json
from hardpan.testbed.predictions import SetPredictions, set_predictions

ONLY_SET = ""
TOP_GUESSES = 5
_GUESS_KEY = re.compile(r"(predictions?|preds?|probabilities|probs)(?:_(.+))?")
_LABEL_KEY = re.compile(r"(labels?|targets?|y|y_true)(?:_(.+))?")
_GUESS_COLUMN = re.compile(r"(?:predictions?|pred|top)_?(\d*)", re.IGNORECASE)
_SET_NAMES = ("set", "split", "dataset")
_LABEL_NAMES = ("label", "target", "y_true")
_ID_NAMES = ("id", "example", "image", "index", "filename")

Sets = dict[str, SetPredictions]


def read_sets(path: Path) -> Sets:
    """The sets of predictions in a file or folder, by name; a file that names no set gives one under ""."""
    if path.is_dir():
        return _read_folder(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file or folder")
    if path.suffix.lower() == ".npz":
        return _from_arrays(_read_npz(path), str(path), path.stem)
    if path.suffix.lower() == ".json":
        data = read_json(path)
        if isinstance(data, Mapping) and "predictions" in data and isinstance(data["predictions"], Mapping):
            return _from_nested(data, str(path))
        return sets_from_columns(columns_of(data, str(path)), str(path), path.stem)
    return sets_from_columns(read_columns(path), str(path), path.stem)


def sets_from_columns(columns: Columns, where: str, stem: str) -> Sets:
    """Predictions from a long table (model, prediction) or a wide one (a column a model), with labels."""
    label = _first(columns, _LABEL_NAMES)
    if label is None:
        raise InputError(f"{where}: column 'label' is missing; the columns are {', '.join(columns)}")
    split = _first(columns, _SET_NAMES)
    guess_columns = _guess_columns(columns)
    names = _texts(columns[split]) if split else np.full(len(columns[label]), ONLY_SET)
    sets: Sets = {}
    for name in dict.fromkeys(names.tolist()):
        rows = np.flatnonzero(names == name)
        place = f"{where} ({name})" if name else where
        part = {key: _picked(values, rows) for key, values in columns.items() if key != split}
        if guess_columns:
            sets[name] = _from_long(part, guess_columns, label, place, stem)
        else:
            sets[name] = _from_wide(part, label, place)
    return sets


def join_sets(parts: Sequence[Sets], where: str) -> Sets:
    """Put the models of several files together, set by set; their labels must agree."""
    joined: dict[str, list[SetPredictions]] = {}
    for part in parts:
        for name, item in part.items():
            joined.setdefault(name, []).append(item)
    result = {}
    for name, items in joined.items():
        width = min(item.guesses.shape[2] for item in items)
        for item in items[1:]:
            if len(item.labels) != len(items[0].labels) or (item.labels != items[0].labels).any():
                raise InputError(
                    f"{where}: labels of {item.models[0]} differ from those of {items[0].models[0]}; "
                    "the files must hold the same examples in the same order"
                )
        models = [model for item in items for model in item.models]
        guesses = np.concatenate([item.guesses[:, :, :width] for item in items])
        result[name] = set_predictions(models, guesses, items[0].labels, where)
    return result


def _read_folder(folder: Path) -> Sets:
    files = sorted(item for item in folder.iterdir() if item.suffix.lower() in (*TABLE_SUFFIXES, ".npz"))
    if not files:
        raise InputError(f"{folder}: holds no .npz, .csv, .json or .parquet file")
    return join_sets([read_sets(item) for item in files], str(folder))


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: cannot be read as npz ({error})") from error


def _from_arrays(arrays: Mapping[str, NDArray[Any]], where: str, stem: str) -> Sets:
    names = arrays.get("models", arrays.get("model_names"))
    guesses: dict[str, NDArray[Any]] = {}
    labels: dict[str, NDArray[Any]] = {}
    for key, array in arrays.items():
        if match := _GUESS_KEY.fullmatch(key):
            scores = match.group(1).startswith("prob")
            guesses[match.group(2) or ONLY_SET] = _best_first(array, where) if scores else array
        elif match := _LABEL_KEY.fullmatch(key):
            labels[match.group(2) or ONLY_SET] = array
    if not labels:
        raise InputError(f"{where}: holds no labels; expected an array 'labels' or 'labels_SET'")
    if not guesses:
        models = [key for key in arrays if not _LABEL_KEY.fullmatch(key) and key not in ("ids", "id")]
        if set(labels) != {ONLY_SET} or not models:
            raise InputError(f"{where}: holds no predictions; expected an array 'predictions' or 'predictions_SET'")
        return join_sets(
            [{ONLY_SET: set_predictions([key], arrays[key], labels[ONLY_SET], where)} for key in models], where
        )
    for name in guesses:
        if name not in labels:
            raise InputError(f"{where}: predictions of the set {name!r} come without labels_{name}")
    models = [stem] if names is None else [str(name) for name in names]
    return {name: set_predictions(models, array, labels[name], where) for name, array in guesses.items()}


def _best_first(probabilities: NDArray[Any], where: str) -> NDArray[Any]:
    if probabilities.ndim not in (2, 3) or probabilities.dtype.kind != "f":
        raise InputError(f"{where}: probabilities must be (models, examples, classes); got {probabilities.shape}")
    k = min(TOP_GUESSES, probabilities.shape[-1])
    return np.argsort(-probabilities, axis=-1, kind="stable")[..., :k]


def _from_nested(data: Mapping[str, Any], where: str) -> Sets:
    labels, said = data.get("labels"), data["predictions"]
    if isinstance(labels, Mapping):
        for name in said:
            if name not in labels:
                raise InputError(f"{where}: predictions of the set {name!r} come without labels")
        return {str(name): _of_models(by_model, labels[name], where) for name, by_model in said.items()}
    if labels is None:
        raise InputError(f"{where}: holds no 'labels' beside 'predictions'")
    return {ONLY_SET: _of_models(said, labels, where)}


def _of_models(by_model: Any, labels: Any, where: str) -> SetPredictions:
    if not isinstance(by_model, Mapping) or not by_model:
        raise InputError(f"{where}: predictions of a set must name their models")
    parts = [
        {ONLY_SET: set_predictions([name], _stacked(said, where), labels, where)} for name, said in by_model.items()
    ]
    return join_sets(parts, where)[ONLY_SET]


def _from_long(part: Columns, guess_columns: Sequence[str], label: str, where: str, stem: str) -> SetPredictions:
    models = _texts(part["model"]) if "model" in part else np.full(len(part[label]), stem)
    said = [_stacked(part[name], where) for name in guess_columns]
    guesses = said[0] if len(said) == 1 else np.stack(said, axis=1)
    labels, key = np.asarray(part[label]), _first(part, _ID_NAMES)
    ids = _texts(part[key]) if key else None
    pieces, first_ids = [], None
    for name in dict.fromkeys(models.tolist()):
        rows = np.flatnonzero(models == name)
        if ids is not None:
            rows = rows[np.argsort(ids[rows], kind="stable")]
            first_ids = ids[rows] if first_ids is None else first_ids
            if len(set(ids[rows])) < len(rows):
                raise InputError(f"{where}: model {name} has two rows for one {key}")
            if len(rows) != len(first_ids) or (ids[rows] != first_ids).any():
                raise InputError(f"{where}: model {name} has predictions for other examples than the first model")
        pieces.append({ONLY_SET: set_predictions([name], guesses[rows], labels[rows], where)})
    return join_sets(pieces, where)[ONLY_SET]


def _from_wide(part: Columns, label: str, where: str) -> SetPredictions:
    models = [name for name in part if name != label and name not in _ID_NAMES]
    if not models:
        raise InputError(f"{where}: holds labels but no predictions; expected a column 'prediction' or one a model")
    guesses = [_stacked(part[name], where) for name in models]
    return set_predictions(models, np.stack(guesses), part[label], where)


def _guess_columns(columns: Columns) -> list[str]:
    found = {name: match.group(1) for name in columns if (match := _GUESS_COLUMN.fullmatch(name))}
    if "model" not in columns and len(found) < len([name for name in columns if name not in _RESERVED]):
        # A wide table may hold a model called "top5"; only a table of nothing else but guesses is a long one.
        return []
    return sorted(found, key=lambda name: int(found[name] or 0))


_RESERVED = (*_SET_NAMES, *_LABEL_NAMES, *_ID_NAMES, "model", "group")


def _stacked(values: Any, where: str) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.array(values.tolist() if isinstance(values, np.ndarray) else values)
    except ValueError as error:
        raise InputError(f"{where}: every example needs the same number of guesses") from error
    if array.dtype == object:
        raise InputError(f"{where}: predictions must be class numbers or names; got mixed or empty cells")
    return array


def _picked(values: Any, rows: NDArray[np.int64]) -> Any:
    if len(rows) == len(values):
        return values
    return values[rows] if isinstance(values, np.ndarray) else [values[row] for row in rows]


def _texts(values: Any) -> NDArray[np.str_]:
    return np.array([str(value) for value in values])


def _first(columns: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((name for name in names if name in columns), None)
