"""One test set: item fits beside a plain EM, girth and py-irt; ranking of a large board; agreement without labels.

Files from elsewhere are optional and named by environment variables; each has a simulated twin that always runs:

- ``BENCH_ITEM_MATRIX``: npz with ``right`` (models × items of 0 and 1) and the fit of R's mirt: slopes ``a``,
  intercepts ``d``, and ``theta`` (estimate, standard error).
- ``BENCH_AGREEMENT``: npz with ``predictions_original``, ``labels_original``, ``predictions_v6``, ``labels_v6``.
- ``BENCH_PYIRT``: the Python of an environment with py-irt (it needs typer < 0.15).
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from scipy.special import expit

from bench import harness

PEERS = ("girth",)
CORES = 1
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
MATRIX = os.environ.get("BENCH_ITEM_MATRIX", "")
AGREEMENT = os.environ.get("BENCH_AGREEMENT", "")
PYIRT = os.environ.get("BENCH_PYIRT", "")
PYIRT_EPOCHS = 200
PRIORS = (
    "the weak priors N(1, 3²) and N(0, 5²) were first chosen among thirteen settings with this matrix in view, "
    "so these correlations are no independent test of them: without priors 0.967, 0.974, 0.998, with N(1, 4²) "
    "and N(0, 10²) 0.974, 0.986, 0.998 (slopes, intercepts, skills); on twelve planted sets (300 to 3,000 models) "
    "they had the lowest root mean square error of slopes and the second lowest of intercepts of four settings"
)
SHARED = "one thread; judged by CPU time, because other programs may run on the machine"


def planted(models: int, items: int, seed: int = 0, slope: float = 0.8) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    skill, a, d = rng.normal(size=models), np.exp(rng.normal(slope, 0.4, items)), rng.normal(0, 1.5, items)
    a[: items // 30] *= -1
    p = expit(skill[:, None].astype(np.float32) * a.astype(np.float32) + d.astype(np.float32))
    right = (rng.random((models, items), dtype=np.float32) < p).astype(np.float64)
    return {"right": right, "a": a, "d": d, "theta": skill}


def matrix(path: str, models: int, items: int) -> dict[str, Any]:
    if not path:
        return planted(models, items, slope=1.3)
    with np.load(path, allow_pickle=False) as stored:
        right = stored["right"].astype(np.float64)
        return {"right": right, "a": stored["a"], "d": stored["d"], "theta": stored["theta"][:, 0]}


def plain_em(right: Any, nodes: int = 61, tolerance: float = 1e-3, most: int = 500) -> tuple[Any, Any, Any, int]:
    """Bock and Aitkin's EM as a textbook has it: fixed nodes, Newton in the M step, no acceleration."""
    theta = np.linspace(-6, 6, nodes)
    log_prior = -(theta**2) / 2
    log_prior -= np.log(np.exp(log_prior).sum())
    share = right.mean(axis=0).clip(1e-3, 1 - 1e-3)
    a, d = np.ones(right.shape[1]), np.log(share / (1 - share))
    steps, weights = 0, np.zeros((len(right), nodes))
    while steps < most:
        steps += 1
        z = a[:, None] * theta + d[:, None]
        joint = right @ z - np.logaddexp(0, z).sum(axis=0) + log_prior
        weights = np.exp(joint - joint.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        expected, tried = right.T @ weights, weights.sum(axis=0)
        before = np.concatenate([a, d])
        for _ in range(10):
            p = expit(a[:, None] * theta + d[:, None])
            error, weight = expected - tried * p, tried * p * (1 - p)
            ga, gd = error @ theta, error.sum(axis=1)
            aa, ad, dd = weight @ theta**2, weight @ theta, weight.sum(axis=1)
            determinant = aa * dd - ad**2
            step = np.stack([dd * ga - ad * gd, aa * gd - ad * ga]) / determinant
            step *= np.minimum(1, 1 / np.maximum(np.abs(step).max(axis=0), 1e-9))
            a, d = a + step[0], d + step[1]
            if np.abs(step).max() < 1e-4:
                break
        if np.abs(np.concatenate([a, d]) - before).max() < tolerance:
            break
    return a, d, weights @ theta, steps


def agreement_with(given: dict[str, Any], a: Any, d: Any, skill: Any) -> dict[str, float]:
    sign = -1.0 if np.corrcoef(skill, given["theta"])[0, 1] < 0 else 1.0
    return {
        "slopes": float(np.corrcoef(sign * a, given["a"])[0, 1]),
        "intercepts": float(np.corrcoef(d, given["d"])[0, 1]),
        "skills": float(np.corrcoef(sign * skill, given["theta"])[0, 1]),
    }


def fit_hardpan(given: dict[str, Any]) -> dict[str, Any]:
    from hardpan import Outcomes, leaderboard

    start = time.process_time()
    fit = leaderboard.items(Outcomes.from_arrays(given["right"]))
    spent = time.process_time() - start
    return agreement_with(given, fit.slope, fit.intercept, fit.skill) | {"cpu": spent}


def fit_plain(given: dict[str, Any]) -> dict[str, Any]:
    start = time.process_time()
    a, d, skill, steps = plain_em(given["right"])
    spent = time.process_time() - start
    return agreement_with(given, a, d, skill) | {"steps": steps, "cpu": spent}


def sum_score_skills(a: Any, d: Any, nodes: int = 61) -> Any:
    """E[θ | sum score] for each sum from 0 to N (mirt's "EAPsum") by Lord and Wingersky's recursion."""
    theta = np.linspace(-6, 6, nodes)
    likelihood = np.zeros((len(a) + 1, nodes))
    likelihood[0] = 1.0
    for p in expit(a[:, None] * theta + d[:, None]):
        likelihood[1:] = likelihood[1:] * (1 - p) + likelihood[:-1] * p
        likelihood[0] *= 1 - p
    weights = likelihood * np.exp(-(theta**2) / 2)
    return weights @ theta / weights.sum(axis=1)


def mirt_nodes(*_: Any) -> tuple[Any, Any]:
    """The quadrature of mirt's defaults, 61 nodes from -6 to 6, in the form of ``irt._nodes``."""
    theta = np.linspace(-6, 6, 61)
    log_prior = -(theta**2) / 2
    return theta, log_prior - np.log(np.exp(log_prior).sum())


def stored_fit(path: str) -> dict[str, Any]:
    """Which parameters give the stored skills: the stored ones, the EM's, or hardpan's?"""
    from hardpan.leaderboard import irt

    given = matrix(path, 0, 0)
    a, d, _, steps = plain_em(given["right"], tolerance=1e-4, most=2000)
    flat = irt.Priors(1.0, np.inf, np.inf)
    with mock.patch.object(irt, "_nodes", mirt_nodes):
        coarse = irt.fit(given["right"], priors=flat)
    fine, weak = irt.fit(given["right"], priors=flat), irt.fit(given["right"], priors=irt.Priors())
    parameters = {
        "stored a and d": (given["a"], given["d"], 61),
        f"plain NumPy EM on mirt's nodes, {steps} steps": (a, d, 61),
        "hardpan on mirt's nodes, no priors": (coarse.slope, coarse.intercept, 0),
        "hardpan, no priors": (fine.slope, fine.intercept, 1201),
        "hardpan": (weak.slope, weak.intercept, 1201),
    }
    sums = given["right"].sum(axis=1).astype(int)

    def standardised(theta: Any) -> Any:
        return (theta - theta.mean()) / theta.std()

    rows = []
    for name, (slope, intercept, nodes) in parameters.items():
        row: dict[str, Any] = {"parameters": name}
        if nodes:
            difference = standardised(sum_score_skills(slope, intercept, nodes)[sums]) - standardised(
                given["theta"]
            )
            row["theta: root mean square difference"] = float(np.sqrt((difference**2).mean()))
            row["theta: largest difference"] = float(np.abs(difference).max())
        row["slopes"] = float(np.corrcoef(slope, given["a"])[0, 1])
        row["log slopes"] = float(np.corrcoef(np.log(slope), np.log(given["a"]))[0, 1])
        row["intercepts"] = float(np.corrcoef(intercept, given["d"])[0, 1])
        row["slopes, against the EM's"] = float(np.corrcoef(slope, a)[0, 1])
        rows.append(row)
    notes = [
        f"file {Path(path).name}, sha256 {harness_hash(path)}",
        "theta of the file depends on the sum score only: mirt's EAPsum on its default nodes, 61 from -6 to 6",
        "differences from the file's theta, both standardised to mean 0 and standard deviation 1 over the models "
        "(nodes wider apart than a posterior do not fix the location); correlations with the file's a and d",
        "the maximum-likelihood fit of this matrix reproduces the file's theta, the file's a and d do not: they "
        "belong to another fit. In the scripts of the source (adkipnis/metabench, reduce.R) the item table keeps "
        "the parameters of a fit of a larger pool of items, while theta is from a second fit of the selected items",
    ]
    return harness.table("Which fit does the file of mirt hold?", rows, notes=notes)


def fit_girth(given: dict[str, Any]) -> dict[str, Any]:
    from girth import twopl_mml

    start = time.process_time()
    found = twopl_mml(given["right"].T.astype(int))
    spent = time.process_time() - start
    a = found["Discrimination"]
    return agreement_with(given, a, -a * found["Difficulty"], found["Ability"]) | {"cpu": spent}


def fit_rasch(given: dict[str, Any]) -> dict[str, Any]:
    from hardpan import Outcomes, leaderboard

    start = time.process_time()
    leaderboard.items(Outcomes.from_arrays(given["right"]), "rasch")
    return {"cpu": time.process_time() - start}


def rank_all(given: dict[str, Any]) -> dict[str, Any]:
    from hardpan import Outcomes, leaderboard

    start = time.process_time()
    leaderboard.rank(Outcomes.from_arrays(given["right"]))
    return {"cpu": time.process_time() - start}


def with_gaps(models: int, items: int, slope: float) -> dict[str, Any]:
    given = planted(models, items, slope=slope)
    given["right"][np.random.default_rng(1).random((models, items)) < 0.1] = np.nan
    return given


def by_pyirt(path: str, models: int, items: int) -> dict[str, Any]:
    """py-irt in its own environment, by its command line: variational inference, ``PYIRT_EPOCHS`` epochs."""
    given = matrix(path, models, items)
    with tempfile.TemporaryDirectory() as folder:
        lines = [
            json.dumps({"subject_id": f"{j}", "responses": {f"{i}": int(x) for i, x in enumerate(row)}})
            for j, row in enumerate(given["right"])
        ]
        (Path(folder) / "data.jsonl").write_text("\n".join(lines))
        command = [str(Path(PYIRT).with_name("py-irt")), "train", "2pl", f"{folder}/data.jsonl", f"{folder}/out"]
        started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*command, "--epochs", str(PYIRT_EPOCHS)], check=True, capture_output=True, timeout=1800)
        seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        best = json.loads((Path(folder) / "out" / "best_parameters.json").read_text())
    rows = [int(best["subject_ids"][str(k)]) for k in range(len(given["right"]))]
    columns = [int(best["item_ids"][str(k)]) for k in range(given["right"].shape[1])]
    skill, a, b = np.empty(len(rows)), np.empty(len(columns)), np.empty(len(columns))
    skill[rows], a[columns], b[columns] = best["ability"], best["disc"], best["diff"]
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return agreement_with(given, a, -a * b, skill) | {"seconds": seconds, "CPU seconds": spent}


