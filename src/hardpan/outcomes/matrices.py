"""Matrices of scores: npy and npz, models × items (× repeats).

A file may hold several test sets (``scores_NAME``): the group column ``set`` then names the set of each item.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError, few
from hardpan.outcomes.cells import distinct
from hardpan.outcomes.outcomes import Outcomes

SCORES = "scores?|right|correct|outcomes|matrix|responses"
IDS = "ids?|items?|item_ids|question_ids"
MODELS = ("models", "model_names", "model")
_GROUP = re.compile(r"groups?(?:_(?P<name>.+))?")

Arrays = Mapping[str, NDArray[Any]]


def matrix_outcomes(
    arrays: Arrays, where: str, stem: str = "", max_score: float | None = None, min_score: float = 0.0
) -> Outcomes:
    """The outcomes of the arrays of one file.

    Args:
        arrays: scores, and optionally models, ids and groups, by name; "" names the array of an npy file.
        where: for messages.
        stem: the name of a model of which the file has one row.
        max_score: the highest possible score, by which scores are divided.
        min_score: the lowest possible score.
    """
    sets, models = _score_matrices(arrays, where)
    ids = matrices_by_set(arrays, IDS)
    names = next((arrays[key].ravel().tolist() for key in MODELS if key in arrays), models)
    blocks, items, set_names = list[NDArray[np.float64]](), list[str](), list[str]()
    for name, array in sets.items():
        values = _matrix_of_models(array, names, where)
        if array.ndim == 1 and names is None:
            names = [stem or "model-0"]
        known = ids.get(name, ids.get("") if len(sets) == 1 else None)
        if known is None:
            known = np.array([f"{name}/item-{row}" if name else f"item-{row}" for row in range(values.shape[1])])
        if known.shape != values.shape[1:2] or len(np.unique(known)) < known.size:
            raise InputError(f"{where}: needs {values.shape[1]} unique item ids; got {few(known.ravel().tolist())}")
        blocks.append(values)
        items += map(str, known.tolist())
        set_names += [name] * values.shape[1]
    if len({block.shape[:1] + block.shape[2:] for block in blocks}) > 1:
        raise InputError(f"{where}: the sets {few(list(sets))} must have the same models and repeats")
    scores, measures = (
        blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1),
        dict[str, NDArray[np.float64]](),
    )
    if max_score == math.inf:
        measures["score"] = scores if scores.ndim == 2 else np.nanmean(scores, axis=2)
        min_score, max_score = float(np.nanmin(scores)), float(np.nanmax(scores))
        max_score += max_score == min_score
    if min_score or max_score not in (None, 1.0):
        scores = (scores - min_score) / ((max_score or 1.0) - min_score)
    if not (np.nanmin(scores, initial=0.0) >= 0.0 and np.nanmax(scores, initial=1.0) <= 1.0):
        raise InputError(
            f"must be given where scores are not in [0, 1]; {where} has {np.nanmin(scores):g} to "
            f"{np.nanmax(scores):g}: give the highest possible score",
            argument="max_score",
        )
    groups = {"set": set_names} if "" not in sets else {}
    for name, array in arrays.items():
        match = _GROUP.fullmatch(name)
        if (match or name in ("task", "tasks", "subject", "category")) and array.shape == (len(items),):
            groups[(match["name"] or "group") if match else name] = array.tolist()
    return replace(Outcomes.from_arrays(scores, names, distinct(items), groups), source=where, measures=measures)


def _score_matrices(arrays: Arrays, where: str) -> tuple[dict[str, NDArray[Any]], list[str] | None]:
    """The arrays of scores by test set, "" for the only one; and the models, where each array is one."""
    if list(arrays) == [""]:
        return dict(arrays), None
    sets = {name: array for name, array in matrices_by_set(arrays, SCORES).items() if array.dtype.kind in "biuf"}
    if sets:
        return sets, None
    numbers = [array for array in arrays.values() if array.dtype.kind in "biuf" and not np.isnan(array).all()]
    scores = [array for array in numbers if np.nanmin(array) >= 0 and np.nanmax(array) <= 1]
    matrices = [array for array in scores if array.ndim in (2, 3)]
    rows = [array for array in scores if array.ndim == 1]
    of_classes = [name for name in arrays if re.search("pred|prob|logits|label|target|^y$", name)]
    if len(matrices) == 1 and not of_classes:
        return {"": matrices[0]}, None
    if len(rows) == len(arrays) and len({len(row) for row in rows}) == 1 and not of_classes:
        return {"": np.stack(rows)}, list(arrays)
    raise InputError(
        f"{where}: no array 'scores' (models × items); got {few(list(arrays))}. Predicted classes: give a table "
        "with model, item, prediction and label; class probabilities: pass hardpan.Predictions.open(...).outcomes()"
    )


def _matrix_of_models(array: NDArray[Any], models: list[Any] | None, where: str) -> NDArray[np.float64]:
    values = np.asarray(array, dtype=np.float64) if array.dtype.kind in "biuf" else np.zeros(0)
    if values.ndim not in (1, 2, 3) or not values.size:
        raise InputError(
            f"{where}: scores must be numbers, (models, items[, repeats]); got {array.shape} {array.dtype}"
        )
    values = values[None] if values.ndim == 1 else values
    if models is not None and len(models) != len(values):
        if values.ndim != 2 or values.shape[1] != len(models):
            raise InputError(f"{where}: {len(models)} model names for {len(values)} rows of scores")
        values = values.T
    return np.ascontiguousarray(values)  # sums depend on the order in memory, in the last digit


def matrices_by_set(arrays: Arrays, words: str) -> dict[str, NDArray[Any]]:
    """The arrays named by one of the words alone, or with the name of a set behind or before it."""
    pattern = re.compile(rf"(?:(?P<before>.+)_)?(?:{words})|(?:{words})_(?P<behind>.+)")
    return {
        match["before"] or match["behind"] or "": array
        for name, array in arrays.items()
        if name not in MODELS and (match := pattern.fullmatch(name))
    }
