"""Votes: workers on hidden controls, selection frequencies, agreement; import and export as files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import files, tables
from hardpan.errors import InputError, few
from hardpan.estimates import Estimate
from hardpan.files import file_hash, record
from hardpan.replicate import database
from hardpan.replicate.folder import ProjectFolder
from hardpan.replicate.sampling import AnnotatedImages, average_frequency, sampling_columns
from hardpan.report import Report
from hardpan.stats.annotators import krippendorff_alpha
from hardpan.stats.intervals import beta_interval, share
from hardpan.tables import columns_of, rows_to_columns

MIN_INFORMEDNESS = 0.5
_FLAGS = {"1": True, "true": True, "yes": True, "1.0": True, "0": False, "false": False, "no": False, "0.0": False}
COLUMNS = ("image_id", "class", "worker", "selected", "role", "at", "excluded")


@record
class WorkerQuality:
    """A worker on the hidden controls.

    Attributes:
        worker_id: who.
        votes: how many images they answered on.
        positives: originals of the target class they saw, and ``hits`` of them selected.
        hits: see positives.
        negatives: originals of a nearby class they saw, and ``false_alarms`` of them selected.
        false_alarms: see negatives.
        informedness: hit rate − false-alarm rate: 1 is perfect, 0 is guessing.
        flagged: even the upper limit of the informedness is below the requirement.
    """

    worker_id: str
    votes: int
    positives: int
    hits: int
    negatives: int
    false_alarms: int
    informedness: float
    flagged: bool


@record(kind="Frequency", dropped=("probability",))
class SelectionFrequency:
    """The selection frequency of an image for a class, with a Beta interval; the same without flagged workers."""

    image_id: str
    class_index: int
    role: str
    selected: int
    votes: int
    value: float
    low: float
    high: float
    selected_unflagged: int
    votes_unflagged: int

    @property
    def unflagged(self) -> float:
        """The frequency without flagged workers; NaN where nobody is left."""
        return self.selected_unflagged / self.votes_unflagged if self.votes_unflagged else float("nan")


@record(kind="Quality")
class AnnotationQuality(Report):
    """What :func:`annotation_quality` returns.

    Attributes:
        workers: every worker on the controls.
        alpha: Krippendorff's α over candidates, all workers.
        alpha_unflagged: the same without flagged ones.
        average: mean selection frequency by role ("candidate", "positive", "negative").
        frequencies: every image and target class with votes (not in the JSON).
    """

    workers: tuple[WorkerQuality, ...]
    alpha: Estimate | None
    alpha_unflagged: Estimate | None
    average: dict[str, Estimate]
    frequencies: tuple[SelectionFrequency, ...] = field(default=(), repr=False, metadata=files.TRANSIENT)

    @property
    def flagged(self) -> tuple[str, ...]:
        """Ids of flagged workers."""
        return tuple(item.worker_id for item in self.workers if item.flagged)

    def frequency_columns(self, class_names: Sequence[str]) -> dict[str, list[Any]]:
        """Every selection frequency with its interval, and the same without flagged workers."""
        rows = self.frequencies
        return {
            "id": [row.image_id for row in rows],
            "class": [class_names[row.class_index] for row in rows],
            **columns_of(rows, "role", "selected", "votes", frequency="value"),
            **columns_of(rows, "low", "high", "selected_unflagged", "votes_unflagged"),
        }


def annotation_quality(project: ProjectFolder) -> AnnotationQuality:
    """Workers, frequencies and agreement of a project's votes so far."""
    return quality_of_votes(database.all_votes(project, counted=True))


def quality_of_votes(votes: Sequence[database.StoredVote]) -> AnnotationQuality:
    """The same from votes in memory.

    A worker is flagged when the hit rate on positive controls at its upper limit, minus the selection rate on
    negative ones at its lower limit (Clopper–Pearson, 90 % two-sided), is below :data:`MIN_INFORMEDNESS`: nobody is
    flagged for bad luck on a few controls; workers who select at random, all or nothing are, after enough of them.
    """
    workers = worker_quality(votes)
    flagged = {item.worker_id for item in workers if item.flagged}
    frequencies = selection_frequencies(votes, flagged)
    candidates = [item for item in frequencies if item.role == "candidate"]
    average = {
        role: average_frequency([item.value for item in frequencies if item.role == role])
        for role in ("candidate", "positive", "negative")
        if any(item.role == role for item in frequencies)
    }
    return AnnotationQuality(
        workers,
        _annotator_agreement([(item.selected, item.votes) for item in candidates]),
        _annotator_agreement([(item.selected_unflagged, item.votes_unflagged) for item in candidates]),
        average,
        frequencies,
    )


def worker_quality(votes: Sequence[database.StoredVote]) -> tuple[WorkerQuality, ...]:
    """Every worker on the controls, in the order of ids."""
    counts: dict[str, list[int]] = {}
    for vote in votes:
        row = counts.setdefault(vote.worker_id, [0, 0, 0, 0, 0])
        row[0] += 1
        if vote.role == "positive":
            row[1] += 1
            row[2] += vote.selected
        elif vote.role == "negative":
            row[3] += 1
            row[4] += vote.selected
    results = []
    for name in sorted(counts):
        total, positives, hits, negatives, alarms = counts[name]
        informedness, flagged = float("nan"), False
        if positives and negatives:
            informedness = hits / positives - alarms / negatives
            flagged = share(hits, positives, 0.9).high - share(alarms, negatives, 0.9).low < MIN_INFORMEDNESS
        results.append(WorkerQuality(name, total, positives, hits, negatives, alarms, informedness, flagged))
    return tuple(results)


