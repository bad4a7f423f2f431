"""How far an audit is, told by its parts."""

from __future__ import annotations

from hardpan.execution import Progress


def unheard(step: str, fraction: float) -> None:
    """Progress that nobody asked for."""


def between(progress: Progress, low: float, high: float) -> Progress:
    """Progress for a piece of the work that goes from ``low`` to ``high`` of the whole.

    Example:
        >>> between(lambda step, fraction: print(step, fraction), 0.5, 1.0)("fitting", 0.5)
        fitting 0.75
    """
    return lambda step, fraction: progress(step, low + (high - low) * fraction)
