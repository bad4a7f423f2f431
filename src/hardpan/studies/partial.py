"""Does training on part of the new test set recover the rest of it? (Recht et al., B.2.6)"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hardpan import numbers
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.report.sections import Chart, Section, Table
from hardpan.stats import mcnemar
from hardpan.stats.intervals import check_confidence
from hardpan.studies.runs import (
    HERE,
    Arrangement,
    Place,
    Run,
    RunResult,
    accuracy,
    describe,
    difference,
    run_all,
)
from hardpan.studies.sets import Labelled, Sets, Source, balanced_parts, read_sets
from hardpan.training import TrainConfig


@record
@dataclass(frozen=True, slots=True)
class PartialConfig:
    """Settings of ``hardpan experiments partial``.

    Attributes:
        train: settings of the training; ``train.model`` names one or several architectures with commas.
        splits: how many random halves of the new set are tried.
        control: also add as many examples of the original test set instead, which tells more data from other data.
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
        if isinstance(self.splits, bool) or not isinstance(self.splits, int) or self.splits < 1:
            raise InputError(f"splits must be a whole number of at least 1; got {self.splits!r}")


@record
@dataclass(frozen=True, slots=True)
class PartialRow:
    """One model on the half of the new set that it was not trained on.

    Attributes:
        model: its name.
        split: number of the random half, from 1.
        added: how many new examples were trained on.
        without: accuracy of the model that was trained on the training set alone.
        with_new: accuracy of the one that had the other half of the new set too.
        gain: with_new − without, on the same examples.
        p: exact McNemar p-value of that gain.
        with_original: accuracy with as many examples of the original test set instead, or None.
        beyond: with_new − with_original, or None: what the new examples give beyond any examples.
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
@dataclass(frozen=True, slots=True)
class PartialStudy:
    """What :func:`train_on_part` returns."""

    rows: tuple[PartialRow, ...]
    data: str
    new: str
    n_train: int
    diverged: tuple[str, ...]
    notes: tuple[str, ...]
    config: PartialConfig


@dataclass(frozen=True, slots=True)
class Baseline:
    """Train on the training set alone, test on all of the new set."""

    def arrange(self, sets: Sets) -> tuple[Labelled, Mapping[str, Labelled]]:
        """All training examples; the new test set."""
        return sets.train, {"new": sets.new}


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
    data: Source, new: Source | None = None, config: PartialConfig | None = None, *, place: Place = HERE
) -> PartialStudy:
    """Add a random, class-balanced half of the new set to the training set, and test on the other half.

    If the new set came from a different distribution that the model can learn, the half would lift the accuracy on
    the rest. With ``control`` as many examples of the original test set are added instead.

    Args:
        data: a dataset, or a name, file or folder of one.
        new: the new test set; None: half of the test set stands in for it.
        config: settings.
        place: where the runs compute and are kept.

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
            f"new set {sets.new_name} has {len(sets.new)} examples; at least 4 are needed for two halves"
        )
    kinds = ("original", "new") if config.control else ("new",)
    halves = [WithHalf(split, config.seed, kind) for split in range(config.splits) for kind in kinds]
    arrangements: list[Arrangement] = [Baseline(), *halves]
    runs = [
        Run(arrangement, dataclasses.replace(config.train, model=model), config.seed)
        for model in config.train.models
        for arrangement in arrangements
    ]
    results = run_all(runs, data, new, config.seed, place)
    found = {(run.config.model, run.arrangement): result for run, result in zip(runs, results, strict=True)}
    rows = tuple(
        _row(model, split, sets, found, config) for model in config.train.models for split in range(config.splits)
    )
    diverged = tuple(f"{model}, {_named(kind)}" for (model, kind), result in found.items() if result.diverged)
    return PartialStudy(
        rows, sets.name, sets.new_name, len(sets.train), diverged, describe(sets, config.train), config
    )


def _row(
    model: str, split: int, sets: Sets, found: Mapping[tuple[str, Arrangement], RunResult], config: PartialConfig
) -> PartialRow:
    half, rest = balanced_parts(sets.new.labels, 2, config.seed, split)
    without = found[model, Baseline()].right["new"][rest]
    fresh = found[model, WithHalf(split, config.seed, "new")].right["rest"]
    level = config.confidence
    gain = difference(fresh, without, level)
    p = float(mcnemar([int((fresh & ~without).sum())], [int((without & ~fresh).sum())])[0])
    other = beyond = None
    if config.control:
        right = found[model, WithHalf(split, config.seed, "original")].right["rest"]
        other = accuracy(right, level)
        beyond = difference(fresh, right, level)
    return PartialRow(
        model, split + 1, len(half), accuracy(without, level), accuracy(fresh, level), gain, p, other, beyond
    )


def section(study: PartialStudy) -> Section:
    """The study as a part of a report."""
    rows = study.rows
    sure = [row for row in rows if row.gain.low > 0]
    added = max(row.added for row in rows)
    first = (
        f"Training on half of the new test set as well ({study.new}, {added:,} examples beside {study.n_train:,}) "
        f"clearly raises the accuracy on the other half in {len(sure)} of {len(rows)} trials."
    )
    warnings = [*study.notes]
    if study.diverged:
        warnings.append(f"The loss became NaN, and the accuracy counts as 0: {'; '.join(study.diverged)}.")
    control = ("with original", "beyond it") if study.config.control else ()
    table = Table(
        "Accuracies on the half that was not trained on (percent), gains (points)",
        ("model", "split", "without", "with new", "gain", "p (McNemar)", *control),
        _cells(rows, study.config.control),
    )
    chart = Chart(
        "deviations",
        "Gain from training on half of the new test set",
        tuple(
            {
                "name": f"{row.model}, split {row.split}",
                "value": row.gain.value,
                "low": row.gain.low,
                "high": row.gain.high,
                "role": "in the fit",
            }
            for row in rows
        ),
        "A dot with its interval for each model and split: " + " ".join(map(_sentence, rows)),
        {"x_title": "gain by the half of the new set"},
    )
    estimates = {f"{row.model}, split {row.split}: gain": row.gain for row in rows}
    sentences = (first, *map(_sentence, rows))
    return Section("Would training on the new set help?", sentences, estimates, (chart,), (table,), tuple(warnings))


def _sentence(row: PartialRow) -> str:
    text = (
        f"{row.model}, split {row.split}: {numbers.estimate(row.with_new)} with the half, "
        f"{numbers.estimate(row.without)} without, a change of {numbers.signed(row.gain)}."
    )
    if row.beyond is not None:
        text += f" As many original examples instead: the new ones give {numbers.signed(row.beyond)} more."
    return text


def _cells(rows: Sequence[PartialRow], control: bool) -> tuple[tuple[object, ...], ...]:
    columns: list[Sequence[object]] = [
        [row.model for row in rows],
        [row.split for row in rows],
        numbers.aligned((row.without for row in rows), scale=100),
        numbers.aligned((row.with_new for row in rows), scale=100),
        numbers.aligned((row.gain for row in rows), scale=100, sign="+"),
        [float(f"{row.p:.2g}") for row in rows],
    ]
    if control:
        columns.append(numbers.aligned((row.with_original for row in rows), scale=100))
        columns.append(numbers.aligned((row.beyond for row in rows), scale=100, sign="+"))
    return tuple(zip(*columns, strict=True))


def _named(arrangement: Arrangement) -> str:
    if isinstance(arrangement, WithHalf):
        return f"split {arrangement.split + 1} with {arrangement.added} examples"
    return "without more examples"
