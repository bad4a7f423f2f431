"""Predictions in tables: CSV, JSONL, Parquet and data frames, one row per model or seed, epoch and example.

Columns, by name: ``id``, ``label``, ``split``, ``model``, ``seed``, ``epoch`` (all optional), and the numbers: one
column ``probabilities`` (``probs``, ``logits``) of lists; or columns ``p0, p1, ...`` (``prob_0``, ``class_0``,
``logit_0``); or one column per class under its name; or one column ``prediction`` of classes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.data.arrays import is_identifier
from hardpan.data.dataset import row_ids
from hardpan.errors import InputError
from hardpan.files import scratch_array
from hardpan.predictions.arrays import ArrayPredictions, array_predictions
from hardpan.predictions.checks import LARGEST, ROUNDED, ClassNamesNeeded, by_name, checked_numbers
from hardpan.safe_files import existing_file, few
from hardpan.tables import find_columns, is_number, open_parquet, read_table, role_names, stored_cell, suffix_of

_ROWS_AT_ONCE = 16384
_IN_MEMORY = 2**30  # bytes; larger tables are unpacked on the temporary disk
_ROLES = ("id", "label", "split", "model", "seed", "epoch")
_KNOWN = {name for role in _ROLES for names in role_names(role) for name in names}
_HARD = ("prediction", "predictions", "predicted", "y_pred", "pred")
_LISTS = ("probabilities", "probs", "logits", "p")
_INDEX = ("", "Unnamed: 0", "__index_level_0__", "index")  # how pandas writes an index without a name
_NUMBERED = re.compile(r"(p|probs?|proba|probability|probabilities|logits?|class|c)?[_.-]?(\d+)", re.IGNORECASE)
_PREFIX = re.compile(r"(p|probs?|proba|probability|probabilities|logits?)[_.-](.+)", re.IGNORECASE)
_EXPECTED = "expected a column 'probabilities' of lists, columns p0, p1, ..., a column per class, or 'prediction'"


@dataclass(frozen=True, slots=True)
class _Form:
    """Which columns of a table mean what."""

    meaning: dict[str, str]
    values: tuple[str, ...]
    kind: str  # "lists", "columns" or "labels"
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
) -> ArrayPredictions:
    """Read predictions from the file of a table or a data frame; ``columns`` replace those of the table."""
    table = _Table(source)
    form = _form_of(table.where, table.names, tuple(str(name) for name in class_names), roles)
    names = tuple(class_names) or form.class_names
    kind = form.outputs if outputs == "auto" else outputs
    examples = _Examples(table, form, names)
    common: dict[str, Any] = {"ids": examples.ids, "labels": examples.labels, "split": examples.split}
    if form.kind == "labels":
        return _hard(table, form, examples, names, common | columns)
    first = next(table.values(form))
    if form.kind == "columns" and form.class_names and not class_names:
        _check_classes(table.where, form.values, first)
    runs, epochs = examples.runs, examples.epochs
    shape = (len(runs), len(epochs), len(examples.ids), first.shape[1])
    if 8 * math.prod(shape) <= _IN_MEMORY:
        array: NDArray[np.float64] = np.zeros(shape)
    else:
        array = scratch_array(shape, np.float64, f"the numbers of {table.where}", "import the table in parts")
    start = 0
    for numbers in table.values(form):
        rows = slice(start, start + len(numbers))
        array[examples.run_of[rows], examples.epoch_of[rows], examples.row_of[rows]] = numbers
        start += len(numbers)
    seeds = checked_numbers("seeds", columns.pop("seeds", None) or examples.seeds, len(runs))
    numbered = checked_numbers("epochs", columns.pop("epochs", None) or epochs, len(epochs))
    pairs = frozenset((seeds[run], numbered[epoch]) for run, epoch in examples.pairs)
    whole = len(pairs) == len(runs) * len(epochs)
    return array_predictions(
        array,
        where=table.where,
        outputs=kind,
        normalize=normalize,
        class_names=names,
        seeds=seeds,
        epochs=numbered,
        pairs=None if whole else pairs,
        **({"models": examples.models} | common | columns),
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


def _hard(
    table: _Table, form: _Form, examples: _Examples, names: tuple[str, ...], columns: dict[str, Any]
) -> ArrayPredictions:
    if len(examples.epochs) > 1:
        raise InputError(f"{table.where}: hard predictions of several epochs are not supported; keep one epoch")
    answers = table.column(form.values[0], text=True)
    labels = columns.get("labels")
    if not names and not np.char.isdecimal(answers.astype(np.str_)).all():
        if examples.label_names is None:
            raise ClassNamesNeeded(
                f"{table.where}: predictions are class names; give class_names (--set class_names=...) or a label "
                "column"
            )
        names = tuple(np.unique(np.concatenate([answers, examples.label_names])).tolist())
        labels = by_name(table.where, examples.label_names[examples.first], names)
    numbers = by_name(f"{table.where}: {form.values[0]}", answers, names).astype(np.int64)
    array = np.zeros((len(examples.runs), len(examples.ids)), dtype=np.int64)
    array[examples.run_of, examples.row_of] = numbers
    columns = columns | {"labels": labels, "class_names": names, "models": examples.models}
    columns["seeds"] = columns.get("seeds") or examples.seeds
    columns.pop("epochs", None)
    return array_predictions(array, where=table.where, outputs="labels", **columns)


def _form_of(
    where: str, names: Sequence[str], classes: tuple[str, ...], roles: Mapping[str, str] | None = None
) -> _Form:
    """Which columns mean what, from their names.

    Example:
        >>> _form_of("t.csv", ["id", "label", "p0", "p1"], ()).values
        ('p0', 'p1')
        >>> _form_of("t.csv", ["id", "cat", "dog"], ()).class_names
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
        return _Form(meaning, classes, "columns", classes)
    hard = next((name for name in rest if name.lower() in _HARD), None)
    for name in _LISTS:
        if name in rest and {*rest} <= {name, hard}:
            return _Form(meaning, (name,), "lists", (), "logits" if name == "logits" else "auto")
    numbered = {int(match[2]): name for name in rest if (match := _NUMBERED.fullmatch(name))}
    if len(numbered) >= 2:
        others = [name for name in rest if name not in numbered.values() and name != hard]
        if others:
            raise InputError(
                f"{where}: columns {few(others)} are neither classes nor known; known are {few(_ROLES)}: drop them"
            )
        if sorted(numbered) != list(range(len(numbered))):
            raise InputError(
                f"{where}: columns of classes must be numbered 0..{len(numbered) - 1}; got {few(sorted(numbered))}"
            )
        kind = "logits" if all(name.lower().startswith("logit") for name in numbered.values()) else "auto"
        return _Form(meaning, tuple(numbered[number] for number in range(len(numbered))), "columns", (), kind)
    if hard is not None and len(rest) == 1:
        return _Form(meaning, (hard,), "labels")
    rest = [name for name in rest if name != hard]
    if len(rest) < 2:
        raise InputError(f"{where}: has no probabilities; {_EXPECTED}; it has the columns {few(names)}")
    prefixed = [_PREFIX.fullmatch(name) for name in rest]
    called = tuple(match[2] for match in prefixed if match) if all(prefixed) else tuple(rest)
    return _Form(meaning, tuple(rest), "columns", called)


