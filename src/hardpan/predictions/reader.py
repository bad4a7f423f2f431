"""Where :class:`hardpan.Predictions` in memory are read from: an array, checked or converted row by row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.predictions.checks import Columns, check_logits, check_rows, normalized, softmax
from hardpan.predictions.layout import default_block


class ArrayReader:
    """Predictions in an array (seeds, epochs, examples, classes), or class numbers (seeds, epochs, examples).

    ``outputs`` is what the array contains: "probabilities", "logits", "labels" or "unnormalized" probabilities.
    """

    address = ""  # another process cannot open it

    def __init__(
        self,
        where: str,
        array: NDArray[Any],
        outputs: str,
        columns: Columns,
        *,
        n_classes: int,
        seeds: tuple[int, ...],
        epochs: tuple[int, ...],
        models: tuple[str, ...] = (),
        pairs: frozenset[tuple[int, int]] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.where, self._values, self.outputs, self._columns = where, array, outputs, columns
        self._seeds, self._epochs, self._models = seeds, epochs, models
        self._pairs = pairs
        self.class_names, self.n_classes = columns.class_names, n_classes
        self.dtype = array.dtype if outputs == "probabilities" else np.dtype(np.float32)
        self.block = default_block(len(self), n_classes, self.dtype.itemsize)
        self.config = dict(config or {})
        self.versions: Mapping[str, str] = {}

    @property
    def array(self) -> NDArray[Any] | None:
        """The probabilities themselves, (seeds, epochs, examples, classes), where nothing has to be converted."""
        in_order = self._seeds == tuple(sorted(self._seeds)) and self._epochs == tuple(sorted(self._epochs))
        return self._values if self.outputs == "probabilities" and self._pairs is None and in_order else None

    def column(self, name: str) -> Any:
        """Ids, labels or split, shape (N,), or None."""
        return getattr(self._columns, name)

    def __len__(self) -> int:
        return int(self._values.shape[2])

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds, in order."""
        return tuple(sorted(self._seeds))

    def model_names(self) -> Mapping[int, str]:
        """Names of the seeds, where they have any."""
        return dict(zip(self._seeds, self._models, strict=True)) if self._models else {}

    def epochs_of(self, seed: int) -> tuple[int, ...]:
        """The epochs of a seed, in order."""
        if seed not in self._seeds:
            return ()
        return tuple(epoch for epoch in sorted(self._epochs) if self._pairs is None or (seed, epoch) in self._pairs)

    def committed(self, seed: int, epoch: int) -> bool:
        """Whether the array has this seed and epoch."""
        return epoch in self.epochs_of(seed)

    def read_rows(self, seed: int, epoch: int, start: int, stop: int) -> NDArray[Any]:
        """Probabilities of rows start..stop, checked or converted."""
        rows = np.ascontiguousarray(self._values[self._seeds.index(seed), self._epochs.index(epoch), start:stop])
        what = f"{self.where}: seed {seed} epoch {epoch}"

        def name(row: int) -> str:
            return str(self._columns.ids[start + row])

        if self.outputs == "labels":
            one_hot: NDArray[np.bool_] = rows[:, None] == np.arange(self.n_classes)
            return one_hot.astype(np.float32)
        if self.outputs == "unnormalized":
            return normalized(what, rows, name)
        if self.outputs == "logits":
            check_logits(what, rows, name)
            return softmax(rows)
        check_rows(what, rows, name)
        return rows
