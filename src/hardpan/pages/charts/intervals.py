"""Dots with intervals, one row per estimate, model or score."""

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
    domain_of,
    error_axis,
    in_powers,
    log_edge,
    number_ticks,
    series_look,
    y_names,
)
from hardpan.pages.charts.points import POINTS
from hardpan.pages.palette import LIGHT
from hardpan.pages.sections import Chart, estimate_of_fields

STRUCK = "struck"  # name of the layer whose text is struck through; the page and the static picture look for it
_ROLES = {"floor": LIGHT.floor, "ceiling": LIGHT.ceiling, "refuted": LIGHT.refuted}
_REFUTED, _INSIDE = "datum.role == 'refuted'", "!datum.outside"
_NAME: dict[str, Any] = {"align": "left", "baseline": "middle", "dy": -11, "fontSize": 13}
_BELOW_NAME = 9  # pixels from the middle of a row to its marks
_ROW_HEIGHT = 40
_NUMBER_AND_NOTE = 260  # pixels of a plot in which a number and a note stand beside each other
_DOT_ROLES = {
    "ceiling": LIGHT.ceiling,
    "floor": LIGHT.floor,
    "muted": LIGHT.muted,
    "in the fit": LIGHT.floor,
    "left out": LIGHT.ceiling,
}
_MOST_WITH_BARS = 3


def intervals(chart: Chart) -> alt.TopLevelMixin:
    """One dot with its interval per estimator, on one error axis; refuted ones struck out."""
    log = bool(chart.options.get("log"))
    ends = [float(row[key]) for row in chart.rows for key in ("low", "value", "high")]
    edge = log_edge(ends) if log else -math.inf
    x = axis_by_field(alt.X, **error_axis(axis_title(chart, "x", "error"), edge, max(ends, default=1.0)))
    rows = [_interval_row(index, row, edge) for index, row in enumerate(chart.rows)]
    y = alt.Y("row:O", axis=None, scale=alt.Scale(padding=0))
    tips = [alt.Tooltip("name:N", title="estimate"), alt.Tooltip("shown:N", title="error"), alt.Tooltip("reason:N")]
    base = chart_of_rows(rows).encode(y=y, tooltip=tips)
    layers = [*_interval_names(base), *_interval_marks(base, x)]
    if chart.options.get("bracket"):
        low, high = chart.options["bracket"]
        shaded = chart_of_rows([{"low": max(low, edge), "high": max(high, edge)}])
        layers.insert(0, shaded.mark_rect(color=LIGHT.shade).encode(x=x("low"), x2=alt.X2("high:Q")))
    return alt.layer(*layers, height=_ROW_HEIGHT * max(1, len(rows)))


def _interval_names(base: alt.Chart) -> list[Any]:
    named = base.encode(x=alt.XValue(0), text=alt.Text("label:N"))
    plain, struck = (
        named.mark_text(**_NAME, limit=alt.expr("width"), color=colour) for colour in (LIGHT.ink, LIGHT.muted)
    )
    refuted = struck.transform_filter(_REFUTED).properties(name=STRUCK)
    return [plain.transform_filter(f"!({_REFUTED})"), refuted]


def _interval_marks(base: alt.Chart, x: Callable[[str], Any]) -> list[Any]:
    """Intervals, arrows to what lies left of the axis with its number, dots, and crosses of the refuted."""
    scale = alt.Scale(domain=list(_ROLES), range=list(_ROLES.values()))
    colour = alt.Color("role:N", legend=None, scale=scale)
    look = {
        "stroke": alt.Stroke("role:N", legend=None, scale=scale),
        "fill": alt.Fill("role:N", legend=None, scale=scale),
    }
    style: dict[str, Any] = {"yOffset": _BELOW_NAME, "opacity": 1}
    return [
        base.mark_rule(yOffset=_BELOW_NAME, strokeWidth=3).encode(x=x("low"), x2=alt.X2("high:Q"), color=colour),
        base.mark_point(**style, shape="triangle-left", strokeWidth=2, xOffset=5)
        .encode(x=x("low"), size=alt.condition("datum.outside", alt.value(110), alt.value(40)), **look)
        .transform_filter("datum.cut"),
        base.mark_text(align="left", baseline="middle", dx=15, dy=_BELOW_NAME, fontSize=12, color=LIGHT.muted)
        .encode(x=x("low"), text=alt.Text("beyond:N"))
        .transform_filter("datum.beyond != ''"),
        base.mark_point(**style, size=80, strokeWidth=2, shape="circle")
        .encode(x=x("value"), **look)
        .transform_filter(f"{_INSIDE} && !({_REFUTED})"),
        base.mark_point(**style, size=160, shape="cross", angle=45, filled=True)
        .encode(x=x("value"), color=colour)
        .transform_filter(f"{_INSIDE} && {_REFUTED}"),
    ]


