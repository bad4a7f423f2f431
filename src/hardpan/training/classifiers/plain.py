"""Classifiers without shortcuts (linear, dense, convolutional, AlexNet, VGG) and layers of all networks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hardpan.arguments import real_number, whole_number
from hardpan.errors import InputError

SMALL_IMAGE = 64  # up to this many pixels a side, a stem that halves the image twice throws too much away


@dataclass(frozen=True, slots=True)
class InputShape:
    """Shape of one example: (C, H, W) of images, or (d,) of vectors, for which height and width are 0."""

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


def linear(shape: InputShape, n_classes: int) -> nn.Module:
    """Logistic regression on the raw numbers."""
    return nn.Sequential(nn.Flatten(), nn.Linear(shape.numbers, n_classes))


def mlp(shape: InputShape, n_classes: int, *, width: int = 500, depth: int = 1, dropout: float = 0.0) -> nn.Module:
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


def convnet(shape: InputShape, n_classes: int, *, width: int = 32, dropout: float = 0.0) -> nn.Module:
    """Three stages of convolutions of 1, 2 and 4 × ``width`` channels, average over the image, one dense layer."""
    require_image_shape("convnet", shape, 4)
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


VGG_BLOCKS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_VGG_WIDTHS = (64, 128, 256, 512, 512)
_VGG_DROPOUT = (0.3, 0.4, 0.4, 0.4, 0.4)  # after the convolutions of each block but its last
_VGG_HEAD_DROPOUT = 0.5


class PlainNet(nn.Sequential):
    """Layers without normalisation, whose initial weights have to keep the size of the signal by themselves."""

    def draw(self, generator: torch.Generator) -> None:
        """Normal weights of variance 2 / fan-in and biases 0 (He et al., 2015), but for the last layer."""
        layers = [layer for layer in self if isinstance(layer, (nn.Conv2d, nn.Linear))]
        for layer in layers[:-1]:
            nn.init.normal_(layer.weight, 0.0, math.sqrt(2.0 / layer.weight[0].numel()), generator=generator)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)


def alexnet(shape: InputShape, n_classes: int, *, dropout: float = 0.5, width: int = 1024) -> nn.Module:
    """AlexNet's five convolutions and two hidden dense layers, at strides that suit small images.

    The first convolution has stride 1 and 5 × 5 pixels (11 × 11 and stride 4 for ImageNet); three overlapping
    poolings take 32 pixels to 4.
    """
    require_image_shape("alexnet", shape, 8, 96)
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
    places = _pooled_side_of_plain_net(shape.height, 3) * _pooled_side_of_plain_net(shape.width, 3)
    return PlainNet(
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


def vgg(shape: InputShape, n_classes: int, *, layers: int, dropout: float = 1.0, width: int = 64) -> nn.Module:
    """VGG with batch normalisation and dropout, as used for CIFAR-10; 16 layers are the paper's ``vgg16_keras``.

    Args:
        shape: of one image.
        n_classes: C.
        layers: 11, 13, 16 or 19.
        dropout: factor on all dropout probabilities (0.3 in the first block, 0.4 in the others, 0.5 before the
            dense layers), below 2; 0 for none.
        width: channels of the first block.
    """
    require_image_shape(f"vgg{layers}", shape, 4)
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
    places = _pooled_side_of_plain_net(shape.height, 5) * _pooled_side_of_plain_net(shape.width, 5)
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


def _pooled_side_of_plain_net(side: int, times: int) -> int:
    for _ in range(times):
        side = (side + 1) // 2
    return side
