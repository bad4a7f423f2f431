"""What every set of predictions can do, wherever it lies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.errors import InputError


class Predictions(ABC):
    """Class probabilities of M seeds × T epochs × N examples × C classes, with the ids of the examples.

    It is read one (seed, epoch) at a time, whole or a range of rows, so that it may be larger than memory.
    """

    @property
    @abstractmethod
    def where(self) -> str:
        """Where it lies, for messages."""

    @property
    @abstractmethod
    def ids(self) -> NDArray[np.str_]:
        """Ids of the examples, shape (N,)."""

    @property
    @abstractmethod
    def labels(self) -> NDArray[np.int64] | None:
        """Class numbers, shape (N,), or None."""

    @property
    @abstractmethod
    def split(self) -> NDArray[np.str_] | None:
        """ "train", "validation" or "test" of each example, shape (N,), or None."""

    @property
    @abstractmethod
    def class_names(self) -> tuple[str, ...]:
        """The C names, or nothing."""

    @property
    @abstractmethod
    def n_classes(self) -> int:
        """How many classes there are."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers that :meth:`read` gives."""

    @property
    @abstractmethod
    def block(self) -> int:
        """Rows that lie together: ranges that begin at a multiple of it are read fastest."""

    @property
    @abstractmethod
    def config(self) -> Mapping[str, Any]:
        """The configuration that made the predictions."""

    @property
    @abstractmethod
    def versions(self) -> Mapping[str, str]:
        """Versions of what wrote them."""

    @abstractmethod
    def __len__(self) -> int:
        """How many examples there are."""

    @abstractmethod
    def epochs_of(self, seed: int) -> tuple[int, ...]:
        """The epochs that are there whole for one seed, in order."""

    @property
    @abstractmethod
    def seeds(self) -> tuple[int, ...]:
        """The seeds with at least one whole epoch, in order."""

    @abstractmethod
    def _read(self, seed: int, epoch: int, start: int, stop: int) -> NDArray[Any]: ...

    @property
    def epochs(self) -> tuple[int, ...]:
        """The epochs that are there whole for every seed, in order."""
        seeds = self.seeds
        common = set(self.epochs_of(seeds[0])) if seeds else set()
        for seed in seeds[1:]:
            common &= set(self.epochs_of(seed))
        return tuple(sorted(common))

    def committed(self, seed: int, epoch: int) -> bool:
        """Whether the predictions of this seed and epoch are there for every example."""
        return epoch in self.epochs_of(seed)

    def read(self, seed: int, epoch: int, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Probabilities of rows start..stop of one seed and epoch, shape (stop − start, C), as stored."""
        end = len(self) if stop is None else stop
        if not 0 <= start <= end <= len(self):
            raise InputError(f"{self.where}: rows {start}..{end} are not within 0..{len(self)}")
        if not self.committed(seed, epoch):
            held = ", ".join(map(str, self.epochs_of(seed))) or "none"
            raise InputError(f"{self.where}: seed {seed} epoch {epoch} is not there; epochs of that seed: {held}")
        return self._read(seed, epoch, start, end)

    def write(self, seed: int, epoch: int, probs: ArrayLike, start: int = 0) -> None:
        """Record rows of one seed and epoch; only a store on disk can."""
        raise InputError(f"{self.where}: can only be read; make a store with hardpan.predictions.create")

    def blocks(self) -> Iterator[tuple[int, int]]:
        """The ranges (start, stop) of rows that lie together, in order."""
        for start in range(0, len(self), self.block):
            yield start, min(start + self.block, len(self))

    def to_array(
        self, seeds: Sequence[int] | None = None, epochs: Sequence[int] | None = None, *, rows: Any = slice(None)
    ) -> NDArray[Any]:
        """Everything in memory, shape (seeds, epochs, examples, classes); for small sets."""
        chosen = self.seeds if seeds is None else tuple(seeds)
        common = self.epochs if epochs is None else tuple(epochs)
        return np.stack([np.stack([self.read(seed, epoch)[rows] for epoch in common]) for seed in chosen])

    def __repr__(self) -> str:
        return (
            f"Predictions({self.where!r}, seeds={list(self.seeds)}, epochs={len(self.epochs)}, "
            f"examples={len(self)}, classes={self.n_classes}, {self.dtype})"
        )
