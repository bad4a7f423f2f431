"""Errors that models have in common: pairs with κ, and the examples that none gets right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.errors import InputError
from hardpan.records import Estimate, record
from hardpan.stats import normal_quantile
from hardpan.testbed.followups import check_right


@record
@dataclass(frozen=True, slots=True)
class SharedErrors:
    """How far two models err on the same examples.

    Attributes:
        both: examples that both get wrong.
        expected: how many that would be were their errors independent.
        kappa: Cohen's κ between right and wrong of the two: 0 as if independent, 1 the same examples.
        same_answer: share of the common errors with the same wrong class; NaN without predictions.
    """

    first: str
    second: str
    both: int
    expected: float
    kappa: Estimate
    same_answer: float


def shared_errors(
    models: Sequence[str], right: ArrayLike, predictions: ArrayLike | None = None, confidence: float = 0.95
) -> tuple[SharedErrors, ...]:
    """Common errors of every pair of models, with Cohen's κ and its large-sample interval, all pairs at once.

    κ = (p_o − p_e)/(1 − p_e) with p_o the share of examples on which both are right or both wrong and p_e what it
    would be for independent models of the same accuracies; its variance is Fleiss, Cohen and Everitt's (1969).

    Args:
        models: (M,) names.
        right: (M, N) right or wrong.
        predictions: (M, N) classes: then also how often common errors agree in the class.

    Example:
        >>> pair = shared_errors(["a", "b"], [[1, 1, 0, 0], [1, 1, 0, 0]])[0]
        >>> pair.both, pair.expected, pair.kappa.value
        (2, 1.0, 1.0)
    """
    answers = check_right(models, right)
    n = answers.shape[1]
    wrong = (~answers).astype(np.float32)
    both = np.rint(wrong @ wrong.T).astype(np.int64)
    errors = np.diag(both)
    same = np.full(both.shape, np.nan)
    if predictions is not None:
        guesses: NDArray[Any] = np.asarray(predictions)
        if guesses.shape != answers.shape:
            raise InputError(f"predictions must be {answers.shape}, as right is; got shape {guesses.shape}")
        for i in range(len(models)):
            agree = ((guesses == guesses[i]) & ~answers & ~answers[i]).sum(axis=1)
            same[i] = np.where(both[i] > 0, agree / np.maximum(both[i], 1), np.nan)
    quantile = normal_quantile(confidence)
    rows = []
    for i in range(len(models)):
        for j in range(i + 1, len(models)):
            kappa, error = _kappa(int(both[i, j]), int(errors[i]), int(errors[j]), n)
            low, high = max(-1.0, kappa - quantile * error), min(1.0, kappa + quantile * error)
            estimate = Estimate(kappa, error, low, high, confidence, "Cohen's κ, large-sample interval", n)
            expected = float(errors[i] * errors[j] / n)
            rows.append(SharedErrors(models[i], models[j], int(both[i, j]), expected, estimate, float(same[i, j])))
    return tuple(rows)


def never_right(right: ArrayLike) -> NDArray[np.int64]:
    """Rows of the examples that no model gets right.

    Example:
        >>> never_right([[1, 0, 0], [1, 1, 0]]).tolist()
        [2]
    """
    array: NDArray[Any] = np.asarray(right)
    if array.ndim != 2:
        raise InputError(f"right must be models × examples; got shape {array.shape}")
    return np.flatnonzero(~check_right([""] * len(array), array).any(axis=0))


def _kappa(both: int, first: int, second: int, n: int) -> tuple[float, float]:
    table = np.array([[n - first - second + both, second - both], [first - both, both]]) / n
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    agreed, chance = float(np.trace(table)), float(rows @ columns)
    if chance >= 1.0:  # both always right, or both always wrong: nothing to agree on
        return float("nan"), float("nan")
    kappa = (agreed - chance) / (1 - chance)
    weights = (columns[:, None] + rows[None, :]) * (1 - kappa)
    diagonal = sum(table[i, i] * (1 - weights[i, i]) ** 2 for i in range(2))
    off = (1 - kappa) ** 2 * (table[0, 1] * (columns[0] + rows[1]) ** 2 + table[1, 0] * (columns[1] + rows[0]) ** 2)
    variance = (diagonal + off - (kappa - chance * (1 - kappa)) ** 2) / (n * (1 - chance) ** 2)
    return kappa, float(np.sqrt(max(variance, 0.0)))
