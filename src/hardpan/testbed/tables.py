"""The two inputs of a testbed: counts of right answers, and right or wrong example by example."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.errors import InputError
from hardpan.files import record
from hardpan.stats.agreement import right_or_wrong
from hardpan.stats.intervals import whole_numbers

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


@record
@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How many examples each model got right on an original and on a new test set.

    Attributes:
        models: (M,) names, each once a metric.
        original_correct: (M,) right answers on the original set.
        original_total: (M,) its size.
        new_correct: (M,) right answers on the new set.
        new_total: (M,) its size.
        metric: (M,) what counts as right: "top1", "top5", ...
        group: (M,) families of models, or empty.
        date: (M,) publication dates as decimal years (NaN where unknown), or empty.
        parameters: (M,) numbers of parameters (NaN where unknown), or empty.
        notes: what a reader has to know of how the table was made.

    Example:
        >>> table = counts_table(["a", "b"], [90, 80], 100, [85, 70], 100)
        >>> table.original_accuracy.tolist(), table.new_accuracy.tolist()
        ([0.9, 0.8], [0.85, 0.7])
    """

    models: tuple[str, ...]
    original_correct: Integers
    original_total: Integers
    new_correct: Integers
    new_total: Integers
    metric: tuple[str, ...]
    group: tuple[str, ...] = ()
    date: tuple[float, ...] = ()
    parameters: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.models)

    @property
    def original_accuracy(self) -> NDArray[np.float64]:
        """Share of right answers on the original set, (M,)."""
        return self.original_correct / self.original_total

    @property
    def new_accuracy(self) -> NDArray[np.float64]:
        """Share of right answers on the new set, (M,)."""
        return self.new_correct / self.new_total

    def take(self, rows: ArrayLike) -> Counts:
        """The table with these rows only (numbers or a mask)."""
        chosen = np.arange(len(self))[np.asarray(rows)]
        columns: dict[str, Any] = {
            name: getattr(self, name)[chosen]
            for name in ("original_correct", "original_total", "new_correct", "new_total")
        }
        for name in ("models", "metric", "group", "date", "parameters"):
            values = cast(tuple[Any, ...], getattr(self, name))
            columns[name] = tuple(values[row] for row in chosen) if values else ()
        return replace(self, **columns)

    def for_metric(self, metric: str | None = None) -> Counts:
        """The rows of one metric; without a name, of "top1" or of the only one there is."""
        known = list(dict.fromkeys(self.metric))
        metric = None if metric is None else metric_name(metric)
        if metric is None:
            metric = "top1" if "top1" in known else known[0]
            if metric != "top1" and len(known) > 1:
                raise InputError(f"metric must be named, one of {', '.join(known)}: the table holds several")
        if metric not in known:
            raise InputError(f"metric must be one of {', '.join(known)}; got {metric!r}")
        return self if len(known) == 1 else self.take([name == metric for name in self.metric])


