"""Arguments of public functions: each kind is converted and checked here, once, and refused by its name.

Scalars: :func:`whole_number`, :func:`real_number`, :func:`one_of`, :func:`seconds`. Arrays: :func:`labels`,
:func:`class_count`, :func:`class_names`, :func:`column`, :func:`ids`, :func:`probabilities`, :func:`features`,
:func:`whole_numbers`, :func:`real_numbers`, :func:`right_or_wrong`. Paths: :func:`as_path`. The first argument of
each is the name of the value in messages. Private functions take what these return and check nothing. Text is
cleaned by :func:`clean_text`, once, where it is read.
"""

from __future__ import annotations

import math
import numbers
import operator
import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.errors import InputError


def whole_number(name: str, value: Any, least: int = 0, most: int | None = None) -> int:
    """An argument that must be a whole number, ``least`` to ``most``; NumPy's integers are, True and 2.0 are not.

    Example:
        >>> whole_number("folds", 5, 2)
        5
        >>> whole_number("folds", 1, 2)
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: folds must be a whole number of at least 2; got 1
    """
    try:
        whole = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        whole = least - 1
    if whole < least or (most is not None and whole > most):
        limit = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise InputError(f"must be a whole number {limit}; got {value!r}", argument=name)
    return whole


def real_number(name: str, value: Any, interval: str) -> float:
    """An argument that must be a number in an interval, such as "[0, 1)" or "(0, inf)"; True is not a number.

    Example:
        >>> real_number("warmup", 0.2, "[0, 1)")
        0.2
        >>> real_number("warmup", 1.0, "[0, 1)")
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: warmup must be a number of at least 0 and below 1; got 1.0
    """
    low, high = (float(end) for end in interval[1:-1].split(","))
    above, below = interval[0] == "(", interval[-1] == ")"
    real = not isinstance(value, bool) and isinstance(value, numbers.Real) and math.isfinite(value)
    if not real or not low <= value <= high or (above and value == low) or (below and value == high):
        limits = f"above {low:g}" if above else f"of at least {low:g}"
        limits += "" if math.isinf(high) else f" and below {high:g}" if below else f" and at most {high:g}"
        raise InputError(f"must be a number {limits}; got {value!r}", argument=name)
    return float(value)


def seconds(name: str, text: str) -> float:
    """A length of time such as 90s, 3m or 1h in seconds; a number alone is seconds.

    Example:
        >>> seconds("budget", "90s"), seconds("budget", "3m"), seconds("budget", "0.5h"), seconds("budget", "45")
        (90.0, 180.0, 1800.0, 45.0)
    """
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number = text.strip()
    unit = units.get(number[-1:], 0.0)
    try:
        value = float(number[:-1] if unit else number) * (unit or 1.0)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise InputError(f"must be a time such as 90s, 3m or 1h; got {text!r}", argument=name)
    return value


def one_of(name: str, value: Any, allowed: Collection[Any]) -> None:
    """Refuse an argument that is not one of a few values.

    Example:
        >>> one_of("split", "tset", ("train", "test"))
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: split must be one of train, test; got 'tset'
    """
    if value not in allowed:
        raise InputError(
            f"must be one of {', '.join(str(item) for item in allowed if item)}; got {value!r}", argument=name
        )


_ONE_COLUMN = "; of one-hot labels give {0}.argmax(axis=1), of several labels per example (multi-label) one column"


