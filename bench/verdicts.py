"""Audits of planted problems: does the bracket hold, are planted problems found, are there false alarms?

Two parts. Development: the problems of this file and of ``bench/_planted.py``, known to whoever changes the audit,
so that their numbers say only that nothing got worse. Fresh: ``BENCH_FRESH=FOLDER python -m bench verdicts --table
fresh`` runs problems that people wrote who know only the documentation; its first run is what the README states
(docs/measured.md). Every problem has a known Bayes error, or a planted defect, and is drawn anew for every seed.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench import _fresh, harness

SEED = 1000  # the first one; the problems of earlier records had the seeds from 0 on
N = 1500
CORES = 2
FILES = (Path(__file__).resolve(), Path(__file__).resolve().with_name("_planted.py"))

Made = dict[str, Any]
Problem = Callable[[np.random.Generator], Made]
P: dict[str, tuple[str, Problem]] = {}
GROUPS: dict[str, str] = {}
WRITERS = frozenset({"groups", "order", "shift"})  # true of digits in their own order: they come by writer


def planted(
    x: np.ndarray,
    y: np.ndarray,
    truth: float | None = None,
    kinds: dict[str, dict[str, Any]] | None = None,
    split: np.ndarray | None = None,
    noisy: bool = False,
    ok: Any = (),
    **options: Any,
) -> Made:
    """A problem in the format of fresh ones; ``noisy``: labels differ from the best guess, so some look wrong."""
    return {
        "x": x,
        "y": y,
        "truth": truth,
        "planted": kinds or {},
        "ok": {*ok, *(["labels"] if noisy else [])},
        "split": split,
        "opts": options,
    }


def problem(group: str, name: str) -> Callable[[Problem], Problem]:
    def add(function: Problem) -> Problem:
        P[name], GROUPS[name] = ("train", function), group
        return function

    return add


def flipped(rng: np.random.Generator, y: np.ndarray, rate: float, k: int = 2) -> np.ndarray:
    """Labels flipped at random to another class: the Bayes error of a deterministic rule becomes ``rate``."""
    return np.where(rng.random(len(y)) < rate, (y + rng.integers(1, k, len(y))) % k, y)


def rule(
    name: str, d: int, decide: Callable[[np.ndarray], np.ndarray], rates: tuple[float, ...], k: int = 2
) -> None:
    """A deterministic rule on d normal features, without noise and with symmetric label noise."""
    for rate in rates:

        def make(rng: np.random.Generator, rate: float = rate) -> Made:
            x = rng.normal(size=(N, d))
            y = np.asarray(decide(x)).astype(np.int64)
            return planted(x, flipped(rng, y, rate, k), rate, noisy=rate > 0)

        problem("tables: rules", f"{name}, noise {100 * rate:g} %")(make)


rule("one of 40 features", 40, lambda x: x[:, 7] > 0, (0.0, 0.1, 0.25))
rule("oblique, 10 of 20 features", 20, lambda x: x[:, :10].sum(axis=1) > 0, (0.0, 0.1))
rule("XOR", 8, lambda x: (x[:, 0] > 0) ^ (x[:, 1] > 0), (0.0, 0.15))
rule("parity of 3", 6, lambda x: (x[:, :3] > 0).sum(axis=1) % 2, (0.0, 0.1))
rule("tree of 4 leaves", 25, lambda x: np.where(x[:, 3] > 0, x[:, 5] > 0.5, x[:, 9] > -0.5), (0.0, 0.1))
rule("tree, 4 classes", 10, lambda x: 2 * (x[:, 0] > 0) + (x[:, 4] > 0.3), (0.0, 0.2), 4)
rule("radial", 5, lambda x: (x**2).sum(axis=1) > 4.35, (0.0, 0.2))
rule("rings", 2, lambda x: np.floor(1.5 * np.linalg.norm(x, axis=1)) % 2, (0.0,))
rule("interaction", 10, lambda x: x[:, 0] * x[:, 1] + x[:, 2] > 0, (0.0, 0.1))
rule("chess board", 2, lambda x: (np.floor(1.5 * x[:, 0]) + np.floor(1.5 * x[:, 1])) % 2, (0.05,))
rule("wave", 2, lambda x: x[:, 1] > np.sin(3 * x[:, 0]), (0.0, 0.1))


def shifted(
    name: str, draw: Callable[..., np.ndarray], tail: Callable[[float], float], shift: float, d: int
) -> None:
    """Two classes, the first feature shifted: Bayes error P(noise > shift/2) for symmetric unimodal noise."""

    def make(rng: np.random.Generator) -> Made:
        y = rng.integers(0, 2, N)
        x = draw(rng, (N, d))
        x[:, 0] += shift * y
        return planted(x, y, tail(shift / 2), noisy=True)

    problem("tables: densities", name)(make)


def _tails() -> None:
    from scipy import stats

    shifted("Gaussian, 3 features", lambda r, s: r.normal(size=s), stats.norm.sf, 2.0, 3)
    shifted("Gaussian, 50 features", lambda r, s: r.normal(size=s), stats.norm.sf, 3.0, 50)
    shifted("Laplace", lambda r, s: r.laplace(size=s), stats.laplace.sf, 3.0, 4)
    shifted("Student, 2 degrees of freedom", lambda r, s: r.standard_t(2, s), stats.t(2).sf, 4.0, 5)
    shifted("Cauchy", lambda r, s: r.standard_cauchy(s), stats.cauchy.sf, 6.0, 3)
    shifted("logistic", lambda r, s: r.logistic(size=s), stats.logistic.sf, 4.0, 6)


_tails()


@problem("tables: densities", "three Gaussian classes")
def _three(rng: np.random.Generator) -> Made:
    from hardpan import bayes

    means = np.array([[0.0, 0, 0, 0], [2.0, 0, 0, 0], [0.0, 2, 0, 0]])
    y = rng.integers(0, 3, N)
    return planted(means[y] + rng.normal(size=(N, 4)), y, bayes.gaussian(means).value, noisy=True)


@problem("tables: densities", "two spreads")
def _spreads(rng: np.random.Generator) -> Made:
    from hardpan import bayes

    y = rng.integers(0, 2, N)
    x = rng.normal(size=(N, 4)) * np.where(y, 3.0, 1.0)[:, None]
    truth = bayes.gaussian(np.zeros((2, 4)), covs=np.array([1.0, 9.0])).value
    return planted(x, y, truth, noisy=True)


@problem("tables: densities", "log-normal")
def _lognormal(rng: np.random.Generator) -> Made:
    from scipy.stats import norm

    y = rng.integers(0, 2, N)
    x = rng.normal(size=(N, 3))
    x[:, 0] += 2.5 * y
    return planted(np.exp(2 * x), y, norm.sf(1.25), noisy=True)


@problem("tables: densities", "smooth posterior")
def _smooth(rng: np.random.Generator) -> Made:
    x = rng.uniform(-3, 3, size=(N, 6))
    p = 1 / (1 + np.exp(-2 * x[:, 0]))
    grid = np.linspace(-3, 3, 100_001)
    exact = 1 / (1 + np.exp(2 * np.abs(grid)))
    return planted(x, (rng.random(N) < p).astype(int), float(exact.mean()), noisy=True)


@problem("tables: noise", "labels without a rule")
def _guessing(rng: np.random.Generator) -> Made:
    return planted(rng.normal(size=(N, 5)), rng.integers(0, 2, N), 0.5, noisy=True)


@problem("tables: noise", "labels without a rule, unequal classes")
def _unequal(rng: np.random.Generator) -> Made:
    return planted(rng.normal(size=(N, 5)), rng.choice(4, N, p=[0.6, 0.2, 0.1, 0.1]), 0.4, noisy=True)


@problem("tables: noise", "class-dependent noise")
def _asymmetric(rng: np.random.Generator) -> Made:
    x = rng.normal(size=(N, 10))
    y = (x[:, 0] > 0).astype(int)
    rate = np.where(y, 0.05, 0.2)
    return planted(x, np.where(rng.random(N) < rate, 1 - y, y), 0.125, noisy=True)


@problem("tables: noise", "five classes, noise to the next class")
def _next(rng: np.random.Generator) -> Made:
    x = rng.normal(size=(N, 6))
    y = np.digitize(x[:, 2], [-0.84, -0.25, 0.25, 0.84])
    return planted(x, np.where(rng.random(N) < 0.15, (y + 1) % 5, y), 0.15, noisy=True)


@problem("tables: noise", "known noise rate")
def _stated(rng: np.random.Generator) -> Made:
    x = rng.normal(size=(N, 10))
    y = (x[:, 0] + x[:, 1] > 0).astype(int)
    return planted(x, flipped(rng, y, 0.1), 0.1, noisy=True, label_noise=0.1)


@problem("tables: noise", "rare class")
def _rare(rng: np.random.Generator) -> Made:
    x = rng.normal(size=(N, 8))
    return planted(x, (x[:, 0] > 1.3).astype(int), 0.0)


@problem("tables: discrete", "three categories of six levels, noise 10 %")
def _categories(rng: np.random.Generator) -> Made:
    levels = np.random.default_rng(1).integers(0, 2, (6, 6, 6))
    x = rng.integers(0, 6, (N, 3))
    return planted(x.astype(float), flipped(rng, levels[tuple(x.T)], 0.1), 0.1, noisy=True)


@problem("tables: discrete", "parity of bits, noise 5 %")
def _bits(rng: np.random.Generator) -> Made:
    x = rng.integers(0, 2, (N, 5))
    return planted(x.astype(float), flipped(rng, x[:, :3].sum(axis=1) % 2, 0.05), 0.05, noisy=True)


@problem("tables: discrete", "a hundred inputs, noise 20 %")
def _hundred(rng: np.random.Generator) -> Made:
    x = rng.integers(0, 100, N)
    rule_ = np.random.default_rng(2).integers(0, 3, 100)
    return planted(x[:, None].astype(float), flipped(rng, rule_[x], 0.2, 3), 0.2, noisy=True)


@problem("tables: discrete", "two categories of twenty levels")
def _levels(rng: np.random.Generator) -> Made:
    levels = np.random.default_rng(3).integers(0, 2, (20, 20))
    x = rng.integers(0, 20, (N, 2))
    return planted(x.astype(float), levels[tuple(x.T)], 0.0)


def flow_problem(temperature: float) -> None:
    def make(rng: np.random.Generator) -> Made:
        from hardpan import flows

        flow = flows.load("digits")
        x, y = flow.sample(N, temperature=temperature, seed=int(rng.integers(1_000_000)))
        return planted(np.asarray(x), np.asarray(y), flow.bayes_error(temperature).value, noisy=True)

    problem("images", f"images of the digits flow, temperature {temperature:g}")(make)


for value in (0.6, 1.0, 1.6):
    flow_problem(value)


@functools.cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    from hardpan import Dataset

    data = Dataset.open("digits")
    assert data.labels is not None
    return data.x, data.labels


@problem("images", "digits, label noise 10 %")
def _noisy_digits(rng: np.random.Generator) -> Made:
    x, y = digits()
    noise = flipped(rng, y, 0.1, 10)
    return planted(x, noise, 0.1, {"labels": {"rows": np.flatnonzero(noise != y)}}, noisy=True, ok=WRITERS)


def halves(n: int, test: int) -> np.ndarray:
    return np.repeat(["train", "test"], [n - test, test])


def last(k: int, y: np.ndarray) -> dict[str, Any]:
    return {"rows": np.arange(len(y) - k, len(y))}


@problem("defects", "digits, 60 test images copied from train")
def _copied(rng: np.random.Generator) -> Made:
    x, y = (item.copy() for item in digits())
    order = rng.permutation(len(y))
    x, y = x[order], y[order]
    x[-60:], y[-60:] = x[:60], y[:60]
    return planted(x, y, None, {"test-copies": last(60, y)}, halves(len(y), 400))


@problem("defects", "digits, test set copied from train")
def _whole(rng: np.random.Generator) -> Made:
    x, y = (item.copy() for item in digits())
    x[-400:], y[-400:] = x[:400], y[:400]
    return planted(x, y, None, {"test-copies": last(400, y)}, halves(len(y), 400), ok=WRITERS)


@problem("defects", "digits, near-copies")
def _near(rng: np.random.Generator) -> Made:
    x, y = (item.astype(np.float32) for item in digits())
    x[-40:], y[-40:] = x[:40] + 0.3 * rng.normal(size=x[:40].shape), y[:40]
    return planted(x, y.astype(int), None, {"near-copies": last(40, y)}, halves(len(y), 400), ok=WRITERS)


@problem("defects", "digits, 5 % wrong test labels")
def _wrong_test(rng: np.random.Generator) -> Made:
    x, clean = digits()
    y = clean.copy()
    y[-500:] = flipped(rng, y[-500:], 0.05, 10)
    rows = np.flatnonzero(y != clean)
    return planted(x, y, None, {"labels": {"rows": rows}}, halves(len(y), 500), ok=WRITERS)


@problem("defects", "conflicting labels of copies")
def _conflicts(rng: np.random.Generator) -> Made:
    x = rng.normal(size=(N, 6))
    y = (x[:, 0] > 0).astype(int)
    x[:30], y[:30] = x[30:60], 1 - y[30:60]  # 30 labels are wrong
    kinds = {"conflicting-labels": {"rows": np.arange(60)}, "duplicates": {}}
    return planted(x, y, None, kinds, noisy=True, ok={"order"})


@problem("defects", "row number among the features")
def _index(rng: np.random.Generator) -> Made:
    y = np.sort(rng.integers(0, 2, N))
    x = np.column_stack([np.arange(N), rng.normal(size=(N, 4))])
    return planted(x, y, None, {"index-feature": {"columns": [0]}}, ok={"leak-feature", "order"})


@problem("defects", "a feature that is the label")
def _leak(rng: np.random.Generator) -> Made:
    y = rng.integers(0, 3, N)
    x = rng.normal(size=(N, 5))
    kinds = {"leak-feature": {"columns": [5]}}
    return planted(np.column_stack([x, y + 0.01 * rng.normal(size=N)]), y, None, kinds)


@problem("defects", "a constant column")
def _constant(rng: np.random.Generator) -> Made:
    x = rng.normal(size=(N, 5))
    x[:, 2] = 4.0
    return planted(x, (x[:, 0] > 0).astype(int), 0.0, {"constant-columns": {"columns": [2]}})


@problem("defects", "one class")
def _one(rng: np.random.Generator) -> Made:
    return planted(rng.normal(size=(N, 5)), np.zeros(N, dtype=int), None, {"one-class": {}})


@problem("defects", "a class missing from train")
def _missing(rng: np.random.Generator) -> Made:
    x = rng.normal(size=(N, 5))
    y = (x[:, 0] > 0).astype(int)
    y[-50:] = 2
    return planted(x, y, None, {"missing-classes": {}}, halves(N, 400), ok={"shift", "order"})


@problem("defects", "very unequal classes")
def _imbalance(rng: np.random.Generator) -> Made:
    x = rng.normal(size=(N, 5))
    return planted(x, (x[:, 0] > 2.1).astype(int), 0.0, {"imbalance": {}})


def summary(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By group: brackets that hold, distance of the best model to the truth, problems found, false alarms."""
    from scipy.stats import binom

    rows = []
    named = [(GROUPS.get(cell["problem"], "further mechanisms"), cell) for cell in cells]
    for group in (*dict.fromkeys(name for name, _ in named), "all"):
        chosen = [cell for name, cell in named if group in (name, "all")]
        held = [value for value in map(_fresh.holds, chosen) if value is not None]
        known = [cell for cell in chosen if cell.get("truth") is not None and cell.get("best") is not None]
        gaps = [100 * (cell["best"] - cell["truth"]) for cell in known]
        found = [kind in cell.get("found", ()) for cell in chosen for kind in cell.get("planted", ())]
        allowed = int(binom.ppf(0.999, len(held), 0.05)) if held else 0
        rows.append(
            {
                "group": group,
                "audits": len(chosen),
                "brackets that hold": f"{sum(held)} of {len(held)}",
                "median best − truth, points": round(float(np.median(gaps)), 2) if gaps else None,
                "planted problems found": f"{sum(found)} of {len(found)}",
                "audits with a false alarm": sum(bool(cell.get("alarms")) for cell in chosen),
                "audits that failed": sum(bool(cell["error"]) for cell in chosen),
                "must": f"misses ≤ {allowed}",
                "met": len(held) - sum(held) <= allowed,
            }
        )
    return rows


