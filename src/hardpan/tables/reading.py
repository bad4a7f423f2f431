"""Columns read from CSV, TSV, JSON, JSONL, Parquet, Arrow, Excel files, data frames and Python objects."""

from __future__ import annotations

import itertools
import json
import re
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardpan import arguments
from hardpan.errors import InputError, MissingExtra, few, reason
from hardpan.files import (
    check_reading_memory,
    existing_file,
    read_json,
    read_json_lines,
    refusing_damaged,
    suffix_of,
)
from hardpan.tables.arrow_files import read_arrow, read_parquet
from hardpan.tables.csv_files import MISSING_WORDS, Notes, is_number, read_csv, table_without_header

if TYPE_CHECKING:
    import pyarrow

SPREADSHEETS = (".xlsx", ".xls", ".ods")
SUFFIXES = (
    *(".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".parquet", ".pq", ".arrow", ".feather"),
    *SPREADSHEETS,
)
_CHECKED = 1 << 24
_INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+(\.\d+)*")
_COUNTED = ("index", "level_0")  # what reset_index of pandas and with_row_index of polars call a row number


def is_table_file(path: Path) -> bool:
    """Whether the name is that of a table (text files are lists, not tables)."""
    return suffix_of(path) in SUFFIXES and suffix_of(path) != ".txt"


def is_frame(value: Any) -> bool:
    """Whether an object is a data frame or an Arrow table; a series, which is one column, is not."""
    if _is_lazy(value):
        return True
    if isinstance(value, type) or not any(hasattr(value, name) for name in ("columns", "column_names", "schema")):
        return False
    return any(hasattr(value, name) for name in ("__arrow_c_stream__", "__dataframe__", "to_arrow"))


def _is_lazy(value: Any) -> bool:
    """Whether an object is a LazyFrame of polars, whose rows are computed by ``collect``."""
    return callable(getattr(value, "collect", None)) and callable(getattr(value, "collect_schema", None))


def read_table(
    source: Any,
    *,
    text: bool | Collection[str] | Callable[[str], bool] = (),
    empty: bool = False,
    unnamed: str = "",
    name: str = "table",
    notes: Notes | None = None,
) -> pyarrow.Table:
    """Columns of a file, a frame, a mapping of columns or a list of rows, as an Arrow table.

    Args:
        source: the path of a table; a pandas, polars or pyarrow frame; ``{"a": [...]}``; ``[{"a": ...}, ...]``.
        text: columns of a CSV file that stay as they are written (``007``), or a function that picks them by name;
            True for all.
        empty: accept a table without rows.
        unnamed: what to call the columns of a CSV file whose first row has numbers, such as "item-" for item-0,
            item-1, ...; if empty, such a file is refused.
        name: the argument that a user passed it as, for messages.
        notes: gets a note for each repair: "encoding", "unnamed_column", "repeated_column", "sheet",
            "missing_word". None refuses text that is not UTF-8 and names that occur twice.

    Example:
        >>> read_table([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]).column("a").to_pylist()
        [1, 2]
    """
    import pyarrow

    where = str(source) if isinstance(source, (str, Path)) else name
    try:
        if isinstance(source, (str, Path)) or hasattr(source, "__fspath__"):
            table = _read_file(existing_file(source), text, unnamed, notes)
        elif isinstance(source, Mapping):
            table = columns_to_table(source, where)
        elif isinstance(source, (list, tuple)):
            table = columns_to_table(_columns_of_rows(source, where), where)
        else:
            table = _from_frame(source, name, notes)
    except (pyarrow.ArrowException, OverflowError, MemoryError, UnicodeError, TypeError, OSError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where}: cannot be read as a table ({reason(error)}); write it again") from error
    names = table.column_names
    if notes is not None:
        names = _distinct_names(names, notes)
        table = table if names == table.column_names else table.rename_columns(names)
    if len(set(names)) < len(names):
        repeated = next(column for column in names if names.count(column) > 1)
        raise InputError(f"{where}: column {repeated!r} occurs {names.count(repeated)} times; rename it")
    if not names or (table.num_rows == 0 and not empty):
        raise InputError(f"{where}: the table has no rows")
    return clean_table(table)


def _distinct_names(names: Sequence[str], notes: Notes, *, index: bool = True) -> list[str]:
    """A name for every column: ``column 3`` for the third where it has none, ``age 2`` for the second ``age``.

    With ``index`` the first column may have an empty name: it is the index that pandas writes.
    """
    taken, distinct = set(names), list(names)
    unnamed = [at for at, name in enumerate(names) if (at or not index) and not name.strip()]
    repeated = [at for at, name in enumerate(names) if name.strip() and name in names[:at]]
    for at in (*unnamed, *repeated):
        stem, number = (names[at], 2) if at in repeated else ("column", at + 1)
        while f"{stem} {number}" in taken:
            number += 1
        distinct[at] = f"{stem} {number}"
        taken.add(distinct[at])
    for code, positions, message in (
        ("unnamed_column", unnamed, "columns without a name are called"),
        ("repeated_column", repeated, "columns whose name occurs before are called"),
    ):
        new = tuple(distinct[at] for at in positions)
        if new:
            notes.append((f"{message} {few(new)}", code, new))
    return distinct


def clean_table(table: pyarrow.Table) -> pyarrow.Table:
    """Columns of text and their names without control characters (:func:`hardpan.arguments.clean_text`)."""
    import pyarrow
    from pyarrow import compute

    for position, column in enumerate(table.columns):
        is_text = pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type)
        if is_text and compute.any(compute.match_substring_regex(column, arguments.UNSAFE_CELL)).as_py():
            clean = {text: text and arguments.clean_text(text, lines=True) for text in column.unique().to_pylist()}
            cells = pyarrow.array([clean[text] for text in column.to_pylist()], column.type)
            table = table.set_column(position, table.field(position).name, cells)
    names = list(arguments.clean_names("columns", table.column_names))
    return table if names == table.column_names else table.rename_columns(names)


