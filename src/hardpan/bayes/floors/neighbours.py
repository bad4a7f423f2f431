"""The nearest-neighbour bracket of the Bayes error (Cover and Hart, 1967), with one neighbour and with k."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import arguments
from hardpan.bayes.floors.classifiers import sampled_rows
from hardpan.bayes.floors.entries import NEIGHBOURS, Entry, classifier_entry
from hardpan.bayes.floors.error_estimates import cover_hart, estimate_of_bound, held_out_error
from hardpan.bayes.floors.inputs import FloorInputs
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record

KS = (1, 3, 5, 9, 17, 33)
MIN_SEARCHED = 1000  # training examples, however many are asked for their neighbours


@record(dropped=("k_lower", "moving"))
class NeighbourBracket:
    """The Bayes error between two ends, and what each end rests on.

    Attributes:
        error: held-out error of the nearest-neighbour rule, with its Clopper–Pearson interval.
        lower: the lower end: Cover and Hart's inverse of the error, with the error's interval carried over.
        upper: the upper end: held-out error of the rule with k neighbours (of ``error`` where k is 1).
        k: how many neighbours vote in ``upper``.
    """

    error: Estimate
    lower: Estimate
    upper: Estimate
    k: int = 1


def neighbour_bounds(
    x_train: NDArray[Any],
    y_train: NDArray[np.int64],
    x_test: NDArray[Any],
    y_test: NDArray[np.int64],
    *,
    n_classes: int | None = None,
    confidence: float = 0.95,
    k: int | None = 1,
    validation: tuple[NDArray[Any], NDArray[np.int64]] | None = None,
) -> NeighbourBracket:
    """Bracket the Bayes error by the held-out error of the nearest-neighbour rule.

    The bracket runs from Cover and Hart's bound at the lower Clopper–Pearson limit of the nearest neighbour's
    error to the upper limit of the error with k neighbours.

    Args:
        x_train: (n, d) features, or images that are flattened.
        y_train: (n,) class numbers.
        x_test: (m, d) held-out features.
        y_test: (m,) class numbers.
        n_classes: K; by default one more than the highest class number.
        confidence: level of the interval of the error.
        k: how many neighbours vote; None: of 1, 3, 5, 9, 17 and 33, none above √n, the one with the fewest errors
            on validation (the smallest of equals), or on train, leaving one out, where there is no validation part.
        validation: features and labels that may choose k; the test part never does.

    Source: Cover and Hart, "Nearest neighbor pattern classification" (1967).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 2, 2000)
        >>> x = rng.normal(2.0 * y, 1.0)[:, None]           # Bayes error 0.159
        >>> found = neighbour_bounds(x[:1000], y[:1000], x[1000:], y[1000:], k=None)
        >>> found.lower.low < 0.159 < found.upper.high, found.k
        (True, 17)
    """
    y_train = arguments.labels("y_train", y_train, len(x_train), n_classes)
    y_test = arguments.labels("y_test", y_test, len(x_test), n_classes)
    c = n_classes or arguments.class_count(None, y_train, y_test)
    x_train, x_test = arguments.features("x_train", x_train), arguments.features("x_test", x_test)
    decisions = _neighbour_decisions(x_train, y_train, x_test, k, validation)
    errors = {
        count: held_out_error(int((classes != y_test).sum()), len(y_test), method=method, confidence=confidence)
        for count, (method, classes) in decisions.items()
    }
    k = max(errors)
    return NeighbourBracket(errors[1], _cover_hart_bound(errors[1], c), errors[k], k)


def _neighbour_decisions(
    x_train: NDArray[Any],
    y_train: NDArray[np.int64],
    x_test: NDArray[Any],
    k: int | None,
    validation: tuple[NDArray[Any], NDArray[np.int64]] | None,
) -> dict[int, tuple[str, NDArray[np.int64]]]:
    """By 1 and by k neighbours: the method, and the classes (m,) of the held-out examples."""
    rule = f"k = {k}"
    if k is None:
        k, rule = choose_k(x_train, y_train, validation)
    votes = y_train[nearest_rows(x_train, x_test, k)[0]]
    trained = f"on {len(x_train):,} training examples, Euclidean"
    methods = {1: f"1-NN {trained}"} | ({k: f"{k}-NN {trained}; {rule}"} if k > 1 else {})
    return {count: (method, majority_of_neighbours(votes[:, :count])) for count, method in methods.items()}


def _cover_hart_bound(error: Estimate, n_classes: int) -> Estimate:
    method = "Cover–Hart bound from the nearest-neighbour error"
    return estimate_of_bound(error, lambda value: cover_hart(value, n_classes), method)


def choose_k(
    x_train: NDArray[Any],
    y_train: NDArray[np.int64],
    validation: tuple[NDArray[Any], NDArray[np.int64]] | None = None,
) -> tuple[int, str]:
    """Choose how many neighbours vote, and say how: see ``k`` of :func:`neighbour_bounds`.

    Example:
        >>> x, y = np.arange(40.0)[:, None], np.repeat([0, 1], 20)
        >>> choose_k(x, y)
        (1, 'k = 1 of 1, 3, 5 has the fewest errors on train, leaving one out')
    """
    ks = [k for k in KS if k == 1 or k * k <= len(x_train)]
    if len(ks) == 1:
        return 1, "k = 1, the only one for so few examples"
    x, y = validation if validation is not None and len(validation[1]) else (None, y_train)
    result = y_train[nearest_rows(x_train, x, ks[-1])[0]]
    errors = [int((majority_of_neighbours(result[:, :k]) != y).sum()) for k in ks]
    k = ks[int(np.argmin(errors))]
    where = "train, leaving one out" if x is None else "validation"
    return k, f"k = {k} of {', '.join(map(str, ks))} has the fewest errors on {where}"


def majority_of_neighbours(votes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give the most frequent class of each row of labels (m, k), nearest first; of equals, the one that came first.

    Example:
        >>> majority_of_neighbours(np.array([[2, 1, 1], [0, 1, 2], [3, 3, 3]])).tolist()
        [1, 0, 3]
    """
    m, k = votes.shape
    agreeing = np.zeros((m, k))
    for j in range(k):
        agreeing[:, j] = (votes == votes[:, j : j + 1]).sum(axis=1)
    winners: NDArray[np.int64] = votes[np.arange(m), np.argmax(agreeing, axis=1)]
    return winners


