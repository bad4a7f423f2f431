"""The explorer: look through every example of an audit in a browser; filter, compare models, tag, relabel, export.

It answers on this machine only and reads one folder; the only files that it writes are ``corrections.csv`` and,
with a review of labels, ``review.csv`` in it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import json
import math
import os
from collections.abc import Awaitable, Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from hardpan import arguments, confusion, files
from hardpan.auditing.examples import Examples
from hardpan.data.images import FORMATS, MOST_PIXELS
from hardpan.errors import HardpanError, InputError
from hardpan.pages.palette import DARK, LIGHT
from hardpan.web.explorer.marks import Marks
from hardpan.web.explorer.query import Explorer, read_filters
from hardpan.web.explorer.review import ReviewSite
from hardpan.web.security import local
from hardpan.web.shell import read_json

PAGE_ROWS = 120
MOST_ROWS = 1000
SPRITE_COLUMNS = 20
FROM_DISK = 64  # pixels: side of a thumbnail that is read from an image file
SIDE_BY_SIDE = 60  # examples of each side of a disagreement
DOWNLOADS = {"/report": "index.html", "/report.json": "report.json"}  # address to file

# The page of a report has a policy of its own in its head, with the hashes of its scripts; both apply. The folder
# may come from anyone: in a sandbox its page has an origin of its own, which cannot read what this server answers.
PAGE_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; "
    "script-src 'unsafe-inline' 'unsafe-eval'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Pictures:
    """Thumbnails of the rows: from an array that stays on the disk, or from the image files named in a column.

    Attributes:
        array: (N, h, w) or (N, h, w, 3) bytes, or None.
        paths: the image files of the rows, or None.
        root: the only folder whose files are read, as the user named it; None reads none.
    """

    array: NDArray[np.uint8] | None
    paths: Any = None
    root: Path | None = None

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width of a thumbnail; None where there are none."""
        if self.array is not None:
            return int(self.array.shape[1]), int(self.array.shape[2])
        return None if self.paths is None or self.root is None else (FROM_DISK, FROM_DISK)

    def thumbnail_sheet(self, rows: NDArray[np.int64]) -> bytes:
        """One PNG with the pictures of those rows, 20 per line: one request instead of a hundred."""
        assert self.size is not None
        height, width = self.size
        lines = math.ceil(len(rows) / SPRITE_COLUMNS)
        depth = self.array.shape[3:] if self.array is not None else (3,)
        sheet = np.zeros((lines * height, SPRITE_COLUMNS * width, *depth), dtype=np.uint8)
        for position, row in enumerate(rows.tolist()):
            top, left = height * (position // SPRITE_COLUMNS), width * (position % SPRITE_COLUMNS)
            picture = self.array[row] if self.array is not None else _thumbnail(self._image_file(row))
            sheet[top : top + height, left : left + width] = picture
        stream = io.BytesIO()
        Image.fromarray(sheet).save(stream, "PNG", compress_level=1)
        return stream.getvalue()

    def _image_file(self, row: int) -> Path | None:
        """The file of a row; None for what is not a regular file inside the folder, as links to others are not."""
        assert self.root is not None
        named = str(self.paths[row])
        with contextlib.suppress(OSError, ValueError):  # names that no file can have
            for path in (self.root / named, Path(named)):  # relative to the folder, or as the audit was started
                file = Path(os.path.realpath(path))
                if file.is_relative_to(self.root) and file.is_file():
                    return file
        return None


@functools.lru_cache(maxsize=4096)
def _thumbnail(path: Path | None) -> NDArray[np.uint8]:
    """An image file as a square of 64 pixels, centred on grey; a file that cannot be read is grey."""
    square = np.full((FROM_DISK, FROM_DISK, 3), 128, np.uint8)
    if path is None:
        return square
    try:
        with Image.open(path, formats=FORMATS) as image:
            if image.width * image.height > MOST_PIXELS:
                return square
            image.draft("RGB", (FROM_DISK, FROM_DISK))
            image.thumbnail((FROM_DISK, FROM_DISK))
            small = np.asarray(image.convert("RGB"))
    except (Image.DecompressionBombError, *files.DAMAGED):  # Pillow's decoders raise nearly anything
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
    review: ReviewSite | None = None,
) -> ASGIApp:
    """Make the explorer's application.

    Args:
        examples: the joined table and its thumbnails.
        title: the title of the page.
        hosts: names that it answers to, besides this machine's own.
        folder: the audit's folder: its page is served at /report, and corrections.csv is written there.
        images: the folder of the image files that the table names; files outside it are never read.
        review: a review of labels, served at /review.
    """
    paths = examples.table["path"] if "path" in examples.table.column_names else None
    root = None if images is None else images.resolve()
    pictures = Pictures(examples.thumbnails, paths, root)
    site = _ExplorerSite(Explorer(examples), Marks(folder), pictures, title, folder, review)
    routes = [
        Route("/", _explorer_file("explorer.html", "text/html; charset=utf-8")),
        Route("/favicon.ico", _no_icon),
        Route("/explorer.css", _explorer_styles),
        Route("/explorer.js", _explorer_file("explorer.js", "text/javascript; charset=utf-8")),
        Route("/api/table", site.table),
        Route("/api/corrections.csv", site.corrections),
        Route("/api/sprite", site.sprite),
        Route("/api/rows", site.rows, methods=["POST"]),
        Route("/api/histogram", site.histogram, methods=["POST"]),
        Route("/api/disagreements", site.disagreements, methods=["POST"]),
        Route("/api/marks", site.mark, methods=["POST"]),
        Route("/api/subset", site.subset, methods=["POST"]),
    ]
    if review is not None:
        routes += [
            Route("/review", _explorer_file("review.html", "text/html; charset=utf-8")),
            Route("/review.js", _explorer_file("review.js", "text/javascript; charset=utf-8")),
            Route("/api/review", site.reviewed, methods=["GET", "POST"]),
        ]
    if site.page is not None:
        # The files that the page links to are copied too.
        routes += [Route(path, site.download) for path in (*DOWNLOADS, "/problems/{name}.csv")]
    refused = (HardpanError, HTTPException, OSError)
    app = Starlette(routes=routes, exception_handlers=dict.fromkeys(refused, _refusal))
    return local(app, hosts)


