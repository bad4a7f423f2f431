"""Glow (Kingma and Dhariwal 2018) for images of any even size, grey or colour.

A level has K steps of actnorm, invertible 1×1 convolution and affine coupling. Images are (B, H, W, C), channels
last, so that every convolution is a matrix product: a 3×3 convolution is a product with nine shifted copies of its
input (:func:`patches`), or, if the output is narrow, the sum of nine shifted products (:func:`fold`). All K steps
keep their parameters in one tensor per kind: the optimiser, the weight average and the casts see a dozen tensors
per level instead of a dozen per step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from hardpan.flows.base import Latents

GAIN = 3.0  # Kingma and Dhariwal's factor of the output scale of a coupling network
TAPS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]


@dataclass(frozen=True, slots=True)
class GlowBounds:
    """What keeps values unlike any in training from growing step after step, on the way to the latents and back.

    A coupling's scale is least + (most − least)·sigmoid(raw + start), 1 at the start where ``most`` is above 1: no
    step stretches by more than ``most`` forwards or 1/``least`` backwards. Its network, and a split prior, see
    z/√(1 + (z/reach)²) instead of z: however far a value runs, what it says to others stays finite.

    Attributes:
        least, most: of a coupling's scale.
        reach: what a network sees lies in (−reach, reach); 0: it sees everything as it is.
    """

    least: float = 1 / 3
    most: float = 3.0
    reach: float = 2.5

    @property
    def span(self) -> float:
        """most − least."""
        return self.most - self.least

    @property
    def start(self) -> float:
        """What is added to a raw scale.

        Example:
            >>> bounds = GlowBounds(0.05, 3.0)
            >>> round(bounds.least + bounds.span / (1 + math.exp(-bounds.start)), 12)
            1.0
        """
        # With scales below 1 only, the start is that of Kingma and Dhariwal.
        return math.log((1 - self.least) / (self.most - 1)) if self.most > 1 else 2.0

    def scale(self, raw: Tensor) -> Tensor:
        """The scale of a coupling from what its network says."""
        return self.least + self.span * torch.sigmoid(raw + self.start)

    def squash(self, z: Tensor) -> Tensor:
        """z/√(1 + (z/reach)²): the input of coupling networks and split priors."""
        return z * torch.rsqrt(1 + (z / self.reach).square()) if self.reach else z

    def squash_slope(self, z: Tensor) -> Tensor:
        """The derivative of :meth:`squash`, (1 + (z/reach)²)^(−3/2)."""
        return torch.rsqrt(1 + (z / self.reach).square()) ** 3 if self.reach else torch.ones_like(z)


BOUNDS = GlowBounds()


@dataclass(frozen=True, slots=True)
class GlowStack:
    """Ready-to-use arrays of K steps of a level with ch channels and coupling networks of width C.

    Attributes:
        mix: (K, ch, ch), actnorm and 1×1 convolution as one matrix.
        offset: (K, ch).
        w1, b1: (K, 9·cin, C) and (K, C), with cin = ch / 2.
        w2, b2: (K, C, C) and (K, C).
        w3, b3: (K, C, 9·cout) and (K, cout), with cout = ch: scales first, then shifts.
        bounds: of scales, and of what networks see.
    """

    mix: Tensor
    offset: Tensor
    w1: Tensor
    b1: Tensor
    w2: Tensor
    b2: Tensor
    w3: Tensor
    b3: Tensor
    bounds: GlowBounds = field(default=BOUNDS, kw_only=True)

    def __getitem__(self, steps: slice) -> GlowStack:
        return GlowStack(*(item[steps] for item in self.tensors()), bounds=self.bounds)

    def tensors(self) -> tuple[Tensor, ...]:
        """All arrays, in order."""
        return (self.mix, self.offset, self.w1, self.b1, self.w2, self.b2, self.w3, self.b3)


Runner = Callable[[Tensor, GlowStack], tuple[Tensor, Tensor]]


def patches(x: Tensor) -> Tensor:
    """(B, H, W, c) -> (B, H, W, 9·c): the 3×3 neighbourhood of every place, zeros outside; tap by tap."""
    height, width = x.shape[1:3]
    padded = functional.pad(x, (0, 0, 1, 1, 1, 1))
    return torch.cat([padded[:, 1 + i : 1 + i + height, 1 + j : 1 + j + width] for i, j in TAPS], 3)


def fold(taps: Tensor) -> Tensor:
    """(B, H, W, 9·c) -> (B, H, W, c): at every place the sum over taps of what the neighbour there says."""
    height, width, channels = taps.shape[1], taps.shape[2], taps.shape[3] // 9
    padded = functional.pad(taps, (0, 0, 1, 1, 1, 1))
    total = torch.zeros(*taps.shape[:3], channels, dtype=taps.dtype, device=taps.device)
    for tap, (i, j) in enumerate(TAPS):
        shifted = padded[:, 1 + i : 1 + i + height, 1 + j : 1 + j + width]
        total = total + shifted[..., tap * channels : (tap + 1) * channels]
    return total


def glow_coupling_network(z: Tensor, stack: GlowStack, k: int) -> tuple[Tensor, Tensor]:
    """Scales and shifts (B, H, W, c) that the first half of the channels gives for the second."""
    hidden = torch.relu(patches(stack.bounds.squash(z)) @ stack.w1[k] + stack.b1[k])
    hidden = torch.relu(hidden @ stack.w2[k] + stack.b2[k])
    raw = fold(hidden @ stack.w3[k]) + stack.b3[k]
    scale, shift = raw.chunk(2, 3)
    return stack.bounds.scale(scale), shift


def run_glow_plain(x: Tensor, stack: GlowStack) -> tuple[Tensor, Tensor]:
    """Carry (B, H, W, ch) through the steps of a stack: output, and log |det| of the couplings (B,)."""
    log_det = torch.zeros(len(x), dtype=x.dtype, device=x.device)
    for k in range(len(stack.mix)):
        x = x @ stack.mix[k].T + stack.offset[k]
        fixed, moved = x.chunk(2, 3)
        scale, shift = glow_coupling_network(fixed, stack, k)
        x = torch.cat([fixed, moved * scale + shift], 3)
        log_det = log_det + torch.log(scale).sum((1, 2, 3))
    return x, log_det


class GlowLevel(nn.Module):
    """K steps of a level.

    y = W·diag(s)·(x + b), s and b the actnorm, W = P·L·U the 1×1 convolution with L unit lower and U upper
    triangular; then the first half of the channels gives the second half its scale and shift. log |det| of the
    first part is (number of places) · (Σ log s + Σ log |diag U|).

    Args:
        channels: ch, an even number.
        steps: K.
        width: C.
        generator: for the start of the weights.
        bounds: of scales, and of what networks see.
    """

    permutation: Tensor
    sign: Tensor

    def __init__(
        self, channels: int, steps: int, width: int, generator: torch.Generator, bounds: GlowBounds = BOUNDS
    ) -> None:
        super().__init__()
        self.channels, self.steps, self.width, self.bounds = channels, steps, width, bounds
        inner, outer = channels // 2, channels
        noise = torch.randn(steps, channels, channels, generator=generator, dtype=torch.float64)
        permutation, lower, upper = torch.linalg.lu(torch.linalg.qr(noise).Q)
        diagonal = torch.diagonal(upper, dim1=1, dim2=2)
        self.register_buffer("permutation", permutation.float())
        self.register_buffer("sign", torch.sign(diagonal).float())
        self.lower = nn.Parameter(torch.tril(lower, -1).float())
        self.upper = nn.Parameter(torch.triu(upper, 1).float())
        self.log_diagonal = nn.Parameter(torch.log(diagonal.abs()).float())
        self.bias = nn.Parameter(torch.zeros(steps, channels))
        self.log_scale = nn.Parameter(torch.zeros(steps, channels))
        w1 = torch.randn(steps, 9 * inner, width, generator=generator)
        self.w1 = nn.Parameter(w1 * (2 / (9 * inner)) ** 0.5)
        self.b1 = nn.Parameter(torch.zeros(steps, width))
        self.w2 = nn.Parameter(torch.randn(steps, width, width, generator=generator) * (2 / width) ** 0.5)
        self.b2 = nn.Parameter(torch.zeros(steps, width))
        self.w3 = nn.Parameter(torch.zeros(steps, width, 9 * outer))
        self.b3 = nn.Parameter(torch.zeros(steps, outer))
        self.log_gain = nn.Parameter(torch.zeros(steps, outer))

    def stack(self) -> GlowStack:
        """The parameters as the arrays that the steps use."""
        eye = torch.eye(self.channels, dtype=self.lower.dtype, device=self.lower.device)
        lower = torch.tril(self.lower, -1) + eye
        upper = torch.triu(self.upper, 1) + torch.diag_embed(self.sign * torch.exp(self.log_diagonal))
        mix = self.permutation @ lower @ upper * torch.exp(self.log_scale)[:, None, :]
        offset = (mix @ self.bias[:, :, None])[:, :, 0]
        gain = torch.exp(GAIN * self.log_gain)
        w3 = self.w3 * gain.repeat(1, 9)[:, None, :]
        return GlowStack(mix, offset, self.w1, self.b1, self.w2, self.b2, w3, self.b3 * gain, bounds=self.bounds)

    def log_det(self, places: int) -> Tensor:
        """log |det| of all actnorms and 1×1 convolutions."""
        return places * (self.log_scale.sum() + self.log_diagonal.sum())

    @torch.no_grad()
    def inverse(self, x: Tensor) -> Tensor:
        """Undo the steps."""
        stack = self.stack()
        back = torch.linalg.inv(stack.mix.double()).to(x.dtype)
        for k in reversed(range(self.steps)):
            fixed, moved = x.chunk(2, 3)
            scale, shift = glow_coupling_network(fixed, stack, k)
            x = torch.cat([fixed, (moved - shift) / scale], 3)
            x = (x - stack.offset[k]) @ back[k].T
        return x

    @torch.no_grad()
    def start(self, x: Tensor) -> Tensor:
        """Set every actnorm so that its output on this batch has mean 0 and variance 1; give the level's output."""
        for k in range(self.steps):
            mean = x.mean((0, 1, 2))
            deviation = (x - mean).square().mean((0, 1, 2)).sqrt()
            self.bias[k] = -mean
            self.log_scale[k] = -torch.log(deviation + 1e-6)
            x = run_glow_plain(x, self.stack()[k : k + 1])[0]
        return x


