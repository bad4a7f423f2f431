"""Assembles rows in any order into whole shards, which are written in the background."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hardpan import files
from hardpan.errors import InputError
from hardpan.predictions.checks import Outputs, check_rows
from hardpan.predictions.store import Store

MEMORY = 2**30
_NAMED = 3
_BEHIND = 2**26  # bytes of shards that may wait for the disk
_WRITERS = 16  # shards at once: shuffled rows fill all of an epoch's in the same moment, and it waits for them


class ShardBuffers:
    """Arrays for blocks, in memory up to a limit, beyond it in an anonymous temporary file.

    Returned arrays are used again: fresh memory costs as much as filling it.
    """

    def __init__(self, memory: int) -> None:
        self._memory, self._held = memory, 0
        self._free: dict[tuple[tuple[int, ...], Any], list[NDArray[Any]]] = {}

    def take(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An array to be filled; its content is not defined."""
        free = self._free.get((shape, np.dtype(dtype)))
        if free:
            return free.pop()
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if self._held + size > self._memory:
            self.release()
        if self._held + size <= self._memory:
            self._held += size
            return np.empty(shape, dtype=dtype)
        remedy = "record in the order of the ids, or raise memory"
        return files.scratch_array(shape, dtype, "rows of incomplete shards", remedy)

    def give_back(self, array: NDArray[Any]) -> None:
        """Return an array that is no longer used."""
        if not isinstance(array, np.memmap):
            self._free.setdefault((array.shape, array.dtype), []).append(array)

    def release(self) -> None:
        """Release returned arrays."""
        self._held -= sum(array.nbytes for arrays in self._free.values() for array in arrays)
        self._free.clear()


class _Epoch:
    """The rows of one seed and epoch that were recorded so far."""

    def __init__(self, examples: int) -> None:
        self.seen = np.zeros(examples, dtype=bool)
        self.count = 0
        self.buffers: dict[int, NDArray[Any]] = {}
        self.left: dict[int, int] = {}


