"""Where names of points and lines go, so that no name is written over another, over a point or over a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LETTER, LINE = 6.8, 14.0  # pixels: a letter's mean width and a line's height, for text of 12 pixels
_ASIDE, _FIRST = 7, 10  # pixels from a point to its name, across and down
_LEVELS = 8
_POINT = 5.0


@dataclass(frozen=True, slots=True)
class Placed:
    """How a name is set from its point: the side it lies on, and the offset in pixels (down is positive)."""

    align: Literal["left", "right"]
    dx: int
    dy: int


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels; y grows downwards."""

    left: float
    right: float
    top: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether the two share more than an edge."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def beside_points(x: Sequence[float], y: Sequence[float], names: Sequence[str], width: float) -> list[Placed]:
    """Set a name beside each point: above it on the left where that is free, else at the next free place.

    Args:
        x: pixels from the left edge.
        y: pixels from the upper edge.
        names: the names.
        width: of the picture: where there is a choice, no name goes beyond its edges.

    Example:
        >>> [(name.align, name.dy) for name in beside_points([100, 100], [50, 50], ["one", "two"], 300)]
        [('right', -10), ('left', -10)]
    """
    taken = [Box(a - _POINT, a + _POINT, b - _POINT, b + _POINT) for a, b in zip(x, y, strict=True)]
    placed = []
    for a, b, name in zip(x, y, names, strict=True):
        choices = [(place, _box(place, a, b, name)) for place in _choices()]
        free = [item for item in choices if not any(item[1].meets(box) for box in taken)]
        inside = [item for item in free if item[1].left >= 0 and item[1].right <= width]
        place, box = (inside or free or choices)[0]
        taken.append(box)
        placed.append(place)
    return placed


def free_of_lines(box: Box, lines: Sequence[tuple[Floats, Floats]]) -> bool:
    """Whether no line (x rising, y; pixels) passes through a box."""
    for x, y in lines:
        places = np.unique(np.concatenate([np.linspace(box.left, box.right, 25), x]))
        inside = places[(places >= max(box.left, x[0])) & (places <= min(box.right, x[-1]))]
        heights = np.interp(inside, x, y)
        if ((heights > box.top) & (heights < box.bottom)).any():
            return False
    return True


def _choices() -> list[Placed]:
    """Nearer ones first; on a level: left above, right above, left below, right below."""
    sides: tuple[tuple[Literal["left", "right"], int], ...] = (("right", -_ASIDE), ("left", _ASIDE))
    return [
        Placed(align, dx, round(way * (_FIRST + level * LINE)))
        for level in range(_LEVELS)
        for way in (-1, 1)
        for align, dx in sides
    ]


def _box(place: Placed, x: float, y: float, name: str) -> Box:
    across = LETTER * len(name)
    left = x + place.dx - (across if place.align == "right" else 0)
    return Box(left, left + across, y + place.dy - LINE / 2, y + place.dy + LINE / 2)
