"""The figures of the owner's page, counted from what the project holds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from hardpan import replicate
from hardpan.errors import InputError
from hardpan.replicate import ClassCoverage, Project, StoredVote
from hardpan.testbed.humans import Humans, human_table

BINS = 10


@dataclass(slots=True)
class ImageCount:
    """Votes on one image for one class."""

    role: str
    selected: int = 0
    votes: int = 0

    @property
    def frequency(self) -> float:
        """Selected, of all votes."""
        return self.selected / self.votes


@dataclass(slots=True)
class WorkerRow:
    """One annotator: tasks, hidden controls answered rightly, seconds a task."""

    worker: str
    name: str
    tasks: int = 0
    controls: int = 0
    controls_right: int = 0
    seconds: float | None = None
    flagged: bool = False


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many images have which selection frequency, in ten bins from 0 to 1 (the last one holds 1)."""

    title: str
    counts: tuple[int, ...]
    images: int
    mean: float | None


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that the dashboard shows."""

    coverage: list[ClassCoverage]
    done: int
    wanted: int
    votes: int
    median_seconds: float | None
    workers: list[WorkerRow]
    histograms: dict[int | None, tuple[Histogram, Histogram]]
    people: int
    humans: Humans | None


def count(project: Project) -> Figures:
    """Count everything anew."""
    votes = replicate.all_votes(project)
    coverage = replicate.coverage(project)
    times = replicate.task_times(project)
    images = count_images(votes)
    persons = replicate.workers(project)
    names = {person.id: person.external_id for person in persons}
    rows = _workers(votes, {name: names.get(name, "") for name in {vote.worker_id for vote in votes}})
    seconds: dict[str, list[float]] = {}
    for item in times:
        seconds.setdefault(item.worker_id, []).append(item.seconds)
    for row in rows:
        if row.worker in seconds:
            row.tasks, row.seconds = len(seconds[row.worker]), statistics.median(seconds[row.worker])
    classes: list[int | None] = [None, *range(len(project.classes))]
    return Figures(
        coverage,
        sum(item.submitted for item in coverage),
        sum(item.wanted for item in coverage),
        len(votes),
        statistics.median([item.seconds for item in times]) if times else None,
        rows,
        {target: _histograms(images, target) for target in classes},
        len(persons),
        _humans(project),
    )


def count_images(votes: Iterable[StoredVote]) -> dict[tuple[str, int], ImageCount]:
    """Votes by image and target class.

    Example:
        >>> votes = [StoredVote("a", 0, f"w{k}", "candidate", k < 3, 0.0, None) for k in range(4)]
        >>> count_images(votes)["a", 0].frequency
        0.75
    """
    found: dict[tuple[str, int], ImageCount] = {}
    for vote in votes:
        item = found.setdefault((vote.image_id, vote.class_index), ImageCount(vote.role))
        item.votes += 1
        item.selected += vote.selected
    return found


def histogram(title: str, frequencies: list[float]) -> Histogram:
    """Ten equal bins, closed below.

    Example:
        >>> histogram("", [0.0, 0.1, 0.95, 1.0]).counts
        (1, 1, 0, 0, 0, 0, 0, 0, 0, 2)
    """
    counts = [0] * BINS
    for value in frequencies:
        counts[min(BINS - 1, int(value * BINS + 1e-9))] += 1
    return Histogram(title, tuple(counts), len(frequencies), statistics.fmean(frequencies) if frequencies else None)


def _histograms(images: dict[tuple[str, int], ImageCount], target: int | None) -> tuple[Histogram, Histogram]:
    of = {
        role: [
            item.frequency
            for (_, index), item in images.items()
            if item.role == role and (target is None or index == target)
        ]
        for role in ("candidate", "positive")
    }
    return histogram("Candidates", of["candidate"]), histogram("Originals (hidden controls)", of["positive"])


def _workers(votes: Iterable[StoredVote], names: dict[str, str]) -> list[WorkerRow]:
    rows = {worker: WorkerRow(worker, names[worker]) for worker in sorted(names)}
    for vote in votes:
        if vote.role in ("positive", "negative"):
            row = rows[vote.worker_id]
            row.controls += 1
            row.controls_right += vote.selected == (vote.role == "positive")
    return sorted(rows.values(), key=lambda row: (row.controls_right / max(row.controls, 1), row.worker))


def _humans(project: Project) -> Humans | None:
    """Table 3 over those who have answered on both sets."""
    answers = replicate.human_responses(project)
    sides: dict[str, set[str]] = {}
    for row in answers:
        sides.setdefault(row["participant"], set()).add(row["set"])
    both = [row for row in answers if len(sides[row["participant"]]) == 2]
    if not both:
        return None
    try:
        return human_table(both)
    except InputError:
        return None
