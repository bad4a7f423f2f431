"""Galleries: small pictures of chosen examples, all in one sheet, each with its story."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.confusion.scoring import Scores
from hardpan.errors import InputError
from hardpan.records import Chart, Dataset

LARGEST_SIDE = 64
COLUMNS = 16
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
    pictures = thumbnails(dataset.x[dataset_rows(scores.ids[numbers], dataset)], dataset.x)
    tiles = []
    for place, (group, row) in enumerate(rows):
        story = {"id": str(scores.ids[row]), "score": f"{scores.values[row]:.3f} bits"}
        if scores.stderr is not None:
            story["score"] = f"{scores.values[row]:.3f} ± {scores.stderr[row]:.3f} bits"
        if scores.labels is not None:
            story["label"] = class_name(scores, int(scores.labels[row]))
        if predicted is not None:
            story["ensemble says"] = class_name(scores, int(predicted[row]))
        if scores.split is not None:
            story["part"] = str(scores.split[row])
        story |= {name: str(column[row]) for name, column in (more or {}).items()}
        tiles.append({"group": group, "place": place, "score": round(float(scores.values[row]), 4), **story})
        # The number is what the slider compares; the text, with its error, is what a person reads.
        tiles[-1] |= {"shown": story["score"], "score": round(float(scores.values[row]), 4)}
    height, width = pictures.shape[1:3]
    options = {"sprite": sheet(pictures), "columns": COLUMNS, "count": len(tiles), "aspect": height / width}
    words = "Under each picture: its score in bits, and what the ensemble says where that is not the label."
    return Chart("gallery", title, tuple(tiles), words, options)


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


def thumbnails(chosen: NDArray[Any], every: NDArray[Any]) -> NDArray[np.uint8]:
    """Images (n, H, W[, C]) as RGB bytes, no side longer than 64; what is not bytes is scaled by all images.

    Example:
        >>> import numpy as np
        >>> thumbnails(np.ones((2, 4, 4)), np.linspace(0, 2, 48).reshape(3, 4, 4)).max()
        np.uint8(128)
    """
    pixels = chosen if chosen.ndim == 4 else chosen[..., None]
    low, high = float(every.min()), float(every.max())
    # Bytes that never leave the darkest quarter are counts (digits have 0..16), not levels of grey.
    if pixels.dtype != np.uint8 or high < 64:
        scaled = (pixels.astype(np.float64) - low) / (high - low if high > low else 1.0)
        pixels = np.rint(255 * scaled.clip(0, 1)).astype(np.uint8)
    pixels = np.repeat(pixels[..., :1], 3, axis=-1) if pixels.shape[-1] not in (3, 4) else pixels[..., :3]
    side = max(pixels.shape[1:3])
    if side <= LARGEST_SIDE:
        return np.ascontiguousarray(pixels)
    from PIL import Image

    size = tuple(max(1, round(edge * LARGEST_SIDE / side)) for edge in (pixels.shape[2], pixels.shape[1]))
    small = [np.asarray(Image.fromarray(picture).resize((size[0], size[1]))) for picture in pixels]
    return np.stack(small).astype(np.uint8)


def sheet(pictures: NDArray[np.uint8], columns: int = COLUMNS) -> str:
    """All pictures in one, row by row without gaps, as the address of a PNG that needs no file."""
    from PIL import Image

    count, height, width, _ = pictures.shape
    lines = math.ceil(count / columns)
    whole = np.zeros((lines * height, columns * width, 3), dtype=np.uint8)
    for place, picture in enumerate(pictures):
        top, left = place // columns * height, place % columns * width
        whole[top : top + height, left : left + width] = picture
    stream = io.BytesIO()
    Image.fromarray(whole).save(stream, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()
