"""Requests that make no sense, over the whole table of routes: never a 500, never another worker's data."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.routing import Mount, Route
from tests.web import small
from tests.web.visitor import GENEROUS, ROLES, Town

from hardpan.replicate import database
from hardpan.replicate.database import votes
from hardpan.web.annotation import ROUTES
from hardpan.web.annotation.site import Site

FEW = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
TEXTS = st.text(max_size=30) | st.sampled_from(
    ["", "0", "-1", "1e9", "\0", "../..", "' OR 1=1 --", "<script>", "٣", "k"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
FIELDS = ["task", "selected", "key", "besides", "class", "keyword", "start", "image", "picked", "step", "images"]
FIELDS += ["removed", "subject", "verdict", "question", "role", "label", "uses", "count", "invitation", "token"]
BODIES = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=8) | VALUES
METHODS = st.sampled_from(["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])


@pytest.fixture(scope="module")
def crowd(tmp_path_factory, database_server):
    project, token = small.copy(tmp_path_factory.mktemp("fuzz") / "project", database_server)
    small.prepare_reviews(project)
    town = Town(project, token)
    people = {ROLES[role]: town.person(role) for role in ROLES} | {"owner": town.owner()}
    victim = town.person()
    task = victim.task()
    victim_id = database.stored_workers(project)[-1].id
    yield town, people, (victim_id, task["id"])
    town.close()
    small.remove(project)


def paths(town):
    site = Site(town.project, GENEROUS)
    found = [route for routes in ROUTES for route in routes(site)]
    assert all(isinstance(route, (Route, Mount)) for route in found)
    return sorted({route.path for route in found} | {"/static/{path}", "/nothing"})


@given(st.data())
@FEW
def test_any_request_by_anyone_gets_an_answer_and_nobodys_secrets(crowd, data):
    town, people, secrets = crowd
    path = data.draw(st.sampled_from(paths(town)), label="path")
    while "{" in path:
        before, _, rest = path.partition("{")
        inside = data.draw(TEXTS | st.integers().map(str) | st.just(secrets[1]), label="in the path")
        path = before + quote(inside, safe="") + rest.partition("}")[2]
    names = st.sampled_from(["id", "other", "class", "keyword", "worker"])
    query = data.draw(st.dictionaries(names, TEXTS, max_size=3), label="query")
    person = people[data.draw(st.sampled_from(sorted(people)), label="person")]
    body = data.draw(BODIES, label="body")
    if isinstance(body, dict) and data.draw(st.booleans(), label="another's task"):
        body |= {"task": secrets[1]}
    headers = {"X-CSRF-Token": person.csrf, "Content-Type": "application/json"}
    method = data.draw(METHODS, label="method")
    try:
        content = json.dumps(body).encode()
    except (ValueError, UnicodeEncodeError):
        content = b"\xff"
    answer = person.client.request(method, path, params=query, content=content, headers=headers)
    assert answer.status_code < 500 or answer.status_code == 503, answer.text
    if person.role != "owner":
        assert not any(secret in answer.text for secret in secrets)
    assert not any(vote.worker_id == secrets[0] for vote in votes.all_votes(town.project))
    if path == "/owner/api/leave" and person.role == "owner":
        people["owner"] = town.owner()


@given(
    content=st.binary(max_size=200),
    kind=st.sampled_from(["application/json", "text/plain", "", "application/json; x"]),
)
@settings(FEW, max_examples=60)
def test_any_bytes_as_a_body_are_refused_or_done(crowd, content, kind):
    _, people, _ = crowd
    worker = people["annotate"]
    headers = {"X-CSRF-Token": worker.csrf, "Content-Type": kind}
    assert worker.client.post("/annotate/api/submit", content=content, headers=headers).status_code in (400, 410)


@given(cookie=st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=';,"\\'), max_size=80))
@settings(FEW, max_examples=60)
def test_any_text_as_a_cookie_is_no_session(crowd, cookie):
    town, _, _ = crowd
    stranger = town.stranger()
    assert (
        stranger.client.get(
            "/annotate/", headers={"Cookie": f"{town.cookie_name('annotate')}={cookie}"}
        ).status_code
        == 401
    )
