"""Can other hyperparameters recover the drop on the new test set? (Recht et al., B.2.3)

A grid of settings is trained, and extended where the best setting lies at its edge.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardpan.arguments import one_of, whole_number
from hardpan.errors import InputError
from hardpan.estimates import Estimate, unit
from hardpan.execution import Progress
from hardpan.files import record
from hardpan.report.base import Report
from hardpan.stats import holm, mcnemar
from hardpan.stats.intervals import check_confidence
from hardpan.studies.runs import (
    Everything,
    Run,
    RunResult,
    Sets,
    Source,
    accuracy,
    balanced_parts,
    difference,
    read_sets,
    run_all,
)
from hardpan.training import TrainConfig

Booleans = NDArray[np.bool_]
CHOICES = ("new", "original")
Values = tuple[float, ...]
Grid = Mapping[str, Values]

# Recht et al. (2019), B.2.3; dropout is a factor on all of the network's probabilities.
PAPER_GRID: dict[str, Values] = {
    "rate": (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8),
    "dropout": (0.5, 0.75, 1.0, 1.25, 1.75),
    "weight_decay": (5e-5, 1e-4, 5e-4, 1e-3, 5e-3),
}
_WITHOUT_DROPOUT = {name: values for name, values in PAPER_GRID.items() if name != "dropout"}
PAPER_START: dict[str, float] = {"rate": 0.1, "dropout": 1.0, "weight_decay": 5e-4}

_BY_FACTORS = ("rate", "weight_decay", "clip")  # the next value is as many times the last one as that one was
_BOUNDS = {"momentum": (0.0, 1.0), "smoothing": (0.0, 1.0), "ema": (0.0, 1.0), "warmup": (0.0, 1.0)}
_TRAINING = ("rate", "weight_decay", "momentum", "smoothing", "ema", "warmup", "clip")


@record
class RetuneConfig:
    """Settings of :func:`search_settings`.

    Attributes:
        train: settings of the training that the grid does not vary; one architecture.
        grid: values of each setting that is varied: rate, weight_decay, momentum, smoothing, ..., or an option of
            the architecture such as dropout. Empty: the paper's grid, without dropout but for a VGG.
        start: the setting to compare with; by default rate 0.1, dropout 1, weight decay 5e-4, or the middle.
        choose: test set on which the best setting is selected, "new" or "original".
        extensions: how often a range may be extended at each end when the best setting lies there.
        seed: of the training and of the halves.
        confidence: level of the intervals.
    """

    train: TrainConfig = field(default_factory=lambda: TrainConfig(model="vgg16"))
    grid: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    start: Mapping[str, float] = field(default_factory=dict)
    choose: str = "new"
    extensions: int = 3
    seed: int = 0
    confidence: float = 0.95

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        one_of("choose", self.choose, CHOICES)
        whole_number("extensions", self.extensions, 0)
        if len(self.train.models) != 1:
            raise InputError(f"must be one architecture here; got {self.train.model!r}", argument="model")


@record
class Setting:
    """One combination of the grid.

    Attributes:
        values: by name.
        original: accuracy on the original test set.
        new: accuracy on the new one.
        gain: accuracy on the new set less that of the starting point, on the same examples.
        p_holm: exact McNemar p-value of the gain, after Holm's correction over all combinations.
        diverged: True where the loss became NaN; the accuracy counts as 0.
    """

    values: Mapping[str, float]
    original: Estimate
    new: Estimate
    gain: Estimate = field(metadata=unit("points"))
    p_holm: float
    diverged: bool


@record
class RetuneStudy(Report):
    """The result of :func:`search_settings`.

    Attributes:
        settings: every combination, the best on the chosen set first.
        start: the starting point.
        best: the first of ``settings``.
        fair_gain: gain of the best over the start on new examples that did not choose it (halves in turn).
        better: how many combinations are better than the start on the new set after Holm's correction.
        grid: the values in the end, extensions included.
        extended: (setting, value) that were added, in order.
        at_edge: settings whose best value is still at an end of its range.
        at_bound: (setting, value) that are best where the range of the setting ends by nature.
        data: name of the dataset.
        new: name of the new test set.
        n_train: number of training examples.
        control: True if half of the test set was used as the new set.
        config: the settings.
    """

    HEADLINE: ClassVar[str] = (
        "On examples of {new} that did not choose it, the best setting gains {fair_gain:signed}; {better} of the "
        "others are better than the start after Holm's correction."
    )

    settings: tuple[Setting, ...]
    start: Setting
    best: Setting
    fair_gain: Estimate = field(metadata=unit("points"))
    better: int
    grid: Mapping[str, tuple[float, ...]]
    extended: tuple[tuple[str, float], ...]
    at_edge: tuple[str, ...]
    at_bound: tuple[tuple[str, float], ...]
    data: str
    new: str
    n_train: int
    control: bool
    config: RetuneConfig


def search_settings(
    data: Source,
    new: Source | None = None,
    config: RetuneConfig | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> RetuneStudy:
    """Train every combination of a grid, extend the grid until the best is inside, and estimate the gain.

    The best of many settings on one test set looks better than it is. So beside the gain on the whole new set there
    is an unbiased one: a setting is selected on each random half of the new set and evaluated on the other.

    Args:
        data: a dataset, or a name, file or folder of one.
        new: the new test set; None uses half of the test set instead, as a control.
        config: settings.
        out: folder that keeps every finished run; an interrupted study resumes from it.
        progress: called with a line and the fraction done.

    Source: Recht et al. (2019), appendix B.2.3: "the best performance was never at an extreme point of any range",
    and no setting was significantly better (85.3 to 85.8 %).

    Example:
        >>> settings = RetuneConfig(TrainConfig(model="linear", epochs=2, device="cpu"), {"rate": (0.02, 0.04)},
        ...                         extensions=0)
        >>> study = search_settings("digits", config=settings)
        >>> len(study.settings), study.at_edge
        (2, ('rate',))
    """
    config = config or RetuneConfig()
    sets = read_sets(data, new, config.seed)
    grid = checked_grid(*_grid_of(config))
    start = starting_point(grid, config.start)

    def train(settings: list[dict[str, float]]) -> list[RunResult]:
        runs = [Run(Everything(), configured(config.train, item), config.seed) for item in settings]
        return run_all(runs, data, new, config.seed, out=out, progress=progress)

    grid, results, added, at_bound = _search(grid, train, config)
    settings = _settings(grid, results, start, config)
    return RetuneStudy(
        settings=settings,
        start=next(item for item in settings if item.values == start),
        best=settings[0],
        fair_gain=_fair_gain(sets, grid, results, results[tuple(start.values())].correct["new"], config),
        better=sum(item.p_holm < 1 - config.confidence and item.gain.value > 0 for item in settings),
        grid=grid,
        extended=tuple(added),
        at_edge=tuple(edges(grid, settings[0].values)),
        at_bound=tuple(at_bound),
        data=sets.name,
        new=sets.new_name,
        n_train=len(sets.train),
        control=sets.control,
        config=config,
    )


def _grid_of(config: RetuneConfig) -> tuple[Mapping[str, tuple[float, ...]], tuple[str, ...]]:
    from hardpan.training import classifiers

    model = config.train.models[0]
    options = classifiers.option_names(model)
    if ":" in model:  # nothing is known of a foreign factory: what the grid names are its options
        return config.grid or _WITHOUT_DROPOUT, tuple(config.grid)
    return config.grid or (PAPER_GRID if is_vgg(model) else _WITHOUT_DROPOUT), options


def is_vgg(model: str) -> bool:
    """Whether ``dropout`` is a factor on the network's probabilities, as in the paper, and not a probability."""
    return model.lower().startswith("vgg")


