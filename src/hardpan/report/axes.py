"""What axes of several drawings share: labels of errors and of counts, and round places on a logarithmic scale."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any

import altair as alt

SMALLEST_SHOWN = 1e-12  # a log axis of errors ends here: what lies below is in the table
PERCENT = "format(datum.value, '.6~%')"
"""An expression of Vega that labels an error in percent."""

SMALLEST_PERCENT = 1e-6  # 0.0001 %: an axis with smaller ticks has powers of ten at all of them


def _powers() -> str:
    """An expression of Vega that labels a fraction as 10⁻⁷, or 2 × 10⁻⁷."""
    parts = "split(format(datum.value, '.2~e'), 'e')"
    signs = zip("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹", strict=True)
    power = functools.reduce(
        lambda text, pair: f"replace({text}, regexp('{pair[0]}', 'g'), '{pair[1]}')", signs, f"{parts}[1]"
    )
    power = f"replace({power}, '+', '')"
    return f"datum.value == 0 ? '0' : ({parts}[0] == '1' ? '' : {parts}[0] + ' × ') + '10' + {power}"


POWERS = _powers()


def in_powers(smallest: float) -> bool:
    """Whether an axis of errors whose smallest tick is about this one is labelled by powers of ten, all along."""
    return 0 < smallest < SMALLEST_PERCENT


def error_labels(smallest: float) -> str:
    """How an axis of errors is labelled: in one style along all of it."""
    return POWERS if in_powers(smallest) else PERCENT


def error_title(title: str, smallest: float) -> str:
    """Name of an axis of errors; it says so where its labels are no percents.

    Example:
        >>> error_title("Bayes error", 1e-9), error_title("Bayes error", 1e-3)
        ('Bayes error as a fraction', 'Bayes error')
    """
    return f"{title} as a fraction" if in_powers(smallest) else title


def whole(values: Iterable[float]) -> bool:
    """Whether numbers are counts: none is broken, and they are more than a 0 and a 1, which may be shares.

    Example:
        >>> whole([1, 2.0, 3]), whole([0.0, 1.0]), whole([0.5, 2])
        (True, False, False)
    """
    numbers = list(values)
    return max(numbers, default=0) > 1 and all(number == round(number) for number in numbers)


def whole_ticks(form: str) -> dict[str, Any]:
    """Options of an axis with ticks at whole numbers only.

    The least step alone leaves halves where an axis is no longer than two; these are drawn without label and line.

    Args:
        form: how d3 writes a number.
    """
    broken: dict[str, Any] = {"condition": {"test": "datum.value % 1 == 0", "value": 1}, "value": 0}
    label = "datum.value % 1 == 0 ? datum.label : ''"
    return {"format": form, "tickMinStep": 1, "labelExpr": label, "tickOpacity": broken, "gridOpacity": broken}


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers between two positive ones: 1, 2, 5 over a short span, powers of ten over a long one."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = last - first
    steps = (1, 2, 5) if decades <= 3 else (1,)
    every = max(1, math.ceil(decades / 8))
    ticks = [step * 10.0**power for power in range(first, last + 1, every) for step in steps]
    inside = [tick for tick in ticks if low <= tick <= high]
    if len(inside) >= 2:
        return inside
    # Less than a decade without two such numbers: round the ends and what lies between them.
    places = (low * (high / low) ** (part / 3) for part in range(4))
    return sorted({round(place, 1 - math.floor(math.log10(place))) for place in places})


def log_edge(values: Iterable[float]) -> float:
    """Where a logarithmic axis of errors begins: below the smallest positive number that it has to show."""
    positive = [value for value in values if value > 0]
    return max(SMALLEST_SHOWN, 0.7 * min(positive)) if positive else SMALLEST_SHOWN


def error_axis(words: str, edge: float, top: float) -> dict[str, Any]:
    """Title, scale and axis of errors: from 0, or logarithmic from ``edge`` where that is a positive number."""
    if edge > 0:
        top = max(top, 2 * edge)
        ticks = log_ticks(edge, top)
        scale = alt.Scale(type="log", domain=[edge, top], nice=False)
        axis = alt.Axis(values=ticks, labelExpr=error_labels(ticks[0]))
        return {"title": axis_title(error_title(words, ticks[0]), True), "scale": scale, "axis": axis}
    top = top if top > 0 else 1.0
    scale = alt.Scale(type="linear", domain=[0, top], nice=True)
    axis = alt.Axis(labelExpr=error_labels(top / 10), tickCount=6, labelOverlap="greedy")
    return {"title": axis_title(error_title(words, top / 10), False), "scale": scale, "axis": axis}


def x_ticks(places: list[float], log: bool) -> dict[str, Any]:
    """Options of an axis of plain numbers: round places on a logarithmic one, whole ones where all are whole."""
    if log and places:
        return {"format": "~g", "values": log_ticks(min(places), max(places))}
    return whole_ticks("~g") if whole(places) else {"format": "~g"}


def axis_title(title: str, log: bool) -> str:
    """A title in one line; it says that an axis is logarithmic."""
    # A line separator (U+2028) would break the expressions that Vega makes of titles.
    title = " ".join(title.split())
    return f"{title} (logarithmic axis)" if log else title
