"""Seeds in lockstep: probabilities of each are added up, and what remains of an epoch is one entropy an example."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError
from hardpan.predictions.assembly import MEMORY, Buffers
from hardpan.predictions.recorded import RecordedPredictions
from hardpan.predictions.rows import Outputs, check_rows
from hardpan.predictions.scores import ScoreBook, entropy_bits


class Lockstep:
    """Adds up the predictions of M seeds for one epoch at a time; ``ScoreBook`` keeps the sum of their entropies.

    Batches that come with all seeds at once (M, n, C) need no memory beyond N numbers; batches of one seed
    after another wait, in blocks, for the last seed: N × C numbers at worst, beyond ``memory`` bytes on disk.

    Attributes:
        given: what the rows were made of, for the words in which some are refused.
    """

    def __init__(self, described: RecordedPredictions, seeds: int, *, memory: int = MEMORY) -> None:
        self._described, self._seeds = described, seeds
        self.given: Outputs = "probabilities"
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
        """How many rows of an epoch, of all seeds together, were not given yet."""
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
        check_rows(what, rows, lambda row: str(here.ids[index[row]]), self.given)
        seen = self._seen.setdefault(seed, np.zeros(len(here), dtype=bool))
        if len(self._seen) > self._seeds:
            raise InputError(f"{what}: {self._seeds} seeds were promised, and this is another; give seeds=")
        if seen[index].any() or len(np.unique(index)) < len(index):
            raise InputError(f"{what}: an example was given twice; give every example once a seed and epoch")
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
                f"{self._described.where}: {name} was given twice in epoch {epoch}; give it once a seed"
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
