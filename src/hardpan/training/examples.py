"""Examples on a device: raw values, statistics of the training rows, targets, random crops and flips.

Augmentation shifts an image by up to ``pad`` pixels each way, with black pixels at the edges, and mirrors it with
probability ½. The random numbers of an epoch depend on seed and epoch alone, so they are the same on every device
and after a resume.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from hardpan import arguments
from hardpan.engine.seeds import derived_seed
from hardpan.errors import InputError

LARGEST = 1e37  # differences of such values, and the reciprocal of their spread, are normal float32 numbers
_BLOCK = 4096  # rows at a time where statistics are summed: large sets are not copied to float64 whole


@dataclass(frozen=True, slots=True)
class Normalization:
    """Mean and reciprocal standard deviation of raw values; inputs of a network are (x − mean)·scale.

    Attributes:
        mean: (channels,) of images, (d,) of vectors.
        scale: as ``mean``; 1 where the training rows do not vary.
    """

    mean: NDArray[np.float32]
    scale: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Examples:
    """Raw examples on a device: images (N, H, W, C) or vectors (N, d), unsigned bytes where they were such."""

    raw: Tensor
    mean: Tensor
    scale: Tensor

    @property
    def is_image(self) -> bool:
        """Whether the examples are images."""
        return self.raw.ndim == 4

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input of a network: (C, H, W) or (d,)."""
        return examples_input_shape(self.raw.shape)

    @property
    def normalization(self) -> Normalization:
        """What :meth:`normalize` uses, as it is saved with a model."""
        return Normalization(self.mean.cpu().numpy(), self.scale.cpu().numpy())

    def __len__(self) -> int:
        return len(self.raw)

    def normalize(self, raw: Tensor) -> Tensor:
        """Inputs of a network from raw examples: float32, (B, C, H, W) or (B, d).

        Images are stored with channels last: convolutions are fastest that way, on a CPU too.
        """
        values = (raw.float() - self.mean) * self.scale
        return values.permute(0, 3, 1, 2) if self.is_image else values

    def with_model(self, model: nn.Module) -> nn.Module:
        """Put a model where the examples are, its filters laid out in memory as the images are."""
        model = model.to(self.raw.device)
        return model.to(memory_format=torch.channels_last) if self.is_image else model  # type: ignore[call-overload]


def as_training_examples(x: NDArray[Any], name: str = "x") -> NDArray[Any]:
    """Images as (N, H, W, C) and vectors as (N, d); other shapes, and values beyond float32, are refused.

    Example:
        >>> as_training_examples(np.zeros((5, 8, 8))).shape, as_training_examples(np.zeros((5, 3))).shape
        ((5, 8, 8, 1), (5, 3))
        >>> as_training_examples(np.array([[1.0, 1e300]]))
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: x must hold numbers within ±1e+37 ... row 0 holds 1e+300: rescale the features
    """
    x = np.asarray(x)
    if x.dtype.kind not in "uifb":
        raise InputError(f"must hold numbers; got {x.dtype}", argument=name)
    if x.ndim not in (2, 3, 4) or 0 in x.shape:
        raise InputError(
            f"must be vectors (N, d) or images (N, H, W) or (N, H, W, C); got shape {x.shape}", argument=name
        )
    for start in range(0, len(x), _BLOCK) if x.dtype.kind == "f" and x.dtype.itemsize > 2 else ():
        block = x[start : start + _BLOCK].reshape(len(x[start : start + _BLOCK]), -1)
        far = np.argwhere((np.abs(block) > LARGEST) & np.isfinite(block))  # NaN and infinity: see normalization
        if len(far):
            raise InputError(
                f"must hold numbers within ±{LARGEST:g} (models are trained in single precision); row "
                f"{start + far[0][0]} holds {block[tuple(far[0])]:g}: rescale the features",
                argument=name,
            )
    return x[..., None] if x.ndim == 3 else x


