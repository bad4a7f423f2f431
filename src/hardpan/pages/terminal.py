"""A report on a terminal: verdict, problems and numbers in about ten lines, and tables that fit any width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hardpan import arguments
from hardpan.errors import counted
from hardpan.pages import formatting
from hardpan.pages.sections import View

GAP = 2
MOST_ROWS = 20  # of a table; the rest is on the page and in the JSON
MOST_PROBLEMS = 6
_MARKS = {"high": ("●", "red"), "medium": ("●", "yellow"), "low": ("○", ""), "note": ("·", "dim")}


def render(view: View) -> RenderableType:
    """Headline, problems and numbers in about ten lines, then the sections that the view has for a terminal.

    Example:
        >>> from hardpan.pages.sections import ProblemLine, Tile
        >>> problems = (ProblemLine("labels", "high", "About 17 labels are wrong (10–27)"),)
        >>> tiles = (Tile("Best error", "0.6 %"), Tile("Headroom", "0.3 %"))
        >>> Console(width=60).print(render(View("Audit", "At most 2.5 %.", tiles=tiles, problems=problems)))
        At most 2.5 %.
        ● About 17 labels are wrong (10–27)
        Best error  0.6 %
        Headroom    0.3 %
    """
    lines: list[RenderableType] = [_terminal_text(view.headline, style="bold")]
    lines += [_terminal_text(sentence) for sentence in view.lede]
    listed = [item for item in view.problems if not item.folded][:MOST_PROBLEMS]
    for problem in listed:
        mark, style = _MARKS[problem.severity]
        lines.append(Text.assemble((mark, style), " ", _terminal_text(problem.title)))
    if len(view.problems) > len(listed):
        more = counted(len(view.problems) - len(listed), "more note" if listed else "note")
        lines.append(_terminal_text(f"  {'and ' if listed else ''}{more} on the page"))
    if view.tiles:
        table = Table.grid(padding=(0, GAP, 0, 0))
        for tile in view.tiles:
            table.add_row(_terminal_text(tile.title), _terminal_text(tile.value))
        lines.append(table)
    for section in view.sections if view.terminal is None else view.terminal:
        lines += [_terminal_text(""), _terminal_text(section.title, style="bold")]
        lines += [_terminal_text(sentence) for sentence in section.sentences]
        lines += [_terminal_text(f"Warning: {sentence}", style="yellow") for sentence in section.warnings]
        if section.estimates:
            rows = [(name, formatting.estimate(item)) for name, item in section.estimates.items()]
            lines.append(FittedTable("", ("", "estimate"), rows))
        for item in section.tables:
            lines.append(FittedTable(item.title, item.columns, item.rows[:MOST_ROWS]))
            if len(item.rows) > MOST_ROWS:
                lines.append(_terminal_text(f"{len(item.rows) - MOST_ROWS:,} more rows: see --out or --json"))
    return Group(*lines)


class FittedTable:
    """Columns side by side if they fit; else intervals under their values; else a row's cells below each other.

    Args:
        title: above it, without one the table alone.
        columns: their names.
        rows: values of the cells: numbers, text, None for nothing.

    Example:
        >>> table = FittedTable("Errors", ("model", "error"), [("linear", "26.8 % (24.9–28.9 %)")])
        >>> for width in (30, 24, 16):  # doctest: +NORMALIZE_WHITESPACE
        ...     Console(width=width).print(table)
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
        self._rows = list(zip(*map(formatting.column, by_column), strict=True))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """What fits into the width."""
        if self._title:
            yield _terminal_text(self._title, style="italic")
        broken = [tuple(map(_interval_below, row)) for row in self._rows]
        room = options.max_width - GAP * (len(self._columns) - 1)
        for rows in (self._rows, broken):
            widths = [
                _terminal_width([*name.split(), *cells]) for name, *cells in zip(self._columns, *rows, strict=True)
            ]
            if sum(widths) <= room:
                yield self._columns_side_by_side(rows, _widened_columns(widths, self._columns, room))
                return
        yield Group(*(line for row in self._rows for line in self._stacked_cells(row, options.max_width)))

    def _columns_side_by_side(self, rows: Sequence[Sequence[str]], widths: Sequence[int]) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
        for position, (name, width) in enumerate(zip(self._columns, widths, strict=True)):
            justify: JustifyMethod = "left" if not self._words or self._words[position] else "right"
            table.add_column(
                _terminal_text(name), min_width=width, max_width=width, overflow="fold", justify=justify
            )
        for row in rows:
            table.add_row(*map(_terminal_text, row))
        return table

    def _stacked_cells(self, row: Sequence[str], width: int) -> Iterator[RenderableType]:
        first, *others = (f"{name}: {cell}" for name, cell in zip(self._columns, row, strict=True))
        yield _terminal_text(first, style="bold")
        for line in others:
            fits = _terminal_width([line]) + GAP <= width
            yield Padding(_terminal_text(line if fits else _interval_below(line)), (0, 0, 0, GAP))


def _interval_below(text: str) -> str:
    """A value with its interval below it, so that no number is broken in two.

    Example:
        >>> _interval_below("26.8 % (24.9–28.9 %)"), _interval_below("1.2 × 10⁻⁷ ± 2.6 × 10⁻¹²")
        ('26.8 %\\n(24.9–28.9 %)', '1.2 × 10⁻⁷\\n± 2.6 × 10⁻¹²')
    """
    return text.replace(" (", "\n(").replace(" ± ", "\n± ")


def _terminal_text(text: str, style: str = "") -> Text:
    """A file's name may hold what a terminal would act on."""
    return Text(arguments.clean_text(text, lines=True), style=style)


def _terminal_width(lines: Sequence[str]) -> int:
    return max((_terminal_text(line).cell_len for text in lines for line in text.split("\n")), default=0)


def _widened_columns(widths: Sequence[int], names: Sequence[str], room: int) -> list[int]:
    """Give the remaining width to columns whose names are wider than their cells, from the first on."""
    left = room - sum(widths)
    result: list[int] = []
    for width, name in zip(widths, names, strict=True):
        more = min(left, max(0, _terminal_width([name]) - width))
        left, result = left - more, [*result, width + more]
    return result
