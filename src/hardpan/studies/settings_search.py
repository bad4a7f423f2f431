"""Can other hyperparameters recover the drop on the new test set? (Recht et al., B.2.3)

A grid of settings is trained, and extended where the best setting lies at its edge.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from collections.abc import Mapping
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
from hardpan.studies.study_runs import (
    RunResult,
    Source,
    StudyData,
    StudyRun,
    accuracy_difference,
    balanced_parts,
    read_study_data,
    run_accuracy,
    run_results,
)
from hardpan.training import TrainConfig

Values = tuple[float, ...]
Grid = Mapping[str, Values]
_GridResults = dict[Values, RunResult]

# Recht et al. (2019), B.2.3; for a VGG, dropout is a factor on all of the network's probabilities.
PAPER_GRID: dict[str, Values] = {
    "rate": (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8),
    "dropout": (0.5, 0.75, 1.0, 1.25, 1.75),
    "weight_decay": (5e-5, 1e-4, 5e-4, 1e-3, 5e-3),
}
PAPER_START: dict[str, float] = {"rate": 0.1, "dropout": 1.0, "weight_decay": 5e-4}
SIGNIFICANCE = 0.05


@record(dropped=("start", "choose", "confidence"))
class RetuneConfig:
    """Settings of :func:`search_settings`.

    Attributes:
        train: settings of the training that the grid does not vary; one architecture.
        grid: values of rate, weight_decay and dropout. Empty: the paper's grid, without dropout but for a VGG.
        extensions: how often a range may be extended at each end when the best setting lies there.
        seed: of the training and of the halves.
    """

    train: TrainConfig = field(default_factory=lambda: TrainConfig(model="vgg16"))
    grid: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    extensions: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
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


@record(dropped=("extended", "at_bound"))
class RetuneStudy(Report):
    """The result of :func:`search_settings`.

    Attributes:
        settings: every combination, the best on the new set first.
        start: the starting point.
        best: the first of ``settings``.
        fair_gain: gain of the best over the start on new examples that did not choose it (halves in turn).
        better: how many combinations are better than the start on the new set after Holm's correction.
        grid: the values in the end, extensions included.
        at_edge: settings whose best value is still at an end of its range.
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
    at_edge: tuple[str, ...]
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
    study_data = read_study_data(data, new, config.seed)
    grid, results = _search_grid(study_data, config, out=out, progress=progress)
    start = starting_setting(initial_grid(config))
    settings = _compared_settings(grid, results, start)
    return RetuneStudy(
        settings=settings,
        start=next(item for item in settings if item.values == start),
        best=settings[0],
        fair_gain=_fair_gain(study_data, grid, results, start, config.seed),
        better=sum(item.p_holm < SIGNIFICANCE and item.gain.value > 0 for item in settings),
        grid=grid,
        at_edge=tuple(grid_edges(grid, settings[0].values)),
        data=study_data.name,
        new=study_data.new_name,
        n_train=len(study_data.train),
        control=study_data.control,
        config=config,
    )


def initial_grid(config: RetuneConfig) -> dict[str, Values]:
    """The grid of the settings with rising values, or the paper's: dropout only for a VGG.

    Example:
        >>> initial_grid(RetuneConfig(grid={"rate": (0.1, 0.05)}))
        {'rate': (0.05, 0.1)}
    """
    for name, values in config.grid.items():
        one_of("grid", name, tuple(PAPER_GRID))
        if not len(values) or not all(
            math.isfinite(v) and (v > 0 or (v == 0 and name == "dropout")) for v in values
        ):
            raise InputError(f"must have numbers above 0 for {name}; got {list(values)}", argument="grid")
    grid = config.grid or {
        name: values for name, values in PAPER_GRID.items() if name != "dropout" or _is_vgg(config.train)
    }
    return {name: tuple(sorted({float(value) for value in values})) for name, values in grid.items()}


