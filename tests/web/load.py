"""Many annotators at once against a server of its own process: what ``bench/serve.py`` and the soak tests share."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil

from hardpan import replicate
from hardpan.data.dataset import Dataset, content_ids
from hardpan.replicate import simulate

COMMAND = ("-m", "hardpan", "replicate", "serve")


def run_async(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of ``work``, in a thread of its own (Playwright keeps a loop running in the main one)."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def make_project(path: Path, *, workers: int, tasks: int, grid: int, database_url: str = "") -> Any:
    """A project with as many tasks as every worker can do: no two tasks share an image."""
    rng = np.random.default_rng(0)
    each = -(-tasks // 2)
    controls = 8 * each
    x = rng.integers(0, 256, (2 * controls, 8, 8), dtype=np.uint8)
    original = Dataset("noise", x, content_ids(x), np.repeat([0, 1], controls), ("a", "b"), source="noise")
    project = replicate.Project.create(
        path, original, grid=grid, workers_per_image=workers, originals_per_class=3, database_url=database_url
    )
    count = each * (grid - 6)
    pixels = rng.integers(0, 256, (2 * count, 8, 8), dtype=np.uint8)
    simulate.add_candidate_arrays(project, pixels, [0] * count + [1] * count)
    project.make_tasks()
    return project


class Server:
    """The command of the project, in a process of its own."""

    def __init__(self, folder: Path, *, port: int = 0, workers: int = 100, options: Sequence[str] = ()) -> None:
        given = [str(folder), "--port", str(port), "--workers-expected", str(workers), *options]
        self.process = subprocess.Popen([sys.executable, *COMMAND, *given], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.said = ""
        while not (found := re.search(r"Annotators .*: (http\S+)", self.said)):
            line = self.process.stdout.readline()
            assert line, f"the server ended: {self.said}"
            self.said += line
        self.link = found[1]
        self.address = self.link.partition("/annotate/")[0]
        wait_for(self.address if "--address" not in options else f"http://127.0.0.1:{port}")

    def cpu_seconds(self) -> float:
        """What the process has used so far."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def stop(self) -> int:
        """End it as a person would, and give its exit code."""
        self.process.terminate()
        code = self.process.wait(timeout=30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def wait_for(address: str, seconds: float = 30.0) -> None:
    """Wait until the server answers."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{address}/static/icon.svg", timeout=5).status_code == 200:
                return
        time.sleep(0.02)
    raise AssertionError(f"no answer from {address}")


@dataclass
class Tally:
    """What the annotators saw: seconds of every submission, answers by lease, errors, repeats."""

    seconds: list[float] = field(default_factory=list)
    acknowledged: dict[str, list[int]] = field(default_factory=dict)
    retries: int = 0
    expired: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    wall: float = 0.0

    def percentile(self, share: float) -> float:
        """A percentile of the seconds."""
        return float(np.percentile(self.seconds, 100 * share))


class Annotator:
    """One browser: joins, takes a task, submits it, tries again until the server has confirmed it."""

    def __init__(self, number: int, link: str, tally: Tally, patience: float) -> None:
        self.address = link.partition("/annotate/")[0]
        self.client = httpx.AsyncClient(timeout=20)
        self.link, self.number, self.tally, self.patience = link, number, tally, patience
        self.rng = random.Random(number)

    async def enter(self) -> None:
        await self._again(lambda: self.client.get(f"{self.link}?worker=load-{self.number}"))
        page = await self._again(lambda: self.client.get(f"{self.address}/annotate/"))
        found = re.search(r'name="csrf" content="(\w+)"', page.text)
        assert found is not None, page.text
        self.client.headers["X-CSRF-Token"] = found[1]

    async def task(self) -> dict[str, Any] | None:
        answer = await self._again(
            lambda: self.client.post(f"{self.address}/annotate/api/task", json={"besides": []})
        )
        task: dict[str, Any] | None = answer.json()["task"]
        return task

    async def submit(self, task: dict[str, Any]) -> None:
        selected = sorted(self.rng.sample(range(len(task["images"])), self.rng.randrange(len(task["images"]))))
        body = {"task": task["id"], "selected": selected, "key": f"{self.rng.getrandbits(64):x}"}
        start = time.perf_counter()
        answer = await self._again(lambda: self.client.post(f"{self.address}/annotate/api/submit", json=body))
        self.tally.seconds.append(time.perf_counter() - start)
        if answer.status_code == 410:  # the lease expired, and others have finished the task
            self.tally.expired += 1
            return
        assert answer.json()["state"] in ("counted", "repeated")
        self.tally.acknowledged[task["id"]] = selected

    async def _again(self, ask: Any) -> httpx.Response:
        end = time.monotonic() + self.patience
        while True:
            try:
                answer: httpx.Response = await ask()
                if answer.status_code < 400 or answer.status_code == 410:
                    return answer
                self.tally.statuses[answer.status_code] += 1
                if answer.status_code not in (429, 500, 503):
                    raise AssertionError(f"{answer.status_code}: {answer.text[:200]}")
            except httpx.HTTPError:
                answer = None  # type: ignore[assignment]
            if time.monotonic() > end:
                raise AssertionError("the server did not come back") from None
            self.tally.retries += 1
            await asyncio.sleep(0.05)


async def drive(link: str, *, workers: int, submissions: int, rate: float | None, patience: float = 60.0) -> Tally:
    """Let ``workers`` annotators submit, ``rate`` times a second over all, or (None) as fast as it goes."""
    tally = Tally()
    crew = [Annotator(number, link, tally, patience) for number in range(workers)]
    try:
        await asyncio.gather(*(one.enter() for one in crew))
        ready: asyncio.Queue[tuple[Annotator, dict[str, Any]]] = asyncio.Queue()

        async def prepare(one: Annotator) -> None:
            task = await one.task()
            if task is not None:
                await ready.put((one, task))

        async def finish(one: Annotator, task: dict[str, Any]) -> None:
            await one.submit(task)
            await prepare(one)

        await asyncio.gather(*(prepare(one) for one in crew))
        start, under_way = time.perf_counter(), []
        for number in range(submissions):
            if rate is not None:
                await asyncio.sleep(max(0.0, start + number / rate - time.perf_counter()))
            one, task = await asyncio.wait_for(ready.get(), patience)
            under_way.append(asyncio.create_task(finish(one, task)))
        await asyncio.gather(*under_way)
        tally.wall = time.perf_counter() - start
    finally:
        await asyncio.gather(*(one.client.aclose() for one in crew))
    return tally


def check(project: Any, tally: Tally) -> tuple[int, int]:
    """How many confirmed submissions are lost or differ from what was sent, and how many votes are there twice."""
    from sqlalchemy import select

    from hardpan.replicate.database import votes
    from hardpan.replicate.database.connection import Assignment

    counted: dict[tuple[str, str, int], list[bool]] = {}
    for vote in votes.all_votes(project):
        counted.setdefault((vote.worker_id, vote.image_id, vote.class_index), []).append(vote.selected)
    by_image = {(worker, image): selected for (worker, image, _), selected in counted.items()}
    with project.database.read() as connection:
        rows = connection.execute(select(Assignment.token, Assignment.worker_id, Assignment.image_ids)).all()
    shown = {row.token: (row.worker_id, row.image_ids) for row in rows}
    lost = 0
    for token, selected in tally.acknowledged.items():
        worker, images = shown[token]
        there = [by_image.get((worker, image)) for image in images]
        lost += there != [[place in set(selected)] for place in range(len(images))]
    return lost, sum(len(values) - 1 for values in counted.values())