def labels(name: str, values: ArrayLike, n: int | None = None, n_classes: int | None = None) -> NDArray[np.int64]:
    """Class numbers (n,) of at least 0 and below ``n_classes``, as int64.

    Example:
        >>> labels("labels", [1, 0, 1], n=3)
        array([1, 0, 1])
        >>> labels("labels", [1, 0, 2], n_classes=2)
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: labels must be class numbers 0..1; got 2
    """
    array: NDArray[Any] = np.asarray(values)
    if array.ndim != 1 or (n is not None and len(array) != n):
        one_hot = array.ndim == 2 and array.shape[1] > 1 and (n is None or len(array) == n)
        raise InputError(
            f"must have shape ({'n' if n is None else n},), one class number for each example; got {array.shape}"
            + (_ONE_COLUMN.format("labels") if one_hot else ""),
            argument=name,
        )
    if array.dtype.kind not in "iu":
        remedy = ": save whole numbers, as labels.astype(int) makes them" if array.dtype.kind in "bf" else ""
        got = f"the text {str(array[0])!r}" if array.dtype.kind == "U" and len(array) else str(array.dtype)
        raise InputError(f"must be class numbers 0..C-1; got {got}{remedy}", argument=name)
    if not len(array):
        raise InputError("must not be empty", argument=name)
    lowest, highest = int(array.min()), int(array.max())
    if lowest < 0:
        raise InputError(f"must not be negative; got {lowest}: number the classes from 0", argument=name)
    if highest >= (np.iinfo(np.int64).max if n_classes is None else n_classes):
        last = "C-1" if n_classes is None else n_classes - 1
        raise InputError(f"must be class numbers 0..{last}; got {highest}", argument=name)
    return array.astype(np.int64)


def class_count(n_classes: int | None, *label_arrays: NDArray[np.int64] | None) -> int:
    """The number of classes: as given, or one more than the highest label; labels beyond it are refused.

    Example:
        >>> class_count(None, np.array([0, 2])), class_count(5, np.array([0, 2]))
        (3, 5)
    """
    highest = max((int(item.max()) for item in label_arrays if item is not None and len(item)), default=-1)
    count = whole_number("n_classes", highest + 1 if n_classes is None else n_classes, 2)
    if highest >= count:
        raise InputError(f"must lie below n_classes = {count}; got {highest}", argument="labels")
    return count


def class_names(name: str, values: Any) -> tuple[str, ...]:
    """Names of classes, each once; empty if None.

    Example:
        >>> class_names("class_names", ["cat", "dog"])
        ('cat', 'dog')
    """
    if values is None:
        return ()
    array = np.asarray(values if isinstance(values, np.ndarray) else list(values))
    if array.ndim != 1 or array.dtype.kind != "U" or not len(array):
        raise InputError(f"must be text of shape (C,); got {array.dtype} of shape {array.shape}", argument=name)
    return tuple(_distinct(name, array).tolist())


def column(name: str, values: NDArray[Any], n: int) -> NDArray[Any]:
    """One value for each of n examples, of any type; unsigned numbers as int64, to be joined with others.

    Example:
        >>> column("y", np.array([[1], [2]], dtype=np.uint8), 2)
        array([1, 2])
    """
    if values.shape == (n, 1):
        values = values[:, 0]
    if values.dtype.kind == "u" and values.size:
        if int(values.max()) > np.iinfo(np.int64).max:
            raise InputError(f"must be less than 2**63; got {int(values.max())}", argument=name)
        values = values.astype(np.int64)
    if values.shape != (n,):
        remedy = _ONE_COLUMN.format("y") if values.ndim == 2 and len(values) == n else ""
        raise InputError(
            f"must have shape ({n},), one value for each example; got {values.shape}{remedy}", argument=name
        )
    return values


def _distinct(name: str, texts: NDArray[np.str_]) -> NDArray[np.str_]:
    unique, counts = np.unique(texts, return_counts=True)
    if (counts > 1).any():
        raise InputError(
            f"must differ; {str(unique[np.argmax(counts > 1)])!r} occurs {int(counts.max())} times", argument=name
        )
    return texts


def ids(name: str, values: ArrayLike, n: int) -> NDArray[np.str_]:
    """Ids as text: one for each of n examples, none twice, none empty, without control characters.

    Example:
        >>> ids("ids", [7, 8], 2)
        array(['7', '8'], dtype='<U21')
    """
    array: NDArray[Any] = np.asarray(values)
    if array.dtype.kind in "OT":
        array = array.astype(np.str_)
    if array.shape != (n,) or array.dtype.kind not in "Uiu":
        raise InputError(
            f"must be text or integers of shape ({n},); got {array.dtype} of shape {array.shape}", argument=name
        )
    text = _distinct(name, array.astype(np.str_))
    listed = text.tolist()
    if "" in listed:
        raise InputError("must not be empty text", argument=name)
    if clean_text("".join(listed)) != "".join(listed):
        unsafe = next(item for item in listed if clean_text(item) != item)
        raise InputError(f"must not have control characters; got {unsafe!r}: remove them", argument=name)
    return text


