"""Tasks in the database."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, insert, select, update

from hardpan.replicate.database.connection import in_plain_order, log
from hardpan.replicate.database.models import Task, TaskImage
from hardpan.replicate.project import Project
from hardpan.replicate.tasks import PlannedTask


def add_tasks(project: Project, planned: Sequence[PlannedTask], batch: int) -> None:
    """Put planned tasks in, all or none."""
    wanted = project.config.workers_per_image
    with project.database.write(alone=True) as connection:
        first = int(connection.scalar(select(func.max(Task.id))) or 0) + 1
        connection.execute(
            insert(Task),
            [
                {"id": first + k, "batch": batch, "class_index": t.class_index, "wanted": wanted, "submitted": 0}
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
        log(connection, project.clock(), "owner", "tasks", count=len(planned), batch=batch)


def images_in_tasks(project: Project) -> set[str]:
    """Ids of candidates that some task shows."""
    with project.database.read() as connection:
        return set(connection.scalars(select(TaskImage.image_id).where(TaskImage.role == "candidate").distinct()))


def next_batch(project: Project) -> int:
    """The number of the next batch of tasks."""
    with project.database.read() as connection:
        last = connection.scalar(select(func.max(Task.batch)))
        return 0 if last is None else int(last) + 1


def stored_tasks(project: Project, batch: int) -> list[PlannedTask]:
    """Tasks of a batch as they were planned."""
    with project.database.read() as connection:
        tasks = connection.execute(
            select(Task.id, Task.class_index).where(Task.batch == batch).order_by(Task.id)
        ).all()
        rows = connection.execute(
            select(TaskImage.__table__)
            .join(Task, Task.id == TaskImage.task_id)
            .where(Task.batch == batch)
            .order_by(TaskImage.task_id, in_plain_order(TaskImage.image_id))
        ).all()
    images: dict[int, list[tuple[str, str]]] = {}
    for row in rows:
        images.setdefault(row.task_id, []).append((row.image_id, row.role))
    return [PlannedTask(task.class_index, tuple(sorted(images.get(task.id, [])))) for task in tasks]


def tasks_wanted(project: Project) -> dict[int, int]:
    """Task id to the number of workers it wants."""
    with project.database.read() as connection:
        return {row.id: row.wanted for row in connection.execute(select(Task.id, Task.wanted))}


def want_more(project: Project, extra: dict[int, int]) -> None:
    """Raise the number of workers that tasks want: task id to how many more."""
    with project.database.write(alone=True) as connection:
        for task, count in extra.items():
            connection.execute(update(Task).where(Task.id == task).values(wanted=Task.wanted + count))
        log(connection, project.clock(), "owner", "want-more", tasks=len(extra), workers=sum(extra.values()))