def read_columns(
    source: Any,
    *,
    text: bool = False,
    required: Sequence[str] = (),
    empty: bool = False,
    unnamed: str = "",
    name: str = "table",
) -> dict[str, list[Any]]:
    """The same as lists by name; a missing cell is None.

    Args:
        source: as for :func:`read_table`.
        text: every cell as the text that a CSV file has, without spaces around it and with a decimal point instead
            of a decimal comma; missing cells are "", and rows of them are left out.
        required: columns that must be there and have a value in every row.
        empty: accept a table without rows.
        unnamed: as for :func:`read_table`.
        name: as for :func:`read_table`.

    Example:
        >>> read_columns({"id": [7, 8], "class": ["cat", None]}, text=True)
        {'id': ['7', '8'], 'class': ['cat', '']}
    """
    table = read_table(source, text=text, empty=empty, unnamed=unnamed, name=name)
    where = str(source) if isinstance(source, (str, Path)) else name
    columns: dict[str, list[Any]] = {}
    for column in table.column_names:
        values = cells_of(table.column(column), f"{where}: column {column!r}")
        if text:
            values = ["" if value is None else str(value).strip() for value in values]
        columns[column.strip() if text else column] = values
    if text and (full := [any(row) for row in zip(*columns.values(), strict=True)]) and not all(full):
        columns = {column: list(itertools.compress(values, full)) for column, values in columns.items()}
    for column in required:
        if column not in columns:
            raise InputError(f"{where}: column {column!r} is missing (the table has {few(columns)})")
        gap = next((row for row, value in enumerate(columns[column]) if value is None or value == ""), None)
        if gap is not None:
            raise InputError(f"{where}: column {column!r} is empty in row {gap}; fill it or remove the row")
    return columns


def cells_of(column: pyarrow.ChunkedArray, where: str) -> list[Any]:
    """The cells of a column as Python values; refuses dates and times that Python does not have."""
    import pyarrow

    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError, pyarrow.ArrowException) as error:
        raise InputError(
            f"{where} of type {column.type} cannot be read ({reason(error)}); write it as text"
        ) from error


