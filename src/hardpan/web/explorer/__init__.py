"""The explorer: look through every example of an audit in a browser; filter, compare models, tag, relabel, export.

It answers on this machine only and reads one folder; the only file that it writes is ``corrections.csv`` in it.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import math
from collections.abc import Awaitable, Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from hardpan import confusion, files
from hardpan.auditing.examples import Examples
from hardpan.errors import HardpanError, InputError
from hardpan.report.palette import DARK, LIGHT
from hardpan.web.explorer.marks import Marks
from hardpan.web.explorer.query import Explorer, read_filters
from hardpan.web.security import local
from hardpan.web.shell import read_json

PAGE_ROWS = 120
MOST_ROWS = 1000
SPRITE_COLUMNS = 20
FROM_DISK = 64  # pixels: side of a thumbnail that is read from an image file
SIDE_BY_SIDE = 60  # examples of each side of a disagreement

# The page of a report has a policy of its own in its head, with the hashes of its scripts; both apply.
PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src 'unsafe-inline' 'unsafe-eval'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

Handler = Callable[[Request], Awaitable[Response]]


@dataclasses.dataclass(frozen=True, slots=True)
class Pictures:
    """Thumbnails of the rows: from an array that stays on the disk, or from the image files named in a column.

    Attributes:
        array: (N, h, w) or (N, h, w, 3) bytes, or None.
        paths: the image files of the rows, or None.
        root: the folder that relative paths start from.
    """

    array: NDArray[np.uint8] | None
    paths: Any = None
    root: Path | None = None

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width of a thumbnail; None where there are none."""
        if self.array is not None:
            return int(self.array.shape[1]), int(self.array.shape[2])
        return None if self.paths is None else (FROM_DISK, FROM_DISK)

    def sheet(self, rows: NDArray[np.int64]) -> bytes:
        """One PNG with the pictures of those rows, 20 per line: one request instead of a hundred."""
        assert self.size is not None
        height, width = self.size
        lines = math.ceil(len(rows) / SPRITE_COLUMNS)
        depth = self.array.shape[3:] if self.array is not None else (3,)
        sheet = np.zeros((lines * height, SPRITE_COLUMNS * width, *depth), dtype=np.uint8)
        for position, row in enumerate(rows.tolist()):
            top, left = height * (position // SPRITE_COLUMNS), width * (position % SPRITE_COLUMNS)
            picture = self.array[row] if self.array is not None else _thumbnail(self._path(row))
            sheet[top : top + height, left : left + width] = picture
        stream = io.BytesIO()
        Image.fromarray(sheet).save(stream, "PNG", compress_level=1)
        return stream.getvalue()

    def _path(self, row: int) -> Path:
        path = Path(str(self.paths[row]))
        return path if self.root is None or path.is_absolute() else self.root / path


@functools.lru_cache(maxsize=4096)
def _thumbnail(path: Path) -> NDArray[np.uint8]:
    """An image file as a square of 64 pixels, centred on grey; a file that cannot be read is grey."""
    square = np.full((FROM_DISK, FROM_DISK, 3), 128, np.uint8)
    try:
        with Image.open(path) as image:
            image.draft("RGB", (FROM_DISK, FROM_DISK))
            image.thumbnail((FROM_DISK, FROM_DISK))
            small = np.asarray(image.convert("RGB"))
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError, ValueError):
        return square
    top, left = (FROM_DISK - small.shape[0]) // 2, (FROM_DISK - small.shape[1]) // 2
    square[top : top + small.shape[0], left : left + small.shape[1]] = small
    return square


def create_app(
    examples: Examples,
    *,
    title: str = "Examples",
    hosts: tuple[str, ...] = (),
    folder: Path | None = None,
    images: Path | None = None,
) -> ASGIApp:
    """Make the explorer's application.

    Args:
        examples: the joined table and its thumbnails.
        title: the title of the page.
        hosts: names that it answers to, besides this machine's own.
        folder: the audit's folder: its page is served at /report, and corrections.csv is written there.
        images: the folder that the paths of the table start from.
    """
    explorer, marks = Explorer(examples), Marks(folder)
    paths = examples.table["path"] if "path" in examples.table.column_names else None
    pictures = Pictures(examples.thumbnails, None if paths is None else paths, images)
    routes = [
        Route("/", _file("explorer.html", "text/html; charset=utf-8")),
        Route("/favicon.ico", _no_icon),
        Route("/explorer.css", _styles),
        Route("/explorer.js", _file("explorer.js", "text/javascript; charset=utf-8")),
        Route("/api/table", _described(explorer, pictures, marks, title, folder)),
        Route("/api/rows", _rows(explorer, marks), methods=["POST"]),
        Route("/api/histogram", _histogram(explorer), methods=["POST"]),
        Route("/api/disagreements", _disagreements(explorer, marks), methods=["POST"]),
        Route("/api/marks", _mark(explorer, marks), methods=["POST"]),
        Route("/api/corrections.csv", _corrections(marks)),
        Route("/api/subset", _subset(explorer, title), methods=["POST"]),
        Route("/api/sprite", _sprite(pictures, examples.table.num_rows)),
    ]
    if folder is not None and (folder / "index.html").is_file():
        routes.append(Route("/report", _report(folder / "index.html")))
        # The files that the page links to.
        routes += [Route(path, _download(folder)) for path in ("/report.json", "/problems/{name}.csv")]
    app = Starlette(routes=routes, exception_handlers={HardpanError: _refused, HTTPException: _refused})
    return local(app, hosts)


