"""How people enter: workers by signed links, the owner by the token of the owner's link; the links of a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

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
from hardpan.web.annotation.site import ROLE_NAMES, ROLE_OF, Site
from hardpan.web.security import Role, check_origin
from hardpan.web.shell import read_json, sentence, text_of

# What the crowd platforms call their worker's number in the address that they open.
PLATFORM_NAMES = ("worker", "PROLIFIC_PID", "workerId", "participantId", "aid")
Endpoint = Callable[[Request], Awaitable[Response]]
_LATER = {"Retry-After": "600"}
OWNER_LINK = "owner-link"  # the event of printing it
SHARED_LABEL = "printed by serve"


def routes(site: Site) -> list[BaseRoute]:
    """The entry of every role, and the owner's exit."""
    roles = ROLE_NAMES.values()
    return [
        Route("/", _page(site, "welcome.html"), methods=["GET"]),
        *(Route(f"/{role.value}/join/{{link}}", _join(site, role), methods=["GET"]) for role in roles),
        Route("/owner/enter", _page(site, "owner_enter.html"), methods=["GET"]),
        Route("/owner/api/enter", _owner_enters(site), methods=["POST"]),
        Route("/owner/api/leave", _owner_leaves(site), methods=["POST"]),
    ]


def _page(site: Site, template: str) -> Endpoint:
    async def show(request: Request) -> Response:
        return site.shell.page(template)

    return show


def _join(site: Site, role: Role) -> Endpoint:
    def person_behind(request: Request) -> people.StoredPerson:
        link = request.path_params["link"]
        session = site.gate.session(request, role)
        person = people.stored_worker(site.project, session.person) if session else None
        number = next((request.query_params[n] for n in PLATFORM_NAMES if request.query_params.get(n)), "")
        if person is None or link != _link_of(site, person) or number not in ("", person.external_id):
            if not number.isprintable():
                raise HTTPException(400, "The worker's number in this address cannot be read.")
            address = request.client.host if request.client else ""
            if not site.newcomers.allow(f"{address} {link}"):
                raise HTTPException(429, "Too many people entered from your address. Try again later.", _LATER)
            return people.enter_by_invitation(site.project, link, external_id=number, role=ROLE_OF[role])
        people.check_worker_admitted(site.project, person.id)
        return person

    def admit(request: Request) -> Response:
        with _counting_refusals(site, request):
            person = person_behind(request)
        answer = RedirectResponse(f"/{role.value}/", 303)
        site.gate.open(answer, request, role, person.id)
        return answer

    async def endpoint(request: Request) -> Response:
        if request.method == "HEAD" or "prefetch" in request.headers.get("sec-purpose", ""):
            raise HTTPException(503, "Open the link itself.")  # a preview must not use up an invitation
        try:
            return await anyio.to_thread.run_sync(admit, request, limiter=site.writers)
        except InputError as error:
            raise HTTPException(403, sentence(error)) from None

    return endpoint


def _link_of(site: Site, person: people.StoredPerson) -> str:
    """The link by which a person entered: whoever opens it again in the same browser stays the same person."""
    if not person.invitation:
        return ""
    return f"{person.invitation}.{site.project.sign('invitation', person.invitation)}"


def _owner_enters(site: Site) -> Endpoint:
    async def enter(request: Request) -> Response:
        check_origin(request)
        body = await read_json(request)
        with _counting_refusals(site, request):
            if not site.project.is_owner(text_of(body, "token")):
                raise HTTPException(403, "This is not the owner's token.")
        answer = JSONResponse({"next": "/owner/"})
        site.gate.open(answer, request, Role.OWNER, "owner")
        return answer

    return enter


def _owner_leaves(site: Site) -> Endpoint:
    async def leave(request: Request) -> Response:
        session = site.gate.require(request, Role.OWNER)
        # Recorded on the server: a copy of the cookie is worth nothing afterwards.
        await anyio.to_thread.run_sync(people.end_owner_session, site.project, session.id, limiter=site.writers)
        answer = JSONResponse({"next": "/owner/enter"})
        site.gate.close(answer, Role.OWNER)
        return answer

    return leave


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
    shared = _shared_invitation(project, admits)
    return EntryLinks(project.config.name, base, owner, f"{base}{path_of(shared)}", admits)


def _shared_invitation(project: Project, admits: int) -> people.StoredInvitation:
    """The invitation that was printed before, where it was made for as many."""
    for invited in people.stored_invitations(project):
        if invited.label == SHARED_LABEL and invited.uses == admits and not invited.revoked:
            return invited
    return people.invite_people(project, uses=admits, label=SHARED_LABEL)
