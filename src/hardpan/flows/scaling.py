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

from hardpan.errors import InputError
from hardpan.flows.config import FlowConfig
from hardpan.flows.glow import glow_level_count


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
