"""Invitations and the workers who came by them."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from hardpan.errors import InputError
from hardpan.replicate.database.connection import log
from hardpan.replicate.database.models import Assignment, Invitation, Worker
from hardpan.replicate.project import Project

ROLES = ("annotator", "selector", "reviewer", "participant")
MOST_EXTERNAL = 200
MOST_USES = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Invited:
    """An invitation; ``link`` is the signed text that goes into its address."""

    id: str
    link: str
    role: str
    label: str
    uses: int
    used: int
    expires_at: float | None
    revoked: bool


@dataclass(frozen=True, slots=True)
class Person:
    """A worker: annotator, selector (author A), reviewer (author B), or participant of the human experiment."""

    id: str
    role: str
    external_id: str
    invitation: str
    created_at: float


def new_name() -> str:
    """A random name; a letter or digit comes first, for tables must mark what could begin a formula.

    Example:
        >>> len(new_name())
        16
    """
    while not (name := secrets.token_urlsafe(12))[0].isalnum():
        pass
    return name


def invite(
    project: Project, *, role: str = "annotator", uses: int = 1, label: str = "", seconds: float | None = None
) -> Invited:
    """Make an invitation for ``uses`` people of one role, good for ``seconds`` (for ever where None)."""
    if role not in ROLES:
        raise InputError(f"role must be one of {', '.join(ROLES)}; got {role!r}")
    if not 1 <= uses <= MOST_USES:
        raise InputError(f"uses must be a number from 1 to {MOST_USES:,}; got {uses}")
    if "\0" in label:
        raise InputError("label holds a null character; give it without")
    now = project.clock()
    name = new_name()
    row = {
        "id": name,
        "role": role,
        "label": label,
        "uses": uses,
        "created_at": now,
        "expires_at": None if seconds is None else now + seconds,
        "revoked_at": None,
    }
    with project.database.write() as connection:
        connection.execute(insert(Invitation), row)
        log(connection, now, "owner", "invited", invitation=name, role=role, uses=uses)
    return invitations(project, name)[0]


def invitations(project: Project, only: str | None = None) -> list[Invited]:
    """Every invitation, oldest first, with how many people came by it."""
    used = select(Worker.invitation_id, func.count().label("used")).group_by(Worker.invitation_id).subquery()
    query = select(Invitation.__table__, func.coalesce(used.c.used, 0).label("used")).outerjoin(
        used, used.c.invitation_id == Invitation.id
    )
    if only is not None:
        query = query.where(Invitation.id == only)
    with project.database.read() as connection:
        rows = connection.execute(query.order_by(Invitation.created_at, Invitation.id)).all()
    return [
        Invited(
            row.id,
            f"{row.id}.{project.sign('invitation', row.id)}",
            row.role,
            row.label,
            row.uses,
            row.used,
            row.expires_at,
            row.revoked_at is not None,
        )
        for row in rows
    ]


def revoke(project: Project, invitation: str) -> None:
    """Let nobody else in by this invitation; who came by it may go on."""
    with project.database.write() as connection:
        now = project.clock()
        connection.execute(update(Invitation).where(Invitation.id == invitation).values(revoked_at=now))
        log(connection, now, "owner", "revoked", invitation=invitation)


def enter(project: Project, link: str, *, external_id: str = "") -> Person:
    """Let a person in by a signed link: the same person for the same link and external id, every time.

    A link of one use is one person, whoever opens it. A link of more uses tells people apart by ``external_id``
    (a crowd platform's worker number); without one every call is a new person, which the page keeps in its cookie.
    """
    name, _, signature = link.rpartition(".")
    if not name or not project.is_signed("invitation", name, signature):
        raise InputError("this link is not valid; ask for a new one")
    if len(external_id) > MOST_EXTERNAL or "\0" in external_id:
        raise InputError(f"external_id must be text of at most {MOST_EXTERNAL} characters")
    now = project.clock()
    with project.database.write() as connection:
        found = connection.execute(
            select(Invitation.__table__).where(Invitation.id == name).with_for_update()
        ).first()
        if found is None:
            raise InputError("this link is not valid; ask for a new one")
        external = "" if found.uses == 1 else external_id
        if external or found.uses == 1:
            known = connection.execute(
                select(Worker.__table__).where(Worker.invitation_id == name, Worker.external_id == external)
            ).first()
            if known is not None:
                return _person(known)
        used = connection.scalar(select(func.count()).where(Worker.invitation_id == name)) or 0
        if found.revoked_at is not None or (found.expires_at is not None and found.expires_at < now):
            raise InputError("this link has ended; ask for a new one")
        if used >= found.uses:
            raise InputError("this link has been used by as many people as it was made for; ask for a new one")
        worker = new_name()
        # A link of several uses without an outside name: the worker's own id keeps the pair unique.
        external = external or ("" if found.uses == 1 else f"#{worker}")
        return _new_worker(connection, now, worker, name, external, found.role)


def worker(project: Project, worker_id: str) -> Person | None:
    """A worker by id, or None."""
    with project.database.read() as connection:
        row = connection.execute(select(Worker.__table__).where(Worker.id == worker_id)).first()
    return None if row is None else _person(row)


def workers(project: Project) -> list[Person]:
    """Every worker, in the order of their coming."""
    with project.database.read() as connection:
        rows = connection.execute(select(Worker.__table__).order_by(Worker.created_at, Worker.id)).all()
    return [_person(row) for row in rows]


def completion_code(project: Project, worker_id: str) -> str:
    """What a worker pastes into a crowd platform: the number of tasks done and a signature of it."""
    with project.database.read() as connection:
        done = connection.scalar(
            select(func.count()).where(Assignment.worker_id == worker_id, Assignment.state == "submitted")
        )
    signature = project.sign("completion", f"{worker_id}:{done}").replace("-", "x").replace("_", "y")
    return f"{done}-{signature[:12].upper()}"


def _new_worker(
    connection: Connection, now: float, worker_id: str, invitation: str | None, external: str, role: str
) -> Person:
    row = {"id": worker_id, "invitation_id": invitation, "external_id": external, "role": role, "created_at": now}
    connection.execute(insert(Worker), row)
    log(connection, now, worker_id, "entered", invitation=invitation, role=role)
    return Person(worker_id, role, external, invitation or "", now)


def _person(row: Any) -> Person:
    return Person(row.id, row.role, row.external_id, row.invitation_id or "", row.created_at)
