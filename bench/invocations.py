"""Command lines: 5,000 made from the commands' own flags, run in one process; none may end in a traceback.

Seven in ten begin with inputs that fit the command; flags are drawn from the command's own, with values that fit or
do not. Exit codes: 0 done, 2 refused in one sentence, 1 only where a gate (``--fail-...``) was asked for.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path

from bench import harness

PEERS = ("typer",)
LINES = 5000


def run() -> dict[str, object]:
    from tests.soak.invocations import run as run_lines

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        tally = run_lines(Path(folder), LINES, seed=1)
        spent = time.perf_counter() - start
    row = {"command lines": LINES, "done": tally.codes[0], "refused": tally.codes[2], "gate": tally.codes[1]}
    return harness.table("Command lines", [{**row, "wrong": len(tally.wrong), "s": spent}])