def read_rows(source: Any, *, required: Sequence[str] = ()) -> list[dict[str, str]]:
    """The rows of a table as text by column name.

    Example:
        >>> read_rows({"class": ["cat"], "definition": [None]}, required=["class"])
        [{'class': 'cat', 'definition': ''}]
    """
    columns = read_columns(source, text=True, required=required)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def index_columns(table: pyarrow.Table) -> list[str]:
    """Columns that are the row index of a pandas frame rather than data.

    They are listed in the pandas metadata of the table, or are called ``__index_level_0__`` or ``Unnamed: 0``, or
    are the first column with an empty name, as ``DataFrame.to_csv`` writes it, or are called ``index`` or
    ``level_0`` and have whole numbers that differ.

    Example:
        >>> index_columns(read_table({"Unnamed: 0": [0, 1], "a": [5, 6]}))
        ['Unnamed: 0']
    """
    from pyarrow import compute, types

    def is_row_number(column: Any) -> bool:
        return bool(types.is_integer(column.type)) and compute.count_distinct(column).as_py() == len(column)

    names = table.column_names
    results = {
        name
        for position, name in enumerate(names)
        if _INDEX.fullmatch(name)
        or (name == "" and position == 0)
        or (name in _COUNTED and is_row_number(table.column(name)))
    }
    try:
        listed = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}")).get("index_columns", [])
        results |= {name for name in listed if isinstance(name, str)}
    except (ValueError, AttributeError, TypeError, RecursionError):
        pass  # damaged metadata name nothing
    return [name for name in names if name in results]


def _read_file(
    path: Path, text: bool | Collection[str] | Callable[[str], bool], unnamed: str, notes: Notes | None
) -> pyarrow.Table:
    suffix = suffix_of(path)
    if suffix in (".csv", ".tsv", ".txt"):
        is_text = text if callable(text) else lambda name: text is True or name in (text or ())
        return read_csv(path, is_text, unnamed, text is True, notes)
    if suffix in SPREADSHEETS:
        return _read_spreadsheet(path, notes)
    if suffix in (".json", ".jsonl", ".ndjson"):
        data = read_json(path) if suffix == ".json" else _json_table_rows(path)
        if isinstance(data, list):
            data = _columns_of_rows(data, str(path))
        if not isinstance(data, dict):
            raise InputError(f"{path}: must be a list of rows or a mapping of columns; got {type(data).__name__}")
        if data and all(isinstance(values, dict) for values in data.values()):  # pandas: {"a": {"0": 1, "1": 2}}
            keys = list(dict.fromkeys(key for values in data.values() for key in values))
            data = {name: [values.get(key) for key in keys] for name, values in data.items()}
        return columns_to_table(data, str(path))
    if suffix in (".parquet", ".pq"):
        return read_parquet(path)
    if suffix in (".arrow", ".feather"):
        return read_arrow(path)
    raise InputError(f"{path}: unsupported format; supported tables: {', '.join(SUFFIXES)}")


