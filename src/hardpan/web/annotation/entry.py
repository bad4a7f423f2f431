"""How people enter: workers by signed links, the owner by the token of the owner's link; the links of a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from hardpan import files
from hardpan.errors import InputError
from hardpan.replicate import Project
from hardpan.replicate.database import people
from hardpan.replicate.database.events import add_event, has_event
from hardpan.web.annotation.site import ROLE_NAMES, Site
from hardpan.web.security import Role, check_origin, read_request_json, request_text
from hardpan.web.shell import sentence

# What the crowd platforms call their worker's number in the address that they open.
PLATFORM_NAMES = ("worker", "PROLIFIC_PID", "workerId", "participantId", "aid")
OWNER_LINK = "owner-link"  # the event of printing it
SHARED_LABEL = "printed by serve"


def entry_routes(site: Site) -> list[BaseRoute]:
    """The entry of every role, and the owner's exit."""
    return [
        Route("/", partial(show_entry_page, site, "welcome.html"), methods=["GET"]),
        *(Route(f"/{r.value}/join/{{link}}", partial(join, site, r), methods=["GET"]) for r in ROLE_NAMES.values()),
        Route("/owner/enter", partial(show_entry_page, site, "owner_enter.html"), methods=["GET"]),
        Route("/owner/api/enter", partial(enter_as_owner, site), methods=["POST"]),
        Route("/owner/api/leave", partial(leave_as_owner, site), methods=["POST"]),
    ]


async def show_entry_page(site: Site, template: str, request: Request) -> Response:
    """A page that needs no session."""
    return site.shell.page(template)


async def join(site: Site, role: Role, request: Request) -> Response:
    """Let in who opens a signed link."""
    if request.method == "HEAD" or "prefetch" in request.headers.get("sec-purpose", ""):
        raise HTTPException(503, "Open the link itself.")  # a preview must not use up an invitation

    def admit() -> Response:
        with _counting_refusals(site, request):
            person = _joining_person(site, role, request)
        answer = RedirectResponse(f"/{role.value}/", 303)
        site.gate.open(answer, request, role, person.id)
        return answer

    try:
        return await anyio.to_thread.run_sync(admit, limiter=site.writers)
    except InputError as error:
        raise HTTPException(403, sentence(error)) from None


def _joining_person(site: Site, role: Role, request: Request) -> people.StoredPerson:
    """Whoever opens a link again in the same browser stays the same person."""
    link = request.path_params["link"]
    session = site.gate.session(request, role)
    known = people.stored_workers(site.project, session.person) if session else []
    number = next((request.query_params[n] for n in PLATFORM_NAMES if request.query_params.get(n)), "")
    for person in known:
        own_link = people.invitation_link(site.project, person.invitation)
        if link == own_link and number in ("", person.external_id):
            people.check_worker_admitted(site.project, person.id)
            return person
    if not number.isprintable():
        raise HTTPException(400, "The worker's number in this address cannot be read.")
    address = request.client.host if request.client else ""
    if not site.newcomers.allow(f"{address} {link}"):
        later = {"Retry-After": "600"}
        raise HTTPException(429, "Too many people entered from your address. Try again later.", later)
    return people.enter_by_invitation(site.project, link, external_id=number, role=role.name.lower())


async def enter_as_owner(site: Site, request: Request) -> Response:
    """Let the owner in by the token of the owner's link."""
    check_origin(request)
    body = await read_request_json(request)
    with _counting_refusals(site, request):
        if not site.project.is_owner(request_text(body, "token")):
            raise HTTPException(403, "This is not the owner's token.")
    answer = JSONResponse({"next": "/owner/"})
    site.gate.open(answer, request, Role.OWNER, "owner")
    return answer


async def leave_as_owner(site: Site, request: Request) -> Response:
    """End the owner's session; recorded on the server: a copy of the cookie is worth nothing afterwards."""
    session = site.gate.require(request, Role.OWNER)
    record = partial(add_event, site.project, "owner", people.OWNER_LEFT, session=session.id)
    await anyio.to_thread.run_sync(record, limiter=site.writers)
    answer = JSONResponse({"next": "/owner/enter"})
    site.gate.close(answer, Role.OWNER)
    return answer


@contextmanager
def _counting_refusals(site: Site, request: Request) -> Iterator[None]:
    """Answer 429 to an address that was refused too often.

    People who may enter are not counted and always enter, also where somebody else at their address was refused.
    """
    try:
        yield
    except (InputError, HTTPException):
        if not site.entries.allow(request.client.host if request.client else ""):
            raise HTTPException(429, "Too many attempts. Wait a minute.", headers={"Retry-After": "60"}) from None
        raise


@files.record
class EntryLinks:
    """Where a project is served, and the links to enter.

    Attributes:
        name: of the project.
        address: of the server.
        owner: the owner's link, at the first start only; "" where it was printed before.
        annotators: the invitation of the annotators.
        people: how many it admits.
    """

    name: str
    address: str
    owner: str
    annotators: str
    people: int

    def as_text(self) -> str:
        """The links as lines of text.

        Example:
            >>> print(EntryLinks("new-digits", "http://here", "", "http://here/annotate/join/a", 5).as_text())
            new-digits is served at http://here
            Owner: use the link that was printed at the first start (--new-owner-link makes a new one)
            Annotators (up to 5): http://here/annotate/join/a
            A crowd platform adds its worker's number to that link: ?worker=NUMBER
            Links for selectors, reviewers and participants: on the owner's page. Ctrl-C stops the server.
        """
        printed = "Owner: use the link that was printed at the first start (--new-owner-link makes a new one)"
        return "\n".join(
            [
                f"{self.name} is served at {self.address}",
                f"Owner (printed once; keep it secret): {self.owner}" if self.owner else printed,
                f"Annotators (up to {self.people}): {self.annotators}",
                "A crowd platform adds its worker's number to that link: ?worker=NUMBER",
                "Links for selectors, reviewers and participants: on the owner's page. Ctrl-C stops the server.",
            ]
        )


def path_of(invited: people.StoredInvitation) -> str:
    """The path of an invitation.

    Example:
        >>> path_of(people.StoredInvitation("a", "a.signature", "annotator", "", 1, 0, False))
        '/annotate/join/a.signature'
    """
    return f"/{ROLE_NAMES[invited.role].value}/join/{invited.link}"


def entry_links(project: Project, base: str, *, admits: int = 100, new_owner: bool = False) -> EntryLinks:
    """The links of a server: the annotators' always, the owner's at the first start or with ``new_owner``."""
    owner = ""
    if new_owner or not has_event(project, OWNER_LINK):
        owner = f"{base}/owner/enter#{project.renew_owner_token()}"
        add_event(project, "owner", OWNER_LINK)
    printed = (  # before, and for as many
        invited
        for invited in people.stored_invitations(project)
        if invited.label == SHARED_LABEL and invited.uses == admits and not invited.revoked
    )
    shared = next(printed, None) or people.invite_people(project, uses=admits, label=SHARED_LABEL)
    return EntryLinks(project.config.name, base, owner, f"{base}{path_of(shared)}", admits)
