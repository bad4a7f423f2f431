"""The routes of the explorer, and its thumbnails."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import json
import math
import os
from collections.abc import Callable
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
from hardpan.auditing.example_table import Examples
from hardpan.data.images import FORMATS, MOST_PIXELS
from hardpan.errors import HardpanError, InputError
from hardpan.pages.palette import DARK, LIGHT
from hardpan.web.explorer.marks import Marks
from hardpan.web.explorer.query import ExampleQueries, is_query_text, read_filters
from hardpan.web.explorer.review import LabelQueue, ReviewSite
from hardpan.web.security import local, read_request_json

SPRITE_COLUMNS = 20
FROM_DISK = 64  # pixels: side of a thumbnail that is read from an image file
PAGE_ROWS = 120
MOST_ROWS = 1000
RANKED = {"split", "row", "label", "suggested_label", "label_rank", "label_probability"}  # columns
SIDE_BY_SIDE = 60  # examples of each side of a disagreement
DOWNLOADS = {"/report": "index.html", "/report.json": "report.json"}  # address to file

# The page of a report has a policy of its own in its head, with the hashes of its scripts; both apply. The folder
# may come from anyone: in a sandbox its page has an origin of its own, which cannot read what this server answers.
PAGE_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; "
    "script-src 'unsafe-inline' 'unsafe-eval'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


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
        review: the review of a random sample of labels, served at /review; without one, /review has the queue of
            suspicious labels, where the audit ranked labels.
    """
    paths = examples.table["path"] if "path" in examples.table.column_names else None
    thumbnails = Thumbnails(examples.thumbnails, paths, None if images is None else images.resolve())
    marks = Marks(folder)
    queue: LabelQueue | ReviewSite | None = review
    if review is None and set(examples.table.column_names) >= RANKED:
        queue = LabelQueue(examples, marks)
    site = ExplorerSite(ExampleQueries(examples), marks, thumbnails, title, folder, queue)
    get = ["GET"]
    styles = _explorer_file("explorer.css", light=LIGHT.css(), dark=DARK.css())
    routes = [
        Route("/", _explorer_file("explorer.html"), methods=get),
        Route("/favicon.ico", Response(status_code=204), methods=get),
        Route("/explorer.css", styles, methods=get),
        Route("/explorer.js", _explorer_file("explorer.js"), methods=get),
        Route("/api/table", site.table),
        Route("/api/corrections.csv", site.corrections),
        Route("/api/sprite", site.sprite),
        _query_route("/api/rows", site.rows),
        _query_route("/api/histogram", site.histogram),
        _query_route("/api/disagreements", site.disagreements),
        _query_route("/api/marks", site.mark),
        _query_route("/api/subset", site.subset),
    ]
    if queue is not None:
        routes += [
            Route("/review", _explorer_file("review.html"), methods=get),
            Route("/review.js", _explorer_file("review.js"), methods=get),
            Route("/api/review", site.review_sample),
            _query_route("/api/review", queue.judge),
        ]
    if site.page is not None:
        # The files that the page links to are copied too.
        routes += [Route(path, site.download) for path in (*DOWNLOADS, "/problems/{name}.csv")]
    refused = (HardpanError, HTTPException, OSError)
    app = Starlette(routes=routes, exception_handlers=dict.fromkeys(refused, _explorer_refusal))
    return local(app, hosts)


async def _explorer_refusal(request: Request, error: Exception) -> Response:
    status, words, headers = 400, str(error), {}
    if isinstance(error, HTTPException):
        status, words = error.status_code, error.detail
    elif isinstance(error, OSError):  # the disk is full, or may only be read
        status, headers = 503, {"retry-after": "5"}
        words = f"Nothing was saved: {error.strerror}. Free some space or make the audit's folder writable."
    # Words of the request come back in the message; JSON escapes what UTF-8 cannot encode.
    return Response(json.dumps({"error": words}), status, headers, media_type="application/json")


def _explorer_file(name: str, **replaced: str) -> Response:
    text = resources.files("hardpan.web.explorer").joinpath(name).read_text(encoding="utf-8")
    for word, value in replaced.items():
        text = text.replace(f"{{{{ {word} }}}}", value)
    return Response(text, media_type=f"text/{name.rpartition('.')[2].replace('js', 'javascript')}")


