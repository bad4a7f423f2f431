"""The images of a project: originals, candidates, those of the current sample, and quotas of their keywords."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import Table, bindparam, delete, func, insert, select, update

from hardpan.errors import InputError
from hardpan.replicate.database.connection import Image, Quota, SampleRow, check_database_text, in_database_order
from hardpan.replicate.database.events import log_event
from hardpan.replicate.examples import Example
from hardpan.replicate.folder import ProjectFolder
from hardpan.replicate.sampling import SampledImage

ROWS_AT_ONCE = 2000
# A pair of images, "ID|ID" with a candidate's 16 digits first, has 200 characters at the most.
MOST_CHARACTERS: Mapping[str, int] = {"id": 180, "keyword": 200, "source": 10_000, "date": 40}


def add_images(project: ProjectFolder, rows: Sequence[Mapping[str, Any]]) -> int:
    """Put images in, those whose id is there already excepted; give how many were new."""
    for row in rows:
        check_stored_image(row)
    new = 0
    with project.database.write(alone=True) as connection:
        for start in range(0, len(rows), ROWS_AT_ONCE):
            piece = rows[start : start + ROWS_AT_ONCE]
            known = set(connection.scalars(select(Image.id).where(Image.id.in_([row["id"] for row in piece]))))
            fresh = [row for row in piece if row["id"] not in known]
            if fresh:
                connection.execute(insert(Image), fresh)
            new += len(fresh)
        if new:
            log_event(connection, project.clock(), "owner", "images", count=new, kind=str(rows[0]["kind"]))
    return new


def stored_images(project: ProjectFolder, kind: str, **equal: Any) -> list[Any]:
    """Rows of one kind of image, in the order of their ids; ``equal`` narrows by columns."""
    query = select(Image.__table__).where(Image.kind == kind)
    for column, value in equal.items():
        query = query.where(Image.__table__.c[column] == value)
    with project.database.read() as connection:
        return list(connection.execute(query.order_by(in_database_order(Image.id))).all())


def originals_of_test_set(project: ProjectFolder) -> list[Any]:
    """Rows of the official test set where there is one, else of all originals."""
    return stored_images(project, "original", split="test") or stored_images(project, "original")


def keep_originals_blinded(project: ProjectFolder, ids: Collection[str]) -> None:
    """Make the form that annotators and participants get of these originals (candidates have it from the start)."""
    for item in stored_images(project, "original"):
        if item.id in ids:
            project.keep_blinded(item.id, project.example(item.id, item.row))


def image_contents(project: ProjectFolder, kind: str) -> dict[str, str]:
    """Content hash to id, of one kind of image."""
    with project.database.read() as connection:
        rows = connection.execute(
            select(Image.content, Image.id).where(Image.kind == kind).order_by(in_database_order(Image.id).desc())
        )
        return {row.content: row.id for row in rows}


def set_image_column(project: ProjectFolder, column: str, values: Mapping[str, Any], what: str) -> None:
    """Set a column (keyword, class_index) of images by id; ``what`` names the event."""
    for value in values.values():
        check_stored_image({column: value})
    table = cast(Table, Image.__table__)
    statement = update(table).where(table.c.id == bindparam("image")).values({column: bindparam("value")})
    if values:
        with project.database.write(alone=True) as connection:
            connection.execute(statement, [{"image": name, "value": value} for name, value in values.items()])
            log_event(connection, project.clock(), "owner", what, count=len(values))


def check_stored_image(row: Mapping[str, Any]) -> None:
    """Refuse a text of an image that cannot be stored or shown."""
    for name, longest in MOST_CHARACTERS.items():
        check_database_text(f"{name} of an image", row.get(name) or "", longest)


def count_images(project: ProjectFolder) -> dict[str, int]:
    """How many originals and candidates there are."""
    with project.database.read() as connection:
        rows = connection.execute(select(Image.kind, func.count().label("number")).group_by(Image.kind))
        return {row.kind: int(row.number) for row in rows}


def stored_example(project: ProjectFolder, image_id: str) -> Example:
    """An image or text by its id, for selectors and reviewers, never for annotators."""
    with project.database.read() as connection:
        row = connection.execute(select(Image.row).where(Image.id == image_id)).first()
    if row is None:
        raise InputError(f"image {image_id[:40]!r} is not in this project")
    return project.example(image_id, row.row)


def store_sample_images(
    project: ProjectFolder, images: Sequence[SampledImage], removed: Collection[str] = (), *, round_number: int = 0
) -> None:
    """Replace the sample in round 0; in a later one, which may begin again, take out ``removed`` and add images."""
    rows = [
        {
            "image_id": image.id,
            "class_index": project.config.class_index(image.class_name),
            "keyword": image.subclass or None,
            "frequency": image.frequency,
            "votes": image.votes,
            "how": image.fill,
            "round": round_number,
        }
        for image in images
    ]
    taken_out = update(SampleRow).where(SampleRow.image_id.in_(removed))
    cut_off = update(SampleRow).where(SampleRow.removed_round == round_number)
    with project.database.write(alone=True) as connection:
        connection.execute(delete(SampleRow).where(SampleRow.round >= round_number))
        connection.execute(cut_off.values(removed_round=None, removed_why=""))
        connection.execute(taken_out.values(removed_round=round_number, removed_why="removed by a person"))
        if rows:
            connection.execute(insert(SampleRow), rows)
        what = {"removed": len(removed), "added": len(images)} if round_number else {"images": len(images)}
        log_event(connection, project.clock(), "owner", "resampled" if round_number else "sampled", **what)


def stored_sample_images(project: ProjectFolder) -> list[Any]:
    """Every image that was ever in the current sample, removed ones too, in the order of class and id."""
    with project.database.read() as connection:
        order = (SampleRow.class_index, in_database_order(SampleRow.image_id))
        return list(connection.execute(select(SampleRow.__table__).order_by(*order)).all())


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
