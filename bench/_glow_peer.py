"""The peer's Glow (normflows), built as its documentation does: for bench/ and reproductions/."""

from __future__ import annotations

from typing import Any

import torch


def peer_glow(nf: Any, channels: int, side: int, levels: int, steps: int, width: int) -> Any:
    """K steps in each of L levels, coupling networks of ``width`` channels, ten classes; ``nf`` is normflows."""
    torch.manual_seed(0)
    bases, parts, merges = [], [], []
    for i in range(levels):
        channels_here = channels * 2 ** (levels + 1 - i)
        blocks = [nf.flows.GlowBlock(channels_here, width, split_mode="channel", scale=True) for _ in range(steps)]
        parts.append([*blocks, nf.flows.Squeeze()])
        small = side // 2 ** (levels - i)
        if i > 0:
            merges.append(nf.flows.Merge())
            bases.append(nf.distributions.ClassCondDiagGaussian((channels * 2 ** (levels - i), small, small), 10))
        else:
            shape = (channels * 2 ** (levels + 1), side // 2**levels, side // 2**levels)
            bases.append(nf.distributions.ClassCondDiagGaussian(shape, 10))
    return nf.MultiscaleFlow(bases, parts, merges)