_Results = dict[Values, RunResult]
_NamedValues = list[tuple[str, float]]


def _search(
    grid: dict[str, tuple[float, ...]],
    train: Callable[[list[dict[str, float]]], list[RunResult]],
    config: RetuneConfig,
) -> tuple[dict[str, Values], _Results, _NamedValues, _NamedValues]:
    """Train the grid, then extend it on every side where the best lies at an end, as often as allowed.

    Returns the grid in the end, results by combination, what was added to the grid, and bounds that were reached.
    """
    results: _Results = {}
    added: list[tuple[str, float]] = []
    times: dict[tuple[str, str], int] = {}
    bounds: dict[tuple[str, str], float] = {}
    limit = 2.0 if is_vgg(config.train.model) else 1.0
    while True:
        settings = [item for item in settings_of(grid) if tuple(item.values()) not in results]
        for item, result in zip(settings, train(settings), strict=True):
            results[tuple(item.values())] = result
        best = dict(zip(grid, _best(grid, results, config.choose), strict=True))
        grown = False
        for name, side in edges(grid, best).items():
            if times.get((name, side), 0) >= config.extensions or (name, side) in bounds:
                continue
            longer = extended(name, grid[name], side, limit)
            if longer is None:
                bounds[name, side] = best[name]
                continue
            times[name, side] = times.get((name, side), 0) + 1
            added.append((name, longer[0 if side == "low" else -1]))
            grid = {**grid, name: longer}
            grown = True
        if not grown:
            return grid, results, added, [(name, at) for (name, _), at in bounds.items()]


