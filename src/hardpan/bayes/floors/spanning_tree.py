"""The Henze–Penrose bounds of the Bayes error from a minimal spanning tree (Friedman and Rafsky)."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import arguments
from hardpan.bayes.floors.error_estimates import (
    Labels,
    compare_with_half,
    cover_hart,
    estimate_of_bound,
    proportion_estimate,
)
from hardpan.bayes.floors.inputs import FloorInputs, half_of_rows
from hardpan.bayes.floors.verdict import Entry
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record

MOST_POINTS = 10_000  # the distances of so many points take 0.4 GB
PARTS = 8
FINITE_SAMPLE = (
    "With finitely many examples the proportion of edges between classes is above its limit, so the lower end may "
    "lie above the Bayes error; both ends are only as good as the assumption."
)
_ROWS_AT_ONCE = 1024


@record
class TreeBounds:
    """The Henze–Penrose bounds of the Bayes error.

    Attributes:
        lower: the lower end.
        upper: the upper end, the share of edges that join two classes (less the K − 1 that any tree needs): for
            many examples the error of the nearest neighbour.
    """

    lower: Estimate
    upper: Estimate


def henze_penrose(
    x: ArrayLike,
    labels: ArrayLike,
    *,
    n_classes: int | None = None,
    most: int = MOST_POINTS,
    confidence: float = 0.95,
    seed: int = 0,
) -> TreeBounds:
    """Bound the Bayes error by how many edges of a minimal spanning tree join two classes.

    With R such edges (K − 1 of them are taken off: any tree has to join the classes) among n examples,
    R/n → 2 Σ_{i<j} δ_ij, the sum over pairs of the generalised Henze–Penrose divergences
    δ_ij = ∫ π_i p_i π_j p_j / Σ_k π_k p_k. Then (K−1)/K · (1 − √(1 − K/(K−1) · 2Σδ)) ≤ E ≤ 2Σδ.
    The standard error comes from the trees of eight disjoint parts, whose statistics are independent.

    Args:
        x: (n, ...) features or images.
        labels: (n,) class numbers.
        n_classes: K of the bound; by default one more than the highest label.
        most: with more examples, a tree of so many drawn without replacement (the estimate's ``method`` says so).
        seed: of the sample and of the parts.

    Source: Sekeh, Oselio and Hero, "Learning to bound the multi-class Bayes error" (2020); for two classes Berisha,
    Wisler, Hero and Spanias (2016).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 2, 3000)
        >>> found = henze_penrose(rng.normal(2.0 * y, 1.0)[:, None], y)     # Bayes error 0.159
        >>> found.lower.low < 0.159 < found.upper.high
        True
    """
    rows = arguments.features("x", x)
    classes = arguments.labels("labels", labels, len(rows))
    k = arguments.class_count(n_classes, classes)
    arguments.whole_number("most", most, 3)
    total = len(rows)
    order = np.random.default_rng([seed, 0]).permutation(total)[:most]
    rows, classes = rows[order], classes[order]
    n = len(rows)
    if n < 3:
        raise InputError(f"must have at least 3 examples for a tree; got {n}", argument="x")
    share = _share_of_mixed_edges(*minimal_spanning_tree(rows), classes)
    stderr, df = _tree_standard_error(rows, classes, share)
    sample = "" if n == total else f" of {n:,} drawn from {total:,}"
    method = f"edges between classes in the minimal spanning tree{sample}"
    upper = proportion_estimate(
        min(1.0, share),
        stderr,
        n,
        method=f"Henze–Penrose: {method}",
        confidence=confidence,
        df=df,
        notes=(FINITE_SAMPLE,),
        seed=seed,
    )
    lower = estimate_of_bound(
        upper, lambda e: cover_hart(e, k), f"Henze–Penrose lower bound: {method}", (FINITE_SAMPLE,)
    )
    return TreeBounds(lower, upper)


def minimal_spanning_tree(x: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The n − 1 edges of the Euclidean minimal spanning tree: both ends and lengths, by Prim's algorithm.

    All distances are held in single precision (4 n² bytes); after that a step is one pass over one row of them.

    Args:
        x: (n, ...) features or images.

    Example:
        >>> source, target, lengths = minimal_spanning_tree([[0.0], [5.0], [1.0], [3.0]])
        >>> sorted(lengths.round(4).tolist())
        [1.0, 2.0, 2.0]
    """
    squares, scale = _squared_distances(arguments.features("x", x))
    n = len(squares)
    source, target = np.empty(n - 1, dtype=np.int64), np.empty(n - 1, dtype=np.int64)
    lengths = np.empty(n - 1)
    _compiled_growth()(squares, source, target, lengths)
    return source, target, scale * np.sqrt(lengths)


