"""Every kind of chart in a real browser: hover, zoom, select, download, and names for a screen reader."""

import csv
import dataclasses
import io
import itertools
import json

import numpy as np
import pytest
from PIL import Image
from tests.pages.samples import EVERY, FAR, floors

from hardpan.pages import charts
from hardpan.pages.html_page import view_page
from hardpan.pages.sections import Section, Table, View

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
KINDS = list(charts.KINDS)
FLOORS = ("2.1 × 10⁻⁶ ± 3 × 10⁻⁷", "0.3 % (0.0–1.0 %)", "1.1 % (0.3–1.9 %)", "9 × 10⁻⁵ % to 2.8 %")
CHANGES = (
    "+1.9 points (+0.7 to +2.4)",
    "−12.0 points (−15.0 to −9.0)",
    "−3.0 points (−4.0 to −2.0)",
    "+10.2 points",
)
SORTED = Table("T", ("a", "change", "floor"), tuple(zip(range(4), CHANGES, FLOORS, strict=True)))


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    """One page with a chart of every kind."""
    path = tmp_path_factory.mktemp("charts") / "index.html"
    section = Section("Charts", charts=tuple(EVERY[kind] for kind in KINDS), tables=(SORTED,))
    path.write_text(view_page(View("Every kind", "Charts.", (section,))), encoding="utf-8")
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    opened = context.new_page()
    opened.complaints = []
    opened.on("console", lambda message: opened.complaints.append(message.text))
    opened.on("pageerror", lambda error: opened.complaints.append(str(error)))
    opened.goto(path.as_uri())
    opened.wait_for_function("[...document.querySelectorAll('figure')].every((f) => f.querySelector('.live svg'))")
    opened.wait_for_timeout(100)  # charts are linked to one another right after they are drawn
    yield opened
    context.close()
    assert opened.complaints == []


def figure(page, kind):
    return page.locator(f"#chart-{KINDS.index(kind) + 1}")


def marks(page, kind):
    """Middles of the marks of a chart on the screen, those with a datum of their own first."""
    found = figure(page, kind)
    found.scroll_into_view_if_needed()
    return found.evaluate(
        """(figure) => ["mark-symbol", "mark-rect", "mark-rule", "mark-text"].flatMap((kind) =>
             [...figure.querySelectorAll(`.live svg .${kind}.role-mark :is(path, line, text)`)].flatMap((mark) => {
               const box = mark.getBoundingClientRect();
               return [0.5, 0.3].map((part) => [box.x + part * box.width, box.y + 0.5 * box.height]);
             }))"""
    )


def comes_true(page, condition):
    """Whether a condition holds within ten seconds: pages answer when the machine lets them."""
    for _ in range(400):
        if condition():
            return True
        page.wait_for_timeout(25)
    return False


@pytest.mark.parametrize("kind", KINDS)
def test_a_mark_tells_its_numbers_on_hover(page, kind):
    shown = page.locator("#vg-tooltip-element.visible")
    for patience in (30, 1000):  # a short look at every mark first, then a long one
        for x, y in marks(page, kind):
            page.mouse.move(x, y)
            page.wait_for_timeout(patience)
            if shown.count() and shown.inner_text().strip():
                page.mouse.move(1, 1)
                return
    pytest.fail(f"no mark of {kind} has a tooltip")


