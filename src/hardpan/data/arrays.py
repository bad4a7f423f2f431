"""Arrays to a dataset, in memory and in npz files: what every reader checks about examples, labels, names and ids.

An npz file (or mapping) has ``x`` with an optional ``y``, or ``x_train, y_train, x_test, y_test``, and may have
``x_validation, y_validation``, ``class_names`` and ``ids`` (rows of train, validation, test); beside ``x`` also
``split``, the words train, validation and test, one for each example. Common other names are understood: ``X``,
``data``, ``images`` or ``features`` for x, ``labels`` or ``target`` for y, ``train_images`` for x_train, ``val``
for validation. ``what`` and ``where`` name an array in messages, such as ``data.npz: y_train``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import arguments
from hardpan.data.dataset import SPLITS, Dataset, DataWarning, content_ids
from hardpan.errors import InputError, few
from hardpan.files import npz_header, read_npy, read_npz
from hardpan.tables import MISSING, is_frame, read_table

_BLOCK = 4096  # examples at a time, so that a large set is never held as floats
LARGEST_THUMBNAIL = 64  # pixels a side
DARKEST_QUARTER = 64
CHANNELS = (1, 3, 4)
X_NAMES = ("x", "data", "images", "features", "inputs", "image", "embeddings", "embedding")
Y_NAMES = ("y", "labels", "label", "target", "targets")
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


def is_array_file(path: Path) -> bool:
    """A file whose name ends in .npz or .npy."""
    return path.suffix.lower() in (".npz", ".npy")


def read_array_file(path: Path, *, class_names: Sequence[str] | None = None) -> Dataset:
    """Read an npz file by its keys, or an npy file of examples without labels."""
    where = f"{path}: "
    if path.suffix.lower() == ".npy":
        return from_arrays(read_npy(path), class_names=class_names, name=path.stem, where=where, source=path.name)
    keys = list(npz_header(path))
    known = {key for key in keys if array_meaning(key) is not None}
    arrays = read_npz(path, known)
    return from_mapping(arrays, keys, class_names=class_names, name=path.stem, where=where, source=path.name)


def from_mapping(arrays: Mapping[str, Any], keys: Sequence[str], **options: Any) -> Dataset:
    """A dataset of arrays by name; ``keys`` are all names there are, for the message if some are missing."""
    where = options.get("where", "")
    parts: dict[str, dict[str, Any]] = {}
    key_of: dict[str, str] = {}
    for key, value in arrays.items():
        meaning = array_meaning(key)
        if meaning is None:
            continue
        split, what = meaning
        if what in parts.setdefault(split, {}):
            raise InputError(f"{where}{key_of[split + what]} and {key} are both {what}; keep one of them")
        parts[split][what] = value
        key_of[split + what] = key
    other = parts.pop("other", {})
    splits = [split for split in SPLITS if split in parts]
    if "" in parts and splits:
        raise InputError(
            f"{where}has x beside {few(sorted(key_of.values()))}; keep either x and y, or train and test"
        )
    if splits and "split" in other:
        raise InputError(f"{where}split does not apply together with x_test, which is the test set")
    expected = "give x_train, y_train, x_test, y_test, or x with an optional y"
    if not parts or (splits and not {"train", "test"} <= set(splits)):
        raise InputError(f"{where}x_train or x_test is missing (there are {few(sorted(keys))}); {expected}")
    for split, arrays_of in parts.items():
        for what in ("x", "y") if split else ("x",):
            if what not in arrays_of:
                missing = f"{what}_{split}" if split else what
                raise InputError(f"{where}{missing} is missing (there are {few(sorted(keys))}); {expected}")
    return _from_parts(
        [(split, parts[split]["x"], parts[split].get("y")) for split in ("", *SPLITS) if split in parts],
        ids=other.get("ids"),
        split=other.get("split"),
        class_names=options.pop("class_names", None) or other.get("class_names"),
        feature_names=None if other.get("feature_names") is None else np.asarray(other["feature_names"]).tolist(),
        **options,
    )


def array_meaning(key: str) -> tuple[str, str] | None:
    """Split and content that the name of an array says; "other" for names, ids and split.

    Example:
        >>> array_meaning("x"), array_meaning("train_images"), array_meaning("y_val"), array_meaning("probs")
        (('', 'x'), ('train', 'x'), ('validation', 'y'), None)
    """
    name = key.lower()
    if name in ("class_names", "target_names", "label_names"):
        return "other", "class_names"
    if name in ("ids", "feature_names", "split"):
        return "other", name
    first, _, last = name.partition("_")
    split = ""
    if first in SPLIT_WORDS:
        split, name = SPLIT_WORDS[first], last
    elif name.rpartition("_")[2] in SPLIT_WORDS:
        split, name = SPLIT_WORDS[name.rpartition("_")[2]], name.rpartition("_")[0]
    if name in X_NAMES:
        return split, "x"
    return (split, "y") if name in Y_NAMES else None


def from_arrays(
    x: ArrayLike,
    y: ArrayLike | None = None,
    *,
    x_test: ArrayLike | None = None,
    y_test: ArrayLike | None = None,
    split: ArrayLike | None = None,
    where: str = "",
    **options: Any,
) -> Dataset:
    """See :meth:`Dataset.from_arrays`; ``where`` is put before the names of arguments in messages."""
    if x_test is None and y_test is None:
        if is_frame(x) and y is not None:
            return _from_frames([("", x, y)], split, options)
        return _from_parts([("", x, y)], split=split, where=where, **options)
    if x_test is None or (y is None) != (y_test is None):
        missing = "x_test" if x_test is None else "y" if y is None else "y_test"
        raise InputError(f"{where}{missing} is missing; give x and y of both train and test")
    if split is not None:
        raise InputError(f"{where}split does not apply together with x_test, which is the test set")
    parts = [("train", x, y), ("test", x_test, y_test)]
    return _from_frames(parts, None, options) if is_frame(x) else _from_parts(parts, where=where, **options)


def _from_frames(parts: Sequence[tuple[str, Any, Any]], split: Any, options: Mapping[str, Any]) -> Dataset:
    """A dataset of data frames of features and labels apart from them."""
    from hardpan.data.tabular import DataOptions, from_tables

    tables: dict[str, list[Any]] = {}
    label = "label"
    for key, frame, y in parts:
        table = read_table(frame)
        _check_index(f"y_{key}" if key else "y", frame, y)
        while label in table.column_names:
            label += "_"
        labels = arguments.column(f"y_{key}" if key else "y", as_array("y", y), table.num_rows)
        tables[key] = [table.append_column(label, [labels])]
    n = sum(table.num_rows for listed in tables.values() for table in listed)
    official = None if split is None else split_column("split", as_array("split", split), n)
    if options.get("feature_names") is not None:
        raise InputError(
            "does not apply to a data frame, whose columns have names; leave it out", argument="feature_names"
        )
    settings = DataOptions(label=label, class_names=options.get("class_names"), name=options.get("name", "frame"))
    dataset, ids = from_tables(tables, settings, split=official, source="frame"), options.get("ids")
    metadata = {
        str(key): arguments.column(f"metadata[{key!r}]", np.asarray(values), n)
        for key, values in (options.get("metadata") or {}).items()
    }
    return dataclasses.replace(
        dataset,
        ids=dataset.ids if ids is None else arguments.ids("ids", as_array("ids", ids), n),
        metadata={**dataset.metadata, **metadata},
    )


def _check_index(what: str, x: Any, y: Any) -> None:
    """Refuse labels whose pandas index has the rows of x in another order; by position they would be wrong."""
    mine: Any = getattr(x, "index", None)
    theirs: Any = getattr(y, "index", None)
    if not hasattr(mine, "equals") or not hasattr(theirs, "equals") or mine.equals(theirs):
        return
    if len(mine) == len(theirs) and mine.is_unique and set(mine) == set(theirs):
        raise InputError(f"{what} has the index of x in another order; give {what}.loc[x.index]")


def _from_parts(
    parts: Sequence[tuple[str, Any, Any]],
    *,
    ids: ArrayLike | None = None,
    class_names: Any = None,
    split: ArrayLike | None = None,
    metadata: Mapping[str, ArrayLike] | None = None,
    feature_names: Sequence[str] | None = None,
    name: str = "arrays",
    where: str = "",
    source: str = "arrays",
) -> Dataset:
    """A dataset of x and y by split, joined in this order."""
    x_names = [f"{where}x_{key}" if key else f"{where}x" for key, _, _ in parts]
    y_names = [f"{where}y_{key}" if key else f"{where}y" for key, _, _ in parts]
    xs = [checked_x(argument, as_array(argument, x)) for argument, (_, x, _) in zip(x_names, parts, strict=True)]
    ys = [as_array(argument, y) for argument, (_, _, y) in zip(y_names, parts, strict=True) if y is not None]
    for argument, x in zip(x_names, xs, strict=True):
        if x.shape[1:] != xs[0].shape[1:] or x.dtype != xs[0].dtype:
            raise InputError(
                f"{argument} must be like x_{parts[0][0]}, {xs[0].dtype} of shape {xs[0].shape[1:]}; got "
                f"{x.dtype} of shape {x.shape[1:]}"
            )
    for argument, y in zip(y_names, ys, strict=False):
        if y.dtype.kind not in "biufU":
            raise InputError(f"must be class numbers or text; got {y.dtype}", argument=argument)
        if (y.dtype.kind == "U") != (ys[0].dtype.kind == "U"):
            raise InputError(f"{argument} must be text or class numbers, as y_{parts[0][0]} is; got {y.dtype}")
    counts = [len(x) for x in xs]
    ys = [arguments.column(argument, y, n) for argument, y, n in zip(y_names, ys, counts, strict=False)]
    names = arguments.class_names(f"{where}class_names", class_names)
    examples, warnings = channels_last(f"{where}x", xs[0] if len(xs) == 1 else np.concatenate(xs))
    n = len(examples)
    labels = np.concatenate(ys) if ys else None
    numbers, names, noticed = number_labels(f"{where}y", labels, names, where)
    if len(parts) > 1:
        official: NDArray[np.str_] | None = np.repeat(np.array([key for key, _, _ in parts]), counts)
    else:
        official = None if split is None else split_column(f"{where}split", as_array(f"{where}split", split), n)
    columns = {
        str(key): arguments.column(f"{where}metadata[{key!r}]", np.asarray(values), n)
        for key, values in (metadata or {}).items()
    }
    columns.setdefault("row", np.concatenate([np.arange(count) for count in counts]))
    features = (
        ()
        if feature_names is None
        else tuple(map(str, np.atleast_1d(as_array(f"{where}feature_names", feature_names))))
    )
    if features and (examples.ndim != 2 or len(features) != examples.shape[1]):
        raise InputError(
            f"must be {examples.shape[1]} names, one for each column of x; got {len(features)}",
            argument=f"{where}feature_names",
        )
    return Dataset(
        name=name,
        x=examples,
        ids=content_ids(examples) if ids is None else arguments.ids(f"{where}ids", as_array(f"{where}ids", ids), n),
        labels=numbers,
        class_names=names,
        split=official,
        metadata=columns,
        source=source,
        feature_names=features,
        warnings=(*warnings, *noticed, *column_warnings(examples, features)),
    )


def as_array(what: str, values: Any) -> NDArray[Any]:
    """A NumPy array of anything like one (tensors too), or an error that names it."""
    if isinstance(values, np.ma.MaskedArray):
        if np.ma.is_masked(values):
            raise InputError("must not be a masked array; drop or fill what is masked", argument=what)
        values = values.data
    if hasattr(values, "detach") and hasattr(values, "cpu"):
        values = values.detach().cpu()
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:  # ragged lists, objects that refuse
        raise InputError(f"must be an array; {str(error).partition(chr(10))[0][:160]}", argument=what) from error
    if array.dtype.kind == "O":
        present = [item for item in array.ravel().tolist() if item is not None]
        if present and len(present) == array.size and all(isinstance(item, str) for item in present):
            return array.astype(np.str_)
        if present and len(present) == array.size and all(isinstance(item, (bool, int, float)) for item in present):
            return np.array(array.tolist())
        raise InputError(
            f"must be numbers or text; got Python objects such as {_type_of_first_object(array)}", argument=what
        )
    if array.dtype.kind != "S":
        return array
    try:
        return np.char.decode(array, "utf-8")
    except UnicodeDecodeError as error:
        raise InputError("must be numbers or text; got bytes that are not UTF-8", argument=what) from error


def _type_of_first_object(array: NDArray[Any]) -> str:
    return "nothing" if array.size == 0 else type(array.ravel()[0]).__name__


def checked_x(what: str, x: NDArray[Any]) -> NDArray[Any]:
    """Examples in little-endian order; refuses what cannot be measured."""
    if x.dtype.kind not in "biuf":
        raise InputError(f"must be numbers; got {x.dtype}", argument=what)
    if x.ndim < 2 or x.ndim > 4:
        raise InputError(
            f"{what} must have shape (N, d), (N, H, W) or (N, H, W, C); got {x.shape}"
            + ("; for one feature reshape it to (N, 1)" if x.ndim == 1 else "")
        )
    if 0 in x.shape:
        raise InputError(f"must not be empty; got shape {x.shape}", argument=what)
    if x.dtype.kind == "f":
        for start in range(0, len(x), _BLOCK):
            finite = np.isfinite(x[start : start + _BLOCK]).reshape(-1, int(np.prod(x.shape[1:])))
            if not finite.all():
                row = start + int(np.argmin(finite.all(axis=1)))
                raise InputError(
                    f"must be finite; row {row} has NaN or infinity: drop or fill such rows", argument=what
                )
    return x.astype(x.dtype.newbyteorder("<"), copy=False)


def number_labels(
    what: str, values: NDArray[Any] | None, names: tuple[str, ...] = (), where: str = ""
) -> tuple[NDArray[np.int64] | None, tuple[str, ...], tuple[DataWarning, ...]]:
    """Class numbers 0..C-1 and the C names.

    Text is numbered in the order of ``names``, else of the alphabet. Numbers 0..C-1 stay. Other whole numbers
    (1..C; -1 and 1; 3 and 7) are names of classes, with a warning; numbers from 0 with a gap are refused, because
    the class without examples may exist.

    Example:
        >>> number_labels("y", np.array([1, 2, 1]))[:2]
        (array([0, 1, 0]), ('1', '2'))
    """
    if values is None or values.size == 0:
        return None, names, ()
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            raise InputError(f"{what} has no label in row {row}; drop the rows without a label")
        if (values != np.round(values)).any():
            raise InputError(
                f"must be class numbers or text; got "
                f"{float(values[np.argmax(values != np.round(values))]):g}: "
                "numbers with decimals are not classes; cut them into classes first",
                argument=what,
            )
        highest = float(np.abs(values.astype(np.float64)).max())
        if highest >= 2.0**63:
            raise InputError(f"must be class numbers; got {highest:g}", argument=what)
        values = values.astype(np.int64)
    if values.dtype.kind in "Ub":
        labels, known = _number_text(what, values.astype(np.str_), names)
        return labels, known, () if names else _similar_classes(known)
    if values.dtype.kind not in "iu":
        raise InputError(f"must be class numbers or text; got {values.dtype}", argument=what)
    return _number_integers(what, values, names, where)


def _number_text(
    what: str, values: NDArray[np.str_], names: tuple[str, ...]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    used, numbers = np.unique(values, return_inverse=True)
    if used[0] == "":
        row = int(np.argmax(values == ""))
        raise InputError(f"{what} has no label in row {row}; drop the rows without a label")
    if not names:
        gap = next((name for name in used.tolist() if name in MISSING), None)
        if gap is not None:
            row = int(np.argmax(values == gap))
            raise InputError(
                f"{what} is {gap!r} in row {row}, as missing values are written; drop such rows, or list it in "
                "class_names if it is a class"
            )
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
            f"{what}: label {unknown[0]!r} is not among class_names ({few(names)}); add it, or omit class_names"
        )
    return np.array([position[str(name)] for name in used], dtype=np.int64)[numbers], names


def _number_integers(
    what: str, values: NDArray[Any], names: tuple[str, ...], where: str
) -> tuple[NDArray[np.int64], tuple[str, ...], tuple[DataWarning, ...]]:
    used, numbers = np.unique(values, return_inverse=True)
    lowest, highest = int(used[0]), int(used[-1])
    if highest > np.iinfo(np.int64).max:
        raise InputError(f"must be class numbers 0..C-1; got {highest}", argument=what)
    if lowest < 0 and used.tolist() != [-1, 1]:
        raise InputError(
            f"must not be negative; got {lowest}: number the classes from 0 (if {lowest} means no label, "
            "drop those rows)",
            argument=what,
        )
    if names:
        if lowest >= 0 and highest < len(names):
            return values.astype(np.int64), names, ()
        if lowest == 1 and highest == len(names):
            return values.astype(np.int64) - 1, names, (_renumbered_labels(used),)
        if set(map(str, used.tolist())) <= set(names):
            return *_number_text(what, values.astype(np.str_), names), ()
        raise InputError(
            f": {where}{len(names)} names, but a label is {highest}; give a name to every class",
            argument="class_names",
        )
    if lowest == 0:
        gap = np.flatnonzero(used != np.arange(len(used)))
        if gap.size:
            raise InputError(
                f"must be 0..C-1 without gaps; no example has label {int(gap[0])}, but one has {highest}: "
                "renumber the classes, or give class_names",
                argument=what,
            )
        return values.astype(np.int64), tuple(map(str, used.tolist())), ()
    # Classes that are numbered in some other way have no gaps, or examples enough; a quantity has neither.
    if len(used) > max(100, len(values) // 5) and highest - lowest >= len(used):
        raise InputError(
            f"{what} has {len(used):,} different numbers in {len(values):,} rows, from {lowest} to {highest}; "
            "labels are classes: give the column of classes, or list them in class_names"
        )
    return numbers.astype(np.int64), tuple(map(str, used.tolist())), (_renumbered_labels(used),)


def _similar_classes(names: Sequence[str]) -> tuple[DataWarning, ...]:
    """A warning about names of classes that differ only in case or in spaces."""
    first: dict[str, str] = {}
    pairs = []
    for name in names:
        other = first.setdefault("".join(name.split()).casefold(), name)
        if other != name:
            pairs.append(f"{other!r} and {name!r}")
    if not pairs:
        return ()
    message = f"classes differ only in case or spaces: {few(pairs)}; if they are one class, write them alike"
    return (DataWarning(message, "similar_classes"),)


def _renumbered_labels(used: NDArray[Any]) -> DataWarning:
    values = f"{int(used[0])}..{int(used[-1])}" if len(used) > 4 else ", ".join(map(str, used.tolist()))
    return DataWarning(
        f"the labels are {values}, not 0..{len(used) - 1}: class number 0 is label {int(used[0])}; check that "
        "predictions have their columns in this order",
        "renumbered_labels",
    )


def split_column(what: str, values: NDArray[Any], n: int) -> NDArray[np.str_]:
    """A split column with the names "train", "validation", "test"; "val", "dev" and "training" are understood."""
    arguments.column(what, values, n)
    words = [str(value).strip().lower() for value in values.tolist()]
    strange = next((row for row, word in enumerate(words) if word not in SPLIT_WORDS), None)
    if strange is not None:
        raise InputError(
            f"must be train, validation or test; row {strange} has {str(values[strange])!r}: rename the "
            "values, or drop the column",
            argument=what,
        )
    split = np.array([SPLIT_WORDS[word] for word in words])
    if "test" not in split:  # as in folders: the labelled validation set is what models are scored on
        split[split == "validation"] = "test"
    present = [name for name in SPLITS if (split == name).any()]
    if not {"train", "test"} <= set(present):
        raise InputError(f"must have rows of train and of test; got only {' and '.join(present)}", argument=what)
    return split


def channels_last(what: str, x: NDArray[Any]) -> tuple[NDArray[Any], tuple[DataWarning, ...]]:
    """Images (N, C, H, W) as (N, H, W, C), or (N, H, W) if they have one channel; other arrays as they are.

    Example:
        >>> channels_last("x", np.zeros((5, 3, 32, 32)))[0].shape
        (5, 32, 32, 3)
    """
    if x.ndim != 4 or x.shape[1] not in CHANNELS or x.shape[3] in CHANNELS or x.shape[2] <= 4:
        return x, ()
    turned = x[:, 0] if x.shape[1] == 1 else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    message = f"{what} has channels first, shape {x.shape}; it was transposed to {turned.shape}"
    return turned, (DataWarning(message, "channels_first"),)


def column_warnings(x: NDArray[Any], names: Sequence[str] = ()) -> tuple[DataWarning, ...]:
    """Columns of feature vectors that carry nothing, or that look like a row number.

    A column is reported as an identifier if all its N >= 20 values are whole numbers that differ, and cover no more
    than 10 N (a shuffled row number) or rise or fall from row to row.
    """
    if x.ndim != 2 or len(x) < 2:
        return ()
    label = [str(name) for name in names] if names else [str(column) for column in range(x.shape[1])]
    same = (x == x[:1]) if x.dtype.kind != "f" else (x == x[:1]) | (np.isnan(x) & np.isnan(x[:1]))
    constant = [label[column] for column in np.flatnonzero(same.all(axis=0))]
    noticed = []
    if constant:
        noticed.append(
            DataWarning(f"constant, so without information: {few(constant)}", "constant", tuple(constant))
        )
    coded = [f"{label[column]} ({value:g}, {count:,} rows)" for column, value, count in _missing_codes(x)]
    if coded:
        message = f"may stand for a missing value: {few(coded)}; if so, leave those cells empty"
        noticed.append(DataWarning(message, "missing_code", tuple(coded)))
    if len(x) >= 20:
        numbered = tuple(label[column] for column in range(x.shape[1]) if is_identifier(x[:, column]))
        if numbered:
            noticed.append(
                DataWarning(
                    f"whole numbers that differ in every row: {few(numbered)}; if they number the rows, drop them",
                    "identifier",
                    numbered,
                )
            )
    return tuple(noticed)


def _missing_codes(x: NDArray[Any]) -> list[tuple[int, float, int]]:
    """Column, value and count of outermost values such as -999, farther from the others than these reach."""
    codes = []
    for ends in (np.fmin.reduce(x, axis=0), np.fmax.reduce(x, axis=0)):
        nines = (np.abs(ends.astype(np.float64)) >= 99) & (np.abs(ends.astype(np.float64)) < 1e12)
        for column in np.flatnonzero(nines):
            value = float(ends[column])
            if value % 1 or set(str(int(abs(value)))) != {"9"}:
                continue
            values = x[:, column].astype(np.float64)
            rest = values[(values != value) & ~np.isnan(values)]
            count = int(np.count_nonzero(values == value))
            if len(rest) and count > 1 and np.abs(rest - value).min() > rest.max() - rest.min():
                codes.append((int(column), value, count))
    return codes


def is_identifier(column: NDArray[Any]) -> bool:
    """Whether all values are whole numbers that differ, and are dense or in order; of at least 20 rows."""
    head = column[:20]
    if (head != np.round(head)).any() or len(np.unique(head)) < len(head):  # cheap, and settles nearly all columns
        return False
    if (column != np.round(column)).any() or len(np.unique(column)) < len(column):
        return False
    steps = np.diff(column.astype(np.float64))
    return bool(
        float(column.max()) - float(column.min()) < 10 * len(column) or (steps > 0).all() or (steps < 0).all()
    )


def as_bytes(images: NDArray[Any], low: float, high: float) -> NDArray[np.uint8]:
    """Images as levels of grey or colour, 0..255: from ``low``, black, to ``high``, white.

    Bytes stay as they are, unless they never leave the darkest quarter: then they are counts (digits have 0..16),
    not levels.

    Args:
        images: (n, ...) numbers of any type.
        low: the darkest number that such images have.
        high: the lightest.

    Example:
        >>> as_bytes(np.array([[0.0, 1.0, 2.0]]), 0.0, 2.0)
        array([[  0, 128, 255]], dtype=uint8)
    """
    if images.dtype == np.uint8 and high >= DARKEST_QUARTER:
        return np.ascontiguousarray(images)
    result = np.empty(images.shape, dtype=np.uint8)
    span = high - low if high > low else 1.0
    for start in range(0, len(images), _BLOCK):
        rows = slice(start, start + _BLOCK)
        scaled = (images[rows].astype(np.float32) - low) / span
        result[rows] = np.rint(255 * scaled.clip(0, 1))
    return result
