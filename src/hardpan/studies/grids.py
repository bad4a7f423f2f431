"""Grids of training settings that grow where the best setting lies at an edge."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from hardpan.errors import InputError
from hardpan.training import TrainConfig

Values = tuple[float, ...]
Grid = Mapping[str, Values]

# Recht et al. (2019), B.2.3; dropout is a factor on all of the network's probabilities.
PAPER_GRID: dict[str, Values] = {
    "rate": (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8),
    "dropout": (0.5, 0.75, 1.0, 1.25, 1.75),
    "weight_decay": (5e-5, 1e-4, 5e-4, 1e-3, 5e-3),
}
PAPER_START: dict[str, float] = {"rate": 0.1, "dropout": 1.0, "weight_decay": 5e-4}

_BY_FACTORS = ("rate", "weight_decay", "clip")  # the next value is as many times the last one as that one was
_BOUNDS = {"momentum": (0.0, 1.0), "smoothing": (0.0, 1.0), "average": (0.0, 1.0), "warmup": (0.0, 1.0)}
_TRAINING = ("rate", "weight_decay", "momentum", "smoothing", "average", "warmup", "clip")


def checked_grid(grid: Mapping[str, Sequence[float]], options: Sequence[str]) -> dict[str, Values]:
    """The grid with rising values; a name is a setting of the training or an option of the classifier.

    Example:
        >>> checked_grid({"rate": [0.1, 0.05]}, ())
        {'rate': (0.05, 0.1)}
    """
    if not grid:
        raise InputError("grid is empty; name at least one setting with at least one value")
    for name, values in grid.items():
        if name not in _TRAINING and name not in options:
            known = ", ".join((*_TRAINING, *options))
            raise InputError(f"grid names {name!r}; it must be one of {known}")
        if not len(values) or not all(isinstance(v, (int, float)) and math.isfinite(v) and v >= 0 for v in values):
            raise InputError(f"grid of {name} must be numbers of at least 0; got {list(values)}")
        if name in _BY_FACTORS and min(values) <= 0:
            raise InputError(f"grid of {name} must be above 0, for it grows by factors; got {list(values)}")
    return {name: tuple(sorted({float(value) for value in values})) for name, values in grid.items()}


def starting_point(grid: Grid, start: Mapping[str, float]) -> dict[str, float]:
    """The setting that is compared with: what is given, else the paper's value, else the middle of the grid."""
    for name in start:
        if name not in grid:
            raise InputError(f"start names {name!r}, which the grid does not vary; it varies {', '.join(grid)}")
    chosen = {}
    for name, values in grid.items():
        preferred = start.get(name, PAPER_START.get(name, math.nan))
        if name in start and preferred not in values:
            raise InputError(f"start has {name}={preferred:g}, which is not in its grid {list(values)}")
        chosen[name] = preferred if preferred in values else values[len(values) // 2]
    return chosen


def settings_of(grid: Grid) -> list[dict[str, float]]:
    """All combinations, in the order of the grid.

    Example:
        >>> settings_of({"rate": (0.1, 0.2), "dropout": (1.0,)})
        [{'rate': 0.1, 'dropout': 1.0}, {'rate': 0.2, 'dropout': 1.0}]
    """
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def configured(config: TrainConfig, setting: Mapping[str, float]) -> TrainConfig:
    """The training settings with a combination of the grid put in."""
    changes: dict[str, Any] = {name: value for name, value in setting.items() if name in _TRAINING}
    options = {name: value for name, value in setting.items() if name not in _TRAINING}
    return dataclasses.replace(config, **changes, model_options={**config.model_options, **options})


def edges(grid: Grid, setting: Mapping[str, float]) -> dict[str, str]:
    """The settings that are at an end of their range: name to "low" or "high"; a single value has no ends.

    Example:
        >>> edges({"rate": (0.1, 0.2, 0.4), "dropout": (1.0,)}, {"rate": 0.4, "dropout": 1.0})
        {'rate': 'high'}
    """
    found = {}
    for name, values in grid.items():
        if len(values) > 1 and setting[name] in (values[0], values[-1]):
            found[name] = "low" if setting[name] == values[0] else "high"
    return found


def extended(name: str, values: Values, side: str, dropout_limit: float = 1.0) -> Values | None:
    """The range with one more value at a side, or None where the setting has no further values.

    Rates and weight decays continue by the factor between their last two values, the others by the difference;
    where that would pass a bound, the next value is the bound itself if it is allowed (0), else half-way to it.

    Example:
        >>> extended("rate", (0.1, 0.2), "high"), extended("dropout", (0.5, 1.5), "high", 2.0)
        ((0.1, 0.2, 0.4), (0.5, 1.5, 1.75))
        >>> extended("dropout", (0.25, 0.75), "low"), extended("dropout", (0.0, 0.5), "low")
        ((0.0, 0.25, 0.75), None)
    """
    end, inner = (values[0], values[1]) if side == "low" else (values[-1], values[-2])
    if name in _BY_FACTORS:
        following = end * end / inner
        if not 1e-12 < following < 1e12:
            return None
    else:
        low, high = (0.0, dropout_limit) if name == "dropout" else _BOUNDS.get(name, (0.0, math.inf))
        following = end + (end - inner)
        if following <= low:
            if end <= low:
                return None
            following = low
        elif following >= high:
            following = (end + high) / 2
    following = float(f"{following:.12g}")  # 0.4·2 is 0.8, not 0.8000000000000002
    if following == end or (following < end) != (side == "low"):
        return None  # the last two values are so close that there is no next one
    return (following, *values) if side == "low" else (*values, following)
