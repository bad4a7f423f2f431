"""Published audits: the pages say what their records say, and records what reports say."""

import dataclasses
import html
import json
import re

import numpy as np
import pytest
from reproductions import published_audits as published

import hardpan as hp
from hardpan import files
from hardpan.files import from_json, to_json

RECORDS = published.kept_records()
SOURCE = published.Source("github.com/nobody/made-up", "0" * 40, "none stated")
PLAN = published.Plan("Made up", SOURCE, "hardpan audit made-up.npz", published.copies({}))


@pytest.mark.parametrize("name", RECORDS)
def test_a_page_is_made_from_its_record(name):
    text = (published.PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert text == published.page(name, RECORDS[name])
    assert RECORDS[name].command == published.PLANS[name].command
    assert RECORDS[name].version == published.PLANS[name].source.version


@pytest.mark.parametrize("name", RECORDS)
def test_a_page_has_a_small_picture_and_no_folder_of_a_machine(name):
    assert 10_000 < (published.PAGES / f"{name}.png").stat().st_size < 95_000
    assert not re.search(r"/(?:home|work|root|tmp)/", (published.PAGES / f"{name}.md").read_text(encoding="utf-8"))


def test_the_index_lists_every_record():
    assert (published.PAGES / "index.md").read_text(encoding="utf-8") == published.index(RECORDS)
    assert {path.stem for path in published.RECORDS.glob("*.json")} == set(RECORDS)
    assert {path.stem for path in published.PAGES.glob("*.md")} == {*RECORDS, "index"}


@pytest.fixture(scope="module")
def audit():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 60)
    x = rng.normal(size=(120, 3)) + 2.0 * y[:, None]
    x[1], y[1] = x[0], 1 - y[0]  # equal inputs with different labels
    return hp.audit(hp.Dataset.from_arrays(x, y, name="made up"), ensemble="none", flow="none")


def test_a_page_has_every_sentence_and_problem_of_the_report(audit):
    record = published.record_of(audit, PLAN, "2026-01-01")
    text = published.page("made-up", record)
    view = audit.view()
    assert text.startswith(f"# Made up: {html.escape(view.headline, quote=False)}\n")
    assert view.problems
    for sentence in (*view.lede, *(item.title for item in view.problems), *(item.detail for item in view.problems)):
        assert html.escape(sentence, quote=False) in text
    values = dict(record.table.rows)
    assert values["error of the best model"] in text
    assert from_json(json.loads(json.dumps(to_json(record)))) == record


def test_the_table_of_a_leaderboard_is_that_of_its_page():
    right = np.random.default_rng(1).random((14, 60)) < np.linspace(0.2, 0.9, 14)[:, None]
    outcomes = hp.Outcomes.from_arrays(right, models=[f"model|{k}" for k in range(14)])
    report = hp.leaderboard.summarize(outcomes)
    record = published.record_of(report, dataclasses.replace(PLAN, title="Scores"), "2026-01-01")
    assert record.finding == report.headline
    assert [row[0] for row in record.table.rows] == list(report.ranking.models[: published.ROWS])
    lines = published.page("scores", record).splitlines()
    table = next(k for k, line in enumerate(lines) if line.startswith("| model | score"))
    assert lines[table + 2].startswith(f"| {report.ranking.models[0].replace('|', chr(92) + '|')} |")
    assert "first 10 of 14" in record.table.title


def test_data_are_read_at_the_commit(tmp_path):
    with pytest.raises(SystemExit, match="git clone"):
        SOURCE.read(tmp_path, "table.csv")


def test_records_are_written_as_they_were_read(tmp_path):
    for record in RECORDS.values():
        assert files.load(files.save(record, tmp_path / "record.json")) == record
