"""Runs of follow-up studies: their data, training each model once, and paired statistics of the results."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from hardpan import execution, files, stats
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.files import array_hash, record
from hardpan.training import TrainConfig

SECONDS_BETWEEN_REPORTS = 5.0
_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
Source = str | Path | Dataset
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """Examples and their class formatting."""

    x: NDArray[Any]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: Rows) -> Labelled:
        """Only these rows."""
        return Labelled(self.x[rows], self.labels[rows])

    def join(self, other: Labelled) -> Labelled:
        """These examples, then the others."""
        return Labelled(np.concatenate([self.x, other.x]), np.concatenate([self.labels, other.labels]))


@dataclass(frozen=True, slots=True, eq=False)
class Sets:
    """The data of a follow-up study.

    Attributes:
        train: all training examples, validation included.
        original: the original test set.
        new: the new test set.
        n_classes: number of classes.
        name: of the data.
        new_name: of the new test set.
        control: True if there is no new set, and half of the test set is used instead.
        fingerprint: sha256 over all of it.
    """

    train: Labelled
    original: Labelled
    new: Labelled
    n_classes: int
    name: str
    new_name: str
    control: bool
    fingerprint: str


def read_sets(data: Source, new: Source | None = None, seed: int = 0) -> Sets:
    """The sets of a study, from a dataset with a test set and a new test set of the same classes.

    Without a new set, the test set is cut into class-balanced halves, and the second half is used instead: a
    control, in which there is no drop to explain.

    Args:
        data: a dataset, or a name, file or folder of one; without official test set, 20 % of it are the test set.
        new: the new test set; of a dataset with a split its test part, else all of it.
        seed: of the split and of the halves.

    Example:
        >>> sets = read_sets("digits")
        >>> len(sets.train), len(sets.original), len(sets.new), sets.control
        (1438, 180, 179, True)
    """
    if all(isinstance(item, (str, os.PathLike)) for item in (data, new) if item is not None):
        return _cached_sets(str(data), None if new is None else str(new), seed)
    return _sets(data, new, seed)


def _sets(data: Source, new: Source | None, seed: int) -> Sets:
    old = Dataset.open(data)
    labels = old.require_labels()
    parts = old.splits(seed=seed)
    if not len(parts.test):
        raise InputError(f": {old.name} has no test examples; pass a dataset with a test set", argument="data")
    train = Labelled(old.x, labels).take(np.sort(np.concatenate([parts.train, parts.validation])))
    test = Labelled(old.x, labels).take(parts.test)
    if new is None:
        first, second = balanced_parts(test.labels, 2, seed)
        original, fresh, new_name = test.take(first), test.take(second), "half of the test set"
    else:
        other = Dataset.open(new)
        original, fresh, new_name = test, _new_test_set(old, other), other.name
    arrays = (train.x, train.labels, original.x, original.labels, fresh.x, fresh.labels)
    marks = "".join(array_hash(array) for array in arrays).encode()
    fingerprint = array_hash(np.frombuffer(marks, dtype=np.uint8))
    return Sets(train, original, fresh, old.n_classes, old.name, new_name, new is None, fingerprint)


_cached_sets = lru_cache(maxsize=2)(_sets)  # a worker that gets many runs of one study reads its data once


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


def _new_test_set(old: Dataset, new: Dataset) -> Labelled:
    labels = new.require_labels()
    if new.x.shape[1:] != old.x.shape[1:] or new.x.dtype != old.x.dtype:
        raise InputError(
            f": {new.name} must have examples like {old.name}, {old.x.dtype} {old.x.shape[1:]}; "
            f"it has {new.x.dtype} {new.x.shape[1:]}",
            argument="new",
        )
    if tuple(new.class_names) != tuple(old.class_names):
        raise InputError(
            f": {new.name} must have the classes of {old.name} in the same order; "
            f"it has {_first_names(new.class_names)}, not {_first_names(old.class_names)}",
            argument="new",
        )
    whole = Labelled(new.x, labels)
    if new.split is not None and (new.split == "test").any():
        whole = whole.take(np.flatnonzero(new.split == "test"))
    if not len(whole):
        raise InputError(f": {new.name} has no examples", argument="new")
    return whole


def _first_names(names: tuple[str, ...]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


class Arrangement(Protocol):
    """Training and test examples of a run. A frozen dataclass: its fields identify the run."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def arrange(self, sets: Sets) -> tuple[Labelled, Mapping[str, Labelled]]:
        """Training examples, and test examples by name."""


