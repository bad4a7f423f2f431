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

from hardpan.neighbors.text_copies import marked_difference
from hardpan.replicate.database import decisions, images
from hardpan.web.annotation.site import Body, Site, image_by_id, image_route, page_route, post_route
from hardpan.web.security import Role, Session, request_flag, request_integer, request_text, request_texts

CANDIDATES_AT_ONCE = 100
IMAGES_AT_ONCE = 48
PAIRS_AT_ONCE = 20
STEPS = {"second": "second-review", "final": "final-review"}


def review_routes(site: Site) -> list[BaseRoute]:
    """Everything under /select and /review."""
    selector, role = Role.SELECTOR, Role.REVIEWER
    return [
        page_route(site, "/select/", selector, keywords_page),
        page_route(site, "/select/keyword", selector, keyword_page),
        post_route(site, "/select/api/candidates", selector, candidates_to_review, writes=False),
        post_route(site, "/select/api/decide", selector, record_selection_review),
        image_route(site, "/select/image", selector, image_by_id),
        page_route(site, "/review/", role, review_overview),
        page_route(site, "/review/second", role, review_grid_page),
        page_route(site, "/review/final", role, review_grid_page),
        page_route(site, "/review/duplicates", role, duplicates_page),
        post_route(site, "/review/api/images", role, images_to_review, writes=False),
        post_route(site, "/review/api/decide", role, record_reviews),
        post_route(site, "/review/api/pairs", role, pairs_to_review, writes=False),
        post_route(site, "/review/api/pair", role, record_pair_review),
        image_route(site, "/review/image", role, image_by_id),
        image_route(site, "/review/difference", role, difference_image),
    ]


def keywords_page(site: Site, session: Session, request: Request) -> Response:
    """Every keyword: what it should give, what it has, and which came back from the reviewer."""
    groups: dict[str, list[decisions.KeywordState]] = {}
    for state in decisions.keyword_states(site.project):
        groups.setdefault(site.class_name(state.class_index), []).append(state)
    return site.shell.page("select_keywords.html", session=session, groups=groups)


def keyword_page(site: Site, session: Session, request: Request) -> Response:
    """One keyword."""
    parameters = request.query_params
    index, keyword = site.class_number(parameters.get("class", "")), request_text(parameters, "keyword")
    if index is None:
        raise HTTPException(404, "There is no such class.")
    seen = decisions.first_selection_page(site.project, index, keyword, most=CANDIDATES_AT_ONCE)
    target = site.project.classes[index]
    data = _candidates_json(seen, 0)
    return site.shell.page("select.html", session=session, state=seen.state, target=target, data=data)


def candidates_to_review(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """More candidates of a keyword."""
    index = request_integer(body, "class", 0, len(site.project.classes) - 1)
    start, keyword = request_integer(body, "start", 0, 10**9), request_text(body, "keyword")
    seen = decisions.first_selection_page(site.project, index, keyword, start=start, most=CANDIDATES_AT_ONCE)
    return _candidates_json(seen, start)


def record_selection_review(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """Select a candidate, or take that back."""
    verdict = "select" if request_flag(body, "picked") else "open"
    image, key = request_text(body, "image"), request_text(body, "key", 64)
    return {"new": _record_review(site, session, key, "first-selection", image, verdict)}


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


def review_overview(site: Site, session: Session, request: Request) -> Response:
    """What waits, and which keywords went back to the first selector."""
    waiting = {name: len(decisions.undecided_images(site.project, step)) for name, step in STEPS.items()}
    waiting["duplicates"] = len(decisions.undecided_pairs(site.project))
    states = decisions.keyword_states(site.project)
    short = [(site.class_name(state.class_index), state) for state in states if state.came_back]
    return site.shell.page("review.html", session=session, waiting=waiting, short=short)


def review_grid_page(site: Site, session: Session, request: Request) -> Response:
    """Second or final review: what is picked is removed, the rest is kept."""
    return site.shell.page("review_grid.html", session=session, step=request.url.path.rpartition("/")[2])


def images_to_review(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """The next images of one class and keyword, and how many wait in all."""
    step = _step(body)
    queue = decisions.undecided_images(site.project, STEPS[step])
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


def record_reviews(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """Keep or remove the images of one grid; a retry finds what was recorded and adds the rest."""
    step, key = STEPS[_step(body)], request_text(body, "key", 64)
    images, removed = (request_texts(body, name, IMAGES_AT_ONCE) for name in ("images", "removed"))
    if not set(removed) <= set(images):
        raise HTTPException(400, "removed must be among images.")
    for position, name in enumerate(images):
        _record_review(site, session, f"{key}:{position}", step, name, "remove" if name in removed else "keep")
    return {"kept": len(images) - len(removed), "removed": len(removed)}


def duplicates_page(site: Site, session: Session, request: Request) -> Response:
    """Near-duplicates, one pair at a time."""
    return site.shell.page("review_pairs.html", session=session, colour=len(site.project.config.shape) == 3)


def pairs_to_review(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """The most similar pairs that nobody has decided on."""
    waiting = decisions.undecided_pairs(site.project)
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


def record_pair_review(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """Keep the new image of a pair, remove it, or open the question again."""
    subject, verdict = request_text(body, "subject", 500), request_text(body, "verdict", 20)
    key = request_text(body, "key", 64)
    return {"new": _record_review(site, session, key, "duplicate", subject, verdict)}


def _record_review(site: Site, session: Session, key: str, step: str, subject: str, verdict: str) -> bool:
    return decisions.record_decision(
        site.project, step, subject, verdict, by=session.person, submission_key=f"{session.tag}:{key}"
    )


def difference_image(site: Site, session: Session, where: Mapping[str, Any]) -> bytes:
    """Where two images differ, as PNG: |a − b| per channel, the second in the size of the first; or two texts."""
    shown, other = (images.stored_example(site.project, request_text(where, name)) for name in ("id", "other"))
    if isinstance(shown, str) or isinstance(other, str):
        return marked_difference(str(other), str(shown)).encode()
    first, second = (Image.fromarray(pixels).convert("RGB") for pixels in (shown, other))
    if first.size != second.size:
        second = second.resize(first.size, Image.Resampling.BILINEAR)
    difference = np.abs(np.asarray(first, dtype=np.int16) - np.asarray(second, dtype=np.int16))
    stream = io.BytesIO()
    Image.fromarray(difference.astype(np.uint8)).save(stream, "PNG", compress_level=1)
    return stream.getvalue()


def _step(body: Body) -> str:
    step = request_text(body, "step", 20)
    if step not in STEPS:
        raise HTTPException(400, "step must be second or final.")
    return step
