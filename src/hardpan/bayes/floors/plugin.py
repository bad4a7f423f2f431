"""The plug-in estimate: the mean of 1 − max posterior on held-out examples, as it is and after calibration."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import pdtr, pdtrc

from hardpan.bayes.floors.calibration import fit_calibration
from hardpan.bayes.floors.inputs import Floats, Labels, as_labels, as_probabilities
from hardpan.bayes.floors.means import mean_estimate
from hardpan.errors import InputError
from hardpan.estimates import Estimate

FOLDS = 5
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
    rows = as_probabilities("probs", probs)
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
    """The plug-in of probabilities that were calibrated on other held-out examples: a ceiling.

    For calibrated probabilities the mean of 1 − max equals the error of their own decisions, which no Bayes error
    exceeds. Without a validation part the held-out examples are cut into five folds; each is judged with the
    calibration of the other four. The standard error adds that of the calibration, from 20 resamples of
    the examples that it was fitted on.

    Args:
        probs: (n, K) held-out probabilities.
        labels: (n,) their labels; used only where there is no validation part.
        validation: (m, K) probabilities and (m,) labels to calibrate on.
        calibration: "temperature", "vector" (a scale and an offset a class) or "isotonic" (of the largest one).

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
    rows = as_probabilities("probs", probs)
    own = as_labels("labels", labels, len(rows))
    notes: tuple[str, ...] = ()
    if validation is not None:
        fitted_on = as_probabilities("validation", validation[0], n_classes=rows.shape[1])
        truth = as_labels("validation labels", validation[1], len(fitted_on))
        where = f"{len(truth):,} validation examples"
        folds = None
    else:
        if len(rows) < 2 * FOLDS:
            raise InputError(
                f"a calibration without validation needs at least {2 * FOLDS} examples; got {len(rows)}"
            )
        fitted_on, truth = rows, own
        where = f"the other folds of {FOLDS}"
        folds = np.random.default_rng([seed, 0]).permutation(len(rows)) % FOLDS
    if int(truth.max()) >= rows.shape[1]:
        raise InputError(f"labels must lie below the {rows.shape[1]} classes of probs; got {int(truth.max())}")
    values = _confidences(calibration, fitted_on, truth, rows, folds)
    variance = 0.0
    if fitted_on.size <= MOST_NUMBERS:
        means = []
        for i in range(RESAMPLES):
            drawn = np.random.default_rng([seed, 1, i]).integers(0, len(fitted_on), len(fitted_on))
            means.append(_confidences(calibration, fitted_on[drawn], truth[drawn], rows, None).mean())
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


def promise_p_value(probs: Floats, labels: Labels) -> tuple[int, float, float]:
    """Compare the errors that probabilities promise with those that their decisions make.

    If the probabilities were the data's, the number of wrong decisions would be a sum of independent chances
    1 − max; a Poisson variable of that mean has heavier tails, so the two-sided p-value from it is conservative.

    Returns:
        Wrong decisions made, wrong decisions promised, p-value.

    Example:
        >>> sure = np.tile([0.99, 0.01], (100, 1))
        >>> made, promised, p = promise_p_value(sure, np.repeat([0, 1], [90, 10]))
        >>> made, round(promised, 6), p < 1e-6
        (10, 1.0, True)
    """
    made = int((probs.argmax(axis=1) != labels).sum())
    promised = float((1.0 - probs.max(axis=1)).sum())
    above = float(pdtrc(made - 1, promised)) if made else 1.0
    return made, promised, min(1.0, 2 * min(above, float(pdtr(made, promised))))


def _confidences(calibration: str, fitted_on: Floats, truth: Labels, rows: Floats, folds: Labels | None) -> Floats:
    if folds is None:
        return fit_calibration(calibration, fitted_on, truth)(rows)
    values = np.empty(len(rows))
    for fold in range(FOLDS):
        out = folds == fold
        values[out] = fit_calibration(calibration, fitted_on[~out], truth[~out])(rows[out])
    return values
