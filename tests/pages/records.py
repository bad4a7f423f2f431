"""The page of a saved report against its record: what report.json alone gives must be on the page."""

from __future__ import annotations

import re
from pathlib import Path

from markupsafe import escape

from hardpan import files
from hardpan.pages import formatting
from hardpan.pages.sections import Table

MOST = 50  # cells of a column that are looked for


def check_saved(folder: Path) -> None:
    """Read report.json, make the view from it alone, and find its sentences and numbers on the page."""
    view = files.load(folder / "report.json").view()
    html = (folder / "index.html").read_text(encoding="utf-8")
    page = _plain(re.sub(r"<(script|style|svg)\b.*?</\1>", "", html, flags=re.DOTALL))
    page = re.sub(r'<span class="option">(.*?)</span>', r"\1", page)
    texts = [view.headline, *view.lede, *(tile.value for tile in view.tiles)]
    texts += [problem.title for problem in view.problems]
    texts += [section.title for section in view.sections[1:]]  # the first may be text and picture at the top
    for section in view.sections:
        texts += [*section.sentences, *section.warnings]
        texts += map(formatting.estimate, section.estimates.values())
        for table in (*section.tables, *(item for item in section.folded if isinstance(item, Table))):
            texts += (text for cells in zip(*table.rows, strict=True) for text in formatting.column(cells)[:MOST])
    missing = [text for text in texts if _plain(str(escape(formatting.unbroken(text)))) not in page]
    assert not missing, f"{folder}: the record has what the page has not: {missing[:3]}"


def _plain(text: str) -> str:
    return text.replace("\u2060", "").replace("\u00a0", " ").replace("\u202f", " ")
