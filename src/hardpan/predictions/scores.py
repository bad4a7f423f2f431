"""Scores without predictions: for sets too large to keep, the entropy of the mean over seeds, summed over epochs.

Seeds are trained in lockstep: all of them predict at an epoch before the next one begins. One number per example is
kept: Σ_t H(mean over seeds of p) in bits, and the list of its epochs. On disk::

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
from hardpan.predictions.assembly import MEMORY, Buffers
from hardpan.predictions.checks import Outputs, check_rows
from hardpan.predictions.storage import Storage, read_header
from hardpan.predictions.store import Store

_TOTALS = "totals/"


@dataclass(frozen=True, slots=True, eq=False)
class Accumulated:
    """Confusion scores that were accumulated while training.

    Attributes:
        ids: (N,) ids of the examples.
        values: (N,) mean over the epochs of the entropy, in bits, of the mean over seeds.
        epochs: the epochs.
        seeds: number of seeds that were trained in lockstep.
        labels: (N,) class numbers, or None.
        split: (N,) "train", "validation" or "test", or None.
        class_names: the names; empty if unknown.
        n_classes: number of classes.
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
    storage = Storage(path)
    header = read_header(storage)
    if header is None or header.kind != "scores":
        raise InputError(f"{storage.where}: contains no accumulated scores; record with scalars_only=True")
    book = ScoreBook(Store(storage, header))
    return book.accumulated()


class ScoreBook:
    """The running total of a store of scores, committed after every epoch."""

    def __init__(self, described: Store) -> None:
        self._described, self._storage = described, described.storage
        self._total, self._epochs = self._last()

    @property
    def epochs(self) -> tuple[int, ...]:
        """The epochs that are in the total."""
        return self._epochs

    def add(self, epoch: int, entropies: NDArray[np.float64]) -> None:
        """Add the entropies (N,) of one epoch and commit the new total; an epoch is added once."""
        if epoch in self._epochs:
            return
        total, epochs = self._total + entropies, (*self._epochs, epoch)
        data = np.ascontiguousarray(total, dtype="<f8").tobytes()
        key = f"{_TOTALS}{len(epochs)}"
        self._storage.put(key, data)
        digest = hashlib.sha256(data).hexdigest()
        marker = {"store": self._described.header.identity, "epochs": list(epochs), "sha256": digest}
        self._storage.put_json(key + ".json", marker)
        old = f"{_TOTALS}{len(epochs) - 2}"
        self._total, self._epochs = total, epochs
        # The total before the last stays, for readers that use it now; older ones are removed, the marker first.
        self._storage.remove(old + ".json")
        self._storage.remove(old)

    def accumulated(self) -> Accumulated:
        """What is committed so far, as a record."""
        here = self._described
        if not self._epochs:
            raise InputError(f"{here.where}: has no complete epoch; record one with every seed")
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
            for key in self._storage.keys(_TOTALS)
            if (name := key.removeprefix(_TOTALS).removesuffix(".json")).isdigit() and key.endswith(".json")
        ]
        for count in sorted(counts, reverse=True):
            marker, data = self._storage.get_json(f"{_TOTALS}{count}.json"), self._storage.get(f"{_TOTALS}{count}")
            if marker is None or data is None or marker.get("sha256") != hashlib.sha256(data).hexdigest():
                continue  # the one before it is whole
            if marker["store"] != self._described.header.identity or len(data) != 8 * len(self._described):
                raise InputError(f"{self._storage.where}: {_TOTALS}{count} belongs to another store; remove it")
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


