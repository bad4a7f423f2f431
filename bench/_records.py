"""Bench records on disk (one entry a machine) and the page made from them."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.harness import ROOT

RECORDS = ROOT / "bench" / "records"
RESULTS = ROOT / "bench" / "RESULTS.md"
SUMMARY = "SUMMARY.md"  # beside RESULTS
ALWAYS = ("hardpan", "numpy", "scipy")


def machine() -> dict[str, Any]:
    """What ran the bench: processor, cores, memory and GPU; no host name."""
    gpu = _answer(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"])
    return {
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "memory GiB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "gpu": gpu.splitlines()[0] if gpu else None,
        "system": platform.system(),
    }


def machine_key(of: Mapping[str, Any]) -> str:
    """A short name that two runs on the same kind of machine share."""
    text = f"{of['cpu']} {of['cores']} cores {of['memory GiB']} gib {of['gpu'] or ''}"
    return re.sub(r"[^a-z0-9]+", "-", text.lower().replace("(r)", "")).strip("-")


def versions(peers: Iterable[str]) -> dict[str, str | None]:
    """Versions of Python, hardpan, NumPy, SciPy and the peers of a topic (None: not installed)."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in dict.fromkeys((*ALWAYS, *peers)):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def commit() -> str | None:
    """The commit that was measured; ``+changes`` where the measured code differs from it."""
    name = _answer(["git", "rev-parse", "--short=12", "HEAD"])
    if not name:
        return None
    return name + ("+changes" if _answer(["git", "status", "--porcelain", "--", "src", "bench/*.py"]) else "")


def keep(
    topic: str,
    tables: list[dict[str, Any]],
    peers: Iterable[str],
    cores: int,
    seconds: float,
    alone: str | None = None,
) -> Path:
    """Put this machine's tables into the topic's record; entries of other machines stay.

    With ``alone``, the name of the one table that was measured, the other tables of this machine stay too.
    """
    # hardpan imports NumPy, which must not happen before the topic has limited its threads.
    from hardpan.files import json_text, write_text

    RECORDS.mkdir(parents=True, exist_ok=True)
    path = RECORDS / f"{topic}.json"
    record: dict[str, Any] = (
        json.loads(path.read_text()) if path.exists() else {"kind": "bench", "schema": 1, "topic": topic}
    )
    here = machine()
    entry = {
        "machine": here,
        "versions": versions(peers),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "command": f"make bench TOPIC={topic}",
        "cores used": cores,
        "seconds": round(seconds, 1),
        "tables": tables,
    }
    machines = record.get("machines", {})
    if alone is not None:
        titles = [part["title"] for part in tables]
        before = machines.get(machine_key(here), entry | {"tables": []})  # the other tables keep date and commit
        note = f"measured alone (--table {alone}): commit {commit()}, {entry['date']}, {seconds:.0f} s"
        tables = [part | {"notes": [*part["notes"], note]} for part in tables]
        entry = before | {"tables": [part for part in before["tables"] if part["title"] not in titles] + tables}
    record["machines"] = machines | {machine_key(here): entry}
    write_text(path, json_text(record) + "\n")
    return path


def write_results(summaries: Mapping[str, str]) -> Path:
    """Write ``bench/RESULTS.md``, and ``bench/SUMMARY.md`` beside it, from every record."""
    from hardpan.files import write_text

    found = [json.loads(path.read_text()) for path in sorted(RECORDS.glob("*.json"))]
    parts = [
        "# Results",
        "Made from `bench/records/*.json` by `make bench`; do not edit. "
        "Times are wall clock, memory is the peak of resident memory above that before the call. "
        "`met` says whether the requirement in `must` was reached on that machine.",
        _overview(found),
    ]
    for record in found:
        parts.append(f"## {record['topic']}")
        if record["topic"] in summaries:
            parts.append(summaries[record["topic"]])
        for entry in record["machines"].values():
            parts.extend(_entry(entry))
    write_text(RESULTS, "\n\n".join(part for part in parts if part) + "\n")
    write_text(RESULTS.with_name(SUMMARY), _summary(found))
    return RESULTS


