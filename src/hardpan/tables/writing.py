"""Columns written to files, and results as columns and frames."""

from __future__ import annotations

import csv
import importlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from hardpan import files
from hardpan.arguments import one_of
from hardpan.errors import InputError, MissingExtra
from hardpan.tables.csv_files import is_number
from hardpan.tables.reading import columns_to_table

FRAMES = ("pandas", "polars", "pyarrow")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a formula begins


def write_table(path: Any, columns: Mapping[str, Sequence[Any]]) -> Path:
    """Write equally long columns to .csv, .tsv, .json, .jsonl or .parquet, in one step.

    Example:
        >>> import tempfile
        >>> from hardpan.tables import read_columns
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     read_columns(write_table(f"{folder}/a.csv", {"id": ["a", "b"], "n": [1, 2]}))
        {'id': ['a', 'b'], 'n': [1, 2]}
    """
    target = Path(path)
    suffix = target.suffix.lower()
    rows = (dict(zip(columns, row, strict=True)) for row in _rows_of_columns(columns))
    if suffix in (".csv", ".tsv"):
        content = csv_text(columns, delimiter="\t" if suffix == ".tsv" else ",").encode()
    elif suffix == ".json":
        content = json.dumps(list(rows), ensure_ascii=False).encode()
    elif suffix in (".jsonl", ".ndjson"):
        content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    elif suffix in (".parquet", ".pq"):
        from pyarrow import parquet

        stream = io.BytesIO()
        parquet.write_table(columns_to_table(columns, str(target)), stream, write_page_checksum=True)
        content = stream.getvalue()
    else:
        raise InputError(f"{target}: tables are written as .csv, .tsv, .json, .jsonl or .parquet; got {suffix!r}")
    files.write_bytes(target, content)
    return target


def csv_text(columns: Mapping[str, Sequence[Any]], delimiter: str = ",") -> str:
    """Columns as the text of a CSV file; None is an empty cell.

    A text that a spreadsheet would take for a formula gets an apostrophe before it: names may come from strangers.

    Example:
        >>> csv_text({"name": ["a,b", None], "n": [1, 2.5]})
        'name,n\\n"a,b",1\\n,2.5\\n'
        >>> csv_text({"name": ["=1+1", "-3", "-x"]})
        "name\\n'=1+1\\n-3\\n'-x\\n"
    """
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow([safe_table_cell(name) for name in columns])
    writer.writerows(map(safe_table_cell, row) for row in _rows_of_columns(columns))
    return text.getvalue()


def _rows_of_columns(columns: Mapping[str, Any]) -> Iterable[tuple[Any, ...]]:
    lists = (values.tolist() if hasattr(values, "tolist") else values for values in columns.values())
    return zip(*lists, strict=True)


def safe_table_cell(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula; numbers stay as they are.

    A formula gets an apostrophe before it, and so does a formula that has some: different texts stay different.

    Example:
        >>> safe_table_cell("=x"), safe_table_cell("'=x"), safe_table_cell("'tis"), safe_table_cell("-3")
        ("'=x", "''=x", "'tis", '-3')
    """
    bare = value.lstrip("'") if isinstance(value, str) else ""
    return f"'{value}" if bare.startswith(_FORMULA) and not is_number(bare) else value


def stored_cell(text: str) -> str:
    """What :func:`safe_table_cell` was given.

    Example:
        >>> stored_cell("'=x"), stored_cell("''=x"), stored_cell("'tis")
        ('=x', "'=x", "'tis")
    """
    return text[1:] if text[:1] == "'" and safe_table_cell(text) != text else text


def to_frame(columns: Mapping[str, Any], kind: str | None = None) -> Any:
    """Columns as a data frame.

    Args:
        columns: equally long columns by name.
        kind: "pandas", "polars" or "pyarrow"; None takes the first of them that is installed.

    Example:
        >>> to_frame({"model": ["a", "b"], "error": [0.1, 0.2]}, "pyarrow").column_names
        ['model', 'error']
    """
    one_of("kind", kind, (*FRAMES, None))
    for name in FRAMES if kind is None else (kind,):
        try:
            library = importlib.import_module(name)
            break
        except ImportError as error:
            if kind is not None:
                raise MissingExtra(kind, kind) from error
    data = {name: list(values) if isinstance(values, tuple) else values for name, values in columns.items()}
    return library.DataFrame(data) if hasattr(library, "DataFrame") else library.table(data)


def columns_of(rows: Iterable[Any], *names: str, **renamed: str) -> dict[str, list[Any]]:
    """The columns of a table of results: attributes of each row by name, inner ones behind a dot.

    Example:
        >>> from hardpan.estimates import Estimate
        >>> columns_of([Estimate(0.5, 0.1, 0.3, 0.7)], "value", "low", spread="stderr")
        {'value': [0.5], 'low': [0.3], 'spread': [0.1]}
        >>> list(columns_of([], "model", "gap.value", "gap.low"))
        ['model', 'gap', 'gap_low']
    """
    listed = list(rows)
    paths = {name.removesuffix(".value").replace(".", "_"): name for name in names} | renamed
    return {name: [attrgetter(path)(row) for row in listed] for name, path in paths.items()}


def rows_to_columns(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """Rows as columns by name.

    Example:
        >>> rows_to_columns(("a", "b"), [(1, 2), (3, 4)]), rows_to_columns(("a",), [])
        ({'a': [1, 3], 'b': [2, 4]}, {'a': []})
    """
    return {name: [row[position] for row in rows] for position, name in enumerate(names)}
