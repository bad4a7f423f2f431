"""The app of ``hardpan replicate serve``: one module per page, one list of routes."""

from __future__ import annotations

import sys

from starlette.types import ASGIApp

from hardpan import files
from hardpan.replicate import Project
from hardpan.replicate.database.leases import LeaseLost
from hardpan.replicate.database.people import InvitationUsedUp, PersonNotAdmitted
from hardpan.web import serving
from hardpan.web.annotation.annotate import annotator_routes, participant_routes
from hardpan.web.annotation.entry import entry_links, entry_routes
from hardpan.web.annotation.owner import owner_routes
from hardpan.web.annotation.review import review_routes
from hardpan.web.annotation.site import Site
from hardpan.web.security import Limits, protect

__all__ = ["create_app", "serve"]

ROUTES = (entry_routes, annotator_routes, review_routes, participant_routes, owner_routes)


def create_app(project: Project, limits: Limits | None = None, address: str = "") -> ASGIApp:
    """The annotation site of an open project, guarded.

    Args:
        project: an open project; its database may be shared with other servers.
        limits: how much it lets through; the defaults suit a few hundred workers.
        address: what people type, as :func:`hardpan.web.serving.public_address` writes it; default: any.
    """
    limits = limits or Limits()
    site = Site(project, limits)
    app = site.shell.app([route for routes in ROUTES for route in routes(site)])
    app.add_exception_handler(LeaseLost, site.shell.refusal(410))
    app.add_exception_handler(PersonNotAdmitted, site.shell.refusal(401))
    app.add_exception_handler(InvitationUsedUp, site.shell.refusal(403))
    return protect(app, limits, address)


def serve(
    project: Project,
    port: int,
    host: str,
    workers_expected: int,
    address: str,
    trusted_proxy: str,
    new_owner_link: bool,
    json: bool,
) -> None:
    """Serve a project until Ctrl-C; arguments as for :meth:`hardpan.replicate.Project.serve`."""
    address = serving.public_address(address) if address else ""
    with serving.bind(host, port) as listener:
        for warning in serving.exposure(listener, address, trusted_proxy):
            print(f"hardpan: {warning}", file=sys.stderr)
        base = address or serving.address(listener, host)
        application = create_app(project, address=address)
        links = entry_links(project, base, admits=workers_expected, new_owner=new_owner_link)
        # Written through at once: whoever started the server waits for its links.
        print(files.json_text(links) if json else links.as_text(), flush=True)
        serving.run(application, listener, trusted_proxy=trusted_proxy)
