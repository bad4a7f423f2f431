"""The links that a server prints and the owner's page shows."""

from __future__ import annotations

from hardpan import files
from hardpan.replicate import Project
from hardpan.replicate.database.people import Invited, invitations, invite
from hardpan.replicate.database.votes import add_event, has_event
from hardpan.web.annotation.site import ROLE_NAMES

MARK = "owner-link"
SHARED_LABEL = "printed by serve"


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


def path_of(invited: Invited) -> str:
    """The path of an invitation.

    Example:
        >>> path_of(Invited("a", "a.signature", "annotator", "", 1, 0, 0, None, False))
        '/annotate/join/a.signature'
    """
    return f"/{ROLE_NAMES[invited.role].value}/join/{invited.link}"


def entry_links(project: Project, base: str, *, people: int = 100, new_owner: bool = False) -> EntryLinks:
    """The links of a server: the annotators' always, the owner's at the first start or with ``new_owner``."""
    owner = ""
    if new_owner or not has_event(project, MARK):
        owner = f"{base}/owner/enter#{project.renew_owner_token()}"
        add_event(project, "owner", MARK)
    return EntryLinks(
        project.config.name, base, owner, f"{base}{path_of(_shared_invitation(project, people))}", people
    )


def as_json(links: EntryLinks) -> str:
    """The links as JSON."""
    return files.dumps(files.to_json(links))


def as_text(links: EntryLinks) -> str:
    """The links as lines of text.

    Example:
        >>> print(as_text(EntryLinks("new-digits", "http://here", "", "http://here/annotate/join/a", 5)))
        new-digits is served at http://here
        Owner: use the link that was printed at the first start (--new-owner-link makes a new one)
        Annotators (up to 5): http://here/annotate/join/a
        A crowd platform adds its worker's number to that link: ?worker=NUMBER
        Links for selectors, reviewers and participants: on the owner's page. Ctrl-C stops the server.
    """
    printed = "Owner: use the link that was printed at the first start (--new-owner-link makes a new one)"
    return "\n".join(
        [
            f"{links.name} is served at {links.address}",
            f"Owner (printed once; keep it secret): {links.owner}" if links.owner else printed,
            f"Annotators (up to {links.people}): {links.annotators}",
            "A crowd platform adds its worker's number to that link: ?worker=NUMBER",
            "Links for selectors, reviewers and participants: on the owner's page. Ctrl-C stops the server.",
        ]
    )


def _shared_invitation(project: Project, people: int) -> Invited:
    """The invitation that was printed before, where it was made for as many."""
    for invited in invitations(project):
        if invited.label == SHARED_LABEL and invited.uses == people and not invited.revoked:
            return invited
    return invite(project, uses=people, label=SHARED_LABEL)
