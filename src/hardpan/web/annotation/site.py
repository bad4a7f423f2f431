"""What the pages of one project share, and the two forms that almost every route has."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hardpan.replicate import Project
from hardpan.replicate.database.images import stored_example
from hardpan.replicate.database.people import PersonNotAdmitted, check_worker_admitted, owner_session_ended
from hardpan.web.security import Gate, Limits, RateLimiter, Role, Session, read_request_json, request_text
from hardpan.web.shell import Shell, sentence

# What the database calls the people of each part of the site.
ROLE_NAMES = {role.name.lower(): role for role in Role if role is not Role.OWNER}

A = TypeVar("A")
B = TypeVar("B")
Body = Mapping[str, Any]
View = Callable[["Site", Session, Request], Response]
Action = Callable[["Site", Session, Body], Any]
Picture = Callable[["Site", Session, Mapping[str, Any]], bytes]


class Site:
    """One project being served: its functions, its gate, its templates, and how many may write at once."""

    def __init__(self, project: Project, limits: Limits) -> None:
        self.project = project
        self.gate = Gate(project.secret, project.owner_hash, limits.posts_per_second)
        self.shell = Shell(project.config.name, noun=project.kind.noun)
        self.entries = RateLimiter(limits.entries_per_minute / 60, limits.entries_per_minute)
        self.newcomers = RateLimiter(limits.newcomers_per_hour / 3600, limits.newcomers_per_hour)
        self.image_seconds = limits.image_seconds
        self._write_slots = 1 if project.database.dialect == "sqlite" else 8
        self._read_slots = 16

    # SQLite has one writer: waiting here in order is shorter than asking its lock again and again.
    @functools.cached_property
    def writers(self) -> anyio.CapacityLimiter:
        """How many may write at the same time."""
        return anyio.CapacityLimiter(self._write_slots)

    @functools.cached_property
    def readers(self) -> anyio.CapacityLimiter:
        """How many may read at the same time."""
        return anyio.CapacityLimiter(self._read_slots)

    def admit(self, session: Session) -> None:
        """Refuse (401) a person who was blocked or whose invitation was revoked, and an owner who has left."""
        if session.role is Role.OWNER:
            if owner_session_ended(self.project, session.id):
                raise HTTPException(401, "You have left. Open the owner's link to enter again.")
            return
        try:
            check_worker_admitted(self.project, session.person)
        except PersonNotAdmitted as error:
            raise HTTPException(401, sentence(error)) from None

    async def run(
        self,
        session: Session,
        do: Callable[[Site, Session, A], B],
        argument: A,
        *,
        writes: bool = False,
        admits: bool = True,
    ) -> B:
        """``do(site, session, argument)`` outside the event loop, for a person whose access has not ended."""

        def admitted() -> B:
            if admits:
                self.admit(session)
            return do(self, session, argument)

        return await anyio.to_thread.run_sync(admitted, limiter=self.writers if writes else self.readers)

    def class_name(self, index: int) -> str:
        """The name of a target class."""
        return self.project.classes[index].name

    def class_number(self, text: str) -> int | None:
        """The number of a target class in an address, or None where there is no such class."""
        known = text.isascii() and text.isdigit() and len(text) < 7 and int(text) < len(self.project.classes)
        return int(text) if known else None


def page_route(site: Site, path: str, role: Role, show: View) -> Route:
    """A page for one role: ``show(site, session, request)`` runs outside the event loop."""

    async def endpoint(request: Request) -> Response:
        return await site.run(site.gate.require(request, role), show, request)

    return Route(path, endpoint, methods=["GET"])


def post_route(site: Site, path: str, role: Role, do: Action, *, writes: bool = True, admits: bool = True) -> Route:
    """A post for one role: ``do(site, session, body)`` returns what becomes the answer's JSON.

    Without ``admits`` it is ``do`` that refuses a person whose access has ended, in its own transaction.
    """

    async def endpoint(request: Request) -> Response:
        session = site.gate.require(request, role)
        body = await read_request_json(request)
        return JSONResponse(await site.run(session, do, body, writes=writes, admits=admits))

    return Route(path, endpoint, methods=["POST"])


def image_route(site: Site, path: str, role: Role, find: Picture, *, blinded: bool = False) -> Route:
    """An image or text for one role: ``find(site, session, parameters of the address)`` gives what is sent.

    A ``blinded`` one is sent as it is, at a multiple of ``image_seconds`` after the request: how long reading took
    must not reveal whether it comes from the original set.
    """

    async def endpoint(request: Request) -> Response:
        session = site.gate.require(request, role)
        start = time.monotonic()
        content = await site.run(session, find, {**request.query_params, **request.path_params})
        if blinded and site.image_seconds:
            await anyio.sleep((start - time.monotonic()) % site.image_seconds)
        kind = "image/png" if content.startswith(b"\x89PNG") else "image/webp"
        kind = "text/plain" if site.project.kind.noun == "text" else kind
        return Response(content, media_type=kind, headers={"Cache-Control": "private, max-age=86400, immutable"})

    return Route(path, endpoint, methods=["GET"])


def image_by_id(site: Site, session: Session, parameters: Mapping[str, Any]) -> bytes:
    """An image or text by its id, for selectors and reviewers."""
    return site.project.kind.sent(stored_example(site.project, request_text(parameters, "id")), blinded=False)
