"""Tasks held by workers: taken, renewed, submitted once, returned when the lease expires.

Statements are built once: building one costs more than running it, and SQLite has one writer at a time.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import BindParameter, Connection, Table, and_, bindparam, exists, func, insert, or_, select, update

from hardpan.errors import InputError
from hardpan.replicate.database.connection import (
    Assignment,
    Image,
    Task,
    TaskImage,
    Vote,
    check_database_text,
    in_database_order,
)
from hardpan.replicate.database.events import log_event
from hardpan.replicate.database.people import check_person_admitted
from hardpan.replicate.folder import ProjectFolder

_assignments = cast(Table, Assignment.__table__)
_tasks = cast(Table, Task.__table__)
_task_images = cast(Table, TaskImage.__table__)
_votes = cast(Table, Vote.__table__)
_a, _t, _p, _v = _assignments.c, _tasks.c, _task_images.c, _votes.c

_worker: BindParameter[Any] = bindparam("worker")
_now: BindParameter[Any] = bindparam("now")
_task: BindParameter[Any] = bindparam("task")
_running = and_(_a.state == "leased", _a.expires_at > _now)
_own_tasks = select(_a.task_id).where(_a.worker_id == _worker, or_(_a.state == "submitted", _a.expires_at > _now))
_leased = select(_a.task_id, func.count().label("held")).where(_running).group_by(_a.task_id).subquery()
_assigned = _t.submitted + func.coalesce(_leased.c.held, 0)

HELD = select(_assignments).where(_a.worker_id == _worker, _running).order_by(_a.leased_at)
OPEN_TASKS = (
    select(_t.id)
    .outerjoin(_leased, _leased.c.task_id == _t.id)
    .where(_assigned < _t.needed, _t.id.not_in(_own_tasks))
    .order_by(_assigned.desc(), _t.id)
)
# Asked image by image: each answer is a step into an index, however much the worker has done.
_elsewhere = _task_images.alias()
_held_or_done = exists().where(
    _a.task_id == _elsewhere.c.task_id, _a.worker_id == _worker, or_(_a.state == "submitted", _a.expires_at > _now)
)
_before = exists().where(_elsewhere.c.image_id == _p.image_id, _held_or_done.correlate(_elsewhere))
_answered = exists().where(_v.worker_id == _worker, _v.image_id == _p.image_id)
BLOCKED = (
    select(_p.task_id)
    .where(_p.task_id.in_(bindparam("tasks", expanding=True)))
    .where(or_(_before.correlate(_task_images), _answered.correlate(_task_images)))
    .distinct()
)
TASK_LOCKED = select(_t.needed, _t.submitted).where(_t.id == _task).with_for_update()
HELD_OF_TASK = select(func.count()).where(_a.task_id == _task, _running)
CLASS_OF_TASK = select(_t.class_index).where(_t.id == _task)
OWN_EARLIER = select(_assignments).where(_a.task_id == _task, _a.worker_id == _worker)
OWN_LOCKED = select(_assignments).where(_a.token == bindparam("token"), _a.worker_id == _worker).with_for_update()
TASK_IMAGES = select(_p.image_id, _p.role).where(_p.task_id == _task).order_by(in_database_order(_p.image_id))
ANSWERED_BEFORE = (
    select(_v.id).where(_v.worker_id == _worker, _v.image_id.in_(bindparam("images", expanding=True))).limit(1)
)
DONE = select(func.count()).where(_a.worker_id == _worker, _a.state == "submitted")
TOTALS = select(func.coalesce(func.sum(_t.submitted), 0), func.coalesce(func.sum(_t.needed), 0))

NEW_LEASE = insert(_assignments)
NEW_VOTES = insert(_votes)
EXTEND = update(_assignments).where(_a.id == bindparam("row")).values(expires_at=bindparam("expires"))
LEASE_AGAIN = (
    update(_assignments)
    .where(_a.id == bindparam("row"))
    .values(leased_at=bindparam("leased"), expires_at=bindparam("expires"))
)
SUBMITTED = (
    update(_assignments)
    .where(_a.id == bindparam("row"))
    .values(state="submitted", submitted_at=bindparam("at"), submission_key=bindparam("key"))
)
ONE_MORE = update(_tasks).where(_t.id == _task).values(submitted=_t.submitted + 1)


MOST_HELD = 3
MOST_HELD_FIRST = 2  # before the first answer: the task on the page and the one behind it
MOST_FIRST = 4  # times its first length: how long somebody who has not answered yet may keep a task
_LOOK_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Lease:
    """A task as its worker sees it: a target class and a number of images, in an order made for this worker.

    Attributes:
        token: names the lease; it opens only for its worker. Images are (token, position), so no id is ever shown.
        class_index: the target class.
        n_images: how many images there are; positions are 0 .. n_images − 1.
        expires_at: when it returns to the others, in seconds since 1970.
    """

    token: str
    class_index: int
    n_images: int
    expires_at: float


@dataclass(frozen=True, slots=True)
class SubmissionReceipt:
    """What became of a submission: "counted", or "repeated" where this lease had been counted before."""

    state: str
    done: int


class LeaseLost(InputError):
    """The lease expired and others have finished its task meanwhile, or it is not this worker's."""


