"""``equal``: test NLL after equally many steps with the same rate, ours and the peer's."""

from __future__ import annotations

import argparse
import json
import math
import time
from typing import Any

import torch
from reproductions.flow_jobs.contenders import our_task, peer_model
from reproductions.flow_jobs.packing import read
from reproductions.flow_jobs.shared import device, note

from hardpan.data.dataset import Dataset
from hardpan.engine import devices
from hardpan.flows.fitting import FitRows, FlowTask
from hardpan.predictions.checks import row_ids

RATE = 5e-4
HELD_OUT = 2048


def equal(given: argparse.Namespace) -> None:
    """Adam at a constant rate, no averaging: ours in float32 and bf16, then the peer on the rows of the last."""
    dataset = read(given.data)
    steps, batch, side = (4, 8, 8) if given.tiny else (given.steps, 256, 32)
    parts = dataset.splits()
    assert dataset.labels is not None
    cut = slice(0, side)
    x, y = dataset.x[parts.train][:, cut, cut], dataset.labels[parts.train]
    test = parts.test[:HELD_OUT]
    held = dataset.x[test][:, cut, cut], dataset.labels[test]
    small = Dataset("train", x, row_ids(len(x)), y, dataset.class_names)
    rows: list[dict[str, Any]] = []
    for precision in ("float32", "bf16"):
        settings = {"batch": batch, "fast": device().type == "cuda", "precision": precision, "capture": True,
                    "class_weight": 0.0, "ema": 0.0, "rate": RATE, "warmup": 0.0}  # fmt: skip
        task = our_task(settings, small, given.tiny)
        task.optimizer.table.fill_(RATE)
        rows.append({"model": f"hardpan, {precision}", "steps": steps, "batch": batch} | ours(task, held, steps))
        print("equal", json.dumps(rows[-1]), flush=True)
    if given.peer:
        model = peer_model(given.peer, 1, given.tiny)
        row = {"model": "normflows, tf32", "steps": steps, "batch": task.batch}
        rows.append(row | peers(model, task, held, steps, side))
        print("equal", json.dumps(rows[-1]), flush=True)
    note(given.out, "equal", {"rows": rows, "data": dataset.name})


def ours(task: FlowTask, held: tuple[Any, Any], steps: int) -> dict[str, float]:
    task.begin_epoch(0)
    begun = time.monotonic()
    for step in range(steps):
        task.step(step % task.steps)
    devices.synchronize(device())
    seconds = time.monotonic() - begun
    with task.averaged():
        nll, error = task.evaluate(FitRows(task.network, *held, device()))
    return {"nll": nll, "error": error, "seconds": seconds}


def peers(model: Any, task: FlowTask, held: tuple[Any, Any], steps: int, side: int) -> dict[str, float]:
    """The peer on the rows of our task in the same order, data in [0, 1), first batch for its actnorms."""
    torch.set_float32_matmul_precision("high")
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    task.begin_epoch(0)

    def as_peer(x: torch.Tensor) -> torch.Tensor:
        return (x.permute(0, 3, 1, 2) / 256).contiguous()

    begun = time.monotonic()
    for step in range(steps):
        x, _, chosen = task.train.batch(task.order[step % task.steps], task.noise)
        optimizer.zero_grad()
        loss = model.forward_kld(as_peer(x), chosen.argmax(1))
        loss.backward()
        optimizer.step()
    devices.synchronize(device())
    seconds = time.monotonic() - begun
    torch.set_float32_matmul_precision("highest")
    rows, total = FitRows(task.network, *held, device()), 0.0
    generator = torch.Generator(device()).manual_seed(0)
    with torch.no_grad():
        for start in range(0, len(rows), 256):
            chunk = torch.arange(start, min(start + 256, len(rows)), device=device())
            x, _, chosen = rows.batch(chunk, generator)
            total -= float(model.log_prob(as_peer(x), chosen.argmax(1)).sum())
    # Back to grey levels, and to the joint density of image and class, as ours has it.
    nll = total / len(rows) + side * side * math.log(256) + math.log(10)
    return {"nll": nll, "seconds": seconds}
