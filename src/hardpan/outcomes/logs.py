"""What the readers of evaluation logs share: a log file, what a harness is, and values of JSON of any form."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardpan.files import read_json, read_json_lines

if TYPE_CHECKING:
    from hardpan.outcomes.cells import Cells


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log with its lines, read one at a time.

    Attributes:
        path: of the file.
        advance: called with the number of bytes that were read.
        one_value: whether the file is one JSON value, not lines of them.
        data: that value, where recognising the format had to parse it and it is small enough to keep.
    """

    path: Path
    advance: Callable[[int], None]
    one_value: bool = False
    data: Any = None

    def value(self) -> Any:
        """The value of a JSON file."""
        self.advance(self.path.stat().st_size)
        return read_json(self.path) if self.data is None else self.data

    def rows(self) -> Iterator[Any]:
        """The objects of a JSON Lines file, or of a JSON file with a list."""
        if not self.one_value:
            yield from read_json_lines(self.path, self.advance)
            return
        data = self.value()
        yield from data if isinstance(data, list) else [data]


@dataclass(frozen=True, slots=True)
class Harness:
    """A reader of the logs of an evaluation harness.

    Attributes:
        name: what the logs are called.
        read_logs: reads logs into the cells.
        is_log: whether a JSON value, or the first line of a JSON Lines file, is such a log.
        is_aggregate: whether a JSON value has results of the harness without items.
        is_archive: whether a zip file with these members is such a log.
        is_folder: whether a folder is such a log.
        is_parquet: whether a Parquet file with these columns is such a log.
    """

    name: str
    read_logs: Callable[[Sequence[LogFile], Cells], None]
    is_log: Callable[[Any], bool] = lambda _: False
    is_aggregate: Callable[[Any], bool] = lambda _: False
    is_archive: Callable[[Sequence[str]], bool] = lambda _: False
    is_folder: Callable[[Path], bool] = lambda _: False
    is_parquet: Callable[[Collection[str]], bool] = lambda _: False


def json_at(value: Any, *path: str | int) -> Any:
    """The value at a path of keys and positions in JSON, which may hold anything; None where there is none.

    Example:
        >>> json_at({"choices": [{"text": "B"}]}, "choices", 0, "text"), json_at({"choices": 3}, "choices", 0)
        ('B', None)
    """
    for key in path:
        if isinstance(value, dict):
            value = value.get(key)
        else:
            value = value[key] if isinstance(value, list) and isinstance(key, int) and len(value) > key else None
    return value


def json_list(value: Any, *path: str | int) -> list[Any]:
    """The list at a path in JSON; empty where there is none."""
    item = json_at(value, *path)
    return item if isinstance(item, list) else []


def json_object(value: Any, *path: str | int) -> dict[str, Any]:
    """The object at a path in JSON; empty where there is none."""
    item = json_at(value, *path)
    return item if isinstance(item, dict) else {}


def parquet_columns(path: Path) -> list[str]:
    """The names of the columns of a Parquet file; none where it is damaged."""
    from pyarrow import ArrowException, parquet

    try:
        return list(parquet.read_schema(path).names)
    except (OSError, ArrowException):
        return []


def logged_run(value: Any) -> int:
    """The number of a repeat; 0 where a log has another value."""
    return value if isinstance(value, int) and 0 <= value < 1 << 31 else 0
