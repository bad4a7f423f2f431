"""Do the intervals of ``hardpan.leaderboard`` cover? Simulations with clusters, missing cells and repeats."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import binom, t

from bench import harness

CORES = 1
TRIALS = max(20, round(500 * float(os.environ.get("BENCH_SCALE", "1"))))
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)


def mean_score(skill: Any, spread: float) -> Any:
    """E σ(skill + spread · z), z standard normal."""
    weights = WEIGHTS / WEIGHTS.sum()
    return expit(np.asarray(skill)[..., None] + spread * NODES) @ weights


SETTINGS = ("plain", "missing", "clusters", "repeats", "fractions", "clusters, missing, repeats")
LACKED = 0.3


def board(rng: Any, setting: str, skill: Any, items: int) -> tuple[Any, Any, Any]:
    """Scores, groups or None, and the true mean score of each model."""
    groups, spread = None, 1.0
    logit = skill[:, None] + rng.normal(size=items)
    if "clusters" in setting:
        groups = np.repeat(np.arange(items // 8), 8)
        shared = rng.normal(size=items // 8)[groups]
        own = 0.5 * rng.normal(size=(len(skill), items // 8))[:, groups]
        logit, spread = skill[:, None] + shared + own, np.sqrt(1.25)
    p = expit(logit)
    if setting == "fractions":
        scores = rng.binomial(4, p) / 4
    elif "repeats" in setting:
        scores = (rng.random((*p.shape, 3)) < p[..., None]).astype(float)
    else:
        scores = (rng.random(p.shape) < p).astype(float)
    if "missing" in setting:
        scores[rng.random(p.shape) < 0.25] = np.nan
    return scores, groups, mean_score(skill, spread)


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
    ranks, scores, differences, clustered = [], [], [], []
    for _ in range(TRIALS):
        values, groups, truth = board(rng, setting, skill, items)
        outcomes = Outcomes.from_arrays(values, groups=groups)
        ranking = leaderboard.rank(outcomes, group=None if groups is None else "group")
        rows = np.array([int(name.split("-")[1]) for name in ranking.models])
        ranks.append(bool(np.all((ranking.rank_low <= low[rows]) & (high[rows] <= ranking.rank_high))))
        model = int(np.flatnonzero(rows == 3)[0])
        scores.append(ranking.low[model] <= truth[3] <= ranking.high[model])
        pair = leaderboard.compare(outcomes, 0, 4, group=None if groups is None else "group")
        differences.append(pair.difference.low <= truth[0] - truth[4] <= pair.difference.high)
        if groups is not None:
            reach = t.ppf(0.975, pair.groups - 1) * pair.stderr_clustered
            clustered.append(abs(pair.difference.value - truth[0] + truth[4]) <= reach)
    results = [
        row(setting, "rank sets of all models together", ranks, items),
        row(setting, "score of one model", scores, items),
        row(setting, "paired difference", differences, items),
    ]
    if clustered:
        results.append(row(setting, "paired difference ± t · clustered standard error", clustered, items))
    return results


def lacking_items(own: float, items: int, models: int, spread: float, which: str) -> dict[str, Any]:
    """The score of a model that lacks the hardest or the most discriminating items; the others have all of them.

    Args:
        own: the skill of the model.
        items: number of items.
        models: number of models.
        spread: standard deviation of the logarithm of the items' slopes.
        which: "hardest" by the mean score of the others, or "steepest" by slope.
    """
    from hardpan import Outcomes, leaderboard

    rng = np.random.default_rng([9, items, models, round(10 * own + 100), round(10 * spread), len(which)])
    weights = WEIGHTS / WEIGHTS.sum()
    truth = float(weights @ mean_score(own * np.exp(spread * NODES), 1.0))
    hits = []
    for _ in range(TRIALS):
        skill = np.array([own, 1.0, 0.8, 0.6, 0.55, 0.2, -0.2, -0.6])
        if models != len(skill):
            skill = np.concatenate([[own], rng.normal(size=models - 1)])
        ease, slope = rng.normal(size=items), np.exp(spread * rng.normal(size=items))
        p = expit(slope * skill[:, None] + ease)
        scores = (rng.random(p.shape) < p).astype(float)
        order = np.argsort(p[1:].mean(axis=0) if which == "hardest" else -slope)
        scores[0, order[: round(LACKED * items)]] = np.nan
        ranking = leaderboard.rank(Outcomes.from_arrays(scores))
        model = ranking.models.index("model-0")
        hits.append(ranking.low[model] <= truth <= ranking.high[model])
    slopes = f", log slopes ± {spread:g}" if spread else ""
    setting = f"{models} models{slopes}; one of true score {truth:.2f} lacks the {which} {LACKED:.0%}"
    return row(setting, "score of that model", hits, items)


def short_tests(method: str, items: int) -> dict[str, Any]:
    """The full score of a model that took no part in the calibration; new items and models in every simulation."""
    from hardpan import Outcomes, leaderboard

    rng = np.random.default_rng([8, items])
    hits = []
    for trial in range(TRIALS):
        slope, ease = np.exp(rng.normal(0, 0.35, 400)), rng.normal(0.2, 1.3, 400)
        p = expit(rng.normal(size=31)[:, None] * slope + ease)
        scores = (rng.random(p.shape) < p).astype(float)
        short = leaderboard.shorten(Outcomes.from_arrays(scores[:30]), items, method=method, seed=trial)
        full = short.estimate(scores[30, short.rows])
        hits.append(full.low <= scores[30].mean() <= full.high)
    return row(f"{method} items", "full score from a short test", hits, items)


def run() -> dict[str, Any]:
    rows = []
    for items in (160, 800):
        for setting in SETTINGS:
            rows += boards(setting, items)
        rows += [lacking_items(skill, items, 8, 0.0, "hardest") for skill in (2.0, 1.0, 0.0, -1.5)]
    for models, spread, which in (
        (8, 0.5, "hardest"),
        (40, 1.0, "hardest"),
        (8, 0.5, "steepest"),
        (40, 1.0, "steepest"),
    ):
        rows += [lacking_items(skill, 800, models, spread, which) for skill in (2.0, 1.0, -1.5)]
    for method in ("random", "stratified"):
        rows.append(short_tests(method, 60))
    notes = ["8 models, two of them equal; must: at least the lower end of the 99.9 % region of a coverage of 95 %"]
    return harness.table("Coverage of 95 % intervals", rows, seed=7, notes=notes)