class _Table:
    """A Parquet file, which is read in batches, or any other table."""

    def __init__(self, source: Any) -> None:
        self.where = str(source) if isinstance(source, Path) else "table"
        self._path: Path | None = None
        if isinstance(source, Path) and suffix_of(source) in (".parquet", ".pq"):
            self._path = existing_file(source)
            with open_parquet(self._path) as file:
                self.names = list(file.schema_arrow.names)
            return
        # {"probs": {"cat": 0.9, "dog": 0.1}} becomes the columns probs.cat and probs.dog.
        self._table = read_table(source, text=lambda name: name.lower() in (*_KNOWN, *_HARD)).flatten()
        self.names = list(self._table.column_names)
        if isinstance(source, Path):
            self._check_names(self.names)

    def _check_names(self, names: Sequence[str]) -> None:
        counted = [name for name in names if name not in _INDEX and name.lower() not in _KNOWN]
        numbered = counted == [str(number) for number in range(len(counted))] and len(counted) + len(names) > 4
        if (
            len(names) > 1
            and not numbered
            and sum(map(is_number, names)) >= len(names) - 1
            and is_number(names[-1])
        ):
            raise InputError(
                f"{self.where}: the first line has numbers ({few(names, 3)}) and no column names; add a header "
                "such as p0,p1,... or id,p0,p1,..."
            )

    def _batches(self, columns: Sequence[str]) -> Iterator[Any]:
        if self._path is None:
            yield from self._table.select(list(columns)).combine_chunks().to_batches(_ROWS_AT_ONCE)
            return
        with open_parquet(self._path) as file:
            yield from file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=list(columns), use_threads=False)

    def __len__(self) -> int:
        return sum(batch.num_rows for batch in self._batches(self.names[:1]))

    def column(self, name: str, text: bool) -> NDArray[Any]:
        """The whole of one column; as text, unless it has whole numbers and text is not needed."""
        parts = []
        for batch in self._batches([name]):
            cells = batch.column(0)
            if cells.null_count or "" in cells.to_pylist():
                raise InputError(f"{self.where}: {name} has empty cells; fill them or drop the rows")
            parts.append(np.array([self._decoded(name, cell) for cell in cells.to_pylist()]))
        if not parts:
            raise InputError(f"{self.where}: has no rows")
        joined = np.concatenate(parts)
        return joined.astype(np.str_) if text or joined.dtype.kind not in "iu" else joined

    def _decoded(self, name: str, cell: Any) -> Any:
        if not isinstance(cell, bytes):
            return cell
        try:
            return cell.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{self.where}: {name} must be text; got bytes that are not UTF-8: {cell[:20]!r}"
            ) from error

    def values(self, form: _Form) -> Iterator[NDArray[np.float64]]:
        """The numbers of some rows after another, each (n, C)."""
        width = None
        for batch in self._batches(form.values):
            if form.kind == "lists":
                numbers = self._from_lists(form.values[0], batch.column(0))
            else:
                numbers = np.column_stack([self._numbers(name, batch.column(name)) for name in form.values])
            if width is not None and numbers.shape[1] != width:
                raise InputError(
                    f"{self.where}: {form.values[0]} must have one length; got {width}, {numbers.shape[1]}"
                )
            width = numbers.shape[1]
            yield numbers
        if width is None:
            raise InputError(f"{self.where}: has no rows")

    def _numbers(self, name: str, column: Any) -> NDArray[np.float64]:
        try:
            return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{self.where}: column {name!r} must have numbers, as every column of a class; got {column.type}: "
                + _EXPECTED
            ) from error

    def _from_lists(self, name: str, column: Any) -> NDArray[np.float64]:
        from pyarrow import types

        kind = column.type
        if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
            raise InputError(f"{self.where}: {name} must have lists of numbers; got {kind}")
        lengths = np.asarray(column.value_lengths().to_numpy(zero_copy_only=False))
        if column.null_count or (lengths != lengths[0]).any() or lengths[0] < 2:
            raise InputError(f"{self.where}: {name} must have lists of one length of at least 2")
        return self._numbers(name, column.flatten()).reshape(len(column), -1)