def markdown(columns: list[str], rows: list[Mapping[str, Any]]) -> str:
    """A Markdown table; numbers to four significant digits."""
    lines = [columns, ["---"] * len(columns)]
    lines += [[_cell(column, row.get(column)) for column in columns] for row in rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _overview(found: list[dict[str, Any]]) -> str:
    rows: list[Mapping[str, Any]] = []
    for record in found:
        for entry in record["machines"].values():
            verdicts = [
                row["met"] for part in entry["tables"] for row in part["rows"] if row.get("met") is not None
            ]
            text = f"{sum(verdicts)} of {len(verdicts)}" if verdicts else "none stated"
            machine_name = entry["machine"]["gpu"] or entry["machine"]["cpu"]
            rows.append(
                {"topic": record["topic"], "requirements met": text, "machine": machine_name, "date": entry["date"]}
            )
    return markdown(["topic", "requirements met", "machine", "date"], rows) if rows else ""


def _summary(found: list[dict[str, Any]]) -> str:
    """One row per topic and machine, worst first: the requirement with the smallest margin."""
    rows: list[dict[str, Any]] = []
    for record in found:
        for entry in record["machines"].values():
            stated = [
                (part["title"], row)
                for part in entry["tables"]
                for row in part["rows"]
                if row.get("met") is not None
            ]
            missed = sum(not row["met"] for _, row in stated)
            known = [item for item in stated if item[1].get("margin") is not None]
            title, worst = min(known, key=lambda item: item[1]["margin"], default=("", {}))
            rows.append(
                {
                    "topic": record["topic"],
                    "smallest margin": worst.get("margin"),
                    "requirement": worst.get("must"),
                    "table": title,
                    "met": f"{len(stated) - missed} of {len(stated)}" if stated else "none stated",
                    "machine": entry["machine"]["gpu"] or entry["machine"]["cpu"],
                    "date": entry["date"],
                    "_order": (-missed, not known, worst.get("margin", 0.0), not stated),
                }
            )
    rows.sort(key=lambda row: row.pop("_order"))
    text = (
        "# Summary\n\n"
        "One row per topic, worst first; made from `bench/records/*.json` by `make bench`, do not edit. The margin "
        "is the factor by which a measurement is better than its requirement (a peer's value, or a stated limit): "
        "above 1 it is met. Topics without a margin were recorded before margins were, or state no requirement. "
        "Details: [RESULTS.md](RESULTS.md).\n\n"
    )
    columns = ["topic", "smallest margin", "requirement", "table", "met", "machine", "date"]
    return text + markdown(columns, rows) + "\n"


def _entry(entry: Mapping[str, Any]) -> list[str]:
    of = entry["machine"]
    gpu = f", {of['gpu']}" if of["gpu"] else ""
    cores_used = entry["cores used"]
    used = f"{cores_used} core{'s' if cores_used != 1 else ''} used"
    with_versions = ", ".join(f"{name} {version or 'not installed'}" for name, version in entry["versions"].items())
    head = (
        f"*{of['cpu']}, {of['cores']} cores ({used}), {of['memory GiB']} GiB{gpu}; {with_versions}; "
        f"{entry['date']}, commit {entry['commit'] or 'unknown'}, {entry['seconds']:g} s; `{entry['command']}`*"
    )
    parts = [head]
    for part in entry["tables"]:
        seed = f" (seed {part['seed']})" if part["seed"] is not None else ""
        parts += [f"### {part['title']}{seed}", markdown(part["columns"], part["rows"])]
        parts += ["\n".join(f"- {note}" for note in part["notes"])]
    return parts


def _cell(column: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return ("yes" if value else "**no**") if column == "met" else ("yes" if value else "no")
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _answer(command: list[str]) -> str:
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
