"""What coupling networks in bf16 cost a fit: the same flow, data and seeds, trained in bf16 and in float32.

Run: python reproductions/flow_precision.py                     the digits at the tiny preset; a CPU is enough
     python reproductions/flow_precision.py DATA --preset small --seeds 3

Both are fitted until validation stops them, or for --epochs, and evaluated in float32. Writes
reproductions/records/flow_precision.json (or --out FILE), a seed at a time; flow_table.py tells it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from hardpan import engine, flows
from hardpan.data.dataset import Dataset
from hardpan.engine import devices

RECORD = Path(__file__).resolve().parent / "records" / "flow_precision.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default="digits")
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--epochs", type=int, help="default: those of the preset, with an early stop")
    parser.add_argument("--out", type=Path, default=RECORD)
    given = parser.parse_args()
    dataset = Dataset.open(given.data)
    made = {
        "command": " ".join(["reproductions/flow_precision.py", *sys.argv[1:]]),
        "device": devices.describe_device(engine.pick_device("auto")),
        "torch": torch.__version__,
        "data": dataset.name,
        "preset": given.preset,
    }
    rows = []
    for seed in range(given.seeds):
        for precision in ("float32", "bf16"):
            begun = time.monotonic()
            config = flows.FlowConfig(preset=given.preset, precision=precision, seed=seed, epochs=given.epochs)
            fitted = flows.fit(dataset, config).record.fitted
            kept = {
                key: fitted[key] for key in ("epochs", "best_epoch", "validation_nll", "test_nll", "test_error")
            }
            rows.append({"seed": seed, "precision": precision, "seconds": time.monotonic() - begun} | kept)
            print(json.dumps(rows[-1]), flush=True)
        given.out.write_text(json.dumps(made | {"rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
