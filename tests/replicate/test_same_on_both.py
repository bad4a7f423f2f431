"""What a project holds, the order it comes in and what it refuses is the same on SQLite and on PostgreSQL."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image
from sqlalchemy import func, select

from hardpan import arguments, replicate
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.replicate import TargetClass
from hardpan.replicate.database import decisions, leases, people
from hardpan.replicate.database.connection import Invitation
from hardpan.replicate.database.decisions import queue_duplicates_for_review
from hardpan.replicate.database.images import (
    image_contents,
    set_keyword_quotas,
    store_sample_images,
    stored_images,
    stored_sample_images,
)
from hardpan.replicate.database.questions import choose_questions
from hardpan.replicate.database.votes import store_votes
from hardpan.replicate.sampling import SampledImage
from hardpan.replicate.simulate import add_candidate_arrays

pytestmark = pytest.mark.both_databases

# In the order of characters, which is Python's and SQLite's; a server's language would put them otherwise.
IDS = ["-q", "A2", "B1", "Z9", "_x", "a 1", "a1", "b-2", "b1", "z", "É", "é"]
WORDS = ("Zebra", "apple", "Äpfel")
UNSAFE = ["\0", "\x07", "\x1b", "\x85", "\ufffe", "\ud800"]


def originals(ids=IDS, words=WORDS):
    x = np.random.default_rng(0).integers(0, 256, (len(ids), 6, 6)).astype(np.uint8)
    named = {"keyword": np.array([words[row % len(words)] for row in range(len(ids))])}
    mixed = np.random.default_rng(1).permutation(len(ids))
    labels = np.arange(len(ids)) % 2
    return Dataset("o", x, np.array(ids)[mixed], labels, ("cat", "dog"), metadata=named, source="o")


@pytest.fixture
def make(tmp_path, database_url):
    made = []

    def start(dataset):
        sizes = {"grid": 8, "positives": 2, "negatives": 2, "originals_per_class": 2, "workers_per_image": 1}
        made.append(replicate.Project.create(tmp_path / "project", dataset, database_url=database_url, **sizes))
        return made[-1]

    yield start
    for project in made:
        project.close()


def test_text_comes_in_the_order_of_its_characters(make):
    project = make(originals())
    assert [row.id for row in stored_images(project, "original")] == IDS
    assert list(image_contents(project, "original").values()) == IDS[::-1]
    set_keyword_quotas(project, [(0, word, 4, 2) for word in reversed(WORDS)])
    assert [state.keyword for state in decisions.keyword_states(project)] == sorted(WORDS)
    for word in WORDS:
        shown = decisions.first_selection_page(project, 0, word).originals
        assert list(shown) == sorted(shown)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"ids": [f"{'i' * 200}{k}" for k in range(12)]}, "180"),
        ({"ids": [f"{k}\0x" for k in range(12)]}, r"\bid\b"),
        ({"words": ("w" * 201,)}, "200"),
    ],
)
def test_originals_that_one_of_them_could_not_hold_are_refused(make, changed, words):
    with pytest.raises(InputError, match=words):
        make(originals(**changed))


def test_a_pair_with_the_longest_id_can_be_decided_on(make):
    project = make(originals(ids=[f"{'i' * 178}{k:02d}" for k in range(12)]))
    new = add_candidate_arrays(project, np.full((1, 6, 6), 7, dtype=np.uint8), [0])[0]
    other = stored_images(project, "original")[0].id
    queue_duplicates_for_review(
        project, [{"image_id": new, "other_id": other, "other_split": "test", "l2": 1.0, "ssim": 0.5, "round": 0}]
    )
    assert decisions.record_decision(project, "duplicate", f"{new}|{other}", "keep", by="owner")
    assert decisions.decision_verdicts(project, "duplicate") == {f"{new}|{other}": "keep"}


def test_texts_of_candidates_are_cleaned_when_their_list_is_read(make, tmp_path):
    project = make(originals())
    for number, bad in enumerate(UNSAFE[:-1]):
        Image.fromarray(np.full((6, 6), number, dtype=np.uint8)).save(tmp_path / "a.png")
        (tmp_path / "list.csv").write_text(f"path,class,keyword\na.png,cat,w{bad}x\n", encoding="utf-8")
        assert project.add_candidates(tmp_path / "list.csv").added == 1
    assert {item.keyword for item in stored_images(project, "candidate")} == {"w\ufffdx"}


def test_texts_that_no_page_or_database_can_have_are_refused(make):
    project = make(originals())
    shared = people.invite_people(project, uses=2).link
    vote = {"image_id": "A2", "class_index": 0, "worker": "w", "selected": True, "at": None}
    actions = {
        "label": lambda bad: people.invite_people(project, label=bad),
        "external_id": lambda bad: people.enter_by_invitation(project, shared, external_id=f"w{bad}"),
        "worker": lambda bad: store_votes(project, [vote | {"worker": bad}], platform="p"),
        "platform": lambda bad: store_votes(project, [vote], platform=bad),
        "subject": lambda bad: decisions.record_decision(project, "duplicate", bad, "keep", by="owner"),
        "submission_key": lambda bad: leases.submit_lease(project, "w", "token", [], bad),
    }
    for bad in UNSAFE:
        for argument, action in actions.items():
            with pytest.raises(InputError, match=argument):
                action(bad)
    assert people.stored_workers(project) == []


def test_names_and_definitions_of_a_project_are_cleaned(tmp_path):
    bad = "".join(UNSAFE)
    classes = [TargetClass("cat", f"A pet.{bad}", f"https://x/{bad}"), TargetClass(f"dog{bad}")]
    names = tuple(item.name for item in classes)
    dataset = dataclasses.replace(originals(), class_names=names)
    project = replicate.Project.create(tmp_path / "project", dataset, classes, name=f"new{bad}")
    texts = [project.config.name, *(text for item in project.classes for text in dataclasses.astuple(item)[:3])]
    assert [text for text in texts if arguments.clean_text(text) != text] == []
    assert replicate.Project.open(project.root).config == project.config
    project.close()


def test_numbers_out_of_reach_are_refused(make):
    with pytest.raises(InputError, match="uses"):
        people.invite_people(make(originals()), uses=2**31)


def at_once(function, *given):
    with ThreadPoolExecutor(4) as pool:
        return [future.result() for future in [pool.submit(function, *given) for _ in range(4)]]


def test_the_same_step_four_times_at_once_is_done_once(make):
    project = make(originals())
    x = np.random.default_rng(2).integers(0, 256, (40, 6, 6)).astype(np.uint8)
    names = at_once(add_candidate_arrays, project, x, [0, 1] * 20)
    assert len({tuple(item) for item in names}) == 1
    assert [row.id for row in stored_images(project, "candidate")] == sorted(names[0])
    quotas = [(c, word, 4, 2) for c in (0, 1) for word in WORDS]
    at_once(set_keyword_quotas, project, quotas)
    assert len(decisions.keyword_states(project)) == len(quotas)
    columns = ("image_id", "class_index", "worker", "selected", "at")
    rows = [dict(zip(columns, (name, 0, f"w{k}", True, None), strict=True)) for name in names[0] for k in range(3)]
    new = at_once(lambda: store_votes(project, rows, platform="p"))
    assert sorted(new) == [(0, 120)] * 3 + [(120, 0)]
    pair = {
        "image_id": names[0][0],
        "other_id": names[0][1],
        "other_split": "new",
        "l2": 1.0,
        "ssim": 0.5,
        "round": 0,
    }
    assert sorted(at_once(queue_duplicates_for_review, project, [pair])) == [0, 0, 0, 1]
    drawn = [SampledImage(name, "cat", "", 1.0, 3, -1) for name in names[0][:5]]
    at_once(store_sample_images, project, drawn)
    assert len(stored_sample_images(project)) == 5
    assert at_once(choose_questions, project, IDS[:3], names[0][:3]) == [6] * 4


def test_what_is_read_in_one_transaction_is_of_one_moment(make):
    project = make(originals())
    count = select(func.count()).select_from(Invitation)
    with project.database.read() as connection:
        before = connection.scalar(count)
        people.invite_people(project)
        assert connection.scalar(count) == before == 0
    assert len(people.stored_invitations(project)) == 1
