"""Scores on disk: a record with its arrays beside it, and a table for people and spreadsheets."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hardpan import files
from hardpan.confusion.scoring import Scores
from hardpan.errors import InputError

FILE = "scores.json"
FOLDER = "scores"
TABLE = "scores.csv"


def save_scores(scores: Scores, folder: str | os.PathLike[str]) -> Path:
    """Write ``scores.csv`` and ``scores/scores.json`` with its arrays beside it; give the JSON's path."""
    place = Path(folder)
    with written_to(place):
        place.mkdir(parents=True, exist_ok=True)
        files.write_text(place / TABLE, _table(scores))
        return files.save(scores, place / FOLDER / FILE)


@contextmanager
def written_to(place: Path) -> Iterator[None]:
    """Say in one sentence that a place cannot be written."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{place}: cannot be written ({error.strerror or error}); give another place") from error


def load_scores(path: str | os.PathLike[str]) -> Scores | None:
    """Read scores that were saved, or that a recorder kept instead of predictions; None where it is neither.

    Args:
        path: ``scores.json``, the folder that :func:`save_scores` wrote, or a store that was recorded with
            ``scalars_only=True``.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"path must name scores that `confusion score` wrote, or a store; got {path!r}")
    given = os.fspath(path)
    place = Path(given)
    if "://" not in given and place.is_dir():
        inside = (place / FILE, place / FOLDER / FILE)
        place = next((item for item in inside if item.is_file()), place)
    if place.suffix == ".json" and place.is_file():
        found: Any = files.load(place)
        if not isinstance(found, Scores):
            raise InputError(f"{place}: is a {type(found).__name__}, not Scores; give what `confusion score` wrote")
        return found
    return _accumulated(given)


def _accumulated(path: str) -> Scores | None:
    from hardpan.predictions.scores import open_scores

    try:
        kept = open_scores(path)
    except InputError:  # predictions, or nothing that a store knows; whoever opens those says what is wrong
        return None
    return Scores(
        ids=kept.ids,
        values=kept.values,
        labels=kept.labels,
        split=kept.split,
        class_names=kept.class_names,
        n_classes=kept.n_classes,
        seeds=tuple(range(kept.seeds)),
        epochs=kept.epochs,
        source=path,
    )


def _table(scores: Scores) -> str:
    names = scores.class_names
    columns: dict[str, list[Any]] = {"id": scores.ids.tolist(), "score": [f"{s:.6f}" for s in scores.values]}
    if scores.stderr is not None:
        columns["stderr"] = [f"{error:.6f}" for error in scores.stderr]
    if scores.labels is not None:
        columns["label"] = [names[label] if names else int(label) for label in scores.labels]
    if scores.split is not None:
        columns["split"] = scores.split.tolist()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()