async def _refused(request: Request, error: Exception) -> Response:
    status, words = (error.status_code, error.detail) if isinstance(error, HTTPException) else (400, str(error))
    # Words of the request come back in the message; JSON escapes what UTF-8 cannot encode.
    return Response(json.dumps({"error": words}), status_code=status, media_type="application/json")


async def _no_icon(request: Request) -> Response:
    return Response(status_code=204)


def _file(name: str, media_type: str) -> Handler:
    async def send(request: Request) -> Response:
        return Response(_read(name), media_type=media_type)

    return send


def _report(path: Path) -> Handler:
    async def send(request: Request) -> Response:
        return FileResponse(
            path, media_type="text/html; charset=utf-8", headers={"content-security-policy": PAGE_POLICY}
        )

    return send


def _download(folder: Path) -> Handler:
    async def send(request: Request) -> Response:
        name = request.path_params.get("name")
        path = folder / "report.json" if name is None else folder / "problems" / f"{name}.csv"
        if not path.is_file() or path.resolve().parent != path.parent.resolve():
            raise HTTPException(404)
        return FileResponse(path, filename=path.name)

    return send


async def _styles(request: Request) -> Response:
    text = _read("explorer.css").replace("{{ light }}", LIGHT.css()).replace("{{ dark }}", DARK.css())
    return Response(text, media_type="text/css; charset=utf-8")


def _described(explorer: Explorer, pictures: Pictures, marks: Marks, title: str, folder: Path | None) -> Handler:
    async def send(request: Request) -> Response:
        size = None if pictures.size is None else {"height": pictures.size[0], "width": pictures.size[1]}
        return JSONResponse(
            {
                "title": title,
                "rows": explorer.table.num_rows,
                "columns": [dataclasses.asdict(column) for column in explorer.columns.values()],
                "thumbnails": size,
                "page": PAGE_ROWS,
                "spriteColumns": SPRITE_COLUMNS,
                "models": explorer.models,
                "tags": marks.tags(),
                "marked": len(marks),
                "report": folder is not None and (folder / "index.html").is_file(),
            }
        )

    return send


def _rows(explorer: Explorer, marks: Marks) -> Handler:
    async def send(request: Request) -> Response:
        query = await read_json(request)
        if "ids" in query:
            numbers = np.array(explorer.find(_texts("ids", query["ids"])), dtype=np.int64)
        elif query.get("marked") is True:
            numbers = np.array(explorer.find(marks.ids()), dtype=np.int64)
        else:
            numbers = None
        start = _whole("offset", query.get("offset", 0), 0, explorer.table.num_rows)
        count = _whole("limit", query.get("limit", PAGE_ROWS), 1, MOST_ROWS)
        if numbers is None:
            page, total = await run_in_threadpool(_page, explorer, query, start, count)
        else:
            page, total = numbers[start : start + count], len(numbers)
        return JSONResponse({"total": total, "offset": start, "rows": _with_marks(explorer, marks, page)})

    return send


def _histogram(explorer: Explorer) -> Handler:
    async def send(request: Request) -> Response:
        query = await read_json(request)
        numbers = await run_in_threadpool(explorer.order, read_filters(query.get("filters", [])))
        return JSONResponse(explorer.histogram(str(query.get("column", "")), numbers))

    return send


def _disagreements(explorer: Explorer, marks: Marks) -> Handler:
    async def send(request: Request) -> Response:
        query = await read_json(request)
        numbers = await run_in_threadpool(_ordered, explorer, query)
        cases = explorer.disagreements(str(query.get("first", "")), str(query.get("second", "")), numbers)
        sides = {name: _with_marks(explorer, marks, cases[name][:SIDE_BY_SIDE]) for name in ("first", "second")}
        return JSONResponse({"counts": {name: len(rows) for name, rows in cases.items()}, **sides})

    return send


