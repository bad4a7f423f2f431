"""Exact nearest neighbours in l2, in integers for 8-bit images.

Pairs are compared block by block, so that memory does not grow with their number: blocks of references one after
another in this process, or blocks of both as tasks of another back end. Every distance is computed in full for its
pair, so the answer has the same bits however the rows are cut.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from hardpan import execution
from hardpan.execution.compiling import compiled
from hardpan.execution.mapping import map_row_slices

Floats = NDArray[np.float32]
Nearest = tuple[NDArray[np.float64], NDArray[np.int64]]
_BLOCK = 65_536  # rows that are compared at once
_CENTRED_BYTES = 64 * 1024 * 1024  # of a block of references kept in float32
_QUERY_BYTES = 64 * 1024 * 1024  # of bounds held at once
_TILE, _TILE_BYTES = 2048, 8 * 1024 * 1024  # references and bytes of bounds that are nearly distances
_ROWS_AT_ONCE = 2048
_DIRECTIONS = (64, 192)
_SAMPLE = 2048
_PILOT = 24
_EXACT_COST = 8.0  # an exact distance costs as much, entry for entry, as this many multiplications in a product
_UNIT = 2.0**-24
_LANES = 64  # bounds that are compared with the limit before one is looked at
_NONE = np.iinfo(np.int64).min // 2  # no row is its own neighbour
_PRODUCTS_PER_SECOND = {"u": 1e11, "f": 4e9}  # of bytes, as in images, and of floats, on two cores
_PAIR_PRODUCTS = 30  # what a pair costs beside its products


@compiled(nogil=True)
def _search_queries(
    queries: Any, references: Any, low: Any, slack: Any, own: int, first: int, squared: Any, numbers: Any
) -> int:
    looked = 0
    for i in range(low.shape[0]):
        looked += _search_one_query(
            queries[i], references, low[i], slack[i], own + i, first, squared[i], numbers[i]
        )
    return looked


@compiled()
def _search_one_query(
    query: Any, references: Any, low: Any, slack: Any, own: int, first: int, squared: Any, numbers: Any
) -> int:
    k, looked = len(squared), 0
    best = np.zeros(0, np.int64)
    if squared[k - 1] == np.inf:
        best = _numbers_of_smallest_bounds(
            low, k + 1, own
        )  # good candidates first, so that most of the rest need no look
        looked = len(best)
        for j in best:
            _insert_sorted(_exact_squared_distance(query, references[j]), first + j, squared, numbers)
    limit = np.float32(squared[k - 1]) + slack
    for start in range(0, len(low), _LANES):
        some = low[start : start + _LANES]
        hits = np.int32(0)  # of 32 bits, as the numbers are: the compiler does many at once
        for j in range(len(some)):
            hits += np.int32(some[j] <= limit)
        if hits == 0:
            continue
        for j in range(start, start + len(some)):
            if low[j] <= limit and j != own and not _contains_number(j, best):
                looked += 1
                exact = _exact_squared_distance(query, references[j])
                if exact <= squared[k - 1]:
                    _insert_sorted(exact, first + j, squared, numbers)
                    limit = np.float32(squared[k - 1]) + slack
    return looked


@compiled()
def _numbers_of_smallest_bounds(low: Any, count: int, own: int) -> Any:
    """Numbers of the smallest bounds, `own` left out."""
    count = min(count, len(low) - (1 if 0 <= own < len(low) else 0))
    values = np.full(count, np.inf)
    numbers = np.zeros(count, np.int64)
    for j in range(len(low)):
        if low[j] < values[count - 1] and j != own:
            _insert_sorted(float(low[j]), j, values, numbers)
    return numbers


@compiled()
def _insert_sorted(value: float, number: int, values: Any, numbers: Any) -> None:
    """Put a value into sorted values; of equal values the lower number comes first."""
    at = len(values) - 1
    if value > values[at] or (value == values[at] and number > numbers[at]):
        return
    while at > 0 and (values[at - 1] > value or (values[at - 1] == value and numbers[at - 1] > number)):
        values[at] = values[at - 1]
        numbers[at] = numbers[at - 1]
        at -= 1
    values[at] = value
    numbers[at] = number


@compiled()
def _contains_number(number: int, numbers: Any) -> bool:
    for other in numbers:  # noqa: SIM110 - numba compiles the loop, not the generator
        if other == number:
            return True
    return False


def _exact_squared_distance(a: Any, b: Any) -> float:
    raise NotImplementedError  # compiled by type below


@numba.extending.overload(_exact_squared_distance)
def _exact_squared_distance_by_type(a: Any, b: Any) -> Any:
    def of_bytes(a: Any, b: Any) -> float:
        total = np.int64(0)
        for start in range(0, len(a), 16384):  # this many squares of bytes fit into 32 bits
            subtotal = np.int32(0)
            for j in range(start, min(start + 16384, len(a))):
                difference = np.int32(a[j]) - np.int32(b[j])
                subtotal += difference * difference
            total += subtotal
        return float(total)

    def of_floats(a: Any, b: Any) -> float:
        total = 0.0
        for j in range(len(a)):
            difference = np.float64(a[j]) - np.float64(b[j])
            total += difference * difference
        return total

    return of_bytes if a.dtype == numba.types.uint8 else of_floats


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Rows whose products are bounds: ‖a_q‖² + ‖a_x‖² − 2 a_q·a_x + (s_q − s_x)².

    a are projections onto the basis (without one, rows less the centre), s the lengths of what they leave out. A
    reference is (a, ‖a‖² + s², 1, s), a query (−2a, 1, ‖a‖² + s², −2s).

    Attributes:
        centre: (d,) taken off first.
        basis: (d, size), or None.
        rows: (N, size + 3); empty where the references are too many to keep beside themselves.
        squares: (N,) ‖a‖² + s².
        largest: length of the longest row.
    """

    centre: NDArray[np.float64]
    basis: NDArray[np.float64] | None
    rows: Floats
    squares: Floats
    largest: float


