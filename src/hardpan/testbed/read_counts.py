"""Counts tables, and pairs of result tables with accuracies (such as timm's) whose totals are given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardpan.errors import InputError
from hardpan.testbed.columns import Columns, decimal_year, numbers
from hardpan.testbed.tables import Counts, counts_table, some_names

METRICS = ("top1", "top5")


def counts_from_columns(
    columns: Columns, where: str = "table", original_total: int | None = None, new_total: int | None = None
) -> Counts:
    """A counts table from its columns: model, original_correct, original_total, new_correct, new_total.

    In the place of counts, ``original_accuracy`` and ``new_accuracy`` (in 0..1 or percent) are read with the
    totals. Further columns are used where they exist: metric, group, date, parameters.
    """
    if "model" not in columns:
        raise InputError(f"{where}: column 'model' is missing; the columns are {', '.join(columns)}")
    totals = {
        "original": _total("original", columns, where, original_total),
        "new": _total("new", columns, where, new_total),
    }
    correct = {}
    notes: list[str] = []
    for side in ("original", "new"):
        if f"{side}_correct" in columns:
            correct[side] = np.array(numbers(f"{side}_correct", columns[f"{side}_correct"], where))
        elif f"{side}_accuracy" in columns:
            column = columns[f"{side}_accuracy"]
            correct[side] = _rounded(column, f"{side}_accuracy", where, totals[side], notes)
        else:
            raise InputError(f"{where}: column '{side}_correct' is missing; the columns are {', '.join(columns)}")
    count = len(columns["model"])
    parameters = columns.get("parameters", columns.get("param_count"))
    return counts_table(
        [str(name) for name in columns["model"]],
        correct["original"],
        totals["original"],
        correct["new"],
        totals["new"],
        metric=[str(name) for name in columns.get("metric", ["top1"] * count)],
        group=[str(name) for name in columns.get("group", ())],
        date=[decimal_year(value, where) for value in columns.get("date", ())],
        parameters=numbers("parameters", parameters, where, blank=float("nan")) if parameters is not None else (),
        notes=notes,
    )


def counts_from_pair(
    original: Columns,
    new: Columns,
    where: tuple[str, str],
    original_total: int | None,
    new_total: int | None,
) -> Counts:
    """Counts from two tables with columns model and top1 (and top5), one a test set, joined by model.

    Accuracies may be in percent or in 0..1; a count is the nearest whole number of right answers. Models that
    only one table has are left out and counted in the notes.
    """
    for side, total in (("original", original_total), ("new", new_total)):
        if total is None:
            raise InputError(
                f"the tables hold accuracies, not counts: give the size of the {side} set "
                f"({side}_total=N, --{side}-total N)"
            )
    assert original_total is not None
    assert new_total is not None
    tables = [_by_model(columns, place) for columns, place in zip((original, new), where, strict=True)]
    shared = [name for name in tables[0] if name in tables[1]]
    if not shared:
        raise InputError(f"{where[0]} and {where[1]} share no model name; check that both name models alike")
    notes = [
        f"Left out, because only the {side} table has them: "
        + some_names([name for name in rows if name not in other])
        for side, rows, other in (("original", tables[0], tables[1]), ("new", tables[1], tables[0]))
        if len(rows) > len(shared)
    ]
    metrics = [name for name in METRICS if name in original and name in new]
    rows: dict[str, list[Any]] = {name: [] for name in ("model", "metric", "original", "new", "parameters")}
    for metric in metrics:
        for side, columns, place, total, table in (
            ("original", original, where[0], original_total, tables[0]),
            ("new", new, where[1], new_total, tables[1]),
        ):
            cells = [columns[metric][table[name]] for name in shared]
            rows[side] += _rounded(cells, metric, place, np.full(len(shared), total), notes).tolist()
        rows["model"] += shared
        rows["metric"] += [metric] * len(shared)
        rows["parameters"] += _parameters(original, [tables[0][name] for name in shared], where[0])
    return counts_table(
        rows["model"],
        rows["original"],
        original_total,
        rows["new"],
        new_total,
        metric=rows["metric"],
        parameters=rows["parameters"],
        notes=list(dict.fromkeys(notes)),
    )


def is_counts(columns: Columns) -> bool:
    """Whether columns look like a counts table."""
    return "model" in columns and any(
        f"{side}_{kind}" in columns for side in ("original", "new") for kind in _KINDS
    )


def is_results(columns: Columns) -> bool:
    """Whether columns look like one set's accuracies by model."""
    return "model" in columns and "top1" in columns and "label" not in columns


_KINDS = ("correct", "accuracy")


def _total(side: str, columns: Columns, where: str, given: int | None) -> Any:
    name = f"{side}_total"
    if name in columns:
        return np.array(numbers(name, columns[name], where))
    if given is None:
        raise InputError(f"{where}: column '{name}' is missing; add it or give the size of the set ({name})")
    return np.full(len(columns["model"]), given)


def _rounded(cells: Sequence[Any], name: str, where: str, total: Any, notes: list[str]) -> Any:
    values = np.array(numbers(name, cells, where))
    if (values < 0).any() or (values > 100).any():
        raise InputError(
            f"{where}: column {name!r} must be accuracies; got {values[(values < 0) | (values > 100)][0]:g}"
        )
    percent = values.max() > 1.0
    exact = values / (100.0 if percent else 1.0) * total
    counts = np.round(exact)
    # A number printed with d decimals can be off by half a unit of the last one; more means another total.
    decimals = min(max((len(str(cell).partition(".")[2]) for cell in cells), default=0), 12)
    slack = 0.5 * 10.0**-decimals / (100.0 if percent else 1.0) * total + 1e-6
    off = int(np.count_nonzero(abs(exact - counts) > slack))
    if off:
        notes.append(
            f"{off} of {len(values)} values of {name} in {Path(where).name} are not whole numbers of right answers "
            f"out of {int(np.max(total)):,}: check the size of the set"
        )
    return counts


def _by_model(columns: Columns, where: str) -> dict[str, int]:
    rows: dict[str, int] = {}
    for row, name in enumerate(columns["model"]):
        if str(name) in rows:
            raise InputError(f"{where}: model {name} appears twice; name each once")
        rows[str(name)] = row
    return rows


def _parameters(columns: Columns, rows: list[int], where: str) -> list[float]:
    column = columns.get("parameters", columns.get("param_count"))
    if column is None:
        return [float("nan")] * len(rows)
    return numbers("param_count", [column[row] for row in rows], where, blank=float("nan"))
