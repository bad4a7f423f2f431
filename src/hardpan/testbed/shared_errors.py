"""Errors that models have in common: pairs with κ, and the examples that none gets right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.stats.agreement import kappa_from_table
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
    rows = []
    for i in range(len(models)):
        for j in range(i + 1, len(models)):
            shared, first, second = int(both[i, j]), int(errors[i]), int(errors[j])
            shares = np.array([[n - first - second + shared, second - shared], [first - shared, shared]]) / n
            kappa = kappa_from_table(shares, n, confidence)
            rows.append(SharedErrors(models[i], models[j], shared, first * second / n, kappa, float(same[i, j])))
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
