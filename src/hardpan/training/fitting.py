"""Classifiers trained in this process, from any examples to any recorder of predictions."""

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
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from hardpan import arguments, engine
from hardpan.engine import devices, distributed, optimization, seeds
from hardpan.engine.checkpoints import join_state_tensors, tensors_with_prefix
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.execution.mapping import between
from hardpan.training import classifiers
from hardpan.training.config import TrainConfig, changed_train_config, with_defaults
from hardpan.training.examples import (
    Examples,
    as_training_examples,
    choose_augmentation,
    crop_draws,
    crop_images,
    examples_on,
    normalization,
    training_targets,
)
from hardpan.training.objectives import AppliedObjective

Record = Callable[[int, NDArray[np.float32]], None]
"""Called with the epoch (1, 2, ...) and the probabilities of all examples."""
_OF_GROUP = "_accuracy_group_"

_GPU_PIXELS = 4096 * 32 * 32  # pixels of a batch: activations of the usual networks fit into a few GB
_CPU_PIXELS = 256 * 32 * 32

# Dropout uses the one random generator of the process, and the number of threads is set per process.
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Training examples on a device.

    Attributes:
        examples: raw examples on the device.
        rows: (n,) the training rows, on the device.
        targets: for all rows of the examples, class numbers (N,) or probabilities (N, C), on the device.
        n_classes: number of classes.
        groups: (N,) group numbers if the objective needs them, on the device.
    """

    examples: Examples
    rows: Tensor
    targets: Tensor
    n_classes: int
    groups: Tensor | None = None


class ClassifierTask(engine.Task):
    """Trains one model on one training set; :func:`hardpan.engine.run_epochs` runs it."""

    def __init__(
        self,
        model: nn.Module,
        training_set: TrainingSet,
        config: TrainConfig,
        *,
        seed: int,
        precision: str,
        end_of_epoch: Callable[[int], dict[str, float]] | None = None,
    ) -> None:
        self.model, self._training_set, self._config, self._seed = model, training_set, config, seed
        self._device, self._precision = training_set.examples.raw.device, precision
        self._augmentation = choose_augmentation(config.augment, training_set.examples.input_shape)
        self._end_of_epoch = end_of_epoch
        assert config.rate is not None, "with_defaults fills it in"
        assert config.weight_decay is not None, "with_defaults fills it in"
        self._goal = AppliedObjective(config, training_set.groups, training_set.rows, seed)
        # Equal batches; the remainder of an epoch is left out.
        batch, world = min(config.batch, self._goal.length), distributed.world_size()
        if batch < world:
            raise InputError(
                f"a batch of {batch} examples cannot be split over {world} processes; use fewer processes"
            )
        self.examples_per_step = batch // world * world
        self.steps = self._goal.length // self.examples_per_step
        table = optimization.rate_table(
            config.schedule,
            rate=config.rate,
            steps=config.epochs * self.steps,
            warmup=round(config.warmup * config.epochs * self.steps),
        )
        self._optimizer = optimization.ScheduledOptimizer(
            model,
            config.optimizer,
            table,
            weight_decay=config.weight_decay,
            momentum=config.momentum,
            ema=config.ema,
        )
        self._sums = torch.zeros(2, device=self._device)
        self._done = 0
        self._captured = engine.CapturedStep(self._step, self._device, enabled=config.capture)

    def begin_epoch(self, epoch: int) -> None:
        """Set the order, crops and flips of the epoch; seed the noise inside the model."""
        order = self._goal.order(epoch)[: self.steps * self.examples_per_step]
        crops = crop_draws(self._augmentation, len(order), self._seed, epoch)
        # Each process takes a fraction of every batch: together they see what one process would see.
        own = slice(distributed.rank(), None, distributed.world_size())
        self._order = order.reshape(self.steps, -1)[:, own].to(self._device)
        self._crops = crops.reshape(self.steps, -1, 3)[:, own].to(self._device)
        torch.manual_seed(seeds.derived_seed(self._seed, "noise", epoch, distributed.rank()))
        self._sums.zero_()
        self._done = 0
        self.model.train()

    def step(self, index: int) -> None:
        """Start one step."""
        self._captured(self._order[index], self._crops[index])
        self._done += 1

    def _step(self, rows: Tensor, crops: Tensor) -> None:
        training_set = self._training_set
        self._optimizer.zero_gradients()
        raw = training_set.examples.raw
        inputs = crop_images(raw, rows, crops) if self._augmentation else raw.index_select(0, rows)
        with devices.autocast(self._precision, self._device):
            logits = self.model(training_set.examples.normalize(inputs))
        targets = training_set.targets.index_select(0, rows)
        smoothing = self._config.smoothing
        losses = cross_entropy(logits.float(), targets, reduction="none", label_smoothing=smoothing)
        loss = self._goal.loss(losses, rows)
        loss.backward()  # type: ignore[no-untyped-call]
        distributed.average_gradients(self._optimizer.parameters)
        if self._config.clip:
            nn.utils.clip_grad_norm_(self._optimizer.parameters, self._config.clip)
        self._optimizer.step()
        with torch.no_grad():
            labels = targets.argmax(dim=1) if targets.ndim == 2 else targets
            correct = (logits.argmax(dim=1) == labels).float().mean()
            self._sums += torch.stack([losses.detach().mean(), correct])

    def means(self) -> dict[str, float]:
        """Mean loss and accuracy of this epoch's steps so far, on augmented examples in training mode."""
        loss, accuracy = (self._sums / max(self._done, 1)).tolist()
        return {"loss": loss, "accuracy": accuracy}

    def end_epoch(self, epoch: int) -> dict[str, float]:
        """Evaluate with the weights that predict."""
        distributed.all_reduce_mean([item for item in self.model.buffers() if item.is_floating_point()])
        with self._optimizer.averaged():
            return {} if self._end_of_epoch is None else self._end_of_epoch(epoch)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that an exact resume needs."""
        own = {"model/": self.model.state_dict(), "goal/": self._goal.tensors()}
        return join_state_tensors(own) | self._optimizer.tensors()

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Resume from the state that :meth:`tensors` returned."""
        self.model.load_state_dict(tensors_with_prefix("model/", tensors))
        self._optimizer.load_tensors(tensors)
        self._goal.load_tensors(tensors_with_prefix("goal/", tensors))

    def weights(self) -> dict[str, Tensor]:
        """The weights that predict: the model's, or their running mean."""
        return self._optimizer.weights()


