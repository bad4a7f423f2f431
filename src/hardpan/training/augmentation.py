"""Random crops and flips on the device: the draws of an epoch are made at once, and a batch is one gather.

An example of H × W pixels is shifted by up to ``pad`` pixels each way, black pixels coming in at the edges, and
mirrored with probability ½. Draws depend on seed and epoch alone, so they are the same on every device and after a
resume.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hardpan.engine import derived_seed


@dataclass(frozen=True, slots=True)
class Augmentation:
    """What is done to training images: shifts of up to ``pad`` pixels, and mirror images."""

    pad: int = 0
    flip: bool = False

    @property
    def active(self) -> bool:
        """Whether anything is done."""
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


def draws(augmentation: Augmentation, n: int, seed: int, epoch: int) -> Tensor:
    """Give (n, 3) whole numbers for an epoch: shift down, shift right (−pad..pad), mirror (0 or 1)."""
    generator = torch.Generator().manual_seed(derived_seed(seed, "augment", epoch))
    pad = augmentation.pad
    shifts = torch.randint(-pad, pad + 1, (n, 2), generator=generator)
    mirrored = torch.randint(0, 2, (n, 1), generator=generator) * int(augmentation.flip)
    return torch.cat([shifts, mirrored], dim=1)


def gather(raw: Tensor, rows: Tensor, drawn: Tensor) -> Tensor:
    """Take images by row number, shifted and mirrored as drawn.

    Args:
        raw: (N, H, W, C).
        rows: (B,) row numbers.
        drawn: (B, 3) as :func:`draws` gives them.

    Returns:
        (B, H, W, C) of the same type.

    Example:
        >>> image = torch.arange(6).reshape(1, 2, 3, 1)
        >>> gather(image, torch.tensor([0]), torch.tensor([[0, 1, 0]]))[0, :, :, 0].tolist()
        [[1, 2, 0], [4, 5, 0]]
        >>> gather(image, torch.tensor([0]), torch.tensor([[0, 0, 1]]))[0, :, :, 0].tolist()
        [[2, 1, 0], [5, 4, 3]]
    """
    height, width = raw.shape[1:3]
    down = torch.arange(height, device=raw.device) + drawn[:, 0:1]
    across = torch.arange(width, device=raw.device)
    across = torch.where(drawn[:, 2:3] > 0, width - 1 - across, across) + drawn[:, 1:2]
    inside = ((down >= 0) & (down < height))[:, :, None] & ((across >= 0) & (across < width))[:, None, :]
    down, across = down.clamp(0, height - 1), across.clamp(0, width - 1)
    taken = raw[rows[:, None, None], down[:, :, None], across[:, None, :]]
    return taken * inside[..., None].to(raw.dtype)
