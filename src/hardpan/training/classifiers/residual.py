"""Residual nets: ResNet for ImageNet and for small images, the thin CIFAR forms, and wide ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hardpan.arguments import real_number, whole_number
from hardpan.errors import InputError
from hardpan.training.classifiers.plain import (
    SMALL_IMAGE,
    ConvNormAct,
    InputShape,
    MeanOverImage,
    convolution,
    require_image_shape,
)

BASIC = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}
BOTTLENECK = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
THIN = (20, 32, 44, 56, 110)
BEGINS_SMALL = 0.2


class Residual(nn.Module):
    """relu(branch(x) + shortcut(x)); the last scale of the branch's normalisations begins at ``begins``.

    A dozen wide branches of full size blow up at the rates of large batches before they have learnt anything;
    beginning at a fifth they do not (Goyal et al., 2017, section 5.1, begin at 0, which also holds the branch's own
    weights back for a while). Shallow and thin nets do without, and learn faster in their first epochs.
    """

    def __init__(self, branch: nn.Module, shortcut: nn.Module, begins: float = 1.0) -> None:
        super().__init__()
        self.branch = branch
        self.shortcut = shortcut
        self._begins = begins

    def forward(self, x: Tensor) -> Tensor:
        """Add what the branch found to what came in."""
        summed: Tensor = self.branch(x) + self.shortcut(x)
        return nn.functional.relu(summed)

    def draw(self, generator: torch.Generator) -> None:
        """Set the last scale of the branch."""
        last = list(self.branch.modules())[-1]
        assert isinstance(last, nn.BatchNorm2d)
        nn.init.constant_(last.weight, self._begins)


class Padding(nn.Module):
    """A shortcut without weights: every second pixel, and zeros for the channels that are new (option A)."""

    def __init__(self, stride: int, new_channels: int) -> None:
        super().__init__()
        self._stride, self._new = stride, new_channels

    def forward(self, x: Tensor) -> Tensor:
        """Thin out the pixels and pad the channels on both sides."""
        thinned = x[:, :, :: self._stride, :: self._stride]
        return nn.functional.pad(thinned, (0, 0, 0, 0, self._new // 2, self._new - self._new // 2))


def resnet(shape: InputShape, n_classes: int, *, layers: int, stem: str = "auto", width: int = 64) -> nn.Module:
    """ResNet of He et al. (2016), 18 to 152 layers; the stride of a bottleneck is in its 3 × 3 convolution.

    Args:
        shape: of one image.
        n_classes: C.
        layers: 18, 34 (two convolutions per block), 50, 101 or 152 (three).
        stem: "imagenet" (7 × 7 of stride 2, pooling), "small" (3 × 3 of stride 1), or "auto": small up to 64.
        width: channels of the first stage.
    """
    name = f"resnet{layers}"
    whole_number("width", width, 1)
    require_image_shape(name, shape, 4)
    widens = 4 if layers in BOTTLENECK else 1
    block = _bottleneck_branch if layers in BOTTLENECK else _basic_branch
    plan: list[nn.Module]
    if uses_small_stem(name, stem, shape):
        plan = [ConvNormAct(shape.channels, width)]
    else:
        plan = [ConvNormAct(shape.channels, width, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = width
    for stage, count in enumerate({**BASIC, **BOTTLENECK}[layers]):
        inner = width * 2**stage
        for number in range(count):
            stride = 2 if stage > 0 and number == 0 else 1
            outputs = widens * inner
            same = stride == 1 and inputs == outputs
            shortcut = nn.Identity() if same else ConvNormAct(inputs, outputs, 1, stride, act=False)
            begins = BEGINS_SMALL if layers in BOTTLENECK else 1.0
            plan.append(Residual(block(inputs, inner, outputs, stride), shortcut, begins))
            inputs = outputs
    return nn.Sequential(*plan, MeanOverImage(), nn.Linear(inputs, n_classes))


def thin_resnet(shape: InputShape, n_classes: int, *, layers: int, width: int = 16) -> nn.Module:
    """The CIFAR form of He et al. (2016, section 4.2): 6n + 2 layers, three stages, shortcuts without weights."""
    require_image_shape(f"resnet{layers}", shape, 4)
    whole_number("width", width, 1)
    plan: list[nn.Module] = [ConvNormAct(shape.channels, width)]
    inputs = width
    for stage in range(3):
        outputs = width * 2**stage
        for number in range((layers - 2) // 6):
            stride = 2 if stage > 0 and number == 0 else 1
            shortcut = nn.Identity() if stride == 1 else Padding(stride, outputs - inputs)
            plan.append(Residual(_basic_branch(inputs, outputs, outputs, stride), shortcut))
            inputs = outputs
    return nn.Sequential(*plan, MeanOverImage(), nn.Linear(inputs, n_classes))


def wide_resnet(shape: InputShape, n_classes: int, *, depth: int, widening: int, dropout: float = 0.0) -> nn.Module:
    """WRN-``depth``-``widening`` of Zagoruyko and Komodakis (2016): rectifiers first, few and wide blocks."""
    name = f"wide-resnet-{depth}-{widening}"
    if depth < 10 or (depth - 4) % 6:
        raise InputError(f"{name}: the depth must be 6n + 4, such as 10, 16, 22, 28, 40; got {depth}")
    whole_number("widening", widening, 1)
    real_number("dropout", dropout, "[0, 1)")
    require_image_shape(name, shape, 4)
    plan: list[nn.Module] = [convolution(shape.channels, 16)]
    inputs = 16
    for stage in range(3):
        outputs = 16 * widening * 2**stage
        for number in range((depth - 4) // 6):
            plan.append(PreActivated(inputs, outputs, 2 if stage > 0 and number == 0 else 1, dropout))
            inputs = outputs
    ending = [nn.BatchNorm2d(inputs), nn.ReLU(inplace=True), MeanOverImage()]
    return nn.Sequential(*plan, *ending, nn.Linear(inputs, n_classes))


class PreActivated(nn.Module):
    """A block whose normalisation and rectifier come before each convolution."""

    def __init__(self, inputs: int, outputs: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.before = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU())
        self.branch = nn.Sequential(
            convolution(inputs, outputs, 3, stride),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            convolution(outputs, outputs),
        )
        same = inputs == outputs and stride == 1
        self.shortcut: nn.Module | None = None if same else convolution(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Add the branch; a shortcut that changes the size starts after the shared rectifier."""
        ready = self.before(x)
        shortcut = x if self.shortcut is None else self.shortcut(ready)
        summed: Tensor = self.branch(ready) + shortcut
        return summed


def _basic_branch(inputs: int, inner: int, outputs: int, stride: int) -> nn.Module:
    return nn.Sequential(ConvNormAct(inputs, inner, 3, stride), ConvNormAct(inner, outputs, act=False))


def _bottleneck_branch(inputs: int, inner: int, outputs: int, stride: int) -> nn.Module:
    return nn.Sequential(
        ConvNormAct(inputs, inner, 1),
        ConvNormAct(inner, inner, 3, stride),
        ConvNormAct(inner, outputs, 1, act=False),
    )


def uses_small_stem(name: str, stem: str, shape: InputShape) -> bool:
    """Whether to begin with one convolution of stride 1 (``stem="small"``) or as for ImageNet; "auto" decides."""
    if stem not in ("auto", "small", "imagenet"):
        raise InputError(f"stem of {name} must be auto, small or imagenet; got {stem!r}")
    return shape.side <= SMALL_IMAGE if stem == "auto" else stem == "small"
