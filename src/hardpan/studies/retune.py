"""Can other hyperparameters recover the drop on the new test set? (Recht et al., B.2.3)"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.stats import holm, mcnemar
from hardpan.stats.intervals import check_confidence
from hardpan.studies import grids
from hardpan.studies.crossval import Everything
from hardpan.studies.runs import HERE, Place, Run, RunResult, accuracy, describe, difference, run_all
from hardpan.studies.sets import Sets, Source, balanced_parts, read_sets
from hardpan.training import TrainConfig

Booleans = NDArray[np.bool_]
CHOICES = ("new", "original")


@record
@dataclass(frozen=True, slots=True)
class RetuneConfig:
    """Settings of ``hardpan experiments retune``.

    Attributes:
        train: settings of the training that the grid does not vary; one architecture.
        grid: values of each setting that is varied: rate, weight_decay, momentum, smoothing, ..., or an option of
            the architecture such as dropout. Empty: the paper's grid, without dropout but for a VGG.
        start: the setting to compare with; by default rate 0.1, dropout 1, weight decay 5e-4, or the middle.
        choose: the test set that the best setting is chosen on, "new" or "original".
        extensions: how often a range may grow on either side when the best setting lies at its end.
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
        if self.choose not in CHOICES:
            raise InputError(f"choose must be new or original; got {self.choose!r}")
        if isinstance(self.extensions, bool) or not isinstance(self.extensions, int) or self.extensions < 0:
            raise InputError(f"extensions must be a whole number of at least 0; got {self.extensions!r}")
        if len(self.train.models) != 1:
            raise InputError(f"model must be one architecture here; got {self.train.model!r}")


@record
@dataclass(frozen=True, slots=True)
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
    gain: Estimate
    p_holm: float
    diverged: bool


@record
@dataclass(frozen=True, slots=True)
class RetuneStudy:
    """What :func:`search_settings` returns.

    Attributes:
        settings: every combination, the best on the chosen set first.
        start: the starting point.
        best: the first of ``settings``.
        fair_gain: gain of the best over the start on new examples that did not choose it (halves in turn).
        better: how many combinations are better than the start on the new set after Holm's correction.
        grid: the values in the end, extensions included.
        extended: what was added, in order, as "rate 1.6".
        at_edge: settings whose best value is still at an end of its range.
    """

    settings: tuple[Setting, ...]
    start: Setting
    best: Setting
    fair_gain: Estimate
    better: int
    grid: Mapping[str, tuple[float, ...]]
    extended: tuple[str, ...]
    at_edge: tuple[str, ...]
    data: str
    new: str
    n_train: int
    notes: tuple[str, ...]
    config: RetuneConfig


def search_settings(
    data: Source, new: Source | None = None, config: RetuneConfig | None = None, *, place: Place = HERE
) -> RetuneStudy:
    """Train every combination of a grid, extend the grid until the best is inside, and weigh the gain.

    The best of many settings on one test set looks better than it is. So beside the gain on the whole new set there
    is a fair one: each random half of the new set chooses a setting, which the other half judges.

    Args:
        data: a dataset, or a name, file or folder of one.
        new: the new test set; None: half of the test set stands in for it.
        config: settings.
        place: where the runs compute and are kept.

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
    notes = list(describe(sets, config.train))
    grid = grids.checked_grid(*_wanted_grid(config, notes))
    start = grids.starting_point(grid, config.start)

    def train(settings: list[dict[str, float]]) -> list[RunResult]:
        runs = [Run(Everything(), grids.configured(config.train, item), config.seed) for item in settings]
        return run_all(runs, data, new, config.seed, place)

    grid, found, added = _search(grid, train, config, notes)
    return _study(sets, grid, start, found, added, notes, config)


def _wanted_grid(config: RetuneConfig, notes: list[str]) -> tuple[Mapping[str, tuple[float, ...]], tuple[str, ...]]:
    from hardpan.training import classifiers

    model = config.train.models[0]
    options = classifiers.option_names(model)
    if ":" in model:  # nothing is known of a foreign factory: what the grid names are its options
        return config.grid or _without_dropout(), tuple(config.grid)
    if config.grid:
        return config.grid, options
    if is_vgg(model):
        return grids.PAPER_GRID, options
    notes.append(f"{model} has no dropout scale, so the grid varies learning rate and weight decay only.")
    return _without_dropout(), options


def is_vgg(model: str) -> bool:
    """Whether ``dropout`` is a factor on the network's probabilities, as in the paper, and not a probability."""
    return model.lower().startswith("vgg")