MIN_PRIOR_LOG_SCALE = 8.0  # log scales of a split prior lie in (-8, 8)


class GlowSplitPrior(nn.Module):
    """Half of the channels leave the flow, standardised by a mean and scale that the other half gives.

    Starts as the standard normal: the last factor is zero.
    """

    def __init__(self, channels: int, bounds: GlowBounds) -> None:
        super().__init__()
        self.bounds = bounds
        half = channels // 2
        self.weight = nn.Parameter(torch.zeros(half, 9 * 2 * half))
        self.bias = nn.Parameter(torch.zeros(2 * half))
        self.log_gain = nn.Parameter(torch.zeros(2 * half))

    def moments(self, stays: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log scale of what leaves."""
        raw = (fold(self.bounds.squash(stays) @ self.weight) + self.bias) * torch.exp(GAIN * self.log_gain)
        mean, log_scale = raw.chunk(2, 3)
        return mean, MIN_PRIOR_LOG_SCALE * torch.tanh(log_scale / MIN_PRIOR_LOG_SCALE)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What stays (B, H, W, c), what leaves as standard normals (B, H·W·c), and log |det| (B,)."""
        stays, leaves = x.chunk(2, 3)
        mean, log_scale = self.moments(stays)
        return stays, ((leaves - mean) * torch.exp(-log_scale)).flatten(1), -log_scale.sum((1, 2, 3))

    def inverse(self, stays: Tensor, normals: Tensor) -> Tensor:
        """Undo :meth:`forward`."""
        mean, log_scale = self.moments(stays)
        return torch.cat([stays, normals.reshape(stays.shape) * torch.exp(log_scale) + mean], 3)


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
        bounds: GlowBounds = BOUNDS,
    ) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        height, across, channels = shape
        self.shape, self.sizes = shape, []
        self.levels, self.priors = nn.ModuleList(), nn.ModuleList()
        self.runner: Runner = run_glow_plain
        self.inverter: Callable[[GlowLevel, Tensor], Tensor] = GlowLevel.inverse
        for level in range(levels):
            height, across, channels = height // 2, across // 2, 4 * channels
            self.levels.append(GlowLevel(channels, steps, width, generator, bounds))
            if level < levels - 1:
                self.priors.append(GlowSplitPrior(channels, bounds))
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
            assert isinstance(level, GlowLevel)
            x = glow_squeeze(x)
            stack, last = level.stack(), number == len(self.levels) - 1
            # The classification loss looks at what enters the very last step, as the paper does.
            inner = level.steps - 1 if last else level.steps
            if inner:
                x, step_log_det = self.runner(x, stack[0:inner])
                log_det = log_det + step_log_det
            features = x
            if last:
                x, step_log_det = self.runner(x, stack[inner : level.steps])
                log_det = log_det + step_log_det
            log_det = log_det + level.log_det(x.shape[1] * x.shape[2])
            if not last:
                x, left, step_log_det = self.priors[number](x)
                rest.append(left)
                log_det = log_det + step_log_det
        empty = x.new_zeros((len(x), 0))
        return Latents(x.flatten(1), torch.cat([empty, *rest], 1), log_det, features.flatten(1))

    def top(self, x: Tensor) -> Tensor:
        """The top latents of (B, H, W, C) alone, (B, d_top).

        The last coupling of a level before a split moves only what leaves there, so it is not computed.
        """
        for number, level in enumerate(self.levels):
            assert isinstance(level, GlowLevel)
            x, stack = glow_squeeze(x), level.stack()
            if number == len(self.levels) - 1:
                x = self.runner(x, stack)[0]
            else:
                half = level.channels // 2
                x = self.runner(x, stack[0 : level.steps - 1])[0]
                x = x @ stack.mix[-1, :half].T + stack.offset[-1, :half]
        return x.flatten(1)

    @torch.no_grad()
    def inverse(self, top: Tensor, rest: Tensor) -> Tensor:
        """Carry latents back to (B, H, W, C)."""
        x = top.reshape(-1, *self.top_shape)
        parts = list(torch.split(rest, self.sizes, 1)) if self.sizes else []
        for number in reversed(range(len(self.levels))):
            if number < len(self.levels) - 1:
                x = self.priors[number].inverse(x, parts[number])  # type: ignore[operator]
            level = self.levels[number]
            assert isinstance(level, GlowLevel)
            x = glow_unsqueeze(self.inverter(level, x))
        return x

    @torch.no_grad()
    def start(self, x: Tensor) -> None:
        """Set the actnorms from one batch."""
        for number, level in enumerate(self.levels):
            assert isinstance(level, GlowLevel)
            x = level.start(glow_squeeze(x))
            if number < len(self.levels) - 1:
                x = x.chunk(2, 3)[0]


def glow_squeeze(x: Tensor) -> Tensor:
    """(B, H, W, C) -> (B, H/2, W/2, 4C)."""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height // 2, 2, width // 2, 2, channels).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(batch, height // 2, width // 2, 4 * channels)


def glow_unsqueeze(x: Tensor) -> Tensor:
    """Undo :func:`glow_squeeze`."""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height, width, 2, 2, channels // 4).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(batch, 2 * height, 2 * width, channels // 4)


def glow_level_count(sides: Sequence[int], most: int) -> int:
    """At most so many levels that the smallest side still has 2 places at the top.

    Example:
        >>> glow_level_count((32, 32), 3), glow_level_count((8, 8), 3), glow_level_count((2, 2), 3)
        (3, 2, 1)
    """
    return max(1, min(most, int(np.log2(max(min(sides), 2))) - 1))
