"""Counts of right answers by model: ``model, correct, total``, two test sets in one table, or timm's results.

The outcomes of counts have one item per test set: ``scores`` are the accuracies, ``totals`` the sizes of the sets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hardpan.arguments import whole_number
from hardpan.errors import InputError, few
from hardpan.outcomes.cells import score_of
from hardpan.outcomes.outcomes import Outcomes
from hardpan.tables import column_role_names, find_columns, plain_name

Columns = Mapping[str, Sequence[Any]]
Totals = int | Sequence[int] | Mapping[str, int] | None
KNOWN_SIZES = {
    "results-imagenet": 50_000,
    "results-imagenetv2-matched-frequency": 10_000,
    "results-imagenet-a": 7_500,
    "results-imagenet-r": 30_000,
    "results-sketch": 50_889,
}
_CORRECT = ("correct", "n_correct", "num_correct", "right", "num_right", "solved")
_TOTAL = (
    *("total", "n", "n_total", "num_total", "count", "examples", "num_examples", "n_examples", "num_samples"),
    *("n_samples", "n_items", "num_items", "size"),
)
_PASSED = (*_CORRECT, "passed", "n_passed", "num_passed", "successes", "resolved")
_FAILED = ("failed", "n_failed", "num_failed", "failures", "wrong", "incorrect", "unresolved")
_ACCURACY = ("top1", "top5", "accuracy", "acc")
COUNT_WORDS = (*_CORRECT, *_TOTAL, *_ACCURACY, "metric", "img_size", "group", "date", "parameters", "param_count")
_MODEL_COLUMNS = {"group": "group", "date": "date", "parameters": "parameters", "param_count": "parameters"}


def is_counts(columns: Columns) -> bool:
    """Whether a table holds one row per model, or per model and test set, with counts or accuracies."""
    columns = _with_usual_names(columns)
    if "model" not in columns or {*column_role_names("item"), "index", "row"} & set(columns):
        return False
    counted = any(name in columns for name in _CORRECT) and any(name in columns for name in _TOTAL)
    apart = [name for name in ("model", *column_role_names("task"), "img_size", "metric") if name in columns]
    rows = list(zip(*(columns[name] for name in apart), strict=True))
    sets = _sets_of_counts(columns)
    counted = counted or any(f"{name}_total" in columns for name in sets)
    accuracies = bool(sets) or any(name in columns for name in _ACCURACY)
    return counted or (accuracies and len(set(rows)) == len(rows))


def _with_usual_names(columns: Columns) -> Columns:
    """Counts with another name of the models or of what is right as the columns model, correct and total."""
    names = {role: [n for n in columns if plain_name(n) in column_role_names(role)] for role in ("model", "task")}
    if "model" not in columns and len(names["model"]) == 1:
        columns = {"model" if name in names["model"] else name: cells for name, cells in columns.items()}
    if "model" not in columns or any(name in columns for name in _CORRECT):
        return columns
    rows = list(zip(columns["model"], *(columns[name] for name in names["task"][:1]), strict=True))
    if (found := counts_in_columns(columns)) is None or len(set(rows)) < len(rows):
        return columns
    right, total = ([float(cell) for cell in columns[name]] for name in found)
    if plain_name(found[1]) in _FAILED:
        total = [passed + failed for passed, failed in zip(right, total, strict=True)]
    kept = {name: cells for name, cells in columns.items() if name not in found}
    return {**kept, "correct": right, "total": total}


def counts_in_columns(columns: Columns) -> tuple[str, str] | None:
    """A column of whole numbers, some above 1, and one of failures, or of totals that bound it in every row.

    Example:
        >>> counts_in_columns({"system": ["a", "b"], "passed": ["3", "4"], "total": ["5", "5"]})
        ('passed', 'total')
        >>> counts_in_columns({"model": ["a", "b"], "passed": [1, 0], "total": [5, 5]}) is None
        True
    """
    whole: dict[str, tuple[str, list[float]]] = {}
    for name, cells in columns.items():
        if plain_name(name) in {*_PASSED, *_FAILED, *_TOTAL}:
            values = [score for cell in cells if (score := score_of(cell)) is not None]
            if len(values) == len(cells) > 0 and all(value >= 0 and value % 1 == 0 for value in values):
                whole[plain_name(name)] = name, values
    right = next((whole[word] for word in _PASSED if word in whole and max(whole[word][1]) > 1), None)
    if right is None:
        return None
    for word in (*_TOTAL, *_FAILED):
        if word in whole:
            bounds = all(a <= b for a, b in zip(right[1], whole[word][1], strict=True))
            if (word in _TOTAL and bounds) or (word in _FAILED and max(whole[word][1]) > 1):
                return right[0], whole[word][0]
    return None


def read_counts(tables: Sequence[tuple[str, Columns]], metric: str | None, totals: Totals, source: str) -> Outcomes:
    """Outcomes with one item per test set.

    Args:
        tables: name (of the file) and columns of each table.
        metric: "top1", "top5", ...; None for top1, or for the only one.
        totals: sizes of the sets where the tables hold accuracies: one for all, one per set, or by name of the set.
        source: where the tables come from.
    """
    sets: dict[str, dict[str, tuple[float, int, float | None]]] = {}
    described: dict[str, dict[str, Any]] = {}
    repeated = {name for _, columns in tables for name in _models_of_several_counts(_with_usual_names(columns))}
    if len({stem for stem, _ in tables}) < len(tables):
        tables = [(f"{stem} {number}", columns) for number, (stem, columns) in enumerate(tables, start=1)]
    for stem, columns in tables:
        columns = _rows_of_metric(_with_usual_names(columns), metric, stem)
        models = _models_of_counts(columns, repeated, stem)
        for name, (right, total, slack) in _counts_by_set(stem, columns, metric, len(models)).items():
            rows = sets.setdefault(name, {})
            for model, correct, size in zip(models, right, total, strict=True):
                if correct == correct and rows.setdefault(model, (correct, size, slack))[:2] != (correct, size):
                    raise InputError(
                        f"{stem}: model {model} has two different rows for one test set; name each model once"
                    )
        for column, label in _MODEL_COLUMNS.items():
            for model, value in zip(models, columns.get(column, ()), strict=False):
                if str(value).strip():
                    described.setdefault(label, {})[model] = value
    return _outcomes_of_counts(sets, described, totals, source)


def _models_of_several_counts(columns: Columns) -> set[str]:
    if "img_size" not in columns or find_columns(list(columns), ("task",)):
        return set()
    return {name for name, count in Counter(map(str, columns["model"])).items() if count > 1}


def _models_of_counts(columns: Columns, repeated: set[str], where: str) -> list[str]:
    names = [str(name) for name in columns["model"]]
    if not repeated:
        return names
    sizes = columns.get("img_size")
    if sizes is None:
        raise InputError(
            f"{where}: model names repeat in another table, and this one has no img_size to distinguish them"
        )
    return [f"{name} {size}px" if name in repeated else name for name, size in zip(names, sizes, strict=True)]


def metric_name(text: str) -> str:
    """One name for one metric: "top-1", "Top 1" and "acc@1" are "top1"; other names stay as they are.

    Example:
        >>> metric_name("Top-5"), metric_name("acc@1"), metric_name("F1")
        ('top5', 'top1', 'F1')
    """
    match = re.fullmatch(r"(?:top|acc)[\s_@-]*(\d+)", text.strip().lower())
    return f"top{match.group(1)}" if match else text.strip()


def _rows_of_metric(columns: Columns, metric: str | None, where: str) -> Columns:
    if "metric" not in columns:
        if metric is not None and metric_name(metric) not in ("top1", *map(metric_name, columns)):
            raise InputError(
                f"{where}: metric must be one of top1; got {metric!r}: the table has no column 'metric'"
            )
        return columns
    names = [metric_name(str(name)) for name in columns["metric"]]
    known = list(dict.fromkeys(names))
    selected = metric_name(metric) if metric is not None else ("top1" if "top1" in known else known[0])
    if metric is None and selected != "top1" and len(known) > 1:
        raise InputError(f"{where}: metric must be named, one of {few(known)}: the table has several")
    if selected not in known:
        raise InputError(f"{where}: metric must be one of {few(known)}; got {metric!r}")
    return {
        key: [value for value, name in zip(values, names, strict=True) if name == selected]
        for key, values in columns.items()
        if key != "metric"
    }


def _sets_of_counts(columns: Columns) -> list[str]:
    """The sets that a table has as pairs of columns: original_correct, original_total, ..."""
    prefixes = [match[1] for name in columns if (match := re.fullmatch(r"([^.]+)_(?:correct|accuracy)", name))]
    return list(dict.fromkeys(name for name in prefixes if name not in ("is", "n", "num")))


def _counts_by_set(
    stem: str, columns: Columns, metric: str | None, n: int
) -> dict[str, tuple[list[float], list[int], float | None]]:
    """Right answers or accuracies, sizes, and rounding error by set."""
    prefixes = _sets_of_counts(columns)
    if prefixes:
        return {
            name: _counts_and_sizes(columns, f"{name}_correct", f"{name}_accuracy", f"{name}_total", stem, n)
            for name in prefixes
        }
    correct = next((name for name in _CORRECT if name in columns), "")
    total = next((name for name in _TOTAL if name in columns), "")
    accuracy = next((name for name in _ACCURACY if name in columns), "")
    if metric is not None and not correct and metric_name(metric) in map(metric_name, columns):
        accuracy = next(name for name in columns if metric_name(name) == metric_name(metric))
    right, sizes, slack = _counts_and_sizes(columns, correct, accuracy, total, stem, n)
    by_set = find_columns(list(columns), ("task",), where=stem)
    if not by_set:
        return {stem: (right, sizes, slack)}
    names = [str(name) for name in columns[by_set["task"]]]
    # One row per model and set: rows of other sets are left as gaps.
    return {
        name: (
            [value if other == name else np.nan for value, other in zip(right, names, strict=True)],
            sizes,
            slack,
        )
        for name in dict.fromkeys(names)
    }


def _counts_and_sizes(
    columns: Columns, correct: str, accuracy: str, total: str, where: str, n: int
) -> tuple[list[float], list[int], float | None]:
    """Right answers, or accuracies with the rounding error of their text; and sizes, 0 where totals have them."""
    sizes = [0] * n
    if total in columns:
        sizes = [int(value) for value in _counts_in_column(columns[total], total, where, whole=True)]
        if min(sizes) < 1:
            raise InputError(f"{where}: column {total!r} must be at least 1; got {min(sizes)}")
    if correct in columns:
        right = _counts_in_column(columns[correct], correct, where, whole=True)
        if beyond := next((pair for pair in zip(right, sizes, strict=True) if pair[0] > pair[1] > 0), None):
            raise InputError(
                f"{where}: column {correct!r} must not exceed {total!r}; got {beyond[0]:g} of {beyond[1]}"
            )
        return right, sizes, None
    values = _counts_in_column(columns[accuracy], accuracy, where)
    scale = 100.0 if max(value for value in values if value == value) > 1.0 else 1.0
    if max(values) > 100.0:
        raise InputError(f"{where}: column {accuracy!r} must be accuracies; got {max(values):g}")
    decimals = max((len(str(cell).partition(".")[2]) for cell in columns[accuracy]), default=0)
    return [value / scale for value in values], sizes, 0.5 * 10.0**-decimals / scale


def _counts_in_column(cells: Sequence[Any], name: str, where: str, whole: bool = False) -> list[float]:
    values = []
    for row, cell in enumerate(cells, start=1):
        value = score_of(cell.replace(",", "") if isinstance(cell, str) else cell)
        if value is None and str(cell).strip().lower() in ("", "none", "nan"):
            value = float("nan")
        if value is None or value < 0 or (whole and value == value and value != int(value)):
            kind = "whole numbers" if whole else "numbers of at least 0"
            raise InputError(f"{where}: column {name!r} must hold {kind}; got {cell!r} in row {row}")
        values.append(value)
    return values


def _outcomes_of_counts(
    sets: Mapping[str, Mapping[str, tuple[float, int, float | None]]],
    described: Mapping[str, Mapping[str, Any]],
    totals: Totals,
    source: str,
) -> Outcomes:
    notes = []
    known: Any = totals if isinstance(totals, Mapping) else {}
    if isinstance(totals, Sequence):
        if len(totals) < len(sets):
            raise InputError(f"must have one entry per test set, {len(sets)}; got {len(totals)}", argument="totals")
        known = {name: size for name, size in zip(sets, totals, strict=False) if size is not None}
    elif totals is not None and not isinstance(totals, Mapping):
        known = dict.fromkeys(sets, totals)
    models = list(dict.fromkeys(model for rows in sets.values() for model in rows))
    scores = np.full((len(models), len(sets)), np.nan)
    sizes = np.zeros((len(models), len(sets)), dtype=np.int64)
    for column, (name, rows) in enumerate(sets.items()):
        fallback = whole_number("totals", known.get(name, KNOWN_SIZES.get(name, 0)))
        off = 0
        for row, model in enumerate(models):
            value, size, slack = rows.get(model, (np.nan, 0, None))
            size = size if size > 0 else fallback
            if value != value:
                continue
            if not size and slack is None:
                raise InputError(
                    f"{name}: counts need the size of the test set; add a column 'total' or pass totals"
                )
            if size:
                exact = value if slack is None else value * size
                off += slack is not None and abs(exact - round(exact)) > slack * size + 1e-6
                value = round(exact) / size
            scores[row, column], sizes[row, column] = value, size
        if off:
            notes.append(
                f"{off:,} of {len(rows):,} accuracies of {name} are not whole numbers of right answers out of "
                f"{fallback:,}: check the size of the set."
            )
    return Outcomes(
        scores,
        tuple(models),
        np.array(list(sets), dtype=np.str_),
        source=source,
        notes=tuple(notes),
        totals=sizes,
        model_groups={
            label: np.array([str(values.get(model, "")) for model in models], dtype=np.str_)
            for label, values in described.items()
        },
    )