@dataclass(frozen=True, slots=True)
class Everything:
    """Train on the training set, test on both test sets."""

    def arrange(self, sets: Sets) -> tuple[Labelled, Mapping[str, Labelled]]:
        """All training examples; the original and the new test set."""
        return sets.train, {"original": sets.original, "new": sets.new}


@dataclass(frozen=True, slots=True)
class Run:
    """One run: an arrangement and the settings of its training; ``config.seeds`` is 1."""

    arrangement: Arrangement
    config: TrainConfig
    seed: int = 0


@record(eq=False)
class RunResult:
    """The result of a run.

    Attributes:
        correct: by name of the test set, (n,) whether each example was classified correctly.
        diverged: True if the loss became NaN; then no example counts as correct.
    """

    correct: Mapping[str, NDArray[np.bool_]]
    diverged: bool


def run_models(
    arrangements: Sequence[Arrangement],
    config: TrainConfig,
    data: Source,
    new: Source | None,
    seed: int,
    **options: Any,
) -> dict[tuple[str, Arrangement], RunResult]:
    """Results of every arrangement for each architecture of ``config``, with the options of :func:`run_all`."""
    runs = [
        Run(arrangement, dataclasses.replace(config, model=model), seed)
        for model in config.models
        for arrangement in arrangements
    ]
    results = run_all(runs, data, new, seed, **options)
    return {(run.config.model, run.arrangement): result for run, result in zip(runs, results, strict=True)}


