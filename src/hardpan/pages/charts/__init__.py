"""Kinds of charts: each turns a :class:`hardpan.pages.sections.Chart` into a Vega-Lite specification.

To add a kind, write a function from a chart to an Altair chart and add its line to ``KINDS``. Colours are those
of the light theme; the page replaces them by variables that follow the reader's setting. :func:`draw` gives all
that the page needs of a chart: interactive specification, static picture, data table and CSV.

Rows and options by kind (errors, accuracies and probabilities are fractions):

Bars and cells (:mod:`hardpan.pages.charts.bars`)

- ``bars``: name, value, optionally low, high (an interval). Horizontal. Options: x_title, percent.
- ``columns``: name, value. Vertical. Options: x_title, height.
- ``composition``: name, value, optionally shown (the number in words): one bar of segments.
- ``distribution``: low, high, count, group: a histogram as steps. Options: x_title, log (logarithmic counts).
- ``matrix``: row, column, value. Options: x_title, y_title, diagonal (cells off the diagonal get the warning
  colour, for confusion matrices), least_written (numbers up to this one are not written), contrast (shades begin
  at the smallest value).
- ``joint``: x_low, x_high, y_low, y_high, count: a two-dimensional histogram. Options: x_title, y_title, top.

Lines (:mod:`hardpan.pages.charts.curves`)

- ``lines``: x, y, optionally series, low, high. Options: x_title, y_title, log_x, log (the y axis),
  percent (whether y is a fraction), domain (fixed ends of the y axis), marks (rows of x and label), rug (x of ticks
  above the x axis).
- ``reliability``: x (mean confidence), y (accuracy), low, high, count. Options: x_title, y_title, height.

Dots with intervals (:mod:`hardpan.pages.charts.intervals`)

- ``intervals``: name, value, low, high, role ("floor", "ceiling", "refuted"), reason. Options: x_title, log,
  bracket (low, high: shaded).
- ``ranking``: name, value, low, high, optionally tier (1 for the best group) and note (text at the right).
  Options: x_title, note_title.
- ``dots``, ``deviations``: name, value, low, high, role ("ceiling", "floor", "muted", "in the fit", "left out");
  the latter in points around zero. Options: x_title.
- ``error_by_band``: x, low, high, value, error_low, error_high, count, group. Options: x_title.

Points (:mod:`hardpan.pages.charts.points`)

- ``points``: x, y, name, optionally x_low, x_high, y_low, y_high, role ("floor", "ceiling", "muted"), label
  (written beside the point). Options: x_title, y_title, rule (y of a dashed line), rule_text, rug (x of ticks),
  percent_x, percent_y (whether it is a fraction).
- ``scatter``: name, x, x_low, x_high, y, y_low, y_high, role ("in the fit" or "left out"). Options: x_title,
  y_title, scale ("linear" or "probit"), lines (by scale: rows of x, y, low, high).
- ``slope``: name, original, new (ranks, 1 the best). Options: left, right (names of the two sides).


Two kinds are no Vega charts; the page shows them itself:

- ``gallery``: rows of group, place (in the sheet), score (or None), shown, and columns such as label,
  suggested, row; options sprite (the sheet), columns, count, aspect, pick and start.
  :func:`hardpan.pages.galleries.gallery_chart`.
- ``raster``: an image. Options: png (a data: address), left and right (words under its two ends).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import logging
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import altair as alt
import numpy as np
from altair.utils.schemapi import debug_mode
from markupsafe import Markup

from hardpan.arguments import one_of
from hardpan.files.reading import memory_limit
from hardpan.pages.charts import bars, curves, intervals, points
from hardpan.pages.charts.intervals import STRUCK
from hardpan.pages.palette import LIGHT
from hardpan.pages.sections import Chart
from hardpan.tables import csv_text

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
STATIC_WIDTH, SAVED_WIDTH = 480, 640  # pixels: on paper, where half a page must be readable; as a file
FADED = 0.15  # what is left of a mark while others are selected
COLOURS = {
    getattr(LIGHT, f.name): f"var(--{f.name.replace('_', '-')})" for f in reversed(dataclasses.fields(LIGHT))
}
_GLOBALS = "window.vegaEmbed = vegaEmbed;"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Switch:
    """A choice between two kinds of axes that a chart leaves to the reader: an option and its two values."""

    label: str
    option: str
    off: Any
    on: Any


@dataclass(frozen=True, slots=True)
class Kind:
    """How a kind of chart is drawn, and what a reader can do with it.

    Attributes:
        draw: makes the Altair chart.
        zoom: axes that a reader can zoom into; bars keep their zero.
        pick: the field whose marks stand out when a reader selects one.
        switch: a choice of axes.
        legend: what the marks mean: a field of the palette, or a class of the style sheet, and words.
    """

    draw: Callable[[Chart], alt.TopLevelMixin]
    zoom: str = ""
    pick: str = ""
    switch: Switch | None = None
    legend: tuple[tuple[str, str], ...] = ()


_LOG = Switch("Logarithmic axis", "log", False, True)
_VERDICTS = (
    ("floor", "estimate of the floor"),
    ("ceiling", "error that a classifier makes: a ceiling"),
    ("refuted", "refuted, or contradicted by its own errors"),
    ("shade", "not refuted"),
)
_SCORES = (("ceiling", "confusion score"), ("floor", "needs no labels"), ("muted", "uses the labels"))

KINDS = {
    "intervals": Kind(intervals.intervals, "x", "name", _LOG, _VERDICTS),
    "ranking": Kind(intervals.ranking, "x", "name"),
    "dots": Kind(intervals.dots, "x", "name", legend=_SCORES),
    "deviations": Kind(intervals.dots, "x", "name"),
    "error_by_band": Kind(intervals.error_intervals, "xy", "group"),
    "lines": Kind(curves.lines, "xy", "series", _LOG),
    "reliability": Kind(curves.reliability),
    "bars": Kind(bars.bars, pick="name"),
    "columns": Kind(bars.columns, pick="name"),
    "composition": Kind(bars.composition, pick="name"),
    "distribution": Kind(bars.distribution, "x", "group", Switch("Logarithmic counts", "log", False, True)),
    "matrix": Kind(bars.matrix),
    "joint": Kind(bars.joint, "xy"),
    "points": Kind(points.points, "xy", "name"),
    "scatter": Kind(points.scatter, "xy", "name", Switch("Probit axes", "scale", "linear", "probit")),
    "slope": Kind(points.slope, pick="name"),
}


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
        result: dict[str, Any] = KINDS[chart.drawing].draw(chart).to_dict(validate=False)
    if KINDS[chart.drawing].pick:
        _make_marks_selectable(result, KINDS[chart.drawing].pick)
    return result | {
        "description": chart.description,
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": _vega_config(),
    }


def _make_marks_selectable(drawn: dict[str, Any], field: str) -> None:
    """Let a click on a mark select it: marks of other names fade."""
    layers = []
    for layer in drawn["layer"]:
        data = layer.get("data", drawn.get("data", {}))  # data that all layers share stand above them
        rows = data.get("values", drawn.get("datasets", {}).get(data.get("name"), ()))
        layers += [layer] if rows and field in rows[0] else []
    if not layers:
        return
    select = {"type": "point", "fields": [field], "toggle": "event.shiftKey || event.ctrlKey || event.metaKey"}
    layers[-1].setdefault("params", []).append({"name": "picked", "select": select})
    for layer in layers:
        opacity = layer["mark"].get("opacity", 1)
        if opacity:
            condition = {"param": "picked", "value": opacity}
            layer["encoding"]["opacity"] = {"condition": condition, "value": FADED * opacity}


def _vega_config() -> dict[str, Any]:
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


@dataclass(frozen=True, slots=True)
class Drawing:
    """Everything that one chart puts on the page.

    Attributes:
        key: name of the figure, once on the page.
        chart: what is drawn.
        specs: the Vega-Lite specification, and the one with the other kind of axis where there is a choice.
        switch: that choice, or None.
        on: whether it is on in the first specification.
        svg: the static picture, in colours that follow the theme.
        columns: header of the data table.
        rows: its rows.
        csv_url: the same data for a download link.
        zoom: axes that the reader can zoom into.
        legend: what the marks mean: a name of the palette or a class of the style sheet, and words.
        file: what a download is called, without its ending.
    """

    key: str
    chart: Chart
    specs: tuple[dict[str, Any], ...]
    switch: Switch | None
    on: bool
    svg: Markup
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    csv_url: str
    zoom: tuple[str, ...]
    legend: tuple[tuple[str, str], ...]
    file: str


def draw(chart: Chart, key: str) -> Drawing:
    """Draw a chart in all the forms that the page shows."""
    chart = chart_as_json(chart)
    one_of("drawing", chart.drawing, KINDS)
    kind = KINDS[chart.drawing]
    switch = None if chart.options.get("domain") else kind.switch
    variants, on = [chart], False
    if switch:
        on = bool(chart.options.get(switch.option, switch.off) == switch.on)
        other = {switch.option: switch.off if on else switch.on}
        variants.append(dataclasses.replace(chart, options=dict(chart.options) | other))
    specs = tuple(spec(variant) for variant in variants)
    columns = tuple(dict.fromkeys(name for row in chart.rows for name in row))
    rows = tuple(tuple(row.get(name) for name in columns) for row in chart.rows)
    used = {row.get("role") for row in chart.rows}
    used |= {"shade"} if chart.options.get("bracket") else set()
    return Drawing(
        key=key,
        chart=chart,
        specs=specs,
        switch=switch,
        on=on,
        svg=Markup(static_svg(specs[0], key)),
        columns=columns,
        rows=rows,
        csv_url="data:text/csv;charset=utf-8,"
        + quote(csv_text({name: [row[i] for row in rows] for i, name in enumerate(columns)})),
        zoom=tuple(kind.zoom),
        legend=tuple(item for item in kind.legend if item[0] in used),
        file=re.sub(r"[^a-z0-9]+", "-", chart.title.lower()).strip("-")[:60] or key,
    )


def chart_as_json(chart: Chart) -> Chart:
    """A chart whose values are JSON's: NumPy's numbers become Python's, what is not finite becomes None."""
    return dataclasses.replace(
        chart, **{field.name: _json_values(getattr(chart, field.name)) for field in dataclasses.fields(chart)}
    )