def _read_spreadsheet(path: Path, notes: Notes | None) -> pyarrow.Table:
    """The first sheet of an Excel or OpenDocument file that has cells; its first row has the names."""
    try:
        import python_calamine
    except ImportError as error:
        raise MissingExtra("python-calamine", "excel") from error
    if zipfile.is_zipfile(path):
        with refusing_damaged(path), zipfile.ZipFile(path) as archive:
            check_reading_memory(path, 8 * sum(item.file_size for item in archive.infolist()))
    try:
        with python_calamine.load_workbook(path) as book:
            sheets = [sheet.name for sheet in book.sheets_metadata if "Sheet" in str(sheet.typ)]
            read = ((name, book.get_sheet_by_name(name).to_python(skip_empty_area=True)) for name in sheets)
            name, rows = next(((name, rows) for name, rows in read if rows), ("", []))
    except (python_calamine.CalamineError, OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({reason(error)}); save the sheet as CSV") from error
    if len(rows) < 2:
        raise InputError(f"{path}: the table has no rows")
    if len(sheets) > 1 and notes is not None:
        others = [item for item in sheets if item != name]
        notes.append((f"read sheet {name!r}; for another one ({few(others)}) save it as CSV", "sheet", ()))
    header = [str(cell).strip() for cell in rows[0]]
    if any(isinstance(cell, (int, float)) for cell in rows[0]) and all(map(is_number, filter(None, header))):
        raise table_without_header(path, header)
    columns = [_column_of_cells(cells) for cells in zip(*rows[1:], strict=True)]
    import pyarrow

    return pyarrow.table(columns, names=header)


def _column_of_cells(cells: Sequence[Any]) -> pyarrow.Array:
    """A column of a sheet: numbers (whole ones as such), dates or booleans where all filled cells are, or text."""
    import pyarrow

    values = [None if isinstance(cell, str) and (not cell or cell in MISSING_WORDS) else cell for cell in cells]
    kinds = {type(value) for value in values if value is not None}
    if kinds and kinds <= {int, float}:
        whole = all(value is None or value == int(value) for value in values)
        return pyarrow.array(values, pyarrow.int64() if whole else pyarrow.float64(), from_pandas=True, safe=False)
    if len(kinds) == 1 and kinds != {str}:
        return pyarrow.array(values)
    return pyarrow.array(
        [str(int(cell)) if isinstance(cell, float) and cell == int(cell) else str(cell) for cell in cells],
        pyarrow.string(),
    )


def _json_table_rows(path: Path) -> list[Any]:
    read, checked = 0, 0

    def advance(size: int) -> None:
        nonlocal read, checked
        read += size
        if read - checked > _CHECKED:  # what a packed file has is known only in reading
            check_reading_memory(path, read)
            checked = read

    check_reading_memory(path, 8 * path.stat().st_size)
    return list(read_json_lines(path, advance))


def _columns_of_rows(rows: Sequence[Any], where: str) -> dict[str, list[Any]]:
    wrong = next((number for number, row in enumerate(rows) if not isinstance(row, Mapping)), None)
    if wrong is not None:
        raise InputError(
            f"{where}: every row must be a mapping of column names to values; row {wrong} is a "
            f"{type(rows[wrong]).__name__}"
        )
    names = dict.fromkeys(name for row in rows for name in row)
    return {str(name): [row.get(name) for row in rows] for name in names}


def columns_to_table(columns: Mapping[Any, Any], where: str) -> pyarrow.Table:
    """Equally long columns by name as a table."""
    import pyarrow

    arrays: dict[str, Any] = {}
    for name, values in columns.items():
        if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
            raise InputError(
                f"{where}: column {str(name)[:60]!r} must have one value for each row; got {str(values)[:60]!r}"
            )
        if not hasattr(values, "__arrow_array__") and getattr(values, "ndim", 1) != 1:
            raise InputError(
                f"{where}: column {name!r} must be one-dimensional; got {getattr(values, 'ndim', 0)} dimensions"
            )
        try:
            arrays[str(name)] = pyarrow.array(values if hasattr(values, "dtype") else list(values))
        except (pyarrow.ArrowException, OverflowError, TypeError, ValueError):
            # Values of several types, such as 1 and "a", are text.
            arrays[str(name)] = pyarrow.array([None if value is None else str(value) for value in values])
    lengths = {len(array) for array in arrays.values()}
    if len(lengths) > 1:
        sizes = few([f"{name} {len(array)}" for name, array in arrays.items()])
        raise InputError(f"{where}: columns must have one length; got {sizes}")
    return pyarrow.table(arrays)


def _from_frame(source: Any, name: str, notes: Notes | None) -> pyarrow.Table:
    import pyarrow

    if isinstance(source, pyarrow.Table):
        return source
    if _is_lazy(source):
        source = source.collect()
    if notes is not None and hasattr(source, "set_axis"):  # pandas has columns with equal names, or None or NaN
        names = ["" if str(label) in ("None", "nan", "<NA>") else str(label) for label in source.columns]
        if "" in names or len(set(names)) < len(names):
            source = source.set_axis(_distinct_names(names, notes, index=False), axis=1)
    if isinstance(source, pyarrow.RecordBatch):
        return pyarrow.Table.from_batches([source])
    try:
        if hasattr(source, "__arrow_c_stream__"):
            table = pyarrow.table(source)
            # The nameless index of a frame in memory is not data.
            return table.select([name for name in table.column_names if not _INDEX.fullmatch(name)])
        if hasattr(source, "__dataframe__"):
            from pyarrow.interchange import from_dataframe

            return from_dataframe(source)
    except Exception as error:  # each library raises its own kinds
        raise InputError(
            f"the frame cannot be converted to columns ({reason(error)}); make every column numbers or text"
        ) from error
    raise InputError(
        f"must be a file, a data frame, a mapping of columns or a list of rows; got {type(source).__name__}",
        argument=name,
    )
