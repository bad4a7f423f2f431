"""Coverage of the headline intervals of a testbed: mean drop, slope, limits of chance; nulls and planted effects.

Models of the Gaussian difficulty model share the examples of a set, so their errors are correlated. Required of
every interval, as stated before the runs: coverage of at least the lower end of the 99.9 % binomial region of 95 %;
more is conservative, which is allowed and marked. The seeds begin at SEED: after a run with the seeds from 0 on an
upper limit for slopes was dropped, so those seeds are not used again.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from bench import harness

# A quick look, not a measurement: BENCH_SCALE=0.05 makes every size smaller.
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
LEVEL = 0.95
SEED = 10_000  # the first one
SHAPES = (  # models, examples of the original and of the new set, runs
    (10, 1_000, 1_000, 400),
    (10, 10_000, 2_000, 400),
    (30, 2_000, 2_000, 400),
    (67, 10_000, 2_000, 150),
    (300, 2_000, 1_000, 100),
    (30, 50_000, 10_000, 80),
)
EFFECTS = {"null": ((0.0, 0.0), (1.0, 1.0)), "planted": ((0.0, 0.5), (1.0, 1.2))}
SKILLS = {"wide": (-0.5, 2.5), "alike": (2.0, 2.35)}  # accuracies 0.36 to 0.96, and 0.92 to 0.95


def expected_accuracies(skills: Any, mu: tuple[float, float], sigma: tuple[float, float]) -> list[Any]:
    """Accuracies on the two populations of the Gaussian difficulty model, Φ((s − μ)/√(σ² + 1))."""
    from scipy.special import ndtr

    return [ndtr((np.asarray(skills) - mu[k]) / np.sqrt(sigma[k] ** 2 + 1.0)) for k in range(2)]


def simulate(models: int, sizes: tuple[int, int], skills: str, effect: str, seed: int) -> dict[str, float]:
    """One simulated testbed: 1 where an interval contains the truth, 0 where not, by name of the interval."""
    from dataclasses import replace

    from hardpan import testbed
    from hardpan.errors import InputError
    from hardpan.stats.intervals import mean
    from hardpan.stats.lines import fit_lines, to_scale
    from hardpan.testbed.decomposition import gap_parts
    from hardpan.testbed.line import line_of_sets

    mu, sigma = EFFECTS[effect]
    skill = np.linspace(*SKILLS[skills], models)
    expected = expected_accuracies(skill, mu, sigma)
    both = testbed.two_sets(*testbed.simulate(skill, examples=sizes, mu=mu, sigma=sigma, seed=seed))
    counts = replace(both, original=replace(both.original, scores=None), new=replace(both.new, scores=None))
    gap = float((expected[0] - expected[1]).mean())
    hits = {}
    for name, estimate in (
        ("mean drop, by examples", both.mean_gap(LEVEL)),
        ("mean drop, bound from counts", counts.mean_gap(LEVEL)),
        ("mean drop, over models only", mean(both.gaps, LEVEL, df=models - 1)),
    ):
        hits[name] = float(estimate.low <= gap <= estimate.high)
    options: dict[str, Any] = {"bootstrap": 2, "seed": seed, "confidence": LEVEL}
    for scale in ("linear", "probit"):
        truth = float(fit_lines(to_scale(expected[0], scale), to_scale(expected[1], scale))[0])
        for name, sets in (("by examples", both), ("bound from counts", counts)):
            try:
                slope = line_of_sets(sets, scale, resample="examples", **options).slope
            except InputError:
                continue
            hits[f"slope, {scale}, {name}"] = float(slope.low <= truth <= slope.high)
    parts = gap_parts(counts, LEVEL)
    inside = [
        part.uniform_remainder.low <= expected[0][i] - expected[1][i] <= part.uniform_remainder.high
        for part in parts
        for i in [both.models.index(part.model)]
    ]
    hits["chance, all models at once"] = float(all(inside))
    return hits


def run() -> list[dict[str, Any]]:
    from scipy.stats import binom

    tables = []
    for skills in SKILLS:
        for effect in EFFECTS:
            rows = []
            for models, original, new, full in SHAPES:
                runs = max(20, round(full * SCALE))
                hits: dict[str, list[float]] = {}
                for seed in range(SEED, SEED + runs):
                    for name, hit in simulate(models, (original, new), skills, effect, seed).items():
                        hits.setdefault(name, []).append(hit)
                for name, values in hits.items():
                    low, high = (float(binom.ppf(q, len(values), LEVEL)) / len(values) for q in (0.0005, 0.9995))
                    row: dict[str, Any] = {
                        "models": models,
                        "original": original,
                        "new": new,
                        "interval": name,
                        "runs": len(values),
                        "coverage": float(np.mean(values)),
                    }
                    if "over models" not in name:
                        row["kind"] = "conservative" if row["coverage"] > high else "nominal"
                        row |= harness.against(row["coverage"], at_least=low)
                    rows.append(row)
            notes = [
                f"seeds {SEED} to {SEED} + runs − 1; runs in which the line is refused (too little spread beside "
                "the noise) are left out",
                "required of every interval, stated before these runs: the lower end of the 99.9 % binomial "
                "region; bounds from counts and limits for all models at once are conservative by construction",
                "the interval over models only takes the test sets as they are: it is no interval for fresh "
                "test sets",
            ]
            tables.append(
                harness.table(f"Coverage of 95 % intervals: {effect}, models {skills}", rows, seed=0, notes=notes)
            )
    return tables
