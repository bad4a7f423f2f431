"""``training.train``: seeds × architectures, their predictions in stores, their weights beside them."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import engine, execution, stats
from hardpan.data.dataset import Dataset, Split
from hardpan.engine import devices, distributed
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.files import record
from hardpan.predictions.recorder import Recorder
from hardpan.predictions.store import is_store
from hardpan.report.base import Report
from hardpan.training import classifiers, objectives
from hardpan.training.config import TrainConfig, changed, with_defaults
from hardpan.training.examples import check_size, input_shape_of, shaped
from hardpan.training.fitting import progress_of
from hardpan.training.objectives import GroupSource, check_subset, group_accuracies, read_groups
from hardpan.training.saved import DESCRIPTION
from hardpan.training.seed_runs import PROGRESS, NewStores, Run, SeedResult, load_split, open_recorder, train_run


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


@record
class Trained(Report):
    """The result of :func:`train`: its runs, and the stores of their predictions.

    Attributes:
        runs: one per architecture and seed.
        stores: of predictions, one per architecture; with ``scalars_only``, of scores.
        config: the settings.
        scalars_only: whether only scores were recorded.
    """

    runs: tuple[TrainedRun, ...]
    stores: tuple[str, ...]
    config: TrainConfig
    scalars_only: bool = False

    def __repr__(self) -> str:
        return f"Trained({len(self.runs)} runs, stores {', '.join(self.stores)})"


def train(
    dataset: Any,
    config: TrainConfig | None = None,
    *,
    out: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = None,
    group: GroupSource = None,
    scalars_only: bool = False,
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
        group: for objectives over groups: a file (a subset of ``hardpan confusion``, or an npz with ``groups``), or
            (N,) group numbers in the order of the dataset; by default the group column of the dataset.
        scalars_only: record no predictions: the seeds of an architecture are trained in lockstep, and of each epoch
            only the entropy of their mean is added to the scores in ``out``. Their number is then fixed.
        progress: called with a line and the fraction done.
        changes: settings that replace those of ``config``.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trained = train("digits", model="linear", seeds=1, epochs=2, out=folder + "/run", device="cpu")
        >>> trained.runs[0].epochs, trained.runs[0].accuracy["test"].n
        (2, 359)
    """
    config = changed(config, changes)
    store = _store_path(out)
    data = os.fspath(dataset) if isinstance(dataset, (str, os.PathLike)) else Dataset.open(dataset)
    if isinstance(data, str) and Path(data).exists():
        data = str(Path(data).absolute())  # a worker elsewhere has another working folder
    loaded, split = load_split(data)
    loaded.require_labels()
    check_size(shaped(loaded.x), f"examples of {loaded.name}")
    group_of_row = read_groups(group, loaded, config.objective)
    check_subset(group, group_of_row, split)
    device = engine.pick_device(config.device)
    on_gpu = device.type == "cuda"
    with distributed.process_group(device):
        runs = _runs(data, loaded, config, store, weights, group_of_row, scalars_only)
        _check_settings(runs[0], split)
        devices.choose_precision(config.precision, device)
        openers = _checked_openers(runs, loaded, split)
        new = NewStores()
        try:
            results = _run_all(runs, on_gpu=on_gpu, ready=partial(_create_missing, openers, new), progress=progress)
        except BaseException:
            # A store keeps its settings: an empty one would refuse the next call with corrected settings.
            new.remove_empty()
            raise
    trained = tuple(
        _trained_run(run, seed, result, split)
        for run, of_run in zip(runs, results, strict=True)
        for seed, result in zip(run.seeds, of_run, strict=True)
    )
    return Trained(trained, tuple(openers), config, scalars_only)


def _store_path(out: str | os.PathLike[str]) -> str:
    if not isinstance(out, (str, os.PathLike)) or not os.fspath(out):
        raise InputError(
            f"must name a folder or an fsspec address for the predictions; got {out!r}", argument="out"
        )
    text = os.fspath(out).removeprefix("file://")
    return text if "://" in text else str(Path(text).absolute())


def _runs(
    data: str | Dataset,
    loaded: Dataset,
    config: TrainConfig,
    out: str,
    weights: str | os.PathLike[str] | None,
    groups: NDArray[np.int64] | None,
    lockstep: bool,
) -> list[Run]:
    if lockstep and config.patience:
        raise InputError(
            f"must be 0 with scalars_only, since seeds in lockstep end together; got {config.patience}",
            argument="patience",
        )
    folder, shape = _models_folder(weights, out), shaped(loaded.x).shape[1:]
    together = [tuple(range(config.seeds))] if lockstep else [(seed,) for seed in range(config.seeds)]
    return [
        Run(
            data,
            with_defaults(config, name, shape),
            seeds,
            out if len(config.models) == 1 else f"{out}/{_folder_name(name)}",
            str(folder / _folder_name(name)),
            groups,
            lockstep,
        )
        for name in config.models
        for seeds in together
    ]


def _models_folder(weights: str | os.PathLike[str] | None, out: str) -> Path:
    if weights is None and "://" in out:
        raise InputError(f"must name a local folder for the models, since out is {out!r}", argument="weights")
    if weights is not None and not isinstance(weights, (str, os.PathLike)):
        raise InputError(f"must name a local folder for the models; got {weights!r}", argument="weights")
    folder = f"{out.rstrip('/')}-models" if weights is None else os.fspath(weights).removeprefix("file://")
    if "://" in folder:
        raise InputError(
            f"must name a local folder for the models, not an address; got {folder!r}", argument="weights"
        )
    return Path(folder).absolute()


