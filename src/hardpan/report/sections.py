"""What a report consists of: sections, charts, tables, tiles, provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hardpan.estimates import Estimate
from hardpan.files import record


@record
@dataclass(frozen=True, slots=True)
class Chart:
    """What a chart shows, apart from how it is drawn (``hardpan.report.charts`` draws it).

    Attributes:
        drawing: how it is drawn: a name in ``hardpan.report.charts.KINDS``.
        title: one line that says what is to be seen.
        rows: the data, one mapping a mark.
        description: the text alternative, for people who cannot see it.
        options: what this kind of drawing lets one choose (axis titles, log scale, ...).
    """

    drawing: str
    title: str
    rows: tuple[Mapping[str, Any], ...]
    description: str
    options: Mapping[str, Any] = field(default_factory=dict)


@record
@dataclass(frozen=True, slots=True)
class Table:
    """A table for a person: column names and rows of numbers, estimates and text.

    Attributes:
        title: what it shows.
        columns: their names.
        rows: a cell a column.
        bars: columns of numbers that get a small bar a cell, from 0 to the column's largest.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    bars: tuple[str, ...] = ()


@record
@dataclass(frozen=True, slots=True)
class Section:
    """One part of a report: what it says, the numbers behind it, and its pictures."""

    title: str
    sentences: tuple[str, ...] = ()
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    warnings: tuple[str, ...] = ()


@record
@dataclass(frozen=True, slots=True)
class Tile:
    """One number at the top of a report, or, where there is no evidence yet, what would give it.

    Attributes:
        title: what the number is.
        value: the number as a person reads it, empty where there is none.
        detail: one line under it: what it means, or what would fill the tile.
        command: the command that would fill it, empty where there is none.
    """

    title: str
    value: str = ""
    detail: str = ""
    command: str = ""


@record
@dataclass(frozen=True, slots=True)
class Provenance:
    """How a report was made: enough for a stranger to make it again.

    Attributes:
        method: paragraphs of plain words and formulas.
        citations: the papers it rests on.
        command: the command that makes the report again.
        seed: the seed of everything random in it.
        versions: name and version of what computed it.
        hashes: what was read, and its sha256.
        warnings: what limits the claims of the whole report.
    """

    method: tuple[str, ...] = ()
    citations: tuple[str, ...] = ()
    command: str = ""
    seed: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
