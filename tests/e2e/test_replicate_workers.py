"""Annotators in a real browser: keyboard, mouse, reload, two tabs, back, an expired lease, no network."""

import pytest
from tests.web import small
from tests.web.served import Served, Window

from hardpan.replicate.database import leases, people
from hardpan.replicate.database.leases import lease_image_ids

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture
def served(tmp_path, database_server):
    project, token = small.copy(tmp_path / "project", database_server)
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
        elsewhere = [r.url for r in item.requests if not r.url.startswith(served.address)]
        assert elsewhere == []


def first_source(page):
    return page.locator(".cell img").first.get_attribute("src")


def token_of(page):
    return first_source(page).split("/")[3]


def wait_for_another(page, token, or_the_end=False):
    page.wait_for_function(
        "([old, orTheEnd]) => (orTheEnd && !document.querySelector('#thanks').hidden) ||"
        " (!document.querySelector('#task').hidden &&"
        " !document.querySelector('.cell img')?.getAttribute('src').includes(old))",
        arg=[token, or_the_end],
    )


def wait_for_votes(served, page, count):
    for _ in range(300):
        if len(served.votes()) >= count:
            break
        page.wait_for_timeout(50)
    page.wait_for_timeout(150)
    assert len(served.votes()) == count


def test_keyboard_only_from_the_first_page_to_the_thanks(window, served):
    seen = window()
    page = seen.page
    page.goto(served.link())
    page.wait_for_selector("#start")
    page.keyboard.press("Enter")  # "Start" has the focus
    seen.grid()
    token = token_of(page)
    columns = page.evaluate(
        "getComputedStyle(document.querySelector('#grid')).gridTemplateColumns.split(' ').length"
    )
    for key in ("Space", "ArrowRight", "Space", "ArrowDown", "Space", "u", "ArrowLeft", "Space", "End", "Home"):
        page.keyboard.press(key)
    cells = page.locator(".cell[aria-checked=true]")
    chosen = {0, 1, columns}
    assert {int(cell.get_attribute("aria-label").split()[1]) - 1 for cell in cells.all()} == chosen
    assert page.inner_text("#picked") == "3 selected"
    page.wait_for_function("() => document.querySelector('#live').textContent.includes('selected')")
    page.keyboard.press("z")
    assert page.locator("dialog.look[open]").count() == 1
    page.keyboard.press("z")
    page.keyboard.press("Enter")
    wait_for_another(page, token)
    wait_for_votes(served, page, 12)
    shown = lease_image_ids(served.project, token)
    assert {shown.index(vote.image_id) for vote in served.votes() if vote.selected} == chosen
    for _ in range(30):  # the rest: none of these, by the key
        token = token_of(page)
        page.keyboard.press("n")
        wait_for_another(page, token, or_the_end=True)
        if page.locator("#thanks").is_visible():
            break
    assert page.locator("#thanks").is_visible()
    person = people.stored_workers(served.project)[0]
    assert page.inner_text("#code") == people.worker_completion_code(served.project, person.id)
    documents = [request for request in seen.requests if request.resource_type == "document"]
    assert len(documents) == 2, "the link and the page: nothing is loaded again between tasks"
    assert seen.complaints == []


def test_mouse_only_with_undo_and_none_of_these(window, served):
    seen = window()
    page = seen.start()
    token = token_of(page)
    cells = page.locator(".cell")
    cells.nth(2).click()
    cells.nth(5).click()
    page.click("#undo")
    assert page.locator(".cell[aria-checked=true]").count() == 1
    page.click("#done")
    wait_for_another(page, token)
    token = token_of(page)
    page.click("#done")  # nothing picked: asks once
    assert "Nothing is selected" in page.inner_text(".toast")
    assert token_of(page) == token
    page.click("#none")
    wait_for_another(page, token)
    wait_for_votes(served, page, 24)
    assert sum(vote.selected for vote in served.votes()) == 1
    token = token_of(page)
    page.click("#stop")
    page.wait_for_selector("#thanks:not([hidden])")
    person = people.stored_workers(served.project)[0]
    assert page.inner_text("#code") == people.worker_completion_code(served.project, person.id)
    page.click("#again")
    seen.grid()
    assert token_of(page) == token
    assert seen.complaints == []


def test_a_reload_in_the_middle_keeps_task_and_picks(window, served):
    seen = window()
    page = seen.start()
    token = token_of(page)
    page.locator(".cell").nth(3).click()
    page.reload()
    seen.grid()
    assert token_of(page) == token
    assert page.locator(".cell[aria-checked=true]").count() == 1
    page.click("#done")
    wait_for_votes(served, page, 12)


