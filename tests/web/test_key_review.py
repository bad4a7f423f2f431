"""The review of answer keys: what a person sees is what the logs hold, and every verdict goes back in."""

import csv
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from hardpan import Outcomes, leaderboard
from hardpan.leaderboard.keys import SuspectKeys
from hardpan.web.key_review import FILE, KeyReview, create_app

ANSWERS = [["=A", "B", "C"], ["=A", "D", "C"], ["=A", "D", "B"]]


@pytest.fixture
def outcomes() -> Outcomes:
    rows = [
        {"model": f"m{m}", "item": f"q{i}", "score": float(said == key), "answer": said, "key": key}
        for m, answers in enumerate(ANSWERS)
        for i, (said, key) in enumerate(zip(answers, ("E", "B", "C"), strict=True))
    ]
    return Outcomes.open(rows)


@pytest.fixture
def found(outcomes: Outcomes) -> SuspectKeys:
    return leaderboard.suspect_keys(outcomes)


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def visitor(found: SuspectKeys, folder: Path) -> TestClient:
    return TestClient(create_app(KeyReview(found, folder)), base_url="http://127.0.0.1")


def test_shows_key_and_answers_and_keeps_verdicts(found: SuspectKeys, outcomes: Outcomes, tmp_path: Path) -> None:
    page = visitor(found, tmp_path)
    assert page.get("/").status_code == 200
    items = page.get("/api/items").json()["items"]
    assert [row["item"] for row in items] == ["q0", "q1", "q2"]
    assert items[0]["key"] == "E"
    assert items[0]["answers"] == [{"text": "=A", "share": 1.0}]
    for item, key, comment in (("q0", "=A", ""), ("q1", "", "unclear")):
        answer = page.post("/api/verdict", json={"item": item, "correct_key": key, "comment": comment})
        assert answer.status_code == 200
    again = visitor(found, tmp_path).get("/api/items").json()["items"]
    assert [(row["correct_key"], row["comment"]) for row in again] == [("=A", ""), ("", "unclear"), ("", "")]
    with (tmp_path / FILE).open(newline="") as stream:
        sheet = list(csv.DictReader(stream))
    assert sheet[0]["correct_key"] == "'=A"  # no spreadsheet takes it for a formula
    page.post("/api/verdict", json={"item": "q0", "correct_key": "", "comment": ""})
    assert visitor(found, tmp_path).get("/api/items").json()["items"][0]["correct_key"] == ""


def test_what_is_no_verdict_is_refused(found: SuspectKeys, tmp_path: Path) -> None:
    page = visitor(found, tmp_path)
    for body in ({"item": "other", "correct_key": "A"}, {"item": "q0", "correct_key": 3}, {"correct_key": "A"}, []):
        assert page.post("/api/verdict", json=body).status_code == 400
    assert page.post("/api/verdict", content=b"item=q0").status_code == 400
    assert not (tmp_path / FILE).exists()
    assert page.get("/", headers={"host": "elsewhere.example"}).status_code == 400
