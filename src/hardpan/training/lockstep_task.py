"""Seeds in lockstep, as one task of the engine: epoch t of every seed, then all of them predict."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardpan.engine.distributed import mean_values
from hardpan.training.config import TrainConfig
from hardpan.training.evaluation import mean_loss
from hardpan.training.examples import Examples
from hardpan.training.fitting import evaluator_of, judged, new_model
from hardpan.training.groups import right_by_group
from hardpan.training.task import ClassifierTask, TrainingSet

_CHUNK_BYTES = 64 * 2**20  # probabilities of all seeds that are in memory at once
_HISTORIES, _RIGHT = "histories", "right"

RecordChunk = Callable[[int, NDArray[np.float32], NDArray[np.int64]], None]


@dataclass(frozen=True, slots=True)
class WatchedTogether:
    """What all seeds predict after an epoch.

    Attributes:
        examples: what is predicted.
        record: is given the epoch (1, 2, ...), probabilities (seeds, n, C), and the n rows that they are of.
        parts: names (validation, test) and the rows of the examples that they consist of.
        labels: (N,) class numbers.
        groups: (N,) group numbers, where accuracy is wanted by group.
    """

    examples: Examples
    record: RecordChunk
    parts: Mapping[str, NDArray[np.int64]]
    labels: NDArray[np.int64]
    groups: NDArray[np.int64] | None = None

    def groups_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Give the group numbers of some rows, where there are any."""
        return None if self.groups is None else self.groups[rows]


class LockstepTask:
    """Trains several seeds epoch by epoch; each sees what it would see alone, so its numbers are the same.

    Attributes:
        tasks: one a seed.
        histories: for each seed, the values of every epoch.
        right: (seeds + 1, N) whether each seed, and last the mean of all, was right when all examples were
            predicted last.
    """

    def __init__(
        self,
        config: TrainConfig,
        given: TrainingSet,
        watched: WatchedTogether,
        *,
        seeds: Sequence[int],
        precision: str,
    ) -> None:
        self._watched, self._recorded = watched, set(config.recorded_epochs())
        models = [new_model(config, given, seed) for seed in seeds]
        self.tasks = [
            ClassifierTask(model, given, config, seed=seed, precision=precision)
            for model, seed in zip(models, seeds, strict=True)
        ]
        self._evaluators = [evaluator_of(model, config, given, watched.examples, precision) for model in models]
        batch = self._evaluators[0].batch
        # Whole batches: a row's probabilities can depend, in the last bit, on how many rows are predicted with it.
        self._chunk = batch * max(1, _CHUNK_BYTES // (4 * len(seeds) * given.n_classes * batch))
        self._steps_of_one = self.tasks[0].steps
        self.steps = self._steps_of_one * len(seeds)
        self.examples_per_step = self.tasks[0].examples_per_step
        self.histories: list[list[dict[str, float]]] = [[] for _ in seeds]
        self.right = np.zeros((len(seeds) + 1, len(watched.examples)), dtype=bool)
        self._epoch = self._begun = 0

    def begin_epoch(self, epoch: int) -> None:
        """Note the epoch; each seed begins it when its turn comes, since it seeds the one generator of noise."""
        self._epoch, self._begun = epoch, 0

    def step(self, index: int) -> None:
        """Start one step of the seed whose turn it is."""
        turn, step = divmod(index, self._steps_of_one)
        if step == 0:
            self.tasks[turn].begin_epoch(self._epoch)
            self._begun = turn + 1
        self.tasks[turn].step(step)

    def means(self) -> dict[str, float]:
        """Give means over the seeds that have begun this epoch."""
        return _mean([task.means() for task in self.tasks[: self._begun]])

    def end_epoch(self, epoch: int) -> dict[str, float]:
        """Predict with every seed, hand over what is recorded, and keep the values of each seed."""
        with ExitStack() as held:
            for task in self.tasks:
                held.enter_context(task.predicting())
            judged = self._predict_all(epoch + 1) if epoch + 1 in self._recorded else self._predict_validation()
        if judged is None:
            return {"probabilities": float("nan")}
        for history, task, values in zip(self.histories, self.tasks, judged, strict=True):
            history.append(mean_values(task.means()) | values)
        return _mean(judged)

    def _predict_all(self, epoch: int) -> list[dict[str, float]] | None:
        watched = self._watched
        of_label = np.zeros((len(self.tasks), len(watched.examples)), dtype=np.float32)
        for start in range(0, len(watched.examples), self._chunk):
            rows = np.arange(start, min(start + self._chunk, len(watched.examples)))
            probs = self._probabilities(rows)
            if not np.isfinite(probs).all():
                return None
            watched.record(epoch, probs, rows)
            labels = watched.labels[rows]
            answers = np.concatenate([probs, probs.mean(axis=0, keepdims=True)]).argmax(axis=-1)
            self.right[:, rows] = answers == labels
            of_label[:, rows] = np.take_along_axis(probs, labels[None, :, None], axis=-1)[..., 0]
        of_seeds = self.right[:-1]  # the mean of all, which is the last, has no history
        return [self._judged(right, told) for right, told in zip(of_seeds, of_label, strict=True)]

    def _judged(self, right: NDArray[np.bool_], of_label: NDArray[np.float32]) -> dict[str, float]:
        """Accuracy and loss of each part, from whether a seed was right and how probable it found the label."""
        values: dict[str, float] = {}
        for name, rows in self._watched.parts.items():
            if len(rows):
                values[f"{name}_accuracy"] = float(right[rows].mean())
                values[f"{name}_loss"] = mean_loss(of_label[rows])
                values |= right_by_group(name, right[rows], self._watched.groups_of(rows))
        return values

    def _predict_validation(self) -> list[dict[str, float]] | None:
        rows = self._watched.parts["validation"]
        if not len(rows):
            return [{} for _ in self.tasks]
        labels, found = self._watched.labels[rows], self._probabilities(rows)
        groups = self._watched.groups_of(rows)
        return [judged("validation", probs, labels, groups) for probs in found]

    def _probabilities(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        chosen = torch.from_numpy(rows).to(self._watched.examples.raw.device)
        return np.stack([evaluator(chosen) for evaluator in self._evaluators])

    def tensors(self) -> dict[str, Tensor]:
        """Give everything that an exact resume needs, of all seeds: they go on from the same epoch."""
        found = {
            f"{turn}/{name}": item for turn, task in enumerate(self.tasks) for name, item in task.tensors().items()
        }
        told = json.dumps(self.histories).encode()
        return found | {
            _HISTORIES: torch.tensor(list(told), dtype=torch.uint8),
            _RIGHT: torch.from_numpy(self.right.astype(np.uint8)),
        }

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Go on where :meth:`tensors` was taken."""
        for turn, task in enumerate(self.tasks):
            own = f"{turn}/"
            task.load_tensors({name.removeprefix(own): t for name, t in tensors.items() if name.startswith(own)})
        self.histories = json.loads(bytes(tensors[_HISTORIES].tolist()))
        self.right = tensors[_RIGHT].numpy().astype(bool)

    def weights(self) -> dict[str, Tensor]:
        """Give nothing: seeds in lockstep end together, so no epoch is kept as the best."""
        return {}


def _mean(values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([one[name] for one in values])) for name in values[0]} if values else {}
