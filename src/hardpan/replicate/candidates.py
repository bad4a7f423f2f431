"""Tables of annotated images: id, class, selection frequency, votes, sub-class."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import tables
from hardpan.errors import InputError

_NAMES = {
    "id": ("id", "image_id", "image"),
    "class": ("class", "class_name", "label"),
    "frequency": ("frequency", "selection_frequency"),
    "votes": ("votes", "n"),
    "subclass": ("subclass", "sub_class", "keyword"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Annotated:
    """Images with their selection frequencies, one entry an image and target class.

    Attributes:
        ids: (N,) text.
        classes: (N,) text.
        frequencies: (N,) fractions.
        votes: (N,) how many workers saw each.
        subclasses: (N,) text, "" where there is none.
    """

    ids: NDArray[np.str_]
    classes: NDArray[np.str_]
    frequencies: NDArray[np.float64]
    votes: NDArray[np.int64]
    subclasses: NDArray[np.str_] = field(default_factory=lambda: np.zeros(0, dtype=np.str_))

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, chosen: NDArray[Any]) -> Annotated:
        """The entries of a mask or of row numbers."""
        columns = (self.ids, self.classes, self.frequencies, self.votes, self.subclasses)
        return Annotated(*(column[chosen] for column in columns))


def annotated(table: Any, what: str = "candidates", *, need_ids: bool = True) -> Annotated:
    """Read a table of annotated images: rows, columns, a data frame, a CSV or Parquet file, or an Annotated.

    Columns are id, class, frequency (or selection_frequency), votes, and optionally sub-class (or keyword). Where
    there are no votes, the requirement of at least so many votes cannot be checked, and is not.

    Example:
        >>> annotated({"id": ["a", "b"], "class": ["cat", "cat"], "frequency": [0.9, 0.4], "votes": [10, 10]}).votes
        array([10, 10])
    """
    if isinstance(table, Annotated):
        return table
    from_csv = isinstance(table, (str, os.PathLike)) and tables.suffix_of(Path(table)) in (".csv", ".tsv")
    given = tables.read_columns(table, text=from_csv)
    columns = {meaning: _find(given, names) for meaning, names in _NAMES.items()}
    for meaning in ("id", "class", "frequency") if need_ids else ("class", "frequency"):
        if columns[meaning] is None:
            raise InputError(f"{what}: column {meaning!r} is missing; the columns are {', '.join(given)}")
    classes, frequencies = columns["class"] or [], columns["frequency"] or []
    n = len(frequencies)
    found = Annotated(
        np.array([str(v) for v in columns["id"] or range(n)], dtype=np.str_),
        np.array([str(v) for v in classes], dtype=np.str_),
        _numbers("frequency", frequencies, what),
        _whole(columns["votes"], n, what),
        np.array(["" if v is None else str(v) for v in columns["subclass"] or [""] * n], dtype=np.str_),
    )
    if not ((found.frequencies >= 0) & (found.frequencies <= 1)).all():
        raise InputError(f"{what}: frequencies must lie between 0 and 1")
    if need_ids and len(np.unique(found.ids)) < n:
        names, counts = np.unique(found.ids, return_counts=True)
        raise InputError(f"{what}: id {str(names[np.argmax(counts)])!r} is there more than once")
    return found


UNKNOWN_VOTES = np.iinfo(np.int64).max


def _numbers(name: str, values: Sequence[Any], what: str) -> NDArray[np.float64]:
    try:
        return np.array([float(str(value).replace(",", "")) for value in values], dtype=np.float64)
    except ValueError as error:
        raise InputError(f"{what}: column {name!r} must hold numbers ({error})") from error


def _whole(values: Sequence[Any] | None, n: int, what: str) -> NDArray[np.int64]:
    if values is None:
        return np.full(n, UNKNOWN_VOTES, dtype=np.int64)
    read = _numbers("votes", values, what)
    if not ((read >= 0) & (read == np.floor(read)) & (read < 2**53)).all():
        raise InputError(f"{what}: votes must be whole numbers of at least 0")
    return read.astype(np.int64)


def _find(columns: Any, names: Sequence[str]) -> Sequence[Any] | None:
    plain = {re.sub(r"[\s-]+", "_", str(name).strip().lower()): name for name in reversed(list(columns))}
    return next((list(columns[plain[name]]) for name in names if name in plain), None)
