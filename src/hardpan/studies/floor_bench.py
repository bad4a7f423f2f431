"""Every estimator of the floor on sets whose floor is known: error, bias, coverage and time."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from hardpan.arguments import real_number, whole_number
from hardpan.bayes.floors.spanning_tree import minimal_spanning_tree
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.execution.mapping import no_progress
from hardpan.files import record
from hardpan.report.base import Report
from hardpan.studies.floor_estimators import ESTIMATORS, FloorEstimator, find_estimator
from hardpan.studies.floor_sets import SOURCES, KnownSet, Source, find_source, source_key

CELLS = "cells.jsonl"
PARTS = (0.6, 0.2, 0.2)
FEWEST, MOST = 50, 10_000_000


@record
class FloorBenchConfig:
    """Settings of the bench, saved with its results.

    Attributes:
        sources: distributions to draw sets from: "two-gaussians", "ten-gaussians", "warped", or "flow:NAME".
        floors: Bayes errors of the sets.
        sizes: numbers of examples; 60 % train, 20 % validation, 20 % test.
        estimators: estimators to measure, by name, or your own as ``module:function``.
        runs: number of sets drawn for each source, Bayes error and size.
        votes: simulated votes per test example.
        confidence: level of the intervals.
        seed: seeds every draw.
    """

    sources: tuple[str, ...] = tuple(SOURCES)
    floors: tuple[float, ...] = (0.001, 0.01, 0.05, 0.2, 0.4)
    sizes: tuple[int, ...] = (500, 2000, 8000)
    estimators: tuple[str, ...] = tuple(ESTIMATORS)
    runs: int = 5
    votes: int = 3
    confidence: float = 0.95
    seed: int = 0


@record
class BenchRow:
    """One number of one estimator on one kind of set, over the runs.

    Attributes:
        source: where the set came from.
        floor: the exact floor.
        n: examples in all.
        estimator: its name, and the name of the number where it gives several.
        role: what the number claims to be: "estimate", "lower" or "upper".
        mean: mean over the runs.
        bias: mean minus floor.
        error: root of the mean squared difference from the floor.
        relative: ``error`` divided by the floor.
        holds: share of runs whose claim is true: the floor in the interval of an estimate, above the low limit of
            a lower end, below the high limit of an upper one.
        seconds: median wall time of the estimator, all of its numbers together.
        runs: how many runs gave a number.
        failed: why others did not, empty where all did.
    """

    source: str
    floor: float
    n: int
    estimator: str
    role: str
    mean: float
    bias: float
    error: float
    relative: float
    holds: float
    seconds: float
    runs: int
    failed: str = ""


@record
class FloorBench(Report):
    """The results: settings and rows, in the order of the settings."""

    config: FloorBenchConfig
    rows: tuple[BenchRow, ...]


def run_bench(
    config: FloorBenchConfig | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> FloorBench:
    """Measure every estimator on every set; with ``out``, resume an earlier run.

    Every finished cell (source, floor, size, run, estimator) is a line in ``out/cells.jsonl``, written at once; a
    killed run loses the cell it was at.

    Example:
        >>> quick = FloorBenchConfig(("two-gaussians",), (0.1,), (500,), ("votes", "soft-labels"), runs=2)
        >>> [(row.estimator, row.runs) for row in run_bench(quick).rows]
        [('votes left one out', 2), ('votes uncorrected', 2), ('soft-labels', 2)]
    """
    config = config or FloorBenchConfig()
    _check(config)
    estimators = {name: find_estimator(name) for name in config.estimators}
    sources = {name: find_source(name) for name in config.sources}
    names = {name: source_key(name) for name in config.sources}
    if "tree" in estimators:
        minimal_spanning_tree(np.eye(3))  # compiled or read from the cache now, not in the first measurement
    log = _Log(None if out is None else Path(out) / CELLS)
    tell = progress or no_progress
    plan = [
        (source, floor, n, run)
        for source in config.sources
        for floor in config.floors
        for run in range(config.runs)
        for n in sorted(config.sizes, reverse=True)  # a source may cut a smaller set from a larger one
    ]
    for done, (source, floor, n, run) in enumerate(plan):
        tell(f"{source}, floor {floor:g}, {n:,} examples, run {run + 1}", done / len(plan))
        keys = {name: _key(config, names[source], floor, n, run, name) for name in estimators}
        waiting = [name for name in estimators if _is_open(name, log.cells.get(keys[name]))]
        if waiting:
            inputs = _inputs(sources[source], floor, n, run, config)
            for name in waiting:
                log.add(keys[name], _measured(estimators[name], inputs))
    return FloorBench(config, tuple(_rows(config, names, estimators, log.cells)))


def without_numbers(bench: FloorBench) -> dict[str, str]:
    """Functions of one's own that gave no number on any set, with the first reason of each.

    Example:
        >>> quick = FloorBenchConfig(("two-gaussians",), (0.1,), (500,), ("votes", "json:dumps"), runs=1)
        >>> without_numbers(run_bench(quick))
        {'json:dumps': "TypeError: dumps() missing 1 required positional argument: 'obj'"}
    """
    silent = {}
    for name in bench.config.estimators:
        titles = {_title(name, quantity) for quantity in find_estimator(name).roles}
        rows = [row for row in bench.rows if row.estimator in titles]
        if name not in ESTIMATORS and not any(row.runs for row in rows):
            reasons = (row.failed for row in rows if row.failed)
            silent[name] = next(reasons, "it gave no finite number under the names that its roles give")
    return silent


def _is_open(name: str, cell: Mapping[str, Any] | None) -> bool:
    """Whether a cell is to be measured: it was not yet, or one's own function failed and may have been mended."""
    return cell is None or (name not in ESTIMATORS and bool(cell["failed"] or not cell["numbers"]))


