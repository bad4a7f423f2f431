"""Arrays of scores, and of predicted classes beside labels: npy, npz, and tables of predictions.

Predicted classes become right or wrong once :mod:`hardpan.outcomes.classes` finds no sign of a wrong class map.
A file may hold several test sets (``predictions_NAME`` and ``labels_NAME``, or a column ``set``): the group column
``set`` then names the set of each item.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.errors import InputError
from hardpan.outcomes import classes
from hardpan.outcomes.cells import GROUPS, MOST_TEXT_BYTES, Cells, Options, distinct, label_text
from hardpan.outcomes.counts import metric_name
from hardpan.outcomes.outcomes import Outcomes, are_probabilities
from hardpan.outcomes.tables import item_column
from hardpan.safe_files import few
from hardpan.tables import find_columns, role_names

ONLY_SET = ""
SCORES = ("scores?", "right", "correct", "outcomes", "matrix", "responses")
GUESSES = ("predictions?", "preds?", "probabilities", "probs", "logits")
LABELS = ("labels?", "targets?", "y_true", "y")
IDS = ("ids?", "items?", "item_ids", "question_ids")
MODELS = ("models", "model_names", "model")
_GROUP = re.compile(r"groups?(?:_(?P<name>.+))?")
_GUESS_COLUMN = re.compile(r"(?:predictions?|pred|top)_?(\d*)", re.IGNORECASE)
TOP_GUESSES = 5
# Guesses of classes that no label names, as a proportion, before another numbering is suspected: a single set may
# miss classes by chance.
_ABSENT, _ABSENT_ALONE = 0.02, 0.2


@dataclass(frozen=True, slots=True, eq=False)
class Guesses:
    """What M models say about the N examples of one test set.

    Attributes:
        models: (M,) names.
        values: (M, N, k) classes, best guess first; (M, N) scores where ``labels`` is None.
        labels: (N,) classes, or None.
        ids: (N,) names of the examples, or None.
        groups: columns of N labels.
    """

    models: tuple[str, ...]
    values: NDArray[Any]
    labels: NDArray[Any] | None
    ids: NDArray[np.str_] | None = None
    groups: Mapping[str, Sequence[Any]] | None = None


Sets = dict[str, Guesses]


def outcomes_of_sets(sets: Sets, options: Options, source: str, max_score: float | None = None) -> Outcomes:
    """The outcomes of the test sets of one file; a model that lacks a set has missing cells there."""
    models = tuple(dict.fromkeys(model for test_set in sets.values() for model in test_set.models))
    row_of = {model: row for row, model in enumerate(models)}
    labelled = [test_set.labels for test_set in sets.values() if test_set.labels is not None]
    pool = _all_classes(labelled, source) if labelled else None
    sizes = [test_set.values.shape[1] for test_set in sets.values()]
    repeats = max(
        1 if item.labels is not None or item.values.ndim < 3 else item.values.shape[2] for item in sets.values()
    )
    scores = np.full((len(models), sum(sizes), repeats), np.nan)
    longest = 0 if pool is None else max(len(str(label)) for label in pool.tolist())
    answered = pool is not None and scores.size * 4 * longest <= MOST_TEXT_BYTES
    texts = [item.values[:1, :1, 0].astype(np.str_) for item in sets.values() if item.labels is not None]
    answers = np.zeros(scores.shape[:2], dtype=np.result_type(*texts)) if answered else None
    items: list[str] = []
    columns: dict[str, NDArray[np.str_]] = {}
    key = np.full(sum(sizes), "", dtype=object)
    for (name, test_set), stop in zip(sets.items(), np.cumsum(sizes).tolist(), strict=True):
        block = slice(stop - test_set.values.shape[1], stop)
        rows = [row_of[model] for model in test_set.models]
        if len(set(rows)) < len(rows):
            raise InputError(f"{source}: model names must differ; got {few(test_set.models)}")
        if test_set.labels is None or pool is None:
            values = test_set.values if test_set.values.ndim == 3 else test_set.values[:, :, None]
            scores[rows, block, : values.shape[2]] = values if max_score is None else values / max_score
        else:
            right = _right_or_wrong(
                _with_class_numbers(test_set, pool, source), pool, len(sets), name, options, source
            )
            scores[rows, block, 0] = right
            key[block] = [str(label) for label in test_set.labels.tolist()]
            if answers is not None:
                answers[rows, block] = test_set.values[:, :, 0]
        prefix = f"{name}/" if name else ""
        ids = test_set.ids
        own = [f"{prefix}item-{row}" for row in range(block.stop - block.start)] if ids is None else ids.tolist()
        if len(set(own)) < len(own):
            raise InputError(
                f"{source}: item ids must be unique; {few([i for i in own if own.count(i) > 1][:1])} repeats"
            )
        items += own
        for column, labels in {**({"set": [name] * len(own)} if name else {}), **(test_set.groups or {})}.items():
            values = columns.setdefault(column, np.full(len(key), "", dtype=object))
            values[block] = [label_text(label) for label in labels]
    if not (np.nanmin(scores, initial=0.0) >= 0.0 and np.nanmax(scores, initial=1.0) <= 1.0):
        raise InputError(
            f"must be given where scores are not in [0, 1]; {source} has {np.nanmin(scores):g} to "
            f"{np.nanmax(scores):g}: give the highest possible score",
            argument="max_score",
        )
    return Outcomes(
        scores[:, :, 0] if repeats == 1 else scores,
        models,
        np.array(distinct(items), dtype=np.str_),
        {name: labels.astype(np.str_) for name, labels in columns.items()},
        answers,
        key.astype(np.str_) if labelled else None,
        source,
    )


def add_sets(sets: Sets, cells: Cells, options: Options, where: str) -> None:
    """Put test sets into the cells, which other files share."""
    outcomes = outcomes_of_sets(sets, options, where, cells.max_score)
    unnamed = any(test_set.ids is None and test_set.labels is None for test_set in sets.values())
    cells.add_outcomes(outcomes, where, by_id=unnamed and not options.by_order)


def sets_of_arrays(arrays: Mapping[str, NDArray[Any]], where: str, stem: str) -> Sets:
    """Test sets in named arrays: scores, or predictions with labels."""
    if list(arrays) == [""]:
        return {ONLY_SET: _score_set(arrays[""], None, where, None)}
    names = next((arrays[key] for key in MODELS if key in arrays), None)
    models = None if names is None else tuple(str(name) for name in np.asarray(names).ravel())
    scores, guesses = _by_set(arrays, SCORES), _by_set(arrays, GUESSES)
    labels = {name: array for name, (_, array) in _by_set(arrays, LABELS).items()}
    named = {name: array for name, (_, array) in _by_set(arrays, IDS).items()}
    scores = {name: entry for name, entry in scores.items() if entry[1].dtype.kind in "biuf" and entry[1].ndim >= 1}
    if scores:
        return {
            name: _score_set(array, models, where, _set_ids(named, name, len(scores)), stem, _group_arrays(arrays))
            for name, (_, array) in scores.items()
        }
    if guesses:
        sets = {}
        for name, (word, array) in guesses.items():
            if name not in labels:
                expected = f"labels_{name}" if name else "labels"
                raise InputError(f"{where}: predictions come without labels; expected an array {expected!r}")
            best = array if word.startswith("pred") else _best_first(array, where)
            by_model = best.ndim > 1 and best.shape[1] == labels[name].size != best.shape[0]
            unnamed = tuple(f"model-{row}" for row in range(len(best))) if by_model else (stem,)
            sets[name] = guesses_of(
                models or unnamed, best, labels[name], where, _set_ids(named, name, len(guesses))
            )
        return sets
    if ONLY_SET in labels and {"x", "X", "images", "data", "x_train"} & set(arrays):
        raise InputError(
            f"{where}: looks like a dataset (arrays {few(list(arrays))}); expected scores or predictions"
        )
    if ONLY_SET in labels:
        return _model_by_key(arrays, labels[ONLY_SET], where)
    matrices = [name for name, array in arrays.items() if array.ndim in (2, 3) and _in_unit(array)]
    if len(matrices) == 1:
        return {
            ONLY_SET: _score_set(
                arrays[matrices[0]], models, where, _set_ids(named, ONLY_SET, 1), stem, _group_arrays(arrays)
            )
        }
    rows = [array for array in arrays.values() if array.ndim == 1 and _in_unit(array)]
    if len(rows) == len(arrays) and len({len(row) for row in rows}) == 1:  # one row per model, under its name
        return {ONLY_SET: _score_set(np.stack(rows), tuple(arrays), where, None, stem)}
    raise InputError(
        f"{where}: no array 'scores' (models × items), and no 'predictions' with 'labels'; got {few(list(arrays))}"
    )


def _group_arrays(arrays: Mapping[str, NDArray[Any]]) -> dict[str, list[Any]]:
    results = {}
    for name, array in arrays.items():
        match = _GROUP.fullmatch(name)
        if (match or name in ("task", "tasks", "subject", "category")) and array.ndim == 1:
            results[(match["name"] if match else None) or (name if not match else "group")] = array.tolist()
    return results


def _set_ids(named: Mapping[str, NDArray[Any]], name: str, sets: int) -> NDArray[Any] | None:
    # One list of ids serves one set only: two test sets do not share their examples.
    return named.get(name, named.get(ONLY_SET) if sets == 1 else None)


def _in_unit(array: NDArray[Any]) -> bool:
    if array.dtype.kind == "b":
        return True
    if array.dtype.kind not in "iuf" or not array.size:
        return False
    known = array[~np.isnan(array)] if array.dtype.kind == "f" else array
    return bool(known.size) and bool(known.min() >= 0 and known.max() <= 1)


def _score_set(
    array: NDArray[Any],
    models: tuple[str, ...] | None,
    where: str,
    ids: NDArray[Any] | None,
    stem: str = "",
    groups: Mapping[str, Sequence[Any]] | None = None,
) -> Guesses:
    values = np.asarray(array, dtype=np.float64) if array.dtype.kind in "biuf" else None
    if values is None or values.ndim not in (1, 2, 3) or not values.size:
        raise InputError(
            f"{where}: scores must be numbers, (models, items[, repeats]); got {array.shape} {array.dtype}"
        )
    if are_probabilities(values):
        raise InputError(
            f"{where}: {values.shape} numbers that sum to 1 are class probabilities, not scores; "
            "pass an npz file with the arrays 'probabilities' (models, examples, classes) and 'labels'"
        )
    if values.ndim == 1:
        values, models = values[None], models or (stem or "model-0",)
    names = models or tuple(f"model-{row}" for row in range(len(values)))
    if len(names) != len(values):
        if values.ndim == 2 and values.shape[1] == len(names):
            values = values.T
        else:
            raise InputError(f"{where}: {len(names)} model names for {len(values)} rows of scores")
    known = None if ids is None else np.asarray(ids).astype(np.str_).ravel()
    if known is not None and len(known) != values.shape[1]:
        raise InputError(f"{where}: {len(known)} item ids for {values.shape[1]} items")
    columns = {name: labels for name, labels in (groups or {}).items() if len(labels) == values.shape[1]}
    return Guesses(names, values, None, known, columns)


def guesses_of(
    models: Sequence[str], guesses: ArrayLike, labels: ArrayLike, where: str, ids: ArrayLike | None = None
) -> Guesses:
    """Check shapes: guesses (M, N) or (M, N, k), one model also (N,) or (N, k); labels (N,); ids (N,) or None."""
    names = tuple(str(name) for name in models)
    try:
        truth: NDArray[Any] = np.asarray(labels)
        values: NDArray[Any] = np.asarray(guesses)
    except ValueError as error:
        raise InputError(f"{where}: predictions and labels must have one value per example") from error
    if truth.ndim == 2 and truth.shape[1] == 1:
        truth = truth[:, 0]
    if truth.ndim != 1 or truth.size == 0:
        raise InputError(f"{where}: labels must be one row, (N,); got shape {truth.shape}")
    n = len(truth)
    if len(names) == 1 and values.shape[:1] == (n,) and values.shape[:2] != (1, n):
        values = values[None]
    if values.ndim == 2 and values.shape == (n, len(names)) and n != len(names):
        values = values.T
    if values.ndim not in (2, 3) or values.shape[:2] != (len(names), n):
        raise InputError(
            f"{where}: predictions must be (models, examples) or (models, examples, k) = ({len(names)}, {n}, ...); "
            f"got shape {values.shape}"
        )
    known = None if ids is None else np.asarray(ids).astype(np.str_)
    if known is not None and known.shape != (n,):
        raise InputError(f"{where}: ids must name each of the {n} examples; got shape {known.shape}")
    return Guesses(names, values if values.ndim == 3 else values[:, :, None], truth, known)


def _by_set(arrays: Mapping[str, NDArray[Any]], words: Sequence[str]) -> dict[str, tuple[str, NDArray[Any]]]:
    """The arrays named by one of the words alone, or with the name of a set behind or before it."""
    word = "|".join(words)
    pattern = re.compile(rf"(?:(?P<before>.+)_)?(?P<word>{word})|(?P<word2>{word})_(?P<behind>.+)")
    results = {}
    for key, array in arrays.items():
        if key not in MODELS and (match := pattern.fullmatch(key)):
            results[match["before"] or match["behind"] or ONLY_SET] = (match["word"] or match["word2"], array)
    return results


def _model_by_key(arrays: Mapping[str, NDArray[Any]], truth: NDArray[Any], where: str) -> Sets:
    """A file with one array per model beside the labels of one set."""
    taken = {*MODELS, "ids", "id"} | {key for key, array in arrays.items() if array is truth}
    models = [key for key in arrays if key not in taken]
    if not models:
        raise InputError(f"{where}: labels without predictions; expected an array 'predictions' or one per model")
    ids = arrays.get("ids", arrays.get("id"))
    return {ONLY_SET: _joined_models([guesses_of([key], arrays[key], truth, where, ids) for key in models])}


def _best_first(probabilities: NDArray[Any], where: str) -> NDArray[Any]:
    if probabilities.ndim not in (2, 3) or probabilities.dtype.kind != "f":
        raise InputError(f"{where}: probabilities must be (models, examples, classes); got {probabilities.shape}")
    return np.argsort(-probabilities, axis=-1, kind="stable")[..., : min(TOP_GUESSES, probabilities.shape[-1])]


def has_predictions(columns: Mapping[str, Any]) -> bool:
    """Whether a table holds predicted classes beside labels."""
    own_name, synonyms, _ = role_names("score")
    return has_labels(columns) and not {*own_name, *synonyms} & set(columns)


def has_labels(columns: Mapping[str, Any]) -> bool:
    """Whether a column of a table is called like labels."""
    return bool({"label", "labels", "target", "targets", "y_true"} & set(columns))


def sets_of_columns(columns: Mapping[str, Sequence[Any]], where: str, stem: str, options: Options) -> Sets:
    """Predictions from a long table (model, prediction) or a wide one (one column per model), with labels."""
    given = {role: name for role, name in options.columns.items() if role != "score"}
    only_given = ("answer", "run", "group")
    roles = find_columns(list(columns), ("key", "task", "item", "model"), given, only_given=only_given, where=where)
    label, split = roles["key"], roles.get("task")
    ids = item_column(list(columns), roles)
    guess_names = (
        [roles["answer"]]
        if "answer" in roles
        else _guess_columns(columns, {*roles.values(), ids}, "model" in roles)
    )
    names = _texts(columns[split]) if split else np.full(len(columns[label]), ONLY_SET)
    sets: Sets = {}
    for name in dict.fromkeys(names.tolist()):
        rows = np.flatnonzero(names == name)
        subset = {key: [values[row] for row in rows.tolist()] for key, values in columns.items() if key != split}
        location = f"{where} ({name})" if name else where
        if guess_names:
            models = _texts(subset[roles["model"]]) if "model" in roles else np.full(len(rows), stem)
            sets[name] = _long_predictions(subset, models, guess_names, label, ids, location)
        else:
            other = {label, ids, *(roles[role] for role in ("group", "run") if role in roles)}
            sets[name] = _wide_predictions(subset, label, ids, other, location)
    return sets


def _long_predictions(
    columns: Mapping[str, Sequence[Any]],
    models: NDArray[np.str_],
    guess_names: Sequence[str],
    label: str,
    key: str | None,
    where: str,
) -> Guesses:
    """The guesses in a table with one row per model and example."""
    guesses = [_guess_array(columns[name], where) for name in guess_names]
    values = guesses[0] if len(guesses) == 1 else np.stack(guesses, axis=1)
    labels, ids = _guess_array(columns[label], where), None if key is None else _texts(columns[key])
    by_model: list[Guesses] = []
    first = np.empty(0, dtype=np.int64)  # the rows of the first model
    for name in dict.fromkeys(models.tolist()):
        rows = np.flatnonzero(models == name)
        if ids is not None:
            rows = rows[np.argsort(ids[rows], kind="stable")]
            if len(set(ids[rows])) < len(rows):
                raise InputError(f"{where}: model {name} has two rows for one {key}")
        first = first if by_model else rows
        same = np.array_equal(labels[rows], labels[first])
        if not same or (ids is not None and not np.array_equal(ids[rows], ids[first])):
            raise InputError(f"{where}: labels or examples of model {name} differ from those of {models[first[0]]}")
        by_model.append(guesses_of([name], values[rows], labels[rows], where, None if ids is None else ids[rows]))
    return _joined_models(by_model)


def _wide_predictions(
    columns: Mapping[str, Sequence[Any]], label: str, key: str | None, other: set[str | None], where: str
) -> Guesses:
    """The guesses in a table with one column per model."""
    models = [name for name in columns if name not in other and name not in GROUPS]
    if not models:
        raise InputError(f"{where}: labels without predictions; expected a column 'prediction' or one per model")
    values = np.stack([_guess_array(columns[name], where) for name in models])
    ids = None if key is None else _texts(columns[key])
    return guesses_of(models, values, np.asarray(columns[label]), where, ids)


def _guess_columns(columns: Mapping[str, Any], other: set[str | None], has_models: bool) -> list[str]:
    results = {name: match.group(1) for name in columns if (match := _GUESS_COLUMN.fullmatch(name))}
    if not has_models and len(results) < len([name for name in columns if name not in (*other, "group")]):
        return []  # a wide table may hold a model called "top5"; a long one has nothing else but guesses
    return sorted(results, key=lambda name: int(results[name] or 0))


def is_nested(data: Any) -> bool:
    """Whether JSON holds predictions by model or by set, rather than rows or columns."""
    if not isinstance(data, Mapping):
        return False
    by_set = bool(data) and all(isinstance(value, Mapping) and "predictions" in value for value in data.values())
    return by_set or isinstance(data.get("predictions"), Mapping)


def sets_of_json(data: Mapping[str, Any], where: str, stem: str) -> Sets:
    """Predictions in JSON: {"labels", "predictions": {model: ...}}, or such an object per test set."""
    if "predictions" not in data:
        return {str(name): _json_predictions(value, where, stem) for name, value in data.items()}
    by_set, labels, ids = data["predictions"], data.get("labels"), data.get("ids")
    if not isinstance(labels, Mapping):
        return {ONLY_SET: _json_predictions({"predictions": by_set, "labels": labels, "ids": ids}, where, stem)}
    named = ids if isinstance(ids, Mapping) else {}
    return {
        str(name): _json_predictions(
            {"predictions": value, "labels": labels.get(name), "ids": named.get(name)}, where, stem
        )
        for name, value in by_set.items()
    }


def _json_predictions(content: Mapping[str, Any], where: str, stem: str) -> Guesses:
    by_model = content["predictions"]
    by_model = by_model if isinstance(by_model, Mapping) else {stem: by_model}
    if content.get("labels") is None or not by_model:
        raise InputError(f"{where}: predictions come without labels; expected 'labels' beside 'predictions'")
    return _joined_models(
        [
            guesses_of([model], _guess_array(values, where), content["labels"], where, content.get("ids"))
            for model, values in by_model.items()
        ]
    )


def _joined_models(models: Sequence[Guesses]) -> Guesses:
    """The guesses of single models on one set in one; as many guesses per example as all of them have."""
    width = min(model.values.shape[2] for model in models)
    values = np.concatenate([model.values[:, :, :width] for model in models])
    return replace(models[0], models=tuple(model.models[0] for model in models), values=values)


def _guess_array(values: Any, where: str) -> NDArray[Any]:
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values
    try:
        array: NDArray[Any] = np.array(values.tolist() if isinstance(values, np.ndarray) else values)
    except ValueError as error:
        raise InputError(f"{where}: every example needs the same number of guesses") from error
    if array.dtype == object:
        raise InputError(f"{where}: predictions must be class numbers or names; got mixed or empty cells")
    return array


def _texts(values: Any) -> NDArray[np.str_]:
    return np.array([str(value) for value in values])


def _all_classes(labels: Sequence[NDArray[Any]], where: str) -> NDArray[Any]:
    """The classes that the labels of all sets name, sorted: whole numbers, or text."""
    whole = [_class_numbers(array, where) for array in labels]
    if all(array is not None for array in whole):
        return np.unique(np.concatenate([array for array in whole if array is not None]))
    return np.unique(np.concatenate([array.astype(np.str_) for array in labels]))


def _with_class_numbers(test_set: Guesses, pool: NDArray[Any], where: str) -> Guesses:
    """Classes as whole numbers; names are numbered in the order of the pool."""
    assert test_set.labels is not None
    if pool.dtype.kind in "iu":
        labels, values = _class_numbers(test_set.labels, where), _class_numbers(test_set.values, where)
        if labels is not None and values is not None:
            return replace(test_set, labels=labels, values=values)
        pool = pool.astype(np.str_)
        pool.sort()
    labels = np.searchsorted(pool, test_set.labels.astype(np.str_))
    text = test_set.values.astype(np.str_)
    numbers = np.searchsorted(pool, text).clip(max=len(pool) - 1)
    unknown = pool[numbers] != text
    if unknown.mean() > _ABSENT_ALONE:
        raise InputError(
            f"{where}: predictions name the class {str(text[unknown].flat[0])!r}, which the labels do not have: "
            "they look made for other classes; map the names first"
        )
    return replace(test_set, labels=labels, values=np.where(unknown, -1, numbers))


def _class_numbers(array: NDArray[Any], where: str) -> NDArray[Any] | None:
    if array.dtype.kind in "iu":
        return array  # large ones are not copied
    if array.dtype.kind == "b":
        return array.astype(np.int64)
    try:
        values = array.astype(np.float64)
    except (TypeError, ValueError):
        return None
    if not (np.abs(values) < 2**53).all() or (values != np.round(values)).any():
        raise InputError(
            f"{where}: predictions and labels must be class numbers or names; got fractions or empty cells"
        )
    return values.astype(np.int64)


def _first_guess_counts(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Which classes are guessed first, and how often; model by model, without sorting all guesses."""
    low, high = int(values.min()), int(values.max())
    if high - low > 1_000_000:
        return np.unique(values[:, :, 0], return_counts=True)
    counts = np.zeros(high - low + 1, dtype=np.int64)
    for row in values:
        counts += np.bincount(row[:, 0].astype(np.int64) - low, minlength=len(counts))
    return np.flatnonzero(counts) + low, counts[counts > 0]


