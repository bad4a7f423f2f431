"""Files of predictions: npz, CSV, JSON, Parquet, stores; one table, or one file a model in a folder."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError
from hardpan.testbed.columns import TABLE_SUFFIXES, Columns, columns_of, read_columns, read_json
from hardpan.testbed.predictions import SetPredictions, set_outcomes, set_predictions
from hardpan.testbed.read_store import is_store, sets_of_store

ONLY_SET = ""
TOP_GUESSES = 5
_GUESS_WORDS = ("predictions?", "preds?", "probabilities", "probs", "logits", "correct", "right")
_LABEL_WORDS = ("labels?", "targets?", "y", "y_true")
_ID_WORDS = ("ids?",)
_MODEL_KEYS = ("models", "model_names")
_GUESS_COLUMN = re.compile(r"(?:predictions?|pred|top)_?(\d*)", re.IGNORECASE)
_SET_NAMES = ("set", "split", "dataset")
_LABEL_NAMES = ("label", "labels", "target", "targets", "y_true")
_ID_NAMES = ("id", "example", "image", "index", "filename")

Sets = dict[str, SetPredictions]


def read_sets(path: Path) -> Sets:
    """The sets of predictions in a file or folder, by name; a file that names no set gives one under ""."""
    if is_store(path):
        return sets_of_store(path, ONLY_SET)
    if path.is_dir():
        return _read_folder(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file or folder")
    if path.suffix.lower() == ".npz":
        return _from_arrays(_read_npz(path), str(path), path.stem)
    if path.suffix.lower() == ".json":
        data = read_json(path)
        if is_nested(data):
            return _from_nested(data, str(path), path.stem)
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
            if (
                len(item.labels) != len(items[0].labels)
                or (item.labels != items[0].labels).any()
                or item.right != items[0].right
            ):
                raise InputError(
                    f"{where}: labels of {item.models[0]} differ from those of {items[0].models[0]}; "
                    "the files must hold the same examples in the same order"
                )
        ids = _common_ids(items, where)
        models = [model for item in items for model in item.models]
        guesses = np.concatenate([item.guesses[:, :, :width] for item in items])
        joined_set = set_predictions(models, guesses, items[0].labels, where, ids)
        result[name] = replace(joined_set, right=items[0].right)
    return result


def _common_ids(items: Sequence[SetPredictions], where: str) -> NDArray[np.str_] | None:
    """The ids that files for the same examples give; some files may give none."""
    known = [item for item in items if item.ids is not None]
    for item in known[1:]:
        if not np.array_equal(item.ids, known[0].ids):  # type: ignore[arg-type]  # those without were left out
            raise InputError(
                f"{where}: ids of {item.models[0]} differ from those of {known[0].models[0]}; "
                "the files must hold the same examples in the same order"
            )
    return known[0].ids if known else None


def _read_folder(folder: Path) -> Sets:
    known = (*TABLE_SUFFIXES, ".npz")
    files = sorted(item for item in folder.iterdir() if item.suffix.lower() in known or is_store(item))
    if not files:
        raise InputError(f"{folder}: holds no .npz, .csv, .json or .parquet file, and no store of predictions")
    return join_sets([read_sets(item) for item in files], str(folder))


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: cannot be read as npz ({error})") from error


def _from_arrays(arrays: Mapping[str, NDArray[Any]], where: str, stem: str) -> Sets:
    names = next((arrays[key] for key in _MODEL_KEYS if key in arrays), None)
    models = [stem] if names is None else [str(name) for name in names]
    guesses, labels = _by_set(arrays, _GUESS_WORDS), _by_set(arrays, _LABEL_WORDS)
    if not guesses:
        return _model_by_key(arrays, where)
    named = {name: array for name, (_, array) in _by_set(arrays, _ID_WORDS).items()}
    sets: Sets = {}
    for name, (word, array) in guesses.items():
        # One list of ids serves one set only: two test sets do not share their examples.
        ids = named.get(name, named.get(ONLY_SET) if len(guesses) == 1 else None)
        if word in ("correct", "right"):
            sets[name] = set_outcomes(models, array, where, ids)
            continue
        if name not in labels:
            wanted = f"labels_{name}" if name else "labels"
            raise InputError(f"{where}: predictions come without labels; expected an array {wanted!r}")
        said = array if word.startswith("pred") else _best_first(array, where)
        sets[name] = set_predictions(models, said, labels[name][1], where, ids)
    return sets


def _by_set(arrays: Mapping[str, NDArray[Any]], words: Sequence[str]) -> dict[str, tuple[str, NDArray[Any]]]:
    """The arrays named by one of the words alone, or with the name of a set behind or before it."""
    word = "|".join(words)
    pattern = re.compile(rf"(?:(?P<before>.+)_)?(?P<word>{word})|(?P<word2>{word})_(?P<behind>.+)")
    found = {}
    for key, array in arrays.items():
        if match := pattern.fullmatch(key):
            name = match["before"] or match["behind"] or ONLY_SET
            found[name] = (match["word"] or match["word2"], array)
    return found


def _model_by_key(arrays: Mapping[str, NDArray[Any]], where: str) -> Sets:
    """A file with one array a model beside the labels of one set."""
    labels = _by_set(arrays, _LABEL_WORDS)
    if ONLY_SET not in labels:
        raise InputError(f"{where}: holds no predictions with labels; expected 'predictions_SET' and 'labels_SET'")
    truth = labels[ONLY_SET][1]
    taken = {*_MODEL_KEYS, "ids", "id"} | {key for key, array in arrays.items() if array is truth}
    models = [key for key in arrays if key not in taken]
    if not models:
        raise InputError(
            f"{where}: holds labels but no predictions; expected an array 'predictions' or one a model"
        )
    ids = arrays.get("ids", arrays.get("id"))
    parts = [{ONLY_SET: set_predictions([key], arrays[key], truth, where, ids)} for key in models]
    return join_sets(parts, where)


def _best_first(probabilities: NDArray[Any], where: str) -> NDArray[Any]:
    if probabilities.ndim not in (2, 3) or probabilities.dtype.kind != "f":
        raise InputError(f"{where}: probabilities must be (models, examples, classes); got {probabilities.shape}")
    k = min(TOP_GUESSES, probabilities.shape[-1])
    return np.argsort(-probabilities, axis=-1, kind="stable")[..., :k]


def is_nested(data: Any) -> bool:
    """Whether JSON holds predictions by model or by set, rather than rows or columns."""
    if not isinstance(data, Mapping):
        return False
    by_set = bool(data) and all(isinstance(part, Mapping) and "predictions" in part for part in data.values())
    return by_set or isinstance(data.get("predictions"), Mapping)


def _from_nested(data: Mapping[str, Any], where: str, stem: str) -> Sets:
    labels, said = data.get("labels"), data.get("predictions")
    if said is None:
        sets = {}
        for name, part in data.items():
            if "labels" not in part:
                raise InputError(f"{where}: predictions of the set {name!r} come without labels")
            by_model = part["predictions"]
            by_model = by_model if isinstance(by_model, Mapping) else {stem: by_model}
            sets[str(name)] = _of_models(by_model, part["labels"], where, part.get("ids"))
        return sets
    if isinstance(labels, Mapping):
        for name in said:
            if name not in labels:
                raise InputError(f"{where}: predictions of the set {name!r} come without labels")
        ids = data.get("ids")
        named = ids if isinstance(ids, Mapping) else {}
        return {
            str(name): _of_models(by_model, labels[name], where, named.get(name)) for name, by_model in said.items()
        }
    if labels is None:
        raise InputError(f"{where}: holds no 'labels' beside 'predictions'")
    return {ONLY_SET: _of_models(said, labels, where, data.get("ids"))}


def _of_models(by_model: Any, labels: Any, where: str, ids: Any) -> SetPredictions:
    if not isinstance(by_model, Mapping) or not by_model:
        raise InputError(f"{where}: predictions of a set must name their models")
    parts = [
        {ONLY_SET: set_predictions([name], _stacked(said, where), labels, where, ids)}
        for name, said in by_model.items()
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
        known = None if ids is None else ids[rows]
        pieces.append({ONLY_SET: set_predictions([name], guesses[rows], labels[rows], where, known)})
    return join_sets(pieces, where)[ONLY_SET]


def _from_wide(part: Columns, label: str, where: str) -> SetPredictions:
    models = [name for name in part if name != label and name not in _ID_NAMES]
    if not models:
        raise InputError(f"{where}: holds labels but no predictions; expected a column 'prediction' or one a model")
    guesses = [_stacked(part[name], where) for name in models]
    key = _first(part, _ID_NAMES)
    return set_predictions(
        models, np.stack(guesses), part[label], where, _texts(part[key]) if key is not None else None
    )


def _guess_columns(columns: Columns) -> list[str]:
    found = {name: match.group(1) for name in columns if (match := _GUESS_COLUMN.fullmatch(name))}
    if "model" not in columns and len(found) < len([name for name in columns if name not in _RESERVED]):
        # A wide table may hold a model called "top5"; only a table of nothing else but guesses is a long one.
        return []
    return sorted(found, key=lambda name: int(found[name] or 0))


_RESERVED = (*_SET_NAMES, *_LABEL_NAMES, *_ID_NAMES, "model", "group")


def _stacked(values: Any, where: str) -> NDArray[Any]:
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values
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
