"""The human-accuracy experiment from its command to Table 3, with people of known accuracy."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
from tests.databases import copy_project, drop_database, new_database
from tests.web import small

from hardpan.cli import main
from hardpan.errors import InputError
from hardpan.predictions import Predictions
from hardpan.replicate import simulate
from hardpan.replicate.database import decisions, events, questions
from hardpan.replicate.database import people as stored_people
from hardpan.replicate.database.images import stored_images
from hardpan.replicate.experiment import hardest_experiment_images, right_answers_by_model

PEOPLE = [(0.95, 0.95), (0.9, 0.6), (0.5, 0.5)]


@pytest.fixture(scope="module")
def frozen(tmp_path_factory, database_server):
    """A project of digits with 30 images a class, annotated and frozen."""
    root = tmp_path_factory.mktemp("people") / "project"
    url = new_database(database_server)
    project = simulate.demo_project(root, database_url=url, workers_per_image=2, grid=60, seed=1)
    simulate.simulate_demo_annotation(project, 4, seed=1)
    project.sample(strategy="threshold", threshold=0.0, per_class=30, min_votes=0)
    with pytest.raises(InputError):
        project.begin_experiment()
    project.find_duplicates(k=1)
    for item in decisions.undecided_pairs(project):
        decisions.record_decision(
            project, "duplicate", item.subject, "keep", by="owner", submission_key=item.subject
        )
    project.assemble()
    project.close()
    yield root
    drop_database(url)


@pytest.fixture
def project(frozen, tmp_path):
    opened = copy_project(frozen, tmp_path / "project")
    yield opened
    small.remove(opened)


@dataclass
class Said:
    code: int
    out: str
    err: str

    @property
    def words(self):
        return " ".join((self.out + self.err).split())


@pytest.fixture
def call(capsys):
    def run(*given):
        code = 0
        try:
            main(["replicate", "experiment", *map(str, given)])
        except SystemExit as stop:
            code = int(stop.code or 0)
        return Said(code, *capsys.readouterr())

    return run


def images(project):
    rows = sorted(stored_images(project, "original"), key=lambda row: row.row)
    new = {image.id: image.class_name for image in project.current_sample().images}
    return {row.id: project.classes[row.class_index].name for row in rows}, new


def certain(answer):
    return ",".join("1" if c == int(answer) else "0" for c in range(10))


def write_predictions(project, path, *, models=5):
    """Planted: the first 30 ids of each set fool every model, the next 60 fool the first model only."""
    sides = images(project)
    hard = [sorted(side)[:30] for side in sides]
    lines = ["id,model," + ",".join(f"p{c}" for c in range(10))]
    for side, planted in zip(sides, hard, strict=True):
        for name, truth in side.items():
            wrong = str((int(truth) + 1) % 10)
            some = name in sorted(side)[30:90]
            said = [wrong if name in planted or (some and k == 0) else truth for k in range(models)]
            lines += [f"{name},m{k},{certain(answer)}" for k, answer in enumerate(said)]
    path.write_text("\n".join(lines) + "\n")
    return hard


def answer_questions(project, accuracies, *, seed=0, most=None):
    """Let participants answer: one pair of chances of a right answer, on original and new images, per person."""
    truths, classes = small.question_truths(project), len(project.classes)
    link = stored_people.invite_people(
        project, role="participant", uses=max(1, len(accuracies)), label="simulated"
    ).link
    people = [
        stored_people.enter_by_invitation(project, link, external_id=f"participant-{k}").id
        for k in range(len(accuracies))
    ]
    for k, who in enumerate(people):
        done = 0
        while done != most and (question := questions.next_question(project, who)) is not None:
            origin, truth = truths[question.question]
            rng = np.random.default_rng([seed, k, question.question])  # in any order of the questions
            knows = rng.random() < accuracies[k][origin == "new"]
            said = truth if knows else (truth + 1 + int(rng.integers(classes - 1))) % classes
            questions.answer_question(project, who, question.question, said)
            done += 1


def test_from_the_command_to_table_3(call, project, tmp_path):
    table = tmp_path / "predictions.csv"
    hard = write_predictions(project, table)
    root = project.root
    answer = call(root, "--predictions", table, "--fraction", 0.2, "--seed", 4, "--json")
    assert answer.code == 0, answer.words
    begun = json.loads(answer.out)
    assert set(hard[0]) <= set(begun["original"])
    assert set(hard[1]) <= set(begun["new"])
    assert (len(begun["original"]), len(begun["new"])) == (200, 60)
    assert begun["models"] == [f"m{k}" for k in range(5)]
    assert call(root, "--predictions", table, "--fraction", 0.2, "--seed", 4).code == 0  # nothing changes
    refused = call(root, "--predictions", table, "--fraction", 0.1)
    assert refused.code == 2
    assert "cannot change" in refused.words
    assert "opened-accuracies" in [event["what"] for event in events.stored_events(project)]
    assert call(root, "--results").code == 2  # nobody yet

    answer_questions(project, PEOPLE, seed=2)
    answer_questions(project, [(1.0, 1.0)] * 4, seed=3, most=7)  # who stop early
    answer = call(root, "--results", "--json", "--out", tmp_path / "page")
    assert answer.code == 0, answer.words
    rows = {row["name"]: row for row in json.loads(answer.out)["humans"]["rows"]}
    for number, (original, new) in enumerate(PEOPLE, start=1):
        for side, truth, count in (("original", original, 200), ("new", new, 60)):
            found = rows[str(number)][side]
            # The order of the questions, and so the simulated answers, come from the system's randomness.
            assert abs(found["value"] - truth) <= 5 * (truth * (1 - truth) / count) ** 0.5 + 1e-9
            assert found["low"] <= found["value"] <= found["high"]
            assert found["n"] == count
    assert rows["2"]["gap"] > 0
    page = (tmp_path / "page" / "index.html").read_text()
    assert "People on the hardest images" in page
    assert "has answered 7 of 260 questions" in page
    shown = call(root, "--results")
    assert shown.words.startswith("The average gap")
    third = [person.id for person in stored_people.stored_workers(project) if person.role == "participant"][2]
    stored_people.block_worker(project, third, exclude_votes=True)
    assert project.experiment_results().answered.keys() == {"1", "2", "4", "5", "6", "7"}
    assert project.verify().ok


def test_without_predictions_by_selection_frequency(call, project):
    answer = call(project.root, "--fraction", 0.1)
    assert answer.code == 0, answer.words
    assert "selection frequency" in answer.words
    found = project.begin_experiment(fraction=0.1)
    frequency = {image.id: image.frequency for image in project.current_sample().images}
    assert [frequency[name] for name in found.new] == sorted(frequency.values())[:30]


def test_nothing_tells_the_origin(project):
    begun = project.begin_experiment(fraction=0.1)
    truths = small.question_truths(project)
    assert len(truths) == len(begun.original) + len(begun.new)
    ranks = [number for number, (origin, _) in sorted(truths.items()) if origin == "new"]
    assert abs(np.mean(ranks) - np.mean(list(truths))) < 12  # four standard deviations of a random order


def test_a_store_and_tables_say_the_same(project, tmp_path):
    original, new = images(project)
    names, ids = [item.name for item in project.classes], [*original, *new]
    truth = np.array([names.index(c) for c in [*original.values(), *new.values()]])
    rng = np.random.default_rng(0)
    said = np.where(rng.random((3, len(ids))) < 0.7, truth, (truth + 1) % 10)
    split = np.array(["train"] * len(original) + ["test"] * len(new))
    held = Predictions.create(
        tmp_path / "store", ids=ids, n_classes=10, labels=truth, split=split, config={"model": "m"}
    )
    for seed in range(3):
        held.write(seed, 0, np.eye(10)[said[seed]] * 0.9 + 0.01)
    models = [f"m seed {k}" for k in range(3)]
    rows = [f"{name},{m},{certain(said[k, row])}\n" for k, m in enumerate(models) for row, name in enumerate(ids)]
    columns = ",".join(f"p{c}" for c in range(10))
    (tmp_path / "table.csv").write_text(f"id,model,{columns}\n" + "".join(rows))
    want = {m: dict(zip(ids, (said[k] == truth).tolist(), strict=True)) for k, m in enumerate(models)}
    for path in ("store", "table.csv"):
        assert right_answers_by_model([tmp_path / path], {**original, **new}, names) == want


@pytest.mark.parametrize(
    "text",
    ["id,prediction\n", "id,prediction\nx,3\n", "id,prediction,label\nx,cat,dog\n", "id,m\nx,3\n"],
)
def test_bad_predictions_are_refused(call, project, tmp_path, text):
    (tmp_path / "bad.csv").write_text(text)
    answer = call(project.root, "--predictions", tmp_path / "bad.csv")
    assert answer.code == 2


def test_hardest_images_choose_ties_by_seed():
    easy = dict.fromkeys("abcdefghij", 1.0)
    drawn = {hardest_experiment_images(easy, fraction=0.3, seed=seed) for seed in range(20)}
    assert all(len(item) == 3 for item in drawn)
    assert len(drawn) > 5
    for bad in (0.0, 1.1):
        with pytest.raises(InputError) as caught:
            hardest_experiment_images(easy, fraction=bad)
        assert caught.value.argument == "fraction"
