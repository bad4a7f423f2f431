"""Charts and galleries of results: numbers and pictures in, a :class:`hardpan.pages.sections.Chart` out."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.data.arrays import LARGEST_THUMBNAIL, as_bytes
from hardpan.estimates import Estimate
from hardpan.pages import formatting
from hardpan.pages.sections import Chart, fields_of


def dial(temperatures: Sequence[float], estimates: Sequence[Estimate], title: str, at_one: str = "") -> Chart:
    """A curve of errors over temperatures, logarithmic where they span much; ``at_one`` names the temperature 1.

    Example:
        >>> errors = [Estimate(0.02, 0, 0.02, 0.02), Estimate(0.16, 0, 0.16, 0.16)]
        >>> dial([0.5, 1.0], errors, "Two classes").description
        'The Bayes error goes from 2.00 % at temperature 0.5 to 16.0 % at 1.'
    """
    pairs = sorted(zip(temperatures, estimates, strict=True), key=lambda pair: pair[0])
    rows = tuple({"x": float(t), **fields_of(e, "y")} for t, e in pairs)
    (first, lowest), (last, highest) = pairs[0], pairs[-1]
    return Chart(
        "lines",
        title,
        rows,
        f"The Bayes error goes from {formatting.percent(lowest.value)} at temperature "
        f"{formatting.number(first, 6)} to {formatting.percent(highest.value)} at {formatting.number(last, 6)}.",
        {
            "x_title": "temperature τ",
            "y_title": "Bayes error",
            "log": lowest.value < highest.value / 30,
            "log_x": True,
            "marks": ({"x": 1.0, "label": at_one},) if at_one and first <= 1.0 <= last else (),
        },
    )


def confusion_matrix(counts: ArrayLike, class_names: Sequence[str], title: str, *, most: int = 25) -> Chart:
    """A confusion matrix in percent of each label: rows are labels, columns predictions.

    Of more than ``most`` classes, those with the most errors are drawn.

    Args:
        counts: (K, K) examples by label and prediction.
        class_names: K names.
        title: of the chart.
        most: how many classes are drawn.

    Example:
        >>> chart = confusion_matrix([[3, 1], [0, 4]], ["cat", "dog"], "Confusion matrix")
        >>> chart.rows[1]
        {'row': 'cat', 'column': 'dog', 'value': 0.25, 'count': 1}
    """
    table = np.asarray(counts, dtype=np.int64)
    errors = table.sum(axis=1) - np.diag(table)
    classes = np.sort(np.argsort(-errors, kind="stable")[:most])
    totals = np.maximum(table.sum(axis=1), 1)
    rows = tuple(
        {
            "row": str(class_names[i]),
            "column": str(class_names[j]),
            "value": float(table[i, j] / totals[i]),
            "count": int(table[i, j]),
        }
        for i in classes
        for j in classes
    )
    if len(table) > most:
        title += f" (the {most} of {len(table)} classes with the most errors)"
    off = table - np.diag(np.diag(table))
    i, j = divmod(int(off.argmax()), off.shape[1])
    words = (
        f"Most often {class_names[i]} is confused with {class_names[j]}: {off[i, j]:,} of {totals[i]:,}."
        if off[i, j]
        else "No example is misclassified."
    )
    options = {"x_title": "prediction", "y_title": "label", "diagonal": True, "least_written": 0.005}
    return Chart("matrix", title, rows, words, options)


def reliability_chart(confidence: ArrayLike, correct: ArrayLike, title: str, *, bins: int = 10) -> Chart:
    """Accuracy against stated confidence in bins of equal counts, with Wilson's intervals (95 %).

    Args:
        confidence: (N,) the probability of the predicted class.
        correct: (N,) whether the prediction is right.
        title: of the chart.
        bins: how many, at most.

    Example:
        >>> chart = reliability_chart([0.6, 0.6, 0.9, 0.9], [1, 0, 1, 1], "Reliability", bins=2)
        >>> [(round(row["x"], 2), row["y"], row["count"]) for row in chart.rows]
        [(0.6, 0.5, 2), (0.9, 1.0, 2)]
    """
    stated = np.asarray(confidence, dtype=np.float64)
    right = np.asarray(correct, dtype=np.float64)
    order = np.argsort(stated, kind="stable")
    rows = []
    for block in np.array_split(order, min(bins, len(order))) if len(order) else ():
        n, rate = len(block), float(right[block].mean())
        z2 = 1.959963984540054**2
        middle, half = rate + z2 / (2 * n), np.sqrt(z2 * (rate * (1 - rate) / n + z2 / (4 * n * n)))
        low, high = (middle - half) / (1 + z2 / n), (middle + half) / (1 + z2 / n)
        rows.append(
            {
                "x": float(stated[block].mean()),
                "y": rate,
                "low": max(0.0, float(low)),
                "high": min(1.0, float(high)),
                "count": n,
            }
        )
    gap = sum(row["count"] * abs(row["x"] - row["y"]) for row in rows) / max(1, len(order))
    distance = formatting.fixed(100 * gap, 1)
    words = f"Mean distance between confidence and accuracy over {len(rows)} bins: {distance} points."
    return Chart("reliability", title, tuple(rows), words, {"height": 170})


def raster_chart(values: ArrayLike, title: str, description: str, *, left: str = "", right: str = "") -> Chart:
    """A matrix of numbers in 0..1 (models by items) as an image; cells that are not known are grey.

    Args:
        values: (rows, columns) numbers in 0..1, NaN where missing.
        title: of the chart.
        description: the text alternative.
        left: words under the left end.
        right: words under the right end.
    """
    from PIL import Image

    table = np.asarray(values, dtype=np.float64)
    high, low, missing = (np.array(colour) for colour in ((0, 114, 178), (238, 243, 248), (190, 195, 201)))
    known = np.nan_to_num(table)[..., None]
    pixels = np.where(np.isnan(table)[..., None], missing, low + (high - low) * known)
    image = Image.fromarray(np.rint(pixels).astype(np.uint8)).quantize(64)
    stretch = max(1, round(len(table[0]) / (4 * len(table)))) if table.size else 1
    image = image.resize((image.width, image.height * stretch), Image.Resampling.NEAREST)
    stream = io.BytesIO()
    image.save(stream, "PNG", optimize=True)
    png = "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()
    return Chart("raster", title, (), description, {"png": png, "left": left, "right": right})


COLUMNS = 16


def thumbnails(chosen: NDArray[Any], low: float, high: float) -> NDArray[np.uint8]:
    """Images (n, H, W[, C]) as RGB bytes, no side longer than 64.

    Example:
        >>> thumbnails(np.ones((2, 80, 160)), 0.0, 2.0).shape
        (2, 32, 64, 3)
    """
    pixels = as_bytes(chosen if chosen.ndim == 4 else chosen[..., None], low, high)
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
        pictures: (n, h, w, 3) bytes, as :func:`thumbnails` gives them.
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
    sheet = {"sprite": sprite(pictures), "columns": COLUMNS, "count": len(rows), "aspect": height / width}
    return Chart("gallery", title, rows, description, sheet | options)


def sprite(pictures: NDArray[np.uint8]) -> str:
    """All pictures in one, row by row without gaps, as the address of a PNG that needs no file."""
    from PIL import Image

    count, height, width, _ = pictures.shape
    lines = math.ceil(count / COLUMNS)
    whole = np.zeros((lines * height, COLUMNS * width, 3), dtype=np.uint8)
    for position, picture in enumerate(pictures):
        top, left = position // COLUMNS * height, position % COLUMNS * width
        whole[top : top + height, left : left + width] = picture
    stream = io.BytesIO()
    Image.fromarray(whole).save(stream, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()


GALLERY = "gallery"


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
            "where": _where_example_is(row),
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


def _where_example_is(row: Mapping[str, Any]) -> str:
    """How a person finds an example again: its file, or its row with the split."""
    if row.get("path"):
        return PurePath(str(row["path"])).name  # all of the path is one click away
    if row.get("row") in (None, ""):
        return ""
    split = {"validation": "val."}.get(str(row.get("split")), row.get("split"))
    return f"{split} {row['row']}" if split else f"row {row['row']}"
