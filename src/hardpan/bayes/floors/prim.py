"""The inner loop of Prim's algorithm, compiled: imported only where a tree is grown."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardpan.execution.compiling import compiled


@compiled(nogil=True)
def grow(squares: Any, source: Any, target: Any, lengths: Any) -> None:
    """Grow the tree from point 0, one point per step: the one outside that is nearest to it.

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
