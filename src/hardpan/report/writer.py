"""The page: sections in, one self-contained HTML file out. Nothing else in hardpan writes report HTML."""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import hardpan
from hardpan import numbers
from hardpan.estimates import Estimate
from hardpan.files import versions_of
from hardpan.report import charts, confusion_charts
from hardpan.report.drawing import COLOURS, Drawing, draw, vega_bundle
from hardpan.report.palette import DARK, LIGHT
from hardpan.report.sections import Provenance, Section, Tile

_RANGE = re.compile(r"(?<=\d)–(?=\d)")


def page(
    sections: Sequence[Section],
    *,
    title: str,
    headline: str,
    lede: Sequence[str] = (),
    tiles: Sequence[Tile] = (),
    provenance: Provenance | None = None,
) -> str:
    """Write a report as one HTML file that needs no network.

    Every text is escaped. Each chart is there three times: interactive, as a static picture for print and for
    readers without JavaScript, and as a table of its data. A content security policy forbids all loading, and
    every script but ours.

    Args:
        sections: the parts of the report, in order.
        title: name of the report.
        headline: the one sentence that a reader takes away.
        lede: a few sentences under it.
        tiles: numbers under the headline; one without a value says what would fill it.
        provenance: how the report was made.

    Returns:
        The text of the file.

    Example:
        >>> html = page([Section("Counts", ("Two <classes>.",))], title="Audit", headline="All is well.")
        >>> "Two &lt;classes&gt;." in html, "http://" in html or "https://" in html
        (True, False)
    """
    keys = iter(range(1, 1_000_000))
    shown = [_shown(section, f"section-{number}", keys) for number, section in enumerate(sections, 1)]
    drawings = [drawing for section in shown for drawing in section["drawings"]]
    script, bundle = Markup(_script(bool(drawings))), Markup(vega_bundle() if drawings else "")
    environment = _environment()
    return environment.get_template("page.html").render(
        title=title,
        headline=headline,
        lede=lede,
        tiles=tiles,
        sections=shown,
        provenance=_made(provenance),
        payload=Markup(_payload(drawings)) if drawings else None,
        bundle=bundle,
        script=script,
        policy=_policy([bundle, script]),
        css=Markup(_css()),
        version=hardpan.__version__,
        table=functools.partial(_table, environment),
    )


def _made(provenance: Provenance | None) -> Provenance | None:
    """How the report was made, with the versions that every report has where its maker names none."""
    if provenance is None or provenance.versions:
        return provenance
    return dataclasses.replace(provenance, versions=versions_of())


def _shown(section: Section, key: str, keys: Iterable[int]) -> dict[str, Any]:
    """A section as the template reads it: charts drawn, numbers written."""
    drawn = [chart for chart in section.charts if chart.drawing != confusion_charts.GALLERY]
    drawings = [draw(chart, f"chart-{number}") for chart, number in zip(drawn, keys, strict=False)]
    galleries = [confusion_charts.tiles(chart) for chart in section.charts if chart not in drawn]
    estimates = [
        (name, {"shown": numbers.estimate(item), "method": item.method, "notes": item.notes, "n": _count(item.n)})
        for name, item in section.estimates.items()
    ]
    return {
        "key": key,
        "title": section.title,
        "sentences": section.sentences,
        "warnings": section.warnings,
        "drawings": drawings,
        "galleries": galleries,
        "estimates": estimates,
        "tables": section.tables,
    }


def _count(n: int) -> str:
    return f"{n:,}" if n else "exact"


def _table(
    environment: Environment,
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    sortable: bool,
    bars: Sequence[str] = (),
) -> Markup:
    values = [[_number(cell) for cell in row] for row in rows]
    numeric = [
        any(row[i] is not None for row in values)
        and all(value[i] is not None or _nothing(row[i]) for row, value in zip(rows, values, strict=True))
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
    texts = list(zip(*(numbers.column([row[i] for row in rows]) for i in range(len(columns))), strict=True))
    shown = [list(zip(*parts, numeric, strict=True)) for parts in zip(texts, values, lengths, strict=True)]
    return Markup(template.render(title=title, columns=columns, rows=shown, numeric=numeric, sortable=sortable))


def _nothing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and not math.isfinite(cell))


def _number(value: Any) -> float | None:
    """What a cell is sorted by, where it is a number."""
    if isinstance(value, Estimate):
        value = value.value
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return value if known else None


def _payload(drawings: Sequence[Drawing]) -> str:
    """What the script reads, safe inside a script element: no character in it can end the element."""
    content = {
        "colours": COLOURS,
        "width": charts.STATIC_WIDTH,
        "charts": {
            item.key: {
                "specs": item.specs,
                "on": item.on,
                "title": item.chart.title,
                "file": item.file,
                "zoom": item.zoom,
            }
            for item in drawings
        },
    }
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _script(with_charts: bool) -> str:
    return _read("page.js") if with_charts else ""


def _policy(scripts: Iterable[str]) -> str:
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    # Vega compiles its expressions with Function(), which is what unsafe-eval permits; inline text stays forbidden.
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src {allowed} 'unsafe-eval'"


def _css() -> str:
    return _read("page.css").replace("{{ light }}", LIGHT.css()).replace("{{ dark }}", DARK.css())


def _read(name: str) -> str:
    return resources.files("hardpan.report").joinpath(name).read_text(encoding="utf-8")


def _unbroken(value: Any) -> Any:
    # Browsers break a line after a dash, terminals do not: there a range stays together by itself.
    return _RANGE.sub("–\u2060", numbers.unbroken(value)) if type(value) is str else value


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("hardpan.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_unbroken,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment
