"""The steps of a Glow level on a CPU without gradients, for likelihoods, posteriors and samples.

The same function as :func:`hardpan.flows.glow.run_plain`, up to rounding, in another layout: one plane (B, H, W)
per channel, so that every convolution is a product of a small matrix with long rows, and a neighbour is a shifted
plane. Biases are one more column of the weights against a row of ones. Blocks of images are so small that the
hidden layers stay in the cache of a core; all blocks and steps of a level use the same buffers and views of them.
Most of the time is in the matrix products, at the speed of the BLAS library.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hardpan.flows.glow import TAPS, Stack, Steps, run_plain

HIDDEN_NUMBERS = 2**18  # numbers in a hidden layer at once: 1 MB
_MIDDLE = TAPS.index((0, 0))


def run_quick(x: Tensor, stack: Stack) -> tuple[Tensor, Tensor]:
    """Map (B, H, W, ch) through the steps: in planes on a CPU without gradients, else plainly.

    Returns:
        The output, and log |det| of the couplings (B,).
    """
    if not usable(x):
        return run_plain(x, stack)
    network = _Coupling(x, stack)
    results = [network.run(rows) for rows in torch.split(x, network.batch)]
    return torch.cat([output for output, _ in results]), torch.cat([log_det for _, log_det in results])


def undo_quick(level: Steps, x: Tensor) -> Tensor:
    """Invert the steps of a level: in planes on a CPU without gradients, else plainly."""
    if not usable(x):
        return level.inverse(x)
    stack = level.stack()
    back = torch.linalg.inv(stack.mix.double()).to(x.dtype)
    network = _Coupling(x, stack)
    return torch.cat([network.invert(rows, back) for rows in torch.split(x, network.batch)])


def usable(x: Tensor) -> bool:
    """Whether planes can be used: reused buffers allow no gradients, and a GPU has its own kernels."""
    return x.device.type == "cpu" and not torch.is_grad_enabled() and len(x) > 0


class _Coupling:
    """The steps of one level for blocks of ``batch`` images, with buffers and their views made once."""

    def __init__(self, x: Tensor, stack: Stack) -> None:
        _, height, width, channels = x.shape
        hidden = stack.w2.shape[1]
        self.batch = min(len(x), max(1, HIDDEN_NUMBERS // (height * width * hidden)))
        self.stack, self.inner, self.steps = stack, channels // 2, len(stack.mix)
        shape, places = (self.batch, height, width), self.batch * height * width
        self.seen = x.new_empty(self.inner, *shape)
        self.around = x.new_zeros(9 * self.inner + 1, *shape)
        self.around[-1] = 1.0  # multiplies the biases
        self.first = x.new_ones(hidden + 1, places)
        self.second = x.new_empty(hidden, places)
        self.taps = x.new_empty(9 * channels, places)
        taps = self.taps.reshape(9, channels, *shape)
        self.raw = taps[_MIDDLE]
        around = self.around[:-1].reshape(9, self.inner, *shape)
        windows = [_window(i, j, height, width) for i, j in TAPS]
        self.copies = [
            (around[tap, :, :, *here], self.seen[:, :, *there]) for tap, (here, there) in enumerate(windows)
        ]
        self.sums = [
            (self.raw[:, :, *here], taps[tap, :, :, *there])
            for tap, (here, there) in enumerate(windows)
            if tap != _MIDDLE
        ]
        self.weights1 = torch.cat([stack.w1, stack.b1[:, None]], 1).transpose(1, 2)
        self.weights2 = torch.cat([stack.w2, stack.b2[:, None]], 1).transpose(1, 2)
        self.weights3 = stack.w3.transpose(1, 2)

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
        self.seen.copy_(self.stack.bounds.seen(kept))
        for neighbour, source in self.copies:
            neighbour.copy_(source)
        hidden = self.first[:-1]
        torch.mm(self.weights1[k], self.around.reshape(len(self.around), -1), out=hidden)
        hidden.relu_()
        torch.mm(self.weights2[k], self.first, out=self.second)
        self.second.relu_()
        torch.mm(self.weights3[k], self.second, out=self.taps)
        self.raw.add_(self.stack.b3[k][:, None, None, None])
        for total, neighbour in self.sums:
            total.add_(neighbour)
        return self.stack.bounds.scale(self.raw[: self.inner]), self.raw[self.inner :]


def _window(i: int, j: int, height: int, width: int) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """Where a neighbour at (i, j) exists, and where it is: outside the image it counts as zero."""
    rows, columns = slice(max(0, -i), height - max(0, i)), slice(max(0, -j), width - max(0, j))
    there = slice(max(0, i), height - max(0, -i)), slice(max(0, j), width - max(0, -j))
    return (rows, columns), there