def _folder_name(model: str) -> str:
    """The folder of an architecture: ``my_nets:small`` is ``my_nets-small``."""
    return model.replace(":", "-").replace("/", "-")


def _check_settings(run: Run, split: Split) -> None:
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


def _checked_openers(runs: Sequence[Run], loaded: Dataset, split: Split) -> dict[str, Callable[[], Recorder]]:
    """Refuse architectures and stores that cannot work before anything runs; return what opens each store."""
    input_shape = input_shape_of(shaped(loaded.x).shape)
    openers: dict[str, Callable[[], Recorder]] = {}
    for run in {run.store: run for run in runs}.values():
        options = dict(run.config.model_options)
        classifiers.build(run.config.model, input_shape=input_shape, n_classes=loaded.n_classes, **options)
        openers[run.store] = partial(open_recorder, run, loaded, split, run.settings(loaded))
    for store, opener in openers.items():
        if distributed.is_main() and is_store(store):
            opener().close()
    return openers


def _create_missing(openers: Mapping[str, Callable[[], Recorder]], new: NewStores) -> None:
    """Create the stores that do not exist, when the runs can start.

    One process creates them, before runs that would otherwise do so at the same time; and only now, since a store
    keeps its settings, so that the store of a run that never started would refuse another run.
    """
    for store, opener in openers.items():
        if distributed.is_main() and not is_store(store):
            new.create(store, opener)
    distributed.barrier()


def _run_all(
    runs: Sequence[Run], *, on_gpu: bool, ready: Callable[[], None], progress: Progress | None
) -> list[tuple[SeedResult, ...]]:
    """Train every run, where :func:`hardpan.parallel` says; ``ready`` comes first."""
    setting = execution.current()
    world = distributed.world_size()
    if world > 1 and setting.backend:
        raise InputError(f"backend {setting.backend!r} cannot be combined with torchrun; use one of them")
    sequential = world > 1 or on_gpu or len(runs) == 1 or available_cores() == 1
    backend = setting.backend or ("threads" if setting.workers == 1 or (sequential and not setting.workers) else "")
    if backend == "threads":
        ready()
        return [train_run(run, progress_of(progress, index, len(runs))) for index, run in enumerate(runs)]
    with (
        _reported(runs, progress),
        execution.parallel(backend or "processes", workers=setting.workers, address=setting.address),
    ):
        return execution.map_tasks(train_run, runs, ready=ready)


def available_cores() -> int:
    """How many cores this process may use; fewer than the machine has if the process is bound to some.

    Example:
        >>> 1 <= available_cores() <= (os.cpu_count() or 1)
        True
    """
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _reported(runs: Sequence[Run], progress: Progress | None) -> Iterator[None]:
    """Report the progress of runs in other processes every second, from the files that they write."""
    if progress is None:
        yield
        return
    over = threading.Event()

    def report() -> None:
        while not over.wait(1.0):
            states = [_progress_in_file(run) for run in runs]
            lines = [line for line, _ in states if line]
            if lines:
                more = f"; {len(lines) - 2} more" if len(lines) > 2 else ""
                progress("; ".join(lines[:2]) + more, sum(done for _, done in states) / len(runs))

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        over.set()
        reporter.join()


def _progress_in_file(run: Run) -> tuple[str, float]:
    """The line and the fraction done of an active run; no line if it is not active."""
    try:
        line, done = json.loads((Path(run.folder) / PROGRESS).read_text(encoding="utf-8"))
        return str(line), float(done)
    except (OSError, ValueError, TypeError):
        # The last model is written last: by then the progress file is gone.
        return "", float((Path(run.weights(run.seeds[-1])) / DESCRIPTION).exists())


def _trained_run(run: Run, seed: int, result: SeedResult, split: Split) -> TrainedRun:
    values = result.history[-1]
    if run.config.patience:  # the weights of the best epoch are kept, so its values are those of the run
        values = min(result.history, key=lambda values: values["validation_loss"])
    sizes = {"validation": len(split.validation), "test": len(split.test)}
    accuracy = {
        name: _estimate(values[f"{name}_accuracy"], n)
        for name, n in sizes.items()
        if n and f"{name}_accuracy" in values
    }
    return TrainedRun(
        model=run.config.model,
        seed=seed,
        store=run.store,
        weights=run.weights(seed),
        epochs=len(result.history),
        resumed_at=result.resumed_at,
        accuracy=accuracy,
        values=values,
        seconds=result.seconds,
        group_accuracy={} if run.groups is None else _by_group(values, run.groups, split),
    )


def _by_group(values: Mapping[str, float], groups: NDArray[np.int64], split: Split) -> dict[str, Estimate]:
    for name, rows in (("test", split.test), ("validation", split.validation)):
        accuracies = group_accuracies(name, values)
        if accuracies:
            return {
                str(group): _estimate(accuracy, int(np.count_nonzero(groups[rows] == group)))
                for group, accuracy in accuracies.items()
            }
    return {}


def _estimate(accuracy: float, n: int) -> Estimate:
    return stats.share(round(accuracy * n), n, method="accuracy, Clopper–Pearson")
