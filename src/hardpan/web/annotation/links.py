"""The links that a server prints and the owner's page shows."""

from __future__ import annotations

from dataclasses import dataclass

from hardpan import replicate
from hardpan.files import record
from hardpan.replicate import Invited, Project
from hardpan.web.annotation.site import ROLE_NAMES

MARK = "owner-link"
OPEN_LABEL = "printed by serve"


def path_of(invited: Invited) -> str:
    """The path of an invitation.

    Example:
        >>> path_of(Invited("a", "a.signature", "annotator", "", 1, 0, 0, None, False))
        '/annotate/join/a.signature'
    """
    return f"/{ROLE_NAMES[invited.role].value}/join/{invited.link}"


@record
@dataclass(frozen=True, slots=True)
class Doors:
    """Where a project is served, and the ways in.

    Attributes:
        name: of the project.
        address: of the server.
        owner: the owner's link, the first time only; "" where it was given before.
        annotators: the invitation of the annotators.
        people: how many it lets in.
    """

    name: str
    address: str
    owner: str
    annotators: str
    people: int


def doors(project: Project, base: str, *, people: int = 100, new_owner: bool = False) -> Doors:
    """The links that a server opens with: the owner's once, the annotators' invitation every time."""
    owner = ""
    if new_owner or not _printed_before(project):
        token = replicate.renew_owner_token(project) if new_owner else _signed_owner(project)
        replicate.add_event(project, "owner", MARK)
        owner = f"{base}/owner/enter#{token}"
    annotators = f"{base}{path_of(_open_invitation(project, people))}"
    return Doors(project.config.name, base, owner, annotators, people)


def greeting(project: Project, base: str, *, people: int = 100, new_owner: bool = False) -> list[str]:
    """What the server says at its start, for people."""
    return told(doors(project, base, people=people, new_owner=new_owner))


def told(opened: Doors) -> list[str]:
    """The ways in as lines of text.

    Example:
        >>> told(Doors("new-digits", "http://here", "", "http://here/annotate/join/a", 5))[1]
        'owner: by the link that was printed before (--new-owner-link makes another)'
    """
    owner = "owner: by the link that was printed before (--new-owner-link makes another)"
    return [
        f"{opened.name} at {opened.address}",
        f"owner (printed once, keep it): {opened.owner}" if opened.owner else owner,
        f"annotators (up to {opened.people}): {opened.annotators}",
        "a crowd platform adds its worker's number to that link: ?worker=NUMBER",
        "other links (selector, reviewer, participant, single workers): on the owner's page; Ctrl-C stops",
    ]


def is_owner(project: Project, token: str) -> bool:
    """Whether a token opens the owner's page: the one that ``init`` showed, or the one of the link printed here."""
    return project.is_owner(token) or project.is_signed(MARK, project.local["owner_hash"], token)


def _signed_owner(project: Project) -> str:
    """A second token beside the one that ``init`` showed, which only its hash is known of; a new one ends both."""
    return project.sign(MARK, project.local["owner_hash"])


def _printed_before(project: Project) -> bool:
    after = 0
    while events := replicate.events(project, after=after, most=5000):
        if any(event["what"] == MARK for event in events):
            return True
        after = events[-1]["id"]
    return False


def _open_invitation(project: Project, people: int) -> Invited:
    """The invitation that was printed before, as long as it has room for as many."""
    for invited in replicate.invitations(project):
        if invited.label == OPEN_LABEL and invited.uses == people and not invited.revoked:
            return invited
    return replicate.invite(project, uses=people, label=OPEN_LABEL)
