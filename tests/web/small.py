"""A small project of drawn shapes, quick to make: three classes, one of them with a script in its name."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tests.databases import copy_project, drop_database, new_database

from hardpan import replicate
from hardpan.data.dataset import Dataset, content_ids
from hardpan.replicate import TargetClass, simulate
from hardpan.replicate.database import questions

SCRIPT = "<script>alert(1)</script>"
CLASSES = (
    TargetClass("circle", "A round shape.", "https://example.org/circle"),
    TargetClass("square", 'A shape with four equal sides & "corners".', "javascript:alert(1)"),
    TargetClass(SCRIPT, "<img src=x onerror=alert(2)>"),
)
KEYWORDS = ("plain", "odd/one & <b>more</b>?")
SETTINGS = {"grid": 12, "positives": 3, "negatives": 3, "originals_per_class": 6, "workers_per_image": 2}


def draw(kind: int, count: int, seed: int) -> np.ndarray:
    """``count`` pictures of one shape, 24 × 24 in colour, no two alike."""
    rng = np.random.default_rng([seed, kind])
    y, x = np.mgrid[:24, :24]
    pictures = np.empty((count, 24, 24, 3), dtype=np.uint8)
    for picture in pictures:
        picture[:] = rng.integers(150, 256, size=3) + rng.integers(-8, 8, size=(24, 24, 1)).clip(-8, 0)
        cx, cy, r = rng.uniform(9, 15), rng.uniform(9, 15), rng.uniform(5, 8)
        inside = [
            (x - cx) ** 2 + (y - cy) ** 2 < r**2,
            (abs(x - cx) < r) & (abs(y - cy) < r),
            (y > cy - r) & (y < cy + r) & (abs(x - cx) < (y - cy + r) / 2),
        ][kind]
        picture[inside] = rng.integers(0, 140, size=3)
    return pictures


def make(path: Path, *, database_url: str = "", candidates: int = 24, tasks: bool = True, **settings: Any):
    """The project and the owner's token."""
    kinds = range(len(CLASSES))
    x = np.concatenate([draw(kind, 20, 0) for kind in kinds])
    original = Dataset(
        "shapes",
        x,
        content_ids(x),
        np.repeat(np.array(kinds), 20),
        tuple(item.name for item in CLASSES),
        metadata={"keyword": np.array([KEYWORDS[row % 2] for row in range(len(x))])},
        source="shapes",
    )
    project = replicate.Project.create(path, original, CLASSES, database_url=database_url, **(SETTINGS | settings))
    for kind in kinds:
        words = [KEYWORDS[row % 2] for row in range(candidates)]
        simulate.add_candidate_arrays(project, draw(kind, candidates, 1), [kind] * candidates, words)
    if tasks:
        project.make_tasks()
    return project, project.renew_owner_token()


@cache
def _template(server: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="hardpan-shapes-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    project, _ = make(folder / "project", database_url=new_database(server))
    project.close()
    return folder / "project"


def copy(path: Path, server: str):
    """A fresh copy of the project, in SQLite or on a PostgreSQL server, and a new owner's token."""
    project = copy_project(_template(server), path)
    return project, project.renew_owner_token()


def remove(project: Any) -> None:
    """Close a project; a database on a server goes, too."""
    project.close()
    drop_database(project.local["database_url"])


def prepare_reviews(project: Any, *, each: int = 6) -> None:
    """Give every keyword a quota of 4, sample ``each`` images a class, queue pairs, start the experiment."""
    from sqlalchemy import insert

    from hardpan.replicate.database.connection import Pair, Quota, SampleRow
    from hardpan.replicate.database.images import stored_images

    quotas = [
        {"class_index": kind, "keyword": word, "originals": 10, "quota": 4}
        for kind in range(len(CLASSES))
        for word in KEYWORDS
    ]
    sampled, pairs = [], []
    for kind in range(len(CLASSES)):
        names = [row.id for row in stored_images(project, "candidate", class_index=kind)][:each]
        known = [row.id for row in stored_images(project, "original", class_index=kind)]
        sampled += [
            {"image_id": name, "class_index": kind, "votes": 2, "round": 0, "how": "", "removed_why": ""}
            for name in names
        ]
        for split, other in (("new", names[1]), ("test", known[0]), ("train", known[1])):
            pairs.append(
                {"image_id": names[0], "other_id": other, "other_split": split, "l2": 3.25, "ssim": 0.8, "round": 0}
            )
    with project.database.write() as connection:
        connection.execute(insert(Quota), quotas)
        connection.execute(insert(SampleRow), sampled)
        connection.execute(insert(Pair), pairs)
    originals = [row.id for row in stored_images(project, "original")][::10]
    questions.choose_questions(project, originals, [row["image_id"] for row in sampled][::4])


def question_truths(project):
    """Question number to its set and right class, which no function of the package tells."""
    from sqlalchemy import select

    from hardpan.replicate.database.connection import Question

    with project.database.read() as connection:
        rows = connection.execute(select(Question.id, Question.origin, Question.class_index)).all()
    return {row.id: (row.origin, row.class_index) for row in rows}
