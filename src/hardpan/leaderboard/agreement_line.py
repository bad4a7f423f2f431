"""Accuracy on an unlabelled test set, from how often models agree with each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from hardpan.arguments import real_number, whole_number
from hardpan.errors import InputError
from hardpan.files import record
from hardpan.leaderboard.sampling import Floats
from hardpan.predictions import Predictions
from hardpan.report.base import Report
from hardpan.stats import fit_lines, normal_quantile
from hardpan.stats.intervals import check_confidence

FEWEST_MODELS = 4
_MOST_PAIRS = 1500


@record(eq=False)
class AgreementLine(Report):
    """Estimated accuracies on an unlabelled set; they rest on an assumption that needs labels to test.

    Attributes:
        models: names.
        accuracy: (M,) on the labelled set.
        estimate: (M,) estimated on the unlabelled set.
        stderr: (M,) of the sampling of both sets' examples and of the transfer error together.
        low: (M,) lower end of the interval.
        high: (M,) upper end.
        slope: of the line of agreements on the probit scale.
        offset: of it.
        slope_stderr: of the slope, over examples.
        r2: of the line; far below 1 the method does not apply.
        transfer_error: standard error added for the assumption, as a fraction.
        examples_old: labelled examples.
        examples_new: unlabelled examples.
        confidence: level of the intervals.
        resamples: bootstrap resamples of the examples.
        seed: of the bootstrap.
    """

    models: tuple[str, ...]
    accuracy: Floats
    estimate: Floats
    stderr: Floats
    low: Floats
    high: Floats
    slope: float
    offset: float
    slope_stderr: float
    r2: float
    transfer_error: float
    examples_old: int
    examples_new: int
    confidence: float
    resamples: int
    seed: int

    def __repr__(self) -> str:
        drop = float((self.accuracy - self.estimate).mean())
        return f"AgreementLine({len(self.models)} models, estimated mean drop {drop:.3f}, r² {self.r2:.3f})"


def agreement(
    predictions_old: Any,
    labels: ArrayLike,
    predictions_new: Any,
    *,
    transfer_error: float = 0.015,
    confidence: float = 0.95,
    resamples: int = 400,
    seed: int = 0,
) -> AgreementLine:
    """Estimate accuracies on a set without labels by the line of pairwise agreements.

    With a_kl the share of examples on which models k and l agree, fit Φ⁻¹(a_new) = slope · Φ⁻¹(a_old) + offset
    over all pairs, and take Φ(slope · Φ⁻¹(accuracy_old) + offset). For many networks and shifts the line of
    accuracies is nearly that of agreements. This assumes that models share their errors equally on both sets;
    it cannot be tested without labels, so the interval joins the sampling of examples (joint bootstrap) with
    ``transfer_error``.

    Args:
        predictions_old: predicted classes on the labelled set, (M, n); or probabilities, (M, n, C); a mapping
            of model to either; or :class:`hardpan.Predictions`, of which each model or seed counts.
        labels: (n,) its labels.
        predictions_new: the same of the unlabelled set, same models in the same order.
        transfer_error: standard error that is added because the assumption may not hold: a fraction; 0.01 to 0.02
            on image datasets with known labels.
        confidence: level of the intervals.
        resamples: of the bootstrap over examples.
        seed: of the bootstrap.

    Source: Baek, Jiang, Raghunathan and Kolter, "Agreement-on-the-line" (2022).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> def predict(labels, skill):
        ...     hard = rng.normal(size=labels.size)
        ...     right = skill[:, None] - hard + rng.normal(size=(skill.size, labels.size)) > 0
        ...     return np.where(right, labels, rng.integers(0, 10, (skill.size, labels.size)))
        >>> old, new = rng.integers(0, 10, 4000), rng.integers(0, 10, 4000)
        >>> skill = np.linspace(0.5, 2, 12)
        >>> result = agreement(predict(old, skill), old, predict(new, skill - 0.3))
        >>> bool((result.estimate < result.accuracy).all())
        True
    """
    level = check_confidence(confidence)
    real_number("transfer_error", transfer_error, "[0, 1)")
    whole_number("resamples", resamples, 20)
    names, old, truth, new = _checked(predictions_old, labels, predictions_new)
    right = old == truth
    first, second = np.triu_indices(len(old), 1)
    agree_old, agree_new = _agreements(old), _agreements(new)
    accuracy = right.mean(axis=1)
    counts = (old.shape[1], new.shape[1])
    x, y = _probit(agree_old[first, second], counts[0]), _probit(agree_new[first, second], counts[1])
    slope, offset, r2 = (float(value) for value in fit_lines(x, y))
    if not np.isfinite(slope):
        raise InputError(
            ": all pairs of models agree equally often; the line is not defined", argument="predictions_old"
        )
    estimate = ndtr(slope * _probit(accuracy, counts[0]) + offset)
    slopes, draws = _bootstrap(old, right, new, int(resamples), seed)
    stderr = np.sqrt(draws.std(axis=1, ddof=1) ** 2 + float(transfer_error) ** 2)
    reach = normal_quantile(level) * stderr
    return AgreementLine(
        models=names or tuple(f"model-{i}" for i in range(len(old))),
        accuracy=accuracy,
        estimate=estimate,
        stderr=stderr,
        low=np.clip(estimate - reach, 0.0, 1.0),
        high=np.clip(estimate + reach, 0.0, 1.0),
        slope=slope,
        offset=offset,
        slope_stderr=float(slopes.std(ddof=1)),
        r2=r2,
        transfer_error=float(transfer_error),
        examples_old=counts[0],
        examples_new=counts[1],
        confidence=level,
        resamples=int(resamples),
        seed=seed,
    )


def _checked(
    predictions_old: Any, labels: ArrayLike, predictions_new: Any
) -> tuple[tuple[str, ...], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Names of the models, their classes on the labelled set, its labels, their classes on the new set."""
    names, old = _classes("predictions_old", predictions_old)
    new_names, new = _classes("predictions_new", predictions_new)
    if len(old) != len(new) or (names and new_names and names != new_names):
        raise InputError(
            f"must have the models of predictions_old in the same order; got {len(new)} and {len(old)}",
            argument="predictions_new",
        )
    if len(old) < FEWEST_MODELS:
        raise InputError(f"must have at least {FEWEST_MODELS} models; got {len(old)}", argument="predictions_old")
    truth: NDArray[Any] = np.asarray(labels)
    if truth.shape != (old.shape[1],):
        raise InputError(
            f"must have one entry per example, {old.shape[1]}; got shape {truth.shape}", argument="labels"
        )
    if old.dtype.kind != truth.dtype.kind and "U" in (old.dtype.kind, truth.dtype.kind):
        old, truth, new = old.astype(np.str_), truth.astype(np.str_), new.astype(np.str_)
    return names or new_names, old, truth, new


