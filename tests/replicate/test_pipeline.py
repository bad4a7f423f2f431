"""The whole pipeline on digits with annotators of known skill: what was planted comes back."""

from __future__ import annotations

import csv
import json
from collections import Counter

import numpy as np
import pytest
from tests.databases import new_database
from tests.web import small

from hardpan import files
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.replicate import database, simulate
from hardpan.replicate.database import decisions
from hardpan.replicate.database import votes as stored_votes
from hardpan.replicate.quality import quality_frequency_table
from hardpan.replicate.sampling import frequency_bins

PER_CLASS = 6


def planted(digits_rows, seed=0):
    """A selection probability for every image: originals and candidates spread over the bins."""
    rng = np.random.default_rng(seed)
    return dict(
        zip(digits_rows, rng.choice([0.3, 0.5, 0.7, 0.95], len(digits_rows), p=[0.1, 0.2, 0.3, 0.4]), strict=True)
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory, database_server):
    """A project of digits, annotated by 24 people of whom 3 guess, sampled."""
    root = tmp_path_factory.mktemp("pipeline") / "project"
    url = new_database(database_server)
    project = simulate.demo_project(root, database_url=url, workers_per_image=12, seed=3)
    from hardpan.replicate.database.images import stored_images

    rows = {row.id: row.class_index for kind in ("original", "candidate") for row in stored_images(project, kind)}
    chance = planted(sorted(rows))
    crew = [simulate.SimulatedAnnotator(1.0)] * 21 + [simulate.SimulatedAnnotator(0.0)] * 3

    def probability(image, target):
        return chance[image] if rows[image] == target else 0.02

    people = simulate.simulate_annotation(project, crew, probability, seed=1)
    drawn = project.sample(strategy="matched", per_class=PER_CLASS, seed=5, without_flagged=True)
    yield project, rows, chance, people, drawn
    small.remove(project)


def test_the_same_seed_gives_the_same_votes(tmp_path, database_server):
    told = []
    for name in ("one", "two"):
        project, _ = small.copy(tmp_path / name, database_server)
        simulate.simulate_annotation(
            project, [simulate.SimulatedAnnotator(0.8)] * 3, lambda image, target: 0.6, seed=4
        )
        people = {person.id: person.external_id for person in database.stored_workers(project)}
        told.append({(people[v.worker_id], v.image_id, v.selected) for v in stored_votes.all_votes(project)})
        small.remove(project)
    assert told[0] == told[1]


def test_guessing_workers_are_flagged_and_nobody_else(done):
    project, _, _, people, _ = done
    quality = project.quality()
    assert set(quality.flagged) == {name for name, who in people.items() if who.skill == 0.0}


def test_selection_frequencies_are_those_planted(done):
    project, rows, chance, _, _ = done
    quality = project.quality()
    own = [f for f in quality.frequencies if rows[f.image_id] == f.class_index]
    assert len(own) > 900
    z = []
    for f in own:
        p = chance[f.image_id]
        z.append((f.selected_unflagged - f.votes_unflagged * p) / np.sqrt(f.votes_unflagged * p * (1 - p)))
    # Standardised deviations of honest votes have mean 0 and variance 1.
    assert abs(np.mean(z)) < 4 / np.sqrt(len(z))
    assert abs(np.var(z) - 1) < 4 * np.sqrt(2 / len(z)) + 0.05
    inside = np.mean([f.low <= chance[f.image_id] <= f.high for f in own if f.votes == f.votes_unflagged])
    assert inside > 0.9
    negatives = [f for f in quality.frequencies if f.role == "negative"]
    assert negatives
    assert np.mean([f.unflagged for f in negatives]) < 0.06


def test_every_candidate_has_its_votes_and_every_class_its_originals(done):
    project, rows, _, _, _ = done
    votes = stored_votes.all_votes(project)
    counts = Counter(v.image_id for v in votes if v.role == "candidate")
    assert set(counts.values()) == {12}
    originals = Counter(rows[i] for i in {v.image_id for v in votes if v.role == "positive"})
    assert min(originals.values()) >= 20
    assert len(originals) == 10


