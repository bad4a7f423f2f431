"""A test set from files, by commands alone, each given twice: the second time changes nothing."""

import csv
import json
import shutil

import numpy as np
import pytest
from PIL import Image
from tests.web.small import draw

from hardpan import cli, replicate
from hardpan.data.dataset import Dataset
from hardpan.replicate.database import decisions

NAMES = ("circle", "square", "triangle")
WORDS = ("plain", "striped")


@pytest.fixture
def run(capsys):
    def call(*arguments, code=0):
        with pytest.raises(SystemExit) as stopped:
            cli.main(["replicate", *map(str, arguments)])
        told = capsys.readouterr()
        assert int(stopped.value.code or 0) == code, told.err
        return told.out

    return call


@pytest.fixture
def files(tmp_path):
    """Originals, the labelled source that they once came from, new candidates, and the classes."""
    originals = {kind: draw(kind, 20, seed=0) for kind in range(3)}
    x = np.concatenate(list(originals.values()))
    np.savez(tmp_path / "shapes.npz", x=x, y=np.repeat(range(3), 20), class_names=np.array(NAMES))
    rows = []
    for kind, name in enumerate(NAMES):
        fresh = draw(kind, 24, seed=1)
        for number in range(24):
            word = WORDS[number % 3 == 0]  # of originals and candidates alike, a third are striped
            if number < 20:
                place = tmp_path / "source" / name / word / f"{number}.png"
                place.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(originals[kind][number]).save(place)
            path = f"pictures/{name}-{number}.png"
            (tmp_path / "candidates" / "pictures").mkdir(parents=True, exist_ok=True)
            Image.fromarray(fresh[number]).save(tmp_path / "candidates" / path)
            rows.append({"path": path, "class": name, "keyword": word, "source": "an archive"})
    rows += [rows[5] | {"source": "another"}, {"path": "../shapes.npz"}, {"path": "pictures/none.png"}]
    write(tmp_path / "candidates" / "list.csv", rows)
    classes = [{"class": name, "definition": f"a {name}", "nearby": ""} for name in NAMES]
    write(tmp_path / "classes.csv", classes)
    return tmp_path


def write(path, rows):
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), restval="")
        writer.writeheader()
        writer.writerows(rows)


def read(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.both_databases
def test_from_files_to_a_verified_set(run, files, database_url):
    place = files / "project"

    def twice(name, *options, **settings):
        first = run(name, place, *options, **settings)
        before = state(run, place)
        run(name, place, *options, **settings)
        assert state(run, place) == before, name
        return first

    begin = ("--original", files / "shapes.npz", "--classes", files / "classes.csv", "--set", "grid=12")
    sizes = ("--set", "workers_per_image=4", "--set", "originals_per_class=6")
    twice("init", *begin, *sizes, "--database-url", database_url)
    keywords = ("--per-class", 6, "--keywords", files / "source")
    added = json.loads(twice("add", files / "candidates" / "list.csv", *keywords, "--json"))
    assert (added["read"], added["added"], len(added["broken"])) == (75, 72, 2)
    quotas = added["subclasses"]
    assert {(item["keyword"], item["originals"], item["quota"]) for item in quotas["keywords"]} == {
        ("plain", 13, 4),
        ("striped", 7, 2),
    }
    twice("tasks")
    twice("status", "--import-votes", votes_of_everybody(place, files))
    twice("status", "--frequencies", files / "frequencies.csv")
    assert {row["frequency"] for row in read(files / "frequencies.csv") if row["role"] == "candidate"} == {"1.0"}
    twice("sample", "--per-class", 6, "--set", "min_votes=4")
    twice("duplicates", "-k", 1)
    run("assemble", place, code=2)  # nobody has looked at the pairs yet
    keep_every_pair(place)
    twice("duplicates")
    twice("assemble", "--author", "The Institute", "--license", "CC0-1.0")
    assert twice("verify").splitlines()[0] == "Verified."
    made = Dataset.open(place / "set" / "data.npz")
    assert np.bincount(made.labels).tolist() == [6, 6, 6]
    words = [row["subclass"] for row in read(place / "set" / "index.csv")]
    assert (words.count("plain"), words.count("striped")) == (12, 6)
    steps = [json.loads(path.read_text()) for path in sorted((place / "steps").glob("*.json"))]
    assert all(step["version"] and "seed" in step and "inputs" in step for step in steps)
    # A copy of the folder whose original was touched is found out.
    shutil.copytree(place, files / "copy")
    x = np.load(files / "copy/original/x.npy")
    x[7, 3, 3] ^= 1
    np.save(files / "copy/original/x.npy", x)
    assert "original data" in run("verify", files / "copy", code=2)


def state(run, place):
    """Everything that a step may change: status, the log of steps, and the files of the set."""
    names = sorted(
        str(path.relative_to(place)) for path in place.rglob("*") if path.suffix != "" and path.is_file()
    )
    steady = [name for name in names if "sqlite" not in name]
    content = {name: (place / name).read_bytes() for name in steady}
    return json.loads(run("status", place, "--json")), content


def keep_every_pair(place):
    project = replicate.Project.open(place)
    for pair in decisions.undecided_pairs(project):
        decisions.record_decision(project, "duplicate", pair.subject, "keep", by="owner")
    project.close()


def votes_of_everybody(place, folder):
    """Four people of another platform who know every shape: they select what shows the class, and only that."""
    project = replicate.Project.open(place)
    from sqlalchemy import select

    from hardpan.replicate.database.connection import Image as Stored
    from hardpan.replicate.database.connection import Task, TaskImage

    with project.database.read() as connection:
        asked = connection.execute(
            select(Task.class_index, TaskImage.image_id, Stored.class_index)
            .join(TaskImage, TaskImage.task_id == Task.id)
            .join(Stored, Stored.id == TaskImage.image_id)
        ).all()
    project.close()
    rows = [
        {"image_id": image, "class": NAMES[target], "worker": who, "selected": int(own == target)}
        for target, image, own in sorted({tuple(row) for row in asked})
        for who in ("p1", "p2", "p3", "p4")
    ]
    write(folder / "votes.csv", rows)
    return folder / "votes.csv"