def run_all(
    runs: Sequence[Run],
    data: Source,
    new: Source | None,
    split_seed: int,
    *,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> list[RunResult]:
    """Results of all runs, in order; results that ``out`` has already are not trained again.

    Args:
        runs: what to train.
        data: as in :func:`read_sets`; workers elsewhere read names and paths themselves.
        new: likewise.
        split_seed: likewise.
        out: folder of the results, and of those of an interrupted study.
        progress: called with a line and the fraction done.
    """
    data, new = _absolute(data), None if new is None else _absolute(new)
    sets = read_sets(data, new, split_seed)
    keys = [_run_key(run, sets) for run in runs]
    function = partial(_train, data=data, new=new, split_seed=split_seed)
    results = run_once(function, dict(zip(keys, runs, strict=True)), RunResult, out=out, progress=progress)
    return [results[key] for key in keys]


def run_once(
    function: Callable[[_Task, Progress | None], _Result],
    tasks: Mapping[str, _Task],
    kind: type[_Result],
    *,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> dict[str, _Result]:
    """``function(task, progress)`` of every task, each result kept under its key in ``out/runs``.

    Results that are there already are read; damaged ones are computed again. Tasks run where
    :func:`hardpan.parallel` says; in threads they follow one another, for training sets the state of the process.

    Args:
        function: trains; it is sent to the workers.
        tasks: by key, a hash of everything that decides the result.
        kind: the record that ``function`` returns.
        out: folder of the results; None keeps none.
        progress: called with a line and the fraction done.
    """
    folder = None if out is None else Path(out) / "runs"
    results = {key: saved for key in tasks if (saved := _saved_result(folder, key, kind)) is not None}
    missing = [key for key in tasks if key not in results]
    report = _Progress(progress, len(tasks), len(results))

    def keep(index: int, result: _Result) -> None:
        results[missing[index]] = result
        report.done += 1
        if folder is not None:
            files.save(result, folder / f"{missing[index]}.json")

    report.total()
    here = execution.current().backend in ("", "threads")
    inner = report.inside if here and progress is not None else None
    with execution.parallel("threads", workers=1) if here else nullcontext():
        execution.map_tasks(
            partial(_call, function, inner),
            [tasks[key] for key in missing],
            progress=lambda *_: report.total(),
            each=keep,
        )
    return results


def _call(function: Callable[[Any, Progress | None], Any], progress: Progress | None, task: Any) -> Any:
    return function(task, progress)


def _saved_result(folder: Path | None, key: str, kind: type[_Result]) -> _Result | None:
    if folder is None or not (folder / f"{key}.json").exists():
        return None
    try:
        result = files.load(folder / f"{key}.json")
    except InputError:
        return None
    return result if isinstance(result, kind) else None


class _Progress:
    """Progress of a study, with that of the current run every few seconds."""

    def __init__(self, progress: Progress | None, count: int, done: int) -> None:
        self._progress, self._count, self.done = progress, max(count, 1), done
        self._last = time.monotonic()

    def total(self) -> None:
        if self._progress is not None:
            self._progress(f"{self.done} of {self._count} runs", self.done / self._count)

    def inside(self, text: str, fraction: float) -> None:
        if self._progress is not None and time.monotonic() - self._last >= SECONDS_BETWEEN_REPORTS:
            self._last = time.monotonic()
            line = f"run {self.done + 1} of {self._count}: {text}"
            self._progress(line, (self.done + fraction) / self._count)


def settings_key(*settings: Any) -> str:
    """A hash of settings, the same in every process.

    Example:
        >>> settings_key({"rate": 0.1}, "mlp") == settings_key({"rate": 0.1}, "mlp")
        True
    """
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:24]


def _run_key(run: Run, sets: Sets) -> str:
    arrangement = {"kind": type(run.arrangement).__name__} | dataclasses.asdict(run.arrangement)
    return settings_key(arrangement, run.config.model, run.config.deciding(), run.seed, sets.fingerprint)


def _absolute(source: Source) -> Source:
    """A path that is the same in another working folder, as a worker elsewhere may have."""
    return source if isinstance(source, Dataset) or not Path(source).exists() else Path(source).absolute()


def _train(run: Run, progress: Progress | None, *, data: Source, new: Source | None, split_seed: int) -> RunResult:
    from hardpan.engine import Diverged
    from hardpan.training import fit_arrays

    sets = read_sets(data, new, split_seed)
    train, tests = run.arrangement.arrange(sets)
    try:
        fit = fit_arrays(
            train.x,
            train.labels,
            np.concatenate([test.x for test in tests.values()]),
            dataclasses.replace(run.config, seeds=1, record_every=run.config.epochs),
            n_classes=sets.n_classes,
            first_seed=run.seed,
            progress=progress,
        )
    except Diverged:
        return RunResult({name: np.zeros(len(test), dtype=np.bool_) for name, test in tests.items()}, True)
    predicted = fit.probs[0, -1].argmax(axis=1)
    ends = np.cumsum([len(test) for test in tests.values()])
    parts = np.split(predicted, ends[:-1])
    correct = {name: answers == test.labels for (name, test), answers in zip(tests.items(), parts, strict=True)}
    return RunResult(correct, False)


def accuracy(correct: NDArray[np.bool_], confidence: float = 0.95) -> Estimate:
    """Proportion of correct answers with its exact interval.

    Example:
        >>> accuracy(np.array([True, True, True, False])).value
        0.75
    """
    return stats.share(int(correct.sum()), len(correct), confidence)


def difference(first: NDArray[np.bool_], second: NDArray[np.bool_], confidence: float = 0.95) -> Estimate:
    """Accuracy of the first minus that of the second on the same n examples, with the interval of Agresti and Min.

    With b examples that only the first classifies correctly and c that only the second does, the interval is
    d ± z √(b + c + 1 − (b − c)² / (n + 2)) / (n + 2) around d = (b − c) / (n + 2): half an example is added to each
    of the four cells, so that the interval has a width even if the two agree on every example.

    Source: Agresti and Min, Statistics in Medicine 24 (2005).

    Example:
        >>> from hardpan import formatting
        >>> same = np.ones(98, dtype=bool)
        >>> formatting.signed(difference(same, same))
        '+0.0 points (−2.0 to +2.0)'
    """
    n = len(first)
    b, c = int((first & ~second).sum()), int((second & ~first).sum())
    centre = (b - c) / (n + 2)
    error = float(np.sqrt(b + c + 1 - (b - c) ** 2 / (n + 2)) / (n + 2))
    method = "paired, Agresti–Min interval"
    moved = stats.normal(centre, error, n, confidence, least=-1.0, most=1.0, method=method)
    return dataclasses.replace(moved, value=(b - c) / n)
