"""A dataset, and its split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.files import record


@record
@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Examples with ids, and what is known of them.

    Attributes:
        name: what to call the set.
        x: images (N, H, W) or (N, H, W, C), or feature vectors (N, d).
        ids: (N,) strings, each once.
        labels: (N,) class numbers in 0..C-1, or None.
        class_names: the C names.
        split: (N,) "train", "test" or "validation" where the set has an official split, else None.
        metadata: further columns of length N (sub-class, source, votes, ...).
        source: where it came from.
    """

    name: str
    x: NDArray[Any]
    ids: NDArray[np.str_]
    labels: NDArray[np.int64] | None = None
    class_names: tuple[str, ...] = ()
    split: NDArray[np.str_] | None = None
    metadata: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    source: str = ""

    def __len__(self) -> int:
        return len(self.x)

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return len(self.class_names)

    def features(self) -> NDArray[np.float64]:
        """Every example as a flat vector of float64, shape (N, d)."""
        return self.x.reshape(len(self.x), -1).astype(np.float64)


@record
@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Row numbers of the three disjoint parts of a dataset, and how they were chosen."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]
    method: str
    seed: int
