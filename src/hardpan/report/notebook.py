"""The first screen of a report inside a notebook: static, small, in the colours of the notebook."""

from __future__ import annotations

import html

from hardpan import formatting
from hardpan.files import clean_text
from hardpan.report.base import View
from hardpan.report.palette import LIGHT

_STYLE = """
.hp-view{max-width:60rem;line-height:1.45;font-size:14px}
.hp-view .hp-top{opacity:.75;font-size:12px}
.hp-view .hp-headline{font-size:1.35em;font-weight:650;margin:.3em 0 .6em}
.hp-view .hp-hero{display:flex;flex-wrap:wrap;gap:1rem 2rem;align-items:flex-start}
.hp-view .hp-hero>*{flex:1 1 22rem;min-width:0;max-width:30rem}
.hp-view ol{list-style:none;margin:0;padding:0}
.hp-view li{display:flex;gap:.6em;margin:0;padding:.35em 0;border-top:1px solid #8884}
.hp-view li:first-child{border:0}
.hp-view li i{flex:none;width:.7em;height:.7em;border-radius:50%;margin-top:.4em}
.hp-view small{display:block;opacity:.75;font-size:.9em}
.hp-view svg{width:100%;height:auto}
.hp-view table{border-collapse:collapse;margin:.3em 0}
.hp-view td{padding:.1em 1.2em .1em 0;text-align:left}
"""
_DOTS = {"high": LIGHT.ceiling, "medium": LIGHT.warm, "low": LIGHT.floor, "note": "#8a93a0"}


def first_screen(view: View) -> str:
    """Headline, problems, the picture and the numbers of a report, without scripts.

    Example:
        >>> first_screen(View("Audit", "Two <classes>."))[-57:]
        '<div class="hp-headline">Two &lt;classes&gt;.</div></div>'
    """
    from hardpan.report.drawing import notebook_svg

    top = " · ".join(text for text in (view.name or view.title, view.size) if text)
    body = f'<div class="hp-top">{_text(top)}</div><div class="hp-headline">{_text(view.headline)}</div>'
    blocks = []
    if view.problems:
        items = (
            f'<li><i style="background:{_DOTS[item.severity]}"></i><div>{_text(item.title)}'
            f"{f'<small>{_text(item.detail)}</small>' if item.detail else ''}</div></li>"
            for item in view.problems
        )
        blocks.append(f"<div><b>Problems, worst first</b><ol>{''.join(items)}</ol></div>")
    charts = view.hero or tuple(chart for section in view.sections for chart in section.charts)[:1]
    pictures = [f"<b>{_text(chart.title)}</b>{svg}" for chart in charts if (svg := notebook_svg(chart))]
    if pictures:
        blocks.append(f"<div>{''.join(pictures)}</div>")
    if blocks:
        body += f'<div class="hp-hero">{"".join(blocks)}</div>'
    tiles = [tile for tile in view.tiles if tile.value]
    if tiles:
        rows = (f"<tr><td>{_text(tile.title)}</td><td><b>{_text(tile.value)}</b></td></tr>" for tile in tiles)
        body += f"<table>{''.join(rows)}</table>"
    return f'<div class="hp-view"><style>{_STYLE}</style>{body}</div>'


def _text(value: str) -> str:
    return html.escape(formatting.unbroken(clean_text(value, lines=True)), quote=True)