def test_the_sample_matches_the_originals_distribution(done):
    project, _, _, _, drawn = done
    quality = project.quality()
    names = [c.name for c in project.classes]
    originals = quality_frequency_table(quality.frequencies, "positive", names, unflagged=True)
    originals = originals.select(originals.votes >= 10)
    for name in names:
        bins = np.bincount(frequency_bins(originals.frequencies[originals.classes == name]), minlength=5)
        wanted = bins / bins.sum() * PER_CLASS
        got = np.bincount([image.slot for image in drawn.images if image.class_name == name], minlength=5)
        assert got.sum() == PER_CLASS
        assert (np.abs(got - wanted) < 1).all()
    gap = drawn.average_frequency.value - originals.frequencies.mean()
    assert abs(gap) < 0.06


def test_from_duplicates_to_the_frozen_set(done, tmp_path):
    project, _, _, _, first = done
    with pytest.raises(InputError, match="compared"):
        project.assemble()
    found = project.find_duplicates(k=3)
    assert found.images == 60
    assert found.references == 1000
    assert 0 < found.recall.value <= 1
    with pytest.raises(InputError, match="--unreviewed-ok"):
        project.assemble()
    queue = decisions.undecided_pairs(project)
    assert len(queue) == found.new_pairs
    closest = [item for item in queue if item.other_split != "new"][:4]
    rounds = 0
    removed = set()
    while True:  # a reviewer who finds the four closest pairs alike, and the rest not
        for item in decisions.undecided_pairs(project):
            bad = item.image_id in {i.image_id for i in closest} and item.other_split != "new"
            verdict = "remove" if bad else "keep"
            decisions.record_decision(
                project, "duplicate", item.subject, verdict, by="owner", submission_key=item.subject
            )
        resolved = project.find_duplicates()
        removed |= set(resolved.removed)
        rounds += 1
        if resolved.stable:
            break
    assert removed == {item.image_id for item in closest}
    assert rounds >= 2
    drawn = project.current_sample()
    assert Counter(image.class_name for image in drawn.images) == {str(c): PER_CLASS for c in range(10)}
    assert not removed & set(drawn.ids)
    gone = Counter((i.class_name, i.subclass, i.slot) for i in first.images if i.id in removed)
    come = Counter((i.class_name, i.subclass, i.slot) for i in drawn.images if i.id not in first.ids)
    assert {(c, s) for c, _, s in come} == {(c, s) for c, _, s in gone}
    assert set(first.ids) - removed < set(drawn.ids)

    made = project.assemble(author="A <b>name</b>", license_="CC0")
    assert made.lineage.per_class == {str(c): PER_CLASS for c in range(10)}
    check_files(project, drawn)
    assert project.assemble().lineage == made.lineage  # again: nothing changes
    with pytest.raises(InputError, match="frozen"):
        project.sample()
    verified = project.verify()
    assert verified.problems == ()
    assert verified.ok
    check_damage_is_found(project)


def check_files(project, drawn):
    folder = project.root / "set"
    data = Dataset.open(folder / "data.npz")
    assert data.ids.tolist() == list(drawn.ids)
    assert np.bincount(data.labels).tolist() == [PER_CLASS] * 10
    images = Dataset.open(folder / "images")
    assert sorted(files.array_hash(x) for x in images.x) == sorted(files.array_hash(x) for x in data.x)
    with (folder / "index.csv").open() as stream:
        index = list(csv.DictReader(stream))
    assert [row["id"] for row in index] == list(drawn.ids)
    sheet = (folder / "DATASHEET.md").read_text()
    assert "<b>" not in sheet.replace("\\<b\\>", "")
    assert "positive" in sheet
    metadata = json.loads((folder / "croissant.json").read_text())
    assert metadata["conformsTo"].endswith("croissant/1.0")
    listed = {item["@id"]: item.get("sha256") for item in metadata["distribution"]}
    assert listed["data.npz"] == files.load(folder / "lineage.json").files["data.npz"]


def check_damage_is_found(project):
    folder = project.root / "set"
    index = folder / "index.csv"
    good = index.read_bytes()
    index.write_bytes(good.replace(b"0", b"1", 1))
    assert any("index.csv was changed" in text for text in project.verify().problems)
    index.write_bytes(good)
    drawn = project.current_sample()
    picture = project.pool_file(drawn.ids[0])
    kept = picture.read_bytes()
    picture.write_bytes(project.pool_file(drawn.ids[1]).read_bytes())
    problems = project.verify().problems
    assert any(f"{drawn.ids[0]} holds another image" in text for text in problems)
    picture.write_bytes(kept)
    step = sorted((project.root / "steps").glob("*.json"))[1]
    text = step.read_text()
    step.write_text(text.replace('"seed": 3', '"seed": 4'))
    assert not project.verify().ok
    step.write_text(text)
    assert project.verify().ok