def _interval_row(index: int, row: Mapping[str, Any], edge: float) -> dict[str, Any]:
    """One mark; numbers below a logarithmic axis are moved to its edge, and the tooltip says so."""
    low, value, high = (float(row[key]) for key in ("low", "value", "high"))
    text, reason = formatting.estimate(estimate_of_fields(row)), str(row.get("reason") or "")
    outside = value < edge
    if low < edge:  # said first: tooltips cut what is long
        percent = f"{formatting.number(100 * edge, 2)} %"  # as the axis has it
        begins = formatting.limit(edge) if in_powers(edge) else percent
        words = "Lies to the left" if outside else "Its interval extends to the left"
        reason = f"{words} of this axis, which starts at {begins}. {reason}"
    beyond = f"{formatting.percent(value, value / 5)}, left of this axis"
    return {
        "row": index,
        "name": str(row["name"]),
        "label": f"{row['name']} · {text}",
        "role": row["role"],
        "reason": reason.strip(),
        "shown": text,
        "cut": low < edge,
        "outside": outside,
        "beyond": beyond if outside and high < 2 * edge else "",
        "low": max(low, edge),
        "value": max(value, edge),
        "high": max(high, edge),
    }


def ranking(chart: Chart) -> alt.TopLevelMixin:
    """Models by score: a dot with its interval and its number per row, the first tier shaded and coloured."""
    rows: list[dict[str, Any]] = []
    labels = formatting.short_names([str(row["name"]) for row in chart.rows])
    for index, (row, label) in enumerate(zip(chart.rows, labels, strict=True)):
        item = estimate_of_fields(row)
        known = math.isfinite((item.high - item.low) / 2)
        rows.append(
            {
                "key": f"{index}|{label}",
                "name": str(row["name"]),
                "value": item.value,
                "low": item.low if known else item.value,
                "high": item.high if known else item.value,
                "text": formatting.fixed(100 * item.value, 1),
                "shown": formatting.estimate(item),
                "tier": "first" if row.get("tier") == 1 else "other",
                "note": str(row.get("note") or ""),
            }
        )
    low, high = domain_of([row[key] for row in rows for key in ("low", "high")])
    noted = any(row["note"] for row in rows)
    # Room for the number behind the interval, and for the note behind it.
    scale = alt.Scale(domain=[low, high + (0.28 if noted else 0.08) * (high - low)], nice=False)
    # The room at the right may lie beyond 100 %, where no score can be.
    axis = alt.Axis(labelExpr=f"datum.value > 1 ? '' : {PERCENT}", tickCount=5)
    x = axis_by_field(alt.X, title=axis_title(chart), scale=scale, axis=axis)
    tips = [alt.Tooltip("name:N"), alt.Tooltip("shown:N", title=axis_title(chart) or "score")]
    note_title = str(chart.options.get("note_title", ""))
    if note_title:
        tips.append(alt.Tooltip("note:N", title=note_title))
    tier = alt.Scale(domain=["first", "other"], range=[LIGHT.floor, LIGHT.muted])
    colour = alt.Color("tier:N", legend=None, scale=tier)
    base = chart_of_rows(rows).encode(y=y_names(), tooltip=tips)
    # A phone has no room for the number and the note; the number is in the tooltip and the table.
    size: Any = alt.ExprRef(f"width < {_NUMBER_AND_NOTE} ? 0 : 11") if noted else 11
    number = base.mark_text(align="left", baseline="middle", dx=6, fontSize=size, color=LIGHT.ink)
    layers = [
        base.mark_rule(strokeWidth=2).encode(x=x("low"), x2=alt.X2("high:Q"), color=colour),
        base.mark_point(size=55, filled=True, opacity=1).encode(x=x("value"), color=colour),
        number.encode(x=x("high"), text=alt.Text("text:N")),
    ]
    if noted:
        text = base.mark_text(align="right", baseline="middle", fontSize=11, color=LIGHT.muted)
        layers.append(text.encode(x=alt.XValue(alt.ExprRef("width")), text=alt.Text("note:N")))
        head = chart_of_rows([{"note": note_title}]).mark_text(align="right", fontSize=11, color=LIGHT.muted)
        layers.append(head.encode(x=alt.XValue(alt.ExprRef("width")), y=alt.YValue(-8), text=alt.Text("note:N")))
    first = [row for row in rows if row["tier"] == "first"]
    if 0 < len(first) < len(rows):
        layers.insert(0, chart_of_rows(first).mark_rect(color=LIGHT.shade).encode(y=y_names()))
    layered: alt.LayerChart = alt.layer(*layers).resolve_scale(y="shared")
    return layered.properties(height=20 * max(1, len(rows)))


