"""Compiled loops on every core: they let go of Python's lock, so plain threads share the rows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numba

T = TypeVar("T")


def in_threads(function: Callable[[slice], T], rows: int) -> list[T]:
    """Call ``function`` with slices that cover the rows, one a thread; NUMBA_NUM_THREADS says how many.

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
