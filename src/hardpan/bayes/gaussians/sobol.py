"""Scrambled Sobol sequences in up to 32 dimensions: the points of ``scipy.stats.qmc.Sobol``, to the bit.

Importing ``scipy.stats`` takes longer than most computations of this package, so the sequence is computed here.
Direction numbers: Joe and Kuo (2008); scrambling: a random lower triangular matrix and a digital shift per
dimension (Matoušek 1998).
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from hardpan.bayes.gaussians.problem import Float

BITS = 30
_Bits = NDArray[np.uint32]

# Primitive polynomial of each dimension, and its first direction numbers.
_DIRECTIONS: tuple[tuple[int, tuple[int, ...]], ...] = (
    (1, ()), (3, (1,)), (7, (1, 3)), (11, (1, 3, 1)), (13, (1, 1, 1)), (19, (1, 1, 3, 3)), (25, (1, 3, 5, 13)),
    (37, (1, 1, 5, 5, 17)), (41, (1, 1, 5, 5, 5)), (47, (1, 1, 7, 11, 19)), (55, (1, 1, 5, 1, 1)),
    (59, (1, 1, 1, 3, 11)), (61, (1, 3, 5, 5, 31)), (67, (1, 3, 3, 9, 7, 49)), (91, (1, 1, 1, 15, 21, 21)),
    (97, (1, 3, 1, 13, 27, 49)), (103, (1, 1, 1, 15, 7, 5)), (109, (1, 3, 1, 15, 13, 25)),
    (115, (1, 1, 5, 5, 19, 61)), (131, (1, 3, 7, 11, 23, 15, 103)), (137, (1, 3, 7, 13, 13, 15, 69)),
    (143, (1, 1, 3, 13, 7, 35, 63)), (145, (1, 3, 5, 9, 1, 25, 53)), (157, (1, 3, 1, 13, 9, 35, 107)),
    (167, (1, 3, 1, 5, 27, 61, 31)), (171, (1, 1, 5, 11, 19, 41, 61)), (185, (1, 3, 5, 3, 3, 13, 69)),
    (191, (1, 1, 7, 13, 1, 19, 1)), (193, (1, 3, 7, 5, 13, 19, 59)), (203, (1, 1, 3, 9, 25, 29, 41)),
    (211, (1, 3, 5, 13, 23, 1, 55)), (213, (1, 3, 7, 3, 13, 59, 17)),
)  # fmt: skip
MOST_DIMENSIONS = len(_DIRECTIONS)


class Sobol:
    """A scrambled Sobol sequence in (0, 1)^d, 30 bits per coordinate.

    Args:
        dimensions: d, at most 32.
        generator: of the scrambling.

    Example:
        >>> points = Sobol(2, np.random.default_rng(0)).random(4)
        >>> np.sort((points * 4).astype(int), axis=0).tolist()  # one point in each quarter of every axis
        [[0, 0], [1, 1], [2, 2], [3, 3]]
    """

    def __init__(self, dimensions: int, generator: np.random.Generator) -> None:
        powers = np.uint32(1) << np.arange(BITS, dtype=np.uint32)
        flips = generator.integers(2, size=(dimensions, BITS), dtype=np.uint32)
        self._point: _Bits = (flips * powers).sum(axis=1, dtype=np.uint32)
        lower = np.tril(generator.integers(2, size=(dimensions, BITS, BITS), dtype=np.uint32))
        lower[:, np.arange(BITS), np.arange(BITS)] = 1
        columns = _direction_numbers()[:dimensions]
        # Bit p of a scrambled column is the parity of row p of the matrix and the column, bits from the highest.
        digits = (columns[:, :, None] >> _shifts()) & np.uint32(1)
        mixed = np.einsum("dpk,djk->djp", lower.astype(np.int64), digits.astype(np.int64)) & 1
        self._columns: _Bits = (mixed.astype(np.uint32) << _shifts()).sum(axis=2, dtype=np.uint32)
        self._count = 0

    def random(self, n: int) -> Float:
        """The next n points, (n, d)."""
        points = np.empty((n, len(self._point)), dtype=np.uint32)
        if n:
            # Point i differs from the one before by the column of the lowest zero bit of i − 1 (Gray code).
            numbers = np.arange(self._count, self._count + n, dtype=np.int64) - 1
            lowest = np.log2(np.maximum(~numbers & (numbers + 1), 1)).astype(np.intp)
            points[:] = self._columns.T[lowest]
            if self._count == 0:
                points[0] = 0
            points[0] ^= self._point
            np.bitwise_xor.accumulate(points, axis=0, out=points)
            self._point = points[-1].copy()
            self._count += n
        return np.asarray(points * 2.0**-BITS)


def _shifts() -> _Bits:
    """Shifts of the bits of a number, highest first."""
    return np.arange(BITS - 1, -1, -1, dtype=np.uint32)


@functools.lru_cache(maxsize=1)
def _direction_numbers() -> _Bits:
    """(32, 30) direction numbers, by the recurrence of Bratley and Fox (1988)."""
    table = np.ones((MOST_DIMENSIONS, BITS), dtype=np.uint32)
    for row, (polynomial, first) in zip(table[1:], _DIRECTIONS[1:], strict=True):
        degree = len(first)
        values = list(first)
        for j in range(degree, BITS):
            value = values[j - degree]
            for k in range(degree):
                if (polynomial >> (degree - 1 - k)) & 1:
                    value ^= values[j - k - 1] << (k + 1)
            values.append(value)
        row[:] = values
    return np.asarray(table << _shifts())
