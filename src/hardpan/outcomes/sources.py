"""What the readers of log files share: options, lines and groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardpan.safe_files import read_json, read_json_lines

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


def as_list(value: Any) -> list[Any]:
    """A list as it is, and nothing instead of anything else: logs may hold any type anywhere."""
    return value if isinstance(value, list) else []


def as_mapping(value: Any) -> dict[str, Any]:
    """An object as it is, and an empty one instead of anything else."""
    return value if isinstance(value, dict) else {}


def group_columns(record: Mapping[str, Any], wanted: Sequence[str]) -> dict[str, Any]:
    """The group labels in a document or in metadata: the usual names, and those that were requested."""
    return {name: record[name] for name in (*GROUPS, *wanted) if name in record}
