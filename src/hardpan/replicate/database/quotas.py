"""Keyword quotas, and candidates that a date window sets aside."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, insert, select, update

from hardpan.replicate.database.connection import log
from hardpan.replicate.database.models import Image, Quota
from hardpan.replicate.project import Project


def set_quotas(project: Project, rows: Sequence[tuple[int, str, int, int]]) -> None:
    """Replace the quotas: (class, keyword, originals, quota)."""
    with project.database.write(alone=True) as connection:
        connection.execute(delete(Quota))
        if rows:
            names = ("class_index", "keyword", "originals", "quota")
            connection.execute(insert(Quota), [dict(zip(names, row, strict=True)) for row in rows])
        log(connection, project.clock(), "owner", "quotas", keywords=len(rows))


def stored_quotas(project: Project) -> dict[tuple[int, str], int]:
    """(class, keyword) to the number of new images wanted."""
    with project.database.read() as connection:
        rows = connection.execute(select(Quota.class_index, Quota.keyword, Quota.quota))
        return {(row.class_index, row.keyword): row.quota for row in rows}


def set_aside(project: Project, ids: Sequence[str]) -> None:
    """Mark candidates outside the date window, and only those; they stay in the pool and are never drawn."""
    with project.database.write(alone=True) as connection:
        connection.execute(update(Image).where(Image.split == "aside").values(split=""))
        for start in range(0, len(ids), 500):
            piece = ids[start : start + 500]
            connection.execute(update(Image).where(Image.id.in_(piece)).values(split="aside"))
