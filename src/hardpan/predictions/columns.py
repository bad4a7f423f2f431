"""What is known of the examples beside their predictions: ids, labels, split, class names."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.data.arrays import checked_ids, checked_labels
from hardpan.data.dataset import row_ids
from hardpan.errors import InputError

LARGEST = 2**31 - 1  # of a seed's or an epoch's number
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, slots=True, eq=False)
class Described:
    """Checked columns of N examples, and the names of C classes."""

    ids: NDArray[np.str_]
    labels: NDArray[np.int64] | None
    split: NDArray[np.str_] | None
    class_names: tuple[str, ...]


def described(
    where: str,
    n: int,
    classes: int,
    *,
    ids: ArrayLike | None,
    labels: ArrayLike | None,
    class_names: Sequence[str],
    split: ArrayLike | None,
) -> Described:
    """Check all columns of n examples at the door."""
    given = row_ids(n) if ids is None else checked_ids(f"{where}: ids", _text(ids), n)
    numbered = None
    if labels is not None:
        numbered = checked_labels(f"{where}: labels", by_name(np.asarray(labels), class_names), n)
        if numbered.max() >= classes:
            raise InputError(f"{where}: labels must be within 0..{classes - 1}; got {int(numbered.max())}")
    names = tuple(str(name) for name in class_names)
    if names and (len(names) != classes or len(set(names)) != classes):
        raise InputError(f"{where}: class_names must be {classes} different names; got {len(set(names))}")
    return Described(given, numbered, checked_split(f"{where}: split", split, n), names)


def by_name(labels: NDArray[Any], class_names: Sequence[str]) -> NDArray[Any]:
    """Labels as numbers where they are given as names of classes; others as they are.

    Example:
        >>> by_name(np.array(["cat", "ant"]), ("ant", "cat")).tolist()
        [1, 0]
    """
    if labels.dtype.kind != "U" or not set(np.unique(labels).tolist()) <= set(class_names):
        return labels
    number = {name: place for place, name in enumerate(class_names)}
    return np.array([number[name] for name in labels.reshape(-1).tolist()], dtype=np.int64).reshape(labels.shape)


def checked_split(what: str, split: ArrayLike | None, n: int) -> NDArray[np.str_] | None:
    """Give the split as text, or refuse it."""
    if split is None:
        return None
    text = np.asarray(split)
    if text.shape != (n,) or not set(np.unique(text).tolist()) <= set(SPLITS):
        raise InputError(f"{what} must be one of {', '.join(SPLITS)} for each of {n} examples")
    return text.astype(np.str_)


def numbers(what: str, given: Sequence[int] | None, n: int) -> tuple[int, ...]:
    """Numbers of n seeds or epochs: those given, each once, or 0, 1, ....

    Example:
        >>> numbers("seeds", None, 3), numbers("seeds", [7, 8], 2)
        ((0, 1, 2), (7, 8))
    """
    if given is None:
        return tuple(range(n))
    found = tuple(int(number) for number in given)
    if len(found) != n or len(set(found)) != n or min(found) < 0 or max(found) > LARGEST:
        raise InputError(f"{what} must be {n} different numbers from 0 to {LARGEST}; got {list(found)}")
    return found


def common_epochs(pairs: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """The epochs that every seed has, in order, of pairs (seed, epoch).

    Example:
        >>> common_epochs([(0, 1), (0, 2), (1, 2)])
        (2,)
    """
    of_seed: dict[int, set[int]] = {}
    for seed, epoch in pairs:
        of_seed.setdefault(seed, set()).add(epoch)
    return tuple(sorted(set.intersection(*of_seed.values()))) if of_seed else ()


def run_number(what: str, given: SupportsIndex) -> int:
    """The number of one seed or epoch, 0 or more: a store lists no other, so one written under it would be lost.

    Example:
        >>> run_number("seed", np.int64(3))
        3
    """
    try:
        number = operator.index(given)
    except TypeError:
        number = -1
    if not 0 <= number <= LARGEST:
        raise InputError(f"{what} must be a whole number within 0..{LARGEST}; got {given!r}")
    return number


def _text(ids: ArrayLike) -> NDArray[Any]:
    array = np.asarray(ids)
    return array.astype(np.str_) if array.dtype.kind in "OT" else array
