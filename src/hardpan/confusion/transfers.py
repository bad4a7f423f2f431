"""Transfer: confusion scores of one model beside the scores, the errors and the accuracy of others."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import stats
from hardpan.confusion.banding import Bands, bands, correct_by_model, mean_band_error, round_band_edges
from hardpan.confusion.row_tasks import Floats
from hardpan.confusion.scoring import Scores, score_values, scores
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.predictions import Predictions
from hardpan.predictions.checks import ROW_ID
from hardpan.stats.correlation import pearson_of_means
from hardpan.stats.resampling import bootstrap_draws, percentile_interval, resamples_for

CELLS = 40


@record(eq=False)
class Transfer:
    """Two models' scores of the same examples.

    Attributes:
        first: name of the first model.
        second: name of the second.
        tau: Kendall's τ-b.
        rho: Pearson's ρ.
        below: fraction of examples, among those that differ, that confuse the second model less: below the
            diagonal.
        examples: number of examples that both have scored.
        edges: (k+1,) limits of the histogram's cells, on both axes.
        counts: (k, k) examples by cell; first index the first model's score.
    """

    first: str
    second: str
    tau: Estimate
    rho: Estimate
    below: Estimate
    examples: int
    edges: NDArray[np.float64]
    counts: NDArray[np.int64]


def transfer(
    first: Any,
    second: Any,
    *,
    names: tuple[str, str] = ("first", "second"),
    cells: int = CELLS,
    confidence: float = 0.95,
    seed: int = 0,
) -> Transfer:
    """Compare the scores of two models: rank correlation, correlation, histogram, and which model is less confused.

    Args:
        first: :class:`Scores`, :class:`hardpan.Predictions` or what its ``open`` opens, or (N,) numbers.
        second: likewise; scores and predictions are joined by id, numbers by position.
        names: of the models.
        cells: of the histogram on each axis, at most.
        confidence: level of the intervals.
        seed: of the bootstrap.

    Source: Albiero et al. (2023), section 3.2 and Figure 3.

    Example:
        >>> import numpy as np
        >>> one = np.linspace(0, 3, 50)
        >>> found = transfer(one, 0.8 * one)
        >>> round(found.tau.value, 6), found.below.value, int(found.counts.sum())
        (1.0, 1.0, 50)
    """

    def scores_of_model(item: Any) -> Any:
        """Scores of predictions, whatever form they have; (N,) numbers are scores already."""
        is_predictions = isinstance(item, (Predictions, str, os.PathLike)) or getattr(item, "ndim", 0) > 1
        return scores(item) if is_predictions else item

    first, second = scores_of_model(first), scores_of_model(second)
    if isinstance(first, Scores) and isinstance(second, Scores):
        a_rows, b_rows = common_rows(first, second, names)
        a, b = first.values[a_rows], second.values[b_rows]
        if first.base != second.base:
            raise InputError(f"must have one base; got {first.base:g} and {second.base:g}", argument="scores")
    else:
        a, b = score_values(first), score_values(second)
    largest = [item.largest for item in (first, second) if isinstance(item, Scores)]
    top = max([float(a.max()), float(b.max()), 1e-9, *largest])
    edges = round_band_edges(top, cells)
    below, above = int(np.count_nonzero(b < a)), int(np.count_nonzero(b > a))
    undecided = Estimate(0.5, 0.0, 0.0, 1.0, confidence=confidence, method="no example differs", n=0)
    counts, _, _ = np.histogram2d(np.clip(a, 0, edges[-1]), np.clip(b, 0, edges[-1]), [edges, edges])
    return Transfer(
        first=names[0],
        second=names[1],
        tau=stats.kendall_tau(a, b, confidence, resample=True, seed=seed),
        rho=stats.pearson(a, b, confidence=confidence, seed=seed),
        below=stats.share(below, below + above, confidence) if below + above else undecided,
        examples=len(a),
        edges=edges,
        counts=counts.astype(np.int64),
    )


def common_rows(
    first: Scores, second: Scores, names: tuple[str, str] = ("first", "second")
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row numbers of the examples that both have scored, joined by id; refuses two that share none."""
    unnamed = [ROW_ID.fullmatch(str(item.ids[0])) for item in (first, second)]
    if all(unnamed) and len(first) != len(second):
        raise InputError(
            f"{names[0]} and {names[1]}: have no ids, and {len(first):,} and {len(second):,} rows; "
            "record or import them with ids"
        )
    _, a, b = np.intersect1d(first.ids, second.ids, assume_unique=True, return_indices=True)
    if not len(a):
        raise InputError(f"{names[0]} and {names[1]}: share no example id; score both on the same dataset")
    order = np.argsort(a, kind="stable")
    return a[order].astype(np.int64), b[order].astype(np.int64)


