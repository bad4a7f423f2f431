"""Pieces on a Dask cluster. The scheduler starts a piece again when the worker under it is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from typing import Any

from hardpan.errors import InputError
from hardpan.execution.outcomes import ATTEMPTS, ClusterLost, Outcomes, Ready, lost, optional, run_piece

ANSWER_SECONDS = 15  # how long a scheduler, and then its first worker, is waited for
_WAITING = 4  # pieces sent ahead for each thread of the cluster, so that none waits for the next


def outcomes(
    function: Callable[[Any], Any], pieces: list[Any], workers: int | None, address: str, ready: Ready
) -> Outcomes:
    """Outcomes in the order in which the cluster ends the pieces."""
    distributed: Any = optional("distributed", "dask", "dask")
    with ExitStack() as opened:
        opened.enter_context(_quiet())
        client = _connect(distributed, opened, workers, address)
        ready()
        window = workers or max(_WAITING * sum(client.nthreads().values()), 1)
        waiting = iter(enumerate(pieces))
        under_way: dict[Any, int] = {}
        done = distributed.as_completed()
        closed = getattr(distributed.client, "ClosedClientError", CancelledError)  # newer than the oldest allowed

        def send() -> None:
            for index, piece in waiting:
                # Dask takes equal calls for one and the same unless told that they are not.
                future = client.submit(run_piece, function, index, piece, pure=False)
                under_way[future] = index
                done.add(future)
                return

        try:
            for _ in range(min(window, len(pieces))):
                send()
            for future in done:
                index = under_way.pop(future)
                try:
                    outcome = future.result()
                except distributed.scheduler.KilledWorker as error:
                    raise lost(index, "Dask gave it up; it may be another piece that shared its worker") from error
                future.release()
                send()
                yield outcome
        # A piece's own exception is part of its outcome: these are about the way to the scheduler.
        except (CancelledError, OSError, closed) as error:
            under_way.clear()
            raise ClusterLost(
                f"the Dask scheduler {address or 'of this call'} went away; start it again, and run the same again"
            ) from error
        finally:
            if under_way:
                client.cancel(list(under_way), force=True)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's own tracebacks from the terminal: what they are about is raised as one sentence."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client", "distributed.core")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _connect(distributed: Any, opened: ExitStack, workers: int | None, address: str) -> Any:
    """A client of the cluster at ``address``, or of one that lives as long as ``opened``."""
    if not address:
        dask: Any = optional("dask", "dask", "dask")
        opened.enter_context(dask.config.set({"distributed.scheduler.allowed-failures": ATTEMPTS - 1}))
        cluster = opened.enter_context(
            distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50
            )
        )
        return opened.enter_context(distributed.Client(cluster))
    try:
        client = opened.enter_context(distributed.Client(address, timeout=ANSWER_SECONDS))
    except (OSError, ValueError) as error:
        raise InputError(
            f"address {address!r}: no Dask scheduler answers ({str(error).strip() or type(error).__name__}); "
            "start one with `dask scheduler` and give its address, such as tcp://host:8786"
        ) from error
    try:
        client.wait_for_workers(1, timeout=ANSWER_SECONDS)
    except TimeoutError as error:
        raise InputError(
            f"address {address!r}: the Dask scheduler has no workers; start some with `dask worker {address}`"
        ) from error
    return client
