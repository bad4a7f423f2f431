"""The steps of a Glow level on a CPU without gradients: what likelihoods, posteriors and samples there run.

The same function as :func:`hardpan.flows.steps.run_plain`, up to rounding, in another layout: one plane (B, H, W) a
channel, so that every convolution is a product of a small matrix with very long rows, and a neighbour is a shifted
plane. Biases are one more column of the weights against a row of ones; all steps of a level use the same buffers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hardpan.flows.steps import TAPS, Stack, Steps, run_plain

HIDDEN_NUMBERS = 2**22  # in a hidden layer at once: 16 MB


def run_quick(x: Tensor, stack: Stack) -> tuple[Tensor, Tensor]:
    """Carry (B, H, W, ch) through the steps: in planes on a CPU without gradients, else plainly.

    Returns:
        The output, and log |det| of the couplings (B,).
    """
    if not usable(x):
        return run_plain(x, stack)
    found = [_run(rows, stack) for rows in torch.split(x, _rows_at_once(x, stack))]
    return torch.cat([output for output, _ in found]), torch.cat([log_det for _, log_det in found])


def undo_quick(x: Tensor, level: Steps) -> Tensor:
    """Undo the steps of a level: in planes on a CPU without gradients, else plainly."""
    if not usable(x):
        return level.inverse(x)
    stack = level.stack()
    back = torch.linalg.inv(stack.mix.double()).to(x.dtype)
    return torch.cat([_invert(rows, stack, back) for rows in torch.split(x, _rows_at_once(x, stack))])


def usable(x: Tensor) -> bool:
    """Whether planes may be used: buffers that are written over know no gradients, and a GPU has its own ways."""
    return x.device.type == "cpu" and not torch.is_grad_enabled() and len(x) > 0


def _rows_at_once(x: Tensor, stack: Stack) -> int:
    return max(1, HIDDEN_NUMBERS // (x.shape[1] * x.shape[2] * stack.w2.shape[1]))


def _run(x: Tensor, stack: Stack) -> tuple[Tensor, Tensor]:
    work = _Planes(x, stack)
    planes = x.permute(3, 0, 1, 2).contiguous()
    log_det = torch.zeros(len(x), dtype=x.dtype)
    for k in range(len(stack.mix)):
        mixed = torch.addmm(stack.offset[k][:, None], stack.mix[k], planes.reshape(work.channels, -1))
        planes = mixed.reshape(planes.shape)
        scale, shift = work.coupling(planes[: work.inner], k)
        planes[work.inner :].mul_(scale).add_(shift)
        log_det += scale.log_().sum((0, 2, 3))
    return planes.permute(1, 2, 3, 0).contiguous(), log_det


def _invert(x: Tensor, stack: Stack, back: Tensor) -> Tensor:
    work = _Planes(x, stack)
    planes = x.permute(3, 0, 1, 2).contiguous()
    for k in reversed(range(len(stack.mix))):
        scale, shift = work.coupling(planes[: work.inner], k)
        planes[work.inner :].sub_(shift).div_(scale)
        flat = planes.reshape(work.channels, -1) - stack.offset[k][:, None]
        planes = (back[k] @ flat).reshape(planes.shape)
    return planes.permute(1, 2, 3, 0).contiguous()


class _Planes:
    """Buffers of the coupling networks of one level."""

    def __init__(self, x: Tensor, stack: Stack) -> None:
        batch, height, width, channels = x.shape
        self.stack, self.channels, self.inner, self.shape = stack, channels, channels // 2, (batch, height, width)
        places, hidden = batch * height * width, stack.w2.shape[1]
        self.around = x.new_zeros(9 * self.inner + 1, batch, height, width)
        self.around[-1] = 1.0  # what the biases are multiplied with
        self.first = x.new_ones(hidden + 1, places)
        self.second = x.new_empty(hidden, places)
        self.taps = x.new_empty(9 * channels, places)
        self.weights1 = torch.cat([stack.w1, stack.b1[:, None]], 1).transpose(1, 2)
        self.weights2 = torch.cat([stack.w2, stack.b2[:, None]], 1).transpose(1, 2)
        self.windows = [_window(i, j, height, width) for i, j in TAPS]

    def coupling(self, kept: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Scales and shifts (ch/2, B, H, W) that the kept planes give for the others; good until the next call."""
        seen = self.stack.bounds.seen(kept)
        for tap, (here, there) in enumerate(self.windows):
            self.around[(slice(tap * self.inner, (tap + 1) * self.inner), slice(None), *here)] = seen[
                (slice(None), slice(None), *there)
            ]
        hidden = self.first[:-1]
        torch.mm(self.weights1[k], self.around.reshape(len(self.around), -1), out=hidden)
        hidden.relu_()
        torch.mm(self.weights2[k], self.first, out=self.second)
        self.second.relu_()
        torch.mm(self.stack.w3[k].T, self.second, out=self.taps)
        said = self.taps.reshape(9, self.channels, *self.shape)
        middle = TAPS.index((0, 0))
        raw = said[middle].add_(self.stack.b3[k][:, None, None, None])
        for tap, (here, there) in enumerate(self.windows):
            if tap != middle:
                raw[(slice(None), slice(None), *here)] += said[(tap, slice(None), slice(None), *there)]
        return self.stack.bounds.scale(raw[: self.inner]), raw[self.inner :]


def _window(i: int, j: int, height: int, width: int) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """Where a neighbour at (i, j) exists, and where it is: outside the image it counts as zero."""
    rows, columns = slice(max(0, -i), height - max(0, i)), slice(max(0, -j), width - max(0, j))
    there = slice(max(0, i), height - max(0, -i)), slice(max(0, j), width - max(0, -j))
    return (rows, columns), there
