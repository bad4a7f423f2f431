"""Votes, the questions and answers of the human-accuracy experiment, and events."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import case, func, insert, select

from hardpan.errors import InputError
from hardpan.replicate.database.connection import check_database_text, log_event
from hardpan.replicate.database.models import Answer, Assignment, Event, Image, Question, Task, Vote, Worker
from hardpan.replicate.database.people import check_person_admitted
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


_VOTES = select(
    Vote.image_id, Vote.class_index, Vote.worker_id, Vote.role, Vote.selected, Vote.at, Vote.task_id
).order_by(Vote.id)


def all_votes(project: ProjectFolder) -> list[StoredVote]:
    """Every vote, in the order of counting."""
    with project.database.read() as connection:
        return [StoredVote(*row) for row in connection.execute(_VOTES)]


def counted_votes(project: ProjectFolder) -> list[StoredVote]:
    """Every vote but those of workers whose votes the owner has excluded."""
    query = _VOTES.join(Worker, Worker.id == Vote.worker_id).where(Worker.excluded_at.is_(None))
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


def stored_events(project: ProjectFolder) -> list[dict[str, Any]]:
    """Every event, oldest first: id, at, actor, what, details."""
    with project.database.read() as connection:
        rows = connection.execute(select(Event.__table__).order_by(Event.id))
        return [dict(row._mapping) for row in rows]


def last_events(project: ProjectFolder, count: int) -> list[dict[str, Any]]:
    """The newest events, newest first."""
    with project.database.read() as connection:
        rows = connection.execute(select(Event.__table__).order_by(Event.id.desc()).limit(count))
        return [dict(row._mapping) for row in rows]


def has_event(project: ProjectFolder, what: str) -> bool:
    """Whether an event of this kind has been logged."""
    with project.database.read() as connection:
        return connection.scalar(select(Event.id).where(Event.what == what).limit(1)) is not None


def add_event(project: ProjectFolder, actor: str, what: str, **details: Any) -> None:
    """Append an event of a page or command to the log."""
    with project.database.write() as connection:
        log_event(connection, project.clock(), actor, what, **details)


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


def vote_coverage(project: ProjectFolder) -> list[ClassCoverage]:
    """Annotation so far, one row per class with tasks."""
    now = project.clock()
    with project.database.read() as connection:
        leased = (
            select(Assignment.task_id, func.count().label("number"))
            .where(Assignment.state == "leased", Assignment.expires_at > now)
            .group_by(Assignment.task_id)
            .subquery()
        )
        complete = func.sum(case((Task.submitted >= Task.needed, 1), else_=0))
        in_progress = func.coalesce(func.sum(leased.c.number), 0)
        rows = connection.execute(
            select(
                *(Task.class_index, func.count(), complete),
                *(func.sum(Task.needed), func.sum(Task.submitted), in_progress),
            )
            .outerjoin(leased, leased.c.task_id == Task.id)
            .group_by(Task.class_index)
            .order_by(Task.class_index)
        )
        return [ClassCoverage(*map(int, row)) for row in rows]


@dataclass(frozen=True, slots=True)
class NextQuestion:
    """A question for a participant: its number names it and tells nothing of the image."""

    question: int
    done: int
    total: int


def start_experiment(project: ProjectFolder, original_ids: Sequence[str], new_ids: Sequence[str]) -> int:
    """Choose the images of the experiment (the hardest of each set), once; give how many there are."""
    now = project.clock()
    origins = dict.fromkeys(original_ids, "original") | dict.fromkeys(new_ids, "new")
    with project.database.write(alone=True) as connection:
        present = set(connection.scalars(select(Question.image_id)))
        if present:
            if present != set(origins):
                raise InputError("the experiment has begun with other images; its questions cannot change")
            return len(present)
        rows = connection.execute(select(Image.id, Image.class_index).where(Image.id.in_(list(origins)))).all()
        classes = {row.id: row.class_index for row in rows}
        missing = [name for name in origins if classes.get(name) is None]
        if missing:
            raise InputError(f"image {missing[0]!r} is not in this project or has no class")
        order = list(origins)
        secrets.SystemRandom().shuffle(order)  # question numbers must not reveal the origin
        questions = [{"image_id": n, "origin": origins[n], "class_index": classes[n]} for n in order]
        if questions:
            connection.execute(insert(Question), questions)
        log_event(connection, now, "owner", "experiment", original=len(original_ids), new=len(new_ids))
        return len(questions)


def next_question(project: ProjectFolder, worker_id: str) -> NextQuestion | None:
    """The next question in this participant's own order, or None at the end."""
    with project.database.read() as connection:
        questions = connection.scalars(select(Question.id)).all()
        answered = set(connection.scalars(select(Answer.question_id).where(Answer.worker_id == worker_id)))
    left = [number for number in questions if number not in answered]
    if not left:
        return None
    # Keyed by the project's secret: the same for this participant every time, unpredictable for anybody else.
    first = min(left, key=lambda number: project.sign("question", f"{worker_id}:{number}"))
    return NextQuestion(first, len(answered), len(questions))


