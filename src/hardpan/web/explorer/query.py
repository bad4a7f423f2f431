"""Queries of the table of examples: which rows pass the filters, in which order, one page at a time."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hardpan.arguments import clean_text
from hardpan.auditing.contents import FEATURE
from hardpan.auditing.example_table import Examples
from hardpan.errors import InputError
from hardpan.tables import cells_of, is_number

MOST_CHOICES = 1000  # a text column with more distinct values is searched, not chosen from
STRIDE = 64  # one row in this many tells where the first rows end
MOST_SELECTED = 12_000  # rows that are selected without sorting the whole column
BINS = 40
CORRECT = "correct: "  # in front of a model's name: the column that says whether it is right

OPERATIONS = {
    "number": ("at_least", "at_most"),
    "flag": ("is",),
    "choice": ("any_of",),
    "text": ("contains",),
}
TITLES = {
    "id": "Id",
    "split": "Split",
    "row": "Row",
    "path": "File",
    "label": "Label",
    "confusion": "Confusion score (bits)",
    "confusion_stderr": "Confusion score, standard error",
    "predicted": "Prediction of the ensemble",
    "p_label": "Probability of the label",
    "floor_posterior": "Probability of the label (flow)",
    "floor_difficulty": "Difficulty (flow)",
    "selection_frequency": "Selection frequency",
    "duplicate": "Nearest training example",
    "duplicate_distance": "Distance to the nearest training example",
    "duplicate_split": "Split of the nearest example",
    "proportion_correct": "Proportion of models that are right",
}


@dataclass(frozen=True, slots=True)
class Column:
    """What a reader can ask of a column.

    Attributes:
        name: its name in the table.
        title: its name on the page.
        kind: "number", "flag", "choice" or "text".
        low: the smallest number.
        high: the largest.
        choices: the values, where there are few.
    """

    name: str
    title: str
    kind: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition: a column, an operation of its kind, and the value."""

    column: str
    operation: str
    value: Any = None


