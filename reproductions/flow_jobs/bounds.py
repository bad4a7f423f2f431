"""``bounds``: short compact fits with other bounds of couplings; ``train --bounds`` takes what is chosen."""

from __future__ import annotations

import argparse
import json
from typing import Any

from reproductions.flow_jobs.packing import read
from reproductions.flow_jobs.shared import note
from reproductions.flow_jobs.timed_fit import config_for, fit_in_time, tameness

BOUNDS = [
    {"least_scale": 1 / 3, "most_scale": 3.0, "reach": 4.0},
    {"least_scale": 1 / 2, "most_scale": 2.0, "reach": 4.0},
    {"least_scale": 1 / 3, "most_scale": 3.0, "reach": 2.5},
]
MOST_RUNAWAYS = 0.001  # of samples at temperature 1.4


def bounds(given: argparse.Namespace) -> None:
    """Compact fits of equal time; the best is that of the least validation NLL among those whose samples stay sane.

    The NLL is the largest of four, each with other noise: a flow from which one image runs away is not the best.
    """
    dataset = read(given.data)
    seconds, batch = 60 * given.minutes, 64 if given.tiny else 512
    rows: list[dict[str, Any]] = []
    for change in BOUNDS:
        config = config_for(dataset, tiny=given.tiny, compact=True, batch_size=batch, precision="bf16", **change)
        flow, speed = fit_in_time(dataset, config, seconds, str(change))
        rows.append({"bounds": change, "images_per_second": speed} | tameness(flow, dataset))
        print("bounds", json.dumps(rows[-1]), flush=True)
    sane = [row for row in rows if row["samples"]["1.4"]["runaways"] <= MOST_RUNAWAYS] or rows
    chosen = min(sane, key=lambda row: max(row["validation_nll_by_noise"]))["bounds"]
    note(given.out, "bounds", {"rows": rows, "chosen": chosen, "data": dataset.name, "seconds_each": seconds})
