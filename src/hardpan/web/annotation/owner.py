"""The owner's page: progress, quality, invitations, blocking, downloads."""

from __future__ import annotations

import json
import math
import re
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from hardpan import tables
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.replicate import Project
from hardpan.replicate.database import events, leases, people, questions, tasks
from hardpan.replicate.quality import (
    AnnotationQuality,
    SelectionFrequency,
    WorkerQuality,
    annotation_quality,
    frequency_columns,
    vote_columns,
)
from hardpan.tables import rows_to_columns
from hardpan.testbed.humans import Humans
from hardpan.web.annotation.entry import path_of
from hardpan.web.annotation.site import ROLE_NAMES, Body, Site, page_route, post_route
from hardpan.web.security import Role, Session
from hardpan.web.shell import flag_of, integer_of, text_of

LONGEST_LABEL = 100
MOST_LINKS = 500
EVENTS_SHOWN = 12
BINS = 10
Columns = dict[str, list[Any]]


def routes(site: Site) -> list[BaseRoute]:
    """Everything under /owner but entering and leaving."""
    role = Role.OWNER
    cache = CachedFigures()
    return [
        page_route(site, "/owner/", role, owner_page),
        page_route(site, "/owner/live", role, lambda *arguments: live_figures(cache, *arguments)),
        post_route(site, "/owner/api/invite", role, make_invitations),
        post_route(site, "/owner/api/revoke", role, revoke_invitation),
        post_route(site, "/owner/api/block", role, block_annotator),
        post_route(site, "/owner/api/unblock", role, unblock_annotator),
        *(page_route(site, f"/owner/export/{name}", role, download_export) for name in EXPORTS),
    ]


class CachedFigures:
    """The figures of the page, computed again when the last ones are older than ten times what they took."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._figures: Figures | None = None
        self._good_until = 0.0

    def get(self, site: Site) -> Figures:
        """The figures; many windows share one count."""
        with self._lock:
            start = time.monotonic()
            if self._figures is None or start >= self._good_until:
                self._figures = owner_figures(site.project)
                end = time.monotonic()
                self._good_until = end + 10 * (end - start)
            return self._figures


def owner_page(site: Site, session: Session, request: Request) -> Response:
    """The dashboard; its figures come by /owner/live."""
    return site.shell.page(
        "owner.html",
        session=session,
        classes=site.project.class_names,
        roles=list(ROLE_NAMES),
        exports={name: text for name, (text, _) in EXPORTS.items()},
        grid=site.project.config.grid,
    )


def live_figures(cache: CachedFigures, site: Site, session: Session, request: Request) -> Response:
    """The part of the dashboard that changes, as HTML."""
    invited = [(item, path_of(item)) for item in people.stored_invitations(site.project)]
    return site.shell.page(
        "owner_live.html",
        figures=cache.get(site),
        chosen=site.class_number(request.query_params.get("class", "")),
        classes=site.project.class_names,
        invited=invited[::-1],
        events=[event | {"at": time_text(event["at"])} for event in events.last_events(site.project, EVENTS_SHOWN)],
    )


def make_invitations(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """Make links: ``count`` of them, each for ``uses`` people of a role."""
    role, label = text_of(body, "role", 20), body.get("label", "")
    if role not in ROLE_NAMES:
        raise HTTPException(400, f"role must be one of {', '.join(ROLE_NAMES)}.")
    if label != "":
        label = text_of(body, "label", LONGEST_LABEL)
    uses, count = integer_of(body, "uses", 1, 100_000), integer_of(body, "count", 1, MOST_LINKS)
    invitations = [people.invite_people(site.project, role=role, uses=uses, label=label) for _ in range(count)]
    return {"paths": [path_of(item) for item in invitations]}


def revoke_invitation(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """End a link, and the sessions of the people who came by it."""
    people.revoke_invitation(site.project, text_of(body, "invitation", 64))
    return {}


def block_annotator(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """End a worker's access; their votes are excluded where that was asked for."""
    people.block_worker(site.project, text_of(body, "worker", 64), exclude_votes=flag_of(body, "exclude"))
    return {}


