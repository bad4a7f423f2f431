"""Every page of results says which record its numbers come from, and the record is there."""

import json
import re
from pathlib import Path

import pytest

from hardpan import files

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


def test_every_record_belongs_to_a_page():
    named = {path for kept in listed().values() for path in kept}
    there = {
        path for place in ("bench/records", "reproductions/records") for path in (ROOT / place).rglob("*.json")
    }
    assert there - named == set()


def test_the_table_of_the_estimators_is_made_from_its_record():
    from hardpan.pages.studies import bench_markdown

    made = bench_markdown(files.load(ROOT / "reproductions" / "records" / "floor_bench.json"))
    shown = (RESULTS / "floor_bench.md").read_text(encoding="utf-8")
    assert [line for line in shown.splitlines() if line[:1] == "|"] == [
        line for line in made.splitlines() if line[:1] == "|"
    ]
