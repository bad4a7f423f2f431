"""Classifiers without shortcuts: linear, random features, dense, a small convolutional net, AlexNet, VGG."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from hardpan.arguments import real_number, whole_number
from hardpan.training.classifiers.layers import ConvNormAct, MeanOverImage, Shape, require_image

PATCH = 6  # side of the random patches, as Coates, Lee and Ng (2011) have it for 32-pixel images


def linear(shape: Shape, n_classes: int) -> nn.Module:
    """Logistic regression on the raw numbers."""
    return nn.Sequential(nn.Flatten(), nn.Linear(shape.numbers, n_classes))


def mlp(shape: Shape, n_classes: int, *, width: int = 500, depth: int = 1, dropout: float = 0.0) -> nn.Module:
    """Dense layers with rectifiers: ``depth`` hidden ones of ``width`` units."""
    whole_number("width", width, 1)
    whole_number("depth", depth, 1)
    real_number("dropout", dropout, "[0, 1)")
    layers: list[nn.Module] = [nn.Flatten()]
    inputs = shape.numbers
    for _ in range(depth):
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        layers += [nn.Dropout(dropout)] if dropout else []
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, n_classes))


def convnet(shape: Shape, n_classes: int, *, width: int = 32, dropout: float = 0.0) -> nn.Module:
    """Three stages of convolutions of 1, 2 and 4 × ``width`` channels, average over the image, one dense layer."""
    require_image("convnet", shape, 4)
    whole_number("width", width, 1)
    real_number("dropout", dropout, "[0, 1)")
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
    whole_number("features", features, 1)
    layer: nn.Module
    if shape.is_image:
        layer, outputs = RandomPatches(shape, features, threshold), 8 * features
    else:
        layer, outputs = RandomFourier(shape.channels, features, scale), features
    return nn.Sequential(layer, nn.BatchNorm1d(outputs, affine=False), nn.Linear(outputs, n_classes))


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
        require_image("random-features", shape, 3)
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
            response[:, :, rows, columns].mean(dim=(2, 3))
            for response in (above, below)
            for rows in (slice(None, half_height), slice(-half_height, None))
            for columns in (slice(None, half_width), slice(-half_width, None))
        ]
        return torch.cat(quarters, dim=1)


VGG_BLOCKS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_VGG_WIDTHS = (64, 128, 256, 512, 512)
_VGG_DROPOUT = (0.3, 0.4, 0.4, 0.4, 0.4)  # after the convolutions of each block but its last
_VGG_HEAD_DROPOUT = 0.5


class Unnormalised(nn.Sequential):
    """Layers without normalisation, whose initial weights have to keep the size of the signal by themselves."""

    def draw(self, generator: torch.Generator) -> None:
        """Normal weights of variance 2 / fan-in and biases 0 (He et al., 2015), but for the last layer."""
        layers = [layer for layer in self if isinstance(layer, (nn.Conv2d, nn.Linear))]
        for layer in layers[:-1]:
            nn.init.normal_(layer.weight, 0.0, math.sqrt(2.0 / layer.weight[0].numel()), generator=generator)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)


def alexnet(shape: Shape, n_classes: int, *, dropout: float = 0.5, width: int = 1024) -> nn.Module:
    """AlexNet's five convolutions and two hidden dense layers, at strides that suit small images.

    The first convolution has stride 1 and 5 × 5 pixels (11 × 11 and stride 4 for ImageNet); three overlapping
    poolings take 32 pixels to 4.
    """
    require_image("alexnet", shape, 8, 96)
    whole_number("width", width, 1)
    real_number("dropout", dropout, "[0, 1)")

    def pooling() -> nn.Module:
        return nn.MaxPool2d(3, 2, 1)

    plan: list[nn.Module] = []
    inputs = shape.channels
    for outputs, kernel, pooled in (
        (64, 5, True),
        (192, 5, True),
        (384, 3, False),
        (256, 3, False),
        (256, 3, True),
    ):
        plan += [nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2), nn.ReLU(inplace=True)]
        plan += [pooling()] if pooled else []
        inputs = outputs
    places = _halved(shape.height, 3) * _halved(shape.width, 3)
    return Unnormalised(
        *plan,
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(256 * places, width),
        nn.ReLU(inplace=True),
        nn.Dropout(dropout),
        nn.Linear(width, width),
        nn.ReLU(inplace=True),
        nn.Linear(width, n_classes),
    )


def vgg(shape: Shape, n_classes: int, *, layers: int, dropout: float = 1.0, width: int = 64) -> nn.Module:
    """VGG with batch normalisation and dropout, as used for CIFAR-10; 16 layers are the paper's ``vgg16_keras``.

    Args:
        shape: of one image.
        n_classes: C.
        layers: 11, 13, 16 or 19.
        dropout: factor on all dropout probabilities (0.3 in the first block, 0.4 in the others, 0.5 before the
            dense layers), below 2; 0 for none.
        width: channels of the first block.
    """
    require_image(f"vgg{layers}", shape, 4)
    whole_number("width", width, 1)
    real_number("dropout", dropout, "[0, 2)")
    plan: list[nn.Module] = []
    inputs = shape.channels
    for count, full, chance in zip(VGG_BLOCKS[layers], _VGG_WIDTHS, _VGG_DROPOUT, strict=True):
        outputs = full * width // 64
        for number in range(count):
            plan += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(inplace=True), nn.BatchNorm2d(outputs)]
            plan += [nn.Dropout(dropout * chance)] if number < count - 1 else []
            inputs = outputs
        plan.append(nn.MaxPool2d(2, ceil_mode=True))
    places = _halved(shape.height, 5) * _halved(shape.width, 5)
    return nn.Sequential(
        *plan,
        nn.Flatten(),
        nn.Dropout(dropout * _VGG_HEAD_DROPOUT),
        nn.Linear(inputs * places, inputs),
        nn.ReLU(inplace=True),
        nn.BatchNorm1d(inputs),
        nn.Dropout(dropout * _VGG_HEAD_DROPOUT),
        nn.Linear(inputs, n_classes),
    )


def _halved(side: int, times: int) -> int:
    for _ in range(times):
        side = (side + 1) // 2
    return side
