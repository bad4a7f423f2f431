"""A training run: its data and settings, its folder and store, its training or resumption."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hardpan import engine
from hardpan.data.dataset import Dataset, Split
from hardpan.data.opening import parse_source
from hardpan.engine import devices, distributed
from hardpan.execution import Progress
from hardpan.files import array_hash, lock, unlock, write_bytes
from hardpan.predictions.recorder import Recorder
from hardpan.training.config import TrainConfig
from hardpan.training.examples import examples_on, normalization, shaped
from hardpan.training.fitting import (
    Evaluation,
    LockstepTask,
    Record,
    TrainingSet,
    explained_memory_error,
    fit_model,
    run_state,
)
from hardpan.training.saved import describe_model, save_model

PROGRESS = "progress.json"
CORRECT = "correct.npz"  # which examples seeds in lockstep classified correctly at the end
_HASHED_BYTES = 2**30  # larger data is identified by a sample of its rows


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One seed of one architecture, or all of its seeds in lockstep; small if the data has a name.

    Attributes:
        data: name or path that every worker can load, or the dataset itself.
        config: settings, with the defaults of one architecture filled in.
        seeds: the seeds; several only in lockstep.
        store: the store of predictions, or of scores.
        models: the folder of the architecture, with one folder of weights per seed.
        groups: (N,) group numbers, or None.
        lockstep: the seeds advance together and keep only their scores.
    """

    data: str | Dataset
    config: TrainConfig
    seeds: tuple[int, ...]
    store: str
    models: str
    groups: NDArray[np.int64] | None = None
    lockstep: bool = False

    @property
    def label(self) -> str:
        """The start of a line of progress."""
        which = f"{len(self.seeds)} seeds" if self.lockstep else f"seed {self.seeds[0]}"
        return f"{self.config.model} {which}, "

    @property
    def folder(self) -> str:
        """The folder that belongs to the run while it trains, with its checkpoints."""
        return self.models if self.lockstep else self.weights(self.seeds[0])

    def weights(self, seed: int) -> str:
        """The folder of the weights of one seed."""
        return os.path.join(self.models, f"seed-{seed}")

    def settings(self, dataset: Dataset) -> dict[str, Any]:
        """Everything that decides the predictions, except the seed; of scores also which epochs are in them."""
        labels = np.zeros(0, dtype=np.int64) if dataset.labels is None else dataset.labels
        return {
            "architecture": self.config.model,
            "data": dataset.name,
            "data_sha256": array_hash(dataset.ids)[:32] + array_hash(labels)[:32],
            "examples_sha256": examples_hash(dataset.x),
            "groups_sha256": "" if self.groups is None else array_hash(self.groups),
            **json.loads(json.dumps(self.config.deciding())),
            **({"record_every": self.config.record_every} if self.lockstep else {}),
        }


@dataclass(frozen=True, slots=True)
class SeedResult:
    """The values of every epoch of a seed, the epoch at which it resumed, and the seconds it took here."""

    history: tuple[dict[str, float], ...]
    resumed_at: int
    seconds: float


def train_run(run: Run, progress: Progress | None = None) -> tuple[SeedResult, ...]:
    """Train the seeds of a run to their end, resuming where possible, and keep their weights.

    A complete run is not repeated. After an epoch its predictions (in lockstep, its entropies) are committed, then
    the checkpoint is written: killed between the two, the epoch is trained again, to the same numbers, and is not
    recorded twice.
    """
    started = time.monotonic()
    with opened(run) as work:
        histories = [work.history_of(seed) for seed in run.seeds]
        complete = all(histories) and work.recorded(len(histories[0]))
        if run.lockstep:
            complete = complete and (Path(run.folder) / CORRECT).is_file()
        resumed_at = len(histories[0])
        # Only the main process has the store, so it decides.
        if not distributed.from_main(float(complete)):
            work.drop_unrecorded_checkpoint()
            fit = _fit_lockstep if run.lockstep else _fit_seed
            histories, resumed_at = fit(run, work, progress or progress_file(run.folder))
        work.tidy()
    seconds = time.monotonic() - started
    return tuple(SeedResult(history, resumed_at, seconds) for history in histories)


