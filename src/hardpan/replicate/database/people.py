"""Invitations and the workers who came by them."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    bindparam,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from hardpan.arguments import one_of, whole_number
from hardpan.errors import InputError
from hardpan.replicate.database.connection import (
    Answer,
    Assignment,
    Decision,
    Event,
    Invitation,
    Worker,
    check_database_text,
)
from hardpan.replicate.database.events import log_event
from hardpan.replicate.folder import ProjectFolder

ROLES = ("annotator", "selector", "reviewer", "participant")
OWNER_LEFT = "owner-left"  # the event that ends a login on every server of the project
MOST_USES = 1_000_000_000
LINK_INVALID = "this link is not valid; ask for a new one"
LINK_ENDED = "this link has ended; ask for a new one"
ACCESS_ENDED = "your access to this project has ended; ask its owner for a new link"
USED_UP = "this link has been used by as many people as it was made for; ask for a new one"
FIRST_ANSWER_SECONDS = 300.0  # a newcomer who has not answered by then no longer occupies a use of a shared link


class PersonNotAdmitted(InputError):
    """The link or the person behind a session may not enter (any more)."""


class InvitationUsedUp(PersonNotAdmitted):
    """As many people as a link was made for have taken part."""


@dataclass(frozen=True, slots=True)
class StoredInvitation:
    """An invitation; ``link`` is the signed text that goes into its address.

    ``used`` counts the people who take part: have answered, or took their first task in the last five minutes.
    """

    id: str
    link: str
    role: str
    label: str
    uses: int
    used: int
    revoked: bool


@dataclass(frozen=True, slots=True)
class StoredPerson:
    """A worker: annotator, selector (author A), reviewer (author B), or participant of the human experiment."""

    id: str
    role: str
    external_id: str
    invitation: str
    blocked: bool = False
    excluded: bool = False


def new_person_id() -> str:
    """A random name of 16 characters; a letter or digit first: tables must mark what could begin a formula."""
    while not (name := secrets.token_urlsafe(12))[0].isalnum():
        pass
    return name


def invite_people(
    project: ProjectFolder, *, role: str = "annotator", uses: int = 1, label: str = "", seconds: float | None = None
) -> StoredInvitation:
    """Make an invitation for ``uses`` people of one role, valid for ``seconds`` (without end if None)."""
    one_of("role", role, ROLES)
    whole_number("uses", uses, 1, MOST_USES)
    check_database_text("label", label)
    now = project.clock()
    name = new_person_id()
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
        log_event(connection, now, "owner", "invited", invitation=name, role=role, uses=uses)
    return stored_invitations(project, name)[0]


def stored_invitations(project: ProjectFolder, only: str | None = None) -> list[StoredInvitation]:
    """Every invitation, oldest first, with how many people have taken part."""
    used = (
        select(func.count())
        .where(Worker.invitation_id == Invitation.id, _person_takes_part(project.clock()))
        .correlate(Invitation)
        .scalar_subquery()
    )
    query = select(Invitation.__table__, used.label("used"))
    if only is not None:
        query = query.where(Invitation.id == only)
    with project.database.read() as connection:
        rows = connection.execute(query.order_by(Invitation.created_at, Invitation.id)).all()
    return [
        StoredInvitation(
            row.id,
            invitation_link(project, row.id),
            row.role,
            row.label,
            row.uses,
            row.used,
            row.revoked_at is not None,
        )
        for row in rows
    ]


def invitation_link(project: ProjectFolder, invitation: str) -> str:
    """The signed text of an invitation that goes into its address."""
    return f"{invitation}.{project.sign('invitation', invitation)}"


def revoke_invitation(project: ProjectFolder, invitation: str) -> None:
    """End an invitation and the sessions of those who entered by it."""
    with project.database.write() as connection:
        now = project.clock()
        changed = connection.execute(update(Invitation).where(Invitation.id == invitation).values(revoked_at=now))
        if not changed.rowcount:
            raise InputError(f"invitation {invitation[:40]!r} is not in this project; give the id of one")
        _dismiss_people(connection, now, Worker.invitation_id == invitation)
        log_event(connection, now, "owner", "revoked", invitation=invitation)


def block_worker(project: ProjectFolder, worker_id: str, *, exclude_votes: bool = False) -> None:
    """End a worker's access; with ``exclude_votes``, their votes stay stored and marked but count nowhere."""
    with project.database.write() as connection:
        now = project.clock()
        values = {"blocked_at": func.coalesce(Worker.blocked_at, now)}
        if exclude_votes:
            values["excluded_at"] = func.coalesce(Worker.excluded_at, now)
        _update_worker(connection, worker_id, values)
        _dismiss_people(connection, now, Worker.id == worker_id)
        log_event(connection, now, "owner", "blocked", worker=worker_id, votes_excluded=exclude_votes)


