"""What a request carries: a JSON object, and its checked values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from hardpan.arguments import clean_text


def request_wants_json(request: Request) -> bool:
    """Whether a script is asking."""
    return "/api/" in request.url.path or "application/json" in request.headers.get("accept", "")


async def read_request_json(request: Request) -> dict[str, Any]:
    """The JSON object of a body; anything else is 400."""
    if not request.headers.get("content-type", "").startswith("application/json"):
        raise HTTPException(400, "The body must be JSON.")

    def refuse(constant: str) -> None:  # NaN and Infinity are not JSON; PostgreSQL would refuse to store them
        raise ValueError(constant)

    try:
        content = json.loads(await request.body(), parse_constant=refuse)
    except (ValueError, RecursionError):
        raise HTTPException(400, "The body is not JSON.") from None
    except ClientDisconnect:  # nobody reads the answer, and it is no fault of this server
        raise HTTPException(400, "The body is not complete.") from None
    if not isinstance(content, dict):
        raise HTTPException(400, "The body must be a JSON object.")
    return content


def request_text(content: Mapping[str, Any], name: str, longest: int = 200) -> str:
    """A text of a JSON object, checked."""
    value = content.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= longest or clean_text(value, lines=True) != value:
        raise HTTPException(400, f"{name} must be a text of 1 to {longest} characters.")
    return value


def request_integer(content: Mapping[str, Any], name: str, low: int, high: int) -> int:
    """A whole number of a JSON object, within bounds."""
    value = content.get(name)
    if type(value) is not int or not low <= value <= high:
        raise HTTPException(400, f"{name} must be a whole number from {low} to {high}.")
    return value


def request_flag(content: Mapping[str, Any], name: str) -> bool:
    """True or false of a JSON object."""
    value = content.get(name)
    if not isinstance(value, bool):
        raise HTTPException(400, f"{name} must be true or false.")
    return value


def request_texts(content: Mapping[str, Any], name: str, most: int) -> list[str]:
    """A list of different texts of a JSON object."""
    value = content.get(name)
    if not isinstance(value, list) or len(value) > most:
        raise HTTPException(400, f"{name} must be a list of at most {most} texts.")
    texts = [request_text({name: item}, name) for item in value]
    if len(set(texts)) != len(texts):
        raise HTTPException(400, f"{name} must not repeat.")
    return texts
