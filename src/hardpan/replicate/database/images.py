"""Images in the database: put in once, found by content, class and keyword."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, func, insert, select, update

from hardpan.errors import InputError
from hardpan.replicate.database.connection import in_plain_order, log
from hardpan.replicate.database.models import Image
from hardpan.replicate.project import Project

ROWS_AT_ONCE = 2000
# A pair of images, "ID|ID" with a candidate's 16 digits first, has 200 characters at the most.
MOST_CHARACTERS: Mapping[str, int] = {"id": 180, "keyword": 200, "date": 40}
_DEFAULTS: Mapping[str, Any] = {
    "class_index": None,
    "keyword": None,
    "source": "",
    "date": None,
    "split": "",
    "row": None,
    "details": {},
}


def add_images(project: Project, rows: Sequence[Mapping[str, Any]], actor: str = "owner") -> int:
    """Put images in, those whose id is there already excepted; give how many were new."""
    _check(rows)
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
            log(connection, now, actor, "images", count=new, kind=str(rows[0]["kind"]))
    return new


def stored_images(project: Project, kind: str, **equal: Any) -> list[Any]:
    """Rows of one kind of image, in the order of their ids; ``equal`` narrows by columns."""
    query = select(Image.__table__).where(Image.kind == kind)
    for column, value in equal.items():
        query = query.where(Image.__table__.c[column] == value)
    with project.database.read() as connection:
        return list(connection.execute(query.order_by(in_plain_order(Image.id))).all())


def contents(project: Project, kind: str) -> dict[str, str]:
    """Content hash to id, of one kind of image."""
    with project.database.read() as connection:
        rows = connection.execute(
            select(Image.content, Image.id).where(Image.kind == kind).order_by(in_plain_order(Image.id).desc())
        )
        return {row.content: row.id for row in rows}


def set_columns(project: Project, rows: Iterable[Mapping[str, Any]], what: str) -> int:
    """Set columns (keyword, class_index) of images by id; each row has the same keys beside ``id``."""
    rows = list(rows)
    given = [{f"new_{key}": value for key, value in row.items()} for row in rows]
    if not given:
        return 0
    _check(rows)
    columns = [key for key in given[0] if key != "new_id"]
    statement = (
        update(Image.__table__)  # type: ignore[arg-type]
        .where(Image.__table__.c.id == bindparam("new_id"))
        .values({key.removeprefix("new_"): bindparam(key) for key in columns})
    )
    with project.database.write(alone=True) as connection:
        connection.execute(statement, given)
        log(connection, project.clock(), "owner", what, count=len(given))
    return len(given)


def _check(rows: Iterable[Mapping[str, Any]]) -> None:
    """What one kind of database would refuse or cut off is refused for both."""
    for row in rows:
        for name in ("id", "keyword", "source", "date"):
            value = row.get(name) or ""
            if "\0" in value or len(value) > MOST_CHARACTERS.get(name, len(value)):
                most = f"at most {MOST_CHARACTERS[name]} characters, " if name in MOST_CHARACTERS else ""
                raise InputError(f"{name} {value[:40]!r} of an image must have {most}none of them null")


def count_images(project: Project) -> dict[str, int]:
    """How many originals and candidates there are."""
    with project.database.read() as connection:
        rows = connection.execute(select(Image.kind, func.count().label("number")).group_by(Image.kind))
        return {row.kind: int(row.number) for row in rows}
