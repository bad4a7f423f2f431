"""Arrays to a dataset, in memory and in npz files: what every reader checks about examples, labels, names and ids.

An npz file (or mapping) has ``x`` with an optional ``y``, or ``x_train, y_train, x_test, y_test``, and may have
``x_validation, y_validation``, ``class_names`` and ``ids`` (rows of train, validation, test); beside ``x`` also
``split``, the words train, validation and test, one for each example. Common other names are understood: ``X``,
``data``, ``images`` or ``features`` for x, ``labels`` or ``target`` for y, ``train_images`` for x_train, ``val``
for validation. ``what`` and ``where`` name an array in messages, such as ``data.npz: y_train``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import arguments
from hardpan.data.dataset import SPLIT_WORDS, SPLITS, Dataset, DataWarning, content_ids
from hardpan.data.images import images_channels_last
from hardpan.errors import InputError, few
from hardpan.files import npz_header, read_npy, read_npz
from hardpan.tables import MISSING, is_frame

MOST_SPARSE = 20_000_000  # numbers of a sparse matrix that is read as a full one
_BLOCK = 4096  # examples at a time, so that a large set is never held as floats
X_NAMES = ("x", "data", "images", "features", "inputs", "image", "embeddings", "embedding")
Y_NAMES = ("y", "labels", "label", "target", "targets")


def is_array_file(path: Path) -> bool:
    """A file whose name ends in .npz or .npy."""
    return path.suffix.lower() in (".npz", ".npy")


def read_array_file(path: Path, *, class_names: Sequence[str] | None = None) -> Dataset:
    """Read an npz file by its keys, or an npy file of examples without labels."""
    where = f"{path}: "
    if path.suffix.lower() == ".npy":
        return from_arrays(read_npy(path), class_names=class_names, name=path.stem, where=where, source=path.name)
    keys = list(npz_header(path))
    known = {key for key in keys if npz_array_meaning(key) is not None}
    arrays = read_npz(path, known)
    return from_mapping(arrays, keys, class_names=class_names, name=path.stem, where=where, source=path.name)


def from_mapping(arrays: Mapping[str, Any], keys: Sequence[str], **options: Any) -> Dataset:
    """A dataset of arrays by name; ``keys`` are all names there are, for the message if some are missing."""
    where = options.get("where", "")
    parts: dict[str, dict[str, Any]] = {}
    key_of: dict[str, str] = {}
    for key, value in arrays.items():
        meaning = npz_array_meaning(key)
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
    if {"indptr", "indices", "shape"} <= set(keys):
        raise InputError(
            f"{where}is a sparse matrix of SciPy, which has no labels; load it and give hardpan.audit((x, y))"
        )
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


def npz_array_meaning(key: str) -> tuple[str, str] | None:
    """Split and content that the name of an array says; "other" for names, ids and split.

    Example:
        >>> npz_array_meaning("train_images"), npz_array_meaning("y_val"), npz_array_meaning("probs")
        (('train', 'x'), ('validation', 'y'), None)
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
    parts: list[tuple[str, Any, Any]] = [("", x, y)]
    if x_test is not None or y_test is not None:
        parts = [("train", x, y), ("test", x_test, y_test)]
        if x_test is None or (y is None) != (y_test is None):
            missing = "x_test" if x_test is None else "y" if y is None else "y_test"
            raise InputError(f"{where}{missing} is missing; give x and y of both train and test")
        if split is not None:
            raise InputError(f"{where}split does not apply together with x_test, which is the test set")
    if is_frame(x) and (y is not None or x_test is not None):
        from hardpan.data.tabular import from_frames

        return from_frames(parts, split, options)
    return _from_parts(parts, split=split, where=where, **options)


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
    xs, ys = list[NDArray[Any]](), list[NDArray[Any]]()
    for key, x, y in parts:
        x_name, y_name = (f"{where}{what}_{key}" if key else f"{where}{what}" for what in "xy")
        texts_of_part = _texts_of(x)
        xs.append(checked_x(x_name, as_array(x_name, x)) if texts_of_part is None else texts_of_part)
        if xs[-1].shape[1:] != xs[0].shape[1:] or xs[-1].dtype != xs[0].dtype:
            raise InputError(
                f"{x_name} must be like x_{parts[0][0]}, {xs[0].dtype} of shape {xs[0].shape[1:]}; got "
                f"{xs[-1].dtype} of shape {xs[-1].shape[1:]}"
            )
        if y is not None:
            ys.append(as_array(y_name, y))
            if ys[-1].dtype.kind not in "biufU":
                raise InputError(f"must be class numbers or text; got {ys[-1].dtype}", argument=y_name)
            if (ys[-1].dtype.kind == "U") != (ys[0].dtype.kind == "U"):
                raise InputError(
                    f"{y_name} must be text or class numbers, as y_{parts[0][0]} is; got {ys[-1].dtype}"
                )
            ys[-1] = arguments.column(y_name, ys[-1], len(xs[-1]))
    counts = list(map(len, xs))
    names = arguments.class_names(f"{where}class_names", class_names)
    examples, warnings = images_channels_last(f"{where}x", xs[0] if len(xs) == 1 else np.concatenate(xs))
    n = len(examples)
    if not n:
        raise InputError("must not be empty", argument=f"{where}x")
    texts = examples if examples.dtype == object else None
    if texts is not None:
        examples = np.zeros((n, 0))
    labels = np.concatenate(ys) if ys else None
    numbers, names, noticed = number_labels(f"{where}y", labels, names, where)
    official: NDArray[np.str_] | None = None
    if len(parts) > 1:
        official = np.repeat(np.array([key for key, _, _ in parts]), counts)
    elif split is not None:
        official = split_of_array(f"{where}split", as_array(f"{where}split", split), n)
    columns = {
        str(key): arguments.column(f"{where}metadata[{key!r}]", np.asarray(values), n)
        for key, values in (metadata or {}).items()
    }
    columns.setdefault("row", np.concatenate([np.arange(count) for count in counts]))
    features: tuple[str, ...] = ()
    if feature_names is not None:
        features = tuple(map(str, np.atleast_1d(as_array(f"{where}feature_names", feature_names))))
    if features and (examples.ndim != 2 or len(features) != examples.shape[1]):
        raise InputError(
            f"must be {examples.shape[1]} names, one for each column of x; got {len(features)}",
            argument=f"{where}feature_names",
        )
    return Dataset(
        name=name,
        x=examples,
        ids=content_ids(examples, texts)
        if ids is None
        else arguments.ids(f"{where}ids", as_array(f"{where}ids", ids), n),
        labels=numbers,
        class_names=names,
        split=official,
        metadata=columns,
        source=source,
        feature_names=features,
        warnings=(*warnings, *noticed, *array_column_warnings(examples, features)),
        texts=texts,
    )


