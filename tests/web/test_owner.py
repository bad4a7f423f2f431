"""The owner's page and files."""

import csv
import dataclasses
import io
import json

import pytest
from tests.web.visitor import GENEROUS

from hardpan.replicate import simulate
from hardpan.replicate.database import people as stored_people
from hardpan.replicate.database import votes
from hardpan.replicate.database.images import stored_images
from hardpan.replicate.database.people import new_person_id
from hardpan.web.annotation import entry
from hardpan.web.annotation.owner import owner_figures

KINDS = ("candidate", "original")


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_frequencies_and_controls_are_those_that_were_planted(town):
    kinds = {row.id: row.class_index for kind in KINDS for row in stored_images(town.project, kind)}
    perfect = [simulate.SimulatedAnnotator(1.0)] * 3
    simulate.simulate_annotation(town.project, perfect, lambda image, target: float(kinds[image] == target))
    found = owner_figures(town.project)
    candidates, originals = found.histograms[None]
    assert candidates.counts == (0,) * 9 + (candidates.images,)
    assert originals.mean == 1.0
    assert all(row.controls == row.right > 0 and not row.quality.flagged for row in found.workers)
    assert found.alpha is None  # all candidates selected by all: there is nothing to agree on
    assert sum(row.submitted for row in found.coverage) == len(
        {(vote.task_id, vote.worker_id) for vote in votes.all_votes(town.project)}
    )
    owner = town.owner()
    table = rows(owner.get("/owner/export/frequencies.csv").text)
    assert {row["frequency"] for row in table if row["role"] != "negative"} == {"1.0"}
    assert {row["frequency"] for row in table if row["role"] == "negative"} == {"0.0"}
    workers = rows(owner.get("/owner/export/workers.csv").text)
    for row in workers:
        assert row["completion_code"] == stored_people.worker_completion_code(town.project, row["worker"]), row


def test_no_workers_name_needs_a_mark_in_a_table():
    assert all(new_person_id()[0] not in "=+-@_" for _ in range(2000))


def test_a_workers_number_that_looks_like_a_formula_stays_text(town):
    stranger = town.stranger()
    assert stranger.get(town.invited(uses=5) + "?worker==HYPERLINK(1)").status_code == 303
    text = town.owner().get("/owner/export/workers.csv").text
    assert "'=HYPERLINK(1)" in text


def test_the_log_is_given_whole_and_in_order(town):
    town.person()
    events = [json.loads(line) for line in town.owner().get("/owner/export/events.jsonl").text.splitlines()]
    assert [event["id"] for event in events] == sorted(event["id"] for event in events)
    assert {"invited", "entered"} <= {event["what"] for event in events}


@pytest.mark.parametrize(
    "change", [{"role": "owner"}, {"uses": 0}, {"count": 501}, {"label": "x" * 101}, {"label": 3}, {"uses": "1"}]
)
def test_links_that_cannot_be_made_are_400(town, change):
    body = {"role": "annotator", "uses": 1, "count": 1, "label": ""} | change
    assert town.owner().post("/owner/api/invite", body).status_code == 400


def test_a_revoked_link_lets_nobody_in_and_ends_the_sessions_it_gave(town):
    owner = town.owner()
    body = {"role": "annotator", "uses": 2, "count": 1, "label": "two"}
    path = owner.post("/owner/api/invite", body).json()["paths"][0]
    inside = town.stranger()
    inside.join(path)
    invited = stored_people.stored_invitations(town.project)[-1]
    assert owner.post("/owner/api/revoke", {"invitation": invited.id}).status_code == 200
    assert town.stranger().get(path).status_code == 403
    assert inside.get("/annotate/").status_code == 401
    assert inside.post("/annotate/api/task", {"besides": []}).status_code == 401


def test_a_blocked_worker_is_out_at_once_and_a_task_in_hand_counts_no_more(town):
    owner, worker = town.owner(), town.person()
    task = worker.task()
    who = stored_people.stored_workers(town.project)[-1].id
    assert owner.post("/owner/api/block", {"worker": who, "exclude": True}).status_code == 200
    assert worker.submit(task, []).status_code == 401
    assert worker.get(task["images"][0]).status_code == 401
    assert votes.all_votes(town.project) == []
    assert "Unblock" in owner.get("/owner/live").text
    assert owner.post("/owner/api/unblock", {"worker": who}).status_code == 200
    assert worker.submit(task, []).status_code == 200


def test_a_link_under_another_roles_path_is_refused_and_not_used_up(town):
    link = town.invited("reviewer")
    assert town.stranger().get(link.replace("/review/", "/annotate/")).status_code == 403
    assert stored_people.stored_workers(town.project) == []
    assert town.stranger("review").get(link).status_code == 303


def test_one_address_cannot_bring_in_people_without_end(open_town):
    town = open_town(dataclasses.replace(GENEROUS, newcomers_per_hour=5))
    link = town.invited(uses=100)
    answers = [town.stranger().get(link).status_code for _ in range(8)]
    assert answers == [303] * 5 + [429] * 3


def test_the_owners_link_is_printed_once_and_a_new_one_ends_the_old(town):
    first = entry.entry_links(town.project, "http://testserver", admits=7)
    before, town.token = town.token, first.owner.rpartition("#")[2]
    assert town.owner().get("/owner/").status_code == 200
    assert town.stranger().get(first.annotators.removeprefix("http://testserver")).status_code == 303
    second = entry.entry_links(town.project, "http://testserver", admits=7)
    assert (second.owner, second.annotators) == ("", first.annotators)
    third = entry.entry_links(town.project, "http://testserver", admits=7, new_owner=True)
    for ended in (before, town.token):
        assert town.stranger("owner").client.post("/owner/api/enter", json={"token": ended}).status_code == 403
    town.token = third.owner.rpartition("#")[2]
    assert town.owner().get("/owner/").status_code == 200
