"""Selector, reviewer, participant and owner in a real browser; how every page looks, reads and sounds."""

import pytest
from tests.e2e.accessibility import violations
from tests.web import small
from tests.web.served import Served, Window

from hardpan.replicate.database import decisions, questions

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module")
def served(tmp_path_factory, database_server):
    project, token = small.copy(tmp_path_factory.mktemp("site") / "project", database_server)
    small.prepare_reviews(project)
    site = Served(project, token)
    yield site
    site.stop()
    small.remove(project)


@pytest.fixture
def window(browser, served):
    opened = []

    def start(**settings):
        opened.append(Window(browser, served, **settings))
        return opened[-1]

    yield start
    for item in opened:
        item.context.close()
        assert [r.url for r in item.requests if not r.url.startswith(served.address)] == []


def wait_until(page, condition):
    for _ in range(300):
        if condition():
            return
        page.wait_for_timeout(50)
    raise AssertionError("it did not come to that")


def test_the_owner_and_two_workers(window, served):
    owner, page = window(), None
    page = owner.page
    page.goto(served.owner_link)
    page.wait_for_selector(".tiles")
    assert page.url == served.address + "/owner/"
    assert "0 of 24" in page.inner_text(".tiles")
    page.fill("#count", "2")
    page.fill("#label", "<b>note</b>")
    page.click("#invite button")
    page.wait_for_selector("#made:not([hidden])")
    links = page.input_value("#links").split()
    assert len(links) == 2
    for number, link in enumerate(links):
        worker = window()
        worker.page.goto(link)
        worker.page.click("#start")
        worker.grid()
        if number == 0:
            worker.page.locator(".cell").nth(0).click()
        worker.page.keyboard.press("n" if number else "Enter")
        wait_until(worker.page, lambda done=number + 1: len(served.votes()) == 12 * done)
        refused = worker.page.goto(served.address + "/owner/")
        assert refused.status == 401
    page.select_option("#class", "2")
    page.wait_for_function("() => document.querySelector('#figures').innerText.includes('frequencies of <script>')")
    page.wait_for_function("() => document.querySelector('.tiles').innerText.includes('2 of 24')")
    assert page.locator("svg.chart").count() == 2
    with page.expect_download() as started:
        page.click("text=votes.csv")
    text = started.value.path().read_text(encoding="utf-8")
    assert text.startswith("image_id,class,worker,selected,role,at,excluded")
    assert len(text.splitlines()) == 25
    for _ in range(2):  # the second click confirms
        page.locator("[data-revoke]").first.click()
    page.wait_for_function("() => document.querySelector('#figures').innerText.includes('ended')")
    stranger = window()
    page.click("#leave")
    page.wait_for_url("**/owner/enter")
    page.fill("#token", "wrong")
    page.click("#enter button")
    page.wait_for_function("() => document.querySelector('#trouble').textContent.includes('not the owner')")
    assert stranger.page.goto(served.address + "/owner/").status == 401


def test_the_selector_chooses_by_mouse_and_keyboard_and_keeps_it_through_a_reload(window, served):
    seen = window()
    page = seen.page
    page.goto(served.link("selector"))
    page.click("text=plain >> nth=0")
    page.wait_for_selector(".choosing .cell")
    assert page.locator(".looking .cell").count() == 10
    cells = page.locator(".choosing .cell")
    cells.nth(0).click()
    for key in ("ArrowRight", "Space", "ArrowRight", "Space", "u"):
        page.keyboard.press(key)
    assert page.inner_text("#picked") == "2 of 4 chosen"
    page.reload()  # perhaps before all of it has arrived
    page.wait_for_selector(".choosing .cell")
    assert page.inner_text("#picked") == "2 of 4 chosen"
    assert list(decisions.decision_verdicts(served.project, "first-selection").values()) == ["select", "select"]
    assert page.locator(".choosing .cell[aria-checked=true]").count() == 2
    page.click("text=Next keyword")
    assert "Choose new images" in page.inner_text("h1")
    assert seen.complaints == []


def test_a_page_that_was_written_before_the_last_choice_arrived_shows_it(window, served):
    seen = window()
    page = seen.page
    page.goto(served.link("selector"))
    page.click("text=odd >> nth=0")
    page.wait_for_selector(".choosing .cell")
    stale = page.request.get(page.url).text()
    page.locator(".choosing .cell").nth(0).click()
    shown = page.inner_text("#picked")
    wait_until(page, lambda: page.locator("#sending").is_hidden())
    page.route("**/select/keyword*", lambda route: route.fulfill(body=stale, content_type="text/html"))
    page.reload()
    page.wait_for_selector(".choosing .cell")
    assert page.inner_text("#picked") == shown
    assert page.locator(".choosing .cell[aria-checked=true]").count() == 1


