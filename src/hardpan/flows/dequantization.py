"""Variational dequantisation (Ho et al. 2019): noise for integer images whose distribution is learned.

An integer image x stands for the cell x + [0, 1)^d. For any density q(u | x) on the cell,

    log P(x) = log ∫ p(x + u) du ≥ E_q[log p(x + u) − log q(u | x)],

with equality where q is the flow's own density within the cell. Uniform noise is q = 1. Here
u = sigmoid(T(ε; x)) with ε logistic and T affine couplings that see the image, so that q starts as uniform noise.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from hardpan.flows.glow import squeeze, unsqueeze

EDGE = 1e-6  # uniform noise keeps this distance from 0 and 1
LIMIT = 3.0  # log scales of a coupling lie in (−3, 3)


class Dequantizer(nn.Module):
    """The density q(u | x) of noise within the cells of images (B, H, W, C).

    Args:
        channels: C.
        width: channels of the hidden layers.
        seed: of the first weights.
    """

    masks: Tensor

    def __init__(self, channels: int, width: int, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        size = 4 * channels
        number = torch.arange(size)
        halves = [number < size // 2, number >= size // 2, number % 2 == 0, number % 2 == 1]
        self.register_buffer("masks", torch.stack(halves).float(), persistent=False)
        self.context = nn.ParameterList(
            [
                _kernel(width, size, 3, generator),
                _kernel(width, width, 3, generator),
                _kernel(width, width, 3, generator),
            ]
        )
        self.first = nn.ParameterList(_kernel(width, size + width, 3, generator) for _ in halves)
        self.second = nn.ParameterList(_kernel(width, width, 1, generator) for _ in halves)
        self.last = nn.ParameterList(nn.Parameter(torch.zeros(2 * size, width, 3, 3)) for _ in halves)
        self.biases = nn.Parameter(torch.zeros(3 + 2 * len(halves), width))
        self.last_biases = nn.Parameter(torch.zeros(len(halves), 2 * size))
        self.precision = torch.float32

    def forward(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Noise u (B, H, W, C) for images x, and log q(u | x) (B,), from uniform noise (B, H, W, C)."""
        context = self._context(squeeze(x).permute(0, 3, 1, 2))
        uniform = squeeze(noise).permute(0, 3, 1, 2).clamp(EDGE, 1 - EDGE)
        value = torch.log(uniform) - torch.log1p(-uniform)
        log_q = -_log_slope(value)
        for k, mask in enumerate(self.masks[:, :, None, None]):
            scale, shift = self._coupling(k, value * mask, context).chunk(2, 1)
            log_scale = (1 - mask) * LIMIT * torch.tanh(scale / LIMIT)
            value = value * torch.exp(log_scale) + (1 - mask) * shift
            log_q = log_q - log_scale
        log_q = log_q + _log_slope(value)
        return unsqueeze(torch.sigmoid(value).permute(0, 2, 3, 1)), log_q.sum((1, 2, 3))

    def _context(self, x: Tensor) -> Tensor:
        hidden = self._hidden(x.to(self.precision), self.context[0], 0)
        for k in (1, 2):
            hidden = hidden + self._hidden(hidden, self.context[k], k)
        return hidden

    def _coupling(self, k: int, kept: Tensor, context: Tensor) -> Tensor:
        hidden = self._hidden(torch.cat([kept.to(self.precision), context], 1), self.first[k], 3 + 2 * k)
        hidden = self._hidden(hidden, self.second[k], 4 + 2 * k)
        raw = functional.conv2d(hidden, self.last[k].to(self.precision), padding=1)
        return raw.to(self.last_biases.dtype) + self.last_biases[k][:, None, None]

    def _hidden(self, x: Tensor, weight: Tensor, number: int) -> Tensor:
        bias = self.biases[number].to(self.precision)
        return torch.relu(functional.conv2d(x, weight.to(self.precision), bias, padding=weight.shape[-1] // 2))


def _log_slope(value: Tensor) -> Tensor:
    """−log of the derivative of the sigmoid: |v| + 2 log(1 + exp(−|v|))."""
    return value.abs() + 2 * torch.log1p(torch.exp(-value.abs()))


def _kernel(outputs: int, inputs: int, size: int, generator: torch.Generator) -> nn.Parameter:
    deviation = (2 / (inputs * size * size)) ** 0.5
    return nn.Parameter(torch.randn(outputs, inputs, size, size, generator=generator) * deviation)
