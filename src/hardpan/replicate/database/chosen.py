"""The current sample and its possible duplicates, in the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import delete, insert, select, update

from hardpan.replicate.database.connection import in_plain_order, log
from hardpan.replicate.database.models import Chosen, Pair
from hardpan.replicate.project import Project
from hardpan.replicate.sampling import Drawn


def begin_sample(project: Project, images: Sequence[Drawn]) -> None:
    """Replace the sample by a new one of round 0."""
    with project.database.write(alone=True) as connection:
        connection.execute(delete(Chosen))
        if images:
            connection.execute(insert(Chosen), [_row(project, image, 0) for image in images])
        log(connection, project.clock(), "owner", "sampled", images=len(images))


def change_sample(project: Project, removed: Mapping[str, str], added: Sequence[Drawn], round_number: int) -> None:
    """Take images out (id to reason) and put others in, as one round; one that was cut off begins again."""
    with project.database.write(alone=True) as connection:
        connection.execute(delete(Chosen).where(Chosen.round == round_number))
        connection.execute(
            update(Chosen).where(Chosen.removed_round == round_number).values(removed_round=None, removed_why="")
        )
        for name, why in removed.items():
            connection.execute(
                update(Chosen).where(Chosen.image_id == name).values(removed_round=round_number, removed_why=why)
            )
        if added:
            connection.execute(insert(Chosen), [_row(project, image, round_number) for image in added])
        log(connection, project.clock(), "owner", "resampled", removed=len(removed), added=len(added))


def chosen_rows(project: Project) -> list[Any]:
    """Every image that was ever in the current sample, removed ones too, in the order of class and id."""
    with project.database.read() as connection:
        order = (Chosen.class_index, in_plain_order(Chosen.image_id))
        return list(connection.execute(select(Chosen.__table__).order_by(*order)).all())


def add_pairs(project: Project, rows: Sequence[Mapping[str, Any]]) -> int:
    """Put pairs in that are not there yet; give how many were new."""
    with project.database.write(alone=True) as connection:
        known = {(r.image_id, r.other_id) for r in connection.execute(select(Pair.image_id, Pair.other_id))}
        fresh = {
            (row["image_id"], row["other_id"]): dict(row)
            for row in rows
            if (row["image_id"], row["other_id"]) not in known and (row["other_id"], row["image_id"]) not in known
        }
        if fresh:
            connection.execute(insert(Pair), list(fresh.values()))
            log(connection, project.clock(), "owner", "pairs", count=len(fresh))
        return len(fresh)


def all_pairs(project: Project) -> list[Any]:
    """Every pair, in the order of finding."""
    with project.database.read() as connection:
        return list(connection.execute(select(Pair.__table__).order_by(Pair.id)).all())


def _row(project: Project, image: Drawn, round_number: int) -> dict[str, Any]:
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
