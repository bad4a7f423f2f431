"""Lines over a setting that the reader moves: the values where the slider stands are written on the lines.

Rows: name, x, y (fractions). Options: x_title, start (where the slider begins).
"""

from __future__ import annotations

import itertools
from typing import Any

import altair as alt

from hardpan.report.lines import SERIES
from hardpan.report.palette import LIGHT
from hardpan.report.sections import Chart
from hardpan.report.values import data_of


def slider(chart: Chart) -> alt.TopLevelMixin:
    """One line a name; a rule follows the slider, and the values under it are written beside the lines."""
    rows = [dict(row) for row in chart.rows if row["y"] is not None]
    places = sorted({float(row["x"]) for row in chart.rows}) or [0.0]
    step = round(min((b - a for a, b in itertools.pairwise(places)), default=1.0), 6)
    start = min(places, key=lambda place: abs(place - float(chart.options.get("start", places[0]))))
    words = str(chart.options.get("x_title", "setting"))
    chosen = alt.param(
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
    y = alt.Y("y:Q", title="share", axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1]))
    base = alt.Chart(data_of(rows)).encode(x=x, y=y, color=colour)
    tips = [alt.Tooltip("name:N"), alt.Tooltip("x:Q", title=words), alt.Tooltip("y:Q", title="share", format=".1%")]
    near: Any = f"abs(datum.x - setting) < {step / 2}"
    here = base.transform_filter(near)
    return (
        alt.layer(
            base.mark_line(strokeWidth=2.5),
            here.mark_rule(color=LIGHT.muted, strokeDash=[4, 3]).encode(y=alt.value(0), y2=alt.value("height")),
            base.mark_point(filled=True, size=120, opacity=0).encode(tooltip=tips),
            here.mark_point(filled=True, size=90, opacity=1).encode(tooltip=tips),
            here.mark_text(align="right", dx=-10, dy=-10, fontSize=14, fontWeight="bold").encode(
                text=alt.Text("y:Q", format=".1%")
            ),
        )
        .add_params(chosen)
        .properties(height=320)
    )