def run() -> list[Any]:
    """Audit every development problem with every seed; an interrupted run resumes, if the source is the same."""
    cells = _audits(FILES, range(SEED, SEED + _fresh.SEEDS), "verdicts")
    title = "Verdicts on planted problems"
    _, *details = _fresh.tables(cells, title)
    notes = ["development problems; misses allowed: 5 % up to the 99.9 % binomial limit", *details[0]["notes"]]
    return [harness.table(title, summary(cells), seed=SEED, notes=notes), *details]


def fresh() -> list[Any]:
    """Audit the fresh problems in the folder BENCH_FRESH."""
    folder = os.environ.get("BENCH_FRESH")
    if not folder:
        raise SystemExit("BENCH_FRESH must name the folder of the fresh problems (docs/measured.md)")
    cells = _audits(_fresh.files_in(folder), range(_fresh.SEEDS), "verdicts-fresh")
    return _fresh.tables(cells, "Verdicts on fresh problems")


def sentences() -> list[Any]:
    """Sentences with a stated confidence, at function level."""
    from bench import _sentences

    harness.pin(1)
    return [_sentences.table()]


TABLES = {"fresh": fresh, "sentences": sentences}


def _audits(files: Any, seeds: range, name: str) -> list[_fresh.Cell]:
    harness.pin(_fresh.WORKERS)
    part = harness.ROOT / "build" / f"{name}.jsonl"
    cells = _fresh.run_audits(_fresh.tasks_of(files, seeds, os.environ.get("BENCH_ONLY", "")), part)
    part.unlink()
    return cells
