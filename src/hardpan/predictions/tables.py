"""Predictions in tables: CSV, JSONL, Parquet and data frames, one row per model or seed, epoch and example.

Columns, by name: ``id``, ``label``, ``split``, ``model``, ``seed``, ``epoch`` (all optional), and the numbers: one
column ``probabilities`` (``probs``, ``logits``) of lists; or columns ``p0, p1, ...`` (``prob_0``, ``class_0``,
``logit_0``); or one column per class under its name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardpan.data.arrays import is_identifier
from hardpan.errors import InputError, few
from hardpan.files import scratch_array, suffix_of
from hardpan.predictions.arrays import array_predictions
from hardpan.predictions.checks import LARGEST, ROUNDED, by_name, checked_seeds_or_epochs, row_ids
from hardpan.predictions.predictions import Predictions
from hardpan.tables import cells_of, column_role_names, find_columns, is_number, read_table, stored_cell

if TYPE_CHECKING:
    import pyarrow

_IN_MEMORY = 2**30  # bytes; a larger array is on the temporary disk
_ROLES = ("id", "label", "split", "model", "seed", "epoch")
_KNOWN = set(column_role_names(*_ROLES))
_HARD = ("prediction", "predictions", "predicted", "y_pred", "pred")  # left out where there are probabilities
_LISTS = ("probabilities", "probs", "logits", "p")
_INDEX = ("", "Unnamed: 0", "__index_level_0__", "index")  # how pandas writes an index without a name
_NUMBERED = re.compile(r"(p|probs?|proba|probability|probabilities|logits?|class|c)?[_.-]?(\d+)", re.IGNORECASE)
_PREFIX = re.compile(r"(p|probs?|proba|probability|probabilities|logits?)[_.-](.+)", re.IGNORECASE)
_EXPECTED = "expected a column 'probabilities' of lists, columns p0, p1, ..., or a column per class"


@dataclass(frozen=True, slots=True)
class _PredictionColumns:
    """Which columns of a table mean what; a single one of ``values`` has lists."""

    meaning: dict[str, str]
    values: tuple[str, ...]
    class_names: tuple[str, ...] = ()
    outputs: str = "auto"


def open_table(
    source: Any,
    *,
    outputs: str = "auto",
    normalize: bool = False,
    class_names: Sequence[str] = (),
    roles: Mapping[str, str] | None = None,
    **columns: Any,
) -> Predictions:
    """Read predictions from the file of a table or a data frame; ``columns`` replace those of the table."""
    where = str(source) if isinstance(source, Path) else "table"
    # {"probs": {"cat": 0.9, "dog": 0.1}} becomes the columns probs.cat and probs.dog.
    table = read_table(source, text=lambda name: name.lower() in (*_KNOWN, *_HARD)).flatten()
    if isinstance(source, Path) and suffix_of(source) not in (".parquet", ".pq"):
        _check_header(where, table.column_names)
    form = _prediction_columns(where, table.column_names, tuple(str(name) for name in class_names), roles)
    names = tuple(class_names) or form.class_names
    examples = _TablePredictions(where, table, form.meaning, names)
    numbers = _table_probabilities(where, table, form.values)
    if form.class_names and not class_names:
        _check_classes(where, form.values, numbers)
    shape = (len(examples.seeds), len(examples.epochs), len(examples.ids), numbers.shape[1])
    if 8 * math.prod(shape) <= _IN_MEMORY:
        array: NDArray[np.float64] = np.zeros(shape)
    else:
        array = scratch_array(shape, np.float64, f"the numbers of {where}", "import the table in parts")
    array[examples.run_of, examples.epoch_of, examples.row_of] = numbers
    seeds = checked_seeds_or_epochs("seeds", columns.pop("seeds", None) or examples.seeds, shape[0])
    epochs = checked_seeds_or_epochs("epochs", columns.pop("epochs", None) or examples.epochs, shape[1])
    pairs = frozenset((seeds[run], epochs[epoch]) for run, epoch in examples.pairs)
    own = {
        "ids": examples.ids,
        "labels": examples.labels,
        "split": examples.split,
        "models": examples.models,
    }
    return array_predictions(
        array,
        where=where,
        outputs=form.outputs if outputs == "auto" else outputs,
        normalize=normalize,
        class_names=names,
        seeds=seeds,
        epochs=epochs,
        pairs=None if len(pairs) == len(seeds) * len(epochs) else pairs,
        **(own | columns),
    )


def _check_header(where: str, names: Sequence[str]) -> None:
    """Refuse a first line of numbers."""
    counted = [name for name in names if name not in _INDEX and name.lower() not in _KNOWN]
    numbered = counted == [str(number) for number in range(len(counted))] and len(counted) + len(names) > 4
    numbers = [name for name in names if is_number(name)]
    if not numbered and len(names) > 1 and len(numbers) >= len(names) - 1 and is_number(names[-1]):
        raise InputError(
            f"{where}: the first line has numbers ({few(names, 3)}) and no column names; add a header such as "
            "id,p0,p1,..."
        )


def _check_classes(where: str, names: Sequence[str], rows: NDArray[np.float64]) -> None:
    """Refuse a column that is no class: an index, or numbers beside probabilities that are complete without it."""
    columns = list(zip(names, rows.T, strict=True))
    numbered = [name for name, column in columns if is_identifier(column)] if len(rows) >= 20 else []
    inside = [bool(((column >= 0) & (column <= 1)).all()) for _, column in columns]
    complete = sum(inside) >= 2 and bool((np.abs(rows[:, inside].sum(axis=1) - 1) < ROUNDED).all())
    others = [name for name, is_class in zip(names, inside, strict=True) if complete and not is_class]
    if numbered or others:
        raise InputError(
            f"{where}: {few(numbered or others)} is not the column of a class ("
            + ("a different whole number in each row" if numbered else "the other columns sum to 1")
            + "); drop it, or call it 'id' if it has the ids"
        )


def _prediction_columns(
    where: str, names: Sequence[str], classes: tuple[str, ...], roles: Mapping[str, str] | None = None
) -> _PredictionColumns:
    """Which columns mean what, from their names.

    Example:
        >>> _prediction_columns("t.csv", ["id", "label", "p0", "p1"], ()).values
        ('p0', 'p1')
        >>> _prediction_columns("t.csv", ["id", "cat", "dog"], ()).class_names
        ('cat', 'dog')
    """
    meaning = find_columns([name for name in names if name not in classes], _ROLES, roles, where=where)
    rest = [name for name in names if name not in meaning.values()]
    index = next((name for name in rest if name in _INDEX and name not in classes), None)
    if index is not None:
        raise InputError(
            f"{where}: column {index!r} looks like a pandas index; write the table with index=False, or call the "
            "column 'id' if it has the ids"
        )
    if classes and set(classes) <= set(rest):
        return _PredictionColumns(meaning, classes, classes)
    hard = next((name for name in rest if name.lower() in _HARD), None)
    rest = [name for name in rest if name != hard]
    if len(rest) == 1 and rest[0] in _LISTS:
        return _PredictionColumns(meaning, (rest[0],), (), "logits" if rest[0] == "logits" else "auto")
    numbered = {int(match[2]): name for name in rest if (match := _NUMBERED.fullmatch(name))}
    if len(numbered) >= 2:
        others = [name for name in rest if name not in numbered.values()]
        if others:
            raise InputError(
                f"{where}: columns {few(others)} are neither classes nor known; known are {few(_ROLES)}: drop them"
            )
        if sorted(numbered) != list(range(len(numbered))):
            raise InputError(
                f"{where}: columns of classes must be numbered 0..{len(numbered) - 1}; got {few(sorted(numbered))}"
            )
        kind = "logits" if all(name.lower().startswith("logit") for name in numbered.values()) else "auto"
        return _PredictionColumns(meaning, tuple(numbered[number] for number in range(len(numbered))), (), kind)
    if len(rest) < 2:
        advice = "hardpan.Outcomes.open reads predicted classes beside labels; " if hard is not None else ""
        raise InputError(f"{where}: has no probabilities; {advice}{_EXPECTED}; it has the columns {few(names)}")
    prefixed = [_PREFIX.fullmatch(name) for name in rest]
    called = tuple(match[2] for match in prefixed if match) if all(prefixed) else tuple(rest)
    return _PredictionColumns(meaning, tuple(rest), called)


def _table_probabilities(where: str, table: pyarrow.Table, names: Sequence[str]) -> NDArray[np.float64]:
    """The numbers (rows, C) of a column of lists, or of one column per class."""
    from pyarrow import compute, types

    columns = [table.column(name) for name in names]
    if len(columns) == 1:
        kind = columns[0].type
        if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
            raise InputError(f"{where}: {names[0]} must have lists of numbers; got {kind}")
        lengths = compute.list_value_length(columns[0]).unique().to_pylist()
        if len(lengths) > 1 or lengths[0] is None or lengths[0] < 2:
            raise InputError(f"{where}: {names[0]} must have lists of one length of at least 2")
        columns = [compute.list_flatten(columns[0])]
    kinds = [f"{name}: {column.type}" for name, column in zip(names, columns, strict=True)]
    try:
        numbers = [np.asarray(column.to_numpy(), dtype=np.float64) for column in columns]
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{where}: columns must have numbers, as every column of a class; {_EXPECTED}; got {few(kinds)}"
        ) from error
    return numbers[0].reshape(len(table), -1) if len(columns) == 1 else np.column_stack(numbers)


def _cells(where: str, table: pyarrow.Table, name: str, text: bool) -> NDArray[Any]:
    """The cells of one column; as text, unless they are whole numbers and text is not needed."""
    import pyarrow

    column = table.column(name)
    kinds = ("is_binary", "is_large_binary", "is_binary_view", "is_fixed_size_binary")
    if any(getattr(pyarrow.types, kind)(column.type) for kind in kinds):
        try:
            column = column.cast(pyarrow.string())
        except pyarrow.ArrowInvalid as error:
            raise InputError(f"{where}: {name} must be text; got bytes that are not UTF-8") from error
    if pyarrow.types.is_nested(column.type):
        raise InputError(f"{where}: {name} must be numbers or text; got {column.type}")
    cells = cells_of(column, f"{where}: {name}")
    if None in cells or "" in cells:
        raise InputError(f"{where}: {name} has empty cells; fill them or drop the rows")
    array = np.array(cells)
    return array.astype(np.str_) if text or array.dtype.kind not in "iu" else array


class _TablePredictions:
    """The examples of a table in order of appearance, and the run, epoch and example of each of its rows."""

    def __init__(
        self, where: str, table: pyarrow.Table, meaning: Mapping[str, str], class_names: tuple[str, ...]
    ) -> None:
        self._where, self._n = where, len(table)
        columns: dict[str, Any] = {
            role: _cells(where, table, name, text=role in ("id", "split", "model"))
            for role, name in meaning.items()
        }
        epoch_of = self._whole_numbers("epoch", columns.get("epoch"))
        numbers, self.epoch_of = np.unique(epoch_of, return_inverse=True)
        self.epochs = numbers.tolist()
        self._take_runs(columns.get("model"), columns.get("seed"))
        both = np.stack([self.run_of, self.epoch_of], axis=1)
        pairs, pair_of = np.unique(both, axis=0, return_inverse=True)
        pair_of = pair_of.reshape(-1)
        self.pairs: list[tuple[int, int]] = [(run, epoch) for run, epoch in pairs.tolist()]
        ids = columns.get("id")
        if ids is None:
            # Without ids the rows of each seed and epoch are the examples in order.
            order, counts = np.argsort(pair_of, kind="stable"), np.bincount(pair_of)
            self.row_of = np.empty(self._n, dtype=np.int64)
            self.row_of[order] = np.arange(self._n) - np.repeat(np.cumsum(counts) - counts, counts)
            self.ids, self._example_rows = row_ids(int(counts.max())), order[: int(counts[0])]
        else:
            if np.char.startswith(ids, "'").any():  # as export escapes ids that look like formulas
                ids = np.array([stored_cell(name) for name in ids.tolist()])
            self.ids, self.row_of, self._example_rows = _distinct_in_order(ids)
        self._check_once(pair_of)
        self.labels = self.split = None
        if "label" in columns:
            labels = by_name(f"{where}: {meaning['label']}", columns["label"], class_names)
            self.labels = self._per_example("label", self._whole_numbers("label", labels))
        if "split" in columns:
            self.split = self._per_example("split", columns["split"])

    def _take_runs(self, models: NDArray[Any] | None, seeds: NDArray[Any] | None) -> None:
        seed_of = self._whole_numbers("seed", seeds)
        if models is None:
            numbers, self.run_of = np.unique(seed_of, return_inverse=True)
            self.seeds, self.models = numbers.tolist(), None
            return
        if seeds is not None and len(np.unique(seed_of)) > 1:
            models = np.array([f"{model} seed {seed}" for model, seed in zip(models, seed_of, strict=True)])
        names, self.run_of, _ = _distinct_in_order(models)
        self.models = tuple(names.tolist())
        self.seeds = list(range(len(names)))

    def _check_once(self, pair_of: NDArray[np.int64]) -> None:
        """Refuse a table in which an example appears twice for a seed and epoch, or not at all."""
        code = pair_of * len(self.ids) + self.row_of
        seen = np.zeros(len(self.pairs) * len(self.ids), dtype=bool)
        seen[code] = True
        if len(code) == len(seen) and seen.all():
            return
        codes, counts = np.unique(code, return_counts=True)
        twice = bool((counts > 1).any())
        wrong = int(codes[np.argmax(counts > 1)] if twice else np.argmin(seen))
        run, epoch = self.pairs[wrong // len(self.ids)]
        name, how = self.ids[wrong % len(self.ids)], "appears twice" if twice else "is missing"
        who = f"seed {self.seeds[run]}" if self.models is None else f"model {self.models[run]}"
        raise InputError(
            f"{self._where}: {name} {how} for {who} epoch {self.epochs[epoch]}; give each id once per model or "
            "seed (columns model, seed) and epoch"
        )

    def _per_example(self, what: str, column: NDArray[Any]) -> NDArray[Any]:
        """A column that is the same in each row of an example."""
        values = column[self._example_rows]
        if (values[self.row_of] != column).any():
            row = int(np.argmax(values[self.row_of] != column))
            raise InputError(f"{self._where}: {what} differs between rows of one example; see row {row}")
        return values

    def _whole_numbers(self, what: str, column: NDArray[Any] | None) -> NDArray[np.int64]:
        if column is None:
            return np.zeros(self._n, dtype=np.int64)
        try:
            numbers = column.astype(np.int64)
        except (ValueError, OverflowError) as error:
            wrong = next((text for text in column.tolist() if not str(text).strip().isdecimal()), column[0])
            raise InputError(f"{self._where}: {what} must be whole numbers; got {str(wrong)!r}") from error
        if numbers.min() < 0 or numbers.max() > LARGEST:
            wrong = numbers.min() if numbers.min() < 0 else numbers.max()
            raise InputError(f"{self._where}: {what} must be from 0 to {LARGEST}; got {wrong}")
        return numbers


def _distinct_in_order(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """The different values in order of appearance, the number of each row's value, and the first row of each."""
    unique, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return unique[order], np.argsort(order)[inverse.reshape(-1)], first[order]
