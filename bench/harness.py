"""What every bench topic uses: timing, memory, requirements and tables.

A topic is one file ``bench/TOPIC.py`` (no leading underscore) with a function ``run()``::

    from bench import harness

    PEERS = ("scikit-learn", "gx2")       # optional: distributions whose versions go into the record
    CORES = 1                             # optional: how many cores the topic may use (1 where it says nothing)

    def prepare(classes, dimension):      # makes the input; not measured
        return np.random.default_rng(0).normal(size=(classes, dimension))

    def work(means):                      # what is measured; returns plain values (or None)
        return {"error": bayes.gaussian(means).value}

    def run():
        rows = []
        for classes in (10, 100):
            m = harness.isolated(prepare, work, repeats=3, classes=classes, dimension=3072)
            rows.append({"classes": classes, "error": m.output["error"], "seconds": m.best,
                         "extra MB": m.extra_megabytes, **harness.against(m.best, at_most=0.5, unit="s")})
        return harness.table("Error of Gaussian classes", rows, seed=0, notes=["identity covariance"])

``run()`` returns one :func:`table` or a list of them. ``python -m bench TOPIC`` (``make bench TOPIC=...``) pins
the process to one core and one thread, runs it, writes ``bench/records/TOPIC.json`` and rebuilds
``bench/RESULTS.md`` from all records. The harness adds machine, versions, date and commit. A record keeps one entry
a machine: a run replaces the entry of the machine that it ran on and leaves the others, so figures from a GPU stay.

Three ways to measure:

- :func:`measure` calls a function here, several times: best and median wall time.
- :func:`isolated` does it in a fresh process: wall time and peak memory above that before the call.
- :func:`cold` starts a Python program from nothing: wall time of the whole process.

A row is a mapping of column name to a plain value (number, text, bool, None). :func:`against` adds the columns
``must`` and ``met``; :func:`ratios` adds how many times more than a base row each row needs; :func:`exponent` fits
a growth. Nothing hides a requirement that is not met.

This module imports only the standard library, so that threads can be limited before NumPy starts.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Wall times in seconds of every repeat, what the last call returned, and memory where it was measured.

    Attributes:
        seconds: wall time of every repeat, in order.
        output: what the last call returned.
        extra_bytes: peak resident memory beyond what was resident before the calls (None: not measured).
        before_bytes: resident memory just before the first call, the input included (None: not measured).
    """

    seconds: tuple[float, ...]
    output: Any = None
    extra_bytes: int | None = None
    before_bytes: int | None = None

    @property
    def best(self) -> float:
        """Shortest wall time."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """Median wall time."""
        return statistics.median(self.seconds)

    @property
    def repeats(self) -> int:
        """How many calls were timed."""
        return len(self.seconds)

    @property
    def extra_megabytes(self) -> float | None:
        """Peak memory beyond the input, in units of 10⁶ bytes."""
        return None if self.extra_bytes is None else self.extra_bytes / 1e6


def measure(work: Callable[[], Any], repeats: int = 3, warmup: int = 0) -> Measurement:
    """Time a function in this process; ``warmup`` calls before the timed ones do not count."""
    for _ in range(warmup):
        work()
    seconds, output = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        output = work()
        seconds.append(time.perf_counter() - start)
    return Measurement(tuple(seconds), output)


def isolated(
    prepare: Callable[..., Any],
    work: Callable[[Any], Any],
    *,
    repeats: int = 1,
    warmup: int = 0,
    cores: int = 1,
    timeout: float | None = None,
    **arguments: Any,
) -> Measurement:
    """Time ``work(prepare(**arguments))`` in a fresh process and measure the peak memory that ``work`` adds.

    Both functions stand at the top level of a topic; ``arguments`` and what ``work`` returns are plain JSON values
    (a number, a list, a mapping). Only ``work`` is measured. Warm-up calls count for memory, not for time.
    Memory-mapped pages that ``work`` touches count as memory, since they are resident.

    Raises:
        RuntimeError: the process failed; the message ends with what it said.
        TimeoutError: it took longer than ``timeout`` seconds.
    """
    job = {
        "module": _module_name(work),
        "prepare": prepare.__name__,
        "work": work.__name__,
        "prepare_module": _module_name(prepare),
        "arguments": arguments,
        "repeats": repeats,
        "warmup": warmup,
        "cores": cores,
    }
    command = [sys.executable, "-m", "bench.harness", json.dumps(job)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=one_thread_environment(cores), capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"{job['work']}({arguments}) took longer than {timeout} s") from error
    if done.returncode:
        raise RuntimeError(
            f"{job['work']}({arguments}) ended with {done.returncode}: {done.stderr.strip()[-2000:]}"
        )
    answer = json.loads(done.stdout.rpartition("\n@bench ")[2])
    return Measurement(tuple(answer["seconds"]), answer["output"], answer["extra_bytes"], answer["before_bytes"])


def cold(arguments: Sequence[str], repeats: int = 5) -> Measurement:
    """Time a whole Python process, started from nothing; the output is its stdout.

    ``cold(["-c", "import hardpan"])`` is the time of a first import.
    """
    command = [sys.executable, *arguments]
    environment = one_thread_environment(1)

    def start() -> str:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    return measure(start, repeats=repeats, warmup=1)


def pin(cores: int = 1) -> None:
    """Keep this process on ``cores`` cores and as many threads; call it before NumPy is imported."""
    os.environ.update(one_thread_environment(cores))
    if hasattr(os, "sched_setaffinity"):
        if cores > len(os.sched_getaffinity(0)):
            # A process started by a pinned one may need more cores than its parent.
            os.sched_setaffinity(0, range(os.cpu_count() or 1))
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, set(allowed[-cores:]))
    if "numpy" in sys.modules:
        # Libraries that are already loaded no longer read the environment.
        importlib.import_module("threadpoolctl").threadpool_limits(cores)


def one_thread_environment(cores: int = 1) -> dict[str, str]:
    """This process's environment with every numeric library told to use ``cores`` threads."""
    return dict(os.environ) | dict.fromkeys(THREAD_VARIABLES, str(cores))