def axis_labels(page, kind):
    return figure(page, kind).evaluate(
        "(figure) => [...figure.querySelectorAll('.live svg .role-axis-label text')].map((t) => t.textContent)"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_zoom_in_out_and_back_to_the_whole(page, kind):
    found = figure(page, kind)
    assert found.locator("[data-zoom]").count() == bool(charts.KINDS[kind].zoom)
    if not charts.KINDS[kind].zoom:
        return
    whole = axis_labels(page, kind)
    assert not found.locator("[data-closer]").is_visible()
    found.locator("[data-zoom]").click()
    assert found.locator("[data-zoom]").get_attribute("aria-pressed") == "true"
    found.get_by_label("Zoom in").press("Enter")
    page.wait_for_function(
        "([id, old]) => JSON.stringify([...document.querySelectorAll(`#${id} .live svg .role-axis-label text`)]"
        ".map((text) => text.textContent)) !== old",
        arg=[found.get_attribute("id"), json.dumps(whole, ensure_ascii=False, separators=(",", ":"))],
    )
    close = axis_labels(page, kind)
    found.get_by_label("Zoom out").click()
    assert comes_true(page, lambda: axis_labels(page, kind) != close)
    plot = found.locator(".live svg path.background").first.bounding_box()
    page.mouse.move(plot["x"] + 0.5 * plot["width"], plot["y"] + 0.5 * plot["height"])
    before, scrolled = axis_labels(page, kind), page.evaluate("scrollY")
    page.mouse.wheel(0, -400)
    assert comes_true(page, lambda: axis_labels(page, kind) != before)
    assert page.evaluate("scrollY") == scrolled
    found.locator("[data-zoom]").click()
    assert comes_true(page, lambda: axis_labels(page, kind) == whole)
    assert not found.locator("[data-closer]").is_visible()


def faded(page, kind):
    return figure(page, kind).evaluate(
        "(figure) => [...figure.querySelectorAll('.live svg .role-mark:not(.mark-area) *')]"
        ".map((mark) => Number(mark.getAttribute('opacity') ?? 1)).filter((o) => o > 0 && o < 0.2).length"
    )


@pytest.mark.parametrize("kind", sorted(kind for kind in KINDS if charts.KINDS[kind].pick))
def test_a_click_selects_and_the_others_fade(page, kind):
    found = figure(page, kind)
    names = list(dict.fromkeys(str(row[charts.KINDS[kind].pick]) for row in EVERY[kind].rows))
    assert faded(page, kind) == 0
    for x, y in marks(page, kind):
        page.mouse.click(x, y)
        page.wait_for_timeout(60)
        said = found.locator(".picked").inner_text()
        if said:
            break
    else:
        pytest.fail(f"no mark of {kind} can be selected")
    assert any(f"Selected: {name}." in said for name in names)
    assert comes_true(page, lambda: (faded(page, kind) > 0) == (len(names) > 1))
    page.keyboard.press("Escape")
    assert comes_true(page, lambda: faded(page, kind) == 0 and found.locator(".picked").inner_text() == "")


def test_what_is_selected_in_one_chart_stands_out_in_the_others(page):
    x, y = marks(page, "slope")[0]
    page.mouse.click(x, y)
    mine, other = (figure(page, kind).locator(".picked") for kind in ("slope", "deviations"))
    assert comes_true(page, lambda: mine.inner_text().startswith("Selected: "))
    assert comes_true(page, lambda: other.inner_text() == mine.inner_text())
    x, y = marks(page, "slope")[0]  # the words under charts above it moved it
    page.mouse.click(x + 20, y + 25)  # beside the marks
    assert comes_true(page, lambda: other.inner_text() == "")


FILED = ("bars", "matrix")  # the other kinds go the same way


@pytest.mark.parametrize("kind", [k if k in FILED else pytest.param(k, marks=pytest.mark.soak) for k in KINDS])
def test_downloads(page, kind):
    page.wait_for_timeout(600)  # Chromium drops downloads beyond ten in a burst
    found = figure(page, kind)
    kept = {}
    for tool in ("[data-svg]", "[data-png]", "a[download]"):
        with page.expect_download() as waiting:
            found.locator(tool).click()
        kept[tool] = (waiting.value.suggested_filename, waiting.value.path().read_bytes())
    name, svg = kept["[data-svg]"]
    assert name.endswith(".svg")
    assert svg.startswith(b"<svg")
    assert EVERY[kind].title.encode() in svg
    assert b"var(--" not in svg
    name, png = kept["[data-png]"]
    assert name.endswith(".png")
    picture = np.asarray(Image.open(io.BytesIO(png)).convert("L"))
    assert picture.shape[1] >= 1280
    assert picture.min() < 200 < picture.max(), "an empty picture"
    name, text = kept["a[download]"]
    assert name.endswith(".csv")
    rows = list(csv.reader(io.StringIO(text.decode())))
    assert len(rows) == len(EVERY[kind].rows) + 1
    assert rows[0] == list(dict.fromkeys(key for row in EVERY[kind].rows for key in row))


def test_a_refuted_name_is_struck_from_end_to_end(page):
    """A line over the text itself: the browser measures it, in the live chart, the static one and the download."""
    found = figure(page, "intervals")
    refuted = [row["name"] for row in EVERY["intervals"].rows if row["role"] == "refuted"]
    for place in (".live", ".static"):
        struck = found.evaluate(
            "(figure, place) => [...figure.querySelectorAll(`${place} svg text`)]"
            ".filter((text) => getComputedStyle(text).textDecorationLine === 'line-through')"
            ".map((text) => text.textContent)",
            place,
        )
        assert len(struck) == len(refuted)
        assert all(text.startswith(name) for text, name in zip(struck, refuted, strict=True))
    with page.expect_download() as waiting:
        found.locator("[data-svg]").click()
    assert waiting.value.path().read_bytes().count(b"line-through") == len(refuted)


def test_a_screen_reader_finds_a_name_for_everything(page):
    nameless = page.evaluate(
        """() => {
             const named = "button, a[href], input, select, summary, [role=img], [role=region], figure";
             const name = (e) => e.getAttribute("aria-label") || e.labels?.[0]?.textContent || e.textContent;
             return [...document.querySelectorAll(named)].filter((e) => e.checkVisibility() && !name(e).trim())
               .map((e) => e.outerHTML.slice(0, 120));
           }"""
    )
    assert nameless == []
    for kind in KINDS:
        picture = figure(page, kind).get_by_role("img")
        assert picture.first.get_attribute("aria-label") == EVERY[kind].description
    levels = page.evaluate(
        "[...document.querySelectorAll('h1, h2, h3, h4')].map((heading) => Number(heading.tagName[1]))"
    )
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_a_tooltip_says_what_lies_left_of_the_axis(browser, tmp_path):
    """Hovered in a browser: the arrow."""
    chart = floors(FAR)
    section = Section("Floor", charts=(dataclasses.replace(chart, options=dict(chart.options) | {"log": True}),))
    (tmp_path / "index.html").write_text(view_page(View("t", "h", (section,))), encoding="utf-8")
    opened = browser.new_page(viewport={"width": 390, "height": 900})
    opened.goto((tmp_path / "index.html").as_uri())
    opened.wait_for_selector(".live svg .mark-symbol path")
    said = []
    for mark in opened.locator(".live svg .mark-symbol.role-mark path").all():
        mark.hover(force=True)
        opened.wait_for_selector("#vg-tooltip-element.visible")
        said.append(opened.locator("#vg-tooltip-element").inner_text())
    assert sum("2.1 × 10⁻¹³" in text and "Lies to the left of this axis" in text for text in said) == 1
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    opened.close()


def test_numbers_with_intervals_sort_by_their_value(page):
    page.get_by_role("button", name="change", exact=True).click()
    rows = "[...document.querySelectorAll('table[data-sortable]')].at(-1).tBodies[0].rows"
    assert page.evaluate(f"[...{rows}].map((row) => row.cells[0].textContent)") == ["1", "2", "0", "3"]


def test_powers_of_ten_sort_among_percents(page):
    page.get_by_role("button", name="floor", exact=True).click()
    rows = "[...document.querySelectorAll('table[data-sortable]')].at(-1).tBodies[0].rows"
    assert page.evaluate(f"[...{rows}].map((row) => row.cells[0].textContent)") == ["3", "0", "1", "2"]
