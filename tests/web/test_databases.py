"""The same site over SQLite and a real PostgreSQL: everything once, many at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from tests.web import small
from tests.web.served import Served
from tests.web.visitor import Town

from hardpan.replicate import database
from hardpan.replicate.database import tasks
from hardpan.replicate.database import votes as stored_votes

pytestmark = pytest.mark.both_databases


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
    votes = stored_votes.all_votes(town.project)
    assert len(votes) == 12 * done
    assert len({(vote.worker_id, vote.image_id) for vote in votes}) == len(votes)
    assert sum(vote.selected for vote in votes) == 2 * done
    assert all(row.submitted <= row.needed for row in tasks.task_coverage(town.project))

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
    assert "Returned to the first selector" in reviewer.get("/review/").text
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


def begin(town, link, all_joined):
    newcomer = town.stranger()
    newcomer.join(link)
    all_joined.wait(60)
    return newcomer.post("/annotate/api/task", {"besides": []}).status_code


def open_fresh(town, link):
    with town.stranger().client as client:
        return client.get(link)


def test_one_link_for_many_opened_at_once_gives_as_many_people_as_it_may(town):
    link = town.invited(uses=3)
    assert sorted(at_once(6, begin, town, link, Barrier(6))) == [200] * 3 + [403] * 3
    same = town.invited(uses=3)
    answers = [answer.status_code for answer in at_once(6, open_fresh, town, f"{same}?worker=P1")]
    assert answers == [303] * 6
    assert sum(person.external_id == "P1" for person in database.stored_workers(town.project)) == 1
