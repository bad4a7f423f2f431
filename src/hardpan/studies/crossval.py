"""Could cross-validation on the original data have foreseen the new test set? (Recht et al., B.2.7 and Table 4)"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hardpan import numbers, testbed
from hardpan.errors import InputError
from hardpan.files import record
from hardpan.report.sections import Chart, Section, Table
from hardpan.stats.intervals import check_confidence
from hardpan.studies.runs import HERE, Arrangement, Place, Run, describe, run_all
from hardpan.studies.sets import Labelled, Sets, Source, balanced_parts, read_sets
from hardpan.testbed import CrossValidated, CrossValidation
from hardpan.training import TrainConfig


@record
@dataclass(frozen=True, slots=True)
class CrossvalConfig:
    """Settings of ``hardpan experiments crossval``.

    Attributes:
        train: settings of the training; ``train.model`` names one or several architectures with commas.
        folds: how many parts the training set is cut into.
        seed: of the folds and of the training.
        confidence: level of the intervals.
    """

    train: TrainConfig = field(default_factory=TrainConfig)
    folds: int = 5
    seed: int = 0
    confidence: float = 0.95

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        if isinstance(self.folds, bool) or not isinstance(self.folds, int) or self.folds < 2:
            raise InputError(f"folds must be a whole number of at least 2; got {self.folds!r}")


@record
@dataclass(frozen=True, slots=True)
class CrossvalStudy:
    """What :func:`cross_validate` returns: the table, on what, and with what settings."""

    table: CrossValidation
    data: str
    new: str
    n_train: int
    diverged: tuple[str, ...]
    notes: tuple[str, ...]
    config: CrossvalConfig


@dataclass(frozen=True, slots=True)
class Everything:
    """Train on the training set, test on both test sets."""

    def arrange(self, sets: Sets) -> tuple[Labelled, Mapping[str, Labelled]]:
        """All training examples; the original and the new test set."""
        return sets.train, {"original": sets.original, "new": sets.new}


@dataclass(frozen=True, slots=True)
class Fold:
    """Train on all folds but one and the original test set, test on the fold left out."""

    number: int
    folds: int
    seed: int

    def arrange(self, sets: Sets) -> tuple[Labelled, Mapping[str, Labelled]]:
        """The other folds with the original test set; the fold."""
        parts = balanced_parts(sets.train.labels, self.folds, self.seed)
        others = np.concatenate([part for number, part in enumerate(parts) if number != self.number])
        held_out = sets.train.take(parts[self.number])
        return sets.train.take(np.sort(others)).join(sets.original), {"held out": held_out}


def cross_validate(
    data: Source, new: Source | None = None, config: CrossvalConfig | None = None, *, place: Place = HERE
) -> CrossvalStudy:
    """Train each architecture on every fold's complement plus the original test set, and once as usual.

    The training set is cut into class-balanced folds at random; the model of a fold is trained on the other folds
    and the original test set and tested on the fold. If cross-validation foresaw the new test set, the accuracy
    there would lie among those of the folds.

    Args:
        data: a dataset, or a name, file or folder of one.
        new: the new test set; None: half of the test set stands in for it.
        config: settings.
        place: where the runs compute and are kept.

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
        raise InputError(f"folds must be at most the {len(sets.train)} training examples; got {config.folds}")
    arrangements: list[Arrangement] = [
        Everything(),
        *(Fold(number, config.folds, config.seed) for number in range(config.folds)),
    ]
    models = config.train.models
    runs = [
        Run(arrangement, dataclasses.replace(config.train, model=model), config.seed)
        for model in models
        for arrangement in arrangements
    ]
    results = run_all(runs, data, new, config.seed, place)
    rows, diverged = [], []
    for run, result in zip(runs, results, strict=True):
        for name, right in result.right.items():
            shown = f"split {run.arrangement.number + 1}" if isinstance(run.arrangement, Fold) else name
            counted = {"correct": int(right.sum()), "total": len(right)}
            rows.append({"model": run.config.model, "dataset": shown} | counted)
            if result.diverged:
                diverged.append(f"{run.config.model}, {shown}")
    table = testbed.cross_validation(rows, config.confidence)
    notes = describe(sets, config.train)
    return CrossvalStudy(table, sets.name, sets.new_name, len(sets.train), tuple(diverged), notes, config)


def section(study: CrossvalStudy) -> Section:
    """The study as a part of a report."""
    rows = study.table.rows
    unseen = [row.model for row in rows if not row.foreseen]
    first = (
        f"Cross-validation on {study.data} foresees the accuracy on the new test set ({study.new}) "
        f"for {len(rows) - len(unseen)} of {len(rows)} {'model' if len(rows) == 1 else 'models'}."
    )
    sentences = [first, *(_sentence(row) for row in rows)]
    warnings = [*study.notes]
    if study.diverged:
        warnings.append(f"The loss became NaN, and the accuracy counts as 0: {'; '.join(study.diverged)}.")
    table = Table("Accuracies (percent)", ("test set", *(row.model for row in rows)), _cells(study))
    estimates = {f"{row.model}, new test set": row.new for row in rows}
    return Section(
        "Could cross-validation have foreseen it?",
        tuple(sentences),
        estimates,
        (_chart(study),),
        (table,),
        tuple(warnings),
    )


def _cells(study: CrossvalStudy) -> tuple[tuple[str, ...], ...]:
    """The paper's Table 4: a row a test set, a column a model."""
    rows = study.table.rows
    splits = [(f"split {k + 1}", [row.splits[k] for row in rows]) for k in range(study.config.folds)]
    named = [("original", [row.original for row in rows]), *splits, ("new", [row.new for row in rows])]
    columns = [numbers.aligned(items, scale=100) for items in zip(*(items for _, items in named), strict=True)]
    return tuple(zip((name for name, _ in named), *columns, strict=True))


def _sentence(row: CrossValidated) -> str:
    inside = "within their range" if row.foreseen else "outside their range"
    return (
        f"{row.model}: the splits differ by {100 * row.spread:.1f} points; the new test set lies "
        f"{100 * abs(row.drop):.1f} points {'below' if row.drop >= 0 else 'above'} their mean, {inside}."
    )


def _chart(study: CrossvalStudy) -> Chart:
    rows = []
    for row in study.table.rows:
        mean = float(np.mean([item.value for item in row.splits]))
        named = [("original", row.original), *((f"split {k + 1}", item) for k, item in enumerate(row.splits))]
        for name, item in [*named, ("new", row.new)]:
            ends = {"value": item.value - mean, "low": item.low - mean, "high": item.high - mean}
            role = "left out" if name == "new" else "in the fit"
            rows.append({"name": f"{row.model}, {name}", **ends, "role": role})
    return Chart(
        "deviations",
        "Accuracy beyond the mean of the splits",
        tuple(rows),
        "For each model the original test set, the cross-validation splits and the new test set, as dots with "
        "intervals, relative to the mean accuracy of the splits. " + " ".join(map(_sentence, study.table.rows)),
        {"x_title": "accuracy less the mean over the splits"},
    )