def test_the_reviewer_goes_through_pairs_second_and_final_review(window, served):
    seen = window()
    page = seen.page
    page.goto(served.link("reviewer"))
    page.click("text=Near-duplicates")
    assert "same pose" in page.inner_text("#criteria")
    page.click("#understood")
    page.wait_for_selector("#task:not([hidden])")
    first = page.locator("#image").get_attribute("src"), page.locator("#other").get_attribute("src")
    assert page.inner_text("#ssim") == "0.800"
    page.keyboard.press("r")
    page.wait_for_function("(old) => document.querySelector('#other').getAttribute('src') !== old", arg=first[1])
    page.keyboard.press("u")
    page.wait_for_function("(old) => document.querySelector('#other').getAttribute('src') === old", arg=first[1])
    for _ in range(9):
        left = page.inner_text("#left")
        page.keyboard.press("k")
        page.wait_for_function(
            "(old) => document.querySelector('#task').hidden || document.querySelector('#left').innerText !== old",
            arg=left,
        )
    page.wait_for_selector("#thanks:not([hidden])")
    wait_until(page, lambda: set(decisions.decision_verdicts(served.project, "duplicate").values()) == {"keep"})
    for name in decisions.first_selection_page(served.project, 1, "plain").candidates[:3]:
        decisions.record_decision(served.project, "first-selection", name, "select", by="a test")
    waiting = {item.image_id for item in decisions.undecided_images(served.project, "second-review")}
    page.goto(served.address + "/review/second")
    page.wait_for_selector(".cell")
    page.keyboard.press("Space")  # the first one goes, by the keyboard
    while page.locator("#thanks").is_hidden():
        left = page.inner_text("#left")
        page.keyboard.press("Enter")
        page.wait_for_function(
            "(old) => !document.querySelector('#thanks').hidden"
            " || document.querySelector('#left').innerText !== old",
            arg=left,
        )
    second = decisions.decision_verdicts(served.project, "second-review")
    assert set(second) == waiting
    assert list(second.values()).count("remove") == 1
    page.goto(served.address + "/review/final")
    for kind in range(3):
        page.wait_for_function(
            "(name) => document.querySelector('#name').textContent === name", arg=small.CLASSES[kind].name
        )
        if kind == 0:
            page.locator(".cell").nth(1).click()
        page.click("#done") if kind else page.keyboard.press("Enter")
    page.wait_for_selector("#thanks:not([hidden])")
    verdicts = list(decisions.decision_verdicts(served.project, "final-review").values())
    assert (verdicts.count("keep"), verdicts.count("remove")) == (17, 1)
    assert seen.complaints == []


def test_a_participant_names_pictures_by_number_keys(window, served):
    seen = window()
    page = seen.page
    page.goto(served.link("participant"))
    page.wait_for_selector("#start")
    page.keyboard.press("Enter")
    page.wait_for_selector("#task:not([hidden])")
    total = int(page.inner_text("#progress").split()[-1])
    for number in range(total):
        page.wait_for_function(
            "(text) => document.querySelector('#progress').textContent.startsWith(text)",
            arg=f"Image {number + 1} ",
        )
        page.keyboard.press("3") if number % 2 else page.locator("#answers button").nth(2).click()
    page.wait_for_selector("#thanks:not([hidden])")
    answers = questions.question_answers(served.project)
    assert len(answers) == total
    assert {row["response"] for row in answers} == {small.SCRIPT}
    assert seen.complaints == []


PAGES = {
    "annotator": {"/annotate/": "#start"},
    "selector": {"/select/": "table", "/select/keyword?class=1&keyword=plain": ".choosing .cell"},
    "reviewer": {"/review/": "table", "/review/second": ".cell", "/review/duplicates": "#understood"},
    "participant": {"/people/": "#start"},
    "owner": {"/owner/": ".tiles"},
}


@pytest.mark.parametrize("role", PAGES)
def test_every_page_reads_well_wide_and_narrow_light_and_dark(window, served, role):
    if role == "reviewer":
        some = decisions.first_selection_page(served.project, 2, "plain").candidates[:2]
        for name in some:
            decisions.record_decision(served.project, "first-selection", name, "select", by="a test")
        for pair in list(decisions.decision_verdicts(served.project, "duplicate"))[:1]:
            decisions.record_decision(served.project, "duplicate", pair, "open", by="a test")
    seen = window()
    page = seen.page
    page.goto(served.owner_link if role == "owner" else served.link(role))
    page.wait_for_selector(next(iter(PAGES[role].values())))  # an owner's page is entered by a request of its own
    for path, ready in PAGES[role].items():
        page.goto(served.address + path)
        page.wait_for_selector(ready)
        looks_right(page, path)
        if page.locator("#start, #understood").count():
            page.click("#start, #understood")
            page.wait_for_selector("#task:not([hidden])")
            looks_right(page, path)
    assert seen.complaints == []


def looks_right(page, path):
    for width, scheme in ((320, "dark"), (1280, "light")):
        page.set_viewport_size({"width": width, "height": 700})
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} at {width}"
        assert violations(page) == [], f"{path} at {width}, {scheme}"
    assert page.locator("h1:visible").count() == 1, path


def test_the_grid_is_a_group_of_checkboxes_to_a_screen_reader(window, served):
    seen = window()
    page = seen.start()
    tree = page.locator("#task").aria_snapshot()
    assert 'group "Which images show' in tree
    assert 'checkbox "Image 1 of 12"' in tree
    page.keyboard.press("Space")
    assert 'checkbox "Image 1 of 12" [checked]' in page.locator("#task").aria_snapshot()
    assert page.locator(".cell[tabindex='0']").count() == 1  # one stop for the tab key, arrows inside
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "undo"
