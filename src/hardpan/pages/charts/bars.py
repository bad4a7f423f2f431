"""Bars, histograms and matrices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import altair as alt

from hardpan.pages import formatting
from hardpan.pages.charts.axes import (
    NUMBER,
    PERCENT,
    axis_title,
    count_ticks,
    data_of,
    estimate_of,
    named_rows,
    number_ticks,
    series_look,
    short_percent,
    whole,
    whole_ticks,
)
from hardpan.pages.palette import LIGHT
from hardpan.pages.sections import Chart

_SEGMENTS = (LIGHT.ceiling, LIGHT.warm, LIGHT.floor, LIGHT.third, LIGHT.fourth, LIGHT.muted)
_LETTER = 6.0  # pixels: mean width of a digit
_COLUMN_ROLES = {"floor": LIGHT.floor, "ceiling": LIGHT.ceiling, "muted": LIGHT.muted}


def bars(chart: Chart) -> alt.TopLevelMixin:
    """Draw horizontal bars from zero, each with its number at the end and its interval, where rows have one."""
    percent = bool(chart.options.get("percent"))
    rows = [_bar_row(i, row, percent) for i, row in enumerate(chart.rows)]
    x = _bar_axis(alt.X, chart, rows, percent)
    base = alt.Chart(data_of(rows)).encode(
        y=alt.Y("key:N", sort=None, title=None, axis=named_rows(140)),
        tooltip=[alt.Tooltip("name:N", title="name"), alt.Tooltip("shown:N", title=x_title(chart, "value"))],
    )
    number = base.mark_text(align="left", baseline="middle", dx=5, color=LIGHT.ink)
    return alt.layer(
        base.mark_bar(color=LIGHT.floor).encode(x=x("value")),
        base.mark_rule(color=LIGHT.ink, strokeWidth=1.5).encode(x=x("low"), x2=alt.X2("high:Q")),
        number.encode(x=x("end"), text=alt.Text("text:N")),
    ).properties(height=22 * max(1, len(rows)))


def columns(chart: Chart) -> alt.TopLevelMixin:
    """Draw vertical bars from zero, in the order of the rows, each with its number above it."""
    percent = bool(chart.options.get("percent"))
    rows = [
        _bar_row(i, row, percent) | {"role": str(row.get("role") or "floor")} for i, row in enumerate(chart.rows)
    ]
    longest = max((len(row["text"]) for row in rows), default=1)
    # A phone may have no room for the numbers; the tooltip and the table have them.
    size = alt.ExprRef(f"width < {round(max(1, len(rows)) * (_LETTER * longest + 4))} ? 0 : 12")
    y = _bar_axis(alt.Y, chart, rows, percent, hidden=True)
    label = "slice(datum.label, indexof(datum.label, '|') + 1)"
    x = alt.X(
        "key:N",
        sort=None,
        title=x_title(chart, ""),
        axis=alt.Axis(labelExpr=label, labelAngle=0, labelOverlap="greedy", ticks=False, grid=False, labelLimit=90),
        scale=alt.Scale(paddingInner=0.12, paddingOuter=0.05),
    )
    roles = alt.Scale(domain=list(_COLUMN_ROLES), range=list(_COLUMN_ROLES.values()))
    base = alt.Chart(data_of(rows)).encode(
        x=x,
        tooltip=[alt.Tooltip("name:N", title=x_title(chart, "") or "name"), alt.Tooltip("shown:N", title="value")],
    )
    return alt.layer(
        base.mark_bar().encode(y=y("value"), color=alt.Color("role:N", scale=roles, legend=None)),
        base.mark_rule(color=LIGHT.ink, strokeWidth=1.5).encode(y=y("low"), y2=alt.Y2("high:Q")),
        base.mark_text(baseline="bottom", dy=-3, fontSize=size, color=LIGHT.ink).encode(
            y=y("end"), text=alt.Text("text:N")
        ),
    ).properties(height=int(chart.options.get("height", 150)))


def composition(chart: Chart) -> alt.TopLevelMixin:
    """Draw the parts of a whole as one bar; the legend under it has the names and numbers of those above zero."""
    percent = bool(chart.options.get("percent", True))
    rows: list[dict[str, Any]] = []
    left = 0.0
    for row in chart.rows:
        value = max(0.0, float(row["value"]))
        words = str(row.get("shown") or (short_percent(value) if percent else formatting.number(value, 4)))
        rows.append({"name": str(row["name"]), "key": f"{words}: {row['name']}", "shown": words, "left": left})
        left += value
        rows[-1]["right"] = left
    used = [number for number, row in enumerate(rows) if row["right"] > row["left"]] or list(range(len(rows)))
    keys = [str(rows[number]["key"]) for number in used]
    legend = alt.Legend(
        title=None, orient="bottom", columns=1, symbolType="square", labelLimit=460, labelFontSize=13, offset=4,
        labelColor=LIGHT.muted, rowPadding=3, symbolOpacity=1,
    )  # fmt: skip
    range_ = [  # a part keeps its colour; grey is for context
        LIGHT.grid if chart.rows[number].get("role") == "muted" else _SEGMENTS[number % len(_SEGMENTS)]
        for number in used
    ]
    colour = alt.Color("key:N", sort=None, scale=alt.Scale(domain=keys, range=range_), legend=legend)
    x = alt.X("left:Q", axis=None, scale=alt.Scale(domain=[0, left or 1.0], nice=False))
    bar = (
        alt.Chart(data_of([rows[number] for number in used]))
        .mark_bar(height=24, stroke=LIGHT.card, strokeWidth=2)
        .encode(
            x=x,
            x2=alt.X2("right:Q"),
            color=colour,
            tooltip=[alt.Tooltip("name:N", title="part"), alt.Tooltip("shown:N", title="amount")],
        )
    )
    return alt.layer(bar, height=30)


def _bar_row(index: int, row: Mapping[str, Any], percent: bool) -> dict[str, Any]:
    item = estimate_of(row)
    has_interval = math.isfinite(item.low) and math.isfinite(item.high)
    write = formatting.estimate if percent else formatting.plain
    value = None if not math.isfinite(item.value) else item.value
    spread = (item.high - item.low) / 2 if has_interval else 0.0
    if value is None:
        text = formatting.NOTHING
    elif percent:
        text = formatting.percent(value, spread) if has_interval else short_percent(value)
    else:
        text = formatting.fixed(value, 0) if value == round(value) else formatting.number(value)
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


def _bar_axis(
    channel: Any, chart: Chart, rows: list[dict[str, Any]], percent: bool, *, hidden: bool = False
) -> Any:
    top = max((row["end"] for row in rows), default=0.0) or 1.0
    scale = alt.Scale(domain=[0, top * (1.12 if hidden else 1.16)], nice=False)
    if hidden:
        axis = None
    elif percent:
        axis = alt.Axis(labelExpr=PERCENT, tickCount=6, labelOverlap="parity")
    else:
        axis = alt.Axis(**(whole_ticks() if whole(row["value"] or 0 for row in rows) else number_ticks()))
    title = None if hidden else x_title(chart, "")

    def encode(field: str) -> Any:
        return channel(f"{field}:Q", title=title, scale=scale, axis=axis)

    return encode


_EMPTY = 0.7  # where a bar of counts begins on a logarithmic axis


def distribution(chart: Chart) -> alt.TopLevelMixin:
    """How many examples have which score: steps, one line per group."""
    log = bool(chart.options.get("log"))
    groups = groups_of(chart)
    rows = []
    for row in chart.rows:
        bar = dict(row) | {"range": score_range(row), "height": row["count"]}
        if log:
            bar["height"] = max(row["count"], _EMPTY)
        rows.append(bar)
    # A step line ends where its last cell begins; the other end of that cell closes it.
    for group in groups:
        last = [row for row in rows if row["group"] == group][-1]
        rows.append(last | {"low": last["high"]})
    most = max((row["count"] for row in chart.rows), default=1)
    scale = alt.Scale(type="log", domainMin=_EMPTY, nice=False) if log else alt.Scale(zero=True)
    ticks = count_ticks(most) if log else whole_ticks()
    title = "examples (log scale)" if log else "examples"
    x = alt.X(
        "low:Q", title=x_title(chart), scale=alt.Scale(nice=False, zero=True), axis=alt.Axis(**number_ticks())
    )
    y = alt.Y("height:Q", title=title, scale=scale, axis=alt.Axis(**ticks))
    colour, dash = group_look(groups)
    base = alt.Chart(data_of(rows)).encode(x=x, y=y)
    tips = [alt.Tooltip("group:N"), alt.Tooltip("range:N", title="score"), alt.Tooltip("count:Q", format=",")]
    line = base.mark_line(interpolate="step-after", strokeWidth=2).encode(color=colour, strokeDash=dash)
    spot = base.mark_point(size=120, opacity=0, filled=True, color=LIGHT.floor).encode(tooltip=tips)
    return alt.layer(line, spot, height=230)


def groups_of(chart: Chart) -> list[str]:
    """The groups of the rows, in order."""
    return list(dict.fromkeys(str(row["group"]) for row in chart.rows))


def group_look(groups: list[str]) -> tuple[alt.Color, alt.StrokeDash]:
    """Colour and dashes of groups, with a legend where there are several."""
    return series_look("group", groups, legend=len(groups) > 1)


def x_title(chart: Chart, default: str = "confusion score (bits)") -> str:
    """The title of the x axis in one line."""
    return axis_title(str(chart.options.get("x_title", default)), False)


def score_range(row: Any) -> str:
    """The ends of a bin of scores, for a tooltip."""
    return f"{formatting.number(row['low'])} to {formatting.number(row['high'])}"


_MOST_WITH_TEXT = 25  # rows or columns of a matrix whose numbers are written
_CELL = 30
_LETTERS = 34  # that a row of column names has room for on a narrow screen


# Names lean to the left, over the names of the rows: to the right the last would leave the picture.
SLANTED: dict[str, Any] = {"labelAngle": 40, "labelAlign": "right"}


def matrix(chart: Chart) -> alt.TopLevelMixin:
    """Draw a value per row and column as a shade, with its number; the diagonal may have its own colour."""
    rows_ = list(dict.fromkeys(str(row["row"]) for row in chart.rows))
    columns = list(dict.fromkeys(str(row["column"]) for row in chart.rows))
    text = chart.options.get("text", max(len(rows_), len(columns)) <= _MOST_WITH_TEXT)
    flat: dict[str, Any] = {"ticks": False, "domain": False, "labelLimit": 190}
    # Names stand upright where a column is wide enough for the longest, on a phone too.
    slanted = max(map(len, columns), default=0) > _LETTERS / max(1, len(columns))
    x = alt.X(
        "column:N",
        sort=None,
        title=x_title(chart, "") or None,
        axis=alt.Axis(orient="top", **(SLANTED if slanted else {"labelAngle": 0}), **flat),
        scale=alt.Scale(padding=0.03),
    )
    y = alt.Y(
        "row:N",
        sort=None,
        title=axis_title(str(chart.options.get("y_title", "")), False) or None,
        axis=alt.Axis(**flat),
        scale=alt.Scale(padding=0.03),
    )
    sides = alt.Scale(domain=["floor", "ceiling"], range=[LIGHT.floor, LIGHT.ceiling])
    inks = alt.Scale(domain=["ink", "paper"], range=[LIGHT.ink, LIGHT.paper])
    tips = [
        alt.Tooltip("row:N", title=axis_title(str(chart.options.get("y_title", "row")), False)),
        alt.Tooltip("column:N", title=x_title(chart, "column")),
        alt.Tooltip("shown:N", title="value"),
    ]
    base = alt.Chart(data_of(_matrix_cells(chart, text))).encode(x=x, y=y, tooltip=tips)
    opacity = alt.Opacity("shade:Q", scale=alt.Scale(domain=[0, 1], range=[0, 1]), legend=None)
    layers = [base.mark_rect().encode(color=alt.Color("side:N", scale=sides, legend=None), opacity=opacity)]
    if text:
        written_layer = base.mark_text(fontSize=11).encode(
            text=alt.Text("text:N"), color=alt.Color("ink:N", scale=inks, legend=None)
        )
        layers.append(written_layer)
    side = min(2 * _CELL, max(_CELL, round(8 * _CELL / max(1, len(rows_)))))
    if len(rows_) > _MOST_WITH_TEXT:
        side = max(4, round(24 * _CELL / len(rows_)))
    layered: alt.LayerChart = alt.layer(*layers).resolve_scale(color="independent")
    return layered.properties(height=side * max(1, len(rows_)))


def _matrix_cells(chart: Chart, text: Any) -> list[dict[str, Any]]:
    """The cells with their shade and number; ``text`` says whether numbers are written, or above which value."""
    percent, diagonal = bool(chart.options.get("percent", True)), bool(chart.options.get("diagonal"))
    values = [abs(float(row["value"])) for row in chart.rows if row["value"] is not None]
    top = max(values, default=1.0) or 1.0
    bottom = 0.8 * min(values, default=0.0) if chart.options.get("contrast") else 0.0
    smallest = float(text) if isinstance(text, float) else 0.0
    cells = []
    for row in chart.rows:
        known = row["value"] is not None
        value = float(row["value"]) if known else 0.0
        shade = (abs(value) - bottom) / (top - bottom) if known and top > bottom else 0.0
        on = str(row["row"]) == str(row["column"])
        if diagonal and not on:
            shade = min(1.0, 2.5 * shade)  # errors are rarer than right answers: a stronger scale
        written = (
            formatting.NOTHING if not known else formatting.percent(value) if percent else formatting.number(value)
        )
        number = "" if not known else formatting.fixed(100 * value, 0) if percent else formatting.number(value)
        cells.append(
            {
                "row": str(row["row"]),
                "column": str(row["column"]),
                "value": value if known else None,
                "shade": round(0.08 + 0.87 * shade, 3) if shade else 0.0,
                "side": "ceiling" if diagonal and not on else "floor",
                "text": number if text and known and abs(value) > smallest and value != 0 else "",
                "ink": "paper" if shade > 0.62 else "ink",
                "shown": str(row.get("shown") or written),
            }
        )
    return cells


def joint(chart: Chart) -> alt.TopLevelMixin:
    """A two-dimensional histogram with logarithmic shades and the diagonal dashed."""
    rows = [dict(row) for row in chart.rows]
    top = float(chart.options.get("top", 1.0))
    scale = alt.Scale(domain=[0, top], nice=False)
    x = alt.X("x_low:Q", title=x_title(chart), scale=scale, axis=alt.Axis(**number_ticks()))
    y = alt.Y("y_low:Q", title=str(chart.options.get("y_title", "")), scale=scale, axis=alt.Axis(**number_ticks()))
    most = max((row["count"] for row in rows), default=1)
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
    scale_of_counts = alt.Scale(type="log", domain=[1, max(2, most)], range=[0.2, 1])
    tips = [
        alt.Tooltip("x_low:Q", title=x_title(chart), format=".3~f"),
        alt.Tooltip("y_low:Q", title=str(chart.options.get("y_title", "")), format=".3~f"),
        alt.Tooltip("count:Q", title="examples", format=","),
    ]
    cells = (
        alt.Chart(data_of(rows))
        .mark_rect(color=LIGHT.floor)
        .encode(
            x=x,
            x2=alt.X2("x_high:Q"),
            y=y,
            y2=alt.Y2("y_high:Q"),
            opacity=alt.Opacity("count:Q", scale=scale_of_counts, legend=legend),
            tooltip=tips,
        )
    )
    ends = alt.Chart(data_of([{"x_low": 0, "y_low": 0}, {"x_low": top, "y_low": top}]))
    line = ends.mark_line(color=LIGHT.muted, strokeDash=[5, 4], strokeWidth=1.5).encode(x=x, y=y)
    return alt.layer(cells, line, height=320)
