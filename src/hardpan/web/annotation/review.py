"""The pages of selectors (keywords with their quotas) and reviewers (second and final review, near-duplicates)."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from hardpan.replicate.database import decisions
from hardpan.web.annotation.site import Body, Site, action, image_by_id, picture, view
from hardpan.web.security import Role, Session
from hardpan.web.shell import flag_of, integer_of, text_of, texts_of

CANDIDATES_AT_ONCE = 100
IMAGES_AT_ONCE = 48
PAIRS_AT_ONCE = 20
LOOK_AHEAD = 100_000
QUEUES = {"second": decisions.second_review_queue, "final": decisions.final_review_queue}
STEPS = {"second": "second-review", "final": "final-review"}


def routes(site: Site) -> list[BaseRoute]:
    """Everything under /select and /review."""
    selector, role = Role.SELECTOR, Role.REVIEWER
    return [
        view(site, "/select/", selector, keywords_page),
        view(site, "/select/keyword", selector, keyword_page),
        action(site, "/select/api/candidates", selector, candidates, writes=False),
        action(site, "/select/api/decide", selector, select),
        picture(site, "/select/image", selector, image_by_id),
        view(site, "/review/", role, overview),
        view(site, "/review/second", role, grid_page),
        view(site, "/review/final", role, grid_page),
        view(site, "/review/duplicates", role, pairs_page),
        action(site, "/review/api/images", role, images, writes=False),
        action(site, "/review/api/decide", role, decide),
        action(site, "/review/api/pairs", role, pairs, writes=False),
        action(site, "/review/api/pair", role, decide_pair),
        picture(site, "/review/image", role, image_by_id),
        picture(site, "/review/difference", role, gap),
    ]


def keywords_page(site: Site, session: Session, request: Request) -> Response:
    """Every keyword: what it should give, what it has, and which came back from the reviewer."""
    groups: dict[str, list[decisions.KeywordState]] = {}
    for state in decisions.keyword_states(site.project):
        groups.setdefault(site.class_name(state.class_index), []).append(state)
    return site.shell.page("select_keywords.html", session=session, groups=groups, came_back=came_back)


def came_back(state: decisions.KeywordState) -> bool:
    """Whether the second reviewer's removals have left a keyword short."""
    return state.short > 0 and state.removed > 0


def keyword_page(site: Site, session: Session, request: Request) -> Response:
    """One keyword."""
    parameters = request.query_params
    index, keyword = site.class_number(parameters.get("class", "")), text_of(parameters, "keyword")
    if index is None:
        raise HTTPException(404, "There is no such class.")
    seen = decisions.selector_view(site.project, index, keyword, most=CANDIDATES_AT_ONCE)
    target = site.project.classes[index]
    return site.shell.page(
        "select.html",
        session=session,
        state=seen.state,
        target=target,
        data=_candidates_json(seen, 0),
        back=came_back,
    )


