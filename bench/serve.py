"""The annotation server under load: 50 annotators, 5,000 submissions of 48 images at 50 a second, on SQLite.

The server runs as people run it (``hardpan replicate serve``) in a process of its own; the annotators are clients
of this process on the same machine; a submission is one transaction, on the disk before its answer.
Times are from sending a submission to its answer. Afterwards the database is read: every confirmed submission must
be there as it was sent, and no vote twice.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from tests.web import load

from bench import harness

PEERS = ("starlette", "uvicorn", "sqlalchemy")
CORES = 2
WORKERS, SUBMISSIONS, GRID, RATE = 50, 5000, 48, 50.0


def measured(*, workers: int, submissions: int, grid: int, rate: float | None) -> dict[str, Any]:
    """One run: the latency of submissions, and what was lost or doubled."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "project"
        project = load.make_project(path, workers=workers, tasks=-(-submissions // workers) + 2, grid=grid)
        server = load.Server(path, workers=workers)
        before = server.cpu_seconds()
        try:
            tally = asyncio.run(load.drive(server.link, workers=workers, submissions=submissions, rate=rate))
            used = server.cpu_seconds() - before
        finally:
            code = server.stop()
        lost, doubled = load.check(project, tally)
        project.close()
    return {
        "annotators": workers,
        "submissions": len(tally.seconds),
        "images each": grid,
        "asked a second": rate or "as many as go",
        "a second": len(tally.seconds) / tally.wall,
        "median ms": 1e3 * tally.percentile(0.5),
        "p99 ms": 1e3 * tally.percentile(0.99),
        "server CPU ms each": 1e3 * used / len(tally.seconds),
        "lost": lost,
        "doubled": doubled,
        "stopped well": code == 0,
    }


def run() -> dict[str, Any]:
    paced = measured(workers=WORKERS, submissions=SUBMISSIONS, grid=GRID, rate=RATE)
    fine = paced["lost"] == paced["doubled"] == 0
    paced |= harness.against(paced["p99 ms"] if fine else None, at_most=200, unit="ms (p99), 0 lost, 0 doubled")
    full = measured(workers=WORKERS, submissions=1000, grid=GRID, rate=None)
    notes = ["SQLite (WAL, synchronous=FULL); server and clients share the machine's cores"]
    return harness.table("Annotation server under load", [paced, full], seed=0, notes=notes)
