"""Images for topics that compare images: CIFAR-10 where BENCH_CIFAR names its npz file, else made-up ones."""

from __future__ import annotations

import os
from typing import Any

import numpy as np


def cifar(rows: int, seed: int = 0) -> tuple[Any, str]:
    """So many 32×32×3 images, and where they come from; test images come last, as published."""
    path = os.environ.get("BENCH_CIFAR", "")
    if path:
        with np.load(path, allow_pickle=False) as data:
            x = np.concatenate([data["x_train"], data["x_test"]])
        return x[-rows:], "CIFAR-10"
    return natural(rows, seed), "made-up images with the spectrum of photographs"


def natural(rows: int, seed: int) -> Any:
    """Noise whose amplitude falls with the frequency, as in photographs."""
    rng = np.random.default_rng(seed)
    frequency = np.hypot(np.fft.fftfreq(32)[:, None], np.fft.rfftfreq(32)[None, :])
    shape = 1.0 / np.maximum(frequency, 1 / 32)
    out = np.empty((rows, 32, 32, 3), np.uint8)
    for start in range(0, rows, 1000):
        count = min(1000, rows - start)
        noise = np.fft.rfft2(rng.standard_normal((count, 3, 32, 32)))
        noise = 0.8 * noise.mean(axis=1, keepdims=True) + 0.2 * noise
        x = np.fft.irfft2(noise * shape, s=(32, 32))
        x = 120 + 60 * x / x.std()
        out[start : start + count] = np.clip(x, 0, 255).astype(np.uint8).transpose(0, 2, 3, 1)
    return out
