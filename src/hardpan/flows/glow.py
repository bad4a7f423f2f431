"""Glow (Kingma and Dhariwal 2018) for images of any even size, grey or colour."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hardpan.flows.base import Latents
from hardpan.flows.planes import undo_quick
from hardpan.flows.steps import BOUNDS, GAIN, Bounds, Runner, Steps, fold, run_plain

MIN_PRIOR_LOG_SCALE = 8.0  # log scales of a split prior lie in (-8, 8)


class SplitPrior(nn.Module):
    """Half of the channels leave the flow, standardised by a mean and scale that the other half gives.

    Starts as the standard normal: the last factor is zero.
    """

    def __init__(self, channels: int, bounds: Bounds) -> None:
        super().__init__()
        self.bounds = bounds
        half = channels // 2
        self.weight = nn.Parameter(torch.zeros(half, 9 * 2 * half))
        self.bias = nn.Parameter(torch.zeros(2 * half))
        self.log_gain = nn.Parameter(torch.zeros(2 * half))

    def moments(self, kept: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log scale of what leaves."""
        raw = (fold(self.bounds.seen(kept) @ self.weight) + self.bias) * torch.exp(GAIN * self.log_gain)
        mean, log_scale = raw.chunk(2, 3)
        return mean, MIN_PRIOR_LOG_SCALE * torch.tanh(log_scale / MIN_PRIOR_LOG_SCALE)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What stays (B, H, W, c), what leaves as standard normals (B, H·W·c), and log |det| (B,)."""
        kept, left = x.chunk(2, 3)
        mean, log_scale = self.moments(kept)
        return kept, ((left - mean) * torch.exp(-log_scale)).flatten(1), -log_scale.sum((1, 2, 3))

    def inverse(self, kept: Tensor, normals: Tensor) -> Tensor:
        """Undo :meth:`forward`."""
        mean, log_scale = self.moments(kept)
        return torch.cat([kept, normals.reshape(kept.shape) * torch.exp(log_scale) + mean], 3)


class Glow(nn.Module):
    """L levels of K steps, with half of the channels leaving between levels.

    Args:
        shape: (H, W, C) with H and W divisible by 2^L.
        levels: L.
        steps: K.
        width: channels of the coupling networks.
        seed: of the first weights.
        bounds: of the couplings' scales, and of what their networks see.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        levels: int,
        steps: int,
        width: int,
        seed: int = 0,
        bounds: Bounds = BOUNDS,
    ) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        height, across, channels = shape
        self.shape, self.sizes = shape, []
        self.levels, self.priors = nn.ModuleList(), nn.ModuleList()
        self.runner: Runner = run_plain
        for level in range(levels):
            height, across, channels = height // 2, across // 2, 4 * channels
            self.levels.append(Steps(channels, steps, width, generator, bounds))
            if level < levels - 1:
                self.priors.append(SplitPrior(channels, bounds))
                channels //= 2
                self.sizes.append(height * across * channels)
        self.top_shape = (height, across, channels)
        self.d_top = height * across * channels
        self.d_rest = sum(self.sizes)
        self.n_features = self.d_top

    def forward(self, x: Tensor) -> Latents:
        """Carry (B, H, W, C) to the latents."""
        log_det = torch.zeros(len(x), dtype=x.dtype, device=x.device)
        rest: list[Tensor] = []
        features = x
        for number, level in enumerate(self.levels):
            assert isinstance(level, Steps)
            x = squeeze(x)
            stack, last = level.stack(), number == len(self.levels) - 1
            # The classification loss looks at what enters the very last step, as the paper does.
            inner = level.steps - 1 if last else level.steps
            if inner:
                x, part = self.runner(x, stack.part(0, inner))
                log_det = log_det + part
            features = x
            if last:
                x, part = self.runner(x, stack.part(inner, level.steps))
                log_det = log_det + part
            log_det = log_det + level.log_det(x.shape[1] * x.shape[2])
            if not last:
                x, left, part = self.priors[number](x)
                rest.append(left)
                log_det = log_det + part
        empty = x.new_zeros((len(x), 0))
        return Latents(x.flatten(1), torch.cat([empty, *rest], 1), log_det, features.flatten(1))

    @torch.no_grad()
    def inverse(self, top: Tensor, rest: Tensor) -> Tensor:
        """Carry latents back to (B, H, W, C)."""
        x = top.reshape(-1, *self.top_shape)
        parts = list(torch.split(rest, self.sizes, 1)) if self.sizes else []
        for number in reversed(range(len(self.levels))):
            if number < len(self.levels) - 1:
                x = self.priors[number].inverse(x, parts[number])  # type: ignore[operator]
            level = self.levels[number]
            assert isinstance(level, Steps)
            x = unsqueeze(undo_quick(x, level))
        return x

    @torch.no_grad()
    def start(self, x: Tensor) -> None:
        """Set the actnorms from one batch."""
        for number, level in enumerate(self.levels):
            assert isinstance(level, Steps)
            x = level.start(squeeze(x))
            if number < len(self.levels) - 1:
                x = x.chunk(2, 3)[0]


def squeeze(x: Tensor) -> Tensor:
    """(B, H, W, C) -> (B, H/2, W/2, 4C)."""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height // 2, 2, width // 2, 2, channels).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(batch, height // 2, width // 2, 4 * channels)


def unsqueeze(x: Tensor) -> Tensor:
    """Undo :func:`squeeze`."""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height, width, 2, 2, channels // 4).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(batch, 2 * height, 2 * width, channels // 4)
