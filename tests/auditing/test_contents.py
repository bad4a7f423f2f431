"""Rows as people read them: pages, labels.csv and the table of examples have their columns."""

import csv

import numpy as np
import pandas as pd
from starlette.testclient import TestClient

from hardpan import Dataset, auditing
from hardpan.auditing.contents import row_contents, telling_order
from hardpan.auditing.example_table import read_example_table
from hardpan.web.explorer import create_app
from hardpan.web.explorer.review import ReviewSite

BARE = {"ensemble": "none", "flow": "none"}


def frame(n=300, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    noise, signal = rng.normal(size=n), 4.0 * y + rng.normal(size=n)
    colour = np.array(["red", "green"])[np.where(rng.random(n) < 0.9, y, 1 - y)]
    return pd.DataFrame({"noise": noise, "colour": colour, "signal": signal, "label": np.array(["a", "b"])[y]})


def test_columns_come_in_the_order_of_what_they_tell():
    rng = np.random.default_rng(0)
    y = np.arange(400) % 3
    x = np.column_stack([rng.normal(size=400), y == 2, 3.0 * y + rng.normal(size=400)])
    assert telling_order(x, np.array([False, True, False]), y, np.arange(400))[-1] == 0
    contents = row_contents(auditing.audit(Dataset.from_frame(frame()), **BARE).evidence)
    assert list(contents.columns)[-1] == "noise"
    assert set(contents.columns["colour"]) == {"red", "green"}
    assert contents.numbers == {"noise", "signal"}


def test_differences_and_nearest_rows_are_those_of_a_plain_loop():
    table = frame()
    table.loc[1] = table.loc[0]
    table.loc[1, "signal"] += 9.0
    table.loc[2] = table.loc[0]
    contents = row_contents(auditing.audit(Dataset.from_frame(table), **BARE).evidence)
    assert contents.differences(0, 1) == ["signal"]
    assert contents.differences(0, 2) == []
    assert contents.nearest(np.array([0]), np.arange(300)).tolist() == [2]
    assert contents.nearest(np.array([0]), np.array([0, 1, 5])).tolist() != [0]


def test_the_list_of_labels_has_the_rows_and_is_taken_as_corrections(tmp_path):
    table = frame()
    flipped = [3, 40, 77]
    table.loc[flipped, "label"] = np.where(table.loc[flipped, "label"] == "a", "b", "a")
    source = tmp_path / "data.csv"
    table.to_csv(source, index=False)
    truth = np.where(table["label"] == "a", 0.98, 0.02)
    truth[flipped] = 1 - truth[flipped]
    probs = np.column_stack([truth, 1 - truth])
    report = auditing.audit(source, predictions={"known": probs}, held_out=True, **BARE, out=tmp_path / "audit")
    path = tmp_path / "audit" / "problems" / "labels.csv"
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    test = set(report.evidence.inputs.test.tolist())
    for row in rows:
        assert float(row["signal"]) == table["signal"][int(row["row"])]
        assert row["colour"] == table["colour"][int(row["row"])]
    examples = read_example_table(tmp_path / "audit").table
    assert examples["feature: colour"].to_pylist() == table["colour"].tolist()
    assert np.allclose(examples["feature: signal"].to_pylist(), table["signal"])
    corrected = Dataset.open(f"{source}@{path}")
    given = Dataset.open(source)
    names = np.array(given.class_names)
    assert set(np.flatnonzero(corrected.labels != given.labels)) == {int(row["row"]) for row in rows}
    assert all(names[corrected.labels[int(row["row"])]] == row["suggested"] for row in rows)
    assert set(flipped) & test <= {int(row["row"]) for row in rows}
    assert "suggested" in {item.code for item in corrected.warnings}
    shown = [table for part in report.sections() for table in (*part.tables, *part.folded)]
    assert any("signal" in getattr(item, "columns", ()) for item in shown)


def test_answers_of_a_review_are_corrections_of_the_next_audit_in_the_same_folder(tmp_path):
    table, source, folder = frame(), tmp_path / "data.csv", tmp_path / "audit"
    truth = table["label"].copy()
    table.loc[[3, 40, 77], "label"] = np.where(table.loc[[3, 40, 77], "label"] == "a", "b", "a")
    table.to_csv(source, index=False)
    settings = {"predictions": {"known": np.where(truth.to_numpy()[:, None] == ["a", "b"], 0.97, 0.03)}}
    first = auditing.audit(source, **settings, held_out=True, **BARE, out=folder)
    assert f"{source}@{folder}/corrections.csv" in first.next_command
    app = create_app(read_example_table(folder), folder=folder)
    client = TestClient(app, base_url="http://127.0.0.1")
    queue = client.get("/api/review").json()["items"]
    answers = {"positions": list(range(len(queue))), "verdict": "accepted", "right_class": ""}
    assert client.post("/api/review", json=answers).json()["judged"] == len(queue) > 0
    review = ReviewSite(read_example_table(folder), folder, 40)
    for at, name in enumerate(review.review.id):
        row = int(np.flatnonzero(first.evidence.dataset.ids == name)[0])
        wrong = truth[row] != table["label"][row]
        review.judge({"position": at, "verdict": "wrong" if wrong else "right", "right_class": truth[row] * wrong})
    again = auditing.audit(f"{source}@{folder}/corrections.csv", **settings, held_out=True, **BARE, out=folder)
    names = np.array(again.evidence.dataset.class_names)
    corrected = {int(row) for row in np.flatnonzero(names[again.evidence.labels] == truth)}
    assert len(corrected) == 300 - (3 - len(queue))
    assert not len(again.evidence.issues)
    assert again.next_command == first.next_command
    reviewed = Dataset.open(f"{source}@{folder}/review.csv")
    found = {3, 40, 77} & {int(row) for row in review.review.row[review.review.verdict == "wrong"]}
    assert (names[reviewed.labels] == truth).sum() == 297 + len(found)
