"""Descriptors of images that change little under zoom, colour scale, stretch and small shifts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_GRID = 6
_CELLS = 4
_DIRECTIONS = 8
_ROWS_AT_ONCE = 2048


def describe(images: NDArray[Any]) -> NDArray[np.float32]:
    """One vector per image: coarse colours and directions of edges, each without mean and with length 1.

    The coarse part is the mean of each cell of a 6×6 grid, its own mean taken off; the edges are gradients of the
    grey image, summed by direction (8) in each cell of a 4×4 grid.

    Args:
        images: (N, H, W) or (N, H, W, C), at least 6×6.

    Returns:
        (N, 36 C + 128) in float32.

    Example:
        >>> images = np.random.default_rng(0).integers(0, 200, (2, 12, 12, 3), dtype=np.uint8)
        >>> brighter = describe((images * 1.2).astype(np.uint8))
        >>> bool(np.linalg.norm(describe(images)[0] - brighter[0]) < 0.05)
        True
    """
    x = images if images.ndim == 4 else images[..., None]
    parts = [
        _part(x[start : start + _ROWS_AT_ONCE].astype(np.float32)) for start in range(0, len(x), _ROWS_AT_ONCE)
    ]
    return np.concatenate(parts)


def _part(x: NDArray[np.float32]) -> NDArray[np.float32]:
    coarse = _cells(x, _GRID).reshape(len(x), -1)
    grey = x.mean(axis=3)
    down, along = np.gradient(grey, axis=(1, 2))
    strength = np.hypot(down, along)
    direction = np.floor((np.arctan2(down, along) / np.pi + 1.0) * (_DIRECTIONS / 2)).astype(np.int64) % _DIRECTIONS
    layers = np.where(direction[..., None] == np.arange(_DIRECTIONS), strength[..., None], 0.0).astype(np.float32)
    edges = _cells(layers, _CELLS).reshape(len(x), -1)
    return np.concatenate([_unit(coarse - coarse.mean(axis=1, keepdims=True)), _unit(edges)], axis=1)


def _cells(x: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Means over a grid of ``count`` × ``count`` nearly equal cells: (N, count, count, C)."""
    for axis in (1, 2):
        edges = np.linspace(0, x.shape[axis], count + 1).astype(np.int64)
        sums = np.add.reduceat(x, edges[:-1], axis=axis)
        shape = [1] * x.ndim
        shape[axis] = count
        x = np.asarray(sums / np.diff(edges).reshape(shape), dtype=np.float32)
    return x


def _unit(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-6), dtype=np.float32)
