"""Records of the results become part of the site, so that a number's link leads to what made it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
# Where links of the repository lead, and where the site keeps the same files.
PLACES = {"reproductions/records": "records/reproductions", "bench/records": "records/bench"}


def on_files(files: Files, config: Any) -> Files:
    """Add the JSON records to what is built."""
    for place, kept in PLACES.items():
        for path in sorted((ROOT / place).rglob("*.json")):
            name = f"{kept}/{path.relative_to(ROOT / place).as_posix()}"
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Name the record under each page of docs/results, and point its links at the site's copies."""
    if page.file.src_uri.startswith("results/"):
        markdown += _record(Path(page.file.src_uri).name)
        for place, kept in PLACES.items():
            markdown = markdown.replace(f"](../../{place}/", f"](../{kept}/")
    return markdown


def _record(name: str) -> str:
    """What a page's numbers were made from, as the table of the results says it."""
    for line in (ROOT / "docs" / "results" / "index.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if len(cells) == 4 and f"]({name})" in cells[0]:
            return f"\n\n---\n\nMade by {cells[2]} from: {cells[3]}\n"
    return ""
