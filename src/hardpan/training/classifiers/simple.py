"""Classifiers that train in seconds: linear, random features, one hidden layer, a small convolutional net."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from hardpan.training.classifiers.parts import (
    ConvNormAct,
    MeanOverImage,
    Shape,
    at_least,
    fraction,
    need_image,
)

PATCH = 6  # side of the random patches, as Coates, Lee and Ng (2011) have it for 32-pixel images


def linear(shape: Shape, n_classes: int) -> nn.Module:
    """Logistic regression on the raw numbers."""
    return nn.Sequential(nn.Flatten(), nn.Linear(shape.numbers, n_classes))


def mlp(shape: Shape, n_classes: int, *, width: int = 500, depth: int = 1, dropout: float = 0.0) -> nn.Module:
    """Dense layers with rectifiers: ``depth`` hidden ones of ``width`` units."""
    at_least("width", width)
    at_least("depth", depth)
    fraction("dropout", dropout)
    layers: list[nn.Module] = [nn.Flatten()]
    inputs = shape.numbers
    for _ in range(depth):
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        layers += [nn.Dropout(dropout)] if dropout else []
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, n_classes))


def convnet(shape: Shape, n_classes: int, *, width: int = 32, dropout: float = 0.0) -> nn.Module:
    """Three stages of convolutions of 1, 2 and 4 × ``width`` channels, average over the image, one dense layer."""
    need_image("convnet", shape, 4)
    at_least("width", width)
    fraction("dropout", dropout)
    return nn.Sequential(
        ConvNormAct(shape.channels, width),
        ConvNormAct(width, width),
        nn.MaxPool2d(2),
        ConvNormAct(width, 2 * width),
        ConvNormAct(2 * width, 2 * width),
        nn.MaxPool2d(2),
        ConvNormAct(2 * width, 4 * width),
        MeanOverImage(),
        nn.Dropout(dropout),
        nn.Linear(4 * width, n_classes),
    )


def random_features(
    shape: Shape, n_classes: int, *, features: int = 1024, scale: float = 1.0, threshold: float = 0.5
) -> nn.Module:
    """A linear classifier on features that are drawn once and never trained.

    Images: convolution with ``features`` random patches, rectified above and below ±``threshold`` and averaged over
    the four quarters of the image (after Coates, Lee and Ng, 2011). Vectors: cos(xᵀw + b), the random Fourier
    features of a Gaussian kernel of width √d / ``scale`` (Rahimi and Recht, 2007).
    """
    at_least("features", features)
    drawn: nn.Module
    if shape.is_image:
        drawn, outputs = RandomPatches(shape, features, threshold), 8 * features
    else:
        drawn, outputs = RandomFourier(shape.channels, features, scale), features
    return nn.Sequential(drawn, nn.BatchNorm1d(outputs, affine=False), nn.Linear(outputs, n_classes))


class RandomFourier(nn.Module):
    """(B, d) to (B, D): √(2/D) cos(xᵀw + b)."""

    directions: Tensor
    phases: Tensor

    def __init__(self, inputs: int, features: int, scale: float) -> None:
        super().__init__()
        self._deviation = scale / math.sqrt(inputs)
        self.register_buffer("directions", torch.zeros(inputs, features))
        self.register_buffer("phases", torch.zeros(features))

    def draw(self, generator: torch.Generator) -> None:
        """Directions from a Gaussian, phases from all angles."""
        self.directions.normal_(0.0, self._deviation, generator=generator)
        self.phases.uniform_(0.0, 2 * math.pi, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """The features of x."""
        return math.sqrt(2.0 / len(self.phases)) * torch.cos(x @ self.directions + self.phases)


class RandomPatches(nn.Module):
    """(B, C, H, W) to (B, 8 D): what each of D random patches answers in each quarter of the image."""

    patches: Tensor

    def __init__(self, shape: Shape, features: int, threshold: float) -> None:
        super().__init__()
        need_image("random-features", shape, 3)
        side = min(PATCH, shape.side // 2 + 1)
        self._threshold = threshold
        self.register_buffer("patches", torch.zeros(features, shape.channels, side, side))

    def draw(self, generator: torch.Generator) -> None:
        """Gaussian patches without a mean, so that brightness does not matter, of length 1."""
        self.patches.normal_(generator=generator)
        self.patches -= self.patches.mean(dim=(1, 2, 3), keepdim=True)
        self.patches /= self.patches.flatten(1).norm(dim=1)[:, None, None, None]

    def forward(self, x: Tensor) -> Tensor:
        """The pooled answers of x."""
        answers = nn.functional.conv2d(x, self.patches)
        above = nn.functional.relu(answers - self._threshold)
        below = nn.functional.relu(-answers - self._threshold)
        half_height, half_width = (answers.shape[2] + 1) // 2, (answers.shape[3] + 1) // 2
        quarters = [
            part[:, :, rows, columns].mean(dim=(2, 3))
            for part in (above, below)
            for rows in (slice(None, half_height), slice(-half_height, None))
            for columns in (slice(None, half_width), slice(-half_width, None))
        ]
        return torch.cat(quarters, dim=1)
