"""The plug-in estimate, mean of 1 − max posterior on held-out examples."""

from __future__ import annotations

from numpy.typing import ArrayLike
from scipy.special import pdtr, pdtrc

from hardpan import arguments
from hardpan.bayes.floors.entries import AssumptionTest, Entry, Sampling, classifier_entry
from hardpan.bayes.floors.error_estimates import Floats, Labels, mean_error_estimate
from hardpan.estimates import Estimate


def plug_in(
    probs: ArrayLike,
    *,
    confidence: float = 0.95,
    method: str = "mean of 1 − max posterior",
    group: Labels | None = None,
) -> Estimate:
    """The mean of 1 − max_k P(k | x): the Bayes error, if these are the data's own posteriors.

    Args:
        probs: (n, K) posteriors of held-out examples; also exact soft labels.
        group: (n,) independent groups that the examples come in.

    Source: Ishida et al., "Is the performance of my deep network too good to be true?" (2023), for soft labels.

    Example:
        >>> round(plug_in([[0.9, 0.1], [0.3, 0.7]]).value, 12)
        0.2
    """
    rows = arguments.probabilities("probs", probs)
    return mean_error_estimate(1.0 - rows.max(axis=1), method=method, confidence=confidence, group=group)


def plug_in_errors_test(probs: Floats, labels: Labels) -> tuple[int, float, float]:
    """Compare the errors that probabilities predict with those that their decisions make.

    If the probabilities were the data's, the number of wrong decisions would be a sum of independent chances
    1 − max; a Poisson variable of that mean has heavier tails, so the two-sided p-value from it is conservative.

    Returns:
        Wrong decisions made, wrong decisions predicted, p-value.

    Example:
        >>> import numpy as np
        >>> sure = np.tile([0.99, 0.01], (100, 1))
        >>> made, predicted, p = plug_in_errors_test(sure, np.repeat([0, 1], [90, 10]))
        >>> made, round(predicted, 6), p < 1e-6
        (10, 1.0, True)
    """
    made = int((probs.argmax(axis=1) != labels).sum())
    predicted = float((1.0 - probs.max(axis=1)).sum())
    above = float(pdtrc(made - 1, predicted)) if made else 1.0
    return made, predicted, min(1.0, 2 * min(above, float(pdtr(made, predicted))))


def plug_in_entries(
    name: str,
    probs: Floats,
    labels: Labels,
    confidence: float,
    seeds: int = 1,
    sampling: Sampling | None = None,
) -> list[Entry]:
    """A model's plug-in and its held-out error; ``probs`` is the mean over ``seeds``."""
    method = "held-out errors" if seeds < 2 else f"held-out errors of the mean prediction of {seeds} seeds"
    group = None if sampling is None else sampling.group
    made = classifier_entry(name, probs.argmax(axis=1) != labels, method, confidence, sampling)
    check = None
    if group is None:  # errors of one group are not independent, which the test assumes
        _, predicted, p_value = plug_in_errors_test(probs, labels)
        check = AssumptionTest(p_value, predicted / len(labels), made.estimate.value)
    raw = plug_in(probs, confidence=confidence, group=group)
    return [Entry(f"Raw plug-in of {name}", "estimate", raw, "posterior", name, check=check), made]
