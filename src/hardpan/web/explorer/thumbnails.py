"""Thumbnails of the examples: many in one picture, from an array or from the image files of one folder."""

from __future__ import annotations

import contextlib
import functools
import io
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hardpan import files
from hardpan.data.images import FORMATS, MOST_PIXELS

SPRITE_COLUMNS = 20
FROM_DISK = 64  # pixels: side of a thumbnail that is read from an image file


@dataclass(frozen=True, slots=True)
class Thumbnails:
    """Thumbnails of the rows: from an array that stays on the disk, or from the image files named in a column.

    Attributes:
        array: (N, h, w) or (N, h, w, 3) bytes, or None.
        paths: the image files of the rows, or None.
        root: the only folder whose files are read, as the user named it; None reads none.
    """

    array: NDArray[np.uint8] | None
    paths: Any = None
    root: Path | None = None

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width of a thumbnail; None where there are none."""
        if self.array is not None:
            return int(self.array.shape[1]), int(self.array.shape[2])
        return None if self.paths is None or self.root is None else (FROM_DISK, FROM_DISK)

    def layout(self) -> dict[str, Any]:
        """What the page cuts sheets by: the size of a thumbnail, if there are any, and how many are in a line."""
        size = None if self.size is None else {"height": self.size[0], "width": self.size[1]}
        return {"thumbnails": size, "spriteColumns": SPRITE_COLUMNS}

    def sheet(self, rows: NDArray[np.int64]) -> bytes:
        """One PNG with the pictures of those rows, 20 per line: one request instead of a hundred."""
        assert self.size is not None
        height, width = self.size
        lines = math.ceil(len(rows) / SPRITE_COLUMNS)
        depth = self.array.shape[3:] if self.array is not None else (3,)
        sheet = np.zeros((lines * height, SPRITE_COLUMNS * width, *depth), dtype=np.uint8)
        for position, row in enumerate(rows.tolist()):
            top, left = height * (position // SPRITE_COLUMNS), width * (position % SPRITE_COLUMNS)
            picture = self.array[row] if self.array is not None else _thumbnail(self._image_file(row))
            sheet[top : top + height, left : left + width] = picture
        stream = io.BytesIO()
        Image.fromarray(sheet).save(stream, "PNG", compress_level=1)
        return stream.getvalue()

    def _image_file(self, row: int) -> Path | None:
        """The file of a row; None for what is not a regular file inside the folder, as links to others are not."""
        assert self.root is not None
        named = str(self.paths[row])
        with contextlib.suppress(OSError, ValueError):  # names that no file can have
            for path in (self.root / named, Path(named)):  # relative to the folder, or as the audit was started
                file = Path(os.path.realpath(path))
                if file.is_relative_to(self.root) and file.is_file():
                    return file
        return None


@functools.lru_cache(maxsize=4096)
def _thumbnail(path: Path | None) -> NDArray[np.uint8]:
    """An image file as a square of 64 pixels, centred on grey; a file that cannot be read is grey."""
    square = np.full((FROM_DISK, FROM_DISK, 3), 128, np.uint8)
    if path is None:
        return square
    try:
        with Image.open(path, formats=FORMATS) as image:
            if image.width * image.height > MOST_PIXELS:
                return square
            image.draft("RGB", (FROM_DISK, FROM_DISK))
            image.thumbnail((FROM_DISK, FROM_DISK))
            small = np.asarray(image.convert("RGB"))
    except (Image.DecompressionBombError, *files.DAMAGED):  # Pillow's decoders raise nearly anything
        return square
    top, left = (FROM_DISK - small.shape[0]) // 2, (FROM_DISK - small.shape[1]) // 2
    square[top : top + small.shape[0], left : left + small.shape[1]] = small
    return square
