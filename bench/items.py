"""Item analysis of a large leaderboard: time and memory of both fits, and whether what was planted comes back."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from bench import harness

CORES = 1
SCALE = float(os.environ.get("BENCH_SCALE", "1"))


def prepare(models: int, examples: int, sloped: bool) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    skills = rng.normal(0, 0.8, models)
    skills -= skills.mean()
    difficulty = rng.normal(-0.7, 1.3, examples)
    slope = np.exp(rng.normal(0, 0.35, examples)) if sloped else np.ones(examples)
    noise = rng.standard_normal((models, examples), dtype=np.float32)
    right = slope * (skills[:, None] - difficulty) + noise > 0
    return {"right": right, "skills": skills, "difficulty": difficulty, "slope": slope, "sloped": sloped}


def fit(given: dict[str, Any]) -> dict[str, Any]:
    from hardpan.testbed import items

    found = items.fit_items(given["right"], "two-parameter" if given["sloped"] else "rasch")
    skill_z = (found.skills - given["skills"]) / found.skill_stderr
    difficulty_z = (found.difficulty - given["difficulty"]) / found.difficulty_stderr
    answer = {
        "skills": float((np.abs(skill_z) < 1.96).mean()),
        "difficulties": float((np.abs(difficulty_z) < 1.96).mean()),
        "slopes": None,
        "converged": found.converged,
    }
    if given["sloped"]:
        z = np.log(found.discrimination / given["slope"]) / (found.discrimination_stderr / found.discrimination)
        answer["slopes"] = float((np.abs(z) < 1.96).mean())
    return answer


def run() -> dict[str, Any]:
    rows = []
    models, examples = max(20, round(500 * SCALE)), max(1000, round(60_000 * SCALE))
    for sloped in (False, True):
        m = harness.isolated(prepare, fit, models=models, examples=examples, sloped=sloped, cores=CORES)
        rows.append(
            {
                "fit": "two-parameter" if sloped else "rasch",
                "models": models,
                "examples": examples,
                "skills in 95 %": m.output["skills"],
                "difficulties in 95 %": m.output["difficulties"],
                "discriminations in 95 %": m.output["slopes"],
                "converged": m.output["converged"],
                "seconds": m.best,
                "extra MB": m.extra_megabytes,
                **harness.against(m.best, at_most=120, unit="s"),
            }
        )
    notes = ["planted skills, difficulties and discriminations; shares of their 95 % intervals that hold the truth"]
    return harness.table("Item analysis by marginal maximum likelihood", rows, seed=0, notes=notes)
