"""SSIM of many pairs of images at once, beside scikit-image's function called pair by pair."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from bench import harness
from bench._images import cifar

PEERS = ("scikit-image",)
CORES = 1
SCALE = float(os.environ.get("BENCH_SCALE", "1"))


def prepare(pairs: int) -> dict[str, Any]:
    x, source = cifar(2 * pairs)
    return {"a": x[:pairs], "b": x[pairs:], "source": source}


def all_pairs(given: dict[str, Any]) -> Any:
    from hardpan.neighbors.ssim import ssim_pairs

    numbers = np.arange(len(given["a"]))
    return ssim_pairs(given["a"], given["b"], numbers, numbers)


def ours(given: dict[str, Any]) -> dict[str, Any]:
    return {"mean": float(all_pairs(given).mean()), "source": given["source"]}


def scikit_image(given: dict[str, Any]) -> dict[str, Any]:
    return {"mean": float(pair_by_pair(given).mean())}


def difference(given: dict[str, Any]) -> dict[str, Any]:
    return {"largest": float(np.abs(all_pairs(given) - pair_by_pair(given)).max())}


def pair_by_pair(given: dict[str, Any]) -> Any:
    from skimage.metrics import structural_similarity

    pairs = zip(given["a"], given["b"], strict=True)
    return np.array([structural_similarity(p, q, channel_axis=-1) for p, q in pairs])


def run() -> dict[str, Any]:
    many, few = max(500, round(20_000 * SCALE)), max(200, round(1000 * SCALE))
    mine = harness.isolated(prepare, ours, repeats=3, warmup=1, pairs=many)
    peer = harness.isolated(prepare, scikit_image, repeats=2, warmup=1, pairs=few)
    off = harness.isolated(prepare, difference, repeats=1, pairs=few).output["largest"]
    times = (peer.best / few) / (mine.best / many)
    pair = {"µs a pair": 1e6 * mine.best / many, "scikit-image µs a pair": 1e6 * peer.best / few, "times": times}
    rows = [
        {"window": "uniform"} | pair | harness.against(times, at_least=20, unit="×"),
        {"window": "uniform, largest difference", "difference": off} | harness.against(off, at_most=1e-5, unit=""),
    ]
    notes = [f"32×32×3 bytes, {mine.output['source']}; {many:,} pairs in one call beside {few:,} calls; one core"]
    return harness.table("Structural similarity of pairs", rows, seed=0, notes=notes)