def _right_or_wrong(
    test_set: Guesses,
    pool: NDArray[Any],
    sets: int,
    name: str,
    options: Options,
    where: str,
) -> NDArray[np.bool_]:
    """(M, N) whether the guesses are right, after the class check."""
    assert test_set.labels is not None
    metric = metric_name(options.metric or "top1")
    match = re.fullmatch(r"top(\d+)", metric)
    if not match or int(match[1]) < 1:
        raise InputError(f"must be top1, top5 or another topK; got {options.metric!r}", argument="metric")
    k = int(match[1])
    if test_set.values.shape[2] < k:
        raise InputError(f"{where}: {metric} needs {k} guesses per example; there are {test_set.values.shape[2]}")
    if options.check_classes:
        known = np.arange(len(pool)) if pool.dtype.kind not in "iu" else pool
        if options.n_classes is not None:
            known = np.arange(options.n_classes)
            if not np.isin(test_set.labels, known).all():
                raise InputError(
                    f"{where}: labels run from {test_set.labels.min()} to {test_set.labels.max()}, beyond the "
                    f"n_classes={options.n_classes} classes 0..{len(known) - 1}"
                )
        guessed, counts = _first_guess_counts(test_set.values)
        outside = counts[~np.isin(guessed, known)].sum() / counts.sum()
        if outside < (_ABSENT if sets > 1 else _ABSENT_ALONE) and options.n_classes is None:
            known = np.union1d(known, guessed)
        classes.check_predictions(test_set.models, test_set.values, test_set.labels, known, name or "test")
    right = np.empty(test_set.values.shape[:2], dtype=bool)
    for row, values in enumerate(test_set.values):  # model by model: no temporary array as large as all predictions
        right[row] = (values[:, :k] == test_set.labels[:, None]).any(axis=1)
    return right
