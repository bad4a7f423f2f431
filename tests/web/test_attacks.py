"""What someone with bad intentions would try."""

from html.parser import HTMLParser

import pytest
from tests.web import small
from tests.web.visitor import GENEROUS, ROLES

from hardpan import replicate
from hardpan.replicate.database import decisions, votes
from hardpan.replicate.database import people as stored_people
from hardpan.web.annotation import create_app
from hardpan.web.security import Limits, signer

PROTECTED = ["/annotate/", "/select/", "/select/keyword", "/review/", "/review/second", "/review/final"]
PROTECTED += ["/review/duplicates", "/people/", "/owner/", "/owner/live", "/owner/export/votes.csv"]


@pytest.mark.parametrize("path", PROTECTED)
def test_nothing_opens_without_an_invitation(town, path):
    answer = town.stranger().get(path)
    assert answer.status_code == 401
    assert "invitation" in answer.text


def test_a_forged_link_lets_nobody_in(town):
    good = town.invited()
    name, _, signature = good.rpartition(".")
    other = town.invited().rpartition(".")[2]
    flipped = ("A" if signature[0] != "A" else "B") + signature[1:]
    bad = [
        f"{name}.{flipped}",
        f"{name}.{other}",
        f"{name}.",
        name,
        good + "A",
        good + "=",
        good[:-1],
        good.upper(),
    ]
    for link in bad:
        answer = town.stranger().get(link)
        assert answer.status_code in (403, 404), link
        assert "set-cookie" not in answer.headers
    assert stored_people.stored_workers(town.project) == []
    assert town.stranger().get(good).status_code == 303


def test_a_link_opens_only_its_own_part(town):
    good = town.invited("annotator")
    for role in ("select", "review", "people", "owner"):
        answer = town.stranger().get(good.replace("/annotate/", f"/{role}/"))
        assert answer.status_code in (403, 404, 405)
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("role", ROLES)
def test_a_session_of_one_role_is_worth_nothing_for_another(town, role):
    person = town.person(role)
    cookie = next(iter(person.client.cookies.jar)).value
    for other in {*ROLES.values(), "owner"} - {ROLES[role]}:
        stranger = town.stranger(other)
        stranger.client.cookies.set(town.cookie_name(other), cookie, path=f"/{other}")
        assert stranger.get(f"/{other}/").status_code == 401


def test_a_forged_cookie_is_no_session(town):
    worker = stored_people.enter_by_invitation(town.project, town.invited().rpartition("/")[2])
    forged = [
        signer(b"x" * 32, "session-annotate").dumps({"p": worker.id, "e": 4e9, "m": "", "s": ""}),
        signer(town.project.secret, "session-select").dumps({"p": worker.id, "e": 4e9, "m": "", "s": ""}),
        signer(town.project.secret, "session-annotate").dumps({"p": worker.id, "e": 1, "m": "", "s": ""}),
        "x",
        "",
        "a.b.c",
        "." * 3000,
    ]
    for value in forged:
        stranger = town.stranger()
        stranger.client.cookies.set(town.cookie_name("annotate"), value, path="/annotate")
        assert stranger.get("/annotate/").status_code == 401, value


def test_two_projects_at_one_host_leave_each_others_people_signed_in(open_town):
    one, two = open_town(), open_town()
    two.project.local["secret"] = "0" * 64  # copies of one project share it
    two.app = create_app(two.project, GENEROUS)
    browser = one.person()
    also = two.stranger()
    also.client.cookies = browser.client.cookies  # browsers send cookies to every port of a host
    also.join(two.invited())
    assert browser.get("/annotate/").status_code == also.get("/annotate/").status_code == 200


def test_cookies_are_out_of_reach_of_scripts_and_other_sites(town):
    stranger = town.stranger()
    header = stranger.get(town.invited()).headers["set-cookie"].lower()
    assert "httponly" in header
    assert "samesite=lax" in header
    assert "path=/annotate" in header
    assert "secure" not in header  # this server speaks http here
    town_behind_tls = town.stranger()
    town_behind_tls.client.base_url = "https://testserver"
    assert "; secure" in town_behind_tls.get(town.invited()).headers["set-cookie"].lower()


