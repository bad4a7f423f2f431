"""The first selector's pages: keywords with their quotas, and a keyword's originals beside its candidates."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from hardpan.replicate.database import decisions
from hardpan.web.annotation.site import Body, Site, action, image_by_id, picture, view
from hardpan.web.security import Role, Session
from hardpan.web.shell import flag_of, integer_of, text_of

AT_ONCE = 100


def routes(site: Site) -> list[BaseRoute]:
    """Everything under /select."""
    role = Role.SELECTOR
    return [
        view(site, "/select/", role, keywords),
        view(site, "/select/keyword", role, page),
        action(site, "/select/api/candidates", role, candidates, writes=False),
        action(site, "/select/api/decide", role, decide),
        picture(site, "/select/image", role, image_by_id),
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
    parameters = request.query_params
    index, keyword = site.class_number(parameters.get("class", "")), text_of(parameters, "keyword")
    if index is None:
        raise HTTPException(404, "There is no such class.")
    seen = decisions.selector_view(site.project, index, keyword, most=AT_ONCE)
    target = site.project.classes[index]
    return site.shell.page(
        "select.html", session=session, state=seen.state, target=target, data=_data(seen, 0), back=came_back
    )


def candidates(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """More candidates of a keyword."""
    index, start = integer_of(body, "class", 0, len(site.project.classes) - 1), integer_of(body, "start", 0, 10**9)
    seen = decisions.selector_view(site.project, index, text_of(body, "keyword"), start=start, most=AT_ONCE)
    return _data(seen, start)


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
