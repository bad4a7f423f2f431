"""What the readers of log files share: options, limits, and lines and JSON of untrusted files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardpan.errors import InputError

LONGEST_LINE = 64 << 20
LARGEST_JSON = 1 << 30
GROUPS = (
    *("subject", "category", "subcategory", "topic", "domain", "type", "level", "difficulty", "subset", "language"),
    *("passage", "passage_id", "article", "article_id", "story_id", "tags", "date", "release_date"),
)
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Options:
    """The choices of :meth:`hardpan.Outcomes.open`."""

    filter: str | None = None
    metric: str | None = None
    scorer: str | None = None
    groups: tuple[str, ...] = ()
    rows: str | None = None
    by_order: bool = False
    check_classes: bool = True
    n_classes: int | None = None


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log with its lines, read one at a time.

    Attributes:
        path: of the file.
        advance: called with the number of bytes that were read.
        data: the parsed file, where telling its format needed that.
    """

    path: Path
    advance: Callable[[int], None]
    data: Any = None

    def rows(self) -> Iterator[Any]:
        """The objects of a JSON Lines file, or of a JSON file with a list."""
        if self.data is not None:
            self.advance(self.path.stat().st_size)
            yield from self.data if isinstance(self.data, list) else [self.data]
            return
        yield from json_lines(self.path, self.advance)


def json_lines(path: Path, advance: Callable[[int], None] = lambda size: None) -> Iterator[Any]:
    """The objects of a JSON Lines file, one at a time."""
    try:
        with path.open("rb", buffering=1 << 20) as stream:
            number = 0
            while line := stream.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise InputError(f"{path}, line {number}: longer than {LONGEST_LINE >> 20} MB")
                advance(len(line))
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if line.isspace():
                    continue
                yield parsed(line, f"{path}, line {number}")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error


def parsed(text: bytes | str, where: str) -> Any:
    """JSON of an untrusted file."""
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError(f"{where}: nested too deeply to be read as JSON") from None
    except ValueError as error:
        raise InputError(f"{where}: not JSON ({error}); the file may be cut or damaged") from error


def read_json(path: Path, largest: int = LARGEST_JSON) -> Any:
    """A whole JSON file, refused where it is larger than ``largest`` bytes."""
    try:
        size = path.stat().st_size
        if size > largest:
            raise InputError(f"{path}: {size >> 20:,} MB of JSON is more than the limit of {largest >> 20:,} MB")
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    return parsed(content.removeprefix(b"\xef\xbb\xbf"), str(path))


def as_list(value: Any) -> list[Any]:
    """A list as it is, and nothing instead of anything else: logs may hold any type anywhere."""
    return value if isinstance(value, list) else []


def as_mapping(value: Any) -> dict[str, Any]:
    """An object as it is, and an empty one instead of anything else."""
    return value if isinstance(value, dict) else {}


def group_columns(record: Mapping[str, Any], wanted: Sequence[str]) -> dict[str, Any]:
    """The group labels in a document or in metadata: the usual names, and those that were requested."""
    return {name: record[name] for name in (*GROUPS, *wanted) if name in record}
