"""Nearest images in l2, in structural similarity, and in descriptors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.arguments import one_of, whole_number
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.stats import share

_SMALLEST = 7
METRICS = ("l2", "ssim", "features")
FILTER = 50
CLOSE = 0.6
_COARSE = 4  # times as many candidates by SSIM on a few windows: it follows SSIM best
_RECALL_QUERIES = 20


@record(eq=False)
class Neighbours:
    """What :func:`near_duplicates` returns; it unpacks as ``distances, indices``.

    Attributes:
        distances: (Q, k), nearest first; 1 − SSIM for the metric "ssim".
        indices: (Q, k) numbers of references.
        metric: "l2", "ssim" or "features".
        recall: for "ssim", the share of the true k nearest that the filter let through; None where all pairs count.
        close_recall: the same for those of them with an SSIM of at least 0.6, which may be near-duplicates;
            None also where the queries looked at have none.
    """

    distances: NDArray[np.float64]
    indices: NDArray[np.int64]
    metric: str
    recall: Estimate | None = None
    close_recall: Estimate | None = None

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return iter((self.distances, self.indices))


def near_duplicates(
    queries: Any,
    references: Any = None,
    k: int = 10,
    metric: str = "l2",
    *,
    candidates: int = FILTER,
    recall_queries: int = _RECALL_QUERIES,
    seed: int = 0,
    device: str = "cpu",
) -> Neighbours:
    """The k nearest references of every query.

    - l2: Euclidean distance of the pixels (or features), exact, in integers for 8-bit images.
    - features: Euclidean distance of :func:`duplicate_descriptors`; arrays (N, d) are features already; exact.
    - ssim: 1 − SSIM, of the ``candidates`` nearest by l2, as many by features, and four times as many by SSIM on
      a few windows (:func:`hardpan.neighbors.ssim.most_similar`); its recall is measured against all pairs for
      ``recall_queries`` queries drawn at random.

    Args:
        queries: images (Q, H, W) or (Q, H, W, C), or vectors (Q, d).
        references: the same kind of arrays; None compares the queries with one another, each without itself.
        k: how many.
        metric: one of the three.
        candidates: for "ssim", how many a filter lets through.
        recall_queries: for "ssim", queries whose pairs are all computed; 0 leaves the recall out.
        seed: of the queries drawn for the recall.
        device: ``cpu``, or ``cuda`` or ``cuda:N`` for l2 and features on a GPU (needs the extra ``torch``), with
            the same result to the bit.

    Returns:
        Distances and numbers, each (Q, k); ties go to the lower number.

    Source: Recht et al., appendix B.2.2.

    Example:
        >>> images = np.random.default_rng(0).integers(0, 256, (20, 8, 8), dtype=np.uint8)
        >>> distances, indices = near_duplicates(images[:3], images, k=1)
        >>> distances.ravel().tolist(), indices.ravel().tolist()
        ([0.0, 0.0, 0.0], [0, 1, 2])
    """
    same = references is None
    x = _inputs_to_compare("queries", queries)
    y = x if same else _inputs_to_compare("references", references)
    one_of("metric", metric, METRICS)
    if x.shape[1:] != y.shape[1:]:
        raise InputError(
            f"must be of one shape; got {x.shape[1:]} and {y.shape[1:]}", argument=("queries", "references")
        )
    k = whole_number("k", k, 1, len(y) - int(same))
    # One type that the exact kernels know, bytes or floats, in C order.
    kind: Any = x.dtype if x.dtype == y.dtype and x.dtype in (np.uint8, np.float32) else np.float64
    x = np.ascontiguousarray(x, dtype=kind)
    y = x if same else np.ascontiguousarray(y, dtype=kind)
    if metric == "l2":
        return Neighbours(*_nearest_by_l2(x, y, k, same, device), metric)
    if metric == "features":
        return Neighbours(*_nearest_by_l2(*_descriptors_of_duplicates(x, y, same), k, same, device), metric)
    if device != "cpu":
        raise InputError(f"must be cpu for the metric ssim; got {device!r}", argument="device")
    return _nearest_by_ssim(x, y, k, same, max(candidates, k), recall_queries, seed)


def _nearest_by_ssim(
    x: NDArray[Any], y: NDArray[Any], k: int, same: bool, candidates: int, recall_queries: int, seed: int
) -> Neighbours:
    from hardpan.neighbors.ssim import image_value_range, most_similar, ssim_pairs

    if x.ndim < 3 or min(x.shape[1:3]) < _SMALLEST:
        raise InputError(
            f"'ssim' needs images (N, H, W) or (N, H, W, C) of at least 7×7; got shape {x.shape}", argument="metric"
        )
    count = min(candidates, len(y) - int(same))
    close = _nearest_by_l2(x, y, count, same)[1]
    alike = _nearest_by_l2(*_descriptors_of_duplicates(x, y, same), count, same)[1]
    span = image_value_range(x, y)
    structure = most_similar(x, y, min(_COARSE * count, len(y) - int(same)), span=span, same=same)
    both = np.sort(np.concatenate([close, alike, structure], axis=1), axis=1)
    repeated = np.zeros(both.shape, dtype=bool)
    repeated[:, 1:] = both[:, 1:] == both[:, :-1]
    rows = np.repeat(np.arange(len(x)), both.shape[1])
    similarity = ssim_pairs(x, y, rows, both.ravel(), data_range=span).reshape(both.shape)
    distances = np.where(repeated, np.inf, 1.0 - similarity)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    result = np.take_along_axis(distances, order, axis=1), np.take_along_axis(both, order, axis=1)
    if not recall_queries:
        return Neighbours(result[0], result[1], "ssim")
    return Neighbours(result[0], result[1], "ssim", *_recall_of_filter(x, y, same, result[0], recall_queries, seed))


def _recall_of_filter(
    x: NDArray[Any], y: NDArray[Any], same: bool, filtered: NDArray[np.float64], queries: int, seed: int
) -> tuple[Estimate, Estimate | None]:
    """How many of the true k nearest (or as near) the filter let through, for some queries.

    And how many of those among them that are close, with an SSIM of at least ``CLOSE``.
    """
    from hardpan.neighbors.ssim import image_value_range, ssim_pairs

    k, span = filtered.shape[1], image_value_range(x, y)
    rows = np.sort(np.random.default_rng(seed).choice(len(x), min(queries, len(x)), replace=False))
    hits = close = close_hits = 0
    for row in rows:
        distances = 1.0 - ssim_pairs(x, y, np.full(len(y), row), np.arange(len(y)), data_range=span)
        if same:
            distances[row] = np.inf
        limit = np.partition(distances, k - 1)[k - 1]
        hits += int((filtered[row] <= limit + 1e-9).sum())
        near = min(limit, 1.0 - CLOSE) + 1e-9
        close += min(k, int((distances <= near).sum()))
        close_hits += int((filtered[row] <= near).sum())
    over = f"over all pairs of {len(rows)} queries, Clopper–Pearson"
    recall = share(hits, k * len(rows), method=f"true {k} nearest by SSIM {over}", seed=seed)
    if not close:
        return recall, None
    method = f"those of them with SSIM of at least {CLOSE:g}, {over}"
    return recall, share(close_hits, close, method=method, seed=seed)


def _descriptors_of_duplicates(x: NDArray[Any], y: NDArray[Any], same: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    if x.ndim == 2:
        return x, y
    described = duplicate_descriptors(x)
    return described, described if same else duplicate_descriptors(y)


def _nearest_by_l2(
    x: NDArray[Any], y: NDArray[Any], k: int, same: bool, device: str = "cpu"
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rows, others = x.reshape(len(x), -1), y.reshape(len(y), -1)
    if device != "cpu":
        from hardpan.neighbors.gpu import nearest_on_gpu

        return nearest_on_gpu(rows, others, k, same=same, device=device)
    from hardpan.neighbors.exact import nearest

    return nearest(rows, others, k, same=same)


def _inputs_to_compare(name: str, array: Any) -> NDArray[Any]:
    x = np.asarray(array)
    if x.dtype.kind not in "uif" or x.ndim not in (2, 3, 4) or 0 in x.shape:
        raise InputError(
            f"must be numbers of shape (N, d), (N, H, W) or (N, H, W, C); got {x.dtype} of shape {x.shape}",
            argument=name,
        )
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        raise InputError("must be finite; drop rows with NaN or infinity", argument=name)
    return x


_GRID = 6
_CELLS = 4
_DIRECTIONS = 8
_ROWS_AT_ONCE = 2048


def duplicate_descriptors(images: NDArray[Any]) -> NDArray[np.float32]:
    """One vector per image: coarse colours and directions of edges, each without mean and with length 1.

    The coarse part is the mean of each cell of a 6×6 grid, its own mean taken off; the edges are gradients of the
    grey image, summed by direction (8) in each cell of a 4×4 grid.

    Args:
        images: (N, H, W) or (N, H, W, C), at least 6×6.

    Returns:
        (N, 36 C + 128) in float32.

    Example:
        >>> images = np.random.default_rng(0).integers(0, 200, (2, 12, 12, 3), dtype=np.uint8)
        >>> brighter = duplicate_descriptors((images * 1.2).astype(np.uint8))
        >>> bool(np.linalg.norm(duplicate_descriptors(images)[0] - brighter[0]) < 0.05)
        True
    """
    x = images if images.ndim == 4 else images[..., None]
    parts = [
        _descriptors_of_block(x[start : start + _ROWS_AT_ONCE].astype(np.float32))
        for start in range(0, len(x), _ROWS_AT_ONCE)
    ]
    return np.concatenate(parts)


def _descriptors_of_block(x: NDArray[np.float32]) -> NDArray[np.float32]:
    coarse = _descriptor_cell_means(x, _GRID).reshape(len(x), -1)
    grey = x.mean(axis=3)
    down, along = np.gradient(grey, axis=(1, 2))
    strength = np.hypot(down, along)
    direction = np.floor((np.arctan2(down, along) / np.pi + 1.0) * (_DIRECTIONS / 2)).astype(np.int64) % _DIRECTIONS
    layers = np.where(direction[..., None] == np.arange(_DIRECTIONS), strength[..., None], 0.0).astype(np.float32)
    edges = _descriptor_cell_means(layers, _CELLS).reshape(len(x), -1)
    return np.concatenate(
        [_rows_of_unit_length(coarse - coarse.mean(axis=1, keepdims=True)), _rows_of_unit_length(edges)], axis=1
    )


def _descriptor_cell_means(x: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Means over a grid of ``count`` × ``count`` nearly equal cells: (N, count, count, C)."""
    for axis in (1, 2):
        edges = np.linspace(0, x.shape[axis], count + 1).astype(np.int64)
        sums = np.add.reduceat(x, edges[:-1], axis=axis)
        shape = [1] * x.ndim
        shape[axis] = count
        x = np.asarray(sums / np.diff(edges).reshape(shape), dtype=np.float32)
    return x


def _rows_of_unit_length(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-6), dtype=np.float32)
