"""Where probabilities come from: an array, a store of predictions or its path, all read in the same way."""

from __future__ import annotations

import dataclasses
import functools
import operator
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import execution
from hardpan.data import row_ids
from hardpan.errors import InputError
from hardpan.execution import Progress

Epochs = str | int | Sequence[int]
_Result = TypeVar("_Result")

ROWS = 4096  # rows of an array that one piece takes
PIECE_BYTES = 96 * 2**20  # what a piece may read at once: a few shards of a store
ALL_BYTES = 512 * 2**20  # what all pieces that run at once may read
_FEWEST_ROWS = 16


@dataclass(frozen=True, slots=True)
class Part:
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

    def __getstate__(self) -> tuple[Any, ...]:
        if self.array is not None:
            rows = np.ascontiguousarray(self.array[:, :, self.start : self.stop])
            return (rows, None, self.seeds, self.epochs, 0, len(self), self.first_row, self.call)
        if isinstance(self.predictions, str) or hasattr(self.predictions, "place"):  # a store: read again there
            where = str(getattr(self.predictions, "address", self.predictions))
            return (None, where, self.seeds, self.epochs, self.start, self.stop, self.first_row, self.call)
        read = [self.epoch(index)[0] for index in range(len(self.epochs))]
        return (
            np.concatenate(read, axis=1),
            None,
            self.seeds,
            self.epochs,
            0,
            len(self),
            self.first_row,
            self.call,
        )

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        for name, value in zip(self.__slots__, state, strict=True):
            object.__setattr__(self, name, value)

    def epoch(self, index: int) -> tuple[NDArray[Any], int, int]:
        """An array (S, T, rows, C), the place of the epoch in it, and the row in it where this part begins."""
        if self.array is not None:
            if self.array.flags.c_contiguous and type(self.array) is np.ndarray:
                return self.array, index, self.start
            return np.ascontiguousarray(self.array[:, index : index + 1, self.start : self.stop]), 0, 0
        opened = _opened(self.predictions, self.call) if isinstance(self.predictions, str) else self.predictions
        epoch = self.epochs[index]
        first = opened.read(self.seeds[0], epoch, self.start, self.stop)
        if len(self.seeds) == 1:
            return np.ascontiguousarray(first)[None, None], 0, 0
        rows = np.empty((len(self.seeds), 1, *first.shape), dtype=first.dtype)
        rows[0, 0] = first
        for place, seed in enumerate(self.seeds[1:], 1):
            rows[place, 0] = opened.read(seed, epoch, self.start, self.stop)
        return rows, 0, 0

    def probabilities(self, index: int, dtype: Any = np.float64) -> NDArray[Any]:
        """Probabilities (S, rows, C) of one epoch."""
        rows, place, start = self.epoch(index)
        return rows[:, place, start : start + len(self)].astype(dtype)


