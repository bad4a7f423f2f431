"""The HTML page and the first screen in a notebook: nothing else in hardpan writes report HTML."""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

import hardpan
from hardpan.estimates import Estimate
from hardpan.pages import charts, formatting
from hardpan.pages.charts import COLOURS, Drawing, draw, notebook_svg, vega_bundle
from hardpan.pages.galleries import GALLERY, gallery_tiles
from hardpan.pages.palette import DARK, LIGHT
from hardpan.pages.sections import Chart, ProblemLine, Section, View

RASTER = "raster"
RESERVED = ("content", "methods")
MOST_UNBROKEN = 28  # characters of a number with its interval that stay on one line
MOST_LEDE = 5  # sentences beside the first picture
BRIEF_LEDE = 240  # characters: under fewer there is room for a second chart
MOST_BESIDE_TILES = 4  # rows of problems
MOST_BESIDE_PICTURE = 3  # rows of problems that are no longer than one chart
MOST_SMALL_MATRIX = 12  # rows of a matrix that has two charts beside it
TALL = ("ranking", "intervals", "matrix")
SEVERITY_WORDS = {"high": "serious", "medium": "moderate", "low": "minor", "note": "note"}
_FIRST_OF_NUMBER = "0123456789+−"
_NUMBER_RANGE = re.compile(r"(?<=\d)–(?=\d)")
_COMMAND_OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]{0,24}(?![\w-])")
_DOTS = {"high": LIGHT.ceiling, "medium": LIGHT.warm, "low": LIGHT.floor, "note": "#8a93a0"}


def view_page(view: View, *, date: str = "") -> str:
    """Write a view as one HTML file that needs no network.

    Every text is escaped. Each chart is in the file three times: interactive, as a static picture for print and for
    readers without JavaScript, and as a table of its data. A content security policy forbids all loading, and
    every script but ours.

    Args:
        view: what the report says and shows.
        date: the day it was computed.
    """
    view = _page_with_hero_chart(_page_without_repeats(view))
    keys = itertools.count(1)
    hero = [_chart_for_template(chart, keys) for chart in view.hero]
    # A tall first chart has the second one beside it, under the problems; so has any beside a few words.
    tall = bool(view.problems) and len(view.hero) > 1 and view.hero[0].drawing in TALL
    tall = tall or (not view.problems and bool(view.lede) and len(view.hero) == 2)
    # Few problems leave room for the numbers beside the picture; without problems the text is there, too.
    tiles_beside = (
        bool(view.hero and view.tiles) and not tall and _html_problem_rows(view.problems) <= MOST_BESIDE_TILES
    )
    lede_beside = bool(view.hero and view.lede) and not view.problems
    sections = [_section_for_template(section, number, keys) for number, section in enumerate(view.sections, 1)]
    names = [section["key"] for section in sections]
    for number, section in enumerate(sections, 1):  # a name that the page uses itself, or twice, gets its number
        if section["key"] in RESERVED or names.count(section["key"]) > 1 or section["key"].startswith("chart-"):
            section["key"] = f"{section['key']}-{number}"
    drawings = [
        item["drawing"] for item in [*hero, *(item for s in sections for item in s["items"])] if item["drawing"]
    ]
    script = Markup(_page_resource("page.js") if view.sections or drawings else "")
    bundle = Markup(vega_bundle() if drawings else "")
    css = _page_resource("page.css").replace("{{ light }}", LIGHT.css()).replace("{{ dark }}", DARK.css())
    environment = _template_environment()
    return environment.get_template("page.html").render(
        view=view,
        date=date,
        hero=hero[:1] if tall else hero,
        below=hero[1:] if tall else [],
        tiles_beside=tiles_beside,
        lede_beside=lede_beside,
        severities=SEVERITY_WORDS,
        gallery_tiles=gallery_tiles,
        sections=sections,
        provenance=view.provenance,
        payload=Markup(_script_payload(drawings)),
        bundle=bundle,
        script=script,
        policy=_page_security_policy([text for text in (bundle, script) if text]),
        css=Markup(css),
        version=hardpan.__version__,
        table=functools.partial(_table_html, environment),
    )