class _Examples:
    """The examples of a table in order of appearance, and the run, epoch and example of each of its rows."""

    def __init__(self, table: _Table, form: _Form, class_names: tuple[str, ...]) -> None:
        self._where = table.where
        columns = {
            what: table.column(form.meaning[what], text=what in ("id", "split", "model"))
            if what in form.meaning
            else None
            for what in _ROLES
        }
        n = len(table)
        if n == 0:
            raise InputError(f"{table.where}: has no rows")
        epoch_of = _whole_numbers(table.where, "epoch", columns["epoch"], n)
        numbers, self.epoch_of = np.unique(epoch_of, return_inverse=True)
        self.epochs = [int(number) for number in numbers]
        self._take_runs(columns["model"], columns["seed"], n)
        both = np.stack([self.run_of, self.epoch_of], axis=1)
        pairs, self._pair_of = np.unique(both, axis=0, return_inverse=True)
        self._pair_of = self._pair_of.reshape(-1)
        self.pairs = [(int(run), int(epoch)) for run, epoch in pairs]
        ids = columns["id"]
        if ids is not None and np.char.startswith(ids, "'").any():  # as export escapes ids that look like formulas
            ids = np.array([stored_cell(name) for name in ids.tolist()])
        self.ids, self.row_of, self.first = self._position_rows(ids, n)
        self._check_once()
        labels = columns["label"]
        self.label_names = None if labels is None or labels.dtype.kind in "iu" else labels
        if form.kind == "labels" and self.label_names is not None and not class_names:
            labels = None if not np.char.isdecimal(self.label_names).all() else labels
        if labels is not None:
            labels = by_name(f"{table.where}: {form.meaning['label']}", labels, class_names)
            labels = self._per_example("label", _whole_numbers(table.where, "label", labels, n))
        self.labels = labels
        self.split = None if columns["split"] is None else self._per_example("split", columns["split"])

    def _take_runs(self, models: NDArray[Any] | None, seeds: NDArray[Any] | None, n: int) -> None:
        seed_of = _whole_numbers(self._where, "seed", seeds, n)
        if models is None:
            numbers, self.run_of = np.unique(seed_of, return_inverse=True)
            self.runs = self.seeds = [int(number) for number in numbers]
            self.models = None
            return
        if seeds is not None and len(np.unique(seed_of)) > 1:
            models = np.array([f"{model} seed {seed}" for model, seed in zip(models, seed_of, strict=True)])
        names, self.run_of, _ = _in_order(models)
        self.models = tuple(names.tolist())
        self.runs = self.seeds = list(range(len(names)))

    def _check_once(self) -> None:
        """Refuse a table in which an example appears twice for a seed and epoch, or not at all."""
        code = self._pair_of * len(self.ids) + self.row_of
        seen = np.zeros(len(self.pairs) * len(self.ids), dtype=bool)
        seen[code] = True
        if len(code) == len(seen) and seen.all():
            return
        codes, counts = np.unique(code, return_counts=True)
        twice = bool((counts > 1).any())
        wrong = int(codes[np.argmax(counts > 1)] if twice else np.argmin(seen))
        run, epoch = self.pairs[wrong // len(self.ids)]
        name, how = self.ids[wrong % len(self.ids)], "appears twice" if twice else "is missing"
        who = f"seed {self.runs[run]}" if self.models is None else f"model {self.models[run]}"
        raise InputError(
            f"{self._where}: {name} {how} for {who} epoch {self.epochs[epoch]}; give each id once per model or "
            "seed (columns model, seed) and epoch"
        )

    def _position_rows(
        self, ids: NDArray[Any] | None, n: int
    ) -> tuple[NDArray[np.str_], NDArray[np.int64], NDArray[np.int64]]:
        """The ids, the example of each row, and the first row of each example."""
        if ids is None:
            # Without ids the rows of each seed and epoch are the examples in order.
            order = np.argsort(self._pair_of, kind="stable")
            counts = np.bincount(self._pair_of)
            row_of = np.empty(n, dtype=np.int64)
            row_of[order] = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
            return row_ids(int(counts.max())), row_of, order[: int(counts[0])]
        return _in_order(ids)

    def _per_example(self, what: str, column: NDArray[Any]) -> NDArray[Any]:
        """A column that is the same in each row of an example."""
        values = column[self.first]
        if (values[self.row_of] != column).any():
            row = int(np.argmax(values[self.row_of] != column))
            raise InputError(f"{self._where}: {what} differs between rows of one example; see row {row}")
        return values


def _in_order(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """The different values in order of appearance, the number of each row's value, and the first row of each."""
    unique, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    return unique[order], position[inverse.reshape(-1)], first[order]


def _whole_numbers(where: str, what: str, column: NDArray[Any] | None, n: int) -> NDArray[np.int64]:
    if column is None:
        return np.zeros(n, dtype=np.int64)
    try:
        numbers = column.astype(np.int64)
    except (ValueError, OverflowError) as error:
        wrong = next((text for text in column.tolist() if not str(text).strip().isdecimal()), column[0])
        raise InputError(f"{where}: {what} must be whole numbers; got {str(wrong)!r}") from error
    if numbers.min() < 0 or numbers.max() > LARGEST:
        wrong = numbers.min() if numbers.min() < 0 else numbers.max()
        raise InputError(f"{where}: {what} must be from 0 to {LARGEST}; got {wrong}")
    return numbers
