"""Questions to the table of examples: which rows pass the filters, in which order, a page at a time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hardpan.auditing.examples import Examples
from hardpan.errors import InputError

MOST_CHOICES = 1000  # a text column with more distinct values is searched, not chosen from
BINS = 40
KEPT_ANSWERS = 16
KEPT_ORDERS = 6

KINDS = ("number", "flag", "choice", "text")
OPERATIONS = {
    "number": ("at_least", "at_most", "known", "unknown"),
    "flag": ("is",),
    "choice": ("any_of", "known", "unknown"),
    "text": ("contains", "known", "unknown"),
}


@dataclass(frozen=True, slots=True)
class Column:
    """What a reader can ask of a column: its kind, the range of its numbers or the choices there are."""

    name: str
    kind: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition: a column, an operation of its kind, and the value."""

    column: str
    operation: str
    value: Any = None


class Explorer:
    """Answers questions over a table of examples, keeping the latest orders so that paging is instant.

    Example:
        >>> table = pa.table({"id": ["a", "b", "c"], "confusion": [0.5, 2.0, 1.0]})
        >>> explorer = Explorer(Examples(table))
        >>> rows = explorer.order((Filter("confusion", "at_least", 0.9),), "confusion", descending=True)
        >>> [row["id"] for row in explorer.rows(rows[:10])]
        ['b', 'c']
    """

    def __init__(self, examples: Examples) -> None:
        self.table = examples.table.combine_chunks()
        self.thumbnails = examples.thumbnails
        self.columns = {name: _described(name, self.table[name]) for name in self.table.column_names}
        self._codes = {c.name: _codes(self.table[c.name], c) for c in self.columns.values() if c.kind == "choice"}
        self._answers: OrderedDict[Any, NDArray[np.int64]] = OrderedDict()
        self._orders: dict[tuple[str, bool], NDArray[np.int64]] = {}
        self._lock = threading.Lock()

    def order(self, filters: Sequence[Filter], sort: str = "", *, descending: bool = False) -> NDArray[np.int64]:
        """Row numbers that pass every filter, sorted: unknown values last, ties in table order."""
        if sort and sort not in self.columns:
            raise InputError(f"sort: there is no column {sort!r}; columns: {', '.join(self.columns)}")
        key = (tuple((item.column, item.operation, repr(item.value)) for item in filters), sort, descending)
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
                return self._answers[key]
        found = self._whole_order(sort, descending)
        if filters:
            found = found[self._passing(filters)[found]]
        with self._lock:
            self._answers[key] = found
            while len(self._answers) > KEPT_ANSWERS:
                self._answers.popitem(last=False)
        return found

    def rows(self, numbers: NDArray[np.int64]) -> list[dict[str, Any]]:
        """The rows of those numbers, with their number as ``row``."""
        taken = self.table.take(pa.array(numbers)).to_pylist()
        return [{"row": int(number)} | row for number, row in zip(numbers, taken, strict=True)]

    def histogram(self, column: str, numbers: NDArray[np.int64]) -> dict[str, Any]:
        """Counts of a column's values among those rows: 40 bins of a column of numbers, or counts by choice."""
        described = self._column(column)
        values = self.table[column].combine_chunks().take(pa.array(numbers))
        if described.kind == "number":
            known = _floats(values)
            known = known[np.isfinite(known)]
            if described.low is None or described.high is None:
                return {"edges": [], "counts": []}
            high = described.high if described.high > described.low else described.low + 1.0
            counts, edges = np.histogram(known, BINS, (described.low, high))
            return {"edges": edges.tolist(), "counts": counts.tolist()}
        counted = pc.value_counts(values.cast(pa.string())).to_pylist()
        ranked = sorted(counted, key=lambda item: -item["counts"])[:BINS]
        return {"choices": [item["values"] for item in ranked], "counts": [item["counts"] for item in ranked]}

    def _column(self, name: str) -> Column:
        if name not in self.columns:
            raise InputError(f"column: there is no {name!r}; columns: {', '.join(self.columns)}")
        return self.columns[name]

    def _passing(self, filters: Sequence[Filter]) -> NDArray[np.bool_]:
        """Whether each row passes every filter."""
        passing = np.ones(self.table.num_rows, dtype=bool)
        for item in filters:
            column = self._column(item.column)
            _check(column, item)
            if item.operation == "any_of":
                wanted = np.array([choice in set(item.value) for choice in column.choices] + [False])
                passing &= wanted[self._codes[column.name]]
            else:
                passing &= _mask(self.table[item.column], column, item)
        return passing

    def _whole_order(self, sort: str, descending: bool) -> NDArray[np.int64]:
        """All row numbers in the order of a column; kept, because every filter of that order starts from it."""
        key = (sort, descending)
        with self._lock:
            if key in self._orders:
                return self._orders[key]
        found = self._sorted(sort, descending)
        with self._lock:
            self._orders[key] = found
            while len(self._orders) > KEPT_ORDERS:
                self._orders.pop(next(iter(self._orders)))
        return found

    def _sorted(self, sort: str, descending: bool) -> NDArray[np.int64]:
        if not sort:
            return np.arange(self.table.num_rows, dtype=np.int64)
        kind = self.columns[sort].kind
        if kind in ("number", "flag"):
            # NaN sorts last either way, which is where an unknown value belongs.
            keys = _floats(self.table[sort].combine_chunks())
            return np.argsort(-keys if descending else keys, kind="stable")
        if kind == "choice":
            codes, last = self._codes[sort], len(self.columns[sort].choices)
            return np.argsort(
                np.where(codes == last, codes, last - 1 - codes) if descending else codes, kind="stable"
            )
        direction = "descending" if descending else "ascending"
        by = [("value", direction, "at_end"), ("row", "ascending", "at_end")]
        ranked = pc.sort_indices(
            pa.table({"value": self.table[sort].cast(pa.string()), "row": np.arange(self.table.num_rows)}),
            sort_keys=by,
        )
        return np.asarray(ranked.to_numpy(), dtype=np.int64)