@record
@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Right or wrong, model by model and example by example, on an original and on a new test set.

    Attributes:
        models: (M,) names, each once.
        original: (M, N) True where the model is right on the original set.
        new: (M, N') likewise on the new set.
        metric: what counts as right: "top1", "top5", ...
        group: (M,) families of models, or empty.
        notes: what a reader has to know of how the matrices were made.
        original_rows: (N,) numbers of the examples in the set they were taken from; empty for the whole set.
        new_rows: (N',) likewise of the new set.

    Example:
        >>> outcomes = Outcomes(("a",), np.array([[True, False]]), np.array([[True, True]]))
        >>> outcomes.counts().new_correct.tolist()
        [2]
    """

    models: tuple[str, ...]
    original: Booleans
    new: Booleans
    metric: str = "top1"
    group: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    original_rows: tuple[int, ...] = ()
    new_rows: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _check_models(self.models)
        for name in ("original", "new"):
            matrix = right_or_wrong(name, getattr(self, name))
            if matrix.ndim != 2 or len(matrix) != len(self.models) or matrix.shape[1] == 0:
                raise InputError(
                    f"{name} must hold a row of right or wrong a model, ({len(self.models)}, N); got {matrix.shape}"
                )
            object.__setattr__(self, name, matrix)
        if self.group and len(self.group) != len(self.models):
            raise InputError(
                f"group must name a family a model; got {len(self.group)} for {len(self.models)} models"
            )

    def __len__(self) -> int:
        return len(self.models)

    def counts(self) -> Counts:
        """The counts of right answers."""
        return counts_table(
            self.models,
            self.original.sum(axis=1),
            self.original.shape[1],
            self.new.sum(axis=1),
            self.new.shape[1],
            metric=self.metric,
            group=self.group,
            notes=self.notes,
        )

    def take(self, rows: ArrayLike) -> Outcomes:
        """The same with these models only (row numbers or a mask)."""
        chosen = np.arange(len(self))[np.asarray(rows)]
        return replace(
            self,
            models=tuple(self.models[row] for row in chosen),
            original=self.original[chosen],
            new=self.new[chosen],
            group=tuple(self.group[row] for row in chosen) if self.group else (),
        )


def counts_table(
    models: Sequence[str],
    original_correct: ArrayLike,
    original_total: ArrayLike,
    new_correct: ArrayLike,
    new_total: ArrayLike,
    *,
    metric: str | Sequence[str] = "top1",
    group: Sequence[str] = (),
    date: Sequence[float] = (),
    parameters: Sequence[float] = (),
    notes: Sequence[str] = (),
) -> Counts:
    """Check counts and put them into a :class:`Counts`; totals may be one number for all models."""
    names = tuple(str(name) for name in models)
    metrics = (metric,) * len(names) if isinstance(metric, str) else tuple(metric)
    metrics = tuple(metric_name(str(name)) for name in metrics)
    _check_models(tuple(f"{name} ({kind})" for name, kind in zip(names, metrics, strict=True)))
    columns: dict[str, Integers] = {}
    given = {"original_correct": original_correct, "new_correct": new_correct}
    given |= {"original_total": original_total, "new_total": new_total}
    for name, values in given.items():
        numbers = whole_numbers(name, values)
        if numbers.ndim > 0 and numbers.shape != (len(names),):
            raise InputError(f"{name} must hold one count a model ({len(names)}); got shape {numbers.shape}")
        columns[name] = np.broadcast_to(numbers, (len(names),)).astype(np.int64)
    for side in ("original", "new"):
        _check_counts(names, side, columns[f"{side}_correct"], columns[f"{side}_total"])
    for name, column in (("group", group), ("date", date), ("parameters", parameters)):
        if len(column) not in (0, len(names)):
            raise InputError(f"{name} must hold one value a model ({len(names)}); got {len(column)}")
    return Counts(
        names,
        columns["original_correct"],
        columns["original_total"],
        columns["new_correct"],
        columns["new_total"],
        metrics,
        tuple(str(item) for item in group),
        tuple(float(item) for item in date),
        tuple(float(item) for item in parameters),
        tuple(notes),
    )


def metric_name(text: str) -> str:
    """One name for one metric: "top-1", "Top 1" and "acc@1" are "top1"; other names stay as they are.

    Example:
        >>> metric_name("Top-5"), metric_name("acc@1"), metric_name("F1")
        ('top5', 'top1', 'F1')
    """
    match = re.fullmatch(r"(?:top|acc)[\s_@-]*(\d+)", text.strip().lower())
    return f"top{match.group(1)}" if match else text.strip()


def excluded_rows(
    models: Sequence[str], group: Sequence[str], exclude: Sequence[str] = (), groups: Sequence[str] = ()
) -> Booleans:
    """Which models stay out of a fit: names matching a pattern (``fv_*``), or groups not among those wanted.

    A pattern or group that names nothing is refused: it is a slip of the keyboard, and it would change the result.

    Example:
        >>> excluded_rows(["fv_4k", "resnet50"], [], exclude=["fv_*"]).tolist()
        [True, False]
    """
    out = np.zeros(len(models), dtype=np.bool_)
    for pattern in exclude:
        hits = np.array([fnmatch.fnmatchcase(name, pattern) for name in models], dtype=np.bool_)
        if not hits.any():
            raise InputError(f"exclude pattern {pattern!r} matches no model; the models are {some_names(models)}")
        out |= hits
    if groups:
        known = sorted(set(group))
        if not known:
            raise InputError("groups were asked for, but the table has no column 'group'")
        for name in groups:
            if name not in known:
                raise InputError(f"groups must be among {', '.join(known)}; got {name!r}")
        out |= np.array([name not in groups for name in group], dtype=np.bool_)
    return out


def _check_models(names: tuple[str, ...]) -> None:
    if not names:
        raise InputError("models must not be empty; the table has no rows")
    if len(set(names)) < len(names):
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise InputError(f"models must be named once each; {twice} appears twice")


def _check_counts(names: tuple[str, ...], side: str, correct: Integers, total: Integers) -> None:
    if (total < 1).any():
        raise InputError(f"{side}_total must be at least 1; got 0 for {names[int(np.argmax(total < 1))]}")
    if (correct > total).any():
        row = int(np.argmax(correct > total))
        raise InputError(
            f"{side}_correct must not exceed {side}_total; got {correct[row]} of {total[row]} for {names[row]}"
        )


def some_names(names: Sequence[str]) -> str:
    """The first five names, and how many more there are."""
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
