"""What several classifiers are made of: the shape of the input, usual layers, and initial weights from a seed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hardpan.errors import InputError

SMALL_IMAGE = 64  # up to this many pixels a side, a stem that halves the image twice throws too much away


@dataclass(frozen=True, slots=True)
class InputShape:
    """InputShape of one example: (C, H, W) of images, or (d,) of vectors, for which height and width are 0."""

    channels: int
    height: int = 0
    width: int = 0

    @property
    def is_image(self) -> bool:
        """Whether the examples are images."""
        return self.height > 0

    @property
    def numbers(self) -> int:
        """How many numbers an example has."""
        return self.channels * max(self.height, 1) * max(self.width, 1)

    @property
    def side(self) -> int:
        """The shorter side of an image."""
        return min(self.height, self.width)

    def __str__(self) -> str:
        return f"({self.channels}, {self.height}, {self.width})" if self.is_image else f"({self.channels},)"


def require_image_shape(name: str, shape: InputShape, smallest: int = 1, largest: int = 1 << 30) -> None:
    """Refuse vectors, and images that the network called ``name`` cannot take."""
    if not shape.is_image:
        raise InputError(f"{name} takes images (C, H, W) and input_shape is {shape}; use linear or mlp")
    if shape.side < smallest:
        raise InputError(
            f"{name} needs images of at least {smallest} × {smallest} pixels; input_shape is {shape}; "
            "use convnet, or enlarge the images"
        )
    if max(shape.height, shape.width) > largest:
        raise InputError(
            f"{name} takes images of at most {largest} × {largest} pixels; input_shape is {shape}; "
            "use resnet18, or shrink the images"
        )


def convolution(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the size of the image but for its stride."""
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class ConvNormAct(nn.Sequential):
    """Convolution, batch normalisation, and a rectifier unless ``act`` is False."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, *, act: bool = True) -> None:
        layers = [convolution(inputs, outputs, kernel, stride), nn.BatchNorm2d(outputs)]
        super().__init__(*layers, *([nn.ReLU(inplace=True)] if act else []))


class MeanOverImage(nn.Module):
    """(B, C, H, W) to (B, C)."""

    def forward(self, x: Tensor) -> Tensor:
        """Average over the pixels."""
        return x.mean(dim=(2, 3))


def draw_initial_weights(model: nn.Module, generator: torch.Generator) -> None:
    """Give memory to a model that was made on the device "meta", and draw its weights from ``generator``.

    So the seed alone decides the weights, also among threads, and nothing draws from torch's own generator.

    Convolutions: normal with variance 2 / fan-out (He et al. 2015); dense layers: uniform in ±1/√fan-in;
    normalisations: 1 and 0. A module with weights of its own kind has a method ``draw(generator)``.
    """
    model.to_empty(device="cpu")
    for tensor in model.state_dict().values():
        tensor.fill_(math.nan if tensor.is_floating_point() else 0)  # a weight that was forgotten will show
    for module in reversed(list(model.modules())):  # the whole after its parts, which it may draw differently
        if isinstance(module, nn.Conv2d):
            fan_out = module.out_channels * math.prod(module.kernel_size) // module.groups
            nn.init.normal_(module.weight, 0.0, math.sqrt(2.0 / fan_out), generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            bound = 1.0 / math.sqrt(module.in_features)
            nn.init.uniform_(module.weight, -bound, bound, generator=generator)
            if module.bias is not None:
                nn.init.uniform_(module.bias, -bound, bound, generator=generator)
        elif isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            module.reset_running_stats()
            module.reset_parameters()
        draw = getattr(module, "draw", None)
        if draw is not None:
            draw(generator)
