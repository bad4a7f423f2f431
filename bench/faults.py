"""Damaged files: 1,000 for every reader, each refused in one sentence or read, and nothing else.

A valid file of every format is damaged at random (flipped bits, cuts, noise, moved and repeated blocks) and read
with the public function. Any other exception than InputError, or a message of several lines, counts as wrong.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from bench import harness

PEERS = ("numpy", "pyarrow", "pillow")
ROUNDS = 1000


def run() -> dict[str, object]:
    from tests.soak.readers import READERS, fuzz

    rows: list[dict[str, object]] = []
    for reader in READERS:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            result = fuzz(reader, Path(folder), ROUNDS, seed=1)
            spent = time.perf_counter() - start
        row: dict[str, object] = {"reader": reader.name, "refused": result.refused, "read": result.read}
        row |= {"wrong": len(result.wrong), "s": spent}
        rows.append(row)
    notes = [f"{ROUNDS:,} damaged files per reader; a damaged file that is still valid is read"]
    return harness.table("Damaged files", rows, notes=notes)