def _mark(explorer: Explorer, marks: Marks) -> Handler:
    async def send(request: Request) -> Response:
        query = await read_json(request)
        numbers = _numbers(query.get("rows"), explorer.table.num_rows)
        if not len(numbers) or len(numbers) > MOST_ROWS:
            raise InputError(f"must be 1 to {MOST_ROWS:,} row numbers; got {len(numbers):,}", argument="rows")
        label = query.get("label")
        add, remove = _texts("tags", [query.get("add", ""), query.get("remove", "")])
        if label is not None:
            (label,) = _texts("label", [label])
            known = explorer.columns["label"].choices if "label" in explorer.columns else ()
            if label and known and label not in known:
                raise InputError(f"must be one of {', '.join(known[:20])}; got {label!r}", argument="label")
        rows = [_plain(row) for row in explorer.rows(numbers)]
        changed = await run_in_threadpool(marks.set, rows, label=label, add=add.strip(), remove=remove.strip())
        answer = [dataclasses.asdict(mark) for mark in changed]
        return JSONResponse({"marks": answer, "tags": marks.tags(), "marked": len(marks)})

    return send


def _corrections(marks: Marks) -> Handler:
    async def send(request: Request) -> Response:
        headers = {"Content-Disposition": 'attachment; filename="corrections.csv"'}
        return Response(marks.csv(), media_type="text/csv; charset=utf-8", headers=headers)

    return send


def _subset(explorer: Explorer, title: str) -> Handler:
    async def send(request: Request) -> Response:
        query = await read_json(request)
        selected = query.get("rows")
        if selected is None:
            rows = _ordered(explorer, query)
            how = {"filters": query.get("filters", []), "sort": query.get("sort", "")}
        else:
            rows, how = _numbers(selected, explorer.table.num_rows), {"selected": "by hand"}
        if not len(rows):
            raise InputError(": nothing is selected; select examples or widen the filters", argument="rows")
        ids = explorer.table["id"].take(rows).to_pylist()
        source = f"{title}: {json.dumps(how, sort_keys=True)}"
        subset = confusion.subset_of_ids(ids, examples=explorer.table.num_rows, source=source)
        headers = {"Content-Disposition": 'attachment; filename="subset.json"'}
        text = files.dumps(files.to_json(subset)) + "\n"
        return Response(text, media_type="application/json", headers=headers)

    return send


def _sprite(pictures: Pictures, n: int) -> Handler:
    async def send(request: Request) -> Response:
        if pictures.size is None:
            return JSONResponse({"error": "these examples have no thumbnails"}, status_code=404)
        numbers = request.query_params.get("rows", "").split(",")
        if (
            not all(number.isascii() and number.isdigit() and len(number) < 10 for number in numbers)
            or len(numbers) > MOST_ROWS
        ):
            raise InputError(f"must be up to {MOST_ROWS:,} row numbers with commas between them", argument="rows")
        rows = _numbers([int(number) for number in numbers], n)
        return Response(await run_in_threadpool(pictures.sheet, rows), media_type="image/png")

    return send


def _page(explorer: Explorer, query: dict[str, Any], start: int, count: int) -> tuple[NDArray[np.int64], int]:
    filters, sort = read_filters(query.get("filters", [])), str(query.get("sort") or "")
    return explorer.page(filters, sort, descending=query.get("descending") is True, offset=start, limit=count)


def _ordered(explorer: Explorer, query: dict[str, Any]) -> NDArray[np.int64]:
    filters = read_filters(query.get("filters", []))
    return explorer.order(filters, str(query.get("sort") or ""), descending=query.get("descending") is True)


def _with_marks(explorer: Explorer, marks: Marks, numbers: NDArray[np.int64]) -> list[dict[str, Any]]:
    rows = [_plain(row) for row in explorer.rows(numbers)]
    return [row | {"mark": dataclasses.asdict(marks.of(str(row["id"])))} for row in rows]


def _whole(name: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(
            f"must be a whole number from {least:,} to {most:,}; got {ascii(value)[:40]}", argument=name
        )
    return value


def _numbers(values: Any, n: int) -> NDArray[np.int64]:
    if not isinstance(values, list) or not all(type(number) is int and 0 <= number < n for number in values):
        raise InputError(f"must be row numbers from 0 to {n - 1:,}", argument="rows")
    return np.array(values, dtype=np.int64)


def _texts(name: str, values: Any) -> list[str]:
    """A list of texts that UTF-8 can encode: JSON may contain lone surrogates."""
    usable = isinstance(values, list) and len(values) <= MOST_ROWS and all(isinstance(item, str) for item in values)
    if not usable or any("\ud800" <= letter <= "\udfff" or letter == "\0" for item in values for letter in item):
        raise InputError("must be texts of Unicode characters", argument=name)
    return list(values)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row as JSON writes it: what is not finite is null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }


def _read(name: str) -> str:
    return resources.files("hardpan.web.explorer").joinpath(name).read_text(encoding="utf-8")
