"""Bayes error of Gaussian classes beside SciPy's orthant probabilities, plain Monte Carlo at equal time, gx2, and
DataEval's bounds from samples.
"""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np

from bench import _truth, harness

PEERS = ("gx2", "dataeval", "torch", "mpmath")

DIMENSION = 784
SEED = 0


def run() -> list[dict[str, Any]]:
    _truth.warm_up()
    return [orthant_table(), different_table(), samples_table()]


# One covariance: SciPy's normal distribution function, and Monte Carlo in all dimensions


def orthant_table() -> dict[str, Any]:
    rows = []
    for classes in (3, 5, 10):
        for error in (0.3, 1e-2, 1e-4, 1e-8, 1e-12):
            means = np.zeros((classes, DIMENSION))
            means[:, :classes] = _truth.length_for(classes, error) * np.eye(classes)
            rows += one_covariance(means, error)
    notes = [
        f"means a·e_k in d = {DIMENSION}, so that the truth is one integral; no method is told of the symmetry",
        "SciPy: 1 − mean of P(class k right), each an orthant probability in K − 1 dimensions "
        "(multivariate_normal.cdf, default settings, seed 0): the subtraction loses what is small",
        "Monte Carlo in all d dimensions, as long as importance took, and at least one block of 512 draws",
        "stderr: what the method says of itself; SciPy says nothing",
    ]
    return harness.table("One covariance, closed form known", rows, seed=SEED, notes=notes)


def one_covariance(means: np.ndarray, truth: float) -> list[dict[str, Any]]:
    from hardpan import bayes

    ours = harness.measure(lambda: bayes.gaussian(means, method="importance", rtol=1e-3, seed=SEED), 3)
    theirs = harness.measure(lambda: orthants(means), 1)
    found = [
        ("hardpan, importance", ours.output.value, ours.output.stderr, ours.median),
        ("SciPy, orthant probabilities", theirs.output, None, theirs.best),
    ]
    for name, loss in (
        ("Monte Carlo, 1 − max posterior", "posterior"),
        ("Monte Carlo, wrong decisions", "decision"),
    ):
        value, stderr, seconds = monte_carlo(means, loss, ours.median)
        found.append((name, value, stderr, seconds))
    return [
        {
            "K": len(means),
            "truth": truth,
            "method": name,
            "error": value,
            "relative stderr": stderr / value if stderr is not None and value > 0 else None,
            "relative deviation": value / truth - 1,
            "seconds": seconds,
        }
        for name, value, stderr, seconds in found
    ]


def orthants(means: np.ndarray) -> float:
    """1 − the mean probability that a draw of class k is nearer to mean k than to any other."""
    from scipy.stats import multivariate_normal

    right = []
    for k, mean in enumerate(means):
        gaps = np.delete(means, k, axis=0) - mean
        gram = gaps @ gaps.T
        right.append(
            multivariate_normal.cdf(
                np.diag(gram) / 2, cov=gram, rng=np.random.default_rng(SEED), allow_singular=True
            )
        )
    return 1 - float(np.mean(right))


def monte_carlo(means: np.ndarray, loss: str, seconds: float) -> tuple[float, float, float]:
    """Value, standard error and time of plain Monte Carlo in all dimensions, for about the given time."""
    generator = np.random.default_rng(SEED)
    squares = np.einsum("kd,kd->k", means, means) / 2
    count, total, squared, start = 0, 0.0, 0.0, time.perf_counter()
    while count == 0 or time.perf_counter() - start < seconds:
        labels = generator.integers(len(means), size=512)
        draws = means[labels] + generator.standard_normal((512, means.shape[1]))
        scores = draws @ means.T - squares
        if loss == "decision":
            lost = (scores.argmax(axis=1) != labels).astype(float)
        else:
            posterior = np.exp(scores - scores.max(axis=1, keepdims=True))
            posterior.sort(axis=1)
            lost = posterior[:, :-1].sum(axis=1) / posterior.sum(axis=1)
        count, total, squared = count + 512, total + lost.sum(), squared + lost @ lost
    value = total / count
    return value, math.sqrt(max(squared / count - value**2, 0) / count), time.perf_counter() - start


# Two classes with different covariances: gx2


