"""All seeds of one architecture in lockstep, epoch by epoch; only their confusion scores are recorded."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardpan import engine
from hardpan.engine import distributed
from hardpan.engine.checkpoints import join_tensors, tensors_of
from hardpan.execution import Progress
from hardpan.files import write_bytes
from hardpan.training.config import TrainConfig
from hardpan.training.fitting import (
    ClassifierTask,
    Evaluation,
    TrainingSet,
    evaluator_of,
    explained_memory_error,
    judge,
    new_model,
    run_state,
)
from hardpan.training.seed_runs import OpenRun, Run, SeedResult, opened, progress_file

CORRECT = "correct.npz"
_CHUNK_BYTES = 64 * 2**20  # probabilities of all seeds that are in memory at once
_HISTORIES, _CORRECT = "histories", "right"  # names in checkpoints


def train_lockstep(run: Run, progress: Progress | None = None) -> tuple[SeedResult, ...]:
    """Train all seeds to their end, resuming where possible; keep weights, scores, and which answers are correct.

    After an epoch its entropies are added to the scores and committed, then the checkpoint of all seeds is written.
    Killed between the two, the epoch is trained again, to the same numbers, and is not added again.
    """
    started = time.monotonic()
    with opened(run) as work:
        histories = _finished(run, work)
        resumed_at = len(histories[0]) if histories else 0
        if not histories:
            work.drop_unrecorded_checkpoint()
            histories, resumed_at = _fit(run, work, progress or progress_file(run.folder))
        work.tidy()
    seconds = time.monotonic() - started
    return tuple(SeedResult(history, resumed_at, seconds) for history in histories)


def _finished(run: Run, work: OpenRun) -> list[tuple[dict[str, float], ...]]:
    """The histories of seeds that are complete, scores and weights; else nothing."""
    histories = [work.history_of(seed) for seed in run.seeds]
    complete = all(histories) and (Path(run.folder) / CORRECT).is_file() and work.recorded(run.config.epochs)
    # Only the main process has the store, so it decides.
    return histories if distributed.from_main(float(complete)) else []


def _fit(run: Run, work: OpenRun, progress: Progress) -> tuple[list[tuple[dict[str, float], ...]], int]:
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
        return _mean([task.means() for task in self.tasks[: self._begun]])

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
        return _mean(metrics)

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

    def weights(self) -> dict[str, Tensor]:
        """Nothing: seeds in lockstep end together, so no epoch is kept as the best."""
        return {}


def _mean(values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([one[name] for one in values])) for name in values[0]} if values else {}