@functools.cache
def _compiled_growth() -> Any:
    """:func:`_grow_tree`, compiled by numba, which is imported only where a tree is grown."""
    from hardpan.execution.compiling import compiled

    return compiled(nogil=True)(_grow_tree)


def _grow_tree(squares: Any, source: Any, target: Any, lengths: Any) -> None:
    """Prim's algorithm: grow the tree from point 0, one point per step, the one outside that is nearest to it.

    One pass over the points outside does it all: take the distances to the newest point of the tree, keep the
    smaller, and find the nearest of all, the first of equals.

    Args:
        squares: (n, n) squared distances; negative ones are rounding, and count as 0.
        source: (n − 1,) to be filled: where each edge begins, and ``target`` where it ends.
        lengths: (n − 1,) to be filled with the squared lengths.
    """
    n = len(squares)
    # Points outside the tree, with the distance to it and the point of it that is nearest; they become fewer.
    outside = np.arange(1, n).astype(np.int32)
    reach = np.full(n - 1, np.inf, dtype=squares.dtype)
    parent = np.zeros(n - 1, dtype=np.int32)
    new = 0
    for step in range(n - 1):
        row = squares[new]
        at, best = 0, reach.dtype.type(np.inf)
        for position in range(n - 1 - step):
            near = reach[position]
            result = max(row[outside[position]], reach.dtype.type(0))
            if result < near:
                near = result
                reach[position] = result
                parent[position] = new
            if near < best:
                at, best = position, near
        new = outside[at]
        source[step], target[step], lengths[step] = parent[at], new, best
        last = n - 2 - step
        outside[at], reach[at], parent[at] = outside[last], reach[last], parent[last]


def _squared_distances(rows: NDArray[Any]) -> tuple[NDArray[np.float32], float]:
    """Squared distances (n, n) in units of the largest coordinate, below 0 where rounding says so, and the unit."""
    dtype = np.result_type(rows.dtype, np.float32)
    # Distances come from |a|² − 2ab + |b|², which keeps its digits only near the origin.
    near = rows.astype(dtype) - rows.mean(axis=0, dtype=np.float64).astype(dtype)
    # A common scale keeps the squares inside single precision.
    scale = max(float(np.abs(near).max()), float(np.finfo(dtype).tiny))
    near /= scale
    lengths = np.einsum("ij,ij->i", near, near)
    ones = np.ones_like(lengths)
    # Two columns more each, and one product gives |a|² − 2ab + |b|².
    left, right = np.column_stack([-2 * near, ones, lengths]), np.column_stack([near, lengths, ones])
    result = np.empty((len(near), len(near)), dtype=np.float32)
    for start in range(0, len(near), _ROWS_AT_ONCE):
        rows_here = slice(start, start + _ROWS_AT_ONCE)
        np.matmul(left[rows_here], right.T, out=result[rows_here], casting="same_kind")
    return result, scale


def _share_of_mixed_edges(
    source: NDArray[np.int64], target: NDArray[np.int64], lengths: NDArray[np.float64], classes: Labels
) -> float:
    mixed = int((classes[source] != classes[target]).sum())
    return max(0, mixed - (len(np.unique(classes)) - 1)) / len(classes)


def _tree_standard_error(rows: NDArray[Any], classes: Labels, share: float) -> tuple[float, int]:
    """Standard error of the share of mixed edges and its degrees of freedom, from disjoint parts of the sample."""
    n = len(rows)
    parts = min(PARTS, n // 50)
    if parts < 2:
        return float(np.sqrt(max(share * (1 - share), 1 / n) / n)), 0
    shares = []
    for number in range(parts):
        inside = slice(number, None, parts)
        shares.append(_share_of_mixed_edges(*minimal_spanning_tree(rows[inside]), classes[inside]))
    # No edge between classes in any part does not make the answer exact: one edge more or less is always possible.
    return max(float(np.std(shares, ddof=1)) / float(np.sqrt(parts)), 1 / n / 2), parts - 1


def spanning_tree_entries(inputs: FloorInputs, assumption: str, confidence: float, seed: int) -> Iterator[Entry]:
    """The Henze–Penrose bounds by the minimal spanning tree of the training examples."""
    x, y, _, _ = inputs.train_and_test()

    def bounds(rows: Labels) -> TreeBounds:
        return henze_penrose(x[rows], y[rows], n_classes=inputs.dataset.n_classes, confidence=confidence, seed=seed)

    full, half = bounds(np.arange(len(y))), bounds(half_of_rows(len(y), seed))
    lower, upper = compare_with_half(half.lower, full.lower), compare_with_half(half.upper, full.upper)
    yield Entry("Spanning-tree lower bound", "lower", full.lower, assumption, moving=lower)
    yield Entry("Spanning-tree upper bound", "upper", full.upper, assumption, moving=upper)
