"""Many models on two test sets: bootstrap lines against a loop of polyfit, a large comparison, and coverage."""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np

from bench import harness

PEERS = ("numpy", "scipy")

# A quick look, not a measurement: BENCH_SCALE=0.05 makes every size smaller.
SCALE = float(os.environ.get("BENCH_SCALE", "1"))


AS_GIVEN = "slope, shared examples, resample=models"
OWN_BOUND = "slope, own examples, bound from counts"


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
    from hardpan import testbed
    from hardpan.outcomes import matrices
    from hardpan.outcomes.sources import Options

    sets = {
        name: matrices.guesses_of(given["models"], given[f"{name}_predictions"], given[f"{name}_labels"], name)
        for name in ("original", "new")
    }
    outcomes = matrices.direct(sets, Options(), "arrays")
    assert outcomes is not None
    report = testbed.compare(outcomes)
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
    note = "hard predictions as arrays: class check, right or wrong, intervals, ranks, rank intervals, two lines"
    return harness.table("compare from hard predictions", rows, seed=0, notes=[note])


def coverage_table() -> dict[str, Any]:
    from scipy.stats import binom

    runs = sized(500, 20)
    found = coverage(runs)
    low, high = (float(binom.ppf(q, runs, 0.95)) / runs for q in (0.0005, 0.9995))
    rows = []
    for name, share in found.items():
        row = {"interval": name, "runs": runs, "coverage": share}
        if name != AS_GIVEN:
            bounds = {"at_least": 0.92} if "rank" in name else {"at_least": low, "at_most": high}
            if name == OWN_BOUND:
                bounds = {"at_least": low}
            row |= harness.against(share, **bounds)
        rows.append(row)
    notes = [
        "70 models of the Gaussian difficulty model, 10,000 and 2,000 examples; the true slope is the populations'",
        "slopes must lie inside the 99.9 % binomial region of 95 %; bounds and rank intervals may be conservative",
        "resampling models takes the test sets as given: where models share examples it leaves out the error that "
        "they share, and its interval is not one for the populations",
    ]
    return harness.table("Coverage of 95 % intervals on the simulator", rows, seed=0, notes=notes)


def coverage(runs: int, models: int = 70) -> dict[str, float]:
    from hardpan import testbed

    skills = np.linspace(-0.5, 3.0, models)
    truth = testbed.line_from_difficulty(0.0, 1.0, 0.5, 1.2)[0]
    rank = {f"model-{i:02d}": models - i for i in range(models)}
    hits: dict[str, list[float]] = {}

    def note(name: str, inside: float) -> None:
        hits.setdefault(name, []).append(float(inside))

    for run_number in range(runs):
        shared = testbed.two_sets(*testbed.simulate(skills, seed=run_number))
        alone = testbed.simulate_counts(skills, seed=run_number)
        for name, table, resample in (
            ("slope, shared examples, resample=examples", shared, "examples"),
            (AS_GIVEN, shared, "models"),
            ("slope, own examples, resample=models", alone, "models"),
            (OWN_BOUND, alone, "examples"),
        ):
            report = testbed.compare(table, scale="probit", resample=resample, bootstrap=2000, seed=run_number)
            note(name, report.fit.slope.low <= truth <= report.fit.slope.high)
            kind = "shared" if table is shared else "own"
            if resample == "examples":
                for side in ("original", "new"):
                    inside = [
                        getattr(row, f"{side}_rank_low") <= rank[row.model] <= getattr(row, f"{side}_rank_high")
                        for row in report.rows
                    ]
                    note(f"rank on the {side} set, {kind} examples", float(np.mean(inside)))
    return {name: float(np.mean(values)) for name, values in sorted(hits.items(), reverse=True)}
