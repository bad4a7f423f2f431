"""Row numbers of an epoch: all rows, every group as often, or every group cut to the smallest.

Each is a function of (groups, seed, epoch) alone, so a run that resumes sees what it would have seen.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
_SUBSET, _ORDER = 1, 2  # streams of one seed that must not be the same


def shuffled(n: int, *, seed: int, epoch: int) -> Rows:
    """All rows in a new order.

    Example:
        >>> sorted(shuffled(4, seed=0, epoch=1).tolist())
        [0, 1, 2, 3]
    """
    return np.random.default_rng([seed, _ORDER, epoch]).permutation(n)


def upsampled(groups: Rows, *, seed: int, epoch: int) -> Rows:
    """As many rows as there are, every group as often as any other (up to one row), in random order.

    A group is gone through as a whole as often as its share allows and the remainder is drawn without repeats, so
    no example is seen twice more than another of its group. An epoch costs what it costs without groups.

    Example:
        >>> rows = upsampled(np.array([0, 0, 0, 0, 0, 1]), seed=0, epoch=0)
        >>> np.bincount(np.array([0, 0, 0, 0, 0, 1])[rows]).tolist()
        [3, 3]
    """
    rng = np.random.default_rng([seed, _ORDER, epoch])
    count = int(groups.max()) + 1
    shares = np.full(count, len(groups) // count)
    shares[rng.permutation(count)[: len(groups) % count]] += 1  # the odd rows go to other groups in other epochs
    chosen = []
    for group, share in enumerate(shares.tolist()):
        members = np.flatnonzero(groups == group)
        whole, rest = divmod(share, len(members))
        chosen += [np.tile(members, whole), rng.permutation(members)[:rest]]
    return rng.permutation(np.concatenate(chosen))


def subsampled(groups: Rows, *, seed: int, epoch: int, fresh: bool = False) -> Rows:
    """Every group cut to the size of the smallest, in random order.

    The rows that stay are the same in all epochs; with ``fresh`` they are drawn again for each, so that in time all
    are seen. An epoch has G · min n_g rows: give more epochs where runs should cost the same.

    Example:
        >>> len(subsampled(np.array([0, 0, 0, 0, 1, 1]), seed=0, epoch=0))
        4
    """
    drawing = np.random.default_rng([seed, _SUBSET, epoch if fresh else 0])
    smallest = int(np.bincount(groups).min())
    chosen = [
        drawing.permutation(np.flatnonzero(groups == group))[:smallest] for group in range(int(groups.max()) + 1)
    ]
    return np.random.default_rng([seed, _ORDER, epoch]).permutation(np.sort(np.concatenate(chosen)))
