"""Size and average selection frequency of the set at every threshold and, once it is frozen, accuracies."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.arguments import whole_number
from hardpan.errors import InputError
from hardpan.files import record
from hardpan.replicate.folder import ProjectFolder
from hardpan.replicate.quality import frequency_table, quality_of
from hardpan.replicate.sampling import ROUNDING, Annotated, annotated
from hardpan.report.base import Report


@record(eq=False)
class ThresholdSweep(Report):
    """What every threshold would give.

    Attributes:
        thresholds: (T,) smallest selection frequency of an image.
        candidates: (T,) candidates at or above it.
        size: (T,) images of the set: at most ``per_class`` of each class.
        full_classes: (T,) classes that reach ``per_class``.
        average: (T,) average selection frequency of the set, in expectation over the random draws.
        per_class: images wanted of each class.
        accuracies: model name to (T,) accuracies, in expectation; empty until the set is frozen.
    """

    thresholds: NDArray[np.float64]
    candidates: NDArray[np.int64]
    size: NDArray[np.int64]
    full_classes: NDArray[np.int64]
    average: NDArray[np.float64]
    per_class: int
    accuracies: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)


def threshold_sweep(
    candidates: Any, per_class: int = 10, *, steps: int = 51, right: Mapping[str, Mapping[str, bool]] | None = None
) -> ThresholdSweep:
    """Size and average frequency of the strategy "threshold" at every threshold from 0 to 1.

    Args:
        candidates: table of id, class, frequency (see :func:`hardpan.replicate.sample`).
        per_class: images wanted of each class.
        steps: how many thresholds.
        right: model name to (id to whether the model is right), for accuracies.

    Example:
        >>> table = {"id": [1, 2, 3], "class": ["a", "a", "b"], "frequency": [0.2, 0.9, 0.6]}
        >>> found = threshold_sweep(table, per_class=1, steps=3)
        >>> found.size.tolist(), found.average.round(3).tolist()
        ([2, 2, 0], [0.575, 0.75, nan])
    """
    table = annotated(candidates)
    whole_number("per_class", per_class, 1)
    whole_number("steps", steps, 2)
    thresholds = np.round(np.linspace(0.0, 1.0, steps), 6)
    values = {"": table.frequencies} | {
        model: np.array([float(answers.get(str(i), np.nan)) for i in table.ids])
        for model, answers in (right or {}).items()
    }
    counts = np.zeros((steps, 3), dtype=np.int64)
    sums = {name: np.zeros(steps) for name in values}
    for name in np.unique(table.classes):
        mine = table.classes == name
        for t, threshold in enumerate(thresholds):
            above = mine & (table.frequencies >= threshold - ROUNDING)
            have = int(above.sum())
            count = min(have, per_class)
            counts[t] += (have, count, have >= per_class)
            for key, column in values.items():
                sums[key][t] += count * column[above].mean() if have else 0.0
    size = np.maximum(counts[:, 1], 1)
    means = {key: np.where(counts[:, 1] > 0, total / size, np.nan) for key, total in sums.items()}
    average = means.pop("")
    return ThresholdSweep(thresholds, counts[:, 0], counts[:, 1], counts[:, 2], average, per_class, means)


def project_sweep(
    project: ProjectFolder,
    per_class: int = 10,
    *,
    predictions: str | os.PathLike[str] | None = None,
    actor: str = "owner",
) -> ThresholdSweep:
    """The same for a project's votes; predictions are opened only after assembly, and the opening is logged.

    Args:
        project: an open project.
        per_class: number of images per class.
        predictions: table with id and one column of predicted classes per model, for every candidate; only for an
            assembled set. Opening it is logged.
        actor: who opens them.
    """
    from hardpan.replicate.database.votes import add_event, counted_votes

    names = [item.name for item in project.classes]
    table = frequency_table(quality_of(counted_votes(project)).frequencies, "candidate", names)
    if not len(table):
        raise InputError("no candidate has votes yet")
    right = None
    if predictions is not None:
        if not project.frozen:
            raise InputError(
                "no classifier may touch the collection: accuracies can be opened after assemble has frozen the set"
            )
        add_event(project, actor, "opened-accuracies", file=Path(predictions).name)
        right = _right(Path(predictions), table, names)
    return threshold_sweep(table, per_class, right=right)


def _right(path: Path, table: Annotated, class_names: list[str]) -> dict[str, dict[str, bool]]:
    from hardpan.replicate.experiment import of_table
    from hardpan.tables import read_columns

    columns = read_columns(path, text=True)
    if "id" not in columns or len(columns) < 2:
        raise InputError(f"{path}: needs a column id and a column of predicted class names for each model")
    truth = dict(zip(table.ids.tolist(), table.classes.tolist(), strict=True))
    right = of_table(columns, truth, class_names, str(path))
    for model, answers in right.items():
        missing = [name for name in truth if name not in answers]
        if missing:
            raise InputError(
                f"{path}: {model} has no prediction for {len(missing):,} of the {len(truth):,} candidates with "
                f"votes, such as {missing[0]!r}; any of them may be drawn, so predict all"
            )
    return right