def k_nearest(
    x_train: ArrayLike, x_test: ArrayLike | None, k: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rows and Euclidean distances of the k nearest training examples of every test example, nearest first.

    Exact, in integers for bytes and in float64 otherwise; equal distances keep the order of the training rows.

    Args:
        x_train: (n, ...) features or images.
        x_test: (m, ...) the same; None for the training examples themselves, none of them its own neighbour.
        k: how many, 1 ≤ k ≤ n (k < n where ``x_test`` is None).

    Returns:
        (m, k) row numbers and (m, k) distances. Memory beyond copies of the input: at most about 200 MB.

    Example:
        >>> rows, distances = k_nearest([[0.0], [10.0], [11.0]], [[9.0], [1.0]], 2)
        >>> rows.tolist(), distances.tolist()
        ([[1, 2], [0, 1]], [[1.0, 2.0], [1.0, 9.0]])
    """
    train = arguments.features("x_train", x_train)
    itself = x_test is None
    test = train if x_test is None else arguments.features("x_test", x_test)
    if train.shape[1] != test.shape[1]:
        raise InputError(
            f"must be of one size; got {train.shape[1]} and {test.shape[1]} features",
            argument=("x_train", "x_test"),
        )
    return nearest_rows(train, None if itself else test, k)


def nearest_rows(
    train: NDArray[Any], test: NDArray[Any] | None, k: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """As :func:`k_nearest`, of flat rows of finite numbers."""
    itself = test is None
    if not 1 <= k <= len(train) - itself:
        raise InputError(
            f"must lie in 1..{len(train) - itself}, the examples there are to find; got {k}", argument="k"
        )
    from hardpan.neighbors.exact import nearest  # compiled loops, imported when they are first needed

    kind = np.uint8 if train.dtype == np.uint8 and (test is None or test.dtype == np.uint8) else np.float64
    references = np.ascontiguousarray(train, dtype=kind)
    queries = references if test is None else np.ascontiguousarray(test, dtype=kind)
    distances, rows = nearest(queries, references, k, same=itself)
    return rows, distances


def neighbour_entries(inputs: FloorInputs, confidence: float, seconds: float, seed: int = 0) -> list[Entry]:
    """The bound of Cover and Hart, and the classifiers 1-NN and k-NN.

    Of more training examples than can be searched in about ``seconds``, a sample is used; the entries say how many.
    """
    from hardpan.neighbors.exact import affordable_pairs

    x, y = inputs.table.scaled, inputs.labels
    train, validation, test = inputs.split.train, inputs.split.validation, inputs.test
    queries = len(test) + (len(validation) or len(train))
    train = sampled_rows(y, train, max(MIN_SEARCHED, affordable_pairs(x, seconds) // queries), seed)
    choosing = (x[validation], y[validation]) if len(validation) else None
    entries = []
    for k, (method, classes) in _neighbour_decisions(x[train], y[train], x[test], None, choosing).items():
        inputs.decisions[f"{k}-NN"] = classes
        entries.append(classifier_entry(f"{k}-NN", classes != y[test], method, confidence, inputs.sampling))
    lower = _cover_hart_bound(entries[0].estimate, inputs.dataset.n_classes)
    return [Entry("1-NN bound", "lower", lower, NEIGHBOURS), *entries]
