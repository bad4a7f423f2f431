"""Drawings: each turns a :class:`hardpan.records.Chart` into a Vega-Lite specification.

To add a drawing, write a function from a chart to an Altair chart and add its line to ``KINDS``. Colours are those
of the light theme; the page replaces them by variables that follow the reader's setting.

Rows by drawing (fractions throughout):

- ``intervals``: name, value, low, high, role ("floor", "ceiling" or "refuted"), reason.
  Options: x_title, log, bracket (low, high), smallest (where a logarithmic axis begins at the latest).
- ``curve``: x, y, low, high. Options: x_title, y_title, log_x, log, marks (rows of x and label).
- ``bars``: name, value. Options: x_title.
- ``lines``: see :mod:`hardpan.report.lines`; ``slider``: see :mod:`hardpan.report.slider`.
- ``scatter``, ``slope``, ``deviations``, ``dates``: see :mod:`hardpan.report.testbed_charts`.
- ``distribution``, ``threshold``, ``error_by_band``, ``joint``, ``confused``, ``dots``: see
  :mod:`hardpan.report.confusion_charts`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import altair as alt

from hardpan.errors import InputError
from hardpan.records import Chart, numbers
from hardpan.report import confusion_charts, testbed_charts
from hardpan.report.axes import PERCENT, log_ticks
from hardpan.report.lines import lines
from hardpan.report.palette import LIGHT
from hardpan.report.slider import slider
from hardpan.report.values import data_of, estimate_of

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
STATIC_WIDTH = 640
FADED = 0.15  # what is left of a mark while others are selected
SMALLEST_SHOWN = 1e-12  # a log axis of errors ends here: what lies below is in the table
STRUCK = "struck"  # name of the layer whose text is struck through; the page and the static picture look for it
_ROLES = {"floor": LIGHT.floor, "ceiling": LIGHT.ceiling, "refuted": LIGHT.refuted}


def intervals(chart: Chart) -> alt.TopLevelMixin:
    """Every estimator a dot with its interval on one error axis; refuted ones struck, the bracket shaded."""
    log = bool(chart.options.get("log"))
    ends = [float(row[key]) for row in chart.rows for key in ("low", "value", "high")]
    edge = max(_log_edge(ends), float(chart.options.get("smallest", 0.0))) if log else -math.inf
    rows = [_interval_row(index, row, edge) for index, row in enumerate(chart.rows)]
    y = alt.Y("row:O", axis=None, scale=alt.Scale(padding=0))
    colour = alt.Color("role:N", legend=None, scale=alt.Scale(domain=list(_ROLES), range=list(_ROLES.values())))
    tips = [alt.Tooltip("name:N", title="estimate"), alt.Tooltip("shown:N", title="error"), alt.Tooltip("reason:N")]
    base = alt.Chart(data_of(rows)).encode(y=y, tooltip=tips)

    def axis(field: str) -> alt.X:
        title = _axis_title(str(chart.options.get("x_title", "error")), log)
        return alt.X(f"{field}:Q", title=title, **_percent_axis(edge, max(ends, default=1.0)))

    standing, struck = "datum.role != 'refuted'", "datum.role == 'refuted'"
    name: dict[str, Any] = {
        "align": "left",
        "baseline": "middle",
        "dy": -11,
        "fontSize": 13,
        "limit": alt.expr("width"),
    }
    layers = [
        base.mark_text(**name, color=LIGHT.ink).encode(x=alt.value(0), text="label:N").transform_filter(standing),
        base.mark_text(**name, color=LIGHT.muted)
        .encode(x=alt.value(0), text="label:N")
        .transform_filter(struck)
        .properties(name=STRUCK),
        base.mark_rule(yOffset=9, strokeWidth=3).encode(x=axis("low"), x2="high:Q", color=colour),
        base.mark_point(yOffset=9, size=90, filled=True, opacity=1)
        .encode(x=axis("value"), color=colour)
        .transform_filter(standing),
        base.mark_point(yOffset=9, size=160, shape="cross", angle=45, filled=True, opacity=1)
        .encode(x=axis("value"), color=colour)
        .transform_filter(struck),
    ]
    if chart.options.get("bracket"):
        low, high = chart.options["bracket"]
        shaded = data_of([{"low": max(low, edge), "high": max(high, edge)}])
        layers.insert(0, alt.Chart(shaded).mark_rect(color=LIGHT.shade).encode(x=axis("low"), x2="high:Q"))
    return alt.layer(*layers).properties(height=46 * max(1, len(rows)))


def curve(chart: Chart) -> alt.TopLevelMixin:
    """Draw a line with its band; the places in ``marks`` are named on the line."""
    log, log_x = bool(chart.options.get("log")), bool(chart.options.get("log_x"))
    rows = [dict(row) | {"shown": numbers.percent(row["y"])} for row in chart.rows if row["y"] is not None]
    edge = _log_edge([row["y"] for row in rows]) if log else -math.inf
    top = max((row["high"] for row in rows), default=1.0)
    rows = [row | {"low": max(row["low"], edge)} for row in rows if row["y"] >= edge]
    x = alt.X(
        "x:Q",
        title=_axis_title(str(chart.options.get("x_title", "")), log_x),
        scale=alt.Scale(type="log", nice=False) if log_x else alt.Scale(nice=False, zero=False),
        axis=alt.Axis(format="~g", labelFlush=False, **_x_ticks([float(row["x"]) for row in rows], log_x)),
    )

    def vertical(field: str) -> alt.Y:
        title = _axis_title(str(chart.options.get("y_title", "error")), log)
        return alt.Y(f"{field}:Q", title=title, **_percent_axis(edge, top))

    tips = [
        alt.Tooltip("x:Q", title=_axis_title(str(chart.options.get("x_title", "")), False), format=".3~g"),
        alt.Tooltip("shown:N", title=_axis_title(str(chart.options.get("y_title", "error")), False)),
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
            title=_axis_title(str(chart.options.get("x_title", "")), False),
            scale=alt.Scale(domainMin=0, zero=True),
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
        ("refuted", "refuted or contradicted"),
        ("shade", "not refuted"),
    ),
    "dots": (
        ("ceiling", "confusion score"),
        ("floor", "needs no labels"),
        ("muted", "uses the labels"),
    ),
}
"""What the colours of a drawing mean: a field of the palette, and words."""


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


def _interval_row(index: int, row: Mapping[str, Any], edge: float) -> dict[str, Any]:
    """One mark, its numbers moved inside the axis where a logarithm has no place for them."""
    low, value, high = (float(row[key]) for key in ("low", "value", "high"))
    name = str(row["name"])
    shown = numbers.estimate(estimate_of(row))
    return {
        "row": index,
        "name": name,
        "label": f"{name} · {shown}",
        "role": row["role"],
        "reason": str(row.get("reason") or ""),
        "shown": shown,
        "low": max(low, edge),
        "value": max(value, edge),
        "high": max(high, edge),
    }


def _log_edge(values: Iterable[float]) -> float:
    """Where a logarithmic axis of errors begins: below the smallest positive number that it has to show."""
    positive = [value for value in values if value > 0]
    return max(SMALLEST_SHOWN, 0.7 * min(positive)) if positive else SMALLEST_SHOWN


def _percent_axis(edge: float, top: float) -> dict[str, Any]:
    """Scale and axis of errors: from 0, or logarithmic from ``edge`` where that is a positive number."""
    if edge > 0:
        top = max(top, 2 * edge)
        scale = alt.Scale(type="log", domain=[edge, top], nice=False)
        return {"scale": scale, "axis": alt.Axis(values=log_ticks(edge, top), labelExpr=PERCENT)}
    scale = alt.Scale(type="linear", domain=[0, top if top > 0 else 1.0], nice=True)
    return {"scale": scale, "axis": alt.Axis(labelExpr=PERCENT, tickCount=6, labelOverlap="greedy")}


def _x_ticks(places: list[float], log: bool) -> dict[str, Any]:
    return {"values": log_ticks(min(places), max(places))} if log and places else {}


def _axis_title(title: str, log: bool) -> str:
    title = " ".join(
        title.split()
    )  # a line separator (U+2028) would break the expressions that Vega makes of titles
    return f"{title} (logarithmic axis)" if log else title


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