def dots(chart: Chart) -> alt.TopLevelMixin:
    """A dot with its interval per row, on an axis of plain numbers; or of points with zero marked."""
    points = chart.drawing == "deviations"
    write = formatting.signed if points else formatting.plain
    title = f"{axis_title(chart, 'x', 'drop')}, points" if points else axis_title(chart)
    rows = [
        dict(row) | {"key": f"{i}|{row['name']}", "shown": write(estimate_of_fields(row))}
        for i, row in enumerate(chart.rows)
    ]
    ends = [float(row[key]) for row in rows for key in ("low", "high", "value") if row[key] is not None]
    ends += [0.0] if points else []
    ticks = {"labelExpr": POINTS, "tickCount": 6} if points else number_ticks()
    scale = alt.Scale(domain=domain_of(ends), nice=False)
    x = axis_by_field(alt.X, title=title, scale=scale, axis=alt.Axis(**ticks))
    colours = alt.Scale(domain=list(_DOT_ROLES), range=list(_DOT_ROLES.values()))
    colour = alt.Color("role:N", legend=None, scale=colours)
    tips = [alt.Tooltip("name:N"), alt.Tooltip("shown:N", title=title)]
    base = chart_of_rows(rows).encode(y=y_names(), tooltip=tips)
    zero = chart_of_rows([{"zero": 0.0}]).mark_rule(color=LIGHT.muted, strokeDash=[5, 4]).encode(x=x("zero"))
    return alt.layer(
        *([zero] if points else []),
        base.mark_rule(strokeWidth=2).encode(x=x("low"), x2=alt.X2("high:Q"), color=colour),
        base.mark_point(size=55, filled=True, opacity=1).encode(x=x("value"), color=colour),
    ).properties(height=(18 if points else 24) * max(1, len(rows)))


def error_intervals(chart: Chart) -> alt.TopLevelMixin:
    """Error against the score, one point per band; intervals as bars, with many lines as shades behind them."""
    rows = [
        dict(row)
        | {
            "range": f"{formatting.number(row['low'])} to {formatting.number(row['high'])}",
            "shown": formatting.estimate(estimate_of_fields(row, "value", "error_low", "error_high")),
        }
        for row in chart.rows
    ]
    groups, colour, dash = series_look("group", rows)
    scale = alt.Scale(nice=False, zero=True)
    x = alt.X("x:Q", title=axis_title(chart), scale=scale, axis=alt.Axis(**number_ticks()))
    top = max((max(row["value"], row["error_high"]) for row in rows), default=1.0)
    up = alt.Axis(labelExpr=PERCENT, tickCount=6)
    y = axis_by_field(alt.Y, title="error", scale=alt.Scale(domain=[0, top], nice=False), axis=up)
    tips = [alt.Tooltip("group:N"), alt.Tooltip("range:N", title="score"), alt.Tooltip("shown:N", title="error")]
    tips.append(alt.Tooltip("count:Q", title="examples", format=","))
    base = chart_of_rows(rows).encode(x=x, color=colour, tooltip=tips)
    if len(groups) <= _MOST_WITH_BARS:
        reach = base.mark_rule(strokeWidth=1.5, opacity=0.7, clip=True)
    else:  # a shade is one mark for a whole line, so it has no row to tell of
        reach = base.mark_area(opacity=0.1, clip=True).encode(tooltip=alt.TooltipValue(None))
    return alt.layer(
        base.mark_line(strokeWidth=2).encode(y=y("value"), strokeDash=dash),  # first: the legend looks like it
        reach.encode(y=y("error_low"), y2=alt.Y2("error_high:Q")),
        base.mark_point(size=36, filled=True, opacity=1).encode(y=y("value")),
    ).properties(height=260)
