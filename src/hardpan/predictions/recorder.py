"""``hardpan.Recorder``: two lines in anyone's training loop.

::

    recorder = hardpan.Recorder("run", dataset)
    ...
    recorder.record(model(images), rows, seed=seed, epoch=epoch)      # for each batch, in any order

It takes torch tensors (softmax is done where they are) or arrays, and does not import torch itself.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.arguments import whole_number
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError, counted
from hardpan.predictions.assembly import MEMORY, Assembler
from hardpan.predictions.checks import LARGEST, Outputs, detect, softmax
from hardpan.predictions.predictions import Predictions
from hardpan.predictions.storage import Storage
from hardpan.predictions.store import begin, plain_config

if TYPE_CHECKING:
    from torch import Tensor

_UNDER_WAY = 8
_SAMPLE = 256


class Pending:
    """An array that may still be copied from a device to pinned memory, while the device continues."""

    def __init__(self, source: Tensor | NDArray[Any]) -> None:
        self._source: Tensor | NDArray[Any] = source  # a tensor is kept until it has been copied
        self._event: Any = None
        if is_tensor(source):
            import torch

            self._host = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
            self._host.copy_(source, non_blocking=True)
            cuda: Any = torch.cuda
            self._event = cuda.Event()
            self._event.record(cuda.current_stream(source.device))

    def arrived(self) -> bool:
        """Whether :meth:`wait` would return at once."""
        return self._event is None or bool(self._event.query())

    def wait(self) -> NDArray[Any]:
        """The array, when it is here."""
        if self._event is not None:
            self._event.synchronize()
            self._source, self._event = np.asarray(self._host.numpy()), None
        return np.asarray(self._source)


class Converter:
    """Converts outputs of a model to probabilities of a store's type."""

    def __init__(self, outputs: str, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._outputs: Outputs | None = None if outputs == "auto" else detect("outputs", np.empty((0, 2)), outputs)

    @property
    def outputs(self) -> str:
        """What is recorded: "logits" or "probabilities"; "auto" until the first batch."""
        return self._outputs or "auto"

    def send(self, outputs: Tensor | NDArray[Any]) -> Pending:
        """Convert outputs (n, C) to probabilities (n, C)."""
        if self._outputs is None:
            self._outputs = detect("outputs", as_array(outputs[:_SAMPLE]), "auto")
        if not is_tensor(outputs):
            return Pending(self._of_array(as_array(outputs)))
        made = self._of_tensor(outputs)
        return Pending(made) if made.device.type == "cuda" else Pending(made.cpu().numpy())

    def _of_array(self, outputs: NDArray[Any]) -> NDArray[Any]:
        probs = softmax(outputs) if self._outputs == "logits" else outputs
        return probs.astype(self._dtype, copy=False)

    def _of_tensor(self, outputs: Tensor) -> Tensor:
        import torch

        with torch.no_grad():
            probs = outputs.detach().float()
            if self._outputs == "logits":
                probs = torch.softmax(probs, dim=-1)
            return probs.to(torch.float16 if self._dtype == np.float16 else torch.float32)


def send_index(index: Tensor | ArrayLike, n: int) -> Pending:
    """Row numbers (n,) of a batch; those on a GPU are copied asynchronously."""
    index = check_dense("index", index) if is_tensor(index) else np.asarray(index)
    shape = tuple(index.shape)
    if shape != (n,) or as_array(index[:0]).dtype.kind not in "iu":  # none of the numbers is looked at
        raise InputError(
            f"must be {n} integers, one per row of outputs; got {index.dtype} {shape}", argument="index"
        )
    if is_tensor(index) and index.device.type == "cuda":
        return Pending(index.detach().long())
    return Pending(as_array(index).astype(np.int64))


def is_tensor(value: object) -> TypeGuard[Tensor]:
    """Whether this is a torch tensor; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def check_dense(name: str, tensor: Tensor) -> Tensor:
    """The tensor; one that is sparse is refused."""
    import torch

    if tensor.layout != torch.strided:
        raise InputError(
            f"must be a dense tensor; got layout {tensor.layout}: give {name}.to_dense() (or padded rows)",
            argument=name,
        )
    return tensor


def as_array(value: Tensor | ArrayLike, name: str = "tensor") -> NDArray[Any]:
    """A tensor or array as an array here; ``name`` is how it is called where it is refused."""
    if is_tensor(value):
        tensor = check_dense(name, value).detach()
        return np.asarray((tensor.float() if tensor.is_floating_point() else tensor).cpu().numpy())
    return np.asarray(value)


class _Batch(NamedTuple):
    """Predictions that are being copied from a device."""

    outputs: Pending
    rows: Pending
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
        storage = Storage(path)
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
        self._store = begin(
            storage,
            ids=as_array(ids, "ids"),
            n_classes=n_classes,
            labels=None if labels is None else as_array(labels, "labels"),
            class_names=class_names,
            split=split,
            config=settings,
            dtype=dtype,
            block=block,
        )
        if config is not None:
            _check_config(self._store.where, self._store.config, settings)
        self._into = Assembler(self._store, memory=memory)
        self._converter = Converter(outputs, self._store.dtype)
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
        outputs = check_dense("outputs", outputs) if is_tensor(outputs) else np.asarray(outputs)
        shape = tuple(outputs.shape)
        if len(shape) != 2 or shape[1] != self._store.n_classes:
            raise InputError(f"must have shape (n, {self._store.n_classes}); got {shape}", argument="outputs")
        rows = self._batch_rows(run, epoch, shape[0], index, ids)
        if labels is not None:
            self._check_labels(rows.wait(), as_array(labels, "labels"))
        sent = self._converter.send(outputs)
        self._into.made_of = "logits" if self._converter.outputs == "logits" else "probabilities"
        if index is None and ids is None:
            self._advance_next_row(run, epoch, shape[0])
        self._under_way.append(_Batch(sent, rows, shape[0], run, epoch))
        self._assemble_arrived(all_of_them=self._completes(run, epoch))

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
            self._close_assembler()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._close_assembler()

    def _close_assembler(self) -> None:
        self._closed = True
        self._into.close()

    def _batch_rows(
        self, run: int, epoch: int, n: int, index: Tensor | ArrayLike | None, ids: Tensor | ArrayLike | None
    ) -> Pending:
        if index is not None and ids is not None:
            raise InputError("pass index or ids for a batch, not both")
        if ids is not None:
            return Pending(self._rows_of(as_array(ids, "ids"), n))
        if index is None:
            start = self._next_row.get((run, epoch), 0)
            return Pending(np.arange(start, start + n))
        return send_index(index, n)

    def _advance_next_row(self, run: int, epoch: int, n: int) -> None:
        """Note that n rows were taken in the order of the ids; a batch that was refused takes none."""
        following = self._next_row.pop((run, epoch), 0) + n
        if following < len(self._store):
            self._next_row[run, epoch] = following

    def _rows_of(self, ids: NDArray[Any], n: int) -> NDArray[np.int64]:
        if ids.shape != (n,):
            raise InputError(f"must be {n}, one per row of outputs; got shape {ids.shape}", argument="ids")
        try:
            return np.array([self._row_of_id[str(name)] for name in ids.tolist()], dtype=np.int64)
        except KeyError as error:
            raise InputError(f": {error.args[0]!r} is not among the ids of the recorder", argument="ids") from None

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

    def _completes(self, run: int, epoch: int) -> bool:
        """Whether what is under way completes the epoch: then it is waited for, so that the epoch is committed."""
        coming = sum(batch.size for batch in self._under_way if (batch.seed, batch.epoch) == (run, epoch))
        return coming >= self._into.left(run, epoch)

    def _assemble_arrived(self, all_of_them: bool) -> None:
        """Assemble the rows that have arrived."""
        while self._under_way:
            batch = self._under_way[0]
            if not (all_of_them or batch.outputs.arrived() or len(self._under_way) > _UNDER_WAY):
                return
            self._under_way.popleft()
            self._into.check_whole(batch.seed, but=batch.epoch)
            self._into.add(batch.seed, batch.epoch, batch.outputs.wait(), batch.rows.wait())


def _check_config(where: str, there: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    for name in sorted({*there, *settings}):
        if there.get(name) != settings.get(name):
            raise InputError(
                f"{where}: was recorded with {name}={there.get(name)!r}, now it is {settings.get(name)!r}; "
                "give another path, or the same configuration"
            )
