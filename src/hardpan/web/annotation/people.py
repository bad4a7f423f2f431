"""The human-accuracy experiment: one image, all classes, origin hidden, an order of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from hardpan.replicate.database import questions
from hardpan.web.annotation.site import Body, Site, image_route, page_route, post_route
from hardpan.web.requests import request_integer
from hardpan.web.security import Role, Session

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