def test_cookies_and_origins_follow_the_public_address(town):
    town.app = create_app(town.project, GENEROUS, "https://label.example.org")
    assert "; secure" in town.stranger().get(town.invited()).headers["set-cookie"].lower()
    worker = town.stranger()
    worker.client.base_url = "https://127.0.0.1:8000"  # the Host that nginx sends by default
    worker.join(town.invited())
    task = {"path": "/annotate/api/task", "body": {"besides": []}}
    assert worker.post(**task, Origin="https://label.example.org").status_code == 200
    assert worker.post(**task, Origin="https://127.0.0.1:8000").status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Origin": "http://testserver.evil.example"},
        {"Origin": "http://[bad"},
        {"X_CSRF_Token": ""},
        {"X_CSRF_Token": "0" * 32},
    ],
)
def test_a_post_from_another_site_does_nothing(town, headers):
    worker = town.person()
    task = worker.task()
    body = {"task": task["id"], "selected": [], "key": "k"}
    assert worker.post("/annotate/api/submit", body, **headers).status_code == 403
    assert votes.all_votes(town.project) == []


def test_a_form_of_another_site_cannot_speak_json(town):
    worker = town.person()
    body = '{"task": "x", "selected": [], "key": "k"}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = worker.client.post(
            "/annotate/api/submit", content=body, headers={"Content-Type": kind, "X-CSRF-Token": worker.csrf}
        )
        assert answer.status_code == 400


def test_another_persons_token_is_refused(town):
    one, two = town.person(), town.person()
    one.csrf = two.csrf
    assert one.post("/annotate/api/task", {"besides": []}).status_code == 403


def test_another_workers_task_and_pictures_stay_closed(town):
    one, two = town.person(), town.person()
    task = one.task()
    for source in task["images"]:
        assert two.get(source).status_code == 404
    assert two.submit(task, [0]).status_code == 410
    assert two.post("/annotate/api/renew", {"task": task["id"]}).status_code == 410
    assert votes.all_votes(town.project) == []
    assert one.submit(task, []).json()["state"] == "counted"


def test_an_annotator_cannot_fetch_an_image_by_its_id(town):
    worker = town.person()
    worker.task()
    name = decisions.undecided_images(town.project, "second-review") or ["0" * 16]
    for path in (f"/select/image?id={name[0]}", f"/review/image?id={name[0]}", "/people/image/1"):
        assert worker.get(path).status_code == 401


@pytest.mark.parametrize(
    "path",
    [
        "/static/../project.json",
        "/static/..%2f..%2f..%2f..%2fetc/passwd",
        "/static/%2e%2e/%2e%2e/shell.py",
        "/static/....//shell.py",
        "/static//etc/passwd",
        "/static/%00",
        "/static/base.css%00.png",
        "/static/",
        "/static",
        "/templates/base.html",
        "/local.json",
        "/project.sqlite",
    ],
)
def test_no_path_leads_out_of_the_static_files_and_nothing_is_listed(town, path):
    answer = town.stranger().get(path)
    assert answer.status_code in (404, 307, 405)
    assert "secret" not in answer.text
    if answer.status_code == 307:
        assert town.stranger().get(answer.headers["location"]).status_code == 404


@pytest.mark.parametrize(
    "name", ["../../local.json", "..%2f..%2flocal", "/etc/passwd", "a|b", "\\..\\local.json", "%00"]
)
def test_an_image_id_is_never_a_path(town, name):
    for role in ("selector", "reviewer"):
        person = town.person(role)
        answer = person.get(f"/{person.role}/image?id={name}")
        assert answer.status_code in (400, 404)
        assert b"secret" not in answer.content


def test_a_body_over_the_limit_is_413_however_it_comes(town):
    worker = town.person()
    headers = {"X-CSRF-Token": worker.csrf, "Content-Type": "application/json"}
    large = b'{"besides": ["' + b"x" * 100_000 + b'"]}'
    assert worker.client.post("/annotate/api/task", content=large, headers=headers).status_code == 413

    def pieces():
        for _ in range(100):
            yield b"x" * 1000

    assert worker.client.post("/annotate/api/task", content=pieces(), headers=headers).status_code == 413
    wrong = headers | {"Content-Length": "-1"}
    assert worker.client.post("/annotate/api/task", content=b"{}", headers=wrong).status_code in (400, 413)


def test_deep_json_is_refused_not_a_crash(town):
    worker = town.person()
    headers = {"X-CSRF-Token": worker.csrf, "Content-Type": "application/json"}
    deep = b"[" * 30_000 + b"]" * 30_000
    assert worker.client.post("/annotate/api/task", content=deep, headers=headers).status_code == 400
    for text in (b'{"besides": NaN}', b"{", b"\xff", b"", b'{"besides": 1e999}'):
        assert worker.client.post("/annotate/api/task", content=text, headers=headers).status_code == 400


