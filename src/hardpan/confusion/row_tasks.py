"""Tasks of some rows of predictions each, read once, epoch after epoch, and the entropies of their rows."""

from __future__ import annotations

import functools
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hardpan import arguments, execution
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.predictions import Predictions
from hardpan.predictions.opening import open_any

Floats = NDArray[np.float64]
_Result = TypeVar("_Result")

ROWS = 4096  # rows of an array per task
TASK_BYTES = 96 * 2**20  # what a task may read at once: a few shards of a store
ALL_BYTES = 512 * 2**20  # what all tasks that run at once may read
_FEWEST_ROWS = 16
COMPILED: tuple[str, ...] = ("float16", "float32")  # what the compiled kernel takes; NumPy takes the others


@dataclass(frozen=True, slots=True)
class RowTask:
    """Some rows of some predictions; it can be sent to another process, with its rows only."""

    array: NDArray[Any] | None
    predictions: Any
    seeds: tuple[int, ...]
    epochs: tuple[int, ...]
    start: int
    stop: int
    first_row: int = 0
    call: str = ""

    def __len__(self) -> int:
        return self.stop - self.start

    def __reduce__(self) -> tuple[Any, ...]:
        after = (self.first_row, self.call)
        if self.array is not None:
            rows = np.ascontiguousarray(self.array[:, :, self.start : self.stop])
            return RowTask, (rows, None, self.seeds, self.epochs, 0, len(self), *after)
        address = self.predictions if isinstance(self.predictions, str) else self.predictions.address
        if address:  # a store: read there
            return RowTask, (None, address, self.seeds, self.epochs, self.start, self.stop, *after)
        read = np.concatenate([self.epoch(index).array for index in range(len(self.epochs))], axis=1)
        return RowTask, (read, None, self.seeds, self.epochs, 0, len(self), *after)

    def epoch(self, index: int) -> EpochRows:
        """Read the rows of all seeds at one epoch, given its position among the task's epochs."""
        where = (len(self), self.first_row, self.epochs[index])
        if self.array is not None:
            if self.array.flags.c_contiguous and type(self.array) is np.ndarray:
                return EpochRows(self.array, index, self.start, *where)
            rows = np.ascontiguousarray(self.array[:, index : index + 1, self.start : self.stop])
            return EpochRows(rows, 0, 0, *where)
        opened, epoch = self.predictions, self.epochs[index]
        if isinstance(opened, str):
            opened = _predictions_of_row_tasks(opened, self.call)
        rows = np.empty((len(self.seeds), 1, len(self), opened.n_classes), dtype=opened.dtype)
        for position, seed in enumerate(self.seeds):
            rows[position, 0] = opened.read(seed, epoch, self.start, self.stop)
        return EpochRows(rows, 0, 0, *where)