def item_fits(path: str) -> dict[str, Any]:
    models, items = (round(4280 * SCALE), 136) if not path else (0, 0)
    arguments = {"path": path, "models": models, "items": items}
    ours = harness.isolated(matrix, fit_hardpan, repeats=3, **arguments)
    plain = harness.isolated(matrix, fit_plain, **arguments)
    names = ("slopes", "intercepts", "skills")
    rows: list[dict[str, Any]] = [
        {
            "method": "hardpan",
            "CPU seconds": ours.output["cpu"],
            "seconds": ours.best,
            **{name: ours.output[name] for name in names},
            "requirement": "at most half the CPU time of the plain EM",
            **harness.against(ours.output["cpu"] / plain.output["cpu"], at_most=0.5),
        },
        {
            "method": f"plain NumPy EM, {plain.output['steps']} steps",
            "CPU seconds": plain.output["cpu"],
            "seconds": plain.best,
            **{name: plain.output[name] for name in names},
        },
    ]
    try:
        girth = harness.isolated(matrix, fit_girth, timeout=600, **arguments)
        found = {name: girth.output[name] for name in names}
        row = {"method": "girth (positive slopes only)", "CPU seconds": girth.output["cpu"], "seconds": girth.best}
        rows.append(row | found)
    except (RuntimeError, TimeoutError) as error:
        rows.append({"method": f"girth: {str(error)[-80:]}"})
    if PYIRT:
        rows.append({"method": f"py-irt, {PYIRT_EPOCHS} epochs", **by_pyirt(**arguments)})
    if path:
        for name, least in (("slopes", 0.98), ("intercepts", 0.99), ("skills", 0.995)):
            value = ours.output[name]
            rows.append(
                {
                    "method": "hardpan",
                    "requirement": f"{name} against mirt",
                    **harness.against(value, at_least=least),
                }
            )
    notes = [
        "correlations with the fit of R's mirt" if path else "correlations with the planted parameters",
        f"file {Path(path).name}, sha256 {harness_hash(path)}" if path else "simulated",
        SHARED,
    ]
    if path:
        notes.append(PRIORS)
    title = "Two-parameter fit, 4,280 × 136" + (" (language models, beside mirt)" if path else " (simulated)")
    return harness.table(title, rows, seed=None if path else 0, notes=notes)


