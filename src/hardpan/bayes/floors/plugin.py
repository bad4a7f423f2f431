"""The plug-in estimate, mean of 1 − max posterior on held-out examples, raw and after calibration."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize
from scipy.special import log_softmax, pdtr, pdtrc

from hardpan import arguments
from hardpan.bayes.floors.error_estimates import Floats, Labels, mean_estimate
from hardpan.bayes.floors.verdict import AssumptionTest, Entry, classifier_entry
from hardpan.errors import InputError
from hardpan.estimates import Estimate

SMALLEST = 1e-12  # a probability of exactly 0 has no logarithm
_TEMPERATURES = (0.01, 100.0)
_PENALTY = 1e-3  # keeps vector scaling finite where a class is never confused

Calibrator = Callable[[Floats], Floats]
"""From probabilities (n, K) to confidences (n,): the probability that the likeliest class is right."""

FOLDS = 5
CALIBRATION_ROWS = 10  # fewer held-out examples cannot calibrate anything
RESAMPLES = 20
MOST_NUMBERS = 1_000_000  # examples × classes up to which the calibration is fitted again on resamples


def plug_in(probs: ArrayLike, *, confidence: float = 0.95, method: str = "mean of 1 − max posterior") -> Estimate:
    """The mean of 1 − max_k P(k | x): the Bayes error, if these are the data's own posteriors.

    Args:
        probs: (n, K) posteriors of held-out examples; also exact soft labels.

    Source: Ishida et al., "Is the performance of my deep network too good to be true?" (2023), for soft labels.

    Example:
        >>> round(plug_in([[0.9, 0.1], [0.3, 0.7]]).value, 12)
        0.2
    """
    rows = arguments.probabilities("probs", probs)
    return mean_estimate(1.0 - rows.max(axis=1), method=method, confidence=confidence)


def calibrated_plug_in(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    validation: tuple[ArrayLike, ArrayLike] | None = None,
    calibration: str = "temperature",
    confidence: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """The plug-in of probabilities that were calibrated on other held-out examples: an upper bound.

    For calibrated probabilities the mean of 1 − max equals the error of their own decisions, which no Bayes error
    exceeds. Without a validation part the held-out examples are cut into five folds; each is judged with the
    calibration of the other four. The standard error adds that of the calibration, from 20 resamples of
    the examples that it was fitted on.

    Args:
        probs: (n, K) held-out probabilities.
        labels: (n,) their labels; used only where there is no validation part.
        validation: (m, K) probabilities and (m,) labels to calibrate on.
        calibration: "temperature", "vector" (a scale and an offset per class) or "isotonic" (of the largest one).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p = rng.dirichlet([0.3, 0.3], 4000)
        >>> labels = (p[:, 0] < rng.random(4000)).astype(int)
        >>> sharp = p**3 / (p**3).sum(axis=1, keepdims=True)            # too sure of itself
        >>> truth = np.mean(1 - p.max(axis=1))
        >>> raw, found = plug_in(sharp), calibrated_plug_in(sharp, labels)
        >>> bool(raw.high < truth), bool(found.low < truth < found.high)
        (True, True)
    """
    rows = arguments.probabilities("probs", probs)
    own = arguments.labels("labels", labels, len(rows), rows.shape[1])
    notes: tuple[str, ...] = ()
    if validation is not None:
        fitted_on = arguments.probabilities("validation", validation[0], n_classes=rows.shape[1])
        truth = arguments.labels("validation", validation[1], len(fitted_on), rows.shape[1])
        where = f"{len(truth):,} validation examples"
        folds = None
    else:
        if len(rows) < 2 * FOLDS:
            raise InputError(f"must be given with fewer than {2 * FOLDS} examples", argument="validation")
        fitted_on, truth = rows, own
        where = f"the other folds of {FOLDS}"
        folds = np.random.default_rng([seed, 0]).permutation(len(rows)) % FOLDS
    values = _confidences(calibration, fitted_on, truth, rows, folds)
    variance = 0.0
    if fitted_on.size <= MOST_NUMBERS:
        means = []
        for i in range(RESAMPLES):
            resample = np.random.default_rng([seed, 1, i]).integers(0, len(fitted_on), len(fitted_on))
            means.append(_confidences(calibration, fitted_on[resample], truth[resample], rows, None).mean())
        variance = float(np.var(means, ddof=1))
    else:
        notes = ("The interval leaves out the uncertainty of the calibration itself.",)
    return mean_estimate(
        1.0 - values,
        method=f"mean of 1 − max posterior, {calibration} calibration on {where}",
        confidence=confidence,
        extra_variance=variance,
        notes=notes,
        seed=seed,
    )


def predicted_errors_test(probs: Floats, labels: Labels) -> tuple[int, float, float]:
    """Compare the errors that probabilities predict with those that their decisions make.

    If the probabilities were the data's, the number of wrong decisions would be a sum of independent chances
    1 − max; a Poisson variable of that mean has heavier tails, so the two-sided p-value from it is conservative.

    Returns:
        Wrong decisions made, wrong decisions predicted, p-value.

    Example:
        >>> sure = np.tile([0.99, 0.01], (100, 1))
        >>> made, predicted, p = predicted_errors_test(sure, np.repeat([0, 1], [90, 10]))
        >>> made, round(predicted, 6), p < 1e-6
        (10, 1.0, True)
    """
    made = int((probs.argmax(axis=1) != labels).sum())
    predicted = float((1.0 - probs.max(axis=1)).sum())
    above = float(pdtrc(made - 1, predicted)) if made else 1.0
    return made, predicted, min(1.0, 2 * min(above, float(pdtr(made, predicted))))


def _confidences(calibration: str, fitted_on: Floats, truth: Labels, rows: Floats, folds: Labels | None) -> Floats:
    if folds is None:
        return fit_calibration(calibration, fitted_on, truth)(rows)
    values = np.empty(len(rows))
    for fold in range(FOLDS):
        out = folds == fold
        values[out] = fit_calibration(calibration, fitted_on[~out], truth[~out])(rows[out])
    return values


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
    result = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200}).x

    def confidence(rows: Floats) -> Floats:
        return np.asarray(np.exp(log_softmax(_logs(rows) * result[:k] + result[k:], axis=1).max(axis=1)))

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
    arguments.one_of("calibration", name, CALIBRATIONS)
    return CALIBRATIONS[name](probs, labels)


def _logs(probs: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(probs, SMALLEST)))


def plug_in_entries(
    name: str,
    probs: Floats,
    labels: Labels,
    held: tuple[Floats, Labels] | None,
    *,
    calibrations: Sequence[str],
    confidence: float,
    seed: int,
    seeds: int = 1,
) -> list[Entry]:
    """A model's held-out error, and its plug-ins: raw, and calibrated; ``probs`` is the mean over ``seeds``."""
    method = "held-out errors" if seeds < 2 else f"held-out errors of the mean prediction of {seeds} seeds"
    wrong, predicted, p_value = predicted_errors_test(probs, labels)
    made = classifier_entry(name, wrong, len(labels), method, confidence)
    check = AssumptionTest(p_value, predicted / len(labels), made.estimate.value)
    raw = plug_in(probs, confidence=confidence, method="mean of 1 − max posterior, not calibrated")
    entries = [Entry(f"Raw plug-in of {name}", "estimate", raw, "posterior", name, check=check), made]
    if held is None and len(labels) < CALIBRATION_ROWS:
        return entries
    for calibration in calibrations:
        value = calibrated_plug_in(
            probs, labels, validation=held, calibration=calibration, confidence=confidence, seed=seed
        )
        title = f"{calibration.capitalize()} plug-in of {name}"
        entries.append(Entry(title, "upper", value, "calibrated", name, calibration=calibration))
    return entries