class _Log:
    """Finished cells by their key, in memory and, where there is a file, a line each in it."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.cells: dict[str, dict[str, Any]] = {}
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            return
        text = path.read_text(encoding="utf-8")
        for line in text.splitlines():
            try:
                cell = json.loads(line)
                self.cells[cell["key"]] = cell
            except (ValueError, KeyError, TypeError):
                continue  # a line that was being written when the run was killed: its cell is measured again
        if text and not text.endswith("\n"):
            with path.open("a", encoding="utf-8") as stream:
                stream.write("\n")

    def add(self, key: str, cell: dict[str, Any]) -> None:
        cell = {"key": key} | cell
        self.cells[key] = cell
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(cell, allow_nan=False) + "\n")
                stream.flush()
                os.fsync(stream.fileno())


def _check(config: FloorBenchConfig) -> None:
    for name in ("sources", "floors", "sizes", "estimators"):
        values = getattr(config, name)
        if not values or len(set(values)) < len(values):
            raise InputError(
                f"must name at least one, and none twice; got {', '.join(map(str, values))!r}", argument=name
            )
    real_number("confidence", config.confidence, "(0, 1)")
    for floor in config.floors:
        real_number("floors", floor, "(0, 0.5)")
    for n in config.sizes:
        whole_number("sizes", n, FEWEST, MOST)
    whole_number("runs", config.runs, 1)
    whole_number("votes", config.votes, 2)


def _key(config: FloorBenchConfig, source: str, floor: float, n: int, run: int, name: str) -> str:
    return f"{source}|{floor!r}|{n}|{run}|{name}|{config.votes}|{config.confidence!r}|{config.seed}"


def _inputs(source: Source, floor: float, n: int, run: int, config: FloorBenchConfig) -> dict[str, Any]:
    """What every estimator may ask for, cut into train, validation and test."""
    seed = 1000 * config.seed + run
    known_set: KnownSet = source(n, floor, seed)
    first, second = round(PARTS[0] * n), round((PARTS[0] + PARTS[1]) * n)
    test = slice(second, None)
    rng = np.random.default_rng([seed, n, 1])
    return {
        "x_train": known_set.x[:first],
        "y_train": known_set.y[:first],
        "x_validation": known_set.x[first:second],
        "y_validation": known_set.y[first:second],
        "x_test": known_set.x[test],
        "y_test": known_set.y[test],
        "posterior": known_set.posterior[test],
        "votes": rng.multinomial(config.votes, known_set.posterior[test]),
        "n_classes": known_set.posterior.shape[1],
        "seed": seed,
        "confidence": config.confidence,
    }


def _measured(estimator: FloorEstimator, inputs: Mapping[str, Any]) -> dict[str, Any]:
    start = time.perf_counter()
    try:
        result = estimator(**inputs)
    except InputError as error:
        return {"failed": str(error), "seconds": time.perf_counter() - start, "numbers": {}}
    except Exception as error:
        if estimator.name in ESTIMATORS:
            raise
        # Someone's own function: what it raises is a result of the bench, not its end.
        failed = f"{type(error).__name__}: {error}"
        return {"failed": failed, "seconds": time.perf_counter() - start, "numbers": {}}
    seconds = time.perf_counter() - start
    numbers = {name: [item.value, item.low, item.high] for name, item in result.items() if _finite(item)}
    return {"seconds": seconds, "numbers": numbers, "failed": ""}


def _finite(item: Estimate) -> bool:
    return all(math.isfinite(number) for number in (item.value, item.low, item.high))


def _rows(
    config: FloorBenchConfig,
    names: Mapping[str, str],
    estimators: Mapping[str, FloorEstimator],
    cells: Mapping[str, dict[str, Any]],
) -> Iterable[BenchRow]:
    for source in config.sources:
        for n in config.sizes:
            for name, estimator in estimators.items():
                for quantity, role in estimator.roles.items():
                    for floor in config.floors:
                        keys = [_key(config, names[source], floor, n, run, name) for run in range(config.runs)]
                        title = _title(name, quantity)
                        yield _row(source, floor, n, title, role, quantity, [cells[key] for key in keys])


def _title(estimator: str, quantity: str) -> str:
    return f"{estimator} {quantity}".strip()


def _row(
    source: str, floor: float, n: int, title: str, role: str, quantity: str, cells: list[dict[str, Any]]
) -> BenchRow:
    result = np.array([cell["numbers"][quantity] for cell in cells if quantity in cell["numbers"]]).reshape(-1, 3)
    failed = next((cell["failed"] for cell in cells if cell["failed"]), "")
    seconds = float(np.median([cell["seconds"] for cell in cells]))
    if not len(result):
        result = np.full((1, 3), math.nan)
    values, low, high = result.T
    claims = {"estimate": (low <= floor) & (floor <= high), "lower": low <= floor, "upper": floor <= high}
    error = float(np.sqrt(np.mean((values - floor) ** 2)))
    return BenchRow(
        source=source,
        floor=floor,
        n=n,
        estimator=title,
        role=role,
        mean=float(values.mean()),
        bias=float(values.mean()) - floor,
        error=error,
        relative=error / floor,
        holds=float(np.mean(claims.get(role, claims["estimate"]))),
        seconds=seconds,
        runs=int(np.isfinite(values).sum()),
        failed=failed,
    )


def config_words(config: FloorBenchConfig) -> list[str]:
    """The options of ``hardpan floor bench`` that give these settings, those apart from the defaults."""
    default, words = asdict(FloorBenchConfig()), []
    for name, value in asdict(config).items():
        if value != default[name]:
            several = value if isinstance(value, tuple) else (value,)
            words += [f"--{name}", ",".join(f"{x:g}" if isinstance(x, float) else str(x) for x in several)]
    return words
