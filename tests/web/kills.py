"""Annotators at work while their server is killed again and again: ``bench/faults.py`` and the soak tests share it.

Every server has a fault of its own: none, a clock that jumps by an hour, a slow disk, a disk that is full for a
while. Three in four are killed, the fourth is stopped. PostgreSQL is also restarted as after a crash, and its disk
is full for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.web import load

# One process that has everything loaded and forks a server when told to: a start takes a moment, not seconds.
NURSERY = textwrap.dedent("""
    import os, random, resource, signal, sys, threading, time
    from dataclasses import replace
    from hardpan import replicate
    from hardpan.web import serving
    from hardpan.web.annotation import create_app
    from hardpan.replicate.database import leases, people, votes
    from sqlalchemy import event
    import uvicorn
    folder, port = sys.argv[1], int(sys.argv[2])

    def fill_the_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        def limit():
            time.sleep(0.1)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
            time.sleep(0.3)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

        threading.Thread(target=limit, daemon=True).start()

    print("ready", flush=True)
    for number, line in enumerate(sys.stdin):
        child = os.fork()
        if child == 0:
            project = replicate.Project.open(folder)
            project.database.create_tables()  # as serve does before it listens
            if number % 4 == 1:
                start, jump = time.monotonic(), random.choice([-3600, 3600])
                project = replace(project, clock=lambda: time.time() + jump * (time.monotonic() - start > 0.2))
            if number % 4 == 2:
                event.listen(project.database._engine, "commit", lambda _: time.sleep(0.03 * random.random()))
            if number % 4 == 3:
                fill_the_disk()
            listener = serving.bind("127.0.0.1", port)
            serving.run(create_app(project), listener)
            os._exit(0)
        print(child, flush=True)
        os.waitpid(child, 0)
        print("gone", flush=True)
""")


def run(
    path: Path, *, workers: int, kills: int, database_url: str = "", outages: Sequence[Callable[[], None]] = ()
) -> load.Tally:
    """Make a project at ``path``, let annotators work on it, kill its server so often; what they saw.

    ``outages`` are faults of the database: one of them, in turn, happens under every fourth server.
    """
    project = load.make_project(path, workers=workers, tasks=400, grid=12, database_url=database_url)
    from hardpan.replicate.database import people

    link = people.invite_people(project, uses=workers).link
    project.close()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    nursery = subprocess.Popen(
        [sys.executable, "-c", NURSERY, str(path), str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    tally = load.Tally()
    try:
        assert nursery.stdout.readline() == "ready\n"
        last = load.run_async(
            _both(nursery, f"http://127.0.0.1:{port}/annotate/join/{link}", tally, workers, kills, outages)
        )
        os.kill(last, signal.SIGTERM)
        assert nursery.stdout.readline() == "gone\n"
    finally:
        nursery.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            nursery.wait(timeout=15)
        with contextlib.suppress(ProcessLookupError):  # after a failure, its last server is still there
            os.killpg(nursery.pid, signal.SIGKILL)
        nursery.wait()
        nursery.stdout.close()
    return tally


async def _both(
    nursery: subprocess.Popen[str],
    link: str,
    tally: load.Tally,
    workers: int,
    kills: int,
    outages: Sequence[Callable[[], None]],
) -> int:
    stop = asyncio.Event()
    working = asyncio.create_task(_annotate(link, tally, workers, stop))
    server = await _kill(nursery, link.partition("/annotate/")[0], tally, kills, outages)
    stop.set()
    await working
    return server


async def _annotate(link: str, tally: load.Tally, workers: int, stop: asyncio.Event) -> None:
    crew = [load.Annotator(number, link, tally, 120) for number in range(workers)]

    async def work(one: load.Annotator) -> None:
        await one.enter()
        while not stop.is_set() and (task := await one.task()):
            await one.submit(task)

    start = time.perf_counter()
    try:
        await asyncio.gather(*(work(one) for one in crew))
    finally:
        await asyncio.gather(*(one.client.aclose() for one in crew))
    tally.wall = time.perf_counter() - start


async def _kill(
    nursery: subprocess.Popen[str],
    address: str,
    tally: load.Tally,
    kills: int,
    outages: Sequence[Callable[[], None]],
) -> int:
    """Start a server, wait until it has confirmed three submissions, kill it, and so on; the last one stays."""
    assert nursery.stdout is not None
    for number in range(kills):
        server = _start(nursery)
        await asyncio.to_thread(load.wait_for, address, 60)  # answers of the one before may still be coming in
        await _answers(tally, 3)
        if outages and number % 4 == 0:
            await asyncio.to_thread(outages[number // 4 % len(outages)])
            await _answers(tally, 3)
        await asyncio.sleep(0.02 + 0.01 * (number % 7))
        os.kill(server, signal.SIGTERM if number % 4 == 2 else signal.SIGKILL)
        assert await asyncio.to_thread(nursery.stdout.readline) == "gone\n"
    return _start(nursery)


async def _answers(tally: load.Tally, count: int) -> None:
    """Wait for so many more confirmed submissions."""
    goal, end = len(tally.acknowledged) + count, time.monotonic() + 60
    while len(tally.acknowledged) < goal:
        assert time.monotonic() < end, "no answers for a minute"
        await asyncio.sleep(0.01)


def _start(nursery: subprocess.Popen[str]) -> int:
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    nursery.stdin.write("\n")
    nursery.stdin.flush()
    return int(nursery.stdout.readline())
