"""The one split of a dataset into train, validation and test that every part of hardpan uses."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hardpan.data.dataset import Dataset, Split
from hardpan.data.ids import content_of
from hardpan.errors import InputError

VALIDATION_OF_TRAIN = 0.1
WITHOUT_SPLIT = (0.6, 0.2, 0.2)


def split(dataset: Dataset, seed: int = 0) -> Split:
    """Split a dataset by the hash of each example's id, so that the order of the rows does not matter.

    An official test set stays the test set, and 10 % of train become validation, unless the set names its own
    validation examples. A set without a split is cut 60/20/20. Examples are ranked by sha256 of "seed:id" and
    cut at the exact fractions; exact repeats (ids that end in "-2", "-3") go where their first example goes, so
    that no copy of a training example is tested on.

    Args:
        dataset: N examples with ids.
        seed: another seed chooses other examples (never other official test examples).

    Returns:
        Row numbers of the three parts, each in rising order; together they are 0..N-1.

    Example:
        >>> from hardpan import datasets
        >>> parts = split(datasets.load("digits"), seed=1)
        >>> len(parts.train), len(parts.validation), len(parts.test)
        (1078, 360, 359)
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0; got {seed!r}")
    rows = np.arange(len(dataset))
    if dataset.split is None:
        train, validation, test = _cut(dataset.ids, rows, int(seed), WITHOUT_SPLIT)
        method = "60/20/20 by hash of (id, seed)"
    elif (dataset.split == "validation").any():
        train, validation, test = (rows[dataset.split == part] for part in ("train", "validation", "test"))
        method = "official train, validation and test sets"
    else:
        test = rows[dataset.split == "test"]
        shares = (1 - VALIDATION_OF_TRAIN, VALIDATION_OF_TRAIN)
        train, validation = _cut(dataset.ids, rows[dataset.split != "test"], int(seed), shares)
        method = "official test set; validation is 10 % of train by hash of (id, seed)"
    return Split(train, validation, test, method, int(seed))


def _cut(
    ids: NDArray[np.str_], rows: NDArray[np.int64], seed: int, shares: Sequence[float]
) -> list[NDArray[np.int64]]:
    """Cut ``rows`` into parts of the given shares, in the order of their hashes, repeats kept together."""
    groups: dict[str, list[int]] = {}
    for row in rows.tolist():
        groups.setdefault(content_of(str(ids[row])), []).append(row)
    ranked = sorted(groups, key=lambda name: (_rank(name, seed), name))
    edges = np.round(np.cumsum(shares) * len(rows)).astype(int)
    parts: list[list[int]] = [[] for _ in shares]
    placed = 0
    for name in ranked:
        # A group belongs where its first example falls; searchsorted counts the edges at or below it.
        part = int(np.searchsorted(edges[:-1], placed, side="right"))
        parts[part].extend(groups[name])
        placed += len(groups[name])
    return [np.array(sorted(part), dtype=np.int64) for part in parts]


def _rank(name: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()
