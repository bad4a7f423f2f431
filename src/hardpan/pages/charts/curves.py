"""Lines: one or several series, and reliability."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import altair as alt

from hardpan.pages import formatting
from hardpan.pages.charts.axes import (
    PERCENT,
    axis_by_field,
    axis_title,
    chart_of_rows,
    error_labels,
    log_edge,
    log_ticks,
    number_ticks,
    series_look,
)
from hardpan.pages.palette import LIGHT
from hardpan.pages.sections import Chart, estimate_of_fields

_MOST_DOTS = 24  # of one line; with more of them the dots hide the line
_HEIGHT = 260


def lines(chart: Chart) -> alt.TopLevelMixin:
    """One line per series, its band where rows have one; a legend names several, and ``marks`` are named."""
    log, share = bool(chart.options.get("log")), bool(chart.options.get("percent", True))
    log_x = bool(chart.options.get("log_x"))
    height = int(chart.options.get("height", _HEIGHT))
    rows = [_curve_row(row, share) for row in chart.rows if row["y"] is not None and (not log or row["y"] > 0)]
    if log and share:  # what is smaller is in the table
        edge = log_edge(row["y"] for row in rows)
        rows = [
            row | {"low": None if row["low"] is None else max(row["low"], edge)} for row in rows if row["y"] >= edge
        ]
    names, colour, dash = series_look("series", rows)
    x_words = axis_title(chart)
    x = alt.X(
        "x:Q",
        title=f"{x_words} (log scale)" if log_x else x_words,
        scale=alt.Scale(type="log", nice=False) if log_x else alt.Scale(nice=False, zero=False),
        axis=alt.Axis(grid=False, labelOverlap="greedy", **number_ticks((row["x"] for row in rows), log_x)),
    )
    vertical = _curve_height(chart, rows)
    tips = [
        alt.Tooltip("series:N", title="line"),
        alt.Tooltip("x:Q", title=x_words, format=".4~g"),
        alt.Tooltip("shown:N", title=axis_title(chart, "y")),
    ]
    base = chart_of_rows(rows).encode(x=x, color=colour)
    layers: list[Any] = []
    if all(row["low"] is not None for row in rows):
        layers.append(base.mark_area(opacity=0.15).encode(y=vertical("low"), y2=alt.Y2("high:Q")))
    layers += [
        base.mark_line(strokeWidth=2.2).encode(y=vertical("y"), strokeDash=dash),
        base.mark_point(filled=True, size=34, opacity=1 if len(rows) <= _MOST_DOTS * len(names) else 0).encode(
            y=vertical("y"), tooltip=tips if names != [""] else tips[1:]
        ),
    ]
    marked = [{"label": ""} | dict(row) for row in chart.options.get("marks", ())]
    if marked:
        marks = chart_of_rows(marked).encode(x=x)
        text = marks.mark_text(align="left", baseline="bottom", dx=5, dy=-4, fontSize=12, color=LIGHT.muted)
        layers.append(marks.mark_rule(color=LIGHT.muted, strokeDash=[4, 3]))
        layers.append(text.encode(y=alt.YValue(height), text=alt.Text("label:N")))
    rug = [{"x": float(value)} for value in chart.options.get("rug", ())]
    if rug:
        ticks = chart_of_rows(rug).mark_tick(color=LIGHT.ceiling, thickness=2, height=12, opacity=0.8)
        layers.append(ticks.encode(x=x, y=alt.YValue(height - 6)))
    return alt.layer(*layers, height=height)


def _curve_height(chart: Chart, rows: list[dict[str, Any]]) -> Callable[[str], alt.Y]:
    """The vertical position by a column of the rows, all on one axis."""
    log, share = bool(chart.options.get("log")), bool(chart.options.get("percent", True))
    scale = alt.Scale(zero=share)
    if chart.options.get("domain"):
        scale = alt.Scale(domain=list(chart.options["domain"]), nice=False)
    values = [row[key] for row in rows for key in ("low", "y", "high") if row[key] is not None and row[key] > 0]
    smallest = (min(values) if log else max(values) / 10) if share and values else math.inf
    title, labels = error_labels(str(chart.options.get("y_title", "")), smallest)
    title += " (log scale)" if log else ""
    ticks: dict[str, Any] = {"labelExpr": labels, "tickCount": 6} if share else number_ticks()
    if log and values:  # a little beyond the data, with round numbers inside
        ends = [min(values) / 1.2, 1.2 * max(values)]
        scale = alt.Scale(type="log", domain=ends, nice=False)
        ticks["values"] = log_ticks(*ends)
    return axis_by_field(alt.Y, title=title, scale=scale, axis=alt.Axis(**ticks))


def _curve_row(row: Mapping[str, Any], share: bool) -> dict[str, Any]:
    item = estimate_of_fields(row, "y")
    known = math.isfinite(item.low) and math.isfinite(item.high)
    spread = (item.high - item.low) / 2 if known else 0.0
    return {
        "series": str(row.get("series", "")),
        "x": float(row["x"]),
        "y": item.value,
        "low": item.low if known else None,
        "high": item.high if known else None,
        "shown": formatting.percent(item.value, spread) if share else formatting.cell(item.value),
    }


def reliability(chart: Chart) -> alt.TopLevelMixin:
    """Accuracy against stated confidence: a point with its interval per bin, the diagonal dashed."""
    rows = [
        dict(row)
        | {
            "confidence": formatting.percent(float(row["x"])),
            "accuracy": formatting.estimate(estimate_of_fields(row, "y")),
        }
        for row in chart.rows
    ]
    ends = [float(row[key]) for row in rows for key in ("x", "y", "low") if row.get(key) is not None]
    least = min(0.9, *ends) if ends else 0.0
    scale = alt.Scale(domain=[max(0.0, least - 0.04 * (1 - least)), 1.0], nice=False, clamp=True)
    axis = alt.Axis(labelExpr=PERCENT, tickCount=5)
    x = alt.X("x:Q", title=axis_title(chart, "x", "stated confidence"), scale=scale, axis=axis)
    y = axis_by_field(alt.Y, title=axis_title(chart, "y", "accuracy"), scale=scale, axis=axis)
    tips = [
        alt.Tooltip("confidence:N"),
        alt.Tooltip("accuracy:N"),
        alt.Tooltip("count:Q", title="examples", format=","),
    ]
    base = chart_of_rows(rows).encode(x=x)
    diagonal = chart_of_rows([{"x": scale.domain[0], "y": scale.domain[0]}, {"x": 1.0, "y": 1.0}])
    return alt.layer(
        diagonal.mark_line(color=LIGHT.muted, strokeDash=[5, 4], strokeWidth=1.2).encode(x=x, y=y("y")),
        base.mark_rule(color=LIGHT.floor, strokeWidth=1.5, opacity=0.7).encode(y=y("low"), y2=alt.Y2("high:Q")),
        base.mark_line(color=LIGHT.floor, strokeWidth=1.5, opacity=0.6).encode(y=y("y")),
        base.mark_point(color=LIGHT.floor, filled=True, size=60, opacity=1).encode(y=y("y"), tooltip=tips),
    ).properties(height=int(chart.options.get("height", _HEIGHT)))
