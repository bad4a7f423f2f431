"""CSV files as Arrow tables."""

from __future__ import annotations

import collections
import csv
import gzip
import io
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hardpan.errors import InputError, few, reason
from hardpan.files import check_reading_memory, is_gzip, read_text, refusing_damaged
from hardpan.files.reading import check_growth

if TYPE_CHECKING:
    import pyarrow

Notes = list[tuple[str, str, tuple[str, ...]]]  # sentence, code and columns
MISSING = frozenset(("NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "?", "#N/A", "-nan", "<NA>", "NaT"))
MISSING_WORDS = frozenset(("-", ".", "na", *MISSING))  # cells of columns of numbers
_NULLS = ["", *sorted(MISSING_WORDS)]
_SEP_LINE = re.compile(r"sep=([,;|\t])\r?\n", re.IGNORECASE)
_HEADER_ROWS = 1000
BLOCK_BYTES = 1 << 25
_DECIMAL_COMMA = re.compile(r"(?:^|;)[ \"]*-?\d+,\d+[ \"]*(?:;|\r?$)", re.MULTILINE)


def read_csv(
    path: Path, is_text: Callable[[str], bool], unnamed: str, all_text: bool, notes: Notes | None
) -> pyarrow.Table:
    """A CSV file as a table."""
    import pyarrow
    from pyarrow import compute

    content, delimiter, header = _csv_table_content(path, notes)
    names = header[1:] if header and header[0] == "" else header
    has_names = not all(map(is_number, names)) or names == [str(number) for number in range(len(names))]
    if not has_names and not unnamed:
        raise table_without_header(path, header)
    header = header if has_names else [f"{unnamed}{position}" for position in range(len(header))]
    if len(header) == 1:
        first, second = [*content.split("\n", 2), ""][:2]
        words = len(first.split())
        if words > 1 and '"' not in first and len(second.split()) in (words, words + 1):
            raise InputError(
                f"{path}: columns look separated by spaces; separate them by commas, semicolons or tabs"
            )
    layout = _Layout(header, delimiter, "," if delimiter == ";" and _DECIMAL_COMMA.search(content) else ".")
    types = {name: pyarrow.string() for name in header if is_text(name)}
    table = _parse_csv(path, content.encode(), layout, types, has_names)
    while table.column_names[-1] == "" and table.num_columns > 1 and table.column(-1).null_count == table.num_rows:
        table = table.remove_column(table.num_columns - 1)  # commas end every line
    _check_header(path, table)
    if notes is not None:
        notes += _missing_word_notes(table, content, delimiter)
    if all_text and layout.decimal == ",":
        points = [compute.replace_substring_regex(c, r"^\s*(-?\d+),(\d+%?)\s*$", r"\1.\2") for c in table.columns]
        table = pyarrow.table(points, names=table.column_names)
    return table


class _Layout(NamedTuple):
    header: list[str]
    delimiter: str
    decimal: str


def _parse_csv(
    path: Path,
    raw: bytes,
    layout: _Layout,
    types: Mapping[str, Any],
    has_names: bool = False,
    columns: Sequence[str] = (),
) -> pyarrow.Table:
    """The table of some lines, or some columns of it; ``has_names``: the first of them is the header."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    header, delimiter, decimal = layout
    try:
        return arrow_csv.read_csv(
            io.BytesIO(raw),
            read_options=arrow_csv.ReadOptions(
                block_size=min(max(len(raw) + 1, 1 << 20), (1 << 31) - 1),
                column_names=None if has_names else header,
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                null_values=_NULLS,
                strings_can_be_null=False,
                column_types=types,
                decimal_point=decimal,
                include_columns=columns,
            ),
        )
    except pyarrow.ArrowInvalid as error:
        raise InputError(
            f"{path}: cannot be read as a table ({reason(error)}); every line needs the {len(header)} cells of the "
            "first one: remove lines that are not part of the table, and quote cells that contain the delimiter"
        ) from error


def csv_blocks(path: Path, types: Mapping[str, Any], columns: Sequence[str] = ()) -> Iterator[pyarrow.Table]:
    """A large CSV file in UTF-8, some lines at a time; types that are not in ``types`` are those of these lines."""
    layout: _Layout | None = None
    for raw in _blocks_of_lines(path):
        if layout is not None:
            yield _parse_csv(path, raw, layout, types, columns=columns)
            continue
        with refusing_damaged(path, "is not text in UTF-8", "save it as UTF-8"):
            content, delimiter, header = _csv_layout(path, raw.decode("utf-8-sig"))
        layout = _Layout(header, delimiter, "," if delimiter == ";" and _DECIMAL_COMMA.search(content) else ".")
        table = _parse_csv(path, content.encode(), layout, types, has_names=True, columns=columns)
        if any(name != name.strip() for name in header) or all(map(is_number, header[1:] or header)):
            raise table_without_header(path, header)
        _check_header(path, table)
        yield table


def _blocks_of_lines(path: Path) -> Iterator[bytes]:
    """A file in blocks that end with a line break outside quotes."""
    rest, size = b"", 0
    with refusing_damaged(path), gzip.open(path) if is_gzip(path) else path.open("rb") as stream:
        while data := stream.read(BLOCK_BYTES):
            size += len(data)
            check_growth(path, size)
            rest += data
            end = rest.rfind(b"\n") + 1
            while end and rest.count(b'"', 0, end) % 2:
                end = rest.rfind(b"\n", 0, end - 1) + 1
            check_reading_memory(path, 4 * len(rest))
            if end:
                yield rest[:end]
                rest = rest[end:]
    if rest.strip():
        yield rest


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
    check_reading_memory(path, 4 * len(content))
    return _csv_layout(path, content)


def _csv_layout(path: Path, content: str) -> tuple[str, str, list[str]]:
    """The content from the header on, the delimiter and the names."""
    if not content.strip():
        raise InputError(f"{path}: the table has no rows")
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
        raise table_without_header(path, table.column_names)


def table_without_header(path: Path, header: Sequence[str]) -> InputError:
    """What is said of a first row of values."""
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