def _without_dropout() -> dict[str, tuple[float, ...]]:
    return {name: values for name, values in grids.PAPER_GRID.items() if name != "dropout"}


_Found = dict[tuple[float, ...], RunResult]


def _search(
    grid: dict[str, tuple[float, ...]],
    train: Callable[[list[dict[str, float]]], list[RunResult]],
    config: RetuneConfig,
    notes: list[str],
) -> tuple[dict[str, tuple[float, ...]], _Found, list[str]]:
    """Train the grid, and more of it on every side where the best lies at an end, within the allowed times."""
    found: _Found = {}
    added: list[str] = []
    times: dict[tuple[str, str], int] = {}
    ended: set[tuple[str, str]] = set()
    limit = 2.0 if is_vgg(config.train.model) else 1.0
    while True:
        settings = [item for item in grids.settings_of(grid) if tuple(item.values()) not in found]
        for item, result in zip(settings, train(settings), strict=True):
            found[tuple(item.values())] = result
        best = dict(zip(grid, _best(grid, found, config.choose), strict=True))
        grown = False
        for name, side in grids.edges(grid, best).items():
            if times.get((name, side), 0) >= config.extensions or (name, side) in ended:
                continue
            longer = grids.extended(name, grid[name], side, limit)
            if longer is None:
                ended.add((name, side))
                notes.append(f"{name} is best at {best[name]:g}, where its range ends by nature.")
                continue
            times[name, side] = times.get((name, side), 0) + 1
            added.append(f"{name.replace('_', ' ')} {longer[0 if side == 'low' else -1]:g}")
            grid = {**grid, name: longer}
            grown = True
        if not grown:
            return grid, found, added


def _best(grid: grids.Grid, found: _Found, choose: str, rows: NDArray[np.int64] | None = None) -> tuple[float, ...]:
    """The combination with the most right answers; of equals the one at the fewest ends, then the first."""

    def rank(values: tuple[float, ...]) -> tuple[int, int]:
        right = found[values].right[choose]
        ends = len(grids.edges(grid, dict(zip(grid, values, strict=True))))
        return int((right if rows is None else right[rows]).sum()), -ends

    return max(sorted(found), key=rank)


def _study(
    sets: Sets,
    grid: dict[str, tuple[float, ...]],
    start: dict[str, float],
    found: _Found,
    added: list[str],
    notes: list[str],
    config: RetuneConfig,
) -> RetuneStudy:
    base = found[tuple(start.values())].right["new"]
    best_values = _best(grid, found, config.choose)
    order = sorted(
        found, key=lambda values: (values != best_values, -int(found[values].right[config.choose].sum()))
    )
    only = [(int((r & ~base).sum()), int((base & ~r).sum())) for r in (found[v].right["new"] for v in order)]
    corrected = holm(mcnemar([item[0] for item in only], [item[1] for item in only]))
    settings = tuple(
        Setting(
            dict(zip(grid, values, strict=True)),
            accuracy(found[values].right["original"], config.confidence),
            accuracy(found[values].right["new"], config.confidence),
            difference(found[values].right["new"], base, config.confidence),
            float(p),
            found[values].diverged,
        )
        for values, p in zip(order, corrected, strict=True)
    )
    better = sum(item.p_holm < 1 - config.confidence and item.gain.value > 0 for item in settings)
    edge = tuple(grids.edges(grid, settings[0].values))
    if edge:
        notes.append(f"The best setting is still at an end of the range of {', '.join(edge)}.")
    return RetuneStudy(
        settings,
        next(item for item in settings if item.values == start),
        settings[0],
        _fair_gain(sets, grid, found, base, config),
        better,
        grid,
        tuple(added),
        edge,
        sets.name,
        sets.new_name,
        len(sets.train),
        tuple(notes),
        config,
    )


def _fair_gain(sets: Sets, grid: grids.Grid, found: _Found, base: Booleans, config: RetuneConfig) -> Estimate:
    """Each half of the new set judges the setting that the other half chose."""
    halves = balanced_parts(sets.new.labels, 2, config.seed, draw=1)
    judged = np.zeros_like(base)
    for chooser, judge in (halves, halves[::-1]):
        judged[judge] = found[_best(grid, found, "new", chooser)].right["new"][judge]
    gain = difference(judged, base, config.confidence)
    return dataclasses.replace(
        gain, method=f"each half judges what the other chose; {gain.method}", seed=config.seed
    )
