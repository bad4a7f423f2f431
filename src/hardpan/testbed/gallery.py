"""A sheet of small images, such as those that no model gets right, as one picture."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.errors import InputError

_GAP = 2


def contact_sheet(images: ArrayLike, columns: int = 10, scale: int = 1) -> NDArray[np.uint8]:
    """Lay images of one size out in rows, with white gaps, as one RGB picture.

    Args:
        images: (n, H, W), (n, H, W, 1) or (n, H, W, 3); uint8, or floats in 0..1.
        columns: images a row.
        scale: whole factor by which small images are enlarged.

    Returns:
        (rows, columns, 3) pixels.

    Example:
        >>> contact_sheet(np.zeros((3, 4, 4)), columns=2).shape
        (14, 14, 3)
    """
    pixels: NDArray[Any] = np.asarray(images)
    if pixels.ndim == 3:
        pixels = pixels[:, :, :, None]
    if pixels.ndim != 4 or pixels.shape[3] not in (1, 3) or pixels.size == 0:
        raise InputError(f"images must be (n, H, W), (n, H, W, 1) or (n, H, W, 3); got shape {np.shape(images)}")
    if columns < 1 or scale < 1:
        raise InputError(f"columns and scale must be at least 1; got {columns} and {scale}")
    if pixels.dtype != np.uint8:
        if not np.isfinite(pixels).all() or pixels.min() < 0 or pixels.max() > 1:
            raise InputError("images must be uint8, or floats in 0..1")
        pixels = np.rint(pixels * 255).astype(np.uint8)
    pixels = np.broadcast_to(pixels, (*pixels.shape[:3], 3)).repeat(scale, axis=1).repeat(scale, axis=2)
    count, height, width, _ = pixels.shape
    columns = min(columns, count)
    rows = -(-count // columns)
    sheet = np.full((rows * (height + _GAP) + _GAP, columns * (width + _GAP) + _GAP, 3), 255, dtype=np.uint8)
    for i, image in enumerate(pixels):
        top, left = _GAP + i // columns * (height + _GAP), _GAP + i % columns * (width + _GAP)
        sheet[top : top + height, left : left + width] = image
    return sheet


def png(picture: NDArray[np.uint8]) -> bytes:
    """Write (H, W, 3) pixels as a PNG file; eight bits a channel, no filter.

    Example:
        >>> png(np.zeros((2, 3, 3), np.uint8))[:8]
        b'\\x89PNG\\r\\n\\x1a\\n'
    """
    height, width, _ = picture.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), picture.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
