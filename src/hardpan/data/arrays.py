"""Arrays to a dataset: what every reader checks about examples, labels, class names and ids.

``what`` names the array in the message, such as ``data.npz: y_train``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.data.dataset import SPLITS, Dataset, DataWarning, content_ids
from hardpan.errors import InputError

_BLOCK = 4096
CHANNELS = (1, 3, 4)
SPLIT_KEYS = ("x_train", "y_train", "x_test", "y_test")


def from_arrays(
    x: ArrayLike,
    y: ArrayLike | None = None,
    *,
    x_test: ArrayLike | None = None,
    y_test: ArrayLike | None = None,
    ids: ArrayLike | None = None,
    class_names: Sequence[str] | None = None,
    split: ArrayLike | None = None,
    metadata: Mapping[str, ArrayLike] | None = None,
    feature_names: Sequence[str] | None = None,
    name: str = "arrays",
    where: str = "",
    source: str = "arrays",
) -> Dataset:
    """See :meth:`Dataset.from_arrays`; ``where`` is put before the names of arguments in messages."""
    official = x_test is not None or y_test is not None
    x_name, y_name = (f"{where}x_train", f"{where}y_train") if official and where else (f"{where}x", f"{where}y")
    examples = checked_x(x_name, as_array(x_name, x))
    labels = None if y is None else checked_length(y_name, as_array(y_name, y), len(examples))
    counts = [len(examples)]
    given_split = None
    if official:
        if x_test is None or (y is None) != (y_test is None):
            missing = f"{where}x_test" if x_test is None else y_name if y is None else f"{where}y_test"
            raise InputError(f"{missing} is missing; give x and y of both train and test")
        if split is not None:
            raise InputError("split cannot be given together with x_test, which is the test set")
        test = checked_x(f"{where}x_test", as_array(f"{where}x_test", x_test))
        if test.shape[1:] != examples.shape[1:] or test.dtype != examples.dtype:
            raise InputError(
                f"{where}x_test must be like {x_name.removeprefix(where)}, {examples.dtype} of shape "
                f"{examples.shape[1:]}; got {test.dtype} of shape {test.shape[1:]}"
            )
        counts.append(len(test))
        given_split = np.repeat(np.array(["train", "test"]), counts)
        if labels is not None and y_test is not None:
            more = checked_length(f"{where}y_test", as_array(f"{where}y_test", y_test), len(test))
            if (labels.dtype.kind == "U") != (more.dtype.kind == "U") or "u" in (
                labels.dtype.kind,
                more.dtype.kind,
            ):
                raise InputError(
                    f"{y_name} and {where}y_test must both be text or both class numbers; got {labels.dtype} and "
                    f"{more.dtype}"
                )
            labels = np.concatenate([labels, more])
        examples = np.concatenate([examples, test])
    elif split is not None:
        given_split = checked_split(f"{where}split", np.asarray(split), len(examples))
    examples, warnings = channels_last(f"{where}x", examples)
    numbers, names, noticed = number_labels(y_name, labels, class_names, where)
    columns = {
        str(key): checked_length(f"{where}metadata[{key!r}]", np.asarray(values), len(examples))
        for key, values in (metadata or {}).items()
    }
    columns.setdefault("row", np.concatenate([np.arange(count) for count in counts]))
    features = checked_feature_names(f"{where}feature_names", feature_names, examples)
    return Dataset(
        name=name,
        x=examples,
        ids=content_ids(examples)
        if ids is None
        else checked_ids(f"{where}ids", as_array("ids", ids), len(examples)),
        labels=numbers,
        class_names=names,
        split=given_split,
        metadata=columns,
        source=source,
        feature_names=features,
        warnings=(*warnings, *noticed, *column_warnings(examples, features)),
    )


def as_array(what: str, values: Any) -> NDArray[Any]:
    """A NumPy array of anything like one (tensors too), or an error that names it."""
    if hasattr(values, "detach") and hasattr(values, "cpu"):
        values = values.detach().cpu()
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:  # ragged lists, objects that refuse
        raise InputError(f"{what} must be an array; {str(error).partition(chr(10))[0][:160]}") from error
    if array.dtype.kind == "O":
        present = [item for item in array.ravel().tolist() if item is not None]
        if present and len(present) == array.size and all(isinstance(item, str) for item in present):
            return array.astype(np.str_)
        if present and len(present) == array.size and all(isinstance(item, (bool, int, float)) for item in present):
            return np.array(array.tolist())
        raise InputError(f"{what} must hold numbers or text; got Python objects such as {_sample(array)}")
    return array.astype(np.str_) if array.dtype.kind == "S" else array


def _sample(array: NDArray[Any]) -> str:
    return "nothing" if array.size == 0 else type(array.ravel()[0]).__name__


def checked_x(what: str, x: NDArray[Any]) -> NDArray[Any]:
    """Examples in little-endian order; refuses what cannot be measured."""
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
        for start in range(0, len(x), _BLOCK):
            finite = np.isfinite(x[start : start + _BLOCK]).reshape(-1, int(np.prod(x.shape[1:])))
            if not finite.all():
                row = start + int(np.argmin(finite.all(axis=1)))
                raise InputError(f"{what} must be finite; row {row} has NaN or infinity: drop or fill such rows")
    return x.astype(x.dtype.newbyteorder("<"), copy=False)


def checked_length(what: str, values: NDArray[Any], n: int) -> NDArray[Any]:
    """Values of shape (n,); unsigned numbers as int64, so that they can be joined with others."""
    if values.shape == (n, 1):
        values = values[:, 0]
    if values.dtype.kind == "u" and values.size and int(values.max()) <= np.iinfo(np.int64).max:
        values = values.astype(np.int64)
    if values.shape != (n,):
        raise InputError(f"{what} must have shape ({n},), one value for each example; got {values.shape}")
    return values


def checked_labels(what: str, labels: NDArray[Any], n: int) -> NDArray[np.int64]:
    """Labels as int64; refuses what is not one class number of at least 0 for each of n examples."""
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


def number_labels(
    what: str, values: NDArray[Any] | None, class_names: Any = None, where: str = ""
) -> tuple[NDArray[np.int64] | None, tuple[str, ...], tuple[DataWarning, ...]]:
    """Class numbers 0..C-1 and the C names.

    Text is numbered in the order of ``class_names``, else of the alphabet. Numbers 0..C-1 stay. Other whole numbers
    (1..C; -1 and 1; 3 and 7) are names of classes, with a warning; numbers from 0 with a gap are refused, because
    the class without examples may exist.

    Example:
        >>> number_labels("y", np.array([1, 2, 1]))[:2]
        (array([0, 1, 0]), ('1', '2'))
    """
    names = checked_class_names(f"{where}class_names", class_names)
    if values is None or values.size == 0:
        return None, names, ()
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            raise InputError(f"{what} has no label in row {row}; drop the rows without a label")
        if (values != np.round(values)).any():
            raise InputError(
                f"{what} must hold class numbers or text; got "
                f"{float(values[np.argmax(values != np.round(values))]):g}: "
                "numbers with decimals are not classes; cut them into classes first"
            )
        values = values.astype(np.int64)
    if values.dtype.kind in "Ub":
        return *_number_text(what, values.astype(np.str_), names), ()
    if values.dtype.kind not in "iu":
        raise InputError(f"{what} must hold class numbers or text; got {values.dtype}")
    return _number_integers(what, values, names, where)


def _number_text(
    what: str, values: NDArray[np.str_], names: tuple[str, ...]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    used, numbers = np.unique(values, return_inverse=True)
    if used[0] == "":
        row = int(np.argmax(values == ""))
        raise InputError(f"{what} has no label in row {row}; drop the rows without a label")
    if not names:
        if len(used) > max(100, len(values) // 2):
            raise InputError(
                f"{what} has {len(used):,} different values in {len(values):,} rows; give the column of classes as "
                f"label"
            )
        return numbers.astype(np.int64), tuple(used.tolist())
    position = {name: number for number, name in enumerate(names)}
    unknown = [str(name) for name in used if str(name) not in position]
    if unknown:
        raise InputError(
            f"{what}: label {unknown[0]!r} is not among class_names ({_few(names)}); add it, or omit class_names"
        )
    return np.array([position[str(name)] for name in used], dtype=np.int64)[numbers], names


def _number_integers(
    what: str, values: NDArray[Any], names: tuple[str, ...], where: str
) -> tuple[NDArray[np.int64], tuple[str, ...], tuple[DataWarning, ...]]:
    used, numbers = np.unique(values, return_inverse=True)
    lowest, highest = int(used[0]), int(used[-1])
    if highest > np.iinfo(np.int64).max:
        raise InputError(f"{what} must be class numbers 0..C-1; got {highest}")
    if lowest < 0 and used.tolist() != [-1, 1]:
        raise InputError(
            f"{what} must not be negative; got {lowest}: number the classes from 0 (if {lowest} means no label, "
            f"drop "
            "those rows)"
        )
    if names:
        if lowest >= 0 and highest < len(names):
            return values.astype(np.int64), names, ()
        if lowest == 1 and highest == len(names):
            return values.astype(np.int64) - 1, names, (_renumbered(used),)
        if set(map(str, used.tolist())) <= set(names):
            return *_number_text(what, values.astype(np.str_), names), ()
        raise InputError(
            f"{where}class_names has {len(names)} names, but a label is {highest}; give a name to every class"
        )
    if lowest == 0:
        gap = np.flatnonzero(used != np.arange(len(used)))
        if gap.size:
            raise InputError(
                f"{what} must be 0..C-1 without gaps; no example has label {int(gap[0])}, but one has {highest}: "
                "renumber the classes, or give class_names"
            )
        return values.astype(np.int64), tuple(map(str, used.tolist())), ()
    if len(used) > max(100, len(values) // 2):
        raise InputError(
            f"{what} has {len(used):,} different numbers in {len(values):,} rows, from {lowest} to {highest}; "
            f"labels "
            "are classes: give the column of classes"
        )
    return numbers.astype(np.int64), tuple(map(str, used.tolist())), (_renumbered(used),)


def _renumbered(used: NDArray[Any]) -> DataWarning:
    values = f"{int(used[0])}..{int(used[-1])}" if len(used) > 4 else ", ".join(map(str, used.tolist()))
    return DataWarning(
        f"the labels are {values}, not 0..{len(used) - 1}: class number 0 is label {int(used[0])}; check that "
        "predictions have their columns in this order",
        "renumbered_labels",
    )


def checked_class_names(what: str, names: Any) -> tuple[str, ...]:
    """Class names as a tuple of different texts; empty if None."""
    if names is None:
        return ()
    values = np.asarray(names if isinstance(names, np.ndarray) else list(names))
    if values.ndim != 1 or values.dtype.kind != "U" or not len(values):
        raise InputError(f"{what} must be text of shape (C,); got {values.dtype} of shape {values.shape}")
    used, counts = np.unique(values, return_counts=True)
    if (counts > 1).any():
        raise InputError(
            f"{what} must differ; {str(used[np.argmax(counts > 1)])!r} occurs {int(counts.max())} times"
        )
    return tuple(values.tolist())


def checked_ids(what: str, ids: NDArray[Any], n: int) -> NDArray[np.str_]:
    """Ids as text: one for each example, none twice, none empty."""
    if ids.shape != (n,) or ids.dtype.kind not in "Uiu":
        raise InputError(f"{what} must be text or integers of shape ({n},); got {ids.dtype} of shape {ids.shape}")
    text = ids.astype(np.str_)
    unique, counts = np.unique(text, return_counts=True)
    if (counts > 1).any():
        raise InputError(
            f"{what} must differ; {str(unique[np.argmax(counts > 1)])!r} occurs {int(counts.max())} times"
        )
    if "" in unique:
        raise InputError(f"{what} must not be empty text")
    return text


SPLIT_WORDS = {
    "train": "train",
    "training": "train",
    "test": "test",
    "testing": "test",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
}


def checked_split(what: str, values: NDArray[Any], n: int) -> NDArray[np.str_]:
    """A split column with the names "train", "validation", "test"; "val", "dev" and "training" are understood."""
    checked_length(what, values, n)
    words = [str(value).strip().lower() for value in values.tolist()]
    strange = next((row for row, word in enumerate(words) if word not in SPLIT_WORDS), None)
    if strange is not None:
        raise InputError(
            f"{what} must be train, validation or test; row {strange} has {str(values[strange])!r}: rename the "
            f"values, "
            "or drop the column"
        )
    split = np.array([SPLIT_WORDS[word] for word in words])
    present = [name for name in SPLITS if (split == name).any()]
    if not {"train", "test"} <= set(present):
        raise InputError(f"{what} must have rows of train and of test; got only {' and '.join(present)}")
    return split


def checked_feature_names(what: str, names: Sequence[str] | None, x: NDArray[Any]) -> tuple[str, ...]:
    """Names of the columns of x, one for each."""
    if names is None:
        return ()
    if x.ndim != 2 or len(names) != x.shape[1]:
        raise InputError(f"{what} must be {x.shape[1]} names, one for each column of x; got {len(names)}")
    return tuple(map(str, names))


def channels_last(what: str, x: NDArray[Any]) -> tuple[NDArray[Any], tuple[DataWarning, ...]]:
    """Images (N, C, H, W) as (N, H, W, C), or (N, H, W) if they have one channel; other arrays as they are.

    Example:
        >>> channels_last("x", np.zeros((5, 3, 32, 32)))[0].shape
        (5, 32, 32, 3)
    """
    if x.ndim != 4 or x.shape[1] not in CHANNELS or x.shape[3] in CHANNELS or x.shape[2] <= 4:
        return x, ()
    turned = x[:, 0] if x.shape[1] == 1 else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    message = f"{what} has channels first, shape {x.shape}; it was turned to {turned.shape}"
    return turned, (DataWarning(message, "channels_first"),)


def column_warnings(x: NDArray[Any], names: Sequence[str] = ()) -> tuple[DataWarning, ...]:
    """Columns of feature vectors that carry nothing, or that look like a row number.

    A column is reported as an identifier if all its N >= 20 values are whole numbers that differ, and cover no more
    than 10 N (a shuffled row number) or rise or fall from row to row.
    """
    if x.ndim != 2 or len(x) < 2:
        return ()
    label = [str(name) for name in names] if names else [str(column) for column in range(x.shape[1])]
    constant = [label[column] for column in np.flatnonzero((x == x[:1]).all(axis=0))]
    found = []
    if constant:
        found.append(
            DataWarning(f"constant, so without information: {_few(constant)}", "constant", tuple(constant))
        )
    if len(x) >= 20:
        numbered = tuple(label[column] for column in range(x.shape[1]) if _is_identifier(x[:, column]))
        if numbered:
            found.append(
                DataWarning(
                    f"looks like a row number or an identifier, not a feature: {_few(numbered)}; if so, drop it",
                    "identifier",
                    numbered,
                )
            )
    return tuple(found)


def _is_identifier(column: NDArray[Any]) -> bool:
    head = column[:20]
    if (head != np.round(head)).any() or len(np.unique(head)) < len(head):  # cheap, and settles nearly all columns
        return False
    if (column != np.round(column)).any() or len(np.unique(column)) < len(column):
        return False
    steps = np.diff(column.astype(np.float64))
    return bool(
        float(column.max()) - float(column.min()) < 10 * len(column) or (steps > 0).all() or (steps < 0).all()
    )


def _few(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more
