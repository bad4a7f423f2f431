"""Training throughput on a GPU beside plain PyTorch loops (bench/training.py), kept as a record.

    PYTHONPATH=src:. python3 -m reproductions.training_device --out OUT     on the GPU
    python -m reproductions.training_device                                  the page, from the record

The first writes OUT/training_device.json as it goes: the work of bench/training.py, all of it in one process; the
device and the versions. It belongs into reproductions/records. The second writes docs/results/training.md.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import torch

from bench import training

ROOT = Path(__file__).resolve().parent.parent
WORKS = ("ours", "plain_on_device", "plain_with_loader")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.out is None:
        page()
        return
    given.out.mkdir(parents=True, exist_ok=True)
    gpu = torch.cuda.is_available()
    device = torch.cuda.get_device_name() if gpu else "CPU"
    versions = {"torch": torch.__version__, "python": platform.python_version()}
    content: dict[str, Any] = {
        "command": "python3 -m reproductions.training_device",
        "device": device,
        "versions": versions,
        "notes": training.notes(gpu),
        "rows": [],
    }
    for model, images, epochs, batch in training.plans(gpu):
        told = training.prepare(model, max(2 * batch, round(images * training.SCALE)), epochs, batch,
                                "cuda" if gpu else "cpu")  # fmt: skip
        row: dict[str, Any] = {"model": model, "batch": batch}
        content["rows"].append(row)
        for work in (training.ours, training.plain_on_device, training.plain_with_loader):
            begun = time.monotonic()
            row[work.__name__] = work(told)
            print(model, work.__name__, row[work.__name__], f"{time.monotonic() - begun:.1f} s", flush=True)
            (given.out / "training_device.json").write_text(
                json.dumps(content, indent=1, ensure_ascii=False) + "\n"
            )


def page() -> None:
    record = json.loads((ROOT / "reproductions" / "records" / "training_device.json").read_text(encoding="utf-8"))
    lines = [
        "# Training throughput on a GPU",
        "",
        "Made by `python -m reproductions.training_device` from what the same command with `--out` said on one",
        f"{record['device']} (torch {record['versions']['torch']}); do not edit. One run, one timed epoch (two for",
        "mlp) after one that warms up.",
        "",
        "| model | batch | hardpan, images/s | plain loop, data on the device | plain loop, DataLoader | ratios |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in record["rows"]:
        ours, device, loader = (row[name]["images/s"] for name in WORKS)
        cells = (row["model"], row["batch"], f"{ours:,.0f}", f"{device:,.0f}", f"{loader:,.0f}",
                 f"{ours / device:.2f} and {ours / loader:.2f}")  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += ["", *(f"- {note[0].upper()}{note[1:]}." for note in record["notes"])]
    lines += ["- Several GPUs were not measured."]
    (ROOT / "docs" / "results" / "training.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