def _texts_of(x: Any) -> NDArray[Any] | None:
    """A column of texts as Python strings; None of anything else."""
    if isinstance(x, np.ndarray) and x.ndim == 1 and x.dtype.kind == "U":
        return x.astype(object)
    listed = x if isinstance(x, (list, tuple)) else getattr(x, "tolist", lambda: ())() if np.ndim(x) == 1 else ()
    if not len(listed) or not all(isinstance(item, str) for item in listed):
        return None
    texts = np.empty(len(listed), dtype=object)
    texts[:] = listed
    return texts


def as_array(what: str, values: Any) -> NDArray[Any]:
    """A NumPy array of anything like one (tensors too), or an error that names it."""
    if isinstance(values, np.ma.MaskedArray):
        if np.ma.is_masked(values):
            raise InputError("must not be a masked array; drop or fill what is masked", argument=what)
        values = values.data
    if hasattr(values, "tocsr") and hasattr(values, "nnz"):  # SciPy's sparse matrices
        if math.prod(values.shape) > MOST_SPARSE:
            shape = " × ".join(f"{size:,}" for size in values.shape)
            raise InputError(
                f"is a sparse matrix of {shape}, {8 * math.prod(values.shape) / 1e9:,.1f} GB of numbers; give the "
                "texts themselves, of which n-grams are taken, or sklearn's TruncatedSVD(256).fit_transform(x)",
                argument=what,
            )
        values = values.toarray()
    if hasattr(values, "detach") and hasattr(values, "cpu"):
        values = values.detach().cpu()
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:  # ragged lists, objects that refuse
        raise InputError(f"must be an array; {str(error).partition(chr(10))[0][:160]}", argument=what) from error
    if array.dtype.kind == "O":
        kinds = set(map(type, array.ravel().tolist()))
        if kinds and all(issubclass(kind, str) for kind in kinds):
            return array.astype(np.str_)
        if kinds and all(issubclass(kind, (bool, int, float)) for kind in kinds):
            return np.array(array.tolist())
        first = type(array.ravel()[0]).__name__ if array.size else "nothing"
        raise InputError(f"must be numbers or text; got Python objects such as {first}", argument=what)
    if array.dtype.kind != "S":
        return array
    try:
        return np.char.decode(array, "utf-8")
    except UnicodeDecodeError as error:
        raise InputError("must be numbers or text; got bytes that are not UTF-8", argument=what) from error


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
    what: str, values: NDArray[Any] | None, names: tuple[str, ...] = (), where: str = "", rows: int = 0
) -> tuple[NDArray[np.int64] | None, tuple[str, ...], tuple[DataWarning, ...]]:
    """Class numbers 0..C-1 and the C names; ``rows``: how many rows the values are of, if each is given once.

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
                "numbers with decimals are a regression target, and hardpan audits classification; cut them into "
                "classes first (pandas.qcut)",
                argument=what,
            )
        highest = float(np.abs(values.astype(np.float64)).max())
        if highest >= 2.0**63:
            raise InputError(f"must be class numbers; got {highest:g}", argument=what)
        values = values.astype(np.int64)
    if values.dtype.kind in "Ub":
        labels, known = _number_text(what, values.astype(np.str_), names, rows or len(values))
        first: dict[str, str] = {}
        plain = [(first.setdefault("".join(name.split()).casefold(), name), name) for name in known]
        pairs = [f"{other!r} and {name!r}" for other, name in plain if other != name]
        noticed = []
        if pairs and not names:
            message = (
                f"classes differ only in case or spaces: {few(pairs)}; if they are one class, write them alike"
            )
            noticed.append(DataWarning(message, "similar_classes"))
        if joined := _joined_labels(known):
            message = (
                f"{few(list(map(repr, joined)), 3)} are classes of their own, though their parts are classes, too; "
                "of several labels per example (multi-label) make a column of each, and audit one at a time"
            )
            noticed.append(DataWarning(message, "joined_labels"))
        return labels, known, tuple(noticed)
    if values.dtype.kind not in "iu":
        raise InputError(f"must be class numbers or text; got {values.dtype}", argument=what)
    return _number_integers(what, values, names, where, rows or len(values))


def _joined_labels(names: Sequence[str]) -> list[str]:
    """Class names that are other class names with a separator between them.

    Example:
        >>> _joined_labels(["cat", "dog", "cat;dog", "red, white"])
        ['cat;dog']
    """
    whole = set(names)
    parts = {name: [word.strip() for word in re.split("[;|,]", name)] for name in names}
    return [name for name, words in parts.items() if len(words) > 1 and set(words) <= whole]


def _number_text(
    what: str, values: NDArray[np.str_], names: tuple[str, ...], rows: int
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    used, numbers = np.unique(values, return_inverse=True)
    if used[0] == "":
        row = int(np.argmax(values == ""))
        raise InputError(f"{what} has no label in row {row}; drop the rows without a label")
    if not names:
        gap = next((name for name in used.tolist() if name in MISSING), None)
        if gap is not None:
            place = f" in row {int(np.argmax(values == gap))}" if len(values) == rows else ""
            raise InputError(
                f"{what} is {gap!r}{place}, as missing values are written; drop such rows, or list it in "
                "class_names if it is a class"
            )
        if len(used) > max(100, rows // 2):
            raise InputError(
                f"{what} has {len(used):,} different values in {rows:,} rows; give the column of classes as label"
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
    what: str, values: NDArray[Any], names: tuple[str, ...], where: str, rows: int
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
            return *_number_text(what, values.astype(np.str_), names, rows), ()
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
    if len(used) > max(100, rows // 5) and highest - lowest >= len(used):
        raise InputError(
            f"{what} has {len(used):,} different numbers in {rows:,} rows, from {lowest} to {highest}; "
            "labels are classes: give the column of classes, or list them in class_names"
        )
    return numbers.astype(np.int64), tuple(map(str, used.tolist())), (_renumbered_labels(used),)


def _renumbered_labels(used: NDArray[Any]) -> DataWarning:
    values = f"{int(used[0])}..{int(used[-1])}" if len(used) > 4 else ", ".join(map(str, used.tolist()))
    return DataWarning(
        f"the labels are {values}, not 0..{len(used) - 1}: class number 0 is label {int(used[0])}; check that "
        "predictions have their columns in this order",
        "renumbered_labels",
    )


def split_of_array(what: str, values: NDArray[Any], n: int) -> NDArray[np.str_]:
    """A split column with the names "train", "validation", "test"; "val", "dev" and "training" are understood."""
    arguments.column(what, values, n)
    words = [str(value).strip().lower() for value in values.tolist()]
    strange = next((word for word in words if word not in SPLIT_WORDS), None)
    if strange is not None:
        raise InputError(
            f"must be train, validation or test; got {strange!r}: rename the values, or drop the column",
            argument=what,
        )
    split = np.array([SPLIT_WORDS[word] for word in words])
    if "test" not in split:  # as in folders: the labelled validation set is what models are scored on
        split[split == "validation"] = "test"
    present = [name for name in SPLITS if (split == name).any()]
    if not {"train", "test"} <= set(present):
        raise InputError(f"must have rows of train and of test; got only {' and '.join(present)}", argument=what)
    return split


def array_column_warnings(x: NDArray[Any], names: Sequence[str] = ()) -> tuple[DataWarning, ...]:
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
        message = f"constant, so without information: {few(constant)}"
        noticed.append(DataWarning(message, "constant", tuple(constant)))
    codes = _missing_codes(x)
    if codes:
        listed = few([f"{label[column]} ({value:g}, {count:,} rows)" for column, value, count in codes])
        message = f"may stand for a missing value: {listed}; if so, leave those cells empty"
        noticed.append(DataWarning(message, "missing_code", tuple(label[column] for column, _, _ in codes)))
    if len(x) >= 20:
        numbered = tuple(label[column] for column in range(x.shape[1]) if is_identifier(x[:, column]))
        if numbered:
            message = f"whole numbers that differ in every row: {few(numbered)}; if they number the rows, drop them"
            noticed.append(DataWarning(message, "identifier", numbered))
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
