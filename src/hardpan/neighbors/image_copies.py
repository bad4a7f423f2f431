"""Altered copies of images: shifted, cropped, turned, mirrored, inverted, recompressed.

Two stages. Descriptors (weighted cosine coefficients of a window of the grey image, normalised) of many views of
every query are compared with one descriptor of every reference; then the best pairs are aligned (Gauss-Newton over
position and size of the window, with gain and offset), and accepted by the correlation of what is left when coarse
structure is taken out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import fft, ndimage

from hardpan.execution.mapping import map_row_slices

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]

KINDS = ("turned or mirrored", "inverted", "cropped or zoomed", "shifted", "in place")
LEAST = 0.93  # correlation of an accepted pair, fixed on CIFAR-10's training images among themselves
CANDIDATES = 6  # references of each query that are aligned
GRID = 32  # pixels a side of the grey images that are compared
PATCH = 20  # points a side of the window that is aligned
WINDOW = 0.8  # of a reference's side: the window in its middle
COARSE, COARSEST = 5, 3  # cosine frequencies along each axis that do not count: in the end, and while aligning
FREQUENCIES = 8  # of a descriptor along each axis
STEP = 0.08  # between views, of the side
FLAT = 0.5  # deviation of the window's grey values below which there is nothing to compare
STEPS = 6
_QUERIES, _REFERENCES, _PAIRS = 128, 4096, 2048  # at once


@dataclass(frozen=True, slots=True, eq=False)
class ImageCopies:
    """The references that are most like each query, aligned.

    Attributes:
        references: (Q, k) numbers of references.
        correlation: (Q, k) of the aligned images without coarse structure; negative: inverted. A pair is a copy
            from :data:`LEAST` in size.
        turned: (Q, k) whether the query is turned or mirrored.
        size: (Q, k) side of the reference's window in the query, as a proportion of the window's own.
        shift: (Q, k) distance of the windows' centres, as a proportion of the side.
    """

    references: Labels
    correlation: NDArray[np.float64]
    turned: NDArray[np.bool_]
    size: NDArray[np.float64]
    shift: NDArray[np.float64]

    @property
    def accepted(self) -> NDArray[np.bool_]:
        """(Q, k) which pairs are copies."""
        return np.asarray(np.abs(self.correlation) >= LEAST)

    def alterations(self, query: int, place: int) -> tuple[str, ...]:
        """What was done to a copy, of :data:`KINDS`."""
        resized = abs(self.size[query, place] - 1) > 0.04
        done = (
            self.turned[query, place],
            self.correlation[query, place] < 0,
            resized,
            self.shift[query, place] > 0.02 and not resized,
        )
        return tuple(name for name, so in zip(KINDS, done, strict=False) if so) or KINDS[-1:]


def find_image_copies(queries: NDArray[np.generic], references: NDArray[np.generic]) -> ImageCopies:
    """The references that are most like each query under the alterations of :data:`ALTERATIONS`.

    Args:
        queries: (Q, H, W) or (Q, H, W, C).
        references: (N, H, W) or (N, H, W, C), N ≥ 1.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> images = ndimage.gaussian_filter(rng.normal(size=(40, 40, 40)), (0, 3, 3))
        >>> found = find_image_copies(np.roll(images[:2, ::-1], 3, axis=1), images)
        >>> found.references[:, 0].tolist(), found.accepted.sum(axis=1).tolist(), found.alterations(0, 0)
        ([0, 1], [1, 1], ('turned or mirrored', 'shifted'))
    """
    return match_grids(grey_grids(queries), grey_grids(references))


def match_grids(mine: Floats, theirs: Floats) -> ImageCopies:
    """As :func:`find_image_copies`, of :func:`grey_grids`."""
    count = min(CANDIDATES, len(theirs))
    references_at = np.zeros((len(mine), count), np.int64)
    views = np.zeros((len(mine), count), np.int64)
    known = _grid_descriptors(theirs, _grid_descriptor_matrix((1 - WINDOW) / 2, (1 - WINDOW) / 2, WINDOW))

    def search(rows: slice) -> None:
        for start in range(rows.start, rows.stop, _QUERIES):
            some = slice(start, min(start + _QUERIES, rows.stop))
            references_at[some], views[some] = _candidate_copies(mine[some], known, count)

    if len(mine):
        map_row_slices(search, len(mine))
    correlation = np.zeros((len(mine), count))
    moved = np.zeros((len(mine), count, 3))
    for number, view in enumerate(_views()):
        at = np.argwhere(views == number)
        for start in range(0, len(at), _PAIRS):
            query, candidate = at[start : start + _PAIRS].T
            turned = _turned_grids(mine[query], view)
            window = _aligned_grid_window(turned, theirs[references_at[query, candidate]], view)
            moved[query, candidate] = window
            correlation[query, candidate] = _fine_grid_correlation(
                turned, theirs[references_at[query, candidate]], window
            )
    order = np.argsort(-np.abs(correlation), axis=1, kind="stable")
    is_turned = np.array([view.mirrored or view.quarters > 0 for view in _views()])[views]

    def sorted_by(values: NDArray[np.generic]) -> NDArray[np.generic]:
        return np.take_along_axis(values, order, axis=1)

    return ImageCopies(
        np.asarray(sorted_by(references_at), dtype=np.int64),
        np.asarray(sorted_by(correlation), dtype=np.float64),
        np.asarray(sorted_by(is_turned), dtype=np.bool_),
        np.asarray(sorted_by(moved[..., 2] / WINDOW), dtype=np.float64),
        np.asarray(sorted_by(np.hypot(moved[..., 0] - 0.5, moved[..., 1] - 0.5)), dtype=np.float64),
    )


def image_search_seconds(queries: int, references: int) -> float:
    """About how long a search takes on two cores, in seconds."""
    return queries * (references * len(_views()) * 2.0e-9 + 0.004) + references * 1e-4


def grey_grids(x: NDArray[np.generic], rows: Labels | None = None) -> Floats:
    """Grey images (N, GRID, GRID): means of cells; linear between pixels where an image is smaller.

    Args:
        x: (N, H, W) or (N, H, W, C); read by parts.
        rows: which images; all where None.
    """
    rows = np.arange(len(x)) if rows is None else rows
    down, along = _grid_cells(GRID, 0.0, 1.0, x.shape[1]), _grid_cells(GRID, 0.0, 1.0, x.shape[2])
    grids = np.empty((len(rows), GRID, GRID), np.float32)
    for start in range(0, len(rows), _PAIRS):
        some = np.asarray(x[rows[start : start + _PAIRS]], dtype=np.float32)
        grey = some.reshape(*some.shape[:3], -1).mean(axis=3)
        grids[start : start + _PAIRS] = down @ grey @ along.T
    largest = float(np.abs(grids).max(initial=0.0))
    return np.asarray(grids if x.dtype == np.uint8 or not largest else grids * np.float32(255 / largest))


@dataclass(frozen=True, slots=True)
class _View:
    """A query mirrored, then turned by quarters; and the window of it that is compared."""

    mirrored: bool
    quarters: int
    top: float
    left: float
    size: float


@cache
def _views() -> tuple[_View, ...]:
    """Windows at which the middle of a reference may be found: shifts as it is, and of crops in both directions."""
    near, far = 0.7 * STEP, STEP
    sizes = {
        1.0: (-far, 0.0, far),
        1 / 0.9: (-near, near),
        1 / 0.8: (-0.1, 0.0, 0.1),
        0.9: (-near, near),
        0.8: (-far, 0.0, far),
    }
    windows = [
        ((1 - WINDOW * size) / 2 + dy, (1 - WINDOW * size) / 2 + dx, WINDOW * size)
        for size, offsets in sizes.items()
        for dy in offsets
        for dx in offsets
    ]
    windows += [((1 - WINDOW * size) / 2, (1 - WINDOW * size) / 2, WINDOW * size) for size in (1 / 0.9, 0.9)]
    middle = ((1 - WINDOW) / 2, (1 - WINDOW) / 2, WINDOW)
    return tuple(
        _View(mirrored, quarters, *window)
        for mirrored in (False, True)
        for quarters in range(4)
        for window in (windows if quarters == 0 else [middle])
    )


def _turned_grids(grids: Floats, view: _View) -> Floats:
    mirrored = grids[:, :, ::-1] if view.mirrored else grids
    return np.ascontiguousarray(np.rot90(mirrored, view.quarters, axes=(1, 2)))


def _grid_cells(count: int, low: float, high: float, pixels: int) -> Floats:
    """(count, pixels): means of equal cells of [low, high], a proportion of the side; edges are extended."""
    inside = 2 * max(1, int(np.ceil((high - low) * pixels / count)))
    at = (low + (high - low) * (np.arange(count * inside) + 0.5) / (count * inside)) * pixels - 0.5
    at = np.clip(at, 0, pixels - 1)
    first = np.minimum(at.astype(np.int64), max(pixels - 2, 0))
    weights = np.zeros((len(at), pixels))
    rows = np.arange(len(at))
    weights[rows, first] += 1 - (at - first)
    weights[rows, np.minimum(first + 1, pixels - 1)] += at - first
    return np.asarray(weights.reshape(count, inside, pixels).mean(axis=1), dtype=np.float32)


def _grid_cosines(points: int, count: int) -> NDArray[np.float64]:
    """(count, points) orthonormal cosines of rising frequency."""
    return np.asarray(fft.dct(np.eye(points), axis=0, norm="ortho")[:count])


@cache
def _grid_descriptor_matrix(top: float, left: float, size: float) -> Floats:
    """(D, GRID²): from a grid to the descriptor of a window, cosine coefficients weighted by their frequency."""
    cosines = _grid_cosines(12, FREQUENCIES)
    down, along = (
        cosines @ _grid_cells(12, top, top + size, GRID),
        cosines @ _grid_cells(12, left, left + size, GRID),
    )
    frequency = np.hypot(*np.meshgrid(np.arange(FREQUENCIES), np.arange(FREQUENCIES), indexing="ij"))
    used = (frequency > 0) & (frequency < FREQUENCIES)
    whole = np.einsum("ay,bx->abyx", down, along) * frequency[:, :, None, None]
    return np.asarray(whole[used].reshape(-1, GRID * GRID), dtype=np.float32)


def _grid_descriptors(grids: Floats, matrix: Floats) -> Floats:
    projected = grids.reshape(len(grids), -1) @ matrix.T
    return np.asarray(
        projected / np.maximum(np.linalg.norm(projected, axis=1, keepdims=True), 1e-3), dtype=np.float32
    )


def _candidate_copies(grids: Floats, known: Floats, count: int) -> tuple[Labels, Labels]:
    """(Q, count) references with the largest products in size over all views, and the view of each."""
    of_view = [
        _grid_descriptors(_turned_grids(grids, view), _grid_descriptor_matrix(view.top, view.left, view.size))
        for view in _views()
    ]
    best = np.zeros((len(grids), len(known)), np.float32)
    for start in range(0, len(known), _REFERENCES):
        theirs = known[start : start + _REFERENCES].T
        most, room = best[:, start : start + _REFERENCES], np.empty((len(grids), theirs.shape[1]), np.float32)
        for mine in of_view:
            np.matmul(mine, theirs, out=room)
            np.abs(room, out=room)
            np.maximum(most, room, out=most)
    at = np.argpartition(-best, count - 1, axis=1)[:, :count].astype(np.int64)
    products = np.stack([np.abs(np.einsum("qd,qkd->qk", mine, known[at])) for mine in of_view])
    return at, np.asarray(products.argmax(axis=0), dtype=np.int64)


def _sampled_image_grids(grids: Floats, window: NDArray[np.float64]) -> tuple[Floats, NDArray[np.bool_]]:
    """(B, PATCH, PATCH) values in windows (B, 3) of centre and size, and which lie inside the image."""
    points = (np.arange(PATCH) + 0.5) / PATCH - 0.5
    down, along = ((window[:, [axis]] + window[:, [2]] * points) * GRID - 0.5 for axis in (0, 1))
    inside = [(at >= -0.5) & (at <= GRID - 0.5) for at in (down, along)]
    down, along = np.clip(down, 0, GRID - 1), np.clip(along, 0, GRID - 1)
    top, left = np.minimum(down.astype(np.int64), GRID - 2), np.minimum(along.astype(np.int64), GRID - 2)
    below = (down - top).astype(np.float32)[:, :, None]
    right = (along - left).astype(np.float32)[:, None, :]
    number, y, x = np.arange(len(grids))[:, None, None], top[:, :, None], left[:, None, :]
    upper = grids[number, y, x] * (1 - right) + grids[number, y, x + 1] * right
    lower = grids[number, y + 1, x] * (1 - right) + grids[number, y + 1, x + 1] * right
    values = upper * (1 - below) + lower * below
    return np.asarray(values, dtype=np.float32), inside[0][:, :, None] & inside[1][:, None, :]


@cache
def _coarse_grid_cosines(count: int) -> Floats:
    cosines = _grid_cosines(PATCH, count)
    return np.asarray(np.einsum("ay,bx->abyx", cosines, cosines).reshape(count**2, -1), dtype=np.float32)


def _grids_without_coarse(values: Floats, count: int) -> Floats:
    flat = values.reshape(len(values), -1)
    return np.asarray(flat - (flat @ _coarse_grid_cosines(count).T) @ _coarse_grid_cosines(count))


def _middle_of_image_grids(grids: Floats) -> Floats:
    return _sampled_image_grids(grids, np.tile([0.5, 0.5, WINDOW], (len(grids), 1)))[0]


def _aligned_grid_window(turned: Floats, theirs: Floats, view: _View) -> NDArray[np.float64]:
    """(B, 3) centre and size of the window of each query that fits the middle of its reference best."""
    mine, theirs = (ndimage.gaussian_filter(grids, (0, 0.8, 0.8)) for grids in (turned, theirs))
    target = _grids_without_coarse(_middle_of_image_grids(theirs), COARSEST)
    window = np.tile([view.top + view.size / 2, view.left + view.size / 2, view.size], (len(mine), 1))
    best, reached = window.copy(), np.zeros(len(mine))
    points = ((np.arange(PATCH) + 0.5) / PATCH - 0.5).astype(np.float32)
    for step in range(STEPS + 1):
        values, inside = _sampled_image_grids(mine, window)
        slopes = [slope * (PATCH / window[:, 2])[:, None, None] for slope in np.gradient(values, axis=(1, 2))]
        slopes.append(slopes[0] * points[:, None] + slopes[1] * points)
        used = inside.reshape(len(mine), -1)
        parts = np.stack(
            [_grids_without_coarse(item.astype(np.float32), COARSEST) * used for item in (values, *slopes)], axis=2
        )
        correlation = np.abs(_grid_correlation(parts[:, :, 0], target * used, used))
        better = correlation > reached
        best[better], reached[better] = window[better], correlation[better]
        if step == STEPS:
            break
        squares = np.einsum("bpi,bpj->bij", parts, parts).astype(np.float64)
        squares += np.eye(4) * (1e-2 * np.einsum("bii->bi", squares)[:, :, None] + 1e-3)
        right = np.einsum("bpi,bp->bi", parts, target * used).astype(np.float64)
        solved = np.linalg.solve(squares, right[:, :, None])[:, :, 0]
        gain = np.where(np.abs(solved[:, 0]) > 1e-2, solved[:, 0], 1e-2)
        window = window + np.clip(solved[:, 1:] / gain[:, None], -0.04, 0.04)
        window = np.clip(window, (0.2, 0.2, 0.55), (0.8, 0.8, 1.1))
    return best


def _fine_grid_correlation(turned: Floats, theirs: Floats, window: NDArray[np.float64]) -> NDArray[np.float64]:
    mine, theirs = (ndimage.gaussian_filter(grids, (0, 0.6, 0.6)) for grids in (turned, theirs))
    values, inside = _sampled_image_grids(mine, window)
    used, target = inside.reshape(len(mine), -1), _middle_of_image_grids(theirs)
    values = _filled_outside(values.reshape(used.shape), target.reshape(used.shape), used)
    a, b = (_grids_without_coarse(grids, COARSE) * used for grids in (values, target))
    return _grid_correlation(a, b, used)


def _filled_outside(values: Floats, target: Floats, used: NDArray[np.bool_]) -> Floats:
    """Values where ``used``, elsewhere what a line in the target gives: no edge enters the coarse structure."""
    count = used.sum(axis=1, keepdims=True)
    middle, theirs = (
        (grids * used).sum(axis=1, keepdims=True) / np.maximum(count, 1) for grids in (values, target)
    )
    away = (target - theirs) * used
    slope = ((values - middle) * away).sum(axis=1, keepdims=True) / np.maximum(
        (away**2).sum(axis=1, keepdims=True), 1e-6
    )
    return np.asarray(np.where(used, values, middle + slope * (target - theirs)), dtype=np.float32)


def _grid_correlation(a: Floats, b: Floats, used: NDArray[np.bool_]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    enough = (np.minimum(*lengths) > FLAT * np.sqrt(used.sum(axis=1))) & (used.mean(axis=1) > 0.5)
    product = np.einsum("bp,bp->b", a, b) / np.maximum(lengths[0] * lengths[1], 1e-6)
    return np.asarray(np.where(enough, product, 0.0), dtype=np.float64)


def _shifted_image_copy(image: Floats, rng: np.random.Generator) -> Floats:
    """By up to 10 % of each side; edges are repeated."""
    down, along = (np.clip(np.arange(n) + round(rng.uniform(-0.1, 0.1) * n), 0, n - 1) for n in image.shape[:2])
    return np.asarray(image[down][:, along])


def _cropped_image_copy(image: Floats, rng: np.random.Generator) -> Floats:
    """80 to 95 % of each side, enlarged to the whole."""
    fraction = rng.uniform(0.8, 0.95)
    cells = []
    for pixels in image.shape[:2]:
        low = rng.uniform(0, 1 - fraction)
        cells.append(_grid_cells(pixels, low, low + fraction, pixels))
    return np.asarray(np.einsum("ay,yxc,bx->abc", cells[0], image, cells[1]), dtype=np.float32)


def _recompressed_image_copy(image: Floats, rng: np.random.Generator) -> Floats:
    """Cosine coefficients of blocks of 8×8 in steps that rise with the frequency, as JPEG at quality 40 to 75."""
    height, width = image.shape[:2]
    padded = np.pad(image, ((0, -height % 8), (0, -width % 8), (0, 0)), mode="edge")
    blocks = padded.reshape(padded.shape[0] // 8, 8, padded.shape[1] // 8, 8, -1)
    steps = (16 + 6 * np.add.outer(np.arange(8), np.arange(8)))[None, :, None, :, None] * rng.uniform(0.5, 1.25)
    rounded = steps * np.rint(fft.dctn(blocks, axes=(1, 3), norm="ortho") / steps)
    whole = fft.idctn(rounded, axes=(1, 3), norm="ortho").reshape(padded.shape)
    return np.asarray(whole[:height, :width], dtype=np.float32)


ALTERATIONS: Mapping[str, Callable[[Floats, np.random.Generator], Floats]] = {
    "shifted": _shifted_image_copy,
    "cropped": _cropped_image_copy,
    "mirrored": lambda image, rng: image[:, ::-1],
    "turned": lambda image, rng: np.rot90(
        image, int(rng.integers(1, 4)) if image.shape[0] == image.shape[1] else 2
    ),
    "brighter": lambda image, rng: image + np.float32(rng.choice((-1, 1)) * rng.uniform(15, 45)),
    "contrast": lambda image, rng: (image - image.mean()) * np.float32(rng.choice((0.6, 1.5))) + image.mean(),
    "grey": lambda image, rng: np.broadcast_to(image.mean(axis=2, keepdims=True), image.shape),
    "inverted": lambda image, rng: 255 - image,
    "recompressed": _recompressed_image_copy,
    "noisy": lambda image, rng: image + rng.normal(0, rng.uniform(4, 12), image.shape).astype(np.float32),
}
"""Alterations by name that the search covers: functions of an image (H, W, C) from 0 to 255 and a generator."""


def altered_copies(images: NDArray[np.generic], seed: int = 0) -> dict[str, Floats]:
    """Every image altered in every way of :data:`ALTERATIONS`: (n, H, W, C) from 0 to 255 by name.

    Args:
        images: (n, H, W) or (n, H, W, C); bytes, or numbers from 0 up to any largest value.
        seed: of the alterations.
    """
    x = np.asarray(images, dtype=np.float32).reshape(*images.shape[:3], -1)
    if images.dtype != np.uint8:
        x = x * np.float32(255 / max(float(np.abs(x).max(initial=0.0)), 1e-30))
    copies = {}
    for number, (name, alter) in enumerate(ALTERATIONS.items()):
        rng = np.random.default_rng([seed, 17, number])
        changed = [np.clip(np.rint(alter(image, rng)), 0, 255) for image in x]
        copies[name] = np.stack(changed).astype(np.float32)
    return copies


def turned_images(images: NDArray[np.generic]) -> Iterator[NDArray[np.generic]]:
    """Images turned by quarters (halves unless square) and mirrored, in every way but as they are."""
    square = images.shape[1] == images.shape[2]
    for flipped in (images, images[:, :, ::-1]):
        for quarters in range(4) if square else (0, 2):
            if quarters or flipped is not images:
                yield np.rot90(flipped, quarters, axes=(1, 2))
