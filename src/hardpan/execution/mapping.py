"""The setting of where tasks run, and one map for every back end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from hardpan.arguments import one_of, whole_number
from hardpan.errors import InputError
from hardpan.execution import backends
from hardpan.execution.backends import Job, TaskResults

Progress = Callable[[str, float], None]
"""Called with the step that begins and the fraction of the work that is done, 0 to 1."""


def no_progress(step: str, fraction: float) -> None:
    """Progress that nobody looks at."""


def between(progress: Progress, low: float, high: float) -> Progress:
    """Progress of a step that takes from ``low`` to ``high`` of the whole.

    Example:
        >>> between(lambda step, fraction: print(step, fraction), 0.5, 1.0)("pairs", 0.5)
        pairs 0.75
    """
    return lambda step, fraction: progress(step, low + (high - low) * fraction)


Task = TypeVar("Task")
Result = TypeVar("Result")


_RUNNERS: dict[str, Callable[[Job], TaskResults]] = {
    "threads": backends.in_threads,
    "processes": backends.in_processes,
    "dask": backends.on_dask,
    "ray": backends.on_ray,
}
BACKENDS = tuple(_RUNNERS)


@dataclass(frozen=True, slots=True)
class Parallel:
    """Where tasks run: the arguments of :func:`parallel`."""

    backend: str = ""
    workers: int | None = None
    address: str = ""


_CURRENT: ContextVar[Parallel] = ContextVar("hardpan.parallel", default=Parallel())  # noqa: B039 - frozen


def current() -> Parallel:
    """The setting of the innermost :func:`parallel` around the call."""
    return _CURRENT.get()


@contextmanager
def parallel(backend: str = "", *, workers: int | None = None, address: str = "") -> Iterator[Parallel]:
    """Set where the independent tasks of every function called inside the ``with`` block run.

    Results do not depend on the setting.

    Args:
        backend: "threads" or "processes" of this machine, "dask" or "ray"; "" leaves the choice to each function:
            threads for array work, processes for training.
        workers: how many tasks run at once; by default as many as there are cores here or in the cluster.
        address: address of the running cluster, ``tcp://host:8786`` for Dask, ``host:6379`` for Ray.

    Example:
        >>> import numpy as np
        >>> import hardpan
        >>> probs = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 4, 50))
        >>> with hardpan.parallel("processes", workers=2):
        ...     there = hardpan.confusion.scores(probs).values
        >>> bool(np.array_equal(there, hardpan.confusion.scores(probs).values))
        True
    """
    one_of("backend", backend, ("", *BACKENDS))
    if workers is not None:
        workers = whole_number("workers", workers, 1)
    if not isinstance(address, str):
        raise InputError(f"must be text such as tcp://host:8786; got {address!r}", argument="address")
    if bool(address) != (backend in ("dask", "ray")):
        raise InputError(
            f"must be that of a running cluster for 'dask' and 'ray', else empty; got {address!r} for {backend!r}",
            argument="address",
        )
    setting = Parallel(backend, workers, address)
    token = _CURRENT.set(setting)
    try:
        yield setting
    finally:
        _CURRENT.reset(token)


def map_tasks(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    *,
    progress: Progress | None = None,
    each: Callable[[int, Result], None] | None = None,
    ready: Callable[[], object] | None = None,
) -> list[Result]:
    """Compute ``[function(task) for task in tasks]`` where :func:`parallel` says; by default in threads.

    The first exception that a task raises ends the call: the exception itself is raised, with a note that names
    the task. A task whose worker is killed is started again on another worker, three times at most; then
    :class:`TaskLost` is raised.

    Args:
        function: pure; it is sent to the workers, so it should read large data rather than contain it.
        tasks: the arguments, one per call.
        progress: called after every task, in the caller's thread, with a step and the fraction done.
        each: called with the number and the result of every task as it ends, in the caller's thread: the place to
            save it, so that a caller that is killed loses only the running tasks.
        ready: called once, in the caller's thread, when there are workers and before any task is sent: the place
            to create what tasks write into, so that nothing is left behind if a cluster does not answer.

    Returns:
        The results in the order of the tasks.

    Example:
        >>> import numpy as np
        >>> def mean_of(i):
        ...     return np.random.default_rng([0, i]).standard_normal(1000).mean()
        >>> with parallel("threads", workers=2):
        ...     results = map_tasks(mean_of, range(4))
        >>> results == [mean_of(i) for i in range(4)]
        True
    """
    setting = current()
    items = list(tasks)
    if not items:
        return []
    results: dict[int, Result] = {}
    job = Job(function, items, setting.workers, setting.address, ready or (lambda: None))
    with closing(_RUNNERS[setting.backend or "threads"](job)) as running:  # ends the tasks after an error
        for result in running:
            if result.error is not None:
                raise result.error
            results[result.index] = result.value
            if each is not None:
                each(result.index, result.value)
            if progress is not None:
                progress(f"{len(results)} of {len(items)} tasks", len(results) / len(items))
    return [results[index] for index in range(len(items))]


def available_cores() -> int:
    """How many cores this process may use; fewer than the machine has if the process is bound to some.

    Example:
        >>> 1 <= available_cores() <= (os.cpu_count() or 1)
        True
    """
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
