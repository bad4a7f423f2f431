"""Galleries of examples: images in, a :class:`hardpan.pages.sections.Chart` that the page shows itself out."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardpan.data.dataset import Dataset
from hardpan.data.images import LARGEST_THUMBNAIL, images_as_bytes
from hardpan.pages import formatting
from hardpan.pages.sections import Chart

if TYPE_CHECKING:
    from PIL.Image import Image

GALLERY = "gallery"
COLUMNS = 16


def gallery_thumbnails(images: NDArray[Any], low: float, high: float) -> NDArray[np.uint8]:
    """Images (n, H, W[, C]) as RGB bytes, no side longer than 64.

    Example:
        >>> gallery_thumbnails(np.ones((2, 80, 160)), 0.0, 2.0).shape
        (2, 32, 64, 3)
    """
    pixels = images_as_bytes(images if images.ndim == 4 else images[..., None], low, high)
    pixels = np.repeat(pixels[..., :1], 3, axis=-1) if pixels.shape[-1] not in (3, 4) else pixels[..., :3]
    side = max(pixels.shape[1:3])
    if side <= LARGEST_THUMBNAIL:
        return np.ascontiguousarray(pixels)
    from PIL import Image

    size = tuple(max(1, round(edge * LARGEST_THUMBNAIL / side)) for edge in (pixels.shape[2], pixels.shape[1]))
    small = [np.asarray(Image.fromarray(picture).resize((size[0], size[1]))) for picture in pixels]
    return np.stack(small).astype(np.uint8)


def gallery_chart(
    title: str,
    pictures: NDArray[np.uint8],
    tiles: Sequence[Mapping[str, Any]],
    description: str,
    **options: Any,
) -> Chart:
    """A gallery as a chart of a page: all pictures in one sheet, each under its heading and with its story.

    Args:
        title: of the gallery.
        pictures: (n, h, w, 3) bytes, as :func:`gallery_thumbnails` gives them.
        tiles: for each picture ``group``, the heading; ``shown``, what stands under it; ``score``, the number that
            a slider compares; and its story by name.
        description: the gallery in words.
        options: ``pick`` names a slider that shows one group at a time, ``start`` the group shown first.

    Example:
        >>> dark = np.zeros((2, 8, 4, 3), np.uint8)
        >>> chart = gallery_chart("Two", dark, [{"group": "a", "label": "cat"}] * 2, "Two dark pictures.")
        >>> chart.rows[1]
        {'group': 'a', 'place': 1, 'score': None, 'shown': '', 'label': 'cat'}
        >>> chart.options["count"], chart.options["aspect"]
        (2, 2.0)
    """
    height, width = pictures.shape[1:3]
    rows = tuple(
        {"group": tile["group"], "place": position, "score": None, "shown": "", **tile}
        for position, tile in enumerate(tiles)
    )
    sheet = {"sprite": _gallery_sprite(pictures), "columns": COLUMNS, "count": len(rows), "aspect": height / width}
    return Chart(GALLERY, title, rows, description, sheet | options)


def dataset_gallery(
    title: str,
    dataset: Dataset,
    rows: NDArray[np.int64],
    tiles: Sequence[Mapping[str, Any]],
    words: str,
    **options: Any,
) -> Chart:
    """A gallery of rows of a dataset; every tile also has the id, the row or the file of its example."""
    positions = dataset.metadata.get("row", np.arange(len(dataset.ids)))
    paths = dataset.metadata.get("path")
    complete = [
        {
            "id": str(dataset.ids[row]),
            "row": int(positions[row]),
            **({} if paths is None else {"path": str(paths[row])}),
            **tile,
        }
        for row, tile in zip(rows.tolist(), tiles, strict=True)
    ]
    pictures = gallery_thumbnails(dataset.x[rows], float(dataset.x.min()), float(dataset.x.max()))
    return gallery_chart(title, pictures, complete, words, **options)


def captioned_gallery(
    title: str,
    dataset: Dataset,
    rows: NDArray[np.int64],
    labels: Sequence[str],
    captions: Sequence[str],
    suggested: Sequence[str] = (),
    **options: Any,
) -> Chart:
    """A gallery of images with their labels, captions, suggested classes and row numbers or files.

    Args:
        title: of the gallery.
        dataset: the images.
        rows: (n,) row numbers in the dataset.
        labels: (n,) names of their classes.
        captions: (n,) what is written under them.
        suggested: (n,) names of the predicted classes, for labels that differ from them.
        **options: of the gallery.
    """
    tiles = [
        {"group": "", "shown": caption, "label": label} | ({"suggested": suggested[i]} if suggested else {})
        for i, (caption, label) in enumerate(zip(captions, labels, strict=True))
    ]
    words = "Under each picture: its label"
    words += ", in orange the predicted class, the probability of the label" if suggested else ""
    where = "file" if "path" in dataset.metadata else "row"
    return dataset_gallery(title, dataset, rows, tiles, f"{words}, and its {where}.", **options)


def _gallery_sprite(pictures: NDArray[np.uint8]) -> str:
    """All pictures in one, row by row without gaps."""
    from PIL import Image

    count, height, width, _ = pictures.shape
    lines = math.ceil(count / COLUMNS)
    sheet = np.zeros((lines * COLUMNS, height, width, 3), dtype=np.uint8)
    sheet[:count] = pictures
    rows = sheet.reshape(lines, COLUMNS, height, width, 3).swapaxes(1, 2)
    return png_address(Image.fromarray(rows.reshape(lines * height, COLUMNS * width, 3)))


def png_address(image: Image) -> str:
    """An image as the address of a PNG that needs no file."""
    stream = io.BytesIO()
    image.save(stream, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()


def gallery_tiles(chart: Chart) -> dict[str, Any]:
    """A gallery as the page's template reads it: groups of pictures, each with its position in the sheet.

    Under a picture: its label, the other answer ("predicted" or "suggested") where that differs, and its row
    ("row"); without a label what the row has as "shown". A click on it opens the other columns.
    """
    columns, count = int(chart.options["columns"]), int(chart.options["count"])
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in chart.rows:
        position, score = int(row["place"]), row.get("score")
        story = {name: value for name, value in row.items() if name not in ("group", "place", "score", "shown")}
        if score is not None:
            story = {"score": row["shown"], **story}
        label, other = row.get("label"), row.get("suggested", row.get("predicted"))
        tile = {
            "left": position % columns,
            "top": position // columns,
            "score": score,
            "id": str(row.get("id", "")),
            "story": story,
            "words": ", ".join(f"{name} {value}" for name, value in story.items() if name != "id"),
            "label": "" if label in (None, row["group"]) else str(label),
            "other": "" if other in (None, label) else str(other),
            "where": _gallery_place(row),
            "note": row["shown"] if score is None else formatting.fixed(float(score), 2),
        }
        groups.setdefault(str(row["group"]), []).append(tile)
    return {
        "title": chart.title,
        "description": chart.description,
        "sprite": chart.options["sprite"],
        "columns": columns,
        "lines": -(-count // columns),
        "aspect": f"{float(chart.options['aspect']):.4f}",
        "groups": groups,
        "pick": str(chart.options.get("pick", "")),
        "start": int(chart.options.get("start", 0)),
    }


def _gallery_place(row: Mapping[str, Any]) -> str:
    """How a person finds an example again: its file, or its row with the split."""
    if row.get("path"):
        return PurePath(str(row["path"])).name  # all of the path is one click away
    if row.get("row") in (None, ""):
        return ""
    split = {"validation": "val."}.get(str(row.get("split")), row.get("split"))
    return f"{split} {row['row']}" if split else f"row {row['row']}"
