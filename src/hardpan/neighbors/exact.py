"""Exact nearest neighbours in l2, in integers for 8-bit images."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

from hardpan.execution.compiling import compiled

T = TypeVar("T")


def in_threads(function: Callable[[slice], T], rows: int) -> list[T]:
    """Call ``function`` with slices that cover the rows, one per thread; NUMBA_NUM_THREADS says how many.

    Example:
        >>> sum(in_threads(lambda part: part.stop - part.start, 10))
        10
    """
    count = max(1, min(int(numba.get_num_threads()), rows))
    parts = [slice(rows * k // count, rows * (k + 1) // count) for k in range(count)]
    if count == 1:
        return [function(parts[0])]
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(function, parts))


Floats = NDArray[np.float32]
_QUERY_BYTES = 64 * 1024 * 1024  # of bounds held at once
_ROWS_AT_ONCE = 2048
_DIRECTIONS = (64, 192)
_SAMPLE = 2048
_PILOT = 24
_EXACT_COST = 8.0  # an exact distance costs as much, entry for entry, as this many multiplications in a product
_UNIT = 2.0**-24


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What the bounds need of the references: projections a, their squared norms plus s², and s."""

    centre: NDArray[np.float64]
    basis: NDArray[np.float64] | None
    projected: Floats
    squares: Floats
    rest: Floats
    largest: float


