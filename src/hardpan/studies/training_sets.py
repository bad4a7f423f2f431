"""Models trained on other sets: folds of the training set, or part of the new test set too (Recht et al., 2019).

Does cross-validation on the original data predict the new test set (B.2.7 and Table 4)? Does training on part of
the new test set recover the rest of it (B.2.6)?
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import field
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
from hardpan.studies.study_runs import (
    Rows,
    RunResult,
    Source,
    StudyData,
    StudyRun,
    accuracy_difference,
    read_study_data,
    run_accuracy,
    run_results,
)
from hardpan.testbed.gaps import CrossValidation
from hardpan.training import TrainConfig


@record(dropped=("confidence",))
class CrossvalConfig:
    """Settings of :func:`cross_validate`.

    Attributes:
        train: settings of the training; ``train.model`` names one or several architectures with commas.
        folds: number of folds of the training set.
        seed: of the folds and of the training.
    """

    train: TrainConfig = field(default_factory=TrainConfig)
    folds: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
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
    study_data = read_study_data(data, new, config.seed)
    n_train = len(study_data.train)
    if config.folds > n_train:
        raise InputError(f"must be at most the {n_train} training examples; got {config.folds}", argument="folds")
    runs = [
        StudyRun(dataclasses.replace(config.train, model=model), config.seed, train, tests)
        for model in config.train.models
        for train, tests in (
            (study_data.train, {"original": study_data.original, "new": study_data.new}),
            *fold_rows(study_data, config.folds, config.seed),
        )
    ]
    rows, diverged = [], []
    for run, result in zip(runs, run_results(runs, study_data, out=out, progress=progress), strict=True):
        model = run.config.model
        for test_set, correct in result.correct.items():
            row = {"model": model, "dataset": test_set, "correct": int(correct.sum()), "total": len(correct)}
            rows.append(row)
            if result.diverged:
                diverged.append(f"{model}, {test_set}")
    return CrossvalStudy(
        testbed.cross_validation(rows),
        study_data.name,
        study_data.new_name,
        n_train,
        tuple(diverged),
        study_data.control,
        config,
    )


def fold_rows(data: StudyData, folds: int, seed: int) -> list[tuple[Rows, dict[str, Rows]]]:
    """For each fold: the other folds with the original test set, to train on; the fold, to test on."""
    parts = data.balanced_parts(data.train, folds, seed)
    return [
        (
            np.concatenate([np.sort(np.concatenate(parts[:number] + parts[number + 1 :])), data.original]),
            {f"split {number + 1}": fold},
        )
        for number, fold in enumerate(parts)
    ]


@record(dropped=("control", "confidence"))
class PartialConfig:
    """Settings of :func:`train_on_part`.

    Attributes:
        train: settings of the training; ``train.model`` names one or several architectures with commas.
        splits: number of random halves of the new set.
        seed: of the halves and of the training.
    """

    train: TrainConfig = field(default_factory=TrainConfig)
    splits: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
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
        with_original: accuracy with as many examples of the original test set instead.
        beyond: with_new − with_original: the gain from new rather than just more examples.
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
    the rest. As a control for more data, as many examples of the original test set are added instead.

    Args:
        data: a dataset, or a name, file or folder of one.
        new: the new test set; None uses half of the test set instead, as a control.
        config: settings.
        out: folder that keeps every finished run; an interrupted study resumes from it.
        progress: called with a line and the fraction done.

    Source: Recht et al. (2019), appendix B.2.6: 85.1 and 85.4 % with the half, 84.9 % without.

    Example:
        >>> settings = PartialConfig(TrainConfig(model="linear", epochs=3, device="cpu"), splits=1)
        >>> study = train_on_part("digits", config=settings)
        >>> study.rows[0].added, study.rows[0].without.n
        (90, 89)
    """
    config = config or PartialConfig()
    study_data = read_study_data(data, new, config.seed)
    if len(study_data.new) < 4:
        raise InputError(
            f": {study_data.new_name} has {len(study_data.new)} examples; two halves need at least 4",
            argument="new",
        )
    halves = [half_rows(study_data, config.seed, split) for split in range(config.splits)]
    both = {"original": study_data.original, "new": study_data.new}
    training_sets = {"without more examples": (study_data.train, both)}
    for split, (added, rest) in enumerate(halves, 1):
        for name, rows in added.items():
            training_sets[f"split {split} with {name} examples"] = (
                np.concatenate([study_data.train, rows]),
                {"new": rest},
            )
    runs = {
        (model, name): StudyRun(dataclasses.replace(config.train, model=model), config.seed, train, tests)
        for model in config.train.models
        for name, (train, tests) in training_sets.items()
    }
    results = dict(zip(runs, run_results(list(runs.values()), study_data, out=out, progress=progress), strict=True))
    return PartialStudy(
        tuple(
            _partial_row(model, split, study_data, halves[split - 1], results)
            for model in config.train.models
            for split in range(1, config.splits + 1)
        ),
        study_data.name,
        study_data.new_name,
        len(study_data.train),
        tuple(f"{model}, {name}" for (model, name), result in results.items() if result.diverged),
        study_data.control,
        config,
    )


def half_rows(data: StudyData, seed: int, split: int) -> tuple[dict[str, Rows], Rows]:
    """About as many original and new test examples to add to the training set, and the new ones to test on."""
    half, rest = data.balanced_parts(data.new, 2, seed, split)
    parts = -(-len(data.original) // len(half))  # so that a part has about as many examples as the half
    return {"original": data.balanced_parts(data.original, parts, seed, split)[0], "new": half}, rest


def _partial_row(
    model: str,
    split: int,
    data: StudyData,
    half: tuple[dict[str, Rows], Rows],
    results: dict[tuple[str, str], RunResult],
) -> PartialRow:
    added, rest = half
    without = results[model, "without more examples"].correct["new"][np.isin(data.new, rest)]
    with_original, with_new = (
        results[model, f"split {split} with {name} examples"].correct["new"] for name in ("original", "new")
    )
    return PartialRow(
        model,
        split,
        len(added["new"]),
        run_accuracy(without),
        run_accuracy(with_new),
        accuracy_difference(with_new, without),
        float(mcnemar([int((with_new & ~without).sum())], [int((without & ~with_new).sum())])[0]),
        run_accuracy(with_original),
        accuracy_difference(with_new, with_original),
    )
