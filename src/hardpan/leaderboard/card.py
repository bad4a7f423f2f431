"""A card for a README: a Markdown table and an SVG badge of a paired comparison."""

from __future__ import annotations

from html import escape
from pathlib import Path

from hardpan import formatting
from hardpan.leaderboard.pairs import PairedComparison
from hardpan.report.files import write_together

_COLOURS = {"better": "#00795a", "no difference": "#57606a", "worse": "#b04300"}


def verdict(result: PairedComparison) -> str:
    """How the second model compares with the first: "better", "worse" or "no difference" beyond the interval."""
    if result.difference.high < 0:
        return "better"
    return "worse" if result.difference.low > 0 else "no difference"


def markdown(result: PairedComparison) -> str:
    """The comparison as a Markdown table.

    Example:
        >>> from hardpan import Outcomes, leaderboard
        >>> scores = [[1] * 30 + [0] * 10, [1] * 20 + [0] * 20]
        >>> result = leaderboard.compare(Outcomes.from_arrays(scores, ["main", "candidate"]), "main", "candidate")
        >>> print(markdown(result).splitlines()[2])
        | main | 75.0 % | |
    """
    d = result.difference
    turned = type(d)(-d.value, d.stderr, -d.high, -d.low, d.confidence, d.method, d.n)
    rows = (
        ("model", "score", f"difference ({100 * d.confidence:g} % interval)"),
        ("---", "---", "---"),
        (_cell(result.first), f"{100 * result.score_first:.1f} %", ""),
        (
            _cell(result.second),
            f"{100 * result.score_second:.1f} %",
            f"{formatting.signed(turned)}: {verdict(result)}",
        ),
    )
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines = [line.replace("|  |", "| |") for line in lines]
    return "\n".join(lines) + f"\n\n{result.items:,} shared items; {d.method}; p = {result.p_value:.2g}.\n"


def badge(result: PairedComparison) -> str:
    """The comparison as a small SVG picture: what was compared, and the verdict."""
    left, right = f"{result.second} vs {result.first}", verdict(result)
    widths = [round(6.6 * len(text)) + 14 for text in (left, right)]
    total = sum(widths)
    label = escape(f"{left}: {right}", quote=True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="20" role="img" aria-label="{label}">'
        f"<title>{label}</title>"
        f'<rect width="{total}" height="20" rx="3" fill="#444c56"/>'
        f'<rect x="{widths[0]}" width="{widths[1]}" height="20" rx="3" fill="{_COLOURS[right]}"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="{widths[0] / 2:g}" y="14">{escape(left)}</text>'
        f'<text x="{widths[0] + widths[1] / 2:g}" y="14">{escape(right)}</text></g></svg>\n'
    )


def write_card(result: PairedComparison, folder: Path) -> None:
    """Write card.md and badge.svg into a folder."""
    write_together(folder, {"badge.svg": badge(result), "card.md": markdown(result)})


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
