"""Grids: two-dimensional histograms, matrices, galleries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import altair as alt

from hardpan import formatting
from hardpan.report.charts.axes import NUMBER, axis_title, data_of, number_ticks
from hardpan.report.charts.bars import x_title
from hardpan.report.palette import LIGHT
from hardpan.report.sections import Chart

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
        written = formatting.NOTHING if not known else formatting.percent(value) if percent else f"{value:,.3g}"
        number = "" if not known else f"{100 * value:.0f}" if percent else f"{value:,.3g}"
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


GALLERY = "gallery"


def tiles(chart: Chart) -> dict[str, Any]:
    """A gallery as the page's template reads it: groups of pictures, each with its position in the sheet.

    Under a picture: its label, the other answer ("predicted" or "suggested") where that differs, and its row
    ("row"); without a label what the row has as "shown". A click on it opens the other columns.
    """
    columns, count = int(chart.options["columns"]), int(chart.options["count"])
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in chart.rows:
        position, score = int(row["place"]), row.get("score")
        story = {name: value for name, value in row.items() if name not in ("group", "place", "score", "shown")}
        if score is not None:
            story = {"score": row["shown"], **story}
        label, other = row.get("label"), row.get("suggested", row.get("predicted"))
        tile = {
            "left": position % columns,
            "top": position // columns,
            "score": score,
            "id": str(row.get("id", "")),
            "story": story,
            "words": ", ".join(f"{name} {value}" for name, value in story.items() if name != "id"),
            "label": "" if label in (None, row["group"]) else str(label),
            "other": "" if other in (None, label) else str(other),
            "where": _whereabouts(row),
            "note": row["shown"] if score is None else f"{float(score):.2f}",
        }
        groups.setdefault(str(row["group"]), []).append(tile)
    return {
        "title": chart.title,
        "description": chart.description,
        "sprite": chart.options["sprite"],
        "columns": columns,
        "lines": -(-count // columns),
        "aspect": f"{float(chart.options['aspect']):.4f}",
        "groups": groups,
        "pick": str(chart.options.get("pick", "")),
        "start": int(chart.options.get("start", 0)),
    }


def _whereabouts(row: Mapping[str, Any]) -> str:
    """How a person finds an example again: its file, or its row with the split."""
    if row.get("path"):
        return PurePath(str(row["path"])).name  # all of the path is one click away
    if row.get("row") in (None, ""):
        return ""
    split = {"validation": "val."}.get(str(row.get("split")), row.get("split"))
    return f"{split} {row['row']}" if split else f"row {row['row']}"
