"""Models trained on other sets: folds of the training set, or part of the new test set too (Recht et al., 2019).

Does cross-validation on the original data predict the new test set (B.2.7 and Table 4)? Does training on part of
the new test set recover the rest of it (B.2.6)?
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from hardpan import testbed
from hardpan.arguments import whole_number
from hardpan.errors import InputError
from hardpan.estimates import Estimate, unit
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
from hardpan.testbed.gaps import CrossValidation
from hardpan.training import TrainConfig


@record
class CrossvalConfig:
    """Settings of :func:`cross_validate`.

    Attributes:
        train: settings of the training; ``train.model`` names one or several architectures with commas.
        folds: number of folds of the training set.
        seed: of the folds and of the training.
        confidence: level of the intervals.
    """

    train: TrainConfig = field(default_factory=TrainConfig)
    folds: int = 5
    seed: int = 0
    confidence: float = 0.95

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        whole_number("folds", self.folds, 2)


@record
class CrossvalStudy(Report):
    """The result of :func:`cross_validate`.

    Attributes:
        table: accuracies of every model on the folds, the original and the new test set.
        data: name of the dataset.
        new: name of the new test set.
        n_train: number of training examples.
        diverged: runs whose loss became NaN, as "model, test set".
        control: True if half of the test set was used as the new set.
        config: the settings.
    """

    HEADLINE: ClassVar[str] = "Accuracies of {data} on its folds, its test set and {new}."

    table: CrossValidation
    data: str
    new: str
    n_train: int
    diverged: tuple[str, ...]
    control: bool
    config: CrossvalConfig


@dataclass(frozen=True, slots=True)
class Fold:
    """Train on all folds but one and the original test set, test on the fold left out."""

    number: int
    folds: int
    seed: int

    def arrange(self, sets: Sets) -> tuple[Labelled, Mapping[str, Labelled]]:
        """The other folds with the original test set; the fold."""
        parts = balanced_parts(sets.train.labels, self.folds, self.seed)
        others = np.concatenate([rows for number, rows in enumerate(parts) if number != self.number])
        held_out = sets.train.take(parts[self.number])
        return sets.train.take(np.sort(others)).join(sets.original), {"held out": held_out}


def cross_validate(
    data: Source,
    new: Source | None = None,
    config: CrossvalConfig | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> CrossvalStudy:
    """Train each architecture on every fold's complement plus the original test set, and once as usual.

    The training set is cut into class-balanced folds at random; the model of a fold is trained on the other folds
    and the original test set and tested on the fold. If cross-validation predicts the new test set, the accuracy
    there lies among those of the folds.

    Args:
        data: a dataset, or a name, file or folder of one.
        new: the new test set; None uses half of the test set instead, as a control.
        config: settings.
        out: folder that keeps every finished run; an interrupted study resumes from it.
        progress: called with a line and the fraction done.

    Source: Recht et al. (2019), appendix B.2.7.

    Example:
        >>> settings = CrossvalConfig(TrainConfig(model="linear", epochs=3, device="cpu"), folds=2)
        >>> study = cross_validate("digits", config=settings)
        >>> len(study.table.rows[0].splits)
        2
    """
    config = config or CrossvalConfig()
    sets = read_sets(data, new, config.seed)
    if config.folds > len(sets.train):
        raise InputError(
            f"must be at most the {len(sets.train)} training examples; got {config.folds}", argument="folds"
        )
    folds = (Fold(number, config.folds, config.seed) for number in range(config.folds))
    arrangements: list[Arrangement] = [Everything(), *folds]
    results = run_models(arrangements, config.train, data, new, config.seed, out=out, progress=progress)
    rows, diverged = [], []
    for (model, arrangement), result in results.items():
        for name, correct in result.correct.items():
            test_set = f"split {arrangement.number + 1}" if isinstance(arrangement, Fold) else name
            row = {"model": model, "dataset": test_set, "correct": int(correct.sum()), "total": len(correct)}
            rows.append(row)
            if result.diverged:
                diverged.append(f"{model}, {test_set}")
    table = testbed.cross_validation(rows, config.confidence)
    return CrossvalStudy(table, sets.name, sets.new_name, len(sets.train), tuple(diverged), sets.control, config)


@record
class PartialConfig:
    """Settings of :func:`train_on_part`.

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
    gain: Estimate = field(metadata=unit("points"))
    p: float
    with_original: Estimate | None
    beyond: Estimate | None = field(metadata=unit("points"))


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

    HEADLINE: ClassVar[str] = "Gains on one half of {new} from training on the other half as well."

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
        _partial_row(model, split, sets, results, config)
        for model in config.train.models
        for split in range(config.splits)
    )
    diverged = tuple(
        f"{model}, {_training_set(kind)}" for (model, kind), result in results.items() if result.diverged
    )
    return PartialStudy(rows, sets.name, sets.new_name, len(sets.train), diverged, sets.control, config)


def _partial_row(
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


def _training_set(arrangement: Arrangement) -> str:
    if isinstance(arrangement, WithHalf):
        return f"split {arrangement.split + 1} with {arrangement.added} examples"
    return "without more examples"
