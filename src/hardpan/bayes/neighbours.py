"""The nearest-neighbour bracket of the Bayes error (Cover and Hart, 1967)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.bayes.verdict import held_out_error
from hardpan.errors import InputError
from hardpan.records import Estimate, record

ASYMPTOTIC = "so many training examples that a test example and its nearest neighbour share one posterior"
FINITE_SAMPLE = (
    "With finitely many training examples the nearest-neighbour error lies above its limit, so this lower end may "
    "lie above the Bayes error; it is a lower end only as far as the assumption holds."
)


@record
@dataclass(frozen=True, slots=True)
class NeighbourBracket:
    """The Bayes error between two ends, and what each end rests on.

    Attributes:
        error: held-out error of the nearest-neighbour rule, with its Clopper–Pearson interval.
        lower: the lower end: Cover and Hart's inverse of the error, with the error's interval carried over.
        upper: the upper end: the error itself, because no classifier is better than the Bayes classifier.
        lower_assumption: what the lower end assumes.
        upper_assumption: what the upper end assumes.
        n_classes: K.
    """

    error: Estimate
    lower: Estimate
    upper: Estimate
    lower_assumption: str
    upper_assumption: str
    n_classes: int

    @property
    def low(self) -> float:
        """The lowest Bayes error that this evidence leaves."""
        return self.lower.low

    @property
    def high(self) -> float:
        """The highest Bayes error that this evidence leaves."""
        return self.upper.high


def cover_hart(error: float, n_classes: int) -> float:
    """Give the smallest Bayes error that a limiting nearest-neighbour error allows.

    E ≥ (K−1)/K · (1 − √(1 − K/(K−1) · e)), the inverse of e ≤ E (2 − K/(K−1) · E); above e = (K−1)/K, the error
    of guessing, the bound is (K−1)/K.

    Args:
        error: the nearest-neighbour error e, 0..1.
        n_classes: K ≥ 2.

    Source: Cover and Hart, "Nearest neighbor pattern classification" (1967), equation 32.

    Example:
        >>> round(cover_hart(0.18, 2), 12), cover_hart(0.0, 10), cover_hart(1.0, 2)
        (0.1, 0.0, 0.5)
    """
    if n_classes < 2:
        raise InputError(f"n_classes must be at least 2; got {n_classes}")
    if not 0.0 <= error <= 1.0:
        raise InputError(f"error must lie in 0..1; got {error!r}")
    guessing = (n_classes - 1) / n_classes
    # e / (1 + √(1 − e/g)) is the same number as g (1 − √(1 − e/g)) without the loss of digits at small e.
    return min(error, guessing) / (1.0 + float(np.sqrt(max(0.0, 1.0 - error / guessing))))


def bracket(
    x_train: NDArray[Any],
    y_train: NDArray[np.int64],
    x_test: NDArray[Any],
    y_test: NDArray[np.int64],
    *,
    n_classes: int | None = None,
    confidence: float = 0.95,
) -> NeighbourBracket:
    """Bracket the Bayes error by the held-out error of the nearest-neighbour rule.

    The bracket runs from Cover and Hart's bound at the lower Clopper–Pearson limit of the error to its upper limit.

    Args:
        x_train: (n, d) features, or images that are flattened.
        y_train: (n,) class numbers.
        x_test: (m, d) held-out features.
        y_test: (m,) class numbers.
        n_classes: K; by default one more than the highest class number.
        confidence: level of the interval of the error.

    Source: Cover and Hart, "Nearest neighbor pattern classification" (1967).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 2, 2000)
        >>> x = rng.normal(2.0 * y, 1.0)[:, None]           # Bayes error 0.159
        >>> found = bracket(x[:1000], y[:1000], x[1000:], y[1000:])
        >>> found.low < 0.159 < found.high
        True
    """
    if len(x_train) != len(y_train) or len(x_test) != len(y_test) or not len(x_train) or not len(x_test):
        raise InputError(
            "x and y must have one row for each example and not be empty; got "
            f"{len(x_train)} and {len(y_train)} for train, {len(x_test)} and {len(y_test)} for test"
        )
    k = int(max(y_train.max(), y_test.max())) + 1 if n_classes is None else n_classes
    predicted = y_train[nearest(x_train, x_test)]
    error = held_out_error(
        int((predicted != y_test).sum()),
        len(y_test),
        method=f"nearest neighbour on {len(x_train):,} training examples, Euclidean",
        confidence=confidence,
    )
    lower = _lower_end(error, k)
    return NeighbourBracket(
        error=error,
        lower=lower,
        upper=error,
        lower_assumption=ASYMPTOTIC,
        upper_assumption="the test examples are independent draws that nothing was tuned on",
        n_classes=k,
    )


def _lower_end(error: Estimate, n_classes: int) -> Estimate:
    value, low, high = (cover_hart(point, n_classes) for point in (error.value, error.low, error.high))
    guessing = (n_classes - 1) / n_classes
    slope = 0.5 / float(np.sqrt(max(1e-12, 1.0 - error.value / guessing)))
    return Estimate(
        value,
        min(slope * error.stderr, (high - low) / 2),  # the delta method fails where the bound turns vertical
        low,
        high,
        confidence=error.confidence,
        method="Cover–Hart bound from the nearest-neighbour error",
        n=error.n,
        notes=(FINITE_SAMPLE,),
        log10=float(np.log10(value)) if value > 0 else None,
    )


def nearest(x_train: NDArray[Any], x_test: NDArray[Any]) -> NDArray[np.int64]:
    """Give the row of the nearest training example for every test example, in bounded memory.

    Example:
        >>> nearest(np.array([[0.0], [10.0]]), np.array([[9.0], [1.0]])).tolist()
        [1, 0]
    """
    from sklearn.metrics import pairwise_distances_argmin  # scikit-learn takes a second to import

    flat = x_train.reshape(len(x_train), -1)
    # Single precision holds small integers and float32 exactly, in half the memory.
    dtype = np.result_type(x_train.dtype, x_test.dtype, np.float32)
    # Distances come from |a|² − 2ab + |b|², which keeps its digits only near the origin.
    centre = flat.mean(axis=0, dtype=np.float64).astype(dtype)
    train, test = (x.reshape(len(x), -1).astype(dtype) for x in (x_train, x_test))
    train -= centre
    test -= centre
    found: NDArray[np.int64] = pairwise_distances_argmin(test, train)
    return found
