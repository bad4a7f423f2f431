"""Scores on another set: what a reference set predicts, and accuracies on a set without labels.

Both fit a line on the probit scale. :func:`inflation` fits it through the models' scores on two sets and asks which
model leaves it; :func:`agreement` fits it through how often models agree with each other, which needs no labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, stdtr, stdtrit

from hardpan.arguments import check_confidence, real_number, whole_number
from hardpan.errors import InputError
from hardpan.estimates import Estimate, estimates_of_columns
from hardpan.files import record
from hardpan.leaderboard.pairs import Floats
from hardpan.outcomes import Outcomes
from hardpan.predictions import Predictions
from hardpan.report import Report
from hardpan.stats import fit_lines, holm, normal_quantile
from hardpan.stats.lines import probit_of_shares, scale_derivative

FEWEST_REFERENCE = 6  # models on a test and a reference set
LEAST_SPREAD = 0.1  # of the spread of the reference scores must be more than noise
FEWEST_AGREEING = 4  # models whose agreements make a line
_MOST_PAIRS = 1500


def predict(
    scores: Any,
    other: Any,
    labels: ArrayLike | None = None,
    *,
    transfer_error: float = 0.015,
    confidence: float = 0.95,
    seed: int = 0,
) -> Inflation | AgreementLine:
    """Scores on another set: :func:`inflation` of two sets with scores, :func:`agreement` of one without labels.

    Args:
        scores: scores on the test set; with ``labels`` predicted classes on the labelled set.
        other: scores on the reference set; with ``labels`` predicted classes on the unlabelled set.
        labels: labels of the labelled set.
        transfer_error: with ``labels``: standard error that is added because agreement may not predict accuracy.
        confidence: level of the intervals.
        seed: of the bootstrap.
    """
    if labels is None:
        return inflation(scores, other, confidence=confidence)
    return agreement(scores, labels, other, transfer_error=transfer_error, confidence=confidence, seed=seed)


@record(eq=False)
class Inflation(Report):
    """Scores against what a reference set predicts, most inflated first.

    Attributes:
        models: names of the models in both sets.
        score: (M,) on the test set.
        reference_score: (M,) on the reference set.
        predicted: (M,) score that the line of the other models predicts from the reference score.
        excess: (M,) score − predicted.
        low: (M,) lower end of the interval of ``excess`` for a single model.
        high: (M,) upper end.
        p_value: (M,) one-sided, that the score is not above the prediction.
        p_holm: (M,) the same after Holm over the models.
        inflated: (M,) whether p_holm is at most 1 − confidence and the model is within the others' range.
        outside: (M,) whether the reference score lies outside those of the other models: the line is extrapolated.
        slope: of the line of all models on the probit scale, corrected for noise in the reference scores.
        offset: of it.
        slope_uncorrected: least squares without the correction.
        noise_share: share of the spread of the reference scores that is sampling noise.
        items: number of items of the test set.
        reference_items: of the reference set.
        confidence: level.
        notes: what the reader of the scores reported.
    """

    models: tuple[str, ...]
    score: Floats
    reference_score: Floats
    predicted: Floats
    excess: Floats
    low: Floats
    high: Floats
    p_value: Floats
    p_holm: Floats
    inflated: NDArray[np.bool_]
    outside: NDArray[np.bool_]
    slope: float
    offset: float
    slope_uncorrected: float
    noise_share: float
    items: int
    reference_items: int
    confidence: float
    notes: tuple[str, ...] = ()

    @property
    def estimates(self) -> list[Estimate]:
        """The excesses with their intervals; without standard errors, as the intervals are not symmetric."""
        unknown = np.full(len(self.excess), np.nan)
        return estimates_of_columns(self.excess, unknown, self.low, self.high, self.confidence)


def inflation(outcomes: object, reference: object, *, confidence: float = 0.95) -> Inflation:
    """Compare each model's score with what a reference set predicts, such as a private or newer test set.

    On the probit scale, y = Φ⁻¹(score) against x = Φ⁻¹(reference score). For each model the line is fitted to the
    others, with the slope corrected for noise in x: S_xy/(S_xx − noise), noise = Σ_m Var(x_m) − M Var(mean x),
    which keeps what the models share. SE² = scatter + Var(y) + slope² Var(x) + (line), Student's t with M − 3
    degrees of freedom, Holm over the models. Ordinary least squares would make the best models look inflated.

    Args:
        outcomes: :class:`hardpan.Outcomes`, or what its ``open`` opens: scores on the test set.
        reference: scores of the same models (at least 6 in common) on the reference set, by name.
        confidence: level of the intervals and of the flags.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> skill = np.linspace(-1, 1, 12)[:, None]
        >>> def answers(n, bonus=0.0):
        ...     return (rng.random((12, n)) < ndtr(skill + bonus)).astype(float)
        >>> bonus = np.zeros((12, 1)); bonus[6] = 0.8
        >>> result = inflation(Outcomes.from_arrays(answers(4000, bonus)), Outcomes.from_arrays(answers(4000)))
        >>> result.models[0], result.inflated.tolist().count(True)
        ('model-6', 1)
    """
    outcomes = Outcomes.of_items(outcomes, items=2)
    reference = reference if isinstance(reference, Outcomes) else Outcomes.open(reference)
    level = check_confidence(confidence)
    names = tuple(name for name in outcomes.models if name in set(reference.models))
    if len(names) < FEWEST_REFERENCE:
        raise InputError(
            f"must have at least {FEWEST_REFERENCE} models in common with outcomes, by name; got {len(names)}",
            argument="reference",
        )
    y, y_noise = _inflation_probits("outcomes", outcomes.align(names))
    x, x_noise = _inflation_probits("reference", reference.align(names))
    m = len(names)
    everyone = np.arange(m)
    slope, offset, plain, share = _inflation_line(x, y, x_noise, everyone)
    predicted, error, outside = np.empty(m), np.empty(m), np.zeros(m, dtype=bool)
    for i in everyone:
        others = everyone[everyone != i]
        b, a, _, _ = _inflation_line(x, y, x_noise, others)
        residual = y[others] - a - b * x[others]
        own_noise = _inflation_noise(y_noise, others) + b**2 * _inflation_noise(x_noise, others)
        scatter = max(float((residual**2).sum() / (m - 3) - own_noise.mean()), 0.0)
        centre = x[others].mean()
        spread = float(((x[others] - centre) ** 2).sum()) * (1 - share)
        line = float((residual**2).sum() / (m - 3)) * (1 / (m - 1) + (x[i] - centre) ** 2 / spread)
        predicted[i] = a + b * x[i]
        error[i] = np.sqrt(scatter + np.diag(y_noise)[i] + b**2 * np.diag(x_noise)[i] + line)
        outside[i] = not x[others].min() <= x[i] <= x[others].max()
    reach = float(stdtrit(m - 3, 0.5 + level / 2)) * error
    with np.errstate(divide="ignore"):
        t = (y - predicted) / error
    p = stdtr(m - 3, -t)
    adjusted = holm(p)
    score = ndtr(y)
    low, high = (score - ndtr(predicted + sign * reach) for sign in (1, -1))
    excess = score - ndtr(predicted)
    order = np.argsort(-t, kind="stable")
    return Inflation(
        models=tuple(names[i] for i in order),
        score=score[order],
        reference_score=ndtr(x)[order],
        predicted=ndtr(predicted)[order],
        excess=excess[order],
        low=low[order],
        high=high[order],
        p_value=p[order],
        p_holm=adjusted[order],
        inflated=((adjusted <= 1 - level) & ~outside)[order],
        outside=outside[order],
        slope=slope,
        offset=offset,
        slope_uncorrected=plain,
        noise_share=share,
        items=outcomes.n_items,
        reference_items=reference.n_items,
        confidence=level,
        notes=outcomes.notes,
    )


def _inflation_probits(name: str, outcomes: Outcomes) -> tuple[Floats, Floats]:
    """Φ⁻¹ of the models' scores on the items that all have, and the covariance (M, M) of their sampling noise."""
    scores = outcomes.item_scores()
    complete = np.isfinite(scores).all(axis=0)
    n = int(complete.sum())
    if n < 20:
        raise InputError(f"must have at least 20 items that all models have; got {n}", argument=name)
    used = scores[:, complete]
    z = probit_of_shares(used.mean(axis=1), n)
    density = scale_derivative(z, "probit")
    return z, np.cov(used) / n / density[:, None] / density


