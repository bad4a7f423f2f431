"""RegNet-Y of Radosavovic et al. (2020): widths from a rounded line, grouped bottlenecks, squeeze-excite."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor, nn

from hardpan.training.classifiers.parts import ConvNormAct, MeanOverImage, Shape, need_image, wants_small_stem
from hardpan.training.classifiers.residual import BEGINS_SMALL, Residual

_QUANTUM = 8
_STEM_WIDTH = 32
_SQUEEZE = 0.25


@dataclass(frozen=True, slots=True)
class Design:
    """The five numbers of a RegNet: depth, initial width, slope, quantisation, and channels a group."""

    depth: int
    initial: int
    slope: float
    quantised: float
    group: int

    def stages(self) -> list[tuple[int, int]]:
        """(width, number of blocks) of each stage.

        Width u_j = initial + slope · j is rounded to the nearest initial · quantised^s for whole s, and then to a
        multiple of 8; blocks of equal width are a stage, whose width must be a multiple of its group.

        Example:
            >>> DESIGNS["400mf"].stages()
            [(48, 1), (104, 3), (208, 6), (440, 6)]
        """
        counts: dict[int, int] = {}
        for block in range(self.depth):
            power = round(math.log((self.initial + self.slope * block) / self.initial) / math.log(self.quantised))
            width = round(self.initial * self.quantised**power / _QUANTUM) * _QUANTUM
            counts[width] = counts.get(width, 0) + 1
        stages = []
        for width, count in counts.items():
            group = min(self.group, width)
            stages.append((max(round(width / group), 1) * group, count))
        return stages


DESIGNS = {
    "200mf": Design(13, 24, 36.44, 2.49, 8),
    "400mf": Design(16, 48, 27.89, 2.09, 8),
    "800mf": Design(14, 56, 38.84, 2.4, 16),
    "1.6gf": Design(27, 48, 20.71, 2.65, 24),
    "3.2gf": Design(21, 80, 42.63, 2.66, 24),
    "8gf": Design(17, 192, 76.82, 2.19, 56),
}


class SqueezeExcite(nn.Module):
    """Scale each channel by a number in (0, 1) computed from the averages of all."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.weigh = nn.Sequential(
            nn.Conv2d(channels, squeezed, 1), nn.ReLU(), nn.Conv2d(squeezed, channels, 1), nn.Sigmoid()
        )

    def forward(self, x: Tensor) -> Tensor:
        """Weigh the channels of x."""
        scaled: Tensor = x * self.weigh(x.mean(dim=(2, 3), keepdim=True))
        return scaled


def regnet_y(shape: Shape, n_classes: int, *, size: str, stem: str = "auto") -> nn.Module:
    """RegNet-Y of a named size; ``stem`` "small" keeps the first pixels, "imagenet" halves them, "auto" decides."""
    name = f"regnet-y-{size}"
    need_image(name, shape, 8)
    design = DESIGNS[size]
    small = wants_small_stem(name, stem, shape)
    plan: list[nn.Module] = [ConvNormAct(shape.channels, _STEM_WIDTH, 3, 1 if small else 2)]
    inputs = _STEM_WIDTH
    for stage, (width, count) in enumerate(design.stages()):
        for number in range(count):
            # A small image keeps its pixels through the first stage, as it does in a ResNet.
            stride = 2 if number == 0 and not (small and stage == 0) else 1
            plan.append(_block(inputs, width, stride, design.group))
            inputs = width
    return nn.Sequential(*plan, MeanOverImage(), nn.Linear(inputs, n_classes))


def _block(inputs: int, width: int, stride: int, group: int) -> Residual:
    branch = nn.Sequential(
        ConvNormAct(inputs, width, 1),
        ConvNormAct(width, width, 3, stride, groups=width // min(group, width)),
        SqueezeExcite(width, round(_SQUEEZE * inputs)),
        ConvNormAct(width, width, 1, act=False),
    )
    same = stride == 1 and inputs == width
    shortcut = nn.Identity() if same else ConvNormAct(inputs, width, 1, stride, act=False)
    return Residual(branch, shortcut, BEGINS_SMALL)