def candidates(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """More candidates of a keyword."""
    index, start = integer_of(body, "class", 0, len(site.project.classes) - 1), integer_of(body, "start", 0, 10**9)
    seen = decisions.selector_view(
        site.project, index, text_of(body, "keyword"), start=start, most=CANDIDATES_AT_ONCE
    )
    return _candidates_json(seen, start)


def select(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """Select a candidate, or take that back."""
    verdict = "select" if flag_of(body, "picked") else "open"
    new = decisions.record_decision(
        site.project,
        "first-selection",
        text_of(body, "image"),
        verdict,
        by=session.person,
        submission_key=f"{session.tag}:{text_of(body, 'key', 64)}",
    )
    return {"new": new}


def _candidates_json(seen: decisions.KeywordCandidates, start: int) -> dict[str, Any]:
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


def overview(site: Site, session: Session, request: Request) -> Response:
    """What waits, and which keywords went back to the first selector."""
    waiting = {name: len(queue(site.project, LOOK_AHEAD)) for name, queue in QUEUES.items()}
    waiting["duplicates"] = len(decisions.duplicate_queue(site.project, most=LOOK_AHEAD))
    states = decisions.keyword_states(site.project)
    short = [(site.class_name(state.class_index), state) for state in states if came_back(state)]
    return site.shell.page("review.html", session=session, waiting=waiting, short=short)


def grid_page(site: Site, session: Session, request: Request) -> Response:
    """Second or final review: what is picked is removed, the rest is kept."""
    return site.shell.page("review_grid.html", session=session, step=request.url.path.rpartition("/")[2])


def images(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """The next images of one class and keyword, and how many wait in all."""
    step = _step(body)
    queue = QUEUES[step](site.project, LOOK_AHEAD)
    if not queue:
        return {"left": 0, "images": []}
    groups: dict[tuple[int, str], list[str]] = {}
    for item in queue:
        groups.setdefault((item.class_index, item.keyword if step == "second" else ""), []).append(item.image_id)
    (index, keyword), ids = min(groups.items())
    target = site.project.classes[index]
    return {
        "left": len(queue),
        "images": ids[:IMAGES_AT_ONCE],
        "name": target.name,
        "definition": target.definition,
        "keyword": keyword,
    }


def decide(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """Keep or remove the images of one grid; a retry finds what was recorded and adds the rest."""
    step, key = STEPS[_step(body)], text_of(body, "key", 64)
    images, removed = texts_of(body, "images", IMAGES_AT_ONCE), set(texts_of(body, "removed", IMAGES_AT_ONCE))
    if not removed <= set(images):
        raise HTTPException(400, "removed must be among images.")
    for position, name in enumerate(images):
        verdict = "remove" if name in removed else "keep"
        name_of_submission = f"{session.tag}:{key}:{position}"
        decisions.record_decision(
            site.project, step, name, verdict, by=session.person, submission_key=name_of_submission
        )
    return {"kept": len(images) - len(removed), "removed": len(removed)}


def pairs_page(site: Site, session: Session, request: Request) -> Response:
    """Near-duplicates, one pair at a time."""
    return site.shell.page("review_pairs.html", session=session, colour=len(site.project.config.shape) == 3)


def pairs(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """The most similar pairs that nobody has decided on."""
    waiting = decisions.duplicate_queue(site.project, most=LOOK_AHEAD)
    items = [
        {
            "subject": item.subject,
            "image": item.image_id,
            "other": item.other_id,
            "other_split": item.other_split,
            "l2": item.l2,
            "ssim": item.ssim,
        }
        for item in waiting[:PAIRS_AT_ONCE]
    ]
    return {"left": len(waiting), "pairs": items}


def decide_pair(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """Keep the new image of a pair, remove it, or open the question again."""
    new = decisions.record_decision(
        site.project,
        "duplicate",
        text_of(body, "subject", 500),
        text_of(body, "verdict", 20),
        by=session.person,
        submission_key=f"{session.tag}:{text_of(body, 'key', 64)}",
    )
    return {"new": new}


def gap(site: Site, session: Session, where: Mapping[str, Any]) -> bytes:
    """Where two images differ, as PNG: |a − b| per channel; the second takes the size of the first."""
    first, second = (
        Image.fromarray(decisions.image_pixels(site.project, text_of(where, name))).convert("RGB")
        for name in ("id", "other")
    )
    if first.size != second.size:
        second = second.resize(first.size, Image.Resampling.BILINEAR)
    difference = np.abs(np.asarray(first, dtype=np.int16) - np.asarray(second, dtype=np.int16))
    stream = io.BytesIO()
    Image.fromarray(difference.astype(np.uint8)).save(stream, "PNG", compress_level=1)
    return stream.getvalue()


def _step(body: Body) -> str:
    step = text_of(body, "step", 20)
    if step not in STEPS:
        raise HTTPException(400, "step must be second or final.")
    return step
