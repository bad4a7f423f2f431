"""Columns: read from CSV, TSV, JSON, JSONL, Parquet, Arrow, Excel files and data frames, and written.

One reader for all of hardpan. :func:`read_table` gives an Arrow table of anything that has columns: a file, a
pandas, polars or pyarrow frame, a mapping of columns, a list of rows. :func:`read_columns` and :func:`read_rows`
give the same as Python lists. :func:`write_table` and :func:`csv_text` write. Files are checked as in
:mod:`hardpan.files`. Which column is what is found by :func:`find_columns` in the table of ``ROLES``.

- CSV: comma, semicolon, tab or ``|``, found in the header; UTF-8, or UTF-16 with its mark; may be gzipped. A
  semicolon file may have decimal commas. Spaces after the delimiter and the ``sep=;`` of Excel are skipped. A first
  row of values is refused as a missing header; 0, 1, 2, ... are names.
- Excel (.xlsx, .xls, .ods): the first sheet with cells, whose first row has the names; needs python-calamine.
- JSON: a list of rows, a mapping of columns, or pandas' ``{"column": {"0": value}}``. JSONL: one row per line.
- Missing: an empty cell, ``NA``, ``NaN``, ``null`` and their like in columns of numbers; in text only an empty
cell.
- A caller that passes ``notes`` also gets tables that need a repair, and a note of each: text in Windows-1252 or
UTF-16, columns without a name, names that occur twice.
"""

from __future__ import annotations

from hardpan.lazy import exports
from hardpan.tables.blocks import LARGE_CELLS, TableBlocks, is_large
from hardpan.tables.csv_files import MISSING, MISSING_WORDS, Notes, csv_rows, is_number
from hardpan.tables.reading import (
    SPREADSHEETS,
    SUFFIXES,
    cells_of,
    index_columns,
    is_frame,
    is_table_file,
    read_columns,
    read_rows,
    read_table,
)
from hardpan.tables.roles import (
    ROLES,
    SHORTCUTS,
    column_role_names,
    find_columns,
    given_columns,
    named_column,
    plain_name,
    table_columns_by_role,
)
from hardpan.tables.writing import (
    FRAMES,
    columns_of,
    csv_text,
    rows_to_columns,
    safe_table_cell,
    stored_cell,
    to_frame,
    write_table,
)

exports(__name__)