def examples_input_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of one input of a network, from the shape of all examples: channels come first.

    Example:
        >>> examples_input_shape((500, 32, 32, 3)), examples_input_shape((500, 20))
        ((3, 32, 32), (20,))
    """
    return (shape[-1], *shape[1:-1])


def normalization(x: NDArray[Any], rows: NDArray[np.int64] | None = None) -> Normalization:
    """The statistics of training rows: a channel's over all pixels, a feature's over all rows.

    The scale is 1/std with std floored at 1e-6 of the largest, so that a feature that does not vary stays at 0.

    Args:
        x: images (N, H, W, C) or vectors (N, d).
        rows: the rows that count; all where None.

    Example:
        >>> statistics = normalization(np.array([[0.0, 5.0], [2.0, 5.0]]))
        >>> statistics.mean.tolist(), statistics.scale.tolist()
        ([1.0, 5.0], [1.0, 1.0])
    """
    rows = np.arange(len(x)) if rows is None else rows
    axes = tuple(range(x.ndim - 1))
    count = len(rows) * int(np.prod(x.shape[1:-1]))
    total, square = np.zeros(x.shape[-1]), np.zeros(x.shape[-1])
    for start in range(0, len(rows), _BLOCK):
        total += x[rows[start : start + _BLOCK]].astype(np.float64).sum(axis=axes)
    mean = total / count
    for start in range(0, len(rows), _BLOCK):
        square += ((x[rows[start : start + _BLOCK]].astype(np.float64) - mean) ** 2).sum(axis=axes)
    spread = np.sqrt(square / count)
    if not np.isfinite(spread).all():
        raise InputError("must hold finite numbers; some training examples hold NaN or infinity", argument="x")
    varies = spread > 1e-6 * max(float(spread.max()), 1e-300)
    return Normalization(mean.astype(np.float32), np.where(varies, 1 / np.where(varies, spread, 1), 1).astype("f4"))


def examples_on(x: NDArray[Any], statistics: Normalization, device: torch.device) -> Examples:
    """Put raw examples on a device; bytes stay bytes, everything else becomes float32."""
    values = x if x.dtype == np.uint8 else x.astype(np.float32)
    # What other processes share with this one may not be written, and torch wants arrays that may.
    raw = torch.from_numpy(np.require(values, requirements=["C", "W"])).to(device)
    mean, scale = torch.from_numpy(statistics.mean), torch.from_numpy(statistics.scale)
    return Examples(raw, mean.to(device), scale.to(device))


def training_targets(targets: ArrayLike, n: int, n_classes: int | None) -> tuple[NDArray[Any], int]:
    """Targets as class numbers (N,) int64 or probabilities (N, C) float32, and the number of classes."""
    values = np.asarray(targets)
    if values.ndim == 2:
        arguments.probabilities("targets", values, n, n_classes)
        return values.astype(np.float32), values.shape[1]
    labels = arguments.labels("targets", values, n, n_classes)
    return labels, max(n_classes or int(labels.max()) + 1, 2)


@dataclass(frozen=True, slots=True)
class Augmentation:
    """What is done to training images: shifts of up to ``pad`` pixels, and mirror images."""

    pad: int = 0
    flip: bool = False

    def __bool__(self) -> bool:
        return self.pad > 0 or self.flip


def choose_augmentation(name: str, input_shape: tuple[int, ...]) -> Augmentation:
    """Choose for examples of a shape: shifts of an eighth of the height for colour, a sixteenth for grey images.

    Left to itself it does nothing to images so small that this is less than a pixel.

    Args:
        name: ``auto``, ``none``, ``crop`` or ``crop-flip``.
        input_shape: (C, H, W) or (d,).

    Example:
        >>> choose_augmentation("auto", (3, 32, 32)), choose_augmentation("auto", (1, 28, 28))
        (Augmentation(pad=4, flip=True), Augmentation(pad=2, flip=False))
        >>> choose_augmentation("auto", (20,))
        Augmentation(pad=0, flip=False)
    """
    if name == "none" or len(input_shape) != 3:
        return Augmentation()
    channels, height, _ = input_shape
    colour = channels >= 3
    pad = round(height / (8 if colour else 16))
    return Augmentation(pad if name == "auto" else max(1, pad), name == "crop-flip" or (name == "auto" and colour))


def crop_draws(augmentation: Augmentation, n: int, seed: int, epoch: int) -> Tensor:
    """(n, 3) whole numbers for an epoch: shift down, shift right (−pad..pad), mirror (0 or 1)."""
    generator = torch.Generator().manual_seed(derived_seed(seed, "augment", epoch))
    pad = augmentation.pad
    shifts = torch.randint(-pad, pad + 1, (n, 2), generator=generator)
    mirrored = torch.randint(0, 2, (n, 1), generator=generator) * int(augmentation.flip)
    return torch.cat([shifts, mirrored], dim=1)


def crop_images(raw: Tensor, rows: Tensor, crops: Tensor) -> Tensor:
    """Take images by row number, shifted and mirrored as drawn.

    Args:
        raw: (N, H, W, C).
        rows: (B,) row numbers.
        crops: (B, 3) as :func:`crop_draws` gives them.

    Returns:
        (B, H, W, C) of the same type.

    Example:
        >>> image = torch.arange(6).reshape(1, 2, 3, 1)
        >>> crop_images(image, torch.tensor([0]), torch.tensor([[0, 1, 0]]))[0, :, :, 0].tolist()
        [[1, 2, 0], [4, 5, 0]]
        >>> crop_images(image, torch.tensor([0]), torch.tensor([[0, 0, 1]]))[0, :, :, 0].tolist()
        [[2, 1, 0], [5, 4, 3]]
    """
    height, width = raw.shape[1:3]
    down = torch.arange(height, device=raw.device) + crops[:, 0:1]
    across = torch.arange(width, device=raw.device)
    across = torch.where(crops[:, 2:3] > 0, width - 1 - across, across) + crops[:, 1:2]
    inside = ((down >= 0) & (down < height))[:, :, None] & ((across >= 0) & (across < width))[:, None, :]
    down, across = down.clamp(0, height - 1), across.clamp(0, width - 1)
    taken = raw[rows[:, None, None], down[:, :, None], across[:, None, :]]
    return taken * inside[..., None].to(raw.dtype)
