"""Pieces on a Ray cluster. Ray starts a piece again when the worker under it is lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from hardpan.errors import InputError
from hardpan.execution.outcomes import ATTEMPTS, Outcomes, Ready, lost, optional, run_piece

_WAITING = 4  # pieces sent ahead for each core of the cluster, so that none waits for the next


def outcomes(
    function: Callable[[Any], Any], pieces: list[Any], workers: int | None, address: str, ready: Ready
) -> Outcomes:
    """Outcomes in the order in which the cluster ends the pieces."""
    ray: Any = optional("ray", "ray", "ray")
    with ExitStack() as opened:
        _connect(ray, opened, workers, address)
        ready()
        # An exception of a piece is part of its outcome, so whatever Ray itself raises is about a worker.
        remote = ray.remote(max_retries=ATTEMPTS - 1)(run_piece)
        window = workers or max(_WAITING * int(ray.cluster_resources().get("CPU", 1)), 1)
        waiting = iter(enumerate(pieces))
        shared = ray.put(function)  # sent to a machine once, not once a piece
        under_way: dict[Any, int] = {}

        def send() -> None:
            for index, piece in waiting:
                under_way[remote.remote(shared, index, piece)] = index
                return

        try:
            for _ in range(min(window, len(pieces))):
                send()
            while under_way:
                (ready,), _ = ray.wait(list(under_way), num_returns=1)
                index = under_way.pop(ready)
                try:
                    outcome = ray.get(ready)
                except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError) as error:
                    raise lost(index, "Ray gave it up") from error
                send()
                yield outcome
        finally:
            for reference in under_way:
                ray.cancel(reference, force=True)


def _connect(ray: Any, opened: ExitStack, workers: int | None, address: str) -> None:
    """Join the cluster at ``address``, or start one that lives as long as ``opened``; keep one already joined."""
    if ray.is_initialized():
        return
    # Ray would otherwise send statistics of use to its makers.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address:
            ray.init(address=address, **quiet)
        else:
            ray.init(num_cpus=workers, include_dashboard=False, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(
            f"address {address!r}: no Ray cluster answers ({reason}); start one with `ray start --head` and give "
            "its address, such as host:6379"
        ) from error
    opened.callback(ray.shutdown)
