"""The audit page of digits in a real browser."""

import re

import pytest

from hardpan import auditing, files
from hardpan.pages.html_page import view_page
from hardpan.pages.sections import Chart, Section, Table, View

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

OPEN_FIGURES = "figure[id]:not(.fold figure)"
LONGEST_LINE = """
() => {
  const longest = [0, ""];
  for (const block of document.querySelectorAll("p, li, dd, figcaption")) {
    const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
    const lines = new Map();
    while (walker.nextNode()) {
      const node = walker.currentNode;
      for (let i = 0; i < node.length; i++) {
        const range = document.createRange();
        range.setStart(node, i);
        range.setEnd(node, i + 1);
        const box = range.getBoundingClientRect();
        if (box.width) lines.set(Math.round(box.top), (lines.get(Math.round(box.top)) ?? "") + node.data[i]);
      }
    }
    for (const line of lines.values()) if (line.length > longest[0]) [longest[0], longest[1]] = [line.length, line];
  }
  return longest;
}
"""


@pytest.fixture(scope="module")
def digits_page(tmp_path_factory):
    return auditing.audit("digits", ensemble="none", flow="none").save(tmp_path_factory.mktemp("digits"))


@pytest.fixture(scope="module")
def open_figures(browser, digits_page):
    """How many charts are not inside a fold."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(digits_page.as_uri())
    count = page.locator(OPEN_FIGURES).count()
    context.close()
    return count


class Visit:
    """An open page, with everything that it complained of or asked for."""

    def __init__(self, browser, path, **settings):
        self.context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | settings))
        self.complaints, self.requests = [], []
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def drawn(self):
        figures = self.page.locator(OPEN_FIGURES).count()
        drawn = "document.querySelectorAll('.live:has(svg .mark-group)')"
        self.page.wait_for_function(f"{drawn}.length >= {figures}")
        return self.page.evaluate(f"{drawn}.length")


@pytest.fixture
def visit(browser):
    opened = []

    def start(path, **settings):
        opened.append(Visit(browser, path, **settings))
        return opened[-1]

    yield start
    for item in opened:
        item.context.close()


@pytest.fixture(scope="module")
def shown(browser, digits_page):
    """The page with its charts drawn, for tests that find it in any state of its buttons: it is opened once."""
    seen = Visit(browser, digits_page)
    seen.drawn()
    yield seen
    seen.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (768, "dark"), (320, "light")])
def test_charts_are_drawn_quietly_offline_and_without_scrolling_sideways(
    visit, digits_page, open_figures, width, scheme
):
    seen = visit(digits_page, viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True)
    assert seen.drawn() == open_figures >= 2
    assert seen.complaints == []
    assert [url for url in seen.requests if not url.startswith(("file:", "data:"))] == []
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for figure in seen.page.locator(".live svg").all():
        assert figure.bounding_box()["width"] <= width


def test_the_page_is_small_and_says_the_same_as_the_record(shown, digits_page):
    assert digits_page.stat().st_size < 3_000_000
    report = files.load(digits_page.parent / "report.json")
    view = report.view()
    text = plain(shown.page.inner_text("body"))
    assert view.headline in text
    for tile in view.tiles:
        assert tile.title in text
        assert tile.value in text
    everything = plain(shown.page.text_content("body"))  # small effects are in a fold
    for problem in view.problems:
        assert problem.title in everything


def plain(text):
    return text.replace("\u00a0", " ").replace("\u2060", "")


def test_the_first_screen_has_the_verdict_the_problems_and_one_picture(shown):
    for part in ("h1", ".problems li", ".pictures svg"):
        box = shown.page.locator(part).first.bounding_box()
        assert box["y"] < 800
    assert shown.page.evaluate("document.documentElement.scrollHeight") < 8 * 800


def test_dark_mode_reaches_the_charts(visit, shown, digits_page):
    dark = visit(digits_page, color_scheme="dark")
    dark.drawn()
    colours = {}
    for scheme, seen in (("light", shown), ("dark", dark)):
        colours[scheme] = seen.page.evaluate(
            "[getComputedStyle(document.body).backgroundColor,"
            " getComputedStyle(document.querySelector('.live svg .mark-text text')).fill,"
            " getComputedStyle(document.querySelector('.static svg .mark-text text')).fill]"
        )
    assert not set(colours["light"]) & set(colours["dark"])


def test_lines_have_at_most_75_characters(shown):
    length, line = shown.page.evaluate(LONGEST_LINE)
    assert length <= 75, line


def test_without_javascript_the_pictures_and_tables_are_there(visit, digits_page):
    seen = visit(digits_page, java_script_enabled=False)
    assert seen.page.locator(f"{OPEN_FIGURES} .static svg").count() >= 2
    for picture in seen.page.locator(f"{OPEN_FIGURES} .static svg").all():
        assert picture.is_visible()
    assert not seen.page.locator("button").first.is_visible()
    assert seen.page.get_by_text("CSV").first.is_visible()


def test_the_keyboard_reaches_everything(visit, digits_page):
    seen = visit(digits_page)
    seen.drawn()
    reachable = "a[href], button, summary, [tabindex='0']"
    expected = seen.page.evaluate(
        f'[...document.querySelectorAll("{reachable}")].filter((e) => e.checkVisibility()).length'
    )
    seen.page.evaluate(
        "() => { window.reached = new Set();"
        " document.addEventListener('focusin', (event) => window.reached.add(event.target)); }"
    )
    for _ in range(expected + 2):
        seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("window.reached.size") >= expected


def test_the_axis_can_be_switched_and_the_chart_stays(shown):
    figure = shown.page.locator(f"{OPEN_FIGURES}:has([data-switch])").first
    button = figure.locator("[data-switch]")
    before = button.get_attribute("aria-pressed")
    text = figure.locator(".live svg").text_content()
    button.click()
    assert button.get_attribute("aria-pressed") != before
    shown.page.wait_for_function(
        "([id, old]) => document.querySelector(`#${id} .live svg`)?.textContent !== old",
        arg=[figure.get_attribute("id"), text],
    )
    assert ("log scale" in figure.locator(".live svg").text_content()) == (before == "false")
    assert shown.complaints == []


def test_tables_sort_by_number(shown):
    shown.page.locator("#classes .fold > summary").first.click()
    shown.page.get_by_role("button", name="examples", exact=True).click()
    column = "document.querySelector('#classes table[data-sortable]').tBodies[0].rows"
    values = shown.page.evaluate(f"[...{column}].map((row) => Number(row.cells[1].dataset.value))")
    assert len(values) == 10
    assert values == sorted(values)


def test_it_prints_on_a4_with_every_chart(visit, digits_page):
    seen = visit(digits_page)
    seen.drawn()
    printed = seen.page.pdf(format="A4")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 12
    seen.page.emulate_media(media="print", color_scheme="dark")
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for figure in seen.page.locator(OPEN_FIGURES).all():
        assert figure.locator(".static svg").is_visible()
        assert not figure.locator(".live").is_visible()
        assert figure.evaluate("(e) => getComputedStyle(e).breakInside") == "avoid"


def test_a_hostile_class_name_does_nothing(visit, tmp_path):
    evil = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    rows = ({"name": evil, "value": 3, "low": 1, "high": 4, "role": "refuted", "reason": evil},)
    drawings = tuple(Chart(kind, evil, rows, evil, {"x_title": evil}) for kind in ("bars", "intervals"))
    section = Section(evil, (evil,), charts=drawings, tables=(Table(evil, (evil,), ((evil,),)),))
    path = tmp_path / "evil.html"
    path.write_text(view_page(View(evil, evil, (section,))), encoding="utf-8")
    seen = visit(path)
    assert seen.drawn() == 2
    box = seen.page.wait_for_selector(".live svg .role-mark path", state="attached").bounding_box()
    seen.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    seen.page.wait_for_selector("#vg-tooltip-element.visible")
    seen.page.get_by_role("button", name=evil).click()
    assert seen.page.evaluate("window.hacked") is None
    assert seen.page.locator("img").count() == 0
    assert seen.complaints == []