def _json_values(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _json_values(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_json_values, value))
    if isinstance(value, (np.generic, np.ndarray)):
        return _json_values(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


@functools.cache
def can_draw_svg() -> bool:
    """Whether static pictures can be drawn: under ``ulimit -v`` the drawing program (V8) ends the process."""
    if memory_limit("AS") is None:
        return True
    _log.warning(
        "hardpan: pages are written without static pictures of charts, because the address space is limited "
        "(ulimit -v); a browser draws the charts"
    )
    return False


def svg_of_spec(spec: dict[str, Any]) -> str:
    """Draw a specification as an SVG for the eye: marks that nobody sees, made for a pointer, are left out.

    Empty where :func:`can_draw_svg` is False.
    """
    if not can_draw_svg():
        return ""
    import vl_convert

    return re.sub(r'<path [^>]* opacity="0"/>', "", vl_convert.vegalite_to_svg(spec))


def notebook_svg(chart: Chart) -> str:
    """A chart as a static SVG in the colours of the text around it; empty for galleries and rasters."""
    if chart.drawing not in KINDS:
        return ""
    svg = static_svg(spec(chart_as_json(chart)), f"hp-{hashlib.sha256(chart.title.encode()).hexdigest()[:8]}")
    for field in dataclasses.fields(LIGHT):
        inherited = field.name in ("ink", "muted", "refuted")
        colour = "currentColor" if inherited else getattr(LIGHT, field.name)
        svg = svg.replace(f"var(--{field.name.replace('_', '-')})", colour)
    return svg


def static_svg(spec: dict[str, Any], key: str) -> str:
    """Draw a specification as an SVG that scales with the page and takes its colours from the page's variables."""
    svg = svg_of_spec(spec | {"width": STATIC_WIDTH})
    # Ids are global in a page: alike, one chart would be clipped by another's frame. Vega counts them through all
    # charts of the process; counted anew in each, the same chart gives the same bytes.
    names = dict.fromkeys(re.findall(r'<[a-zA-Z]+ id="([^"]+)"', svg))
    for number, name in enumerate(names, 1):
        svg = svg.replace(f'id="{name}"', f'id="{key}-{number}"').replace(f"url(#{name})", f"url(#{key}-{number})")
    # Vega has no text that is struck through, SVG has: the layer that is named so.
    group = rf'(<g class="mark-text [^"]*\b{STRUCK}_marks\b[^"]*".*?</g>)'
    line = '<text text-decoration="line-through" '
    svg = re.sub(group, lambda match: match[1].replace("<text ", line), svg, flags=re.S)
    for colour, variable in COLOURS.items():
        svg = svg.replace(f'"{colour}"', f'"{variable}"')
    svg = re.sub(r'<rect width="[0-9.]+" height="[0-9.]+" fill="(white|transparent)"/>', "", svg, count=1)
    return re.sub(r'^<svg ([^>]*?) width="[0-9.]+" height="[0-9.]+"', r"<svg \1", svg, count=1)


@functools.cache
def vega_bundle() -> str:
    """The JavaScript of Vega, Vega-Lite and Vega-Embed, as installed: nothing comes from the network."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle(_GLOBALS)
    # Inside a script element only these two sequences could end it or hide what follows.
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")
