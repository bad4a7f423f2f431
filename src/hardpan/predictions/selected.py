"""Predictions for some of the examples of others: those that a subset's manifest names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.data.opening import SEPARATOR, subset_rows
from hardpan.predictions.predictions import Predictions


class SelectedPredictions(Predictions):
    """A view of other predictions that shows some of their rows and reads only the blocks that hold them.

    Example:
        >>> from hardpan.predictions.memory import in_memory
        >>> all_of_them = in_memory(np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]]), ids=["a", "b", "c"])
        >>> hard = SelectedPredictions(all_of_them, np.array([0, 2]))
        >>> hard.ids.tolist(), hard.read(seed=0, epoch=0, start=1).tolist()
        (['a', 'c'], [[0.5, 0.5]])
    """

    def __init__(self, whole: Predictions, rows: NDArray[np.int64], where: str = "") -> None:
        self._whole, self._rows = whole, rows
        self._where = where or whole.where

    @property
    def where(self) -> str:
        """Where all of them lie, and what chose among them."""
        return self._where

    @property
    def ids(self) -> NDArray[np.str_]:
        """Ids of the chosen examples, shape (n,)."""
        return self._whole.ids[self._rows]

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """Class numbers, shape (n,), or None."""
        return None if self._whole.labels is None else self._whole.labels[self._rows]

    @property
    def split(self) -> NDArray[np.str_] | None:
        """ "train", "validation" or "test" of each chosen example, shape (n,), or None."""
        return None if self._whole.split is None else self._whole.split[self._rows]

    @property
    def class_names(self) -> tuple[str, ...]:
        """The C names, or nothing."""
        return self._whole.class_names

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return self._whole.n_classes

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers that :meth:`read` gives."""
        return self._whole.dtype

    @property
    def block(self) -> int:
        """Rows to be read at once."""
        return self._whole.block

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration that made the predictions."""
        return self._whole.config

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of what wrote them."""
        return self._whole.versions

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds, in order."""
        return self._whole.seeds

    def epochs_of(self, seed: int) -> tuple[int, ...]:
        """The epochs of a seed, in order."""
        return self._whole.epochs_of(seed)

    def _read(self, seed: int, epoch: int, start: int, stop: int) -> NDArray[Any]:
        rows = self._rows[start:stop]
        found = np.empty((len(rows), self.n_classes), dtype=self.dtype)
        # Rows rise, so those of one block of the whole are neighbours here: each block is read once.
        blocks = rows // self._whole.block
        for block in np.unique(blocks).tolist():
            here = blocks == block
            first, last = int(rows[here][0]), int(rows[here][-1])
            found[here] = self._whole.read(seed, epoch, first, last + 1)[rows[here] - first]
        return found


def select(whole: Predictions, manifest: str | os.PathLike[str]) -> SelectedPredictions:
    """Only the examples that a manifest names, in the order of the predictions.

    Args:
        whole: predictions that hold every id of the manifest.
        manifest: path of a subset that hardpan wrote.
    """
    path = os.fspath(manifest)
    return SelectedPredictions(whole, subset_rows(path, whole.ids), f"{whole.where}{SEPARATOR}{path}")