def table(
    title: str,
    rows: Iterable[Mapping[str, Any]],
    *,
    columns: Sequence[str] | None = None,
    seed: int | None = None,
    notes: Iterable[str] = (),
) -> dict[str, Any]:
    """One table of results; without ``columns`` they come in the order in which the rows first name them."""
    plain = [{str(key): _plain(value) for key, value in row.items()} for row in rows]
    order = list(columns) if columns is not None else list(dict.fromkeys(key for row in plain for key in row))
    return {"title": title, "columns": order, "rows": plain, "seed": seed, "notes": list(notes)}


def against(
    value: float | None, *, at_most: float | None = None, at_least: float | None = None, unit: str = ""
) -> dict[str, Any]:
    """Columns ``must``, ``met`` and ``margin``: the requirement, whether ``value`` meets it, and by which factor.

    A margin of 2 is twice as good as required, 0.5 half as good. None or NaN does not meet anything.

    Example:
        >>> against(0.4, at_most=0.5, unit="s")
        {'must': '≤ 0.5 s', 'met': True, 'margin': 1.25}
        >>> against(None, at_least=0.916, at_most=0.978)["met"]
        False
    """
    wanted = [f"{sign} {bound:g}" for sign, bound in (("≥", at_least), ("≤", at_most)) if bound is not None]
    met = value is not None and value == value
    met = met and (at_most is None or float(value) <= at_most) and (at_least is None or float(value) >= at_least)  # type: ignore[arg-type]
    margins = []
    if value is not None and value == value:
        if at_most is not None and at_most > 0:
            margins.append(at_most / float(value) if value > 0 else math.inf)
        if at_least is not None and at_least > 0:
            margins.append(float(value) / at_least)
    margin = min(margins, default=None)
    return {
        "must": " and ".join(wanted) + (f" {unit}" if unit else ""),
        "met": bool(met),
        "margin": None if margin is None or math.isinf(margin) else round(margin, 4),
    }


def ratios(
    rows: Sequence[Mapping[str, Any]], base: Mapping[str, Any], columns: Sequence[str]
) -> list[dict[str, Any]]:
    """Copy the rows with ``COLUMN ×`` beside each of ``columns``: how many times the base row's value it is.

    Example:
        >>> ratios([{"s": 3.0}], {"s": 1.5}, ["s"])
        [{'s': 3.0, 's ×': 2.0}]
    """
    result = []
    for row in rows:
        extended: dict[str, Any] = {}
        for key, value in row.items():
            extended[key] = value
            if key in columns:
                reference = base.get(key)
                extended[f"{key} ×"] = value / reference if value is not None and reference else None
        result.append(extended)
    return result


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Least-squares slope of log value on log size: the power with which a cost grows.

    Example:
        >>> round(exponent([10, 100, 1000], [2e2, 2e4, 2e6]), 6)
        2.0
    """
    return statistics.linear_regression(
        [math.log(size) for size in sizes], [math.log(value) for value in values]
    ).slope


def resident_bytes() -> int:
    """Resident memory of this process now."""
    return _status("VmRSS")


def _module_name(function: Callable[..., Any]) -> str:
    if function.__qualname__ != function.__name__:
        raise ValueError(
            f"{function.__qualname__} must stand at the top level of its module, to run in a fresh process"
        )
    return function.__module__


def _plain(value: Any) -> Any:
    """A JSON value: NumPy numbers become Python's, numbers that JSON lacks become None."""
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a bench row holds numbers, text, bool and None; got {type(value).__name__}")


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {key}")


def _reset_peak() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _child(job: Mapping[str, Any]) -> dict[str, Any]:
    pin(job["cores"])
    prepare = getattr(importlib.import_module(job["prepare_module"]), job["prepare"])
    work = getattr(importlib.import_module(job["module"]), job["work"])
    given = prepare(**job["arguments"])
    gc.collect()
    # Freed pages that the allocator keeps would hide what the call needs.
    getattr(ctypes.CDLL(None), "malloc_trim", lambda _: 0)(0)
    reset = _reset_peak()
    before = resident_bytes()
    done = measure(lambda: work(given), job["repeats"], job["warmup"])
    peak = _status("VmHWM") if reset else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    output = done.output
    if isinstance(output, Mapping):
        output = {key: _plain(value) for key, value in output.items()}
    elif isinstance(output, (list, tuple)):
        output = [_plain(value) for value in output]
    else:
        output = _plain(output)
    return {"seconds": done.seconds, "output": output, "extra_bytes": max(0, peak - before), "before_bytes": before}


if __name__ == "__main__":
    # The mark keeps the answer apart from whatever the work printed.
    answer_line = "\n@bench " + json.dumps(_child(json.loads(sys.argv[1])))
    print(answer_line, end="")
