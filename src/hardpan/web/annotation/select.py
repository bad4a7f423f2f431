"""The first selector's pages: keywords with their quotas, and a keyword's originals beside its candidates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from hardpan.replicate.database import decisions
from hardpan.web.annotation.site import Body, Site, action, picture, view
from hardpan.web.security import Role, Session
from hardpan.web.shell import flag_of, number_of, text_of

AT_ONCE = 100


def routes(site: Site) -> list[BaseRoute]:
    """Everything under /select."""
    role = Role.SELECTOR
    return [
        view(site, "/select/", role, keywords),
        view(site, "/select/keyword", role, page),
        action(site, "/select/api/candidates", role, candidates, writes=False),
        action(site, "/select/api/decide", role, decide),
        picture(site, "/select/image", role, image),
    ]


def keywords(site: Site, session: Session, request: Request) -> Response:
    """Every keyword: what it should give, what it has, and which came back from the reviewer."""
    groups: dict[str, list[decisions.KeywordState]] = {}
    for state in decisions.keywords(site.project):
        groups.setdefault(site.class_name(state.class_index), []).append(state)
    return site.shell.page("select_keywords.html", session=session, groups=groups, came_back=came_back)


def came_back(state: decisions.KeywordState) -> bool:
    """Whether the second reviewer's removals have left a keyword short."""
    return state.short > 0 and state.removed > 0


def page(site: Site, session: Session, request: Request) -> Response:
    """One keyword."""
    index, keyword = _which(site, request.query_params.get("class", ""), request.query_params.get("keyword", ""))
    seen = decisions.selector_view(site.project, index, keyword, most=AT_ONCE)
    target = site.project.classes[index]
    return site.shell.page(
        "select.html", session=session, state=seen.state, target=target, data=_data(seen, 0), back=came_back
    )


def candidates(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """More candidates of a keyword."""
    index, keyword = _which(site, str(int(number_of(body, "class", 0, 1e6))), text_of(body, "keyword"))
    start = int(number_of(body, "start", 0, 1e9))
    return _data(decisions.selector_view(site.project, index, keyword, start=start, most=AT_ONCE), start)


def decide(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """Select a candidate, or take that back."""
    verdict = "select" if flag_of(body, "picked") else "open"
    new = decisions.decide(
        site.project,
        "first-selection",
        text_of(body, "image"),
        verdict,
        by=session.person,
        submission_key=f"{session.tag}:{text_of(body, 'key', 64)}",
    )
    return {"new": new}


def image(site: Site, session: Session, where: Mapping[str, Any]) -> bytes:
    """An image by its id."""
    return decisions.picture_of(site.project, text_of(where, "id"))


def _which(site: Site, index: str, keyword: str) -> tuple[int, str]:
    if not (index.isascii() and index.isdigit() and len(index) < 7 and int(index) < len(site.project.classes)):
        raise HTTPException(404, "There is no such class.")
    return int(index), text_of({"keyword": keyword}, "keyword")


def _data(seen: decisions.SelectorView, start: int) -> dict[str, Any]:
    state = seen.state
    return {
        "class": state.class_index,
        "keyword": state.keyword,
        "quota": state.quota,
        "selected": state.selected - state.removed,
        "candidates": state.candidates,
        "start": start,
        "originals": seen.originals if start == 0 else (),
        "images": seen.candidates,
        "picked": [name for name, verdict in seen.verdicts.items() if verdict == "select"],
    }
