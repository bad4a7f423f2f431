"""Feature vectors in Parquet files: embeddings, or tables of numbers.

Features are one column ``features`` of lists, all of one length, or every column of numbers that has no other
meaning, in the order of the file. Optional columns: ``label`` (class numbers, or text: classes in the order of
their names), ``split`` ("train" or "test" in every row: the official split) and ``id``. What else stands beside
``features`` becomes metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.data.arrays import checked_ids, checked_x, number_labels
from hardpan.data.dataset import Dataset, content_ids
from hardpan.data.memory import check_memory
from hardpan.errors import InputError

ROWS_AT_ONCE = 65536
VECTOR = "features"
MEANINGS = ("label", "split", "id")


def matches(path: Path) -> bool:
    """Say whether this is ours to read: a file whose name ends in .parquet."""
    return path.suffix.lower() == ".parquet" and not path.is_dir()


def read(path: Path) -> Dataset:
    """Read one Parquet file into a dataset of feature vectors (N, d), or refuse it in one sentence.

    The rows that the footer counts, and then what the rows hold, are compared with free memory.
    """
    table = _table(path)
    if table.num_rows == 0:
        raise InputError(f"{path}: holds no rows; give at least one")
    for name in table.column_names:
        if table.column(name).null_count:
            row = int(np.argmax(table.column(name).is_null().to_numpy()))
            raise InputError(f"{path}: {name} has no value in row {row}; drop or fill such rows")
    listed = VECTOR in table.column_names
    x = checked_x(f"{path}: features", _vectors(path, table.column(VECTOR)) if listed else _columns(path, table))
    labels, class_names = _labels(path, table)
    ids = content_ids(x)
    if "id" in table.column_names:
        ids = checked_ids(f"{path}: id", _plain(path, table, "id"), len(x))
    others = [name for name in table.column_names if listed and name not in (VECTOR, *MEANINGS)]
    metadata = {name: _plain(path, table, name) for name in others}
    return Dataset(path.stem, x, ids, labels, class_names, _split(path, table), metadata, source=path.name)


def _table(path: Path) -> Any:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
            footer, schema = file.metadata, file.schema_arrow
            if footer.num_rows < 0 or len(set(schema.names)) < len(schema.names):
                raise InputError(f"{path}: the footer cannot be true, or names a column twice; write it again")
            check_memory(path, 8 * footer.num_rows * len(schema.names))
            table = pyarrow.Table.from_batches(_batches(path, file), schema)
            table.validate(full=True)
            if table.num_rows != footer.num_rows:
                raise InputError(
                    f"{path}: claims {footer.num_rows:,} rows, but holds {table.num_rows:,}; write it again"
                )
    except (pyarrow.ArrowException, OSError, MemoryError, OverflowError, UnicodeDecodeError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).partition("\n")[0][:160]
        raise InputError(f"{path}: cannot be read ({reason}); write it again as Parquet") from error
    return table


def _batches(path: Path, file: Any) -> Iterator[Any]:
    """Read some rows after another, and stop where they grow over free memory.

    How long the lists are is known only from the metadata of single columns, and pyarrow ends the whole process
    where those are damaged; so it is seen in reading.
    """
    taken = 0
    for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, use_threads=False):
        taken += batch.nbytes
        check_memory(path, taken)
        yield batch


def _vectors(path: Path, column: Any) -> NDArray[Any]:
    """One list a row, all of one length, as a matrix."""
    import pyarrow

    kind = column.type
    types = pyarrow.types
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        raise InputError(f"{path}: {VECTOR} must hold lists of numbers; got {kind}")
    if not _is_number(kind.value_type):
        raise InputError(f"{path}: {VECTOR} must hold lists of numbers; got lists of {kind.value_type}")
    rows = len(column)
    parts = [chunk.flatten() for chunk in column.chunks]
    lengths = np.concatenate([_lengths(chunk) for chunk in column.chunks])
    if (lengths != lengths[0]).any():
        row = int(np.argmax(lengths != lengths[0]))
        raise InputError(
            f"{path}: {VECTOR} must have one length; row 0 has {int(lengths[0])} and row {row} {int(lengths[row])}"
        )
    if any(part.null_count for part in parts):
        raise InputError(f"{path}: {VECTOR} has lists with missing numbers; drop or fill such rows")
    flat = np.concatenate([part.to_numpy(zero_copy_only=False) for part in parts])
    return flat.reshape(rows, -1) if flat.size else np.empty((rows, 0))


def _lengths(chunk: Any) -> NDArray[np.int64]:
    import pyarrow

    if pyarrow.types.is_fixed_size_list(chunk.type):
        return np.full(len(chunk), chunk.type.list_size, dtype=np.int64)
    lengths: NDArray[np.int64] = np.diff(chunk.offsets.to_numpy(zero_copy_only=False)).astype(np.int64)
    return lengths


def _columns(path: Path, table: Any) -> NDArray[Any]:
    names = [name for name in table.column_names if name not in MEANINGS]
    if not names:
        raise InputError(f"{path}: holds no features; give a column {VECTOR} of lists, or columns of numbers")
    for name in names:
        if not _is_number(table.schema.field(name).type):
            raise InputError(
                f"{path}: column {name!r} holds {table.schema.field(name).type}, not numbers; drop it or encode it "
                f"(columns with a meaning are {', '.join(MEANINGS)})"
            )
    return np.column_stack([table.column(name).to_numpy() for name in names])


def _labels(path: Path, table: Any) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    if "label" not in table.column_names:
        return None, ()
    given = _plain(path, table, "label")
    return number_labels(f"{path}: label", given)[:2]


def _split(path: Path, table: Any) -> NDArray[np.str_] | None:
    if "split" not in table.column_names:
        return None
    split = _plain(path, table, "split")
    strange = [row for row, part in enumerate(split.tolist()) if part not in ("train", "test")]
    if strange:
        raise InputError(f"{path}: split must be train or test; row {strange[0]} has {str(split[strange[0]])!r}")
    if len(set(split.tolist())) < 2:
        raise InputError(f"{path}: split must have rows of train and of test; got only {str(split[0])!r}")
    return split


def _plain(path: Path, table: Any, name: str) -> NDArray[Any]:
    """A column of numbers or text as NumPy has it, dictionaries undone."""
    import pyarrow

    column = table.column(name)
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pyarrow.types.is_integer(kind) or (name not in MEANINGS and _is_number(kind)):
        return np.asarray(column.to_numpy())
    if pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind):
        return np.array(column.to_pylist(), dtype=np.str_)
    raise InputError(f"{path}: {name} must hold text or integers; got {kind}: change it or drop the column")


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind))
