"""A report on a terminal: headline, sentences and tables whose numbers stay whole at any width."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hardpan import numbers
from hardpan.report.base import View

GAP = 2
MOST_ROWS = 20  # of a table; the rest is on the page and in the JSON


def render(view: View, *, most_rows: int = MOST_ROWS) -> RenderableType:
    """The headline, then the sentences, warnings and tables of every section; long tables are cut by rows."""
    lines: list[RenderableType] = [Text(view.headline, style="bold")]
    lines += [Text(sentence) for sentence in view.lede]
    for section in view.sections:
        lines += [Text(""), Text(section.title, style="bold")]
        lines += [Text(sentence) for sentence in section.sentences]
        lines += [Text(f"Warning: {sentence}", style="yellow") for sentence in section.warnings]
        if section.estimates:
            rows = [(name, numbers.estimate(item)) for name, item in section.estimates.items()]
            lines.append(FittedTable("", ("", "estimate"), rows))
        for table in section.tables:
            lines.append(FittedTable(table.title, table.columns, table.rows[:most_rows]))
            if len(table.rows) > most_rows:
                lines.append(Text(f"{len(table.rows) - most_rows:,} more rows: see --out or --json"))
    return Group(*lines)


class FittedTable:
    """Columns side by side where they fit; else intervals under their values; else a row's cells one under another.

    Args:
        title: above it, without one the table alone.
        columns: their names.
        rows: values of the cells: numbers, text, None for nothing.

    Example:
        >>> table = FittedTable("Errors", ("model", "error"), [("linear", "26.8 % (24.9–28.9 %)")])
        >>> for width in (30, 24, 16):
        ...     print("\\n".join(line.rstrip() for line in _lines(table, width)))
        Errors
        model   error
        linear  26.8 % (24.9–28.9 %)
        Errors
        model   error
        linear  26.8 %
                (24.9–28.9 %)
        Errors
        model: linear
          error: 26.8 %
          (24.9–28.9 %)
    """

    def __init__(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self._title, self._columns = title, tuple(columns)
        by_column = list(zip(*rows, strict=True))
        self._words = [any(isinstance(cell, str) for cell in cells) for cells in by_column]
        self._rows = list(zip(*map(numbers.column, by_column), strict=True))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """What fits into the width."""
        if self._title:
            yield Text(self._title, style="italic")
        broken = [tuple(cell.replace(" (", "\n(") for cell in row) for row in self._rows]
        room = options.max_width - GAP * (len(self._columns) - 1)
        for rows in (self._rows, broken):
            widths = [_width([*name.split(), *cells]) for name, *cells in zip(self._columns, *rows, strict=True)]
            if sum(widths) <= room:
                yield self._side_by_side(rows, _widened(widths, self._columns, room))
                return
        yield Group(*(line for row in self._rows for line in self._stacked(row, options.max_width)))

    def _side_by_side(self, rows: Sequence[Sequence[str]], widths: Sequence[int]) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
        for place, (name, width) in enumerate(zip(self._columns, widths, strict=True)):
            justify: JustifyMethod = "left" if not self._words or self._words[place] else "right"
            table.add_column(Text(name), min_width=width, max_width=width, overflow="fold", justify=justify)
        for row in rows:
            table.add_row(*map(Text, row))
        return table

    def _stacked(self, row: Sequence[str], width: int) -> Iterator[RenderableType]:
        first, *others = (f"{name}: {cell}" for name, cell in zip(self._columns, row, strict=True))
        yield Text(first, style="bold")
        for line in others:
            fits = _width([line]) + GAP <= width
            yield Padding(Text(line if fits else line.replace(" (", "\n(")), (0, 0, 0, GAP))


def _width(lines: Sequence[str]) -> int:
    return max((Text(line).cell_len for text in lines for line in text.split("\n")), default=0)


def _widened(widths: Sequence[int], names: Sequence[str], room: int) -> list[int]:
    """Give what room is left to columns whose names are wider than their cells, from the first on."""
    left = room - sum(widths)
    found: list[int] = []
    for width, name in zip(widths, names, strict=True):
        more = min(left, max(0, _width([name]) - width))
        left, found = left - more, [*found, width + more]
    return found


def _lines(table: FittedTable, width: int) -> list[str]:
    """What a terminal of this width shows."""
    console = Console(width=width, file=io.StringIO())
    with console.capture() as shown:
        console.print(table)
    return shown.get().splitlines()
