"""Nearest neighbours of features: arguments checked, then the exact search of :mod:`hardpan.neighbors`."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.bayes.floors.inputs import as_features
from hardpan.errors import InputError


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
    train = as_features("x_train", x_train)
    itself = x_test is None
    test = train if x_test is None else as_features("x_test", x_test)
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
