"""Does training on part of the new test set recover the rest of it? (Recht et al., B.2.6)"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from hardpan.arguments import whole_number
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.files import record
from hardpan.report.base import Report
from hardpan.stats import mcnemar
from hardpan.stats.intervals import check_confidence
from hardpan.studies.runs import (
    Arrangement,
    Everything,
    Labelled,
    RunResult,
    Sets,
    Source,
    accuracy,
    balanced_parts,
    difference,
    read_sets,
    run_models,
)
from hardpan.training import TrainConfig


@record
class PartialConfig:
    """Settings of ``hardpan experiments partial``.

    Attributes:
        train: settings of the training; ``train.model`` names one or several architectures with commas.
        splits: number of random halves of the new set.
        control: also train with as many examples of the original test set instead, as a control for more data.
        seed: of the halves and of the training.
        confidence: level of the intervals.
    """

    train: TrainConfig = field(default_factory=TrainConfig)
    splits: int = 2
    control: bool = True
    seed: int = 0
    confidence: float = 0.95

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        whole_number("splits", self.splits, 1)


@record
class PartialRow:
    """One model on the half of the new set that it was not trained on.

    Attributes:
        model: its name.
        split: number of the random half, from 1.
        added: number of new training examples.
        without: accuracy of the model that was trained on the training set alone.
        with_new: accuracy of the one that had the other half of the new set too.
        gain: with_new − without, on the same examples.
        p: exact McNemar p-value of that gain.
        with_original: accuracy with as many examples of the original test set instead, or None.
        beyond: with_new − with_original, or None: the gain from new rather than just more examples.
    """

    model: str
    split: int
    added: int
    without: Estimate
    with_new: Estimate
    gain: Estimate
    p: float
    with_original: Estimate | None
    beyond: Estimate | None


@record
class PartialStudy(Report):
    """The result of :func:`train_on_part`.

    Attributes:
        rows: one per model and random half.
        data: name of the dataset.
        new: name of the new test set.
        n_train: number of training examples.
        diverged: runs whose loss became NaN, as "model, training set".
        control: True if half of the test set was used as the new set.
        config: the settings.
    """

    rows: tuple[PartialRow, ...]
    data: str
    new: str
    n_train: int
    diverged: tuple[str, ...]
    control: bool
    config: PartialConfig


@dataclass(frozen=True, slots=True)
class WithHalf:
    """Train also on half of the new set, or on as many original test examples; test on the other half."""

    split: int
    seed: int
    added: str

    def arrange(self, sets: Sets) -> tuple[Labelled, Mapping[str, Labelled]]:
        """Training examples with the half; the other half of the new test set."""
        half, rest = balanced_parts(sets.new.labels, 2, self.seed, self.split)
        extra = sets.new.take(half)
        if self.added == "original":
            parts = -(-len(sets.original) // len(half))  # so that a part has about as many examples as the half
            extra = sets.original.take(balanced_parts(sets.original.labels, parts, self.seed, self.split)[0])
        return sets.train.join(extra), {"rest": sets.new.take(rest)}


def train_on_part(
    data: Source,
    new: Source | None = None,
    config: PartialConfig | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> PartialStudy:
    """Add a random, class-balanced half of the new set to the training set, and test on the other half.

    If the new set came from a different distribution that the model can learn, the half would lift the accuracy on
    the rest. With ``control`` as many examples of the original test set are added instead.

    Args:
        data: a dataset, or a name, file or folder of one.
        new: the new test set; None uses half of the test set instead, as a control.
        config: settings.
        out: folder that keeps every finished run; an interrupted study resumes from it.
        progress: called with a line and the fraction done.

    Source: Recht et al. (2019), appendix B.2.6: 85.1 and 85.4 % with the half, 84.9 % without.

    Example:
        >>> settings = PartialConfig(TrainConfig(model="linear", epochs=3, device="cpu"), splits=1, control=False)
        >>> study = train_on_part("digits", config=settings)
        >>> study.rows[0].added, study.rows[0].without.n
        (90, 89)
    """
    config = config or PartialConfig()
    sets = read_sets(data, new, config.seed)
    if len(sets.new) < 4:
        raise InputError(
            f": {sets.new_name} has {len(sets.new)} examples; two halves need at least 4", argument="new"
        )
    kinds = ("original", "new") if config.control else ("new",)
    halves = [WithHalf(split, config.seed, kind) for split in range(config.splits) for kind in kinds]
    arrangements: list[Arrangement] = [Everything(), *halves]
    results = run_models(arrangements, config.train, data, new, config.seed, out=out, progress=progress)
    rows = tuple(
        _row(model, split, sets, results, config) for model in config.train.models for split in range(config.splits)
    )
    diverged = tuple(f"{model}, {_name(kind)}" for (model, kind), result in results.items() if result.diverged)
    return PartialStudy(rows, sets.name, sets.new_name, len(sets.train), diverged, sets.control, config)


def _row(
    model: str, split: int, sets: Sets, results: Mapping[tuple[str, Arrangement], RunResult], config: PartialConfig
) -> PartialRow:
    half, rest = balanced_parts(sets.new.labels, 2, config.seed, split)
    without = results[model, Everything()].correct["new"][rest]
    fresh = results[model, WithHalf(split, config.seed, "new")].correct["rest"]
    level = config.confidence
    gain = difference(fresh, without, level)
    p = float(mcnemar([int((fresh & ~without).sum())], [int((without & ~fresh).sum())])[0])
    other = beyond = None
    if config.control:
        other_half = results[model, WithHalf(split, config.seed, "original")].correct["rest"]
        other = accuracy(other_half, level)
        beyond = difference(fresh, other_half, level)
    return PartialRow(
        model, split + 1, len(half), accuracy(without, level), accuracy(fresh, level), gain, p, other, beyond
    )


def _name(arrangement: Arrangement) -> str:
    if isinstance(arrangement, WithHalf):
        return f"split {arrangement.split + 1} with {arrangement.added} examples"
    return "without more examples"
