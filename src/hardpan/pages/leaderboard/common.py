"""What the views of :mod:`hardpan.leaderboard` share."""

from __future__ import annotations

import math
from pathlib import PurePath

from hardpan import formatting
from hardpan.report.sections import Section

CHART_ROWS = 24
HERO_ROWS = 24
ROWS = 100  # of a table on a page; to_frame has all of them


def input_sections(notes: tuple[str, ...]) -> tuple[Section, ...]:
    """How the scores were read: metric and filter, rows dropped, answers not parsed."""
    return (Section("How the scores were read", notes, key="input", short="Input"),) if notes else ()


def points(value: float, digits: int = 1) -> str:
    """A difference of scores in points: 100 times the fraction."""
    return formatting.NOTHING if not math.isfinite(value) else f"{100 * value:.{digits}f}"


def short_name(source: str) -> str:
    """The last part of a path, without the folders that only its owner knows."""
    return PurePath(source).name if source else ""


def signed_points(value: float) -> str:
    """A difference in points with its sign."""
    return f"{round(100 * value, 1) + 0.0:+.1f}".replace("-", "−")  # + 0.0: no negative zero
