"""Error by band of the confusion score, with exact intervals and correlations."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import stats
from hardpan.arguments import real_numbers, right_or_wrong
from hardpan.confusion.row_tasks import Floats
from hardpan.confusion.scoring import Scores, score_values
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.predictions import Predictions
from hardpan.stats.correlation import fisher_interval, pearson, pearson_of_means
from hardpan.stats.resampling import DRAWS

MOST_BANDS = 20
WIDTHS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0)
HARDEST = 0.1
FEWEST_ERRORS = 10  # a fraction of fewer errors than this is not reported


@record
class Band:
    """The examples with low ≤ score < high: their number, mean score and error."""

    low: float
    high: float
    examples: int
    mean_score: float
    error: Estimate | None


@record
class Bands:
    """Error by band of the score.

    Attributes:
        bands: all bands, also empty ones.
        rho: Pearson's ρ between mean score and error of the bands that have examples, as in the paper's Figure 2.
        by_example: Pearson's ρ between score and error of the examples.
        error: the error over all examples.
        hardest_tenth: fraction of all errors in the tenth of the examples with the highest scores.
        models: number of models.
        examples: number of examples.
    """

    bands: tuple[Band, ...]
    rho: Estimate
    by_example: Estimate
    error: Estimate
    hardest_tenth: Estimate
    models: int
    examples: int


def bands(
    scores: Scores | ArrayLike,
    correct: Predictions | ArrayLike,
    edges: Sequence[float] | None = None,
    *,
    confidence: float = 0.95,
    seed: int = 0,
) -> Bands:
    """Error by band of the confusion score, with Clopper–Pearson intervals.

    Args:
        scores: (N,) scores.
        correct: (N,) right or wrong of one model; or (M, N) of several, whose mean error is computed. Models err on
            the same examples, so several count as one in the intervals, with the ends rounded outwards. Or
            predictions with labels: right or wrong of each seed at the last epoch.
        edges: rising limits of the bands; the last band includes its upper end. Without it, bands of a round width
            from 0 to the largest possible score.
        confidence: level of the intervals.
        seed: of the bootstrap for the correlations.

    Source: Albiero et al., "Confusing Large Models by Confusing Small Models" (2023), Figure 2.

    Example:
        >>> import numpy as np
        >>> s = np.repeat([0.25, 0.75, 1.25], 100)
        >>> found = bands(s, np.arange(300) % 10 >= np.repeat([1, 3, 5], 100), edges=[0, 0.5, 1, 1.5])
        >>> [(band.examples, band.error.value) for band in found.bands], round(found.rho.value, 6)
        ([(100, 0.1), (100, 0.3), (100, 0.5)], 1.0)
    """
    values = score_values(scores)
    limits = band_limits(values, edges, float(getattr(scores, "largest", 0.0)))
    return bands_of(values, limits, correct_by_model(correct, len(values)), confidence, seed)


def bands_of(values: Floats, limits: Floats, right: NDArray[np.bool_], confidence: float, seed: int) -> Bands:
    """Error by band between ``limits`` of checked scores (N,) and ``right`` (M, N)."""
    models, n = right.shape
    wrong = models - right.sum(axis=0, dtype=np.int64)
    band_of = np.clip(np.searchsorted(limits, values, side="right") - 1, 0, len(limits) - 2)
    count = len(limits) - 1
    cells = np.bincount(band_of * (models + 1) + wrong, minlength=count * (models + 1)).reshape(count, models + 1)
    sums: Floats = np.bincount(band_of, weights=values, minlength=count).astype(np.float64)
    rows = []
    for i in range(count):
        inside = int(cells[i].sum())
        error = (
            mean_band_error(int(cells[i] @ np.arange(models + 1)), models, inside, confidence) if inside else None
        )
        centre = float(sums[i] / inside) if inside else math.nan
        rows.append(Band(float(limits[i]), float(limits[i + 1]), inside, centre, error))
    return Bands(
        bands=tuple(rows),
        rho=_correlation_over_bands(cells, sums, confidence, seed),
        by_example=pearson(values, wrong / models, confidence=confidence, seed=seed),
        error=mean_band_error(int(wrong.sum()), models, n, confidence),
        hardest_tenth=errors_in_hardest_band(values, wrong, models, confidence),
        models=models,
        examples=n,
    )


def band_limits(values: Floats, edges: Sequence[float] | None, top: float) -> Floats:
    """The limits of the bands: ``edges``, checked; or round ones from 0 to ``top`` or more, at most twenty bands.

    Example:
        >>> band_limits(np.array([0.0, 1.0]), None, 3.32).tolist()[:3]
        [0.0, 0.2, 0.4]
    """
    if edges is None:
        return round_band_edges(max(top, float(values.max())), MOST_BANDS)
    limits = real_numbers("edges", edges)
    if limits.ndim != 1 or len(limits) < 2 or (limits[:-1] >= limits[1:]).any():
        raise InputError(
            f"must be at least two rising numbers, such as [0, 1, 2]; got {reprlib.repr(edges)}", argument="edges"
        )
    if values.min() < limits[0] or values.max() > limits[-1]:
        raise InputError(
            f"must enclose all scores ({values.min():.4g} to {values.max():.4g}); got {limits[0]:g} to "
            f"{limits[-1]:g}",
            argument="edges",
        )
    return limits


def round_band_edges(top: float, most: int) -> Floats:
    """Limits of a round width from 0 to at least ``top``, at most ``most`` cells (one more where the last is cut).

    Example:
        >>> round_band_edges(3.32, 80)[[0, 1, -1]].tolist()
        [0.0, 0.05, 3.35]
    """
    top = max(top, WIDTHS[0])
    width = next((width for width in WIDTHS if top / width <= most), top / most)
    return np.round(np.arange(math.ceil(top / width - 1e-9) + 1) * width, 10)


def mean_band_error(wrong: int, models: int, examples: int, confidence: float = 0.95) -> Estimate:
    """The mean error of models on the same examples, with the Clopper–Pearson interval of one model.

    Where models differ the number of wrong answers a model is not whole; the ends are then rounded outwards.
    """
    if models == 1:
        return stats.share(wrong, examples, confidence)
    low = stats.share(wrong // models, examples, confidence).low
    high = stats.share(-(-wrong // models), examples, confidence).high
    value = wrong / models / examples
    error = math.sqrt(value * (1 - value) / examples)
    method = f"Clopper–Pearson, mean of {models} models"
    return Estimate(value, error, low, high, confidence=confidence, method=method, n=examples)


def errors_in_hardest_band(values: Floats, wrong: NDArray[np.int64], models: int, confidence: float) -> Estimate:
    """Fraction of all errors in the tenth of the examples with the highest scores; ties count in proportion."""
    n, total = len(values), int(wrong.sum())
    if total == 0:
        return Estimate(math.nan, math.nan, 0.0, 1.0, confidence=confidence, method="no errors", n=0)
    size = max(1, round(HARDEST * n))
    edge = np.sort(values)[-size]
    above, ties = values > edge, values == edge
    inside = wrong[above].sum() + wrong[ties].sum() * (size - np.count_nonzero(above)) / np.count_nonzero(ties)
    value = float(inside / total)
    # Examples are the units: as many independent errors as examples that any model gets wrong, at most.
    errors = max(1, round(total / models))
    low = stats.share(math.floor(value * errors), errors, confidence).low
    high = stats.share(math.ceil(value * errors - 1e-9), errors, confidence).high
    error = math.sqrt(value * (1 - value) / errors)
    return Estimate(value, error, low, high, confidence=confidence, method="Clopper–Pearson", n=errors)


def correct_by_model(correct: Any, examples: int) -> NDArray[np.bool_]:
    """Right or wrong as (M, N), or a refusal."""
    if isinstance(correct, Predictions):
        correct = correct.outcomes().scores
    right = right_or_wrong("correct", correct)
    right = right[None] if right.ndim == 1 else right
    if right.ndim != 2 or right.shape[1] != examples or not len(right):
        raise InputError(
            f"must be (N,) or (models, N) with N = {examples:,}; got shape {np.shape(correct)}", argument="correct"
        )
    return right


def _correlation_over_bands(cells: NDArray[np.int64], sums: Floats, confidence: float, seed: int) -> Estimate:
    """Correlation over bands; its interval draws examples, which move the errors and may empty a band."""
    n, models = int(cells.sum()), cells.shape[1] - 1
    inside = cells.sum(axis=1)
    centre = np.divide(sums, inside, out=np.zeros(len(inside)), where=inside > 0)
    number = int(np.count_nonzero(inside))  # two points always lie on a line
    method = f"Pearson over {number} bands, bootstrap of examples on Fisher's scale"

    def correlation(resampled: NDArray[Any]) -> Floats:
        size = resampled.sum(axis=-1)
        used = size > 0
        error = np.divide(resampled @ np.arange(models + 1.0), models * size, out=np.zeros(size.shape), where=used)
        x, y = np.broadcast_to(centre, error.shape), error
        weight = used / used.sum(axis=-1, keepdims=True)
        means = [np.sum(weight * term, axis=-1) for term in (x, y, x * x, x * y, y * y)]
        return pearson_of_means(np.stack(means, axis=-1))

    value = float(correlation(cells[None])[0]) if number > 2 else math.nan
    resampled = np.random.default_rng([seed, 0]).multinomial(n, cells.ravel() / n, size=DRAWS)
    draws = correlation(resampled.reshape(DRAWS, *cells.shape))
    return fisher_interval(value, draws, n, confidence, method, seed)
