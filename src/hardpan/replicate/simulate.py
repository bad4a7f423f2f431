"""Annotators of known skill, and small projects to try pages and pipelines on."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.data.dataset import Dataset
from hardpan.replicate import database
from hardpan.replicate.folder import ProjectFolder
from hardpan.replicate.pool import write_candidate
from hardpan.replicate.project import Project


def demo_project(
    path: str | os.PathLike[str], *, tasks: bool = True, database_url: str = "", **settings: Any
) -> Project:
    """Make a project of scikit-learn's digits: 1,000 originals, the other 797 candidates, two keywords per class.

    ``settings`` are fields of ``ProjectConfig``.
    """
    digits = Dataset.open("digits")
    assert digits.labels is not None
    words = np.where(np.arange(len(digits)) % 2, "odd row", "even row")
    original = replace(digits.select(range(1000)), metadata={"keyword": words[:1000]})
    project = Project.create(path, original, database_url=database_url, **settings)
    pixels = np.round(digits.x[1000:] * (255.0 / 16.0)).astype(np.uint8)
    add_candidate_arrays(project, pixels, digits.labels[1000:].tolist(), words[1000:].tolist())
    if tasks:
        project.make_tasks()
    return project


def add_candidate_arrays(
    project: ProjectFolder,
    examples: Sequence[Any] | NDArray[Any],
    classes: Sequence[int],
    keywords: Sequence[str] | None = None,
) -> list[str]:
    """Put arrays of pixels, or texts, into the pool; exact copies of originals and of one another are left out."""
    originals = database.image_contents(project, "original")
    rows = {}
    for position, example in enumerate(examples):
        name = write_candidate(project, example)
        if name in originals:
            continue
        height, width = getattr(example, "shape", (0, 0))[:2]
        rows[name] = {
            "id": name,
            "kind": "candidate",
            "content": name,
            "class_index": int(classes[position]),
            "keyword": None if keywords is None else keywords[position],
            "source": "arrays",
            "height": height,
            "width": width,
        }
    database.add_images(project, list(rows.values()))
    return list(rows)


@dataclass(frozen=True, slots=True)
class SimulatedAnnotator:
    """A simulated worker.

    Attributes:
        skill: probability of answering by the image's own selection probability; otherwise the worker selects it
            with probability ½.
    """

    skill: float = 1.0

    def answers(self, probabilities: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.bool_]:
        """Select each image with probability skill·p + (1 − skill)/2."""
        chance = self.skill * probabilities + (1.0 - self.skill) * 0.5
        return np.asarray(rng.random(len(probabilities)) < chance)


def simulate_annotation(
    project: ProjectFolder,
    annotators: Sequence[SimulatedAnnotator],
    probability: Callable[[str, int], float],
    *,
    seed: int = 0,
) -> Mapping[str, SimulatedAnnotator]:
    """Let simulated annotators do every task through the same functions as people; give worker id to annotator.

    Args:
        project: a project with tasks.
        annotators: one per worker.
        probability: (image id, target class) to the probability that a perfect worker selects it.
        seed: of their answers.
    """
    link = database.invite_people(project, uses=max(1, len(annotators)), label="simulated").link
    people = {
        database.enter_by_invitation(project, link, external_id=f"simulated-{k}").id: who
        for k, who in enumerate(annotators)
    }
    rngs = {worker_id: np.random.default_rng([seed, k]) for k, worker_id in enumerate(people)}
    working = list(people)
    while working:  # in turn, as people at work together would
        for worker_id in list(working):
            lease = database.lease_next_task(project, worker_id)
            if lease is None:
                working.remove(worker_id)
                continue
            names = database.lease_image_ids(project, lease.token)
            order = np.argsort(names)  # of the places, which differs every time; that of the ids does not
            chances = np.array([probability(names[position], lease.class_index) for position in order])
            selected = order[people[worker_id].answers(chances, rngs[worker_id])].tolist()
            database.submit_lease(project, worker_id, lease.token, selected, f"simulated-{lease.token}")
    return people


def simulate_demo_annotation(
    project: ProjectFolder, annotators: int, *, seed: int = 0
) -> Mapping[str, SimulatedAnnotator]:
    """Let simulated people annotate a project: every image has its own chance to be selected, every sixth guesses.

    An image's chance for its own class is one of 0.3, 0.5, 0.7 and 0.95 (10, 20, 30 and 40 in 100); for another
    class it is 0.02.
    """
    rows = {
        row.id: row.class_index
        for kind in ("original", "candidate")
        for row in database.stored_images(project, kind)
    }
    values = np.random.default_rng([seed, 1]).choice([0.3, 0.5, 0.7, 0.95], len(rows), p=[0.1, 0.2, 0.3, 0.4])
    chance = dict(zip(sorted(rows), values.tolist(), strict=True))
    crew = [SimulatedAnnotator(0.0) if k % 6 == 5 else SimulatedAnnotator() for k in range(annotators)]

    def probability(image: str, target: int) -> float:
        return chance[image] if rows[image] == target else 0.02

    return simulate_annotation(project, crew, probability, seed=seed)