def probabilities(
    name: str, values: ArrayLike, n: int | None = None, n_classes: int | None = None
) -> NDArray[np.float64]:
    """Rows (n, C) of class probabilities as float64, divided by their sums, which may miss 1 by float16's rounding.

    Example:
        >>> probabilities("probs", [[0.25, 0.75]], n_classes=2)
        array([[0.25, 0.75]])
        >>> probabilities("probs", [[0.2, 0.7]])
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: probs must have rows of sum 1; row 0 has sum 0.9
    """
    array: NDArray[Any] = np.asarray(values)
    if array.ndim != 2 or array.dtype.kind not in "biuf" or array.shape[1] < 2 or not len(array):
        raise InputError(
            f"must be probabilities of shape (n, C); got shape {array.shape} of {array.dtype}", argument=name
        )
    if n is not None and len(array) != n:
        raise InputError(f"must have one row for each of {n:,} examples; got {len(array):,}", argument=name)
    if n_classes is not None and array.shape[1] != n_classes:
        raise InputError(f"must have {n_classes} columns, one per class; got {array.shape[1]}", argument=name)
    rows = array.astype(np.float64)
    if not (np.isfinite(rows).all() and (rows >= 0).all()):
        raise InputError("must be finite and nonnegative; apply a softmax to logits first", argument=name)
    sums = rows.sum(axis=1)
    wrong = np.abs(sums - 1.0) > sum_tolerance(array.shape[1])
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(f"must have rows of sum 1; row {row} has sum {sums[row]:.6g}", argument=name)
    return np.asarray(rows / sums[:, None])


def whole_numbers(name: str, values: ArrayLike, n: int | None = None) -> NDArray[np.int64]:
    """An array of whole numbers of at least 0 as int64, of shape (n,) where n is given; 2.0 is one.

    Example:
        >>> whole_numbers("counts", [3, 4.0])
        array([3, 4])
    """
    array: NDArray[Any] = np.asarray(values)
    if n is not None and array.shape != (n,):
        raise InputError(f"must have shape ({n},); got {array.shape}", argument=name)
    if array.dtype.kind not in "iufb":
        raise InputError(f"must hold whole numbers; got values of type {array.dtype}", argument=name)
    with np.errstate(invalid="ignore"):
        wrong = ~(np.isfinite(array) & (array >= 0) & (array == np.floor(array)) & (array < 2.0**63))
    if wrong.any():
        raise InputError(f"must be whole numbers of at least 0; got {array[wrong].flat[0]}", argument=name)
    return array.astype(np.int64)


def real_numbers(name: str, values: ArrayLike, n: int | None = None) -> NDArray[np.float64]:
    """An array of finite numbers as float64, of shape (n,) where n is given.

    Example:
        >>> real_numbers("skill", [0.5, 1], n=2)
        array([0.5, 1. ])
    """
    try:
        array: NDArray[Any] = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise InputError(f"must be an array of numbers; {error}", argument=name) from None
    if n is not None and array.shape != (n,):
        raise InputError(f"must have shape ({n},), one number for each example; got {array.shape}", argument=name)
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise InputError("must hold finite numbers; drop or fill the others", argument=name)
    return array.astype(np.float64)


def features(name: str, values: ArrayLike) -> NDArray[Any]:
    """Flat rows (n, d) of finite numbers, one for each example, in the type that they came in.

    Example:
        >>> features("x", np.zeros((3, 2, 2), np.uint8)).shape
        (3, 4)
    """
    array: NDArray[Any] = np.asarray(values)
    if array.ndim < 2 or array.dtype.kind not in "biuf" or 0 in array.shape:
        raise InputError(
            f"must hold numbers, one row per example; got shape {array.shape} of {array.dtype}", argument=name
        )
    flat = array.reshape(len(array), -1)
    if flat.dtype.kind == "f" and not np.isfinite(flat).all():
        raise InputError("must be finite; got NaN or infinity: drop or fill such rows", argument=name)
    return flat