def _query_route(path: str, answer: Callable[[dict[str, Any]], Any]) -> Route:
    """A post of a JSON query: ``answer(query)`` runs outside the event loop."""

    async def endpoint(request: Request) -> Response:
        result = await run_in_threadpool(answer, await read_request_json(request))
        return result if isinstance(result, Response) else JSONResponse(result)

    return Route(path, endpoint, methods=["POST"])


@dataclasses.dataclass(frozen=True, slots=True)
class ExplorerSite:
    """What the routes answer from."""

    queries: ExampleQueries
    marks: Marks
    thumbnails: Thumbnails
    title: str
    folder: Path | None
    review: LabelQueue | ReviewSite | None

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

    def download(self, request: Request) -> Response:
        """The page of the report, or a file that it links to."""
        name = request.path_params.get("name")
        path = self._file(DOWNLOADS.get(request.url.path, f"problems/{name}.csv"))
        if path is None:
            raise HTTPException(404)
        if path.suffix == ".html":
            headers = {"content-security-policy": PAGE_POLICY}
            return FileResponse(path, media_type="text/html; charset=utf-8", headers=headers)
        return FileResponse(path, filename=path.name)

    def table(self, request: Request) -> Response:
        """What the page needs to begin: the columns, the models, the tags."""
        return JSONResponse(
            {
                "title": self.title,
                "rows": self.queries.table.num_rows,
                "columns": [dataclasses.asdict(column) for column in self.queries.columns.values()],
                "page": PAGE_ROWS,
                "models": self.queries.models,
                "tags": self.marks.tags(),
                "marked": len(self.marks),
                "report": self.page is not None,
                "queue": 0 if self.review is None else len(self.review),
                **self.thumbnails.layout(),
            }
        )

    def rows(self, query: dict[str, Any]) -> dict[str, Any]:
        """One page of rows."""
        start = arguments.whole_number("offset", query.get("offset", 0), 0, self.queries.table.num_rows)
        count = arguments.whole_number("limit", query.get("limit", PAGE_ROWS), 1, MOST_ROWS)
        if "ids" in query or query.get("marked") is True:
            ids = _explorer_texts("ids", query["ids"]) if "ids" in query else self.marks.ids()
            numbers = np.array(self.queries.find(ids), dtype=np.int64)
            page, total = numbers[start : start + count], len(numbers)
        else:
            page, total = self.queries.page(**_order_options(query), offset=start, limit=count)
        return {"total": total, "offset": start, "rows": self._rows_with_marks(page)}

    def histogram(self, query: dict[str, Any]) -> dict[str, Any]:
        """Counts of a column among the rows that pass the filters."""
        numbers = self.queries.order(read_filters(query.get("filters", [])))
        return self.queries.histogram(str(query.get("column", "")), numbers)

    def disagreements(self, query: dict[str, Any]) -> dict[str, Any]:
        """Examples that only one of two models gets right."""
        numbers = self.queries.order(**_order_options(query))
        cases = self.queries.disagreements(str(query.get("first", "")), str(query.get("second", "")), numbers)
        sides = {name: self._rows_with_marks(cases[name][:SIDE_BY_SIDE]) for name in ("first", "second")}
        return {"counts": {name: len(rows) for name, rows in cases.items()}, **sides}

    def mark(self, query: dict[str, Any]) -> dict[str, Any]:
        """Tag or relabel rows."""
        numbers = self._row_numbers(query.get("rows"))
        if not len(numbers) or len(numbers) > MOST_ROWS:
            raise InputError(f"must be 1 to {MOST_ROWS:,} row numbers; got {len(numbers):,}", argument="rows")
        label = query.get("label")
        add, remove = _explorer_texts("tags", [query.get("add", ""), query.get("remove", "")])
        if label is not None:
            (label,) = _explorer_texts("label", [label])
            known = self.queries.columns["label"].choices if "label" in self.queries.columns else ()
            if label and known and label not in known:
                raise InputError(f"must be one of {', '.join(known[:20])}; got {label!r}", argument="label")
        rows = [_json_row(row) for row in self.queries.rows(numbers)]
        changed = self.marks.set(rows, label=label, add=add.strip(), remove=remove.strip())
        answer = [dataclasses.asdict(mark) for mark in changed]
        return {"marks": answer, "tags": self.marks.tags(), "marked": len(self.marks)}

    def review_sample(self, request: Request) -> Response:
        """The labels to review."""
        assert self.review is not None
        return JSONResponse(self.review.sample() | self.thumbnails.layout())

    def corrections(self, request: Request) -> Response:
        """The marks as a file."""
        headers = {"Content-Disposition": 'attachment; filename="corrections.csv"'}
        return Response(self.marks.csv(), media_type="text/csv; charset=utf-8", headers=headers)

    def subset(self, query: dict[str, Any]) -> Response:
        """The ids of the selected rows, or of those that pass the filters, as a file."""
        n = self.queries.table.num_rows
        if query.get("rows") is None:
            rows = self.queries.order(**_order_options(query))
            how = {"filters": query.get("filters", []), "sort": query.get("sort", "")}
        else:
            rows, how = self._row_numbers(query["rows"]), {"selected": "by hand"}
        if not len(rows):
            raise InputError(": nothing is selected; select examples or widen the filters", argument="rows")
        ids = self.queries.table["id"].take(rows).to_pylist()
        source = f"{self.title}: {json.dumps(how, sort_keys=True)}"
        subset = confusion.subset_of_ids(ids, examples=n, source=source)
        headers = {"Content-Disposition": 'attachment; filename="subset.json"'}
        text = files.json_text(subset) + "\n"
        return Response(text, media_type="application/json", headers=headers)

    def sprite(self, request: Request) -> Response:
        """The thumbnails of some rows in one picture."""
        if self.thumbnails.size is None:
            raise HTTPException(404, "these examples have no thumbnails")
        numbers = request.query_params.get("rows", "").split(",")
        digits = all(number.isascii() and number.isdigit() and len(number) < 10 for number in numbers)
        if not digits or len(numbers) > MOST_ROWS:
            raise InputError(f"must be up to {MOST_ROWS:,} row numbers with commas between them", argument="rows")
        rows = self._row_numbers([int(number) for number in numbers])
        return Response(self.thumbnails.sheet(rows), media_type="image/png")

    def _rows_with_marks(self, numbers: NDArray[np.int64]) -> list[dict[str, Any]]:
        rows = [_json_row(row) for row in self.queries.rows(numbers)]
        return [row | {"mark": dataclasses.asdict(self.marks.of(str(row["id"])))} for row in rows]

    def _row_numbers(self, values: Any) -> NDArray[np.int64]:
        n = self.queries.table.num_rows
        if not isinstance(values, list) or not all(type(number) is int and 0 <= number < n for number in values):
            raise InputError(f"must be row numbers from 0 to {n - 1:,}", argument="rows")
        return np.array(values, dtype=np.int64)


def _order_options(query: dict[str, Any]) -> dict[str, Any]:
    """The filters and the order of a query, as arguments of :meth:`ExampleQueries.order`."""
    filters, sort = read_filters(query.get("filters", [])), str(query.get("sort") or "")
    return {"filters": filters, "sort": sort, "descending": query.get("descending") is True}


def _explorer_texts(name: str, values: Any) -> list[str]:
    if not isinstance(values, list) or len(values) > MOST_ROWS or not all(map(is_query_text, values)):
        raise InputError("must be texts of Unicode characters", argument=name)
    return values


def _json_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row as JSON writes it: what is not finite is null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }


@dataclasses.dataclass(frozen=True, slots=True)
class Thumbnails:
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

    def layout(self) -> dict[str, Any]:
        """What the page cuts sheets by: the size of a thumbnail, if there are any, and how many are in a line."""
        size = None if self.size is None else {"height": self.size[0], "width": self.size[1]}
        return {"thumbnails": size, "spriteColumns": SPRITE_COLUMNS}

    def sheet(self, rows: NDArray[np.int64]) -> bytes:
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