def _bootstrap(
    old: NDArray[Any], right: NDArray[np.bool_], new: NDArray[Any], resamples: int, seed: int
) -> tuple[Floats, Floats]:
    """Slopes (R,) and estimated accuracies (M, R) over resamples of the examples of both sets."""
    rng = np.random.default_rng([seed, 0])
    first, second = np.triu_indices(len(old), 1)
    if len(first) > _MOST_PAIRS:
        pairs = np.sort(rng.choice(len(first), _MOST_PAIRS, replace=False))
        first, second = first[pairs], second[pairs]
    counts = (old.shape[1], new.shape[1])
    weights = [rng.multinomial(n, np.full(n, 1 / n), size=resamples).T.astype(np.float32) / n for n in counts]
    agreements = [
        _probit((classes[first] == classes[second]).astype(np.float32) @ weight, n).T
        for classes, weight, n in zip((old, new), weights, counts, strict=True)
    ]
    accuracy = right.astype(np.float32) @ weights[0]
    slopes, offsets, _ = fit_lines(*agreements)
    return slopes, ndtr(slopes * _probit(accuracy, counts[0]) + offsets)


def _classes(name: str, predictions: Any) -> tuple[tuple[str, ...], NDArray[Any]]:
    """Names of the models, empty where there are none, and their predicted classes, (M, n)."""
    if isinstance(predictions, Predictions):
        names = predictions.models if predictions.named else tuple(f"seed-{seed}" for seed in predictions.seeds)
        return tuple(names), np.stack([predictions.final_probs(seed).argmax(axis=1) for seed in predictions.seeds])
    if isinstance(predictions, Mapping):
        arrays = [_classes(f"{name}[{key!r}]", np.asarray(value)[None])[1][0] for key, value in predictions.items()]
        if len({len(array) for array in arrays}) > 1:
            counts = sorted({len(array) for array in arrays})
            raise InputError(f"{name}: models must have equally many examples; got {counts}")
        return tuple(str(key) for key in predictions), np.stack(arrays)
    try:
        array: NDArray[Any] = np.asarray(predictions)
    except ValueError as error:
        raise InputError(
            f"must be (models, examples) or (models, examples, classes); {error}", argument=name
        ) from error
    if array.ndim == 3 and array.dtype.kind == "f":
        array = array.argmax(axis=2)
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "iuUb":
        raise InputError(
            f"must be predicted classes, (models, examples), or probabilities, (models, examples, "
            f"classes); got {array.dtype} of shape {array.shape}",
            argument=name,
        )
    return (), array


def _agreements(classes: NDArray[Any]) -> Floats:
    return np.stack([(classes == row).mean(axis=1) for row in classes])


def _probit(shares: ArrayLike, n: int) -> Floats:
    """Φ⁻¹ of shares of n examples; 0 and 1 are moved by half an example."""
    return np.asarray(ndtri(np.clip(np.asarray(shares, dtype=np.float64), 0.5 / n, 1 - 0.5 / n)))
