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
from types import SimpleNamespace
from typing import Any

import numpy as np
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from hardpan import tables
from hardpan.errors import InputError
from hardpan.replicate import Project
from hardpan.replicate.database import events, leases, people, questions, tasks
from hardpan.replicate.quality import (
    AnnotationQuality,
    SelectionFrequency,
    WorkerQuality,
    annotation_quality,
    annotation_vote_columns,
)
from hardpan.tables import rows_to_columns
from hardpan.web.annotation.entry import path_of
from hardpan.web.annotation.site import ROLE_NAMES, Body, Site, page_route, post_route
from hardpan.web.security import Role, Session, request_flag, request_integer, request_text

LONGEST_LABEL = 100
MOST_LINKS = 500
EVENTS_SHOWN = 12
BINS = 10
ANSWERS = ("participant", "set", "response", "label")
Columns = dict[str, list[Any]]


def owner_routes(site: Site) -> list[BaseRoute]:
    """Everything under /owner but entering and leaving."""
    role = Role.OWNER
    cache = CachedOwnerFigures()
    return [
        page_route(site, "/owner/", role, owner_page),
        page_route(site, "/owner/live", role, lambda *arguments: live_figures(cache, *arguments)),
        post_route(site, "/owner/api/invite", role, make_invitations),
        post_route(site, "/owner/api/revoke", role, owner_revokes_invitation),
        post_route(site, "/owner/api/block", role, owner_blocks_annotator),
        post_route(site, "/owner/api/unblock", role, owner_unblocks_annotator),
        *(page_route(site, f"/owner/export/{name}", role, download_export) for name in EXPORTS),
    ]


class CachedOwnerFigures:
    """The figures of the page, computed again when the last ones are older than ten times what they took."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._figures: SimpleNamespace | None = None
        self._good_until = 0.0

    def get(self, site: Site) -> SimpleNamespace:
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


def live_figures(cache: CachedOwnerFigures, site: Site, session: Session, request: Request) -> Response:
    """The part of the dashboard that changes, as HTML."""
    invited = [(item, path_of(item)) for item in people.stored_invitations(site.project)]
    return site.shell.page(
        "owner_live.html",
        figures=cache.get(site),
        chosen=site.class_number(request.query_params.get("class", "")),
        classes=site.project.class_names,
        invited=invited[::-1],
        events=events.stored_events(site.project, EVENTS_SHOWN),
        time_text=site.project.time_text,
    )


def make_invitations(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """Make links: ``count`` of them, each for ``uses`` people of a role."""
    role, label = request_text(body, "role", 20), body.get("label", "")
    if role not in ROLE_NAMES:
        raise HTTPException(400, f"role must be one of {', '.join(ROLE_NAMES)}.")
    if label != "":
        label = request_text(body, "label", LONGEST_LABEL)
    uses, count = request_integer(body, "uses", 1, 100_000), request_integer(body, "count", 1, MOST_LINKS)
    invitations = [people.invite_people(site.project, role=role, uses=uses, label=label) for _ in range(count)]
    return {"paths": [path_of(item) for item in invitations]}


def owner_revokes_invitation(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """End a link, and the sessions of the people who came by it."""
    people.revoke_invitation(site.project, request_text(body, "invitation", 64))
    return {}


def owner_blocks_annotator(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """End a worker's access; their votes are excluded where that was asked for."""
    people.block_worker(site.project, request_text(body, "worker", 64), exclude_votes=request_flag(body, "exclude"))
    return {}


def owner_unblocks_annotator(site: Site, session: Session, body: Body) -> dict[str, Any]:
    """Give a worker access again."""
    people.unblock_worker(site.project, request_text(body, "worker", 64))
    return {}


def download_export(site: Site, session: Session, request: Request) -> Response:
    """A file with everything of one kind."""
    name = request.url.path.rpartition("/")[2]
    made = EXPORTS[name][1](site.project)
    content, kind = (made, "application/x-ndjson") if isinstance(made, str) else (tables.csv_text(made), "text/csv")
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def _exported_votes(project: Project) -> Columns:
    columns = annotation_vote_columns(project)
    return columns | {"at": [project.time_text(seconds) for seconds in columns["at"]]}


def _exported_workers(project: Project) -> Columns:
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


# File name to what it holds, and what makes its columns or its text.
EXPORTS: dict[str, tuple[str, Callable[[Project], Columns | str]]] = {
    "votes.csv": ("Every vote: image, class, worker, role of the image, selected", _exported_votes),
    "frequencies.csv": (
        "Selection frequency of every image and class",
        lambda project: annotation_quality(project).frequency_columns(project.class_names),
    ),
    "workers.csv": ("Workers with their completion codes, tasks and controls", _exported_workers),
    "answers.csv": (
        "Answers of the human-accuracy experiment",
        lambda project: rows_to_columns(ANSWERS, [(*row.values(),) for row in questions.question_answers(project)]),
    ),
    "events.jsonl": (
        "The log: every event, in order",
        lambda project: "".join(json.dumps(event) + "\n" for event in events.stored_events(project)),
    ),
}


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


def owner_figures(project: Project) -> SimpleNamespace:
    """Count everything that the dashboard shows anew."""
    quality = project.quality()
    persons = people.stored_workers(project)
    seconds = leases.submitted_lease_seconds(project)
    every = [value for values in seconds.values() for value in values]
    try:  # Table 3 over those who have answered on both sets
        humans = project.experiment_results().humans
    except InputError:
        humans = None
    # Agreement means nothing where everybody always says the same.
    alphas = (quality.alpha, quality.alpha_unflagged)
    alpha, unflagged = (item if item and not math.isnan(item.value) else None for item in alphas)
    return SimpleNamespace(
        coverage=tasks.task_coverage(project),
        median_seconds=statistics.median(every) if every else None,
        workers=_worker_rows(quality, {person.id: person for person in persons}, seconds),
        flagged=len(quality.flagged),
        alpha=alpha,
        alpha_unflagged=unflagged,
        histograms=_owner_histograms(quality.frequencies, len(project.classes)),
        entered=len(persons),
        excluded=[person for person in persons if person.excluded],
        humans=humans,
    )


def _owner_histograms(frequencies: Sequence[SelectionFrequency], classes: int) -> dict[int | None, tuple[Any, Any]]:
    """How many candidates and originals have which selection frequency, by class and (None) over all.

    Ten bins from 0 to 1, closed below; the last one holds 1.
    """
    values: dict[tuple[int | None, str], list[float]] = {}
    for item in frequencies:
        for target in (None, item.class_index):
            values.setdefault((target, item.role), []).append(item.value)

    def histogram(title: str, target: int | None, role: str) -> SimpleNamespace:
        data = values.get((target, role), [])
        bins = np.minimum((np.array(data) * BINS + 1e-9).astype(int), BINS - 1)
        counts = np.bincount(bins, minlength=BINS).tolist()
        mean = statistics.fmean(data) if data else None
        return SimpleNamespace(title=title, counts=tuple(counts), images=len(data), mean=mean)

    return {
        target: (histogram("Candidates", target, "candidate"), histogram("Originals", target, "positive"))
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