def first_screen(view: View) -> str:
    """Headline, problems, the picture and the numbers of a report, without scripts.

    Example:
        >>> first_screen(View("Audit", "Two <classes>."))[-57:]
        '<div class="hp-headline">Two &lt;classes&gt;.</div></div>'
    """
    charts = view.hero or tuple(chart for section in view.sections for chart in section.charts)[:1]
    return (
        _template_environment()
        .get_template("notebook.html")
        .render(
            view=view,
            dots=_DOTS,
            pictures=[(chart.title, svg) for chart in charts if (svg := notebook_svg(chart))],
        )
    )


def _page_without_repeats(view: View) -> View:
    """A chart of the first screen is folded in its section; pictures that follow at once are not shown before."""
    in_hero = [(chart.drawing, chart.rows) for chart in view.hero]
    sections = [
        dataclasses.replace(
            section,
            charts=tuple(chart for chart in section.charts if (chart.drawing, chart.rows) not in in_hero),
            folded=(
                *(chart for chart in section.charts if (chart.drawing, chart.rows) in in_hero),
                *section.folded,
            ),
        )
        for section in view.sections
    ]
    following = [chart.options.get("sprite") for section in view.sections[:1] for chart in section.charts]
    hero = tuple(
        chart for chart in view.hero if chart.drawing != GALLERY or chart.options["sprite"] not in following
    )
    few = 0 < _html_problem_rows(view.problems) <= MOST_BESIDE_PICTURE
    return dataclasses.replace(view, sections=tuple(sections), hero=hero if hero and few else view.hero)


def _html_problem_rows(problems: Sequence[ProblemLine]) -> int:
    """Rows that problems take: those with pictures two."""
    return sum(2 if problem.examples else 1 for problem in problems)


def _page_with_hero_chart(view: View) -> View:
    """A view without a picture of its own gets the first section's first chart, and its text beside it."""
    if view.hero or view.problems or not view.sections or not view.sections[0].charts:
        return view
    first, *others = view.sections
    picture, *charts = first.charts
    if picture.drawing == GALLERY:
        return view
    pictures = [picture]
    room = max(0, MOST_LEDE - len(view.lede))
    words = sum(map(len, (*view.lede, *first.sentences[:room])))
    beside = not words or (len(charts) == 1 and words <= BRIEF_LEDE)
    if charts and beside and not view.tiles:  # the second one beside it
        pictures.append(charts.pop(0))
    rest = dataclasses.replace(first, charts=tuple(charts), sentences=first.sentences[room:])
    parts = (rest.charts, rest.sentences, rest.tables, rest.folded, rest.estimates, rest.methods, rest.warnings)
    return dataclasses.replace(
        view,
        hero=tuple(pictures),
        lede=(*view.lede, *first.sentences[:room]),
        sections=(*([rest] if any(parts) else ()), *others),
    )


def _section_for_template(section: Section, number: int, keys: Iterator[int]) -> dict[str, Any]:
    """A section as the template reads it: charts drawn, numbers written."""
    charts_open = [_chart_for_template(chart, keys) for chart in section.charts]
    folded = [
        _chart_for_template(item, keys) if isinstance(item, Chart) else {"table": item, "drawing": None}
        for item in section.folded
    ]
    figures = [item for item in charts_open if not item["gallery"]]
    return {field.name: getattr(section, field.name) for field in dataclasses.fields(section)} | {
        "key": section.key or f"section-{number}",
        "short": section.short or section.title,
        "figures": figures,
        "columns": _chart_columns_class([chart for chart in section.charts if chart.drawing != GALLERY]),
        "galleries": [item["gallery"] for item in charts_open if item["gallery"]],
        "items": [*charts_open, *folded],
        "folded": folded,
        # One chart has the text beside it; several stand side by side under the text.
        "beside": len(figures) == 1 and len(figures) == len(charts_open),
    }


