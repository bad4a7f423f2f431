"""Training throughput on a GPU beside plain PyTorch loops, and what recording costs there, kept as records.

    PYTHONPATH=src:. python3 -m reproductions.training_device --out OUT                 on the GPU
    PYTHONPATH=src:. python3 -m reproductions.training_device --recorder --out OUT      on the GPU, needs zarr
    python -m reproductions.training_device                                              the page, from the records

The first writes OUT/training_device.json as it goes: the work of bench/training.py, all of it in one process; the
second OUT/recorder_device.json: the part of bench/store.py that is about the recorder. Both name the device and the
versions, and belong into reproductions/records. The third writes docs/results/training.md.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch

from bench import store, training

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "reproductions" / "records"
RUNS = 5
# A thousand classes go with larger images; with small ones an epoch is soon over, and its predictions are many.
RECORDED = ((1000, False, 224), (1000, True, 224), *((*case, 32) for case in store.RECORDED))
WORKS = ("ours", "plain_on_device", "plain_with_loader")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--recorder", action="store_true", help="measure what recording costs")
    given = parser.parse_args()
    if given.out is None:
        page()
        return
    given.out.mkdir(parents=True, exist_ok=True)
    (recorder if given.recorder else throughput)(given.out)


def about(command: str) -> dict[str, Any]:
    """The command, the device and the versions."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    versions = {"torch": torch.__version__, "python": platform.python_version()}
    return {"command": f"python3 -m {command}", "device": device, "versions": versions}


def keep(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def recorder(out: Path) -> None:
    content = about("reproductions.training_device --recorder") | {"rows": []}
    for classes, shuffled, side in RECORDED:
        given = store.prepare_training(classes, shuffled, side)
        store.train(given)  # warms up
        runs = sorted((store.train(given) for _ in range(RUNS)), key=lambda run: run["inside"] / run["whole"])
        given["recorder"].close()
        found = {"side": side, "examples": len(given["x"]), "classes": classes, "shuffled": shuffled, "runs": runs}
        content["rows"].append(found)
        keep(out / "recorder_device.json", content)
        print(found, flush=True)


def throughput(out: Path) -> None:
    gpu = torch.cuda.is_available()
    content = about("reproductions.training_device") | {"notes": training.notes(gpu), "rows": []}
    for model, images, epochs, batch in training.plans(gpu):
        told = training.prepare(model, max(2 * batch, round(images * training.SCALE)), epochs, batch,
                                "cuda" if gpu else "cpu")  # fmt: skip
        row: dict[str, Any] = {"model": model, "batch": batch}
        content["rows"].append(row)
        for work in (training.ours, training.plain_on_device, training.plain_with_loader):
            begun = time.monotonic()
            row[work.__name__] = work(told)
            print(model, work.__name__, row[work.__name__], f"{time.monotonic() - begun:.1f} s", flush=True)
            keep(out / "training_device.json", content)


NOT_REPRODUCED = (
    "No paper is reproduced. Several GPUs were not measured: the machine has one. Nor were errors after a whole "
    "training: one or two epochs are timed, on random images."
)


def page() -> None:
    record = json.loads((RECORDS / "training_device.json").read_text(encoding="utf-8"))
    lines = [
        "# Training throughput on a GPU",
        "",
        "Made by `python -m reproductions.training_device` from the record that the same command wrote with "
        "`--out` on one",
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
    if (RECORDS / "recorder_device.json").is_file():
        lines += recording()
    lines += ["", "## What is not reproduced and why", "", NOT_REPRODUCED]
    (ROOT / "docs" / "results" / "training.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def recording() -> list[str]:
    """What the recorder takes of an epoch: the median run, and the least and the most."""
    record = json.loads((RECORDS / "recorder_device.json").read_text(encoding="utf-8"))
    lines = [
        "",
        "## Recording",
        "",
        f"What `hardpan.Recorder` adds to an epoch on one {record['device']}, torch {record['versions']['torch']},",
        "in a plain loop in bfloat16: training resnet18, then a pass of evaluation, recorded; images are random.",
        "A GPU runs asynchronously, so every epoch is timed with and without recording. Pairs of a second call",
        "of the command, on another such machine, are pooled with the first's where both have the case.",
        "",
        "| examples | pixels | classes | order | seconds per epoch | pairs | proportion for the recorder "
        "(least, most) |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in record["rows"]:
        shares = [100 * run["inside"] / run["whole"] for run in row["runs"]]
        cells = (
            f"{row['examples']:,}",
            f"{row['side']} × {row['side']}",
            f"{row['classes']:,}",
            "shuffled" if row["shuffled"] else "of the ids",
            f"{median(run['whole'] for run in row['runs']):.2f}",
            str(len(shares)),
            f"{median(shares):.1f} % ({min(shares):.1f}, {max(shares):.1f})",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return [
        *lines,
        "",
        "Proportions and seconds are medians. Shuffled rows fill every shard of an epoch with its last batch, "
        "so all of",
        "them are hashed and written at its end: 65 MB in two seconds, in the last case, is where this takes time.",
    ]
    return lines


if __name__ == "__main__":
    main()