async def _refusal(request: Request, error: Exception) -> Response:
    status, words, headers = 400, str(error), {}
    if isinstance(error, HTTPException):
        status, words = error.status_code, error.detail
    elif isinstance(error, OSError):  # the disk is full, or may only be read
        status, headers = 503, {"retry-after": "5"}
        words = f"Nothing was saved: {error.strerror}. Free some space or make the audit's folder writable."
    # Words of the request come back in the message; JSON escapes what UTF-8 cannot encode.
    return Response(json.dumps({"error": words}), status, headers, media_type="application/json")


async def _no_icon(request: Request) -> Response:
    return Response(status_code=204)


def _explorer_file(name: str, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def send(request: Request) -> Response:
        return Response(_explorer_resource(name), media_type=media_type)

    return send


async def _explorer_styles(request: Request) -> Response:
    text = _explorer_resource("explorer.css").replace("{{ light }}", LIGHT.css()).replace("{{ dark }}", DARK.css())
    return Response(text, media_type="text/css; charset=utf-8")


@dataclasses.dataclass(frozen=True, slots=True)
class _ExplorerSite:
    """What the routes answer from."""

    explorer: Explorer
    marks: Marks
    pictures: Pictures
    title: str
    folder: Path | None
    review: ReviewSite | None

    @property
    def page(self) -> Path | None:
        """The page of the report, where there is one."""
        return self._file("index.html")

    def _file(self, name: str) -> Path | None:
        """A regular file that is in the folder itself; links may lead anywhere."""
        if self.folder is None:
            return None
        path = self.folder / name
        try:
            inside = os.path.realpath(path) == os.path.join(os.path.realpath(self.folder), name)
            return path if inside and path.is_file() else None
        except (OSError, ValueError):  # a name that no file can have
            return None

    async def download(self, request: Request) -> Response:
        name = request.path_params.get("name")
        path = self._file(DOWNLOADS.get(request.url.path, f"problems/{name}.csv"))
        if path is None:
            raise HTTPException(404)
        if path.suffix == ".html":
            headers = {"content-security-policy": PAGE_POLICY}
            return FileResponse(path, media_type="text/html; charset=utf-8", headers=headers)
        return FileResponse(path, filename=path.name)

    async def table(self, request: Request) -> Response:
        size = self.pictures.size
        return JSONResponse(
            {
                "title": self.title,
                "rows": self.explorer.table.num_rows,
                "columns": [dataclasses.asdict(column) for column in self.explorer.columns.values()],
                "thumbnails": None if size is None else {"height": size[0], "width": size[1]},
                "page": PAGE_ROWS,
                "spriteColumns": SPRITE_COLUMNS,
                "models": self.explorer.models,
                "tags": self.marks.tags(),
                "marked": len(self.marks),
                "report": self.page is not None,
            }
        )

    async def rows(self, request: Request) -> Response:
        query = await read_json(request)
        start = arguments.whole_number("offset", query.get("offset", 0), 0, self.explorer.table.num_rows)
        count = arguments.whole_number("limit", query.get("limit", PAGE_ROWS), 1, MOST_ROWS)
        if "ids" in query or query.get("marked") is True:
            ids = _encodable_texts("ids", query["ids"]) if "ids" in query else self.marks.ids()
            numbers = np.array(self.explorer.find(ids), dtype=np.int64)
            page, total = numbers[start : start + count], len(numbers)
        else:
            options = _order_options(query)
            page, total = await run_in_threadpool(self.explorer.page, **options, offset=start, limit=count)
        return JSONResponse({"total": total, "offset": start, "rows": self._with_marks(page)})

    async def histogram(self, request: Request) -> Response:
        query = await read_json(request)
        numbers = await run_in_threadpool(self.explorer.order, read_filters(query.get("filters", [])))
        return JSONResponse(self.explorer.histogram(str(query.get("column", "")), numbers))

    async def disagreements(self, request: Request) -> Response:
        query = await read_json(request)
        numbers = await run_in_threadpool(self.explorer.order, **_order_options(query))
        cases = self.explorer.disagreements(str(query.get("first", "")), str(query.get("second", "")), numbers)
        sides = {name: self._with_marks(cases[name][:SIDE_BY_SIDE]) for name in ("first", "second")}
        return JSONResponse({"counts": {name: len(rows) for name, rows in cases.items()}, **sides})

    async def mark(self, request: Request) -> Response:
        query = await read_json(request)
        numbers = _row_numbers(query.get("rows"), self.explorer.table.num_rows)
        if not len(numbers) or len(numbers) > MOST_ROWS:
            raise InputError(f"must be 1 to {MOST_ROWS:,} row numbers; got {len(numbers):,}", argument="rows")
        label = query.get("label")
        add, remove = _encodable_texts("tags", [query.get("add", ""), query.get("remove", "")])
        if label is not None:
            (label,) = _encodable_texts("label", [label])
            known = self.explorer.columns["label"].choices if "label" in self.explorer.columns else ()
            if label and known and label not in known:
                raise InputError(f"must be one of {', '.join(known[:20])}; got {label!r}", argument="label")
        rows = [_json_row(row) for row in self.explorer.rows(numbers)]
        changed = await run_in_threadpool(self.marks.set, rows, label=label, add=add.strip(), remove=remove.strip())
        answer = [dataclasses.asdict(mark) for mark in changed]
        return JSONResponse({"marks": answer, "tags": self.marks.tags(), "marked": len(self.marks)})

    async def reviewed(self, request: Request) -> Response:
        assert self.review is not None
        if request.method == "POST":
            return JSONResponse(await run_in_threadpool(self.review.judge, await read_json(request)))
        size = self.pictures.size
        picture = {"thumbnails": None if size is None else {"height": size[0], "width": size[1]}}
        return JSONResponse(self.review.sample() | picture | {"spriteColumns": SPRITE_COLUMNS})

    async def corrections(self, request: Request) -> Response:
        headers = {"Content-Disposition": 'attachment; filename="corrections.csv"'}
        return Response(self.marks.csv(), media_type="text/csv; charset=utf-8", headers=headers)

    async def subset(self, request: Request) -> Response:
        query = await read_json(request)
        n = self.explorer.table.num_rows
        if query.get("rows") is None:
            rows = self.explorer.order(**_order_options(query))
            how = {"filters": query.get("filters", []), "sort": query.get("sort", "")}
        else:
            rows, how = _row_numbers(query["rows"], n), {"selected": "by hand"}
        if not len(rows):
            raise InputError(": nothing is selected; select examples or widen the filters", argument="rows")
        ids = self.explorer.table["id"].take(rows).to_pylist()
        source = f"{self.title}: {json.dumps(how, sort_keys=True)}"
        subset = confusion.subset_of_ids(ids, examples=n, source=source)
        headers = {"Content-Disposition": 'attachment; filename="subset.json"'}
        text = files.json_text(subset) + "\n"
        return Response(text, media_type="application/json", headers=headers)

    async def sprite(self, request: Request) -> Response:
        if self.pictures.size is None:
            return JSONResponse({"error": "these examples have no thumbnails"}, status_code=404)
        numbers = request.query_params.get("rows", "").split(",")
        digits = all(number.isascii() and number.isdigit() and len(number) < 10 for number in numbers)
        if not digits or len(numbers) > MOST_ROWS:
            raise InputError(f"must be up to {MOST_ROWS:,} row numbers with commas between them", argument="rows")
        rows = _row_numbers([int(number) for number in numbers], self.explorer.table.num_rows)
        return Response(await run_in_threadpool(self.pictures.thumbnail_sheet, rows), media_type="image/png")

    def _with_marks(self, numbers: NDArray[np.int64]) -> list[dict[str, Any]]:
        rows = [_json_row(row) for row in self.explorer.rows(numbers)]
        return [row | {"mark": dataclasses.asdict(self.marks.of(str(row["id"])))} for row in rows]


def _order_options(query: dict[str, Any]) -> dict[str, Any]:
    """The filters and the order of a query, as arguments of :meth:`Explorer.order`."""
    filters, sort = read_filters(query.get("filters", [])), str(query.get("sort") or "")
    return {"filters": filters, "sort": sort, "descending": query.get("descending") is True}


def _row_numbers(values: Any, n: int) -> NDArray[np.int64]:
    if not isinstance(values, list) or not all(type(number) is int and 0 <= number < n for number in values):
        raise InputError(f"must be row numbers from 0 to {n - 1:,}", argument="rows")
    return np.array(values, dtype=np.int64)


def _encodable_texts(name: str, values: Any) -> list[str]:
    """A list of texts that UTF-8 can encode: JSON may contain lone surrogates."""
    usable = isinstance(values, list) and len(values) <= MOST_ROWS and all(isinstance(item, str) for item in values)
    if not usable or any("\ud800" <= letter <= "\udfff" or letter == "\0" for item in values for letter in item):
        raise InputError("must be texts of Unicode characters", argument=name)
    return list(values)


def _json_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row as JSON writes it: what is not finite is null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }


def _explorer_resource(name: str) -> str:
    return resources.files("hardpan.web.explorer").joinpath(name).read_text(encoding="utf-8")
