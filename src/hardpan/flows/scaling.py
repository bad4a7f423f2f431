"""From data to what a flow's network sees and back: padding, dequantisation, standardisation.

The unit of every density is the data's own: one grey level for integer data, one unit of each feature for floats.
Integers k stand for the interval [k, k + 1): they become k + u with u uniform, so that the mean of −log p(k + u) is
an upper bound of the discrete −log P(k). For 8-bit images this is the usual "256-level" scale. Data of other levels
(17 in scikit-learn's digits) is measured in its own levels; 256-level numbers would be larger by d·log(256/levels).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from hardpan.errors import InputError
from hardpan.flows.config import FlowConfig
from hardpan.flows.glow import glow_level_count, glow_squeeze, glow_unsqueeze

EDGE = 1e-6  # uniform noise keeps this distance from 0 and 1
LIMIT = 3.0  # log scales of a coupling lie in (−3, 3)


class ImageScaling(nn.Module):
    """Images (N, H, W) or (N, H, W, C) in 0..levels, padded around with zeros, as numbers in [-0.5, 0.5].

    Args:
        shape: (H, W) or (H, W, C) of the data.
        padded: (H', W') of what the flow sees.
        levels: grey levels.
        depth: how many levels a Glow on it has; H' and W' are multiples of 2^depth.
    """

    def __init__(self, shape: tuple[int, ...], padded: tuple[int, int], levels: int, depth: int) -> None:
        super().__init__()
        self.data_shape, self.levels, self.depth = shape, levels, depth
        self.sample_shape = (*padded, *shape[2:])
        self.net_shape = (*padded, shape[2] if len(shape) == 3 else 1)
        self.dimension = int(np.prod(self.net_shape))

    def padded(self, x: NDArray[Any]) -> NDArray[Any]:
        """(N, H, W[, C]) or already padded -> (N, H', W', C)."""
        if x.shape[1:] not in (self.data_shape, self.sample_shape):
            raise InputError(
                f"must hold images of shape {self.data_shape} or, padded, {self.sample_shape}; got {x.shape[1:]}",
                argument="x",
            )
        if x.ndim == 3:
            x = x[..., None]
        rows, columns = (self.net_shape[i] - x.shape[1 + i] for i in (0, 1))
        widths = ((0, 0), (rows // 2, rows - rows // 2), (columns // 2, columns - columns // 2), (0, 0))
        return np.pad(x, widths) if rows or columns else x

    def continuous(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float32]:
        """Padded images as floats in level units; integers, and the padding of float images, get their noise."""
        ready = self.padded(x)
        if not np.issubdtype(x.dtype, np.floating):
            return np.asarray(ready + rng.random(ready.shape), dtype=np.float32)
        if x.shape[1:] == self.sample_shape:
            return np.asarray(ready, dtype=np.float32)
        outside = self.padded(np.ones((1, *self.data_shape), dtype=bool))[0] == 0
        return np.asarray(ready + rng.random(ready.shape) * outside, dtype=np.float32)

    def to_net(self, x: Tensor) -> Tensor:
        """Level units to what the network sees."""
        return x / self.levels - 0.5

    def log_det(self) -> float:
        """log |det| of :meth:`to_net`."""
        return -self.dimension * float(np.log(self.levels))

    def from_net(self, x: Tensor) -> Tensor:
        """Undo :meth:`to_net`, in the shape of samples."""
        return ((x + 0.5) * self.levels).reshape(-1, *self.sample_shape)


class VectorScaling(nn.Module):
    """Vectors (N, d), standardised by the training rows; features that are constant there are left out.

    A constant feature says nothing about the class and has no density: its value comes back in samples, and what a
    row holds there is not looked at.

    Args:
        centre: (d,).
        spread: (d,), 0 where a feature is constant.
        integers: whether the data is whole numbers, which are dequantised.
    """

    levels = None
    centre: Tensor
    spread: Tensor
    used: Tensor

    def __init__(self, centre: Tensor, spread: Tensor, integers: bool = False) -> None:
        super().__init__()
        self.register_buffer("centre", centre.float())
        self.register_buffer("spread", spread.float())
        self.integers = integers
        self.data_shape = self.sample_shape = (len(centre),)
        self.register_buffer("used", torch.nonzero(spread > 0)[:, 0], persistent=False)
        self.dimension = len(self.used)
        self.net_shape = (self.dimension,)

    def continuous(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float32]:
        """The features in use as floats; whole numbers get their noise."""
        if x.shape[1:] != self.data_shape:
            raise InputError(f"must hold vectors of length {self.data_shape[0]}; got shape {x.shape}", argument="x")
        noise = rng.random(x.shape) if not np.issubdtype(x.dtype, np.floating) else 0.0
        return np.asarray(self.used_columns(x + noise), dtype=np.float32)

    def used_columns(self, x: NDArray[Any]) -> NDArray[Any]:
        """The columns in use."""
        columns = np.asarray(self.used.cpu().numpy())
        return np.asarray(x[:, columns])

    def to_net(self, x: Tensor) -> Tensor:
        """Standardise."""
        return (x - self.centre[self.used]) / self.spread[self.used]

    def log_det(self) -> Tensor:
        """log |det| of :meth:`to_net`."""
        return -torch.log(self.spread[self.used]).sum()

    def from_net(self, x: Tensor) -> Tensor:
        """Undo :meth:`to_net`, constant features included."""
        whole = self.centre.expand(len(x), -1).clone()
        whole[:, self.used] = x * self.spread[self.used] + self.centre[self.used]
        return whole


class Dequantizer(nn.Module):
    """The density q(u | x) of noise within the cells of images (B, H, W, C): variational dequantisation.

    An integer image x stands for the cell x + [0, 1)^d. For any density q(u | x) on the cell,

        log P(x) = log ∫ p(x + u) du ≥ E_q[log p(x + u) − log q(u | x)],

    with equality where q is the flow's own density within the cell. Uniform noise is q = 1. Here
    u = sigmoid(T(ε; x)) with ε logistic and T affine couplings that see the image, so that q starts as uniform
    noise.

    Source: Ho et al. (2019).

    Args:
        channels: C.
        width: channels of the hidden layers.
        seed: of the first weights.
    """

    masks: Tensor

    def __init__(self, channels: int, width: int, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)

        def kernel(outputs: int, inputs: int, size: int = 3) -> nn.Parameter:
            deviation = (2 / (inputs * size * size)) ** 0.5
            return nn.Parameter(torch.randn(outputs, inputs, size, size, generator=generator) * deviation)

        size = 4 * channels
        number = torch.arange(size)
        halves = [number < size // 2, number >= size // 2, number % 2 == 0, number % 2 == 1]
        self.register_buffer("masks", torch.stack(halves).float(), persistent=False)
        self.context = nn.ParameterList([kernel(width, size), kernel(width, width), kernel(width, width)])
        self.first = nn.ParameterList(kernel(width, size + width) for _ in halves)
        self.second = nn.ParameterList(kernel(width, width, 1) for _ in halves)
        self.last = nn.ParameterList(nn.Parameter(torch.zeros(2 * size, width, 3, 3)) for _ in halves)
        self.biases = nn.Parameter(torch.zeros(3 + 2 * len(halves), width))
        self.last_biases = nn.Parameter(torch.zeros(len(halves), 2 * size))
        self.precision = torch.float32

    def forward(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Noise u (B, H, W, C) for images x, and log q(u | x) (B,), from uniform noise (B, H, W, C)."""

        def log_slope(value: Tensor) -> Tensor:  # −log of the derivative of the sigmoid
            return value.abs() + 2 * torch.log1p(torch.exp(-value.abs()))

        context = self._context_layers(glow_squeeze(x).permute(0, 3, 1, 2))
        uniform = glow_squeeze(noise).permute(0, 3, 1, 2).clamp(EDGE, 1 - EDGE)
        value = torch.log(uniform) - torch.log1p(-uniform)
        log_q = -log_slope(value)
        for k, mask in enumerate(self.masks[:, :, None, None]):
            scale, shift = self._coupling_layer(k, value * mask, context).chunk(2, 1)
            log_scale = (1 - mask) * LIMIT * torch.tanh(scale / LIMIT)
            value = value * torch.exp(log_scale) + (1 - mask) * shift
            log_q = log_q - log_scale
        log_q = log_q + log_slope(value)
        return glow_unsqueeze(torch.sigmoid(value).permute(0, 2, 3, 1)), log_q.sum((1, 2, 3))

    def _context_layers(self, x: Tensor) -> Tensor:
        hidden = self._hidden_layer(x.to(self.precision), self.context[0], 0)
        for k in (1, 2):
            hidden = hidden + self._hidden_layer(hidden, self.context[k], k)
        return hidden

    def _coupling_layer(self, k: int, kept: Tensor, context: Tensor) -> Tensor:
        hidden = self._hidden_layer(torch.cat([kept.to(self.precision), context], 1), self.first[k], 3 + 2 * k)
        hidden = self._hidden_layer(hidden, self.second[k], 4 + 2 * k)
        raw = functional.conv2d(hidden, self.last[k].to(self.precision), padding=1)
        return raw.to(self.last_biases.dtype) + self.last_biases[k][:, None, None]

    def _hidden_layer(self, x: Tensor, weight: Tensor, number: int) -> Tensor:
        bias = self.biases[number].to(self.precision)
        return torch.relu(functional.conv2d(x, weight.to(self.precision), bias, padding=weight.shape[-1] // 2))


Scaling = ImageScaling | VectorScaling


def grey_levels_of(x: NDArray[Any], levels: int | None) -> int:
    """Grey levels of images: as stated, or 256, or one more than the largest value where that is below 128.

    Float images within 0..1 count as one level: their unit is their whole range.

    Example:
        >>> [grey_levels_of(np.array([value], dtype=np.uint8), None) for value in (16, 200)]
        [17, 256]
    """
    low, high = float(x.min()), float(x.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise InputError("x has NaN or infinite values; remove those rows")
    integers = not np.issubdtype(x.dtype, np.floating)
    if levels is None:
        levels = int(np.floor(high)) + 1 if high < 128 else 256
        levels = max(levels, 2) if integers or high > 1 else 1
    if integers and (low < 0 or high > levels - 1):
        raise InputError(f"must exceed the values of x, {low:g} to {high:g}; got {levels}", argument="grey_levels")
    return levels


def quantize_to_bytes(x: NDArray[np.floating], levels: int) -> NDArray[np.uint8]:
    """Images in level units as bytes: level k stands for [k, k + 1); images of one level (0..1) get 256.

    Example:
        >>> quantize_to_bytes(np.array([-0.2, 0.0, 3.999, 300.0]), 256).tolist()
        [0, 0, 3, 255]
        >>> quantize_to_bytes(np.array([0.5]), 1).tolist()
        [128]
    """
    scale, top = (256, 255) if levels == 1 else (1, levels - 1)
    if levels > 256:
        raise InputError(f"images of {levels} levels do not fit into 8 bits; use format npz")
    return np.asarray(np.clip(np.floor(x * scale), 0, top), dtype=np.uint8)


def vector_scaling(x: NDArray[Any]) -> VectorScaling:
    """The standardisation of training rows (N, d).

    Example:
        >>> scaling = vector_scaling(np.array([[0.0, 5.0, 1.0], [2.0, 5.0, 3.0]]))
        >>> scaling.used.tolist(), scaling.spread.tolist()
        ([0, 2], [1.0, 0.0, 1.0])
    """
    integers = not np.issubdtype(x.dtype, np.floating)
    wide = x.astype(np.float64)
    if not np.isfinite(wide).all():
        raise InputError("x has NaN or infinite values; remove those rows")
    centre, spread = wide.mean(0), wide.std(0)
    # Rounding gives a constant feature a spread of about 1e-16 of its size.
    spread[spread <= 1e-7 * np.maximum(np.abs(centre), 1e-30)] = 0.0
    if not (spread > 0).any():
        raise InputError("every feature of x is constant; there is no density to learn")
    if integers:
        centre = np.where(spread > 0, centre + 0.5, centre)
        spread = np.where(spread > 0, np.sqrt(spread**2 + 1 / 12), 0.0)
    return VectorScaling(torch.from_numpy(centre), torch.from_numpy(spread), integers)


def scaling_for(x: NDArray[Any], config: FlowConfig) -> Scaling:
    """The scaling that training rows ask for."""
    if x.ndim not in (2, 3, 4) or 0 in x.shape:
        raise InputError(
            f"must be images (N, H, W), (N, H, W, C) or vectors (N, d); got shape {x.shape}", argument="x"
        )
    if x.ndim == 2:
        return vector_scaling(x)
    # The top level must be whole: sides become multiples of 2^L, L made smaller for small images.
    sides = [max(config.pad_to or 0, side) for side in x.shape[1:3]]
    depth = glow_level_count(sides, config.levels or 1)
    rows, columns = (-(-side // 2**depth) * 2**depth for side in sides)
    return ImageScaling(x.shape[1:], (rows, columns), grey_levels_of(x, config.grey_levels), depth)


def rebuild_scaling(description: dict[str, Any]) -> Scaling:
    """Make the scaling that :func:`describe_scaling` described; vectors' numbers come with the weights."""
    if description["data"] == "image":
        height, width = description["padded"]
        shape, levels, depth = tuple(description["shape"]), int(description["levels"]), int(description["depth"])
        return ImageScaling(shape, (height, width), levels, depth)
    spread = torch.ones(description["shape"][0])
    spread[list(description["constant"])] = 0.0
    return VectorScaling(torch.zeros(len(spread)), spread, bool(description["integers"]))


def describe_scaling(scaling: Scaling) -> dict[str, Any]:
    """The plain values that make a scaling again."""
    if isinstance(scaling, ImageScaling):
        return {
            "data": "image",
            "shape": tuple(scaling.data_shape),
            "padded": tuple(scaling.net_shape[:2]),
            "levels": scaling.levels,
            "depth": scaling.depth,
        }
    constant = tuple(torch.nonzero(scaling.spread <= 0)[:, 0].tolist())
    return {
        "data": "vector",
        "shape": tuple(scaling.data_shape),
        "constant": constant,
        "integers": scaling.integers,
    }
