"""Nearest neighbours by blocks of exact distances: bounded memory, any dimension."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.bayes.floors.inputs import as_features
from hardpan.errors import InputError

_TEST_ROWS = 512
_FIRST_ROWS = 2048  # of these the nearest are sorted out; of the others only what comes closer is looked at
_TRAIN_ROWS = 4096
_SPARE = 4  # candidates beyond k that are measured again, since block distances carry rounding


def k_nearest(
    x_train: ArrayLike, x_test: ArrayLike | None, k: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rows and Euclidean distances of the k nearest training examples of every test example, nearest first.

    Blocks of |a|² − 2ab + |b|² choose k + 4 candidates; the distances of these are then computed from differences.
    Equal distances keep the order of the training rows.

    Args:
        x_train: (n, ...) features or images.
        x_test: (m, ...) the same; None for the training examples themselves, none of them its own neighbour.
        k: how many, 1 ≤ k ≤ n (k < n where ``x_test`` is None).

    Returns:
        (m, k) row numbers and (m, k) distances. Memory beyond copies of the input: about 20 MB.

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
            f"x_train and x_test must be of one size; got {train.shape[1]} and {test.shape[1]} features"
        )
    if not 1 <= k <= len(train) - itself:
        raise InputError(f"k must lie in 1..{len(train) - itself}, the examples there are to find; got {k}")
    dtype = np.result_type(train.dtype, test.dtype, np.float32)
    # Distances come from |a|² − 2ab + |b|², which keeps its digits only near the origin.
    centre = train.mean(axis=0, dtype=np.float64).astype(dtype)
    near = train.astype(dtype) - centre
    far = near if itself else test.astype(dtype) - centre
    wanted = min(k + _SPARE + itself, len(near))
    # One column more each, and a product gives |b|²/2 − ab, which orders the b as their distances do.
    near_more = np.column_stack([near, np.einsum("ij,ij->i", near, near) / 2])
    rows = np.empty((len(far), k), dtype=np.int64)
    distances = np.empty((len(far), k))
    for start in range(0, len(far), _TEST_ROWS):
        block = far[start : start + _TEST_ROWS]
        found = _candidates(np.column_stack([-block, np.ones(len(block), dtype=dtype)]), near_more, wanted)
        own = np.arange(start, start + len(block)) if itself else None
        chosen, lengths = _measured(block, near, found, own, k)
        rows[start : start + len(block)], distances[start : start + len(block)] = chosen, lengths
    return rows, distances


def _candidates(block: NDArray[Any], near: NDArray[Any], wanted: int) -> NDArray[np.int64]:
    """The ``wanted`` rows of near with the smallest products with each row of the block, in any order."""
    m = len(block)
    best = np.full((m, wanted), np.inf, dtype=near.dtype)
    index = np.full((m, wanted), -1, dtype=np.int64)
    begin = max(_FIRST_ROWS, 8 * wanted)
    edges = [0, *range(begin, len(near), _TRAIN_ROWS), len(near)]
    for start, stop in itertools.pairwise(edges):
        distances = block @ near[start:stop].T
        if start == 0 and stop > wanted:
            index = np.argpartition(distances, wanted - 1, axis=1)[:, :wanted]
            best = np.take_along_axis(distances, index, axis=1)
            continue
        # After the first block few examples come closer than what is known: only these are looked at again.
        at, column = np.divmod(np.flatnonzero(distances < best.max(axis=1)[:, None]), stop - start)
        if not len(at):
            continue
        row = np.concatenate([np.repeat(np.arange(m), wanted), at])
        value = np.concatenate([best.ravel(), distances[at, column]])
        which = np.concatenate([index.ravel(), column + start])
        order = np.lexsort((value, row))
        first = np.searchsorted(row[order], np.arange(m))
        keep = order[first[:, None] + np.arange(wanted)]
        best, index = value[keep], which[keep]
    return index


def _measured(
    block: NDArray[Any], near: NDArray[Any], found: NDArray[np.int64], own: NDArray[np.int64] | None, k: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The k nearest of the candidates by distances from differences; an example is not its own neighbour."""
    found = np.sort(found, axis=1)
    lengths = np.empty(found.shape)
    for j in range(found.shape[1]):
        difference = block - near[found[:, j]]
        lengths[:, j] = np.sqrt(np.einsum("ij,ij->i", difference, difference, dtype=np.float64))
    if own is not None:
        lengths[found == own[:, None]] = np.inf
    order = np.argsort(lengths, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(found, order, axis=1), np.take_along_axis(lengths, order, axis=1)
