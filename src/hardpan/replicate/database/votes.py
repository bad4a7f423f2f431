"""The votes of annotators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import func, insert, select

from hardpan.errors import InputError
from hardpan.replicate.database.connection import Image, Vote, Worker, check_database_text
from hardpan.replicate.database.events import log_event
from hardpan.replicate.folder import ProjectFolder

MOST_NAME = 64  # characters of "PLATFORM:WORKER" in the database


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


def all_votes(project: ProjectFolder, *, counted: bool = False) -> list[StoredVote]:
    """Every vote, in the order of counting; ``counted``: without those of workers whom the owner has excluded."""
    query = select(*(getattr(Vote, field.name) for field in fields(StoredVote))).order_by(Vote.id)
    if counted:
        query = query.join(Worker, Worker.id == Vote.worker_id).where(Worker.excluded_at.is_(None))
    with project.database.read() as connection:
        return [StoredVote(*row) for row in connection.execute(query)]


def vote_totals(project: ProjectFolder) -> tuple[int, int]:
    """How many votes there are, and how many workers gave them."""
    with project.database.read() as connection:
        row = connection.execute(
            select(func.count(), func.count(Vote.worker_id.distinct())).select_from(Vote)
        ).one()
        return int(row[0]), int(row[1])


def store_votes(project: ProjectFolder, rows: Sequence[Mapping[str, Any]], *, platform: str) -> tuple[int, int]:
    """Add another platform's votes (image_id, class_index, worker, selected); give how many were new and known.

    Roles follow from the images: an original of the target class is a positive control, of another a negative one.
    """
    now = project.clock()
    with project.database.write(alone=True) as connection:
        images = {row.id: row for row in connection.execute(select(Image.id, Image.kind, Image.class_index)).all()}
        unknown = next((row["image_id"] for row in rows if row["image_id"] not in images), None)
        if unknown is not None:
            raise InputError(f": image {unknown!r} is not in this project; add the images first", argument="votes")
        names = {f"{platform}:{row['worker']}" for row in rows}
        for name in names:
            check_database_text("platform:worker", name, MOST_NAME)
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
            worker = f"{platform}:{row['worker']}"
            key = (worker, row["image_id"], row["class_index"])
            if key in present:
                continue
            present.add(key)
            image, target = images[row["image_id"]], row["class_index"]
            control = "positive" if image.class_index == target else "negative"
            values = {"image_id": image.id, "class_index": target, "worker_id": worker, "task_id": None, "at": now}
            role = "candidate" if image.kind == "candidate" else control
            votes.append(values | {"role": role, "selected": bool(row["selected"])})
        if votes:
            connection.execute(insert(Vote), votes)
            log_event(connection, now, "owner", "imported", votes=len(votes), platform=platform)
        return len(votes), len(rows) - len(votes)
