"""SSIM on a few windows that lie apart, for all pairs of images at once: a filter before SSIM on every window.

A window's SSIM needs of a pair only the products of its pixels, means taken off; all else belongs to one image.
With about four windows an axis, the products of all pairs are matrix products that cost little more than l2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.execution.compiling import compiled
from hardpan.neighbors.threads import in_threads

Floats = NDArray[np.float32]
_WINDOW = 7
_FEWEST, _MOST = 3, 6
_QUERIES_AT_ONCE = 64
_REFERENCES_AT_ONCE = 4096
_HELD = 65536  # references whose windows are in memory: 616 MB for 32×32 in colour


@dataclass(frozen=True, slots=True)
class _Windows:
    """Of every image and window (T of them): pixels less their mean, scaled so that products give covariances."""

    pixels: Floats  # (T, N, 49)
    means: Floats  # (T, N)
    variances: Floats  # (T, N)


def most_similar(
    queries: NDArray[Any], references: NDArray[Any], k: int, *, span: float = 255.0, same: bool = False
) -> NDArray[np.int64]:
    """The k references of every query with the largest mean SSIM over a few windows, in no order.

    Windows are 7×7, three to six an axis, spread evenly; channels count apart. Images under 10×10 have all windows.

    Args:
        queries: (Q, H, W) or (Q, H, W, C).
        references: (N, H, W) or (N, H, W, C).
        k: how many, at most N (N − 1 where ``same``).
        span: the range of values.
        same: whether both are one array; a row is then not its own neighbour.

    Returns:
        (Q, k) numbers of references.

    Example:
        >>> images = np.random.default_rng(0).integers(0, 256, (9, 16, 16), dtype=np.uint8)
        >>> most_similar(images[3:5], images, 1).ravel().tolist()
        [3, 4]
    """
    constants = np.float32((0.01 * span) ** 2), np.float32((0.03 * span) ** 2)
    found = np.zeros((len(queries), k), dtype=np.int64)
    best = np.full((len(queries), k), -np.inf, dtype=np.float32)
    for first in range(0, len(references), _HELD):
        _compare(queries, references[first : first + _HELD], first, constants, same, best, found)
    return found


def _compare(
    queries: NDArray[Any],
    references: NDArray[Any],
    first: int,
    constants: tuple[np.float32, np.float32],
    same: bool,
    best: Floats,
    found: NDArray[np.int64],
) -> None:
    """Put those of these references (numbered from ``first``) that belong to the k best so far among them."""
    y, k = _windows(references), best.shape[1]
    numbers = np.arange(first, first + len(references))

    def part(rows: slice) -> None:
        for start in range(rows.start, rows.stop, _QUERIES_AT_ONCE):
            some = slice(start, min(start + _QUERIES_AT_ONCE, rows.stop))
            alike = _sums(_windows(queries[some]), y, *constants)
            if same:
                alike[numbers[None, :] == np.arange(some.start, some.stop)[:, None]] = -np.inf
            both = np.concatenate([best[some], alike], axis=1)
            kept = np.argpartition(-both, k - 1, axis=1)[:, :k]
            known = np.take_along_axis(found[some], np.minimum(kept, k - 1), axis=1)
            found[some] = np.where(kept < k, known, first + kept - k)
            best[some] = np.take_along_axis(both, kept, axis=1)

    in_threads(part, len(queries))


def _windows(images: NDArray[Any]) -> _Windows:
    x = images if images.ndim == 4 else images[..., None]
    height, width, channels = x.shape[1:]
    corners = [(i, j) for i in _starts(height) for j in _starts(width)]
    size = len(corners) * channels
    pixels = np.empty((size, len(x), _WINDOW * _WINDOW), dtype=np.float32)
    means = np.empty((size, len(x)), dtype=np.float32)
    for number, (i, j) in enumerate(corners):
        patch = x[:, i : i + _WINDOW, j : j + _WINDOW].reshape(len(x), -1, channels)
        for c in range(channels):
            values = patch[:, :, c].astype(np.float32)
            mean = values.mean(axis=1)
            values -= mean[:, None]
            values *= np.float32(1.0 / np.sqrt(_WINDOW * _WINDOW - 1.0))
            pixels[number * channels + c] = values
            means[number * channels + c] = mean
    return _Windows(pixels, means, np.einsum("tni,tni->tn", pixels, pixels))


def _starts(size: int) -> list[int]:
    last = size - _WINDOW
    count = min(last + 1, max(_FEWEST, min(_MOST, size // _WINDOW)))
    return sorted({int(place) for place in np.rint(np.linspace(0, last, count))})


def _sums(x: _Windows, y: _Windows, c1: np.float32, c2: np.float32) -> Floats:
    """(Q, N) sums of the windows' SSIM."""
    total = np.zeros((x.means.shape[1], y.means.shape[1]), dtype=np.float32)
    for start in range(0, total.shape[1], _REFERENCES_AT_ONCE):
        part = slice(start, min(start + _REFERENCES_AT_ONCE, total.shape[1]))
        for t in range(len(x.means)):
            shared = x.pixels[t] @ y.pixels[t, part].T
            _add(
                shared,
                x.means[t],
                x.variances[t],
                y.means[t, part],
                y.variances[t, part],
                c1,
                c2,
                total[:, part],
            )
    return total


@compiled(nogil=True, fastmath=True)
def _add(
    shared: Any, mean_x: Any, variance_x: Any, mean_y: Any, variance_y: Any, c1: Any, c2: Any, total: Any
) -> None:
    two = np.float32(2.0)
    for q in range(shared.shape[0]):
        m, v = mean_x[q], variance_x[q]
        a, b = m * m + c1, v + c2
        row, out = shared[q], total[q]
        for n in range(shared.shape[1]):
            top = (two * m * mean_y[n] + c1) * (two * row[n] + c2)
            out[n] += top / ((a + mean_y[n] * mean_y[n]) * (b + variance_y[n]))