def unblock_annotator(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """Give a worker access again."""
    people.unblock_worker(site.project, text_of(body, "worker", 64))
    return {}


def download_export(site: Site, session: Session, request: Request) -> Response:
    """A file with everything of one kind."""
    name = request.url.path.rpartition("/")[2]
    made = EXPORTS[name][1](site.project)
    content, kind = (made, "application/x-ndjson") if isinstance(made, str) else (tables.csv_text(made), "text/csv")
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def _votes(project: Project) -> Columns:
    columns = vote_columns(project)
    return columns | {"at": [time_text(seconds) for seconds in columns["at"]]}


def _workers(project: Project) -> Columns:
    annotators = {row.quality.worker_id: row for row in owner_figures(project).workers}
    states = ("flagged", "blocked", "excluded")
    header = ("worker", "role", "external_id", "tasks", "controls_right", "controls", *states, "completion_code")
    rows = []
    for person in people.stored_workers(project):
        row = annotators.get(person.id)
        code = people.worker_completion_code(project, person.id) if person.role == "annotator" else ""
        counts = (row.tasks, row.right, row.controls, int(row.quality.flagged)) if row else (0, 0, 0, 0)
        state = (int(person.blocked), int(person.excluded))
        rows.append((person.id, person.role, person.external_id, *counts, *state, code))
    return rows_to_columns(header, rows)


def _answers(project: Project) -> Columns:
    rows = questions.question_answers(project)
    return {name: [row[name] for row in rows] for name in ("participant", "set", "response", "label")}


def _events(project: Project) -> str:
    return "".join(json.dumps(event) + "\n" for event in events.stored_events(project))


# File name to what it holds, and what makes its columns or its text.
EXPORTS: dict[str, tuple[str, Callable[[Project], Columns | str]]] = {
    "votes.csv": ("Every vote: image, class, worker, role of the image, selected", _votes),
    "frequencies.csv": (
        "Selection frequency of every image and class",
        lambda project: frequency_columns(project, annotation_quality(project)),
    ),
    "workers.csv": ("Workers with their completion codes, tasks and controls", _workers),
    "answers.csv": ("Answers of the human-accuracy experiment", _answers),
    "events.jsonl": ("The log: every event, in order", _events),
}


def time_text(seconds: float) -> str:
    """A time as text, in UTC.

    Example:
        >>> time_text(0.0)
        '1970-01-01T00:00:00+00:00'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One annotator: the crowd platform's number, answers on the hidden controls, tasks, seconds per task."""

    name: str
    quality: WorkerQuality
    controls: int
    right: int
    tasks: int
    seconds: float | None
    blocked: bool


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many images have which selection frequency, in ten bins from 0 to 1 (the last one holds 1)."""

    title: str
    counts: tuple[int, ...]
    images: int
    mean: float | None


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that the dashboard shows; histograms by class number, None for all classes."""

    coverage: list[tasks.TaskCoverage]
    median_seconds: float | None
    workers: list[WorkerRow]
    flagged: int
    alpha: Estimate | None
    alpha_unflagged: Estimate | None
    histograms: Mapping[int | None, tuple[Histogram, Histogram]]
    entered: int
    excluded: list[people.StoredPerson]
    humans: Humans | None


def owner_figures(project: Project) -> Figures:
    """Count everything anew."""
    quality = project.quality()
    coverage = tasks.task_coverage(project)
    persons = people.stored_workers(project)
    seconds = leases.submitted_lease_seconds(project)
    every = [value for values in seconds.values() for value in values]
    return Figures(
        coverage,
        statistics.median(every) if every else None,
        _worker_rows(quality, {person.id: person for person in persons}, seconds),
        len(quality.flagged),
        _if_defined(quality.alpha),
        _if_defined(quality.alpha_unflagged),
        _histograms(quality.frequencies, len(project.classes)),
        len(persons),
        [person for person in persons if person.excluded],
        _humans(project),
    )


def histogram(title: str, frequencies: Sequence[float]) -> Histogram:
    """Ten equal bins, closed below.

    Example:
        >>> histogram("", [0.0, 0.1, 0.95, 1.0]).counts
        (1, 1, 0, 0, 0, 0, 0, 0, 0, 2)
    """
    counts = [0] * BINS
    for value in frequencies:
        counts[min(BINS - 1, int(value * BINS + 1e-9))] += 1
    return Histogram(title, tuple(counts), len(frequencies), statistics.fmean(frequencies) if frequencies else None)


def _histograms(
    frequencies: Sequence[SelectionFrequency], classes: int
) -> dict[int | None, tuple[Histogram, Histogram]]:
    """Candidates and originals, by class and (None) over all."""
    values: dict[tuple[int | None, str], list[float]] = {}
    for item in frequencies:
        for target in (None, item.class_index):
            values.setdefault((target, item.role), []).append(item.value)
    return {
        target: (
            histogram("Candidates", values.get((target, "candidate"), [])),
            histogram("Originals", values.get((target, "positive"), [])),
        )
        for target in [None, *range(classes)]
    }


def _worker_rows(
    quality: AnnotationQuality, persons: Mapping[str, people.StoredPerson], seconds: Mapping[str, list[float]]
) -> list[WorkerRow]:
    """Weakest on the controls first; who has seen too few to tell comes last."""
    rows = [
        WorkerRow(
            re.sub("^#.*", "", persons[item.worker_id].external_id),  # "#": came without a platform's number
            item,
            item.positives + item.negatives,
            item.hits + item.negatives - item.false_alarms,
            len(seconds.get(item.worker_id, ())),
            statistics.median(seconds[item.worker_id]) if item.worker_id in seconds else None,
            persons[item.worker_id].blocked,
        )
        for item in quality.workers
    ]
    return sorted(rows, key=lambda row: (-row.quality.flagged, row.right / row.controls if row.controls else 2.0))


def _if_defined(alpha: Estimate | None) -> Estimate | None:
    """Agreement means nothing where everybody always says the same."""
    return None if alpha is None or math.isnan(alpha.value) else alpha


def _humans(project: Project) -> Humans | None:
    """Table 3 over those who have answered on both sets."""
    try:
        return project.experiment_results().humans
    except InputError:
        return None
