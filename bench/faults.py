"""Faults: annotators whose server is killed, damaged files, and command lines made from the commands' own flags.

- **Annotators**: 50 at once, each trying again until a submission is confirmed, against servers that are killed
  by ``kill -9`` or stopped; every server has a fault of its own: none, a clock that jumps by an hour, a slow disk,
  a disk that is full for a while; PostgreSQL crashes or has a full disk under every fourth.
  Afterwards every confirmed submission must be in the database as it was sent, and no vote twice. Times are
  from sending a submission to its answer, the waits for a new server among them.
- **Killed jobs**: recording, merging, training (also on Dask and Ray) and submitting to a ledger, killed at random
  moments after they began; every committed record must be there, unchanged and once.
- **Damaged files**: a valid file of every format is damaged at random (flipped bits, cuts, noise, moved and
  repeated blocks) and read with the public function. Any other exception than InputError, or a message of
  several lines, counts as wrong.
- **Command lines**: seven in ten begin with inputs that fit the command; flags are drawn from the command's
  own, with values that fit or do not, all in one process. Exit codes: 0 done, 2 refused in one sentence, 1 only
  where a gate (``--fail-...``) was asked for; anything else and a traceback is wrong.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from bench import harness

PEERS = ("numpy", "pyarrow", "pillow", "typer", "sqlalchemy", "psycopg")
CORES = 2
ANNOTATORS, KILLS, ROUNDS, LINES = 50, 40, 1000, 5000
# Name, test, kills of one run, runs.
JOBS = (
    ("recording", "tests/predictions/test_kill.py::test_recording_survives_kill_9", 200, 1),
    ("merging stores", "tests/predictions/test_kill.py::test_merging_survives_kill_9", 200, 1),
    ("training", "tests/training/test_kill.py::test_many_kills", 60, 1),
    ("training on Dask, its worker", "tests/training/test_cluster.py -k dask", 1, 5),
    ("training on Ray, its worker", "tests/training/test_cluster.py -k ray", 1, 5),
    ("ledger, three submitters", "tests/soak/test_ledger_faults.py", 200, 1),
)


def run() -> list[dict[str, Any]]:
    return [measure() for measure in TABLES.values()]


def annotators() -> dict[str, Any]:
    from tests.databases import fill_postgres_disk, new_database, restart_postgres, running_postgres
    from tests.web import kills, load

    from hardpan import replicate

    beside, rows = _load_before(), []
    for name in ("SQLite", "PostgreSQL"):
        with contextlib.ExitStack() as open_things:
            folder = Path(open_things.enter_context(tempfile.TemporaryDirectory()))
            server = open_things.enter_context(running_postgres("on")) if name == "PostgreSQL" else ""
            url = new_database(server)
            outages = (
                [functools.partial(restart_postgres, server), functools.partial(fill_postgres_disk, server, 0.4)]
                if server
                else []
            )
            tally = kills.run(
                folder / "project", workers=ANNOTATORS, kills=KILLS, database_url=url, outages=outages
            )
            project = replicate.Project.open(folder / "project")
            lost, doubled = load.check(project, tally)
            project.close()
        row: dict[str, Any] = {"database": name, "annotators": ANNOTATORS, "kills": KILLS}
        row |= {
            "confirmed": len(tally.acknowledged),
            "tried again": tally.retries,
            "answered 503": tally.statuses[503],
            "answered 500": tally.statuses[500],
            "lost": lost,
            "doubled": doubled,
        }
        row |= {"median ms": 1e3 * tally.percentile(0.5), "p99 ms": 1e3 * tally.percentile(0.99)}
        wrong = lost + doubled + tally.statuses[500]
        rows.append(row | harness.against(wrong, at_most=0, unit="lost, doubled or 500"))
    return harness.table("Annotators whose server is killed", rows, notes=[beside])


def killed_jobs() -> dict[str, Any]:
    beside, rows = _load_before(), []
    for name, test, kills, runs in JOBS:
        start = time.perf_counter()
        command = [sys.executable, "-m", "pytest", "-q", "-m", "soak", "-p", "no:cacheprovider", *test.split(" ")]
        failed = 0
        for _ in range(runs):
            environment = os.environ | {"HARDPAN_KILLS": str(kills)}
            done = subprocess.run(command, cwd=harness.ROOT, env=environment, capture_output=True, text=True)
            if done.returncode:
                failed += 1
                print(done.stdout[-3000:])
        rows.append(
            {"job": name, "kills": kills * runs, "runs": runs, "failed": failed}
            | {"s": time.perf_counter() - start}
            | harness.against(failed, at_most=0, unit="failed")
        )
    notes = ["each is the soak test of the same name with more kills; a lost, changed or doubled record fails it"]
    notes.append(beside)
    return harness.table("Killed jobs", rows, notes=notes)


def damaged_files() -> dict[str, Any]:
    from tests.soak.readers import READERS, fuzz

    rows: list[dict[str, object]] = []
    for reader in READERS:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            result = fuzz(reader, Path(folder), ROUNDS, seed=1)
            spent = time.perf_counter() - start
        row: dict[str, object] = {"reader": reader.name, "refused": result.refused, "read": result.read}
        row |= {"wrong": len(result.wrong), "s": spent}
        rows.append(row | harness.against(len(result.wrong), at_most=0, unit="wrong"))
    notes = [f"{ROUNDS:,} damaged files per reader; a damaged file that is still valid is read"]
    return harness.table("Damaged files", rows, notes=notes)


def command_lines() -> dict[str, Any]:
    from tests.soak.invocations import run as run_lines

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        tally = run_lines(Path(folder), LINES, seed=1)
        spent = time.perf_counter() - start
    row = {"command lines": LINES, "done": tally.codes[0], "refused": tally.codes[2], "gate": tally.codes[1]}
    row |= {"wrong": len(tally.wrong), "s": spent}
    rows = [
        row | harness.against(len(tally.wrong), at_most=0, unit="wrong"),
        {"done": tally.codes[0]} | harness.against(tally.codes[0] / LINES, at_least=0.5, unit="of them done"),
    ]
    return harness.table("Command lines", rows)


TABLES = {
    "annotators": annotators,
    "killed_jobs": killed_jobs,
    "damaged_files": damaged_files,
    "command_lines": command_lines,
}


def _load_before() -> str:
    """What else ran: times are longer where the machine was busy before the table began."""
    return f"load average of the five minutes before: {os.getloadavg()[1]:.1f} on {os.cpu_count()} cores"
