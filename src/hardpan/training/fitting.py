"""Classifiers trained in this process, alone or in lockstep, from any examples to any recorder of predictions."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from hardpan import engine
from hardpan.engine import devices, distributed, optimization
from hardpan.engine.checkpoints import join_tensors, tensors_of
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.training import classifiers
from hardpan.training.config import TrainConfig
from hardpan.training.examples import Examples, choose_augmentation, crop_draws, gather
from hardpan.training.objectives import Goal, accuracy_by_group

Record = Callable[[int, NDArray[np.float32], NDArray[np.int64] | None], None]
"""Called with the epoch (1, 2, ...), probabilities, and the rows that they are of; None for all rows."""

_GPU_PIXELS = 4096 * 32 * 32  # pixels of a batch: activations of the usual networks fit into a few GB
_CPU_PIXELS = 256 * 32 * 32
_CHUNK_BYTES = 64 * 2**20  # probabilities of all seeds in lockstep that are in memory at once
_HISTORIES, _CORRECT = "histories", "right"  # names in checkpoints

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
        self._goal = Goal(config, training_set.groups, training_set.rows, seed)
        self.steps, self.examples_per_step = _batches(config.batch, self._goal.length)
        table = optimization.rate_table(
            config.schedule,
            rate=config.rate,
            steps=config.epochs * self.steps,
            warmup=round(config.warmup * config.epochs * self.steps),
        )
        self._schedule = optimization.RateSchedule(table, self._device)
        self._optimizer = optimization.build_optimizer(
            config.optimizer,
            model.parameters(),
            rate=self._schedule.rate,
            weight_decay=config.weight_decay,
            momentum=config.momentum,
        )
        self._trained = [item for item in model.parameters() if item.requires_grad]
        optimization.allocate_gradients(self._trained)
        self.average = optimization.WeightAverage(model, config.ema) if config.ema else None
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
        torch.manual_seed(devices.derived_seed(self._seed, "noise", epoch, distributed.rank()))
        self._sums.zero_()
        self._done = 0
        self.model.train()

    def step(self, index: int) -> None:
        """Start one step."""
        self._captured(self._order[index], self._crops[index])
        self._done += 1

    def _step(self, rows: Tensor, crops: Tensor) -> None:
        training_set = self._training_set
        self._schedule.advance()
        self._optimizer.zero_grad(set_to_none=False)
        raw = training_set.examples.raw
        inputs = gather(raw, rows, crops) if self._augmentation.active else raw.index_select(0, rows)
        with devices.autocast(self._precision, self._device):
            logits = self.model(training_set.examples.normalize(inputs))
        targets = training_set.targets.index_select(0, rows)
        smoothing = self._config.smoothing
        losses = cross_entropy(logits.float(), targets, reduction="none", label_smoothing=smoothing)
        loss = self._goal.loss(losses, rows)
        loss.backward()  # type: ignore[no-untyped-call]
        distributed.average_gradients(self._trained)
        if self._config.clip:
            nn.utils.clip_grad_norm_(self._trained, self._config.clip)
        self._optimizer.step()
        if self.average is not None:
            self.average.update()
        with torch.no_grad():
            labels = targets.argmax(dim=1) if targets.ndim == 2 else targets
            correct = (logits.argmax(dim=1) == labels).float().mean()
            self._sums += torch.stack([losses.detach().mean(), correct])

    def means(self) -> dict[str, float]:
        """Mean loss and accuracy of this epoch's steps so far, on augmented examples in training mode."""
        loss, accuracy = (self._sums / max(self._done, 1)).tolist()
        return {"loss": loss, "accuracy": accuracy}

    @contextmanager
    def predicting(self) -> Iterator[None]:
        """Put the weights that predict (the running mean, if there is one) into the model for the block."""
        distributed.average_buffers(self.model)
        with nullcontext() if self.average is None else self.average.applied():
            yield

    def end_epoch(self, epoch: int) -> dict[str, float]:
        """Evaluate with the weights that predict."""
        with self.predicting():
            return {} if self._end_of_epoch is None else self._end_of_epoch(epoch)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that an exact resume needs."""
        return join_tensors(
            {
                "model/": self.model.state_dict(),
                "optimizer/": optimization.optimizer_tensors(self._optimizer),
                "schedule/": self._schedule.tensors(),
                "goal/": self._goal.tensors(),
                "average/": self.average.tensors() if self.average is not None else {},
            }
        )

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Resume from the state that :meth:`tensors` returned."""
        self.model.load_state_dict(tensors_of("model/", tensors))
        optimization.load_optimizer(self._optimizer, tensors_of("optimizer/", tensors))
        self._schedule.load_tensors(tensors_of("schedule/", tensors))
        self._goal.load_tensors(tensors_of("goal/", tensors))
        if self.average is not None:
            self.average.load_tensors(tensors_of("average/", tensors))

    def weights(self) -> dict[str, Tensor]:
        """The weights that predict: the model's, or their running mean."""
        if self.average is None:
            return dict(self.model.state_dict())
        return dict(self.average.values)