def lease_next_task(project: ProjectFolder, worker_id: str, *, besides: Collection[str] = ()) -> Lease | None:
    """Give a worker a task: one that they hold already, else the open one nearest to completion.

    A worker never gets an image twice. A task's images are shuffled for each worker.

    Args:
        project: an open project.
        worker_id: who asks.
        besides: tokens of leases that the page has already, to fetch the next one ahead (at most 3 are held, and 2
            before the first answer).

    Returns:
        The lease, or None where nothing is left for this worker.
    """
    now = project.clock()
    with project.database.write(light=True) as connection:
        check_person_admitted(connection, worker_id, now, "annotator")
        leases = connection.execute(HELD, {"worker": worker_id, "now": now}).all()
        for row in leases:
            if row.token not in besides:
                return _lease_from_row(connection, row)
        if len(leases) >= (MOST_HELD if _done_leases(connection, worker_id) else MOST_HELD_FIRST):
            return None
        task = _open_task_to_lease(connection, worker_id, now)
        return None if task is None else _take_lease(connection, project, worker_id, task, now)


def renew_lease(project: ProjectFolder, worker_id: str, token: str) -> Lease:
    """Begin the lease's time anew, also after it expired while its task is still wanted."""
    now = project.clock()
    with project.database.write(light=True) as connection:
        row = _own_lease(connection, worker_id, token)
        if row.state == "submitted":
            raise LeaseLost("this task has been submitted already; take the next one")
        _check_lease_task_open(connection, row, now)
        if now > row.leased_at + MOST_FIRST * project.config.lease_seconds and not _done_leases(
            connection, worker_id
        ):
            raise LeaseLost("this task was open for too long without an answer; take the next one")
        expires = now + project.config.lease_seconds
        connection.execute(EXTEND, {"row": row.id, "expires": expires})
        log_event(connection, now, worker_id, "renewed", task=row.task_id)
        return _lease_from_row(connection, row, expires)


def submit_lease(
    project: ProjectFolder, worker_id: str, token: str, selected: Collection[int], submission_key: str
) -> SubmissionReceipt:
    """Count a worker's answers, once: the same lease again, by whatever key, gives the first receipt.

    Args:
        project: an open project.
        worker_id: who answers.
        token: the lease.
        selected: positions whose image shows the target class; all others count as not selected.
        submission_key: the page's own random name for this submission, for the log.

    Raises:
        LeaseLost: it is not this worker's lease, or it expired and the task was completed by others.
        NotAdmitted: the worker's access has ended, or others used up the link before this worker's first answer.
    """
    if not submission_key:
        raise InputError("must not be empty", argument="submission_key")
    check_database_text("submission_key", submission_key, 200)
    now = project.clock()
    with project.database.write() as connection:
        check_person_admitted(connection, worker_id, now, "annotator")
        row = _own_lease(connection, worker_id, token)
        if row.state == "submitted":
            same = row.submission_key == submission_key
            log_event(connection, now, worker_id, "submitted-again", task=row.task_id, same_key=same)
            return SubmissionReceipt("repeated", _done_leases(connection, worker_id))
        n_images = len(row.image_ids)
        for item in selected:
            if type(item) is not int or not 0 <= item < n_images:
                raise InputError(f"must hold positions from 0 to {n_images - 1}; got {item!r}", argument="selected")
        positions = set(selected)
        _check_lease_task_open(connection, row, now)
        # A late submission may have put an image of this task before the same worker elsewhere.
        if connection.scalar(ANSWERED_BEFORE, {"worker": worker_id, "images": row.image_ids}):
            raise LeaseLost("you have answered on an image of this task elsewhere; take the next one")
        _count_lease_votes(connection, row, positions, now)
        connection.execute(SUBMITTED, {"row": row.id, "at": now, "key": submission_key})
        seconds = round(now - row.leased_at, 3)
        log_event(
            connection, now, worker_id, "submitted", task=row.task_id, selected=len(positions), seconds=seconds
        )
        return SubmissionReceipt("counted", _done_leases(connection, worker_id))


def lease_image(project: ProjectFolder, worker_id: str, token: str, position: int) -> bytes:
    """The image at a position of a worker's own lease, as :meth:`ProjectFolder.blinded_example` encodes it."""
    with project.database.read() as connection:
        image_ids = connection.scalar(
            select(Assignment.image_ids).where(Assignment.token == token, Assignment.worker_id == worker_id)
        )
        if image_ids is None or not 0 <= position < len(image_ids):
            raise LeaseLost("there is no such image in this task")
        row = connection.execute(select(Image.id, Image.row).where(Image.id == image_ids[position])).one()
    return project.blinded_example(row.id, row.row)


