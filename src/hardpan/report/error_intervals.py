"""Dots with their intervals on one axis of errors, each named in a line of its own above it.

Rows: name, value, low, high, role ("floor", "ceiling" or "refuted"), reason, and status where there is one:
"disputed" makes a mark hollow and its interval dashed. Options: x_title, log, bracket (low, high: shaded), smallest
(where a logarithmic axis begins at the latest; what lies below has an arrow at that edge in the place of its dot).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import altair as alt

from hardpan import numbers
from hardpan.report.axes import error_axis, in_powers, log_edge
from hardpan.report.palette import LIGHT
from hardpan.report.sections import Chart
from hardpan.report.values import data_of, estimate_of

STRUCK = "struck"  # name of the layer whose text is struck through; the page and the static picture look for it
_DISPUTED = "disputed"
_ROLES = {"floor": LIGHT.floor, "ceiling": LIGHT.ceiling, "refuted": LIGHT.refuted}
_REFUTED, _INSIDE = "datum.role == 'refuted'", "!datum.outside"
_NAME: dict[str, Any] = {"align": "left", "baseline": "middle", "dy": -11, "fontSize": 13}
_BELOW_NAME = 9  # pixels from the middle of a row to its marks
_ROW_HEIGHT = 46


def intervals(chart: Chart) -> alt.TopLevelMixin:
    """Every estimator a dot with its interval on one error axis; refuted ones struck, disputed ones hollow."""
    log = bool(chart.options.get("log"))
    ends = [float(row[key]) for row in chart.rows for key in ("low", "value", "high")]
    edge = max(log_edge(ends), float(chart.options.get("smallest", 0.0))) if log else -math.inf
    words = str(chart.options.get("x_title", "error"))
    rows = [_interval_row(index, row, edge) for index, row in enumerate(chart.rows)]
    y = alt.Y("row:O", axis=None, scale=alt.Scale(padding=0))
    tips = [alt.Tooltip("name:N", title="estimate"), alt.Tooltip("shown:N", title="error"), alt.Tooltip("reason:N")]
    base = alt.Chart(data_of(rows)).encode(y=y, tooltip=tips)

    def axis(field: str) -> alt.X:
        return alt.X(f"{field}:Q", **error_axis(words, edge, max(ends, default=1.0)))

    layers = [*_names(base), *_marks(base, axis)]
    if chart.options.get("bracket"):
        low, high = chart.options["bracket"]
        shaded = data_of([{"low": max(low, edge), "high": max(high, edge)}])
        layers.insert(0, alt.Chart(shaded).mark_rect(color=LIGHT.shade).encode(x=axis("low"), x2="high:Q"))
    return alt.layer(*layers).properties(height=_ROW_HEIGHT * max(1, len(rows)))


def _names(base: alt.Chart) -> list[Any]:
    limit = alt.expr("width")
    named = {"x": alt.value(0), "text": "label:N"}
    return [
        base.mark_text(**_NAME, limit=limit, color=LIGHT.ink).encode(**named).transform_filter(f"!({_REFUTED})"),
        base.mark_text(**_NAME, limit=limit, color=LIGHT.muted)
        .encode(**named)
        .transform_filter(_REFUTED)
        .properties(name=STRUCK),
    ]


def _marks(base: alt.Chart, axis: Any) -> list[Any]:
    """Intervals, arrows to what lies left of the axis with its number, dots, and crosses of the refuted."""
    roles = alt.Scale(domain=list(_ROLES), range=list(_ROLES.values()))
    colour = alt.Color("role:N", legend=None, scale=roles)
    fills = alt.Scale(domain=[*_ROLES, _DISPUTED], range=[*_ROLES.values(), LIGHT.paper])
    # Hollow: the colour is in the stroke alone.
    look = {
        "stroke": alt.Stroke("role:N", legend=None, scale=roles),
        "fill": alt.Fill("fill:N", legend=None, scale=fills),
    }
    dashes = alt.condition("datum.disputed", alt.value([4, 3]), alt.value([1, 0]))
    place: dict[str, Any] = {"yOffset": _BELOW_NAME, "opacity": 1}
    return [
        base.mark_rule(yOffset=_BELOW_NAME, strokeWidth=3).encode(
            x=axis("low"), x2="high:Q", color=colour, strokeDash=dashes
        ),
        base.mark_point(**place, shape="triangle-left", strokeWidth=2, xOffset=5)
        .encode(x=axis("low"), size=alt.condition("datum.outside", alt.value(110), alt.value(40)), **look)
        .transform_filter("datum.cut"),
        base.mark_text(align="left", baseline="middle", dx=15, dy=_BELOW_NAME, fontSize=12, color=LIGHT.muted)
        .encode(x=axis("low"), text="beyond:N")
        .transform_filter("datum.beyond != ''"),
        base.mark_point(**place, size=80, strokeWidth=2, shape="circle")
        .encode(x=axis("value"), **look)
        .transform_filter(f"{_INSIDE} && !({_REFUTED})"),
        base.mark_point(**place, size=160, shape="cross", angle=45, filled=True)
        .encode(x=axis("value"), color=colour)
        .transform_filter(f"{_INSIDE} && {_REFUTED}"),
    ]


def _interval_row(index: int, row: Mapping[str, Any], edge: float) -> dict[str, Any]:
    """One mark; numbers that a logarithmic axis has no place for are moved to its edge, and said to be."""
    low, value, high = (float(row[key]) for key in ("low", "value", "high"))
    name, disputed = str(row["name"]), row.get("status") == _DISPUTED
    shown, reason = numbers.estimate(estimate_of(row)), str(row.get("reason") or "")
    outside = value < edge
    if low < edge:  # said first: tooltips cut what is long
        begins = numbers.limit(edge) if in_powers(edge) else f"{100 * edge:.2g} %"  # as the axis has it
        words = "Lies left" if outside else "Its interval goes on to the left"
        reason = f"{words} of this axis, which begins at {begins}. {reason}"
    return {
        "row": index,
        "name": name,
        "label": f"{name} · {shown} · {_DISPUTED}" if disputed else f"{name} · {shown}",
        "role": row["role"],
        "fill": _DISPUTED if disputed else row["role"],
        "disputed": disputed,
        "reason": reason.strip(),
        "shown": shown,
        "cut": low < edge,
        "outside": outside,
        "beyond": f"{numbers.percent(value, value / 5)}, left of this axis" if outside and high < 2 * edge else "",
        "low": max(low, edge),
        "value": max(value, edge),
        "high": max(high, edge),
    }
