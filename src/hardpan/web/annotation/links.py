"""The links that a server prints and the owner's page shows."""

from __future__ import annotations

from hardpan import replicate
from hardpan.replicate import Invited, Project
from hardpan.web.annotation.site import ROLE_NAMES

MARK = "owner-link"
OPEN_LABEL = "printed by serve"


def path_of(invited: Invited) -> str:
    """The path of an invitation.

    Example:
        >>> path_of(Invited("a", "a.signature", "annotator", "", 1, 0, None, False))
        '/annotate/join/a.signature'
    """
    return f"/{ROLE_NAMES[invited.role].value}/join/{invited.link}"


def greeting(project: Project, base: str, *, people: int = 100, new_owner: bool = False) -> list[str]:
    """What the server says at its start: the owner's link once, the annotators' invitation every time."""
    lines = [f"{project.config.name} at {base}"]
    if new_owner or not _printed_before(project):
        token = replicate.renew_owner_token(project) if new_owner else _signed_owner(project)
        replicate.add_event(project, "owner", MARK)
        lines.append(f"owner (printed once, keep it): {base}/owner/enter#{token}")
    else:
        lines.append("owner: by the link that was printed before (--new-owner-link makes another)")
    lines.append(f"annotators (up to {people}): {base}{path_of(_open_invitation(project, people))}")
    lines.append("a crowd platform adds its worker's number to that link: ?worker=NUMBER")
    lines.append("other links (selector, reviewer, participant, single workers): on the owner's page; Ctrl-C stops")
    return lines


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
