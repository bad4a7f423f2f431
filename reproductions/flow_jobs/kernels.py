"""The kernels one by one: ``check`` compares fast paths with plain float64, ``products`` times block sizes."""

from __future__ import annotations

import argparse
import functools
import math
from typing import Any

import torch
from reproductions.flow_jobs.shared import device, note, relative

from hardpan.flows.glow import GlowLevel, run_glow_plain
from hardpan.flows.gpu_steps import PlainStepOps, fast_runner


def check(given: argparse.Namespace) -> None:
    """Output, log-determinant and every gradient of a level: fast and plain float32 against float64."""
    rows = []
    shapes = [(4, 16), (8, 8), (16, 4), (12, 16), (48, 4)] if not given.tiny else [(4, 4), (12, 2)]
    width, batch, steps = (512, 64, 3) if not given.tiny else (16, 4, 2)
    for channels, side in shapes:
        level, x = level_and_batch(channels, side, width, batch, steps)
        exact = outcome(level.double(), x.double(), run_glow_plain)
        level = level.float()
        for name, (runner, bound) in runners().items():
            found = outcome(level, x, runner)
            gap = {key: relative(found[key], exact[key]) for key in exact}
            worst = max(gap, key=lambda key: gap[key])
            rows.append({"channels": channels, "side": side, "path": name, "worst": worst, "gap": gap[worst],
                         "output": gap["output"], "log_det": gap["log_det"]})  # fmt: skip
            verdict = "ok" if gap[worst] <= bound else "NOT OK"
            print(f"check ch={channels} side={side} {name:22s} output {gap['output']:.1e} "
                  f"log_det {gap['log_det']:.1e} worst {worst} {gap[worst]:.1e} {verdict}", flush=True)  # fmt: skip
    note(given.out, "check", {"rows": rows})


def runners() -> dict[str, tuple[Any, float]]:
    """The paths that compute a level, and how far off each may be."""
    found: dict[str, tuple[Any, float]] = {
        "plain float32": (run_glow_plain, 1e-3),
        "plain ops, float32": (fast_runner(torch.float32, PlainStepOps), 1e-3),
        "plain ops, bf16": (fast_runner(torch.bfloat16, PlainStepOps), 1e-1),
    }
    if device().type == "cuda":
        found |= {
            "kernels, float32": (fast_runner(torch.float32), 1e-3),
            "kernels, bf16": (fast_runner(torch.bfloat16), 1e-1),
        }
    return found


def level_and_batch(channels: int, side: int, width: int, batch: int, steps: int) -> tuple[GlowLevel, torch.Tensor]:
    """A level whose couplings do something, and a batch for it."""
    generator = torch.Generator().manual_seed(channels + side)
    level = GlowLevel(channels, steps, width, generator)
    with torch.no_grad():
        level.w3.copy_(torch.randn(level.w3.shape, generator=generator) * 0.3 / math.sqrt(9 * width))
        for item in (level.bias, level.log_scale, level.b1, level.b2, level.b3):
            item.add_(0.1 * torch.randn(item.shape, generator=generator))
    x = torch.randn(batch, side, side, channels, generator=generator)
    return level.to(device()), x.to(device())


def outcome(level: GlowLevel, x: torch.Tensor, runner: Any) -> dict[str, torch.Tensor]:
    """What one pass forth and back gives: output, log-determinant and the gradient of everything."""
    level.zero_grad()
    x = x.clone().requires_grad_()
    z, log_det = runner(x, level.stack())
    generator = torch.Generator().manual_seed(1)
    weights = torch.randn(z.shape, generator=generator).to(z)
    ((z * weights).sum() + (log_det * torch.linspace(1, 2, len(x)).to(z)).sum()).backward()
    found = {"output": z.detach(), "log_det": log_det.detach(), "x": x.grad}
    return found | {name: item.grad.clone() for name, item in level.named_parameters() if item.grad is not None}


def products(given: argparse.Namespace) -> None:
    """Times of (a @ wᵀ)·[h > 0] for block sizes, at the shapes of the first level with batch 1,024."""
    from triton.testing import do_bench

    from hardpan.flows import triton_kernels as kernels

    rows = []
    configs = [(128, 128, 64, 8, 3), (128, 128, 64, 4, 3), (128, 128, 64, 4, 4), (128, 256, 64, 8, 3),
               (256, 128, 64, 8, 3), (128, 256, 32, 8, 4), (64, 256, 64, 4, 3), (64, 256, 64, 8, 3),
               (64, 128, 64, 4, 4)]  # fmt: skip
    for inner in (512, 40):
        a, hidden = (torch.randn(2**18, n, device="cuda", dtype=torch.bfloat16) for n in (inner, 512))
        w = torch.randn(512, inner, device="cuda", dtype=torch.bfloat16)
        exact: torch.Tensor = (a[:999].double() @ w.double().T) * (hidden[:999] > 0)
        for config in configs:
            work = functools.partial(kernels.masked_product, a, w, hidden, config)
            try:
                gap = relative(work()[0][:999], exact)
                ms = do_bench(work, warmup=10, rep=40)
            except Exception as error:  # too much shared memory, for one
                print("products", inner, config, type(error).__name__, flush=True)
                continue
            rows.append({"inner": inner, "config": config, "ms": ms, "gap": gap})
            print(f"products {inner} {config} {ms:.3f} ms, gap {gap:.1e}", flush=True)
        ms = do_bench(functools.partial(torch.matmul, a, w.T), warmup=10, rep=40)
        rows.append({"inner": inner, "config": "torch, without mask and sums", "ms": ms})
        print(f"products {inner} torch alone {ms:.3f} ms", flush=True)
    note(given.out, "products", {"rows": rows})
