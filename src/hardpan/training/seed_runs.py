"""A training run: its data and settings, its folder and store, its training or resumption."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hardpan import engine
from hardpan.data.dataset import Dataset, Split
from hardpan.data.opening import parse_source
from hardpan.engine import devices, distributed
from hardpan.execution import Progress
from hardpan.files import array_hash, lock, unlock
from hardpan.predictions.predictions import Predictions
from hardpan.predictions.recorder import Recorder
from hardpan.training.config import TrainConfig
from hardpan.training.examples import as_example_array, examples_on, normalization
from hardpan.training.fitting import Evaluation, TrainingSet, fit_model, run_state
from hardpan.training.saved import describe_model, save_model

_HASHED_BYTES = 2**30  # larger data is identified by a sample of its rows


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One seed of one architecture; small if the data has a name.

    Attributes:
        data: name or path that every worker can load, or the dataset itself.
        config: settings, with the defaults of one architecture filled in.
        seed: number of the seed.
        store: the store of predictions.
        models: the folder of the architecture, with one folder of weights per seed.
        groups: (N,) group numbers, or None.
    """

    data: str | Dataset
    config: TrainConfig
    seed: int
    store: str
    models: str
    groups: NDArray[np.int64] | None = None

    @property
    def folder(self) -> str:
        """The folder of the run: its weights and, while it trains, its checkpoints."""
        return os.path.join(self.models, f"seed-{self.seed}")

    def settings(self, dataset: Dataset) -> dict[str, Any]:
        """Everything that decides the predictions, except the seed."""
        labels = np.zeros(0, dtype=np.int64) if dataset.labels is None else dataset.labels
        return {
            "architecture": self.config.model,
            "data": dataset.name,
            "data_sha256": array_hash(dataset.ids)[:32] + array_hash(labels)[:32],
            "examples_sha256": examples_hash(dataset.x),
            "groups_sha256": "" if self.groups is None else array_hash(self.groups),
            **json.loads(json.dumps(self.config.deciding())),
        }


@dataclass(frozen=True, slots=True)
class SeedResult:
    """The values of every epoch of a seed, the epoch at which it resumed, and the seconds it took here."""

    history: tuple[dict[str, float], ...]
    resumed_at: int
    seconds: float


def train_run(run: Run, progress: Progress | None = None) -> SeedResult:
    """Train a run to its end, resuming where possible, and keep its weights.

    A complete run is not repeated. After an epoch its predictions are committed, then the checkpoint is written:
    killed between the two, the epoch is trained again, to the same numbers, and is not recorded twice.
    """
    started = time.monotonic()
    checkpoint = Path(run.folder) / "checkpoint"
    with engine.locked_run_folder(run.folder), contextlib.ExitStack() as stack:
        dataset, split = load_split(run.data)
        settings = run.settings(dataset)
        recorder = None
        if distributed.is_main_process():
            stack.enter_context(locked_store(run.store, shared=True))
            recorder = stack.enter_context(open_recorder(run, dataset, split, settings))

        def recorded(epochs: int) -> bool:
            """Whether the store has every epoch that a run of this many epochs records."""
            needed = [epoch for epoch in run.config.recorded_epochs() if epoch <= epochs]
            return recorder is None or all(recorder.done(run.seed, epoch=epoch) for epoch in needed)

        settings = settings | {"seed": run.seed}
        description = describe_model(run.folder) or {}
        history = tuple(description.get("history", ())) if description.get("settings") == settings else ()
        resumed_at = len(history)
        # Only the main process has the store, so it decides.
        if not distributed.value_of_main_process(float(bool(history) and recorded(len(history)))):
            saved = engine.load_checkpoint(checkpoint) if distributed.is_main_process() else None
            if saved is not None and not recorded(len(saved.state["history"])):
                shutil.rmtree(checkpoint)  # ahead of the store, as when someone removed the store
            distributed.barrier()
            history, resumed_at = _fit_run(run, dataset, split, settings, recorder, checkpoint, progress)
        if distributed.is_main_process():
            shutil.rmtree(checkpoint, ignore_errors=True)
    return SeedResult(history, resumed_at, time.monotonic() - started)


def _fit_run(
    run: Run,
    dataset: Dataset,
    split: Split,
    settings: dict[str, Any],
    recorder: Recorder | None,
    checkpoint: Path,
    progress: Progress | None,
) -> tuple[tuple[dict[str, float], ...], int]:
    """Train, record and keep the model of a run: the values of its epochs, and the epoch at which it resumed."""

    def record(epoch: int, probs: NDArray[np.float32]) -> None:
        if recorder is not None:
            recorder.record(probs, seed=run.seed, epoch=epoch)
            recorder.flush()

    config, labels, x = run.config, dataset.require_labels(), as_example_array(dataset.x)
    with run_state(config) as (device, precision):
        examples = examples_on(x, normalization(x, split.train), device)
        groups = None if run.groups is None else torch.from_numpy(run.groups).to(device)
        rows, targets = torch.from_numpy(split.train).to(device), torch.from_numpy(labels).to(device)
        splits = {"validation": split.validation, "test": split.test}
        model, history = fit_model(
            config,
            TrainingSet(examples, rows, targets, dataset.n_classes, groups),
            Evaluation(examples, record, splits, labels, run.groups),
            seed=run.seed,
            precision=precision,
            folder=checkpoint,
            settings=settings,
            progress=progress,
            label=f"{config.model} seed {run.seed}, ",
        )
        description = {
            "model": config.model,
            "model_options": dict(config.model_options),
            "input_shape": list(examples.input_shape),
            "n_classes": dataset.n_classes,
            "class_names": list(dataset.class_names),
            "seed": run.seed,
            "settings": settings,
            "precision": precision,
            "device": devices.describe_device(device),
            "best_epoch": history.best_epoch + 1,
            "history": list(history.epochs),
        }
        if distributed.is_main_process():
            save_model(run.folder, model, examples.normalization, description)
    return tuple(history.epochs), history.resumed_at


def open_recorder(run: Run, dataset: Dataset, split: Split, settings: dict[str, Any]) -> Recorder:
    """Open or create the store of a run."""
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
    )


def load_split(data: str | Dataset) -> tuple[Dataset, Split]:
    """A dataset and its split; a worker that trains several runs loads the data once."""
    return _load_split_once(data, _file_stamps(data)) if isinstance(data, str) else (data, data.splits())


@functools.lru_cache(maxsize=1)
def _load_split_once(name: str, _stamps: tuple[int, ...]) -> tuple[Dataset, Split]:
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
def locked_store(store: str, *, shared: bool) -> Iterator[bool]:
    """Lock the folder of a store: shared by the runs that use it, alone to remove it.

    Yields whether it is locked: not an address, nor alone what others use. A killed process leaves no lock.
    """
    handle = None
    with contextlib.suppress(OSError):
        handle = lock(Path(store), create=False, shared=shared, wait=shared)
    try:
        yield handle is not None
    finally:
        unlock(handle)


def remove_empty_store(store: str) -> None:
    """Remove a store into which nothing was recorded and which no run uses: it would refuse other settings."""
    with locked_store(store, shared=False) as alone:
        if alone and not Predictions.open(store).seeds:
            shutil.rmtree(store)
