"""Predictions that lie in an array: in memory, or a mapped .npy file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.errors import InputError
from hardpan.predictions import columns
from hardpan.predictions.layout import default_block
from hardpan.predictions.predictions import Predictions
from hardpan.predictions.rows import Outputs, check_logits, check_rows, detect, softmax

_SAMPLE = 4096


class ArrayPredictions(Predictions):
    """Predictions in an array (seeds, epochs, examples, classes); :func:`in_memory` gives one."""

    def __init__(
        self,
        where: str,
        array: NDArray[Any],
        outputs: Outputs,
        seeds: tuple[int, ...],
        epochs: tuple[int, ...],
        described: columns.Described,
    ) -> None:
        self._where, self._values, self._outputs = where, array, outputs
        self._seeds, self._epochs, self._described = seeds, epochs, described

    @property
    def where(self) -> str:
        """Where it lies."""
        return self._where

    @property
    def ids(self) -> NDArray[np.str_]:
        """Ids of the examples, shape (N,)."""
        return self._described.ids

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """Class numbers, shape (N,), or None."""
        return self._described.labels

    @property
    def split(self) -> NDArray[np.str_] | None:
        """ "train", "validation" or "test" of each example, shape (N,), or None."""
        return self._described.split

    @property
    def class_names(self) -> tuple[str, ...]:
        """The C names, or nothing."""
        return self._described.class_names

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return int(self._values.shape[3])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers that :meth:`read` gives."""
        return np.dtype(np.float32) if self._outputs == "logits" else self._values.dtype

    @property
    def outputs(self) -> Outputs:
        """What the array holds: probabilities, or logits that are made into them when read."""
        return self._outputs

    @property
    def block(self) -> int:
        """Rows to be read at once."""
        return default_block(len(self), self.n_classes, self.dtype.itemsize)

    @property
    def config(self) -> Mapping[str, Any]:
        """Nothing is known of what made an array."""
        return {}

    @property
    def versions(self) -> Mapping[str, str]:
        """Nothing is known of what made an array."""
        return {}

    def __len__(self) -> int:
        return int(self._values.shape[2])

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds, in order."""
        return tuple(sorted(self._seeds))

    def epochs_of(self, seed: int) -> tuple[int, ...]:
        """The epochs of a seed, in order."""
        return tuple(sorted(self._epochs)) if seed in self._seeds else ()

    def _read(self, seed: int, epoch: int, start: int, stop: int) -> NDArray[Any]:
        found = self._values[self._seeds.index(seed), self._epochs.index(epoch), start:stop]
        rows = np.ascontiguousarray(found)
        what = f"{self.where}: seed {seed} epoch {epoch}"
        if self._outputs == "logits":
            check_logits(what, rows, lambda row: str(self.ids[start + row]))
            return softmax(rows)
        check_rows(what, rows, lambda row: str(self.ids[start + row]))
        return rows


def in_memory(
    probs: ArrayLike,
    *,
    ids: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    class_names: Sequence[str] = (),
    split: ArrayLike | None = None,
    outputs: str = "auto",
    seeds: Sequence[int] | None = None,
    epochs: Sequence[int] | None = None,
    where: str = "probs",
) -> ArrayPredictions:
    """Give an array the form of a store, read-only and without a copy.

    Args:
        probs: four axes are (seeds, epochs, examples, classes), three (epochs, examples, classes), two
            (examples, classes); float16, float32 or float64.
        ids: (N,) ids; without them "row-0000000", ....
        labels: (N,) class numbers.
        class_names: the C names.
        split: (N,) "train", "validation" or "test".
        outputs: "probabilities", "logits", or "auto", which looks at the first rows.
        seeds: numbers of the seeds; else 0, 1, ....
        epochs: numbers of the epochs; else 0, 1, ....
        where: what to call the array in messages.

    Example:
        >>> p = in_memory(np.array([[0.25, 0.75], [1.0, 0.0]]), labels=[1, 0])
        >>> p
        Predictions('probs', seeds=[0], epochs=1, examples=2, classes=2, float64)
        >>> p.read(seed=0, epoch=0, start=1).tolist()
        [[1.0, 0.0]]
    """
    array = four_axes(where, np.asarray(probs) if not isinstance(probs, np.memmap) else probs)
    n_seeds, n_epochs, n, classes = array.shape
    described = columns.described(where, n, classes, ids=ids, labels=labels, class_names=class_names, split=split)
    found = detect(where, np.asarray(array[0, 0, :_SAMPLE]), outputs)
    return ArrayPredictions(
        where,
        array,
        found,
        columns.numbers(f"{where}: seeds", seeds, n_seeds),
        columns.numbers(f"{where}: epochs", epochs, n_epochs),
        described,
    )


def four_axes(where: str, array: NDArray[Any]) -> NDArray[Any]:
    """Give predictions their four axes (seeds, epochs, examples, classes), or refuse the shape.

    Example:
        >>> four_axes("p", np.ones((5, 100, 10))).shape
        (1, 5, 100, 10)
    """
    if array.ndim not in (2, 3, 4) or array.dtype.kind != "f" or array.dtype.itemsize > 8:
        raise InputError(
            f"{where} must be float16, float32 or float64 of shape (seeds, epochs, examples, classes), (epochs, "
            f"examples, classes) or (examples, classes); got {array.dtype} of shape {array.shape}"
        )
    if 0 in array.shape:
        raise InputError(f"{where} must not be empty; got shape {array.shape}")
    return array.reshape((1,) * (4 - array.ndim) + array.shape)
