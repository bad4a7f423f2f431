"""Examples as small pictures: scaled to bytes, laid out in one sheet, shown as a gallery of a page."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.report.sections import Chart

LARGEST_SIDE = 64
COLUMNS = 16
DARKEST_QUARTER = 64
BLOCK = 4096  # examples scaled at a time, so that a large set is never held as floats


def as_bytes(images: NDArray[Any], low: float, high: float) -> NDArray[np.uint8]:
    """Images as levels of grey or colour, 0..255: from ``low``, black, to ``high``, white.

    Bytes stay as they are, unless they never leave the darkest quarter: then they are counts (digits have 0..16),
    not levels.

    Args:
        images: (n, ...) numbers of any type.
        low: the darkest number that such images have.
        high: the lightest.

    Example:
        >>> as_bytes(np.array([[0.0, 1.0, 2.0]]), 0.0, 2.0)
        array([[  0, 128, 255]], dtype=uint8)
    """
    if images.dtype == np.uint8 and high >= DARKEST_QUARTER:
        return np.ascontiguousarray(images)
    result = np.empty(images.shape, dtype=np.uint8)
    span = high - low if high > low else 1.0
    for start in range(0, len(images), BLOCK):
        rows = slice(start, start + BLOCK)
        scaled = (images[rows].astype(np.float32) - low) / span
        result[rows] = np.rint(255 * scaled.clip(0, 1))
    return result


def thumbnails(chosen: NDArray[Any], low: float, high: float) -> NDArray[np.uint8]:
    """Images (n, H, W[, C]) as RGB bytes, no side longer than 64.

    Example:
        >>> thumbnails(np.ones((2, 80, 160)), 0.0, 2.0).shape
        (2, 32, 64, 3)
    """
    pixels = as_bytes(chosen if chosen.ndim == 4 else chosen[..., None], low, high)
    pixels = np.repeat(pixels[..., :1], 3, axis=-1) if pixels.shape[-1] not in (3, 4) else pixels[..., :3]
    side = max(pixels.shape[1:3])
    if side <= LARGEST_SIDE:
        return np.ascontiguousarray(pixels)
    from PIL import Image

    size = tuple(max(1, round(edge * LARGEST_SIDE / side)) for edge in (pixels.shape[2], pixels.shape[1]))
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