def lease_image_ids(project: ProjectFolder, token: str) -> list[str]:
    """Image ids of a lease, in their order; for simulations and tests, never for a page."""
    with project.database.read() as connection:
        return list(connection.scalar(select(Assignment.image_ids).where(Assignment.token == token)) or [])


def lease_progress(project: ProjectFolder, worker_id: str) -> tuple[int, int, int]:
    """Tasks that a worker has done, that all have done, and that are needed, for the page's bar."""
    with project.database.read() as connection:
        done, needed = connection.execute(TOTALS).one()
        return _done_leases(connection, worker_id), int(done), int(needed)


def _open_task_to_lease(connection: Connection, worker_id: str, now: float) -> int | None:
    """The open task nearest to completion that shares no image with what this worker has or had."""
    who = {"worker": worker_id, "now": now}
    rows = connection.scalars(OPEN_TASKS, who).all()
    for start in range(0, len(rows), _LOOK_AT_ONCE):
        piece = rows[start : start + _LOOK_AT_ONCE]
        blocked = set(connection.scalars(BLOCKED, who | {"tasks": piece}))
        for task in piece:
            if task not in blocked and _task_is_still_open(connection, task, now):
                return int(task)
    return None


def _task_is_still_open(connection: Connection, task: int, now: float) -> bool:
    """Look again with the task's row locked: on PostgreSQL two workers may have found the same last slot."""
    row = connection.execute(TASK_LOCKED, {"task": task}).one()
    leased = connection.scalar(HELD_OF_TASK, {"task": task, "now": now})
    return bool(row.submitted + (leased or 0) < row.needed)


def _take_lease(connection: Connection, project: ProjectFolder, worker_id: str, task: int, now: float) -> Lease:
    expires = now + project.config.lease_seconds
    again = connection.execute(OWN_EARLIER, {"task": task, "worker": worker_id}).first()
    if again is not None:  # the worker's own expired lease: the old page, if still open, keeps working
        connection.execute(LEASE_AGAIN, {"row": again.id, "leased": now, "expires": expires})
        log_event(connection, now, worker_id, "leased-again", task=task)
        return _lease_from_row(connection, again, expires)
    image_ids = list(connection.scalars(TASK_IMAGES, {"task": task}))
    # A seeded order could be computed by a worker, and with it the controls; this one is only stored.
    secrets.SystemRandom().shuffle(image_ids)
    row = {
        "token": secrets.token_urlsafe(18),
        "task_id": task,
        "worker_id": worker_id,
        "state": "leased",
        "leased_at": now,
        "expires_at": expires,
        "image_ids": image_ids,
    }
    connection.execute(NEW_LEASE, row)
    log_event(connection, now, worker_id, "leased", task=task)
    class_index = connection.scalar(CLASS_OF_TASK, {"task": task})
    return Lease(str(row["token"]), int(class_index or 0), len(image_ids), expires)


def _own_lease(connection: Connection, worker_id: str, token: str) -> Any:
    row = connection.execute(OWN_LOCKED, {"token": token, "worker": worker_id}).first()
    if row is None:
        raise LeaseLost("this task is not yours, or is no longer there; take the next one")
    return row


def _check_lease_task_open(connection: Connection, row: Any, now: float) -> None:
    """An expired lease stays valid until other workers have completed its task."""
    if row.expires_at <= now and not _task_is_still_open(connection, row.task_id, now):
        raise LeaseLost("this task's time ran out and others have finished it; take the next one")


def _count_lease_votes(connection: Connection, row: Any, positions: set[int], now: float) -> None:
    class_index = connection.scalar(CLASS_OF_TASK, {"task": row.task_id})
    pairs = connection.execute(TASK_IMAGES, {"task": row.task_id})
    roles: dict[str, str] = {pair.image_id: pair.role for pair in pairs}
    votes = [
        {
            "image_id": image,
            "class_index": class_index,
            "worker_id": row.worker_id,
            "role": roles[image],
            "selected": position in positions,
            "task_id": row.task_id,
            "at": now,
        }
        for position, image in enumerate(row.image_ids)
    ]
    connection.execute(NEW_VOTES, votes)
    connection.execute(ONE_MORE, {"task": row.task_id})


def _done_leases(connection: Connection, worker_id: str) -> int:
    return int(connection.scalar(DONE, {"worker": worker_id}) or 0)


def _lease_from_row(connection: Connection, row: Any, expires: float | None = None) -> Lease:
    class_index = connection.scalar(CLASS_OF_TASK, {"task": row.task_id})
    return Lease(
        row.token, int(class_index or 0), len(row.image_ids), row.expires_at if expires is None else expires
    )


def submitted_lease_seconds(project: ProjectFolder) -> dict[str, list[float]]:
    """Worker id to the seconds from lease to submission of every task."""
    seconds: dict[str, list[float]] = {}
    with project.database.read() as connection:
        query = select(Assignment.worker_id, Assignment.submitted_at - Assignment.leased_at)
        for worker, duration in connection.execute(query.where(Assignment.state == "submitted")):
            seconds.setdefault(worker, []).append(float(duration or 0.0))
    return seconds
