"""What every estimator of the floor asks of features, labels and probabilities, in one place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.errors import InputError

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
SUM_TOLERANCE = 1e-3  # half precision: a thousand rounded probabilities may miss 1 by this much


def as_features(name: str, x: ArrayLike) -> NDArray[Any]:
    """Flat rows (n, d) of finite numbers, in the type that they came in."""
    array: NDArray[Any] = np.asarray(x)
    if array.ndim < 2 or array.dtype.kind not in "biuf" or 0 in array.shape:
        raise InputError(f"{name} must hold numbers, one row an example; got shape {array.shape} of {array.dtype}")
    flat = array.reshape(len(array), -1)
    if flat.dtype.kind == "f" and not np.isfinite(flat).all():
        raise InputError(f"{name} must be finite; got NaN or infinity: drop or fill such rows")
    return flat


def as_labels(name: str, labels: ArrayLike, n: int | None = None) -> Labels:
    """Class numbers (n,) of at least 0."""
    array: NDArray[Any] = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iu" or not len(array):
        raise InputError(f"{name} must be class numbers of shape (n,); got shape {array.shape} of {array.dtype}")
    if n is not None and len(array) != n:
        raise InputError(f"{name} must hold one label for each of {n:,} examples; got {len(array):,}")
    if int(array.min()) < 0:
        raise InputError(f"{name} must not be negative; got {int(array.min())}: number the classes from 0")
    return array.astype(np.int64)


def as_classes(n_classes: int | None, *labels: Labels | None) -> int:
    """K: as given, or one more than the highest label; refuses labels beyond it."""
    highest = max((int(item.max()) for item in labels if item is not None and len(item)), default=-1)
    k = highest + 1 if n_classes is None else int(n_classes)
    if k < 2:
        raise InputError(f"n_classes must be at least 2; got {k}")
    if highest >= k:
        raise InputError(f"labels must lie below n_classes = {k}; got {highest}")
    return k


def as_probabilities(name: str, probs: ArrayLike, n: int | None = None, n_classes: int | None = None) -> Floats:
    """Rows (n, K) of probabilities, of sum 1 after their rounding is taken out."""
    array: NDArray[Any] = np.asarray(probs)
    if array.ndim != 2 or array.dtype.kind not in "biuf" or array.shape[1] < 2 or not len(array):
        raise InputError(f"{name} must be probabilities of shape (n, K); got shape {array.shape} of {array.dtype}")
    if n is not None and len(array) != n:
        raise InputError(f"{name} must have a row for each of {n:,} examples; got {len(array):,}")
    if n_classes is not None and array.shape[1] != n_classes:
        raise InputError(f"{name} must have {n_classes} columns, one a class; got {array.shape[1]}")
    rows = array.astype(np.float64)
    sums = rows.sum(axis=1)
    if not (np.isfinite(rows).all() and (rows >= 0).all()):
        raise InputError(f"{name} must be finite and nonnegative; apply a softmax to logits first")
    wrong = np.abs(sums - 1.0) > SUM_TOLERANCE * max(1.0, array.shape[1] / 1000)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(f"{name} must have rows of sum 1; row {row} has sum {sums[row]:.6g}")
    return np.asarray(rows / sums[:, None])


def standardised(x: NDArray[Any], train: NDArray[np.int64]) -> NDArray[Any]:
    """Features (N, d) for distances: 8-bit images as they are, others scaled; vectors to deviation 1 on train.

    Args:
        x: (N, H, W), (N, H, W, C) or (N, d).
        train: rows whose mean and deviation the scaling uses.

    Example:
        >>> standardised(np.array([[1.0, 50.0], [3.0, 50.0]]), np.array([0, 1])).round(6).tolist()
        [[-1.0, 0.0], [1.0, 0.0]]
    """
    flat = x.reshape(len(x), -1)
    if flat.dtype.kind != "f" and x.ndim > 2:
        return flat
    scaled = flat.astype(np.float64)
    # Dividing by the largest number first keeps squares of very large or very small ones representable.
    largest = np.abs(scaled).max(axis=0 if x.ndim == 2 else None)
    scaled /= np.where(largest > 0, largest, 1.0)
    if x.ndim == 2:
        deviation = scaled[train].std(axis=0)
        scaled -= scaled[train].mean(axis=0)
        # A feature that is constant up to rounding says nothing; dividing by its deviation would make it shout.
        scaled /= np.where(deviation > 1e-12, deviation, 1.0)
    return scaled
