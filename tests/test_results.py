"""Every page of results says which record its numbers come from, and the record is there."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
PAGES = sorted(path.name for path in RESULTS.glob("*.md") if path.name != "index.md")


def listed() -> dict[str, list[Path]]:
    """The records by page, as the table of the results names them."""
    found = {}
    for line in (RESULTS / "index.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        page = re.search(r"\]\(([\w.]+\.md)\)", cells[0])
        if page:
            found[page[1]] = [(RESULTS / target).resolve() for target in re.findall(r"\]\(([^)]+)\)", cells[-1])]
    return found


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_its_record(page):
    kept = listed()[page]
    assert kept, f"{page} names no record"
    for path in kept:
        assert json.loads(path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_is_not_reproduced(page):
    _, heading, rest = (RESULTS / page).read_text(encoding="utf-8").partition("## What is not reproduced and why\n")
    assert heading
    assert rest.strip()


def test_every_record_belongs_to_a_page():
    named = {path for kept in listed().values() for path in kept}
    there = {
        path
        for place in ("bench/records", "reproductions/records")
        for path in (ROOT / place).rglob("*.json")
        if path.parent.name != "published_audits"  # tests/test_published_audits.py
    }
    assert there - named == set()
