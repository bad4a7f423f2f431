"""What every small app of this package shares: templates, static files, one form of errors."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from sqlalchemy.exc import SQLAlchemyError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from hardpan.arguments import clean_text
from hardpan.errors import HardpanError
from hardpan.pages import formatting

FOLDER = Path(__file__).parent
QUIET_SECONDS = 10.0
_LOG = logging.getLogger("hardpan.web")
_TITLES = {
    400: "The request could not be read",
    401: "This page needs an invitation",
    403: "Not allowed",
    404: "Page not found",
    405: "Method not allowed",
    409: "Conflict",
    410: "No longer available",
    413: "Too large",
    429: "Too many requests",
    500: "Something went wrong",
    503: "Not available at the moment",
}


class Shell:
    """Renders templates and makes apps whose errors look like the other pages."""

    def __init__(self, name: str, folder: Path = FOLDER) -> None:
        self._static = folder / "static"
        self._environment = Environment(
            loader=FileSystemLoader(folder / "templates"),
            autoescape=select_autoescape(default=True, default_for_string=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(
            points=points, plain=formatting.plain, estimate=formatting.estimate, signed=formatting.signed
        )
        self._environment.globals.update(site=name, static=self.static_address)
        self._versions: dict[str, str] = {}
        self._complained = -math.inf

    def static_address(self, name: str) -> str:
        """The address of a static file with its hash, so that browsers may keep it for ever."""
        if name not in self._versions:
            content = (self._static / name).read_bytes()
            self._versions[name] = hashlib.sha256(content).hexdigest()[:12]
        return f"/static/{name}?v={self._versions[name]}"

    def page(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Render a template as an answer."""
        return HTMLResponse(self._environment.get_template(template).render(**values), status)

    def app(self, routes: list[BaseRoute]) -> Starlette:
        """An app with these routes, the static files, and error pages."""
        static = Mount("/static", CachedFiles(directory=self._static))
        return Starlette(
            routes=[*routes, static],
            exception_handlers={
                HTTPException: self._http_error,
                HardpanError: self._refused,
                OSError: self._unavailable,
                SQLAlchemyError: self._unavailable,
                Exception: self._bug,
            },
        )

    def _http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return self._error(request, error.status_code, error.detail, error.headers)

    def _refused(self, request: Request, error: Exception) -> Response:
        return self._error(request, 400, str(error))

    def refusal(self, status: int) -> Callable[[Request, Exception], Response]:
        """A handler that answers with a status and the error's own sentence."""
        return lambda request, error: self._error(request, status, sentence(error))

    def _unavailable(self, request: Request, error: Exception) -> Response:
        """The database is away, or the disk is full: 503, and one line of log in ten seconds."""
        now = time.monotonic()
        if now - self._complained > QUIET_SECONDS:
            self._complained = now
            reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
            _LOG.error("%s %s: %s (%s)", request.method, request.url.path, type(error).__name__, reason)
        text = "The server cannot store anything at the moment. The page tries again; nothing confirmed is lost."
        return self._error(request, 503, text, {"Retry-After": "5"})

    def _bug(self, request: Request, error: Exception) -> Response:
        _LOG.error("%s %s", request.method, request.url.path, exc_info=error)
        return self._error(request, 500, "The server could not do this. Nothing that was confirmed is lost.")

    def _error(
        self, request: Request, status: int, text: str, headers: Mapping[str, str] | None = None
    ) -> Response:
        if wants_json(request):
            answer: Response = JSONResponse({"error": text}, status)
        else:
            title = _TITLES.get(status, "Error")
            text = "There is no such page." if text == "Not Found" else text
            answer = self.page("error.html", status=status, title=title, text=text)
        answer.headers.update(headers or {})
        return answer


def points(fraction: float) -> str:
    """A difference of fractions in percentage points, with its sign.

    Example:
        >>> points(0.0321), points(-0.05), points(-0.0001)
        ('+3.2', '−5.0', '0.0')
    """
    rounded = round(100 * fraction, 1)
    return f"{rounded:+.1f}".replace("-", "−") if rounded else "0.0"


def sentence(error: Exception) -> str:
    """An error's message as a sentence.

    Example:
        >>> sentence(ValueError("this link has ended"))
        'This link has ended.'
    """
    text = str(error)
    return text[:1].upper() + text[1:] + "."


class CachedFiles(StaticFiles):
    """Static files that a browser may keep: their address carries a hash of their content."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Serve one file; folders are never listed."""
        if "\0" in path:
            raise HTTPException(404)
        answer = await super().get_response(path, scope)
        if answer.status_code == 200:
            answer.headers["cache-control"] = "public, max-age=31536000, immutable"
        return answer


def wants_json(request: Request) -> bool:
    """Whether a script is asking."""
    return "/api/" in request.url.path or "application/json" in request.headers.get("accept", "")


async def read_json(request: Request) -> dict[str, Any]:
    """The JSON object of a body; anything else is 400."""
    if not request.headers.get("content-type", "").startswith("application/json"):
        raise HTTPException(400, "The body must be JSON.")
    try:
        # Bare constants (NaN, Infinity) are not JSON; PostgreSQL would refuse to store them.
        content = json.loads(await request.body(), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise HTTPException(400, "The body is not JSON.") from None
    except ClientDisconnect:  # nobody reads the answer, and it is no fault of this server
        raise HTTPException(400, "The body is not complete.") from None
    if not isinstance(content, dict):
        raise HTTPException(400, "The body must be a JSON object.")
    return content


def _no_constant(name: str) -> None:
    raise ValueError(name)


def text_of(content: Mapping[str, Any], name: str, longest: int = 200) -> str:
    """A text of a JSON object, checked."""
    value = content.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= longest or not _is_clean(value):
        raise HTTPException(400, f"{name} must be a text of 1 to {longest} characters.")
    return value


def integer_of(content: Mapping[str, Any], name: str, low: int, high: int) -> int:
    """A whole number of a JSON object, within bounds."""
    value = content.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise HTTPException(400, f"{name} must be a whole number from {low} to {high}.")
    return value


def flag_of(content: Mapping[str, Any], name: str) -> bool:
    """True or false of a JSON object."""
    value = content.get(name)
    if not isinstance(value, bool):
        raise HTTPException(400, f"{name} must be true or false.")
    return value


def texts_of(content: Mapping[str, Any], name: str, most: int) -> list[str]:
    """A list of different texts of a JSON object."""
    value = content.get(name)
    if not isinstance(value, list) or len(value) > most:
        raise HTTPException(400, f"{name} must be a list of at most {most} texts.")
    if any(not isinstance(item, str) or len(item) > 200 or not _is_clean(item) for item in value):
        raise HTTPException(400, f"{name} must hold texts.")
    if len(set(value)) != len(value):
        raise HTTPException(400, f"{name} must not repeat.")
    return value


def _is_clean(text: str) -> bool:
    return clean_text(text, lines=True) == text