@functools.lru_cache(maxsize=4)
def _opened(where: str, call: str) -> Any:
    """A store, opened once a call in each worker: one that lives on would not see what was recorded since."""
    from hardpan.predictions import Predictions

    return Predictions.open(where)


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Predictions as this package reads them.

    Attributes:
        name: what to call them in messages.
        ids: (N,) ids of the examples.
        labels: (N,) class numbers, or None.
        split: (N,) "train", "validation" or "test", or None.
        class_names: names of the classes, or nothing.
        n_classes: how many there are.
        seeds: numbers of the seeds.
        epochs: numbers of the epochs, the same for all seeds.
        dtype: of the probabilities.
        rows: rows that are read together.
    """

    name: str
    ids: NDArray[np.str_]
    labels: NDArray[np.int64] | None
    split: NDArray[np.str_] | None
    class_names: tuple[str, ...]
    n_classes: int
    seeds: tuple[int, ...]
    epochs: tuple[int, ...]
    dtype: np.dtype[Any]
    rows: int
    array: NDArray[Any] | None = None
    predictions: Any = None

    def __len__(self) -> int:
        return len(self.ids)

    def map(
        self,
        function: Callable[[Part], _Result],
        *,
        block: int | None = None,
        progress: Progress | None = None,
        copies: int = 3,
    ) -> list[_Result]:
        """Run a function over parts of the rows, in order, with a bounded amount of memory.

        ``copies`` says how many times what a part reads is in memory at once while the function works on it.
        """
        setting = execution.current()
        cores = setting.workers or os.cpu_count() or 1
        width = copies * self.n_classes * self.dtype.itemsize * len(self.seeds)
        rows = self.rows if block is None else block
        if block is None and self.array is not None:  # rows of an array may be cut anywhere, those of a store not
            rows = max(_FEWEST_ROWS, min(rows, ALL_BYTES // (width * cores)))
        if isinstance(rows, bool) or not isinstance(rows, (int, np.integer)) or rows < 1:
            raise InputError(f"block must be a whole number of at least 1; got {block!r}")
        parts = list(self.parts(int(rows)))
        if setting.backend in ("", "threads") and self.array is None:
            with execution.parallel("threads", workers=min(cores, max(1, ALL_BYTES // (width * int(rows))))):
                return execution.map_tasks(function, parts, progress=progress)
        return execution.map_tasks(function, parts, progress=progress)

    def parts(self, rows: int) -> Iterator[Part]:
        """Parts of at most so many rows, in order."""
        call = uuid.uuid4().hex
        for start in range(0, len(self), rows):
            stop = min(start + rows, len(self))
            yield Part(self.array, self.predictions, self.seeds, self.epochs, start, stop, start, call)


def read(
    probs: Any,
    *,
    epochs: Epochs = "all",
    seeds: Sequence[int] | None = None,
    ids: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> Source:
    """Give predictions a common form, and choose among their epochs and seeds.

    Args:
        probs: array (seeds, epochs, examples, classes), (epochs, examples, classes) or (examples, classes); or a
            :class:`hardpan.predictions.Predictions`; or the path of one.
        epochs: "all", a whole number k for every k-th beginning with the first, or a list of epoch numbers.
        seeds: numbers of the seeds to use; all where None.
        ids: (N,) ids, for arrays; "row-0000000" and so on where None.
        labels: (N,) class numbers; those of the store where None.
    """
    if isinstance(probs, Source):
        source = probs
    elif isinstance(probs, (str, os.PathLike)):
        from hardpan.predictions import Predictions

        source = _from_predictions(Predictions.open(os.fspath(probs)))
    elif hasattr(probs, "read") and hasattr(probs, "epochs"):
        source = _from_predictions(probs)
    else:
        source = _from_array(probs, ids)
    if labels is not None:
        source = _replace(source, labels=check_labels(labels, len(source), source.n_classes))
    return _chosen(source, epochs, seeds)


def check_labels(labels: ArrayLike, examples: int, n_classes: int) -> NDArray[np.int64]:
    """Give class numbers back as int64, or refuse them."""
    given: NDArray[Any] = np.asarray(labels)
    if given.shape != (examples,) or given.dtype.kind not in "iu":
        raise InputError(
            f"labels must be {examples:,} class numbers; got shape {given.shape} of type {given.dtype}"
        )
    if given.size and (given.min() < 0 or given.max() >= n_classes):
        raise InputError(f"labels must lie in 0..{n_classes - 1}; got {given.min()} to {given.max()}")
    return given.astype(np.int64)


def _from_predictions(given: Any) -> Source:
    seeds, epochs = tuple(given.seeds), tuple(given.epochs)
    if not seeds or not epochs:
        raise InputError(f"{given.where}: no epoch is there for every seed; record one, or name the seeds to use")
    width = len(seeds) * given.n_classes * np.dtype(given.dtype).itemsize
    return Source(
        name=str(given.where),
        ids=np.asarray(given.ids, dtype=np.str_),
        labels=given.labels,
        split=given.split,
        class_names=tuple(given.class_names),
        n_classes=given.n_classes,
        seeds=seeds,
        epochs=epochs,
        dtype=np.dtype(given.dtype),
        rows=max(1, min(int(given.block), PIECE_BYTES // width)),
        predictions=given,
    )


def _from_array(probs: Any, ids: ArrayLike | None) -> Source:
    if isinstance(probs, np.ma.MaskedArray):
        raise InputError("probs must not be a masked array: leave out what is masked, and give a plain one")
    if hasattr(probs, "detach"):  # a tensor that gradients flow through
        probs = probs.detach().cpu()
    plain = isinstance(probs, np.ndarray) and not isinstance(probs, np.matrix)  # a file mapped to memory stays one
    array: NDArray[Any] = probs if plain else np.asarray(probs)
    if array.dtype.kind != "f" or not 2 <= array.ndim <= 4 or array.size == 0:
        raise InputError(
            "probs must be floating-point numbers of shape (seeds, epochs, examples, classes), (epochs, examples, "
            f"classes) or (examples, classes); got shape {array.shape} of type {array.dtype}"
        )
    array = array.reshape((1,) * (4 - array.ndim) + array.shape)
    seeds, epochs, examples, classes = array.shape
    names = row_ids(examples) if ids is None else np.asarray(ids, dtype=np.str_)
    if names.shape != (examples,) or len(np.unique(names)) != examples:
        raise InputError(f"ids must be {examples:,} different names; got {len(np.unique(names)):,} different ones")
    if array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    if not array.dtype.isnative:  # the kernel reads the bits themselves
        array = array.astype(array.dtype.newbyteorder("="))
    return Source(
        name="array",
        ids=names,
        labels=None,
        split=None,
        class_names=(),
        n_classes=classes,
        seeds=tuple(range(seeds)),
        epochs=tuple(range(epochs)),
        dtype=array.dtype,
        rows=max(1, min(ROWS, PIECE_BYTES // (seeds * classes * array.dtype.itemsize))),
        array=array,
    )


def _chosen(source: Source, epochs: Epochs, seeds: Sequence[int] | None) -> Source:
    if seeds is not None:
        wanted = _whole_numbers("seeds", np.atleast_1d(np.asarray(seeds)), "numbers such as [0, 1, 2]")
        _each_once("seeds", wanted, source.seeds)
        source = _only(source, seeds=wanted)
    kept = choose_epochs(source.epochs, epochs)
    return source if kept == source.epochs else _only(source, epochs=kept)


def choose_epochs(available: Sequence[int], wanted: Epochs) -> tuple[int, ...]:
    """Which epochs are used: all, every k-th beginning with the first, or those named.

    Example:
        >>> choose_epochs(range(10), 4), choose_epochs(range(10), [9, 0])
        ((0, 4, 8), (9, 0))
    """
    if isinstance(wanted, str):
        if wanted != "all":
            raise InputError(f'epochs must be "all", a whole number k for every k-th, or a list; got {wanted!r}')
        return tuple(available)
    if isinstance(wanted, (int, np.integer)) and not isinstance(wanted, bool):
        if wanted < 1:
            raise InputError(f"epochs must be at least 1 where it is a number (every k-th epoch); got {wanted}")
        if wanted > max(len(available), 1):
            raise InputError(
                f"epochs = {wanted} means every {wanted}th, and there are {len(available)}; give at most that, "
                "or a list of epochs"
            )
        return tuple(available)[:: int(wanted)]
    named = _whole_numbers("epochs", wanted, '"all", a whole number k for every k-th, or a list of numbers')
    _each_once("epochs", named, available)
    return named


def evenly_spaced(available: Sequence[int], count: int) -> tuple[int, ...]:
    """So many of the epochs, evenly spaced, beginning with the first, as the paper's ablation takes them.

    Example:
        >>> evenly_spaced(range(100), 5), evenly_spaced(range(7), 3)
        ((0, 20, 40, 60, 80), (0, 2, 4))
    """
    if not 1 <= count <= len(available):
        raise InputError(f"the number of epochs must lie in 1..{len(available)}; got {count}")
    return tuple(available[i * len(available) // count] for i in range(count))


def _whole_numbers(what: str, given: Any, remedy: str) -> tuple[int, ...]:
    items = list(given) if isinstance(given, Iterable) else None
    if items is None or any(isinstance(item, (bool, np.bool_)) for item in items):
        raise InputError(f"{what} must be {remedy}; got {given!r}")
    try:
        return tuple(operator.index(item) for item in items)
    except TypeError:
        raise InputError(f"{what} must be {remedy}; got {items!r}") from None


def _each_once(what: str, wanted: Sequence[int], available: Sequence[int]) -> None:
    missing = [item for item in wanted if item not in available]
    if missing or not wanted or len(set(wanted)) != len(wanted):
        held = ", ".join(map(str, available)) if len(available) <= 12 else f"{available[0]} to {available[-1]}"
        raise InputError(f"{what} must name some of {held}, each once; got {list(wanted)}")


def _only(source: Source, **kept: tuple[int, ...]) -> Source:
    array = source.array
    if array is not None:
        for axis, name in enumerate(("seeds", "epochs")):
            if name in kept:
                held: tuple[int, ...] = getattr(source, name)
                array = np.take(array, [held.index(item) for item in kept[name]], axis=axis)
    return _replace(source, array=array, **kept)


def _replace(source: Source, **changed: Any) -> Source:
    return dataclasses.replace(source, **changed)
