"""What the owner takes away: votes, frequencies, people, answers and the log, as CSV or JSON lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from hardpan import replicate
from hardpan.replicate import Project
from hardpan.replicate.quality import annotation_quality
from hardpan.web.annotation import figures

EXPORTS = {
    "votes.csv": "Every vote: image, class, worker, role of the image, selected",
    "frequencies.csv": "Selection frequency of every image and class",
    "workers.csv": "Workers with their completion codes, tasks and controls",
    "answers.csv": "Answers of the human-accuracy experiment",
    "events.jsonl": "The log: every event, in order",
}


def write(project: Project, name: str) -> tuple[str, str]:
    """One of ``EXPORTS`` as text, with its media type."""
    if name == "events.jsonl":
        return "".join(json.dumps(event) + "\n" for event in events_after(project)), "application/x-ndjson"
    header, rows = _TABLES[name](project)
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(header)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return stream.getvalue(), "text/csv"


def events_after(project: Project, after: int = 0) -> Iterable[dict[str, Any]]:
    """Every event after a number, oldest first."""
    while some := replicate.events(project, after=after, most=5000):
        yield from some
        after = some[-1]["id"]


def _votes(project: Project) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
    names = [item.name for item in project.classes]
    excluded = replicate.excluded_workers(project)
    header = ("image_id", "class", "worker", "role", "selected", "at", "excluded")
    return header, (
        (
            *(v.image_id, names[v.class_index], v.worker_id, v.role),
            *(int(v.selected), time_text(v.at), int(v.worker_id in excluded)),
        )
        for v in replicate.all_votes(project)
    )


def _frequencies(project: Project) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
    names = [item.name for item in project.classes]
    numbers = ("selected", "votes", "value", "low", "high", "selected_unflagged", "votes_unflagged", "probability")
    header = ("image_id", "class", "role", *("frequency" if name == "value" else name for name in numbers))
    return header, (
        (f.image_id, names[f.class_index], f.role, *(getattr(f, name) for name in numbers))
        for f in annotation_quality(project).frequencies
    )


def _workers(project: Project) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
    seen = {row.quality.worker_id: row for row in figures.count(project).workers}
    states = ("flagged", "blocked", "excluded")
    header = ("worker", "role", "external_id", "tasks", "controls_right", "controls", *states, "completion_code")
    rows = []
    for person in replicate.workers(project):
        row = seen.get(person.id)
        code = replicate.completion_code(project, person.id) if person.role == "annotator" else ""
        counts = (row.tasks, row.right, row.controls, int(row.quality.flagged)) if row else (0, 0, 0, 0)
        state = (int(person.blocked), int(person.excluded))
        rows.append((person.id, person.role, person.external_id, *counts, *state, code))
    return header, rows


def _answers(project: Project) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
    header = ("participant", "set", "response", "label")
    return header, ([row[name] for name in header] for row in replicate.human_responses(project))


_TABLES = {"votes.csv": _votes, "frequencies.csv": _frequencies, "workers.csv": _workers, "answers.csv": _answers}


def time_text(seconds: float) -> str:
    """A time as text, in UTC.

    Example:
        >>> time_text(0.0)
        '1970-01-01T00:00:00+00:00'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _cell(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: texts may come from a stranger's address."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value
