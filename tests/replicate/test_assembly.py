"""Files of an assembled set, byte by byte."""

import csv
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from hardpan.cli import main
from hardpan.errors import InputError
from hardpan.replicate import simulate
from hardpan.replicate.assembly import _class_folder_name
from hardpan.replicate.database import decisions
from hardpan.replicate.database.images import set_image_column, stored_images
from hardpan.replicate.documents import _datasheet_markdown, datasheet_limits
from hardpan.replicate.pool import find_subclasses


@pytest.mark.parametrize("name", ["../../etc", "a/b", "..", "", "cat", "<script>", "é", "a" * 500, "con:1"])
def test_class_names_make_harmless_folders(name):
    folder = _class_folder_name(3, name)
    assert folder.startswith("0003 ")
    assert not set(folder) & set("/\\<>:.\0")
    assert len(folder) <= 90


def test_text_of_others_stays_text_in_the_datasheet():
    assert _datasheet_markdown("<script>x</script>\n# big | cell") == r"\<script\>x\</script\> \# big \| cell"


def test_a_set_with_unreviewed_pairs_says_which(make_project, capsys):
    project = make_project(each=6, workers_per_image=1)
    simulate.simulate_demo_annotation(project, 2)
    project.sample(strategy="top", per_class=1, min_votes=0)
    project.find_duplicates(k=3)
    waiting = decisions.undecided_pairs(project)
    with pytest.raises(SystemExit) as stop:
        main(["replicate", "assemble", str(project.root)])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert f"{len(waiting)} pairs" in said
    assert "--unreviewed-ok" in said
    assert not (project.root / "set").exists()
    made = project.assemble(unreviewed_ok=True)
    assert made.unreviewed_pairs == len(waiting)
    assert "not reviewed" in json.dumps([section.warnings for section in made.sections()])
    with (project.root / "set" / "unreviewed_pairs.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert {(row["id"], row["other"]) for row in rows} == {(item.image_id, item.other_id) for item in waiting}
    sheet = (project.root / "set" / "DATASHEET.md").read_text()
    assert f"{len(waiting)} of these pairs were not reviewed" in sheet
    assert project.verify().ok
    for step in (project.root / "steps").glob("*-assemble.json"):
        step.unlink()  # stopped between the files and the log
    assert not project.verify().ok
    assert project.assemble(unreviewed_ok=True).lineage == made.lineage
    assert project.verify().ok


def test_a_sample_that_later_quotas_contradict_is_not_frozen(make_project):
    project = make_project(each=6, workers_per_image=1)
    for kind in ("original", "candidate"):
        words = {row.id: "word" for row in stored_images(project, kind)}
        set_image_column(project, "keyword", words, "keywords")
    find_subclasses(project, per_class=2)
    simulate.simulate_demo_annotation(project, 2)
    project.sample(strategy="top", per_class=2, min_votes=0)
    find_subclasses(project, per_class=1)
    project.find_duplicates(k=3)
    with pytest.raises(InputError):
        project.assemble(unreviewed_ok=True)
    project.sample(strategy="top", per_class=1, min_votes=0)
    project.find_duplicates(k=3)
    steps = []
    project.assemble(unreviewed_ok=True, progress=lambda step, share: steps.append(share))
    assert steps == sorted(steps)
    assert len(steps) == 3
    assert project.verify().ok
    with pytest.raises(InputError, match="frozen"):
        find_subclasses(project, per_class=2)
    assert project.verify().ok


def test_steps_that_end_at_once_make_one_chain(make_project):
    project = make_project(each=3)
    before = len(project.steps())

    def note(number):
        project.record_step(f"note-{number % 5}", parameters={"number": number})

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(note, range(40)))
    steps = project.steps()
    assert [step.number for step in steps] == list(range(1, before + 41))
    assert sorted(step.parameters["number"] for step in steps[before:]) == list(range(40))


def test_too_few_votes_without_flagged_workers_name_the_remedy(make_project):
    project = make_project(workers_per_image=2)
    rows = {row.id: row.class_index for kind in ("original", "candidate") for row in stored_images(project, kind)}
    crew = [simulate.SimulatedAnnotator(), simulate.SimulatedAnnotator(0.0)]
    simulate.simulate_annotation(project, crew, lambda image, target: 0.95 if rows[image] == target else 0.02)
    with pytest.raises(InputError, match="--top-up"):
        project.sample(per_class=2, min_votes=2, without_flagged=True)
    drawn = project.sample(strategy="top", per_class=2, min_votes=2, without_flagged=True)
    assert drawn.without_flagged
    assert any("--top-up" in line for line in datasheet_limits(drawn))
    assert not any("--top-up" in line for line in datasheet_limits(project.sample(strategy="top", min_votes=3)))
