"""Whole reports of large boards, and reading large logs: CPU time and memory, beside the mean scores by polars."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench import harness, outcomes

PEERS = ("polars",)
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
COLUMNS = 50_000


def matrix(models: int, items: int) -> dict[str, Any]:
    """An npy file of right and wrong from a Rasch model."""
    rng = np.random.default_rng(0)
    skill, ease = rng.normal(size=(models, 1)), rng.normal(size=items)
    scores = np.empty((models, items), dtype=np.uint8)
    for start in range(0, items, COLUMNS):
        p = 1 / (1 + np.exp(-(skill + ease[start : start + COLUMNS])))
        scores[:, start : start + COLUMNS] = rng.random(p.shape, dtype=np.float32) < p
    folder = tempfile.mkdtemp(prefix="hardpan-bench-")
    np.save(Path(folder) / "scores.npy", scores)
    return {"folder": folder, "best": float(scores.mean(axis=1).max())}


def report(given: dict[str, Any]) -> dict[str, Any]:
    """Read the matrix, analyse it and write the page with its files."""
    from hardpan import Outcomes
    from hardpan.leaderboard.summary import summarize

    start, folder = time.process_time(), Path(given["folder"])
    board = summarize(Outcomes.open(folder / "scores.npy"))
    board.save(folder / "board")
    spent = time.process_time() - start
    agree = bool(abs(float(board.ranking.score[0]) - given["best"]) < 1e-9)
    shutil.rmtree(folder)
    return {"cpu": spent, "agree": agree}


def polars_means(given: dict[str, Any]) -> dict[str, Any]:
    """The mean score of every model, by polars."""
    import polars

    start, folder = time.process_time(), Path(given["folder"])
    scores = np.load(folder / "scores.npy")
    frame = polars.DataFrame({f"model-{row}": values for row, values in enumerate(scores)})
    best = max(frame.mean().row(0))
    spent = time.process_time() - start
    shutil.rmtree(folder)
    return {"cpu": spent, "agree": bool(abs(best - given["best"]) < 1e-9)}


def polars_log_means(given: dict[str, Any]) -> dict[str, Any]:
    """The mean score of every log, by polars."""
    import polars

    start = time.process_time()
    means = [polars.read_ndjson(path)["acc"].mean() for path in sorted(Path(given["folder"]).rglob("*.jsonl"))]
    spent = time.process_time() - start
    shutil.rmtree(given["folder"])
    return {"cpu": spent, "agree": bool(np.allclose(sorted(means), sorted(given["means"])))}


def run() -> dict[str, Any]:
    rows = []
    for models, items, limit, memory in ((100, 1_000_000, 120, 3000), (5_000, 15_000, 60, None)):
        size = {"models": max(20, round(models * min(1, SCALE * 5))), "items": max(500, round(items * SCALE))}
        ours = harness.isolated(matrix, report, timeout=3000, **size)
        peer = harness.isolated(matrix, polars_means, **size)
        work = f"report, {size['models']:,} models × {size['items']:,} items"
        row = {"work": work, "CPU seconds": ours.output["cpu"], "seconds": ours.best}
        row |= {"extra MB": ours.extra_megabytes, "means by polars, CPU seconds": peer.output["cpu"]}
        agree = ours.output["agree"] and peer.output["agree"]
        rows.append(row | {"equal means": agree, **harness.against(ours.output["cpu"], at_most=limit, unit="s")})
        if memory:
            met = harness.against(ours.extra_megabytes, at_most=memory, unit="MB")
            rows.append({"work": f"{work}: memory", "extra MB": ours.extra_megabytes, **met})
    files = {"files": max(2, round(28 * SCALE)), "items": 10_000}
    ours = harness.isolated(outcomes.prepare, outcomes.read, **files)
    peer = harness.isolated(outcomes.prepare, polars_log_means, **files)
    size = ours.output["bytes"] / 1e9
    rows.append(
        {
            "work": f"lm-eval logs, {size:.2f} GB, per GB",
            "CPU seconds": ours.output["cpu"] / size,
            "seconds": ours.best / size,
            "extra MB": ours.extra_megabytes,
            "means by polars, CPU seconds": peer.output["cpu"] / size,
            "equal means": ours.output["agree"] and peer.output["agree"],
            **harness.against(ours.output["cpu"] / size, at_most=25, unit="s"),
        }
    )
    notes = ["one thread; judged by CPU time: other programs ran, so wall-clock time is far above it"]
    return harness.table("Reports of large boards", rows, seed=0, notes=notes)
