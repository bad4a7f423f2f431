"""Training throughput on a GPU beside plain PyTorch loops (bench/training.py), kept as a record.

    PYTHONPATH=src:. python3 -m reproductions.training_device --out OUT

Writes OUT/training_device.json as it goes: the work of bench/training.py, all of it in one process; the device and
the versions.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
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


if __name__ == "__main__":
    main()
