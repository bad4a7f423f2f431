"""What every reader asks of examples, labels, class names and ids, in one place.

``what`` names the array in the message, such as ``data.npz: y_train``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError

_ROWS_AT_ONCE = 4096


def checked_x(what: str, x: NDArray[Any]) -> NDArray[Any]:
    """Give examples back in little-endian order, or refuse what cannot be measured."""
    if x.dtype.kind not in "biuf":
        raise InputError(f"{what} must hold numbers; got {x.dtype}")
    if x.ndim < 2 or x.ndim > 4:
        raise InputError(
            f"{what} must have shape (N, d), (N, H, W) or (N, H, W, C); got {x.shape}"
            + ("; for one feature reshape it to (N, 1)" if x.ndim == 1 else "")
        )
    if 0 in x.shape:
        raise InputError(f"{what} must not be empty; got shape {x.shape}")
    if x.dtype.kind == "f":
        for start in range(0, len(x), _ROWS_AT_ONCE):
            finite = np.isfinite(x[start : start + _ROWS_AT_ONCE]).reshape(-1, int(np.prod(x.shape[1:])))
            if not finite.all():
                row = start + int(np.argmin(finite.all(axis=1)))
                raise InputError(f"{what} must be finite; row {row} holds NaN or infinity: drop or fill such rows")
    return x.astype(x.dtype.newbyteorder("<"), copy=False)


def checked_labels(what: str, labels: NDArray[Any], n: int) -> NDArray[np.int64]:
    """Give labels as int64, or refuse what is not one class number of at least 0 for each of n examples."""
    if labels.shape != (n,):
        raise InputError(f"{what} must have shape ({n},), one label for each example; got {labels.shape}")
    if labels.dtype.kind not in "iu":
        remedy = ": save whole numbers, as labels.astype(int) makes them" if labels.dtype.kind in "bf" else ""
        got = f"the text {str(labels[0])!r}" if labels.dtype.kind == "U" else str(labels.dtype)
        raise InputError(f"{what} must hold integers 0..C-1; got {got}{remedy}")
    lowest, highest = int(labels.min()), int(labels.max())
    if lowest < 0:
        raise InputError(f"{what} must not be negative; got {lowest}: number the classes from 0")
    if highest > np.iinfo(np.int64).max:
        raise InputError(f"{what} must be class numbers 0..C-1; got {highest}")
    return labels.astype(np.int64)


def checked_class_names(what: str, names: NDArray[Any] | None, labels: NDArray[np.int64] | None) -> tuple[str, ...]:
    """Give the C class names: those given, or the class numbers as text where every class is there."""
    used = np.unique(labels) if labels is not None else np.empty(0, dtype=np.int64)
    if names is None:
        expected = np.arange(len(used))
        if not np.array_equal(used, expected):
            gap = int(expected[np.argmax(used != expected)])
            raise InputError(
                f"{what.rpartition(':')[0]}: labels must be 0..C-1 without gaps; no example has label {gap}, "
                f"but one has {int(used[-1])}: renumber the classes, or give class_names"
            )
        return tuple(str(label) for label in used.tolist())
    if names.ndim != 1 or names.dtype.kind != "U":
        raise InputError(f"{what} must be text of shape (C,); got {names.dtype} of shape {names.shape}")
    if used.size and used[-1] >= len(names):
        raise InputError(
            f"{what} holds {len(names)} names, but a label is {int(used[-1])}; give a name to every class"
        )
    return tuple(names.tolist())


def checked_ids(what: str, ids: NDArray[Any], n: int) -> NDArray[np.str_]:
    """Give ids as text, or refuse them: one for each example, none twice, none empty."""
    if ids.shape != (n,) or ids.dtype.kind not in "Uiu":
        raise InputError(f"{what} must be text or integers of shape ({n},); got {ids.dtype} of shape {ids.shape}")
    text = ids.astype(np.str_)
    unique, counts = np.unique(text, return_counts=True)
    if (counts > 1).any():
        raise InputError(
            f"{what} must differ; {str(unique[np.argmax(counts > 1)])!r} is given {int(counts.max())} times"
        )
    if "" in unique:
        raise InputError(f"{what} must not be empty text")
    return text
