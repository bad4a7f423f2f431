"""How often does ``hardpan gate`` pass, fail and not tell? Unchanged candidates, planted drops, and its time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import binom

from bench import harness

CORES = 2
TRIALS = max(20, round(500 * float(os.environ.get("BENCH_SCALE", "1"))))
TASKS, ITEMS = np.repeat(np.arange(6), 300), [f"i{k}" for k in range(1800)]
EFFECTS = {"none": (0.0, 0.0), "0.05 logits": (0.05, 0.0), "0.1 logits, and 0.1 per task": (0.1, 0.1)}
MARGIN = 0.02
Runs = Callable[[int, float], Any]  # (count, drop) -> (count, items) scores, the drop in the last one


def simulated(rng: Any, shared: float, per_task: float) -> Runs:
    """Runs of one system on items of six tasks, with effects of whole runs on the logit scale."""
    ease = rng.normal(1.0, 1.5, len(TASKS))
    slope = (expit(ease) * (1 - expit(ease))).mean()

    def runs(count: int, drop: float) -> Any:
        effect = shared * rng.normal(size=(count, 1)) + per_task * rng.normal(size=(count, 6))[:, TASKS]
        effect[-1] -= drop / slope
        return (rng.random((count, len(TASKS))) < expit(ease + effect)).astype(float)

    return runs


def trained(rng: Any) -> tuple[Runs, Any]:
    """Real runs: a forest trained on the digits with 80 seeds; a drop turns right answers into wrong ones."""
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier

    x, y = load_digits(return_X_y=True)
    train = np.arange(len(y)) % 3 == 0
    forests = (RandomForestClassifier(15, random_state=seed).fit(x[train], y[train]) for seed in range(80))
    board = np.array([forest.predict(x[~train]) == y[~train] for forest in forests])

    def runs(count: int, drop: float) -> Any:
        scores = board[rng.choice(len(board), count, replace=False)].astype(float)
        scores[-1] *= rng.random(scores.shape[1]) >= drop / scores[-1].mean()
        return scores

    return runs, y[~train] * 0


def rules(scores: Any, tasks: Any, history: int) -> dict[str, str]:
    """What each rule says of the last run, the candidate; the one before it is the baseline."""
    from hardpan import Outcomes, gate
    from hardpan.stats import mcnemar

    groups = {"task": [f"t{task}" for task in tasks]}
    opened = [Outcomes.from_arrays(row[None], ["m"], ITEMS[: len(row)], groups) for row in scores]
    old, new = scores[-2], scores[-1]
    difference = np.mean([(new - old)[tasks == task].mean() for task in np.unique(tasks)])
    lost, won = int((new < old).sum()), int((new > old).sum())
    return {
        f"gate, {history} runs of the baseline": gate(
            opened[-2], opened[-1], margin=MARGIN, history=opened[:-2]
        ).verdict,
        "gate without history": gate(opened[-2], opened[-1], margin=MARGIN).verdict,
        "threshold: fail below −margin": "fail" if difference < -MARGIN else "pass",
        "McNemar's test: fail if worse": "fail" if lost > won and mcnemar(won, lost) <= 0.05 else "pass",
    }


def rates(setting: str, runs: Runs, tasks: Any, history: int, drop: float) -> list[dict[str, Any]]:
    """Share of verdicts of every rule; unchanged candidates must not fail the gate in more than 5 %."""
    verdicts = [rules(runs(history + 1, drop), tasks, history) for _ in range(TRIALS)]
    rows = []
    for rule in verdicts[0]:
        said = [verdict[rule] for verdict in verdicts]
        row = {"runs": setting, "drop, points": 100 * drop, "rule": rule, "trials": TRIALS}
        row |= {f"{verdict}": said.count(verdict) / TRIALS for verdict in ("pass", "fail", "cannot tell")}
        covered = "of the baseline" in rule or (rule == "gate without history" and "none" in setting)
        if drop == 0 and covered:
            most = round(float(binom.ppf(0.9995, TRIALS, 0.05)) / TRIALS, 3)
            row |= harness.against(row["fail"], at_most=most)
        rows.append(row)
    return rows


def duration() -> dict[str, Any]:
    """The whole command on 20 tasks of 1,000 items, from nothing."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        for run in ("main", "candidate"):
            lines = [f"m,t{k // 1000},{k},{int(rng.random() < 0.8)}" for k in range(20_000)]
            (Path(name) / f"{run}.csv").write_text("\n".join(["model,task,item,correct", *lines]) + "\n")
        program = (
            "import sys; from hardpan import cli\n"
            f"try: cli.main(['gate', '{name}/main.csv', '{name}/candidate.csv', '--out', '{name}/gate'])\n"
            "except SystemExit: print(*{'torch', 'numba', 'zarr', 'altair'} & {*sys.modules})"
        )
        done = harness.cold(["-c", program])
    heavy = done.output.splitlines()[-1].strip()
    row = {"command": "gate, two tables of 20 tasks × 1,000 items", "best s": done.best, "median s": done.median}
    return (
        row
        | {"imports of torch, numba, zarr, altair": heavy or "none"}
        | harness.against(done.best, at_most=2.0, unit="s")
    )


def job(setting: str, history: int, drop: float) -> list[dict[str, Any]]:
    """The rows of one setting, in a process of its own."""
    rng = np.random.default_rng([3, history, round(1000 * drop), len(setting)])
    if setting in EFFECTS:
        return rates(f"simulated, run effects: {setting}", simulated(rng, *EFFECTS[setting]), TASKS, history, drop)
    runs, tasks = trained(rng)
    return rates(setting, runs, tasks, history, drop)


def run() -> list[dict[str, Any]]:
    settings = [(name, history) for name in EFFECTS for history in (3, 10)]
    settings.append(("80 forests trained on the digits, by seed", 5))
    jobs = [(*setting, drop) for setting in settings for drop in (0.0, 0.01, 0.02)]
    with ProcessPoolExecutor(CORES) as pool:
        rows = [row for some in pool.map(job, *zip(*jobs, strict=True)) for row in some]
    notes = [
        "simulated: 6 tasks × 300 items; digits: 1,198 test images; margin 2 points; new runs in every trial",
        "must: unchanged candidates fail in at most the upper end of the 99.9 % region of 5 %",
    ]
    return [
        harness.table("Verdicts on unchanged candidates and planted drops", rows, seed=3, notes=notes),
        harness.table("Time of the command", [duration()], notes=["whole process; one core"]),
    ]
