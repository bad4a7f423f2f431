"""``trials``: fits of equal time with different settings, judged on the validation images."""

from __future__ import annotations

import argparse
import json
from typing import Any

from reproductions.flow_jobs.packing import read
from reproductions.flow_jobs.shared import note
from reproductions.flow_jobs.timed_fit import config_for, fit_in_time

# --only selects by position: append, do not insert.
TRIALS: dict[str, dict[str, Any]] = {
    "uniform noise": {},
    "variational": {"dequantization": "variational"},
    "variational, rate 2e-3": {"dequantization": "variational", "learning_rate": 2e-3},
    "variational, dropout 0": {"dequantization": "variational", "dropout": 0.0},
    "variational, looser couplings": {
        "dequantization": "variational", "least_scale": 0.1, "most_scale": 10.0, "reach": 10.0,
    },
}  # fmt: skip


def trials(options: argparse.Namespace) -> None:
    """Write trials.json: validation NLL of each setting after the same time."""
    dataset = read(options.data)
    names = list(TRIALS)
    selected = [names[int(number)] for number in options.only.split(",")] if options.only else names
    rows = []
    for name in selected:
        settings = {"dropout": 0.1, "batch_size": 64 if options.tiny else 512, "precision": "bf16"} | TRIALS[name]
        config = config_for(dataset, tiny=options.tiny, compact=options.compact, **settings)
        flow, speed = fit_in_time(dataset, config, 60 * options.minutes, name, options.flips)
        fitted = flow.record.fitted
        row = {"trial": name, "settings": settings, "images_per_second": speed,
               "train_nll": fitted["train_nll"], "validation_nll": fitted["validation_nll"],
               "validation_error": fitted["validation_error"], "bayes_error": flow.bayes_error().value,
               "along": [round(epoch["validation_nll"], 1) for epoch in flow.record.floors]}  # fmt: skip
        rows.append(row)
        print("trials", json.dumps(row, ensure_ascii=False), flush=True)
        note(options.out, "trials", {"rows": rows, "data": dataset.name, "seconds_each": 60 * options.minutes})
