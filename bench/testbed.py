"""Many models on two test sets: bootstrap lines against a loop of polyfit, a large comparison, rank coverage."""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np

from bench import harness

PEERS = ("numpy", "scipy")

# A quick look, not a measurement: BENCH_SCALE=0.05 makes every size smaller.
SCALE = float(os.environ.get("BENCH_SCALE", "1"))


def sized(full: int, least: int = 1) -> int:
    return max(least, round(full * SCALE))


def prepare_points(models: int, resamples: int) -> dict[str, Any]:
    importlib.import_module("hardpan.testbed")
    rng = np.random.default_rng(0)
    original = rng.uniform(0.55, 0.85, models)
    return {"x": original, "y": 1.1 * original - 0.2 + rng.normal(0, 0.01, models), "resamples": resamples}


def bootstrap_lines(given: dict[str, Any]) -> dict[str, float]:
    from hardpan import testbed

    fit = testbed.fit_line(given["x"], given["y"], bootstrap=given["resamples"])
    return {"low": fit.slope.low, "high": fit.slope.high}


def polyfit_loop(given: dict[str, Any]) -> dict[str, float]:
    rng = np.random.default_rng(1)
    x, y, n = given["x"], given["y"], len(given["x"])
    slopes = np.empty(given["resamples"])
    for i in range(given["resamples"]):
        rows = rng.integers(0, n, n)
        slopes[i] = np.polyfit(x[rows], y[rows], 1)[0]
    low, high = np.quantile(slopes, [0.025, 0.975])
    return {"low": float(low), "high": float(high)}


def prepare_predictions(models: int, original: int, new: int, classes: int) -> dict[str, Any]:
    importlib.import_module("hardpan.testbed")
    rng = np.random.default_rng(0)
    given: dict[str, Any] = {"models": [f"model-{i:05d}" for i in range(models)]}
    accuracy = rng.uniform(0.55, 0.9, models)
    for name, size, factor in (("original", original, 1.0), ("new", new, 0.87)):
        labels = rng.permutation(np.arange(size) % classes).astype(np.uint16)
        said = np.empty((models, size), dtype=np.uint16)
        for row in range(models):
            right = rng.random(size) < factor * accuracy[row]
            said[row] = np.where(right, labels, (labels + rng.integers(1, classes, size)) % classes)
        given |= {f"{name}_predictions": said, f"{name}_labels": labels}
    return given


def compare_predictions(given: dict[str, Any]) -> dict[str, float]:
    from hardpan import Outcomes, testbed

    sides = [
        Outcomes.from_arrays(given[f"{name}_predictions"] == given[f"{name}_labels"], given["models"])
        for name in ("original", "new")
    ]
    report = testbed.compare(*sides)
    return {"models": len(report.rows), "slope": report.fit.slope.value}


def run() -> list[dict[str, Any]]:
    return [bootstrap_table(), compare_table(), coverage_table()]


def bootstrap_table() -> dict[str, Any]:
    resamples = sized(100_000, 2000)
    ours = harness.isolated(prepare_points, bootstrap_lines, repeats=5, warmup=1, models=70, resamples=resamples)
    theirs = harness.isolated(prepare_points, polyfit_loop, models=70, resamples=resamples)
    memory = ours.extra_megabytes or 0.0
    rows = [
        {
            "method": "hardpan.testbed.fit_line",
            "seconds": ours.median,
            "extra MB": memory,
            "low": ours.output["low"],
            "high": ours.output["high"],
            "× faster": theirs.best / ours.median,
            **harness.against(theirs.best / ours.median, at_least=30, unit="× faster"),
        },
        {
            "method": "the same, memory",
            "extra MB": memory,
            **harness.against(memory, at_most=500, unit="MB"),
        },
        {
            "method": "loop of numpy.polyfit",
            "seconds": theirs.best,
            "extra MB": theirs.extra_megabytes,
            "low": theirs.output["low"],
            "high": theirs.output["high"],
        },
    ]
    return harness.table(f"{resamples:,} bootstrap lines of 70 models", rows, seed=0)


def compare_table() -> dict[str, Any]:
    size = {
        "models": sized(2000, 50),
        "original": sized(50_000, 1000),
        "new": sized(10_000, 500),
        "classes": sized(1000, 10),
    }
    done = harness.isolated(prepare_predictions, compare_predictions, cores=1, **size)
    total = ((done.extra_bytes or 0) + (done.before_bytes or 0)) / 1e9
    rows = [
        {**size, "what": "seconds", "value": done.best, **harness.against(done.best, at_most=10, unit="s")},
        {
            **size,
            "what": "peak memory with the input, GB",
            "value": total,
            **harness.against(total, at_most=2, unit="GB"),
        },
    ]
    note = "hard predictions as arrays: right or wrong, intervals, ranks, rank intervals, two lines"
    return harness.table("compare from hard predictions", rows, seed=0, notes=[note])


def coverage_table() -> dict[str, Any]:
    runs = sized(100, 10)
    rows = [
        {"interval": name, "runs": runs, "coverage": share, **harness.against(share, at_least=0.92)}
        for name, share in rank_coverage(runs).items()
    ]
    notes = [
        "70 models of the Gaussian difficulty model, 10,000 and 2,000 examples; rank intervals may be conservative",
        "coverage of the mean drop and of slopes: bench/coverage",
    ]
    return harness.table("Coverage of 95 % rank intervals on the simulator", rows, seed=0, notes=notes)


def rank_coverage(runs: int, models: int = 70) -> dict[str, float]:
    from bench.coverage import expected_accuracies
    from hardpan import testbed

    skills = np.linspace(-0.5, 3.0, models)
    accuracies = expected_accuracies(skills, (0.0, 0.5), (1.0, 1.2))
    rank = {f"model-{i:02d}": models - i for i in range(models)}
    hits: dict[str, list[float]] = {}
    for seed in range(runs):
        shared = testbed.two_sets(*testbed.simulate(skills, seed=seed))
        rng = np.random.default_rng([seed, 2])
        correct = [rng.binomial(n, p) for n, p in zip((10_000, 2_000), accuracies, strict=True)]
        alone = {"model": list(rank), "original_correct": correct[0].tolist(), "original_total": [10_000] * models}
        alone |= {"new_correct": correct[1].tolist(), "new_total": [2_000] * models}
        for kind, source in (("shared", shared), ("own", alone)):
            report = testbed.compare(source, resample="models", bootstrap=2, seed=seed)
            for side in ("original", "new"):
                inside = [
                    getattr(row, f"{side}_rank_low") <= rank[row.model] <= getattr(row, f"{side}_rank_high")
                    for row in report.rows
                ]
                hits.setdefault(f"rank on the {side} set, {kind} examples", []).append(float(np.mean(inside)))
    return {name: float(np.mean(values)) for name, values in sorted(hits.items())}