def nearest(
    queries: NDArray[Any], references: NDArray[Any], k: int, *, same: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The k nearest references of every query in l2, exact; ties go to the lower number.

    Args:
        queries: (Q, d) of uint8 or float64.
        references: (N, d) of the same type.
        k: how many, at most N (N − 1 where ``same``).
        same: whether both are one array; a row is then not its own neighbour.

    Returns:
        (distances, numbers), each (Q, k), nearest first.
    """
    centre = np.rint(_mean(references))
    bounds = _chosen_bounds(queries, references, centre, k, same)
    distances = np.empty((len(queries), k))
    numbers = np.empty((len(queries), k), dtype=np.int64)
    step = max(1, _QUERY_BYTES // (4 * len(references)))
    for start in range(0, len(queries), step):
        rows = slice(start, min(start + step, len(queries)))
        low, slack = _lower_bounds(queries[rows], references, bounds)
        found = distances[rows], numbers[rows]
        _search_all(queries[rows], references, low, slack, start if same else -1, *found)
    return np.sqrt(distances), numbers


def _chosen_bounds(
    queries: NDArray[Any], references: NDArray[Any], centre: NDArray[np.float64], k: int, same: bool
) -> _Bounds:
    """The number of directions that makes the pilot's queries cheapest."""
    d, n = references.shape[1], len(references)
    plain = _Bounds(centre, None, np.empty((0, 0), np.float32), *_norms(references, centre))
    if d < 2 * _DIRECTIONS[0] or n < 4 * _SAMPLE or len(queries) < 4 * _PILOT:
        return plain
    rng = np.random.default_rng(0)  # decides how quick it is, never what comes out
    some = np.sort(rng.choice(len(queries), _PILOT, replace=False))
    sizes = [size for size in _DIRECTIONS if 2 * size <= d]
    basis = _basis(references, centre, sizes[-1], rng)
    best, cheapest = plain, float(d)
    everything = _project(references, centre, basis, sizes[-1])
    for size in sizes:
        bounds = everything if size == sizes[-1] else _narrowed(everything, references, size)
        low, slack = _lower_bounds(queries[some], references, bounds)
        found = np.empty((_PILOT, k))
        looked = _search_all(queries[some], references, low, slack, -1, found, np.empty((_PILOT, k), np.int64))
        cost = size + _EXACT_COST * d * looked / (_PILOT * n)
        if cost < cheapest:
            best, cheapest = bounds, cost
    return best


def _basis(
    references: NDArray[Any], centre: NDArray[np.float64], size: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Nearly the leading principal directions of a sample, (d, size), orthonormal to rounding: two power steps."""
    rows = np.sort(rng.choice(len(references), min(_SAMPLE, len(references)), replace=False))
    sample = (references[rows] - centre).astype(np.float32)
    trial = rng.standard_normal((sample.shape[1], size)).astype(np.float32)
    for _ in range(2):
        trial = np.linalg.qr(sample.T @ (sample @ trial))[0]
    inner = np.linalg.svd(sample @ trial, full_matrices=False)[2]
    ordered = trial.astype(np.float64) @ inner.T.astype(np.float64)
    return np.ascontiguousarray(np.linalg.qr(ordered)[0])


def _project(x: NDArray[Any], centre: NDArray[np.float64], basis: NDArray[np.float64], size: int) -> _Bounds:
    a = np.empty((len(x), size), np.float32)
    totals = np.empty(len(x))
    for start in range(0, len(x), _ROWS_AT_ONCE):
        piece = x[start : start + _ROWS_AT_ONCE] - centre
        a[start : start + _ROWS_AT_ONCE] = piece @ basis[:, :size]
        totals[start : start + _ROWS_AT_ONCE] = np.einsum("ij,ij->i", piece, piece)
    inside = np.einsum("ij,ij->i", a, a, dtype=np.float64)
    rest = np.sqrt(np.maximum(totals - inside, 0.0))
    largest = float(np.sqrt(totals.max()))
    return _Bounds(
        centre, basis[:, :size], a, (inside + rest**2).astype(np.float32), rest.astype(np.float32), largest
    )


def _narrowed(bounds: _Bounds, references: NDArray[Any], size: int) -> _Bounds:
    """The same with fewer directions; what they leave out joins the rest."""
    assert bounds.basis is not None
    a = np.ascontiguousarray(bounds.projected[:, :size])
    outside = np.einsum("ij,ij->i", bounds.projected[:, size:], bounds.projected[:, size:], dtype=np.float64)
    rest = np.sqrt(bounds.rest.astype(np.float64) ** 2 + outside).astype(np.float32)
    return _Bounds(bounds.centre, bounds.basis[:, :size], a, bounds.squares, rest, bounds.largest)


def _norms(references: NDArray[Any], centre: NDArray[np.float64]) -> tuple[Floats, Floats, float]:
    totals = np.empty(len(references))
    for start in range(0, len(references), _ROWS_AT_ONCE):
        piece = references[start : start + _ROWS_AT_ONCE] - centre
        totals[start : start + _ROWS_AT_ONCE] = np.einsum("ij,ij->i", piece, piece)
    return totals.astype(np.float32), np.zeros(len(references), np.float32), float(np.sqrt(totals.max()))


def _lower_bounds(queries: NDArray[Any], references: NDArray[Any], bounds: _Bounds) -> tuple[Floats, Floats]:
    """Bounds on squared distances (Q, N), and how far rounding may have lifted each row."""
    if bounds.basis is None:
        mine = _Bounds(
            bounds.centre, None, (queries - bounds.centre).astype(np.float32), *_norms(queries, bounds.centre)
        )
        low = np.empty((len(queries), len(references)), np.float32)
        factor = np.float32(-2.0) * mine.projected
        for start in range(0, len(references), _ROWS_AT_ONCE):
            piece = (references[start : start + _ROWS_AT_ONCE] - bounds.centre).astype(np.float32)
            np.matmul(factor, piece.T, out=low[:, start : start + _ROWS_AT_ONCE])
        length = references.shape[1]
    else:
        mine = _project(queries, bounds.centre, bounds.basis, bounds.basis.shape[1])
        low = np.matmul(np.float32(-2.0) * mine.projected, bounds.projected.T)
        length = bounds.basis.shape[1]
    in_threads(
        lambda rows: _finish(low[rows], mine.squares[rows], mine.rest[rows], bounds.squares, bounds.rest), len(low)
    )
    # A float32 sum of `length` products is off by at most length·2⁻²⁴ times the product of the norms.
    reach = (np.sqrt(mine.squares.astype(np.float64)) + bounds.largest) ** 2
    return low, np.asarray((length + 16) * _UNIT * reach, dtype=np.float32)


def _mean(references: NDArray[Any]) -> NDArray[np.float64]:
    total = np.zeros(references.shape[1])
    for start in range(0, len(references), _ROWS_AT_ONCE):
        total += references[start : start + _ROWS_AT_ONCE].sum(axis=0, dtype=np.float64)
    return total / len(references)


def _search_all(
    queries: NDArray[Any],
    references: NDArray[Any],
    low: Floats,
    slack: Floats,
    own: int,
    distances: NDArray[np.float64],
    numbers: NDArray[np.int64],
) -> int:
    def some(rows: slice) -> int:
        first = own + rows.start if own >= 0 else -1
        found = distances[rows], numbers[rows]
        return int(_search(queries[rows], references, low[rows], slack[rows], first, *found))

    return sum(in_threads(some, len(queries)))


@compiled(nogil=True)
def _finish(low: Any, own: Any, own_rest: Any, squares: Any, rest: Any) -> None:
    """−2 q·x becomes ‖a_q‖² + ‖a_x‖² − 2 a_q·a_x + (s_q − s_x)², where squares hold ‖a‖² + s²."""
    for i in range(low.shape[0]):
        q, s = own[i], np.float32(2.0) * own_rest[i]
        for j in range(low.shape[1]):
            low[i, j] += (q + squares[j]) - s * rest[j]


@compiled(nogil=True)
def _search(queries: Any, references: Any, low: Any, slack: Any, own: int, distances: Any, numbers: Any) -> int:
    """Fill in the k nearest by exact squared distance; give how many pairs were computed in full."""
    looked = 0
    for i in range(low.shape[0]):
        looked += _search_one(
            queries[i], references, low[i], slack[i], own + i if own >= 0 else -1, distances[i], numbers[i]
        )
    return looked


@compiled()
def _search_one(query: Any, references: Any, low: Any, slack: Any, own: int, distances: Any, numbers: Any) -> int:
    k = len(distances)
    distances[:] = np.inf
    numbers[:] = np.iinfo(np.int64).max
    first = _smallest(low, k + 1, own)  # good candidates first, so that most of the rest need no look
    looked = len(first)
    for j in first:
        _insert(_squared(query, references[j]), j, distances, numbers)
    limit = distances[k - 1] + slack
    for j in range(len(low)):
        if low[j] <= limit and j != own and not _among(j, first):
            looked += 1
            squared = _squared(query, references[j])
            if squared <= distances[k - 1]:
                _insert(squared, j, distances, numbers)
                limit = distances[k - 1] + slack
    return looked


@compiled()
def _smallest(low: Any, count: int, own: int) -> Any:
    """Places of the smallest bounds, `own` left out."""
    count = min(count, len(low) - (1 if own >= 0 else 0))
    values = np.full(count, np.inf)
    places = np.zeros(count, np.int64)
    for j in range(len(low)):
        if low[j] < values[count - 1] and j != own:
            _insert(float(low[j]), j, values, places)
    return places


@compiled()
def _insert(value: float, place: int, values: Any, places: Any) -> None:
    """Put a value into sorted values; of equal values the lower place comes first."""
    at = len(values) - 1
    if value > values[at] or (value == values[at] and place > places[at]):
        return
    while at > 0 and (values[at - 1] > value or (values[at - 1] == value and places[at - 1] > place)):
        values[at] = values[at - 1]
        places[at] = places[at - 1]
        at -= 1
    values[at] = value
    places[at] = place


@compiled()
def _among(place: int, places: Any) -> bool:
    for other in places:  # noqa: SIM110 - numba compiles the loop, not the generator
        if other == place:
            return True
    return False


@compiled()
def _squared_bytes(a: Any, b: Any) -> float:
    total = np.int64(0)
    for start in range(0, len(a), 16384):  # so many squares of bytes fit into 32 bits
        part = np.int32(0)
        for j in range(start, min(start + 16384, len(a))):
            difference = np.int32(a[j]) - np.int32(b[j])
            part += difference * difference
        total += part
    return float(total)


@compiled()
def _squared_floats(a: Any, b: Any) -> float:
    total = 0.0
    for j in range(len(a)):
        difference = np.float64(a[j]) - np.float64(b[j])
        total += difference * difference
    return total


def _squared(a: Any, b: Any) -> float:
    raise NotImplementedError  # compiled by type below


@numba.extending.overload(_squared)
def _squared_by_type(a: Any, b: Any) -> Any:
    def of_bytes(a: Any, b: Any) -> Any:
        return _squared_bytes(a, b)

    def of_floats(a: Any, b: Any) -> Any:
        return _squared_floats(a, b)

    return of_bytes if a.dtype == numba.types.uint8 else of_floats
