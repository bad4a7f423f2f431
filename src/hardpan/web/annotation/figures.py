"""The figures of the owner's page, from what the project holds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.replicate import Project
from hardpan.replicate.database import people as stored_people
from hardpan.replicate.database import votes
from hardpan.replicate.quality import Frequency, Quality, WorkerQuality
from hardpan.testbed.followups import Humans

BINS = 10


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One annotator: the crowd platform's number, answers on the controls, tasks, seconds per task."""

    name: str
    quality: WorkerQuality
    tasks: int
    seconds: float | None
    blocked: bool = False

    @property
    def controls(self) -> int:
        """Hidden controls seen."""
        return self.quality.positives + self.quality.negatives

    @property
    def right(self) -> int:
        """Hidden controls answered as they should be."""
        return self.quality.hits + self.quality.negatives - self.quality.false_alarms


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many images have which selection frequency, in ten bins from 0 to 1 (the last one holds 1)."""

    title: str
    counts: tuple[int, ...]
    images: int
    mean: float | None


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that the dashboard shows; histograms by class number, None for all classes."""

    coverage: list[votes.ClassCoverage]
    done: int
    needed: int
    votes: int
    median_seconds: float | None
    workers: list[WorkerRow]
    flagged: int
    alpha: Estimate | None
    alpha_unflagged: Estimate | None
    histograms: Mapping[int | None, tuple[Histogram, Histogram]]
    people: int
    excluded: list[stored_people.Person]
    humans: Humans | None


def count(project: Project) -> Figures:
    """Count everything anew."""
    quality = project.quality()
    coverage = votes.coverage(project)
    persons = project.workers()
    seconds = votes.task_seconds(project)
    every = [value for values in seconds.values() for value in values]
    return Figures(
        coverage,
        sum(item.submitted for item in coverage),
        sum(item.needed for item in coverage),
        sum(item.votes for item in quality.workers),
        statistics.median(every) if every else None,
        _workers(quality, {person.id: person for person in persons}, seconds),
        len(quality.flagged),
        _if_defined(quality.alpha),
        _if_defined(quality.alpha_unflagged),
        _histograms(quality.frequencies, len(project.classes)),
        len(persons),
        [person for person in persons if person.excluded],
        _humans(project),
    )


def histogram(title: str, frequencies: Sequence[float]) -> Histogram:
    """Ten equal bins, closed below.

    Example:
        >>> histogram("", [0.0, 0.1, 0.95, 1.0]).counts
        (1, 1, 0, 0, 0, 0, 0, 0, 0, 2)
    """
    counts = [0] * BINS
    for value in frequencies:
        counts[min(BINS - 1, int(value * BINS + 1e-9))] += 1
    return Histogram(title, tuple(counts), len(frequencies), statistics.fmean(frequencies) if frequencies else None)


def _histograms(frequencies: Sequence[Frequency], classes: int) -> dict[int | None, tuple[Histogram, Histogram]]:
    """Candidates and originals, by class and (None) over all."""
    values: dict[tuple[int | None, str], list[float]] = {}
    for item in frequencies:
        for target in (None, item.class_index):
            values.setdefault((target, item.role), []).append(item.value)
    return {
        target: (
            histogram("Candidates", values.get((target, "candidate"), [])),
            histogram("Originals", values.get((target, "positive"), [])),
        )
        for target in [None, *range(classes)]
    }


def _workers(
    quality: Quality, people: Mapping[str, stored_people.Person], seconds: Mapping[str, list[float]]
) -> list[WorkerRow]:
    """Weakest on the controls first; who has seen too few to tell comes last."""
    rows = [
        WorkerRow(
            _outside(people[item.worker_id].external_id),
            item,
            len(seconds.get(item.worker_id, ())),
            statistics.median(seconds[item.worker_id]) if item.worker_id in seconds else None,
            people[item.worker_id].blocked,
        )
        for item in quality.workers
    ]
    return sorted(rows, key=lambda row: (-row.quality.flagged, row.right / row.controls if row.controls else 2.0))


def _if_defined(alpha: Estimate | None) -> Estimate | None:
    """Agreement means nothing where everybody always says the same."""
    return None if alpha is None or math.isnan(alpha.value) else alpha


def _outside(name: str) -> str:
    """A crowd platform's number; people who came without one have a name that begins with "#"."""
    return "" if name.startswith("#") else name


def _humans(project: Project) -> Humans | None:
    """Table 3 over those who have answered on both sets."""
    try:
        return project.experiment_results().humans
    except InputError:
        return None