@dataclass(frozen=True, slots=True)
class EpochRows:
    """The rows of all seeds at one epoch: ``array[:, position, start : start + size]``, as they are stored."""

    array: NDArray[Any]
    position: int
    start: int
    size: int
    first_row: int
    epoch: int

    def probabilities(self) -> NDArray[np.float32]:
        """Probabilities (S, rows, C), a copy."""
        if self.array.dtype != np.float16 or "float16" not in COMPILED:
            return self.array[:, self.position, self.start : self.start + self.size].astype(np.float32)
        from hardpan.confusion import entropy_kernel

        result = np.empty((len(self.array), self.size, self.array.shape[-1]), dtype=np.float32)
        entropy_kernel.decode(self.array.view(np.uint16), self.position, self.start, result)
        return result

    def entropies(self, seeds: Sequence[int] | None = None) -> Floats:
        """Bits of entropy (rows,) of the mean over some seeds, by their positions; over all if None.

        H(x) = −Σ_j p_j log₂ p_j with p = 1/M Σ_i f⁽ⁱ⁾(x). Half and single precision are added up in single
        precision, double in double; a row's bits do not depend on the rows around it.
        """
        rows, stop = self.array, self.start + self.size
        used = np.arange(len(rows)) if seeds is None else np.asarray(seeds, dtype=np.int64)
        tolerance = arguments.sum_tolerance(rows.shape[-1])
        if rows.dtype.name not in COMPILED:
            result, bad = self._numpy_entropies(used, tolerance)
        else:
            from hardpan.confusion import entropy_kernel

            result = np.empty(self.size)
            half = rows.dtype == np.float16
            run = entropy_kernel.half_entropies if half else entropy_kernel.single_entropies
            bits = rows.view(np.uint16) if half else rows
            bad = int(run(bits, used, self.position, self.start, stop, tolerance, result)) - self.start
        if bad < 0:
            return result
        values = rows[used, self.position, self.start + bad].astype(np.float64)
        if np.isnan(values).any():
            reason = "contains NaN"
        elif values.min() < 0:
            reason = f"contains {values.min():.4g}"
        else:
            sums = values.sum(axis=-1)
            reason = f"sums to {sums[np.argmax(np.abs(sums - 1.0))]:.6g}"
        raise InputError(
            f": row {self.first_row + bad} at epoch {self.epoch} is not a probability ({reason}); give "
            "probabilities (softmax of logits), and leave out rows that have none",
            argument="probs",
        )

    def _numpy_entropies(self, seeds: NDArray[np.int64], tolerance: float) -> tuple[Floats, int]:
        """Entropies (rows,), and the first row that is no probability, or -1."""
        by_seed = [self.array[seed, self.position, self.start : self.start + self.size] for seed in seeds]
        wide: Any = np.float64 if by_seed[0].dtype.itemsize == 8 else np.float32
        mean: NDArray[Any] = by_seed[0].astype(wide)
        negative = (by_seed[0] < 0).any(axis=-1)
        for other in by_seed[1:]:  # one after another: the order of the sum is the same for any number of rows
            mean += other
            negative |= (other < 0).any(axis=-1)
        mean *= wide(1.0 / len(by_seed))
        with np.errstate(invalid="ignore", over="ignore"):
            total = mean.sum(axis=-1, dtype=np.float64)
            wrong = negative | ~(np.abs(total - 1.0) <= tolerance)
        if wrong.any():
            return np.zeros(len(mean)), int(np.argmax(wrong))
        logarithm = np.log2(mean, out=np.zeros_like(mean), where=mean > 0)
        logarithm *= mean
        # A sum of −1·log₂1 would be −0.
        return 0.0 - logarithm.sum(axis=-1, dtype=np.float64), -1


@functools.lru_cache(maxsize=4)
def _predictions_of_row_tasks(address: str, call: str) -> Predictions:
    """A store, opened once per call in each worker: a longer-lived one would miss what was recorded since."""
    return open_any(address)


def map_row_tasks(
    predictions: Predictions,
    function: Callable[[RowTask], _Result],
    *,
    progress: Progress | None = None,
    copies: int = 3,
) -> list[_Result]:
    """Run a function over blocks of rows, in order, with a bounded amount of memory.

    ``copies`` is how many times what a task reads is in memory at once while the function works on it.
    """
    array = predictions.array
    itemsize = (predictions.dtype if array is None else array.dtype).itemsize
    seeds, epochs, n = predictions.seeds, predictions.epochs, len(predictions)
    width = predictions.n_classes * itemsize * len(seeds)
    source, call = None if array is not None else predictions, uuid.uuid4().hex
    setting = execution.current()
    cores = setting.workers or os.cpu_count() or 1
    rows = max(1, min(ROWS if array is not None else predictions.block, TASK_BYTES // width))
    if array is not None:  # rows of an array may be cut anywhere, those of a store not
        rows = max(min(_FEWEST_ROWS, ROWS), min(rows, ALL_BYTES // (copies * width * cores)))
    tasks = [
        RowTask(array, source, seeds, epochs, start, min(start + rows, n), start, call)
        for start in range(0, n, rows)
    ]
    if setting.backend in ("", "threads") and array is None:
        with execution.parallel("threads", workers=min(cores, max(1, ALL_BYTES // (copies * width * rows)))):
            return execution.map_tasks(function, tasks, progress=progress)
    return execution.map_tasks(function, tasks, progress=progress)
