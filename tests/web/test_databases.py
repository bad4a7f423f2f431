"""The same site over SQLite and a real PostgreSQL: everything once, many at the same time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.web import small
from tests.web.served import Served
from tests.web.visitor import Town

from hardpan import replicate


@pytest.fixture
def town(tmp_path, database_url):
    project, token = small.make(tmp_path / "project", database_url=database_url)
    small.prepare_reviews(project)
    site = Served(project, token)  # a real server: many clients at once need one
    town = Town(project, token, address=site.address)
    yield town
    town.close()
    site.stop()
    project.close()


def at_once(times, function, *given):
    with ThreadPoolExecutor(times) as pool:
        return [future.result() for future in [pool.submit(function, *given) for _ in range(times)]]


def work(town):
    worker, mine = town.person(), 0
    while task := worker.task():
        body = {"task": task["id"], "selected": [0, 5], "key": "k"}
        states = [answer.json()["state"] for answer in at_once(3, worker.post, "/annotate/api/submit", body)]
        assert sorted(states) == ["counted", "repeated", "repeated"]
        mine += 1
    return mine


def test_the_whole_site(town):
    done = sum(at_once(6, work, town))
    votes = replicate.all_votes(town.project)
    assert len(votes) == 12 * done
    assert len({(vote.worker_id, vote.image_id) for vote in votes}) == len(votes)
    assert sum(vote.selected for vote in votes) == 2 * done
    assert all(row.submitted <= row.wanted for row in replicate.coverage(town.project))

    selector, reviewer = town.person("selector"), town.person("reviewer")
    names = selector.post("/select/api/candidates", {"class": 0, "keyword": "plain", "start": 0}).json()["images"]
    for name in names[:4]:
        body = {"image": name, "picked": True, "key": name}
        with ThreadPoolExecutor(2) as pool:
            new = [
                answer.json()["new"] for answer in pool.map(selector.post, ["/select/api/decide"] * 2, [body] * 2)
            ]
        assert sorted(new) == [False, True]
    for step, wanted in (("second", 4), ("final", 6)):
        batch = reviewer.post("/review/api/images", {"step": step}).json()
        assert len(batch["images"]) == wanted
        body = {"step": step, "images": batch["images"], "removed": batch["images"][:3], "key": step}
        assert reviewer.post("/review/api/decide", body).json() == {"kept": wanted - 3, "removed": 3}
    assert "Back with the first selector" in reviewer.get("/review/").text
    pair = reviewer.post("/review/api/pairs", {}).json()["pairs"][0]
    assert reviewer.post("/review/api/pair", {"subject": pair["subject"], "verdict": "keep", "key": "p"}).json()[
        "new"
    ]

    participant = town.person("participant")
    asked = participant.post("/people/api/question", {}).json()
    while asked["question"] is not None:
        asked = participant.post("/people/api/answer", {"question": asked["question"], "class": 0}).json()

    owner = town.owner()
    live = owner.get("/owner/live")
    assert live.status_code == 200
    assert f">{len(votes):,}<" in live.text
    for name in ("votes.csv", "frequencies.csv", "workers.csv", "answers.csv", "events.jsonl"):
        answer = owner.get(f"/owner/export/{name}")
        assert answer.status_code == 200
        assert "attachment" in answer.headers["content-disposition"]
    assert len(owner.get("/owner/export/votes.csv").text.splitlines()) == len(votes) + 1


def open_fresh(town, link):
    with town.stranger().client as client:
        return client.get(link)


def test_one_link_for_many_opened_at_once_gives_as_many_people_as_it_may(town):
    link = town.invited(uses=3)
    answers = [answer.status_code for answer in at_once(6, open_fresh, town, link)]
    assert sorted(answers) == [303] * 3 + [403] * 3
    same = town.invited(uses=3)
    answers = [answer.status_code for answer in at_once(6, open_fresh, town, f"{same}?worker=P1")]
    assert answers == [303] * 6
    assert sum(person.external_id == "P1" for person in replicate.workers(town.project)) == 1


TESTS_TO_CHECK = """
import pytest
from sqlalchemy import create_engine

def opened():
    create_engine("sqlite://").connect().close()

@pytest.fixture(scope="module")
def of_the_module():
    opened()

def test_opens_none():
    pass

def test_takes_both(database_server):
    opened()

def test_takes_neither():
    opened()

def test_has_one_from_its_module(of_the_module):
    pass

@pytest.mark.parametrize("database_server", ["sqlite"], indirect=True)
def test_takes_one(database_url):
    opened()
"""


def test_a_test_that_opens_one_kind_of_database_alone_fails(tmp_path):
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_some.py").write_text(TESTS_TO_CHECK)
    command = [sys.executable, "-m", "pytest", "-p", "tests.databases", "-p", "no:cacheprovider", "-rA"]
    command += ["-k", "not postgresql", "-c", tmp_path / "pytest.ini", tmp_path]
    root = Path(__file__).resolve().parents[2]
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # quick, and whatever else is installed here
    said = subprocess.run(command, cwd=root, env=alone, capture_output=True, text=True, check=False).stdout
    assert set(re.findall(r"^(PASSED|FAILED) \S+::test_(\S+)", said, re.MULTILINE)) == {
        ("PASSED", "opens_none"),
        ("PASSED", "takes_both[sqlite]"),
        ("FAILED", "takes_neither"),
        ("FAILED", "has_one_from_its_module"),
        ("FAILED", "takes_one[sqlite]"),
    }, said
