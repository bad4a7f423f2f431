"""The pool of candidates: pictures decoded with care, stored by content; a broken one is reported, not fatal."""

from __future__ import annotations

import functools
import io
import os
import threading
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import files, tables
from hardpan.data.images import FORMATS, MOST_PIXELS
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.files import file_hash, record
from hardpan.replicate.folder import ProjectFolder
from hardpan.replicate.steps import hash_rows, record_step
from hardpan.report.base import Report

MOST_BYTES = 64 * 1024 * 1024
_MODES = ("1", "L", "RGB", "P", "CMYK", "YCbCr", "RGBA", "LA", "PA")


def decode(name: str, data: bytes, *, colour: bool) -> NDArray[np.uint8]:
    """Decode a picture into (H, W) or (H, W, 3) bytes, turned as its camera says, or refuse it.

    The header is read first: what claims too many pixels, has several frames or another type is refused undecoded.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    if len(data) > MOST_BYTES:
        raise InputError(f"{name}: has {len(data):,} bytes, more than {MOST_BYTES:,}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                _check_header(name, image)
                turned = ImageOps.exif_transpose(image)
                return _pixels(name, turned, colour)
    except InputError:
        raise
    except Exception as error:  # decoders raise nearly anything for a damaged file
        reason = str(error).partition("\n")[0][:120] or type(error).__name__
        if isinstance(error, UnidentifiedImageError):
            reason = f"no picture in {', '.join(FORMATS)}"
        raise InputError(f"{name}: is broken or of another type ({reason})") from error


def picture_id(pixels: NDArray[np.uint8]) -> str:
    """The content id of a picture: 16 hexadecimal digits of sha256 over dtype, shape and bytes.

    Example:
        >>> picture_id(np.zeros((2, 2), np.uint8))
        '0f4c62411b6196a6'
    """
    return files.array_hash(np.ascontiguousarray(pixels))[:16]


def store_picture(project: ProjectFolder, pixels: NDArray[np.uint8]) -> str:
    """Keep a picture in the pool under its content id, whole or not at all; give the id."""
    from PIL import Image

    name = picture_id(pixels)
    path = project.pool_file(name)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Renamed when whole, but not flushed one by one: a pool has many thousands, and ids prove their content.
        fresh = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        Image.fromarray(pixels).save(fresh, format="PNG")
        os.replace(fresh, path)
    project.keep_blinded(name, pixels)
    return name


def _check_header(name: str, image: Any) -> None:
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise InputError(f"{name}: claims {width}×{height} pixels, more than {MOST_PIXELS:,}")
    if image.mode not in _MODES:
        raise InputError(f"{name}: has pixels of mode {image.mode}; save it with 8 bits per channel")
    if getattr(image, "is_animated", False):
        raise InputError(f"{name}: holds several frames; save one image per file")


def _pixels(name: str, image: Any, colour: bool) -> NDArray[np.uint8]:
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        if image.getchannel("A").getextrema() != (255, 255):
            raise InputError(f"{name}: has transparent pixels; save it on a background, without alpha")
    return np.array(image.convert("RGB" if colour else "L"))


PATHS, BYTES = ("path", "file", "image"), ("bytes", "image_bytes", "image")
MEANINGS = {"class", "label", "keyword", "subclass", "sub_class", "source", "date"}
_AT_ONCE = 512


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
class AddedCandidates(Report):
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
    project: ProjectFolder,
    source: str | os.PathLike[str],
    *,
    class_name: str = "",
    keyword: str = "",
    progress: Progress | None = None,
) -> AddedCandidates:
    """Put candidates into the pool; the same source again adds nothing.

    Args:
        project: an open project.
        source: a folder (CLASS/picture, CLASS/KEYWORD/picture, or pictures alone with ``class_name``), or a CSV or
            Parquet file with columns path (inside the file's own folder) or bytes, and optionally class, keyword,
            source and date; other columns are kept with the image.
        class_name: class of images for which the source has none.
        keyword: keyword of images for which the source has none.
        progress: called with the step and the fraction done.
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
    report = AddedCandidates(
        len(offered), counts["added"], counts["repeated"], counts["original"], tuple(broken), counts["without"]
    )
    if report.added:
        pictures_hash = {"pictures": hash_rows(seen)}
        record_step(
            project,
            "add",
            inputs={"table": file_hash(path)} | pictures_hash if path.is_file() else pictures_hash,
            parameters={"source": path.name, "class": class_name, "keyword": keyword},
            outputs={
                "added": report.added,
                "repeated": report.repeated,
                "in_original": report.in_original,
                "broken": list(report.broken[:1000]),
            },
        )
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
            raise InputError(f"{file}: is nested too deeply; use CLASS/image or CLASS/KEYWORD/image")
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
    column = next((name for name in (*BYTES, *PATHS) if name in columns), None)
    if column is None:
        raise InputError(f"{path}: needs a column path or bytes; the columns are {', '.join(columns)}")
    limit = path.parent.resolve()
    for row in range(size):
        value = columns[column][row]
        details = {
            k: str(v[row]) for k, v in columns.items() if k not in MEANINGS and k != column and v[row] is not None
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
            result = next((columns[n][row] for n in names if n in columns), None)
            return "" if result is None or result != result else str(result).strip()

        yield Offered(
            name,
            data,
            cell("class", "label"),
            cell("keyword", "subclass", "sub_class"),
            cell("source") or path.name,
            cell("date"),
            details,
        )


def decoded(project: ProjectFolder, item: Offered) -> Any:
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
    project: ProjectFolder, item: Offered, class_name: str, keyword: str, name: str, shape: tuple[int, ...]
) -> dict[str, Any] | str:
    from hardpan.replicate.database.images import check_image

    label, key = item.class_name or class_name, item.keyword or keyword
    names = [c.name for c in project.classes]
    if label and label not in names:
        return f"{item.name}: class {label!r} is not one of the project's"
    try:
        check_image({"keyword": key, "source": item.source, "date": item.date[:40]})
    except InputError as error:
        return f"{item.name}: {error}"
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