def unblock_worker(project: ProjectFolder, worker_id: str) -> None:
    """Give a blocked worker access again, and count the votes again."""
    with project.database.write() as connection:
        _update_worker(connection, worker_id, {"blocked_at": None, "excluded_at": None})
        log_event(connection, project.clock(), "owner", "unblocked", worker=worker_id)


def _update_worker(connection: Connection, worker_id: str, values: dict[str, Any]) -> None:
    if not connection.execute(update(Worker).where(Worker.id == worker_id).values(values)).rowcount:
        raise InputError(f"worker {worker_id[:40]!r} is not in this project; the workers are in workers.csv")


def excluded_workers(project: ProjectFolder) -> frozenset[str]:
    """Ids of the workers whose votes are excluded."""
    with project.database.read() as connection:
        return frozenset(connection.scalars(select(Worker.id).where(Worker.excluded_at.is_not(None))))


def owner_session_ended(project: ProjectFolder, session: str) -> bool:
    """Whether the owner has signed out of this login."""
    with project.database.read() as connection:
        ended = connection.scalars(select(Event.details).where(Event.what == OWNER_LEFT)).all()
    return any(details.get("session") == session for details in ended)


def check_worker_admitted(project: ProjectFolder, worker_id: str) -> None:
    """Raise :class:`PersonNotAdmitted` for a person who was blocked, or whose link was revoked or has expired."""
    with project.database.read() as connection:
        if _checked_person(connection, worker_id, project.clock()) is None:
            raise PersonNotAdmitted(ACCESS_ENDED)


def enter_by_invitation(
    project: ProjectFolder, link: str, *, external_id: str = "", role: str = ""
) -> StoredPerson:
    """Let a person in by a signed link: the same person for the same link and external id, every time.

    A link of one use is one person, whoever opens it. A link of more uses distinguishes people by ``external_id``
    (a crowd platform's worker number); without one every call is a new person, which the page keeps in its cookie.
    A use of such a link is counted when a person takes part, so opening it again and again uses nothing up, and
    taking tasks without answering them uses it up for five minutes only.

    Args:
        project: an open project.
        link: the signed text of an invitation.
        external_id: a crowd platform's worker number.
        role: what the page is for; a link of another role is refused and nothing is recorded.
    """
    name, _, signature = link.rpartition(".")
    if not name or not project.is_signed("invitation", name, signature):
        raise PersonNotAdmitted(LINK_INVALID)
    check_database_text("external_id", external_id, 200)
    now = project.clock()
    with project.database.write() as connection:
        invitation = connection.execute(
            select(Invitation.__table__).where(Invitation.id == name).with_for_update()
        ).first()
        if invitation is None or (role and invitation.role != role):
            raise PersonNotAdmitted(LINK_INVALID)
        if invitation.revoked_at is not None or (invitation.expires_at is not None and invitation.expires_at < now):
            raise PersonNotAdmitted(LINK_ENDED)
        external = "" if invitation.uses == 1 else external_id
        if external or invitation.uses == 1:
            known = connection.execute(
                select(Worker.__table__).where(Worker.invitation_id == name, Worker.external_id == external)
            ).first()
            if known is not None:
                if known.blocked_at is not None:
                    raise PersonNotAdmitted(ACCESS_ENDED)
                return _person_from_row(known)
        if _people_taking_part(connection, name, now) >= invitation.uses:
            raise InvitationUsedUp(USED_UP)
        worker = new_person_id()
        # A link of several uses without an outside name: the worker's own id keeps the pair unique.
        external = external or ("" if invitation.uses == 1 else f"#{worker}")
        row = {"id": worker, "invitation_id": name, "external_id": external, "role": invitation.role}
        connection.execute(insert(Worker), row | {"created_at": now})
        log_event(connection, now, worker, "entered", invitation=name, role=invitation.role)
        return StoredPerson(worker, invitation.role, external, name)


