"""Votes and selection frequencies as files, for other platforms: exported, and imported from elsewhere."""

from __future__ import annotations

import contextlib
import math
import os
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hardpan import tables
from hardpan.errors import InputError
from hardpan.files import file_hash, record
from hardpan.replicate.folder import ProjectFolder
from hardpan.replicate.quality import Quality
from hardpan.replicate.steps import record_step
from hardpan.report.base import Report

COLUMNS = ("image_id", "class", "worker", "selected", "role", "at", "excluded")
FREQUENCY_COLUMNS = (
    *("id", "class", "role", "selected", "votes", "frequency", "low", "high"),
    *("selected_unflagged", "votes_unflagged", "probability"),
)


@record
class VoteSummary(Report):
    """Votes that a command imported and exported, and how many there are now, of how many workers."""

    imported: int
    already_imported: int
    exported: int
    votes: int
    workers: int


def exchange_votes(
    project: ProjectFolder,
    *,
    export: str | os.PathLike[str] | None = None,
    import_: str | os.PathLike[str] | None = None,
    platform: str = "",
) -> VoteSummary:
    """Import votes of another platform, then export all; without either, count them.

    Args:
        project: an open project.
        export: write every vote to this .csv or .parquet file.
        import_: add the votes of this CSV or Parquet file, with columns image_id, class, worker, selected.
        platform: name of the platform that imported votes come from.
    """
    from hardpan.replicate.status import project_status

    new, known = import_votes(project, import_, platform=platform) if import_ is not None else (0, 0)
    written = export_votes(project, export) if export is not None else 0
    state = project_status(project)
    return VoteSummary(new, known, written, state.votes, state.workers)


def export_votes(project: ProjectFolder, path: str | os.PathLike[str]) -> int:
    """Write every vote as .csv or .parquet, those of excluded workers marked; gives how many."""
    if Path(path).suffix.lower() not in (".csv", ".parquet", ".pq"):
        raise InputError(f"{path}: votes are written as .csv or .parquet; got {Path(path).suffix!r}")
    columns = vote_columns(project)
    write_output(path, columns)
    return len(columns["worker"])


def vote_columns(project: ProjectFolder) -> dict[str, list[Any]]:
    """Every vote, those of excluded workers marked."""
    from hardpan.replicate.database.people import excluded_workers
    from hardpan.replicate.database.votes import all_votes

    names, excluded = [item.name for item in project.classes], excluded_workers(project)
    rows = [
        (v.image_id, names[v.class_index], v.worker_id, int(v.selected), v.role, v.at, int(v.worker_id in excluded))
        for v in all_votes(project)
    ]
    return rows_to_columns(COLUMNS, rows)


def frequency_columns(project: ProjectFolder, quality: Quality) -> dict[str, list[Any]]:
    """Every selection frequency with its interval, and the same without flagged workers."""
    names = [item.name for item in project.classes]
    rows = [
        (
            *(f.image_id, names[f.class_index], f.role, f.selected, f.votes, f.value, f.low, f.high),
            *(f.selected_unflagged, f.votes_unflagged, f.probability),
        )
        for f in quality.frequencies
    ]
    return rows_to_columns(FREQUENCY_COLUMNS, rows)


def rows_to_columns(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """Rows as columns by name.

    Example:
        >>> rows_to_columns(("a", "b"), [(1, 2), (3, 4)]), rows_to_columns(("a",), [])
        ({'a': [1, 3], 'b': [2, 4]}, {'a': []})
    """
    return {name: [row[position] for row in rows] for position, name in enumerate(names)}


def export_frequencies(
    project: ProjectFolder, path: str | os.PathLike[str], quality: Quality | None = None
) -> Quality:
    """Write every selection frequency with its interval, and the same without flagged workers."""
    from hardpan.replicate.quality import annotation_quality

    quality = annotation_quality(project) if quality is None else quality
    write_output(path, frequency_columns(project, quality))
    return quality


def write_output(path: str | os.PathLike[str], columns: dict[str, list[Any]]) -> None:
    """Write a table where a person asked for it, its folder too; what cannot be written is an InputError."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target}: is a folder; give the name of a file in it")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        tables.write_table(target, columns)
    except OSError as error:
        raise InputError(
            f"{target}: cannot be written ({error.strerror or error}); make room or give another path"
        ) from error


def import_votes(project: ProjectFolder, path: str | os.PathLike[str], *, platform: str = "") -> tuple[int, int]:
    """Add votes of a CSV, JSON or Parquet file (image_id, class, worker, selected, at); gives how many new, known.

    Workers are named PLATFORM:NAME, the file's own name where no platform is given, so that two platforms' workers
    stay apart; the same file again adds nothing. Votes that an export marked as excluded are left out.
    """
    from hardpan.replicate.database.votes import store_votes

    source = Path(path)
    columns = tables.read_columns(source, text=True)
    required = {
        "image_id": columns.get("image_id", columns.get("id")),
        "class": columns.get("class", columns.get("label")),
    }
    required |= {name: columns.get(name) for name in ("worker", "selected")}
    for name, values in required.items():
        if values is None:
            raise InputError(f"{source}: column {name!r} is missing; the columns are {', '.join(columns)}")
    size = len(columns["worker"])
    times, excluded = columns.get("at", [""] * size), columns.get("excluded", ["0"] * size)
    rows = [
        {
            "image_id": image,
            "class_index": project.config.class_index(label),
            "worker": _worker(worker, source),
            "selected": _truth(said, source),
            "at": _moment(when, source),
        }
        for image, label, worker, said, when, out in zip(*required.values(), times, excluded, strict=True)  # type: ignore[arg-type]
        if not (out and _truth(out, source, "excluded"))
    ]
    doubled = [
        key for key, n in Counter((r["image_id"], r["class_index"], r["worker"]) for r in rows).items() if n > 1
    ]
    if doubled:
        raise InputError(f"{source}: worker {doubled[0][2]!r} votes twice on image {doubled[0][0]!r}; keep one")
    new, known = store_votes(project, rows, platform=platform or source.stem)
    if new:
        record_step(project, "votes", inputs={source.name: file_hash(source)}, outputs={"votes": new})
    return new, known


def _worker(name: str, source: Path) -> str:
    if not name:
        raise InputError(f"{source}: column 'worker' is empty in some row; name the worker of every vote")
    return name


def _moment(text: str, source: Path) -> float | None:
    """Seconds since 1970, from a number or from a time as ISO 8601 writes it (UTC where it names no zone)."""
    if not text:
        return None
    with contextlib.suppress(ValueError):
        if math.isfinite(seconds := float(text)):
            return seconds
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"{source}: at must be seconds since 1970 or a time such as 2024-05-01T12:00:00Z; got {text!r}"
        ) from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _truth(text: str, source: Path, name: str = "selected") -> bool:
    if text.lower() in ("1", "true", "yes", "1.0"):
        return True
    if text.lower() in ("0", "false", "no", "0.0"):
        return False
    raise InputError(f"{source}: {name} must be 0 or 1; got {text!r}")