class Assembler:
    """Takes rows of any seeds and epochs in any order, and commits every shard that has become full.

    When :meth:`add` returns from the last row of an epoch, that epoch is committed: a run that saves a
    checkpoint then can be killed at any time. Rows in the order of the ids need the memory of a shard or two;
    shuffled rows that of an epoch, beyond ``memory`` bytes on the temporary disk. What is committed is not written
    again.

    Attributes:
        made_of: "logits" if the rows are a softmax, for messages.
    """

    def __init__(self, predictions: Store, *, memory: int = MEMORY) -> None:
        self._into = predictions
        self.made_of: Outputs = "probabilities"
        self._buffers = ShardBuffers(memory)
        self._epochs: dict[tuple[int, int], _Epoch] = {}
        self._writer = ThreadPoolExecutor(_WRITERS, thread_name_prefix="hardpan-store")
        self._writing: deque[tuple[Future[None], NDArray[Any] | None]] = deque()
        shard = predictions.block * predictions.n_classes * predictions.dtype.itemsize
        self._most_writing = max(1, _BEHIND // shard)
        self._failed: BaseException | None = None

    def add(self, seed: int, epoch: int, rows: NDArray[Any], index: NDArray[np.int64]) -> None:
        """Take rows (n, C) in the type of the store, for the examples ``index`` (n,)."""
        self.flush(wait=False)
        if self._into.committed(seed, epoch) and (seed, epoch) not in self._epochs:
            return
        state = self._epochs.get((seed, epoch)) or _Epoch(len(self._into))
        self._check_index(seed, epoch, state, index)
        what = f"{self._into.where}: seed {seed} epoch {epoch}"
        check_rows(what, rows, lambda row: str(self._into.column("ids")[index[row]]), self.made_of)
        if (seed, epoch) not in self._epochs:
            self._epochs[seed, epoch] = state
            # Now, and not with the last rows: shuffled ones fill every shard of an epoch at once.
            self._writing.append((self._writer.submit(self._into.make_room, seed, epoch), None))
        state.seen[index] = True
        state.count += len(index)
        self._fill_shards(seed, epoch, state, rows, index)
        if state.count == len(self._into):
            del self._epochs[seed, epoch]
            self.flush()

    def left(self, seed: int, epoch: int) -> int:
        """Number of rows of an epoch that are missing."""
        state = self._epochs.get((seed, epoch))
        return len(self._into) if state is None else len(self._into) - state.count

    def check_whole(self, seed: int | None = None, but: int | None = None) -> None:
        """Refuse incomplete epochs: of one seed or of all, other than ``but``."""
        for begun, epoch in sorted(self._epochs):
            if seed in (None, begun) and epoch != but:
                absent = np.flatnonzero(~self._epochs[begun, epoch].seen)
                first = ", ".join(str(self._into.column("ids")[row]) for row in absent[:_NAMED])
                raise InputError(
                    f"{self._into.where}: seed {begun} epoch {epoch} lacks {len(absent):,} of {len(self._into):,} "
                    f"examples (first {first}); record every example once per epoch (a DataLoader with "
                    "drop_last=False)"
                )

    def flush(self, wait: bool = True) -> None:
        """Wait until every full shard is committed; a failure is raised here, and on every later call."""
        while self._writing and (wait or self._writing[0][0].done()):
            self._finish_oldest()
        if self._failed is not None:
            raise self._failed

    def close(self) -> None:
        """Wait for the writers and stop them; rows of incomplete shards are dropped."""
        try:
            self.flush()
        finally:
            self._writer.shutdown()
            self._epochs.clear()
            self._buffers.release()

    def _check_index(self, seed: int, epoch: int, state: _Epoch, index: NDArray[np.int64]) -> None:
        if len(index) and (index.min() < 0 or index.max() >= len(state.seen)):
            wrong = int(index.min() if index.min() < 0 else index.max())
            raise InputError(f"{self._into.where}: index must be within 0..{len(state.seen) - 1}; got {wrong}")
        twice = index[state.seen[index]]
        if not len(twice) and (np.diff(index) <= 0).any():
            values, counts = np.unique(index, return_counts=True)
            twice = values[counts > 1]
        if len(twice):
            name = self._into.column("ids")[twice[0]]
            raise InputError(
                f"{self._into.where}: {name} was recorded twice for seed {seed} epoch {epoch}; record it once"
            )

    def _fill_shards(
        self, seed: int, epoch: int, state: _Epoch, rows: NDArray[Any], index: NDArray[np.int64]
    ) -> None:
        store, done = self._into, self._into.committed_blocks(seed, epoch)
        in_order = bool((np.diff(index) == 1).all())
        of_row = index // store.block
        if not in_order and (np.diff(of_row) < 0).any():  # rows of the same block become neighbours
            order = np.argsort(of_row, kind="stable")
            rows, index, of_row = rows[order], index[order], of_row[order]
        ends = [*np.flatnonzero(np.diff(of_row)) + 1, len(index)]
        for begin, end in pairwise([0, *ends] if len(index) else []):
            block = int(of_row[begin])
            if block in done:
                continue
            start, own = block * store.block, rows[begin:end]
            size = min(store.block, len(store) - start)
            if in_order and len(own) == size:
                self._submit(seed, epoch, block, own.copy())
                continue
            if block not in state.buffers:
                state.buffers[block] = self._buffers.take((size, store.n_classes), store.dtype)
                state.left[block] = size
            at = index[begin:end] - start
            state.buffers[block][slice(at[0], at[-1] + 1) if in_order else at] = own
            state.left[block] -= len(own)
            if state.left[block] == 0:
                del state.left[block]
                self._submit(seed, epoch, block, state.buffers.pop(block), counted=True)

    def _submit(self, seed: int, epoch: int, block: int, rows: NDArray[Any], counted: bool = False) -> None:
        written = self._writer.submit(self._into.write_block, seed, epoch, block, rows)
        self._writing.append((written, rows if counted else None))
        while len(self._writing) > self._most_writing:
            self._finish_oldest()

    def _finish_oldest(self) -> None:
        future, buffer = self._writing.popleft()
        try:
            future.result()
        except BaseException as error:
            self._failed = self._failed or error
        finally:
            if buffer is not None:
                self._buffers.give_back(buffer)


@contextmanager
def assembling(predictions: Store) -> Iterator[Assembler]:
    """An assembler; at the end of the block everything is committed, and incomplete epochs are refused."""
    assembler = Assembler(predictions)
    try:
        yield assembler
        assembler.flush()
        assembler.check_whole()
    finally:
        assembler.close()
