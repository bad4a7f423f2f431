"""A replication of texts, from tables to a frozen set: the same path as that of images."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from tests.web.visitor import Town

from hardpan import Dataset, cli
from hardpan.errors import InputError
from hardpan.neighbors.text_copies import normalised_text
from hardpan.replicate import Project, database, simulate
from hardpan.tables import read_columns, write_table

THINGS = {
    "bill": ["my bill", "the invoice", "a refund", "the payment"],
    "parcel": ["my parcel", "the courier", "a late order", "the shipping"],
    "login": ["my login", "the password", "a locked account", "the reset link"],
}
STARTS = ["I have a question about", "Could you help me with", "Something is wrong with", "No news on"]
SETTINGS = {"grid": 24, "workers_per_image": 3, "originals_per_class": 6}
MARKUP = "<b>bold</b> & <script>alert(1)</script> about my bill, 漢字 è"


def sentences(count: int, seed: int) -> dict[str, list[str]]:
    """Texts that all differ, with their classes."""
    rng = np.random.default_rng(seed)
    names = list(THINGS)
    labels = [names[k % 3] for k in range(count)]
    texts = [f"{rng.choice(STARTS)} {rng.choice(THINGS[c])} of order {seed}{k} today" for k, c in enumerate(labels)]
    return {"text": texts, "label": labels}


def all_texts(project) -> dict[str, str]:
    """Id to text of all originals and candidates."""
    rows = (row for kind in ("original", "candidate") for row in database.stored_images(project, kind))
    return {row.id: project.example(row.id, row.row) for row in rows}


@pytest.fixture
def made(tmp_path):
    """A project of 90 texts with 60 candidates, some of which are copies, altered copies or broken."""
    originals = sentences(90, 1)
    write_table(tmp_path / "questions.csv", originals)
    new = sentences(60, 2)
    texts, labels = new["text"], new["label"]
    texts[0] = MARKUP
    exact, shouted, longer = (originals["text"][row] for row in (3, 6, 9))  # of the class "bill"
    texts += [exact, shouted.upper() + " !", longer + " please", " ", texts[1]]
    labels += ["bill", "bill", "bill", "bill", labels[1]]
    write_table(tmp_path / "new.jsonl", {"sentence": texts, "class": labels, "page": list(range(len(texts)))})
    project = Project.create(tmp_path / "project", tmp_path / "questions.csv", **SETTINGS)
    yield project, project.add_candidates(tmp_path / "new.jsonl"), originals, new
    project.close()


def test_texts_become_a_frozen_set_that_verifies(made):
    project, added, originals, new = made
    assert (added.read, added.added, added.repeated, added.in_original) == (65, 62, 1, 1)
    assert [item.split(":")[0] for item in added.broken] == ["row 64"]
    project.make_tasks()
    simulate.simulate_demo_annotation(project, 12)
    project.sample("top", per_class=20, min_votes=0)
    # Planted copies are in the queue, wherever the sample has them.
    project.find_duplicates()
    text = all_texts(project)
    queued = {(text[p.image_id], text[p.other_id]) for p in database.undecided_pairs(project)}
    sampled = {text[name] for name in project.current_sample().ids}
    planted = [(new["text"][61], originals["text"][6]), (new["text"][62], originals["text"][9])]
    assert any(copy in sampled for copy, _ in planted)
    for copy, original in planted:
        assert copy not in sampled or (copy, original) in queued
    assert all(a != b for a, b in queued)
    lineage = project.assemble(unreviewed_ok=True).lineage
    folder = project.root / "set"
    fresh = Dataset.open(folder / "data.parquet")
    assert set(fresh.texts) == sampled
    assert lineage.per_class == dict.fromkeys(THINGS, 20)
    label = dict(zip(new["text"], new["label"], strict=True))
    assert [fresh.class_names[c] for c in fresh.labels] == [label[t] for t in fresh.texts]
    assert set(lineage.files) == {
        "DATASHEET.md",
        "croissant.json",
        "data.parquet",
        "index.csv",
        "unreviewed_pairs.csv",
    }
    described = json.loads((folder / "croissant.json").read_text())
    assert [item["@id"] for item in described["recordSet"]] == ["examples", "texts"]
    assert set(read_columns(folder / "unreviewed_pairs.csv")) == {"id", "other", "other_split", "similarity"}
    assert project.verify().problems == ()
    # Another text in the pool, or in the file, is found.
    name = project.current_sample().ids[0]
    project.pool_file(name).write_text("something else")
    assert {text.partition(":")[0] for text in project.verify().problems} == {"pool", "assembled files"}


def test_texts_that_differ_in_marks_alone_are_queued_however_short(tmp_path):
    data = Dataset.from_arrays(["Yes!", "no", "maybe so", "never"] * 1, ["a", "b", "a", "b"])
    project = Project.create(tmp_path / "p", data, **SETTINGS)
    simulate.add_candidate_arrays(project, ["yes", "nearly", "never..."], [0, 0, 1])
    simulate.add_candidate_arrays(project, ["often"], [1])
    project.make_tasks()
    simulate.simulate_demo_annotation(project, 12)
    project.sample("top", per_class=2, min_votes=0)
    project.find_duplicates()
    text, waiting = all_texts(project), database.undecided_pairs(project)
    pairs = {(normalised_text(text[p.image_id]), normalised_text(text[p.other_id])) for p in waiting}
    assert pairs == {("yes", "yes"), ("never", "never")}
    project.close()


def test_what_is_sent_is_the_text_and_does_not_tell_controls_from_candidates(made):
    project, *_ = made
    project.make_tasks()
    town = Town(project, project.renew_owner_token())
    worker = town.person()
    page = worker.get("/annotate/")
    assert 'name="noun" content="text"' in page.text
    assert "image" not in page.text.partition("<main")[2].partition("</main>")[0]
    texts, headers = set(), set()
    while task := worker.task():
        for source in task["images"]:
            answer = worker.get(source)
            texts.add(answer.text)
            headers.add(tuple(sorted((k, v) for k, v in answer.headers.items() if k != "content-length")))
        assert worker.submit(task, []).status_code == 200
    assert len(headers) == 1
    assert dict(headers.pop())["content-type"] == "text/plain; charset=utf-8"
    assert texts <= set(all_texts(project).values())
    town.close()


def test_folders_and_columns_that_cannot_be_used_are_named(made, tmp_path):
    project, *_ = made
    folder = tmp_path / "more" / "bill"
    folder.mkdir(parents=True)
    (folder / "one.txt").write_text("\ufeffA bill that nobody sent me\n", encoding="utf-8")
    (folder / "two.txt").write_bytes(b"\xff\xfe\x00")
    added = project.add_candidates(tmp_path / "more")
    assert (added.added, len(added.broken)) == (1, 1)
    with (tmp_path / "bad.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["words", "class"], ["a b", "bill"]])
    with pytest.raises(InputError):
        project.add_candidates(tmp_path / "bad.csv")
    assert project.add_candidates(tmp_path / "bad.csv", text="words").added == 1
    mixed = {"text": sentences(40, 3)["text"], "label": ["a", "b"] * 20, "length": list(range(40))}
    with pytest.raises(InputError):
        Project.create(tmp_path / "mixed", Dataset.open(write_table(tmp_path / "mixed.csv", mixed)), **SETTINGS)


def test_the_commands_take_columns_of_other_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    originals, new = sentences(60, 1), sentences(30, 2)
    write_table("q.csv", {"note": ["x y z"] * 60, "utterance": originals["text"], "intent": originals["label"]})
    write_table("new.csv", {"utterance": new["text"], "class": new["label"]})
    reading = ["--label", "intent", "--text", "utterance", "--set", "drop=note", "--set", "grid=24"]
    for words in (["init", "p", "--original", "q.csv", *reading], ["add", "p", "new.csv", "--text", "utterance"]):
        with pytest.raises(SystemExit) as done:
            cli.main(["replicate", *words])
        assert not done.value.code
    project = Project.open("p")
    assert set(all_texts(project).values()) == {*originals["text"], *new["text"]}
    project.close()
