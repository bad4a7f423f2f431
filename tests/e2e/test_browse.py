"""The explorer in a real browser, served by the real command."""

import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from playwright.sync_api import expect
from tests.e2e.accessibility import violations

from hardpan import auditing, confusion, files
from hardpan.auditing import example_table
from hardpan.confusion.label_review import LabelReview
from hardpan.data.dataset import Dataset
from hardpan.data.opening import open_corrected
from hardpan.pages.galleries import gallery_chart, gallery_thumbnails
from hardpan.pages.html_page import view_page
from hardpan.pages.sections import Section, View

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


class Served(NamedTuple):
    address: str
    folder: Path


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """``hardpan browse`` over digits with made scores: an example's confusion is its row number over 1,000."""
    dataset = Dataset.open("digits")
    parts = dataset.splits()
    names = {"train": parts.train, "validation": parts.validation, "test": parts.test}
    rows = np.arange(len(dataset))
    columns = {"confusion": rows / 1000, "correct: tree": rows % 2 == 0, "correct: forest": rows % 3 > 0}
    table = example_table.join_example_table(dataset, names, columns)
    folder = tmp_path_factory.mktemp("audit") / "digits"
    files.write_together(folder, example_table.example_table_files(table, dataset))
    pictures = gallery_thumbnails(dataset.x[:2], 0.0, 16.0)
    tiles = [{"group": "", "id": str(dataset.ids[row]), "label": str(row), "row": f"{row}"} for row in range(2)]
    section = Section("Hard", charts=(gallery_chart("Two digits", pictures, tiles, "Two digits."),))
    report = view_page(View("Audit", "Fine.", (section,)))
    (folder / "index.html").write_text(report, encoding="utf-8")
    command = [sys.executable, "-m", "hardpan", "browse", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        yield Served(re.search(r"http://\S+", server.stdout.readline()).group(), folder)
        server.terminate()


@pytest.fixture
def reviewed(tmp_path):
    """The folder of an audit of digits whose models are one step off in every tenth row."""
    dataset, rows = Dataset.open("digits"), np.arange(1797)
    predicted = np.where(rows % 10 == 0, (dataset.labels + 1) % 10, dataset.labels)
    names = np.array(dataset.class_names, dtype=object)
    columns = {
        "suggested_label": np.where(predicted == dataset.labels, None, names[predicted]),
        "label_rank": np.argsort(np.argsort(predicted == dataset.labels, kind="stable")) + 1.0,
        "label_probability": np.where(predicted == dataset.labels, 0.9, 0.1),
    }
    table = example_table.join_example_table(dataset, {"test": rows[:500], "train": rows[500:]}, columns)
    files.write_together(tmp_path / "audit", example_table.example_table_files(table, dataset))
    return tmp_path / "audit"


@pytest.fixture
def page(browser, served):
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    opened = context.new_page()
    opened.complaints = []
    opened.on("console", lambda message: opened.complaints.append(message.text))
    opened.on("pageerror", lambda error: opened.complaints.append(str(error)))
    opened.goto(served.address)
    opened.wait_for_selector("body[data-ready]")
    yield opened
    assert opened.complaints == []
    context.close()


def names(page):
    return page.locator(".gallery .more").all_inner_texts()


def test_the_most_confusing_come_first_and_pages_turn(page):
    assert names(page)[:2] == ["1.80", "1.79"]
    page.get_by_role("button", name="Next").click()
    expect(page.locator("#where")).to_contain_text("121–240")
    assert names(page)[0] == "1.68"
    page.reload()
    expect(page.locator("#where")).to_contain_text("121–240")


def test_filters_narrow_and_the_subset_is_what_is_shown(page, tmp_path):
    dataset = Dataset.open("digits")
    page.get_by_label("Confusion score (bits): at least").fill("1.5")
    page.get_by_role("group", name="Label").get_by_label("7", exact=True).check()
    wanted = {str(dataset.ids[row]) for row in range(1500, 1797) if dataset.labels[row] == 7}
    expect(page.locator("#count")).to_contain_text(f"{len(wanted)} of")
    with page.expect_download() as download:
        page.get_by_role("button", name=re.compile("Export all")).click()
    download.value.save_as(tmp_path / "subset.json")
    assert set(confusion.load_subset(tmp_path / "subset.json").ids) == wanted
    page.get_by_role("button", name="Clear all").click()
    expect(page.locator("#count")).to_contain_text("1,797 of")


def test_selected_by_keyboard_and_exported(page, tmp_path):
    dataset = Dataset.open("digits")
    box = page.locator(".gallery input").first
    box.focus()
    page.keyboard.press("Space")
    assert page.locator("#chosen").inner_text() == "1 selected"
    with page.expect_download() as download:
        page.get_by_role("button", name="Export the selected").press("Enter")
    download.value.save_as(tmp_path / "subset.json")
    assert confusion.load_subset(tmp_path / "subset.json").ids.tolist() == [str(dataset.ids[1796])]


def test_the_story_of_an_example_and_the_table(page):
    dataset = Dataset.open("digits")
    page.locator(".gallery .open").first.click()
    story = page.get_by_role("dialog")
    assert str(dataset.ids[1796]) in story.inner_text()
    assert "1.80" in story.inner_text()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="As a table").click()
    page.wait_for_selector("table")
    assert page.locator("tbody tr").count() == 120
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_keyboard_alone_relabels_and_tags(page, served):
    dataset = Dataset.open("digits")
    page.locator("h1").click()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("t")
    page.keyboard.type("doubtful")
    page.keyboard.press("Tab")
    expect(page.locator("#story-tags")).to_contain_text("doubtful")
    page.locator("#relabel").select_option("3")
    expect(page.locator("#corrections")).to_contain_text("(1)")
    page.locator("#story-title").click()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#story-tags")).to_be_empty()
    page.keyboard.press("Escape")
    expect(page.locator(".gallery .corrected")).to_have_text("corrected: 3")
    expect(page.locator("#results .open").nth(2)).to_be_focused()  # the arrows go on from the example that was open
    corrected = open_corrected(dataset, served.folder / "corrections.csv")
    changed = np.flatnonzero(corrected.labels != dataset.labels)
    assert changed.tolist() == [1795]
    assert corrected.labels[1795] == 3
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    assert violations(page) == []