def test_two_tabs_show_the_same_task_and_count_it_once(window, served):
    seen = window()
    first = seen.start()
    second = seen.tab()
    second.goto(served.address + "/annotate/")
    seen.grid(second)
    token = token_of(first)
    assert token_of(second) == token
    first.locator(".cell").nth(0).click()
    first.click("#done")
    wait_for_another(first, token)
    second.click("#none")
    wait_for_another(second, token)
    wait_for_votes(served, second, 12)
    assert sum(vote.selected for vote in served.votes()) == 1


def test_the_back_button_leads_nowhere_bad(window, served):
    seen = window()
    page = seen.start()
    token = token_of(page)
    page.locator(".cell").nth(0).click()
    page.click("#done")
    wait_for_another(page, token)
    now = token_of(page)
    page.goto(served.address + "/")
    page.go_back()
    seen.grid()
    assert token_of(page) == now
    page.click("#none")
    wait_for_votes(served, page, 24)
    assert len(people.stored_workers(served.project)) == 1


def test_the_same_link_opened_again_is_the_same_person(window, served):
    seen = window()
    link = served.link(uses=5)
    for _ in range(2):
        seen.page.goto(link)
    assert len(people.stored_workers(served.project)) == 1
    window().page.goto(link)
    assert len(people.stored_workers(served.project)) == 2
    window().page.goto(link + "?worker=P7")
    window().page.goto(link + "?worker=P7")
    assert len(people.stored_workers(served.project)) == 3


def test_a_lease_that_expired_and_was_filled_is_told_and_the_next_one_comes(window, served):
    seen = window()
    page = seen.start()
    page.wait_for_load_state("networkidle")  # else the next task could be this one again
    page.locator(".cell").nth(0).click()
    served.shift = 4000
    link = people.invite_people(served.project, uses=20).link
    for k in range(8):
        worker = people.enter_by_invitation(served.project, link, external_id=f"w{k}").id
        while lease := leases.lease_next_task(served.project, worker):
            leases.submit_lease(served.project, worker, lease.token, [], "k")
    count = len(served.votes())
    page.click("#done")
    page.wait_for_selector(".toast")
    assert "completed by others" in page.inner_text(".toast")
    assert len(served.votes()) == count


def test_offline_answers_are_kept_and_counted_once_when_back(window, served):
    seen = window()
    page = seen.start()
    page.wait_for_load_state("networkidle")  # the next task is there already
    token = token_of(page)
    seen.context.set_offline(True)
    page.locator(".cell").nth(0).click()
    page.click("#done")
    wait_for_another(page, token)  # prefetched: work goes on
    assert "Offline" in page.inner_text("#sending")
    assert served.votes() == []
    page.locator(".cell").nth(1).click()
    page.click("#done")
    page.wait_for_timeout(600)
    assert served.votes() == []
    seen.context.set_offline(False)
    wait_for_votes(served, page, 24)
    assert sum(vote.selected for vote in served.votes()) == 2
    seen.grid()
    page.wait_for_selector("#sending", state="hidden")


def test_an_answer_that_was_lost_on_its_way_or_met_an_outage_is_sent_again_and_counted_once(window, served):
    seen = window()
    page = seen.start()
    tries = []

    def lose_first(route):
        tries.append(route.request.post_data)
        if len(tries) == 1:  # the server's database is away, or its disk is full
            route.fulfill(status=503, headers={"Retry-After": "5"}, json={"error": "away"})
        elif len(tries) == 2:
            route.fetch()  # it reaches the server; the answer never reaches the page
            route.abort()
        else:
            route.continue_()

    page.route("**/annotate/api/submit", lose_first)
    page.locator(".cell").nth(0).click()
    page.click("#done")
    page.wait_for_function(
        "() => localStorage.getItem(Object.keys(localStorage).find((k) => k.endsWith('outbox'))) === '[]'"
    )
    assert len(tries) >= 3
    assert len(set(tries)) == 1
    wait_for_votes(served, page, 12)


def test_answers_kept_through_a_closed_tab(window, served):
    seen = window()
    page = seen.start()
    page.wait_for_load_state("networkidle")
    page.route("**/annotate/api/submit", lambda route: route.abort())
    page.locator(".cell").nth(0).click()
    page.click("#done")
    page.wait_for_timeout(200)
    page.close()
    assert served.votes() == []
    again = seen.tab()
    again.goto(served.address + "/annotate/")
    seen.grid(again)
    wait_for_votes(served, again, 12)


def test_nobodys_votes_show_on_another_workers_page(window, served):
    one, two = window(), window()
    first, second = one.start(), two.start()
    first.locator(".cell").nth(0).click()
    first.click("#done")
    wait_for_votes(served, first, 12)
    second.reload()
    two.grid()
    assert second.locator(".cell[aria-checked=true]").count() == 0
    mine = {request.url for request in one.requests if "/image/" in request.url}
    theirs = {request.url for request in two.requests if "/image/" in request.url}
    assert mine
    assert theirs
    assert not mine & theirs
