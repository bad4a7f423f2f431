"""Many training runs of one study: each is done once, kept in a folder, and found there by the next start."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from hardpan import execution, files, stats
from hardpan.data.opening import as_dataset
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.files import record
from hardpan.studies.sets import Labelled, Sets, Source, read_sets
from hardpan.training import TrainConfig

SECONDS_BETWEEN_REPORTS = 5.0


class Arrangement(Protocol):
    """Which examples a run trains on, and which it is tested on. A frozen dataclass: its fields name the run."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def arrange(self, sets: Sets) -> tuple[Labelled, Mapping[str, Labelled]]:
        """Training examples, and test examples by name."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run: an arrangement and the settings of its training; ``config.seeds`` is 1."""

    arrangement: Arrangement
    config: TrainConfig
    seed: int = 0


@record
@dataclass(frozen=True, slots=True, eq=False)
class RunResult:
    """What a run gave.

    Attributes:
        right: by name of the test set, (n,) whether each example was classified rightly.
        diverged: True where the loss became NaN; then no example counts as right.
        key: what the run was, as a hash.
    """

    right: Mapping[str, NDArray[np.bool_]]
    diverged: bool
    key: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a study computes and keeps its runs.

    Attributes:
        folder: runs are kept in it, and a study that was ended goes on from them; None keeps none.
        progress: told how far the study is.
    """

    folder: Path | None = None
    progress: Progress | None = None


HERE = Place()


def run_all(
    runs: Sequence[Run], data: Source, new: Source | None, split_seed: int, place: Place = HERE
) -> list[RunResult]:
    """Results of all runs, in order; what the folder holds already is not trained again.

    Args:
        runs: what to train.
        data: as in :func:`hardpan.studies.sets.read_sets`; workers elsewhere read names and paths themselves.
        new: likewise.
        split_seed: likewise.
        place: where to compute and keep.
    """
    data, new = _absolute(data), None if new is None else _absolute(new)
    sets = read_sets(data, new, split_seed)
    keys = [_key(run, sets) for run in runs]
    found = {key: result for key in set(keys) if (result := _kept(place.folder, key)) is not None}
    missing = {key: run for key, run in zip(keys, runs, strict=True) if key not in found}
    here = execution.current().backend in ("", "threads")
    told = _Told(place.progress, len(set(keys)), len(found))

    def keep(index: int, result: RunResult) -> None:
        found[result.key] = result
        told.done += 1
        if place.folder is not None:
            files.save(result, _path(place.folder, result.key))

    inner = told.inside if here and place.progress is not None else None
    told.say()
    # Training sets the state of the whole process, so runs in one process come one after the other.
    with execution.parallel("threads", workers=1) if here else nullcontext():
        execution.map_tasks(
            partial(_run_one, data=data, new=new, split_seed=split_seed, progress=inner),
            list(missing.items()),
            progress=lambda *_: told.say(),
            each=keep,
        )
    return [found[key] for key in keys]


def _absolute(source: Source) -> Source:
    """A path that means the same in another working folder, as a worker elsewhere may have one."""
    if not isinstance(source, (str, Path)):
        return as_dataset(source)
    return Path(source).absolute() if Path(source).exists() else source


def _run_one(
    named: tuple[str, Run], data: Source, new: Source | None, split_seed: int, progress: Progress | None
) -> RunResult:
    from hardpan.engine import Diverged
    from hardpan.training import fit_arrays

    key, run = named
    sets = read_sets(data, new, split_seed)
    train, tests = run.arrangement.arrange(sets)
    asked = np.concatenate([test.x for test in tests.values()])
    try:
        fit = fit_arrays(
            train.x,
            train.labels,
            asked,
            dataclasses.replace(run.config, seeds=1, record_every=run.config.epochs),
            n_classes=sets.n_classes,
            first_seed=run.seed,
            progress=progress,
        )
    except Diverged:
        return RunResult({name: np.zeros(len(test), dtype=np.bool_) for name, test in tests.items()}, True, key)
    predicted = fit.probs[0, -1].argmax(axis=1)
    ends = np.cumsum([len(test) for test in tests.values()])
    parts = np.split(predicted, ends[:-1])
    right = {name: part == test.labels for (name, test), part in zip(tests.items(), parts, strict=True)}
    return RunResult(right, False, key)


class _Told:
    """Progress of a study whose runs tell their own, which is passed on now and then."""

    def __init__(self, progress: Progress | None, total: int, done: int) -> None:
        self._progress, self._total, self.done = progress, max(total, 1), done
        self._last = time.monotonic()

    def say(self) -> None:
        if self._progress is not None:
            self._progress(f"{self.done} of {self._total} runs", self.done / self._total)

    def inside(self, text: str, fraction: float) -> None:
        if self._progress is not None and time.monotonic() - self._last >= SECONDS_BETWEEN_REPORTS:
            self._last = time.monotonic()
            said = f"run {self.done + 1} of {self._total}: {text}"
            self._progress(said, (self.done + fraction) / self._total)


def accuracy(right: NDArray[np.bool_], confidence: float = 0.95) -> Estimate:
    """Share of right answers with its exact interval.

    Example:
        >>> accuracy(np.array([True, True, True, False])).value
        0.75
    """
    return stats.share(int(right.sum()), len(right), confidence)


def difference(first: NDArray[np.bool_], second: NDArray[np.bool_], confidence: float = 0.95) -> Estimate:
    """Accuracy of the first less that of the second on the same n examples, with the interval of Agresti and Min.

    With b examples that only the first gets right and c that only the second does, the interval is
    d ± z √(b + c + 1 − (b − c)² / (n + 2)) / (n + 2) around d = (b − c) / (n + 2): half an example is added to each
    of the four cells, so that it does not shrink to a point where no example tells the two apart.

    Source: Agresti and Min, Statistics in Medicine 24 (2005).

    Example:
        >>> from hardpan.records import numbers
        >>> same = np.ones(98, dtype=bool)
        >>> numbers.signed(difference(same, same))
        '+0.0 points (−2.0 to +2.0)'
    """
    n = len(first)
    b, c = int((first & ~second).sum()), int((second & ~first).sum())
    centre = (b - c) / (n + 2)
    error = float(np.sqrt(b + c + 1 - (b - c) ** 2 / (n + 2)) / (n + 2))
    width = stats.normal_quantile(confidence) * error
    low, high = max(centre - width, -1.0), min(centre + width, 1.0)
    return Estimate((b - c) / n, error, low, high, confidence, "paired, Agresti–Min interval", n)


def describe(sets: Sets, config: TrainConfig) -> tuple[str, ...]:
    """What a reader of any of these studies has to know about its sets and its training."""
    notes = ["One training run a row: intervals are about the examples, not about another run of the training."]
    if sets.stand_in:
        notes.append(
            "No new test set was given: one half of the test set is called original and the other new, so this is "
            "a control in which no drop and no gain are to be expected."
        )
    if config.epochs < 5:
        notes.append(f"Only {config.epochs} epochs of training: accuracies are below what the models can reach.")
    return tuple(notes)


def _key(run: Run, sets: Sets) -> str:
    arrangement = {"kind": type(run.arrangement).__name__} | dataclasses.asdict(run.arrangement)
    parts = [arrangement, run.config.model, run.config.deciding(), run.seed, sets.fingerprint]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:24]


def _path(folder: Path, key: str) -> Path:
    return folder / "runs" / f"{key}.json"


def _kept(folder: Path | None, key: str) -> RunResult | None:
    """The result on disk; one that is damaged is trained again."""
    if folder is None or not _path(folder, key).exists():
        return None
    try:
        result = files.load(_path(folder, key))
    except InputError:
        return None
    return result if isinstance(result, RunResult) and result.key == key else None
