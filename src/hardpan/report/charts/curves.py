"""Lines: an error against a setting, several series, reliability, and lines with a slider."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import altair as alt
import numpy as np

from hardpan import formatting
from hardpan.report.charts.axes import (
    LETTER,
    LINE,
    PERCENT,
    SERIES,
    Box,
    axis_title,
    data_of,
    error_axis,
    error_labels,
    error_title,
    estimate_of,
    free_of_lines,
    log_edge,
    log_ticks,
    number_ticks,
    series_look,
    short_percent,
    x_ticks,
)
from hardpan.report.palette import LIGHT
from hardpan.report.sections import Chart


def curve(chart: Chart) -> alt.TopLevelMixin:
    """Draw a line with its band; the positions in ``marks`` are named on the line."""
    log, log_x = bool(chart.options.get("log")), bool(chart.options.get("log_x"))
    rows = [dict(row) | {"shown": formatting.percent(row["y"])} for row in chart.rows if row["y"] is not None]
    edge = log_edge([row["y"] for row in rows]) if log else -math.inf
    top = max((row["high"] for row in rows), default=1.0)
    rows = [row | {"low": max(row["low"], edge)} for row in rows if row["y"] >= edge]
    x = alt.X(
        "x:Q",
        title=axis_title(str(chart.options.get("x_title", "")), log_x),
        scale=alt.Scale(type="log", nice=False) if log_x else alt.Scale(nice=False, zero=False),
        axis=alt.Axis(labelFlush=False, **x_ticks([float(row["x"]) for row in rows], log_x)),
    )

    def vertical(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", **error_axis(str(chart.options.get("y_title", "error")), edge, top))

    tips = [
        alt.Tooltip("x:Q", title=axis_title(str(chart.options.get("x_title", "")), False), format=".3~g"),
        alt.Tooltip("shown:N", title=axis_title(str(chart.options.get("y_title", "error")), False)),
    ]
    base = alt.Chart(data_of(rows)).encode(x=x)
    layers = [
        base.mark_area(color=LIGHT.shade).encode(y=vertical("low"), y2=alt.Y2("high:Q")),
        base.mark_line(color=LIGHT.floor, strokeWidth=2.5).encode(y=vertical("y")),
        base.mark_point(color=LIGHT.floor, size=120, filled=True, opacity=0).encode(y=vertical("y"), tooltip=tips),
    ]
    marked = [dict(row) for row in chart.options.get("marks", ())]
    if marked:
        places = alt.Chart(data_of(marked)).encode(x=x)
        layers.append(places.mark_rule(color=LIGHT.muted, strokeDash=[4, 3]))
        label: dict[str, Any] = {
            "align": "left",
            "baseline": "bottom",
            "dx": 5,
            "dy": -4,
            "fontSize": 12,
            "color": LIGHT.muted,
        }
        layers.append(places.mark_text(**label).encode(y=alt.YValue(_HEIGHT), text=alt.Text("label:N")))
    return alt.layer(*layers, height=_HEIGHT)


_MOST_NAMED_AT_ENDS = 2
_MOST_DOTS = 25  # of one line; with more of them the dots hide the line


_HEIGHT, _NARROW = 260, 400  # pixels: where a page has two charts side by side


def lines(chart: Chart) -> alt.TopLevelMixin:
    """One line per series, its band where rows have one, and its name."""
    log, share = bool(chart.options.get("log")), bool(chart.options.get("percent", True))
    height = int(chart.options.get("height", _HEIGHT))
    rows = [_row(row, share) for row in chart.rows if row["y"] is not None and (not log or row["y"] > 0)]
    names = list(dict.fromkeys(str(row["series"]) for row in rows))
    at_ends = len(names) <= _MOST_NAMED_AT_ENDS and _room_for_names(
        rows, names, log, bool(chart.options.get("log_x"))
    )
    colour, dash = series_look("series", names, legend=not at_ends and len(names) > 1)
    x = alt.X(
        "x:Q",
        title=axis_title(str(chart.options.get("x_title", "")), bool(chart.options.get("log_x"))),
        scale=alt.Scale(type="log", nice=False)
        if chart.options.get("log_x")
        else alt.Scale(nice=False, zero=False),
        axis=alt.Axis(
            grid=False,
            labelOverlap="greedy",
            **x_ticks([row["x"] for row in rows], bool(chart.options.get("log_x"))),
        ),
    )
    words = str(chart.options.get("y_title", ""))
    vertical = _vertical_axis(chart, rows)
    tips = [
        alt.Tooltip("series:N", title="line"),
        alt.Tooltip("x:Q", title=str(chart.options.get("x_title", "")), format=".4~g"),
        alt.Tooltip("shown:N", title=words),
    ]
    base = alt.Chart(data_of(rows)).encode(x=x, color=colour)
    layers: list[Any] = []
    if all(row["low"] is not None for row in rows):
        layers.append(base.mark_area(opacity=0.15).encode(y=vertical("low"), y2=alt.Y2("high:Q")))
    layers += [
        base.mark_line(strokeWidth=2.2).encode(y=vertical("y"), strokeDash=dash),
        base.mark_point(filled=True, size=34, opacity=1 if len(rows) <= _MOST_DOTS * len(names) else 0).encode(
            y=vertical("y"), tooltip=tips
        ),
    ]
    if at_ends:
        ends = _ends(rows, names)
        # The upper line's name is above it and the lower one's below it, so that they never overlap.
        sides: tuple[dict[str, Any], ...] = ({"baseline": "bottom", "dy": -6}, {"baseline": "top", "dy": 6})
        for row, side in zip(ends, sides, strict=False):
            named = alt.Chart(data_of([row])).encode(x=x, y=vertical("y"), color=colour, text=alt.Text("series:N"))
            layers.append(named.mark_text(align="right", dx=-2, fontSize=12, **side))
    marked = [dict(row) for row in chart.options.get("marks", ())]
    if marked:
        layers.append(alt.Chart(data_of(marked)).mark_rule(color=LIGHT.muted, strokeDash=[4, 3]).encode(x=x))
    rug = [{"x": float(value)} for value in chart.options.get("rug", ())]
    if rug:
        ticks = alt.Chart(data_of(rug)).mark_tick(color=LIGHT.ceiling, thickness=2, height=12, opacity=0.8)
        layers.append(ticks.encode(x=x, y=alt.YValue(height - 6)))
    return alt.layer(*layers, height=height)


def _vertical_axis(chart: Chart, rows: list[dict[str, Any]]) -> Callable[[str], alt.Y]:
    """The vertical position by a column of the rows, all on one axis."""
    log, share = bool(chart.options.get("log")), bool(chart.options.get("percent", True))
    scale = alt.Scale(zero=bool(chart.options.get("zero", share)))
    if chart.options.get("domain"):
        scale = alt.Scale(domain=list(chart.options["domain"]), nice=False)
    values = [row[key] for row in rows for key in ("low", "y", "high") if row[key] is not None and row[key] > 0]
    smallest = (min(values) if log else max(values) / 10) if share and values else math.inf
    title = error_title(str(chart.options.get("y_title", "")), smallest) + (" (log scale)" if log else "")
    labels: dict[str, Any] = {"labelExpr": error_labels(smallest)} if share else number_ticks()
    if log and values:  # a little beyond the data, with round numbers inside
        ends = [min(values) / 1.2, 1.2 * max(values)]
        scale = alt.Scale(type="log", domain=ends, nice=False)
        labels["values"] = log_ticks(*ends)
    axis = alt.Axis(**({"tickCount": 6} | labels))
    return lambda name: alt.Y(f"{name}:Q", title=title, scale=scale, axis=axis)


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

    curves = []
    for name in names:
        line = sorted((across(row["x"]), down(row["y"])) for row in rows if row["series"] == name)
        curves.append((np.array([x for x, _ in line]), np.array([y for _, y in line])))
    boxes = []
    for row, way in zip(_ends(rows, names), (-1, 1), strict=False):
        right, near = across(row["x"]) - 2, down(row["y"]) + way * 4
        top, bottom = sorted((near, near + way * (LINE + 2)))
        boxes.append(Box(right - LETTER * len(row["series"]), right, top, bottom))
    above_axis = len(boxes) < 2 or boxes[1].bottom <= _HEIGHT - 6
    return above_axis and all(free_of_lines(box, curves) for box in boxes)


def _part(value: float, ends: tuple[float, float], log: bool) -> float:
    """How far along an axis a value lies, 0..1."""
    low, high = ends
    if log and low > 0:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return (value - low) / (high - low) if low < high else 0.5


def _row(row: Any, share: bool) -> dict[str, Any]:
    y, low, high = float(row["y"]), row.get("low"), row.get("high")
    known = low is not None and high is not None and math.isfinite(low) and math.isfinite(high)
    spread = (high - low) / 2 if known else 0.0
    text = formatting.percent(y, spread) if share else f"{y:.4g}"
    return {
        "series": str(row["series"]),
        "x": float(row["x"]),
        "y": y,
        "low": low if known else None,
        "high": high if known else None,
        "shown": text,
    }


def reliability(chart: Chart) -> alt.TopLevelMixin:
    """Accuracy against stated confidence: a point with its interval per bin, the diagonal dashed."""
    rows = [
        dict(row)
        | {
            "series": str(row.get("series", "")),
            "confidence": formatting.percent(float(row["x"])),
            "accuracy": formatting.estimate(estimate_of(row, "y", "low", "high")),
        }
        for row in chart.rows
    ]
    names = list(dict.fromkeys(row["series"] for row in rows))
    ends = [float(row[key]) for row in rows for key in ("x", "y", "low") if row.get(key) is not None]
    least = min(0.9, *ends) if ends else 0.0
    scale = alt.Scale(domain=[max(0.0, least - 0.04 * (1 - least)), 1.0], nice=False, clamp=True)
    axis = alt.Axis(labelExpr=PERCENT, tickCount=5)
    x = alt.X("x:Q", title=str(chart.options.get("x_title", "stated confidence")), scale=scale, axis=axis)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", title=str(chart.options.get("y_title", "accuracy")), scale=scale, axis=axis)

    colour, _ = series_look("series", names, legend=len(names) > 1)
    tips = [
        alt.Tooltip("series:N", title="model"),
        alt.Tooltip("confidence:N"),
        alt.Tooltip("accuracy:N"),
        alt.Tooltip("count:Q", title="examples", format=","),
    ]
    base = alt.Chart(data_of(rows)).encode(x=x, color=colour)
    diagonal = alt.Chart(data_of([{"x": scale.domain[0], "y": scale.domain[0]}, {"x": 1.0, "y": 1.0}]))
    return alt.layer(
        diagonal.mark_line(color=LIGHT.muted, strokeDash=[5, 4], strokeWidth=1.2).encode(x=x, y=y("y")),
        base.mark_rule(strokeWidth=1.5, opacity=0.7).encode(y=y("low"), y2=alt.Y2("high:Q")),
        base.mark_line(strokeWidth=1.5, opacity=0.6).encode(y=y("y")),
        base.mark_point(filled=True, size=60, opacity=1).encode(y=y("y"), tooltip=tips),
    ).properties(height=int(chart.options.get("height", _HEIGHT)))


def slider(chart: Chart) -> alt.TopLevelMixin:
    """One line per name; a rule follows the slider, and the values there are written beside the lines."""
    rows = [dict(row) | {"shown": short_percent(row["y"])} for row in chart.rows if row["y"] is not None]
    places = sorted({float(row["x"]) for row in chart.rows}) or [0.0]
    step = round(min((b - a for a, b in itertools.pairwise(places)), default=1.0), 6)
    start = min(places, key=lambda place: abs(place - float(chart.options.get("start", places[0]))))
    words = str(chart.options.get("x_title", "setting"))
    parameter = alt.param(
        name="setting",
        value=start,
        bind=alt.binding_range(min=places[0], max=places[-1], step=step, name=f"{words} "),
    )
    names = list(dict.fromkeys(str(row["name"]) for row in rows))
    colours = [SERIES[k % len(SERIES)] for k in range(len(names))]
    colour = alt.Color(
        "name:N",
        scale=alt.Scale(domain=names, range=colours),
        legend=alt.Legend(title=None, orient="top", direction="vertical", labelLimit=400, labelFontSize=13),
    )
    x = alt.X("x:Q", title=words, scale=alt.Scale(nice=False))
    y = alt.Y("y:Q", title="proportion", axis=alt.Axis(labelExpr=PERCENT), scale=alt.Scale(domain=[0, 1]))
    base = alt.Chart(data_of(rows)).encode(x=x, y=y, color=colour)
    tips = [
        alt.Tooltip("name:N"),
        alt.Tooltip("x:Q", title=words),
        alt.Tooltip("shown:N", title="proportion"),
    ]
    near: Any = f"abs(datum.x - setting) < {step / 2}"
    here = base.transform_filter(near)
    return (
        alt.layer(
            base.mark_line(strokeWidth=2.5),
            here.mark_rule(color=LIGHT.muted, strokeDash=[4, 3]).encode(y=alt.YValue(0), y2=alt.Y2Value("height")),
            base.mark_point(filled=True, size=120, opacity=0).encode(tooltip=tips),
            here.mark_point(filled=True, size=90, opacity=1).encode(tooltip=tips),
            here.mark_text(align="right", dx=-10, dy=-10, fontSize=14, fontWeight="bold").encode(
                text=alt.Text("shown:N")
            ),
        )
        .add_params(parameter)
        .properties(height=_HEIGHT)
    )
