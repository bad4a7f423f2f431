"""Projects to test on, over SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hardpan.data.dataset import Dataset
from hardpan.replicate import Project
from hardpan.replicate.simulate import add_candidate_arrays


class Clock:
    """A clock that goes when told to."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def small_set(classes: int = 3, originals: int = 30, seed: int = 0) -> Dataset:
    """Random 6×6 pictures, each class around its own grey."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), originals)
    x = (rng.integers(0, 60, (len(labels), 6, 6)) + 60 * labels[:, None, None]).astype(np.uint8)
    ids = np.array([f"original-{row:04d}" for row in range(len(labels))])
    return Dataset("small", x, ids, labels, tuple(f"class {c}" for c in range(classes)), source="small")


def candidates(classes: int, each: int, seed: int = 1) -> tuple[np.ndarray, list[int]]:
    rng = np.random.default_rng(seed)
    labels = [c for c in range(classes) for _ in range(each)]
    pixels = rng.integers(0, 60, (len(labels), 6, 6)) + 60 * np.array(labels)[:, None, None]
    return pixels.astype(np.uint8), labels


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make_project(tmp_path: Path, database_url: str, clock: Clock) -> Iterator[Callable[..., Project]]:
    """Make a project with tasks: classes, candidates a class, and any setting."""
    made: list[Project] = []

    def make(classes: int = 3, each: int = 20, tasks: bool = True, **settings: object) -> Project:
        given = {"grid": 12, "workers_per_image": 3, "originals_per_class": 6, "lease_seconds": 100.0} | settings
        project = Project.create(tmp_path / "project", small_set(classes), database_url=database_url, **given)
        project.close()
        project = replace(project, clock=clock)
        made.append(project)
        add_candidate_arrays(project, *candidates(classes, each))
        if tasks:
            project.make_tasks()
        return project

    yield make
    for project in made:
        project.close()
