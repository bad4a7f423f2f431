"""Can a classifier distinguish the two test sets? A two-sample test by classification (appendix B.2.8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc

from hardpan.arguments import real_number, real_numbers
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.stats import share

Floats = NDArray[np.float64]
Classifier = Callable[[Floats, NDArray[np.int64], Floats], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Discrimination:
    """How well a classifier distinguishes new examples from original ones.

    Attributes:
        accuracy: held-out accuracy, with its exact binomial interval for one split; 0.5 is chance.
        p_value: probability of such an accuracy or more if both sets came from one distribution.
        p_method: the test: "exact binomial, one held-out split".
        train: examples that the classifier was fitted on, half of each set.
        test: held-out examples, half of each set.
        classes: over how many classes both halves are balanced; 0 without labels.
        classifier: its name.
        variation_bound: lower confidence limit of the total variation between the sets: 2 × accuracy − 1 there.
    """

    accuracy: Estimate
    p_value: float
    p_method: str
    train: int
    test: int
    classes: int
    classifier: str
    variation_bound: float


def discriminate(
    original: ArrayLike,
    new: ArrayLike,
    *,
    original_labels: ArrayLike | None = None,
    new_labels: ArrayLike | None = None,
    classifier: Classifier | None = None,
    test_fraction: float = 0.2,
    confidence: float = 0.95,
    seed: int = 0,
) -> Discrimination:
    """Test whether two sets can be distinguished, on one held-out split that is balanced in set and class.

    As many examples of each set, class by class, as the scarcer has; ``test_fraction`` of these is set aside, again
    class by class, and the classifier is fitted on the rest. If both sets are drawn from one distribution,
    held-out answers are independent given the fit and right with probability 1/2 on average; that they are balanced
    can only make the tail of the number right thinner than the binomial one (Hoeffding 1956), so its p-value
    holds. Accuracies averaged over the folds of a cross-validation are dependent
    and get no exact p-value, so there are none here.

    Args:
        original: (N, ...) features or images.
        new: (N', ...) of the same shape.
        original_labels: (N,) classes, to balance by; give both or none.
        new_labels: (N',) classes.
        classifier: a function (x_train, which_set, x_test) -> which_set; default: logistic regression.
        test_fraction: fraction of the examples to hold out.
        confidence: level of the interval of the accuracy.
        seed: of the selection and the split.

    Source: the replication paper, appendix B.2.8.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> same = discriminate(rng.normal(size=(400, 5)), rng.normal(size=(300, 5)))
        >>> other = discriminate(rng.normal(size=(400, 5)), rng.normal(size=(300, 5)) + 1)
        >>> same.p_value > 0.05, other.p_value < 1e-6
        (True, True)
    """
    a, b = _flat_examples(original, "original"), _flat_examples(new, "new")
    if a.shape[1] != b.shape[1]:
        raise InputError(
            f"must have features of one size; got {a.shape[1]} and {b.shape[1]}", argument=("original", "new")
        )
    real_number("test_fraction", test_fraction, "(0, 1)")
    strata_a, strata_b = (
        _labels_to_balance(original_labels, len(a), "original"),
        _labels_to_balance(new_labels, len(b), "new"),
    )
    if (original_labels is None) != (new_labels is None):
        raise InputError("must be given both, or neither", argument=("original_labels", "new_labels"))
    rng = np.random.default_rng([seed, 0])
    rows_a, rows_b, classes, held_out = _balanced_rows(strata_a, strata_b, test_fraction, rng)
    x, test = np.concatenate([a[rows_a], b[rows_b]]), np.tile(held_out, 2)
    which = np.repeat(np.array([0, 1]), len(held_out))
    classify = classifier or _logistic_regression
    name = classify.__name__ if classifier else "logistic regression on standardised features"
    guesses = np.asarray(classify(x[~test], which[~test], x[test]))
    right, judged = int((guesses == which[test]).sum()), int(test.sum())
    accuracy = share(right, judged, confidence, method="held-out split, Clopper–Pearson")
    p_value = float(betainc(right, judged - right + 1, 0.5)) if right else 1.0
    return Discrimination(
        accuracy=replace(accuracy, seed=seed),
        p_value=p_value,
        p_method="exact binomial, one held-out split",
        train=int((~test).sum()),
        test=judged,
        classes=0 if original_labels is None else len(np.unique(classes)),
        classifier=name,
        variation_bound=max(0.0, 2 * accuracy.low - 1),
    )


def _balanced_rows(
    a: NDArray[Any], b: NDArray[Any], test_fraction: float, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any], NDArray[np.bool_]]:
    """Rows of as many examples of each set, class by class; their classes; whether they are held out."""
    by_class: list[tuple[NDArray[Any], ...]] = []
    due = 0.0
    for value in np.intersect1d(a, b):
        here, there = rng.permutation(np.flatnonzero(a == value)), rng.permutation(np.flatnonzero(b == value))
        size = min(len(here), len(there))
        # What rounding leaves over is carried to the next class, so that small classes count too.
        due += test_fraction * size
        count = min(round(due), size)
        due -= count
        by_class.append((here[:size], there[:size], np.arange(size) < count, np.full(size, value)))
    if not by_class:
        raise InputError("must have a class in common", argument=("original_labels", "new_labels"))
    rows_a, rows_b, held_out, classes = (np.concatenate(columns) for columns in zip(*by_class, strict=True))
    if held_out.sum() < 5 or (~held_out).sum() < 5:
        raise InputError(
            f"must have at least 25 examples of each set; got {len(held_out)} after balancing",
            argument=("original", "new"),
        )
    return rows_a, rows_b, classes, held_out


def _logistic_regression(x: Floats, which: NDArray[np.int64], judged: Floats) -> NDArray[Any]:
    from sklearn.linear_model import LogisticRegression

    mean, scale = x.mean(axis=0), x.std(axis=0)
    scale[scale == 0] = 1.0
    # A mild penalty: with more features than examples the sets would always separate on the training half.
    model = LogisticRegression(C=0.1, max_iter=2000).fit((x - mean) / scale, which)
    return cast("NDArray[Any]", model.predict((judged - mean) / scale))


def _flat_examples(values: ArrayLike, name: str) -> Floats:
    array = real_numbers(name, values)
    if array.ndim < 2:
        raise InputError(f"must have one row per example; got shape {array.shape}", argument=name)
    return array.reshape(len(array), -1)


def _labels_to_balance(labels: ArrayLike | None, size: int, name: str) -> NDArray[Any]:
    array: NDArray[Any] = np.zeros(size, dtype=np.int64) if labels is None else np.asarray(labels)
    if array.shape != (size,):
        raise InputError(f"must be ({size},), one per example; got {array.shape}", argument=f"{name}_labels")
    return array
