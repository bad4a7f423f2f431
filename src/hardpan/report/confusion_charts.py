"""Drawings for confusion scores.

Rows by drawing (fractions throughout, scores in bits):

- ``distribution``: low, high, count, group. Options: x_title, log (counts on a logarithmic axis).
- ``threshold``: low, high, count, wrong (or None), above, wrong_above: a histogram with a slider for the threshold.
  Options: x_title, start (where the slider begins), total, wrong.
- ``error_by_band``: x, low, high, value, error_low, error_high, count, group. Options: x_title, y_title.
- ``joint``: x_low, x_high, y_low, y_high, count: a two-dimensional histogram. Options: x_title, y_title, top.
- ``confused``: name, x, x_low, x_high, y, y_low, y_high (mean confusion and accuracy). Options: x_title, y_title.
- ``dots``: name, value, low, high, role (a colour: "ceiling", "floor", "muted"). Options: x_title.

``gallery`` is drawn by the page itself: rows of group, place (in the sheet), score (or None), shown and the story
of an example; options sprite (the sheet), columns, count, aspect, and pick (what a slider over the groups is
called) with start (the group that it begins at).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import altair as alt

from hardpan import numbers
from hardpan.report.axes import whole_ticks
from hardpan.report.lines import told_apart
from hardpan.report.palette import LIGHT
from hardpan.report.placing import Placed, beside_points
from hardpan.report.sections import Chart
from hardpan.report.values import data_of, estimate_of

GALLERY = "gallery"
_PERCENT = "format(datum.value, '.3~%')"
_MOST_WITH_BARS = 3
_FEWEST_ERRORS = 10  # a share of fewer says nothing
_EMPTY = 0.7  # where a bar of counts begins on a logarithmic axis


def distribution(chart: Chart) -> alt.TopLevelMixin:
    """How many examples have which score: steps, one line a group."""
    log = bool(chart.options.get("log"))
    groups = _groups(chart)
    rows = []
    for row in chart.rows:
        shown = dict(row) | {"range": _range(row), "height": row["count"]}
        if log:
            shown["height"] = max(row["count"], _EMPTY)
        rows.append(shown)
    # A step line ends where its last cell begins; the other end of that cell closes it.
    for group in groups:
        last = [row for row in rows if row["group"] == group][-1]
        rows.append(last | {"low": last["high"]})
    scale = alt.Scale(type="log", domainMin=_EMPTY, nice=False) if log else alt.Scale(zero=True)
    title = "examples (logarithmic axis)" if log else "examples"
    x = alt.X("low:Q", title=_x_title(chart), scale=alt.Scale(nice=False, zero=True), axis=alt.Axis(format="~g"))
    y = alt.Y("height:Q", title=title, scale=scale, axis=alt.Axis(tickCount=6, **whole_ticks("~s")))
    colour, dash = _look(groups)
    base = alt.Chart(data_of(rows)).encode(x=x, y=y)
    tips = [alt.Tooltip("group:N"), alt.Tooltip("range:N", title="score"), alt.Tooltip("count:Q", format=",")]
    line = base.mark_line(interpolate="step-after", strokeWidth=2).encode(color=colour, strokeDash=dash)
    spot = base.mark_point(size=120, opacity=0, filled=True, color=LIGHT.floor).encode(tooltip=tips)
    return alt.layer(line, spot).properties(height=300)


def threshold(chart: Chart) -> alt.TopLevelMixin:
    """A histogram whose bars above the threshold are marked; a slider moves it, a line says what it cuts off."""
    rows = [dict(row) | {"height": max(row["count"], _EMPTY), "range": _range(row)} for row in chart.rows]
    total, wrong = int(chart.options.get("total", 1)), chart.options.get("wrong")
    low, high = (rows[0]["low"], rows[-1]["low"]) if rows else (0.0, 1.0)
    step = rows[0]["high"] - rows[0]["low"] if rows else 1.0
    slider = alt.binding_range(min=low, max=high, step=step, name="Hard from (bits) ")
    chosen = alt.param(name="threshold", value=_nearest(rows, float(chart.options.get("start", 0.0))), bind=slider)
    said = (
        "'From ' + format(datum.low, '.3~f') + ' bits on: ' + format(datum.above, ',')"
        " + (datum.above == 1 ? ' example (' : ' examples (')"
        f" + format(datum.above / {total}, '.1%') + ')'"
    )
    if wrong and wrong < _FEWEST_ERRORS:
        said += f" + '\\nwith ' + format(datum.wrong_above, '.1~f') + ' of {float(wrong):.3g} errors'"
    elif wrong:
        said += f" + '\\nwith ' + format(datum.wrong_above / {float(wrong)!r}, '.0%') + ' of the errors'"
    x = alt.X("low:Q", title=_x_title(chart), scale=alt.Scale(nice=False, zero=True), axis=alt.Axis(format="~g"))
    scale = alt.Scale(type="log", domainMin=_EMPTY, nice=False)
    y = alt.Y(
        "height:Q",
        title="examples (logarithmic axis)",
        scale=scale,
        axis=alt.Axis(tickCount=6, **whole_ticks("~s")),
    )
    tips = [alt.Tooltip("range:N", title="score"), alt.Tooltip("count:Q", title="examples", format=",")]
    tips.append(alt.Tooltip("above:Q", title="from here on", format=","))
    colour = alt.condition("datum.low >= threshold - 1e-9", alt.value(LIGHT.ceiling), alt.value(LIGHT.floor))
    base = alt.Chart(data_of(rows))
    marked = base.transform_filter("abs(datum.low - threshold) < 1e-6").transform_calculate(said=said)
    text: dict[str, Any] = {"align": "left", "baseline": "bottom", "fontSize": 12.5, "lineBreak": "\n"}
    bars = base.mark_bar(stroke=LIGHT.paper, strokeWidth=0.5).encode(
        x=x, x2="high:Q", y=y, y2=alt.datum(_EMPTY), color=colour, tooltip=tips
    )
    words = marked.mark_text(**text, color=LIGHT.ink).encode(x=alt.value(-36), y=alt.value(-24), text="said:N")
    return alt.layer(bars, words).add_params(chosen).properties(height=280)


def error_by_band(chart: Chart) -> alt.TopLevelMixin:
    """Error against the score, a point a band; intervals as bars, or, with many lines, as shades behind them."""
    groups = _groups(chart)
    rows = [
        dict(row)
        | {
            "range": _range(row),
            "shown": numbers.estimate(estimate_of(row, "value", "error_low", "error_high")),
        }
        for row in chart.rows
    ]
    x = alt.X("x:Q", title=_x_title(chart), scale=alt.Scale(nice=False, zero=True), axis=alt.Axis(format="~g"))
    title = str(chart.options.get("y_title", "error"))
    axis = alt.Axis(labelExpr=_PERCENT, tickCount=6)
    # The interval of a band with one example reaches to 100 %; it may leave the picture, the errors may not.
    top = min(1.0, 1.25 * max((row["value"] for row in rows), default=1.0) + 0.02)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", title=title, scale=alt.Scale(domain=[0, top], nice=False), axis=axis)

    colour, dash = _look(groups)
    tips = [alt.Tooltip("group:N"), alt.Tooltip("range:N", title="score"), alt.Tooltip("shown:N", title="error")]
    tips.append(alt.Tooltip("count:Q", title="examples", format=","))
    base = alt.Chart(data_of(rows)).encode(x=x, color=colour, tooltip=tips)
    if len(groups) <= _MOST_WITH_BARS:
        reach = base.mark_rule(strokeWidth=1.5, opacity=0.7, clip=True)
    else:  # a shade is one mark for a whole line, so it has no row to tell of
        reach = base.mark_area(opacity=0.1, clip=True).encode(tooltip=alt.value(None))
    return alt.layer(
        base.mark_line(strokeWidth=2).encode(y=y("value"), strokeDash=dash),  # first: the legend looks like it
        reach.encode(y=y("error_low"), y2="error_high:Q"),
        base.mark_point(size=36, filled=True, opacity=1).encode(y=y("value")),
    ).properties(height=320)


def joint(chart: Chart) -> alt.TopLevelMixin:
    """A two-dimensional histogram with logarithmic colours and the diagonal dashed."""
    rows = [dict(row) for row in chart.rows]
    top = float(chart.options.get("top", 1.0))
    scale = alt.Scale(domain=[0, top], nice=False)
    x = alt.X("x_low:Q", title=_x_title(chart), scale=scale, axis=alt.Axis(format="~g"))
    y = alt.Y("y_low:Q", title=str(chart.options.get("y_title", "")), scale=scale, axis=alt.Axis(format="~g"))
    colour = alt.Color(
        "count:Q",
        scale=alt.Scale(type="log", scheme="viridis"),
        legend=alt.Legend(
            title="examples",
            format="~s",
            tickCount=4,
            gradientLength=160,
            labelColor=LIGHT.muted,
            titleColor=LIGHT.muted,
        ),
    )
    tips = [
        alt.Tooltip("x_low:Q", title=_x_title(chart), format=".3~f"),
        alt.Tooltip("y_low:Q", title=str(chart.options.get("y_title", "")), format=".3~f"),
        alt.Tooltip("count:Q", title="examples", format=","),
    ]
    cells = (
        alt.Chart(data_of(rows))
        .mark_rect()
        .encode(x=x, x2="x_high:Q", y=y, y2="y_high:Q", color=colour, tooltip=tips)
    )
    ends = alt.Chart(data_of([{"x_low": 0, "y_low": 0}, {"x_low": top, "y_low": top}]))
    line = ends.mark_line(color=LIGHT.muted, strokeDash=[5, 4], strokeWidth=1.5).encode(x=x, y=y)
    return alt.layer(cells, line).properties(height=380)


_CONFUSED_HEIGHT, _CONFUSED_PADDING = 320, 44
_NARROW = 420.0  # pixels across where two charts stand side by side: in a wider one names have more room


def confused(chart: Chart) -> alt.TopLevelMixin:
    """Accuracy against mean confusion, a cross a model, named."""
    rows = [
        dict(row)
        | {
            "confusion": numbers.plain(estimate_of(row, "x", "x_low", "x_high")),
            "accuracy": numbers.estimate(estimate_of(row, "y", "y_low", "y_high")),
        }
        for row in chart.rows
    ]
    spread = alt.Scale(zero=False, nice=True, padding=_CONFUSED_PADDING)
    axis = alt.Axis(labelExpr=_PERCENT, tickCount=6)

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", title=_x_title(chart), scale=spread, axis=alt.Axis(format="~g", tickCount=6))

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", title=str(chart.options.get("y_title", "accuracy")), scale=spread, axis=axis)

    base = alt.Chart(data_of(rows))
    tips = [
        alt.Tooltip("name:N", title="model"),
        alt.Tooltip("confusion:N", title="mean confusion"),
        alt.Tooltip("accuracy:N"),
    ]
    names = [
        alt.Chart(data_of(part))
        .mark_text(align=place.align, dx=place.dx, dy=place.dy, baseline="middle", fontSize=12, color=LIGHT.ink)
        .encode(x=x("x"), y=y("y"), text="name:N")
        for place, part in _named(rows).items()
    ]
    return alt.layer(
        base.mark_rule(color=LIGHT.floor, strokeWidth=1.5).encode(x=x("x_low"), x2="x_high:Q", y=y("y")),
        base.mark_rule(color=LIGHT.floor, strokeWidth=1.5).encode(x=x("x"), y=y("y_low"), y2="y_high:Q"),
        base.mark_point(color=LIGHT.floor, size=60, filled=True, opacity=1).encode(
            x=x("x"), y=y("y"), tooltip=tips
        ),
        *names,
    ).properties(height=_CONFUSED_HEIGHT)


def _named(rows: list[dict[str, Any]]) -> dict[Placed, list[dict[str, Any]]]:
    """Rows by where their names go; models that are alike, or nearly so, have theirs at different places."""
    rows = [row for row in rows if row["x"] is not None and row["y"] is not None]
    pixels = {}
    for side, length in (("x", _NARROW), ("y", _CONFUSED_HEIGHT)):
        ends = [
            float(row[key]) for row in rows for key in (f"{side}_low", side, f"{side}_high") if row[key] is not None
        ]
        low, high = min(ends, default=0.0), max(ends, default=0.0)
        shares = [(float(row[side]) - low) / (high - low) if low < high else 0.5 for row in rows]
        inner = length - 2 * _CONFUSED_PADDING
        pixels[side] = [_CONFUSED_PADDING + inner * (share if side == "x" else 1 - share) for share in shares]
    places = beside_points(pixels["x"], pixels["y"], [str(row["name"]) for row in rows], _NARROW)
    found: dict[Placed, list[dict[str, Any]]] = {}
    for row, place in zip(rows, places, strict=True):
        found.setdefault(place, []).append(row)
    return found


_DOT_ROLES = {"ceiling": LIGHT.ceiling, "floor": LIGHT.floor, "muted": LIGHT.muted}


def dots(chart: Chart) -> alt.TopLevelMixin:
    """A dot with its interval a row, on an axis of plain numbers."""
    rows = [
        dict(row) | {"key": f"{i}|{row['name']}", "shown": numbers.plain(estimate_of(row))}
        for i, row in enumerate(chart.rows)
    ]
    named = alt.Axis(
        labelExpr="slice(datum.label, indexof(datum.label, '|') + 1)",
        labelLimit=190,
        ticks=False,
        domain=False,
        grid=False,
    )

    def x(field: str) -> alt.X:
        scale = alt.Scale(domain=domain_of(ends), nice=False)
        return alt.X(f"{field}:Q", title=_x_title(chart), scale=scale, axis=alt.Axis(tickCount=6))

    ends = [float(row[key]) for row in rows for key in ("low", "high")]
    domain = list(_DOT_ROLES)
    colour = alt.Color("role:N", legend=None, scale=alt.Scale(domain=domain, range=list(_DOT_ROLES.values())))
    tips = [alt.Tooltip("name:N"), alt.Tooltip("shown:N", title=_x_title(chart))]
    base = alt.Chart(data_of(rows)).encode(y=alt.Y("key:N", sort=None, title=None, axis=named), tooltip=tips)
    return alt.layer(
        base.mark_rule(strokeWidth=2).encode(x=x("low"), x2="high:Q", color=colour),
        base.mark_point(size=60, filled=True, opacity=1).encode(x=x("value"), color=colour),
    ).properties(height=24 * max(1, len(rows)))


KINDS: dict[str, Callable[[Chart], alt.TopLevelMixin]] = {
    "distribution": distribution,
    "threshold": threshold,
    "error_by_band": error_by_band,
    "joint": joint,
    "confused": confused,
    "dots": dots,
}


def tiles(chart: Chart) -> dict[str, Any]:
    """A gallery as the page's template reads it: groups of pictures, each with its position in the sheet.

    Under a picture: its label, the other answer ("ensemble says" or "suggested") where that differs, and its row
    ("row"); without a label what the row has as "shown". A click on it opens the other columns.
    """
    columns, count = int(chart.options["columns"]), int(chart.options["count"])
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in chart.rows:
        position, score = int(row["place"]), row.get("score")
        story = {name: value for name, value in row.items() if name not in ("group", "place", "score", "shown")}
        if score is not None:
            story = {"score": row["shown"], **story}
        label, other = row.get("label"), row.get("suggested", row.get("ensemble says"))
        tile = {
            "left": position % columns,
            "top": position // columns,
            "score": score,
            "story": story,
            "words": ", ".join(f"{name} {value}" for name, value in story.items() if name != "id"),
            "label": "" if label in (None, row["group"]) else str(label),
            "other": "" if other in (None, label) else str(other),
            "where": str(row.get("row", "")),
            "note": row["shown"] if score is None else _short(row["shown"]),
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


def _short(shown: str) -> str:
    """A score and its error with two digits behind the point."""
    return " ± ".join(f"{float(number):.2f}" for number in re.findall(r"[\d.]+", shown))


def domain_of(values: list[float]) -> list[float]:
    """The span of some numbers with a little room at both ends."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = 0.04 * (high - low) or 0.02
    return [low - room, high + room]


def _groups(chart: Chart) -> list[str]:
    return list(dict.fromkeys(str(row["group"]) for row in chart.rows))


def _look(groups: list[str]) -> tuple[alt.Color, alt.StrokeDash]:
    return told_apart("group", groups, legend=len(groups) > 1)


def _nearest(rows: list[dict[str, Any]], value: float) -> float:
    return float(min((row["low"] for row in rows), key=lambda low: abs(low - value), default=value))


def _x_title(chart: Chart) -> str:
    return " ".join(str(chart.options.get("x_title", "confusion score (bits)")).split())


def _range(row: Any) -> str:
    return f"{row['low']:.3g} to {row['high']:.3g}"
