"""Audits of folders of very many images: peak memory of the process while their number grows."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench import harness
from bench.scale import own_megabytes, png

PEERS = ("torch", "Pillow")
SIZES = (20_000, 140_000, 1_000_000)
SIDE = 8
SAMPLE = 10_000  # examples that models use here, instead of 200,000: all sizes are then beyond it
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
BUDGET = "10s"


def make_folder(place: Path, count: int) -> None:
    """Random images of 10 classes, each brighter than the last by a little, a tenth of them test images."""
    rng = np.random.default_rng(0)
    for number in range(count):
        label, part = (number // 10) % 10, "test" if number % 10 == 9 else "train"
        path = place / part / f"class{label}" / f"{number:07d}.png"
        if number < 100:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(rng.integers(8 * label, 180 + 8 * label, (SIDE, SIDE, 3), dtype=np.uint8)))


def prepare_audit(place: str) -> Path:
    import hardpan.data.images as reader
    from hardpan.auditing import running

    reader.IN_MEMORY = 0  # as a folder of a million larger images is read: pixels in a temporary file
    running.MOST_IMAGES = SAMPLE
    return Path(place)


def audit_folder(place: Path) -> dict[str, float]:
    """Audit, and the most memory that only this process has; a page of the explorer from the result."""
    import hardpan
    from hardpan.auditing import example_table
    from hardpan.web.explorer.query import ExampleQueries

    before, most, done = own_megabytes(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            most[0] = max(most[0], own_megabytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as out:
        hardpan.audit(place, budget=BUDGET, out=out)
        cpu = time.process_time() - begun
        done.set()
        watcher.join()
        begun = time.process_time()
        rows = ExampleQueries(example_table.read_example_table(out)).order((), "confusion", descending=True)[:120]
        page = time.process_time() - begun
    return {"before": before, "peak": most[0], "cpu": cpu, "page": page, "rows": float(len(rows))}


def run() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    sizes = [max(1000, round(size * SCALE)) for size in SIZES]
    for count in sizes:
        with tempfile.TemporaryDirectory() as place:
            make_folder(Path(place), count)
            m = harness.isolated(prepare_audit, audit_folder, place=place).output
        rows.append({"files": count, "MB of pixels": count * SIDE * SIDE * 3 / 1e6, "peak MB": m["peak"],
                     "CPU seconds": m["cpu"], "explorer's first page, CPU ms": 1e3 * m["page"]})  # fmt: skip
    power = harness.exponent(sizes, [row["peak MB"] for row in rows])
    slope = (rows[-1]["peak MB"] - rows[0]["peak MB"]) / (sizes[-1] - sizes[0])
    rows[-1] |= {"exponent": power, "bytes per further file": 1e6 * slope}
    rows[-1] |= harness.against(1e6 * slope, at_most=1024.0, unit="bytes per further file")
    notes = [
        f"hardpan audit FOLDER --budget {BUDGET}; images of {SIDE} × {SIDE} × 3, 10 classes, read into a "
        "temporary file; peak of what only the process has (RssAnon), every 20 ms",
        f"models use a sample of {SAMPLE:,} examples here (200,000 by default), so that every size is beyond it; "
        "what grows are ids, paths, digests and the columns of the table",
    ]
    return [harness.table("Audit of a folder of very many images", rows, seed=0, notes=notes)]
