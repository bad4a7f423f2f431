"""The nearest-neighbour bracket of the Bayes error (Cover and Hart, 1967), with one neighbour and with k."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtrc

from hardpan import arguments
from hardpan.bayes.floors.error_estimates import Moving, cover_hart, estimate_of_bound, held_out_error
from hardpan.bayes.floors.inputs import FloorInputs
from hardpan.bayes.floors.verdict import HELD_OUT, Entry
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record

_FOR_HALF = 9
KS = (1, 3, 5, 9, 17, 33)
FINITE_SAMPLE = (
    "With finitely many training examples the nearest-neighbour error lies above its limit, so this lower end may "
    "lie above the Bayes error; it is a lower end only as far as the assumption holds."
)


@record
class NeighbourBracket:
    """The Bayes error between two ends, and what each end rests on.

    Attributes:
        error: held-out error of the nearest-neighbour rule, with its Clopper–Pearson interval.
        lower: the lower end: Cover and Hart's inverse of the error, with the error's interval carried over.
        upper: the upper end: held-out error of the rule with k neighbours (of ``error`` where k is 1).
        k: how many neighbours vote in ``upper``.
        k_lower: for two classes and k ≥ 3 a second lower end, from ``upper`` by Devroye's inequality; else None.
        moving: the lower end with half of the training examples beside that with all.
    """

    error: Estimate
    lower: Estimate
    upper: Estimate
    k: int = 1
    k_lower: Estimate | None = None
    moving: Moving | None = None


def devroye(error: float, k: int) -> float:
    """Give the smallest Bayes error of two classes that a limiting k-neighbour error allows.

    Where the smaller posterior is p, k neighbours err with probability r(p) = p + (1 − 2p) P(Bin(k, p) > k/2).
    So e ≤ E · max_p r(p)/p, and E ≥ e / max_p r(p)/p; at most 1/2. The maximum is taken over a fine grid.

    Args:
        error: the error e of the rule with k neighbours, 0..1.
        k: odd, at least 3.

    Source: Devroye, "On the inequality of Cover and Hart in nearest neighbor discrimination" (1981).

    Example:
        >>> round(devroye(0.2, 3), 4), round(devroye(0.2, 33), 4)
        (0.152, 0.1873)
    """
    if k < 3 or k % 2 == 0:
        raise InputError(
            f"must be odd and at least 3; got {k}: use cover_hart for the nearest neighbour", argument="k"
        )
    p = np.linspace(0.0, 0.5, 5001)[1:]
    wrong = bdtrc((k - 1) // 2, k, p)
    return min(0.5, error / (1 + float(np.max((1 - 2 * p) * wrong / p))))


def bracket(
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
    error to the upper limit of the error with k neighbours. For more than two classes no such bound is known for
    k > 1, so the lower end always comes from one neighbour.

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

    Source: Cover and Hart, "Nearest neighbor pattern classification" (1967); Devroye (1981) for two classes.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 2, 2000)
        >>> x = rng.normal(2.0 * y, 1.0)[:, None]           # Bayes error 0.159
        >>> found = bracket(x[:1000], y[:1000], x[1000:], y[1000:], k=None)
        >>> found.lower.low < 0.159 < found.upper.high, found.k
        (True, 17)
    """
    y_train = arguments.labels("y_train", y_train, len(x_train))
    y_test = arguments.labels("y_test", y_test, len(x_test))
    c = arguments.class_count(n_classes, y_train, y_test)
    rule = f"k = {k}"
    if k is None:
        k, rule = choose_k(x_train, y_train, validation)
    rows = k_nearest(x_train, x_test, max(k, min(_FOR_HALF, len(x_train))))[0]
    result = y_train[rows[:, :k]]
    trained = f"on {len(x_train):,} training examples, Euclidean"
    error = _vote_error(result[:, 0], y_test, f"1-NN {trained}", confidence)
    notes = (FINITE_SAMPLE,)
    upper = error
    if k > 1:
        upper = _vote_error(majority(result), y_test, f"{k}-NN {trained}; {rule}", confidence)
    return NeighbourBracket(
        error=error,
        lower=estimate_of_bound(
            error, lambda e: cover_hart(e, c), "Cover–Hart bound from the nearest-neighbour error", notes
        ),
        upper=upper,
        k=k,
        k_lower=estimate_of_bound(
            upper, lambda e: devroye(e, k), f"Devroye's bound from the error of {k} neighbours", notes
        )
        if c == 2 and k >= 3
        else None,
        moving=_bound_of_half(y_train, rows, y_test, c),
    )


