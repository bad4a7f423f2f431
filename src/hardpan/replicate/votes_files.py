"""Votes as files, for other platforms: written, and read back or taken from elsewhere."""

from __future__ import annotations

import contextlib
import csv
import io
import math
import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hardpan import tables
from hardpan.errors import InputError
from hardpan.replicate.files import write_file
from hardpan.replicate.project import Project
from hardpan.replicate.steps import hash_file, record_step

COLUMNS = ("image_id", "class", "worker", "selected", "role", "at", "excluded")


def export_votes(project: Project, path: str | os.PathLike[str]) -> int:
    """Write every vote as CSV or Parquet (by the name's ending), those of excluded workers marked."""
    from hardpan.replicate.database.people import excluded_workers
    from hardpan.replicate.database.votes import all_votes

    excluded = excluded_workers(project)
    target = Path(path)
    names = [item.name for item in project.classes]
    rows = [
        (v.image_id, names[v.class_index], v.worker_id, int(v.selected), v.role, v.at, int(v.worker_id in excluded))
        for v in all_votes(project)
    ]
    if target.suffix.lower() in (".parquet", ".pq"):
        import pyarrow
        from pyarrow import parquet

        columns = list(zip(*rows, strict=True)) if rows else [()] * len(COLUMNS)
        stream: Any = io.BytesIO()
        parquet.write_table(pyarrow.table(dict(zip(COLUMNS, map(list, columns), strict=True))), stream)
        write_file(target, stream.getvalue())
    elif target.suffix.lower() == ".csv":
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(COLUMNS)
        writer.writerows(rows)
        write_file(target, text.getvalue())
    else:
        raise InputError(f"{target}: votes are written as .csv or .parquet; got {target.suffix!r}")
    return len(rows)


def read_votes(project: Project, path: str | os.PathLike[str], *, platform: str = "") -> tuple[int, int]:
    """Add votes of a CSV, JSON or Parquet file (image_id, class, worker, selected, at); give how many new, known.

    Workers are named PLATFORM:NAME, the file's own name where no platform is given, so that two platforms' workers
    stay apart; the same file again adds nothing.
    """
    from hardpan.replicate.database.votes import import_votes

    source = Path(path)
    columns = tables.read_columns(source, text=tables.suffix_of(source) in (".csv", ".tsv"))
    given = {
        "image_id": columns.get("image_id", columns.get("id")),
        "class": columns.get("class", columns.get("label")),
    }
    given |= {name: columns.get(name) for name in ("worker", "selected")}
    for name, values in given.items():
        if values is None:
            raise InputError(f"{source}: column {name!r} is missing; the columns are {', '.join(columns)}")
    times = columns.get("at", [None] * len(columns["worker"]))
    rows = [
        {
            "image_id": str(image),
            "class_index": project.config.class_index(str(label)),
            "worker": _worker(worker, source),
            "selected": _truth(said, source),
            "at": _moment(when, source),
        }
        for image, label, worker, said, when in zip(*given.values(), times, strict=True)  # type: ignore[arg-type]
    ]
    doubled = [
        key for key, n in Counter((r["image_id"], r["class_index"], r["worker"]) for r in rows).items() if n > 1
    ]
    if doubled:
        raise InputError(f"{source}: worker {doubled[0][2]!r} votes twice on image {doubled[0][0]!r}; keep one")
    new, known = import_votes(project, rows, platform=platform or source.stem)
    if new:
        record_step(project, "votes", inputs={source.name: hash_file(source)}, outputs={"votes": new})
    return new, known


def _worker(value: Any, source: Path) -> str:
    name = "" if value is None or value != value else str(value).strip()
    if not name:
        raise InputError(
            f"{source}: column 'worker' is empty in some row; votes belong to a worker, so name every one"
        )
    return name


def _moment(value: Any, source: Path) -> float | None:
    """Seconds since 1970, from a number or from a time as ISO 8601 writes it (UTC where it names no zone)."""
    text = "" if value is None or value != value else str(value).strip()
    if not text:
        return None
    with contextlib.suppress(ValueError):
        if math.isfinite(seconds := float(text)):
            return seconds
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"{source}: at must be seconds since 1970 or a time such as 2024-05-01T12:00:00Z; got {value!r}"
        ) from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _truth(value: Any, source: Path) -> bool:
    text = str(value).strip().lower()
    if text in ("1", "true", "yes", "1.0"):
        return True
    if text in ("0", "false", "no", "0.0"):
        return False
    raise InputError(f"{source}: selected must be 0 or 1; got {value!r}")
