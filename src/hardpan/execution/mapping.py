"""Independent tasks in threads and processes (joblib), on Dask or on Ray: the setting, and one map for all of them.

A task whose worker is lost is started again.
"""

from __future__ import annotations

import html
import importlib
import itertools
import logging
import multiprocessing
import os
import pickle
import reprlib
import shutil
import socket
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from hardpan.arguments import one_of, whole_number
from hardpan.errors import HardpanError, InputError
from hardpan.lazy import import_first_installed

Task = TypeVar("Task")
Result = TypeVar("Result")
Progress = Callable[[str, float], None]
"""Called with the step that begins and the fraction of the work that is done, 0 to 1."""


def no_progress(step: str, fraction: float) -> None:
    """Progress that nobody looks at."""


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Progress as a bar in a notebook or, on stderr, on a terminal; it disappears at the end. Elsewhere nothing."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if getattr(shell, "kernel", None) is not None:
        display = importlib.import_module("IPython.display")
        handle = display.display(display.HTML(""), display_id=True)

        def show(step: str, fraction: float) -> None:
            words = html.escape(f"{100 * fraction:.0f} % {step}")
            bar = f'<progress max="1" value="{fraction:.3f}" aria-label="progress"></progress>'
            handle.update(display.HTML(f"{bar} {words}"))

        try:
            yield show
        finally:
            handle.update(display.HTML(""))
        return
    if not sys.stderr.isatty():
        yield no_progress
        return

    def draw(step: str, fraction: float) -> None:
        full = round(BAR_WIDTH * fraction)
        line = f"{'█' * full}{'░' * (BAR_WIDTH - full)} {100 * fraction:3.0f} % {step}"
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\x1b[K{line[:width]}", end="", file=sys.stderr, flush=True)

    try:
        yield draw
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def between(progress: Progress, low: float, high: float) -> Progress:
    """Progress of a step that takes from ``low`` to ``high`` of the whole.

    Example:
        >>> between(lambda step, fraction: print(step, fraction), 0.5, 1.0)("pairs", 0.5)
        pairs 0.75
    """
    return lambda step, fraction: progress(step, low + (high - low) * fraction)


BAR_WIDTH = 24  # characters
ATTEMPTS = 4  # starts of a task before the death of its worker is blamed on the task
ANSWER_SECONDS = 15  # how long to wait for a scheduler, and then for its first worker
_AHEAD = 4  # tasks sent ahead for each core of the cluster, so that no worker is idle
BUSY = 1.5  # processes per core from which one thread is used: networks are ten times as fast at five of them


class TaskLost(HardpanError):
    """Every worker that ran a task died; the message names the task."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(
            f"task {index}: its worker died {ATTEMPTS} times ({reason}); the usual cause is too little memory: use "
            "fewer workers, or smaller tasks"
        )


class ClusterLost(HardpanError):
    """The cluster went away while tasks were running; the message names it."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The value of task ``index``, or the exception that it raised."""

    index: int
    value: Any = None
    error: Exception | None = None


TaskResults = Generator[TaskResult, None, None]


@dataclass(frozen=True, slots=True)
class Job:
    """What a back end runs: it calls ``ready`` when there are workers, then yields results in any order.

    A task whose worker dies is started again, and :class:`TaskLost` is raised after the last attempt.
    """

    function: Callable[[Any], Any]
    tasks: list[Any]
    workers: int | None
    address: str
    ready: Callable[[], object]


def run_task(function: Callable[[Any], Any], index: int, task: Any) -> TaskResult:
    """Run one task; an exception is part of the result, so that every back end treats it alike."""
    try:
        return TaskResult(index, function(task))
    except Exception as error:
        error.add_note(f"in task {index}: {reprlib.repr(task)}")
        return TaskResult(index, error=_portable_error(error))


def _portable_error(error: Exception) -> Exception:
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


def _run_in_threads(job: Job) -> TaskResults:
    """Threads: for tasks that spend their time in NumPy, numba or torch, which release the lock of Python."""
    job.ready()
    yield from _run_with_joblib("threading", job.function, dict(enumerate(job.tasks)), job.workers)


def _run_in_processes(job: Job) -> TaskResults:
    """Processes: for tasks that spend their time in Python itself, or that set the state of a whole process."""
    job.ready()
    killed = _killed_worker_error()
    left = dict(enumerate(job.tasks))
    while left:
        running: set[int] = set()
        try:
            for result in _run_with_joblib("loky", job.function, left.copy(), job.workers, running):
                del left[result.index]
                yield result
        except killed:  # the whole pool ends with one worker, so the other running tasks may be innocent
            for index in sorted(running & left.keys()):
                yield from _run_task_alone(job.function, index, left.pop(index))


def _run_task_alone(function: Callable[[Any], Any], index: int, task: Any) -> TaskResults:
    """One task in its own process, so that a death is its own fault; it was started once already."""
    killed = _killed_worker_error()
    for _ in range(ATTEMPTS - 1):
        try:
            yield from _run_with_joblib("loky", function, {index: task}, 1)
            return
        except killed:
            continue
    raise TaskLost(index, "killed, or out of memory")


def _run_with_joblib(
    backend: str,
    function: Callable[[Any], Any],
    tasks: dict[int, Any],
    workers: int | None,
    running: set[int] | None = None,
) -> TaskResults:
    """Results as they come; ``running`` receives the number of each task that is sent to a worker."""
    joblib: Any = importlib.import_module("joblib")  # untyped, and not needed to import hardpan
    at_once = min(workers or joblib.cpu_count(), len(tasks))
    if at_once == 1 and backend == "threading":  # a thread would start the next task before this result is used
        yield from (run_task(function, index, task) for index, task in tasks.items())
        return

    def calls() -> Iterator[Any]:
        for index, task in tasks.items():
            if running is not None:
                running.add(index)
            yield joblib.delayed(_run_task_in_worker)(os.getpid(), function, index, task)

    # joblib runs a single job in the caller's own process, where a task that dies would end the caller too.
    settings = {"n_jobs": max(at_once, 2), "pre_dispatch": at_once, "batch_size": 1}
    results = joblib.Parallel(backend=backend, return_as="generator_unordered", **settings)(calls())
    try:
        for result in results:  # noqa: UP028 - "yield from" would end joblib's generator before the finally does
            yield result
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # joblib warns about unused results; after an error that is intended
            results.close()


def _run_task_in_worker(caller: int, function: Callable[[Any], Any], index: int, task: Any) -> TaskResult:
    """Run a task in a process that joblib kills when another task fails.

    Locks that libraries make there (Blosc makes one) have names in the system, and Python warns on stderr about
    names that a killed process leaves behind. Under the start method "fork" a lock loses its name at once.
    """
    if os.getpid() != caller and sys.platform == "linux":
        multiprocessing.set_start_method("fork", force=True)
    return run_task(function, index, task)


def _killed_worker_error() -> type[Exception]:
    error: type[Exception] = importlib.import_module("joblib.externals.loky.process_executor").TerminatedWorkerError
    return error


def _run_on_dask(job: Job) -> TaskResults:
    """Results in the order in which Dask finishes the tasks."""
    distributed: Any = import_first_installed("dask", "distributed")
    with ExitStack() as stack:
        stack.enter_context(_quiet_dask())
        client = _dask_client(distributed, stack, job)
        job.ready()
        window = job.workers or max(_AHEAD * sum(client.nthreads().values()), 1)
        waiting = iter(enumerate(job.tasks))
        running: dict[Any, int] = {}
        done = distributed.as_completed()
        closed = getattr(distributed.client, "ClosedClientError", CancelledError)  # newer than the oldest allowed

        def send(count: int) -> None:
            for index, task in itertools.islice(waiting, count):
                # Dask would compute equal calls only once unless they are marked as impure.
                future = client.submit(run_task, job.function, index, task, pure=False)
                running[future] = index
                done.add(future)

        try:
            send(window)
            for future in done:
                index = running.pop(future)
                try:
                    result = future.result()
                except distributed.scheduler.KilledWorker as error:
                    raise TaskLost(
                        index, "Dask gave it up; another task on the same worker may be to blame"
                    ) from error
                future.release()
                send(1)
                yield result
        # An exception of a task is part of its result: these are about the connection to the scheduler.
        except (CancelledError, OSError, closed) as error:
            running.clear()
            raise ClusterLost(
                f"lost the Dask scheduler {job.address}; start it again, and repeat the call"
            ) from error
        finally:
            if running:
                client.cancel(list(running), force=True)


@contextmanager
def _quiet_dask() -> Iterator[None]:
    """Keep Dask's own tracebacks from the terminal: the same errors are raised with a message."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client", "distributed.core")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _dask_client(distributed: Any, stack: ExitStack, job: Job) -> Any:
    """A client of the cluster at the job's address."""
    address = job.address
    try:
        client = stack.enter_context(distributed.Client(address, timeout=ANSWER_SECONDS))
    except (OSError, ValueError) as error:
        raise InputError(
            f"address {address!r}: no Dask scheduler answers ({str(error).strip() or type(error).__name__}); "
            "start one with `dask scheduler` and pass its address, such as tcp://host:8786"
        ) from error
    try:
        client.wait_for_workers(1, timeout=ANSWER_SECONDS)
    except TimeoutError as error:
        raise InputError(
            f"address {address!r}: the Dask scheduler has no workers; start some with `dask worker {address}`"
        ) from error
    return client


def _run_on_ray(job: Job) -> TaskResults:
    """Results in the order in which Ray finishes the tasks."""
    ray: Any = import_first_installed("ray", "ray")
    with ExitStack() as stack:
        _join_ray(ray, stack, job)
        job.ready()
        # An exception of a task is part of its result, so whatever Ray itself raises is about a worker.
        remote = ray.remote(max_retries=ATTEMPTS - 1)(run_task)
        window = job.workers or max(_AHEAD * int(ray.cluster_resources().get("CPU", 1)), 1)
        waiting = iter(enumerate(job.tasks))
        sent = ray.put(job.function)  # sent to a machine once, not once per task
        running: dict[Any, int] = {}

        def send(count: int) -> None:
            for index, task in itertools.islice(waiting, count):
                running[remote.remote(sent, index, task)] = index

        try:
            send(window)
            while running:
                (reference,), _ = ray.wait(list(running), num_returns=1)
                index = running.pop(reference)
                try:
                    result = ray.get(reference)
                except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError) as error:
                    raise TaskLost(index, "on Ray") from error
                send(1)
                yield result
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _join_ray(ray: Any, stack: ExitStack, job: Job) -> None:
    """Join the cluster at the job's address, and leave it with ``stack``; a program that is in one stays in it."""
    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would otherwise report its use to its makers
    host, _, port = job.address.removeprefix("ray://").rpartition(":")
    try:
        if port.isdigit():  # Ray itself tries for many minutes
            socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_SECONDS).close()
        ray.init(address=job.address, log_to_driver=False, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(
            f"address {job.address!r}: no Ray cluster answers ({reason}); start one with `ray start --head` and "
            "pass its address, such as host:6379"
        ) from error
    stack.callback(ray.shutdown)


_RUNNERS: dict[str, Callable[[Job], TaskResults]] = {
    "threads": _run_in_threads,
    "processes": _run_in_processes,
    "dask": _run_on_dask,
    "ray": _run_on_ray,
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


def map_row_slices(function: Callable[[slice], Result], rows: int) -> list[Result]:
    """Call ``function`` with slices that cover the rows, one per thread; NUMBA_NUM_THREADS says how many.

    Example:
        >>> sum(map_row_slices(lambda rows: rows.stop - rows.start, 10))
        10
    """
    import numba  # it takes long to load

    count = max(1, min(int(numba.get_num_threads()), rows))
    slices = [slice(rows * k // count, rows * (k + 1) // count) for k in range(count)]
    if count == 1:
        return [function(slices[0])]
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(function, slices))


def machine_is_busy() -> bool:
    """Whether other processes use the cores: threads of one computation would wait for one another."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return load > BUSY * (os.cpu_count() or 1)