_Histories = list[tuple[dict[str, float], ...]]


def _fit_seed(run: Run, work: OpenRun, progress: Progress) -> tuple[_Histories, int]:
    """The history of one seed, and the epoch at which it resumed."""
    seed = run.seeds[0]

    def record(epoch: int, probs: NDArray[np.float32], rows: NDArray[np.int64] | None) -> None:
        if work.recorder is not None:
            work.recorder.record(probs, rows, seed=seed, epoch=epoch)
            work.recorder.flush()

    with run_state(run.config) as (device, precision):
        training_set = work.training_set(device)
        model, history = fit_model(
            run.config,
            training_set,
            work.evaluation(training_set, record),
            seed=seed,
            precision=precision,
            folder=work.checkpoint,
            settings=work.settings_of(seed),
            progress=progress,
            label=run.label,
        )
        if distributed.is_main():
            work.keep_model(seed, model, training_set, precision, history.epochs, history.best_epoch + 1)
    return [tuple(history.epochs)], history.resumed_at


def _fit_lockstep(run: Run, work: OpenRun, progress: Progress) -> tuple[_Histories, int]:
    """The histories of all seeds, and the epoch at which they resumed."""

    def record(epoch: int, probs: NDArray[np.float32], rows: NDArray[np.int64] | None) -> None:
        if work.recorder is not None:
            work.recorder.record(probs, rows, epoch=epoch)

    with run_state(run.config) as (device, precision), explained_memory_error(run.config, device):
        training_set = work.training_set(device)
        evaluation = work.evaluation(training_set, record)
        task = LockstepTask(run.config, training_set, evaluation, seeds=run.seeds, precision=precision)
        history = engine.run_epochs(
            task,
            engine.LoopConfig(run.config.epochs),
            folder=work.checkpoint,
            settings=work.settings | {"lockstep_seeds": len(run.seeds)},
            progress=progress,
            label=run.label,
        )
        if distributed.is_main():
            _save_correct(Path(run.folder), work.dataset.ids, task.correct)
            for seed, own, values in zip(run.seeds, task.tasks, task.histories, strict=True):
                own.model.load_state_dict(own.weights())
                work.keep_model(seed, own.model.eval(), training_set, precision, values)
    return [tuple(values) for values in task.histories], history.resumed_at


def _save_correct(folder: Path, ids: NDArray[np.str_], correct: NDArray[np.bool_]) -> None:
    """Keep which examples were classified correctly at the end: error by band needs it beside the scores."""
    content = io.BytesIO()
    np.savez_compressed(content, ids=ids.astype(np.str_), seeds=correct[:-1], ensemble=correct[-1])
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / CORRECT, content.getvalue())


