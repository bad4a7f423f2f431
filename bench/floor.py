"""Estimators of the floor beside DataEval's ber_knn and ber_mst, and all of them on sets whose floor is known.

TABLE=estimators measures the estimators alone. To measure your own, a function of four arrays as
:mod:`bench._floor_estimators` describes it, name it in BENCH_ESTIMATORS::

    PYTHONPATH=. BENCH_ESTIMATORS=neighbours,mine:function make bench TOPIC=floor TABLE=estimators

BENCH_SOURCES=flow:mnist,warped draws from these sources instead; a flow takes minutes for each floor.
"""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Mapping, Sequence
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
    from bench._known_sets import find_source

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
    from hardpan.bayes.floors.neighbours import cover_hart, k_nearest

    rows = k_nearest(given["x"], None, 1)[0][:, 0]
    error = float((given["y"][rows] != given["y"]).mean())
    return {"lower": cover_hart(error, given["classes"]), "upper": error}


def their_knn(given: dict[str, Any]) -> dict[str, float]:
    from dataeval.core import ber_knn

    found = ber_knn(given["x"], given["y"], 1)
    return {"lower": found["lower_bound"], "upper": found["upper_bound"]}


METHODS = {
    "hardpan, nearest neighbour": our_knn,
    "DataEval ber_knn": their_knn,
}
PAIRS = (("hardpan, nearest neighbour", "DataEval ber_knn"),)


FLOORS = (0.001, 0.01, 0.05, 0.2, 0.4)
SIZES = (500, 1000, 2000)  # examples: 60 % train, 20 % validate, 20 % test
RUNS = 2  # sets of each source, floor and size
VOTES = 3  # simulated votes per test example
CONFIDENCE = 0.95


def run() -> list[dict[str, Any]]:
    return [values_table(), time_table(), *estimator_tables()]


def estimator_tables() -> list[dict[str, Any]]:
    """Every estimator on every source: mean values by floor, error, and how often its claim holds."""
    from bench._floor_estimators import ESTIMATORS
    from bench._known_sets import SOURCES

    estimators = os.environ.get("BENCH_ESTIMATORS", ",".join(ESTIMATORS)).split(",")
    sources = os.environ.get("BENCH_SOURCES", ",".join(SOURCES)).split(",")
    sizes = tuple(sized(n, 100) for n in SIZES)
    return [estimator_table(source, estimators, FLOORS, sizes, RUNS) for source in sources]


def estimator_table(
    source: str, estimators: Sequence[str], floors: Sequence[float], sizes: Sequence[int], runs: int
) -> dict[str, Any]:
    """One row per number of an estimator and size; the columns of floors hold the mean value over the runs."""
    from bench._floor_estimators import find_estimator
    from bench._known_sets import find_source

    draw, functions = find_source(source), [find_estimator(name) for name in estimators]
    cells: dict[tuple[str, int, float], list[dict[str, list[float]]]] = {}
    failures: dict[str, str] = {}
    for floor in floors:
        for seed in range(runs):
            for n in sorted(sizes, reverse=True):  # a flow cuts a smaller set from a larger one
                inputs = estimator_inputs(draw(n, floor, seed), n, seed)
                for function in functions:
                    numbers, failed = measured(function, inputs)
                    cells.setdefault((function.name, n, floor), []).append(numbers)
                    if failed:
                        failures.setdefault(function.name, failed)
    rows = [
        estimator_row(function, quantity, n, {floor: cells[function.name, n, floor] for floor in floors})
        for function in functions
        for quantity in function.roles
        for n in sizes
    ]
    notes = [
        f"{runs} sets of each floor and size; 60 % train, 20 % validate, 20 % test; {VOTES} votes per test example",
        "at F: mean value where the floor is F; relative error: root mean square of value / F − 1, median over F",
        "an estimate holds if the floor is in its interval, a lower end if it is above its lower limit, "
        "a ceiling if it is below its upper limit",
        *(f"{name} failed on some sets, first: {reason}" for name, reason in failures.items()),
    ]
    return harness.table(f"Estimators on sets of known floor: {source}", rows, seed=0, notes=notes)


def estimator_inputs(known: Any, n: int, seed: int) -> dict[str, Any]:
    """What an estimator may take: the set cut into train, validation and test, and votes of the test examples."""
    first, second = round(0.6 * n), round(0.8 * n)
    parts = {"train": slice(0, first), "validation": slice(first, second), "test": slice(second, n)}
    inputs = {f"x_{name}": known.x[rows] for name, rows in parts.items()}
    inputs |= {f"y_{name}": known.y[rows] for name, rows in parts.items()}
    posterior = known.posterior[parts["test"]]
    votes = np.random.default_rng([seed, n, 1]).multinomial(VOTES, posterior)
    shared = {"n_classes": posterior.shape[1], "seed": seed, "confidence": CONFIDENCE}
    return inputs | {"posterior": posterior, "votes": votes} | shared


def measured(estimator: Any, inputs: Mapping[str, Any]) -> tuple[dict[str, list[float]], str]:
    """Value and interval of each number of an estimator, and why there is none."""
    from bench._floor_estimators import ESTIMATORS
    from hardpan.errors import InputError

    try:
        result = estimator(**inputs)
    except InputError as error:
        return {}, str(error)
    except Exception as error:
        if estimator.name in ESTIMATORS:
            raise
        return {}, f"{type(error).__name__}: {error}"  # a function of the user's own: its failure is a result
    numbers = {name: [item.value, item.low, item.high] for name, item in result.items()}
    return {name: ends for name, ends in numbers.items() if all(map(math.isfinite, ends))}, ""


def estimator_row(
    estimator: Any, quantity: str, n: int, cells: Mapping[float, Sequence[Mapping[str, list[float]]]]
) -> dict[str, Any]:
    role = estimator.roles[quantity]
    names = {"estimate": "estimate", "lower": "lower end", "upper": "ceiling"}
    row: dict[str, Any] = {"estimator": f"{estimator.name} {quantity}".strip(), "claims to be": names[role], "n": n}
    errors, holds = [], []
    for floor, runs in cells.items():
        numbers = np.array([cell[quantity] for cell in runs if quantity in cell]).reshape(-1, 3)
        row[f"at {floor:g}"] = None
        if len(numbers):
            values, low, high = numbers.T
            row[f"at {floor:g}"] = float(values.mean())
            errors.append(float(np.sqrt(np.mean((values - floor) ** 2))) / floor)
            above, below = low <= floor, floor <= high
            holds += list({"estimate": above & below, "lower": above, "upper": below}[role])
    row["relative error"] = float(np.median(errors)) if errors else None
    row["holds"] = float(np.mean(holds)) if holds else None
    return row


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
    note = "8-bit pixels; one warm-up call each"
    return harness.table("Time and memory beside DataEval", rows, seed=0, notes=[note])


TABLES = {"values": values_table, "time": time_table, "estimators": estimator_tables}