def _people_taking_part(connection: Connection, invitation: str, now: float, *, besides: str = "") -> int:
    """How many people of an invitation have answered, or took a task in the last :data:`FIRST_ANSWER_SECONDS`.

    ``besides`` one who asks for the first time, perhaps in two tabs at the same moment.
    """
    people = (Worker.invitation_id == invitation, Worker.id != besides, _person_takes_part(now))
    return int(connection.scalar(select(func.count()).select_from(Worker).where(*people)) or 0)


def check_person_admitted(connection: Connection, worker_id: str, now: float, role: str = "") -> None:
    """Raise :class:`PersonNotAdmitted` for a person without access, or whose link others used up before they began.

    Who came by no link is the owner or a worker of imported votes; only a ``role`` needs a person of that role.
    """
    row = _checked_person(connection, worker_id, now)
    if role and (row is None or row.role != role):
        raise InputError(f"this is for people with the role {role}; enter by such a link")
    if row is None or row.id is None or connection.scalar(_TAKES_PART, {"worker": worker_id, "now": now}):
        return
    connection.execute(_INVITATION_LOCKED, {"invitation": row.id})  # newcomers of a link begin one at a time
    if _people_taking_part(connection, row.id, now, besides=worker_id) >= row.uses:
        raise InvitationUsedUp(USED_UP)


def _checked_person(connection: Connection, worker_id: str, now: float) -> Any:
    row = connection.execute(_PERSON, {"worker": worker_id}).first()
    if row is not None and (row.blocked_at is not None or row.revoked_at is not None):
        raise PersonNotAdmitted(ACCESS_ENDED)
    if row is not None and row.expires_at is not None and row.expires_at < now:
        raise PersonNotAdmitted(LINK_ENDED)
    return row


def stored_workers(project: ProjectFolder, only: str | None = None) -> list[StoredPerson]:
    """Every worker, in the order of their coming, or ``only`` the one with this id."""
    query = select(Worker.__table__).order_by(Worker.created_at, Worker.id)
    with project.database.read() as connection:
        rows = connection.execute(query if only is None else query.where(Worker.id == only))
        return [_person_from_row(row) for row in rows]


def worker_completion_code(project: ProjectFolder, worker_id: str) -> str:
    """What a worker pastes into a crowd platform: the number of tasks done and a signature of it."""
    with project.database.read() as connection:
        done = connection.scalar(
            select(func.count()).where(Assignment.worker_id == worker_id, Assignment.state == "submitted")
        )
    signature = project.sign("completion", f"{worker_id}:{done}").replace("-", "x").replace("_", "y")
    return f"{done}-{signature[:12].upper()}"


def _person_from_row(row: Any) -> StoredPerson:
    blocked, excluded = row.blocked_at is not None, row.excluded_at is not None
    return StoredPerson(row.id, row.role, row.external_id, row.invitation_id or "", blocked, excluded)


def _person_takes_part(now: Any) -> ColumnElement[bool]:
    mine = Assignment.worker_id == Worker.id
    leased = and_(Assignment.expires_at > now, Assignment.leased_at > now - FIRST_ANSWER_SECONDS)
    return or_(
        exists().where(mine, or_(Assignment.state == "submitted", leased)),
        exists().where(Decision.worker_id == Worker.id),
        exists().where(Answer.worker_id == Worker.id),
    )


def _dismiss_people(connection: Connection, now: float, who: ColumnElement[bool]) -> None:
    """End the leases of these people, so that others get their tasks."""
    leased = (
        Assignment.worker_id.in_(select(Worker.id).where(who)),
        Assignment.state == "leased",
        Assignment.expires_at > now,
    )
    connection.execute(update(Assignment).where(*leased).values(expires_at=now))


# Built once: building a statement costs more than running it.
_PERSON = (
    select(
        Worker.role,
        Worker.blocked_at,
        Invitation.id,
        Invitation.uses,
        Invitation.revoked_at,
        Invitation.expires_at,
    )
    .outerjoin(Invitation, Invitation.id == Worker.invitation_id)
    .where(Worker.id == bindparam("worker"))
)
_TAKES_PART = select(Worker.id).where(Worker.id == bindparam("worker"), _person_takes_part(bindparam("now")))
_INVITATION_LOCKED = select(Invitation.id).where(Invitation.id == bindparam("invitation")).with_for_update()