def question_image(project: ProjectFolder, worker_id: str, question: int) -> bytes:
    """The image of a question, for participants only, encoded as :meth:`ProjectFolder.blinded_picture` does."""
    with project.database.read() as connection:
        if connection.scalar(select(Worker.role).where(Worker.id == worker_id)) != "participant":
            raise InputError("this experiment is for its participants; enter by their link")
        row = connection.execute(
            select(Image.id, Image.row).join(Question, Question.image_id == Image.id).where(Question.id == question)
        ).first()
    if row is None:
        raise InputError("there is no such question")
    return project.blinded_picture(row.id, row.row)


def answer_question(project: ProjectFolder, worker_id: str, question: int, class_index: int) -> bool:
    """Record an answer; the first one counts, and a repeat gives False."""
    if not 0 <= class_index < len(project.classes):
        raise InputError(f"must be from 0 to {len(project.classes) - 1}; got {class_index}", argument="class")
    now = project.clock()
    with project.database.write() as connection:
        # The worker's row is locked so that two tabs cannot answer the same question at the same time.
        connection.execute(select(Worker.id).where(Worker.id == worker_id).with_for_update())
        check_person_admitted(connection, worker_id, now, "participant")
        if connection.scalar(select(Question.id).where(Question.id == question)) is None:
            raise InputError("there is no such question")
        if connection.scalar(
            select(Answer.id).where(Answer.question_id == question, Answer.worker_id == worker_id)
        ):
            return False
        row = {"question_id": question, "worker_id": worker_id, "class_index": class_index, "at": now}
        connection.execute(insert(Answer), row)
        log_event(connection, now, worker_id, "answered", question=question)
        return True


def question_count(project: ProjectFolder) -> int:
    """How many questions the experiment has; 0 before it has begun."""
    with project.database.read() as connection:
        return int(connection.scalar(select(func.count()).select_from(Question)) or 0)


def human_responses(project: ProjectFolder) -> list[dict[str, str]]:
    """Answers as rows for ``testbed.human_table``: participant, set, response, label; people as numbers.

    Those of excluded people are left out; the others keep their numbers.
    """
    names = project.class_names
    with project.database.read() as connection:
        rows = connection.execute(
            select(Answer.worker_id, Question.origin, Answer.class_index.label("said"), Question.class_index)
            .join(Question, Question.id == Answer.question_id)
            .join(Worker, Worker.id == Answer.worker_id)
            .where(Worker.excluded_at.is_(None))
            .order_by(Answer.id)
        ).all()
        people = connection.scalars(
            select(Answer.worker_id).group_by(Answer.worker_id).order_by(func.min(Answer.id))
        ).all()
    number = {worker: str(position + 1) for position, worker in enumerate(people)}
    return [
        {
            "participant": number[row.worker_id],
            "set": row.origin,
            "response": names[row.said],
            "label": names[row.class_index],
        }
        for row in rows
    ]
