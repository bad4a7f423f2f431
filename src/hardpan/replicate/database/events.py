"""The event log of a project: what people and commands did, in the order of time."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, insert, select

from hardpan.replicate.database.connection import Event
from hardpan.replicate.folder import ProjectFolder


def stored_events(project: ProjectFolder, newest: int | None = None) -> list[dict[str, Any]]:
    """Every event, oldest first: id, at, actor, what, details; or so many of the ``newest``, newest first."""
    order = Event.id if newest is None else Event.id.desc()
    with project.database.read() as connection:
        rows = connection.execute(select(Event.__table__).order_by(order).limit(newest))
        return [dict(row._mapping) for row in rows]


def has_event(project: ProjectFolder, what: str) -> bool:
    """Whether an event of this kind has been logged."""
    with project.database.read() as connection:
        return connection.scalar(select(Event.id).where(Event.what == what).limit(1)) is not None


def add_event(project: ProjectFolder, actor: str, what: str, **details: Any) -> None:
    """Append an event of a page or command to the log."""
    with project.database.write() as connection:
        log_event(connection, project.clock(), actor, what, **details)


def log_event(connection: Connection, at: float, actor: str, what: str, /, **details: Any) -> None:
    """Append to the event log, inside the transaction of the change that it tells of."""
    connection.execute(insert(Event), {"at": at, "actor": actor, "what": what, "details": details})
