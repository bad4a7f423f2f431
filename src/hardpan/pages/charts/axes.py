"""What charts share: rows for Altair, tick labels, logarithmic axes, colours of series."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import altair as alt

from hardpan.pages.palette import LIGHT
from hardpan.pages.sections import Chart

SMALLEST_SHOWN = 1e-12  # a log axis of errors ends here; smaller values are in the table
SMALLEST_PERCENT = 1e-6  # 0.0001 %: an axis with smaller ticks has powers of ten at all of them
PERCENT = "datum.value == 0 ? '0 %' : format(100 * datum.value, ',.6~r') + ' %'"
"""An expression of Vega that labels an error in percent."""
NUMBER = (
    "abs(datum.value) >= 1e6 ? replace(format(datum.value, '.3~s'), 'G', 'B') : "
    "datum.value == 0 ? '0' : format(datum.value, ',.6~r')"
)
"""An expression of Vega that labels a plain number: 0.25, 1,200, 3.5M."""
NAME = "slice(datum.label, indexof(datum.label, '|') + 1)"
"""An expression of Vega that labels a row without the part of its key before "|", which keeps equal names apart."""
# In this order; from the seventh line on, only dashes distinguish lines.
SERIES = (LIGHT.floor, LIGHT.ceiling, LIGHT.third, LIGHT.fourth, LIGHT.fifth, LIGHT.muted)
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
LETTER = 6.8  # pixels: mean width of a letter, for text of 12 pixels
_SYMBOL = 34  # pixels of a legend's symbol and the space beside it
_SHORT_LEGEND, _FEW = 20, 3  # letters that a narrow screen has room for in one line; names that may have one each


class Rows(alt.Data):
    """Rows of a drawing: they never change, so the copies that Altair makes of its layers share them."""

    def __deepcopy__(self, memo: Any) -> Rows:
        return self


def chart_of_rows(rows: Iterable[Mapping[str, Any]]) -> alt.Chart:
    """A chart without marks yet.

    Example:
        >>> chart_of_rows([{"x": 1}]).data.to_dict()
        {'values': [{'x': 1}]}
    """
    return alt.Chart(Rows(values=list(rows)))  # type: ignore[no-untyped-call]  # inherited from Altair


def axis_by_field(channel: Any, **look: Any) -> Callable[[str], Any]:
    """Position along one axis by the field of the rows: several marks of a chart share title, scale and axis."""
    return lambda field: channel(f"{field}:Q", **look)


def _power_of_ten_label() -> str:
    """An expression of Vega that labels a fraction as 10⁻⁷, or 2 × 10⁻⁷."""
    parts = "split(format(datum.value, '.2~e'), 'e')"
    signs = zip("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹", strict=True)
    power = functools.reduce(
        lambda text, pair: f"replace({text}, regexp('{pair[0]}', 'g'), '{pair[1]}')", signs, f"{parts}[1]"
    )
    power = f"replace({power}, '+', '')"
    return f"datum.value == 0 ? '0' : ({parts}[0] == '1' ? '' : {parts}[0] + ' × ') + '10' + {power}"


POWERS = _power_of_ten_label()


def in_powers(smallest: float) -> bool:
    """Whether an axis of errors whose smallest tick is about this one is labelled by powers of ten, all along."""
    return 0 < smallest < SMALLEST_PERCENT


def error_labels(title: str, smallest: float) -> tuple[str, str]:
    """Name and labels of an axis of errors: labels have one style along all of it, and the name says if no percent.

    Example:
        >>> [error_labels("Bayes error", smallest)[0] for smallest in (1e-9, 1e-3)]
        ['Bayes error as a fraction', 'Bayes error']
    """
    return (f"{title} as a fraction", POWERS) if in_powers(smallest) else (title, PERCENT)


def whole(values: Iterable[float]) -> bool:
    """Whether numbers are counts: none is broken, and they are more than a 0 and a 1, which may be shares.

    Example:
        >>> whole([1, 2.0, 3]), whole([0.0, 1.0]), whole([0.5, 2])
        (True, False, False)
    """
    numbers = list(values)
    return max(numbers, default=0) > 1 and all(number == round(number) for number in numbers)


def number_ticks(values: Iterable[float] = (), log: bool = False) -> dict[str, Any]:
    """Options of an axis of plain numbers: round numbers on a logarithmic one, whole ones where all are whole."""
    values, ticks = list(values), {"labelExpr": NUMBER, "tickCount": 6}
    positive = [value for value in values if value > 0]
    if log and positive:
        rounded = log_ticks(min(positive), max(positive))
        return {"values": sorted({round(tick) for tick in rounded}) if whole(values) else rounded, **ticks}
    return whole_ticks() if whole(values) else ticks


def whole_ticks() -> dict[str, Any]:
    """Options of an axis with ticks at whole numbers only.

    The least step alone leaves halves where an axis is no longer than two; these are drawn without label and line.
    """
    broken: dict[str, Any] = {"condition": {"test": "datum.value % 1 == 0", "value": 1}, "value": 0}
    label = f"datum.value % 1 == 0 ? ({NUMBER}) : ''"
    return {"tickCount": 6, "tickMinStep": 1, "labelExpr": label, "tickOpacity": broken, "gridOpacity": broken}


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers between two positive ones: 1, 2, 5 over a short span, powers of ten over a long one."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = last - first
    steps = (1, 2, 5) if decades <= 3 else (1,)
    every = max(1, math.ceil(decades / 8))
    ticks = [step * 10.0**power for power in range(first, last + 1, every) for step in steps]
    inside = [tick for tick in ticks if low <= tick <= high]
    if len(inside) == 2 and decades <= 3:
        ticks = [step * 10.0**power for power in range(first, last + 1) for step in (1, 1.5, 2, 3, 5, 7)]
        return [tick for tick in ticks if low <= tick <= high]
    if len(inside) >= 2:
        return inside
    # Less than a decade without two such numbers: round the ends and what lies between them.
    values = (low * (high / low) ** (third / 3) for third in range(4))
    return sorted({round(value, 1 - math.floor(math.log10(value))) for value in values})


def log_edge(values: Iterable[float]) -> float:
    """Where a logarithmic axis of errors begins: below the smallest positive number that it has to show."""
    positive = [value for value in values if value > 0]
    return max(SMALLEST_SHOWN, 0.7 * min(positive)) if positive else SMALLEST_SHOWN


def error_axis(words: str, edge: float, top: float) -> dict[str, Any]:
    """Title, scale and axis of errors: from 0, or logarithmic from ``edge`` where that is a positive number."""
    if edge > 0:
        ticks = log_ticks(edge, max(top, 2 * edge))
        title, labels = error_labels(words, ticks[0])
        scale = alt.Scale(type="log", domain=[edge, max(top, 2 * edge)], nice=False)
        return {"title": f"{title} (log scale)", "scale": scale, "axis": alt.Axis(values=ticks, labelExpr=labels)}
    top = top if top > 0 else 1.0
    title, labels = error_labels(words, top / 10)
    axis = alt.Axis(labelExpr=labels, tickCount=6, labelOverlap="parity")
    return {"title": title, "scale": alt.Scale(type="linear", domain=[0, top], nice=True), "axis": axis}


def y_names(limit: int = 190) -> alt.Y:
    """An axis of names in front of rows."""
    axis = alt.Axis(labelExpr=NAME, labelLimit=limit, labelPadding=6, ticks=False, domain=False, grid=False)
    return alt.Y("key:N", sort=None, title=None, axis=axis)


def axis_title(chart: Chart, side: str = "x", default: str = "") -> str:
    """The title that a chart has for an axis, in one line."""
    # A line separator (U+2028) would break the expressions that Vega makes of titles.
    return " ".join(str(chart.options.get(f"{side}_title", default)).split())


def domain_of(values: list[float]) -> list[float]:
    """The span of some numbers with a little room at both ends."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = 0.04 * (high - low) or 0.02
    return [low - room, high + room]


