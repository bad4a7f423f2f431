"""Training runs of follow-up studies: their data, and their results, from which an interrupted study resumes."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hardpan import execution, files, stats
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.files import array_hash, record
from hardpan.training import TrainConfig

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
Source = str | Path | Dataset
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class StudyData:
    """The examples of a follow-up study, and which rows are its sets.

    Attributes:
        x: examples of the dataset, then those of the new test set.
        labels: their classes.
        train: rows of all training examples, validation included.
        original: rows of the original test set.
        new: rows of the new test set.
        n_classes: number of classes.
        name: of the dataset.
        new_name: of the new test set.
        control: True if there is no new set, and half of the test set is used instead.
    """

    x: NDArray[Any]
    labels: NDArray[np.int64]
    train: Rows
    original: Rows
    new: Rows
    n_classes: int
    name: str
    new_name: str
    control: bool

    def balanced_parts(self, rows: Rows, parts: int, seed: int, draw: int = 0) -> list[Rows]:
        """These rows in class-balanced random parts."""
        return [rows[part] for part in balanced_parts(self.labels[rows], parts, seed, draw)]


def read_study_data(data: Source, new: Source | None = None, seed: int = 0) -> StudyData:
    """The data of a study, from a dataset with a test set and a new test set of the same classes.

    Without a new set, the test set is cut into class-balanced halves, and the second half is used instead: a
    control, in which there is no drop to explain.

    Args:
        data: a dataset, or a name, file or folder of one; without official test set, 20 % of it are the test set.
        new: the new test set; of a dataset with a split its test part, else all of it.
        seed: of the split and of the halves.

    Example:
        >>> data = read_study_data("digits")
        >>> len(data.train), len(data.original), len(data.new), data.control
        (1438, 180, 179, True)
    """
    old = Dataset.open(data)
    labels = old.require_labels()
    splits = old.splits(seed=seed)
    if not len(splits.test):
        raise InputError(f": {old.name} has no test examples; pass a dataset with a test set", argument="data")
    train = np.sort(np.concatenate([splits.train, splits.validation]))
    if new is None:
        halves = balanced_parts(labels[splits.test], 2, seed)
        original, control = (splits.test[half] for half in halves)
        return StudyData(
            old.x, labels, train, original, control, old.n_classes, old.name, "half of the test set", True
        )
    other = Dataset.open(new)
    new_labels, new_rows = other.require_labels(), _new_test_rows(old, other)
    x, labels = np.concatenate([old.x, other.x]), np.concatenate([labels, new_labels])
    return StudyData(
        x, labels, train, splits.test, len(old.x) + new_rows, old.n_classes, old.name, other.name, False
    )


def balanced_parts(labels: NDArray[np.int64], parts: int, seed: int, draw: int = 0) -> list[Rows]:
    """Split rows at random into parts whose sizes, and whose counts of every class, differ by at most one.

    The rows are ordered by class, shuffled within each, and assigned to the parts in turn.

    Example:
        >>> [part.tolist() for part in balanced_parts(np.array([0, 0, 1, 1]), 2, seed=0)]
        [[0, 2], [1, 3]]
    """
    rng = np.random.default_rng([seed, draw])
    order = rng.permutation(len(labels))
    dealt = order[np.argsort(labels[order], kind="stable")]
    return [np.sort(dealt[start::parts]) for start in range(parts)]


def _new_test_rows(old: Dataset, new: Dataset) -> Rows:
    if new.x.shape[1:] != old.x.shape[1:] or new.x.dtype != old.x.dtype:
        raise InputError(
            f": {new.name} must have examples like {old.name}, {old.x.dtype} {old.x.shape[1:]}; "
            f"it has {new.x.dtype} {new.x.shape[1:]}",
            argument="new",
        )
    if tuple(new.class_names) != tuple(old.class_names):
        raise InputError(
            f": {new.name} must have the classes of {old.name} in the same order, "
            f"{', '.join(old.class_names[:4])}, ...; it has {', '.join(new.class_names[:4])}, ...",
            argument="new",
        )
    if new.split is not None and (new.split == "test").any():
        return np.flatnonzero(new.split == "test")
    return np.arange(len(new.x))


@dataclass(frozen=True, slots=True, eq=False)
class StudyRun:
    """One training: its settings and seed, the rows that it is trained on, and those of each test set by name."""

    config: TrainConfig
    seed: int
    train: Rows
    tests: Mapping[str, Rows]


@record(eq=False)
class RunResult:
    """The result of a run.

    Attributes:
        correct: by name of the test set, (n,) whether each example was classified correctly.
        diverged: True if the loss became NaN; then no example counts as correct.
    """

    correct: Mapping[str, NDArray[np.bool_]]
    diverged: bool


def run_results(
    runs: Sequence[StudyRun],
    data: StudyData,
    *,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> list[RunResult]:
    """Results of all runs, in order; results that ``out`` has already are not trained again.

    Args:
        runs: what to train.
        data: the examples.
        out: folder of the results, and of those of an interrupted study.
        progress: called with a line and the fraction done.
    """
    examples = array_hash(data.x), array_hash(data.labels)
    keys = [
        settings_key(
            run.config.model,
            run.config.deciding(),
            run.seed,
            examples,
            array_hash(run.train),
            {name: array_hash(rows) for name, rows in run.tests.items()},
        )
        for run in runs
    ]
    tasks = dict(zip(keys, runs, strict=True))
    results = finished_results(partial(_train_run, data=data), tasks, out=out, progress=progress)
    return [results[key] for key in keys]


def _train_run(run: StudyRun, data: StudyData) -> RunResult:
    from hardpan.engine import Diverged
    from hardpan.training import fit_arrays

    try:
        fit = fit_arrays(
            data.x[run.train],
            data.labels[run.train],
            data.x[np.concatenate(list(run.tests.values()))],
            dataclasses.replace(run.config, seeds=1, record_every=run.config.epochs),
            n_classes=data.n_classes,
            first_seed=run.seed,
        )
    except Diverged:
        return RunResult({name: np.zeros(len(rows), dtype=np.bool_) for name, rows in run.tests.items()}, True)
    ends = np.cumsum([len(rows) for rows in run.tests.values()])
    answers = np.split(fit.probs[0, -1].argmax(axis=1), ends[:-1])
    return RunResult(
        {
            name: answer == data.labels[rows]
            for (name, rows), answer in zip(run.tests.items(), answers, strict=True)
        },
        False,
    )


def finished_results(
    function: Callable[[_Task], _Result],
    tasks: Mapping[str, _Task],
    *,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> dict[str, _Result]:
    """``function(task)``, a record, of every task; each is kept under its key in ``out/runs``.

    Results that are there already are read; damaged ones are computed again. Tasks run where
    :func:`hardpan.parallel` says; in threads they follow one another, for training sets the state of the process.

    Args:
        function: trains; it is sent to the workers.
        tasks: by key, a hash of everything that decides the result.
        out: folder of the results; None keeps none.
        progress: called with a line and the fraction done.
    """
    folder = None if out is None else Path(out) / "runs"
    results: dict[str, _Result] = {}
    for key in tasks:
        with contextlib.suppress(InputError):  # missing or damaged
            if folder is not None:
                results[key] = files.load(folder / f"{key}.json")
    missing = [key for key in tasks if key not in results]

    def report() -> None:
        if progress is not None:
            progress(f"{len(results)} of {len(tasks)} runs", len(results) / max(len(tasks), 1))

    def save(index: int, result: _Result) -> None:
        results[missing[index]] = result
        if folder is not None:
            files.save(result, folder / f"{missing[index]}.json")

    report()
    here = execution.current().backend in ("", "threads")
    with execution.parallel("threads", workers=1) if here else contextlib.nullcontext():
        execution.map_tasks(function, [tasks[key] for key in missing], progress=lambda *_: report(), each=save)
    return results


def settings_key(*settings: Any) -> str:
    """A hash of settings, the same in every process.

    Example:
        >>> settings_key({"rate": 0.1}, "mlp") == settings_key({"rate": 0.1}, "mlp")
        True
    """
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:24]


def run_accuracy(correct: NDArray[np.bool_]) -> Estimate:
    """Proportion of correct answers with its exact interval.

    Example:
        >>> run_accuracy(np.array([True, True, True, False])).value
        0.75
    """
    return stats.share(int(correct.sum()), len(correct))


def accuracy_difference(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> Estimate:
    """Accuracy of the first minus that of the second on the same n examples, with the interval of Agresti and Min.

    With b examples that only the first classifies correctly and c that only the second does, the interval is
    d ± z √(b + c + 1 − (b − c)² / (n + 2)) / (n + 2) around d = (b − c) / (n + 2): half an example is added to each
    of the four cells, so that the interval has a width even if the two agree on every example.

    Source: Agresti and Min, Statistics in Medicine 24 (2005).

    Example:
        >>> from hardpan import formatting
        >>> same = np.ones(98, dtype=bool)
        >>> formatting.signed(accuracy_difference(same, same))
        '+0.0 points (−2.0 to +2.0)'
    """
    n = len(first)
    b, c = int((first & ~second).sum()), int((second & ~first).sum())
    centre = (b - c) / (n + 2)
    error = float(np.sqrt(b + c + 1 - (b - c) ** 2 / (n + 2)) / (n + 2))
    method = "paired, Agresti–Min interval"
    moved = stats.normal(centre, error, n, least=-1.0, most=1.0, method=method)
    return dataclasses.replace(moved, value=(b - c) / n)