def harness_hash(path: str) -> str:
    from hardpan.files import file_hash

    return file_hash(Path(path))


def large() -> dict[str, Any]:
    models, items = max(20, round(500 * SCALE)), max(1000, round(60_000 * SCALE))
    rows: list[dict[str, Any]] = []
    rasch = harness.isolated(planted, fit_rasch, repeats=2, models=round(4280 * SCALE), items=100)
    two = harness.isolated(planted, fit_hardpan, models=models, items=items, slope=0.2)
    ranked = harness.isolated(planted, rank_all, models=models, items=items, slope=0.2)
    missing = harness.isolated(with_gaps, rank_all, models=models, items=items, slope=0.2)
    work = (
        ("Rasch, 4,280 × 100", rasch, {"at_most": 1}),
        (f"2PL, {models:,} × {items:,}", two, {"at_most": 73}),
        (f"rank, {models:,} × {items:,}, all pairs", ranked, {"at_most": 20}),
        (f"rank, {models:,} × {items:,}, a tenth of the cells missing", missing, {"at_most": 20}),
    )
    for name, m, limit in work:
        row = {"work": name, "CPU seconds": m.output["cpu"], "seconds": m.best, "extra MB": m.extra_megabytes}
        rows.append(row | harness.against(m.best, **limit, unit="s"))
    for name, m in (("rank: memory", ranked), ("rank, cells missing: memory", missing)):
        memory = harness.against(m.extra_megabytes, at_most=2000, unit="MB")
        rows.append({"work": name, "extra MB": m.extra_megabytes, **memory})
    notes = ["one thread; judged by wall-clock time; where it is far above the CPU time, other programs ran"]
    return harness.table("Large boards", rows, seed=0, notes=notes)


