"""Several lines in one picture: one or two are named at their ends, more of them in a legend.

Rows: series, x, y, and low, high where there is an interval. Options: x_title, y_title, log_x, log (the y axis),
percent (whether y is a fraction), domain (ends of the y axis, which then stays so), marks (rows of x and label).
"""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import numpy as np

from hardpan import numbers
from hardpan.report.axes import error_labels, error_title, log_ticks, whole, whole_ticks
from hardpan.report.palette import LIGHT
from hardpan.report.placing import LETTER, LINE, Box, free_of_lines
from hardpan.report.sections import Chart
from hardpan.report.values import data_of

# In this order; from the seventh line on, dashes alone tell lines apart.
SERIES = (LIGHT.floor, LIGHT.ceiling, LIGHT.third, LIGHT.fourth, LIGHT.fifth, LIGHT.muted)
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
_MOST_NAMED_AT_ENDS = 2
_SHORT_LEGEND, _FEW = 30, 3  # letters that a narrow screen has room for in one line; names that may have one each
_HEIGHT, _NARROW = 320, 400  # pixels: where a page has two charts side by side


def lines(chart: Chart) -> alt.TopLevelMixin:
    """One line a series, its band where rows have one, and its name."""
    log, share = bool(chart.options.get("log")), bool(chart.options.get("percent", True))
    rows = [_row(row, share) for row in chart.rows if row["y"] is not None and (not log or row["y"] > 0)]
    names = list(dict.fromkeys(str(row["series"]) for row in rows))
    at_ends = len(names) <= _MOST_NAMED_AT_ENDS and _room_for_names(
        rows, names, log, bool(chart.options.get("log_x"))
    )
    colour, dash = told_apart("series", names, legend=not at_ends)
    x = alt.X(
        "x:Q",
        title=str(chart.options.get("x_title", "")),
        scale=alt.Scale(type="log", nice=False)
        if chart.options.get("log_x")
        else alt.Scale(nice=False, zero=False),
        axis=alt.Axis(grid=False, labelOverlap="greedy", **_x_ticks(rows, chart)),
    )
    words = str(chart.options.get("y_title", ""))
    scale = alt.Scale(type="log") if log else alt.Scale(zero=bool(chart.options.get("zero", share)))
    if chart.options.get("domain"):
        scale = alt.Scale(domain=list(chart.options["domain"]), nice=False)
    smallest = _smallest(rows, log) if share else math.inf
    title = error_title(words, smallest) + (" (logarithmic axis)" if log else "")
    labels: dict[str, Any] = {"labelExpr": error_labels(smallest)} if share else {"format": ".3~g"}
    axis = alt.Axis(tickCount=6, **labels)

    def vertical(name: str) -> alt.Y:
        return alt.Y(f"{name}:Q", title=title, scale=scale, axis=axis)

    tips = [
        alt.Tooltip("series:N", title="line"),
        alt.Tooltip("x:Q", title=str(chart.options.get("x_title", "")), format=".4~g"),
        alt.Tooltip("shown:N", title=words),
    ]
    base = alt.Chart(data_of(rows)).encode(x=x, color=colour)
    layers: list[Any] = []
    if all(row["low"] is not None for row in rows):
        layers.append(base.mark_area(opacity=0.15).encode(y=vertical("low"), y2="high:Q"))
    layers += [
        base.mark_line(strokeWidth=2.2).encode(y=vertical("y"), strokeDash=dash),
        base.mark_point(filled=True, size=34, opacity=1).encode(y=vertical("y"), tooltip=tips),
    ]
    if at_ends:
        ends = _ends(rows, names)
        # The upper line's name stands above it and the lower one's below it: they stay apart wherever they end.
        sides: tuple[dict[str, Any], ...] = ({"baseline": "bottom", "dy": -6}, {"baseline": "top", "dy": 6})
        for row, side in zip(ends, sides, strict=False):
            named = alt.Chart(data_of([row])).encode(x=x, y=vertical("y"), color=colour, text="series:N")
            layers.append(named.mark_text(align="right", dx=-2, fontSize=12, **side))
    marked = [dict(row) for row in chart.options.get("marks", ())]
    if marked:
        layers.append(alt.Chart(data_of(marked)).mark_rule(color=LIGHT.muted, strokeDash=[4, 3]).encode(x=x))
    return alt.layer(*layers).properties(height=_HEIGHT)