def test_two_models_side_by_side(page):
    page.get_by_role("button", name="Disagreements side by side").click()
    rows = np.arange(1797)
    tree, forest = rows % 2 == 0, rows % 3 > 0
    expect(page.locator(".sides h2").first).to_have_text(f"Only tree is right: {(tree & ~forest).sum()}")
    expect(page.locator(".sides h2").last).to_have_text(f"Only forest is right: {(forest & ~tree).sum()}")
    assert violations(page) == []
    expect(page.locator("#cases")).to_contain_text(f"both right {(tree & forest).sum()}")


def test_an_example_of_the_report_opens_in_the_explorer(page, served):
    page.get_by_role("link", name="Report").click()
    page.locator(".thumb summary").last.click()
    page.get_by_role("link", name="Open in the explorer").last.click()
    expect(page.get_by_role("dialog")).to_contain_text(str(Dataset.open("digits").ids[1]))


HOSTILE = """<button>Click</button><p id="result"></p><script>
const say = (text) => { document.getElementById("result").textContent += text + ";"; };
document.querySelector("button").onclick = async () => {
  say("origin " + origin);
  await fetch("/api/table").then((answer) => answer.text()).then((text) => say("fetched " + text), () => {});
  const opened = window.open("/api/table");
  await new Promise((done) => setTimeout(done, 500));
  try { say("read " + opened.document.body.textContent); } catch (error) { say("refused"); }
};
</script>"""


def test_a_page_in_the_folder_cannot_read_what_the_explorer_answers(browser, served, tmp_path):
    folder = tmp_path / "hostile"
    shutil.copytree(served.folder, folder)
    (folder / "index.html").write_text(HOSTILE, encoding="utf-8")
    command = [sys.executable, "-m", "hardpan", "browse", str(folder), "--port", "0"]
    context = browser.new_context()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            page = context.new_page()
            page.goto(re.search(r"http://\S+", server.stdout.readline()).group() + "/report")
            page.get_by_role("button").click()
            expect(page.locator("#result")).to_have_text("origin null;refused;")
        finally:
            context.close()
            server.terminate()


def test_a_narrow_screen(browser, served):
    context = browser.new_context(viewport={"width": 320, "height": 700}, color_scheme="dark")
    page = context.new_page()
    page.goto(served.address)
    page.wait_for_selector("body[data-ready]")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()


@contextmanager
def review_server(folder):
    """``hardpan browse --review``; its first line."""
    command = [sys.executable, "-m", "hardpan", "browse", str(folder), "--review", "40", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield server.stdout.readline()
        finally:
            server.terminate()


def test_a_review_by_keyboard_is_saved_resumed_and_counted(browser, reviewed):
    """Answers by the row number, which the page shows: every third label is wrong, and class 1 is right."""

    def answered(page, count):
        for _ in range(count):
            place = page.evaluate("document.body.dataset.at")
            label, number = (
                page.locator("#label").inner_text(),
                int(page.locator("#where").inner_text().split()[-1]),
            )
            if number % 3 == 0:
                page.keyboard.press("w")
                expect(page.locator("#class")).to_be_focused()
                page.keyboard.type("1" if label != "1" else "2")
                page.keyboard.press("Enter")
            else:
                page.keyboard.press("r")
            page.wait_for_function(
                "at => document.body.dataset.at !== at || !document.querySelector('#result').hidden", arg=place
            )

    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    with review_server(reviewed) as line:
        page.goto(re.search(r"http://\S+", line).group())
        page.wait_for_selector("body[data-ready]")
        expect(page.locator("#count")).to_have_text("0 of 40 judged")
        page.keyboard.press("a")
        expect(page.locator("#count")).to_have_text("1 of 40 judged")
        answered(page, 14)
        page.keyboard.press("ArrowLeft")
        expect(page.locator("#answer")).to_contain_text("Your answer")
        assert violations(page) == []
        expect(page.locator("#result")).to_be_hidden()
    with review_server(reviewed) as line:
        assert "15 of them judged" in line
        page.goto(re.search(r"http://\S+", line).group())
        page.wait_for_selector("body[data-ready]")
        expect(page.locator("#count")).to_have_text("15 of 40 judged")
        answered(page, 25)
        found = auditing.label_issues(reviewed).count(reviewed / "review.csv")
        title = f"About {found.wrong.value:,.0f} of 1,797 labels are wrong"
        expect(page.locator("#result-title")).to_contain_text(title)
        assert violations(page) == []
        assert (found.judged, found.ambiguous) == (40, 1)
        page.set_viewport_size({"width": 320, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()
    review = LabelReview.read(reviewed / "review.csv")
    judged = review.verdict != "ambiguous"
    assert (review.verdict[judged] == np.where(review.row[judged] % 3 == 0, "wrong", "right")).all()
    right = np.where(review.label == "1", "2", "1")
    assert (review.right_class[review.verdict == "wrong"] == right[review.verdict == "wrong"]).all()


def test_a_folder_without_an_audit_ends_with_a_sentence(tmp_path):
    command = [sys.executable, "-m", "hardpan", "browse", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "holds no examples.parquet" in done.stderr
    assert "Traceback" not in done.stderr
