"""Estimators of the floor beside DataEval's ber_knn and ber_mst: values on sets of known floor, time and memory."""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np

from bench import harness

PEERS = ("dataeval", "scikit-learn")
REPEATS = 3
LARGE = 10_000

# A quick look, not a measurement: BENCH_SCALE=0.1 makes every size smaller.
SCALE = float(os.environ.get("BENCH_SCALE", "1"))


def sized(full: int, least: int = 300) -> int:
    return max(least, round(full * SCALE))


def prepare_known(source: str, n: int, floors: list[float]) -> list[dict[str, Any]]:
    from hardpan.studies.floor_sets import find_source

    sets = []
    for floor in floors:
        found = find_source(source)(n, floor, 0)
        sets.append({"x": found.x.astype(np.float32), "y": found.y, "classes": found.posterior.shape[1]})
    return sets


def all_methods(sets: list[dict[str, Any]]) -> list[float]:
    """Lower, upper and standard error (−1 where there is none) by set and method, one after another."""
    answers: list[float] = []
    for given in sets:
        for work in METHODS.values():
            found = work(given)
            answers += [found["lower"], found["upper"], found.get("stderr", -1.0)]
    return answers


def prepare_pixels(n: int, d: int) -> dict[str, Any]:
    """8-bit images of ten blurred classes: what matters for the time is their size."""
    for name in ("hardpan.bayes.floors", "dataeval.core"):
        importlib.import_module(name)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, n)
    # The classes are as far apart in many dimensions as in few, so that they overlap in all.
    x = 128 + 40 * np.sqrt(64 / d) * rng.normal(size=(10, d))[y] + 60 * rng.normal(size=(n, d))
    return {"x": np.clip(x, 0, 255).astype(np.uint8), "y": y, "classes": 10}


def our_knn(given: dict[str, Any]) -> dict[str, float]:
    from hardpan.bayes.floors.neighbours import cover_hart
    from hardpan.bayes.floors.search import k_nearest

    rows = k_nearest(given["x"], None, 1)[0][:, 0]
    error = float((given["y"][rows] != given["y"]).mean())
    return {"lower": cover_hart(error, given["classes"]), "upper": error}


def their_knn(given: dict[str, Any]) -> dict[str, float]:
    from dataeval.core import ber_knn

    found = ber_knn(given["x"], given["y"], 1)
    return {"lower": found["lower_bound"], "upper": found["upper_bound"]}


def our_tree(given: dict[str, Any]) -> dict[str, float]:
    from hardpan.bayes.floors import henze_penrose

    found = henze_penrose(given["x"], given["y"], most=len(given["y"]))
    return {"lower": found.lower.value, "upper": found.upper.value, "stderr": found.upper.stderr}


def their_tree(given: dict[str, Any]) -> dict[str, float]:
    from dataeval.core import ber_mst

    found = ber_mst(given["x"], given["y"])
    return {"lower": found["lower_bound"], "upper": found["upper_bound"]}


METHODS = {
    "hardpan, nearest neighbour": our_knn,
    "DataEval ber_knn": their_knn,
    "hardpan, spanning tree": our_tree,
    "DataEval ber_mst": their_tree,
}
PAIRS = (("hardpan, nearest neighbour", "DataEval ber_knn"), ("hardpan, spanning tree", "DataEval ber_mst"))


def run() -> list[dict[str, Any]]:
    return [values_table(), time_table()]


def values_table() -> dict[str, Any]:
    rows = []
    n, floors = sized(4000), [0.01, 0.2]
    for source in ("two-gaussians", "ten-gaussians", "warped"):
        flat = harness.isolated(prepare_known, all_methods, source=source, n=n, floors=floors).output
        answers = np.reshape(flat, (len(floors), len(METHODS), 3)).tolist()
        for floor, numbers in zip(floors, answers, strict=True):
            found = dict(zip(METHODS, numbers, strict=True))
            for ours, theirs in PAIRS:
                for name in (ours, theirs):
                    lower, upper, stderr = found[name]
                    row: dict[str, Any] = {"set": source, "floor": floor, "n": n, "method": name}
                    row |= {"lower": lower, "upper": upper, "stderr": stderr if stderr >= 0 else None}
                    if name == ours:
                        apart = abs(upper - found[theirs][1])
                        row |= harness.against(apart, at_most=0.005, unit="between the two uppers")
                    rows.append(row)
    notes = [
        "one feature matrix, every example's neighbour among the others; DataEval gives no standard error",
        "DataEval's tree joins the parts of a 15-neighbour graph by a rule of thumb; ours is the minimal one",
    ]
    return harness.table("The same bounds beside DataEval", rows, seed=0, notes=notes)


def time_table() -> dict[str, Any]:
    rows = []
    for n, d in ((sized(2000), 64), (sized(LARGE), 64), (sized(LARGE), 784)):
        found = {
            name: harness.isolated(prepare_pixels, work, repeats=REPEATS, warmup=1, n=n, d=d)
            for name, work in METHODS.items()
        }
        for ours, theirs in PAIRS:
            for name in (ours, theirs):
                done = found[name]
                row: dict[str, Any] = {
                    "n": n,
                    "d": d,
                    "method": name,
                    "seconds": done.best,
                    "extra MB": done.extra_megabytes,
                    "upper": done.output["upper"],
                }
                if name == ours:
                    row["× faster"] = ratio = found[theirs].best / done.best
                    row |= harness.against(ratio, at_least=1, unit="× faster")
                rows.append(row)
    note = "8-bit pixels; the time of ours includes the standard error from eight more trees; one warm-up call each"
    return harness.table("Time and memory beside DataEval", rows, seed=0, notes=[note])