def _x_ticks(rows: list[dict[str, Any]], chart: Chart) -> dict[str, Any]:
    places, form = [row["x"] for row in rows], "~s" if _large(rows) else ".6~g"
    positive = [place for place in places if place > 0]
    if not (chart.options.get("log_x") and positive):
        return whole_ticks(form) if whole(places) else {"format": form}
    ticks = log_ticks(min(positive), max(positive))
    return {"format": form, "values": sorted({round(tick) for tick in ticks}) if whole(places) else ticks}


def _smallest(rows: list[dict[str, Any]], log: bool) -> float:
    """About where the lowest tick of the y axis is that is not 0."""
    values = [row[key] for row in rows for key in ("low", "y", "high") if row[key] is not None and row[key] > 0]
    return (min(values) if log else max(values) / 10) if values else math.inf


def _ends(rows: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    """The last point of every line, the uppermost first."""
    ends = [max((row for row in rows if row["series"] == name), key=lambda row: row["x"]) for name in names]
    return sorted(ends, key=lambda row: -row["y"])


def _room_for_names(rows: list[dict[str, Any]], names: list[str], log: bool, log_x: bool) -> bool:
    """Whether the names at the ends of one or two lines would stay clear of the lines and of the axis."""
    if not rows:
        return True
    values = [row[key] for row in rows for key in ("low", "y", "high") if row[key] is not None]
    y_ends = (min(values), max(values)) if log else (min(0.0, *values), max(values))
    x_ends = min(row["x"] for row in rows), max(row["x"] for row in rows)

    def across(x: float) -> float:
        return _NARROW * _part(x, x_ends, log_x)

    def down(y: float) -> float:
        return _HEIGHT * (1 - _part(y, y_ends, log))

    drawn = []
    for name in names:
        line = sorted((across(row["x"]), down(row["y"])) for row in rows if row["series"] == name)
        drawn.append((np.array([x for x, _ in line]), np.array([y for _, y in line])))
    boxes = []
    for row, way in zip(_ends(rows, names), (-1, 1), strict=False):
        right, near = across(row["x"]) - 2, down(row["y"]) + way * 4
        top, bottom = sorted((near, near + way * (LINE + 2)))
        boxes.append(Box(right - LETTER * len(row["series"]), right, top, bottom))
    above_axis = len(boxes) < 2 or boxes[1].bottom <= _HEIGHT - 6
    return above_axis and all(free_of_lines(box, drawn) for box in boxes)


def _part(value: float, ends: tuple[float, float], log: bool) -> float:
    """How far along an axis a value lies, 0..1."""
    low, high = ends
    if log and low > 0:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return (value - low) / (high - low) if low < high else 0.5


def told_apart(field: str, names: list[str], *, legend: bool) -> tuple[alt.Color, alt.StrokeDash]:
    """Colours, then dashes, so that every line of a chart is told apart; and what they mean, where asked for."""
    key = (
        alt.Legend(
            title=None,
            orient="top",
            columns=3 if sum(map(len, names)) < _SHORT_LEGEND else 1 if len(names) <= _FEW else 2,
            labelLimit=240,
            labelFontSize=12,
            labelColor=LIGHT.ink,
            symbolType="stroke",
            symbolStrokeWidth=3,
        )
        if legend
        else None
    )
    return (
        alt.Color(f"{field}:N", scale=alt.Scale(domain=names, range=_cycled(SERIES, len(names))), legend=key),
        alt.StrokeDash(f"{field}:N", scale=alt.Scale(domain=names, range=_cycled(DASHES, len(names))), legend=key),
    )


def _row(row: Any, share: bool) -> dict[str, Any]:
    y, low, high = float(row["y"]), row.get("low"), row.get("high")
    known = low is not None and high is not None and math.isfinite(low) and math.isfinite(high)
    spread = (high - low) / 2 if known else 0.0
    shown = numbers.percent(y, spread) if share else f"{y:.4g}"
    return {
        "series": str(row["series"]),
        "x": float(row["x"]),
        "y": y,
        "low": low if known else None,
        "high": high if known else None,
        "shown": shown,
    }


def _large(rows: list[dict[str, Any]]) -> bool:
    return any(abs(row["x"]) >= 10_000 for row in rows)


def _cycled(values: Any, count: int) -> list[Any]:
    return [values[number % len(values)] for number in range(max(1, count))]
