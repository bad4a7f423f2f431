"""One classifier trained in this process, whatever its examples come from and its predictions go to."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hardpan import engine
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.training import classifiers
from hardpan.training.config import TrainConfig
from hardpan.training.evaluation import Evaluator, accuracy_of, loss_of
from hardpan.training.examples import Examples
from hardpan.training.groups import right_by_group
from hardpan.training.task import ClassifierTask, TrainingSet

Record = Callable[[int, NDArray[np.float32]], None]

# Dropout draws from the generator that a process has one of, and threads are counted by process.
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True, slots=True)
class Watched:
    """What is evaluated after an epoch.

    Attributes:
        examples: what is predicted.
        record: is given the epoch (1, 2, ...) and the probabilities (N, C) of all examples.
        parts: names (validation, test) and the rows of the examples that they consist of.
        labels: (N,) class numbers, where parts are given.
        groups: (N,) group numbers, where accuracy is wanted by group.
    """

    examples: Examples
    record: Record
    parts: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    labels: NDArray[np.int64] | None = None
    groups: NDArray[np.int64] | None = None

    def judged(self, name: str, probs: NDArray[np.float32], labels: NDArray[np.int64]) -> dict[str, float]:
        """Give what is said of a part, from the probabilities of its rows and the labels of all."""
        rows = self.parts[name]
        return judged(name, probs, labels[rows], None if self.groups is None else self.groups[rows])


@dataclass(frozen=True, slots=True)
class Fitted:
    """A trained model with the weights that predict, and what the epochs said."""

    model: nn.Module
    history: engine.History


@contextmanager
def prepared(config: TrainConfig) -> Iterator[tuple[torch.device, str]]:
    """Give device and precision of a run; threads and random generators are as before after the block."""
    with _ONE_AT_A_TIME:
        device = engine.pick_device(config.device)
        precision = engine.choose_precision(config.precision, device)
        threads = torch.get_num_threads()
        torch.set_num_threads(config.threads)
        devices = [device.index or 0] if device.type == "cuda" else []
        try:
            with torch.random.fork_rng(devices=devices), engine.matrix_precision(precision, device):
                yield device, precision
        finally:
            torch.set_num_threads(threads)
            if device.type == "cuda":
                gc.collect()  # a task and its captured step hold each other, and with them the memory of the graph
                torch.cuda.empty_cache()


def fit_model(
    config: TrainConfig,
    given: TrainingSet,
    watched: Watched,
    *,
    seed: int,
    precision: str,
    folder: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    label: str = "",
) -> Fitted:
    """Train one model; ``config`` is filled for one architecture, and runs inside :func:`prepared`."""
    device = given.examples.raw.device
    model = new_model(config, given, seed)
    evaluator = evaluator_of(model, config, given, watched.examples, precision)
    at_end = _EndOfEpoch(config, watched, evaluator, device)
    task = ClassifierTask(model, given, config, seed=seed, precision=precision, at_end_of_epoch=at_end)
    loop = engine.LoopConfig(
        config.epochs, monitor="validation_loss" if config.patience else "", patience=config.patience
    )
    with memory_explained(config, device):
        history = engine.run_epochs(task, loop, folder=folder, settings=settings, progress=progress, label=label)
    model.load_state_dict(history.best_weights or task.weights())
    return Fitted(model.eval(), history)


def new_model(config: TrainConfig, given: TrainingSet, seed: int) -> nn.Module:
    """Make the architecture of a configuration with its initial weights, on the device of the examples."""
    model = classifiers.build(
        config.model,
        input_shape=given.examples.input_shape,
        n_classes=given.n_classes,
        seed=seed,
        **config.model_options,
    )
    model = given.examples.with_model(model)
    if config.compile:
        model.compile()
    return model


def evaluator_of(
    model: nn.Module, config: TrainConfig, given: TrainingSet, examples: Examples, precision: str
) -> Evaluator:
    """Make what predicts ``examples`` with a model in training."""
    return Evaluator(
        model,
        examples,
        n_classes=given.n_classes,
        precision=precision,
        batch=config.evaluation_batch,
        capture=config.capture,
    )


def part_of(progress: Progress | None, index: int, count: int) -> Progress | None:
    """Give the progress of one of ``count`` runs, which come one after another.

    Example:
        >>> part_of(lambda text, fraction: print(text, fraction), 1, 4)("half of the second", 0.5)
        half of the second 0.375
    """
    if progress is None:
        return None
    return lambda text, fraction: progress(text, (index + fraction) / count)


@contextmanager
def memory_explained(config: TrainConfig, device: torch.device) -> Iterator[None]:
    """Say in one sentence that a GPU is too small, and what to do."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise InputError(
            f"{engine.describe_device(device)} has too little memory for {config.model} at batch {config.batch}; "
            "give a smaller batch or evaluation_batch, or fewer runs at once"
        ) from error


class _EndOfEpoch:
    """Predicts after an epoch: everything where it is recorded, else the validation rows alone."""

    def __init__(self, config: TrainConfig, watched: Watched, evaluator: Evaluator, device: torch.device) -> None:
        self._watched, self._evaluator = watched, evaluator
        self._recorded = set(config.recorded_epochs())
        rows = watched.parts.get("validation")
        self._validation = None if rows is None or not len(rows) else torch.from_numpy(rows).to(device)

    def __call__(self, epoch: int) -> dict[str, float]:
        watched = self._watched
        if epoch + 1 in self._recorded:
            probs = self._evaluator()
            if not np.isfinite(probs).all():
                return {"probabilities": float("nan")}
            watched.record(epoch + 1, probs)
            values: dict[str, float] = {}
            for name, rows in watched.parts.items():
                if len(rows) and watched.labels is not None:
                    values |= watched.judged(name, probs[rows], watched.labels)
            return values
        if self._validation is None or watched.labels is None:
            return {}
        return watched.judged("validation", self._evaluator(self._validation), watched.labels)


def judged(
    name: str,
    probs: NDArray[np.float32],
    labels: NDArray[np.int64],
    groups: NDArray[np.int64] | None = None,
) -> dict[str, float]:
    """Give accuracy and loss of a part, named after it, and with groups the accuracy of each."""
    found = {f"{name}_accuracy": accuracy_of(probs, labels), f"{name}_loss": loss_of(probs, labels)}
    return found | right_by_group(name, probs.argmax(axis=1) == labels, groups)
