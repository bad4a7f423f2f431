"""The annotator's routes: tasks come, pictures open for their worker alone, every answer counts once."""

import io

import pytest
from PIL import Image

from hardpan.replicate.database import leases
from hardpan.replicate.database import people as stored_people
from hardpan.replicate.database import votes as stored_votes


def do_all(worker):
    while task := worker.task():
        assert worker.submit(task, []).status_code == 200


def test_a_worker_gets_a_grid_and_sees_its_pictures(town):
    worker = town.person()
    task = worker.task()
    assert len(task["images"]) == 12
    for source in task["images"]:
        answer = worker.get(source)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "image/png"
        assert Image.open(io.BytesIO(answer.content)).size == (24, 24)
        assert "private" in answer.headers["cache-control"]


def test_names_types_and_headers_do_not_tell_controls_from_candidates(town):
    worker = town.person()
    task = worker.task()
    kept = [name for name in leases.Lease.__slots__ if name not in ("token", "expires_at")]
    assert set(task) == {"id", "name", "definition", "link", "images", "seconds"}, kept
    answers = [worker.get(source) for source in task["images"]]
    shapes = {tuple(sorted(k for k in answer.headers if k != "content-length")) for answer in answers}
    assert len(shapes) == 1
    assert len({answer.content[:33] for answer in answers}) == 1  # the PNG's header: size, depth, colour type
    assert all(source == f"/annotate/image/{task['id']}/{place}" for place, source in enumerate(task["images"]))


def test_the_next_task_can_be_fetched_ahead_and_a_reload_gives_the_same_one(town):
    worker = town.person()
    first = worker.task()
    second = worker.task(first["id"])
    assert second["id"] != first["id"]
    assert worker.task()["id"] == first["id"]
    assert worker.task()["images"] == first["images"]


def test_submitting_twice_counts_once(town):
    worker = town.person()
    task = worker.task()
    assert worker.submit(task, [0, 3], "one").json() == {"state": "counted", "done": 1}
    for key in ("one", "other"):
        assert worker.submit(task, [1], key).json() == {"state": "repeated", "done": 1}
    votes = stored_votes.all_votes(town.project)
    assert len(votes) == 12
    assert sum(vote.selected for vote in votes) == 2


def test_all_is_done_in_the_end_and_there_is_a_code(town):
    workers = [town.person() for _ in range(8)]  # nobody sees an image twice, so two workers are too few
    for worker in workers:
        do_all(worker)
    last = workers[0].post("/annotate/api/task", {"besides": []}).json()
    assert last["task"] is None
    assert last["project"]["done"] == last["project"]["needed"]
    person = stored_people.stored_workers(town.project)[0]
    assert last["code"] == stored_people.worker_completion_code(town.project, person.id)
    assert workers[0].post("/annotate/api/code", {}).json()["code"] == last["code"]
    votes = [(vote.worker_id, vote.image_id, vote.class_index) for vote in stored_votes.all_votes(town.project)]
    assert len(votes) == len(set(votes))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"task": 1, "selected": [], "key": "k"},
        {"task": "x", "selected": "0", "key": "k"},
        {"task": "x", "selected": [], "key": ""},
        {"task": "x", "selected": [], "key": "k" * 1000},
        {"task": "\0", "selected": [], "key": "k"},
        {"task": "\ud800", "selected": [], "key": "k"},
        [],
        "text",
        None,
    ],
)
def test_a_submission_that_cannot_be_read_is_400(town, body):
    answer = town.person().post("/annotate/api/submit", body)
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_a_place_outside_the_grid_is_400_and_leaves_the_task_open(town):
    worker = town.person()
    task = worker.task()
    for bad in (12, -1, 0.5, True, "0", [0], None):
        assert worker.submit(task, [bad]).status_code == 400, bad
    assert stored_votes.all_votes(town.project) == []
    assert worker.submit(task, [11]).json()["state"] == "counted"


def test_an_expired_lease_goes_to_others_and_the_late_answer_is_refused(town):
    slow = town.person()
    task = slow.task()
    town.shift = 4000.0
    for _ in range(8):  # others do all there is, this task too
        do_all(town.person())
    before = len(stored_votes.all_votes(town.project))
    answer = slow.submit(task, [0])
    assert answer.status_code == 410
    assert "others" in answer.json()["error"]
    assert slow.post("/annotate/api/renew", {"task": task["id"]}).status_code == 410
    assert len(stored_votes.all_votes(town.project)) == before


def test_an_expired_lease_that_nobody_took_still_counts(town):
    slow = town.person()
    task = slow.task()
    town.shift = 4000.0
    assert slow.post("/annotate/api/renew", {"task": task["id"]}).json()["seconds"] == pytest.approx(1800, abs=5)
    assert slow.submit(task, [0]).json()["state"] == "counted"


def test_links_of_classes_are_web_pages_or_nothing(town):
    worker = town.person()
    seen, besides = {}, []
    while (task := worker.task()) and len(seen) < 3:
        seen[task["name"]] = task["link"]
        worker.submit(task, [])
        besides.append(task["id"])
    assert seen.get("circle", "https://example.org/circle") == "https://example.org/circle"
    assert seen.get("square", "") == ""