def read_filters(given: Any) -> tuple[Filter, ...]:
    """Filters from JSON: a list of objects with column, operation and value."""
    if not isinstance(given, list) or not all(isinstance(item, Mapping) for item in given):
        raise InputError("filters must be a JSON list of objects with column, operation and value")
    return tuple(Filter(str(i.get("column", "")), str(i.get("operation", "")), i.get("value")) for i in given)


def _described(name: str, values: pa.ChunkedArray) -> Column:
    kind, unknown = values.type, int(values.null_count)
    if pa.types.is_boolean(kind):
        return Column(name, "flag", unknown=unknown)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        known = _floats(values.combine_chunks())
        known = known[np.isfinite(known)]
        low, high = (float(known.min()), float(known.max())) if len(known) else (None, None)
        return Column(name, "number", low, high, unknown=len(values) - len(known))
    if pa.types.is_dictionary(kind):
        choices = pc.unique(values.cast(pa.string())).drop_null().to_pylist()
        if len(choices) <= MOST_CHOICES:
            return Column(name, "choice", choices=tuple(sorted(choices, key=_natural)), unknown=unknown)
    return Column(name, "text", unknown=unknown)


def _natural(text: str) -> tuple[int, float, str]:
    """Sort numbers in names as numbers."""
    try:
        return (0, float(text), text)
    except ValueError:
        return (1, 0.0, text)


def _floats(values: pa.Array) -> NDArray[np.float64]:
    filled = (
        values.cast(pa.float64())
        if not pa.types.is_boolean(values.type)
        else values.cast(pa.int8()).cast(pa.float64())
    )
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.float64)


def _codes(values: pa.ChunkedArray, column: Column) -> NDArray[np.int32]:
    """The place of each value among the column's choices; one past the last where it is unknown."""
    encoded = values.combine_chunks()
    places = {choice: place for place, choice in enumerate(column.choices)}
    names = encoded.dictionary.cast(pa.string()).to_pylist()
    table = np.array([places.get(name, len(places)) for name in names] + [len(places)], dtype=np.int32)
    return np.asarray(table[encoded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)])


def _check(column: Column, item: Filter) -> None:
    """Refuse an operation that the column's kind does not take, or a value that it cannot be compared with."""
    operation, value = item.operation, item.value
    if operation not in OPERATIONS[column.kind]:
        allowed = ", ".join(OPERATIONS[column.kind])
        raise InputError(f"filters: {column.name!r} is a {column.kind} and takes {allowed}; got {operation!r}")
    if operation in ("at_least", "at_most"):
        usable = isinstance(value, (int, float)) and not isinstance(value, bool) and np.isfinite(value)
        wanted = "compared with a number"
    elif operation == "is":
        usable, wanted = isinstance(value, bool), "true or false"
    elif operation == "any_of":
        usable = isinstance(value, list) and all(isinstance(choice, str) for choice in value)
        wanted = "compared with a list of its values"
    else:
        usable, wanted = operation != "contains" or isinstance(value, str), "searched for a text"
    if not usable:
        raise InputError(f"filters: {column.name!r} is {wanted}; got {value!r}")


def _mask(values: pa.ChunkedArray, column: Column, item: Filter) -> NDArray[np.bool_]:
    if item.operation == "known":
        found = pc.invert(pc.is_null(values, nan_is_null=column.kind == "number"))
    elif item.operation == "unknown":
        found = pc.is_null(values, nan_is_null=column.kind == "number")
    elif item.operation == "contains":
        found = pc.match_substring(values.cast(pa.string()), item.value, ignore_case=True)
    elif item.operation == "is":
        found = pc.equal(values, item.value)
    elif item.operation == "at_least":
        found = pc.greater_equal(values, float(item.value))
    else:
        found = pc.less_equal(values, float(item.value))
    return np.asarray(found.combine_chunks().fill_null(False).to_numpy(zero_copy_only=False), dtype=bool)
