"""The statements behind leases, built once: a server runs them for every task and every submission.

Building a statement costs more than running it here, and SQLite lets one writer in at a time.
"""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import BindParameter, Table, and_, bindparam, exists, func, insert, or_, select, update

from hardpan.replicate.database.connection import in_plain_order
from hardpan.replicate.database.models import Assignment, Invitation, Task, TaskImage, Vote, Worker

_assignments = cast(Table, Assignment.__table__)
_tasks = cast(Table, Task.__table__)
_places = cast(Table, TaskImage.__table__)
_votes = cast(Table, Vote.__table__)
_workers = cast(Table, Worker.__table__)
_invitations = cast(Table, Invitation.__table__)
_a, _t, _p, _v = _assignments.c, _tasks.c, _places.c, _votes.c

_worker: BindParameter[Any] = bindparam("worker")
_now: BindParameter[Any] = bindparam("now")
_task: BindParameter[Any] = bindparam("task")
_running = and_(_a.state == "leased", _a.expires_at > _now)
_mine = select(_a.task_id).where(_a.worker_id == _worker, or_(_a.state == "submitted", _a.expires_at > _now))
_leased = select(_a.task_id, func.count().label("held")).where(_running).group_by(_a.task_id).subquery()
_taken = _t.submitted + func.coalesce(_leased.c.held, 0)

WORKER = (
    select(
        _workers.c.role, _workers.c.blocked_at, _invitations.c.id, _invitations.c.uses, _invitations.c.revoked_at
    )
    .outerjoin(_invitations, _invitations.c.id == _workers.c.invitation_id)
    .where(_workers.c.id == _worker)
)
INVITATION_LOCKED = select(_invitations.c.id).where(_invitations.c.id == bindparam("invitation")).with_for_update()
TAKES_PART = (
    select(_a.id).where(_a.worker_id == _worker, or_(_a.state == "submitted", _a.expires_at > _now)).limit(1)
)
HELD = select(_assignments).where(_a.worker_id == _worker, _running).order_by(_a.leased_at)
OPEN_TASKS = (
    select(_t.id)
    .outerjoin(_leased, _leased.c.task_id == _t.id)
    .where(_taken < _t.wanted, _t.id.not_in(_mine))
    .order_by(_taken.desc(), _t.id)
)
# Asked image by image: each answer is a step into an index, however much the worker has done.
_elsewhere = _places.alias()
_held_or_done = exists().where(
    _a.task_id == _elsewhere.c.task_id,
    _a.worker_id == _worker,
    or_(_a.state == "submitted", _a.expires_at > _now),
)
_before = exists().where(_elsewhere.c.image_id == _p.image_id, _held_or_done.correlate(_elsewhere))
_answered = exists().where(_v.worker_id == _worker, _v.image_id == _p.image_id)
BLOCKED = (
    select(_p.task_id)
    .where(_p.task_id.in_(bindparam("tasks", expanding=True)))
    .where(or_(_before.correlate(_places), _answered.correlate(_places)))
    .distinct()
)
TASK_LOCKED = select(_t.wanted, _t.submitted).where(_t.id == _task).with_for_update()
HELD_OF_TASK = select(func.count()).where(_a.task_id == _task, _running)
CLASS_OF_TASK = select(_t.class_index).where(_t.id == _task)
OWN_EARLIER = select(_assignments).where(_a.task_id == _task, _a.worker_id == _worker)
OWN_LOCKED = select(_assignments).where(_a.token == bindparam("token"), _a.worker_id == _worker).with_for_update()
TASK_IMAGES = select(_p.image_id, _p.role).where(_p.task_id == _task).order_by(in_plain_order(_p.image_id))
ANSWERED_BEFORE = (
    select(_v.id).where(_v.worker_id == _worker, _v.image_id.in_(bindparam("images", expanding=True))).limit(1)
)
DONE = select(func.count()).where(_a.worker_id == _worker, _a.state == "submitted")
TOTALS = select(func.coalesce(func.sum(_t.submitted), 0), func.coalesce(func.sum(_t.wanted), 0))

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
