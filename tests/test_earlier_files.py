"""Files that commit 5e422ec wrote still open: a store of predictions, a project, a ledger, and reports."""

import zipfile
from pathlib import Path

import pytest

import hardpan as hp
from hardpan import files
from hardpan.replicate import Project

PACK = Path(__file__).parent / "earlier" / "5e422ec.zip"


@pytest.fixture
def earlier(tmp_path):
    with zipfile.ZipFile(PACK) as pack:
        pack.extractall(tmp_path)
    (tmp_path / "owner.key").chmod(0o600)
    return tmp_path


def test_a_store_of_predictions_opens(earlier):
    predictions = hp.Predictions.open(earlier / "store")
    assert (predictions.seeds, predictions.epochs, predictions.n_classes) == ((0, 1), (0, 1, 2), 3)
    scores = hp.confusion.scores(predictions)
    assert scores.values[:2] == pytest.approx([1.438958, 1.405899], abs=5e-7)  # what that commit computed


def test_a_project_opens_with_its_votes(earlier):
    project = Project.open(earlier / "project")
    try:
        status = project.status()
        assert (status.votes, status.workers, status.tasks, status.tasks_complete) == (420, 6, 2, 2)
    finally:
        project.close()


def test_a_ledger_opens_and_verifies(earlier):
    book = hp.ledger.open(earlier / "book", key=earlier / "owner.key")
    assert book.verify().ok
    assert book.status().submissions == 1


@pytest.mark.parametrize(
    ("name", "kind", "number"),
    [
        ("audit", "Audit", "25 %"),
        ("confusion", "ScoreReport", "70 %"),
        ("leaderboard", "LeaderboardSummary", "19.8 points"),
        ("testbed", "Comparison", "4.1 points"),
        ("floor", "Floor", "51.2 %"),
    ],
)
def test_a_report_opens_and_shows_its_page(earlier, name, kind, number):
    report = files.load(earlier / name / "report.json")
    assert files.to_json(report)["kind"] == kind
    assert number in report.headline
    assert report.headline.split(" (")[0] in report.to_html().replace("\u00a0", " ")
