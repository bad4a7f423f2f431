"""Hooks of the site: records of results and Markdown for agents are published; API pages start with functions."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from hardpan.lazy import imported_names

ROOT = Path(__file__).resolve().parent.parent
# Where links of the repository lead, and where the site keeps the same files.
PLACES = {"reproductions/records": "records/reproductions", "bench/records": "records/bench"}

MARKDOWN: dict[str, tuple[str, str]] = {}  # title and text of every page by its source


def on_files(files: Files, config: Any) -> Files:
    """Add the JSON records to what is built."""
    for place, kept in PLACES.items():
        for path in sorted((ROOT / place).rglob("*.json")):
            name = f"{kept}/{path.relative_to(ROOT / place).as_posix()}"
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Name the record under each page of docs/results; divide each API page into functions and results."""
    if page.file.src_uri.startswith("api/"):
        markdown = WHOLE_PACKAGE.sub(_by_kind, markdown)
    if page.file.src_uri.startswith("results/"):
        markdown += _record(Path(page.file.src_uri).name)
    if page.file.src_uri.startswith(("results/", "audits/")):
        for place, kept in PLACES.items():
            markdown = markdown.replace(f"](../../{place}/", f"](../{kept}/")
    MARKDOWN[page.file.src_uri] = str(page.title), markdown
    return markdown


def on_post_build(config: Any) -> None:
    """Write the Markdown of every page beside it, and llms.txt, which lists the pages."""
    site = Path(config.site_dir)
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    for name, (title, text) in MARKDOWN.items():
        (site / name).write_text(text, encoding="utf-8")
        lines.append(f"- [{title}]({name})")
    lines += ["- [JSON Schema of every report](schema.json)", ""]
    (site / "llms.txt").write_text("\n".join(lines), encoding="utf-8")


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Name the search for screen readers; an empty cell of a table's head is no heading."""
    dialog = 'data-md-component="search" role="dialog"'
    return output.replace(dialog, f'{dialog} aria-label="Search"').replace("<th></th>", "<td></td>")


# A package, or a list of its members: its names are listed by kind.
WHOLE_PACKAGE = re.compile(
    r"^(::: (hardpan[\w.]*)\n    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n)"
    r"(?:      members: \[(\w[\w, ]*)\]\n)?(?!      )",
    re.MULTILINE,
)


def _by_kind(match: re.Match[str]) -> str:
    """The package's own words, then the functions that it exports, then its classes and constants."""
    head, package, listed = match.groups()
    kinds: dict[str, list[str]] = {"Functions": [], "Classes": [], "Constants": []}
    for name in re.split(r",\s*", listed) if listed else _exported(package):
        kind = "Constants" if name.isupper() else "Classes" if name[:1].isupper() else "Functions"
        kinds[kind].append(name)
    parts = [head + "      members: false\n"]
    for title, names in kinds.items():
        if names:
            parts.append(f"## {title}\n")
            parts += [f"::: {package}.{name}\n    options:\n      heading_level: 3\n" for name in names]
    return "\n".join(parts) if len(parts) > 1 else match[0]


def _exported(package: str) -> list[str]:
    """The names of ``__all__``, or those that a package imports (``hardpan.lazy``), without importing anything."""
    path = ROOT / "src" / Path(*package.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not path.is_file():
        return []
    source = path.read_text(encoding="utf-8")
    names: list[str] = []
    if "\nexports(__name__)" in source:
        names = sorted(imported_names(source, package))
    for node in ast.parse(source).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            names = ast.literal_eval(node.value)
    return [name for name in names if not name.isupper() and name[:2] != "__"]


def _record(name: str) -> str:
    """What a page's numbers were made from, as the table of the results says it."""
    for line in (ROOT / "docs" / "results" / "index.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if len(cells) == 4 and f"]({name})" in cells[0]:
            return f"\n\n---\n\nComputed by {cells[2]} from: {cells[3]}\n"
    return ""
