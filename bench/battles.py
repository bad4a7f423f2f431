"""Battles and judges beside evalica and truescore: equal strengths, ranks that keep their level, coverage."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import binom

from bench import harness

CORES = 1
TRIALS = max(20, round(300 * float(os.environ.get("BENCH_SCALE", "1"))))
WORDS = ("model_b", "tie", "model_a")
SETTINGS = (  # labelled, unlabelled, share of right answers, how often the judge sees the truth
    (30, 500, 0.7, 0.8),
    (100, 1000, 0.7, 0.8),
    (100, 1000, 0.9, 0.9),
    (100, 1000, 0.6, 0.0),
)


def battles_of(rng: Any, strength: Any, n: int, questions: int = 0) -> tuple[dict[str, Any], Any]:
    """Battles of random pairs, a fifth of them ties; prompts may favour a model."""
    m = len(strength)
    a = rng.integers(0, m, n)
    b = (a + rng.integers(1, m, n)) % m
    asked = rng.integers(0, max(questions, 1), n)
    shift = rng.normal(0, 1.5 * (questions > 0), (max(questions, 1), m))
    won = (rng.random(n) < expit(strength[a] + shift[asked, a] - strength[b] - shift[asked, b])).astype(float)
    won[rng.random(n) < 0.2] = 0.5
    table = {"model_a": [f"m{i}" for i in a], "model_b": [f"m{i}" for i in b]}
    table["winner"] = [WORDS[int(2 * w)] for w in won]
    return table | ({"question_id": asked.tolist()} if questions else {}), won


def same_strengths() -> list[dict[str, Any]]:
    """Strengths and time on the same battles."""
    import evalica

    from hardpan.leaderboard import battles

    rows = []
    for n, m in ((2_000, 10), (100_000, 100)):
        table, won = battles_of(np.random.default_rng(n), np.random.default_rng(0).normal(0, 0.7, m), n)
        start = time.perf_counter()
        ours = battles(table)
        seconds = time.perf_counter() - start
        winners = [evalica.Winner.X if w == 1 else evalica.Winner.Y if w == 0 else evalica.Winner.Draw for w in won]
        start = time.perf_counter()
        theirs = evalica.bradley_terry(table["model_a"], table["model_b"], winners, tolerance=1e-12, limit=10_000)
        other = time.perf_counter() - start
        log = np.log(theirs.scores.reindex(ours.models).to_numpy())
        largest = float(np.abs(ours.strength - (log - log.mean())).max())
        row = {"battles": n, "models": m, "hardpan s (with errors and ranks)": seconds, "evalica s": other}
        rows.append(row | harness.against(largest, at_most=1e-4))
    return rows


def false_separations() -> list[dict[str, Any]]:
    """How often some of five equal models are separated."""
    from hardpan.leaderboard import battles

    rows = []
    for questions in (0, 60):
        rng = np.random.default_rng(questions)
        for group in ("", None)[: 1 + (questions > 0)]:
            tables = [battles_of(rng, np.zeros(5), 600, questions)[0] for _ in range(TRIALS)]
            wrong = float(np.mean([battles(table, group=group).separated > 0 for table in tables]))
            row = {
                "battles": "on 60 prompts that favour models" if questions else "independent",
                "errors": "clustered by prompt" if group is None else "of single battles",
                "trials": TRIALS,
                "share with a separated pair": wrong,
            }
            if not (questions and group == ""):
                row |= harness.against(wrong, at_most=round(float(binom.ppf(0.9995, TRIALS, 0.05)) / TRIALS, 3))
            rows.append(row)
    return rows


def judge_coverage() -> list[dict[str, Any]]:
    """Coverage of the corrected mean by hardpan and truescore, and of people's scores alone."""
    from dataclasses import replace

    import truescore

    from hardpan import Outcomes
    from hardpan.leaderboard import judge

    rows = []
    for labelled, rest, share, sees in SETTINGS:
        rng = np.random.default_rng([labelled, rest, round(100 * share), round(100 * sees)])
        ends: dict[str, list[tuple[float, float]]] = {"hardpan": [], "truescore": []}
        for _ in range(TRIALS):
            truth = (rng.random(labelled + rest) < share).astype(float)
            said = np.where(rng.random(len(truth)) < sees, truth, 1.0)
            people = np.where(np.arange(len(truth)) < labelled, truth, np.nan)
            ours = judge(replace(Outcomes.from_arrays(said[None]), measures={"human": people[None]}))
            ends["hardpan"].append((ours.low[0], ours.high[0]))
            theirs = truescore.ppi_estimate(said, truth[:labelled], np.arange(labelled))
            ends["truescore"].append((theirs.low, theirs.high))
        for name, limits in ends.items():
            low, high = np.array(limits).T
            hits = float(((low <= share) & (share <= high)).mean())
            row = {"people": labelled, "judge": rest, "share right": share, "judge sees truth": sees, "by": name}
            row |= {"trials": TRIALS, "coverage": hits, "width, points": 100 * float((high - low).mean())}
            if name == "hardpan":
                row |= harness.against(hits, at_least=round(float(binom.ppf(0.0005, TRIALS, 0.95)) / TRIALS, 3))
            rows.append(row)
    return rows


def run() -> list[dict[str, Any]]:
    return [
        harness.table("Strengths of evalica on the same battles", same_strengths(), notes=["largest difference"]),
        harness.table("Five equal models", false_separations(), notes=["600 battles; 95 % confidence"]),
        harness.table("A judge corrected by people", judge_coverage(), notes=["95 % intervals of one mean"]),
    ]
