"""Fitting a flow to a dataset, on the engine that every training run shares."""

from __future__ import annotations

import dataclasses
import os
import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import hardpan
from hardpan import engine
from hardpan.data.dataset import Dataset, Split
from hardpan.engine import devices, distributed
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.files import array_hash
from hardpan.flows.config import CLASS_WEIGHTS, PRESETS, FlowConfig
from hardpan.flows.files import save
from hardpan.flows.flow import Flow, FlowRecord
from hardpan.flows.network import build, describe_scaling, scaling_for
from hardpan.flows.task import FlowTask, Rows

CHECKPOINTS = "checkpoints"


def fit(
    dataset: Dataset,
    config: FlowConfig | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Flow:
    """Fit a class-conditional flow to the training rows of a dataset.

    Minimises (−log π_y p_y(x)) in bits per dimension plus λ times a classification loss (Theisen et al. 2021,
    section 4.1) by Adam; the averaged weights of the epoch with the best validation NLL are kept. The test rows are
    looked at once, at the end, and choose nothing.

    Args:
        dataset: labelled images (Glow) or feature vectors (splines); split by :func:`hardpan.Dataset.splits`.
        config: settings; default ``FlowConfig()``.
        out: folder for the flow and, while it is fitted, its checkpoints: the same call goes on after a kill.
        progress: called with a line and the fraction done.

    Example:
        >>> from hardpan import Dataset, flows
        >>> flow = flows.fit(Dataset.open("digits"), flows.FlowConfig(preset="tiny", epochs=2))
        >>> flow.record.fitted["epochs"], flow.bayes_error().method
        (2, 'importance')
    """
    settings = (config or FlowConfig()).filled()
    _check(dataset)
    parts = dataset.splits(seed=settings.seed)
    device = engine.pick_device(settings.device)
    with distributed.process_group(device), engine.claimed(out), devices.matrix_precision("float32", device):
        task = prepare(dataset, parts, settings, device)
        history, seconds = _train(task, dataset, out, progress)
        flow = finish(dataset, parts, task, history, seconds)
        if out is not None and distributed.is_main():
            save(flow, out)
    return flow


def sweep(
    dataset: Dataset,
    config: FlowConfig | None = None,
    *,
    class_weights: Sequence[float] = CLASS_WEIGHTS,
    preset: str = "small",
    trial: Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Flow:
    """Choose λ by validation NLL at a smaller preset, then fit with it.

    The paper chose λ by the NLL of the test set; the test set chooses nothing here.

    Args:
        dataset: as in :func:`fit`.
        config: settings of the last fit.
        class_weights: the values of λ to try.
        preset: sizes of the flows that are tried.
        trial: other settings of the trials, by name.
        out: as in :func:`fit`; the trials lie under ``trials/``.
        progress: called with a line and the fraction done.
    """
    config = config or FlowConfig()
    if not class_weights:
        raise InputError("class_weights must not be empty; give at least one value of λ")
    shares = len(class_weights) + 1
    sizes: dict[str, Any] = dict.fromkeys(PRESETS["tiny"]) | dict(trial or {})
    settings = [dataclasses.replace(config, preset=preset, class_weight=float(w), **sizes) for w in class_weights]
    for tried in (config, *settings):
        tried.filled()  # refuse the last value before the first is tried
    trials: list[dict[str, float]] = []
    for number, (weight, tried) in enumerate(zip(class_weights, settings, strict=True)):
        place = None if out is None else Path(out) / "trials" / f"{weight:g}"
        found = fit(dataset, tried, out=place, progress=_part(progress, number, shares, f"λ = {weight:g}: "))
        trials.append({"class_weight": float(weight), "validation_nll": found.record.fitted["validation_nll"]})
    best = min(trials, key=lambda trial: trial["validation_nll"])["class_weight"]
    chosen = dataclasses.replace(config, class_weight=best)
    flow = fit(dataset, chosen, out=out, progress=_part(progress, shares - 1, shares, f"λ = {best:g} chosen: "))
    flow.record = dataclasses.replace(flow.record, fitted={**flow.record.fitted, "sweep": tuple(trials)})
    if out is not None and distributed.is_main():
        save(flow, out)
    return flow


def _part(progress: Progress | None, number: int, shares: int, label: str) -> Progress | None:
    if progress is None:
        return None
    return lambda line, fraction: progress(label + line, (number + fraction) / shares)


def _check(dataset: Dataset) -> NDArray[np.int64]:
    if dataset.labels is None:
        raise InputError(f"dataset {dataset.name!r} has no labels; a class-conditional flow needs them")
    if dataset.n_classes < 2:
        raise InputError(f"dataset {dataset.name!r} has {dataset.n_classes} class; a flow needs at least 2")
    return np.asarray(dataset.labels, dtype=np.int64)


def prepare(dataset: Dataset, parts: Split, config: FlowConfig, device: torch.device) -> FlowTask:
    """Make the run that :func:`fit` trains: an untrained network, its rows on the device, its optimiser."""
    labels = _check(dataset)
    counts = np.bincount(labels[parts.train], minlength=dataset.n_classes)
    if counts.min() == 0:
        missing = dataset.class_names[int(counts.argmin())]
        raise InputError(f"class {missing!r} has no training row; remove the class or give more rows")
    x = dataset.x[parts.train]
    network = build(config, scaling_for(x, config), torch.from_numpy(counts / counts.sum())).to(device)
    train = Rows(network, x, labels[parts.train], device)
    held = parts.validation if len(parts.validation) else parts.train
    task = FlowTask(network, config, train, Rows(network, dataset.x[held], labels[held], device), device)
    task.start()
    return task


def _train(
    task: FlowTask, dataset: Dataset, out: str | os.PathLike[str] | None, progress: Progress | None
) -> tuple[engine.History, float]:
    config = task.config
    loop = engine.LoopConfig(config.epochs or 1, config.checkpoint_every, "validation_nll", config.patience)
    kept = dataclasses.asdict(config) | {"dataset": dataset.name, "rows": len(dataset)}
    # A file of the same name and length may hold other examples by now: no flow of the old ones is given for it.
    kept["data_sha256"] = array_hash(dataset.x)[:32] + array_hash(_check(dataset))[:32]
    del kept["device"], kept["checkpoint_every"]
    begun = time.monotonic()
    folder = None if out is None else Path(out) / CHECKPOINTS
    history = engine.run_epochs(task, loop, folder=folder, settings=kept, progress=progress)
    return history, time.monotonic() - begun


def finish(dataset: Dataset, parts: Split, task: FlowTask, history: engine.History, seconds: float) -> Flow:
    """Make a flow of a run's best weights, and say how the run went; here the test rows are looked at."""
    config, labels = task.config, _check(dataset)
    network = task.network
    with task.averaged():
        pass  # leaves the plain runner in place
    network.load_state_dict({name: value.to(task.device) for name, value in history.best_weights.items()})
    validation_nll, validation_error = task.evaluate(task.validation)
    fitted: dict[str, Any] = {
        "dataset": dataset.name,
        "split": parts.method,
        "train_rows": len(parts.train),
        "epochs": len(history.epochs),
        "best_epoch": history.best_epoch + 1,
        "stopped": history.stopped,
        "train_nll": history.epochs[history.best_epoch]["nll"],
        "validation_nll": validation_nll,
        "validation_bits_per_dim": task._bits(validation_nll),
        "validation_error": validation_error,
        "validation_rows": len(task.validation),
    }
    if len(parts.test):
        test = Rows(network, dataset.x[parts.test], labels[parts.test], task.device)
        fitted["test_nll"], fitted["test_error"] = task.evaluate(test)
        fitted["test_bits_per_dim"] = task._bits(fitted["test_nll"])
        fitted["test_rows"] = len(test)
    fitted |= {
        "seconds": round(seconds, 3),
        "device": devices.describe_device(task.device),
        "versions": {
            "hardpan": hardpan.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }
    floors = tuple(
        {name: values[name] for name in ("validation_nll", "validation_error", "bayes_error", "bayes_error_stderr")}
        | {"epoch": number}
        for number, values in enumerate(history.epochs, 1)
    )
    record = FlowRecord(config, dataset.class_names, describe_scaling(network.scaling), fitted, floors)
    return Flow(network, record)
