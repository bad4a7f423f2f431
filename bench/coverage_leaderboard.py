"""Do the intervals of ``hardpan.leaderboard`` cover? Simulations with clusters, missing cells and repeats."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import binom

from bench import harness

CORES = 1
TRIALS = max(20, round(500 * float(os.environ.get("BENCH_SCALE", "1"))))
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)


def mean_score(skill: Any, spread: float) -> Any:
    """E σ(skill + spread · z), z standard normal."""
    weights = WEIGHTS / WEIGHTS.sum()
    return expit(np.asarray(skill)[..., None] + spread * NODES) @ weights


def board(rng: Any, setting: str, skill: Any, items: int) -> tuple[Any, Any, Any]:
    """Scores, groups or None, and the true mean score of each model."""
    groups = None
    if setting == "clusters":
        groups = np.repeat(np.arange(items // 8), 8)
        shared = rng.normal(size=items // 8)[groups]
        own = 0.5 * rng.normal(size=(len(skill), items // 8))[:, groups]
        logit = skill[:, None] + shared + own
        return (rng.random(logit.shape) < expit(logit)).astype(float), groups, mean_score(skill, np.sqrt(1.25))
    logit = skill[:, None] + rng.normal(size=items)
    if setting == "repeats":
        return (rng.random((*logit.shape, 3)) < expit(logit)[..., None]).astype(float), None, mean_score(skill, 1.0)
    if setting == "fractions":
        p = expit(logit)
        return rng.binomial(4, p) / 4, None, mean_score(skill, 1.0)
    scores = (rng.random(logit.shape) < expit(logit)).astype(float)
    if setting == "missing":
        scores[rng.random(scores.shape) < 0.25] = np.nan
    return scores, None, mean_score(skill, 1.0)


def region(trials: int) -> float:
    """The lower end of the 99.9 % region of a coverage of 95 %."""
    return float(binom.ppf(0.0005, trials, 0.95)) / trials


def row(setting: str, what: str, hits: Any, items: int) -> dict[str, Any]:
    trials = len(hits)
    coverage = float(np.mean(hits))
    verdict = "conservative" if coverage > binom.ppf(0.9995, trials, 0.95) / trials else "nominal"
    least = round(region(trials), 3)
    return {
        "setting": setting,
        "items": items,
        "interval": what,
        "trials": trials,
        "coverage": coverage,
        "kind": verdict if coverage >= least else "too low",
        **harness.against(coverage, at_least=least),
    }


def boards(setting: str, items: int) -> list[dict[str, Any]]:
    from hardpan import Outcomes, leaderboard

    rng = np.random.default_rng([7, items, len(setting)])
    skill = np.array([1.0, 1.0, 0.8, 0.6, 0.55, 0.2, -0.2, -0.6])
    low = 1 + (skill[None] > skill[:, None]).sum(axis=1)
    high = (skill[None] >= skill[:, None]).sum(axis=1)
    ranks, scores, differences, errors = [], [], [], []
    for _ in range(TRIALS):
        values, groups, truth = board(rng, setting, skill, items)
        outcomes = Outcomes.from_arrays(values, groups=groups)
        found = leaderboard.rank(outcomes, cluster=groups is not None)
        rows = np.array([int(name.split("-")[1]) for name in found.models])
        ranks.append(bool(np.all((found.rank_low <= low[rows]) & (high[rows] <= found.rank_high))))
        model = int(np.flatnonzero(rows == 3)[0])
        scores.append(found.low[model] <= truth[3] <= found.high[model])
        pair = leaderboard.compare(outcomes, 0, 4, cluster=groups is not None)
        differences.append(pair.difference.low <= truth[0] - truth[4] <= pair.difference.high)
        errors.append(pair.stderr_clustered if groups is not None else pair.stderr)
    return [
        row(setting, "rank sets of all models together", ranks, items),
        row(setting, "score of one model", scores, items),
        row(setting, "paired difference", differences, items),
    ]


def short_tests(method: str, chosen: int) -> dict[str, Any]:
    """The full score of models that took no part in the calibration."""
    from hardpan import Outcomes, leaderboard

    rng = np.random.default_rng([8, chosen])
    hits = []
    for trial in range(max(10, TRIALS // 10)):
        slope, ease = np.exp(rng.normal(0, 0.35, 600)), rng.normal(0.2, 1.3, 600)
        p = expit(rng.normal(size=50)[:, None] * slope + ease)
        scores = (rng.random(p.shape) < p).astype(float)
        short = leaderboard.shorten(Outcomes.from_arrays(scores[:40]), chosen, method=method, seed=trial)
        for new in scores[40:]:
            found = short.estimate(new[short.rows])
            hits.append(found.low <= new.mean() <= found.high)
    return row(f"{method} items", "full score from a short test", hits, chosen)


def run() -> dict[str, Any]:
    rows = []
    for setting in ("plain", "missing", "clusters", "repeats", "fractions"):
        for items in (160, 800):
            rows += boards(setting, items)
    for method in ("random", "stratified", "information"):
        rows.append(short_tests(method, 60))
    notes = ["8 models, two of them equal; must: at least the lower end of the 99.9 % region of a coverage of 95 %"]
    return harness.table("Coverage of 95 % intervals", rows, seed=7, notes=notes)
