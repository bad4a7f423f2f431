"""Numbers with their uncertainty."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hardpan.files import record

__all__ = ["Estimate", "Interval"]
Floats = NDArray[np.float64]


@record
class Interval:
    """A confidence interval: bounds, level, and how it was made."""

    low: float
    high: float
    confidence: float = 0.95
    method: str = ""


@record
class Estimate:
    """A number with its uncertainty, method and sample count.

    Attributes:
        value: the estimate, a fraction in 0..1 where it is an error.
        stderr: its standard error (0 for closed forms).
        low: lower end of the interval at level ``confidence``.
        high: upper end of it.
        confidence: the level of the interval.
        method: how the number was made, in words.
        n: how many draws or examples it rests on (0 for closed forms).
        seed: the seed of the draws, if there were any.
        notes: what a reader has to know before using the number.
        log10: log10 of the value, right also where ``value`` underflows to 0; None where it makes no sense.

    Example:
        >>> Estimate(0.25, 0.01, 0.23, 0.27, method="example", n=100)
        Estimate(0.25 ± 0.01, 95 % [0.23, 0.27], example, n=100)
    """

    value: float
    stderr: float
    low: float
    high: float
    confidence: float = 0.95
    method: str = ""
    n: int = 0
    seed: int | None = None
    notes: tuple[str, ...] = ()
    log10: float | None = None

    def __repr__(self) -> str:
        text = f"Estimate({self.value:.6g} ± {self.stderr:.2g}, "
        text += f"{100 * self.confidence:g} % [{self.low:.6g}, {self.high:.6g}], {self.method}"
        text += f", n={self.n}" if self.n else ""
        if self.value == 0.0 and self.log10 is not None and math.isfinite(self.log10):
            text += f", log10={self.log10:.8g}"
        return text + ")"


def estimates_of_columns(
    values: Floats, stderr: Floats, low: Floats, high: Floats, confidence: float
) -> list[Estimate]:
    """Columns of values, standard errors and ends of intervals as estimates."""
    rows = zip(*(column.tolist() for column in (values, stderr, low, high)), strict=True)
    return [Estimate(value, error, below, above, confidence) for value, error, below, above in rows]
