"""What a report consists of: problems, sections, charts, tables, tiles, provenance."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from hardpan.estimates import Estimate
from hardpan.files import Content, record
from hardpan.pages import formatting
from hardpan.report import Provenance

SEVERITIES = ("high", "medium", "low", "note")
"""How much a problem endangers the score; "note" is a fact, a request to look, or what was not measured."""


@record
class Chart:
    """What a chart shows, apart from how it is drawn (``hardpan.pages.charts`` draws it).

    Attributes:
        drawing: the kind of chart: a name in ``hardpan.pages.charts.KINDS``, or "gallery" or "raster".
        title: one line that says what is to be seen.
        rows: the data, one mapping per mark.
        description: the text alternative, for people who cannot see it.
        options: settings of this kind of chart (axis titles, log scale, ...).
    """

    drawing: str
    title: str
    rows: tuple[Mapping[str, Any], ...]
    description: str
    options: Mapping[str, Any] = field(default_factory=dict)


@record
class Table:
    """A table for a person: column names and rows of numbers, estimates and text.

    Attributes:
        title: what it shows.
        columns: their names.
        rows: one cell per column.
        bars: columns of numbers that get a small bar in each cell, from 0 to the column's largest.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    bars: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProblemLine:
    """One problem of a benchmark, as the first screen and the terminal list it, worst first.

    Attributes:
        kind: a short fixed name, such as "duplicates" or "labels"; ``docs/problems`` has a page per kind.
        severity: "high", "medium", "low", or "note" for a fact, a request to look, or what was not measured.
        title: one line, with the count in words: "11 test images are copies of training images".
        detail: one line of advice or context under it.
        count: how many examples are affected, where it can be counted.
        link: where the list is: "#key" of a section of the page, or the name of a file beside the page.
        link_text: the words of the link.
        examples: a gallery of a few examples (:func:`hardpan.pages.galleries.gallery_chart`), or None.
        folded: whether the first screen shows it behind a click.
    """

    kind: str
    severity: str
    title: str
    detail: str = ""
    count: Estimate | None = None
    link: str = ""
    link_text: str = "see them"
    examples: Chart | None = None
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """Something to do next: two or three words, what it means, and the command that does it."""

    title: str
    detail: str
    command: str = ""


@record
class Section:
    """One section of a report: a finding, one chart or gallery beside it, and the rest folded.

    Attributes:
        title: the finding, in one line.
        sentences: a few sentences, beside the chart on a wide screen.
        estimates: numbers with their uncertainty and method, by name; folded on the page.
        charts: the charts and galleries.
        tables: tables that are open.
        warnings: what limits the claims of the section.
        key: name of the section in links ("labels" for "#labels"); numbered where it is empty.
        short: its name in the navigation; the title where it is empty.
        folded: tables and charts behind a click, opened when the page is printed.
        methods: "How this is computed": paragraphs behind a click.
    """

    title: str
    sentences: tuple[str, ...] = ()
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    warnings: tuple[str, ...] = ()
    key: str = ""
    short: str = ""
    folded: tuple[Table | Chart, ...] = ()
    methods: tuple[str, ...] = ()


@record(dropped=("command",))
class Tile:
    """One number at the top of a report.

    Attributes:
        title: what the number is.
        value: the number as a person reads it.
        detail: one line under it: what it means.
    """

    title: str
    value: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """What a result says and shows: made by ``view(result)`` in a module of ``hardpan.pages``, or from its fields.

    Attributes:
        title: name of the page.
        headline: the one sentence to take away; it states a decision.
        sections: the rest, in order; the terminal shows the sentences and tables of the first ones.
        lede: a few sentences under the headline.
        tiles: numbers under the headline.
        provenance: how the result was computed.
        columns: what ``to_frame`` returns: equally long columns by name.
        name: what the report is about (the name of a dataset), first in the line above the headline.
        size: how large that is: "1,797 images, 10 classes".
        problems: worst first, beside the headline's picture.
        hero: the picture of the first screen: one chart, or two small ones.
        links: files beside the page and addresses, by the words of the link.
        terminal: the sections that a terminal shows under headline, problems and tiles; None for all of them.
        downloads: further files that ``save`` writes beside the page, by name.
        actions: what to do next.
        refresh: seconds after which the page reloads itself, while it is still being computed; 0 for never.
    """

    title: str
    headline: str
    sections: tuple[Section, ...] = ()
    lede: tuple[str, ...] = ()
    tiles: tuple[Tile, ...] = ()
    provenance: Provenance | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    size: str = ""
    problems: tuple[ProblemLine, ...] = ()
    hero: tuple[Chart, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    terminal: tuple[Section, ...] | None = None
    downloads: Mapping[str, Content] = field(default_factory=dict)
    actions: tuple[Action, ...] = ()
    refresh: int = 0


Cell = str | Callable[[Any], Any]
"""How a cell is made of a row: the name of an attribute (inner ones behind a dot), or a function."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """A column of estimates or intervals with equal digits (:func:`hardpan.pages.formatting.aligned`)."""

    cell: Cell
    scale: float = 1.0
    sign: str = ""


percents = partial(Aligned, scale=100)
differences = partial(Aligned, scale=100, sign="+")


def table_of_columns(title: str, columns: Mapping[str, Any], most: int | None = None) -> Table:
    """A table of parallel columns, cut to its first rows."""
    lists = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns.values()]
    return Table(title, tuple(columns), tuple(zip(*(column[:most] for column in lists), strict=True)))


def table_of(title: str, rows: Iterable[Any], columns: Mapping[str, Cell | Aligned]) -> Table:
    """A table of results with a line per row.

    Example:
        >>> rows = [Estimate(0.5, 0.1, 0.3, 0.7, n=9), Estimate(0.25, 0.1, 0.1, 0.4, n=8)]
        >>> table_of("Two", rows, {"n": "n", "value": percents(lambda row: row)}).rows
        ((9, '50 (30–70)'), (8, '25 (10–40)'))
    """
    listed = list(rows)
    cells: dict[str, list[Any]] = {}
    for name, column in columns.items():
        of = column.cell if isinstance(column, Aligned) else column
        cells[name] = list(map(attrgetter(of) if isinstance(of, str) else of, listed))
        if isinstance(column, Aligned):
            cells[name] = formatting.aligned(cells[name], column.scale, column.sign)
    return table_of_columns(title, cells)


def fields_of(item: Estimate, value: str = "value", low: str = "low", high: str = "high") -> dict[str, Any]:
    """Value and ends of an estimate, as a row of a chart names them.

    Example:
        >>> fields_of(Estimate(0.5, 0.1, 0.3, 0.7), "x", "x_low", "x_high")
        {'x': 0.5, 'x_low': 0.3, 'x_high': 0.7}
    """
    return {value: item.value, low: item.low, high: item.high}


def estimate_of_fields(
    row: Mapping[str, Any], value: str = "value", low: str = "low", high: str = "high"
) -> Estimate:
    """The estimate in a row of a chart; what the row leaves out is not known.

    Example:
        >>> estimate_of_fields({"x": 0.5, "x_low": 0.4, "x_high": 0.6}, "x", "x_low", "x_high").high
        0.6
    """
    cells = (row.get(name) for name in (value, low, high))
    known = [math.nan if number is None else float(number) for number in cells]
    return Estimate(known[0], 0.0, known[1], known[2])
