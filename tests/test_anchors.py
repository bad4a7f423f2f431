"""Links of the documentation to a part of a page: the heading is there."""

import re
from pathlib import Path

import pytest
from markdown.extensions.toc import slugify

DOCS = Path(__file__).resolve().parent.parent / "docs"
LINK = re.compile(r"\]\(([^)\s]*)#([^)\s]+)\)")
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def text_of(path: Path) -> str:
    """A page without its code, with what it takes in from elsewhere."""
    text = path.read_text(encoding="utf-8")
    included = re.findall(r'^--8<-- "([^"]+)"$', text, re.MULTILINE)
    parts = [text, *((DOCS.parent / name).read_text(encoding="utf-8") for name in included)]
    return re.sub(r"^```.*?^```$", "", "\n".join(parts), flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+?)\s*$", text_of(path), re.MULTILINE)
    plain = (re.sub(r"`|\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {slugify(heading, "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES)
def test_links_to_a_heading_find_it(page):
    for target, anchor in LINK.findall(text_of(DOCS / page)):
        place = (DOCS / page).parent / target if target else DOCS / page
        if "://" not in target and place.suffix == ".md" and "api" not in place.parts:
            assert anchor in anchors(place), f"{page} links to {target}#{anchor}, which is not there"