def sum_tolerance(n_classes: int) -> float:
    """How far the sum of C probabilities may be from 1: what rounding to float16 explains, twice.

    Rounding to float16 moves a number by at most 2⁻¹¹ of itself, or by 2⁻²⁵ where it is below 2⁻¹⁴; C of them
    together by 2⁻¹¹ + C·2⁻²⁵. It is taken twice, since the sum may have been off by as much before it was rounded.

    Example:
        >>> round(sum_tolerance(10), 6), round(sum_tolerance(1000), 6)
        (0.000977, 0.001036)
    """
    return 2.0**-10 + n_classes * 2.0**-24


def right_or_wrong(name: str, values: ArrayLike) -> NDArray[np.bool_]:
    """Give an array of right (1) and wrong (0) as booleans, or refuse other values."""
    array: NDArray[Any] = np.asarray(values)
    if array.dtype == np.bool_:
        return array
    if array.dtype.kind not in "iuf" or not np.isin(array, (0, 1)).all():
        raise InputError("must hold only right (1) and wrong (0)", argument=name)
    return array.astype(np.bool_)


def check_confidence(confidence: float) -> float:
    """A confidence level as a float; refused unless it lies between 0 and 1."""
    return real_number("confidence", confidence, "(0, 1)")


def as_path(name: str, value: object) -> Path:
    """A path from a string or path object; anything else is refused by the name of the argument.

    Example:
        >>> as_path("out", None)
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: out must be a path, as text or a path object; got None
    """
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else ""
    if not isinstance(text, str) or not text or "\0" in text:
        raise InputError(f"must be a path, as text or a path object; got {value!r:.100}", argument=name)
    return Path(text)


# Control characters (C0, C1), the two non-characters and lone surrogates: they end drawing libraries, break pages
# and tables, act on terminals, or cannot be encoded.
_UNSAFE = dict.fromkeys([*range(32), *range(127, 160), 0xFFFE, 0xFFFF, *range(0xD800, 0xE000)], "\ufffd")
_LINES = _UNSAFE | {letter: chr(letter) for letter in map(ord, "\t\n\r")}
_UNSAFE |= dict.fromkeys(map(ord, "\t\n\r"), " ")
UNSAFE_CELL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x{9f}\x{fffe}\x{ffff}]"  # the same of cells, for Arrow
_UNSAFE_LETTER = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]")


def clean_text(text: str, *, lines: bool = False) -> str:
    """Text without characters that no chart, page or table can have; done once, by the reader of a text.

    White space among them becomes a space, or stays where ``lines`` are allowed.

    Example:
        >>> clean_text("cat" + chr(7)) == "cat" + chr(0xFFFD), clean_text("two" + chr(10) + "lines")
        (True, 'two lines')
    """
    return text.translate(_LINES if lines else _UNSAFE) if _UNSAFE_LETTER.search(text) else text


def clean_names(what: str, names: Sequence[Any]) -> tuple[Any, ...]:
    """Names cleaned by :func:`clean_text`; those that differ in nothing else are refused.

    Example:
        >>> clean_names("models", ["a" + chr(9) + "b", "c"])
        ('a b', 'c')
    """
    if not _UNSAFE_LETTER.search("".join(name for name in names if isinstance(name, str))):
        return tuple(names)
    cleaned = tuple(clean_text(name) if isinstance(name, str) else name for name in names)
    if len(set(cleaned)) < len(cleaned):
        raise InputError(f"must differ without control characters; got {list(names)!r:.200}", argument=what)
    return cleaned


def clean_column(values: NDArray[Any]) -> NDArray[Any]:
    """A column cleaned by :func:`clean_text`, with its lines; numbers as they are."""
    if values.dtype.kind != "U" or not _UNSAFE_LETTER.search("".join(values.tolist())):
        return values
    return np.array([clean_text(text, lines=True) for text in values.tolist()])
