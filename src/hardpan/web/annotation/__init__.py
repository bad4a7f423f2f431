"""The app of ``hardpan replicate serve``: one module a page, one list of routes."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from hardpan.replicate import Project
from hardpan.replicate.database.leases import LeaseLost
from hardpan.replicate.database.people import NotAdmitted
from hardpan.web.annotation import annotate, entry, links, owner, people, review, select
from hardpan.web.annotation.site import Site
from hardpan.web.security import Limits, protect

__all__ = ["create_app", "links"]

PAGES = (entry, annotate, select, review, people, owner)


def create_app(project: Project, limits: Limits | None = None) -> ASGIApp:
    """The annotation site of an open project, guarded.

    Args:
        project: an open project; its database may be shared with other servers.
        limits: how much it lets through; the defaults suit a few hundred workers.
    """
    limits = limits or Limits()
    site = Site(project, limits)
    app = site.shell.app([route for page in PAGES for route in page.routes(site)])
    app.add_exception_handler(LeaseLost, _gone)
    app.add_exception_handler(NotAdmitted, site.shell.forbidden)
    return protect(app, limits)


def _gone(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 410)
