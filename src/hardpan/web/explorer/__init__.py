"""The explorer: look through every example of an audit in a browser, filter, sort, select, and export a subset.

It answers on this machine only, reads one folder and writes nothing.
"""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from hardpan.auditing.examples import Examples
from hardpan.errors import InputError
from hardpan.report.palette import DARK, LIGHT
from hardpan.web.explorer.query import Explorer, read_filters
from hardpan.web.explorer.subset import manifest
from hardpan.web.security.headers import SecurityHeaders
from hardpan.web.security.limits import BodyLimit, Limits
from hardpan.web.shell import read_json

PAGE_ROWS = 120
MOST_ROWS = 1000
SPRITE_COLUMNS = 20

# A page of another site that got this machine's name to point here must not be answered.
HOSTS = ["127.0.0.1", "localhost", "[::1]"]

Handler = Callable[[Request], Awaitable[Response]]


def create_app(examples: Examples, *, title: str = "Examples", hosts: tuple[str, ...] = ()) -> ASGIApp:
    """Make the explorer's application.

    Args:
        examples: the joined table and its thumbnails.
        title: what stands at the top of the page.
        hosts: names that it answers to, besides this machine's own.
    """
    explorer = Explorer(examples)
    routes = [
        Route("/", _file("explorer.html", "text/html; charset=utf-8")),
        Route("/favicon.ico", _no_icon),
        Route("/explorer.css", _styles),
        Route("/explorer.js", _file("explorer.js", "text/javascript; charset=utf-8")),
        Route("/api/table", _described(explorer, title)),
        Route("/api/rows", _rows(explorer), methods=["POST"]),
        Route("/api/histogram", _histogram(explorer), methods=["POST"]),
        Route("/api/subset", _subset(explorer, title), methods=["POST"]),
        Route("/api/sprite", _sprite(explorer)),
    ]
    app = Starlette(routes=routes, exception_handlers={InputError: _refused, HTTPException: _refused})
    return SecurityHeaders(TrustedHostMiddleware(BodyLimit(app, Limits()), allowed_hosts=[*HOSTS, *hosts]))


async def _refused(request: Request, error: Exception) -> Response:
    status, words = (error.status_code, error.detail) if isinstance(error, HTTPException) else (400, str(error))
    return JSONResponse({"error": words}, status_code=status)


async def _no_icon(request: Request) -> Response:
    return Response(status_code=204)


def _file(name: str, media_type: str) -> Handler:
    async def send(request: Request) -> Response:
        return Response(_read(name), media_type=media_type)

    return send


async def _styles(request: Request) -> Response:
    text = _read("explorer.css").replace("{{ light }}", LIGHT.css()).replace("{{ dark }}", DARK.css())
    return Response(text, media_type="text/css; charset=utf-8")


def _described(explorer: Explorer, title: str) -> Handler:
    async def send(request: Request) -> Response:
        columns = [dataclasses.asdict(column) for column in explorer.columns.values()]
        pictures = explorer.thumbnails
        size = None if pictures is None else {"height": pictures.shape[1], "width": pictures.shape[2]}
        found = {"title": title, "rows": explorer.table.num_rows, "columns": columns, "thumbnails": size}
        return JSONResponse(found | {"page": PAGE_ROWS, "spriteColumns": SPRITE_COLUMNS})

    return send


def _rows(explorer: Explorer) -> Handler:
    async def send(request: Request) -> Response:
        asked = await read_json(request)
        found = _asked(explorer, asked)
        start = _whole("offset", asked.get("offset", 0), 0, explorer.table.num_rows)
        count = _whole("limit", asked.get("limit", PAGE_ROWS), 1, MOST_ROWS)
        rows = [_plain(row) for row in explorer.rows(found[start : start + count])]
        return JSONResponse({"total": len(found), "offset": start, "rows": rows})

    return send


def _histogram(explorer: Explorer) -> Handler:
    async def send(request: Request) -> Response:
        asked = await read_json(request)
        return JSONResponse(explorer.histogram(str(asked.get("column", "")), _asked(explorer, asked)))

    return send


def _subset(explorer: Explorer, title: str) -> Handler:
    async def send(request: Request) -> Response:
        asked = await read_json(request)
        chosen = asked.get("rows")
        if chosen is None:
            rows = _asked(explorer, asked)
            how = {"filters": asked.get("filters", []), "sort": asked.get("sort", "")}
        else:
            rows = _numbers(chosen, explorer.table.num_rows)
            how = {"selected": "by hand"}
        if not len(rows):
            raise InputError("rows: nothing is selected; select examples or widen the filters")
        ids = explorer.table["id"].take(rows).to_pylist()
        headers = {"Content-Disposition": 'attachment; filename="subset.json"'}
        return Response(
            manifest(ids, how, title, explorer.table.num_rows), media_type="application/json", headers=headers
        )

    return send


def _sprite(explorer: Explorer) -> Handler:
    async def send(request: Request) -> Response:
        if explorer.thumbnails is None:
            return JSONResponse({"error": "these examples have no thumbnails"}, status_code=404)
        numbers = request.query_params.get("rows", "").split(",")
        if (
            not all(number.isascii() and number.isdigit() and len(number) < 10 for number in numbers)
            or len(numbers) > MOST_ROWS
        ):
            raise InputError(f"rows must be up to {MOST_ROWS:,} row numbers with commas between them")
        rows = _numbers([int(number) for number in numbers], explorer.table.num_rows)
        return Response(sprite(explorer.thumbnails, rows), media_type="image/png")

    return send


def sprite(thumbnails: NDArray[np.uint8], rows: NDArray[np.int64]) -> bytes:
    """One PNG with the pictures of those rows, 20 a line: one request in place of a hundred."""
    height, width = thumbnails.shape[1:3]
    lines = math.ceil(len(rows) / SPRITE_COLUMNS)
    sheet = np.zeros((lines * height, SPRITE_COLUMNS * width, *thumbnails.shape[3:]), dtype=np.uint8)
    for place, row in enumerate(rows.tolist()):
        top, left = height * (place // SPRITE_COLUMNS), width * (place % SPRITE_COLUMNS)
        sheet[top : top + height, left : left + width] = thumbnails[row]
    stream = io.BytesIO()
    Image.fromarray(sheet).save(stream, "PNG", compress_level=1)
    return stream.getvalue()


def _asked(explorer: Explorer, asked: dict[str, Any]) -> NDArray[np.int64]:
    filters = read_filters(asked.get("filters", []))
    return explorer.order(filters, str(asked.get("sort") or ""), descending=asked.get("descending") is True)


def _whole(name: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(f"{name} must be a whole number from {least:,} to {most:,}; got {value!r}")
    return value


def _numbers(given: Any, n: int) -> NDArray[np.int64]:
    if not isinstance(given, list) or not all(type(number) is int and 0 <= number < n for number in given):
        raise InputError(f"rows must be row numbers from 0 to {n - 1:,}")
    return np.array(given, dtype=np.int64)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row as JSON writes it: what is not finite is null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }


def _read(name: str) -> str:
    return resources.files("hardpan.web.explorer").joinpath(name).read_text(encoding="utf-8")
