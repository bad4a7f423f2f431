"""A real Dask scheduler with two workers, and a real Ray head, on this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

START_SECONDS = 120
# Dask waits half a minute by default before it gives up a worker that was killed.
SETTINGS = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s"}


@contextmanager
def dask_cluster(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A scheduler, and two workers of one thread, each a process of its own that is replaced when it dies."""
    started: list[subprocess.Popen[bytes]] = []

    def start(command: str, *arguments: str) -> Path:
        log = folder / f"{len(started)}.log"
        line = [sys.executable, "-m", f"distributed.cli.{command}", *arguments]
        with log.open("wb") as stream:
            started.append(
                subprocess.Popen(line, stdout=stream, stderr=stream, cwd=folder, env=os.environ | SETTINGS)
            )
        return log

    try:
        log = start("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        address = _wait_for(log, r"Scheduler at:\s+(tcp://\S+)", started)
        options = ("--nthreads", "1", "--memory-limit", "0", "--no-dashboard")
        for log in [start("dask_worker", address, *options) for _ in range(2)]:
            _wait_for(log, r"Registered to:\s+(tcp://\S+)", started)  # hardpan waits a quarter of a minute for one
        yield address, started[0]
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(2)
            except subprocess.TimeoutExpired:  # one whose worker was killed a moment ago waits long for it
                process.kill()
                process.wait()


@pytest.fixture(scope="session")
def dask_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a real Dask scheduler."""
    with dask_cluster(tmp_path_factory.mktemp("dask")) as (address, _):
        yield address


@contextmanager
def ray_head() -> Iterator[str]:
    """A Ray head with two cores and a small object store; gives its address."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray warns that its default will change
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own modules use what Python has put aside
        from ray.cluster_utils import Cluster

        settings: dict[str, Any] = {"num_cpus": 2, "object_store_memory": 100_000_000, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=settings)
    try:
        yield cluster.address
    finally:
        cluster.shutdown()


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    """Address of a Ray head."""
    with ray_head() as address:
        yield address


def _wait_for(log: Path, pattern: str, processes: list[subprocess.Popen[bytes]]) -> str:
    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends and all(process.poll() is None for process in processes):
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[1]
        time.sleep(0.1)
    raise RuntimeError(f"no {pattern!r} within {START_SECONDS} s:\n{log.read_text(errors='replace')}")
