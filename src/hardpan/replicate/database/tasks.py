"""Tasks as they were planned, how many workers they want, and how far each class is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import case, func, insert, select, update

from hardpan.replicate.database.connection import Assignment, Task, TaskImage, in_database_order
from hardpan.replicate.database.events import log_event
from hardpan.replicate.folder import ProjectFolder
from hardpan.replicate.task_planning import PlannedTask


def add_image_tasks(project: ProjectFolder, planned: Sequence[PlannedTask], batch: int, workers: int) -> None:
    """Put planned tasks in, all or none; each needs ``workers`` workers."""
    with project.database.write(alone=True) as connection:
        first = int(connection.scalar(select(func.max(Task.id))) or 0) + 1
        connection.execute(
            insert(Task),
            [
                {"id": first + k, "batch": batch, "class_index": t.class_index, "needed": workers, "submitted": 0}
                for k, t in enumerate(planned)
            ],
        )
        connection.execute(
            insert(TaskImage),
            [
                {"task_id": first + k, "image_id": name, "role": role}
                for k, t in enumerate(planned)
                for name, role in t.images
            ],
        )
        log_event(connection, project.clock(), "owner", "tasks", count=len(planned), batch=batch)


def images_in_tasks(project: ProjectFolder) -> set[str]:
    """Ids of candidates that some task shows."""
    with project.database.read() as connection:
        return set(connection.scalars(select(TaskImage.image_id).where(TaskImage.role == "candidate").distinct()))


def originals_in_tasks(project: ProjectFolder, before: int) -> Counter[str]:
    """In how many tasks of the batches before a number each original is."""
    query = select(TaskImage.image_id, func.count().label("uses")).join(Task, Task.id == TaskImage.task_id)
    query = query.where(Task.batch < before, TaskImage.role != "candidate").group_by(TaskImage.image_id)
    with project.database.read() as connection:
        return Counter({row.image_id: row.uses for row in connection.execute(query)})


def next_task_batch(project: ProjectFolder) -> int:
    """The number of the next batch of tasks."""
    with project.database.read() as connection:
        last = connection.scalar(select(func.max(Task.batch)))
        return 0 if last is None else int(last) + 1


def stored_tasks(project: ProjectFolder, batch: int) -> list[PlannedTask]:
    """Tasks of a batch as they were planned."""
    with project.database.read() as connection:
        tasks = connection.execute(
            select(Task.id, Task.class_index).where(Task.batch == batch).order_by(Task.id)
        ).all()
        rows = connection.execute(
            select(TaskImage.__table__)
            .join(Task, Task.id == TaskImage.task_id)
            .where(Task.batch == batch)
            .order_by(TaskImage.task_id, in_database_order(TaskImage.image_id))
        ).all()
    images: dict[int, list[tuple[str, str]]] = {}
    for row in rows:
        images.setdefault(row.task_id, []).append((row.image_id, row.role))
    return [PlannedTask(task.class_index, tuple(sorted(images.get(task.id, [])))) for task in tasks]


def task_workers_needed(project: ProjectFolder) -> dict[int, tuple[int, int]]:
    """Task id to its batch and the number of workers it wants."""
    with project.database.read() as connection:
        return {
            row.id: (row.batch, row.needed) for row in connection.execute(select(Task.id, Task.batch, Task.needed))
        }


def want_more_task_workers(project: ProjectFolder, extra: dict[int, int]) -> None:
    """Raise the number of workers that tasks want: task id to how many more."""
    with project.database.write(alone=True) as connection:
        for task, count in extra.items():
            connection.execute(update(Task).where(Task.id == task).values(needed=Task.needed + count))
        log_event(connection, project.clock(), "owner", "want-more", tasks=len(extra), workers=sum(extra.values()))


@dataclass(frozen=True, slots=True)
class TaskCoverage:
    """The state of the annotation of a class."""

    class_index: int
    tasks: int
    complete: int
    needed: int
    submitted: int
    leased: int


def task_coverage(project: ProjectFolder) -> list[TaskCoverage]:
    """Annotation so far, one row per class with tasks."""
    now = project.clock()
    with project.database.read() as connection:
        leased = (
            select(Assignment.task_id, func.count().label("number"))
            .where(Assignment.state == "leased", Assignment.expires_at > now)
            .group_by(Assignment.task_id)
            .subquery()
        )
        complete = func.sum(case((Task.submitted >= Task.needed, 1), else_=0))
        in_progress = func.coalesce(func.sum(leased.c.number), 0)
        rows = connection.execute(
            select(
                *(Task.class_index, func.count(), complete),
                *(func.sum(Task.needed), func.sum(Task.submitted), in_progress),
            )
            .outerjoin(leased, leased.c.task_id == Task.id)
            .group_by(Task.class_index)
            .order_by(Task.class_index)
        )
        return [TaskCoverage(*map(int, row)) for row in rows]
