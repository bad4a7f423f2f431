"""The pool of candidates: folders, CSV and Parquet files in, images by content out; nothing broken is fatal."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hardpan import tables
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.files import record
from hardpan.replicate.pictures import MOST_BYTES, decode, picture_id, store_picture
from hardpan.replicate.project import Project
from hardpan.replicate.steps import hash_file, hash_rows, record_step

PATHS, BYTES = ("path", "file", "image"), ("bytes", "image_bytes", "image")
MEANINGS = {"class", "label", "keyword", "subclass", "sub_class", "source", "date"}
_AT_ONCE = 512
_MOST_TEXT = 200


@dataclass(frozen=True, slots=True)
class Offered:
    """A picture as a source offers it: its bytes or the file that holds them, and what is said of it."""

    name: str
    data: bytes | Path
    class_name: str = ""
    keyword: str = ""
    source: str = ""
    date: str = ""
    details: Mapping[str, str] = field(default_factory=dict)


@record
@dataclass(frozen=True, slots=True)
class Added:
    """What :func:`add_candidates` did: how many pictures were read and what became of them.

    Attributes:
        read: pictures offered.
        added: new candidates.
        repeated: exact copies of a candidate, of this source or an earlier one.
        in_original: exact copies of an original, which are left out.
        broken: "name: reason" of every picture that could not be used.
        without_class: new candidates whose class is not known yet (their keyword may tell it later).
    """

    read: int
    added: int
    repeated: int
    in_original: int
    broken: tuple[str, ...]
    without_class: int


def add_candidates(
    project: Project,
    source: str | os.PathLike[str],
    *,
    class_name: str = "",
    keyword: str = "",
    progress: Progress | None = None,
) -> Added:
    """Put candidates into the pool; the same source again adds nothing.

    Args:
        project: an open project.
        source: a folder (CLASS/picture, CLASS/KEYWORD/picture, or pictures alone with ``class_name``), or a CSV or
            Parquet file with columns path (inside the file's own folder) or bytes, and optionally class, keyword,
            source and date; other columns are kept with the image.
        class_name: class of pictures that have none of their own.
        keyword: keyword of pictures that have none of their own.
        progress: told the step and the fraction done.
    """
    from hardpan.replicate.database.images import add_images, contents

    path = Path(source)
    if class_name:
        project.config.class_index(class_name)  # refuses a class that is not one of the project's
    offered = list(read_offers(path))
    known, originals = set(contents(project, "candidate")), set(contents(project, "original"))
    counts: Counter[str] = Counter()
    broken: list[str] = []
    seen: list[tuple[str, str]] = []
    for start in range(0, len(offered), _AT_ONCE):
        if progress is not None:
            progress(f"adding candidates, {start:,} of {len(offered):,}", start / len(offered))
        rows = []
        piece = offered[start : start + _AT_ONCE]
        with ThreadPoolExecutor() as threads:
            pictures = list(threads.map(functools.partial(decoded, project), piece))
        for item, picture in zip(piece, pictures, strict=True):
            if isinstance(picture, str):
                broken.append(picture)
                continue
            name = picture_id(picture)
            seen.append((item.name, name))
            if name in originals:
                counts["original"] += 1
            elif name in known:
                counts["repeated"] += 1
            else:
                row = _row(project, item, class_name, keyword, name, picture.shape)
                if isinstance(row, str):
                    broken.append(row)
                    continue
                store_picture(project, picture)
                known.add(name)
                rows.append(row)
                counts["without"] += row["class_index"] is None
        counts["added"] += add_images(project, rows) if rows else 0
    report = Added(
        len(offered), counts["added"], counts["repeated"], counts["original"], tuple(broken), counts["without"]
    )
    if counts["added"]:
        _log(project, path, report, seen, class_name, keyword)
    return report


def read_offers(path: Path) -> Iterator[Offered]:
    """What a folder or table offers, in the order of names or rows."""
    if path.is_dir():
        yield from _from_folder(path)
    elif path.suffix.lower() in (".csv", ".tsv", ".json", ".parquet", ".pq"):
        yield from _from_table(path)
    else:
        raise InputError(f"{path}: candidates come from a folder, a CSV or a Parquet file")


def _from_folder(root: Path) -> Iterator[Offered]:
    limit = root.resolve()
    for file in sorted(p for p in root.rglob("*") if not p.name.startswith(".") and not p.is_dir()):
        parts = file.relative_to(root).parts
        if len(parts) > 3:
            raise InputError(f"{file}: lies too deep; lay pictures out as CLASS/picture or CLASS/KEYWORD/picture")
        inside = file.resolve().is_relative_to(limit)
        data: bytes | Path = file if inside else b""
        yield Offered(
            file.relative_to(root).as_posix(),
            data,
            parts[0] if len(parts) > 1 else "",
            parts[1] if len(parts) > 2 else "",
            source=root.name,
            details={} if inside else {"refused": "leads out of the folder"},
        )


def _from_table(path: Path) -> Iterator[Offered]:
    columns = tables.read_columns(path, text=tables.suffix_of(path) in (".csv", ".tsv"))
    size = len(next(iter(columns.values())))
    place = next((name for name in (*BYTES, *PATHS) if name in columns), None)
    if place is None:
        raise InputError(f"{path}: needs a column path or bytes; the columns are {', '.join(columns)}")
    limit = path.parent.resolve()
    for row in range(size):
        value = columns[place][row]
        details = {
            k: str(v[row]) for k, v in columns.items() if k not in MEANINGS and k != place and v[row] is not None
        }
        if isinstance(value, dict):  # how Hugging Face writes images
            value = value.get("bytes") or value.get("path") or ""
        name = f"row {row + 1}"
        data: bytes | Path = b""
        if isinstance(value, (bytes, bytearray)):
            data = bytes(value)
        else:
            name = str(value)
            file = path.parent / name
            if name and "\0" not in name and file.resolve().is_relative_to(limit):
                data = file
            else:
                details["refused"] = "leads out of the folder of the table"

        def cell(*names: str, row: int = row) -> str:
            found = next((columns[n][row] for n in names if n in columns), None)
            return "" if found is None or found != found else str(found).strip()

        yield Offered(
            name,
            data,
            cell("class", "label"),
            cell("keyword", "subclass", "sub_class"),
            cell("source") or path.name,
            cell("date"),
            details,
        )


def decoded(project: Project, item: Offered) -> Any:
    """Pixels, or one sentence that says why there are none."""
    if "refused" in item.details:
        return f"{item.name}: {item.details['refused']}"
    try:
        if isinstance(item.data, Path):
            if not item.data.is_file():
                return f"{item.name}: is not there, or is no file"
            if item.data.stat().st_size > MOST_BYTES:
                return f"{item.name}: has more than {MOST_BYTES:,} bytes"
            data = item.data.read_bytes()
        else:
            data = item.data
        return decode(item.name, data, colour=len(project.config.shape) == 3)
    except InputError as error:
        return str(error)
    except OSError as error:
        return f"{item.name}: cannot be read ({error.strerror})"


def _row(
    project: Project, item: Offered, class_name: str, keyword: str, name: str, shape: tuple[int, ...]
) -> dict[str, Any] | str:
    label, key = item.class_name or class_name, item.keyword or keyword
    names = [c.name for c in project.classes]
    if label and label not in names:
        return f"{item.name}: class {label!r} is not one of the project's"
    if max(len(key), len(item.date)) > _MOST_TEXT:
        return f"{item.name}: keyword or date is longer than {_MOST_TEXT} characters"
    if "\0" in key + item.date + item.source:
        return f"{item.name}: keyword, date or source holds a null character"
    return {
        "id": name,
        "kind": "candidate",
        "content": name,
        "class_index": names.index(label) if label else None,
        "keyword": key or None,
        "source": item.source,
        "date": item.date[:40] or None,
        "height": shape[0],
        "width": shape[1],
        "details": {"name": item.name} | dict(item.details),
    }


def _log(
    project: Project, path: Path, report: Added, seen: list[tuple[str, str]], class_name: str, keyword: str
) -> None:
    source = {"table": hash_file(path)} if path.is_file() else {}
    record_step(
        project,
        "add",
        inputs={**source, "pictures": hash_rows(seen)},
        parameters={"source": path.name, "class": class_name, "keyword": keyword},
        outputs={
            "added": report.added,
            "repeated": report.repeated,
            "in_original": report.in_original,
            "broken": list(report.broken[:1000]),
        },
    )
