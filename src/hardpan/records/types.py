"""The records that more than one part of hardpan uses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.records.registry import record


@record
@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval: bounds, level, and how it was made."""

    low: float
    high: float
    confidence: float = 0.95
    method: str = ""


@record
@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its uncertainty, method and sample count.

    Attributes:
        value: the estimate, a fraction in 0..1 where it is an error.
        stderr: its standard error (0 for closed forms).
        low: lower end of the interval at level ``confidence``.
        high: upper end of it.
        confidence: the level of the interval.
        method: how the number was made, in words.
        n: how many draws or examples it rests on (0 for closed forms).
        seed: the seed of the draws, if there were any.
        notes: what a reader has to know before using the number.
        log10: log10 of the value, right also where ``value`` underflows to 0; None where it makes no sense.

    Example:
        >>> Estimate(0.25, 0.01, 0.23, 0.27, method="example", n=100)
        Estimate(0.25 ± 0.01, 95 % [0.23, 0.27], example, n=100)
    """

    value: float
    stderr: float
    low: float
    high: float
    confidence: float = 0.95
    method: str = ""
    n: int = 0
    seed: int | None = None
    notes: tuple[str, ...] = ()
    log10: float | None = None

    def __repr__(self) -> str:
        text = f"Estimate({self.value:.6g} ± {self.stderr:.2g}, "
        text += f"{100 * self.confidence:g} % [{self.low:.6g}, {self.high:.6g}], {self.method}"
        text += f", n={self.n}" if self.n else ""
        if self.value == 0.0 and self.log10 is not None and math.isfinite(self.log10):
            text += f", log10={self.log10:.8g}"
        return text + ")"


@record
@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Examples with ids, and what is known of them.

    Attributes:
        name: what to call the set.
        x: images (N, H, W) or (N, H, W, C), or feature vectors (N, d).
        ids: (N,) strings, each once.
        labels: (N,) class numbers in 0..C-1, or None.
        class_names: the C names.
        split: (N,) "train", "test" or "validation" where the set has an official split, else None.
        metadata: further columns of length N (sub-class, source, votes, ...).
        source: where it came from.
    """

    name: str
    x: NDArray[Any]
    ids: NDArray[np.str_]
    labels: NDArray[np.int64] | None = None
    class_names: tuple[str, ...] = ()
    split: NDArray[np.str_] | None = None
    metadata: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    source: str = ""

    def __len__(self) -> int:
        return len(self.x)

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return len(self.class_names)

    def features(self) -> NDArray[np.float64]:
        """Every example as a flat vector of float64, shape (N, d)."""
        return self.x.reshape(len(self.x), -1).astype(np.float64)


@record
@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Row numbers of the three disjoint parts of a dataset, and how they were chosen."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]
    method: str
    seed: int


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
