"""``speed``: images per second of whole training steps at the paper's setting, beside normflows."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from reproductions.flow_jobs.contenders import our_task, peer_model
from reproductions.flow_jobs.shared import device, note

from hardpan.data.dataset import Dataset
from hardpan.engine import devices
from hardpan.predictions.checks import row_ids


def speed(given: argparse.Namespace) -> None:
    """Time every variant with one and with three channels; on a GPU also where a step spends its time."""
    rows: list[dict[str, Any]] = []
    small = given.tiny or device().type != "cuda"
    for channels in (1, 3):
        for name, settings in variants(small, channels).items():
            work = partial(time_ours, settings, channels, given.tiny)
            rows.append(attempt(f"hardpan {name}, {channels} ch", settings["batch"], work))
        for name, settings in peers(small, channels).items() if given.peer else ():
            work = partial(time_peer, given.peer, settings, channels, small)
            rows.append(attempt(f"normflows {name}, {channels} ch", settings["batch"], work))
    if device().type == "cuda":
        profile(given.out)
    note(given.out, "speed", {"rows": rows})
    for row in rows:
        print(
            f"{row['variant']:44s} batch {row['batch']:5d} {row.get('images_per_second', 0):9,.0f} images/s "
            f"{row.get('note', '')}"
        )


def variants(small: bool, channels: int) -> dict[str, dict[str, Any]]:
    """Settings of ours, by name."""
    if small:
        return {"plain float32": {"batch": 8, "fast": False, "precision": "float32", "capture": False}}
    found: dict[str, dict[str, Any]] = {}
    if channels == 1:
        found["plain float32, eager"] = {"batch": 256, "fast": False, "precision": "float32", "capture": False}
        found["bf16, masked products by torch"] = {
            "batch": 512, "fast": "torch products", "precision": "bf16", "capture": True,
        }  # fmt: skip
        found["plain ops bf16, captured"] = {"batch": 512, "fast": "plain", "precision": "bf16", "capture": True}
        found["float32, captured"] = {"batch": 512, "fast": True, "precision": "float32", "capture": True}
    for batch in (256, 512, 1024, 2048) if channels == 1 else (512, 1024):
        found[f"bf16, captured ({batch})"] = {"batch": batch, "fast": True, "precision": "bf16", "capture": True}
    return found


def peers(small: bool, channels: int) -> dict[str, dict[str, Any]]:
    """Settings of the peer, by name."""
    if small:
        return {"float32": {"batch": 8, "tf32": False, "bf16": False}}
    if channels == 3:
        return {"bf16 autocast": {"batch": 1024, "tf32": True, "bf16": True}}
    return {
        "tf32 (256)": {"batch": 256, "tf32": True, "bf16": False},
        "bf16 autocast (256)": {"batch": 256, "tf32": True, "bf16": True},
        "tf32 (1024)": {"batch": 1024, "tf32": True, "bf16": False},
        "bf16 autocast (1024)": {"batch": 1024, "tf32": True, "bf16": True},
    }


def attempt(name: str, batch: int, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A row of the record; a variant that fails has a note."""
    row: dict[str, Any] = {"variant": name, "batch": batch}
    begun = time.monotonic()
    try:
        row |= work()
    except Exception as error:  # one variant that fails must not hide the others
        row["note"] = f"{type(error).__name__}: {str(error)[:300]}"
    row["wall_seconds"] = round(time.monotonic() - begun, 1)
    print("speed", json.dumps(row), flush=True)
    if device().type == "cuda":
        torch.cuda.empty_cache()
    return row


def time_ours(settings: dict[str, Any], channels: int, tiny: bool) -> dict[str, Any]:
    task = our_task(settings, made_up(settings["batch"] * 4, channels, 8 if tiny else 32), tiny)
    task.begin_epoch(0)
    return timed(partial(task.step, 0), settings["batch"])


def time_peer(folder: Path, settings: dict[str, Any], channels: int, small: bool) -> dict[str, Any]:
    side = 8 if small else 32
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if settings["tf32"] else "highest")
    torch.backends.cudnn.allow_tf32 = settings["tf32"]
    torch.backends.cudnn.benchmark = True
    model = peer_model(folder, channels, small)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=device().type == "cuda")
    x = torch.rand(settings["batch"], channels, side, side, device=device())
    y = torch.arange(settings["batch"], device=device()) % 10

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(device().type, torch.bfloat16, enabled=settings["bf16"]):
            loss = model.forward_kld(x, y)
        loss.backward()
        optimizer.step()

    found = timed(step, settings["batch"])
    torch.set_float32_matmul_precision(before)
    return found


def made_up(n: int, channels: int, side: int) -> Dataset:
    rng = np.random.default_rng(0)
    shape = (n, side, side) if channels == 1 else (n, side, side, channels)
    x = rng.integers(0, 256, shape).astype(np.uint8)
    names = tuple(str(i) for i in range(10))
    return Dataset("made up", x, row_ids(n), np.arange(n) % 10, names)


def timed(step: Callable[[], None], batch: int) -> dict[str, Any]:
    """Median over three runs, of a third of a second each, of the mean time of a step."""
    for _ in range(6):
        step()
    devices.synchronize(device())
    begun = time.perf_counter()
    step()
    devices.synchronize(device())
    count = max(2, min(40, round(1 / 3 / max(time.perf_counter() - begun, 1e-4))))
    found = []
    for _ in range(3):
        begun = time.perf_counter()
        for _ in range(count):
            step()
        devices.synchronize(device())
        found.append((time.perf_counter() - begun) / count)
    seconds = sorted(found)[1]
    return {"images_per_second": batch / seconds, "step_ms": 1e3 * seconds, "memory_gb": peak_memory()}


def peak_memory() -> float:
    """GB of GPU memory at most since this was asked last."""
    if device().type != "cuda":
        return 0.0
    peak = torch.cuda.max_memory_allocated() / 1e9
    torch.cuda.reset_peak_memory_stats()
    return round(peak, 2)


def profile(out: Path) -> None:
    """Where a step spends its time: its kernels, by total time."""
    from torch.profiler import ProfilerActivity

    settings = {"batch": 1024, "fast": True, "precision": "bf16", "capture": False}
    task = our_task(settings, made_up(2048, 1, 32), False)
    task.begin_epoch(0)
    for _ in range(3):
        task.step(0)
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as found:
        task.step(0)
        devices.synchronize(device())
    events = sorted(found.key_averages(), key=lambda event: -event.device_time_total)
    total = sum(event.device_time_total for event in events)
    print(f"profile: {total / 1e3:.1f} ms of kernels, {sum(event.count for event in events)} launches")
    lines = []
    for event in events[:40]:
        share, each = event.device_time_total / total, event.device_time_total / max(event.count, 1)
        lines.append(f"{100 * share:5.1f} % {event.count:5d} × {each:8.1f} us  {event.key[:110]}")
    print("\n".join(lines[:24]), flush=True)
    (out / "profile.txt").write_text("\n".join(lines) + "\n")
