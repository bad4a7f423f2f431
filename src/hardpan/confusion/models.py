"""Many models: is a model that is more confused also less accurate?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import stats
from hardpan.confusion.banding import answers, mean_error, score_values
from hardpan.confusion.orders import correlation_of_means, resamples_for
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record

Floats = NDArray[np.float64]


@record
@dataclass(frozen=True, slots=True)
class ConfusedModel:
    """One model: its mean confusion over the examples, and its accuracy."""

    name: str
    mean_confusion: Estimate
    accuracy: Estimate


@record
@dataclass(frozen=True, slots=True)
class ConfusedModels:
    """Models, most accurate first, and the correlation of mean confusion with accuracy across them.

    The interval of ρ redraws examples and keeps the models; with few models it says little of others.
    """

    models: tuple[ConfusedModel, ...]
    rho: Estimate


def confused_models(
    scores: Mapping[str, ArrayLike],
    correct: Mapping[str, ArrayLike],
    *,
    confidence: float = 0.95,
    seed: int = 0,
) -> ConfusedModels:
    """Mean confusion of each model against its accuracy, on the same examples.

    Args:
        scores: (N,) scores by model.
        correct: (N,) or (S, N) right or wrong by model, same names.
        confidence: level of the intervals.
        seed: of the bootstrap.

    Source: Albiero et al. (2023), second contribution: "the overall amount of confusion exhibited by a model is
    strongly correlated with its performance".

    Example:
        >>> import numpy as np
        >>> s = {"good": np.full(50, 0.1), "fair": np.full(50, 0.4), "poor": np.full(50, 0.8)}
        >>> right = {name: np.arange(50) >= 20 * values for name, values in s.items()}
        >>> found = confused_models(s, right)
        >>> [model.name for model in found.models], found.rho.value < -0.9
        (['good', 'fair', 'poor'], True)
    """
    names = list(scores)
    if len(names) < 2 or set(names) != set(correct):
        raise InputError("scores and correct must name the same models, at least two")
    values = {name: score_values(scores[name]) for name in names}
    n = len(values[names[0]])
    if any(len(item) != n for item in values.values()):
        raise InputError("all models must be scored on the same examples, in one order")
    right = {name: answers(correct[name], n) for name in names}
    rows = []
    for name in names:
        confusion = stats.mean(values[name], confidence, least=0.0, method="mean over examples, normal interval")
        wrong = mean_error(int((~right[name]).sum()), len(right[name]), n, confidence)
        accuracy = Estimate(
            1 - wrong.value, wrong.stderr, 1 - wrong.high, 1 - wrong.low, confidence, wrong.method, n
        )
        rows.append(ConfusedModel(name, confusion, accuracy))
    rows.sort(key=lambda row: -row.accuracy.value)
    return ConfusedModels(tuple(rows), _rho(names, values, right, n, confidence, seed))


def _rho(
    names: list[str],
    values: Mapping[str, Floats],
    right: Mapping[str, NDArray[np.bool_]],
    n: int,
    confidence: float,
    seed: int,
) -> Estimate:
    columns = np.stack([values[name] for name in names] + [right[name].mean(axis=0) for name in names], axis=1)
    m = len(names)

    def across(means: Floats) -> Floats:
        x, y = means[:, :m], means[:, m:]
        x, y = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
        terms = [term.mean(axis=1) for term in (x, y, x * x, x * y, y * y)]
        return correlation_of_means(np.stack(terms, axis=1))

    value = float(across(columns.mean(axis=0, keepdims=True))[0])
    method = f"Pearson over {m} models, bootstrap of examples"
    if n < 2 or not math.isfinite(value):
        return Estimate(value, math.nan, math.nan, math.nan, confidence, method, m)
    draws = stats.bootstrap_draws(columns, across, resamples_for(n), seed)
    low, high = stats.percentile_interval(draws, confidence)
    return Estimate(value, float(np.nanstd(draws)), float(low), float(high), confidence, method, m, seed)