def choose_k(
    x_train: NDArray[Any],
    y_train: NDArray[np.int64],
    validation: tuple[NDArray[Any], NDArray[np.int64]] | None = None,
) -> tuple[int, str]:
    """Choose how many neighbours vote, and say how: see ``k`` of :func:`bracket`.

    Example:
        >>> x, y = np.arange(40.0)[:, None], np.repeat([0, 1], 20)
        >>> choose_k(x, y)
        (1, 'k = 1 of 1, 3, 5 has the fewest errors on train, leaving one out')
    """
    ks = [k for k in KS if k == 1 or k * k <= len(x_train)]
    if len(ks) == 1:
        return 1, "k = 1, the only one for so few examples"
    x, y = validation if validation is not None and len(validation[1]) else (None, y_train)
    result = y_train[k_nearest(x_train, x, ks[-1])[0]]
    errors = [int((majority(result[:, :k]) != y).sum()) for k in ks]
    k = ks[int(np.argmin(errors))]
    where = "train, leaving one out" if x is None else "validation"
    return k, f"k = {k} of {', '.join(map(str, ks))} has the fewest errors on {where}"


def neighbour_decisions(
    x_train: NDArray[Any], y_train: NDArray[np.int64], x_test: NDArray[Any], k: int
) -> NDArray[np.int64]:
    """Classes (m,) that the k nearest training examples of each test example vote for.

    Example:
        >>> x, y = np.array([[0.0], [1.0], [9.0]]), np.array([1, 1, 0])
        >>> neighbour_decisions(x, y, np.array([[8.0], [2.0]]), 1).tolist()
        [0, 1]
    """
    return majority(y_train[k_nearest(x_train, x_test, k)[0]])


def majority(votes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give the most frequent class of each row of labels (m, k), nearest first; of equals, the one that came first.

    Example:
        >>> majority(np.array([[2, 1, 1], [0, 1, 2], [3, 3, 3]])).tolist()
        [1, 0, 3]
    """
    m, k = votes.shape
    agreeing = np.zeros((m, k))
    for j in range(k):
        agreeing[:, j] = (votes == votes[:, j : j + 1]).sum(axis=1)
    winners: NDArray[np.int64] = votes[np.arange(m), np.argmax(agreeing, axis=1)]
    return winners


def _vote_error(
    predicted: NDArray[np.int64], y_test: NDArray[np.int64], method: str, confidence: float
) -> Estimate:
    return held_out_error(int((predicted != y_test).sum()), len(y_test), method=method, confidence=confidence)


def _bound_of_half(
    y_train: NDArray[np.int64], rows: NDArray[np.int64], y_test: NDArray[np.int64], n_classes: int
) -> Moving | None:
    """The bound with a random half of train beside that with all, from nine neighbours of each example."""
    if rows.shape[1] < _FOR_HALF:
        return None
    half = np.random.default_rng(0).permutation(len(y_train)) < len(y_train) // 2
    # One example in 512 has none of its nine neighbours in the half; the ninth then replaces a farther one.
    nearest_there = np.where(half[rows].any(axis=1), half[rows].argmax(axis=1), rows.shape[1] - 1)
    before = y_train[rows[np.arange(len(rows)), nearest_there]] != y_test
    now = y_train[rows[:, 0]] != y_test
    gained, lost = int((before & ~now).sum()), int((now & ~before).sum())
    still = bool(gained - lost > 2 * np.sqrt(gained + lost))
    return Moving(cover_hart(float(before.mean()), n_classes), cover_hart(float(now.mean()), n_classes), still)


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
    if not 1 <= k <= len(train) - itself:
        raise InputError(
            f"must lie in 1..{len(train) - itself}, the examples there are to find; got {k}", argument="k"
        )
    from hardpan.neighbors.exact import nearest  # compiled loops, imported when they are first needed

    kind = np.uint8 if train.dtype == test.dtype == np.uint8 else np.float64
    references = np.ascontiguousarray(train, dtype=kind)
    queries = references if itself else np.ascontiguousarray(test, dtype=kind)
    distances, rows = nearest(queries, references, k, same=itself)
    return rows, distances


def neighbours_entries(inputs: FloorInputs, assumption: str, confidence: float, seed: int) -> Iterator[Entry]:
    """1-NN, k-NN, and the bounds of Cover and Hart and of Devroye."""
    validation = inputs.split.validation
    x, y, x_test, y_test = inputs.train_and_test()
    result = bracket(
        x,
        y,
        x_test,
        y_test,
        n_classes=inputs.dataset.n_classes,
        confidence=confidence,
        k=None,
        validation=(inputs.table.scaled[validation], inputs.labels[validation]) if len(validation) else None,
    )
    for k in {1, result.k}:
        inputs.decisions[f"{k}-NN"] = functools.partial(neighbour_decisions, x, y, x_test, k)
    yield Entry("1-NN bound", "lower", result.lower, assumption, moving=result.moving)
    yield Entry("1-NN", "classifier", result.error, HELD_OUT, "1-NN")
    if result.k > 1:
        yield Entry(f"{result.k}-NN", "classifier", result.upper, HELD_OUT, f"{result.k}-NN")
    if result.k_lower is not None:
        yield Entry(f"{result.k}-NN bound", "lower", result.k_lower, assumption, moving=result.moving)
