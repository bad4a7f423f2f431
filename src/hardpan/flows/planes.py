"""The steps of a Glow level on a CPU without gradients, for likelihoods, posteriors and samples.

As :func:`hardpan.flows.glow.run_glow_plain`, up to rounding, in another layout: one plane (B, H, W)
per channel, so that every convolution is a product of a small matrix with long rows, and a neighbour is a shifted
plane. Biases are one more column of the weights against a row of ones. A block has so many images that the cost of
calling an operation is small; its hidden layers are computed a few columns at a time, so that they stay in the
cache of a core. All blocks and steps of a level use the same buffers and views of them. Most of the time is in the
matrix products, at the speed of the BLAS library: in float32 they bound any rearrangement.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hardpan.flows.glow import TAPS, GlowLevel, GlowStack, run_glow_plain

BLOCK_PLACES = 2**14  # places of all images of a block: 64 kB per plane
HIDDEN_NUMBERS = 2**16  # numbers of a hidden layer at once: 256 kB
_MIDDLE = TAPS.index((0, 0))


def run_in_planes(x: Tensor, stack: GlowStack) -> tuple[Tensor, Tensor]:
    """Map (B, H, W, ch) through the steps, as :func:`run_glow_plain`: in planes on a CPU without gradients."""
    if not can_use_planes(x):
        return run_glow_plain(x, stack)
    network = _PlaneSteps(x, stack)
    results = [network.run(rows) for rows in torch.split(x, network.batch)]
    return torch.cat([output for output, _ in results]), torch.cat([log_det for _, log_det in results])


def invert_in_planes(level: GlowLevel, x: Tensor) -> Tensor:
    """Invert the steps of a level: in planes on a CPU without gradients, else plainly."""
    if not can_use_planes(x):
        return level.inverse(x)
    stack = level.stack()
    back = torch.linalg.inv(stack.mix.double()).to(x.dtype)
    network = _PlaneSteps(x, stack)
    return torch.cat([network.invert(rows, back) for rows in torch.split(x, network.batch)])


def can_use_planes(x: Tensor) -> bool:
    """Whether planes can be used: reused buffers allow no gradients, and a GPU has its own kernels."""
    return x.device.type == "cpu" and not torch.is_grad_enabled() and len(x) > 0


class _PlaneSteps:
    """The steps of one level for blocks of ``batch`` images, with buffers and their views made once."""

    def __init__(self, x: Tensor, stack: GlowStack) -> None:
        (_, height, width, channels), dtype = x.shape, x.dtype
        hidden = stack.w2.shape[1]
        self.batch = min(len(x), max(1, BLOCK_PLACES // (height * width)))
        self.stack, self.inner, self.steps = stack, channels // 2, len(stack.mix)
        shape, places = (self.batch, height, width), self.batch * height * width
        self.seen = torch.empty(self.inner, *shape, dtype=dtype)
        around = torch.zeros(9 * self.inner + 1, places, dtype=dtype)
        around[-1] = 1.0  # multiplies the biases
        said = torch.empty(9 * channels, places, dtype=dtype)
        columns = min(places, max(16, HIDDEN_NUMBERS // hidden))
        first, second = torch.ones(hidden + 1, columns, dtype=dtype), torch.empty(hidden, columns, dtype=dtype)
        self.chunks = []
        for start in range(0, places, columns):
            here = slice(start, min(start + columns, places))
            inside = slice(0, here.stop - start)
            self.chunks.append(
                (around[:, here], first[:-1, inside], first[:, inside], second[:, inside], said[:, here])
            )
        taps = said.reshape(9, channels, *shape)
        self.raw = taps[_MIDDLE]
        neighbours = around[:-1].reshape(9, self.inner, *shape)
        # Where a neighbour at (i, j) exists, and where it is: outside the image it counts as zero.
        windows = [
            (
                (slice(max(0, -i), height - max(0, i)), slice(max(0, -j), width - max(0, j))),
                (slice(max(0, i), height - max(0, -i)), slice(max(0, j), width - max(0, -j))),
            )
            for i, j in TAPS
        ]
        self.copies = [
            (neighbours[tap, :, :, *here], self.seen[:, :, *there]) for tap, (here, there) in enumerate(windows)
        ]
        self.sums = [
            (self.raw[:, :, *here], taps[tap, :, :, *there])
            for tap, (here, there) in enumerate(windows)
            if tap != _MIDDLE
        ]
        weights = torch.cat([stack.w1, stack.b1[:, None]], 1), torch.cat([stack.w2, stack.b2[:, None]], 1), stack.w3
        self.weights1, self.weights2, self.weights3 = (w.transpose(1, 2).contiguous().unbind() for w in weights)

    def run(self, x: Tensor) -> tuple[Tensor, Tensor]:
        planes = self._planes(x)
        log_det = x.new_zeros(self.batch)
        for k in range(self.steps):
            mixed = torch.addmm(self.stack.offset[k][:, None], self.stack.mix[k], planes.reshape(len(planes), -1))
            planes = mixed.reshape(planes.shape)
            scale, shift = self._parameters(planes[: self.inner], k)
            planes[self.inner :].mul_(scale).add_(shift)
            log_det += scale.log_().sum((0, 2, 3))
        return planes.permute(1, 2, 3, 0)[: len(x)].contiguous(), log_det[: len(x)]

    def invert(self, x: Tensor, back: Tensor) -> Tensor:
        planes = self._planes(x)
        for k in reversed(range(self.steps)):
            scale, shift = self._parameters(planes[: self.inner], k)
            planes[self.inner :].sub_(shift).div_(scale)
            flat = planes.reshape(len(planes), -1).sub_(self.stack.offset[k][:, None])
            planes = (back[k] @ flat).reshape(planes.shape)
        return planes.permute(1, 2, 3, 0)[: len(x)].contiguous()

    def _planes(self, x: Tensor) -> Tensor:
        """(b, H, W, ch) as (ch, batch, H, W), filled up with zeros where the last block is smaller."""
        planes = x.permute(3, 0, 1, 2).contiguous()
        missing = self.batch - len(x)
        return torch.nn.functional.pad(planes, (0, 0, 0, 0, 0, missing)) if missing else planes

    def _parameters(self, kept: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Scales and shifts (ch/2, B, H, W) of the other planes, from the kept ones; valid until the next call."""
        self.seen.copy_(self.stack.bounds.squash(kept))
        for neighbour, source in self.copies:
            neighbour.copy_(source)
        for around, hidden, first, second, taps in self.chunks:
            torch.mm(self.weights1[k], around, out=hidden)
            hidden.relu_()
            torch.mm(self.weights2[k], first, out=second)
            second.relu_()
            torch.mm(self.weights3[k], second, out=taps)
        self.raw.add_(self.stack.b3[k][:, None, None, None])
        for total, neighbour in self.sums:
            total.add_(neighbour)
        return self.stack.bounds.scale(self.raw[: self.inner]), self.raw[self.inner :]
