"""A chart as the page needs it: interactive specification, static picture, data table and CSV."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from hardpan import files
from hardpan.report import charts
from hardpan.report.charts.intervals import STRUCK
from hardpan.report.palette import LIGHT
from hardpan.report.sections import Chart
from hardpan.tables import csv_text

_GLOBALS = "window.vegaEmbed = vegaEmbed;"
COLOURS = {
    getattr(LIGHT, f.name): f"var(--{f.name.replace('_', '-')})" for f in reversed(dataclasses.fields(LIGHT))
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
    switch: charts.Switch | None
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
    chart = plain(chart)
    switch = None if chart.options.get("domain") else charts.SWITCHES.get(chart.drawing)
    variants, on = [chart], False
    if switch and chart.options.get(switch.option, switch.off) not in (switch.off, switch.on):
        switch = None  # an axis of another kind: nothing to choose
    if switch:
        on = bool(chart.options.get(switch.option, switch.off) == switch.on)
        other = {switch.option: switch.off if on else switch.on}
        variants.append(dataclasses.replace(chart, options=dict(chart.options) | other))
    specs = tuple(charts.spec(variant) for variant in variants)
    columns = tuple(dict.fromkeys(name for row in chart.rows for name in row))
    rows = tuple(tuple(row.get(name) for name in columns) for row in chart.rows)
    used = {row.get(key) for row in chart.rows for key in ("role", "status")}
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
        csv_url="data:text/csv;charset=utf-8," + quote(_csv(columns, rows)),
        zoom=charts.ZOOMS.get(chart.drawing, ()),
        legend=tuple(item for item in charts.LEGENDS.get(chart.drawing, ()) if item[0] in used),
        file=re.sub(r"[^a-z0-9]+", "-", chart.title.lower()).strip("-")[:60] or key,
    )


def plain(chart: Chart) -> Chart:
    """A chart whose values are JSON's: NumPy's numbers become Python's, what is not finite becomes None."""
    return dataclasses.replace(
        chart, **{field.name: files.clean_values(getattr(chart, field.name)) for field in dataclasses.fields(chart)}
    )


def picture(spec: dict[str, Any]) -> str:
    """Draw a specification as an SVG for the eye: marks that nobody sees, made for a pointer, are left out."""
    import vl_convert

    # A control character in a text would end the process here.
    return re.sub(r'<path [^>]* opacity="0"/>', "", vl_convert.vegalite_to_svg(files.clean_values(spec)))


def notebook_svg(chart: Chart) -> str:
    """A chart as a static SVG in the colours of the text around it; empty for galleries and rasters."""
    if chart.drawing not in charts.KINDS:
        return ""
    svg = static_svg(charts.spec(plain(chart)), f"hp-{hashlib.sha256(chart.title.encode()).hexdigest()[:8]}")
    for field in dataclasses.fields(LIGHT):
        inherited = field.name in ("ink", "muted", "refuted")
        colour = "currentColor" if inherited else getattr(LIGHT, field.name)
        svg = svg.replace(f"var(--{field.name.replace('_', '-')})", colour)
    return svg


def static_svg(spec: dict[str, Any], key: str) -> str:
    """Draw a specification as an SVG that scales with the page and takes its colours from the page's variables."""
    svg = picture(spec | {"width": charts.STATIC_WIDTH})
    # Ids are global in a page: alike, one chart would be clipped by another's frame. Vega counts them through all
    # charts of the process; counted anew in each, the same chart gives the same bytes.
    result = dict.fromkeys(re.findall(r'<[a-zA-Z]+ id="([^"]+)"', svg))
    for number, name in enumerate(result, 1):
        svg = svg.replace(f'id="{name}"', f'id="{key}-{number}"').replace(f"url(#{name})", f"url(#{key}-{number})")
    svg = _struck(svg)
    for colour, variable in COLOURS.items():
        svg = svg.replace(f'"{colour}"', f'"{variable}"')
    svg = re.sub(r'<rect width="[0-9.]+" height="[0-9.]+" fill="(white|transparent)"/>', "", svg, count=1)
    return re.sub(r'^<svg ([^>]*?) width="[0-9.]+" height="[0-9.]+"', r"<svg \1", svg, count=1)


def _struck(svg: str) -> str:
    """Strike the texts of the layer that is named so: Vega has no such text, SVG has."""
    group = rf'(<g class="mark-text [^"]*\b{STRUCK}_marks\b[^"]*".*?</g>)'
    return re.sub(
        group, lambda found: found[1].replace("<text ", '<text text-decoration="line-through" '), svg, flags=re.S
    )


@functools.cache
def vega_bundle() -> str:
    """The JavaScript of Vega, Vega-Lite and Vega-Embed, as installed: nothing comes from the network."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle(_GLOBALS)
    # Inside a script element only these two sequences could end it or hide what follows.
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _csv(columns: tuple[str, ...], rows: tuple[tuple[Any, ...], ...]) -> str:
    return csv_text({name: [row[column] for row in rows] for column, name in enumerate(columns)})
