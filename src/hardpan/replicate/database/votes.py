"""Votes and events, read and imported."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, insert, select

from hardpan.errors import InputError
from hardpan.replicate.database.connection import check_text, log
from hardpan.replicate.database.models import Assignment, Event, Image, Task, Vote, Worker
from hardpan.replicate.database.people import excluded_workers
from hardpan.replicate.folder import ProjectFolder

MOST_NAME = 64  # characters of a worker's name in the database


@dataclass(frozen=True, slots=True)
class StoredVote:
    """One vote, as the votes file has it."""

    image_id: str
    class_index: int
    worker_id: str
    role: str
    selected: bool
    at: float
    task_id: int | None


def all_votes(project: ProjectFolder) -> list[StoredVote]:
    """Every vote, in the order of counting."""
    with project.database.read() as connection:
        rows = connection.execute(
            select(
                Vote.image_id, Vote.class_index, Vote.worker_id, Vote.role, Vote.selected, Vote.at, Vote.task_id
            ).order_by(Vote.id)
        )
        return [StoredVote(*row) for row in rows]


def counted_votes(project: ProjectFolder) -> list[StoredVote]:
    """Every vote but those of workers whose votes the owner has excluded."""
    excluded = excluded_workers(project)
    return [vote for vote in all_votes(project) if vote.worker_id not in excluded]


def vote_totals(project: ProjectFolder) -> tuple[int, int]:
    """How many votes there are, and how many workers gave them."""
    with project.database.read() as connection:
        row = connection.execute(
            select(func.count(), func.count(Vote.worker_id.distinct())).select_from(Vote)
        ).one()
        return int(row[0]), int(row[1])


def store_votes(project: ProjectFolder, rows: Sequence[Mapping[str, Any]], *, platform: str) -> tuple[int, int]:
    """Add another platform's votes (image_id, class_index, worker, selected, at); give how many were new and known.

    Roles follow from the images: an original of the target class is a positive control, of another a negative one.
    """
    now = project.clock()
    with project.database.write(alone=True) as connection:
        images = {row.id: row for row in connection.execute(select(Image.id, Image.kind, Image.class_index)).all()}
        unknown = next((row["image_id"] for row in rows if row["image_id"] not in images), None)
        if unknown is not None:
            raise InputError(f": image {unknown!r} is not in this project; add the images first", argument="votes")
        names = {imported_name(platform, row["worker"]) for row in rows}
        for name in (platform, *names):
            check_text("votes: the name of a worker or platform", name)
        known_workers = set(connection.scalars(select(Worker.id).where(Worker.id.in_(names))))
        fresh = [
            {"id": name, "invitation_id": None, "external_id": name, "role": "annotator", "created_at": now}
            for name in sorted(names - known_workers)
        ]
        if fresh:
            connection.execute(insert(Worker), fresh)
        keys = connection.execute(
            select(Vote.worker_id, Vote.image_id, Vote.class_index).where(Vote.worker_id.in_(names))
        )
        present = {tuple(row) for row in keys}
        votes = []
        for row in rows:
            worker = imported_name(platform, row["worker"])
            key = (worker, row["image_id"], row["class_index"])
            if key in present:
                continue
            present.add(key)
            votes.append(_vote(images[row["image_id"]], worker, row, now))
        if votes:
            connection.execute(insert(Vote), votes)
            log(connection, now, "owner", "imported", votes=len(votes), platform=platform)
        return len(votes), len(rows) - len(votes)


def imported_name(platform: str, worker: str) -> str:
    """What a worker of another platform is called here; long names that begin alike stay apart.

    Example:
        >>> imported_name("prolific", "5f1"), len({imported_name("p" * 80, str(k)) for k in range(9)})
        ('prolific:5f1', 9)
    """
    name = f"{platform}:{worker}"
    if len(name) <= MOST_NAME:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{name[: MOST_NAME - 17]}-{digest}"


def events(project: ProjectFolder, *, after: int = 0, most: int = 1000) -> list[dict[str, Any]]:
    """Events after a number, oldest first: id, at, actor, what, details."""
    with project.database.read() as connection:
        rows = connection.execute(
            select(Event.__table__).where(Event.id > after).order_by(Event.id).limit(most)
        ).all()
    return [dict(row._mapping) for row in rows]


def has_event(project: ProjectFolder, what: str) -> bool:
    """Whether an event of this kind has been logged."""
    with project.database.read() as connection:
        return connection.scalar(select(Event.id).where(Event.what == what).limit(1)) is not None


def add_event(project: ProjectFolder, actor: str, what: str, **details: Any) -> None:
    """Append an event of a page or command to the log."""
    with project.database.write() as connection:
        log(connection, project.clock(), actor, what, **details)


def task_seconds(project: ProjectFolder) -> dict[str, list[float]]:
    """Worker id to the seconds from lease to submission of every task."""
    seconds: dict[str, list[float]] = {}
    with project.database.read() as connection:
        query = select(Assignment.worker_id, Assignment.submitted_at - Assignment.leased_at)
        for worker, duration in connection.execute(query.where(Assignment.state == "submitted")):
            seconds.setdefault(worker, []).append(float(duration or 0.0))
    return seconds


@dataclass(frozen=True, slots=True)
class ClassCoverage:
    """The state of the annotation of a class."""

    class_index: int
    tasks: int
    complete: int
    needed: int
    submitted: int
    leased: int


def coverage(project: ProjectFolder) -> list[ClassCoverage]:
    """Annotation so far, one row per class with tasks."""
    now = project.clock()
    with project.database.read() as connection:
        tasks = connection.execute(select(Task.id, Task.class_index, Task.needed, Task.submitted)).all()
        leases = connection.execute(
            select(Assignment.task_id, func.count().label("number"))
            .where(Assignment.state == "leased", Assignment.expires_at > now)
            .group_by(Assignment.task_id)
        ).all()
    leased = {row.task_id: int(row.number) for row in leases}
    results: dict[int, list[int]] = {}
    for task in tasks:
        sums = results.setdefault(task.class_index, [0, 0, 0, 0, 0])
        amounts = (1, int(task.submitted >= task.needed), task.needed, task.submitted, leased.get(task.id, 0))
        results[task.class_index] = [a + b for a, b in zip(sums, amounts, strict=True)]
    return [ClassCoverage(c, *results[c]) for c in sorted(results)]


def _vote(image: Any, worker: str, row: Mapping[str, Any], now: float) -> dict[str, Any]:
    same = image.class_index == row["class_index"]
    role = "candidate" if image.kind == "candidate" else "positive" if same else "negative"
    return {
        "image_id": image.id,
        "class_index": row["class_index"],
        "worker_id": worker,
        "role": role,
        "selected": bool(row["selected"]),
        "task_id": None,
        "at": now if row.get("at") is None else float(row["at"]),
    }
