"""Whether models are right on the images of a project: tables with ids, stores, or files in the sets' order."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardpan import tables
from hardpan.errors import InputError

Right = dict[str, dict[str, bool]]
_NOT_MODELS = ("id", "label", "labels", "target", "set", "split", "class")


def right_by_model(
    paths: Sequence[str | os.PathLike[str]],
    original: Mapping[str, str],
    new: Mapping[str, str],
    class_names: Sequence[str],
) -> Right:
    """Model name to (image id to whether the model is right), for images of both sets.

    Args:
        paths: tables with a column id and a column a model (or id, model, prediction) of class names or numbers;
            stores of predictions with the images' ids; or one or two files that ``testbed.two_sets`` opens, whose
            rows are those of the original test set and of the new set, in their order.
        original: image id to class name, in the order of the original test set.
        new: the same of the new set.
        class_names: in the order of class numbers.
    """
    places = [Path(path) for path in paths]
    truth = {**original, **new}
    found: Right = {}
    for place in places:
        if not place.exists():
            raise InputError(f"{place}: no such file or folder of predictions")
        if (place / "zarr.json").is_file():
            _merge(found, _of_store(place, truth))
            continue
        columns = tables.read_columns(place, text=True) if tables.is_table_file(place) else {}
        if "id" not in columns:
            return _in_order(places, list(original), list(new))
        _merge(found, of_table(columns, truth, class_names, str(place)))
    return found


def _merge(found: Right, more: Right) -> None:
    for model, answers in more.items():
        found.setdefault(model, {}).update(answers)


def _of_store(place: Path, truth: Mapping[str, str]) -> Right:
    from hardpan.testbed.sets import store_outcomes

    outcomes = store_outcomes(place)
    ids = outcomes.items.tolist()
    known = [row for row, name in enumerate(ids) if name in truth]
    found: Right = {
        model: {ids[row]: bool(outcomes.scores[k, row]) for row in known} for k, model in enumerate(outcomes.models)
    }
    if not any(found.values()):
        raise InputError(f"{place}: holds none of the project's images; its ids must be those of the images")
    return found


def of_table(
    columns: Mapping[str, Sequence[Any]], truth: Mapping[str, str], class_names: Sequence[str], where: str
) -> Right:
    """The same from the columns of one table: id and a column a model, or id, model and prediction."""
    ids = [str(name) for name in columns["id"]]
    found: Right = {}
    if "model" in columns and "prediction" in columns:
        said = _as_names(columns["prediction"], class_names, where)
        for name, model, answer in zip(ids, columns["model"], said, strict=True):
            if name in truth:
                found.setdefault(str(model), {})[name] = answer == truth[name]
        return found
    for model in columns:
        if model not in _NOT_MODELS:
            said = _as_names(columns[model], class_names, f"{where}, {model}")
            found[model] = {n: answer == truth[n] for n, answer in zip(ids, said, strict=True) if n in truth}
    if not found:
        raise InputError(f"{where}: needs, beside id, a column of predicted class names for each model")
    return found


def _as_names(values: Sequence[Any], class_names: Sequence[str], where: str) -> list[str]:
    """Predictions as class names: they are names, or else all numbers of classes."""
    said, known = [str(value) for value in values], set(class_names)
    if known.issuperset(said):
        return said
    if all(text.isdigit() and int(text) < len(class_names) for text in said):
        return [class_names[int(text)] for text in said]
    strange = next(text for text in said if text not in known)
    raise InputError(f"{where}: {strange!r} is no class; predictions must be class names, or numbers from 0")


def _in_order(places: Sequence[Path], original: Sequence[str], new: Sequence[str]) -> Right:
    from hardpan.testbed import two_sets

    sets = two_sets(*places)
    first, second = sets.original.scores, sets.new.scores
    if first is None or second is None:
        raise InputError(f"{places[0]}: has counts; the hardest images need predictions image by image")
    for side, ids, matrix in (("original", original, first), ("new", new, second)):
        if matrix.shape[1] != len(ids):
            raise InputError(
                f"{places[0]}: predictions for {matrix.shape[1]:,} images of the {side} set, which has {len(ids):,}"
                "; give a table with a column id, or the rows in the order of the set"
            )
    right = np.concatenate([first, second], axis=1) == 1.0
    names = [*original, *new]
    return {model: dict(zip(names, right[k].tolist(), strict=True)) for k, model in enumerate(sets.models)}
