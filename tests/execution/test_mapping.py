"""One contract for every back end: the same results, in order, whatever happens to the workers."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.execution.conftest import dask_cluster

from hardpan.errors import InputError, MissingExtra
from hardpan.execution import BACKENDS, ClusterLost, Parallel, TaskLost, current, map_tasks, parallel

# Dask and Ray use what Python and their own libraries have put aside; ours may not.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:A worker stopped while some jobs were given:UserWarning"),
]
# Ray takes half a minute to start and end, so it goes through the same contract in the soak.
EVERY = [pytest.param(name, marks=pytest.mark.soak) if name == "ray" else name for name in BACKENDS]
APART = [name for name in EVERY if name != "threads"]  # back ends whose workers can be killed one by one


@pytest.fixture
def where(request: pytest.FixtureRequest) -> Any:
    """From the name of a back end to the arguments that choose it."""

    def arguments(backend: str) -> dict[str, Any]:
        if backend in ("dask", "ray"):
            return {"backend": backend, "address": request.getfixturevalue(f"{backend}_address")}
        return {"backend": backend, "workers": 2}

    return arguments


def mapped(function: Any, tasks: Any, setting: dict[str, Any], **options: Any) -> list[Any]:
    with parallel(**setting):
        return map_tasks(function, tasks, **options)


def seeded_mean(seed: int) -> Any:
    # Made here, not at the top of the module: workers cannot import the tests, so the function itself is sent.
    def mean_of(i: int) -> float:
        return float(np.random.default_rng([seed, i]).standard_normal(1000).mean())

    return mean_of


@pytest.mark.parametrize("backend", EVERY)
def test_every_back_end_gives_the_same_bits_in_the_order_of_the_tasks(backend, where):
    told: list[tuple[str, float]] = []
    saved: dict[int, float] = {}
    function = seeded_mean(3)
    notes = {"progress": lambda *said: told.append(said), "each": saved.__setitem__}
    found = mapped(function, range(23), where(backend), **notes)
    assert [saved[i] for i in range(23)] == found
    assert found == [function(i) for i in range(23)]
    assert [fraction for _, fraction in told] == [(k + 1) / 23 for k in range(23)]
    assert told[-1] == ("23 of 23 tasks", 1.0)


@pytest.mark.parametrize("backend", EVERY)
def test_an_exception_of_a_task_surfaces_as_it_is_and_names_the_task(backend, where):
    def refuse_five(i: int) -> int:
        from hardpan.errors import InputError

        if i == 5:
            raise InputError("temperature must be positive; got -1")
        return i

    with pytest.raises(InputError, match=r"\btemperature\b.*-1") as caught:
        mapped(refuse_five, range(8), where(backend))
    assert caught.value.__notes__ == ["in task 5: 5"]


@pytest.mark.parametrize("backend", APART)
def test_a_task_whose_worker_is_killed_runs_again(backend, where, tmp_path):
    def interrupted(i: int) -> int:
        mark = tmp_path / f"started-{i}"
        if i == 4 and not mark.exists():
            unfinished = mark.with_suffix(".part")
            unfinished.write_text(str(os.getpid()))
            unfinished.rename(mark)
            time.sleep(60)
            raise AssertionError("nobody killed this worker")
        return i * i

    def kill() -> None:
        mark = tmp_path / "started-4"
        ends = time.monotonic() + 50
        while not mark.exists() and time.monotonic() < ends:
            time.sleep(0.02)
        os.kill(int(mark.read_text()), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found = mapped(interrupted, range(12), where(backend))
    killer.join()
    assert (tmp_path / "started-4").exists()
    assert found == [i * i for i in range(12)]


@pytest.mark.parametrize(
    "backend", ["processes", *(pytest.param(b, marks=pytest.mark.soak) for b in ("dask", "ray"))]
)
def test_a_task_that_kills_every_worker_is_given_up_and_named(backend, where, tmp_path):
    def deadly(i: int) -> int:
        if i == 1:
            with (tmp_path / "deaths").open("a") as deaths:
                deaths.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        return i

    # Dask counts a death against every task that shared the worker, and says that it may have been another.
    blamed = "[12]" if backend == "dask" else "1"
    with pytest.raises(TaskLost, match=rf"\b{blamed}\b"):
        mapped(deadly, range(3), where(backend))
    assert 4 <= len((tmp_path / "deaths").read_text()) <= 6


@pytest.mark.soak
def test_a_scheduler_that_goes_away_ends_the_call_with_one_sentence(tmp_path):
    def slow(i: int) -> int:
        (tmp_path / f"started-{i}").touch()
        time.sleep(0.5)
        return i

    with dask_cluster(tmp_path) as (address, scheduler):

        def kill() -> None:
            while not (tmp_path / "started-3").exists():
                time.sleep(0.05)
            scheduler.kill()

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        with pytest.raises(ClusterLost, match=address):
            mapped(slow, range(1000), {"backend": "dask", "address": address})


@pytest.mark.parametrize("backend", ["threads", "processes"])
def test_no_more_tasks_run_at_once_than_workers(backend, tmp_path):
    def crowd(i: int) -> int:
        (tmp_path / f"in-{i}").touch()
        time.sleep(0.05)
        here = sum(1 for _ in tmp_path.glob("in-*"))
        (tmp_path / f"in-{i}").unlink()
        return here

    assert max(mapped(crowd, range(6), {"backend": backend, "workers": 1})) == 1


def test_processes_are_other_processes_even_for_one_worker():
    found = mapped(lambda _: os.getpid(), range(3), {"backend": "processes", "workers": 1})
    assert os.getpid() not in found


def test_no_tasks_give_no_results_without_starting_anything():
    assert mapped(seeded_mean(0), [], {"backend": "dask", "address": "tcp://127.0.0.1:9"}) == []


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("backend", {"backend": "cloud"}),
        ("backend", {"backend": None}),
        ("workers", {"workers": 0}),
        ("workers", {"workers": True}),
        ("workers", {"workers": 1.5}),
        ("address", {"address": "tcp://x:1"}),
        ("address", {"backend": "dask"}),
        ("address", {"backend": "ray"}),
        ("address", {"backend": "dask", "address": 8786}),
    ],
)
def test_bad_settings_name_the_argument(name, setting):
    with pytest.raises(InputError, match=f"^{name}"), parallel(**setting):
        pass


def test_the_innermost_setting_applies_and_ends_with_its_block():
    assert current() == Parallel()
    with parallel("processes", workers=np.int64(2)):
        with parallel("threads"):
            assert current() == Parallel("threads")
        assert current() == Parallel("processes", 2)
    assert current() == Parallel()


def test_an_address_where_nobody_answers_is_refused_with_the_remedy(monkeypatch):
    monkeypatch.setattr("hardpan.execution.mapping.ANSWER_SECONDS", 1)
    with pytest.raises(InputError, match=r"address.*tcp://127\.0\.0\.1:9"):
        mapped(seeded_mean(0), range(2), {"backend": "dask", "address": "tcp://127.0.0.1:9"})
    with pytest.raises(InputError, match="Dask"):
        mapped(seeded_mean(0), range(2), {"backend": "dask", "address": "not an address"})
    started = time.monotonic()
    with pytest.raises(InputError, match=r"address.*127\.0\.0\.1:9"):
        mapped(seeded_mean(0), range(2), {"backend": "ray", "address": "127.0.0.1:9"})
    assert time.monotonic() - started < 30


@pytest.mark.parametrize(("backend", "module"), [("dask", "distributed"), ("ray", "ray")])
def test_a_missing_extra_names_the_install_command(backend, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"hardpan\[{backend}\]"):
        mapped(seeded_mean(0), range(2), {"backend": backend, "address": "127.0.0.1:1"})


def test_a_missing_extra_survives_the_way_back_from_a_worker():
    sent = pickle.loads(pickle.dumps(MissingExtra("torch", "torch")))
    assert isinstance(sent, MissingExtra)
    assert str(sent) == str(MissingExtra("torch", "torch"))


def test_an_exception_that_cannot_travel_comes_back_as_text():
    class Odd(Exception):
        def __init__(self, one: int, two: int) -> None:
            super().__init__(f"{one}-{two}")

    def raise_odd(_: int) -> int:
        raise Odd(1, 2)

    with pytest.raises(RuntimeError, match=r"Odd\W+1-2") as caught:
        mapped(raise_odd, [0], {"backend": "processes", "workers": 1})
    assert caught.value.__notes__ == ["in task 0: 0"]


def test_an_interrupt_ends_the_call():
    def interrupted(step: str, fraction: float) -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        mapped(lambda _: time.sleep(0.2), range(200), {"workers": 2}, progress=interrupted)
    assert time.monotonic() - began < 10


def test_a_path_is_a_task_as_good_as_a_number(tmp_path):
    names = [tmp_path / name for name in "abc"]
    assert mapped(Path.exists, names, {"backend": "processes", "workers": 2}) == [False] * 3


@pytest.mark.parametrize("backend", EVERY)
def test_ready_is_called_once_before_the_tasks_run(backend, where, tmp_path):
    said: list[int] = []

    def ready() -> None:
        said.append(threading.get_ident())
        (tmp_path / "made").mkdir()

    found = mapped(lambda path: os.path.isdir(path), [str(tmp_path / "made")] * 3, where(backend), ready=ready)
    assert found == [True] * 3
    assert said == [threading.get_ident()]


def test_ready_is_not_called_where_no_cluster_answers(monkeypatch):
    monkeypatch.setattr("hardpan.execution.mapping.ANSWER_SECONDS", 1)
    said: list[int] = []
    with pytest.raises(InputError, match="Dask"):
        mapped(abs, [1], {"backend": "dask", "address": "tcp://127.0.0.1:1"}, ready=lambda: said.append(1))
    assert said == []


LOCKING = """
import multiprocessing, time
from hardpan.errors import InputError
from hardpan.execution import map_tasks, parallel

def task(number):
    global lock
    lock = multiprocessing.Lock()  # as Blosc makes one, where it packs an array
    if number == 0:
        time.sleep(1.0)
        raise InputError("refused")
    time.sleep(20.0)

try:
    with parallel("processes", workers=2):
        map_tasks(task, range(2))
except InputError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere locks keep their names until the process ends")
def test_workers_that_are_ended_after_an_error_leave_no_warning_behind():
    done = subprocess.run([sys.executable, "-c", LOCKING], capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n"
    assert done.stderr == ""