def _best(grid: Grid, results: _Results, choose: str, rows: NDArray[np.int64] | None = None) -> tuple[float, ...]:
    """The combination with the most right answers; of equals the one at the fewest ends, then the first."""

    def rank(values: tuple[float, ...]) -> tuple[int, int]:
        correct = results[values].correct[choose]
        ends = len(edges(grid, dict(zip(grid, values, strict=True))))
        return int((correct if rows is None else correct[rows]).sum()), -ends

    return max(sorted(results), key=rank)


def _settings(
    grid: Grid, results: _Results, start: Mapping[str, float], config: RetuneConfig
) -> tuple[Setting, ...]:
    """Every combination compared with the starting point, the best on the chosen set first."""
    base = results[tuple(start.values())].correct["new"]
    best = _best(grid, results, config.choose)
    order = sorted(results, key=lambda values: (values != best, -int(results[values].correct[config.choose].sum())))
    only = [(int((r & ~base).sum()), int((base & ~r).sum())) for r in (results[v].correct["new"] for v in order)]
    corrected = holm(mcnemar([item[0] for item in only], [item[1] for item in only]))
    return tuple(
        Setting(
            dict(zip(grid, values, strict=True)),
            accuracy(results[values].correct["original"], config.confidence),
            accuracy(results[values].correct["new"], config.confidence),
            difference(results[values].correct["new"], base, config.confidence),
            float(p),
            results[values].diverged,
        )
        for values, p in zip(order, corrected, strict=True)
    )


def _fair_gain(sets: Sets, grid: Grid, results: _Results, base: Booleans, config: RetuneConfig) -> Estimate:
    """Each half of the new set judges the setting that the other half chose."""
    halves = balanced_parts(sets.new.labels, 2, config.seed, draw=1)
    evaluated = np.zeros_like(base)
    for chooser, judge in (halves, halves[::-1]):
        evaluated[judge] = results[_best(grid, results, "new", chooser)].correct["new"][judge]
    gain = difference(evaluated, base, config.confidence)
    return dataclasses.replace(
        gain, method=f"each half evaluates the choice of the other; {gain.method}", seed=config.seed
    )


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
    start_values = {}
    for name, values in grid.items():
        preferred = start.get(name, PAPER_START.get(name, math.nan))
        if name in start and preferred not in values:
            raise InputError(f"start has {name}={preferred:g}, which is not in its grid {list(values)}")
        start_values[name] = preferred if preferred in values else values[len(values) // 2]
    return start_values


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
    results = {}
    for name, values in grid.items():
        if len(values) > 1 and setting[name] in (values[0], values[-1]):
            results[name] = "low" if setting[name] == values[0] else "high"
    return results


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
