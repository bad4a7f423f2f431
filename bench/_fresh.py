"""Audits of problems with planted truth, each in its own process, and how often what they say is true.

A file of problems has a registry ``P``: name -> (mode, function of a random generator); docs/measured.md has the
format. Without git, Altair or a browser::

    python -m bench._fresh FOLDER OUT.json
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
import traceback
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import harness

SEEDS = int(os.environ.get("BENCH_SEEDS", "3"))
BUDGET = float(os.environ.get("BENCH_BUDGET", "8"))  # seconds of training, where a problem needs trained models
WORKERS = int(os.environ.get("BENCH_WORKERS", "2"))
LIMIT = float(os.environ.get("BENCH_LIMIT", "300"))  # seconds per audit
IGNORED = ("small-test", "fresh", "data")  # always true of sets this small
BRACKETS, FOUND, ALARMS = 0.97, 0.85, 0.03  # targets
MARK = "@bench "
Cell = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One audit: a problem of a file, drawn with a seed."""

    file: str
    name: str
    seed: int


def problems_of(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The registry of a file of problems."""
    path = Path(path).resolve()
    if path.parent == harness.ROOT / "bench":
        return dict(importlib.import_module(f"bench.{path.stem}").P)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.P)


def files_in(folder: str | os.PathLike[str]) -> list[Path]:
    """Files of problems in a folder."""
    found = [path for path in sorted(Path(folder).resolve().glob("*.py")) if not path.name.startswith("_")]
    if not found:
        raise SystemExit(f"{folder} has no Python files of problems")
    return found


def audited(task: Task) -> Iterator[Cell]:
    """What was planted, and then what the audit of it listed: the columns of a cell, in two parts."""
    import numpy as np

    mode, make = problems_of(task.file)[task.name]
    planted = make(np.random.default_rng([task.seed, zlib.crc32(task.name.encode())]))
    kinds = {kind: dict(where) for kind, where in planted["planted"].items()}
    truth = planted.get("truth")
    yield {
        "mode": mode,
        "planted": {
            kind: bool(where.get("columns") or where.get("rows") is not None) for kind, where in kinds.items()
        },
        "ok": sorted(planted.get("ok", ())),
        "truth": None if truth is None else float(truth),
    }
    start = time.perf_counter()
    report = _report(planted, mode)
    bracket, best = report.measures.get("bracket"), report.measures.get("best_error")
    numbers = report.evidence.dataset.metadata.get("row")
    suspects = report.downloads.get("problems/labels.csv", "")
    yield {
        "found": [
            kind
            for kind, where in kinds.items()
            if any(
                _is_listed(item, where, planted.get("frame"), numbers, suspects)
                for item in report.problems
                if item.kind == kind
            )
        ],
        "listed": [[item.kind, item.severity] for item in report.problems],
        "alarms": sorted(
            {item.kind for item in report.problems if item.severity != "note"}
            - {*kinds, *planted.get("ok", ()), *IGNORED}
        ),
        "low": None if bracket is None else float(bracket.low),
        "high": None if bracket is None else float(bracket.high),
        "best": None if best is None else float(best.value),
        "seconds": round(time.perf_counter() - start, 1),
    }


def _report(planted: Mapping[str, Any], mode: str) -> Any:
    import numpy as np

    from hardpan import Dataset, auditing
    from hardpan.auditing import problems

    problems.MOST_ROWS = sys.maxsize  # the report lists some of the rows; the score needs all of them
    options = dict(planted.get("opts", {}))
    settings = {"budget": BUDGET} if mode == "train" else {"ensemble": "none"}
    if "frame" not in planted:
        data = Dataset.from_arrays(planted["x"], planted["y"], split=planted.get("split"), name="planted")
        return auditing.audit(data, **settings, **options)
    frame = planted["frame"]
    if planted.get("split") is not None:
        frame = frame.assign(split=np.asarray(planted["split"]))
    return auditing.audit(frame, **settings, **options)


def _is_listed(problem: Any, where: Mapping[str, Any], frame: Any, numbers: Any, suspects: str) -> bool:
    """Whether a problem names the planted columns or at least half of the planted rows; any, if none is given."""
    columns, rows = where.get("columns") or (), where.get("rows")
    named = {name for text in _texts(problem.details) for name in _names(text)}
    if columns and all(_names_of(column, frame) & named for column in columns):
        return True
    if rows is not None and len(rows):
        listed = {int(row if numbers is None else numbers[row]) for row in problem.rows}
        if problem.kind == "labels":
            listed |= {int(line.split(",")[0]) for line in suspects.splitlines()[1:]}
        return len(listed.intersection(map(int, rows))) >= len(rows) / 2
    return not columns


def _names_of(column: Any, frame: Any) -> set[str]:
    """Names of a planted column: its own and, of a column number of a frame, that column's."""
    numbered = frame is not None and not isinstance(column, str) and column not in frame.columns
    return {str(column), *([str(frame.columns[int(column)])] if numbered else [])}


def _names(text: str) -> set[str]:
    """The feature of this name and the column that it was made of ("smoker=no", "age is missing")."""
    return {text, text.removesuffix(" is missing"), text.partition("=")[0]}


def _texts(details: Any, named: bool = False) -> Iterator[str]:
    """All columns that a problem names in its details, under the keys "column" and "columns" at any depth."""
    if isinstance(details, Mapping):
        for key, value in details.items():
            yield from _texts(value, key in ("column", "columns"))
    elif isinstance(details, (list, tuple)):
        for item in details:
            yield from _texts(item, named)
    elif named:
        yield str(details)


def run_audits(
    tasks: Sequence[Task], part: Path | None = None, workers: int = WORKERS, limit: float = LIMIT
) -> list[Cell]:
    """Run audits in processes of one thread each; with ``part``, an interrupted run of the same source resumes."""
    versions = {task.file: source_version(task.file) for task in tasks} if part is not None else {}
    lines = [json.loads(line) for line in part.read_text().splitlines()] if part and part.exists() else []
    done = {
        Task(cell["file"], cell["problem"], cell["seed"]): cell
        for at, cell in lines
        if at == versions.get(cell["file"])
    }
    lock, cells = threading.Lock(), {task: done[task] for task in tasks if task in done}
    if part is not None:
        part.parent.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(workers) as pool:
        waiting = {pool.submit(_in_process, task, limit): task for task in tasks if task not in cells}
        for job in as_completed(waiting):
            cell = cells[waiting[job]] = job.result()
            with lock:
                if part is not None:
                    with part.open("a") as stream:
                        stream.write(json.dumps([versions[cell["file"]], cell]) + "\n")
                bracket = f"{cell.get('low')} {cell.get('truth')} {cell.get('high')}"
                missed = sorted(set(cell.get("planted", ())) - set(cell.get("found", ())))
                text = f"bracket {bracket}, missed {missed}, alarms {cell.get('alarms')} {cell['error'][-300:]}"
                print(f"{len(cells)}/{len(tasks)} {cell['seed']} {cell['problem']}: {text}", flush=True)
    return [cells[task] for task in tasks]


def _in_process(task: Task, limit: float) -> Cell:
    paths = [str(harness.ROOT / "src"), str(harness.ROOT), os.environ.get("PYTHONPATH", "")]
    environment = harness.one_thread_environment(1) | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", "bench._fresh", "--one", task.file, task.name, str(task.seed)]
    error = ""
    try:
        done = subprocess.run(
            command, cwd=harness.ROOT, env=environment, capture_output=True, text=True, timeout=limit
        )
        out = done.stdout
        if done.returncode:
            error = f"ended with {done.returncode}: {done.stderr.strip()[-2000:]}"
    except subprocess.TimeoutExpired as stopped:
        out, error = (stopped.stdout or b"").decode(), f"took longer than {limit:g} s"
    cell: Cell = {"file": task.file, "problem": task.name, "seed": task.seed, "error": error}
    for line in out.splitlines():
        if line.startswith(MARK):
            cell |= json.loads(line.removeprefix(MARK))
    return cell


def source_version(file: str) -> str:
    """Sha256 of what the audits depend on: the package, this folder, the file of problems, the settings."""
    root, digest = harness.ROOT, hashlib.sha256(f"{BUDGET:g}".encode())
    own = [*(root / "src" / "hardpan").rglob("*.py"), *(root / "bench").glob("*.py")]
    for path in sorted({*own, Path(file)}):
        digest.update(str(path).encode() + path.read_bytes())
    return digest.hexdigest()


def counted(k: int, n: int) -> dict[str, Any]:
    """Columns ``count``, ``of``, ``rate``, and the limits of its exact (Clopper-Pearson) 95 % interval."""
    from scipy.stats import binomtest

    if not n:
        return {"count": 0, "of": 0, "rate": None, "low": None, "high": None}
    interval = binomtest(k, n).proportion_ci(method="exact")
    return {
        "count": k,
        "of": n,
        "rate": round(k / n, 4),
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
    }


def holds(cell: Cell) -> bool | None:
    """Whether low ≤ truth ≤ high; None where the truth is not known or a finished audit states no bracket."""
    if cell.get("truth") is None or (not cell["error"] and cell.get("low") is None):
        return None
    return not cell["error"] and bool(cell["low"] <= cell["truth"] <= cell["high"])


def summary(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Planted problems found, audits with a false alarm and brackets that hold; a failed audit finds nothing."""
    found = [kind in cell.get("found", ()) for cell in cells for kind in cell.get("planted", ())]
    alarms = [bool(cell.get("alarms")) for cell in cells if not cell["error"]]
    held = [value for value in map(holds, cells) if value is not None]
    names = list(dict.fromkeys((cell["file"], cell["problem"]) for cell in cells))
    right = [all(_is_right(cell) for cell in cells if (cell["file"], cell["problem"]) == name) for name in names]
    rows = []
    for name, values, target in (
        ("planted problems found", found, {"at_least": FOUND}),
        ("audits with a false alarm", alarms, {"at_most": ALARMS}),
        ("brackets that hold", held, {"at_least": BRACKETS}),
    ):
        rate = float(sum(values)) / len(values) if values else None
        rows.append({"measured": name, **counted(sum(values), len(values)), **harness.against(rate, **target)})
    failed = sum(bool(cell["error"]) for cell in cells)
    rows.append({"measured": "audits that failed", **counted(failed, len(cells)), "must": "0", "met": not failed})
    rows.append({"measured": "problems with every seed right", **counted(sum(right), len(right))})
    return rows


def _is_right(cell: Cell) -> bool:
    all_found = set(cell.get("planted", ())) == set(cell.get("found", ()))
    return not cell["error"] and all_found and not cell["alarms"] and holds(cell) is not False


def by_kind(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """For each kind: found where planted; false alarms and notes where it is neither planted nor true."""
    kinds = sorted({kind for cell in cells for kind in (*cell.get("planted", ()), *cell.get("alarms", ()))})
    rows = []
    for kind in kinds:
        planted = [kind in cell.get("found", ()) for cell in cells if kind in cell.get("planted", ())]
        free = [
            cell for cell in cells if not cell["error"] and kind not in (*cell["planted"], *cell["ok"], *IGNORED)
        ]
        alarms = [kind in cell["alarms"] for cell in free]
        notes = [[kind, "note"] in cell.get("listed", ()) for cell in free]
        columns = _columns("found", planted) | _columns("false alarms", alarms) | _columns("notes elsewhere", notes)
        rows.append({"kind": kind} | columns)
    return rows


def by_problem(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """For each problem, over its seeds: what was found, false alarms and their kinds, brackets, and errors."""
    rows = []
    for file, name in dict.fromkeys((cell["file"], cell["problem"]) for cell in cells):
        own = [cell for cell in cells if (cell["file"], cell["problem"]) == (file, name)]
        found = [kind in cell.get("found", ()) for cell in own for kind in cell.get("planted", ())]
        alarms = [bool(cell.get("alarms")) for cell in own if not cell["error"]]
        held = [value for value in map(holds, own) if value is not None]
        missed = {kind for cell in own for kind in cell.get("planted", ()) if kind not in cell.get("found", ())}
        limits = [f"{cell['low']:.3g}–{cell['high']:.3g}" for cell in own if cell.get("low") is not None]
        truths = [f"{cell['truth']:.3g}" for cell in own if cell.get("truth") is not None]
        rows.append(
            {
                "problem": f"{Path(file).stem}: {name}",
                **_columns("found", found),
                **_columns("false alarms", alarms),
                **_columns("brackets that hold", held),
                "missed": ", ".join(sorted(missed)),
                "raised": ", ".join(sorted({kind for cell in own for kind in cell.get("alarms", ())})),
                "truth": ", ".join(dict.fromkeys(truths)),
                "brackets": ", ".join(limits),
                "errors": " ".join(cell["error"].strip().splitlines()[-1] for cell in own if cell["error"]),
            }
        )
    return rows


def _columns(name: str, values: Sequence[bool]) -> dict[str, Any]:
    item = counted(sum(values), len(values))
    interval = "" if item["low"] is None else f"{item['low']:.2f} to {item['high']:.2f}"
    return {name: f"{item['count']} of {item['of']}" if values else "", f"{name}, 95 %": interval}


def tables(cells: Sequence[Cell], title: str) -> list[dict[str, Any]]:
    """The tables of a run: in all, by kind, by problem."""
    problems = {(cell["file"], cell["problem"]) for cell in cells}
    seeds = sorted({cell["seed"] for cell in cells})
    silent = sum(cell.get("truth") is not None and not cell["error"] and cell.get("low") is None for cell in cells)
    files = ", ".join(
        f"{Path(file).name} (sha256 {hashlib.sha256(Path(file).read_bytes()).hexdigest()[:12]})"
        for file in sorted({cell["file"] for cell in cells})
    )
    notes = [
        f"{len(problems)} problems, seeds {', '.join(map(str, seeds))}; {files}",
        f"{BUDGET:g} s of training where a problem needs trained models, none elsewhere",
        "found: a problem or note of the kind is listed with the planted columns or at least half of the planted "
        "rows; a false alarm: a problem above a note that is neither planted nor true besides",
        f"a bracket holds if low ≤ truth ≤ high; {silent} audits with a known truth state no bracket and do not "
        "count; a failed audit finds nothing and its bracket does not hold",
        "exact (Clopper-Pearson) 95 % intervals as if audits were independent; seeds of one problem are alike, so "
        "the last row, where each problem counts once, is the honest unit",
    ]
    stated = "notes elsewhere: facts of this kind where it is neither planted nor true; a note claims no defect"
    return [
        harness.table(title, summary(cells), notes=notes),
        harness.table(f"{title}, by kind", by_kind(cells), notes=[notes[0], stated]),
        harness.table(f"{title}, by problem", by_problem(cells), notes=notes[:1]),
    ]


def tasks_of(files: Iterable[Path], seeds: Iterable[int], only: str = "") -> list[Task]:
    """All audits of files of problems; ``only``: of problems whose name contains it."""
    named = [(str(path), name) for path in files for name in problems_of(path) if only in name]
    return [Task(file, name, seed) for seed in seeds for file, name in named]


def main(arguments: Sequence[str]) -> int:
    """``FOLDER OUT.json``: audit all problems of a folder; ``--one FILE NAME SEED``: one audit, in this process."""
    if arguments and arguments[0] == "--one":
        file, name, seed = arguments[1:]
        try:
            for piece in audited(Task(file, name, int(seed))):
                print("\n" + MARK + json.dumps(piece), flush=True)
        except Exception:
            traceback.print_exc()
            return 1
        return 0
    if len(arguments) != 2:
        raise SystemExit("usage: python -m bench._fresh FOLDER OUT.json")
    folder, out = map(Path, arguments)
    tasks = tasks_of(files_in(folder), range(SEEDS), os.environ.get("BENCH_ONLY", ""))
    start = time.perf_counter()
    cells = run_audits(tasks, out.with_suffix(".jsonl"))
    from bench import _records

    result = {
        "machine": _records.machine(),
        "versions": _records.versions(("scikit-learn", "numba")),
        "seconds": round(time.perf_counter() - start, 1),
        "tables": tables(cells, "Verdicts on fresh problems"),
        "audits": cells,
    }
    out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    for part in result["tables"]:
        print(f"\n{part['title']}\n{_records.markdown(part['columns'], part['rows'])}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
