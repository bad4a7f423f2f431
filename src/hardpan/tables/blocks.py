"""Tables larger than memory, read block by block: Parquet and CSV files; tables in memory, too."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardpan.errors import InputError, few, reason
from hardpan.files import suffix_of
from hardpan.tables.arrow_files import BATCH, parquet_batches, parquet_schema
from hardpan.tables.csv_files import csv_blocks
from hardpan.tables.reading import clean_table

if TYPE_CHECKING:
    import pyarrow

LARGE_CELLS = 50_000_000  # of a table that is read by blocks where a sample of it is enough
LARGE_BYTES = 1 << 28  # the same of a CSV file, whose rows are not known before it is read
_NUMBERS = ("is_integer", "is_floating")


def is_large(path: Path) -> bool:
    """Whether a file has so many cells that it is read by blocks where a sample is enough."""
    if suffix_of(path) in (".parquet", ".pq"):
        schema, rows = parquet_schema(path)
        return rows * len(schema.names) > LARGE_CELLS
    return suffix_of(path) in (".csv", ".tsv") and path.stat().st_size > LARGE_BYTES


@dataclass(frozen=True, slots=True)
class TableBlocks:
    """Tables with the same columns, one after the other.

    Attributes:
        parts: files and Arrow tables by split.
        rows: how many rows each split has.
        schema: of the blocks.
        where: the tables in messages.
        block_rows: rows of a block of a table in memory.
    """

    parts: Mapping[str, Sequence[Any]]
    rows: Mapping[str, int]
    schema: pyarrow.Schema
    where: str = ""
    block_rows: int = BATCH

    @classmethod
    def open(
        cls,
        parts: Mapping[str, Sequence[Any]],
        text: Callable[[str], bool] = lambda name: False,
        where: str = "",
        block_rows: int = BATCH,
    ) -> TableBlocks:
        """Find the rows and types of all tables; ``text`` picks columns of CSV files that stay as they are written.

        Example:
            >>> import pyarrow
            >>> table = pyarrow.table({"a": [1, 2, 3], "b": ["x", "y", None]})
            >>> blocks = TableBlocks.open({"train": [table], "test": [table]}, block_rows=2)
            >>> blocks.rows, [block.num_rows for block in blocks.read(["a"])]
            ({'train': 3, 'test': 3}, [2, 1, 2, 1])
        """
        import pyarrow

        schemas, rows = [], {}
        for split, listed in parts.items():
            sizes = []
            for part in listed:
                schema, size = _schema_and_rows(part, text)
                schemas.append(schema)
                sizes.append(size)
            rows[split] = sum(sizes)
        names = set(schemas[0].names)
        if odd := sorted(set().union(*(names ^ set(schema.names) for schema in schemas))):
            raise InputError(
                f"{where}the tables must have the same columns; {few(odd)} is only in some of them; make them "
                "alike, or give one of the files"
            )
        try:
            joined = pyarrow.unify_schemas(schemas, promote_options="permissive")
        except pyarrow.ArrowException as error:
            raise InputError(
                f"{where}the tables cannot be joined ({reason(error)}); give columns of the same type"
            ) from error
        return cls(parts, rows, joined, where, block_rows)

    def read(self, columns: Sequence[str] | None = None) -> Iterator[pyarrow.Table]:
        """All blocks, or some columns of them, in the order of the splits."""
        import pyarrow

        names = self.schema.names if columns is None else list(columns)
        schema = pyarrow.schema([self.schema.field(name) for name in names], self.schema.metadata)
        for part in itertools.chain(*self.parts.values()):
            for block in self._blocks_of(part, names):
                try:
                    plain = block.select(names).cast(schema)
                except pyarrow.ArrowException as error:
                    raise InputError(
                        f"{self.where}the tables cannot be joined ({reason(error)}); give columns of the same type"
                    ) from error
                yield clean_table(plain)

    def _blocks_of(self, part: Any, names: Sequence[str]) -> Iterator[pyarrow.Table]:
        import pyarrow

        if not isinstance(part, Path):
            yield from (part.slice(at, self.block_rows) for at in range(0, part.num_rows, self.block_rows))
        elif suffix_of(part) in (".csv", ".tsv"):
            yield from csv_blocks(part, {item.name: item.type for item in self.schema}, names)
        else:
            yield from (pyarrow.Table.from_batches([batch]) for batch in parquet_batches(part, names))


def _schema_and_rows(part: Any, text: Callable[[str], bool]) -> tuple[pyarrow.Schema, int]:
    """Column names, plain types and the number of rows of a file or table; a CSV file is read once for that."""
    import pyarrow

    if not isinstance(part, Path):
        schema, rows = part.schema, part.num_rows
    elif suffix_of(part) not in (".csv", ".tsv"):
        schema, rows = parquet_schema(part)
    else:
        types: dict[str, Any] = {}
        rows = 0
        for block in csv_blocks(part, {}):
            rows += block.num_rows
            for item in block.schema:
                types[item.name] = _wider_type(types.get(item.name, item.type), item.type)
        plain = {name: pyarrow.string() if text(name) else kind for name, kind in types.items()}
        schema = pyarrow.schema(list(plain.items()))
    for position, item in enumerate(schema):
        if pyarrow.types.is_dictionary(item.type):
            schema = schema.set(position, item.with_type(item.type.value_type))
        elif pyarrow.types.is_string_view(item.type):
            schema = schema.set(position, item.with_type(pyarrow.large_string()))
    return schema, rows


def _wider_type(a: Any, b: Any) -> Any:
    """The type of a column of a CSV file whose blocks have these: text where they do not agree."""
    import pyarrow
    from pyarrow import types

    if a.equals(b) or types.is_null(b):
        return a
    if types.is_null(a):
        return b
    numbers = all(any(getattr(types, check)(kind) for check in _NUMBERS) for kind in (a, b))
    return pyarrow.float64() if numbers else pyarrow.string()
