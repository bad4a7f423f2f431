"""Points: accuracy on two test sets, ranks, dates, models by confusion, items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
from scipy.special import ndtri

from hardpan.pages import formatting
from hardpan.pages.charts.axes import (
    LETTER,
    axis_by_field,
    axis_title,
    chart_of_rows,
    domain_of,
    number_ticks,
)
from hardpan.pages.palette import LIGHT
from hardpan.pages.sections import Chart, estimate_of_fields

_POINT_ROLES = {"floor": LIGHT.floor, "ceiling": LIGHT.ceiling, "muted": LIGHT.muted}
_POINTS_HEIGHT = 300
_NARROW = 420.0  # pixels across where two charts are side by side: in a wider one names have more room
_LINE = 14  # pixels of a line of text
_OFFSETS = [way * (10 + k * _LINE) for k in range(8) for way in (-1, 1)]
_WORDS_ROOM = 30  # pixels under a line that its words and the ticks of the x axis take
TICKS = (
    *(0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.88),
    *(0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99, 0.995, 0.999),
)
ROLES = {"in the fit": LIGHT.floor, "left out": LIGHT.ceiling}
POINTS = "datum.value == 0 ? '0' : format(100 * datum.value, '+.3~')"
_SHARE = "datum.value == 0 ? '0 %' : format(100 * datum.value, '.3~r') + ' %'"
_PROBIT_SHARE = "format(100 * cumulativeNormal(datum.value), '.3~r') + ' %'"
_CROSS = ("x", "x_low", "x_high", "y", "y_low", "y_high")
_BAND = ("x", "y", "low", "high")
_MOST_NAMES = 4
_FITTED, _SAME = "fitted line", "same accuracy"


def points(chart: Chart) -> alt.TopLevelMixin:
    """Draw points on two plain axes, some of them labelled, with a dashed level and ticks along the x axis."""
    rows = [
        {"role": "floor", "label": ""}
        | {f"{side}_{end}": row[side] for side in "xy" for end in ("low", "high")}
        | {name: value for name, value in row.items() if value is not None}
        for row in chart.rows
        if row["x"] is not None and row["y"] is not None
    ]
    axes: dict[str, dict[str, Any]] = {}
    for side in "xy":
        ends = [float(row[f"{side}{end}"]) for row in rows for end in ("", "_low", "_high")]
        if side == "y" and chart.options.get("rule") is not None:
            ends.append(float(chart.options["rule"]))
        ticks = {"labelExpr": _SHARE, "tickCount": 6} if chart.options.get(f"percent_{side}") else number_ticks()
        scale = alt.Scale(domain=domain_of(ends), nice=False, zero=False)
        axes[side] = {"title": axis_title(chart, side), "scale": scale, "axis": alt.Axis(**ticks)}
    x, y = axis_by_field(alt.X, **axes["x"]), axis_by_field(alt.Y, **axes["y"])
    tips = [alt.Tooltip("name:N", title="name")]
    tips += [alt.Tooltip(f"{side}:Q", title=axes[side]["title"] or side, format=".3~f") for side in "xy"]
    roles = alt.Scale(domain=list(_POINT_ROLES), range=list(_POINT_ROLES.values()))
    colour = alt.Color("role:N", scale=roles, legend=None)
    many = len(rows) > 200
    point: dict[str, Any] = {"size": 24 if many else 50, "opacity": 0.55 if many else 0.9}
    base = chart_of_rows(rows).encode(x=x("x"), y=y("y"), color=colour)
    crossed = chart_of_rows(row for row in rows if row["x_low"] < row["x_high"] or row["y_low"] < row["y_high"])
    rule = crossed.mark_rule(strokeWidth=1.5, opacity=0.7).encode(color=colour)
    layers: list[Any] = [
        rule.encode(x=x("x_low"), x2=alt.X2("x_high:Q"), y=y("y")),
        rule.encode(x=x("x"), y=y("y_low"), y2=alt.Y2("y_high:Q")),
        base.mark_point(filled=True, **point).encode(tooltip=tips),
    ]
    labelled = [row for row in rows if row["label"]]
    if labelled:
        # On the side of the point where the picture has more room.
        right = "scale('x', datum.x) > width / 2"
        offsets = _label_offsets(labelled, axes)
        named = [row | {"dy": dy} for row, dy in zip(labelled, offsets, strict=True)]
        text = chart_of_rows(named).mark_text(
            align=alt.expr(f"{right} ? 'right' : 'left'"),
            dx=alt.expr(f"{right} ? -7 : 7"),
            dy=alt.expr("datum.dy"),
            baseline="middle",
            fontSize=12,
            color=LIGHT.ink,
        )
        layers.append(text.encode(x=x("x"), y=y("y"), text=alt.Text("label:N")))
    if chart.options.get("rule") is not None:
        level = float(chart.options["rule"])
        line = chart_of_rows([{"y": level}])
        layers.insert(0, line.mark_rule(color=LIGHT.ceiling, strokeDash=[5, 4]).encode(y=y("y")))
        words = str(chart.options.get("rule_text", ""))
        if words:
            # Under the line, or above it where the ticks of the x axis are in the way.
            room = (1 - _fraction_along(level, axes["y"]["scale"].domain, "y")) * _POINTS_HEIGHT
            under: dict[str, Any] = {"baseline": "top", "dy": 4}
            above: dict[str, Any] = {"baseline": "bottom", "dy": -4}
            where = under if room > _WORDS_ROOM else above
            text = line.mark_text(align="left", dx=4, fontSize=12, color=LIGHT.muted, **where)
            layers.append(text.encode(x=alt.XValue(0), y=y("y"), text=alt.TextValue(words)))
    rug = [{"x": float(value)} for value in chart.options.get("rug", ())]
    if rug:
        ticks = chart_of_rows(rug).mark_tick(color=LIGHT.muted, thickness=1.5, height=10, clip=True)
        layers.append(ticks.encode(x=x("x"), y=alt.YValue(_POINTS_HEIGHT - 5)))
    return alt.layer(*layers, height=_POINTS_HEIGHT)


def _label_offsets(rows: list[dict[str, Any]], axes: dict[str, dict[str, Any]]) -> list[int]:
    """Pixels between each point and its label, which is moved up or down where it would cover another one."""
    offsets: list[int] = []
    labels: list[tuple[float, float, float]] = []  # pixels of a label's point, and its width
    for row in rows:
        x = _NARROW * _fraction_along(row["x"], axes["x"]["scale"].domain, "x")
        y = _POINTS_HEIGHT * _fraction_along(row["y"], axes["y"]["scale"].domain, "y")
        width = LETTER * len(row["label"])
        close = [label[1] for label in labels if abs(label[0] - x) < width + label[2]]
        offset = next((dy for dy in _OFFSETS if all(abs(y + dy - other) >= _LINE for other in close)), _OFFSETS[0])
        offsets.append(offset)
        labels.append((x, y + offset, width))
    return offsets


def _fraction_along(value: float, ends: Any, side: str) -> float:
    """How far along an axis a value lies, 0..1; the y axis grows upwards."""
    low, high = ends
    fraction = (value - low) / (high - low) if high > low else 0.5
    return fraction if side == "x" else 1 - fraction


def scatter(chart: Chart) -> alt.TopLevelMixin:
    """New against original accuracy: a cross per model, the identity dashed, the line and its band."""
    scale = str(chart.options.get("scale", "linear"))
    rows = []
    for row in chart.rows:
        items = (estimate_of_fields(row, side, f"{side}_low", f"{side}_high") for side in "xy")
        rows.append(_point_on_scale(row, _CROSS, scale) | {"shown": " → ".join(map(formatting.estimate, items))})
    line = [_point_on_scale(row, _BAND, scale) for row in chart.options.get("lines", {}).get(scale, ())]
    domains = [domain_of([row[key] for row in rows for key in (f"{side}_low", f"{side}_high")]) for side in "xy"]
    x, y = (
        axis_by_field(channel, **_accuracy_axis(axis_title(chart, side), domain, scale))
        for channel, side, domain in zip((alt.X, alt.Y), "xy", domains, strict=True)
    )
    base = chart_of_rows(rows)
    colour = alt.Color("role:N", legend=None, scale=alt.Scale(domain=list(ROLES), range=list(ROLES.values())))
    tips = [alt.Tooltip("name:N", title="model"), alt.Tooltip("shown:N", title="original, new")]
    lines = [{"x": end, "y": end, "line": _SAME} for end in (min(map(min, domains)), max(map(max, domains)))]
    lines += [{"x": row["x"], "y": row["y"], "line": _FITTED} for row in line]
    legend = alt.Legend(title=None, orient="top", symbolType="stroke", symbolStrokeWidth=2, labelFontSize=12)
    colours, dashes = (
        alt.Scale(domain=[_SAME, _FITTED], range=looks)
        for looks in ([LIGHT.muted, LIGHT.ceiling], [[5, 4], [1, 0]])
    )
    rule = base.mark_rule(strokeWidth=1, opacity=0.7)
    layers = [
        chart_of_rows(line)
        .mark_area(color=LIGHT.shade, clip=True)
        .encode(x=x("x"), y=y("low"), y2=alt.Y2("high:Q")),
        chart_of_rows(lines)
        .mark_line(strokeWidth=2, clip=True)
        .encode(
            x=x("x"),
            y=y("y"),
            color=alt.Color("line:N", legend=legend, scale=colours),
            strokeDash=alt.StrokeDash("line:N", legend=legend, scale=dashes),
        ),
        rule.encode(x=x("x_low"), x2=alt.X2("x_high:Q"), y=y("y"), color=colour),
        rule.encode(x=x("x"), y=y("y_low"), y2=alt.Y2("y_high:Q"), color=colour),
        base.mark_point(size=42, filled=True, opacity=1).encode(x=x("x"), y=y("y"), color=colour, tooltip=tips),
    ]
    left_out = [row | {"label": f"{row['name']} (left out)"} for row in rows if row["role"] == "left out"]
    if 0 < len(left_out) <= _MOST_NAMES:
        text = chart_of_rows(left_out).mark_text(align="left", dx=4, dy=-12, fontSize=12, color=LIGHT.muted)
        layers.append(text.encode(x=x("x"), y=y("y"), text=alt.Text("label:N")))
    layered: alt.LayerChart = alt.layer(*layers).resolve_scale(color="independent", strokeDash="independent")
    return layered.properties(height=340)


def _accuracy_axis(title: str, domain: list[float], scale: str) -> dict[str, Any]:
    axis: dict[str, Any] = {"labelExpr": _SHARE, "labelOverlap": "parity", "tickCount": 7}
    if scale == "probit":
        low, high = domain
        ticks = [z for tick in TICKS if low <= (z := float(ndtri(tick))) <= high]
        axis |= {"labelExpr": _PROBIT_SHARE, "values": ticks}
        title = f"{title} (probit axis)"
    return {
        "title": title,
        "scale": alt.Scale(domain=domain, nice=False, zero=False),
        "axis": alt.Axis(**axis),
    }


def _point_on_scale(row: Mapping[str, Any], keys: tuple[str, ...], scale: str) -> dict[str, Any]:
    if scale != "probit":
        return dict(row)
    # The ends of the scale have no place on a probit axis; 1 in 100,000 from them is as far as it goes.
    return dict(row) | {key: float(ndtri(min(max(float(row[key]), 1e-5), 1 - 1e-5))) for key in keys}


def slope(chart: Chart) -> alt.TopLevelMixin:
    """Ranks on the two sets, joined by one line per model; falls in one colour, rises in the other."""
    sides = (str(chart.options.get("left", "original")), str(chart.options.get("right", "new")))
    joined = []
    for side, key in zip(sides, ("original", "new"), strict=True):
        # Equal ranks get places of their own, so that no name covers another.
        for position, row in enumerate(
            sorted(chart.rows, key=lambda item: (item[key], item["original"], item["name"]))
        ):
            moved = int(row["original"]) - int(row["new"])
            change = "same" if moved == 0 else "rise" if moved > 0 else "fall"
            about = {
                "name": str(row["name"]),
                "change": change,
                "moved": formatting.fixed(moved, 0, "+") if moved else "0",
            }
            joined.append(about | {"side": side, "place": position, "rank": str(row[key])})
    colours = alt.Scale(domain=["rise", "fall", "same"], range=[LIGHT.floor, LIGHT.ceiling, LIGHT.muted])
    x = alt.X(
        "side:N",
        sort=list(sides),
        title=None,
        scale=alt.Scale(type="point", padding=1.4),
        axis=alt.Axis(orient="top", labelAngle=0, labelFontSize=13, domain=False, ticks=False),
    )
    y = alt.Y("place:Q", scale=alt.Scale(reverse=True, zero=False, nice=False, padding=8), axis=None)
    tips = [
        alt.Tooltip("name:N", title="model"),
        alt.Tooltip("rank:N", title="rank here"),
        alt.Tooltip("moved:N", title="change of rank"),
    ]
    colour = alt.Color("change:N", scale=colours, legend=None)
    base = chart_of_rows(joined).encode(x=x, y=y, color=colour, tooltip=tips)
    layers: list[Any] = [
        base.mark_line(strokeWidth=1.6).encode(detail=alt.Detail("name:N")),
        base.mark_point(filled=True, size=36),
    ]
    for side, align, away in zip(sides, ("right", "left"), (-1, 1), strict=True):
        here = base.transform_filter(alt.datum.side == side)
        text: dict[str, Any] = {"fontSize": 11, "align": align}
        layers.append(here.mark_text(dx=7 * away, **text).encode(text=alt.Text("rank:N")))
        room = alt.expr("width * 1.4 / 3.8 - 36")
        layers.append(here.mark_text(dx=32 * away, limit=room, **text).encode(text=alt.Text("name:N")))
    return alt.layer(*layers, height=60 + 17 * max(1, len(chart.rows)))
