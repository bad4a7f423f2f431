"""Descriptors of images that need no training: oriented gradients and colours of blocks.

Source: Dalal and Triggs, "Histograms of oriented gradients for human detection" (2005); cells of 8 × 8 pixels of an
image of 64 × 64, blocks of 2 × 2 cells, here with the mean and deviation of each colour in each cell beside them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.encoders.pretrained import colour_images

SIDE, CELLS, ANGLES = 64, 8, 9
LARGEST, FLAT = 0.25, 0.05  # of a normalised block: values are cut; blocks that are shorter stay near 0


def describe_images(images: NDArray[Any]) -> NDArray[np.float32]:
    """Descriptors (n, 2148) of images (n, H, W) or (n, H, W, C).

    Example:
        >>> bars = np.zeros((2, 80, 80), np.uint8)
        >>> bars[0, :, 40:], bars[1, 40:] = 255, 255
        >>> described = describe_images(bars)
        >>> described.shape, bool(np.abs(described[0] - described[1]).max() > 0.2)
        ((2, 2148), True)
    """
    from PIL import Image

    resized = [
        np.asarray(Image.fromarray(image).resize((SIDE, SIDE), Image.Resampling.BOX))
        for image in colour_images(images)
    ]
    pixels = np.stack(resized).astype(np.float32) / 255
    down, along = np.gradient(pixels.mean(axis=3), axis=(1, 2))
    strength, angle = np.hypot(down, along), np.arctan2(down, along) % np.pi / np.pi * ANGLES
    each = SIDE // CELLS

    def by_cell(values: NDArray[Any]) -> NDArray[Any]:
        return values.reshape(len(values), CELLS, each, CELLS, each, *values.shape[3:])

    # Each pixel counts for the two angles beside its own, in proportion to how near they are.
    away = np.abs(angle[..., None] - np.arange(ANGLES, dtype=np.float32))
    near = np.maximum(0, 1 - np.minimum(away, ANGLES - away))
    cells = by_cell(strength[..., None] * near).sum(axis=(2, 4))
    blocks = np.concatenate([cells[:, a : a + 7, b : b + 7] for a in (0, 1) for b in (0, 1)], axis=3)
    blocks = np.minimum(blocks / (np.linalg.norm(blocks, axis=3, keepdims=True) + FLAT), LARGEST)
    colours = by_cell(pixels)
    parts = (blocks, colours.mean(axis=(2, 4)), colours.std(axis=(2, 4)))
    return np.concatenate([part.reshape(len(images), -1) for part in parts], axis=1).astype(np.float32)
