"""Can cross-validation on the original data foresee the new test set? (Table 4)"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.stats import share
from hardpan.testbed.columns import columns_of, numbers, read_columns


@record
@dataclass(frozen=True, slots=True)
class CrossValidated:
    """One model: accuracy on the original set, on each split, and on the new set.

    Attributes:
        model: its name.
        original: accuracy on the original test set.
        splits: accuracy on each cross-validation split, in the order given.
        new: accuracy on the new test set.
        spread: largest − smallest accuracy over the splits.
        drop: mean accuracy over the splits − accuracy on the new set.
        foreseen: whether the new accuracy lies within the range of the splits, widened by its own interval.
    """

    model: str
    original: Estimate
    splits: tuple[Estimate, ...]
    new: Estimate
    spread: float
    drop: float
    foreseen: bool


@record
@dataclass(frozen=True, slots=True)
class CrossValidation:
    """What :func:`cross_validation` returns: a row a model, in the order of the table."""

    rows: tuple[CrossValidated, ...]
    confidence: float


def cross_validation(table: Any, confidence: float = 0.95) -> CrossValidation:
    """Accuracies on cross-validation splits beside the original and the new test set.

    Args:
        table: rows, columns or a file with ``model, dataset, correct, total``; dataset is "original", "new", or
            anything else for a split.
        confidence: level of the Clopper–Pearson intervals.

    Source: Recht et al., appendix B.2.7 and Table 4.

    Example:
        >>> names = ["original", "split 1", "split 2", "new"]
        >>> rows = [{"model": "a", "dataset": d, "correct": c, "total": 1000}
        ...         for d, c in zip(names, [936, 939, 938, 849])]
        >>> result = cross_validation(rows).rows[0]
        >>> round(result.drop, 4), result.foreseen
        (0.0895, False)
    """
    path = isinstance(table, (str, Path))
    where = str(table) if path else "table"
    columns = read_columns(Path(table)) if path else columns_of(table)
    for name in ("model", "dataset", "correct", "total"):
        if name not in columns:
            raise InputError(f"{where}: column {name!r} is missing; the columns are {', '.join(columns)}")
    correct = np.array(numbers("correct", columns["correct"], where))
    total = np.array(numbers("total", columns["total"], where))
    found: dict[str, dict[str, Estimate]] = {}
    for i, (model, dataset) in enumerate(zip(columns["model"], columns["dataset"], strict=True)):
        sets = found.setdefault(str(model), {})
        if str(dataset) in sets:
            raise InputError(f"{where}: model {model} has two rows for {dataset!r}")
        sets[str(dataset)] = share(correct[i], total[i], confidence)
    return CrossValidation(tuple(_row(model, sets, where) for model, sets in found.items()), confidence)


def _row(model: str, sets: dict[str, Estimate], where: str) -> CrossValidated:
    for name in ("original", "new"):
        if name not in sets:
            raise InputError(f"{where}: model {model} has no row for the {name} set")
    splits = tuple(item for name, item in sets.items() if name not in ("original", "new"))
    if len(splits) < 2:
        raise InputError(f"{where}: model {model} needs at least 2 cross-validation splits; got {len(splits)}")
    values = [item.value for item in splits]
    new = sets["new"]
    return CrossValidated(
        model,
        sets["original"],
        splits,
        new,
        max(values) - min(values),
        float(np.mean(values)) - new.value,
        new.low <= max(values) and new.high >= min(values),
    )