def different_table() -> dict[str, Any]:
    rows = []
    for dimension, spread, offset, rtol in (
        (5, 0.5, 1.0, 1e-2),
        (20, 0.5, 2.0, 1e-2),
        (100, 0.3, 2.0, 1e-2),
        (100, 0.3, 2.0, 1e-3),
        (100, 0.6, 6.0, 1e-2),
        (784, 0.3, 6.0, 1e-2),
        (784, 0.5, 6.0, 1e-2),
    ):
        generator = np.random.default_rng(SEED)
        variances = np.exp(spread * generator.standard_normal((2, dimension)))
        means = np.stack([np.zeros(dimension), offset * _truth.unit_means(1, dimension)[0]])
        rows += different_rows(f"random diagonals, spread {spread:g}", means, variances, None, rtol)
    for dimension, error in ((10, 1e-2), (100, 1e-4), (784, 1e-2), (784, 1e-8), (784, 1e-13)):
        scale = _truth.scale_for(dimension, error)
        variances = np.repeat([[1.0], [scale * scale]], dimension, axis=1)
        truth = _truth.concentric([1.0, scale * scale], dimension)
        rows += different_rows(f"concentric, s = {scale:.4g}", np.zeros((2, dimension)), variances, truth, 1e-2)
    notes = [
        "gx2: norm_err with the boundary from norm_class_opt_bd, default method, covariances as matrices; hardpan: "
        "methods 'chernoff' and 'contour' with the diagonals",
        "relative deviation from the closed form for concentric classes, else from method 'contour'",
    ]
    return harness.table("Two classes, different covariances", rows, seed=SEED, notes=notes)


def different_rows(
    name: str, means: np.ndarray, variances: np.ndarray, truth: float | None, rtol: float
) -> list[dict[str, Any]]:
    from hardpan import bayes

    ours = harness.measure(
        lambda: bayes.gaussian(means, covs=variances, method="chernoff", rtol=rtol, seed=SEED), 1
    )
    theirs = harness.measure(lambda: gx2_error(means, variances), 1)
    repeats = 15 if theirs.best < 0.05 else 1  # of a few milliseconds, the best of several; both alike
    theirs = harness.measure(lambda: gx2_error(means, variances), repeats) if repeats > 1 else theirs
    contour = harness.measure(lambda: bayes.gaussian(means, covs=variances, method="contour"), max(repeats, 3))
    reference = contour.output.value if truth is None else truth
    shared = {"problem": name, "d": means.shape[1], "truth": truth}
    return [
        {
            **shared,
            "method": f"hardpan, chernoff, rtol {rtol:g}",
            "error": ours.output.value,
            "relative stderr": ours.output.stderr / ours.output.value,
            "relative deviation": ours.output.value / reference - 1,
            "seconds": ours.best,
        },
        {
            **shared,
            "method": "hardpan, contour",
            "error": contour.output.value,
            "relative deviation": None if truth is None else contour.output.value / truth - 1,
            "seconds": contour.best,
            **harness.against(contour.best / theirs.best, at_most=1.0, unit="times the time of gx2"),
        },
        {
            **shared,
            "method": "gx2",
            "error": theirs.output,
            "relative deviation": theirs.output / reference - 1,
            "seconds": theirs.best,
        },
    ]


def gx2_error(means: np.ndarray, variances: np.ndarray) -> float:
    import gx2

    first, second = (np.diag(v) for v in variances)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        boundary = gx2.norm_class_opt_bd(means[0], first, means[1], second)
        return float(gx2.norm_err(means[0], first, means[1], second, boundary))


# Bounds from samples: DataEval


def samples_table() -> dict[str, Any]:
    from dataeval.core import ber_knn, ber_mst

    # A first call compiles with numba for half a minute.
    ber_mst(np.random.default_rng(0).standard_normal((50, 2)), np.arange(50) % 2)
    rows = []
    for classes, error in ((2, 0.01), (2, 0.1), (10, 0.01), (10, 0.1), (10, 0.3)):
        length = _truth.length_for(classes, error)
        for dimension in (classes, 100):
            means = np.zeros((classes, dimension))
            means[:, :classes] = length * np.eye(classes)
            rows += sampled(means, error, {"ber_knn, k = 1": lambda x, y: ber_knn(x, y, 1), "ber_mst": ber_mst})
    notes = [
        "DataEval sees 2,000 labelled draws and nothing else; hardpan is told the means: the two do different jobs",
        "inside: whether the truth lies between the bounds",
    ]
    return harness.table("Bounds from samples", rows, seed=SEED, notes=notes)


def sampled(means: np.ndarray, truth: float, methods: dict[str, Any]) -> list[dict[str, Any]]:
    from hardpan import bayes

    generator = np.random.default_rng(SEED)
    labels = generator.integers(len(means), size=2000)
    draws = means[labels] + generator.standard_normal((2000, means.shape[1]))
    shared = {"K": len(means), "d": means.shape[1], "truth": truth}
    done = harness.measure(lambda: bayes.gaussian(means, rtol=1e-3, seed=SEED), 1)
    e = done.output
    rows = [{**shared, "method": f"hardpan, {e.method}, from the means", "low": e.low, "high": e.high}]
    rows[0] |= {"inside": bool(e.low <= truth * (1 + 1e-9) and truth <= e.high * (1 + 1e-9)), "seconds": done.best}
    for name, method in methods.items():
        done = harness.measure(lambda method=method: method(draws, labels), 1)
        low, high = float(done.output["lower_bound"]), float(done.output["upper_bound"])
        rows.append(
            {**shared, "method": f"DataEval, {name}", "low": low, "high": high, "inside": low <= truth <= high}
        )
        rows[-1]["seconds"] = done.best
    return rows
