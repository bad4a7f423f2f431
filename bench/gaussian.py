"""Bayes error of Gaussian classes: the closed form to 1e-12, importance sampling up to 1,000 classes and 150,528
dimensions, and classes with different covariances, each against what it has to reach.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bench import _truth, harness

PEERS = ("mpmath",)

ERRORS = (0.4, 0.1, 1e-3, 1e-10, 1e-30, 1e-100, 1e-300)
PRIORS = ((0.5, 0.5), (0.9, 0.1), (0.001, 0.999))


def run() -> list[dict[str, Any]]:
    return [exact_table(), importance_table(), mapped_table(), concentric_table(), different_table()]


# Two classes: the closed form


def exact_table() -> dict[str, Any]:
    rows = []
    for dimension in (1, 784, 3072, 150_528):
        rows += exact_rows(dimension, None)
    rows += exact_rows(3072, np.random.default_rng(1).uniform(0.1, 10, 3072))
    notes = [
        f"distances at which two classes with equal priors have the errors {', '.join(f'{e:g}' for e in ERRORS)}",
        "truth: mpmath with 50 digits, from the same doubles; seconds: the slowest of the calls",
    ]
    return harness.table("Two classes against 50 digits", rows, seed=0, notes=notes)


def exact_rows(dimension: int, variances: np.ndarray | None) -> list[dict[str, Any]]:
    """A row for each prior: the worst relative error over all distances."""
    from hardpan import bayes

    direction = _truth.unit_means(1, dimension)[0] * (1 if variances is None else np.sqrt(variances))
    origin = 0.3 * _truth.unit_means(1, dimension, seed=1)[0]
    problems = [np.stack([origin, origin + _truth.distance_for(error) * direction]) for error in ERRORS]
    distances = [_truth.exact_distance(means, variances) for means in problems]
    rows = []
    for priors in PRIORS:
        truths = [_truth.two_classes(distance, priors) for distance in distances]
        calls = [
            harness.measure(lambda m=means, p=priors: bayes.gaussian(m, variances, p, method="exact"), 1)
            for means in problems
        ]
        worst = max(abs(float(call.output.value / truth - 1)) for call, truth in zip(calls, truths, strict=True))
        rows.append(
            {
                "d": dimension,
                "covariance": "identity" if variances is None else "diagonal",
                "priors": f"{priors[0]:g}, {priors[1]:g}",
                "errors": f"{float(max(truths)):.3g} to {float(min(truths)):.3g}",
                "worst relative error": worst,
                "seconds": max(call.best for call in calls),
                **harness.against(worst, at_most=1e-12),
            }
        )
    return rows


# Many classes, one covariance


def prepare_units(classes: int, dimension: int, temperature: float, rtol: float, warm: bool) -> dict[str, Any]:
    if warm:
        _truth.warm_up()
    means = _truth.unit_means(classes, dimension)
    return {"means": means, "temperature": temperature, "rtol": rtol}


def importance(given: dict[str, Any]) -> dict[str, Any]:
    from hardpan import bayes

    e = bayes.gaussian(
        given["means"], temperature=given["temperature"], method="importance", rtol=given["rtol"], seed=0
    )
    share = 10 ** (math.log10(e.stderr) - e.log10) if e.stderr > 0 and e.log10 is not None else 0.0
    return {"log10": e.log10, "value": e.value, "share": share, "draws": e.n, "capped": bool(e.notes)}


def importance_row(
    classes: int, dimension: int, temperature: float, *, rtol: float, seconds: float, megabytes: float | None,
    repeats: int = 3, warm: bool = True,
) -> dict[str, Any]:  # fmt: skip
    m = harness.isolated(
        prepare_units, importance, repeats=repeats,
        classes=classes, dimension=dimension, temperature=temperature, rtol=rtol, warm=warm,
    )  # fmt: skip
    checks = [
        harness.against(m.output["share"], at_most=rtol, unit="relative"),
        harness.against(m.median, at_most=seconds, unit="s"),
    ]
    if megabytes is not None:
        checks.append(harness.against(m.extra_megabytes, at_most=megabytes, unit="MB"))
    row = {
        "K": classes,
        "d": dimension,
        "τ": temperature,
        "error": m.output["value"],
        "relative stderr": m.output["share"],
        "draws": m.output["draws"],
        "seconds": m.median,
        "extra MB": m.extra_megabytes,
    }
    if not warm:
        return row | {"note": "first call of a process: imports scipy.stats"}
    return row | _truth.together(*checks)


def importance_table() -> dict[str, Any]:
    small = {"rtol": 1e-3, "seconds": 0.5, "megabytes": 100}
    rows = [importance_row(10, 3072, temperature, **small) for temperature in (0.03, 0.1, 0.3, 1.0)]
    rows.append(importance_row(10, 3072, 0.3, **small, repeats=1, warm=False))
    rows.append(importance_row(100, 3072, 0.3, rtol=1e-3, seconds=3, megabytes=None))
    rows.append(importance_row(1000, 12_288, 0.3, rtol=1e-2, seconds=60, megabytes=1000, repeats=1))
    notes = [
        "random unit means (seed 0), method='importance', one core; median of three calls (K = 1000: one call)",
        "memory is beyond the input; it includes every temporary of the reduction to K − 1 dimensions",
    ]
    return harness.table("Many classes with one covariance", rows, seed=0, notes=notes)


def prepare_mapped(folder: str, classes: int, dimension: int) -> dict[str, Any]:
    _truth.warm_up()
    path = Path(folder) / "means.dat"
    generator = np.random.default_rng(0)
    with path.open("wb") as file:
        for _ in range(classes):
            mean = generator.standard_normal(dimension, dtype=np.float32)
            (mean / np.linalg.norm(mean)).tofile(file)
    return {
        "means": np.memmap(path, dtype=np.float32, mode="r", shape=(classes, dimension)),
        "temperature": 0.3,
        "rtol": 1e-2,
    }


def mapped_table() -> dict[str, Any]:
    folder = tempfile.mkdtemp()
    try:
        m = harness.isolated(prepare_mapped, importance, folder=folder, classes=1000, dimension=150_528)
    finally:
        shutil.rmtree(folder)
    size = 1000 * 150_528 * 4 / 1e6
    row = {
        "K": 1000,
        "d": 150_528,
        "τ": 0.3,
        "error": m.output["value"],
        "relative stderr": m.output["share"],
        "seconds": m.best,
        "input MB": size,
        "extra MB, mapped pages too": m.extra_megabytes,
        **harness.against(m.extra_megabytes, at_most=size + 1000, unit="MB with the input"),
    }
    note = "the means are a float32 file, opened with np.memmap; its pages count as memory once they are read"
    return harness.table("Means that stay on disk", [row], seed=0, notes=[note])


# Different covariances


def prepare_concentric(form: str, dimension: int, scale: float) -> dict[str, Any]:
    _truth.warm_up()
    variances = np.array([1.0, scale * scale])
    if form == "scalars":
        covs = variances
    elif form == "diagonals":
        covs = np.repeat(variances[:, None], dimension, axis=1)
    else:
        # Any invertible map leaves the error as it is: these matrices have no simple form that could be noticed.
        generator = np.random.default_rng(0)
        basis = np.linalg.qr(generator.standard_normal((dimension, dimension)))[0]
        shared = (basis * generator.uniform(0.2, 5, dimension)) @ basis.T
        covs = variances[:, None, None] * ((shared + shared.T) / 2)
    return {"means": np.zeros((2, dimension)), "covs": covs}


def prepare_random(form: str, classes: int, dimension: int, spread: float) -> dict[str, Any]:
    _truth.warm_up()
    generator = np.random.default_rng(0)
    variances = np.exp(spread * generator.standard_normal((classes, dimension)))
    if form == "diagonals":
        return {"means": np.zeros((classes, dimension)), "covs": variances}
    covs = np.empty((classes, dimension, dimension))
    for k in range(classes):
        basis = np.linalg.qr(generator.standard_normal((dimension, dimension)))[0]
        shared = (basis * variances[k]) @ basis.T
        covs[k] = (shared + shared.T) / 2
    return {"means": np.zeros((classes, dimension)), "covs": covs}


def chernoff(given: dict[str, Any]) -> dict[str, Any]:
    from hardpan import bayes

    e = bayes.gaussian(given["means"], covs=given["covs"], method="chernoff", rtol=1e-2, seed=0)
    return {"value": e.value, "stderr": e.stderr, "draws": e.n}


def concentric_table() -> dict[str, Any]:
    rows = []
    for form, dimension in (("scalars", 3072), ("diagonals", 3072), ("full matrices", 784)):
        for error in (0.3, 0.1, 1e-2, 1e-5, 1e-9, 1e-13):
            scale = round(_truth.scale_for(dimension, error), 4)
            truth = _truth.concentric([1.0, scale * scale], dimension)
            m = harness.isolated(prepare_concentric, chernoff, form=form, dimension=dimension, scale=scale)
            off = (m.output["value"] - truth) / m.output["stderr"]
            share = m.output["stderr"] / m.output["value"]
            rows.append(
                {
                    "covariances": form,
                    "d": dimension,
                    "s": scale,
                    "error": m.output["value"],
                    "truth": truth,
                    "stderrs off": off,
                    "relative stderr": share,
                    "seconds": m.best,
                    "extra MB": m.extra_megabytes,
                    **_truth.together(
                        harness.against(abs(off), at_most=3, unit="stderrs off"),
                        harness.against(share, at_most=1e-2, unit="relative"),
                        harness.against(m.best, at_most=10, unit="s"),
                    ),
                }
            )
    notes = [
        "N(0, A) against N(0, s²A), truth by the χ² distribution; method='chernoff', rtol 1e-2, one call",
        "A = I for scalars and diagonals, a random matrix with eigenvalues from 0.2 to 5 for full matrices",
    ]
    return harness.table("Different covariances with a closed form", rows, seed=0, notes=notes)


def different_table() -> dict[str, Any]:
    rows = []
    for form, classes, dimension, spread in (
        ("diagonals", 2, 3072, 0.05),
        ("diagonals", 2, 3072, 0.1),
        ("diagonals", 2, 3072, 0.2),
        ("diagonals", 10, 784, 0.1),
        ("full matrices", 3, 784, 0.1),
    ):
        m = harness.isolated(
            prepare_random, chernoff, form=form, classes=classes, dimension=dimension, spread=spread
        )
        share = m.output["stderr"] / m.output["value"]
        row = {
            "covariances": form,
            "K": classes,
            "d": dimension,
            "spread": spread,
            "error": m.output["value"],
            "relative stderr": share,
            "draws": m.output["draws"],
            "seconds": m.best,
            "extra MB": m.extra_megabytes,
        }
        if classes == 2:
            row |= _truth.together(
                harness.against(share, at_most=1e-2, unit="relative"), harness.against(m.best, at_most=10, unit="s")
            )
        rows.append(row)
    note = (
        "equal means; eigenvalues exp(spread · N(0, 1)), in a random basis for each class where matrices are full"
    )
    return harness.table("Different covariances without one", rows, seed=0, notes=[note])