def _chart_columns_class(charts: Sequence[Chart]) -> str:
    """How a section's charts stand: one; three, the first a small matrix; or in two columns."""
    if len(charts) == 1:
        return "one"
    small = len(charts) == 3 and charts[0].drawing == "matrix"
    return "three" if small and len({row["row"] for row in charts[0].rows}) <= MOST_SMALL_MATRIX else "two"


def _chart_for_template(chart: Chart, keys: Iterator[int]) -> dict[str, Any]:
    """A chart as the template reads it: drawn by Vega, or a gallery or raster that the page shows itself."""
    item: dict[str, Any] = dict.fromkeys(("drawing", "gallery", "raster", "table")) | {"title": chart.title}
    if chart.drawing == GALLERY:
        return item | {"gallery": gallery_tiles(chart)}
    if chart.drawing == RASTER:
        return item | {"raster": chart}
    return item | {"drawing": draw(chart, f"chart-{next(keys)}")}


def _table_html(
    environment: Environment,
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    sortable: bool,
    bars: Sequence[str] = (),
) -> Markup:
    values = [[_html_sort_number(cell) for cell in row] for row in rows]
    numeric = [
        any(row[i] is not None for row in values)
        and all(
            value[i] is not None or _html_cell_is_empty(row[i]) for row, value in zip(rows, values, strict=True)
        )
        for i in range(len(columns))
    ]
    largest = [
        max((row[i] or 0.0 for row in values), default=0.0) if name in bars and numeric[i] else 0.0
        for i, name in enumerate(columns)
    ]
    lengths = [
        [100 * (number or 0.0) / most if most > 0 else None for number, most in zip(row, largest, strict=True)]
        for row in values
    ]
    template = environment.get_template("table.html")
    texts = list(zip(*(formatting.column([row[i] for row in rows]) for i in range(len(columns))), strict=True))
    whole = [[len(text) <= MOST_UNBROKEN and text[:1] in _FIRST_OF_NUMBER for text in row] for row in texts]
    cells = [list(zip(*parts, numeric, strict=True)) for parts in zip(texts, values, lengths, whole, strict=True)]
    return Markup(template.render(title=title, columns=columns, rows=cells, numeric=numeric, sortable=sortable))


def _html_cell_is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and not math.isfinite(cell))


def _html_sort_number(value: Any) -> float | None:
    """What a cell is sorted by, where it is a number."""
    if isinstance(value, Estimate):
        value = value.value
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return value if known else None


def _script_payload(drawings: Sequence[Drawing]) -> str:
    """What the script reads, safe inside a script element: no character in it can end the element."""
    content = {
        "colours": COLOURS,
        "width": charts.SAVED_WIDTH,
        "charts": {
            item.key: {name: getattr(item, name) for name in ("specs", "on", "file", "zoom")}
            | {"title": item.chart.title}
            for item in drawings
        },
    }
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _page_security_policy(scripts: Iterable[str]) -> str:
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    # Vega compiles its expressions with Function(), which is what unsafe-eval permits; inline text stays forbidden.
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src {allowed} 'unsafe-eval'"


def _page_resource(name: str) -> str:
    return resources.files("hardpan.pages").joinpath(name).read_text(encoding="utf-8")


def _unbroken_text(value: Any) -> Any:
    # Browsers break a line after a dash, terminals do not: there a range stays together by itself.
    if type(value) is not str:
        return value
    text = formatting.unbroken(value).replace(" = ", "\u00a0=\u00a0")
    return _NUMBER_RANGE.sub("–\u2060", text)


def _prose_html(value: str) -> Markup:
    """Text with every option of a command, such as --by-order, on one line: browsers break after a hyphen."""
    text = str(escape(_unbroken_text(value)))
    return Markup(_COMMAND_OPTION.sub(r'<span class="option">\g<0></span>', text))


@functools.cache
def _template_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("hardpan.pages", ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_unbroken_text,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"prose": _prose_html, "estimate": formatting.estimate}
    return environment