def _distance_bound_rows(a: Floats, squares: Floats, rest: Floats) -> Floats:
    return np.column_stack([a, squares, np.ones(len(a), np.float32), rest])


def nearest(
    queries: NDArray[Any], references: NDArray[Any], k: int, *, same: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The k nearest references of every query in l2, exact; ties go to the lower number.

    Args:
        queries: (Q, d) of uint8, float32 or float64.
        references: (N, d) of the same type.
        k: how many, at most N (N − 1 where ``same``).
        same: whether both are one array; a row is then not its own neighbour.

    Returns:
        (distances, numbers), each (Q, k), nearest first.
    """
    elsewhere = execution.current().backend not in ("", "threads")
    rows = _BLOCK if elsewhere or same else max(len(queries), 1)
    tasks = [
        BlockPair(queries[q : q + rows], references[r : r + _BLOCK], q, r, k, same and q == r)
        for q in range(0, len(queries), rows)
        for r in range(0, len(references), _BLOCK)
    ]
    squared = np.full((len(queries), k), np.inf)
    numbers = np.full((len(queries), k), np.iinfo(np.int64).max)

    def merge(index: int, result: Nearest) -> None:
        first = tasks[index].first_query
        rows = slice(first, first + len(result[0]))
        near = np.concatenate([squared[rows], result[0]], axis=1)
        who = np.concatenate([numbers[rows], result[1]], axis=1)
        order = np.lexsort((who, near))[:, :k]
        squared[rows] = np.take_along_axis(near, order, axis=1)
        numbers[rows] = np.take_along_axis(who, order, axis=1)

    if elsewhere:
        execution.map_tasks(nearest_in_blocks, tasks, each=merge)
    else:  # the threads are inside
        for index, task in enumerate(tasks):
            merge(index, nearest_in_blocks(task))
    return np.sqrt(squared), numbers


def affordable_pairs(features: NDArray[Any], seconds: float) -> int:
    """About how many pairs of such rows :func:`nearest` compares in these seconds; no measurement, so repeatable.

    Example:
        >>> affordable_pairs(np.zeros((5, 50)), 10.0)
        500000000
    """
    speed = _PRODUCTS_PER_SECOND["u" if features.dtype == np.uint8 else "f"]
    return int(seconds * speed / (features[0].size + _PAIR_PRODUCTS))


@dataclass(frozen=True, slots=True)
class BlockPair:
    """Rows of queries and references that are compared, the numbers of their first rows, and how many to find."""

    queries: NDArray[Any]
    references: NDArray[Any]
    first_query: int
    first_reference: int
    k: int
    same: bool


def nearest_in_blocks(pair: BlockPair) -> Nearest:
    """Squared distances and numbers of the nearest references in one block, each (Q, k or all that there are)."""
    queries, references = pair.queries, pair.references
    k = min(pair.k, len(references) - int(pair.same))
    squared = np.full((len(queries), k), np.inf)
    numbers = np.full((len(queries), k), np.iinfo(np.int64).max)
    if k == 0:
        return squared, numbers
    bounds = _cheapest_distance_bounds(queries, references, np.rint(_mean_of_references(references)), k, pair.same)
    # Loose bounds are searched best first among all; those that are nearly distances tile by tile, in the cache.
    tile, size = (_TILE, _TILE_BYTES) if bounds.basis is None else (len(references), _QUERY_BYTES)
    tile = min(tile, len(references))
    step = max(1, size // (4 * tile))
    room = np.empty(min(step, len(queries)) * tile, np.float32)  # used again: fresh memory costs time
    for start in range(0, len(queries), step):
        rows = slice(start, min(start + step, len(queries)))
        mine = _query_bounds(queries[rows], bounds)
        for first in range(0, len(references), tile):
            block = slice(first, min(first + tile, len(references)))
            own = start - first if pair.same else _NONE
            _search_block_in_threads(
                mine, queries[rows], references, bounds, block, own, squared[rows], numbers[rows], room
            )
    return squared, np.where(np.isfinite(squared), numbers + pair.first_reference, numbers)


def _cheapest_distance_bounds(
    queries: NDArray[Any], references: NDArray[Any], centre: NDArray[np.float64], k: int, same: bool
) -> _Bounds:
    """The number of directions that makes the pilot's queries cheapest."""
    d, n = references.shape[1], len(references)
    plain = _distance_bounds(references, centre)
    if 4 * references.size <= _CENTRED_BYTES:
        plain = replace(plain, rows=_unprojected_bound_rows(references, plain, slice(0, n)))
    if d < 2 * _DIRECTIONS[0] or n < 4 * _SAMPLE or len(queries) < 4 * _PILOT:
        return plain
    rng = np.random.default_rng(0)  # decides how quick it is, never what comes out
    some = np.sort(rng.choice(len(queries), _PILOT, replace=False))
    sizes = [size for size in _DIRECTIONS if 2 * size <= d]
    basis = _leading_directions(references, centre, sizes[-1], rng)
    best, cheapest = plain, float(d)
    k += int(same)  # a pilot's query finds itself first
    everything = _distance_bounds(references, centre, basis)
    for size in sizes:
        bounds = everything if size == sizes[-1] else _bounds_with_fewer_directions(everything, size)
        result = np.full((_PILOT, k), np.inf), np.zeros((_PILOT, k), np.int64)
        mine = _query_bounds(queries[some], bounds)
        room = np.empty(_PILOT * n, np.float32)
        looked = _search_block_in_threads(
            mine, queries[some], references, bounds, slice(0, n), _NONE, *result, room
        )
        cost = size + _EXACT_COST * d * looked / (_PILOT * n)
        if cost < cheapest:
            best, cheapest = bounds, cost
    return best


def _leading_directions(
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


def _distance_bounds(
    x: NDArray[Any], centre: NDArray[np.float64], basis: NDArray[np.float64] | None = None
) -> _Bounds:
    """What bounds need of rows, for projections onto a basis; without one, their lengths alone."""
    a = np.empty((len(x), 0 if basis is None else basis.shape[1]), np.float32)
    totals = np.empty(len(x))
    for start in range(0, len(x), _ROWS_AT_ONCE):
        piece = x[start : start + _ROWS_AT_ONCE] - centre
        totals[start : start + _ROWS_AT_ONCE] = np.einsum("ij,ij->i", piece, piece)
        if basis is not None:
            a[start : start + _ROWS_AT_ONCE] = piece @ basis
    largest = float(np.sqrt(totals.max()))
    if basis is None:
        return _Bounds(centre, None, np.empty((0, 0), np.float32), totals.astype(np.float32), largest)
    inside = np.einsum("ij,ij->i", a, a, dtype=np.float64)
    rest = np.sqrt(np.maximum(totals - inside, 0.0))
    squares = (inside + rest**2).astype(np.float32)
    return _Bounds(centre, basis, _distance_bound_rows(a, squares, rest.astype(np.float32)), squares, largest)


def _bounds_with_fewer_directions(bounds: _Bounds, size: int) -> _Bounds:
    """The same with fewer directions; what they leave out joins the rest."""
    assert bounds.basis is not None
    a, left_out = bounds.rows[:, :size], bounds.rows[:, size:-3].astype(np.float64)
    rest = np.sqrt(bounds.rows[:, -1].astype(np.float64) ** 2 + np.einsum("ij,ij->i", left_out, left_out))
    rows = _distance_bound_rows(a, bounds.squares, rest.astype(np.float32))
    return replace(bounds, basis=bounds.basis[:, :size], rows=rows)


def _unprojected_bound_rows(references: NDArray[Any], bounds: _Bounds, rows: slice) -> Floats:
    a = (references[rows] - bounds.centre).astype(np.float32)
    return _distance_bound_rows(a, bounds.squares[rows], np.zeros(len(a), np.float32))


def _query_bounds(queries: NDArray[Any], bounds: _Bounds) -> _Bounds:
    """The rows of queries, by the same projection."""
    mine = _distance_bounds(queries, bounds.centre, bounds.basis)
    if bounds.basis is None:
        mine = replace(mine, rows=_unprojected_bound_rows(queries, mine, slice(0, len(queries))))
    rows = np.float32(-2.0) * mine.rows
    rows[:, -3], rows[:, -2] = 1.0, mine.squares
    return replace(mine, rows=rows)


def _lower_bounds(
    mine: _Bounds, references: NDArray[Any], bounds: _Bounds, block: slice, low: Floats
) -> NDArray[np.float32]:
    """Fill in bounds on squared distances (Q, rows of the block); give how far rounding may have lifted a row."""
    step = block.stop - block.start if len(bounds.rows) else _ROWS_AT_ONCE
    for start in range(block.start, block.stop, step):
        some = slice(start, min(start + step, block.stop))
        theirs = bounds.rows[some] if len(bounds.rows) else _unprojected_bound_rows(references, bounds, some)
        np.matmul(mine.rows, theirs.T, out=low[:, some.start - block.start : some.stop - block.start])
    # A float32 sum of `length` products is off by at most length·2⁻²⁴ times the sum of their sizes.
    reach = (np.sqrt(mine.squares.astype(np.float64)) + bounds.largest) ** 2
    return np.asarray((mine.rows.shape[1] + 16) * _UNIT * reach, dtype=np.float32)


def _mean_of_references(references: NDArray[Any]) -> NDArray[np.float64]:
    total = np.zeros(references.shape[1])
    for start in range(0, len(references), _ROWS_AT_ONCE):
        total += references[start : start + _ROWS_AT_ONCE].sum(axis=0, dtype=np.float64)
    return total / len(references)


def _search_block_in_threads(
    mine: _Bounds,
    queries: NDArray[Any],
    references: NDArray[Any],
    bounds: _Bounds,
    block: slice,
    own: int,
    squared: NDArray[np.float64],
    numbers: NDArray[np.int64],
    room: Floats,
) -> int:
    """Improve the k nearest so far by a block of the references; give how many pairs were computed in full."""
    low = room[: len(queries) * (block.stop - block.start)].reshape(len(queries), -1)
    slack = _lower_bounds(mine, references, bounds, block, low)
    theirs = references[block]

    def some(rows: slice) -> int:
        result = squared[rows], numbers[rows]
        return int(
            _search_queries(queries[rows], theirs, low[rows], slack[rows], own + rows.start, block.start, *result)
        )

    return sum(map_row_slices(some, len(queries)))