def test_a_script_in_a_class_name_is_text_on_every_page(town):
    pages = [
        town.person("selector").get("/select/"),
        town.person("selector").get("/select/keyword?class=2&keyword=plain"),
        town.person("participant").get("/people/"),
        town.owner().get("/owner/"),
        town.owner().get("/owner/live"),
    ]
    for page in pages:
        assert small.SCRIPT not in page.text
        assert "<img src=x" not in page.text
        assert "<b>more</b>" not in page.text


def test_the_owners_token_is_needed_whole(town):
    for token in (town.token[:-1], town.token + "A", "", town.token.lower(), "x" * 201):
        answer = town.stranger("owner").client.post("/owner/api/enter", json={"token": token})
        assert answer.status_code in (400, 403)
    stranger = town.stranger("owner")
    for origin in ("https://evil.example", "null"):
        answer = stranger.client.post("/owner/api/enter", json={"token": town.token}, headers={"Origin": origin})
        assert answer.status_code == 403
    assert town.owner().get("/owner/").status_code == 200


def test_a_new_owners_token_ends_the_old_sessions_of_every_server(town):
    owner = town.owner()
    other_server = replicate.Project.open(town.project.root)
    fresh = other_server.renew_owner_token()
    assert owner.get("/owner/").status_code == 401
    enter = {"url": "/owner/api/enter", "json": {"token": town.token}}
    assert town.stranger("owner").client.post(**enter).status_code == 403
    assert town.stranger("owner").client.post(**enter | {"json": {"token": fresh}}).status_code == 200


def test_guessing_links_and_tokens_is_slowed_down(open_town):
    town = open_town(Limits(entries_per_minute=10))
    stranger = town.stranger("owner")
    answers = [
        stranger.client.post("/owner/api/enter", json={"token": f"guess-{k}"}).status_code for k in range(15)
    ]
    assert answers[:10] == [403] * 10
    assert answers[11:] == [429] * 4
    assert stranger.get("/annotate/join/a.b").status_code == 429


def test_nobody_is_locked_out_by_the_guesses_of_another_at_the_same_address(open_town):
    town = open_town(Limits(entries_per_minute=3))
    guesses = [
        town.stranger("owner").client.post("/owner/api/enter", json={"token": f"guess-{k}"}) for k in range(8)
    ]
    assert guesses[-1].status_code == 429
    assert town.owner().get("/owner/").status_code == 200
    assert town.stranger().get(town.invited()).status_code == 303


def test_a_whole_class_may_enter_from_one_address(open_town):
    town = open_town(Limits(entries_per_minute=5))
    link = town.invited(uses=40)
    assert [town.stranger().get(link).status_code for _ in range(40)] == [303] * 40


def test_one_address_and_one_person_are_limited(open_town):
    town = open_town(Limits(requests_per_second=1, requests_burst=50, posts_per_second=0.5))
    worker = town.person()
    posts = [worker.post("/annotate/api/task", {"besides": []}).status_code for _ in range(8)]
    assert posts[:5] == [200] * 5
    assert 429 in posts
    answers = [worker.get("/static/base.css").status_code for _ in range(60)]
    assert answers[0] == 200
    assert answers[-1] == 429


@pytest.mark.parametrize("path", ["/", "/static/base.css", "/annotate/", "/nowhere", "/owner/enter", "/static/"])
def test_every_answer_carries_the_guards(town, path):
    headers = town.stranger().get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert "server" not in headers


def test_pages_have_no_inline_script_or_style_and_nothing_from_elsewhere(town):
    pages = {
        "annotate": town.person(),
        "select": town.person("selector"),
        "review": town.person("reviewer"),
        "people": town.person("participant"),
        "owner": town.owner(),
    }
    for part, person in pages.items():
        tags = Tags(person.get(f"/{part}/").text).found
        assert {name for name, _ in tags} & {"main", "style"} == {"main"}
        for name, attributes in tags:
            assert not any(key.startswith("on") or key == "style" for key in attributes)
            assert all((attributes.get(key) or "/").startswith(("/", "#")) for key in ("src", "href"))
            if name == "script":
                assert "src" in attributes or attributes["type"] == "application/json"


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_a_look_ahead_does_not_use_an_invitation_up(town):
    link = town.invited(uses=1)
    assert town.stranger().get(link, headers={"Sec-Purpose": "prefetch"}).status_code == 503
    assert town.stranger().client.head(link).status_code == 503
    assert stored_people.stored_workers(town.project) == []
