"""Does cross-validation on the original data predict the new test set? (Recht et al., B.2.7 and Table 4)"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hardpan import testbed
from hardpan.arguments import whole_number
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.files import record
from hardpan.report.base import Report
from hardpan.stats.intervals import check_confidence
from hardpan.studies.runs import (
    Arrangement,
    Everything,
    Labelled,
    Sets,
    Source,
    balanced_parts,
    read_sets,
    run_models,
)
from hardpan.testbed.gaps import CrossValidation
from hardpan.training import TrainConfig


@record
class CrossvalConfig:
    """Settings of ``hardpan experiments crossval``.

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
