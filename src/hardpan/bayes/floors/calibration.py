"""Calibrating probabilities on held-out labels: by temperature, by class (vector scaling), by rank (isotonic)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import optimize
from scipy.special import log_softmax

from hardpan.bayes.floors.inputs import Floats, Labels
from hardpan.errors import InputError

SMALLEST = 1e-12  # a probability of exactly 0 has no logarithm
_TEMPERATURES = (0.01, 100.0)
_PENALTY = 1e-3  # keeps vector scaling finite where a class is never confused

Calibrator = Callable[[Floats], Floats]
"""From probabilities (n, K) to confidences (n,): the probability that the likeliest class is right."""


def best_temperature(probs: Floats, labels: Labels) -> float:
    """The temperature T that makes softmax(log p / T) likeliest for the labels, between 0.01 and 100.

    Args:
        probs: (n, K) probabilities.
        labels: (n,) class numbers.

    Source: Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks" (2017).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p = rng.dirichlet([1.0, 1.0, 1.0], 20000)
        >>> labels = (p.cumsum(axis=1) < rng.random(20000)[:, None]).sum(axis=1)
        >>> sharp = p**3 / (p**3).sum(axis=1, keepdims=True)
        >>> abs(best_temperature(sharp, labels) - 3) < 0.1
        True
    """
    logs = _logs(probs)

    def loss(log_temperature: float) -> float:
        scaled = log_softmax(logs / np.exp(log_temperature), axis=1)
        return -float(scaled[np.arange(len(labels)), labels].mean())

    low, high = np.log(_TEMPERATURES)
    # The likelihood is concave in 1/T, so it has one peak; a grid finds its slope, the bounded search the peak.
    grid = np.linspace(low, high, 15)
    centre = int(np.argmin([loss(point) for point in grid]))
    ends = grid[max(0, centre - 1)], grid[min(len(grid) - 1, centre + 1)]
    return float(np.exp(optimize.minimize_scalar(loss, bounds=ends, method="bounded").x))


def by_temperature(probs: Floats, labels: Labels) -> Calibrator:
    """Fit :func:`best_temperature`; the calibrator gives the largest probability at that temperature."""
    temperature = best_temperature(probs, labels)

    def confidence(rows: Floats) -> Floats:
        return np.asarray(np.exp(log_softmax(_logs(rows) / temperature, axis=1).max(axis=1)))

    return confidence


def by_class(probs: Floats, labels: Labels) -> Calibrator:
    """Fit vector scaling, softmax(a · log p + b) with a and b by class; lightly held towards a = 1, b = 0.

    Source: Guo et al. (2017), section 4.2.
    """
    logs = _logs(probs)
    n, k = logs.shape
    hot = np.zeros((n, k))
    hot[np.arange(n), labels] = 1.0

    def loss(parameters: Floats) -> tuple[float, Floats]:
        a, b = parameters[:k], parameters[k:]
        scaled = log_softmax(logs * a + b, axis=1)
        error = (np.exp(scaled) - hot) / n
        value = -float((scaled * hot).sum()) / n + _PENALTY * float(((a - 1) ** 2).sum() + (b**2).sum())
        return value, np.concatenate(
            [(error * logs).sum(axis=0) + 2 * _PENALTY * (a - 1), error.sum(axis=0) + 2 * _PENALTY * b]
        )

    start = np.concatenate([np.ones(k), np.zeros(k)])
    found = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200}).x

    def confidence(rows: Floats) -> Floats:
        return np.asarray(np.exp(log_softmax(_logs(rows) * found[:k] + found[k:], axis=1).max(axis=1)))

    return confidence


def by_rank(probs: Floats, labels: Labels) -> Calibrator:
    """Fit isotonic regression from the largest probability to whether it was right.

    Source: Zadrozny and Elkan, "Transforming classifier scores into accurate multiclass probability estimates"
    (2002).
    """
    top = probs.max(axis=1)
    right = (probs.argmax(axis=1) == labels).astype(np.float64)
    places, index, counts = np.unique(top, return_inverse=True, return_counts=True)
    shares = np.bincount(index, weights=right) / counts
    fitted = optimize.isotonic_regression(shares, weights=counts).x

    def confidence(rows: Floats) -> Floats:
        return np.asarray(np.interp(rows.max(axis=1), places, fitted))

    return confidence


CALIBRATIONS: dict[str, Callable[[Floats, Labels], Calibrator]] = {
    "temperature": by_temperature,
    "vector": by_class,
    "isotonic": by_rank,
}


def fit_calibration(name: str, probs: Floats, labels: Labels) -> Calibrator:
    """Fit the calibration of that name."""
    if name not in CALIBRATIONS:
        raise InputError(f"calibration must be one of {', '.join(CALIBRATIONS)}; got {name!r}")
    return CALIBRATIONS[name](probs, labels)


def _logs(probs: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(probs, SMALLEST)))