@dataclass(frozen=True, slots=True, eq=False)
class OpenRun:
    """A run whose folder is locked, whose data is loaded and whose store is open.

    Attributes:
        run: what is trained.
        dataset: the labelled data.
        split: the one split of the dataset.
        settings: everything that decides the numbers, except the seed.
        recorder: of the open store, in the main process; None in the others.
    """

    run: Run
    dataset: Dataset
    split: Split
    settings: dict[str, Any]
    recorder: Recorder | None

    @property
    def labels(self) -> NDArray[np.int64]:
        """Class numbers, shape (N,)."""
        assert self.dataset.labels is not None  # ``train`` refuses data without
        return self.dataset.labels

    def evaluation(self, training_set: TrainingSet, record: Record) -> Evaluation:
        """What is predicted after an epoch: all examples, with the metrics of validation and test."""
        splits = {"validation": self.split.validation, "test": self.split.test}
        return Evaluation(training_set.examples, record, splits, self.labels, self.run.groups)

    @property
    def checkpoint(self) -> Path:
        """The folder of the checkpoint of an unfinished run."""
        return Path(self.run.folder) / "checkpoint"

    def settings_of(self, seed: int) -> dict[str, Any]:
        """Everything that decides the numbers of one seed."""
        return self.settings | {"seed": seed}

    def history_of(self, seed: int) -> tuple[dict[str, float], ...]:
        """The epochs of a seed whose model is complete and made with these settings; else nothing."""
        description = describe_model(self.run.weights(seed)) or {}
        same = description.get("settings") == self.settings_of(seed)
        return tuple(description.get("history", ())) if same else ()

    def recorded(self, epochs: int) -> bool:
        """Whether the store has every epoch that a run of this many epochs records; decided by the main process."""
        if self.recorder is None:
            return True
        seed = None if self.run.lockstep else self.run.seeds[0]
        needed = [epoch for epoch in self.run.config.recorded_epochs() if epoch <= epochs]
        return all(self.recorder.done(seed, epoch=epoch) for epoch in needed)

    def drop_unrecorded_checkpoint(self) -> None:
        """Remove a checkpoint that is ahead of the store, as when someone removed the store."""
        if distributed.is_main():
            checkpoint = engine.load_checkpoint(self.checkpoint)
            if checkpoint is not None and not self.recorded(len(checkpoint.state["history"])):
                shutil.rmtree(self.checkpoint)
        distributed.barrier()

    def training_set(self, device: torch.device) -> TrainingSet:
        """The training examples on a device, with the statistics of the training rows."""
        x = shaped(self.dataset.x)
        groups = self.run.groups
        return TrainingSet(
            examples_on(x, normalization(x, self.split.train), device),
            torch.from_numpy(self.split.train).to(device),
            torch.from_numpy(self.labels).to(device),
            self.dataset.n_classes,
            None if groups is None else torch.from_numpy(groups).to(device),
        )

    def keep_model(
        self,
        seed: int,
        model: nn.Module,
        training_set: TrainingSet,
        precision: str,
        history: Sequence[Mapping[str, float]],
        best_epoch: int = 0,
    ) -> None:
        """Write the trained model of one seed with its description."""
        config = self.run.config
        description = {
            "model": config.model,
            "model_options": dict(config.model_options),
            "input_shape": list(training_set.examples.input_shape),
            "n_classes": self.dataset.n_classes,
            "class_names": list(self.dataset.class_names),
            "seed": seed,
            "settings": self.settings_of(seed),
            "precision": precision,
            "device": devices.describe_device(training_set.examples.raw.device),
            "best_epoch": best_epoch,
            "history": list(history),
        }
        save_model(self.run.weights(seed), model, training_set.examples.normalization, description)

    def tidy(self) -> None:
        """Remove what only an unfinished run needs."""
        if distributed.is_main():
            shutil.rmtree(self.checkpoint, ignore_errors=True)
            for path in Path(self.run.folder).glob(f"*{PROGRESS}*"):  # and temporary files of a killed run
                path.unlink(missing_ok=True)


@contextlib.contextmanager
def opened(run: Run) -> Iterator[OpenRun]:
    """Lock the folder of a run, load its data and open its store for the block."""
    with engine.claimed(run.folder), contextlib.ExitStack() as stack:
        dataset, split = load_split(run.data)
        settings = run.settings(dataset)
        recorder = None
        if distributed.is_main():
            open_store = functools.partial(open_recorder, run, dataset, split, settings)
            recorder = stack.enter_context(store_in_use(run.store, open_store))
        yield OpenRun(run, dataset, split, settings, recorder)


def open_recorder(run: Run, dataset: Dataset, split: Split, settings: dict[str, Any]) -> Recorder:
    """Open or create the store of a run: of predictions, or of the scores of seeds in lockstep."""
    split_names = np.full(len(dataset), "validation")
    split_names[split.train], split_names[split.test] = "train", "test"
    return Recorder(
        run.store,
        ids=dataset.ids,
        n_classes=dataset.n_classes,
        labels=dataset.labels,
        class_names=dataset.class_names,
        split=split_names,
        config=settings,
        outputs="probabilities",
        scalars_only=run.lockstep,
        seeds=len(run.seeds) if run.lockstep else None,
    )


def progress_file(folder: str) -> Progress:
    """A progress callback that writes a small file, which the process that waits for the run reads."""
    path = Path(folder)

    def write_progress(text: str, fraction: float) -> None:
        temporary = path / f".{PROGRESS}.{os.getpid()}"
        with contextlib.suppress(OSError):  # a full disk fails where data would be lost, not here
            path.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps([text, fraction]), encoding="utf-8")
            temporary.replace(path / PROGRESS)

    return write_progress


