"""Where tasks run: threads and processes (joblib), Dask, Ray; a task whose worker is lost is started again."""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import pickle
import reprlib
import sys
import warnings
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from hardpan.errors import HardpanError, InputError
from hardpan.lazy import import_first_installed

ATTEMPTS = 4  # starts of a task before the death of its worker is blamed on the task
ANSWER_SECONDS = 15  # how long to wait for a scheduler, and then for its first worker
_AHEAD = 4  # tasks sent ahead for each core of the cluster, so that no worker is idle
BUSY = 1.5  # processes per core from which one thread is used: networks are ten times as fast at five of them


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


def in_threads(job: Job) -> TaskResults:
    """Threads: for tasks that spend their time in NumPy, numba or torch, which release the lock of Python."""
    job.ready()
    yield from _start("threading", job.function, dict(enumerate(job.tasks)), job.workers)


def in_processes(job: Job) -> TaskResults:
    """Processes: for tasks that spend their time in Python itself, or that set the state of a whole process."""
    job.ready()
    killed = _killed_error()
    left = dict(enumerate(job.tasks))
    while left:
        running: set[int] = set()
        try:
            for result in _start("loky", job.function, left.copy(), job.workers, running):
                del left[result.index]
                yield result
        except killed:  # the whole pool ends with one worker, so the other running tasks may be innocent
            for index in sorted(running & left.keys()):
                yield from _alone(job.function, index, left.pop(index))


def _alone(function: Callable[[Any], Any], index: int, task: Any) -> TaskResults:
    """One task in its own process, so that a death is its own fault; it was started once already."""
    killed = _killed_error()
    for _ in range(ATTEMPTS - 1):
        try:
            yield from _start("loky", function, {index: task}, 1)
            return
        except killed:
            continue
    raise task_lost(index, "killed, or out of memory")


def _start(
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
            yield joblib.delayed(_in_worker)(os.getpid(), function, index, task)

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


def _in_worker(caller: int, function: Callable[[Any], Any], index: int, task: Any) -> TaskResult:
    """Run a task in a process that joblib kills when another task fails.

    Locks that libraries make there (Blosc makes one) have names in the system, and Python warns on stderr about
    names that a killed process leaves behind. Under the start method "fork" a lock loses its name at once.
    """
    if os.getpid() != caller and sys.platform == "linux":
        multiprocessing.set_start_method("fork", force=True)
    return run_task(function, index, task)


def _killed_error() -> type[Exception]:
    error: type[Exception] = importlib.import_module("joblib.externals.loky.process_executor").TerminatedWorkerError
    return error


def on_dask(job: Job) -> TaskResults:
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

        def send() -> None:
            for index, task in waiting:
                # Dask would compute equal calls only once unless they are marked as impure.
                future = client.submit(run_task, job.function, index, task, pure=False)
                running[future] = index
                done.add(future)
                return

        try:
            for _ in range(min(window, len(job.tasks))):
                send()
            for future in done:
                index = running.pop(future)
                try:
                    result = future.result()
                except distributed.scheduler.KilledWorker as error:
                    raise task_lost(
                        index, "Dask gave it up; another task on the same worker may be to blame"
                    ) from error
                future.release()
                send()
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


def on_ray(job: Job) -> TaskResults:
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

        def send() -> None:
            for index, task in waiting:
                running[remote.remote(sent, index, task)] = index
                return

        try:
            for _ in range(min(window, len(job.tasks))):
                send()
            while running:
                (reference,), _ = ray.wait(list(running), num_returns=1)
                index = running.pop(reference)
                try:
                    result = ray.get(reference)
                except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError) as error:
                    raise task_lost(index, "on Ray") from error
                send()
                yield result
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _join_ray(ray: Any, stack: ExitStack, job: Job) -> None:
    """Join the cluster at the job's address, and leave it with ``stack``; a program that is in one stays in it."""
    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would otherwise report its use to its makers
    try:
        ray.init(address=job.address, log_to_driver=False, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(
            f"address {job.address!r}: no Ray cluster answers ({reason}); start one with `ray start --head` and "
            "pass its address, such as host:6379"
        ) from error
    stack.callback(ray.shutdown)


def machine_is_busy() -> bool:
    """Whether other processes use the cores: threads of one computation would wait for one another."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return load > BUSY * (os.cpu_count() or 1)