def without_labels(path: str) -> dict[str, Any]:
    from hardpan import leaderboard

    if path:
        with np.load(path, allow_pickle=False) as stored:
            old, labels = stored["predictions_original"], stored["labels_original"]
            new, truth = stored["predictions_v6"], stored["labels_v6"]
    else:
        rng = np.random.default_rng(0)
        labels, truth = rng.integers(0, 10, 10_000), rng.integers(0, 10, 2000)
        skill = np.linspace(1.2, 3.0, 30)[:, None]

        def predict(answers: Any, shift: float) -> Any:
            hard = rng.normal(size=answers.size)
            right = skill - shift - hard + rng.normal(size=(30, answers.size)) > 0
            return np.where(right, answers, rng.integers(0, 10, (30, answers.size)))

        old, new = predict(labels, 0.0), predict(truth, 0.5)
    result = leaderboard.agreement(old, labels, new)
    accuracy = (new == truth).mean(axis=1)
    error = float(np.abs(result.estimate - accuracy).mean())
    rows = [
        {
            "models": len(old),
            "mean drop, points": 100 * float((result.accuracy - accuracy).mean()),
            "mean absolute error, points": 100 * error,
            "intervals that contain the truth": float(
                np.mean((result.low <= accuracy) & (accuracy <= result.high))
            ),
            **harness.against(100 * error, at_most=1.2, unit="points"),
        }
    ]
    note = f"file {Path(path).name}, sha256 {harness_hash(path)}" if path else "simulated"
    title = "Accuracy without labels" + (" (CIFAR-10.1 v6)" if path else " (simulated)")
    return harness.table(title, rows, seed=0, notes=[note])


