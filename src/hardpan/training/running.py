"""``training.train``: seeds × architectures, their predictions in stores, their weights beside them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import engine, execution, stats
from hardpan.arguments import as_path
from hardpan.data.dataset import Dataset, Split
from hardpan.engine import devices, distributed
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.files import record
from hardpan.predictions.recorder import Recorder
from hardpan.predictions.store import is_store
from hardpan.report import Report
from hardpan.training import classifiers, objectives
from hardpan.training.config import TrainConfig, changed_train_config, with_defaults
from hardpan.training.examples import as_example_array, check_single_precision, input_shape_of
from hardpan.training.fitting import progress_of_run
from hardpan.training.objectives import GroupSource, group_accuracies, read_groups
from hardpan.training.seed_runs import (
    Run,
    SeedResult,
    load_split,
    open_recorder,
    remove_empty_store,
    train_run,
)


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
    this machine if there are several and no GPU, else one after another here; the machines of a cluster must see
    ``dataset``, ``out`` and ``weights``.

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
    loaded, split = load_split(data)
    loaded.require_labels()
    check_single_precision(as_example_array(loaded.x), f"examples of {loaded.name}")
    group_of_row = read_groups(group, loaded, config.objective, split)
    device = engine.pick_device(config.device)
    with distributed.process_group(device):
        runs = _training_runs(data, loaded, config, store, weights, group_of_row)
        _check_run_settings(runs[0], split)
        devices.choose_precision(config.precision, device)
        openers = _recorder_openers(runs, loaded, split)
        created: list[str] = []

        def create_missing() -> None:
            """In one process, and only when the runs can start: a store keeps its settings."""
            for name, opener in openers.items():
                if distributed.is_main_process() and not is_store(name):
                    opener().close()
                    created.append(name)
            distributed.barrier()

        try:
            results = _train_runs(runs, on_gpu=device.type == "cuda", ready=create_missing, progress=progress)
        except BaseException:
            for name in created:
                remove_empty_store(name)
            raise
    trained = tuple(_trained_run(run, result, split) for run, result in zip(runs, results, strict=True))
    return Trained(trained, tuple(openers), config)


def _training_runs(
    data: str | Dataset,
    loaded: Dataset,
    config: TrainConfig,
    out: str,
    weights: str | os.PathLike[str] | None,
    groups: NDArray[np.int64] | None,
) -> list[Run]:
    folder = f"{out.rstrip('/')}-models" if weights is None else os.fspath(weights).removeprefix("file://")
    if "://" in folder:
        raise InputError(f"must name a local folder for the models; got {folder!r}", argument="weights")
    runs = []
    for model in config.models:
        name = model.replace(":", "-").replace("/", "-")  # my_nets:small is in my_nets-small
        settings = with_defaults(config, model, as_example_array(loaded.x).shape[1:])
        path, models = out if len(config.models) == 1 else f"{out}/{name}", Path(folder).absolute() / name
        runs += [Run(data, settings, seed, path, str(models), groups) for seed in range(config.seeds)]
    return runs


def _check_run_settings(run: Run, split: Split) -> None:
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


def _recorder_openers(runs: Sequence[Run], loaded: Dataset, split: Split) -> dict[str, Callable[[], Recorder]]:
    """Refuse architectures and stores that cannot work before anything runs; return what opens each store."""
    input_shape = input_shape_of(as_example_array(loaded.x).shape)
    openers: dict[str, Callable[[], Recorder]] = {}
    for run in {run.store: run for run in runs}.values():
        options = dict(run.config.model_options)
        classifiers.build(run.config.model, input_shape=input_shape, n_classes=loaded.n_classes, **options)
        openers[run.store] = partial(open_recorder, run, loaded, split, run.settings(loaded))
    for store, opener in openers.items():
        if distributed.is_main_process() and is_store(store):
            opener().close()
    return openers


def _train_runs(
    runs: Sequence[Run], *, on_gpu: bool, ready: Callable[[], None], progress: Progress | None
) -> list[SeedResult]:
    """Train every run, where :func:`hardpan.parallel` says; ``ready`` comes first."""
    setting = execution.current()
    world = distributed.world_size()
    if world > 1 and setting.backend:
        raise InputError(f"backend {setting.backend!r} cannot be combined with torchrun; use one of them")
    sequential = world > 1 or on_gpu or len(runs) == 1 or available_cores() == 1
    backend = setting.backend or ("threads" if setting.workers == 1 or (sequential and not setting.workers) else "")
    if backend == "threads":
        ready()
        return [train_run(run, progress_of_run(progress, index, len(runs))) for index, run in enumerate(runs)]
    with execution.parallel(backend or "processes", workers=setting.workers, address=setting.address):
        return execution.map_tasks(train_run, runs, ready=ready, progress=progress)


def available_cores() -> int:
    """How many cores this process may use; fewer than the machine has if the process is bound to some.

    Example:
        >>> 1 <= available_cores() <= (os.cpu_count() or 1)
        True
    """
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _trained_run(run: Run, result: SeedResult, split: Split) -> TrainedRun:
    values = result.history[-1]
    if run.config.patience:  # the weights of the best epoch are kept, so its values are those of the run
        values = min(result.history, key=lambda values: values["validation_loss"])
    parts = {"validation": split.validation, "test": split.test}
    accuracy = {
        name: _accuracy_estimate(values[f"{name}_accuracy"], len(rows))
        for name, rows in parts.items()
        if len(rows) and f"{name}_accuracy" in values
    }
    by_group: dict[str, Estimate] = {}
    for name, rows in parts.items():  # of the test split; of validation if the epoch has no test predictions
        groups = rows[:0] if run.groups is None else run.groups[rows]
        by_group = {
            str(group): _accuracy_estimate(accuracy_there, int(np.count_nonzero(groups == group)))
            for group, accuracy_there in group_accuracies(name, values).items()
        } or by_group
    return TrainedRun(
        run.config.model,
        run.seed,
        run.store,
        run.folder,
        len(result.history),
        result.resumed_at,
        accuracy,
        values,
        result.seconds,
        by_group,
    )


def _accuracy_estimate(accuracy: float, n: int) -> Estimate:
    return stats.share(round(accuracy * n), n, method="accuracy, Clopper–Pearson")
