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

import collections
import csv
import difflib
import importlib
import io
import itertools
import json
import re
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardpan import arguments, files
from hardpan.arguments import one_of
from hardpan.errors import InputError, MissingExtra, few, reason
from hardpan.files import (
    check_reading_memory,
    existing_file,
    read_json,
    read_json_lines,
    read_text,
    refusing_damaged,
    suffix_of,
)

if TYPE_CHECKING:
    import pyarrow

FRAMES = ("pandas", "polars", "pyarrow")
SPREADSHEETS = (".xlsx", ".xls", ".ods")
SUFFIXES = (
    *(".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".parquet", ".pq", ".arrow", ".feather"),
    *SPREADSHEETS,
)
Notes = list[tuple[str, str, tuple[str, ...]]]  # sentence, code and columns
_BATCH = 65536
_CHECKED = 1 << 24
_SMALL = 64 << 20
MISSING = frozenset(("NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "?", "#N/A", "-nan", "<NA>", "NaT"))
MISSING_WORDS = frozenset(("-", ".", "na", *MISSING))  # cells of columns of numbers
_NULLS = ["", *sorted(MISSING_WORDS)]
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a formula begins
_INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+(\.\d+)*")
_COUNTED = ("index", "level_0")  # what reset_index of pandas and with_row_index of polars call a row number
_SEP_LINE = re.compile(r"sep=([,;|\t])\r?\n", re.IGNORECASE)
_HEADER_ROWS = 1000


# What a column holds: the other names it goes by, and names that mean it only where no other column does.
ROLES = {
    "id": ("ids", "example image filename"),
    "label": ("labels target targets class y_true", "y"),
    "text": ("texts sentence document body content", ""),
    "image": ("images picture photo", "path filename file"),
    "group": ("groups cluster", ""),
    "time": ("timestamp datetime created_at", "date"),
    "split": ("", ""),
    "model": (
        "model_name model_id system submission",
        "participant llm agent agent_name framework generator method classifier algorithm solver",
    ),
    "item": (
        "item_id question_id example_id doc_id sample_id instance_id problem_id prompt_id task_id qid uid id",
        "example question prompt instruction problem image filename query user_input input",
    ),
    "task": ("set test_set dataset", "split"),
    "score": (
        "correct is_correct right exact_match acc acc_norm accuracy passed pass resolved solved success is_success "
        "outcome",
        "reward result value",
    ),
    "run": (
        "run_id run_idx run_index run_number repeat repetition epoch trial trial_id trial_index seed attempt",
        "",
    ),
    "seed": ("run", ""),
    "epoch": ("", ""),
    "answer": (
        "prediction predictions pred predicted predicted_label response extracted_answer y_pred output",
        "model_answer actual_output completion",
    ),
    "key": (
        "target targets label labels true_label gold gold_answer correct_answer y_true reference ground_truth",
        "expected expected_answer expected_output",
    ),
    "annotator": ("annotator_id rater rater_id worker worker_id", ""),
    "model_a": ("model_1 system_a", ""),
    "model_b": ("model_2 system_b", ""),
    "winner": ("preferred preference", ""),
    "cost": ("price cost_usd total_cost", ""),
    "duration": ("seconds latency runtime elapsed", ""),
    "tokens": ("total_tokens n_tokens token_count output_tokens completion_tokens", ""),
    "human": ("human_score human_label human_rating expert_score", ""),
    "frequency": ("selection_frequency", ""),
    "votes": ("", "n"),
    "subclass": ("sub_class keyword", ""),
}
SHORTCUTS = ("label", "id", "text", "group")  # roles with an argument and an option of their own


def plain_name(name: str) -> str:
    """A column name as it is compared: case, spaces and hyphens do not matter, nor the case of "isCorrect".

    Example:
        >>> plain_name(" Question ID"), plain_name("top-1"), plain_name("questionId")
        ('question_id', 'top_1', 'question_id')
    """
    return re.sub(r"[\s-]+|(?<=[a-z])(?=[A-Z])", "_", name.strip()).lower()


def column_role_names(*roles: str) -> list[str]:
    """The names of the columns of roles in the order in which they count: their own, synonyms, weak names.

    Example:
        >>> column_role_names("task")
        ['task', 'set', 'test_set', 'dataset', 'split']
    """
    return [name for role in roles for names in (role, *ROLES[role]) for name in names.split()]


def find_columns(
    names: Sequence[str],
    wanted: Collection[str],
    given: Mapping[str, Any] | None = None,
    *,
    exact: Collection[str] = (),
    only_given: Collection[str] = (),
    where: str = "the table",
) -> dict[str, str]:
    """The column of each role that a table has: the given one, or the only one whose name says it.

    A column is taken by its name in three steps: it has the name of the role, or one of its synonyms, or one of its
    weak names, which are tried only if no other column fits. A step that two columns fit is refused. A column that
    was given for one role, or that has the name of another role of the same call, is not taken for a second role.

    Args:
        names: the columns of the table.
        wanted: roles that are found by name.
        given: names of columns by role, as users pass them; None, and a role whose name is None, say nothing.
        exact: those of the wanted roles for which synonyms and weak names do not count.
        only_given: roles that no column has unless it is given.
        where: the table in messages.

    Example:
        >>> find_columns(["Model", "question id", "question", "acc"], ["model", "item", "score"])
        {'model': 'Model', 'item': 'question id', 'score': 'acc'}
        >>> find_columns(["sample_id", "question_id"], ["item"])
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: columns: the table has 'sample_id' and 'question_id', which may both be the \
item; decide with --column item=sample_id or --column item=question_id (in Python columns={"item": "sample_id"})
    """
    roles = (*wanted, *only_given)
    columns = given_columns(names, roles, given or {}, where)
    free = [(name, plain_name(name)) for name in names if name not in columns.values()]
    for role in wanted:
        if role in columns:
            continue
        others = [other for other in roles if other != role]
        for words in (role,) if role in exact else (role, *ROLES[role]):
            fitting = [name for name, plain in free if plain in words.split() and plain not in others]
            if len(fitting) > 1:
                short = role in SHORTCUTS
                option = f"--{role} " if short else f"--column {role}="
                python = f'{role}="{fitting[0]}"' if short else f'columns={{"{role}": "{fitting[0]}"}}'
                listed, both = " and ".join(map(repr, fitting[:4])), "both" if len(fitting) == 2 else "all"
                options = " or ".join(option + name for name in fitting[:4])
                raise InputError(
                    f": {where} has {listed}, which may {both} be the {role}; decide with {options} (in Python "
                    f"{python})",
                    argument=role if short else "columns",
                )
            if fitting:
                columns[role] = fitting[0]
                break
    return {role: columns[role] for role in roles if role in columns}


def table_columns_by_role(columns: Mapping[str, Any] | None, **shortcuts: Any) -> dict[str, Any]:
    """The columns that a user gave by role: ``columns`` and the arguments for single roles in one mapping.

    Example:
        >>> table_columns_by_role({"time": "date"}, label="ill", id=None)
        {'time': 'date', 'label': 'ill'}
    """
    if columns is not None and not isinstance(columns, Mapping):
        raise InputError(f"must map roles to names of columns; got {columns!r}", argument="columns")
    named = {role: name for role, name in (columns or {}).items() if name is not None}
    for role, name in shortcuts.items():
        if name is not None and named.setdefault(role, name) != name:
            raise InputError(f"has another column for the {role} than {role}={name!r}", argument="columns")
    return named


def given_columns(
    names: Sequence[str], roles: Collection[str], given: Mapping[str, Any], where: str = "the table"
) -> dict[str, str]:
    """The columns that were given by role; refuses other roles, columns that do not exist, and one column twice."""
    columns: dict[str, str] = {}
    for role, value in given.items():
        argument = role if role in SHORTCUTS else "columns"
        if role not in roles:
            raise InputError(
                f": {where} has no {role!r}; columns may be given for {few(roles, 30)}", argument=argument
            )
        if value is None:
            continue
        name = named_column(names, value, argument, where)
        if name in columns.values():
            other = next(item for item, column in columns.items() if column == name)
            raise InputError(f": column {name!r} is given as {other} and as {role}", argument=argument)
        columns[role] = name
    return columns


def named_column(names: Sequence[str], value: Any, argument: str, where: str = "the table") -> str:
    """The column that a user names, who may write it in another case; refuses one that does not exist."""
    # pandas allows numbers and tuples as names of columns.
    name = str(value) if isinstance(value, (int, tuple)) and not isinstance(value, bool) else value
    if not isinstance(name, str):
        raise InputError(f"must be the name of a column; got {value!r}", argument=argument)
    fitting = [name] if name in names else [item for item in names if plain_name(item) == plain_name(name)]
    if len(fitting) != 1:
        close = difflib.get_close_matches(plain_name(name), names, 1)
        meant = f"did you mean {close[0]}? It" if close else "it"
        raise InputError(f": {where} has no column {name!r}; {meant} has {few(names)}", argument=argument)
    return fitting[0]


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
            table = _from_columns(source, where)
        elif isinstance(source, (list, tuple)):
            table = _from_columns(_columns_of_rows(source, where), where)
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
    return _clean_table(table)


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


def _clean_table(table: pyarrow.Table) -> pyarrow.Table:
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
        return _read_csv(path, is_text, unnamed, text is True, notes)
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
        return _from_columns(data, str(path))
    if suffix in (".parquet", ".pq"):
        return _read_parquet(path)
    if suffix in (".arrow", ".feather"):
        return _read_arrow(path)
    raise InputError(f"{path}: unsupported format; supported tables: {', '.join(SUFFIXES)}")


def _read_csv(
    path: Path, is_text: Callable[[str], bool], unnamed: str, all_text: bool, notes: Notes | None
) -> pyarrow.Table:
    import pyarrow
    from pyarrow import compute
    from pyarrow import csv as arrow_csv

    content, delimiter, header = _csv_table_content(path, notes)
    names = header[1:] if header and header[0] == "" else header
    has_names = not all(map(is_number, names)) or names == [str(number) for number in range(len(names))]
    if not has_names and not unnamed:
        raise _table_without_header(path, header)
    header = header if has_names else [f"{unnamed}{position}" for position in range(len(header))]
    if len(header) == 1:
        first, second = [*content.split("\n", 2), ""][:2]
        words = len(first.split())
        if words > 1 and '"' not in first and len(second.split()) in (words, words + 1):
            raise InputError(
                f"{path}: columns look separated by spaces; separate them by commas, semicolons or tabs"
            )
    raw = content.encode()
    decimal = "," if delimiter == ";" and _DECIMAL_COMMA.search(content) else "."
    try:
        table = arrow_csv.read_csv(
            io.BytesIO(raw),
            read_options=arrow_csv.ReadOptions(
                block_size=min(max(len(raw) + 1, 1 << 20), (1 << 31) - 1),
                column_names=None if has_names else header,
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                null_values=_NULLS,
                strings_can_be_null=False,
                column_types={name: pyarrow.string() for name in header if is_text(name)},
                decimal_point=decimal,
            ),
        )
    except pyarrow.ArrowInvalid as error:
        raise InputError(
            f"{path}: cannot be read as a table ({reason(error)}); every line needs the {len(header)} cells of the "
            "first one: remove lines that are not part of the table, and quote cells that contain the delimiter"
        ) from error
    while table.column_names[-1] == "" and table.num_columns > 1 and table.column(-1).null_count == table.num_rows:
        table = table.remove_column(table.num_columns - 1)  # commas end every line
    _check_header(path, table)
    if notes is not None:
        notes += _missing_word_notes(table, content, delimiter)
    if all_text and decimal == ",":
        points = [compute.replace_substring_regex(c, r"^\s*(-?\d+),(\d+%?)\s*$", r"\1.\2") for c in table.columns]
        table = pyarrow.table(points, names=table.column_names)
    return table


def _missing_word_notes(table: pyarrow.Table, content: str, delimiter: str) -> Notes:
    """Which words count as missing in the columns of numbers of a CSV file."""
    from pyarrow import compute, types

    counts: collections.Counter[str] = collections.Counter()
    gaps = [name for name, column in zip(table.column_names, table.columns, strict=True) if column.null_count]
    if gaps:
        words = "|".join(map(re.escape, sorted(MISSING_WORDS, key=len, reverse=True)))
        mark = re.escape(delimiter)
        cell = rf'(?:^|(?<={mark}))"?({words})"?(?={mark}|\r?$)'
        counts.update(re.findall(cell, content, re.MULTILINE))
        for column in table.columns:
            if counts and types.is_string(column.type):  # in text only empty cells are missing
                for word in tuple(counts):
                    counts[word] -= compute.sum(compute.equal(column, word)).as_py() or 0
    words_found = [f"{word!r} ({count:,} cells)" for word, count in sorted((+counts).items())]
    if not words_found:
        return []
    message = (
        f"counted as missing in columns of numbers: {few(words_found)}; columns with missing cells: {few(gaps)}"
    )
    return [(message, "missing_word", tuple(gaps))]


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
        raise _table_without_header(path, header)
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


_DECIMAL_COMMA = re.compile(r"(?:^|;)[ \"]*-?\d+,\d+[ \"]*(?:;|\r?$)", re.MULTILINE)


def csv_rows(path: Path) -> tuple[list[list[str]], str]:
    """The cells of a CSV file as text, the first row among them, and the delimiter; empty rows are left out.

    For tables whose first row may have values; :func:`read_table` refuses those.
    """
    content, delimiter, _ = _csv_table_content(path)
    rows = [row for row in _csv_rows(path, content, delimiter) if any(map(str.strip, row))]
    if not rows:
        raise InputError(f"{path}: the table has no rows")
    return rows, delimiter


def _csv_rows(path: Path, content: str, delimiter: str, spaced: bool = False) -> Iterator[list[str]]:
    """The rows of a CSV file; a quote that is not closed, which makes one cell of the rest, is refused."""
    end = "\x1fend of the file"
    lines = itertools.chain(io.StringIO(content, newline=""), [end])
    limit = csv.field_size_limit(max(len(content), csv.field_size_limit()))
    try:
        for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=spaced):
            if row and row[-1].endswith(end):
                if row != [end]:
                    raise InputError(
                        f"{path}: a quote is not closed; close it, and write a quote inside a quoted cell twice"
                    )
                return
            yield row
    except csv.Error as error:
        raise InputError(f"{path}: cannot be read as a table ({reason(error)}); write it again") from error
    finally:
        csv.field_size_limit(limit)


def _csv_table_content(path: Path, notes: Notes | None = None) -> tuple[str, str, list[str]]:
    """The content of a CSV file from the header on, the delimiter and the names."""
    encodings: list[str] = []
    content = read_text(path, None if notes is None else encodings)
    if notes is not None and encodings:
        message = f"not UTF-8; read as {encodings[0]}: if texts look wrong, save the file as UTF-8"
        notes.append((message, "encoding", ()))
    if not content.strip():
        raise InputError(f"{path}: the table has no rows")
    check_reading_memory(path, 4 * len(content))
    content = content.lstrip("\r\n")
    marked = _SEP_LINE.match(content)
    content = content[marked.end() :] if marked else content
    first, _, rest = content.partition("\n")
    second = rest.partition("\n")[0]
    # A character of names, such as those of "task|shots", is not in every line.
    steady = [mark for mark in ",;\t|" if 0 < first.count(mark) == second.count(mark)]
    delimiter = marked[1] if marked else max(steady or ",;\t|", key=first.count)
    delimiter = delimiter if delimiter in first else ","
    header = next(_csv_rows(path, content, delimiter), [])
    if any(name != name.strip() for name in header):  # "age, income": spaces belong to the delimiter
        stripped = io.StringIO(newline="")
        csv.writer(stripped, delimiter=delimiter, lineterminator="\n").writerows(
            [cell.strip() for cell in row] for row in _csv_rows(path, content, delimiter, spaced=True) if row
        )
        content = stripped.getvalue()
        header = [name.strip() for name in header]
    elif '"' in content:
        collections.deque(_csv_rows(path, content, delimiter), maxlen=0)
    return content, delimiter, header


def _check_header(path: Path, table: pyarrow.Table) -> None:
    """Refuse a first row of values: text that its own column repeats, or decimals that are no scale."""
    import pyarrow

    names = [name for name in table.column_names if name]
    numbers = [float(name) for name in names if is_number(name)]
    rising = [left < right for left, right in itertools.pairwise(numbers)]
    decimals = any(number % 1 for number in numbers) and not (all(rising) or not any(rising))
    texts = [
        (name, column)
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name and not is_number(name)
    ]
    repeated = [
        name
        for name, column in texts
        if pyarrow.types.is_string(column.type) and name in column.slice(0, _HEADER_ROWS).to_pylist()
    ]
    if decimals or (repeated and 2 * len(repeated) >= len(texts)):
        raise _table_without_header(path, table.column_names)


def _table_without_header(path: Path, header: Sequence[str]) -> InputError:
    return InputError(
        f"{path}: the first row has values ({few(header, 5)}) where the column names are expected; add a header row"
    )


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


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


def _from_columns(columns: Mapping[Any, Any], where: str) -> pyarrow.Table:
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


def _read_parquet(path: Path) -> pyarrow.Table:
    import pyarrow
    from pyarrow import parquet

    packed = _texts_of_small_file(path)  # read as dictionaries, so that their size is known before it is taken
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True, read_dictionary=packed) as file:
            rows, schema = file.metadata.num_rows, file.schema_arrow
            if rows < 0 or len(set(schema.names)) < len(schema.names):
                raise InputError(f"{path}: the footer cannot be true, or names a column twice; write it again")
            check_reading_memory(path, rows * len(schema.names))
            # How long the lists are is known only from the metadata of single columns, and pyarrow ends the whole
            # process where those are damaged; so it is seen in reading.
            batches, size = [], 0
            for batch in file.iter_batches(batch_size=_BATCH, use_threads=False):
                size += batch.nbytes + sum(map(_unpacked_bytes, batch.columns))
                check_reading_memory(path, size)
                batches.append(batch)
            table = pyarrow.Table.from_batches(batches, schema)
            table.validate(full=True)
            for position, name in enumerate(table.column_names):
                if name in packed:
                    kind = pyarrow.string() if size < 1 << 31 else pyarrow.large_string()
                    table = table.set_column(position, name, table.column(position).cast(kind))
    except InputError:
        raise
    except (pyarrow.ArrowException, OSError, MemoryError, OverflowError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({reason(error)}); write it again as Parquet") from error
    if table.num_rows != rows:
        raise InputError(f"{path}: claims {rows:,} rows, but has {table.num_rows:,}; write it again")
    return table


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


def _read_arrow(path: Path) -> pyarrow.Table:
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


def write_table(path: Any, columns: Mapping[str, Sequence[Any]]) -> Path:
    """Write equally long columns to .csv, .tsv, .json, .jsonl or .parquet, in one step.

    Example:
        >>> import tempfile
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
        parquet.write_table(_from_columns(columns, str(target)), stream, write_page_checksum=True)
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
