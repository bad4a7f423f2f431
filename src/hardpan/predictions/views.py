"""Views of predictions: some rows, seeds and epochs, perhaps with other columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError
from hardpan.predictions.checks import common_epochs
from hardpan.predictions.predictions import Predictions


class View(Predictions):
    """Some rows, seeds and epochs of other predictions, perhaps with other columns; made by select and align.

    ``classes`` are the columns of the base in the order of this view's classes.
    """

    def __init__(
        self,
        base: Predictions,
        rows: NDArray[np.int64] | None = None,
        *,
        seeds: Sequence[int] | None = None,
        epochs: Sequence[int] | None = None,
        columns: Mapping[str, Any] | None = None,
        rows_of: NDArray[np.int64] | None = None,
        classes: NDArray[np.int64] | None = None,
        where: str = "",
    ) -> None:
        self.base, self._rows, self.where = base, rows, where or base.where
        self.n_classes, self.dtype, self.block = base.n_classes, base.dtype, base.block
        self.config, self.versions = base.config, base.versions
        self.outputs, self.relabelled = base.outputs, base.relabelled
        self._columns = dict(columns or {})
        self.class_names = tuple(self._columns.get("class_names", base.class_names))
        self._rows_of, self._classes = rows_of, classes
        self._seeds = None if seeds is None else _each_once(base, "seeds", seeds, base.seeds)
        common = base.epochs
        if epochs is not None and self._seeds is not None:
            common = common_epochs({seed: base.epochs_of(seed) for seed in self._seeds})
        self._epochs = None if epochs is None else _each_once(base, "epochs", epochs, common)

    def _column(self, name: str) -> Any:
        if name in self._columns:
            return self._columns[name]
        values = getattr(self.base, name)
        return values if values is None or self._rows is None else values[self._rows]

    @property
    def all_rows(self) -> bool:
        """Whether it has every row of its base, in order."""
        return self._rows is None

    @property
    def rows(self) -> NDArray[np.int64]:
        """(n,) row of each example in the dataset that was aligned to."""
        if self._rows_of is not None:
            return self._rows_of
        return self.base.rows if self._rows is None else self.base.rows[self._rows]

    def __len__(self) -> int:
        return len(self.base) if self._rows is None else len(self._rows)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds, in order."""
        return self.base.seeds if self._seeds is None else self._seeds

    def _model_names(self) -> Mapping[int, str]:
        return self.base._model_names()

    @property
    def epochs(self) -> tuple[int, ...]:
        """The epochs that every seed has, or those that were selected."""
        return super().epochs if self._epochs is None else self._epochs

    def epochs_of(self, seed: int) -> tuple[int, ...]:
        """The epochs of a seed, in order."""
        if seed not in self.seeds:
            return ()
        return self.base.epochs_of(seed) if self._epochs is None else self._epochs

    def _read(self, seed: int, epoch: int, start: int, stop: int) -> NDArray[Any]:
        rows = self._base_rows(seed, epoch, start, stop)
        return rows if self._classes is None else rows[:, self._classes]

    def _base_rows(self, seed: int, epoch: int, start: int, stop: int) -> NDArray[Any]:
        if self._rows is None:
            return self.base.read(seed, epoch, start, stop)
        rows = self._rows[start:stop]
        result = np.empty((len(rows), self.n_classes), dtype=self.dtype)
        blocks = rows // self.base.block
        for block in np.unique(blocks).tolist():  # each block of the base is read once
            here = blocks == block
            first, last = int(rows[here].min()), int(rows[here].max())
            result[here] = self.base.read(seed, epoch, first, last + 1)[rows[here] - first]
        return result


def _each_once(base: Predictions, what: str, values: Sequence[int], known: Sequence[int]) -> tuple[int, ...]:
    numbers = np.atleast_1d(np.asarray(values))
    if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iu":
        raise InputError(f"must be whole numbers such as [0, 1, 2]; got {values!r}", argument=what)
    result = tuple(numbers.tolist())
    absent = next((number for number in result if number not in known), None)
    if absent is not None:
        listed = ", ".join(map(str, known)) or "none"
        raise InputError(f": {base.where} has no {what[:-1]} {absent}; it has {listed}", argument=what)
    if len(set(result)) < len(result):
        raise InputError(f"must name each number once; got {', '.join(map(str, result))}", argument=what)
    return result
