"""Bars, histograms and matrices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import altair as alt

from hardpan.pages import formatting
from hardpan.pages.charts.axes import (
    NAME,
    NUMBER,
    PERCENT,
    axis_by_field,
    axis_title,
    chart_of_rows,
    log_ticks,
    number_ticks,
    series_look,
    whole_ticks,
    y_names,
)
from hardpan.pages.palette import LIGHT
from hardpan.pages.sections import Chart, estimate_of_fields

_SEGMENTS = (LIGHT.ceiling, LIGHT.warm, LIGHT.floor, LIGHT.third, LIGHT.fourth, LIGHT.muted)
_LETTER = 6.0  # pixels: mean width of a digit
_EMPTY = 0.7  # where a bar of counts begins on a logarithmic axis
_CELL = 30
_LETTERS = 34  # that a row of column names has room for on a narrow screen
# Names lean to the left, over the names of the rows: to the right the last would leave the picture.
_SLANTED: dict[str, Any] = {"labelAngle": 40, "labelAlign": "right"}


def bars(chart: Chart) -> alt.TopLevelMixin:
    """Draw horizontal bars from zero, each with its number at the end and its interval, where rows have one."""
    percent = bool(chart.options.get("percent"))
    rows = [_bar_row(i, row, percent) for i, row in enumerate(chart.rows)]
    top = max((row["end"] for row in rows), default=0.0) or 1.0
    ticks: dict[str, Any] = {"labelExpr": PERCENT, "tickCount": 6, "labelOverlap": "parity"}
    if not percent:
        ticks = number_ticks(row["value"] or 0 for row in rows)
    scale = alt.Scale(domain=[0, top * 1.16], nice=False)
    x = axis_by_field(alt.X, title=axis_title(chart), scale=scale, axis=alt.Axis(**ticks))
    tips = [alt.Tooltip("name:N", title="name"), alt.Tooltip("shown:N", title=axis_title(chart, default="value"))]
    base = chart_of_rows(rows).encode(y=y_names(140), tooltip=tips)
    number = base.mark_text(align="left", baseline="middle", dx=5, color=LIGHT.ink)
    return alt.layer(
        base.mark_bar(color=LIGHT.floor).encode(x=x("value")),
        base.mark_rule(color=LIGHT.ink, strokeWidth=1.5).encode(x=x("low"), x2=alt.X2("high:Q")),
        number.encode(x=x("end"), text=alt.Text("text:N")),
    ).properties(height=22 * max(1, len(rows)))


def columns(chart: Chart) -> alt.TopLevelMixin:
    """Draw vertical bars from zero, in the order of the rows, each with its number above it."""
    rows = [_bar_row(i, row, percent=False) for i, row in enumerate(chart.rows)]
    longest = max((len(row["text"]) for row in rows), default=1)
    # A phone may have no room for the numbers; the tooltip and the table have them.
    size = alt.ExprRef(f"width < {round(max(1, len(rows)) * (_LETTER * longest + 4))} ? 0 : 12")
    top = max((row["end"] for row in rows), default=0.0) or 1.0
    x = alt.X(
        "key:N",
        sort=None,
        title=axis_title(chart),
        axis=alt.Axis(labelExpr=NAME, labelAngle=0, labelOverlap="greedy", ticks=False, grid=False, labelLimit=90),
        scale=alt.Scale(paddingInner=0.12, paddingOuter=0.05),
    )
    y = alt.Y("value:Q", title=None, scale=alt.Scale(domain=[0, top * 1.12], nice=False), axis=None)
    tips = [alt.Tooltip("name:N", title=axis_title(chart) or "name"), alt.Tooltip("shown:N", title="value")]
    base = chart_of_rows(rows).encode(x=x, y=y, tooltip=tips)
    number = base.mark_text(baseline="bottom", dy=-3, fontSize=size, color=LIGHT.ink)
    layered = alt.layer(base.mark_bar(color=LIGHT.floor), number.encode(text=alt.Text("text:N")))
    return layered.properties(height=int(chart.options.get("height", 150)))


def _bar_row(index: int, row: Mapping[str, Any], percent: bool) -> dict[str, Any]:
    item = estimate_of_fields(row)
    has_interval = math.isfinite(item.low) and math.isfinite(item.high)
    value = item.value if math.isfinite(item.value) else None
    if value is None:
        text = formatting.NOTHING
    elif percent:
        spread = (item.high - item.low) / 2
        text = formatting.percent(value, spread) if has_interval else formatting.short_percent(value)
    else:
        text = formatting.fixed(value, 0) if value == round(value) else formatting.number(value)
    write = formatting.estimate if percent else formatting.plain
    return {
        "index": index,
        "key": f"{index}|{row['name']}",  # the number in front keeps bars of equal names apart; the axis hides it
        "name": str(row["name"]),
        "value": value,
        "low": item.low if has_interval else None,
        "high": item.high if has_interval else None,
        "end": max(value or 0.0, item.high if has_interval else 0.0),
        "text": text,
        "shown": write(item) if has_interval else text,
    }


def composition(chart: Chart) -> alt.TopLevelMixin:
    """Draw the parts of a whole as one bar; the legend under it has the names and numbers of those above zero."""
    rows: list[dict[str, Any]] = []
    left = 0.0
    for row in chart.rows:
        value = max(0.0, float(row["value"]))
        words = str(row.get("shown") or formatting.short_percent(value))
        rows.append({"name": str(row["name"]), "key": f"{words}: {row['name']}", "shown": words, "left": left})
        left += value
        rows[-1]["right"] = left
    used = [number for number, row in enumerate(rows) if row["right"] > row["left"]] or list(range(len(rows)))
    legend = alt.Legend(
        title=None, orient="bottom", columns=1, symbolType="square", labelLimit=460, labelFontSize=13, offset=4,
        labelColor=LIGHT.muted, rowPadding=3, symbolOpacity=1,
    )  # fmt: skip
    colours = [_SEGMENTS[number % len(_SEGMENTS)] for number in used]  # a part keeps its colour
    scale = alt.Scale(domain=[rows[number]["key"] for number in used], range=colours)
    bar = chart_of_rows(rows[number] for number in used).encode(
        x=alt.X("left:Q", axis=None, scale=alt.Scale(domain=[0, left or 1.0], nice=False)),
        x2=alt.X2("right:Q"),
        color=alt.Color("key:N", sort=None, scale=scale, legend=legend),
        tooltip=[alt.Tooltip("name:N", title="part"), alt.Tooltip("shown:N", title="amount")],
    )
    return alt.layer(bar.mark_bar(height=24, stroke=LIGHT.card, strokeWidth=2), height=30)


def distribution(chart: Chart) -> alt.TopLevelMixin:
    """How many examples have which score: steps, one line per group."""
    log = bool(chart.options.get("log"))
    rows = [
        dict(row)
        | {"range": f"{formatting.number(row['low'])} to {formatting.number(row['high'])}"}
        | {"height": max(row["count"], _EMPTY) if log else row["count"]}
        for row in chart.rows
    ]
    groups, colour, dash = series_look("group", rows)
    # A step line ends where its last cell begins; the other end of that cell closes it.
    for group in groups:
        last = [row for row in rows if row["group"] == group][-1]
        rows.append(last | {"low": last["high"]})
    most = max((row["count"] for row in rows), default=1)
    scale, ticks = alt.Scale(zero=True), whole_ticks()
    if log:
        scale = alt.Scale(type="log", domainMin=_EMPTY, nice=False)
        ticks = {"labelExpr": NUMBER, "values": log_ticks(1.0, max(10.0, most))}
    title = "examples (log scale)" if log else "examples"
    across = alt.Scale(nice=False, zero=True)
    x = alt.X("low:Q", title=axis_title(chart), scale=across, axis=alt.Axis(**number_ticks()))
    y = alt.Y("height:Q", title=title, scale=scale, axis=alt.Axis(**ticks))
    base = chart_of_rows(rows).encode(x=x, y=y)
    tips = [alt.Tooltip("group:N"), alt.Tooltip("range:N", title="score"), alt.Tooltip("count:Q", format=",")]
    line = base.mark_line(interpolate="step-after", strokeWidth=2).encode(color=colour, strokeDash=dash)
    spot = base.mark_point(size=120, opacity=0, filled=True, color=LIGHT.floor).encode(tooltip=tips)
    return alt.layer(line, spot, height=230)


def matrix(chart: Chart) -> alt.TopLevelMixin:
    """Draw a value per row and column as a shade, with its number; the diagonal may have its own colour."""
    rows = list(dict.fromkeys(str(row["row"]) for row in chart.rows))
    columns = list(dict.fromkeys(str(row["column"]) for row in chart.rows))
    flat: dict[str, Any] = {"ticks": False, "domain": False, "labelLimit": 190}
    # Names stand upright where a column is wide enough for the longest, on a phone too.
    slanted = max(map(len, columns), default=0) > _LETTERS / max(1, len(columns))
    across = alt.Axis(orient="top", **(_SLANTED if slanted else {"labelAngle": 0}), **flat)
    scale = alt.Scale(padding=0.03)
    x = alt.X("column:N", sort=None, title=axis_title(chart) or None, axis=across, scale=scale)
    y = alt.Y("row:N", sort=None, title=axis_title(chart, "y") or None, axis=alt.Axis(**flat), scale=scale)
    sides = alt.Scale(domain=["floor", "ceiling"], range=[LIGHT.floor, LIGHT.ceiling])
    inks = alt.Scale(domain=["ink", "paper"], range=[LIGHT.ink, LIGHT.paper])
    tips = [
        alt.Tooltip("row:N", title=axis_title(chart, "y", "row")),
        alt.Tooltip("column:N", title=axis_title(chart, default="column")),
        alt.Tooltip("shown:N", title="value"),
    ]
    base = chart_of_rows(_matrix_cells(chart)).encode(x=x, y=y, tooltip=tips)
    opacity = alt.Opacity("shade:Q", scale=alt.Scale(domain=[0, 1], range=[0, 1]), legend=None)
    number = base.mark_text(fontSize=11).encode(
        text=alt.Text("text:N"), color=alt.Color("ink:N", scale=inks, legend=None)
    )
    shade = base.mark_rect().encode(color=alt.Color("side:N", scale=sides, legend=None), opacity=opacity)
    side = min(2 * _CELL, max(_CELL, round(8 * _CELL / max(1, len(rows)))))
    layered: alt.LayerChart = alt.layer(shade, number).resolve_scale(color="independent")
    return layered.properties(height=side * max(1, len(rows)))


def _matrix_cells(chart: Chart) -> list[dict[str, Any]]:
    """The cells with their shade and number."""
    diagonal, least_written = bool(chart.options.get("diagonal")), float(chart.options.get("least_written", 0.0))
    values = [abs(float(row["value"])) for row in chart.rows if row["value"] is not None]
    top = max(values, default=1.0) or 1.0
    bottom = 0.8 * min(values, default=0.0) if chart.options.get("contrast") else 0.0
    cells = []
    for row in chart.rows:
        known = row["value"] is not None
        value = float(row["value"]) if known else 0.0
        shade = (abs(value) - bottom) / (top - bottom) if known and top > bottom else 0.0
        on = str(row["row"]) == str(row["column"])
        if diagonal and not on:
            shade = min(1.0, 2.5 * shade)  # errors are rarer than right answers: a stronger scale
        cells.append(
            {
                "row": str(row["row"]),
                "column": str(row["column"]),
                "value": value if known else None,
                "shade": round(0.08 + 0.87 * shade, 3) if shade else 0.0,
                "side": "ceiling" if diagonal and not on else "floor",
                "text": formatting.fixed(100 * value, 0) if abs(value) > least_written else "",
                "ink": "paper" if shade > 0.62 else "ink",
                "shown": formatting.percent(value) if known else formatting.NOTHING,
            }
        )
    return cells


def joint(chart: Chart) -> alt.TopLevelMixin:
    """A two-dimensional histogram with logarithmic shades and the diagonal dashed."""
    top = float(chart.options.get("top", 1.0))
    look: dict[str, Any] = {"scale": alt.Scale(domain=[0, top], nice=False), "axis": alt.Axis(**number_ticks())}
    titles = {side: axis_title(chart, side) for side in "xy"}
    x, y = alt.X("x_low:Q", title=titles["x"], **look), alt.Y("y_low:Q", title=titles["y"], **look)
    most = max((row["count"] for row in chart.rows), default=1)
    legend = alt.Legend(
        title="examples",
        orient="top",
        labelExpr=NUMBER,
        values=[tick for tick in (1, 10, 100, 1000, 10_000, 100_000) if tick <= most],
        symbolType="square",
        symbolFillColor=LIGHT.floor,
        labelColor=LIGHT.muted,
        titleColor=LIGHT.muted,
    )
    shades = alt.Scale(type="log", domain=[1, max(2, most)], range=[0.2, 1])
    tips = [alt.Tooltip(f"{side}_low:Q", title=title, format=".3~f") for side, title in titles.items()]
    tips.append(alt.Tooltip("count:Q", title="examples", format=","))
    opacity = alt.Opacity("count:Q", scale=shades, legend=legend)
    cells = chart_of_rows(map(dict, chart.rows)).mark_rect(color=LIGHT.floor)
    cells = cells.encode(x=x, x2=alt.X2("x_high:Q"), y=y, y2=alt.Y2("y_high:Q"), opacity=opacity, tooltip=tips)
    ends = chart_of_rows([{"x_low": 0, "y_low": 0}, {"x_low": top, "y_low": top}])
    line = ends.mark_line(color=LIGHT.muted, strokeDash=[5, 4], strokeWidth=1.5).encode(x=x, y=y)
    return alt.layer(cells, line, height=320)
