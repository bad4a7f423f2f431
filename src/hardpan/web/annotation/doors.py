"""How people come in: workers by signed links, the owner by the token."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from hardpan import replicate
from hardpan.errors import InputError
from hardpan.web.annotation import links
from hardpan.web.annotation.site import ROLE_NAMES, ROLE_OF, Site
from hardpan.web.security import Role, check_origin
from hardpan.web.shell import read_json, text_of

# What the crowd platforms call their worker's number in the address that they open.
PLATFORM_NAMES = ("worker", "PROLIFIC_PID", "workerId", "participantId", "aid")
Endpoint = Callable[[Request], Awaitable[Response]]
_LATER = {"Retry-After": "600"}


def routes(site: Site) -> list[BaseRoute]:
    """The way in for every role, and the owner's way out."""
    roles = ROLE_NAMES.values()
    return [
        Route("/", _welcome(site), methods=["GET"]),
        *(Route(f"/{role.value}/join/{{link}}", _join(site, role), methods=["GET"]) for role in roles),
        Route("/owner/enter", _owner_door(site), methods=["GET"]),
        Route("/owner/api/enter", _owner_enters(site), methods=["POST"]),
    ]


def _welcome(site: Site) -> Endpoint:
    async def show(request: Request) -> Response:
        return site.shell.page("welcome.html")

    return show


def _join(site: Site, role: Role) -> Endpoint:
    def person_behind(request: Request) -> replicate.Person:
        link = request.path_params["link"]
        session = site.gate.session(request, role)
        person = replicate.worker(site.project, session.person) if session else None
        given = next((request.query_params[n] for n in PLATFORM_NAMES if request.query_params.get(n)), "")
        if person is None or link != _link_of(site, person) or given not in ("", person.external_id):
            if not given.isprintable():
                raise HTTPException(400, "The worker's number in this address cannot be read.")
            address = request.client.host if request.client else ""
            if not site.newcomers.allow(f"{address} {link}"):
                raise HTTPException(429, "Too many people entered from your address. Try again later.", _LATER)
            person = replicate.enter(site.project, link, external_id=given, role=ROLE_OF[role])
        else:
            replicate.check_admitted(site.project, person.id, entering=True)
        return person

    def let_in(request: Request) -> Response:
        with _counting_refusals(site, request):
            person = person_behind(request)
        answer = RedirectResponse(f"/{role.value}/", 303)
        site.gate.open(answer, request, role, person.id)
        return answer

    async def endpoint(request: Request) -> Response:
        if request.method == "HEAD" or "prefetch" in request.headers.get("sec-purpose", ""):
            raise HTTPException(503, "Open the link itself.")  # a look ahead must not use an invitation up
        try:
            return await anyio.to_thread.run_sync(let_in, request, limiter=site.writers)
        except InputError as error:
            raise HTTPException(403, f"{error}".capitalize() + ".") from None

    return endpoint


def _link_of(site: Site, person: replicate.Person) -> str:
    """The link by which a person came: whoever opens it again in the same browser stays the same person."""
    if not person.invitation:
        return ""
    return f"{person.invitation}.{site.project.sign('invitation', person.invitation)}"


def _owner_door(site: Site) -> Endpoint:
    async def show(request: Request) -> Response:
        return site.shell.page("owner_enter.html")

    return show


def _owner_enters(site: Site) -> Endpoint:
    async def enter(request: Request) -> Response:
        check_origin(request)
        body = await read_json(request)
        with _counting_refusals(site, request):
            if not links.is_owner(site.project, text_of(body, "token")):
                raise HTTPException(403, "This is not the owner's token.")
        answer = JSONResponse({"next": "/owner/"})
        site.gate.open(answer, request, Role.OWNER, "owner")
        return answer

    return enter


@contextmanager
def _counting_refusals(site: Site, request: Request) -> Iterator[None]:
    """Answer 429 to an address that was refused too often; people who may enter are not counted, however many."""
    address = request.client.host if request.client else ""
    if not site.entries.allow(address, cost=0):
        raise HTTPException(429, "Too many tries to enter. Wait a minute.", headers={"Retry-After": "60"})
    try:
        yield
    except (InputError, HTTPException):
        site.entries.allow(address)
        raise
