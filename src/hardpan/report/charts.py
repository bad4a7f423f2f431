"""Drawings: each turns a :class:`hardpan.report.sections.Chart` into a Vega-Lite specification.

To add a drawing, write a function from a chart to an Altair chart and add its line to ``KINDS``. Colours are those
of the light theme; the page replaces them by variables that follow the reader's setting.

Rows by drawing (fractions throughout):

- ``intervals``: see :mod:`hardpan.report.error_intervals`.
- ``curve``: x, y, low, high. Options: x_title, y_title, log_x, log, marks (rows of x and label).
- ``bars``: name, value. Options: x_title.
- ``lines``: see :mod:`hardpan.report.lines`; ``slider``: see :mod:`hardpan.report.slider`.
- ``scatter``, ``slope``, ``deviations``, ``dates``: see :mod:`hardpan.report.testbed_charts`.
- ``distribution``, ``threshold``, ``error_by_band``, ``joint``, ``confused``, ``dots``: see
  :mod:`hardpan.report.confusion_charts`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import altair as alt

from hardpan import numbers
from hardpan.errors import InputError
from hardpan.report import confusion_charts, testbed_charts
from hardpan.report.axes import axis_title, error_axis, log_edge, whole, whole_ticks, x_ticks
from hardpan.report.error_intervals import intervals
from hardpan.report.lines import lines
from hardpan.report.palette import LIGHT
from hardpan.report.sections import Chart
from hardpan.report.slider import slider
from hardpan.report.values import data_of

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
STATIC_WIDTH = 640
FADED = 0.15  # what is left of a mark while others are selected


def curve(chart: Chart) -> alt.TopLevelMixin:
    """Draw a line with its band; the places in ``marks`` are named on the line."""
    log, log_x = bool(chart.options.get("log")), bool(chart.options.get("log_x"))
    rows = [dict(row) | {"shown": numbers.percent(row["y"])} for row in chart.rows if row["y"] is not None]
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
        base.mark_area(color=LIGHT.shade).encode(y=vertical("low"), y2="high:Q"),
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
        layers.append(places.mark_text(**label).encode(y=alt.value(300), text="label:N"))
    return alt.layer(*layers).properties(height=300)


def bars(chart: Chart) -> alt.TopLevelMixin:
    """Draw horizontal bars from zero, each with its number at the end."""
    # The row number in front keeps bars apart whose names are alike; the axis does not show it.
    rows = [
        {"key": f"{i}|{r['name']}", "name": str(r["name"]), "value": r["value"]} for i, r in enumerate(chart.rows)
    ]
    named = alt.Axis(
        labelExpr="slice(datum.label, indexof(datum.label, '|') + 1)",
        labelLimit=140,
        ticks=False,
        domain=False,
        grid=False,
    )
    base = alt.Chart(data_of(rows)).encode(
        y=alt.Y("key:N", sort=None, title=None, axis=named),
        x=alt.X(
            "value:Q",
            title=axis_title(str(chart.options.get("x_title", "")), False),
            scale=alt.Scale(domainMin=0, zero=True),
            axis=alt.Axis(**(whole_ticks(",") if whole(row["value"] for row in rows) else {})),
        ),
        tooltip=[alt.Tooltip("name:N", title="name"), alt.Tooltip("value:Q", format=",")],
    )
    number = base.mark_text(align="left", baseline="middle", dx=4, color=LIGHT.ink).encode(
        text=alt.Text("value:Q", format=",")
    )
    return alt.layer(base.mark_bar(color=LIGHT.floor), number).properties(height=22 * max(1, len(rows)))


KINDS: dict[str, Callable[[Chart], alt.TopLevelMixin]] = {
    "intervals": intervals,
    "curve": curve,
    "bars": bars,
    "lines": lines,
    "slider": slider,
    **testbed_charts.KINDS,
    **confusion_charts.KINDS,
}


@dataclass(frozen=True, slots=True)
class Switch:
    """A choice between two kinds of axes that a drawing leaves to the reader: an option and its two values."""

    label: str
    option: str
    off: Any
    on: Any


_LOG_SWITCH = Switch("Logarithmic axis", "log", False, True)
SWITCHES = {
    "intervals": _LOG_SWITCH,
    "curve": _LOG_SWITCH,
    "lines": _LOG_SWITCH,
    "scatter": Switch("Probit axes", "scale", "linear", "probit"),
    "distribution": Switch("Logarithmic counts", "log", False, True),
}
"""Drawings that offer such a choice."""

ZOOMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("intervals", "deviations", "dots", "distribution"), ("x",)),
    **dict.fromkeys(("curve", "lines", "scatter", "dates", "error_by_band", "joint", "confused"), ("x", "y")),
}
"""Drawings that a reader can zoom into, and along which axes; bars keep their zero."""

PICKS: dict[str, str] = {
    **dict.fromkeys(("intervals", "bars", "scatter", "slope", "deviations", "dates", "confused", "dots"), "name"),
    **dict.fromkeys(("distribution", "error_by_band"), "group"),
    "lines": "series",
}
"""Drawings in which a reader can select by a click, and the field whose marks then stand out."""

LEGENDS: dict[str, tuple[tuple[str, str], ...]] = {
    "intervals": (
        ("floor", "estimate of the floor"),
        ("ceiling", "error that a classifier makes: a ceiling"),
        ("refuted", "refuted, or contradicted by its own errors"),
        ("disputed", "disputed: not both can be true"),
        ("shade", "not refuted"),
    ),
    "dots": (
        ("ceiling", "confusion score"),
        ("floor", "needs no labels"),
        ("muted", "uses the labels"),
    ),
}
"""What the marks of a drawing mean: a field of the palette, or a class of the style sheet, and words."""


def spec(chart: Chart) -> dict[str, Any]:
    """Draw a chart: its Vega-Lite specification, with the text alternative as its description.

    Example:
        >>> drawn = spec(Chart("bars", "Counts", ({"name": "cat", "value": 3},), "One bar: cat 3."))
        >>> drawn["description"], drawn["width"]
        ('One bar: cat 3.', 'container')
    """
    if chart.drawing not in KINDS:
        raise InputError(f"drawing must be one of {', '.join(KINDS)}; got {chart.drawing!r}")
    drawn: dict[str, Any] = KINDS[chart.drawing](chart).to_dict()
    if chart.drawing in PICKS:
        _selectable(drawn, PICKS[chart.drawing])
    return drawn | {
        "description": chart.description,
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": _config(),
    }


def _selectable(drawn: dict[str, Any], field: str) -> None:
    """Let a click on a mark select it: marks of other names fade."""
    layers = [layer for layer in drawn["layer"] if field in _first_row(layer, drawn)]
    if not layers:
        return
    select = {"type": "point", "fields": [field], "toggle": "event.shiftKey || event.ctrlKey || event.metaKey"}
    layers[-1].setdefault("params", []).append({"name": "picked", "select": select})
    for layer in layers:
        opacity = layer["mark"].get("opacity", 1)
        if opacity:
            condition = {"param": "picked", "value": opacity}
            layer["encoding"]["opacity"] = {"condition": condition, "value": FADED * opacity}


def _first_row(layer: dict[str, Any], drawn: dict[str, Any]) -> dict[str, Any]:
    data = layer.get("data", drawn.get("data", {}))  # data that all layers share stand above them
    rows = data.get("values", drawn.get("datasets", {}).get(data.get("name"), ()))
    return rows[0] if rows else {}


def _config() -> dict[str, Any]:
    return {
        "aria": False,  # the figure carries one text alternative; one for every mark would only be noise
        "background": None,
        "font": FONT,
        "view": {"stroke": None},
        "axis": {
            "labelColor": LIGHT.muted,
            "titleColor": LIGHT.muted,
            "labelFontSize": 12,
            "titleFontSize": 13,
            "titleFontWeight": "normal",
            "gridColor": LIGHT.grid,
            "domainColor": LIGHT.grid,
            "tickColor": LIGHT.grid,
        },
        "text": {"fontSize": 12},
        "title": {"color": LIGHT.ink, "fontSize": 15, "anchor": "start"},
    }