def starting_setting(grid: Grid) -> dict[str, float]:
    """The setting that is compared with: the paper's values, or the middle of the grid where it lacks them."""
    return {
        name: PAPER_START[name] if PAPER_START[name] in values else values[len(values) // 2]
        for name, values in grid.items()
    }


def _is_vgg(config: TrainConfig) -> bool:
    """Whether ``dropout`` is a factor on the network's probabilities, as in the paper, and not a probability."""
    return config.model.lower().startswith("vgg")


def _search_grid(data: StudyData, config: RetuneConfig, **options: Any) -> tuple[dict[str, Values], _GridResults]:
    """Train the grid, then extend it on every side where the best lies at an end, as often as allowed.

    Returns the grid in the end and results by combination.
    """
    grid, results = initial_grid(config), _GridResults()
    times: dict[tuple[str, str], int] = {}
    limit = 2.0 if _is_vgg(config.train) else 1.0
    tests = {"original": data.original, "new": data.new}
    while True:
        settings = [values for values in itertools.product(*grid.values()) if values not in results]
        runs = [
            StudyRun(_with_setting(config.train, grid, values), config.seed, data.train, tests)
            for values in settings
        ]
        results |= zip(settings, run_results(runs, data, **options), strict=True)
        best = dict(zip(grid, _best_setting(grid, results), strict=True))
        extended = {}
        for name, side in grid_edges(grid, best).items():
            values = extended_range(name, grid[name], side, limit)
            if values is not None and times.get((name, side), 0) < config.extensions:
                times[name, side] = times.get((name, side), 0) + 1
                extended[name] = values
        if not extended:
            return grid, results
        grid |= extended


def _with_setting(config: TrainConfig, grid: Grid, values: Values) -> TrainConfig:
    setting: dict[str, Any] = dict(zip(grid, values, strict=True))
    if "dropout" in setting:
        setting["model_options"] = {**config.model_options, "dropout": setting.pop("dropout")}
    return dataclasses.replace(config, **setting)


def _best_setting(grid: Grid, results: _GridResults, rows: NDArray[np.int64] | slice = slice(None)) -> Values:
    """The combination with the most right answers; of equals the one at the fewest ends, then the first."""

    def rank(values: Values) -> tuple[int, int]:
        edges = grid_edges(grid, dict(zip(grid, values, strict=True)))
        return int(results[values].correct["new"][rows].sum()), -len(edges)

    return max(sorted(results), key=rank)


def _compared_settings(grid: Grid, results: _GridResults, start: Mapping[str, float]) -> tuple[Setting, ...]:
    """Every combination compared with the starting point, the best on the new set first."""
    base = results[tuple(start.values())].correct["new"]
    best = _best_setting(grid, results)
    order = sorted(results, key=lambda values: (values != best, -int(results[values].correct["new"].sum())))
    answers = [results[values].correct["new"] for values in order]
    corrected = holm(mcnemar([int((a & ~base).sum()) for a in answers], [int((base & ~a).sum()) for a in answers]))
    return tuple(
        Setting(
            dict(zip(grid, values, strict=True)),
            run_accuracy(results[values].correct["original"]),
            run_accuracy(results[values].correct["new"]),
            accuracy_difference(results[values].correct["new"], base),
            float(p),
            results[values].diverged,
        )
        for values, p in zip(order, corrected, strict=True)
    )


def _fair_gain(
    data: StudyData, grid: Grid, results: _GridResults, start: Mapping[str, float], seed: int
) -> Estimate:
    """Each half of the new set evaluates the setting that the other half selected."""
    base = results[tuple(start.values())].correct["new"]
    halves = balanced_parts(data.labels[data.new], 2, seed, draw=1)
    evaluated = np.zeros_like(base)
    for selecting, evaluating in (halves, halves[::-1]):
        evaluated[evaluating] = results[_best_setting(grid, results, selecting)].correct["new"][evaluating]
    gain = accuracy_difference(evaluated, base)
    return dataclasses.replace(
        gain, method=f"each half evaluates the choice of the other; {gain.method}", seed=seed
    )


def grid_edges(grid: Grid, setting: Mapping[str, float]) -> dict[str, str]:
    """The settings that are at an end of their range: name to "low" or "high"; a single value has no ends.

    Example:
        >>> grid_edges({"rate": (0.1, 0.2, 0.4), "dropout": (1.0,)}, {"rate": 0.4, "dropout": 1.0})
        {'rate': 'high'}
    """
    return {
        name: "low" if setting[name] == values[0] else "high"
        for name, values in grid.items()
        if len(values) > 1 and setting[name] in (values[0], values[-1])
    }


def extended_range(name: str, values: Values, side: str, dropout_limit: float = 1.0) -> Values | None:
    """The range with one more value at a side, or None where the setting has no further values.

    Rates and weight decays continue by the factor between their last two values, dropout by the difference, not
    below 0; where that would reach the limit, the next value is half-way to it.

    Example:
        >>> extended_range("rate", (0.1, 0.2), "high"), extended_range("dropout", (0.5, 1.5), "high", 2.0)
        ((0.1, 0.2, 0.4), (0.5, 1.5, 1.75))
        >>> extended_range("dropout", (0.25, 0.75), "low"), extended_range("dropout", (0.0, 0.5), "low")
        ((0.0, 0.25, 0.75), None)
    """
    end, inner = (values[0], values[1]) if side == "low" else (values[-1], values[-2])
    if name != "dropout":
        following = end * end / inner
        if not 1e-12 < following < 1e12:
            return None
    else:
        following = max(end + (end - inner), 0.0)
        if following >= dropout_limit:
            following = (end + dropout_limit) / 2
    following = float(f"{following:.12g}")  # 0.4·2 is 0.8, not 0.8000000000000002
    if following == end or (following < end) != (side == "low"):
        return None  # at 0, or the last two values are so close that there is no next one
    return (following, *values) if side == "low" else (*values, following)
