"""Pieces in threads or processes of this machine, through joblib."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from hardpan.execution.outcomes import ATTEMPTS, Outcome, Outcomes, Ready, lost, run_piece


def in_threads(
    function: Callable[[Any], Any], pieces: list[Any], workers: int | None, address: str, ready: Ready
) -> Outcomes:
    """Threads: for pieces that spend their time in NumPy, numba or torch, which let other threads run."""
    ready()
    yield from _started("threading", function, dict(enumerate(pieces)), workers)


def in_processes(
    function: Callable[[Any], Any], pieces: list[Any], workers: int | None, address: str, ready: Ready
) -> Outcomes:
    """Processes: for pieces that spend their time in Python itself, or that set the state of a whole process."""
    ready()
    killed = _killed()
    left = dict(enumerate(pieces))
    while left:
        under_way: set[int] = set()
        try:
            for outcome in _started("loky", function, left.copy(), workers, under_way):
                del left[outcome.index]
                yield outcome
        except killed:  # with one worker the whole pool ends, so that the other pieces under way were innocent
            for index in sorted(under_way & left.keys()):
                yield from _alone(function, index, left.pop(index))


def _alone(function: Callable[[Any], Any], index: int, piece: Any) -> Outcomes:
    """One piece in a process of its own, so that a death is its own doing; started once already."""
    killed = _killed()
    for _ in range(ATTEMPTS - 1):
        try:
            yield from _started("loky", function, {index: piece}, 1)
            return
        except killed:
            continue
    raise lost(index, "killed, or out of memory")


def _started(
    backend: str,
    function: Callable[[Any], Any],
    pieces: dict[int, Any],
    workers: int | None,
    under_way: set[int] | None = None,
) -> Outcomes:
    """Outcomes as they come; ``under_way`` receives the number of each piece that is handed to a worker."""
    joblib: Any = importlib.import_module("joblib")  # untyped, and not needed to import hardpan
    at_once = min(workers or joblib.cpu_count(), len(pieces))
    if at_once == 1 and backend == "threading":  # a thread would begin the next piece before this one is taken
        yield from (run_piece(function, index, piece) for index, piece in pieces.items())
        return

    def calls() -> Iterator[Any]:
        for index, piece in pieces.items():
            if under_way is not None:
                under_way.add(index)
            yield joblib.delayed(_in_worker)(os.getpid(), function, index, piece)

    # joblib runs a single job in the caller's own process, where a piece that dies would take the caller with it.
    settings = {"n_jobs": max(at_once, 2), "pre_dispatch": at_once, "batch_size": 1}
    running = joblib.Parallel(backend=backend, return_as="generator_unordered", **settings)(calls())
    try:
        for outcome in running:  # noqa: UP028 - "yield from" would end joblib's generator before the finally does
            yield outcome
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # joblib warns of results nobody took; after an error that is meant
            running.close()


def _in_worker(caller: int, function: Callable[[Any], Any], index: int, piece: Any) -> Outcome:
    """Run a piece in a process that joblib kills when another piece fails.

    Locks that libraries make there (Blosc makes one) have names in the system, and Python warns on stderr of names
    that a killed process leaves behind. Under the start method "fork" a lock loses its name as soon as it is made.
    """
    if os.getpid() != caller and sys.platform == "linux":
        multiprocessing.set_start_method("fork", force=True)
    return run_piece(function, index, piece)


def _killed() -> type[Exception]:
    found: type[Exception] = importlib.import_module("joblib.externals.loky.process_executor").TerminatedWorkerError
    return found
