"""Tables as columns: CSV, JSON and Parquet into named lists, with one sentence for whatever is wrong."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardpan.errors import InputError

Columns = dict[str, Sequence[Any]]
TABLE_SUFFIXES = (".csv", ".tsv", ".json", ".parquet", ".pq")
_DATE = re.compile(r"(\d{4})-(\d{1,2})(?:-(\d{1,2}))?")
_DAYS_BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


def read_columns(path: Path) -> Columns:
    """Read a table file into named columns of equal length; names lose spaces and case differences."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        columns = _read_csv(path)
    elif suffix == ".json":
        columns = columns_of(read_json(path), str(path))
    elif suffix in (".parquet", ".pq"):
        columns = _read_parquet(path)
    else:
        raise InputError(f"{path}: must be a table ({', '.join(TABLE_SUFFIXES)}); got {suffix or 'no suffix'}")
    if not columns or len(next(iter(columns.values()))) == 0:
        raise InputError(f"{path}: the table has no rows")
    return columns


def columns_of(data: Any, where: str = "table") -> Columns:
    """Columns from rows (a list of mappings), from columns (a mapping of sequences), or from a data frame."""
    if hasattr(data, "to_pydict"):
        data = data.to_pydict()
    elif hasattr(data, "columns") and not isinstance(data, Mapping):
        data = {str(name): list(data[name]) for name in data.columns}
    if isinstance(data, Mapping):
        columns = {_header_name(str(name)): _listed(values) for name, values in data.items()}
        if len({len(values) for values in columns.values()}) > 1:
            sizes = ", ".join(f"{name} {len(values)}" for name, values in columns.items())
            raise InputError(f"{where}: columns must have one length; got {sizes}")
        return columns
    if isinstance(data, Sequence) and data and all(isinstance(row, Mapping) for row in data):
        names = dict.fromkeys(str(name) for row in data for name in row)
        return {_header_name(name): [row.get(name) for row in data] for name in names}
    raise InputError(f"{where}: must be rows or columns with names; got {type(data).__name__}")


def read_json(path: Path) -> Any:
    """Parse a JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error})") from error


def numbers(name: str, values: Sequence[Any], where: str, blank: float | None = None) -> list[float]:
    """A column as floats; ``blank`` stands for empty cells, which are refused without it."""
    result = []
    for row, value in enumerate(values, start=1):
        if value is None or (isinstance(value, str) and not value.strip()) or value != value:
            if blank is None:
                raise InputError(f"{where}: column {name!r} is empty in row {row}")
            result.append(blank)
            continue
        try:
            result.append(float(value.replace(",", "") if isinstance(value, str) else value))
        except (TypeError, ValueError):
            raise InputError(f"{where}: column {name!r} must hold numbers; got {value!r} in row {row}") from None
    return result


def decimal_year(value: Any, where: str) -> float:
    """A date as a decimal year: 2017, 2017.5, "2017-06" or "2017-06-21"; NaN for an empty cell.

    Example:
        >>> decimal_year("2017-07-02", "table")
        2017.4986301369863
    """
    text = "" if value is None else str(value).strip()
    if text in ("", "nan", "NaT"):
        return float("nan")
    match = _DATE.match(text)
    if match:
        year, month, day = (int(part or 1) for part in match.groups())
        if 1 <= month <= 12 and 1 <= day <= 31:
            return year + (_DAYS_BEFORE[month - 1] + day - 1) / 365.0
    try:
        year_number = float(text)
    except ValueError:
        year_number = 0.0
    if 1900 <= year_number <= 2200:
        return year_number
    raise InputError(f"{where}: date must be a year or YYYY-MM-DD; got {text!r}")


def _listed(values: Any) -> Sequence[Any]:
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise InputError(f"a column must hold one value a row; got {values!r}")
    return list(values)


def _header_name(name: str) -> str:
    # Model names may be column names (a wide table of predictions): only the names we know lose case and spaces.
    plain = re.sub(r"[\s-]+", "_", name.strip().lower())
    return plain if plain in KNOWN else name.strip()


def _read_csv(path: Path) -> Columns:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as text ({error})") from error
    first = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=first.count)
    rows = [row for row in csv.reader(text.splitlines(), delimiter=delimiter) if any(cell.strip() for cell in row)]
    if len(rows) < 2:
        return {}
    header = [cell.strip() for cell in rows[0]]
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise InputError(f"{path}: row {number} has {len(row)} cells, the header {len(header)}")
    if len(set(header)) < len(header):
        raise InputError(f"{path}: column names must differ; got {', '.join(header)}")
    cells = list(zip(*rows[1:], strict=True))
    return {
        _header_name(name): [cell.strip() for cell in column] for name, column in zip(header, cells, strict=True)
    }


def _read_parquet(path: Path) -> Columns:
    # Imported here because only Parquet needs it and it is slow to load.
    from pyarrow import ArrowException, parquet, types

    try:
        table = parquet.read_table(path)
    except (OSError, ArrowException) as error:
        raise InputError(f"{path}: cannot be read as Parquet ({error})") from error
    columns: Columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        nested = types.is_nested(column.type)
        columns[_header_name(name)] = column.to_pylist() if nested else column.to_numpy(zero_copy_only=False)
    return columns


KNOWN = frozenset(
    (
        *("model", "original_correct", "original_total", "new_correct", "new_total", "original_accuracy"),
        *("new_accuracy", "metric", "group", "date", "parameters", "param_count", "top1", "top5", "label"),
        *("set", "id", "prediction", "participant", "response", "correct", "total", "example", "dataset"),
    )
)
