"""What every small app of this package shares: templates, static files, one form of errors."""

from __future__ import annotations

import hashlib
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
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from hardpan.errors import HardpanError
from hardpan.pages import formatting
from hardpan.web.security import request_wants_json

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

    def __init__(self, name: str, folder: Path = FOLDER, **shared: Any) -> None:
        self._static = folder / "static"
        self._environment = Environment(
            loader=FileSystemLoader(folder / "templates"),
            autoescape=select_autoescape(default=True, default_for_string=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        for written in (formatting.points, formatting.plain, formatting.estimate, formatting.signed):
            self._environment.filters[written.__name__] = written
        self._environment.globals.update(site=name, static=self.static_address, **shared)
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
                HardpanError: lambda request, error: self._error(request, 400, str(error)),
                OSError: self._unavailable,
                SQLAlchemyError: self._unavailable,
                Exception: self._bug,
            },
        )

    def _http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return self._error(request, error.status_code, error.detail, error.headers)

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
        if request_wants_json(request):
            answer: Response = JSONResponse({"error": text}, status)
        else:
            title = _TITLES.get(status, "Error")
            text = "There is no such page." if text == "Not Found" else text
            answer = self.page("error.html", status=status, title=title, text=text)
        answer.headers.update(headers or {})
        return answer


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
