"""Decisions as files: the waiting pairs written out, verdicts read in."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from pathlib import Path

import numpy as np

from hardpan.errors import InputError
from hardpan.replicate.duplicates import Learned
from hardpan.replicate.files import write_file
from hardpan.replicate.project import Project
from hardpan.replicate.quality import Quality

QUEUE_COLUMNS = ("step", "subject", "verdict", "place", "l2", "ssim", "features")


def write_queue(project: Project, path: str | os.PathLike[str]) -> int:
    """Write the pairs that wait for review as CSV, most similar first; fill in ``verdict`` (keep or remove)."""
    from hardpan.replicate.database.decisions import duplicate_queue

    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(QUEUE_COLUMNS)
    items = duplicate_queue(project, most=10**9)
    writer.writerows(("duplicate", i.subject, "", i.place, i.l2, i.ssim, i.features) for i in items)
    write_file(path, text.getvalue())
    return len(items)


def read_decisions(project: Project, path: str | os.PathLike[str], *, by: str = "owner") -> int:
    """Take decisions of a CSV file in (step, subject, verdict, note); the same file again changes nothing.

    Rows without a verdict are passed over. Gives how many were new.
    """
    from hardpan.replicate.database.decisions import decide

    source = Path(path)
    try:
        content = source.read_bytes()
        rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{source}: cannot be read ({error}); give a CSV file") from error
    if rows and not {"step", "subject", "verdict"} <= set(rows[0]):
        raise InputError(f"{source}: needs columns step, subject and verdict")
    digest = hashlib.sha256(content).hexdigest()[:32]
    new = 0
    for number, row in enumerate(rows, start=2):
        verdict = (row["verdict"] or "").strip()
        if not verdict:
            continue
        try:
            key = f"file-{digest}-{number}"
            step, subject = (row["step"] or "").strip(), (row["subject"] or "").strip()
            new += decide(project, step, subject, verdict, by=by, submission_key=key, note=row.get("note") or "")
        except InputError as error:
            raise InputError(f"{source}, row {number}: {error}") from error
    return new


def keep_below(project: Project, learned: Learned) -> int:
    """Keep every undecided pair that scores below a learned threshold; its recall says what that may miss."""
    from hardpan.replicate.database.decisions import decide, duplicate_queue

    weights = np.array(learned.weights)
    kept = 0
    for item in duplicate_queue(project, most=10**9):
        score = float(np.array([np.log1p(item.l2), item.ssim, item.features or 0.0, 1.0]) @ weights)
        if score < learned.threshold:
            key = f"threshold-{item.subject}-{learned.threshold:.6f}"
            kept += decide(project, "duplicate", item.subject, "keep", by="threshold", submission_key=key[:200])
    return kept


def write_frequencies(quality: Quality, class_names: list[str], path: str | os.PathLike[str]) -> None:
    """Write every selection frequency as CSV, with its interval and the same without flagged workers."""
    text = io.StringIO()
    writer = csv.writer(text)
    columns = ("id", "class", "role", "selected", "votes", "frequency", "low", "high")
    writer.writerow((*columns, "selected_unflagged", "votes_unflagged", "probability"))
    for f in quality.frequencies:
        numbers = (
            f.selected,
            f.votes,
            f.value,
            f.low,
            f.high,
            f.selected_unflagged,
            f.votes_unflagged,
            f.probability,
        )
        writer.writerow((f.image_id, class_names[f.class_index], f.role, *numbers))
    write_file(path, text.getvalue())
