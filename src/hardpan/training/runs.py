"""``training.train``: seeds × architectures, their predictions in stores, their weights beside them."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hardpan import engine, execution, stats
from hardpan.arguments import as_path
from hardpan.data.dataset import Dataset, Split, dataset_hash
from hardpan.data.opening import parse_data_source
from hardpan.engine import devices, distributed
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.execution.mapping import available_cores, between
from hardpan.files import array_hash, record
from hardpan.predictions.predictions import Predictions
from hardpan.predictions.recorder import Recorder
from hardpan.predictions.storage import locked_storage
from hardpan.predictions.store import is_store
from hardpan.report import Report
from hardpan.training import classifiers, objectives
from hardpan.training.config import TrainConfig, changed_train_config, with_defaults
from hardpan.training.examples import (
    as_training_examples,
    examples_input_shape,
    examples_on,
    normalization,
)
from hardpan.training.fitting import (
    Evaluation,
    TrainingSet,
    fit_model,
    fitting_device,
    group_accuracies,
)
from hardpan.training.objectives import GroupSource, read_objective_groups
from hardpan.training.saved import describe_model, save_model

_WORTH_PROCESSES = 10.0  # seconds; each process imports torch first


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRun:
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
            "examples_sha256": dataset_hash(dataset.require_vectors("training")),
            "groups_sha256": "" if self.groups is None else array_hash(self.groups),
            **json.loads(json.dumps(self.config.deciding())),
        }


@record
class TrainedRun:
    """One architecture and seed.

    Attributes:
        model: the architecture.
        seed: of the run.
        store: the store of its predictions.
        weights: the folder of its weights, for ``training.predict``.
        epochs: how many epochs were run in all.
        resumed_at: how many of them an earlier call had run.
        accuracy: of the last epoch (with ``patience``, of the best), by split (validation, test).
        values: all values of this epoch (loss, accuracy, ...).
        seconds: how long this call took.
        group_accuracy: with an objective over groups, the accuracy of each by its number, of the same epoch and the
            test split (validation if that epoch has no test predictions).
    """

    model: str
    seed: int
    store: str
    weights: str
    epochs: int
    resumed_at: int
    accuracy: Mapping[str, Estimate] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    group_accuracy: Mapping[str, Estimate] = field(default_factory=dict)


@record(dropped=("scalars_only",))
class Trained(Report):
    """The result of :func:`train`: its runs, and the stores of their predictions.

    Attributes:
        runs: one per architecture and seed.
        stores: of predictions, one per architecture.
        config: the settings.
    """

    runs: tuple[TrainedRun, ...]
    stores: tuple[str, ...]
    config: TrainConfig

    def __repr__(self) -> str:
        return f"Trained({len(self.runs)} runs, stores {', '.join(self.stores)})"


def train_run(run: TrainingRun, progress: Progress | None = None) -> TrainedRun:
    """Train a run to its end, resuming where possible, and keep its weights.

    A complete run is not repeated. After an epoch its predictions are committed, then the checkpoint is written:
    killed between the two, the epoch is trained again, to the same numbers, and is not recorded twice.
    """
    started = time.monotonic()
    checkpoint = Path(run.folder) / "checkpoint"
    with engine.locked_run_folder(run.folder), contextlib.ExitStack() as stack:
        dataset, split = load_run_data(run.data)
        settings = run.settings(dataset)
        recorder = None
        if distributed.is_main_process():
            stack.enter_context(locked_storage(run.store, shared=True))
            recorder = stack.enter_context(open_run_recorder(run, dataset, split, settings))

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
    return _trained_run(run, split, history, resumed_at, time.monotonic() - started)


def _fit_run(
    run: TrainingRun,
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

    config, labels, x = (
        run.config,
        dataset.require_labels(),
        as_training_examples(dataset.require_vectors("training")),
    )
    with fitting_device(config) as (device, precision):
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


def open_run_recorder(run: TrainingRun, dataset: Dataset, split: Split, settings: dict[str, Any]) -> Recorder:
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


def load_run_data(data: str | Dataset) -> tuple[Dataset, Split]:
    """A dataset and its split; a worker that trains several runs loads the data once, until its files change."""
    if isinstance(data, Dataset):
        return data, data.splits()
    paths = [Path(text) for text in (data, *parse_data_source(data)) if text]
    return _cached_run_data(
        data, tuple((s.st_mtime_ns, s.st_size) for p in paths if p.exists() for s in [p.stat()])
    )


@functools.lru_cache(maxsize=1)
def _cached_run_data(name: str, _stamps: tuple[tuple[int, int], ...]) -> tuple[Dataset, Split]:
    dataset = Dataset.open(name)
    return dataset, dataset.splits()


def train(
    dataset: Any,
    config: TrainConfig | None = None,
    *,
    out: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = None,
    group: GroupSource = None,
    progress: Progress | None = None,
    **changes: Any,
) -> Trained:
    """Train seeds of one or more architectures, and record their predictions of every example.

    Predictions are made in evaluation mode on unaugmented examples of train, validation and test. Call it again
    with the same arguments to resume an interrupted run from its last checkpoint; complete runs are not repeated,
    and more seeds can be added later.

    Runs are independent tasks: :func:`hardpan.parallel` sets where they run. By default they run in processes of
    this machine if there are several, no GPU, and more than seconds of work, else one after another here; the
    machines of a cluster must see ``dataset``, ``out`` and ``weights``.

    Args:
        dataset: a dataset with labels, or anything that :meth:`hardpan.Dataset.open` opens.
        config: settings.
        out: the store of predictions (folder or fsspec address); with several architectures, a folder with one
            store for each.
        weights: the folder for models; by default ``OUT-models`` beside the store.
        group: for objectives over groups: a subset of ``hardpan confusion`` (JSON), or (N,) group numbers in the
            order of the dataset; by default the group column of the dataset.
        progress: called with a line and the fraction done.
        changes: settings that replace those of ``config``.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trained = train("digits", model="linear", seeds=1, epochs=2, out=folder + "/run", device="cpu")
        >>> trained.runs[0].epochs, trained.runs[0].accuracy["test"].n
        (2, 359)
    """
    config = changed_train_config(config, changes)
    for name, path in {"out": out, "weights": out if weights is None else weights}.items():
        as_path(name, path)
    store = os.fspath(out).removeprefix("file://")
    store = store if "://" in store else str(Path(store).absolute())
    data = os.fspath(dataset) if isinstance(dataset, (str, os.PathLike)) else Dataset.open(dataset)
    if isinstance(data, str) and Path(data).exists():
        data = str(Path(data).absolute())  # a worker elsewhere has another working folder
    loaded, split = load_run_data(data)
    loaded.require_labels()
    shape = as_training_examples(loaded.require_vectors("training"), f"examples of {loaded.name}").shape
    group_of_row = read_objective_groups(group, loaded, config.objective, split)
    device = engine.pick_device(config.device)
    with distributed.process_group(device):
        runs = _training_runs(data, shape, config, store, weights, group_of_row)
        _check_training_run(runs[0], split)
        devices.choose_precision(config.precision, device)
        openers, guess, input_shape = {}, 0.0, examples_input_shape(shape)
        for run in {run.store: run for run in runs}.values():
            options = dict(run.config.model_options, input_shape=input_shape, n_classes=loaded.n_classes)
            model = classifiers.build(run.config.model, **options)  # refused before anything runs
            guess += run.config.seeds * _guessed_seconds(model, input_shape, len(split.train), run.config)
            openers[run.store] = partial(open_run_recorder, run, loaded, split, run.settings(loaded))
        for name, opener in openers.items():
            if distributed.is_main_process() and is_store(name):
                opener().close()  # refuses a store of another run
        created: list[str] = []

        def create_missing() -> None:
            """In one process, and only when the runs can start: a store keeps its settings."""
            for name, opener in openers.items():
                if distributed.is_main_process() and not is_store(name):
                    opener().close()
                    created.append(name)
            distributed.barrier()

        try:
            here = device.type == "cuda" or guess < _WORTH_PROCESSES
            results = _train_runs(runs, here=here, ready=create_missing, progress=progress)
        except BaseException:
            for name in created:  # one into which nothing was recorded would refuse other settings
                with locked_storage(name, shared=False) as alone:
                    if alone and not Predictions.open(name).seeds:
                        shutil.rmtree(name)
            raise
    return Trained(tuple(results), tuple(openers), config)


def _training_runs(
    data: str | Dataset,
    shape: tuple[int, ...],
    config: TrainConfig,
    out: str,
    weights: str | os.PathLike[str] | None,
    groups: NDArray[np.int64] | None,
) -> list[TrainingRun]:
    folder = f"{out.rstrip('/')}-models" if weights is None else os.fspath(weights).removeprefix("file://")
    if "://" in folder:
        raise InputError(f"must name a local folder for the models; got {folder!r}", argument="weights")
    runs = []
    for model in config.models:
        name = model.replace(":", "-").replace("/", "-")  # my_nets:small is in my_nets-small
        settings = with_defaults(config, model, shape[1:])
        path, models = out if len(config.models) == 1 else f"{out}/{name}", Path(folder).absolute() / name
        runs += [TrainingRun(data, settings, seed, path, str(models), groups) for seed in range(config.seeds)]
    return runs


def _guessed_seconds(model: torch.nn.Module, shape: tuple[int, ...], n_train: int, config: TrainConfig) -> float:
    """About how long a seed takes on one core: three timed forward passes per example, and 1 ms per step."""
    rows = min(config.batch, 16)
    with torch.no_grad():
        for _ in range(2):  # the first call also chooses kernels
            begin = time.monotonic()
            model.eval()(torch.zeros(rows, *shape))
    seconds = (time.monotonic() - begin) / rows
    return config.epochs * n_train * (3 * seconds + 0.001 / config.batch)


def _check_training_run(run: TrainingRun, split: Split) -> None:
    """Refuse settings that a run would refuse later: a store keeps the settings it was created with."""
    groups = None if run.groups is None else run.groups[split.train]
    options = dict(run.config.objective_options)
    objectives.build(run.config.objective, n_rows=len(split.train), groups=groups, **options)
    folder = Path(run.folder)
    while not os.path.lexists(folder):
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(
            f": {folder} is not a writable folder; choose another one for the models", argument="weights"
        )


def _train_runs(
    runs: Sequence[TrainingRun], *, here: bool, ready: Callable[[], None], progress: Progress | None
) -> list[TrainedRun]:
    """Train every run where :func:`hardpan.parallel` says, else ``here`` or in processes; ``ready`` comes first."""
    setting = execution.current()
    world = distributed.world_size()
    if world > 1 and setting.backend:
        raise InputError(f"backend {setting.backend!r} cannot be combined with torchrun; use one of them")
    sequential = world > 1 or here or len(runs) == 1 or available_cores() == 1
    backend = setting.backend or ("threads" if setting.workers == 1 or (sequential and not setting.workers) else "")
    if backend == "threads":
        ready()
        n = len(runs)
        return [train_run(run, progress and between(progress, i / n, (i + 1) / n)) for i, run in enumerate(runs)]
    with execution.parallel(backend or "processes", workers=setting.workers, address=setting.address):
        return execution.map_tasks(train_run, runs, ready=ready, progress=progress)


def _trained_run(
    run: TrainingRun, split: Split, history: Sequence[Mapping[str, float]], resumed_at: int, seconds: float
) -> TrainedRun:
    values = history[-1]
    if run.config.patience:  # the weights of the best epoch are kept, so its values are those of the run
        values = min(history, key=lambda values: values["validation_loss"])

    def estimate(accuracy: float, n: int) -> Estimate:
        return stats.share(round(accuracy * n), n, method="accuracy, Clopper–Pearson")

    accuracy: dict[str, Estimate] = {}
    by_group: dict[str, Estimate] = {}
    for name, rows in {"validation": split.validation, "test": split.test}.items():
        if len(rows) and f"{name}_accuracy" in values:
            accuracy[name] = estimate(values[f"{name}_accuracy"], len(rows))
        groups = rows[:0] if run.groups is None else run.groups[rows]
        by_group = {  # of the test split; of validation if the epoch has no test predictions
            str(group): estimate(accuracy_there, int(np.count_nonzero(groups == group)))
            for group, accuracy_there in group_accuracies(name, values).items()
        } or by_group
    folder, epochs = run.folder, len(history)
    return TrainedRun(
        run.config.model, run.seed, run.store, folder, epochs, resumed_at, accuracy, values, seconds, by_group
    )
