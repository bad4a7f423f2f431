"""``trials``: short fits with different settings: which is best at equal epochs?"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from reproductions.flow_jobs.packing import read
from reproductions.flow_jobs.shared import COMPACT, note

from hardpan import flows

# --only chooses by place: records name trials so.
TRIALS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "batch 256": {"batch_size": 256},
    "rate 2e-3": {"learning_rate": 2e-3},
    "clip 1e4": {"clip": 1e4},
    "compact, bf16": COMPACT,
    "compact, float32": {"precision": "float32", **COMPACT},
    **{f"small, λ = {weight:g}": {"preset": "small", "batch_size": 256, "class_weight": weight}
       for weight in flows.CLASS_WEIGHTS},
}  # fmt: skip


def trials(given: argparse.Namespace) -> None:
    dataset = read(given.data)
    rows = []
    chosen = list(TRIALS.items())
    if given.only:
        chosen = [chosen[int(item)] for item in given.only.split(",")]
    for name, change in chosen:
        settings = {"preset": "tiny" if given.tiny else "paper", "batch_size": 512, "precision": "bf16",
                    "ema": 0.99, "epochs": given.epochs} | change  # fmt: skip
        begun = time.monotonic()
        try:
            flow = flows.fit(dataset, flows.FlowConfig(**settings))
        except Exception as error:  # a setting that diverges must not hide the others
            print("trials", name, type(error).__name__, str(error)[:300], flush=True)
            continue
        fitted = flow.record.fitted
        row = {"trial": name, "seconds": time.monotonic() - begun, "validation_nll": fitted["validation_nll"],
               "test_nll": fitted["test_nll"], "test_error": fitted["test_error"],
               "bayes_error": flow.bayes_error().value,
               "along": [round(item["validation_nll"], 1) for item in flow.record.floors]}  # fmt: skip
        rows.append(row)
        print("trials", json.dumps(row, ensure_ascii=False), flush=True)
    note(given.out, "trials", {"rows": rows, "data": dataset.name})
