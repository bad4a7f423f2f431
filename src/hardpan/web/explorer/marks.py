"""Tags and corrected labels that a person gives to examples, saved to a CSV beside the table.

The file ``corrections.csv`` has one row per example that was tagged or relabelled: id, split, row, path, label (as
it was), corrected_label (empty if it stays) and tags (separated by semicolons).
:func:`hardpan.data.opening.open_corrected` reads it.
"""

from __future__ import annotations

import csv
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hardpan import arguments, files, tables
from hardpan.errors import InputError

FILE = "corrections.csv"
COLUMNS = ("id", "split", "row", "path", "label", "corrected_label", "tags")
LONGEST_TAG = 60


@dataclass(frozen=True, slots=True)
class Mark:
    """What a person said about one example: another label (or none), and tags."""

    corrected_label: str = ""
    tags: tuple[str, ...] = ()


class Marks:
    """The marks of a folder; every change is written at once, in one atomic step.

    Args:
        folder: where ``corrections.csv`` is; None keeps marks in memory only.
    """

    def __init__(self, folder: Path | None) -> None:
        self.path = None if folder is None else folder / FILE
        self._facts: dict[str, dict[str, Any]] = {}
        self._marks: dict[str, Mark] = {}
        self._lock = threading.Lock()
        if self.path is not None and self.path.is_file():
            self._read(self.path)

    def __len__(self) -> int:
        return len(self._marks)

    def of(self, example: str) -> Mark:
        """The mark of an example; an empty one if it has none."""
        return self._marks.get(example, Mark())

    def tags(self) -> list[str]:
        """All tags in use, in alphabetical order."""
        return sorted({tag for mark in self._marks.values() for tag in mark.tags})

    def ids(self) -> list[str]:
        """The examples that have a mark."""
        return list(self._marks)

    def set(
        self,
        rows: list[dict[str, Any]],
        *,
        label: str | None = None,
        add: str = "",
        remove: str = "",
        tags: Sequence[str] | None = None,
    ) -> list[Mark]:
        """Relabel or tag examples and write the file; where that fails, nothing changes.

        Args:
            rows: the rows of the table that are marked.
            label: the corrected label; an empty text takes it back; None leaves it.
            add: a tag to add.
            remove: a tag to remove.
            tags: in place of all tags.
        """
        for tag in (add, remove, *(tags or ())):
            if len(tag) > LONGEST_TAG or any(letter in ';"' for letter in tag) or arguments.clean_text(tag) != tag:
                raise InputError(
                    f"must have at most {LONGEST_TAG} characters, no semicolon and no control character; "
                    f"got {tag!r}",
                    argument="tag",
                )
        with self._lock:
            facts, marks = dict(self._facts), dict(self._marks)
            for row in rows:
                key = str(row["id"])
                mark = marks.get(key, Mark())
                if label is not None:
                    mark = replace(mark, corrected_label="" if label == str(row.get("label")) else label)
                names = [tag for tag in (*(mark.tags if tags is None else tags), add) if tag and tag != remove]
                mark = replace(mark, tags=tuple(dict.fromkeys(names)))
                facts[key] = {"split": "", **row}
                if mark == Mark():
                    marks.pop(key, None)
                else:
                    marks[key] = mark
            if self.path is not None:
                files.write_text(self.path, _csv(facts, marks))
            self._facts, self._marks = facts, marks
        return [self.of(str(row["id"])) for row in rows]

    def csv(self) -> str:
        """The file's text."""
        return _csv(self._facts, self._marks)

    def _read(self, path: Path) -> None:
        try:
            with path.open(encoding="utf-8", newline="") as stream:
                rows = [
                    {k: tables.stored_cell(v or "") for k, v in row.items() if k} for row in csv.DictReader(stream)
                ]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"{path}: cannot be read ({error}); move it away or repair it") from error
        if rows and "id" not in rows[0]:
            raise InputError(f"{path}: has no column id; move it away or repair it")
        for row in rows:
            mark = Mark(row.get("corrected_label", ""), tuple(t for t in row.get("tags", "").split(";") if t))
            self._facts[row["id"]] = {name: row.get(name, "") for name in COLUMNS}
            self._marks[row["id"]] = mark


def _csv(facts: Mapping[str, Mapping[str, Any]], marks: Mapping[str, Mark]) -> str:
    rows = [
        {"id": key, **facts[key], "corrected_label": mark.corrected_label, "tags": ";".join(mark.tags)}
        for key, mark in marks.items()
    ]
    return tables.csv_text({name: [row.get(name) for row in rows] for name in COLUMNS})