def series_look(field: str, rows: Iterable[Mapping[str, Any]]) -> tuple[list[str], alt.Color, alt.StrokeDash]:
    """Names of series; colours, then dashes, so that every line differs from the others; a legend of several."""
    names = list(dict.fromkeys(str(row[field]) for row in rows))
    columns: Any = 3 if sum(map(len, names)) < _SHORT_LEGEND else 1 if len(names) <= _FEW else 2
    if columns == 2:  # a phone has room for two short names in a line
        columns = alt.ExprRef(f"width < {round(2 * (LETTER * max(map(len, names)) + _SYMBOL))} ? 1 : 2")
    key = None
    if len(names) > 1:
        key = alt.Legend(
            title=None, orient="top", columns=columns, labelLimit=240, labelFontSize=12, labelColor=LIGHT.ink,
            symbolType="stroke", symbolStrokeWidth=3, symbolOpacity=1,
        )  # fmt: skip
    colours, dashes = (
        alt.Scale(domain=names, range=list(itertools.islice(itertools.cycle(looks), max(1, len(names)))))
        for looks in (SERIES, DASHES)
    )
    return (
        names,
        alt.Color(f"{field}:N", scale=colours, legend=key),
        alt.StrokeDash(f"{field}:N", scale=dashes, legend=key),
    )
