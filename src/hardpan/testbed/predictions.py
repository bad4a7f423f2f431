"""Predictions of many models on test sets, turned into right or wrong once the class maps are checked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.errors import InputError
from hardpan.outcomes.classes import check_both, check_predictions, check_sets
from hardpan.stats.agreement import right_or_wrong
from hardpan.testbed.tables import Booleans, Outcomes, metric_name, some_names


@dataclass(frozen=True, slots=True, eq=False)
class SetPredictions:
    """What M models say about the N examples of one test set.

    Attributes:
        models: (M,) names.
        guesses: (M, N, k) classes, best guess first: numbers or names.
        labels: (N,) classes.
        right: the guesses are no classes but right (1) or wrong (0), and the labels all 1.
        ids: (N,) names of the examples, or None where nobody gave any.
    """

    models: tuple[str, ...]
    guesses: NDArray[Any]
    labels: NDArray[Any]
    right: bool = False
    ids: NDArray[np.str_] | None = None

    def take(self, models: Sequence[str]) -> SetPredictions:
        """The same for these models, in this order."""
        if tuple(models) == self.models:
            return self
        place = {name: row for row, name in enumerate(self.models)}
        return replace(self, models=tuple(models), guesses=self.guesses[[place[name] for name in models]])


def set_predictions(
    models: Sequence[str], guesses: ArrayLike, labels: ArrayLike, where: str, ids: ArrayLike | None = None
) -> SetPredictions:
    """Check shapes: guesses (M, N) or (M, N, k), one model also (N,) or (N, k); labels (N,); ids (N,) or None."""
    names = tuple(str(name) for name in models)
    truth: NDArray[Any] = np.asarray(labels)
    said: NDArray[Any] = np.asarray(guesses)
    if truth.ndim == 2 and truth.shape[1] == 1:
        truth = truth[:, 0]
    if truth.ndim != 1 or truth.size == 0:
        raise InputError(f"{where}: labels must be one row, (N,); got shape {truth.shape}")
    n = len(truth)
    if len(names) == 1 and said.shape[:1] == (n,) and said.shape[:2] != (1, n):
        said = said[None]
    if said.ndim == 2 and said.shape == (n, len(names)) and n != len(names):
        said = said.T
    if said.ndim not in (2, 3) or said.shape[:2] != (len(names), n):
        raise InputError(
            f"{where}: predictions must be (models, examples) or (models, examples, k) = ({len(names)}, {n}, ...); "
            f"got shape {said.shape}"
        )
    if len(set(names)) < len(names):
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise InputError(f"{where}: model {twice} appears twice")
    known = None if ids is None else np.asarray(ids).astype(np.str_)
    if known is not None and known.shape != (n,):
        raise InputError(f"{where}: ids must name each of the {n} examples; got shape {known.shape}")
    return SetPredictions(names, said if said.ndim == 3 else said[:, :, None], truth, ids=known)


def set_outcomes(
    models: Sequence[str], right: ArrayLike, where: str, ids: ArrayLike | None = None
) -> SetPredictions:
    """A matrix of right and wrong, (M, N), in the place of predictions; there are no classes to check."""
    matrix = right_or_wrong(where, right)
    truth = np.ones(matrix.shape[-1] if matrix.ndim else 0, dtype=np.bool_)
    return replace(set_predictions(models, matrix, truth, where, ids), right=True)


def outcomes(
    original: SetPredictions,
    new: SetPredictions,
    *,
    metric: str = "top1",
    check_classes: bool = True,
    n_classes: int | None = None,
) -> Outcomes:
    """Right or wrong of the models that both sets have, after checking that everybody means the same classes.

    Args:
        original: predictions on the original set.
        new: predictions on the new set.
        metric: "top1", or "topK" where there are K guesses an example.
        check_classes: refuse permuted, shifted, subset or differently sized class maps and reversed columns.
        n_classes: classes run from 0 to this less one; without it, the labels of both sets say which exist.

    Example:
        >>> a = set_predictions(["m"], [0, 1, 1, 0], [0, 1, 1, 1], "original")
        >>> b = set_predictions(["m"], [0, 0, 1, 1], [0, 1, 1, 1], "new")
        >>> outcomes(a, b).counts().original_correct.tolist()
        [3]
    """
    metric = metric_name(metric)
    k = _guesses_wanted(metric)
    shared = [name for name in original.models if name in set(new.models)]
    if not shared:
        raise InputError(
            "the original and the new predictions share no model name; check that both name models alike"
        )
    notes = tuple(
        f"Left out, because only the {side} set has their predictions: "
        f"{some_names([name for name in part.models if name not in set(shared)])}"
        for side, part in (("original", original), ("new", new))
        if len(part.models) > len(shared)
    )
    original, new = original.take(shared), new.take(shared)
    for side, part in (("original", original), ("new", new)):
        if part.guesses.shape[2] < k:
            raise InputError(f"{metric} needs {k} guesses an example; the {side} set has {part.guesses.shape[2]}")
    if original.right != new.right:
        raise InputError("one set holds right or wrong, the other predictions; give both in the same form")
    original, new = _numbered(original, new)
    if check_classes and not original.right:
        _check(original, new, n_classes)
    return Outcomes(tuple(shared), _right(original, k), _right(new, k), metric=metric, notes=notes)


def _check(original: SetPredictions, new: SetPredictions, n_classes: int | None) -> None:
    if n_classes is None:
        check_sets(original.labels, new.labels)
        classes = np.unique(np.concatenate([np.unique(original.labels), np.unique(new.labels)]))
    else:
        classes = np.arange(n_classes)
        for side, part in (("original", original), ("new", new)):
            if part.labels.min() < 0 or part.labels.max() >= n_classes:
                raise InputError(
                    f"labels of the {side} set run from {part.labels.min()} to {part.labels.max()}, "
                    f"beyond the {n_classes} classes 0..{n_classes - 1}"
                )
    first = check_predictions(original.models, original.guesses, original.labels, classes, "original")
    second = check_predictions(new.models, new.guesses, new.labels, classes, "new")
    check_both(original.models, first, second, 1.0 / len(classes))


def _right(part: SetPredictions, k: int) -> Booleans:
    right = np.empty(part.guesses.shape[:2], dtype=np.bool_)
    # Model by model: no temporary array as large as all predictions.
    for row, guesses in enumerate(part.guesses):
        right[row] = (
            guesses[:, 0] == part.labels if k == 1 else (guesses[:, :k] == part.labels[:, None]).any(axis=1)
        )
    return right


def _guesses_wanted(metric: str) -> int:
    match = re.fullmatch(r"top(\d+)", metric)
    if not match or int(match.group(1)) < 1:
        raise InputError(f"metric must be top1, top5 or another topK; got {metric!r}")
    return int(match.group(1))


def _numbered(original: SetPredictions, new: SetPredictions) -> tuple[SetPredictions, SetPredictions]:
    arrays = (original.labels, new.labels, original.guesses, new.guesses)
    if all(array.dtype.kind in "iu" for array in arrays):
        return original, new
    whole = [_whole(array) for array in arrays]
    named = any(array is None for array in whole)
    checked = _named(arrays) if named else cast(list[NDArray[np.int64]], whole)
    return (
        replace(original, guesses=checked[2], labels=checked[0]),
        replace(new, guesses=checked[3], labels=checked[1]),
    )


def _whole(array: NDArray[Any]) -> NDArray[np.int64] | None:
    if array.dtype.kind in "iub":
        return array.astype(np.int64)
    try:
        values = array.astype(np.float64)
    except (TypeError, ValueError):
        return None
    if not np.isfinite(values).all() or (values != np.round(values)).any():
        raise InputError(
            "predictions and labels must be class numbers or class names; got fractions or empty cells"
        )
    return values.astype(np.int64)


def _named(arrays: Sequence[NDArray[Any]]) -> list[NDArray[np.int64]]:
    texts = [array.astype(np.str_) for array in arrays]
    classes = np.unique(np.concatenate([np.unique(text) for text in texts[:2]]))
    numbered = []
    for side, text in zip(("original", "new", "original", "new"), texts, strict=True):
        place = np.searchsorted(classes, text).clip(max=len(classes) - 1)
        unknown = classes[place] != text
        if unknown.any():
            raise InputError(
                f"predictions on the {side} set name the class {str(text[unknown].flat[0])!r}, which the labels do "
                "not have: they look made for other classes; map the names first"
            )
        numbered.append(place.astype(np.int64))
    return numbered


def choose_sets(
    sets: Mapping[str, SetPredictions], original: str | None, new: str | None, where: str
) -> tuple[SetPredictions, SetPredictions]:
    """The original and the new set among those a file holds, by name where there is a choice."""
    first = original or ("original" if "original" in sets else None)
    rest = [name for name in sets if name != first]
    second = new or ("new" if "new" in sets else rest[0] if len(rest) == 1 else None)
    known = ", ".join(sorted(sets))
    for side, name in (("original", first), ("new", second)):
        if name is None:
            raise InputError(
                f"{where}: say which of the sets {known} is the {side} one ({side}=NAME, --{side} NAME)"
            )
        if name not in sets:
            raise InputError(f"{where}: has no set {name!r}; it has {known}")
    assert first is not None
    assert second is not None
    return sets[first], sets[second]
