"""The images of a project: originals, candidates, and those of the current sample."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import bindparam, delete, func, insert, select, update

from hardpan.errors import InputError
from hardpan.replicate.database.connection import Image, SampleRow, check_database_text, in_database_order
from hardpan.replicate.database.events import log_event
from hardpan.replicate.folder import ProjectFolder
from hardpan.replicate.sampling import SampledImage

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


def stored_image_picture(project: ProjectFolder, image_id: str) -> bytes:
    """An image by its id, for selectors and reviewers, never for annotators."""
    return project.picture(image_id, _stored_image_row(project, image_id))


def stored_image_pixels(project: ProjectFolder, image_id: str) -> NDArray[np.uint8]:
    """The pixels of an image by its id."""
    return project.pixels(image_id, _stored_image_row(project, image_id))


def _stored_image_row(project: ProjectFolder, image_id: str) -> int | None:
    with project.database.read() as connection:
        row = connection.execute(select(Image.row).where(Image.id == image_id)).first()
    if row is None:
        raise InputError(f"image {image_id[:40]!r} is not in this project")
    return cast(int | None, row.row)


def store_sample_images(project: ProjectFolder, images: Sequence[SampledImage]) -> None:
    """Replace the sample by a new one of round 0."""
    with project.database.write(alone=True) as connection:
        connection.execute(delete(SampleRow))
        if images:
            connection.execute(insert(SampleRow), [_sample_image_record(project, image, 0) for image in images])
        log_event(connection, project.clock(), "owner", "sampled", images=len(images))


def change_sample_images(
    project: ProjectFolder, removed: Collection[str], added: Sequence[SampledImage], round_number: int
) -> None:
    """Take out images that people removed and put others in, as one round; one that was cut off begins again."""
    with project.database.write(alone=True) as connection:
        connection.execute(delete(SampleRow).where(SampleRow.round == round_number))
        connection.execute(
            update(SampleRow)
            .where(SampleRow.removed_round == round_number)
            .values(removed_round=None, removed_why="")
        )
        taken_out = update(SampleRow).where(SampleRow.image_id.in_(removed))
        connection.execute(taken_out.values(removed_round=round_number, removed_why="removed by a person"))
        if added:
            connection.execute(
                insert(SampleRow), [_sample_image_record(project, image, round_number) for image in added]
            )
        log_event(connection, project.clock(), "owner", "resampled", removed=len(removed), added=len(added))


def stored_sample_images(project: ProjectFolder) -> list[Any]:
    """Every image that was ever in the current sample, removed ones too, in the order of class and id."""
    with project.database.read() as connection:
        order = (SampleRow.class_index, in_database_order(SampleRow.image_id))
        return list(connection.execute(select(SampleRow.__table__).order_by(*order)).all())


def _sample_image_record(project: ProjectFolder, image: SampledImage, round_number: int) -> dict[str, Any]:
    return {
        "image_id": image.id,
        "class_index": project.config.class_index(image.class_name),
        "keyword": image.subclass or None,
        "frequency": image.frequency,
        "votes": image.votes,
        "how": image.fill,
        "round": round_number,
        "removed_round": None,
        "removed_why": "",
    }
