"""Which images a task shows: candidates of one class, and hidden originals of it and of a nearby class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardpan.arguments import whole_number
from hardpan.files import record
from hardpan.replicate import database
from hardpan.replicate.folder import ProjectConfig, ProjectFolder, hash_project_rows
from hardpan.replicate.quality import worker_quality
from hardpan.report import Report


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """A task before anyone has seen it: (image id, role) in the order of ids."""

    class_index: int
    images: tuple[tuple[str, str], ...]


@record
class TasksMade(Report):
    """What :func:`make_tasks` did.

    Attributes:
        tasks: new tasks.
        candidates: candidates in them.
        annotated_originals: originals to be annotated, by class.
        wanted_originals: how many of each class were requested.
        extra_workers: workers asked for in place of those who fail the controls.
        repeated_originals: originals that are in several tasks: annotators who compare notes recognise them.
    """

    tasks: int
    candidates: int
    annotated_originals: Mapping[str, int]
    wanted_originals: int
    extra_workers: int = 0
    repeated_originals: int = 0


def plan_tasks(
    candidates: Mapping[int, Sequence[str]],
    originals: Mapping[int, Sequence[str]],
    nearby: Mapping[int, Sequence[int]],
    config: ProjectConfig,
    *,
    batch: int = 0,
    used: Mapping[str, int] | None = None,
) -> list[PlannedTask]:
    """Cut candidates into tasks and hide controls in them.

    Class c's candidates are shuffled by ``default_rng([seed, batch, c, 0])`` and cut into tasks as equal as can be.
    Each task has at least ``positives`` originals of c (more, where few tasks must cover ``originals_per_class``),
    and ``negatives`` of the nearest class that has any. Of equal originals the one used least comes first, so
    that tasks share few images and a worker can do many. Cells left in the grid get originals not used yet.

    Args:
        candidates: ids by class number.
        originals: ids by class number, of which the controls are drawn.
        nearby: other class numbers by class number, nearest first.
        config: sizes and seed.
        batch: 0 for the first tasks of a project, 1 for those of candidates added later, ...
        used: how many earlier tasks each original is in: whoever sees one again knows that it is no candidate.

    Source: Recht et al., section 4.
    """

    def shuffled(images: Sequence[str], c: int, stream: int) -> NDArray[np.str_]:
        return np.random.default_rng([config.seed, batch, c, stream]).permutation(np.array(sorted(images), np.str_))

    orders = {c: shuffled(ids, c, 1).tolist() for c, ids in originals.items()}
    grids: list[tuple[int, dict[str, str]]] = []
    n_positives: list[int] = []
    for c in sorted(c for c, ids in candidates.items() if len(ids)):
        number = _planned_task_count(len(candidates[c]), config)
        for piece in np.array_split(shuffled(candidates[c], c, 0), number):
            grids.append((c, dict.fromkeys(piece.tolist(), "candidate")))
            n_positives.append(max(config.positives, -(-config.originals_per_class // number)))
    uses = Counter(used or {})
    nearest: dict[int, list[str]] = {c: next((orders[k] for k in nearby[c] if orders.get(k)), []) for c, _ in grids}
    for (c, grid), count in zip(grids, n_positives, strict=True):
        _hide_control_images(grid, "positive", orders.get(c, []), count, uses)
    for c, grid in grids:
        _hide_control_images(grid, "negative", nearest[c], config.negatives, uses)
    for c, grid in grids:
        for kind in ("positive", "negative") * config.grid:
            if len(grid) >= config.grid:
                break
            source = orders.get(c, []) if kind == "positive" else nearest[c]
            _hide_control_images(grid, kind, [name for name in source if not uses[name]], 1, uses)
    return [PlannedTask(c, tuple(sorted(grid.items()))) for c, grid in grids]


def make_tasks(project: ProjectFolder, *, votes: int | None = None, replace_failing: bool = False) -> TasksMade:
    """Make tasks for every candidate with a class that is in none yet; a second call makes none.

    Args:
        project: an open project.
        votes: number of workers per task; default: that of the project.
        replace_failing: also add workers to tasks that were answered by one who fails the controls.
    """
    workers = project.config.workers_per_image if votes is None else votes
    whole_number("votes", workers, 1)
    in_tasks = database.images_in_tasks(project)
    candidates: dict[int, list[str]] = {}
    for row in database.stored_images(project, "candidate"):
        if row.class_index is not None and row.split != "aside" and row.id not in in_tasks:
            candidates.setdefault(row.class_index, []).append(row.id)
    nearby = nearby_task_classes(project)
    batch = database.next_task_batch(project)
    used = database.originals_in_tasks(project, batch)
    planned = plan_tasks(candidates, task_control_images(project), nearby, project.config, batch=batch, used=used)
    controls = [name for task in planned for name, role in task.images if role != "candidate"]
    if planned:
        database.keep_originals_blinded(project, set(controls))
        database.add_image_tasks(project, planned, batch, workers)
        project.record_step(
            "tasks",
            parameters={
                "batch": batch,
                "votes": workers,
                "nearby": {str(c): list(order) for c, order in nearby.items()},
                "uses_counted": True,
            },
            seed=project.config.seed,
            outputs={"tasks": len(planned), "plan": hash_planned_tasks(planned)},
        )
    used.update(controls)
    positives = {(task.class_index, name) for task in planned for name, role in task.images if role == "positive"}
    by_class = Counter(c for c, _ in positives)
    return TasksMade(
        len(planned),
        sum(map(len, candidates.values())),
        {project.classes[c].name: by_class[c] for c in sorted({task.class_index for task in planned})},
        project.config.originals_per_class,
        top_up_tasks(project) if replace_failing else 0,
        sum(count > 1 for count in used.values()) if planned else 0,
    )


def top_up_tasks(project: ProjectFolder) -> int:
    """Ask for one more worker wherever one who fails the controls or is excluded has answered; gives how many."""
    votes = database.all_votes(project)
    failing = {item.worker_id for item in worker_quality(votes) if item.flagged} | database.excluded_workers(
        project
    )
    answered = Counter(
        task for task, who in {(v.task_id, v.worker_id) for v in votes if v.task_id} if who in failing
    )
    default = project.config.workers_per_image
    planned = {step.parameters["batch"]: step.parameters.get("votes", default) for step in project.steps("tasks")}
    extra = {
        task: more
        for task, (batch, requested) in database.task_workers_needed(project).items()
        if (more := planned.get(batch, default) + answered[task] - requested) > 0
    }
    if extra:
        database.want_more_task_workers(project, extra)
    return sum(extra.values())


def hash_planned_tasks(planned: Sequence[PlannedTask]) -> str:
    """Sha256 over tasks, in their order."""
    return hash_project_rows([task.class_index, task.images] for task in planned)


def task_control_images(project: ProjectFolder) -> dict[int, list[str]]:
    """Originals that may serve as controls, by class: the official test set where there is one."""
    results: dict[int, list[str]] = {}
    for row in database.originals_of_test_set(project):
        results.setdefault(row.class_index, []).append(row.id)
    return results


def planned_task_problems(project: ProjectFolder) -> list[str]:
    """Plan every batch of tasks again, and say which differs."""
    problems = []
    originals = task_control_images(project)
    for step in project.steps("tasks"):
        batch = step.parameters["batch"]
        stored = database.stored_tasks(project, batch)
        candidates: dict[int, list[str]] = {}
        for task in stored:
            members = [name for name, role in task.images if role == "candidate"]
            candidates.setdefault(task.class_index, []).extend(members)
        nearby = {int(c): list(order) for c, order in step.parameters["nearby"].items()}
        used = database.originals_in_tasks(project, batch) if step.parameters.get("uses_counted") else None
        planned = plan_tasks(candidates, originals, nearby, project.config, batch=batch, used=used)
        if not hash_planned_tasks(planned) == hash_planned_tasks(stored) == step.outputs["plan"]:
            problems.append(f"batch {batch} differs from what its seed gives")
    return problems


def nearby_task_classes(project: ProjectFolder) -> dict[int, list[int]]:
    """Other classes by class, nearest first: those that the class list names, then by the distance of class means.

    Distance of class means: ‖mean of a − mean of b‖₂ over the originals, of pixels or of hashed words.
    """
    vectors = project.kind.vectors(project.originals)
    rows = sorted(database.stored_images(project, "original"), key=lambda item: item.row)
    labels = np.array([row.class_index for row in rows])
    means = np.full((len(project.classes), vectors.shape[1]), np.nan)
    for c in np.unique(labels):
        means[c] = np.asarray(vectors[labels == c].mean(axis=0, dtype=np.float64)).ravel()
    squares = (means**2).sum(axis=1)
    distance = np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2.0 * means @ means.T, 0.0))
    results = {}
    for c, item in enumerate(project.classes):
        first = [project.config.class_index(name) for name in item.nearby]
        order = np.argsort(distance[c], kind="stable").tolist()  # NaN, of a class without originals, last
        results[c] = first + [k for k in order if k != c and k not in first]
    return results


def _hide_control_images(
    grid: dict[str, str], kind: str, source: Sequence[str], count: int, used: Counter[str]
) -> None:
    """Put ``count`` originals into a grid, least used first, equal ones in their order."""
    for name in sorted((name for name in source if name not in grid), key=lambda name: used[name])[:count]:
        grid[name] = kind
        used[name] += 1


def _planned_task_count(candidates: int, config: ProjectConfig) -> int:
    """The fewest tasks whose grids hold the candidates beside the controls that so few tasks need."""
    number = 1
    while True:
        positives = max(config.positives, -(-config.originals_per_class // number))
        room = config.grid - positives - config.negatives
        if room > 0 and number * room >= candidates:
            return number
        number += 1
