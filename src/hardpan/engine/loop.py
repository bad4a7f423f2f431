"""The loop of every training run: epochs, exact resume, early stop, a stop at NaN, and progress."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from torch import Tensor

from hardpan.arguments import one_of, whole_number
from hardpan.engine.checkpoints import join_state_tensors, load_checkpoint, save_checkpoint, tensors_with_prefix
from hardpan.engine.distributed import barrier, is_main_process, mean_over_processes
from hardpan.errors import InputError
from hardpan.execution import Progress

BEST = "best/"
SECONDS_BETWEEN_REPORTS = 1.0
# In the line of progress.
REPORTED_VALUES = ("loss", "nll", "bits_per_dim", "validation_loss", "validation_accuracy", "validation_nll")


class Diverged(InputError):
    """The loss is no longer a number; the message says what was kept and what to change."""


class LoopBudget:
    """How far a run is: by its steps, or by the wall-clock time that it may take, whichever is further.

    Attributes:
        step: how many steps were taken.
        reserved: seconds of the time that are kept for what follows the training; at most half of it.

    Example:
        >>> budget = LoopBudget(steps=4)
        >>> budget.step += 1
        >>> budget.fraction
        0.25
    """

    def __init__(self, steps: int, seconds: float = 0.0) -> None:
        self._steps, self._seconds = steps, seconds
        self._start = time.monotonic()
        self.step, self.reserved = 0, 0.0

    @property
    def fraction(self) -> float:
        """From 0 to 1, where the run ends; without a limit of seconds it depends on the steps alone."""
        allowed = max(self._seconds - self.reserved, self._seconds / 2)
        by_time = (time.monotonic() - self._start) / allowed if allowed else 0.0
        return max(by_time, self.step / self._steps)


class Task:
    """What the loop trains. Only :meth:`means` and :meth:`end_epoch` may wait for the device.

    Attributes:
        steps: steps per epoch.
        examples_per_step: examples that one step uses, over all processes: the speed counts them.
        budget: ends the run where its fraction is 1, also within an epoch; None: after all epochs.
    """

    steps: int
    examples_per_step: int
    budget: LoopBudget | None = None

    def begin_epoch(self, epoch: int) -> None:
        """Prepare epoch 0, 1, ...; what is random in it depends on seed and epoch alone, or is in the tensors."""

    def step(self, index: int) -> None:
        """Start step 0, 1, ... of the epoch."""
        raise NotImplementedError

    def means(self) -> dict[str, float]:
        """This process's means of this epoch so far (``loss`` is one of them), without communication."""
        return {}

    def end_epoch(self, epoch: int) -> dict[str, float]:
        """Evaluate and record after an epoch; its values go into the history beside the means."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """Everything that an exact resume needs: weights, optimiser, schedule, average."""
        return {}

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Resume from the state that :meth:`tensors` returned."""

    def weights(self) -> dict[str, Tensor]:
        """The weights to keep of the best epoch."""
        return {}


@dataclass(slots=True)
class History:
    """What a run did.

    Attributes:
        epochs: the values of every epoch, in order.
        best_epoch: the number of the best one (-1: none).
        best_weights: what the task kept of it.
        stopped: why it ended: ``epochs`` (all were run), ``patience`` or ``time``.
        resumed_at: the first epoch that this call ran itself.
    """

    epochs: list[dict[str, float]] = field(default_factory=list)
    best_epoch: int = -1
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    stopped: str = ""
    resumed_at: int = 0


def run_epochs(
    task: Task,
    epochs: int,
    *,
    monitor: str = "",
    patience: int = 0,
    folder: str | os.PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    label: str = "",
) -> History:
    """Train a task to its end, from its last checkpoint where there is one.

    An epoch is evaluated and recorded before its checkpoint is written: a run that is killed between the two trains
    that epoch again, to the same numbers.

    Args:
        task: what is trained.
        epochs: how many epochs at most.
        monitor: the value of the history that says which epoch is best (smaller is better), or empty; only a run
            with a budget may have epochs without it.
        patience: stop after this many epochs in a row without an improvement; 0: never.
        folder: where checkpoints go; None keeps none.
        settings: plain JSON values that decide the numbers; a checkpoint made with others is refused.
        progress: called about once a second with a line (speed, means, time left) and the fraction done.
        label: what the line begins with.

    Returns:
        The history of the whole run, epochs before a resume included.

    Raises:
        Diverged: a mean is NaN or infinite; the last checkpoint is from before.
    """
    whole_number("epochs", epochs, 1)
    whole_number("patience", patience)
    history = _resumed_history(task, folder, settings)
    clock = _SpeedReport(task, epochs, history.resumed_at, progress if is_main_process() else None, label)
    for epoch in range(len(history.epochs), epochs):
        if history.stopped:
            break
        task.begin_epoch(epoch)
        for index in range(task.steps):
            task.step(index)
            if clock.due():
                clock.report(epoch, index + 1, _finite_epoch_values(task.means(), epoch, folder))
            if task.budget is not None and task.budget.fraction >= 1:
                history.stopped = "time"
                break
        values = _finite_epoch_values(mean_over_processes(task.means()), epoch, folder)
        values |= _finite_epoch_values(task.end_epoch(epoch), epoch, folder)
        history.epochs.append(values)
        _keep_best_epoch(task, monitor, patience, history)
        clock.report(epoch, task.steps, values)
        if folder is not None and is_main_process():
            state = {
                "history": history.epochs,
                "best_epoch": history.best_epoch,
                "stopped": history.stopped,
                "settings": dict(settings or {}),
            }
            tensors = task.tensors() | join_state_tensors({BEST: history.best_weights})
            save_checkpoint(folder, tensors=tensors, state=state)
        barrier()
    history.stopped = history.stopped or "epochs"
    return history


