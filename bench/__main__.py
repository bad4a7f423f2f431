"""Run bench topics: ``python -m bench [TOPIC ...]``; without a topic, all of them, each in its own process."""

from __future__ import annotations

import argparse
import ast
import importlib
import subprocess
import sys
import time

from bench import _records, harness


def topics() -> list[str]:
    """Names of all topics: the modules of this folder that define ``run``."""
    names = [path.stem for path in sorted((harness.ROOT / "bench").glob("*.py"))]
    return [name for name in names if not name.startswith("_") and name != "harness"]


def summaries() -> dict[str, str]:
    """First paragraph of each topic's docstring, read without importing it (its peers may not be installed)."""
    found = {}
    for name in topics():
        text = (
            ast.get_docstring(ast.parse((harness.ROOT / "bench" / f"{name}.py").read_text(encoding="utf-8"))) or ""
        )
        found[name] = text.split("\n\n")[0]
    return found


def run_topic(name: str, table: str | None = None) -> None:
    """Run one topic in this process, or one of its ``TABLES``; print the tables and keep its record."""
    # Set before the topic is imported, because NumPy reads the environment once.
    harness.pin(_cores(name))
    module = importlib.import_module(f"bench.{name}")
    start = time.perf_counter()
    answer = module.run() if table is None else module.TABLES[table]()
    tables = answer if isinstance(answer, list) else [answer]
    spent = time.perf_counter() - start
    for part in tables:
        print(f"\n{part['title']}\n{_records.markdown(part['columns'], part['rows'])}")
    path = _records.keep(name, tables, getattr(module, "PEERS", ()), _cores(name), spent, alone=table)
    _records.write_results(summaries())
    missed = sum(row.get("met") is False for part in tables for row in part["rows"])
    verdict = (
        f"{missed} requirement{'s' if missed != 1 else ''} not met" if missed else "every stated requirement met"
    )
    print(f"\n{name}: {verdict}; {path.relative_to(harness.ROOT)}, bench/RESULTS.md")


def _cores(name: str) -> int:
    tree = ast.parse((harness.ROOT / "bench" / f"{name}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "CORES":
            return int(ast.literal_eval(node.value))
    return 1


def main() -> int:
    """Parse the command line, run, and give the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("topic", nargs="*", help=f"one of: {', '.join(topics())}")
    parser.add_argument("--table", help="measure only this table of the topic; the others stay in the record")
    parser.add_argument("--results", action="store_true", help="only rebuild bench/RESULTS.md from the records")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.topic if name not in topics()]
    if unknown:
        parser.error(f"no topic {unknown[0]!r}; choose from {', '.join(topics())}")
    if chosen.results:
        print(_records.write_results(summaries()))
        return 0
    if len(chosen.topic) == 1:
        run_topic(chosen.topic[0], chosen.table)
        return 0
    failed = [
        name
        for name in chosen.topic or topics()
        if subprocess.run([sys.executable, "-m", "bench", name], cwd=harness.ROOT).returncode
    ]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