def _inflation_noise(noise: Floats, rows: NDArray[np.int64]) -> Floats:
    """Variances of the noise relative to the mean of these models: what they share shifts all of them alike."""
    block = noise[np.ix_(rows, rows)]
    return np.asarray(np.maximum(np.diag(block) - 2 * block.mean(axis=1) + block.mean(), 0.0))


def _inflation_line(
    x: Floats, y: Floats, noise: Floats, rows: NDArray[np.int64]
) -> tuple[float, float, float, float]:
    """Noise-corrected slope and offset, the uncorrected slope, and the share of the spread of x that is noise."""
    a, b = x[rows] - x[rows].mean(), y[rows] - y[rows].mean()
    spread = float(a @ a)
    share = float(_inflation_noise(noise, rows).sum()) / spread if spread > 0 else 1.0
    if share > 1 - LEAST_SPREAD:
        raise InputError(
            ": the models' scores differ by little more than sampling noise, so no line can be "
            "fitted; use more items or models that differ more",
            argument="reference",
        )
    plain = float(a @ b) / spread
    slope = plain / (1 - share)
    return slope, float(y[rows].mean() - slope * x[rows].mean()), plain, share


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

    @property
    def estimates(self) -> list[Estimate]:
        """Estimated accuracies on the unlabelled set with their intervals."""
        return estimates_of_columns(self.estimate, self.stderr, self.low, self.high, self.confidence)


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
    names, old, truth, new = _agreement_classes(predictions_old, labels, predictions_new)
    right = old == truth
    accuracy = right.mean(axis=1)
    counts = (old.shape[1], new.shape[1])
    upper = np.triu_indices(len(old), 1)
    agreements = (np.stack([(side == row).mean(axis=1) for row in side])[upper] for side in (old, new))
    x, y = (probit_of_shares(agree, n) for agree, n in zip(agreements, counts, strict=True))
    slope, offset, r2 = (float(value) for value in fit_lines(x, y))
    if not np.isfinite(slope):
        raise InputError(
            ": all pairs of models agree equally often; the line is not defined", argument="predictions_old"
        )
    estimate = ndtr(slope * probit_of_shares(accuracy, counts[0]) + offset)
    slopes, draws = _resampled_lines(old, right, new, int(resamples), seed)
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


