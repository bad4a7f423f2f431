"""Scores without predictions: for sets too large to keep, the entropy of the mean over seeds, summed over epochs.

Seeds are trained in lockstep: all of them predict at an epoch before any goes on to the next. What is kept is one
number an example: Σ_t H(mean over seeds of p) in bits, and which epochs are in it. On disk::

    STORE/zarr.json, ids, labels, split      as in a store of predictions, kind "scores"
    STORE/totals/COUNT                       float64 (N,) after COUNT epochs: raw bytes
    STORE/totals/COUNT.json                  its marker, written last: the epochs and the sha256
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError
from hardpan.predictions.headers import read_header
from hardpan.predictions.places import Place
from hardpan.predictions.recorded import RecordedPredictions

_TOTALS = "totals/"


@dataclass(frozen=True, slots=True, eq=False)
class Accumulated:
    """Confusion scores that were accumulated while training, with nothing else kept.

    Attributes:
        ids: (N,) ids of the examples.
        values: (N,) mean over the epochs of the entropy, in bits, of the mean over seeds.
        epochs: the epochs that went into it.
        seeds: how many seeds were trained in lockstep.
        labels: (N,) class numbers, or None.
        split: (N,) "train", "validation" or "test", or None.
        class_names: the names, or nothing.
        n_classes: how many classes there are.
        config: what made the predictions.
    """

    ids: NDArray[np.str_]
    values: NDArray[np.float64]
    epochs: tuple[int, ...]
    seeds: int
    labels: NDArray[np.int64] | None
    split: NDArray[np.str_] | None
    class_names: tuple[str, ...]
    n_classes: int
    config: Mapping[str, Any]


def open_scores(path: str | os.PathLike[str]) -> Accumulated:
    """Open the scores that a recorder with ``scalars_only=True`` kept."""
    place = Place(path)
    header = read_header(place)
    if header is None or header.kind != "scores":
        raise InputError(f"{place.where}: holds no accumulated scores; record with scalars_only=True")
    book = ScoreBook(RecordedPredictions(place, header))
    return book.accumulated()


class ScoreBook:
    """The running total of a store of scores: added to once an epoch, committed each time."""

    def __init__(self, described: RecordedPredictions) -> None:
        self._described, self._place = described, described.place
        self._total, self._epochs = self._last()

    @property
    def epochs(self) -> tuple[int, ...]:
        """The epochs that are in the total."""
        return self._epochs

    def add(self, epoch: int, entropies: NDArray[np.float64]) -> None:
        """Add the entropies (N,) of one epoch, and commit the new total; an epoch that is in is left out."""
        if epoch in self._epochs:
            return
        total, epochs = self._total + entropies, (*self._epochs, epoch)
        data = np.ascontiguousarray(total, dtype="<f8").tobytes()
        key = f"{_TOTALS}{len(epochs)}"
        self._place.put(key, data)
        digest = hashlib.sha256(data).hexdigest()
        marker = {"store": self._described.header.identity, "epochs": list(epochs), "sha256": digest}
        self._place.put_json(key + ".json", marker)
        old = f"{_TOTALS}{len(epochs) - 2}"
        self._total, self._epochs = total, epochs
        # One total before the last stays, for whoever reads it now; older ones go, the marker first.
        self._place.remove(old + ".json")
        self._place.remove(old)

    def accumulated(self) -> Accumulated:
        """What is committed so far, as a record."""
        here = self._described
        if not self._epochs:
            raise InputError(f"{here.where}: holds no whole epoch yet; record one with every seed")
        return Accumulated(
            here.ids,
            self._total / len(self._epochs),
            tuple(sorted(self._epochs)),
            int(here.config["lockstep_seeds"]),
            here.labels,
            here.split,
            here.class_names,
            here.n_classes,
            here.config,
        )

    def _last(self) -> tuple[NDArray[np.float64], tuple[int, ...]]:
        counts = [
            int(name)
            for key in self._place.keys(_TOTALS)
            if (name := key.removeprefix(_TOTALS).removesuffix(".json")).isdigit() and key.endswith(".json")
        ]
        for count in sorted(counts, reverse=True):
            marker, data = self._place.get_json(f"{_TOTALS}{count}.json"), self._place.get(f"{_TOTALS}{count}")
            if marker is None or data is None or marker.get("sha256") != hashlib.sha256(data).hexdigest():
                continue  # the one before it is whole
            if marker["store"] != self._described.header.identity or len(data) != 8 * len(self._described):
                raise InputError(f"{self._place.where}: {_TOTALS}{count} belongs to another store; remove it")
            return np.frombuffer(data, dtype="<f8").astype(np.float64), tuple(marker["epochs"])
        return np.zeros(len(self._described)), ()


def entropy_bits(probs: NDArray[Any]) -> NDArray[np.float64]:
    """Entropy −Σ p log₂ p of each row (n, C), in bits.

    Example:
        >>> entropy_bits(np.array([[0.5, 0.5], [1.0, 0.0]])).tolist()
        [1.0, 0.0]
    """
    p = np.asarray(probs, dtype=np.float64)
    result: NDArray[np.float64] = -(p * np.log2(np.where(p > 0, p, 1.0))).sum(axis=-1)
    return result + 0.0
