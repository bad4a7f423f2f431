"""Predictions in tables: Parquet and CSV with one row for each seed, epoch and example, read in pieces.

Columns, by name: ``id``, ``label``, ``split``, ``seed``, ``epoch`` (all may be absent), and the numbers: one
column ``probabilities`` (or ``probs``, ``logits``) of lists, or columns ``p0, p1, ...`` (``prob_0``, ``class_0``,
``logit_0``), or one column a class under its name.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError
from hardpan.predictions.rows import one_line

TABLES = (".parquet", ".pq", ".csv")
_ROWS_AT_ONCE = 16384
MEANINGS = {
    "id": ("id", "ids", "example", "image", "filename"),
    "label": ("label", "labels", "target", "y", "y_true"),
    "split": ("split",),
    "seed": ("seed", "run"),
    "epoch": ("epoch",),
}
_LISTS = ("probabilities", "probs", "logits", "p")
_NUMBERED = re.compile(r"(p|probs?|probability|probabilities|logits?|class|c)[_-]?(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Form:
    """Which columns of a table mean what."""

    meaning: dict[str, str]
    values: tuple[str, ...]
    listed: bool
    class_names: tuple[str, ...]
    outputs: str

    @property
    def n_classes(self) -> int | None:
        """How many classes the columns show; lists show it only in their rows."""
        return None if self.listed else len(self.values)


def form_of(path: Path, names: Sequence[str]) -> Form:
    """Say which columns mean what, from their names.

    Example:
        >>> form_of(Path("t.csv"), ["id", "label", "p0", "p1"]).values
        ('p0', 'p1')
        >>> form_of(Path("t.csv"), ["id", "cat", "dog"]).class_names
        ('cat', 'dog')
    """
    meaning = {}
    for what, known in MEANINGS.items():
        found = next((name for name in names if name.lower() in known), None)
        if found is not None:
            meaning[what] = found
    rest = [name for name in names if name not in meaning.values()]
    for name in _LISTS:
        if name in rest and len(rest) == 1:
            return Form(meaning, (name,), True, (), "logits" if name == "logits" else "auto")
    numbered = {int(match[2]): name for name in rest if (match := _NUMBERED.fullmatch(name))}
    if len(numbered) == len(rest) >= 2:
        if sorted(numbered) != list(range(len(rest))):
            raise InputError(
                f"{path}: columns of classes must be numbered 0..{len(rest) - 1}; got {sorted(numbered)}"
            )
        outputs = "logits" if all(name.lower().startswith("logit") for name in rest) else "auto"
        return Form(meaning, tuple(numbered[number] for number in range(len(rest))), False, (), outputs)
    if len(rest) < 2:
        raise InputError(
            f"{path}: holds no probabilities; give a column 'probabilities' of lists, columns p0, p1, ..., or one "
            f"column a class (it has {', '.join(names) or 'no column'})"
        )
    return Form(meaning, tuple(rest), False, tuple(rest), "auto")


def column_names(path: Path) -> list[str]:
    """The names of a table's columns, each once."""
    import pyarrow
    import pyarrow.parquet

    try:
        if path.suffix.lower() == ".csv":
            with path.open(newline="", encoding="utf-8-sig") as lines:
                names = next(csv.reader(lines), [])
        else:
            names = list(pyarrow.parquet.read_schema(path).names)
    except (OSError, ValueError, pyarrow.ArrowException, csv.Error) as error:
        raise InputError(f"{path}: cannot be read ({one_line(error)}); write it again") from error
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{path}: two columns are called {twice!r}; rename one")
    other = next((mark for mark in (";", "\t", "|") if len(names) == 1 and mark in names[0]), None)
    if other is not None:
        raise InputError(f"{path}: columns are separated by {other!r}; separate them by commas")
    return names


def _batches(path: Path, columns: Sequence[str], text: Sequence[str] = ()) -> Iterator[Any]:
    """Some rows of some columns after another."""
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    try:
        if path.suffix.lower() == ".csv":
            kinds = {name: pyarrow.string() if name in text else pyarrow.float64() for name in columns}
            reading = pyarrow.csv.ConvertOptions(include_columns=list(columns), column_types=kinds)
            with pyarrow.csv.open_csv(path, convert_options=reading) as table:
                yield from (batch for batch in table if batch.num_rows)
        else:
            with pyarrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
                yield from file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=list(columns), use_threads=False)
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be read ({one_line(error)}); write it again") from error


def column(path: Path, form: Form, what: str) -> NDArray[Any] | None:
    """The whole of one column with a meaning; None where the table has none."""
    name = form.meaning.get(what)
    if name is None:
        return None
    parts = []
    for batch in _batches(path, [name], text=[name]):
        cells = batch.column(0)
        if cells.null_count:
            raise InputError(f"{path}: {name} has empty cells; fill them or drop the rows")
        parts.append(np.array([_decoded(path, name, cell) for cell in cells.to_pylist()]))
    if not parts:
        raise InputError(f"{path}: holds no rows")
    joined = np.concatenate(parts)
    return joined.astype(np.str_) if what in ("id", "split") or joined.dtype.kind not in "iu" else joined


def _decoded(path: Path, name: str, cell: Any) -> Any:
    """Text where a column holds bytes."""
    if not isinstance(cell, bytes):
        return cell
    try:
        return cell.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {name} must be text; got bytes that are not UTF-8: {cell[:20]!r}") from error


def row_count(path: Path, form: Form) -> int:
    """How many rows a table has."""
    if path.suffix.lower() != ".csv":
        import pyarrow.parquet

        rows = int(pyarrow.parquet.read_metadata(path).num_rows)
    else:
        rows = sum(batch.num_rows for batch in _batches(path, form.values[:1]))
    if rows == 0:
        raise InputError(f"{path}: holds no rows")
    return rows


def values(path: Path, form: Form) -> Iterator[NDArray[np.float64]]:
    """The numbers of some rows after another, each (n, C)."""
    width: int | None = form.n_classes
    for batch in _batches(path, form.values):
        if form.listed:
            found = _from_lists(path, form.values[0], batch.column(0))
        else:
            found = np.column_stack([_numbers(path, name, batch.column(name)) for name in form.values])
        if width is not None and found.shape[1] != width:
            raise InputError(f"{path}: {form.values[0]} must have one length; got {width} and {found.shape[1]}")
        width = found.shape[1]
        yield found


def _numbers(path: Path, name: str, column: Any) -> NDArray[np.float64]:
    try:
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: column {name!r} must hold numbers; got {column.type}") from error


def _from_lists(path: Path, name: str, column: Any) -> NDArray[np.float64]:
    import pyarrow

    types = pyarrow.types
    if not (
        types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type)
    ):
        raise InputError(f"{path}: {name} must hold lists of numbers; got {column.type}")
    lengths = np.asarray(column.value_lengths().to_numpy(zero_copy_only=False))
    if column.null_count or (lengths != lengths[0]).any() or lengths[0] < 2:
        raise InputError(f"{path}: {name} must hold lists of one length of at least 2")
    return _numbers(path, name, column.flatten()).reshape(len(column), -1)


def counted(parts: Iterator[NDArray[np.float64]]) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Pieces of rows with the number of their first row."""
    start = 0
    for part in parts:
        yield start, part
        start += len(part)
