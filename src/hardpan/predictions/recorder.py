"""``hardpan.Recorder``: two lines in anyone's training loop.

::

    recorder = hardpan.Recorder("run", dataset)
    ...
    recorder.record(model(images), rows, seed=seed, epoch=epoch)      # for each batch, in any order

It takes torch tensors (softmax is done where they are) or arrays, and does not import torch itself.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.arguments import whole_number
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError, counted
from hardpan.predictions.assembly import MEMORY, Assembler
from hardpan.predictions.checks import LARGEST
from hardpan.predictions.layout import plain_config
from hardpan.predictions.predictions import Predictions
from hardpan.predictions.store import begin_store
from hardpan.predictions.tensors import (
    PendingTensor,
    TensorConverter,
    check_dense_tensor,
    is_tensor,
    send_tensor_index,
    tensor_as_array,
)

if TYPE_CHECKING:
    from torch import Tensor

_UNDER_WAY = 8


class _Batch(NamedTuple):
    """Predictions that are being copied from a device."""

    outputs: PendingTensor
    rows: PendingTensor
    size: int
    seed: int
    epoch: int


class Recorder:
    """Records predictions while a model is trained, into a new or an existing store.

    Args:
        path: folder or fsspec address of the store; an existing one must be for the same examples and classes.
        dataset: the examples to record: ids, labels, class names and official split. Or give these one by one:
        ids: (N,) ids of the examples, train and test alike.
        n_classes: number of classes.
        labels: (N,) class numbers, if known.
        class_names: the names, if known.
        split: (N,) "train", "validation" or "test", if known.
        config: JSON values that describe the training; an existing store must have the same.
        outputs: "logits", "probabilities", or "auto", which looks at the first batch.
        dtype: "float16" or "float32".
        block: rows per shard; by default 4 to 16 MiB.
        seed: the default of :meth:`record`.
        memory: bytes of rows of incomplete shards in memory; more are kept on the temporary disk.

    An epoch is committed when its last example has been recorded, before :meth:`record` returns. Committed
    epochs are not changed, so that an interrupted run resumes when it is started again.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Recorder(folder + "/run", ids=["a", "b", "c"], n_classes=2) as recorder:
        ...         recorder.record(np.array([[2.0, -1.0], [0.0, 0.0]]), [2, 0], epoch=0)
        ...         recorder.record(np.array([[-5.0, 5.0]]), [1], epoch=0)
        ...     recorder.next_epoch(seed=0)
        1
        >>> recorder
        Recorder('...', examples=3, classes=2, outputs='logits', committed='seed 0: 1 epoch')
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        dataset: Dataset | None = None,
        *,
        ids: Tensor | ArrayLike | None = None,
        n_classes: int | None = None,
        labels: Tensor | ArrayLike | None = None,
        class_names: Sequence[str] = (),
        split: ArrayLike | None = None,
        config: Mapping[str, Any] | None = None,
        outputs: str = "auto",
        dtype: str = "float16",
        block: int | None = None,
        seed: int = 0,
        memory: int = MEMORY,
    ) -> None:
        if dataset is not None:
            if not isinstance(dataset, Dataset):
                raise InputError(f"must be a hardpan.Dataset; got {type(dataset).__name__}", argument="dataset")
            ids = dataset.ids if ids is None else ids
            labels = dataset.labels if labels is None else labels
            split = dataset.split if split is None else split
            class_names = class_names or dataset.class_names
            n_classes = dataset.n_classes if n_classes is None else n_classes
        if ids is None:
            raise InputError("ids are missing; give the dataset, or ids and n_classes")
        n_classes = whole_number("n_classes", n_classes, 2)
        settings = plain_config(config)
        self._store = begin_store(
            path,
            ids=tensor_as_array(ids, "ids"),
            n_classes=n_classes,
            labels=None if labels is None else tensor_as_array(labels, "labels"),
            class_names=class_names,
            split=split,
            config=settings,
            dtype=dtype,
            block=block,
        )
        there = self._store.config if config is not None else settings
        for name in sorted({*there, *settings}):
            if there.get(name) != settings.get(name):
                raise InputError(
                    f"{self._store.where}: was recorded with {name}={there.get(name)!r}, now it is "
                    f"{settings.get(name)!r}; give another path, or the same configuration"
                )
        self._into = Assembler(self._store, memory=memory)
        self._converter = TensorConverter(outputs, self._store.dtype)
        self._seed = seed
        self._next_row: dict[tuple[int, int], int] = {}
        self._under_way: deque[_Batch] = deque()
        self._closed = False

    def __repr__(self) -> str:
        seeds = [f"seed {seed}: {counted(len(self._store.epochs_of(seed)), 'epoch')}" for seed in self._store.seeds]
        done = ", ".join(seeds) or "nothing"
        size = f"examples={len(self._store)}, classes={self._store.n_classes}"
        return f"Recorder({self._store.where!r}, {size}, outputs={self.outputs!r}, committed={done!r})"

    @property
    def predictions(self) -> Predictions:
        """What is recorded."""
        return Predictions(self._store)

    @property
    def outputs(self) -> str:
        """What is recorded: "logits" or "probabilities"; "auto" until the first batch."""
        return self._converter.outputs

    def done(self, seed: int | None = None, *, epoch: int) -> bool:
        """Whether an epoch of a seed is committed."""
        return self._store.committed(self._seed if seed is None else seed, epoch)

    def next_epoch(self, seed: int | None = None, first: int = 0) -> int:
        """The first epoch, from ``first`` on, that is not committed: where a run resumes."""
        epoch = first
        while self.done(seed, epoch=epoch):
            epoch += 1
        return epoch

    def record(
        self,
        outputs: Tensor | ArrayLike,
        index: Tensor | ArrayLike | None = None,
        *,
        epoch: int,
        seed: int | None = None,
        ids: Tensor | ArrayLike | None = None,
        labels: Tensor | ArrayLike | None = None,
    ) -> None:
        """Record a batch.

        Args:
            outputs: logits or probabilities (n, C): a torch tensor on any device, or an array.
            index: (n,) row numbers into the ids of the recorder, in any order.
            epoch: number of the epoch.
            seed: number of the training run.
            ids: (n,) ids, instead of ``index``. With neither, rows are taken in the order of the ids.
            labels: (n,) labels of the batch: checked against those of the recorder, which finds rows out of order.
        """
        run = whole_number("seed", self._seed if seed is None else seed, most=LARGEST)
        epoch = whole_number("epoch", epoch, most=LARGEST)
        if self._closed:
            raise InputError(
                f"seed {run}, epoch {epoch} cannot be recorded: the recorder of {self._store.where} is closed; "
                "create another Recorder with the same path, which resumes"
            )
        if self.done(run, epoch=epoch):
            return
        outputs = check_dense_tensor("outputs", outputs) if is_tensor(outputs) else np.asarray(outputs)
        shape = tuple(outputs.shape)
        if len(shape) != 2 or shape[1] != self._store.n_classes:
            raise InputError(f"must have shape (n, {self._store.n_classes}); got {shape}", argument="outputs")
        rows = self._batch_rows(run, epoch, shape[0], index, ids)
        if labels is not None:
            self._check_labels(rows.wait(), tensor_as_array(labels, "labels"))
        sent = self._converter.send(outputs)
        self._into.made_of = "logits" if self._converter.outputs == "logits" else "probabilities"
        if index is None and ids is None:  # a batch that was refused has taken no rows
            following = self._next_row.pop((run, epoch), 0) + shape[0]
            if following < len(self._store):
                self._next_row[run, epoch] = following
        self._under_way.append(_Batch(sent, rows, shape[0], run, epoch))
        coming = sum(batch.size for batch in self._under_way if (batch.seed, batch.epoch) == (run, epoch))
        # What completes an epoch is waited for, so that the epoch is committed.
        self._assemble_arrived(all_of_them=coming >= self._into.left(run, epoch))

    def flush(self) -> None:
        """Wait until everything that can be committed is."""
        if self._closed:
            return
        self._assemble_arrived(all_of_them=True)
        self._into.flush()

    def check_whole(self, seed: int | None = None) -> None:
        """Refuse an epoch that was begun, of this seed, and lacks examples; their ids are named."""
        self._assemble_arrived(all_of_them=True)
        self._into.check_whole(seed)

    def close(self) -> None:
        """Commit what is whole; an epoch that lacks examples is refused with their ids. Twice does no harm."""
        if self._closed:
            return
        try:
            self.flush()
            self.check_whole()
        finally:
            self._closed = True
            self._into.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._closed = True
            self._into.close()

    def _batch_rows(
        self, run: int, epoch: int, n: int, index: Tensor | ArrayLike | None, ids: Tensor | ArrayLike | None
    ) -> PendingTensor:
        if index is not None and ids is not None:
            raise InputError("pass index or ids for a batch, not both")
        if ids is not None:
            names = tensor_as_array(ids, "ids")
            if names.shape != (n,):
                raise InputError(f"must be {n}, one per row of outputs; got shape {names.shape}", argument="ids")
            try:
                rows = [self._row_of_id[str(name)] for name in names.tolist()]
            except KeyError as error:
                wrong = error.args[0]
                raise InputError(f": {wrong!r} is not among the ids of the recorder", argument="ids") from None
            return PendingTensor(np.array(rows, dtype=np.int64))
        if index is None:
            start = self._next_row.get((run, epoch), 0)
            return PendingTensor(np.arange(start, start + n))
        return send_tensor_index(index, n)

    @cached_property
    def _row_of_id(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self._store.column("ids").tolist())}

    def _check_labels(self, rows: NDArray[np.int64], labels: NDArray[Any]) -> None:
        known = self._store.column("labels")
        if known is None or not len(rows) or rows.max() >= len(known):
            return
        wrong = np.flatnonzero(known[rows] != labels)
        if len(wrong):
            row = rows[wrong[0]]
            name = self._store.column("ids")[row]
            raise InputError(
                f": {name} has label {known[row]}, not {labels[wrong[0]]}; rows are out of "
                "order: pass index (or ids), or do not shuffle",
                argument="labels",
            )

    def _assemble_arrived(self, all_of_them: bool) -> None:
        """Assemble the rows that have arrived."""
        while self._under_way:
            batch = self._under_way[0]
            if not (all_of_them or batch.outputs.arrived() or len(self._under_way) > _UNDER_WAY):
                return
            self._under_way.popleft()
            self._into.check_whole(batch.seed, but=batch.epoch)
            self._into.add(batch.seed, batch.epoch, batch.outputs.wait(), batch.rows.wait())
