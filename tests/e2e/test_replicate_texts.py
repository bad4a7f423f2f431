"""A project of texts in a real browser: read, answered by keyboard, compared, and never taken for markup."""

import pytest
from tests.e2e.test_replicate_pages import looks_right, wait_until
from tests.replicate.test_texts import MARKUP, THINGS, sentences
from tests.web.served import Served, Window

from hardpan import Dataset
from hardpan.replicate import Project, database, simulate
from hardpan.replicate.database import decisions, questions

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    made, new = sentences(60, 1), sentences(12, 2)
    new["text"][:2] = MARKUP, made["text"][1] + " please"
    data = Dataset.from_arrays(made["text"], made["label"])
    settings = {"grid": 12, "workers_per_image": 9, "originals_per_class": 6}
    project = Project.create(tmp_path_factory.mktemp("site") / "project", data, **settings)
    order = list(data.class_names)
    simulate.add_candidate_arrays(project, new["text"], [order.index(name) for name in new["label"]])
    project.make_tasks()
    simulate.simulate_demo_annotation(project, 4)
    project.sample("top", per_class=4, min_votes=0)
    project.find_duplicates()
    questions.choose_questions(project, [database.stored_images(project, "original")[0].id], [])
    site = Served(project, project.renew_owner_token())
    yield site
    site.stop()


@pytest.fixture
def seen(browser, served):
    window = Window(browser, served)
    yield window
    window.context.close()
    assert window.complaints == []


def test_an_annotator_reads_and_answers_by_keyboard(seen, served):
    page = seen.start()
    page.wait_for_function("[...document.querySelectorAll('.cell .text')].every((text) => text.textContent)")
    shown = page.locator(".cell .text").all_inner_texts()
    first = page.locator(".cell").first
    assert first.get_attribute("aria-label") == f"Text 1 of 12: {shown[0]}"
    assert page.inner_text("#asked").partition("belong to ")[2].rstrip("?") in THINGS
    page.keyboard.press("z")
    page.wait_for_selector("dialog.look[open]")
    page.wait_for_function("(text) => document.querySelector('dialog .text').innerText === text", arg=shown[0])
    page.keyboard.press("Escape")
    looks_right(page, "/annotate/")
    first.focus()
    before = len(served.votes())
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    wait_until(page, lambda: len(served.votes()) == before + 12)
    assert sum(vote.selected for vote in served.votes()[before:]) == 1


def test_a_reviewer_sees_two_texts_and_what_differs(seen, served):
    page = seen.page
    page.goto(served.link("reviewer"))
    page.goto(served.address + "/review/duplicates")
    page.click("#understood")
    pair = database.undecided_pairs(served.project)[0]
    texts = [served.project.example(row.id, row.row) for row in database.stored_images(served.project, "original")]
    page.wait_for_function("['image', 'other', 'gap'].every((id) => document.getElementById(id).textContent)")
    assert page.inner_text("#other") in texts
    assert "[" in page.inner_text("#gap")
    assert page.inner_text("#ssim") == f"{pair.ssim:.3f}"
    looks_right(page, "/review/duplicates")
    page.keyboard.press("k")
    wait_until(page, lambda: decisions.decision_verdicts(served.project, "duplicate").get(pair.subject) == "keep")


def test_a_participant_and_the_final_review_see_markup_as_text(seen, served):
    page = seen.page
    page.goto(served.link("reviewer"))
    page.goto(served.address + "/review/final")
    page.wait_for_function("(text) => document.body.innerText.includes(text)", arg=MARKUP)
    page.goto(served.link("participant"))
    page.click("#start")
    original = database.stored_images(served.project, "original")[0]
    page.wait_for_function(
        "(text) => document.getElementById('image').innerText === text",
        arg=served.project.example(original.id, original.row),
    )
    looks_right(page, "/people/")
