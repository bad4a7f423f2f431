"""The reviewer's pages: second review and final review by grid, near-duplicates pair by pair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from hardpan.replicate.database import decisions
from hardpan.web import pictures
from hardpan.web.annotation.select import came_back
from hardpan.web.annotation.site import Body, Site, action, image_by_id, picture, view
from hardpan.web.security import Role, Session
from hardpan.web.shell import text_of, texts_of

AT_ONCE = 48
LOOK_AHEAD = 100_000
PAIRS_AT_ONCE = 20
QUEUES = {"second": decisions.second_review_queue, "final": decisions.final_review_queue}
STEPS = {"second": "second-review", "final": "final-review"}


def routes(site: Site) -> list[BaseRoute]:
    """Everything under /review."""
    role = Role.REVIEWER
    return [
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


def overview(site: Site, session: Session, request: Request) -> Response:
    """What waits, and which keywords went back to the first selector."""
    waiting = {name: len(queue(site.project, LOOK_AHEAD)) for name, queue in QUEUES.items()}
    waiting["duplicates"] = len(decisions.duplicate_queue(site.project, most=LOOK_AHEAD))
    states = decisions.keywords(site.project)
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
        "images": ids[:AT_ONCE],
        "name": target.name,
        "definition": target.definition,
        "keyword": keyword,
    }


def decide(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """Keep or remove the images of one grid; a retry finds what was recorded and adds the rest."""
    step, key = STEPS[_step(body)], text_of(body, "key", 64)
    images, removed = texts_of(body, "images", AT_ONCE), set(texts_of(body, "removed", AT_ONCE))
    if not removed <= set(images):
        raise HTTPException(400, "removed must be among images.")
    for position, name in enumerate(images):
        verdict = "remove" if name in removed else "keep"
        name_of_submission = f"{session.tag}:{key}:{position}"
        decisions.decide(site.project, step, name, verdict, by=session.person, submission_key=name_of_submission)
    return {"kept": len(images) - len(removed), "removed": len(removed)}


def pairs_page(site: Site, session: Session, request: Request) -> Response:
    """Near-duplicates, one pair at a time."""
    return site.shell.page("review_pairs.html", session=session, colour=len(site.project.config.shape) == 3)


def pairs(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """The most similar pairs that nobody has decided on."""
    waiting = decisions.duplicate_queue(site.project, most=LOOK_AHEAD)
    shown = [
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
    return {"left": len(waiting), "pairs": shown}


def decide_pair(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """Keep the new image of a pair, remove it, or open the question again."""
    new = decisions.decide(
        site.project,
        "duplicate",
        text_of(body, "subject", 500),
        text_of(body, "verdict", 20),
        by=session.person,
        submission_key=f"{session.tag}:{text_of(body, 'key', 64)}",
    )
    return {"new": new}


def gap(site: Site, session: Session, where: Mapping[str, Any]) -> bytes:
    """Where two images differ."""
    first, second = (decisions.picture_of(site.project, text_of(where, name)) for name in ("id", "other"))
    return pictures.difference(first, second)


def _step(body: Body) -> str:
    step = text_of(body, "step", 20)
    if step not in STEPS:
        raise HTTPException(400, "step must be second or final.")
    return step