@record
class TargetErrors:
    """Errors of many models by band of one model's scores, lowest overall error first."""

    scored_by: str
    targets: Mapping[str, Bands]


def target_errors_by_band(
    scores: Any,
    correct: Mapping[str, ArrayLike],
    *,
    scored_by: str = "",
    confidence: float = 0.95,
) -> TargetErrors:
    """Errors of many target models by band of one model's confusion scores.

    Args:
        scores: (N,) scores of the small model.
        correct: (N,) or (S, N) right or wrong of each target, by name.
        scored_by: name of the small model.
        confidence: level of the intervals.

    Source: Albiero et al. (2023), Figure 4.

    Example:
        >>> import numpy as np
        >>> s = np.linspace(0, 1, 100)
        >>> found = target_errors_by_band(s, {"a": s < 0.7, "b": s < 0.9})
        >>> list(found.targets)
        ['b', 'a']
    """
    if not correct:
        raise InputError("must name at least one target model", argument="correct")
    targets = {name: bands(scores, right, confidence=confidence) for name, right in correct.items()}
    return TargetErrors(scored_by, dict(sorted(targets.items(), key=lambda item: item[1].error.value)))


@record
class ConfusedModel:
    """Mean confusion and accuracy of one model."""

    name: str
    mean_confusion: Estimate
    accuracy: Estimate


@record
class ConfusedModels:
    """Models, most accurate first, and the correlation of mean confusion with accuracy across them.

    The interval of ρ resamples examples, not models; with few models it says little about others.
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
        raise InputError("must name the same models, at least two", argument=("scores", "correct"))
    values = {name: score_values(scores[name]) for name in names}
    n = len(values[names[0]])
    if any(len(item) != n for item in values.values()):
        raise InputError("all models must be scored on the same examples, in one order")
    right = {name: correct_by_model(correct[name], n) for name in names}
    rows = []
    for name in names:
        confusion = stats.mean(values[name], confidence, least=0.0, method="mean over examples, normal interval")
        wrong = mean_band_error(int((~right[name]).sum()), len(right[name]), n, confidence)
        accuracy = Estimate(
            1 - wrong.value, wrong.stderr, 1 - wrong.high, 1 - wrong.low, confidence, wrong.method, n
        )
        rows.append(ConfusedModel(name, confusion, accuracy))
    rows.sort(key=lambda row: -row.accuracy.value)
    columns = np.stack([values[name] for name in names] + [right[name].mean(axis=0) for name in names], axis=1)
    m = len(names)

    def across(means: Floats) -> Floats:
        x, y = means[:, :m], means[:, m:]
        x, y = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
        terms = [term.mean(axis=1) for term in (x, y, x * x, x * y, y * y)]
        return pearson_of_means(np.stack(terms, axis=1))

    value = float(across(columns.mean(axis=0, keepdims=True))[0])
    method = f"Pearson over {m} models, bootstrap of examples"
    if n < 2 or not math.isfinite(value):
        return ConfusedModels(tuple(rows), Estimate(value, math.nan, math.nan, math.nan, confidence, method, m))
    draws = bootstrap_draws(columns, across, resamples_for(n), seed)
    low, high = percentile_interval(draws, confidence)
    rho = Estimate(value, float(np.nanstd(draws)), float(low), float(high), confidence, method, m, seed)
    return ConfusedModels(tuple(rows), rho)
