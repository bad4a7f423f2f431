"""Processes that submit to one ledger are killed again and again; nothing acknowledged is lost or counted twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from hardpan import ledger
from hardpan.ledger import chain

KEY = bytes(range(32))
KILLS = int(os.environ.get("HARDPAN_KILLS", "30"))  # bench/faults.py asks for more
LABELS = np.random.default_rng(0).integers(0, 10, 2000)

# Each worker writes an answer to its own file only after submit() returned: that is the acknowledgement.
WORKER = """
import json, os, sys
from pathlib import Path
import numpy as np
from hardpan import ledger
folder, acknowledged, worker, start = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
labels = np.random.default_rng(0).integers(0, 10, 2000)
with open(acknowledged, "a") as stream:
    for i in range(start, 10_000):
        rng = np.random.default_rng([worker, i])
        guess = np.where(rng.random(2000) < 0.4 + 0.0001 * i, labels, rng.integers(0, 10, 2000))
        answer = ledger.open(folder, bytes(range(32))).submit(guess, name=f"{worker}-{i}")
        stream.write(json.dumps([i, answer.submission, answer.head]) + "\\n")
        stream.flush()
"""


def acknowledged(path: Path) -> list[list[object]]:
    lines = path.read_text().split("\n") if path.exists() else [""]
    return [json.loads(line) for line in lines[:-1]]


def start(folder: Path, tmp_path: Path, worker: int) -> subprocess.Popen[bytes]:
    path = tmp_path / f"ack-{worker}"
    content = path.read_bytes() if path.exists() else b""
    path.write_bytes(content[: content.rfind(b"\n") + 1])  # its last line may be torn as well
    done = acknowledged(path)
    # Try the one in flight again: whether the log has it already is for the ledger to know.
    arguments = [str(folder), str(path), str(worker), str(int(str(done[-1][0])) + 1 if done else 0)]
    return subprocess.Popen([sys.executable, "-c", WORKER, *arguments], env={**os.environ, "OMP_NUM_THREADS": "1"})


@pytest.mark.soak
def test_killed_submitters_lose_nothing_and_count_nothing_twice(tmp_path: Path) -> None:
    folder = tmp_path / "book"
    ledger.create(folder, LABELS, KEY, step="0.001", holdout=0.2, unsafe=True)
    chance = random.Random(0)
    workers = {number: start(folder, tmp_path, number) for number in range(3)}
    kills = 0
    try:
        deadline = time.monotonic() + 8 * KILLS
        while kills < KILLS and time.monotonic() < deadline:
            victim = chance.randrange(3)
            count = len(acknowledged(tmp_path / f"ack-{victim}"))
            while len(acknowledged(tmp_path / f"ack-{victim}")) == count and workers[victim].poll() is None:
                time.sleep(0.01)  # it is at work now, not still importing
            time.sleep(chance.random() * 0.05)
            os.kill(workers[victim].pid, signal.SIGKILL)
            assert workers[victim].wait(10) == -signal.SIGKILL
            kills += 1
            assert ledger.open(folder).verify().problems == ()  # read while the others write
            workers[victim] = start(folder, tmp_path, victim)
    finally:
        for process in workers.values():
            process.kill()
            process.wait(10)
    assert kills >= 2 * KILLS // 3
    seen = [row for number in range(3) for row in acknowledged(tmp_path / f"ack-{number}")]
    final = ledger.open(folder, KEY).submit(LABELS, name="last")
    check = ledger.open(folder, KEY).verify(heads=[str(row[2]) for row in seen])
    assert check.problems == ()
    assert check.warnings == ()
    _, header_hash = chain.read_ledger_header(folder)
    logged = [e["submission"] for e in chain.read_log(folder, header_hash).entries if e["kind"] == "submission"]
    assert len(logged) == len(set(logged))
    assert {row[1] for row in seen} <= set(logged)
    assert len(logged) <= len(seen) + kills + 3 + 1  # beyond the acknowledged: at most one in flight a kill
    assert final.submissions == len(logged)