def wrong_keys() -> dict[str, Any]:
    """Planted wrong keys: precision at the number planted; tied items count by their share of the tied block."""
    from hardpan import Outcomes, leaderboard

    rows = []
    for models in (5, 14, 60):
        rng = np.random.default_rng(models)
        truth = rng.integers(0, 4, 4000)
        attractive = (truth + rng.integers(1, 4, 4000)) % 4
        p = expit(rng.normal(0.8, 1.0, 4000) + rng.normal(0, 0.7, (models, 1)))
        lure = rng.random((models, 4000)) < 0.5
        said = np.where(rng.random(p.shape) < p, truth, np.where(lure, attractive, rng.integers(0, 4, p.shape)))
        key = truth.copy()
        wrong = rng.permutation(4000)[:200]
        key[wrong] = (truth[wrong] + 1) % 4
        outcomes = Outcomes.from_arrays((said == key).astype(float), answers=said.astype(str), key=key.astype(str))
        found = leaderboard.suspect_keys(outcomes)
        bad = np.isin(found.items, [f"item-{i}" for i in wrong])
        edge = found.margin[199]
        surely, tied = found.margin > edge, found.margin == edge
        precision = (bad[surely].sum() + bad[tied].mean() * (200 - surely.sum())) / 200
        ranks = np.argsort(np.argsort(found.margin, kind="stable"))
        auc = (ranks[bad].sum() - 200 * 199 / 2) / (200 * 3800)
        rows.append(
            {
                "models": models,
                "precision at 200": float(precision),
                "tied at the edge": int(tied.sum()),
                "AUC": float(auc),
            }
        )
    return harness.table(
        "Planted wrong keys, 200 of 4,000", rows, notes=["ties count by their share of the tied block"], seed=0
    )


def run() -> list[dict[str, Any]]:
    tables = [item_fits(""), *([item_fits(MATRIX), stored_fit(MATRIX)] if MATRIX else [])]
    tables += [large(), without_labels(""), *([without_labels(AGREEMENT)] if AGREEMENT else []), wrong_keys()]
    return tables
