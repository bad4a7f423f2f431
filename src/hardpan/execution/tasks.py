"""One task: its result, or the exception that ended it, in a form that can be sent between machines."""

from __future__ import annotations

import importlib
import pickle
import reprlib
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from hardpan.errors import HardpanError, MissingExtra

ATTEMPTS = 4  # starts of a task before the death of its worker is blamed on the task


class TaskLost(HardpanError):
    """Every worker that ran a task died; the message names the task."""


class ClusterLost(HardpanError):
    """The cluster went away while tasks were running; the message names it."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The value of task ``index``, or the exception that it raised."""

    index: int
    value: Any = None
    error: Exception | None = None


TaskResults = Generator[TaskResult, None, None]


def run_task(function: Callable[[Any], Any], index: int, task: Any) -> TaskResult:
    """Run one task; an exception is part of the result, so that every back end treats it alike."""
    try:
        return TaskResult(index, function(task))
    except Exception as error:
        error.add_note(f"in task {index}: {reprlib.repr(task)}")
        return TaskResult(index, error=_portable(error))


def _portable(error: Exception) -> Exception:
    """The error itself if it survives pickling, else its text."""
    try:
        # Bytes made on this line and read back at once, never those of a file: only this shows whether the back
        # ends can send the error.
        pickle.loads(pickle.dumps(error))
    except Exception:
        text_only = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            text_only.add_note(note)
        return text_only
    return error


def task_lost(index: int, reason: str) -> TaskLost:
    """The error for a task whose workers died again and again."""
    return TaskLost(
        f"task {index}: its worker died {ATTEMPTS} times ({reason}); the usual cause is too little memory: use "
        "fewer workers, or smaller tasks"
    )


def optional(module: str, extra: str) -> Any:
    """Import a module of an optional dependency, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(extra, extra) from error
