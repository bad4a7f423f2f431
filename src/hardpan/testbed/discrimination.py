"""Can a classifier distinguish the two test sets? A two-sample test by classification (appendix B.2.8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc

from hardpan.arguments import one_of, real_number, real_numbers, whole_number
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.report.base import Report
from hardpan.stats import share

Floats = NDArray[np.float64]
Classifier = Callable[[Floats, NDArray[np.int64], Floats], NDArray[Any]]
Method = Literal["logistic", "lda"]
Test = Literal["split", "permutation"]


@record
class Discrimination(Report):
    """How well a classifier distinguishes new examples from original ones.

    Attributes:
        accuracy: held-out accuracy, with its exact binomial interval for one split; 0.5 is chance.
        p_value: probability of such an accuracy or more if both sets came from one distribution.
        p_method: "exact binomial, one held-out split", or the permutation test with its number of permutations.
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
    classifier: Method | Classifier = "logistic",
    test: Test = "split",
    test_fraction: float = 0.2,
    permutations: int = 200,
    confidence: float = 0.95,
    seed: int = 0,
) -> Discrimination:
    """Test whether two sets can be distinguished, on one held-out split that is balanced in set and class.

    As many examples of each set, class by class, as the scarcer has; ``test_fraction`` of these is set aside, again
    class by class, and the classifier is fitted on the rest. If both sets are drawn from one distribution,
    held-out answers are independent given the fit and right with probability 1/2 on average; that they are balanced
    can only make the tail of the number right thinner than the binomial one (Hoeffding 1956), so its p-value
    holds. The permutation test refits with the sets' names shuffled within classes; its p-value is
    (1 + #{as good}) / (1 + permutations). Accuracies averaged over the folds of a cross-validation are dependent
    and get no exact p-value, so there are none here.

    Args:
        original: (N, ...) features or images.
        new: (N', ...) of the same shape.
        original_labels: (N,) classes, to balance by; give both or none.
        new_labels: (N',) classes.
        classifier: "logistic" (regression) or "lda"; in Python also a function (x_train, which_set, x_test) ->
            which_set.
        test: significance test: "split" (exact binomial test on held-out examples) or "permutation".
        test_fraction: fraction of the examples to hold out.
        permutations: number of permutations, for "permutation".
        confidence: level of the interval of the accuracy.
        seed: of the selection, the split and the permutations.

    Source: the replication paper, appendix B.2.8.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> same = discriminate(rng.normal(size=(400, 5)), rng.normal(size=(300, 5)))
        >>> other = discriminate(rng.normal(size=(400, 5)), rng.normal(size=(300, 5)) + 1)
        >>> same.p_value > 0.05, other.p_value < 1e-6
        (True, True)
    """
    a, b = _features(original, "original"), _features(new, "new")
    if a.shape[1] != b.shape[1]:
        raise InputError(
            f"must have features of one size; got {a.shape[1]} and {b.shape[1]}", argument=("original", "new")
        )
    real_number("test_fraction", test_fraction, "(0, 1)")
    one_of("test", test, ("split", "permutation"))
    whole_number("permutations", permutations, 1)
    strata_a, strata_b = _strata(original_labels, len(a), "original"), _strata(new_labels, len(b), "new")
    if (original_labels is None) != (new_labels is None):
        raise InputError("must be given both, or neither", argument=("original_labels", "new_labels"))
    split = _split(strata_a, strata_b, test_fraction, np.random.default_rng([seed, 0]))
    x = np.concatenate([a[split.rows_a], b[split.rows_b]])
    classify, name = _classifier(classifier)
    guesses = np.asarray(classify(x[~split.judged], split.which[~split.judged], x[split.judged]))
    right, judged = int((guesses == split.which[split.judged]).sum()), int(split.judged.sum())
    accuracy = share(right, judged, confidence, method="held-out split, Clopper–Pearson")
    p_value = float(betainc(right, judged - right + 1, 0.5)) if right else 1.0
    p_method = "exact binomial, one held-out split"
    if test == "permutation":
        p_value = _permuted(classify, x, split, right, permutations, seed)
        p_method = f"permutation test, {permutations} permutations within classes"
    return Discrimination(
        accuracy=replace(accuracy, seed=seed),
        p_value=p_value,
        p_method=p_method,
        train=int((~split.judged).sum()),
        test=judged,
        classes=0 if original_labels is None else len(np.unique(split.classes)),
        classifier=name,
        variation_bound=max(0.0, 2 * accuracy.low - 1),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Split:
    """Rows of both sets, one after the other, with set number, class and whether they are judged on."""

    rows_a: NDArray[np.int64]
    rows_b: NDArray[np.int64]
    which: NDArray[np.int64]
    classes: NDArray[Any]
    judged: NDArray[np.bool_]


def _split(a: NDArray[Any], b: NDArray[Any], test_fraction: float, rng: np.random.Generator) -> _Split:
    """As many examples of each set, class by class, with the fraction ``test_fraction`` of each class judged on."""
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
    rows_a, rows_b, judged, classes = (np.concatenate(columns) for columns in zip(*by_class, strict=True))
    if judged.sum() < 5 or (~judged).sum() < 5:
        raise InputError(
            f"must have at least 25 examples of each set; got {len(judged)} after balancing",
            argument=("original", "new"),
        )
    which = np.repeat(np.array([0, 1]), len(judged))
    return _Split(rows_a, rows_b, which, np.tile(classes, 2), np.tile(judged, 2))


def _permuted(classify: Classifier, x: Floats, split: _Split, right: int, permutations: int, seed: int) -> float:
    as_good = 0
    # Names of the sets move only among examples of one class and one part: each shuffle is balanced as the split.
    groups = np.unique(
        np.stack([np.unique(split.classes, return_inverse=True)[1], split.judged]), axis=1, return_inverse=True
    )[1]
    order = np.argsort(groups.ravel(), kind="stable")
    for i in range(permutations):
        rng = np.random.default_rng([seed, 1, i])
        shuffled = np.lexsort((rng.random(len(x)), groups.ravel()))
        which = np.empty_like(split.which)
        which[order] = split.which[shuffled]
        guesses = np.asarray(classify(x[~split.judged], which[~split.judged], x[split.judged]))
        as_good += int((guesses == which[split.judged]).sum()) >= right
    return (1 + as_good) / (1 + permutations)


def _classifier(classifier: Method | Classifier) -> tuple[Classifier, str]:
    if callable(classifier):
        return classifier, getattr(classifier, "__name__", "own classifier")
    if classifier == "logistic":
        return _logistic, "logistic regression on standardised features"
    if classifier == "lda":
        return _lda, "linear discriminant analysis with shrinkage"
    raise InputError(f"must be 'logistic', 'lda' or a function; got {classifier!r}", argument="classifier")


def _logistic(x: Floats, which: NDArray[np.int64], judged: Floats) -> NDArray[Any]:
    from sklearn.linear_model import LogisticRegression

    mean, scale = x.mean(axis=0), x.std(axis=0)
    scale[scale == 0] = 1.0
    # A mild penalty: with more features than examples the sets would always separate on the training half.
    model = LogisticRegression(C=0.1, max_iter=2000).fit((x - mean) / scale, which)
    return cast("NDArray[Any]", model.predict((judged - mean) / scale))


def _lda(x: Floats, which: NDArray[np.int64], judged: Floats) -> NDArray[Any]:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    varies = x.std(axis=0) > 0
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(x[:, varies], which)
    return cast("NDArray[Any]", model.predict(judged[:, varies]))


def _features(values: ArrayLike, name: str) -> Floats:
    array = real_numbers(name, values)
    if array.ndim < 2:
        raise InputError(f"must have one row per example; got shape {array.shape}", argument=name)
    return array.reshape(len(array), -1)


def _strata(labels: ArrayLike | None, size: int, name: str) -> NDArray[Any]:
    array: NDArray[Any] = np.zeros(size, dtype=np.int64) if labels is None else np.asarray(labels)
    if array.shape != (size,):
        raise InputError(f"must be ({size},), one per example; got {array.shape}", argument=f"{name}_labels")
    return array
