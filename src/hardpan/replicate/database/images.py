"""Images, keyword quotas and tasks in the database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, delete, func, insert, select, update

from hardpan.replicate.database.connection import check_database_text, in_database_order, log_event
from hardpan.replicate.database.models import Image, Quota, Task, TaskImage
from hardpan.replicate.folder import ProjectFolder
from hardpan.replicate.tasks import PlannedTask

ROWS_AT_ONCE = 2000
# A pair of images, "ID|ID" with a candidate's 16 digits first, has 200 characters at the most.
MOST_CHARACTERS: Mapping[str, int] = {"id": 180, "keyword": 200, "source": 10_000, "date": 40}
_DEFAULTS: Mapping[str, Any] = {
    "class_index": None,
    "keyword": None,
    "source": "",
    "date": None,
    "split": "",
    "row": None,
    "details": {},
}


def add_images(project: ProjectFolder, rows: Sequence[Mapping[str, Any]]) -> int:
    """Put images in, those whose id is there already excepted; give how many were new."""
    for row in rows:
        check_image_row(row)
    now, new = project.clock(), 0
    with project.database.write(alone=True) as connection:
        for start in range(0, len(rows), ROWS_AT_ONCE):
            piece = [dict(_DEFAULTS) | dict(row) for row in rows[start : start + ROWS_AT_ONCE]]
            known = set(connection.scalars(select(Image.id).where(Image.id.in_([row["id"] for row in piece]))))
            fresh = [row for row in piece if row["id"] not in known]
            if fresh:
                connection.execute(insert(Image), fresh)
            new += len(fresh)
        if new:
            log_event(connection, now, "owner", "images", count=new, kind=str(rows[0]["kind"]))
    return new


def stored_images(project: ProjectFolder, kind: str, **equal: Any) -> list[Any]:
    """Rows of one kind of image, in the order of their ids; ``equal`` narrows by columns."""
    query = select(Image.__table__).where(Image.kind == kind)
    for column, value in equal.items():
        query = query.where(Image.__table__.c[column] == value)
    with project.database.read() as connection:
        return list(connection.execute(query.order_by(in_database_order(Image.id))).all())


def image_contents(project: ProjectFolder, kind: str) -> dict[str, str]:
    """Content hash to id, of one kind of image."""
    with project.database.read() as connection:
        rows = connection.execute(
            select(Image.content, Image.id).where(Image.kind == kind).order_by(in_database_order(Image.id).desc())
        )
        return {row.content: row.id for row in rows}


def set_image_columns(project: ProjectFolder, rows: Iterable[Mapping[str, Any]], what: str) -> int:
    """Set columns (keyword, class_index) of images by id; each row has the same keys beside ``id``."""
    rows = list(rows)
    values = [{f"new_{key}": value for key, value in row.items()} for row in rows]
    if not values:
        return 0
    for row in rows:
        check_image_row(row)
    columns = [key for key in values[0] if key != "new_id"]
    statement = (
        update(Image.__table__)  # type: ignore[arg-type]
        .where(Image.__table__.c.id == bindparam("new_id"))
        .values({key.removeprefix("new_"): bindparam(key) for key in columns})
    )
    with project.database.write(alone=True) as connection:
        connection.execute(statement, values)
        log_event(connection, project.clock(), "owner", what, count=len(values))
    return len(values)


def check_image_row(row: Mapping[str, Any]) -> None:
    """Refuse a text of an image that cannot be stored or shown."""
    for name, longest in MOST_CHARACTERS.items():
        check_database_text(f"{name} of an image", row.get(name) or "", longest)


def count_images(project: ProjectFolder) -> dict[str, int]:
    """How many originals and candidates there are."""
    with project.database.read() as connection:
        rows = connection.execute(select(Image.kind, func.count().label("number")).group_by(Image.kind))
        return {row.kind: int(row.number) for row in rows}


def set_keyword_quotas(project: ProjectFolder, rows: Sequence[tuple[int, str, int, int]]) -> None:
    """Replace the quotas: (class, keyword, originals, quota)."""
    with project.database.write(alone=True) as connection:
        connection.execute(delete(Quota))
        if rows:
            names = ("class_index", "keyword", "originals", "quota")
            connection.execute(insert(Quota), [dict(zip(names, row, strict=True)) for row in rows])
        log_event(connection, project.clock(), "owner", "quotas", keywords=len(rows))


def stored_keyword_quotas(project: ProjectFolder) -> dict[tuple[int, str], int]:
    """(class, keyword) to the number of new images wanted."""
    with project.database.read() as connection:
        rows = connection.execute(select(Quota.class_index, Quota.keyword, Quota.quota))
        return {(row.class_index, row.keyword): row.quota for row in rows}


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
