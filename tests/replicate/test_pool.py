"""Candidates as strangers send them, keywords by exact match, votes and decisions as files; over both databases."""

import io
import struct
import zlib
from collections import Counter

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pyarrow import parquet
from tests.replicate.conftest import small_set

from hardpan.data.images import decoded_image
from hardpan.errors import InputError
from hardpan.replicate.database import decisions, questions
from hardpan.replicate.database import leases as stored_leases
from hardpan.replicate.database import people as stored_people
from hardpan.replicate.database import votes as stored_votes
from hardpan.replicate.database.images import stored_images
from hardpan.replicate.pool import pool_keyword_quotas
from hardpan.replicate.task_planning import nearby_task_classes
from hardpan.tables import read_columns


def png(pixels):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="PNG")
    return stream.getvalue()


def pictures(n, seed=0, size=6):
    return np.random.default_rng(seed).integers(0, 256, (n, size, size), dtype=np.uint8)


def bomb(width, height):
    """A small PNG that claims a great many pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


@pytest.fixture
def project(make_project):
    return make_project(each=0, tasks=False)


def test_folders_collapse_copies_and_list_what_is_broken(project, tmp_path):
    x = pictures(6)
    for k, where in enumerate(["class 0", "class 0/word", "class 1", "class 1", "class 2", "class 2"]):
        folder = tmp_path / "in" / where
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{k}.png").write_bytes(png(x[k]))
    (tmp_path / "in/class 0/copy.png").write_bytes(png(x[0]))
    (tmp_path / "in/class 0/same.bmp").write_bytes(b"BM" + b"\0" * 20)
    (tmp_path / "in/class 1/text.png").write_text("no picture")
    (tmp_path / "in/class 2/original.png").write_bytes(png(small_set().x[5]))
    (tmp_path / "in/class 2/bomb.png").write_bytes(bomb(60_000, 60_000))
    (tmp_path / "in/class 2/link.png").symlink_to("/etc/passwd")
    (tmp_path / "in/stranger").mkdir()
    (tmp_path / "in/stranger/7.png").write_bytes(png(pictures(1, 9)[0]))
    report = project.add_candidates(tmp_path / "in")
    assert (report.read, report.added, report.repeated, report.in_original) == (13, 6, 1, 1)
    reasons = dict(text.split(": ", 1) for text in report.broken)
    assert set(reasons) == {
        "class 0/same.bmp",
        "class 1/text.png",
        "class 2/bomb.png",
        "class 2/link.png",
        "stranger/7.png",
    }
    assert "leads out" in reasons["class 2/link.png"]
    assert "not one of the project's" in reasons["stranger/7.png"]
    again = project.add_candidates(tmp_path / "in")
    assert (again.added, again.repeated) == (0, 7)
    assert [step.name for step in project.steps()] == ["init", "add"]


@pytest.mark.parametrize("kind", ["csv", "parquet", "bytes"])
def test_tables_keep_what_is_said_of_an_image(project, tmp_path, kind):
    x = pictures(4)
    for k in range(4):
        (tmp_path / f"{k}.png").write_bytes(png(x[k]))
    columns = {
        "path": [f"{k}.png" for k in range(3)] + ["../outside.png"],
        "class": ["class 0", "class 1", "", "class 2"],
        "keyword": ["tabby", "tabby", "siamese", ""],
        "source": ["a site"] * 4,
        "date": ["2013-05-01", "2014-01-01", "", ""],
        "photographer": ["N. N."] * 4,
    }
    if kind == "bytes":
        columns["bytes"] = [png(picture) for picture in x[:3]] + [b"GIF89a"]
        del columns["path"]
    if kind == "csv":
        path = tmp_path / "table.csv"
        rows = zip(*columns.values(), strict=True)
        path.write_text("\n".join([",".join(columns), *(",".join(row) for row in rows)]))
    else:
        path = tmp_path / "table.parquet"
        parquet.write_table(pyarrow.table(columns), path)
    report = project.add_candidates(path)
    assert (report.added, report.without_class) == (3, 1)
    assert len(report.broken) == 1

    rows = {row.keyword: row for row in stored_images(project, "candidate") if row.class_index == 0}
    assert rows["tabby"].date == "2013-05-01"
    assert rows["tabby"].source == "a site"
    assert rows["tabby"].details["photographer"] == "N. N."


@pytest.mark.parametrize("name", ["/etc/passwd", "../x.png", "a/../../x.png", "\0", ""])
def test_paths_that_lead_out_are_refused(project, tmp_path, name):
    (tmp_path / "in").mkdir()
    (tmp_path / "x.png").write_bytes(png(pictures(1)[0]))
    parquet.write_table(pyarrow.table({"path": [name], "class": ["class 0"]}), tmp_path / "in/table.parquet")
    report = project.add_candidates(tmp_path / "in/table.parquet")
    assert report.added == 0
    assert len(report.broken) == 1


@given(st.binary(max_size=400))
def test_no_bytes_break_the_decoder(data):
    for start in (b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"GIF89a", b"BM", b"II*\0", b"RIFF\0\0\0\0WEBP"):
        with pytest.raises(InputError):
            decoded_image(start + data, "picture", colour=True)


def test_bombs_transparency_and_frames_are_refused():
    for data, reason in (
        (bomb(8000, 8000), "pixels"),
        (bomb(100_000, 100_000), "pixels"),
        (png(np.dstack([np.zeros((8, 8, 3), np.uint8), np.full((8, 8), 9, np.uint8)])), "transparent"),
    ):
        with pytest.raises(InputError, match=reason):
            decoded_image(data, "picture", colour=True)
    frames = io.BytesIO()
    first = Image.fromarray(pictures(1)[0])
    first.save(frames, format="GIF", save_all=True, append_images=[Image.fromarray(pictures(1, 1)[0])])
    with pytest.raises(InputError, match="frames"):
        decoded_image(frames.getvalue(), "picture", colour=True)


def test_keywords_by_exact_match_and_quotas(project, tmp_path):
    originals = small_set().x
    folder = tmp_path / "labelled"
    for row in range(30):  # class 0: twice as many tabbies as siamese, one without a match
        word = ("tabby", "tabby", "siamese")[row % 3]
        (folder / "any" / word).mkdir(parents=True, exist_ok=True)
        if row < 29:
            (folder / "any" / word / f"{row}.png").write_bytes(png(originals[row]))
    fresh = pictures(8, seed=4)
    words = ["tabby"] * 4 + ["siamese"] * 2 + ["manx"] * 2
    table = {"bytes": [png(x) for x in fresh], "keyword": words}
    parquet.write_table(pyarrow.table(table), tmp_path / "pool.parquet")
    pool = tmp_path / "pool.parquet"
    with pytest.raises(InputError) as caught:
        project.add_candidates(pool, keywords=folder)
    assert caught.value.argument == "per_class"
    report = project.add_candidates(pool, keywords=folder, per_class=6).subclasses
    assert (report.matched, report.unmatched) == (29, 61)
    found = {item.keyword: item for item in report.keywords}
    assert [(found[w].originals, found[w].quota, found[w].supply) for w in ("tabby", "siamese")] == [
        (20, 4, 4),
        (9, 2, 2),
    ]
    states = {state.keyword: state for state in decisions.keyword_states(project)}
    assert (states["tabby"].candidates, states["tabby"].short) == (4, 4)
    made = project.make_tasks()
    assert made.candidates == 6  # those of an unknown keyword have no class
    selector_and_reviewer(project)


def selector_and_reviewer(project):
    """Author A selects, author B removes one, the keyword goes back to A, and the sample follows the quotas."""
    view = decisions.first_selection_page(project, 0, "tabby")
    assert len(view.originals) == 20
    assert len(view.candidates) == 4
    siamese = decisions.first_selection_page(project, 0, "siamese").candidates
    for image in (*view.candidates, *siamese):
        assert decisions.record_decision(
            project, "first-selection", image, "select", by="A", submission_key=f"a-{image}"
        )
        assert not decisions.record_decision(
            project, "first-selection", image, "select", by="A", submission_key=f"a-{image}"
        )
    waiting = decisions.undecided_images(project, "second-review")
    assert {item.image_id for item in waiting} == {*view.candidates, *siamese}
    for item in waiting:
        bad = item.image_id == view.candidates[0]
        decisions.record_decision(project, "second-review", item.image_id, "remove" if bad else "keep", by="B")
    states = {state.keyword: state for state in decisions.keyword_states(project)}
    assert (states["tabby"].short, states["siamese"].short) == (1, 0)
    drawn = project.sample(source="selection", per_class=6)
    assert Counter(image.subclass for image in drawn.images) == {"tabby": 3, "siamese": 2}
    assert [item.missing for item in drawn.shortfalls] == [1]
    decisions.record_decision(project, "second-review", view.candidates[0], "keep", by="B")
    drawn = project.sample(source="selection", per_class=6)
    assert drawn.shortfalls == ()
    assert project.verify().problems == ()


def test_quotas_by_hand():
    assert pool_keyword_quotas({"a": 50, "b": 30, "c": 20}, 10) == {"a": 5, "b": 3, "c": 2}
    assert pool_keyword_quotas({"a": 1, "b": 1, "c": 1}, 4) == {"a": 2, "b": 1, "c": 1}
    assert pool_keyword_quotas({}, 4) == {}


def test_nearby_classes_by_the_distance_of_means(make_project):
    project = make_project(each=0, tasks=False)
    assert nearby_task_classes(project)[0] == [1, 2]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_votes_go_out_and_come_back(make_project, tmp_path, kind):
    project = make_project(each=4)
    link = stored_people.invite_people(project, uses=3).link
    for k in range(3):
        who = stored_people.enter_by_invitation(project, link, external_id=str(k)).id
        while (lease := stored_leases.lease_next_task(project, who)) is not None:
            stored_leases.submit_lease(project, who, lease.token, [0, 2], lease.token)
    path = tmp_path / f"votes.{kind}"
    quality = project.status(export_votes=path, frequencies=tmp_path / f"frequencies.{kind}").quality
    count = len(stored_votes.all_votes(project))
    columns = read_columns(tmp_path / f"frequencies.{kind}")
    assert [float(value) for value in columns["frequency"]] == [f.value for f in quality.frequencies]
    assert project.import_votes(path) == (count, 0)
    assert project.import_votes(path) == (0, count)
    votes = stored_votes.all_votes(project)
    here, there = votes[:count], votes[count:]
    key = lambda v: (v.image_id, v.class_index, v.role, v.selected)  # noqa: E731
    assert Counter(map(key, here)) == Counter(map(key, there))
    path.write_text("image_id,class,worker,selected\nnowhere,class 0,a,1\n")
    with pytest.raises(InputError):
        project.import_votes(path)


def test_votes_without_a_worker_or_with_too_long_a_name_are_refused(make_project, tmp_path):
    project = make_project(each=3, classes=2, tasks=False)
    image = stored_images(project, "candidate")[0].id
    path = tmp_path / "votes.csv"
    path.write_text("image_id,class,worker,selected\n" + "".join(f"{image},class 0,{k},1\n" for k in range(5)))
    assert project.import_votes(path) == (5, 0)
    assert project.import_votes(path) == (0, 5)
    for worker in ("", " ", "w" * 64):
        path.write_text(f"image_id,class,worker,selected\n{image},class 0,{worker},1\n")
        with pytest.raises(InputError):
            project.import_votes(path)
    assert len(stored_votes.all_votes(project)) == 5


def test_human_experiment(make_project):
    project = make_project(each=3, classes=2)
    from hardpan.testbed import human_table

    originals = [row.id for row in stored_images(project, "original")][:5]
    new = [row.id for row in stored_images(project, "candidate")][:4]
    assert questions.choose_questions(project, originals, new) == 9
    assert questions.choose_questions(project, originals, new) == 9
    with pytest.raises(InputError):
        questions.choose_questions(project, originals[:2], new)
    link = stored_people.invite_people(project, uses=2, role="participant").link
    orders = []
    for k in range(2):
        who = stored_people.enter_by_invitation(project, link, external_id=str(k)).id
        order = []
        while (asked := questions.next_question(project, who)) is not None:
            assert questions.question_image(project, who, asked.question).startswith(b"\x89PNG")
            assert questions.answer_question(project, who, asked.question, 0)
            assert not questions.answer_question(project, who, asked.question, 1)
            order.append(asked.question)
        orders.append(order)
        assert sorted(order) == sorted(orders[0])
    assert orders[0] != orders[1]
    rows = questions.question_answers(project)
    assert len(rows) == 18
    table = human_table(rows)
    truth = np.mean([row["label"] == "class 0" for row in rows if row["set"] == "new"])
    assert table.rows[0].new.value == pytest.approx(truth)
    with pytest.raises(InputError):
        questions.answer_question(project, "stranger", orders[0][0], 0)
