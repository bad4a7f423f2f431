"""Parquet and Arrow files as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardpan.errors import InputError, reason
from hardpan.files import check_reading_memory

if TYPE_CHECKING:
    import pyarrow

BATCH = 65536
_SMALL = 64 << 20


def read_parquet(path: Path) -> pyarrow.Table:
    """A Parquet file as a table."""
    import pyarrow

    schema, rows = parquet_schema(path)
    check_reading_memory(path, rows * len(schema.names))
    # How long the lists are is known only from the metadata of single columns, and pyarrow ends the whole
    # process where those are damaged; so it is seen in reading.
    batches, size = [], 0
    for batch in parquet_batches(path):
        size += batch.nbytes + sum(map(_unpacked_bytes, batch.columns))
        check_reading_memory(path, size)
        batches.append(batch)
    with _refusing_damaged_parquet(path):
        table = pyarrow.Table.from_batches(batches, batches[0].schema if batches else schema)
        for position, item in enumerate(schema):
            if pyarrow.types.is_dictionary(table.field(position).type) and not pyarrow.types.is_dictionary(
                item.type
            ):
                kind = pyarrow.string() if size < 1 << 31 else pyarrow.large_string()
                table = table.set_column(position, item.name, table.column(position).cast(kind))
    return table


def parquet_schema(path: Path) -> tuple[pyarrow.Schema, int]:
    """The Arrow schema of a Parquet file, and how many rows it claims to have."""
    from pyarrow import parquet

    with _refusing_damaged_parquet(path), parquet.ParquetFile(path) as file:
        rows, schema = file.metadata.num_rows, file.schema_arrow
    if rows < 0 or len(set(schema.names)) < len(schema.names):
        raise InputError(f"{path}: the footer cannot be true, or names a column twice; write it again")
    return schema, rows


def parquet_batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[pyarrow.RecordBatch]:
    """The rows of a Parquet file; texts of a small file as dictionaries, so that their size is known before."""
    from pyarrow import parquet

    packed = _texts_of_small_file(path)
    options: Any = {"page_checksum_verification": True, "read_dictionary": packed}
    with _refusing_damaged_parquet(path), parquet.ParquetFile(path, **options) as file:
        rows = file.metadata.num_rows
        for group in range(file.num_row_groups):  # an iterator over several keeps what it has read
            for batch in file.iter_batches(BATCH, [group], columns, use_threads=False):
                batch.validate(full=True)
                rows -= batch.num_rows
                yield batch
    if rows:
        raise InputError(
            f"{path}: has {abs(rows):,} rows {'less' if rows > 0 else 'more'} than it claims; write it again"
        )


@contextmanager
def _refusing_damaged_parquet(path: Path) -> Iterator[None]:
    import pyarrow

    try:
        yield
    except InputError:
        raise
    except (pyarrow.ArrowException, OSError, MemoryError, OverflowError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({reason(error)}); write it again as Parquet") from error


def _texts_of_small_file(path: Path) -> list[str]:
    """The columns of text of a Parquet file that may claim far more than its bytes: of a small one."""
    import pyarrow
    from pyarrow import parquet, types

    if path.stat().st_size > _SMALL:
        return []
    try:
        schema = parquet.read_schema(path)
    except (pyarrow.ArrowException, OSError, ValueError):
        return []  # damaged: reading says so
    return [item.name for item in schema if types.is_string(item.type) or types.is_large_string(item.type)]


def _unpacked_bytes(column: Any) -> int:
    """What the texts of a dictionary column take as plain text; 0 for other columns."""
    import pyarrow
    from pyarrow import compute, types

    if not types.is_dictionary(column.type):
        return 0
    if not (types.is_string(column.type.value_type) or types.is_large_string(column.type.value_type)):
        return 8 * len(column)
    lengths = compute.binary_length(column.dictionary).cast(pyarrow.int64())
    return compute.sum(lengths.take(column.indices)).as_py() or 0


def read_arrow(path: Path) -> pyarrow.Table:
    """A file of Arrow's IPC format as a table."""
    import pyarrow

    check_reading_memory(path, path.stat().st_size)
    with pyarrow.OSFile(str(path)) as stream:
        magic = stream.read(6)
        stream.seek(0)
        open_ = pyarrow.ipc.open_file if magic == b"ARROW1" else pyarrow.ipc.open_stream
        with open_(stream) as reader:
            table = reader.read_all()
    table.validate(full=True)
    return table