def selection_frequencies(
    votes: Sequence[database.StoredVote], flagged: Collection[str]
) -> tuple[SelectionFrequency, ...]:
    """The proportion of workers that selected each image for its target class; (image, class) in order."""
    counts: dict[tuple[str, int], NDArray[np.int64]] = {}
    roles: dict[tuple[str, int], str] = {}
    for vote in votes:
        key, counted = (vote.image_id, vote.class_index), vote.worker_id not in flagged
        roles[key] = vote.role
        row = np.array([vote.selected, 1, vote.selected and counted, counted], dtype=np.int64)
        counts[key] = counts.get(key, 0) + row
    keys = sorted(counts)
    table = np.array([counts[key] for key in keys], dtype=np.int64).reshape(-1, 4)
    ends = zip(*(end.tolist() for end in beta_interval(table[:, 0], table[:, 1])), strict=True)
    return tuple(
        SelectionFrequency(*key, roles[key], selected, n, selected / n, low, high, *unflagged)
        for key, (selected, n, *unflagged), (low, high) in zip(keys, table.tolist(), ends, strict=True)
    )


def quality_frequency_table(
    frequencies: Sequence[SelectionFrequency],
    role: str,
    class_names: Sequence[str],
    subclasses: dict[str, str] | None = None,
    *,
    unflagged: bool = False,
) -> AnnotatedImages:
    """Frequencies of one role as the table that :func:`hardpan.replicate.sample` takes."""
    selected = [f for f in frequencies if f.role == role and (f.votes_unflagged or not unflagged)]
    return AnnotatedImages(
        np.array([f.image_id for f in selected], dtype=np.str_),
        np.array([class_names[f.class_index] for f in selected], dtype=np.str_),
        np.array([f.unflagged if unflagged else f.value for f in selected], dtype=np.float64),
        np.array([f.votes_unflagged if unflagged else f.votes for f in selected], dtype=np.int64),
        np.array([(subclasses or {}).get(f.image_id, "") for f in selected], dtype=np.str_),
    )


def _annotator_agreement(pairs: Sequence[tuple[int, int]]) -> Estimate | None:
    counts = np.array([(selected, total - selected) for selected, total in pairs if total >= 2])
    return krippendorff_alpha(counts) if len(counts) else None


def annotation_vote_columns(project: ProjectFolder) -> dict[str, list[Any]]:
    """Every vote, those of excluded workers marked."""
    names, excluded = project.class_names, database.excluded_workers(project)
    rows = [
        (v.image_id, names[v.class_index], v.worker_id, int(v.selected), v.role, v.at, int(v.worker_id in excluded))
        for v in database.all_votes(project)
    ]
    return rows_to_columns(COLUMNS, rows)


def import_votes(project: ProjectFolder, path: str | os.PathLike[str]) -> tuple[int, int]:
    """Add votes of a CSV, JSON or Parquet file (image_id, class, worker, selected); gives how many new, known.

    Workers are named FILE:NAME, so that two platforms' workers stay apart; the same file again adds nothing. Votes
    that an export marked as excluded are left out.
    """
    source = Path(path)
    columns = tables.read_columns(source, text=True)
    names = sampling_columns(columns, ("id", "label", "annotator"), str(source))
    names |= {"selected": "selected"} if "selected" in columns else {}
    for role in ("id", "label", "annotator", "selected"):
        if role not in names:
            raise InputError(f": {source} has no column of {role}; it has {few(columns)}", argument="votes")

    def is_true(text: str, name: str) -> bool:
        if text.lower() not in _FLAGS:
            raise InputError(f": {name} must be 0 or 1; got {text!r} in {source}", argument="votes")
        return _FLAGS[text.lower()]

    required = [columns[names[role]] for role in ("id", "label", "annotator", "selected")]
    excluded = columns.get("excluded", [""] * len(required[0]))
    rows = [
        {
            "image_id": image,
            "class_index": project.config.class_index(label),
            "worker": worker,
            "selected": is_true(said, "selected"),
        }
        for image, label, worker, said, out in zip(*required, excluded, strict=True)
        if not (out and is_true(out, "excluded"))
    ]
    if any(not row["worker"] for row in rows):
        raise InputError(f": {source} has rows without a worker; name the worker of every vote", argument="votes")
    counts = Counter((row["worker"], row["image_id"], row["class_index"]) for row in rows)
    (worker, image, _), most = max(counts.items(), key=lambda item: item[1], default=(("", "", 0), 1))
    if most > 1:
        raise InputError(
            f": worker {worker!r} votes twice on image {image!r} in {source}; keep one", argument="votes"
        )
    new, known = database.store_votes(project, rows, platform=source.stem)
    if new:
        project.record_step("votes", inputs={source.name: file_hash(source)}, outputs={"votes": new})
    return new, known
