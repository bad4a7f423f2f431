"""Galleries: small pictures of chosen examples, all in one sheet, each with its story."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.confusion.scoring import Scores
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.report.galleries import gallery_chart, thumbnails
from hardpan.report.sections import Chart

MOST_CLASSES = 12


def groups_by_class(
    scores: Scores, *, each: int = 8, easiest: bool = False, most_classes: int = MOST_CLASSES
) -> dict[str, NDArray[np.int64]]:
    """Row numbers of the most (or least) confusing examples of each class; of all, where labels are not known.

    Where there are many classes, those with the highest mean score are shown.

    Example:
        >>> import numpy as np
        >>> from hardpan import confusion
        >>> s = confusion.scores(np.array([[0.5, 0.5], [0.9, 0.1], [0.6, 0.4]]), labels=[0, 0, 1])
        >>> {name: rows.tolist() for name, rows in groups_by_class(s, each=1).items()}
        {'0': [0], '1': [2]}
    """
    order = np.argsort(scores.values if easiest else -scores.values, kind="stable")
    if scores.labels is None:
        return {"all classes": order[: each * 4]}
    present = np.unique(scores.labels)
    if len(present) > most_classes:
        totals = np.bincount(scores.labels, weights=scores.values)
        means = totals[present] / np.bincount(scores.labels)[present]
        present = np.sort(present[np.argsort(-means, kind="stable")[:most_classes]])
    labels = scores.labels[order]
    return {class_name(scores, int(label)): order[labels == label][:each] for label in present}


def gallery(
    title: str,
    groups: Mapping[str, ArrayLike],
    scores: Scores,
    dataset: Dataset,
    *,
    predicted: NDArray[np.int64] | None = None,
    more: Mapping[str, Sequence[Any]] | None = None,
) -> Chart | None:
    """A gallery of examples as a chart of a page; None where the dataset has no images.

    Args:
        title: of the gallery.
        groups: row numbers of the scores, by the heading that they stand under.
        scores: their scores; labels and class names come from them.
        dataset: the images, joined by id.
        predicted: (N,) the ensemble's answers.
        more: further columns (N,) for the story of an example.
    """
    if dataset.x.ndim not in (3, 4):
        return None
    rows = [(name, int(row)) for name, chosen in groups.items() for row in np.asarray(chosen, dtype=np.int64)]
    if not rows:
        return None
    numbers = np.array([row for _, row in rows])
    images = dataset.x[dataset_rows(scores.ids[numbers], dataset)]
    pictures = thumbnails(images, float(dataset.x.min()), float(dataset.x.max()))
    tiles = []
    for group, row in rows:
        story = {"id": str(scores.ids[row])}
        error = "" if scores.stderr is None else f" ± {scores.stderr[row]:.3f}"
        shown = f"{scores.values[row]:.3f}{error} bits"
        if scores.labels is not None:
            story["label"] = class_name(scores, int(scores.labels[row]))
        if predicted is not None:
            story["ensemble says"] = class_name(scores, int(predicted[row]))
        if scores.split is not None:
            story["part"] = str(scores.split[row])
        story |= {name: str(column[row]) for name, column in (more or {}).items()}
        # The number is what the slider compares; the text, with its error, is what a person reads.
        tiles.append({"group": group, **story, "shown": shown, "score": round(float(scores.values[row]), 4)})
    words = "Under each picture: its score in bits, and what the ensemble says where that is not the label."
    return gallery_chart(title, pictures, tiles, words)


def class_name(scores: Scores, label: int) -> str:
    """The name of a class, or its number."""
    return scores.class_names[label] if label < len(scores.class_names) else str(label)


def dataset_rows(ids: NDArray[np.str_], dataset: Dataset) -> NDArray[np.int64]:
    """Row numbers of examples in a dataset, by id."""
    order = np.argsort(dataset.ids, kind="stable")
    place = np.clip(np.searchsorted(dataset.ids[order], ids), 0, len(order) - 1)
    rows = order[place]
    missing = ids[dataset.ids[rows] != ids]
    if len(missing):
        raise InputError(
            f"{dataset.name}: does not hold example {missing[0]} ({len(missing):,} of {len(ids):,} are missing); "
            "give the dataset that the predictions are of"
        )
    return rows.astype(np.int64)
