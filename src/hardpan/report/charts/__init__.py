"""Kinds of charts: each turns a :class:`hardpan.report.sections.Chart` into a Vega-Lite specification.

To add a kind, write a function from a chart to an Altair chart and add its line to ``KINDS``. Colours are those
of the light theme; the page replaces them by variables that follow the reader's setting.

Rows and options by kind (errors, accuracies and probabilities are fractions):

Bars (:mod:`hardpan.report.charts.bars`)

- ``bars``: name, value, optionally low, high (an interval). Horizontal. Options: x_title, percent.
- ``columns``: name, value, optionally low, high, role ("ceiling" is highlighted). Vertical. Options: x_title,
  percent.
- ``composition``: name, value, optionally shown (the number in words) and role ("muted" is grey): one bar of
  segments. Options: percent.
- ``distribution``: low, high, count, group: a histogram as steps. Options: x_title, log (logarithmic counts).
- ``threshold``: low, high, count, wrong (or None), above, wrong_above: a histogram with a slider for the
  threshold. Options: x_title, start (of the slider), total, wrong.

Lines (:mod:`hardpan.report.charts.curves`)

- ``curve``: x, y, low, high. Options: x_title, y_title, log_x, log, marks (rows of x and label).
- ``lines``: series, x, y, optionally low, high. Options: x_title, y_title, log_x, log (the y axis), percent
  (whether y is a fraction), domain (fixed ends of the y axis), marks (rows of x), rug (x of ticks above the x
  axis).
- ``reliability``: x (mean confidence), y (accuracy), low, high, count, optionally series. Options: x_title,
  y_title.
- ``slider``: name, x, y: values under a slider. Options: x_title, start.

Dots with intervals (:mod:`hardpan.report.charts.intervals`)

- ``intervals``: name, value, low, high, role ("floor", "ceiling", "refuted"), reason, optionally status
  ("disputed": hollow). Options: x_title, log, bracket (low, high: shaded), smallest (left end of a logarithmic
  axis).
- ``ranking``: name, value, low, high, optionally tier (1 for the best group) and note (text at the right).
  Options: x_title, note_title, percent (default True).
- ``dots``: name, value, low, high, role ("ceiling", "floor", "muted"). Options: x_title.
- ``deviations``: name, value, low, high, role ("in the fit", "left out"), in points around zero. Options:
  x_title.
- ``error_by_band``: x, low, high, value, error_low, error_high, count, group. Options: x_title, y_title.

Points (:mod:`hardpan.report.charts.points`)

- ``points``: x, y, name, optionally role ("floor", "ceiling", "muted"), label (written beside the point).
  Options: x_title, y_title, rule (y of a dashed line), rule_text, rug (x of ticks), percent_x, percent_y.
- ``scatter``: name, x, x_low, x_high, y, y_low, y_high, role ("in the fit" or "left out"). Options: x_title,
  y_title, scale ("linear", "probit", or "plain" for numbers that are no fractions), lines (by scale: rows of x, y,
  low, high), same (words at the diagonal).
- ``slope``: name, original, new (ranks, 1 the best). Options: left, right (names of the two sides).
- ``dates``: name, date (decimal year), value, low, high, role. Options: y_title, line (rows of date, value).
- ``confused``: name, x, x_low, x_high, y, y_low, y_high (mean confusion and accuracy). Options: x_title,
  y_title.

Grids (:mod:`hardpan.report.charts.grids`)

- ``matrix``: row, column, value. Options: x_title, y_title, percent (default True), diagonal (cells off the
  diagonal get the warning colour, for confusion matrices), text (write the numbers: True, False or the smallest
  value written).
- ``joint``: x_low, x_high, y_low, y_high, count: a two-dimensional histogram. Options: x_title, y_title, top.

Two kinds are no Vega charts; the page shows them itself:

- ``gallery``: rows of group, place (in the sheet), score (or None), shown, and columns such as label,
  suggested, row; options sprite (the sheet), columns, count, aspect, pick and start.
  :func:`hardpan.report.galleries.gallery_chart`.
- ``raster``: an image. Options: png (a data: address), left and right (words under its two ends).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import altair as alt
from altair.utils.schemapi import debug_mode

from hardpan.arguments import one_of
from hardpan.report.charts import bars, curves, grids, intervals, points
from hardpan.report.palette import LIGHT
from hardpan.report.sections import Chart

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


STATIC_WIDTH, SAVED_WIDTH = 480, 640  # pixels: on paper, where half a page must be readable; as a file


FADED = 0.15  # what is left of a mark while others are selected


KINDS: dict[str, Callable[[Chart], alt.TopLevelMixin]] = {
    "intervals": intervals.intervals,
    "curve": curves.curve,
    "bars": bars.bars,
    "columns": bars.columns,
    "composition": bars.composition,
    "lines": curves.lines,
    "reliability": curves.reliability,
    "slider": curves.slider,
    "ranking": intervals.ranking,
    "points": points.points,
    "matrix": grids.matrix,
    "scatter": points.scatter,
    "slope": points.slope,
    "deviations": intervals.deviations,
    "dates": points.dates,
    "distribution": bars.distribution,
    "threshold": bars.threshold,
    "error_by_band": intervals.error_by_band,
    "joint": grids.joint,
    "confused": points.confused,
    "dots": intervals.dots,
}


@dataclass(frozen=True, slots=True)
class Switch:
    """A choice between two kinds of axes that a chart leaves to the reader: an option and its two values."""

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
"""Kinds that offer such a choice."""


ZOOMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("intervals", "deviations", "dots", "distribution", "ranking"), ("x",)),
    **dict.fromkeys(
        ("curve", "lines", "scatter", "points", "dates", "error_by_band", "joint", "confused"), ("x", "y")
    ),
}
"""Kinds that a reader can zoom into, and along which axes; bars keep their zero."""


PICKS: dict[str, str] = {
    **dict.fromkeys(
        (
            "intervals",
            "bars",
            "scatter",
            "slope",
            "deviations",
            "dates",
            "confused",
            "dots",
            "columns",
            "composition",
            "ranking",
            "points",
        ),
        "name",
    ),
    **dict.fromkeys(("distribution", "error_by_band"), "group"),
    "lines": "series",
}
"""Kinds in which a reader can select by a click, and the field whose marks then stand out."""


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
"""What the marks of a kind mean: a field of the palette, or a class of the style sheet, and words."""


def spec(chart: Chart) -> dict[str, Any]:
    """Draw a chart: its Vega-Lite specification, with the text alternative as its description.

    Example:
        >>> drawn = spec(Chart("bars", "Counts", ({"name": "cat", "value": 3},), "One bar: cat 3."))
        >>> drawn["description"], drawn["width"]
        ('One bar: cat 3.', 'container')
    """
    one_of("drawing", chart.drawing, KINDS)
    # Altair would check every mark, scale and axis against its JSON schema; the tests check each kind once.
    with debug_mode(False):
        result: dict[str, Any] = KINDS[chart.drawing](chart).to_dict(validate=False)
    if chart.drawing in PICKS:
        _selectable(result, PICKS[chart.drawing])
    return result | {
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
        "background": "transparent",
        "font": FONT,
        "view": {"stroke": None},
        "axis": {
            "labelColor": LIGHT.muted,
            "titleColor": LIGHT.muted,
            "labelFontSize": 12,
            "labelSeparation": 6,  # pixels: labels that nearly touch are left out, every other one
            "titleFontSize": 13,
            "titleFontWeight": "normal",
            "gridColor": LIGHT.grid,
            "domainColor": LIGHT.grid,
            "tickColor": LIGHT.grid,
        },
        "legend": {"labelColor": LIGHT.ink, "titleColor": LIGHT.muted},
        "text": {"fontSize": 12},
        "title": {"color": LIGHT.ink, "fontSize": 15, "anchor": "start"},
    }