class Evaluator:
    """Predicts softmax probabilities in evaluation mode, ``batch`` rows at a time, captured on a GPU."""

    def __init__(
        self,
        model: nn.Module,
        examples: Examples,
        *,
        n_classes: int,
        precision: str = "float32",
        batch: int = 0,
        capture: bool = True,
    ) -> None:
        self._model, self._examples, self._precision = model, examples, precision
        self._n_classes = n_classes
        self._device = examples.raw.device
        pixels = int(np.prod(examples.input_shape[-2:])) if examples.is_image else 256
        most = (_GPU_PIXELS if self._device.type == "cuda" else _CPU_PIXELS) // pixels
        self.batch = batch or max(1, min(8192, most))
        self._captured = engine.CapturedStep(self._probabilities, self._device, enabled=capture)

    def __call__(self, rows: Tensor | None = None) -> NDArray[np.float32]:
        """Probabilities (n, C) float32 of rows (None: all); several processes divide the work, each gets all."""
        if rows is None:
            rows = torch.arange(len(self._examples), device=self._device)
        n, world = len(rows), distributed.world_size()
        count = -(-n // world)
        start, stop = distributed.rank() * count, min((distributed.rank() + 1) * count, n)
        probs = np.zeros((n, self._n_classes), dtype=np.float32)
        training = self._model.training
        self._model.eval()
        try:
            for first in range(start, stop, self.batch):
                last = min(first + self.batch, stop)
                probs[first:last] = self._captured(rows[first:last]).cpu().numpy()
        finally:
            self._model.train(training)
        if world == 1:
            return probs
        return distributed.all_reduce_sum(torch.from_numpy(probs).to(self._device)).cpu().numpy()

    @torch.no_grad()
    def _probabilities(self, rows: Tensor) -> Tensor:
        inputs = self._examples.normalize(self._examples.raw.index_select(0, rows))
        with devices.autocast(self._precision, self._device):
            logits: Tensor = self._model(inputs)
        return logits.float().softmax(dim=1)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is predicted after an epoch.

    Attributes:
        examples: the examples.
        record: receives the probabilities of all examples.
        splits: rows of the examples by name (validation, test), for accuracy and loss.
        labels: (N,) class numbers, if there are splits.
        groups: (N,) group numbers, if accuracy by group is wanted.
    """

    examples: Examples
    record: Record
    splits: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    labels: NDArray[np.int64] | None = None
    groups: NDArray[np.int64] | None = None

    def split_metrics(self, name: str, probs: NDArray[np.float32]) -> dict[str, float]:
        """Accuracy, loss (probabilities floored at 1e-12) and accuracy by group, from probabilities of a split."""
        assert self.labels is not None, "splits come with labels"
        rows = self.splits[name]
        labels, groups = self.labels[rows], None if self.groups is None else self.groups[rows]
        correct = probs.argmax(axis=1) == labels
        loss = float(-np.log(np.maximum(probs[np.arange(len(rows)), labels], 1e-12)).mean())
        metrics = {f"{name}_accuracy": float(correct.mean()), f"{name}_loss": loss}
        return metrics | accuracy_by_group(name, correct, groups)


@contextmanager
def fitting_device(config: TrainConfig) -> Iterator[tuple[torch.device, str]]:
    """Device and precision of a run; restores threads and random generators after the block."""
    with _ONE_AT_A_TIME:
        device = engine.pick_device(config.device)
        precision = devices.choose_precision(config.precision, device)
        threads = torch.get_num_threads()
        torch.set_num_threads(config.threads)
        gpus = [device.index or 0] if device.type == "cuda" else []
        try:
            with torch.random.fork_rng(devices=gpus), devices.matrix_precision(precision, device):
                yield device, precision
        finally:
            torch.set_num_threads(threads)
            if device.type == "cuda":
                gc.collect()  # a task and its captured step refer to each other, and so keep the graph's memory
                torch.cuda.empty_cache()


def fit_model(
    config: TrainConfig,
    training_set: TrainingSet,
    evaluation: Evaluation,
    *,
    seed: int,
    precision: str,
    folder: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    label: str = "",
) -> tuple[nn.Module, engine.History]:
    """Train one model inside :func:`fitting_device`; ``config`` has the defaults of one architecture filled in.

    Returns:
        The model with the weights that predict, and the history of its epochs.
    """
    examples, device = training_set.examples, training_set.examples.raw.device
    model = examples.with_model(
        classifiers.build(
            config.model,
            input_shape=examples.input_shape,
            n_classes=training_set.n_classes,
            seed=seed,
            **config.model_options,
        )
    )
    if config.compile:
        model.compile()
    evaluator = Evaluator(
        model,
        evaluation.examples,
        n_classes=training_set.n_classes,
        precision=precision,
        batch=config.evaluation_batch,
        capture=config.capture,
    )
    recorded = set(config.recorded_epochs())
    splits = {name: rows for name, rows in evaluation.splits.items() if len(rows)}

    def end_of_epoch(epoch: int) -> dict[str, float]:
        values: dict[str, float] = {}
        if epoch + 1 in recorded:
            probs = evaluator()
            if not np.isfinite(probs).all():
                return {"probabilities": float("nan")}
            evaluation.record(epoch + 1, probs)
            for name, rows in splits.items():
                values |= evaluation.split_metrics(name, probs[rows])
        elif "validation" in splits:
            probs = evaluator(torch.from_numpy(splits["validation"]).to(device))
            values |= evaluation.split_metrics("validation", probs)
        return values

    task = ClassifierTask(model, training_set, config, seed=seed, precision=precision, end_of_epoch=end_of_epoch)
    try:
        history = engine.run_epochs(
            task,
            config.epochs,
            monitor="validation_loss" if config.patience else "",
            patience=config.patience,
            folder=folder,
            settings=settings,
            progress=progress,
            label=label,
        )
    except torch.OutOfMemoryError as error:
        raise InputError(
            f"{devices.describe_device(device)} has too little memory for {config.model} at batch {config.batch}; "
            "reduce batch or evaluation_batch, or run fewer runs at once"
        ) from error
    model.load_state_dict(history.best_weights or task.weights())
    return model.eval(), history


@dataclass(frozen=True, slots=True, eq=False)
class ArrayFit:
    """Probabilities of classifiers that were trained on arrays.

    Attributes:
        probs: (seeds, recorded epochs, examples, classes) float32.
        epochs: the recorded epochs; 1 is the state after one pass.
        history: for each seed, the loss and accuracy of every epoch.
        config: the settings, with what was left open filled in.
    """

    probs: NDArray[np.float32]
    epochs: tuple[int, ...]
    history: tuple[tuple[dict[str, float], ...], ...]
    config: TrainConfig


def fit_arrays(
    x: ArrayLike,
    targets: ArrayLike,
    evaluate: ArrayLike,
    config: TrainConfig | None = None,
    *,
    n_classes: int | None = None,
    group: ArrayLike | None = None,
    first_seed: int = 0,
    progress: Progress | None = None,
    **changes: Any,
) -> ArrayFit:
    """Train one architecture on arrays, once per seed, and return the probabilities of other examples.

    Args:
        x: training examples: vectors (N, d) or images (N, H, W) or (N, H, W, C).
        targets: class numbers (N,), or probabilities (N, C) as soft labels.
        evaluate: the examples to be predicted, of the same form.
        config: settings; one architecture, and no ``patience``.
        n_classes: how many classes there are, where class numbers may miss the last.
        group: (N,) group numbers for objectives over groups.
        first_seed: the seeds are first_seed, first_seed + 1, ...
        progress: called with a line and the fraction done.
        changes: settings to be changed in ``config``.

    Example:
        >>> from hardpan import Dataset
        >>> digits = Dataset.open("digits")
        >>> fit = fit_arrays(digits.x[:1000], digits.labels[:1000], digits.x[1000:], model="linear", seeds=2,
        ...                  epochs=8, record_every=8, device="cpu")
        >>> fit.probs.shape
        (2, 1, 797, 10)
        >>> bool((fit.probs.mean(axis=0)[0].argmax(axis=1) == digits.labels[1000:]).mean() > 0.85)
        True
    """
    config = changed_train_config(config, changes)
    if len(config.models) != 1:
        raise InputError(f"must be one architecture here; got {config.model!r}", argument="model")
    train, predicted = as_training_examples(np.asarray(x)), as_training_examples(np.asarray(evaluate), "evaluate")
    config = with_defaults(config, config.models[0], train.shape[1:])
    values, classes = training_targets(targets, len(train), n_classes)
    if train.shape[1:] != predicted.shape[1:]:
        raise InputError(
            f"must hold examples like x, of shape {train.shape[1:]}; got {predicted.shape[1:]}", argument="evaluate"
        )
    if config.patience:
        raise InputError(
            "must be 0 here: there are no validation examples; use training.train", argument="patience"
        )
    groups = None if group is None else arguments.whole_numbers("group", group, len(train))
    statistics = normalization(train)
    result = np.zeros((config.seeds, len(config.recorded_epochs()), len(predicted), classes), dtype=np.float32)
    index_of = {epoch: index for index, epoch in enumerate(config.recorded_epochs())}
    histories = []
    with fitting_device(config) as (device, precision):
        training_set = TrainingSet(
            examples_on(train, statistics, device),
            torch.arange(len(train), device=device),
            torch.from_numpy(values).to(device),
            classes,
            None if groups is None else torch.from_numpy(groups).to(device),
        )
        examples = examples_on(predicted, statistics, device)
        for index in range(config.seeds):

            def record(epoch: int, probs: NDArray[np.float32], index: int = index) -> None:
                result[index, index_of[epoch]] = probs

            _, history = fit_model(
                config,
                training_set,
                Evaluation(examples, record),
                seed=first_seed + index,
                precision=precision,
                progress=progress and between(progress, index / config.seeds, (index + 1) / config.seeds),
                label=f"{config.model} seed {first_seed + index}, ",
            )
            histories.append(tuple(history.epochs))
    return ArrayFit(result, config.recorded_epochs(), tuple(histories), config)


def accuracy_by_group(split: str, right: NDArray[np.bool_], groups: NDArray[np.int64] | None) -> dict[str, float]:
    """The accuracy of each group that a part holds, under names that :func:`group_accuracies` reads.

    Example:
        >>> accuracy_by_group("test", np.array([True, False, True]), np.array([0, 0, 2]))
        {'test_accuracy_group_0': 0.5, 'test_accuracy_group_2': 1.0}
    """
    if groups is None:
        return {}
    return {f"{split}{_OF_GROUP}{group}": float(right[groups == group].mean()) for group in np.unique(groups)}


def group_accuracies(split: str, values: Mapping[str, float]) -> dict[int, float]:
    """The accuracy of each group of a part, from the values of an epoch.

    Example:
        >>> group_accuracies("test", {"loss": 0.3, "test_accuracy": 0.7, "test_accuracy_group_2": 1.0})
        {2: 1.0}
    """
    begins = f"{split}{_OF_GROUP}"
    return {int(name.removeprefix(begins)): value for name, value in values.items() if name.startswith(begins)}