def load_split(data: str | Dataset) -> tuple[Dataset, Split]:
    """A dataset and its split; a worker that trains several runs loads the data once."""
    return _loaded(data, _file_stamps(data)) if isinstance(data, str) else (data, data.splits())


@functools.lru_cache(maxsize=1)
def _loaded(name: str, _stamps: tuple[int, ...]) -> tuple[Dataset, Split]:
    dataset = Dataset.open(name)
    return dataset, dataset.splits()


def _file_stamps(name: str) -> tuple[int, ...]:
    """Times and sizes of the files of a dataset, so that changed files are read again."""
    paths = [Path(text) for text in (name, *parse_source(name)) if text]
    stats = [path.stat() for path in paths if path.exists()]
    return tuple(number for item in stats for number in (item.st_mtime_ns, item.st_size))


def examples_hash(x: NDArray[Any], limit: int = _HASHED_BYTES) -> str:
    """Hash of the examples, so that a run does not resume with changed ones under the same ids.

    Up to ``limit`` bytes every value counts; of larger arrays, evenly spaced rows of that size, and the shape.

    Example:
        >>> x = np.arange(12.0).reshape(6, 2)
        >>> examples_hash(x) == array_hash(x), examples_hash(x, limit=48) == examples_hash(x)
        (True, False)
    """
    if x.nbytes <= limit:
        return array_hash(x)
    sample = array_hash(x[:: -(-x.nbytes // limit)])
    return array_hash(np.array([sample, str(x.shape)]))


@contextlib.contextmanager
def store_in_use(store: str, open_store: Callable[[], Recorder]) -> Iterator[Recorder]:
    """Open a store, and keep other processes from removing it as an empty one meanwhile.

    Any number of runs may use a store at once. The folder itself is locked: a killed process leaves nothing.
    """
    while True:
        recorder = open_store()
        handle = _lock_folder(store, to_remove=False)
        if _exists(store, handle):
            break
        # It was removed after it was opened and before it was locked: create it again.
        unlock(handle)
        recorder.close()
    try:
        with recorder:
            yield recorder
    finally:
        unlock(handle)


class NewStores:
    """Remembers the stores that were created here, and removes those that nothing was recorded into.

    Only folders are removed: of an address it is unknown whether another process is about to write.
    """

    def __init__(self) -> None:
        self._created: dict[str, tuple[frozenset[str], list[Path]]] = {}

    def create(self, store: str, open_store: Callable[[], Recorder]) -> None:
        """Create a store that does not exist."""
        missing = [parent for parent in Path(store).parents if not parent.exists()]
        open_store().close()
        if "://" not in store:
            self._created[store] = _files(store), missing

    def remove_empty(self) -> None:
        """Remove the stores that are as they were created and that no run has in use."""
        for store, (files, parents) in self._created.items():
            handle = _lock_folder(store, to_remove=True)
            if handle is None:
                continue
            try:
                if _exists(store, handle) and _files(store) == files:
                    _remove(store, parents)
            finally:
                unlock(handle)


def _remove(store: str, parents: list[Path]) -> None:
    aside = f"{store.rstrip('/')}.{uuid.uuid4().hex}.empty"
    with contextlib.suppress(OSError):  # what cannot be removed stays complete; the first error is reported
        os.rename(store, aside)  # atomic, so that nobody opens half a store
        shutil.rmtree(aside)
        for parent in parents:
            parent.rmdir()


def _lock_folder(store: str, *, to_remove: bool) -> int | None:
    """The lock of the folder; None if it cannot be locked or, to remove it, others use it."""
    with contextlib.suppress(OSError):  # an address, or a store that is gone
        return lock(Path(store), create=False, shared=not to_remove, wait=not to_remove)
    return None


def _exists(store: str, handle: int | None) -> bool:
    if handle is None:
        return "://" in store or os.path.isdir(store)
    try:
        return os.path.samestat(os.stat(store), os.fstat(handle))
    except FileNotFoundError:
        return False


def _files(store: str) -> frozenset[str]:
    return frozenset(os.path.join(folder, name) for folder, _, names in os.walk(store) for name in names)