def _keep_best_epoch(task: Task, monitor: str, patience: int, history: History) -> None:
    """Keep the weights of an epoch that is the best so far; stop where none has been better for long enough."""
    values, epoch = history.epochs[-1], len(history.epochs) - 1
    if monitor not in values:
        if monitor and task.budget is None:
            one_of("monitor", monitor, values)
        return
    if history.best_epoch < 0 or values[monitor] < history.epochs[history.best_epoch][monitor]:
        history.best_epoch = epoch
        history.best_weights = {name: item.detach().cpu().clone() for name, item in task.weights().items()}
    elif patience and epoch - history.best_epoch >= patience:
        history.stopped = history.stopped or "patience"


def _resumed_history(
    task: Task, folder: str | os.PathLike[str] | None, settings: Mapping[str, Any] | None
) -> History:
    if folder is None or (result := load_checkpoint(folder)) is None:
        return History()
    where = os.fspath(folder)
    saved, current = result.state.get("settings", {}), json.loads(json.dumps(dict(settings or {})))
    if gone := sorted({*saved} - {*current}):
        raise InputError(
            f"{where}: has a run of an earlier version, with the setting {gone[0]}; choose another folder, or "
            "remove this one to start again"
        )
    for name in sorted(current):
        if saved.get(name) != current.get(name):
            raise InputError(
                f"{where}: has a run with {name} = {saved.get(name)!r}, and {current.get(name)!r} was requested; "
                "use the same settings to resume it, or another folder"
            )
    task.load_tensors({name: item for name, item in result.tensors.items() if not name.startswith(BEST)})
    best = tensors_with_prefix(BEST, result.tensors)
    epochs = [dict(values) for values in result.state["history"]]
    return History(epochs, result.state["best_epoch"], best, result.state["stopped"], len(epochs))


def _finite_epoch_values(
    values: dict[str, float], epoch: int, folder: str | os.PathLike[str] | None
) -> dict[str, float]:
    for name, value in values.items():
        if not math.isfinite(value):
            checkpoint = (
                f"{os.fspath(folder)} has {'a' if epoch else 'no'} checkpoint"
                if folder
                else "no checkpoint is kept"
            )
            # People count from 1, as the line of progress does.
            raise Diverged(f"{name} became {value} in epoch {epoch + 1}; {checkpoint}: try a smaller learning rate")
    return values


class _SpeedReport:
    """Measures speed and says how far a run is."""

    def __init__(self, task: Task, epochs: int, first: int, progress: Progress | None, label: str) -> None:
        self._task, self._epochs, self._progress, self._label = task, epochs, progress, label
        self._first = first
        self._start = self._last = time.monotonic()

    def due(self) -> bool:
        return self._progress is not None and time.monotonic() - self._last >= SECONDS_BETWEEN_REPORTS

    def report(self, epoch: int, steps: int, values: Mapping[str, float]) -> None:
        if self._progress is None:
            return
        self._last = time.monotonic()
        passed = max(self._last - self._start, 1e-9)
        done = (epoch - self._first) * self._task.steps + steps
        total = (self._epochs - self._first) * self._task.steps
        speed = done * self._task.examples_per_step / passed
        left = timedelta(seconds=round(passed / done * (total - done)))
        text = "".join(
            f"{name.replace('_', ' ')} {values[name]:.4g}, " for name in REPORTED_VALUES if name in values
        )
        line = f"{self._label}epoch {epoch + 1}/{self._epochs}, {speed:,.0f} examples/s, {text}{left} left"
        self._progress(line, (epoch * self._task.steps + steps) / (self._epochs * self._task.steps))