class Lockstep:
    """Adds up the predictions of M seeds for one epoch at a time; ``ScoreBook`` keeps the sum of their entropies.

    Batches of all seeds at once (M, n, C) need no memory beyond N numbers; batches of one seed
    after another wait, in blocks, for the last seed: N × C numbers at worst, beyond ``memory`` bytes on disk.

    Attributes:
        made_of: "logits" if the rows are a softmax, for messages.
    """

    def __init__(self, described: Store, seeds: int, *, memory: int = MEMORY) -> None:
        self._described, self._seeds = described, seeds
        self.made_of: Outputs = "probabilities"
        self.book = ScoreBook(described)
        self._buffers = Buffers(memory)
        self._epoch: int | None = None
        self._begin(None)

    def add(self, seed: int | None, epoch: int, rows: NDArray[Any], index: NDArray[np.int64]) -> None:
        """Take probabilities (n, C) of one seed, or, without a seed, entropies (n,) of the mean over all."""
        if not self._enter(epoch):
            return
        if seed is None:
            self._take_entropies(epoch, rows, index)
        else:
            self._take_rows(seed, epoch, rows, index)
        if self._left == 0:
            self.book.add(epoch, self._entropies)
            self._begin(None)

    def done(self, seed: int, epoch: int) -> bool:
        """Whether this epoch is in the sum."""
        return epoch in self.book.epochs

    def left(self, seed: int, epoch: int) -> int:
        """Number of missing rows of an epoch, over all seeds."""
        return self._left if epoch == self._epoch else self._seeds * len(self._described)

    def flush(self) -> None:
        """Nothing waits here."""

    def close(self) -> None:
        """Nothing is open here."""

    def check_whole(self, seed: int | None = None, but: int | None = None) -> None:
        """Refuse an epoch, other than ``but``, that was begun and lacks seeds or examples."""
        if self._epoch is not None and self._epoch != but:
            raise InputError(
                f"{self._described.where}: epoch {self._epoch} lacks {self._left:,} of "
                f"{self._seeds * len(self._described):,} predictions; all {self._seeds} seeds predict "
                "every example at an epoch before the next one begins"
            )

    def _take_entropies(self, epoch: int, entropies: NDArray[Any], index: NDArray[np.int64]) -> None:
        bad = ~np.isfinite(entropies)
        if bad.any():
            name = str(self._described.ids[index[np.argmax(bad)]])
            raise InputError(f"{self._described.where}: predictions of {name} in epoch {epoch} are NaN or infinite")
        self._count(epoch, index, self._seeds)
        self._entropies[index] = entropies

    def _take_rows(self, seed: int, epoch: int, rows: NDArray[Any], index: NDArray[np.int64]) -> None:
        here = self._described
        what = f"{here.where}: seed {seed} epoch {epoch}"
        check_rows(what, rows, lambda row: str(here.ids[index[row]]), self.made_of)
        seen = self._seen.setdefault(seed, np.zeros(len(here), dtype=bool))
        if len(self._seen) > self._seeds:
            raise InputError(f"{what}: {self._seeds} seeds were announced, and this is another; pass seeds=")
        if seen[index].any() or len(np.unique(index)) < len(index):
            raise InputError(f"{what}: an example was recorded twice; record every example once per seed and epoch")
        seen[index] = True
        self._count(epoch, index, 1)
        of_row = index // here.block
        for block in np.unique(of_row).tolist():
            self._fill(block, rows[of_row == block], index[of_row == block])

    def _enter(self, epoch: int) -> bool:
        if epoch in self.book.epochs:
            return False
        if epoch != self._epoch:
            self.check_whole(but=epoch)
            self._begin(epoch)
        return True

    def _begin(self, epoch: int | None) -> None:
        n = len(self._described)
        self._epoch = epoch
        self._left = 0 if epoch is None else n * self._seeds
        self._counts = np.zeros(n, dtype=np.int64)
        self._entropies = np.zeros(n)
        self._seen: dict[int, NDArray[np.bool_]] = {}
        self._sums: dict[int, NDArray[np.float32]] = {}

    def _count(self, epoch: int, index: NDArray[np.int64], times: int) -> None:
        if len(index) and (index.min() < 0 or index.max() >= len(self._counts)):
            raise InputError(f"{self._described.where}: index must be within 0..{len(self._counts) - 1}")
        np.add.at(self._counts, index, times)
        over = self._counts[index] > self._seeds
        if over.any():
            name = str(self._described.ids[index[np.argmax(over)]])
            raise InputError(
                f"{self._described.where}: {name} was recorded twice in epoch {epoch}; record it once per seed"
            )
        self._left -= times * len(index)

    def _fill(self, block: int, rows: NDArray[Any], index: NDArray[np.int64]) -> None:
        start = block * self._described.block
        stop = min(start + self._described.block, len(self._described))
        total = self._sums.get(block)
        if total is None:
            total = self._buffers.take((stop - start, self._described.n_classes), np.float32)
            total[:] = 0
            self._sums[block] = total
        total[index - start] += rows
        if (self._counts[start:stop] == self._seeds).all():
            del self._sums[block]
            self._entropies[start:stop] = entropy_bits(total / self._seeds)
            self._buffers.give_back(total)
