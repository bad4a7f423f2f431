"""Structural similarity (SSIM) of pairs of images, and a filter that finds similar pairs without looking at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.arguments import real_number
from hardpan.errors import InputError
from hardpan.execution.compiling import compiled
from hardpan.execution.mapping import map_row_slices

_WINDOW = 7  # pixels a side, all of one weight


def ssim_pairs(
    queries: NDArray[Any],
    references: NDArray[Any],
    rows: NDArray[np.int64],
    others: NDArray[np.int64],
    *,
    data_range: float | None = None,
) -> NDArray[np.float64]:
    """SSIM of the pairs (queries[rows[i]], references[others[i]]) in even 7×7 windows, without copying an image.

    Args:
        queries: (Q, H, W) or (Q, H, W, C).
        references: (N, H, W) or (N, H, W, C).
        rows: (P,) numbers of queries.
        others: (P,) numbers of references.
        data_range: L; 255 for bytes, and to be given for other types.

    Returns:
        (P,) values of at most 1.

    Example:
        >>> images = np.random.default_rng(0).integers(0, 256, (2, 16, 16, 3), dtype=np.uint8)
        >>> ssim_pairs(images, images, np.array([0, 1]), np.array([0, 1])).tolist()
        [1.0, 1.0]
    """
    x, y = _images_for_ssim("queries", queries), _images_for_ssim("references", references)
    if x.shape[1:] != y.shape[1:]:
        raise InputError(
            f"must be of one size; got {x.shape[1:]} and {y.shape[1:]}", argument=("queries", "references")
        )
    span = _ssim_data_range(x, y, data_range)
    constants = (0.01 * span) ** 2, (0.03 * span) ** 2
    out = np.empty(len(rows))
    bytes_only = x.dtype == np.uint8 and y.dtype == np.uint8
    weights = np.full(_WINDOW, 1.0 / _WINDOW)
    map_row_slices(
        lambda part: _ssim_of_image_pairs(
            x, y, rows[part], others[part], weights, bytes_only, *constants, out[part]
        ),
        len(rows),
    )
    return out


def image_value_range(x: NDArray[Any], y: NDArray[Any]) -> float:
    """The range of values of two arrays of images: 255 for bytes, else that of the data."""
    return 255.0 if x.dtype == np.uint8 else float(max(x.max(), y.max()) - min(x.min(), y.min())) or 1.0


def _images_for_ssim(name: str, images: NDArray[Any]) -> NDArray[Any]:
    x = np.asarray(images)
    if x.ndim == 3:
        x = x[..., None]
    if x.ndim != 4 or min(x.shape[1:3]) < _WINDOW:
        raise InputError(
            f"must be images (N, H, W) or (N, H, W, C) of at least 7×7; got {images.shape}",
            argument=name,
        )
    if x.dtype.kind not in "uif":
        raise InputError(f"must hold numbers; got {x.dtype}", argument=name)
    return np.ascontiguousarray(x, dtype=np.uint8 if x.dtype == np.uint8 else np.float64)


def _ssim_data_range(x: NDArray[Any], y: NDArray[Any], data_range: float | None) -> float:
    if data_range is not None:
        return real_number("data_range", data_range, "(0, inf)")
    if x.dtype == np.uint8 and y.dtype == np.uint8:
        return 255.0
    raise InputError(
        f"must be given for images of {x.dtype}, such as 1.0 for values from 0 to 1", argument="data_range"
    )


@compiled(nogil=True)
def _ssim_of_image_pairs(
    x: Any, y: Any, rows: Any, others: Any, weights: Any, bytes_only: bool, c1: float, c2: float, out: Any
) -> None:
    for pair in range(len(rows)):
        if bytes_only:
            out[pair] = _ssim_of_byte_images(x[rows[pair]], y[others[pair]], c1, c2)
        else:
            out[pair] = _ssim_of_float_images(x[rows[pair]], y[others[pair]], weights, c1, c2)


@compiled(fastmath=True)
def _ssim_of_byte_images(a: Any, b: Any, c1: float, c2: float) -> float:
    """Even 7×7 windows of bytes: sums over rows run down the image; every sum and variance is an exact int32.

    With n = 49, sums s over a window and everything multiplied by n²: n² μ_x μ_y = s_x s_y and
    n² σ_xy = n/(n−1) (n s_xy − s_x s_y), at most 3.2·10⁸. Loops over one flat row each become vector instructions.
    """
    height, width, channels = a.shape
    entries, windows = width * channels, (width - 6) * channels
    flat_a, flat_b = a.reshape(height, entries), b.reshape(height, entries)
    rows, sums = np.zeros((4, entries), np.int32), np.zeros((4, windows), np.int32)
    one, two, both, product = rows[0], rows[1], rows[2], rows[3]
    sum_one, sum_two, sum_both, sum_product = sums[0], sums[1], sums[2], sums[3]
    empty_a, empty_b = np.zeros_like(flat_a[0]), np.zeros_like(flat_b[0])
    k1, k2, ratio = np.float32(2401.0 * c1), np.float32(2401.0 * c2), np.float32(49.0 / 48.0)
    twice = np.float32(2.0)
    total = 0.0
    for i in range(height):
        left_a, left_b = (flat_a[i - 7], flat_b[i - 7]) if i >= 7 else (empty_a, empty_b)
        _slide_pixel_row(flat_a[i], flat_b[i], left_a, left_b, one, two, both, product)
        if i < 6:
            continue
        for k in range(4):
            _window_sums(rows[k], sums[k], channels)
        subtotal = np.float32(0.0)
        for j in range(windows):
            s, t = sum_one[j], sum_two[j]
            cross, squares = np.int32(s * t), np.int32(s * s + t * t)  # numba would go on in 64 bits
            spread, shared = np.int32(49 * sum_both[j] - squares), np.int32(49 * sum_product[j] - cross)
            top = (twice * np.float32(cross) + k1) * (twice * ratio * np.float32(shared) + k2)
            subtotal += top / ((np.float32(squares) + k1) * (ratio * np.float32(spread) + k2))
        total += float(subtotal)
    return total / float((height - 6) * windows)


# One array written in each loop: with more, the compiler cannot rule out that they overlap and makes no vectors.
@compiled()
def _slide_pixel_row(a: Any, b: Any, c: Any, d: Any, one: Any, two: Any, both: Any, product: Any) -> None:
    """Add the row that enters the window (a, b), subtract the one that leaves it (c, d)."""
    for j in range(len(a)):
        one[j] += np.int32(a[j]) - np.int32(c[j])
    for j in range(len(a)):
        two[j] += np.int32(b[j]) - np.int32(d[j])
    for j in range(len(a)):
        entering = np.int32(a[j]) * np.int32(a[j]) + np.int32(b[j]) * np.int32(b[j])
        both[j] += entering - (np.int32(c[j]) * np.int32(c[j]) + np.int32(d[j]) * np.int32(d[j]))
    for j in range(len(a)):
        product[j] += np.int32(a[j]) * np.int32(b[j]) - np.int32(c[j]) * np.int32(d[j])


@compiled()
def _window_sums(column: Any, window: Any, step: int) -> None:
    """Sums of 7 entries, ``step`` apart."""
    n = len(window)
    c0, c1, c2, c3 = (
        column[:n],
        column[step : step + n],
        column[2 * step : 2 * step + n],
        column[3 * step : 3 * step + n],
    )
    c4, c5, c6 = column[4 * step : 4 * step + n], column[5 * step : 5 * step + n], column[6 * step : 6 * step + n]
    for j in range(n):
        window[j] = c0[j] + c1[j] + c2[j] + c3[j] + c4[j] + c5[j] + c6[j]


@compiled(fastmath=True)
def _ssim_of_float_images(a: Any, b: Any, weights: Any, c1: float, c2: float) -> float:
    """Any separable window and any type, in float64."""
    size = len(weights)
    height, width, channels = a.shape
    n = np.float64(size * size)
    ratio = n / (n - 1.0)
    entries, windows = width * channels, (width - size + 1) * channels
    flat_a, flat_b = a.reshape(height, entries), b.reshape(height, entries)
    rows, means = np.empty((4, entries)), np.empty((4, windows))
    one, two, both, product = rows[0], rows[1], rows[2], rows[3]
    mean_one, mean_two, mean_both, mean_product = means[0], means[1], means[2], means[3]
    total = 0.0
    for i in range(height - size + 1):
        rows[:] = 0.0
        for k in range(size):
            _add_weighted_pixel_row(flat_a[i + k], flat_b[i + k], weights[k], one, two, both, product)
        for k in range(4):
            _weighted_window_sums(rows[k], means[k], weights, channels)
        for j in range(windows):
            cross = mean_one[j] * mean_two[j]
            squares = mean_one[j] * mean_one[j] + mean_two[j] * mean_two[j]
            spread, shared = ratio * (mean_both[j] - squares), ratio * (mean_product[j] - cross)
            total += ((2.0 * cross + c1) * (2.0 * shared + c2)) / ((squares + c1) * (spread + c2))
    return total / float((height - size + 1) * windows)


@compiled(fastmath=True)
def _add_weighted_pixel_row(a: Any, b: Any, w: float, one: Any, two: Any, both: Any, product: Any) -> None:
    for j in range(len(a)):
        one[j] += w * np.float64(a[j])
    for j in range(len(a)):
        two[j] += w * np.float64(b[j])
    for j in range(len(a)):
        both[j] += w * (np.float64(a[j]) * np.float64(a[j]) + np.float64(b[j]) * np.float64(b[j]))
    for j in range(len(a)):
        product[j] += w * (np.float64(a[j]) * np.float64(b[j]))


@compiled(fastmath=True)
def _weighted_window_sums(column: Any, window: Any, weights: Any, step: int) -> None:
    n = len(window)
    window[:] = 0.0
    for k in range(len(weights)):
        w, shifted = weights[k], column[k * step : k * step + n]
        for j in range(n):
            window[j] += w * shifted[j]


Floats = NDArray[np.float32]
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
    result = np.zeros((len(queries), k), dtype=np.int64)
    best = np.full((len(queries), k), -np.inf, dtype=np.float32)
    for first in range(0, len(references), _HELD):
        _keep_most_similar(queries, references[first : first + _HELD], first, constants, same, best, result)
    return result


def _keep_most_similar(
    queries: NDArray[Any],
    references: NDArray[Any],
    first: int,
    constants: tuple[np.float32, np.float32],
    same: bool,
    best: Floats,
    numbers_of_best: NDArray[np.int64],
) -> None:
    """Put those of these references (numbered from ``first``) that belong to the k best so far among them."""
    y, k = _sampled_windows(references), best.shape[1]
    numbers = np.arange(first, first + len(references))

    def part(rows: slice) -> None:
        for start in range(rows.start, rows.stop, _QUERIES_AT_ONCE):
            some = slice(start, min(start + _QUERIES_AT_ONCE, rows.stop))
            alike = _ssim_sums(_sampled_windows(queries[some]), y, *constants)
            if same:
                alike[numbers[None, :] == np.arange(some.start, some.stop)[:, None]] = -np.inf
            both = np.concatenate([best[some], alike], axis=1)
            order = np.argpartition(-both, k - 1, axis=1)[:, :k]
            known = np.take_along_axis(numbers_of_best[some], np.minimum(order, k - 1), axis=1)
            numbers_of_best[some] = np.where(order < k, known, first + order - k)
            best[some] = np.take_along_axis(both, order, axis=1)

    map_row_slices(part, len(queries))


def _sampled_windows(images: NDArray[Any]) -> _Windows:
    x = images if images.ndim == 4 else images[..., None]
    height, width, channels = x.shape[1:]
    corners = [(i, j) for i in _window_starts(height) for j in _window_starts(width)]
    size = len(corners) * channels
    pixels = np.empty((size, len(x), _WINDOW * _WINDOW), dtype=np.float32)
    means = np.empty((size, len(x)), dtype=np.float32)
    for corner, (i, j) in enumerate(corners):
        patch = x[:, i : i + _WINDOW, j : j + _WINDOW].reshape(len(x), -1, channels)
        for c in range(channels):
            values = patch[:, :, c].astype(np.float32)
            mean = values.mean(axis=1)
            values -= mean[:, None]
            values *= np.float32(1.0 / np.sqrt(_WINDOW * _WINDOW - 1.0))
            pixels[corner * channels + c] = values
            means[corner * channels + c] = mean
    return _Windows(pixels, means, np.einsum("tni,tni->tn", pixels, pixels))


def _window_starts(size: int) -> list[int]:
    last = size - _WINDOW
    count = min(last + 1, max(_FEWEST, min(_MOST, size // _WINDOW)))
    return sorted({int(start) for start in np.rint(np.linspace(0, last, count))})


def _ssim_sums(x: _Windows, y: _Windows, c1: np.float32, c2: np.float32) -> Floats:
    """(Q, N) sums of the windows' SSIM."""
    total = np.zeros((x.means.shape[1], y.means.shape[1]), dtype=np.float32)
    for start in range(0, total.shape[1], _REFERENCES_AT_ONCE):
        block = slice(start, min(start + _REFERENCES_AT_ONCE, total.shape[1]))
        for t in range(len(x.means)):
            shared = x.pixels[t] @ y.pixels[t, block].T
            _add_window_ssim(
                shared,
                x.means[t],
                x.variances[t],
                y.means[t, block],
                y.variances[t, block],
                c1,
                c2,
                total[:, block],
            )
    return total


@compiled(nogil=True, fastmath=True)
def _add_window_ssim(
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