def _batches(batch: int, n: int) -> tuple[int, int]:
    """Steps per epoch and examples per step: equal batches; the remainder of an epoch is left out."""
    world = distributed.world_size()
    size = min(batch, n) // world * world
    if size == 0:
        raise InputError(
            f"a batch of {min(batch, n)} examples cannot be split over {world} processes; use fewer processes"
        )
    return n // size, size


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
        self.batch = batch or _suitable_batch(examples, self._device)
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
        joined = torch.from_numpy(probs).to(self._device)
        distributed.all_reduce_sum(joined)
        return joined.cpu().numpy()

    @torch.no_grad()
    def _probabilities(self, rows: Tensor) -> Tensor:
        inputs = self._examples.normalize(self._examples.raw.index_select(0, rows))
        with devices.autocast(self._precision, self._device):
            logits: Tensor = self._model(inputs)
        return logits.float().softmax(dim=1)


def _suitable_batch(examples: Examples, device: torch.device) -> int:
    pixels = int(np.prod(examples.input_shape[-2:])) if examples.is_image else 256
    return max(1, min(8192, (_GPU_PIXELS if device.type == "cuda" else _CPU_PIXELS) // pixels))


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

    def metrics(self, name: str, correct: NDArray[np.bool_], label_probs: NDArray[np.float32]) -> dict[str, float]:
        """Accuracy, loss (probabilities floored at 1e-12) and accuracy by group of the rows of one split."""
        loss = float(-np.log(np.maximum(label_probs, 1e-12)).mean())
        metrics = {f"{name}_accuracy": float(correct.mean()), f"{name}_loss": loss}
        return metrics | accuracy_by_group(
            name, correct, None if self.groups is None else self.groups[self.splits[name]]
        )

    def all_metrics(self, correct: NDArray[np.bool_], label_probs: NDArray[np.float32]) -> dict[str, float]:
        """The same of every split that has rows, from values (N,) of all examples."""
        values: dict[str, float] = {}
        for name, rows in self.splits.items():
            if len(rows):
                values |= self.metrics(name, correct[rows], label_probs[rows])
        return values


def judge(probs: NDArray[np.float32], labels: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """Whether the most probable class is the label, and the probability of the label; over the last axis.

    Example:
        >>> correct, label_probs = judge(np.array([[0.75, 0.25], [0.25, 0.75]], dtype=np.float32), np.array([0, 0]))
        >>> correct.tolist(), label_probs.tolist()
        ([True, False], [0.75, 0.25])
    """
    label_probs = np.take_along_axis(probs, np.broadcast_to(labels, probs.shape[:-1])[..., None], axis=-1)
    return probs.argmax(axis=-1) == labels, label_probs[..., 0]


class LockstepTask(engine.Task):
    """Trains several seeds epoch by epoch; each sees what it would see alone, so its numbers are the same.

    Attributes:
        tasks: one per seed.
        histories: for each seed, the values of every epoch.
        correct: (seeds + 1, N) whether each seed, and last their mean, was correct at the last recorded epoch.
    """

    def __init__(
        self,
        config: TrainConfig,
        training_set: TrainingSet,
        evaluation: Evaluation,
        *,
        seeds: Sequence[int],
        precision: str,
    ) -> None:
        assert evaluation.labels is not None
        self._evaluation, self._labels = evaluation, evaluation.labels
        self._recorded = set(config.recorded_epochs())
        models = [new_model(config, training_set, seed) for seed in seeds]
        self.tasks = [
            ClassifierTask(model, training_set, config, seed=seed, precision=precision)
            for model, seed in zip(models, seeds, strict=True)
        ]
        self._evaluators = [
            evaluator_of(model, config, training_set, evaluation.examples, precision) for model in models
        ]
        batch = self._evaluators[0].batch
        # Whole batches: a row's probabilities can depend, in the last bit, on how many rows are predicted with it.
        self._chunk = batch * max(1, _CHUNK_BYTES // (4 * len(seeds) * training_set.n_classes * batch))
        self._steps_of_one = self.tasks[0].steps
        self.steps = self._steps_of_one * len(seeds)
        self.examples_per_step = self.tasks[0].examples_per_step
        self.histories: list[list[dict[str, float]]] = [[] for _ in seeds]
        self.correct = np.zeros((len(seeds) + 1, len(evaluation.examples)), dtype=bool)
        self._epoch = self._begun = 0

    def begin_epoch(self, epoch: int) -> None:
        """Note the epoch; each seed begins it at its turn, since it seeds the one random generator."""
        self._epoch, self._begun = epoch, 0

    def step(self, index: int) -> None:
        """Start one step of the seed whose turn it is."""
        turn, step = divmod(index, self._steps_of_one)
        if step == 0:
            self.tasks[turn].begin_epoch(self._epoch)
            self._begun = turn + 1
        self.tasks[turn].step(step)

    def means(self) -> dict[str, float]:
        """Means over the seeds that have begun this epoch."""
        return _mean_values([task.means() for task in self.tasks[: self._begun]])

    def end_epoch(self, epoch: int) -> dict[str, float]:
        """Predict with every seed, record, and keep the values of each seed."""
        with ExitStack() as stack:
            for task in self.tasks:
                stack.enter_context(task.predicting())
            metrics = self._predict_all(epoch + 1) if epoch + 1 in self._recorded else self._predict_validation()
        if metrics is None:
            return {"probabilities": float("nan")}
        for history, task, values in zip(self.histories, self.tasks, metrics, strict=True):
            history.append(distributed.mean_values(task.means()) | values)
        return _mean_values(metrics)

    def _predict_all(self, epoch: int) -> list[dict[str, float]] | None:
        evaluation, n = self._evaluation, len(self._evaluation.examples)
        label_probs = np.zeros((len(self.tasks), n), dtype=np.float32)
        for start in range(0, n, self._chunk):
            rows = np.arange(start, min(start + self._chunk, n))
            probs = self._probabilities(rows)
            if not np.isfinite(probs).all():
                return None
            evaluation.record(epoch, probs, rows)
            labels = self._labels[rows]
            self.correct[:-1, rows], label_probs[:, rows] = judge(probs, labels)
            self.correct[-1, rows] = probs.mean(axis=0).argmax(axis=-1) == labels
        of_seeds = zip(self.correct[:-1], label_probs, strict=True)
        return [evaluation.all_metrics(correct, own) for correct, own in of_seeds]

    def _predict_validation(self) -> list[dict[str, float]]:
        rows = self._evaluation.splits["validation"]
        if not len(rows):
            return [{} for _ in self.tasks]
        labels = self._labels[rows]
        return [
            self._evaluation.metrics("validation", *judge(probs, labels)) for probs in self._probabilities(rows)
        ]

    def _probabilities(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        on_device = torch.from_numpy(rows).to(self._evaluation.examples.raw.device)
        return np.stack([evaluator(on_device) for evaluator in self._evaluators])

    def tensors(self) -> dict[str, Tensor]:
        """Everything that an exact resume needs, of all seeds: they resume from the same epoch."""
        tensors = join_tensors({f"{turn}/": task.tensors() for turn, task in enumerate(self.tasks)})
        histories = json.dumps(self.histories).encode()
        return tensors | {
            _HISTORIES: torch.tensor(list(histories), dtype=torch.uint8),
            _CORRECT: torch.from_numpy(self.correct.astype(np.uint8)),
        }

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Resume from the state that :meth:`tensors` returned."""
        for turn, task in enumerate(self.tasks):
            task.load_tensors(tensors_of(f"{turn}/", tensors))
        self.histories = json.loads(bytes(tensors[_HISTORIES].tolist()))
        self.correct = tensors[_CORRECT].numpy().astype(bool)


def _mean_values(values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([one[name] for one in values])) for name in values[0]} if values else {}


@contextmanager
def run_state(config: TrainConfig) -> Iterator[tuple[torch.device, str]]:
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
    """Train one model inside :func:`run_state`; ``config`` has the defaults of one architecture filled in.

    Returns:
        The model with the weights that predict, and the history of its epochs.
    """
    model = new_model(config, training_set, seed)
    evaluator = evaluator_of(model, config, training_set, evaluation.examples, precision)
    recorded = set(config.recorded_epochs())

    def end_of_epoch(epoch: int) -> dict[str, float]:
        labels = evaluation.labels
        if epoch + 1 in recorded:
            probs = evaluator()
            if not np.isfinite(probs).all():
                return {"probabilities": float("nan")}
            evaluation.record(epoch + 1, probs, None)
            return {} if labels is None else evaluation.all_metrics(*judge(probs, labels))
        rows = evaluation.splits.get("validation")
        if labels is None or rows is None or not len(rows):
            return {}
        probs = evaluator(torch.from_numpy(rows).to(training_set.examples.raw.device))
        return evaluation.metrics("validation", *judge(probs, labels[rows]))

    task = ClassifierTask(model, training_set, config, seed=seed, precision=precision, end_of_epoch=end_of_epoch)
    loop = engine.LoopConfig(
        config.epochs, monitor="validation_loss" if config.patience else "", patience=config.patience
    )
    with explained_memory_error(config, training_set.examples.raw.device):
        history = engine.run_epochs(task, loop, folder=folder, settings=settings, progress=progress, label=label)
    model.load_state_dict(history.best_weights or task.weights())
    return model.eval(), history


def new_model(config: TrainConfig, training_set: TrainingSet, seed: int) -> nn.Module:
    """The architecture of a configuration with its initial weights, on the device of the examples."""
    model = classifiers.build(
        config.model,
        input_shape=training_set.examples.input_shape,
        n_classes=training_set.n_classes,
        seed=seed,
        **config.model_options,
    )
    model = training_set.examples.with_model(model)
    if config.compile:
        model.compile()
    return model


def evaluator_of(
    model: nn.Module, config: TrainConfig, training_set: TrainingSet, examples: Examples, precision: str
) -> Evaluator:
    """An evaluator of ``examples`` for a model in training."""
    return Evaluator(
        model,
        examples,
        n_classes=training_set.n_classes,
        precision=precision,
        batch=config.evaluation_batch,
        capture=config.capture,
    )


def progress_of(progress: Progress | None, index: int, count: int) -> Progress | None:
    """Progress of run ``index`` of ``count`` runs that follow one another.

    Example:
        >>> progress_of(lambda text, fraction: print(text, fraction), 1, 4)("half of the second", 0.5)
        half of the second 0.375
    """
    if progress is None:
        return None
    return lambda text, fraction: progress(text, (index + fraction) / count)


@contextmanager
def explained_memory_error(config: TrainConfig, device: torch.device) -> Iterator[None]:
    """Turn an out-of-memory error of a GPU into an InputError that says what to do."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise InputError(
            f"{devices.describe_device(device)} has too little memory for {config.model} at batch {config.batch}; "
            "reduce batch or evaluation_batch, or run fewer runs at once"
        ) from error