def _agreement_classes(
    predictions_old: Any, labels: ArrayLike, predictions_new: Any
) -> tuple[tuple[str, ...], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Names of the models, their classes on the labelled set, its labels, their classes on the new set."""
    names, old = _predicted_classes("predictions_old", predictions_old)
    new_names, new = _predicted_classes("predictions_new", predictions_new)
    if len(old) != len(new) or (names and new_names and names != new_names):
        raise InputError(
            f"must have the models of predictions_old in the same order; got {len(new)} and {len(old)}",
            argument="predictions_new",
        )
    if len(old) < FEWEST_AGREEING:
        raise InputError(f"must have at least {FEWEST_AGREEING} models; got {len(old)}", argument="predictions_old")
    truth: NDArray[Any] = np.asarray(labels)
    if truth.shape != (old.shape[1],):
        raise InputError(
            f"must have one entry per example, {old.shape[1]}; got shape {truth.shape}", argument="labels"
        )
    if old.dtype.kind != truth.dtype.kind and "U" in (old.dtype.kind, truth.dtype.kind):
        old, truth, new = old.astype(np.str_), truth.astype(np.str_), new.astype(np.str_)
    return names or new_names, old, truth, new


def _resampled_lines(
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
        probit_of_shares((classes[first] == classes[second]).astype(np.float32) @ weight, n).T
        for classes, weight, n in zip((old, new), weights, counts, strict=True)
    ]
    accuracy = right.astype(np.float32) @ weights[0]
    slopes, offsets, _ = fit_lines(*agreements)
    return slopes, ndtr(slopes * probit_of_shares(accuracy, counts[0]) + offsets)


def _predicted_classes(name: str, predictions: Any) -> tuple[tuple[str, ...], NDArray[Any]]:
    """Names of the models, empty where there are none, and their predicted classes, (M, n)."""
    if isinstance(predictions, Predictions):
        names = predictions.models if predictions.named else tuple(f"seed-{seed}" for seed in predictions.seeds)
        return tuple(names), np.stack([predictions.final_probs(seed).argmax(axis=1) for seed in predictions.seeds])
    names = tuple(map(str, predictions)) if isinstance(predictions, Mapping) else ()
    predictions = list(predictions.values()) if names else predictions
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
    return names, array
