"""What axes of several drawings share: labels of errors, and round places on a logarithmic scale."""

from __future__ import annotations

import math

PERCENT = "datum.value == 0 || abs(datum.value) >= 1e-4 ? format(datum.value, '.3~%') : format(datum.value, '.0~e')"
"""An expression of Vega that labels an error: percent, or a power of ten where that is too small."""


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers between two positive ones: 1, 2, 5 over a short span, powers of ten over a long one."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = last - first
    steps = (1, 2, 5) if decades <= 3 else (1,)
    every = max(1, math.ceil(decades / 8))
    ticks = [step * 10.0**power for power in range(first, last + 1, every) for step in steps]
    inside = [tick for tick in ticks if low <= tick <= high]
    if len(inside) >= 2:
        return inside
    # Less than a decade without two such numbers: round the ends and what lies between them.
    places = (low * (high / low) ** (part / 3) for part in range(4))
    return sorted({round(place, 1 - math.floor(math.log10(place))) for place in places})
