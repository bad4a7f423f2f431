"""Which images a task shows: candidates of one class, and hidden originals of it and of a nearby class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.arguments import whole_number
from hardpan.files import record
from hardpan.replicate import database
from hardpan.replicate.folder import ProjectConfig, ProjectFolder, hash_project_rows
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
    orders = {c: _shuffled_images(sorted(ids), [config.seed, batch, c, 1]) for c, ids in originals.items()}
    grids: list[tuple[int, dict[str, str]]] = []
    n_positives: list[int] = []
    for c in sorted(c for c, ids in candidates.items() if len(ids)):
        number = _task_count(len(candidates[c]), config)
        shuffled = _shuffled_images(sorted(candidates[c]), [config.seed, batch, c, 0])
        for piece in np.array_split(np.array(shuffled, dtype=object), number):
            grids.append((c, {str(name): "candidate" for name in piece}))
            n_positives.append(max(config.positives, -(-config.originals_per_class // number)))
    uses = Counter(used or {})
    nearest = {c: next((orders[k] for k in nearby[c] if orders.get(k)), []) for c, _ in grids}
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
    originals = control_originals(project)
    nearby = nearby_classes(project)
    batch = database.next_task_batch(project)
    used = planned_uses_of_originals(project, batch)
    planned = plan_tasks(candidates, originals, nearby, project.config, batch=batch, used=used)
    if planned:
        blind_originals_for_tasks(
            project, {name for task in planned for name, role in task.images if role != "candidate"}
        )
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
    used.update(name for task in planned for name, role in task.images if role != "candidate")
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


def planned_uses_of_originals(project: ProjectFolder, before: int) -> Counter[str]:
    """In how many tasks of the batches before a number each original is."""
    tasks = [task for batch in range(before) for task in database.stored_tasks(project, batch)]
    return Counter(name for task in tasks for name, role in task.images if role != "candidate")


def top_up_tasks(project: ProjectFolder) -> int:
    """Ask for one more worker wherever one who fails the controls or is excluded has answered; gives how many."""
    from hardpan.replicate.quality import worker_quality

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


def blind_originals_for_tasks(project: ProjectFolder, ids: Collection[str]) -> None:
    """Make the form that annotators and participants get of these originals (candidates have it from the start)."""
    for item in database.stored_images(project, "original"):
        if item.id in ids:
            project.keep_blinded(item.id, project.pixels(item.id, item.row))


def originals_for_tasks(project: ProjectFolder) -> list[Any]:
    """Rows of the official test set where there is one, else of all originals."""
    rows = database.stored_images(project, "original", split="test")
    return rows or database.stored_images(project, "original")


def control_originals(project: ProjectFolder) -> dict[int, list[str]]:
    """Originals that may serve as controls, by class: the official test set where there is one."""
    results: dict[int, list[str]] = {}
    for row in originals_for_tasks(project):
        if row.class_index is not None:
            results.setdefault(row.class_index, []).append(row.id)
    return results


def nearby_classes(project: ProjectFolder) -> dict[int, list[int]]:
    """Other classes by class, nearest first: those that the class list names, then by the distance of class means.

    Distance of class means: ‖mean pixels of a − mean pixels of b‖₂ over the originals.
    """
    distance = _class_mean_distances(project)
    results = {}
    for c, item in enumerate(project.classes):
        first = [project.config.class_index(name) for name in item.nearby]
        results[c] = first + [int(k) for k in np.argsort(distance[c], kind="stable") if k != c and k not in first]
    return results


def _hide_control_images(
    grid: dict[str, str], kind: str, source: Sequence[str], count: int, used: Counter[str]
) -> None:
    """Put ``count`` originals into a grid, least used first, equal ones in their order."""
    for name in sorted((name for name in source if name not in grid), key=lambda name: used[name])[:count]:
        grid[name] = kind
        used[name] += 1


def _task_count(candidates: int, config: ProjectConfig) -> int:
    """The fewest tasks whose grids hold the candidates beside the controls that so few tasks need."""
    number = 1
    while True:
        positives = max(config.positives, -(-config.originals_per_class // number))
        room = config.grid - positives - config.negatives
        if room > 0 and number * room >= candidates:
            return number
        number += 1


def _shuffled_images(items: Sequence[str], seed: Sequence[int]) -> list[str]:
    order = np.random.default_rng(list(seed)).permutation(len(items))
    return [items[int(k)] for k in order]


def _class_mean_distances(project: ProjectFolder) -> NDArray[np.float64]:
    pixels = project.original_pixels
    flat = pixels.reshape(len(pixels), -1)
    rows: dict[int, list[int]] = {}
    for item in database.stored_images(project, "original"):
        if item.class_index is not None:
            rows.setdefault(item.class_index, []).append(item.row)
    means = np.full((len(project.classes), flat.shape[1]), np.nan)
    for c, members in rows.items():
        means[c] = flat[sorted(members)].mean(axis=0, dtype=np.float64)
    squares = (means**2).sum(axis=1)
    distance = np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2.0 * means @ means.T, 0.0))
    return np.asarray(np.nan_to_num(distance, nan=np.inf), dtype=np.float64)
