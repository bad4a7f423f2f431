"""Glow at the paper's setting, ours and the peer's (normflows): what ``speed`` and ``equal`` compare."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from reproductions.flow_jobs.shared import device

from hardpan import engine, flows
from hardpan.data.dataset import Dataset
from hardpan.flows.fitting import FitRows, FlowTask
from hardpan.flows.glow import run_glow_plain
from hardpan.flows.gpu_steps import PlainStepOps, fast_runner
from hardpan.flows.network import build
from hardpan.flows.scaling import scaling_for


class TorchProducts:
    """The kernels, but for the products that are masked by a ReLU."""

    masked_product = staticmethod(PlainStepOps.masked_product)

    def __getattr__(self, name: str) -> Any:
        from hardpan.flows import triton_kernels as kernels

        return getattr(kernels, name)


def our_task(settings: dict[str, Any], dataset: Dataset, tiny: bool) -> FlowTask:
    """Ours, ready for its first step.

    ``settings`` has ``batch``, ``precision``, ``capture`` and ``fast``: True, False, "plain" (the fast path by
    plain operations) or "torch products"; and may have ``class_weight``, ``ema``, ``rate`` and ``warmup``.
    """
    size: dict[str, Any] = {"steps": 2, "levels": 2, "width": 16} if tiny else {}
    config = flows.FlowConfig(
        preset="paper", batch_size=settings["batch"], precision=settings["precision"], epochs=1,
        pad_to=8 if tiny else 32, class_weight=settings.get("class_weight", 0.01), ema=settings.get("ema", 0.999),
        learning_rate=settings.get("rate", 1e-3), warmup=settings.get("warmup", 0.05), grey_levels=256, **size,
    ).filled()  # fmt: skip
    network = build(config, scaling_for(dataset.x, config), torch.full((10,), 0.1)).to(device())
    assert dataset.labels is not None
    rows = FitRows(network, dataset.x, dataset.labels, device())
    task = FlowTask(network, config, rows, rows, device())
    dtype = torch.bfloat16 if settings["precision"] == "bf16" else torch.float32
    if settings["fast"] == "plain":
        task.runner = fast_runner(dtype, PlainStepOps)
    elif settings["fast"] == "torch products":
        task.runner = fast_runner(dtype, TorchProducts())
    elif not settings["fast"]:
        task.runner = run_glow_plain
    task.one_step = engine.CapturedStep(
        task._one_step, device(), generators=[task.noise], enabled=settings["capture"]
    )
    task.start()
    return task


def peer_model(folder: Path, channels: int, tiny: bool) -> Any:
    """The peer's; ``folder`` holds the package normflows."""
    sys.path.insert(0, str(folder))
    import normflows
    from bench._glow_peer import peer_glow

    side, levels, steps, width = (8, 2, 2, 16) if tiny else (32, 3, 16, 512)
    return peer_glow(normflows, channels, side, levels, steps, width).to(device())