class ExampleQueries:
    """Answers queries over a table of examples, keeping the latest orders so that paging is instant.

    Example:
        >>> table = pa.table({"id": ["a", "b", "c"], "confusion": [0.5, 2.0, 1.0]})
        >>> queries = ExampleQueries(Examples(table))
        >>> rows = queries.order((Filter("confusion", "at_least", 0.9),), "confusion", descending=True)
        >>> [row["id"] for row in queries.rows(rows[:10])]
        ['b', 'c']
    """

    def __init__(self, examples: Examples) -> None:
        names = examples.table.column_names
        plain = {name: _queryable_column(name, examples.table[name]) for name in names}
        self.table = pa.table(plain).combine_chunks()
        self.thumbnails = examples.thumbnails
        self.columns = {name: _column_of(name, self.table[name]) for name in self.table.column_names}
        self._keys = functools.lru_cache(maxsize=4)(lambda sort: _query_floats(self.table[sort].combine_chunks()))
        self._orders = functools.lru_cache(maxsize=6)(self._whole_order)
        self._answers: Callable[..., NDArray[np.int64]] = functools.lru_cache(maxsize=16)(self._filtered_rows)
        self._lock = threading.Lock()

    @property
    def models(self) -> list[str]:
        """Models of which the table says whether they are right."""
        return [
            name.removeprefix(CORRECT)
            for name, column in self.columns.items()
            if name.startswith(CORRECT) and column.kind in ("flag", "number")
        ]

    def order(self, filters: Sequence[Filter], sort: str = "", *, descending: bool = False) -> NDArray[np.int64]:
        """Row numbers that pass every filter, sorted: unknown values last, ties in table order."""
        if sort and sort not in self.columns:
            raise InputError(f": there is no column {sort!r}; columns: {', '.join(self.columns)}", argument="sort")
        for item in filters:
            _check_filter(self._known_column(item.column), item)
        fixed = tuple(
            (item.column, item.operation, tuple(item.value) if isinstance(item.value, list) else item.value)
            for item in filters
        )
        with self._lock:
            return self._answers(fixed, sort, descending)

    def page(
        self, filters: Sequence[Filter], sort: str, *, descending: bool = False, offset: int = 0, limit: int = 120
    ) -> tuple[NDArray[np.int64], int]:
        """One page of :meth:`order`, and how many rows pass; the first pages of numbers need no whole order.

        Example:
            >>> queries = ExampleQueries(Examples(pa.table({"id": list("abc"), "confusion": [0.5, 2.0, 1.0]})))
            >>> queries.page((), "confusion", descending=True, limit=2)[0].tolist()
            [1, 2]
        """
        end = offset + limit
        described = self.columns.get(sort)
        if described is None or described.kind != "number" or end > MOST_SELECTED:
            rows = self.order(filters, sort, descending=descending)
            return rows[offset:end], len(rows)
        with self._lock:
            keys = self._keys(sort)
        passing = None
        if filters:
            passing = self.order(filters)  # in table order
            keys = keys[passing]
        first = _first_query_rows(-keys if descending else keys, end)[offset:]
        return (first, len(keys)) if passing is None else (passing[first], len(keys))

    def rows(self, numbers: NDArray[np.int64]) -> list[dict[str, Any]]:
        """The rows of those numbers, with their number in the table as ``index``."""
        taken = self.table.take(pa.array(numbers)).to_pylist()
        return [row | {"index": int(number)} for number, row in zip(numbers, taken, strict=True)]

    def find(self, ids: Sequence[str]) -> list[int]:
        """Row numbers of the examples with those ids, as far as they are in the table."""
        matches = pc.is_in(self.table["id"].cast(pa.string()), value_set=pa.array(list(ids), pa.string()))
        return [int(row) for row in np.flatnonzero(matches.to_numpy())]

    def histogram(self, column: str, numbers: NDArray[np.int64]) -> dict[str, Any]:
        """Counts of a column among those rows: 40 bins of a column of numbers, or counts by choice."""
        described = self._known_column(column)
        if described.kind == "text":
            raise InputError(f": {column!r} is text; counts need numbers, choices or flags", argument="column")
        values = self.table[column].combine_chunks().take(pa.array(numbers))
        if described.kind == "number":
            known = _query_floats(values)
            known = known[np.isfinite(known)]
            if described.low is None or described.high is None:
                return {"edges": [], "counts": []}
            high = described.high if described.high > described.low else described.low + 1.0
            try:
                with np.errstate(over="ignore", invalid="ignore"):
                    counts, edges = np.histogram(known, BINS, (described.low, high))
            except ValueError:  # the ends are too near, or too far, for as many floats between them
                return {"edges": [described.low, described.high], "counts": [len(known)]}
            return {"edges": edges.tolist(), "counts": counts.tolist()}
        ranked = sorted(pc.value_counts(values).to_pylist(), key=lambda item: -item["counts"])[:BINS]
        return {
            "choices": [{True: "yes", False: "no"}.get(item["values"], item["values"]) for item in ranked],
            "counts": [item["counts"] for item in ranked],
        }

    def disagreements(self, first: str, second: str, numbers: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """Split rows by which of two models is right; rows that either model lacks are left out.

        Returns:
            Row numbers under "both", "first", "second" and "neither", in the order given.
        """
        for name, model in (("first", first), ("second", second)):
            if model not in self.models:
                raise InputError(f"{name}: there is no model {model!r}; models: {', '.join(self.models) or 'none'}")
        one, two = (self._keys(CORRECT + model)[numbers] for model in (first, second))
        cases = {"both": (1, 1), "first": (1, 0), "second": (0, 1), "neither": (0, 0)}
        return {name: numbers[(one == a) & (two == b)] for name, (a, b) in cases.items()}

    def _known_column(self, name: str) -> Column:
        if name not in self.columns:
            raise InputError(f": there is no {name!r}; columns: {', '.join(self.columns)}", argument="column")
        return self.columns[name]

    def _filtered_rows(self, filters: tuple[Any, ...], sort: str, descending: bool) -> NDArray[np.int64]:
        order = self._orders(sort, descending)
        if not filters:
            return order
        masks = (_passing_rows(self.table[name], operation, value) for name, operation, value in filters)
        passing = functools.reduce(pc.and_, masks)
        rows: NDArray[np.int64] = order[np.asarray(passing.to_numpy(zero_copy_only=False), dtype=bool)[order]]
        return rows

    def _whole_order(self, sort: str, descending: bool) -> NDArray[np.int64]:
        """All row numbers in the order of a column; kept, because every filter of that order starts from it."""
        if not sort:
            return np.arange(self.table.num_rows, dtype=np.int64)
        values, column = self.table[sort].combine_chunks(), self.columns[sort]
        if column.kind == "choice":
            ranks = pa.array(np.arange(len(column.choices)), pa.int32())
            positions = pc.index_in(
                values.dictionary.cast(pa.string()), value_set=pa.array(column.choices, pa.string())
            )
            values = ranks.take(positions).take(values.indices)
        elif column.kind == "text":
            values = values.cast(pa.string())
        direction = "descending" if descending else "ascending"
        ranked = pc.array_sort_indices(values, order=direction, null_placement="at_end")  # stable; NaN is last
        return np.asarray(ranked.to_numpy(), dtype=np.int64)


def _first_query_rows(keys: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Positions of the smallest keys in order: ties by position, what is not a number last.

    Example:
        >>> _first_query_rows(np.array([2.0, np.nan, 1.0, 2.0, 0.5]), 3).tolist()
        [4, 2, 0]
    """
    few = np.partition(keys[::STRIDE], min(2 * count // STRIDE + 16, len(keys[::STRIDE]) - 1))
    edge = few[min(2 * count // STRIDE + 16, len(few) - 1)] if len(few) else np.nan
    near = np.flatnonzero(keys <= edge)  # by a sample: about twice as many as are wanted
    if len(near) < count:
        near = np.arange(len(keys))
    return near[np.argsort(keys[near], kind="stable")[:count]]


def read_filters(content: Any) -> tuple[Filter, ...]:
    """Filters from JSON: a list of objects with column, operation and value."""
    if not isinstance(content, list) or not all(isinstance(item, Mapping) for item in content):
        raise InputError("must be a JSON list of objects with column, operation and value", argument="filters")
    return tuple(Filter(str(i.get("column", "")), str(i.get("operation", "")), i.get("value")) for i in content)


def _queryable_column(name: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as numbers, flags, text or categories of text: whatever else a table may hold becomes text."""
    types, kind = pa.types, values.type
    if types.is_dictionary(kind) and not types.is_string(kind.value_type):
        values = pa.chunked_array([chunk.dictionary_decode() for chunk in values.chunks], kind.value_type)
        return _queryable_column(name, values)
    numeric = types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)
    if name != "id" and (numeric or types.is_dictionary(kind)):
        return values
    if types.is_string(kind) or types.is_large_string(kind):
        return values.cast(pa.string())
    cells = [
        cell.decode("utf-8", "backslashreplace") if isinstance(cell, bytes) else cell
        for cell in cells_of(values, f"column {name!r}")
    ]
    texts = [None if cell is None else clean_text(str(cell)) for cell in cells]
    return pa.chunked_array([pa.array(texts, pa.string())])


def _column_of(name: str, values: pa.ChunkedArray) -> Column:
    title = TITLES.get(name) or (
        name.removeprefix(FEATURE)
        if name.startswith(FEATURE)
        else f"{name.removeprefix(CORRECT)} is right"
        if name.startswith(CORRECT)
        else name.replace("_", " ").strip().capitalize() or name
    )
    kind = values.type
    if pa.types.is_boolean(kind):
        return Column(name, title, "flag")
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        known = _query_floats(values.combine_chunks())
        known = known[np.isfinite(known)]
        low, high = (float(known.min()), float(known.max())) if len(known) else (None, None)
        return Column(name, title, "number", low, high)
    if pa.types.is_dictionary(kind):
        used = pc.unique(values.combine_chunks().indices).drop_null()
        choices = values.combine_chunks().dictionary.cast(pa.string()).take(used).drop_null().to_pylist()
        if len(choices) <= MOST_CHOICES:
            # Numbers in names are sorted as numbers.
            order = sorted(set(choices), key=lambda c: (0, float(c), c) if is_number(c) else (1, 0.0, c))
            return Column(name, title, "choice", choices=tuple(order))
    return Column(name, title, "text")


def _query_floats(values: pa.Array) -> NDArray[np.float64]:
    numeric = values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values
    return np.asarray(numeric.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def _check_filter(column: Column, item: Filter) -> None:
    """Refuse an operation that the column's kind does not take, or a value that it cannot be compared with."""
    operation, value = item.operation, item.value
    if operation not in OPERATIONS[column.kind]:
        allowed = ", ".join(OPERATIONS[column.kind])
        raise InputError(
            f": {column.name!r} is a {column.kind} and takes {allowed}; got {operation!r}", argument="filters"
        )
    if operation in ("at_least", "at_most"):
        usable, expected = type(value) in (int, float) and abs(value) < 1e300, "a number"  # not NaN
    elif operation == "is":
        usable, expected = isinstance(value, bool), "true or false"
    elif operation == "any_of":
        usable, expected = (
            isinstance(value, list) and all(map(is_query_text, value)),
            "a list of values of the column",
        )
    else:
        usable, expected = is_query_text(value), "a text to search for"
    if not usable:
        raise InputError(
            f": {column.name!r} with {operation} takes {expected}; got {ascii(value)[:80]}", argument="filters"
        )


def is_query_text(value: Any) -> bool:
    """Whether this is a text that a table can hold: JSON may contain lone surrogates, which UTF-8 cannot encode."""
    return isinstance(value, str) and not any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value)


def _passing_rows(values: pa.ChunkedArray, operation: str, value: Any) -> pa.ChunkedArray:
    if operation == "contains":
        passing = pc.match_substring(values.cast(pa.string()), value, ignore_case=True)
    elif operation == "any_of":
        passing = pc.is_in(values, value_set=pa.array(list(value), pa.string()))
    elif operation == "is":
        passing = pc.equal(values, value)
    else:
        compare = pc.greater_equal if operation == "at_least" else pc.less_equal
        passing = compare(values.cast(pa.float64(), safe=False), float(value))
    return passing.fill_null(False)
