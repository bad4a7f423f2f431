"""The owner's page: how far it is, how good it is, who is invited, and everything to take away."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from hardpan import replicate
from hardpan.web.annotation import exports, figures, links
from hardpan.web.annotation.site import ROLE_NAMES, Body, Site, action, view
from hardpan.web.security import Role, Session
from hardpan.web.shell import flag_of, number_of, text_of

LONGEST_LABEL = 100
MOST_LINKS = 500
EVENTS_SHOWN = 12


def routes(site: Site) -> list[BaseRoute]:
    """Everything under /owner but the door."""
    role = Role.OWNER
    fresh = Fresh()
    return [
        view(site, "/owner/", role, page),
        view(site, "/owner/live", role, lambda *given: live(fresh, *given)),
        action(site, "/owner/api/invite", role, invite),
        action(site, "/owner/api/revoke", role, revoke),
        action(site, "/owner/api/block", role, block),
        action(site, "/owner/api/unblock", role, unblock),
        Route("/owner/api/leave", _leave(site), methods=["POST"]),
        *(view(site, f"/owner/export/{name}", role, download) for name in exports.EXPORTS),
    ]


class Fresh:
    """The dashboard's figures, counted anew only when the last count is older than ten times what it took."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._figures: figures.Figures | None = None
        self._good_until = 0.0
        self._last_events: deque[dict[str, Any]] = deque(maxlen=EVENTS_SHOWN)
        self._seen = 0

    def events(self, site: Site) -> list[dict[str, Any]]:
        """The newest events, newest first; only what is new is read."""
        with self._lock:
            for event in exports.events_after(site.project, self._seen):
                self._seen = event["id"]
                self._last_events.append({**event, "at": exports.time_text(event["at"])})
            return list(self._last_events)[::-1]

    def get(self, site: Site) -> figures.Figures:
        """The figures; many windows share one count."""
        with self._lock:
            start = time.monotonic()
            if self._figures is None or start >= self._good_until:
                self._figures = figures.count(site.project)
                end = time.monotonic()
                self._good_until = end + 10 * (end - start)
            return self._figures


def page(site: Site, session: Session, request: Request) -> Response:
    """The dashboard; its figures come by /owner/live."""
    names = [item.name for item in site.project.classes]
    return site.shell.page(
        "owner.html",
        session=session,
        classes=names,
        roles=list(ROLE_NAMES),
        exports=exports.EXPORTS,
        grid=site.project.config.grid,
    )


def live(fresh: Fresh, site: Site, session: Session, request: Request) -> Response:
    """The part of the dashboard that changes, as HTML."""
    chosen = request.query_params.get("class", "")
    known = chosen.isascii() and chosen.isdigit() and len(chosen) < 7 and int(chosen) < len(site.project.classes)
    invited = [(item, links.path_of(item)) for item in replicate.invitations(site.project)]
    return site.shell.page(
        "owner_live.html",
        figures=fresh.get(site),
        chosen=int(chosen) if known else None,
        classes=[item.name for item in site.project.classes],
        invited=invited[::-1],
        events=fresh.events(site),
    )


def invite(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """Make links: ``count`` of them, each for ``uses`` people of a role."""
    role, label = text_of(body, "role", 20), body.get("label", "")
    if role not in ROLE_NAMES:
        raise HTTPException(400, f"role must be one of {', '.join(ROLE_NAMES)}.")
    if label != "":
        label = text_of(body, "label", LONGEST_LABEL)
    uses, count = int(number_of(body, "uses", 1, 100_000)), int(number_of(body, "count", 1, MOST_LINKS))
    made = [replicate.invite(site.project, role=role, uses=uses, label=label) for _ in range(count)]
    return {"paths": [links.path_of(item) for item in made]}


def revoke(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """End a link, and the sessions of the people who came by it."""
    replicate.revoke(site.project, text_of(body, "invitation", 64))
    return {}


def block(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """End a worker's access; their votes are excluded where that was asked for."""
    replicate.block(site.project, text_of(body, "worker", 64), exclude_votes=flag_of(body, "exclude"))
    return {}


def unblock(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """Give a worker access again."""
    replicate.unblock(site.project, text_of(body, "worker", 64))
    return {}


def download(site: Site, session: Session, request: Request) -> Response:
    """A file with everything of one kind."""
    name = request.url.path.rpartition("/")[2]
    content, kind = exports.write(site.project, name)
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def _leave(site: Site) -> Any:
    async def endpoint(request: Request) -> Response:
        site.gate.require(request, Role.OWNER)
        answer = JSONResponse({"next": "/owner/enter"})
        site.gate.close(answer, Role.OWNER)
        return answer

    return endpoint
