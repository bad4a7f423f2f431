"""Every kind of page, wide and narrow, light and dark: axe-core finds no violation."""

import numpy as np
import pytest
from tests.e2e.accessibility import violations
from tests.pages.samples import EVERY

from hardpan.estimates import Estimate
from hardpan.pages.galleries import gallery_chart
from hardpan.pages.html_page import view_page
from hardpan.pages.leaderboard.board import scores_raster
from hardpan.pages.sections import ProblemLine, Section, Table, Tile, View
from hardpan.report import Provenance

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
TILES = [
    {"group": "digits", "label": str(i), "suggested": "9", "row": f"test {i}", "id": f"e{i}"} for i in range(5)
]
GALLERY = gallery_chart("Five", np.zeros((5, 8, 8, 3), np.uint8), TILES, "Five dark squares.")
VIEW = View(
    "Audit of digits",
    "The best model has 0.6 % error.",
    sections=(
        Section(
            "Charts of every kind",
            ("One sentence.",),
            {"error": Estimate(0.1, 0.01, 0.08, 0.12, method="counted", n=100, notes=("a note",))},
            tuple(EVERY.values()),
            (Table("Counts", ("class", "n"), (("cat", 3), ("dog", 4)), bars=("n",)),),
            ("A warning.",),
            key="charts",
            short="Charts",
            folded=(Table("More", ("a",), ((1,),)), EVERY["bars"]),
            methods=("Counted.",),
        ),
        Section("Pictures", charts=(GALLERY, scores_raster(np.eye(4, 40)))),
    ),
    tiles=(Tile("Best error", "0.6 %", "of the test set"), Tile("Headroom", "at most 0.6 points")),
    provenance=Provenance(("A method.",), ("A paper.",), "hardpan audit digits", hashes={"data": "0" * 64}),
    name="digits",
    size="1,797 images, 10 classes",
    problems=(
        ProblemLine(
            "labels", "high", "About 17 labels are wrong (10–27)", "Look before you correct.", link="#charts"
        ),
        ProblemLine("copies", "medium", "3 copies", examples=GALLERY),
        ProblemLine("size", "low", "Models closer than 2 points cannot be ranked"),
        ProblemLine("fresh", "note", "Fresh data: not measured"),
    ),
    hero=(EVERY["composition"], EVERY["columns"]),
    links={"report.json": "report.json"},
)


# Labels of one axis, and numbers above columns, that touch each other.
TOUCHING = """
() => [...document.querySelectorAll(".live svg :is(.role-axis-label, .mark-text)")]
  .filter((group) => !group.matches(".mark-text") || group.closest("figure").ariaLabel.includes("tenth"))
  .flatMap((group) => {
    const boxes = [...group.querySelectorAll("text")]
      .filter((text) => text.textContent && text.getAttribute("opacity") !== "0")
      .map((text) => [text.textContent, text.getBoundingClientRect()]);
    return boxes.flatMap(([a, p], at) => boxes.slice(at + 1)
      .filter(([, q]) => p.left < q.right + 1 && q.left < p.right + 1 && p.top < q.bottom && q.top < p.bottom)
      .map(([b]) => [a, b]));
  })
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(view_page(VIEW, date="2026-11-16"), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (1280, "light"),
        (320, "dark"),
        pytest.param(1280, "dark", marks=pytest.mark.soak),
        pytest.param(320, "light", marks=pytest.mark.soak),
    ],
)
def test_a_report_has_no_violation_and_does_not_scroll_sideways(browser, path, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_function(f"document.querySelectorAll('.live:has(svg .mark-group)').length >= {len(EVERY)}")
    page.evaluate("document.querySelectorAll('details.fold').forEach((fold) => { fold.open = true; })")
    page.wait_for_timeout(300)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(TOUCHING) == []
    context.close()


def test_without_javascript_the_first_screen_says_everything(browser, path):
    context = browser.new_context(viewport={"width": 1280, "height": 800}, java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    for words in (
        VIEW.headline,
        VIEW.size,
        "hardpan audit digits",
        *(problem.title[:15] for problem in VIEW.problems),
    ):
        box = page.get_by_text(words, exact=False).first.bounding_box()
        assert box is not None
        assert box["y"] < 800
    picture = page.locator(".pictures .static svg").first.bounding_box()
    assert picture["y"] + picture["height"] < 800
    context.close()


def test_printed_everything_folded_is_open(browser, path):
    context = browser.new_context(viewport={"width": 1280, "height": 800}, java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert not page.get_by_text("Counted.").is_visible()
    page.emulate_media(media="print")
    assert page.get_by_text("Counted.").bounding_box()["height"] > 0
    context.close()
