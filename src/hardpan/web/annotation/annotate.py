"""The pages of people who label: annotators have a grid of images for one class, and the next one when it is done.

Participants of the human-accuracy experiment have one image and all classes, its origin hidden, in their own order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from hardpan.replicate.database import leases, people, questions
from hardpan.web.annotation.site import (
    Body,
    Site,
    image_route,
    page_route,
    post_route,
)
from hardpan.web.security import Role, Session, request_integer, request_text, request_texts

MOST_AHEAD = 8
PHOTOGRAPH = 64  # pixels; smaller images, or grey ones, get instructions without photographs of cups


def annotator_routes(site: Site) -> list[BaseRoute]:
    """Everything under /annotate."""
    role = Role.ANNOTATOR
    return [
        page_route(site, "/annotate/", role, annotator_page),
        post_route(site, "/annotate/api/task", role, next_task, admits=False),
        post_route(site, "/annotate/api/renew", role, renew_task),
        post_route(site, "/annotate/api/submit", role, submit_task, admits=False),
        post_route(site, "/annotate/api/code", role, completion_code, writes=False),
        image_route(site, "/annotate/image/{token}/{position:int}", role, task_image, blinded=True),
    ]


def annotator_page(site: Site, session: Session, request: Request) -> Response:
    """The page; tasks come to it by script."""
    shape, classes = site.project.config.shape, site.project.class_names
    return site.shell.page(
        "annotate.html",
        session=session,
        grid=site.project.config.grid,
        photographs=len(shape) == 3 and min(shape[:2]) >= PHOTOGRAPH,
        size=f"{shape[1]} × {shape[0]}" if shape else "",
        classes=classes[:50],
    )


def next_task(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """The next task, besides those that the page holds already."""
    besides = request_texts(body, "besides", MOST_AHEAD)
    lease = leases.lease_next_task(site.project, session.person, besides=besides)
    task = None if lease is None else _task_json(site, lease)
    answer: dict[str, Any] = {"task": task, **_progress(site, session)}
    if lease is None and not besides:
        answer["code"] = people.worker_completion_code(site.project, session.person)
    return answer


def renew_task(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """More time for a task in hand."""
    lease = leases.renew_lease(site.project, session.person, request_text(body, "task"))
    return {"seconds": _seconds(site, lease)}


def submit_task(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """Count the answers to a task, once."""
    token, key, selected = request_text(body, "task"), request_text(body, "key"), body.get("selected")
    if not isinstance(selected, list):
        raise HTTPException(400, "selected must be a list of positions.")
    return asdict(leases.submit_lease(site.project, session.person, token, selected, key))


def completion_code(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """The completion code for what is done so far."""
    return {"code": people.worker_completion_code(site.project, session.person), **_progress(site, session)}


def task_image(site: Site, session: Session, parameters: Mapping[str, Any]) -> bytes:
    """The image at a position of one's own task."""
    try:
        return leases.lease_image(site.project, session.person, parameters["token"], parameters["position"])
    except leases.LeaseLost as error:
        raise HTTPException(404, str(error)) from None


def _task_json(site: Site, lease: leases.Lease) -> dict[str, Any]:
    target = site.project.classes[lease.class_index]
    return {
        "id": lease.token,
        "name": target.name,
        "definition": target.definition,
        "link": target.link if target.link.startswith(("https://", "http://")) else "",
        "images": [f"/annotate/image/{lease.token}/{position}" for position in range(lease.n_images)],
        "seconds": _seconds(site, lease),
    }


def _seconds(site: Site, lease: leases.Lease) -> float:
    return max(0.0, round(lease.expires_at - site.project.clock(), 1))


def _progress(site: Site, session: Session) -> dict[str, Any]:
    own, done, needed = leases.lease_progress(site.project, session.person)
    return {"done": own, "project": {"done": done, "needed": needed}}


LARGEST_NUMBER = 2**31 - 1


def participant_routes(site: Site) -> list[BaseRoute]:
    """Everything under /people."""
    role = Role.PARTICIPANT
    return [
        page_route(site, "/people/", role, participant_page),
        post_route(site, "/people/api/question", role, question_to_answer, writes=False),
        post_route(site, "/people/api/answer", role, record_answer),
        image_route(site, "/people/image/{question:int}", role, participant_image, blinded=True),
    ]


def participant_page(site: Site, session: Session, request: Request) -> Response:
    """The page; questions come to it by script."""
    names = site.project.class_names
    return site.shell.page("people.html", session=session, classes=site.project.classes, keys=keys_of(names))


def keys_of(names: Sequence[str]) -> list[str]:
    """The key of every class: its own name where all names are single signs, else 1 to 9 and 0 for up to ten.

    Example:
        >>> keys_of(["cat", "dog"]), keys_of(["0", "1"]), keys_of([f"class {k}" for k in range(11)])[0]
        (['1', '2'], ['0', '1'], '')
    """
    if all(len(name) == 1 and name.isalnum() for name in names) and len({n.lower() for n in names}) == len(names):
        return [name.lower() for name in names]
    return [str((position + 1) % 10) if len(names) <= 10 else "" for position in range(len(names))]


def question_to_answer(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """The next question of this participant, or none."""
    upcoming = questions.next_question(site.project, session.person)
    return {"question": None} if upcoming is None else asdict(upcoming)


def record_answer(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """Record an answer (the first one counts) and give the next question."""
    number, response = (request_integer(body, name, 0, LARGEST_NUMBER) for name in ("question", "class"))
    new = questions.answer_question(site.project, session.person, number, response)
    return {"new": new, **question_to_answer(site, session, body)}


def participant_image(site: Site, session: Session, parameters: Mapping[str, Any]) -> bytes:
    """The image of a question."""
    number = request_integer(parameters, "question", 0, LARGEST_NUMBER)
    return questions.question_image(site.project, session.person, number)
