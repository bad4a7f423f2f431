"""Reports of the confusion commands: scores, bands, subsets, transfer, ablation, error prediction."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import stats
from hardpan.arguments import one_of
from hardpan.confusion.ablation import FRACTIONS, Ablation, ablate
from hardpan.confusion.banding import Bands, TargetErrors, bands, target_errors
from hardpan.confusion.difficulty import Signals, signals
from hardpan.confusion.error_prediction import ConfusedModels, Predictors, confused_models, predictors
from hardpan.confusion.label_noise import LabelIssues, label_issues
from hardpan.confusion.scoring import Scores, Stability, split_rows, stability
from hardpan.confusion.subsets import Subset
from hardpan.confusion.transfers import Transfer, common_rows, transfer
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.files import TRANSIENT, record
from hardpan.predictions import Predictions
from hardpan.report.base import Report
from hardpan.stats.intervals import check_confidence

HARDEST = 20
QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)


@record
class ConfusionConfig:
    """Settings of the confusion commands, saved with every result.

    Attributes:
        epochs: epochs to use: "all", a number k for every k-th, or a list such as 0,5,10.
        seeds: seeds to use, such as 0,1,2; default: all.
        base: base of the logarithm; 2 gives bits.
        split: examples to use: "all", "train", "validation" or "test".
        of: count errors of the "seeds" (mean over seeds) or of their "ensemble", at the last epoch.
        edges: edges of the bands, such as 0,1,2,3.4; default: round numbers.
        confidence: level of the intervals.
        seed: of the bootstrap.
        data: the dataset that was predicted.
        subset: the file of a subset, if only its examples were used.
    """

    epochs: str | int | tuple[int, ...] = "all"
    seeds: tuple[int, ...] = ()
    base: float = 2.0
    split: str = "all"
    of: str = "seeds"
    edges: tuple[float, ...] = ()
    confidence: float = 0.95
    seed: int = 0
    data: str = ""
    subset: str = ""

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        one_of("of", self.of, ("seeds", "ensemble"))


@record(eq=False)
class ScoreReport(Report):
    """Confusion scores of a set of examples.

    Attributes:
        source: the predictions.
        split: the examples that the numbers are about.
        examples: number of examples.
        with_train: whether training examples are among them.
        seeds: numbers of the seeds.
        epochs: numbers of the epochs.
        base: of the logarithm.
        largest: the largest possible score.
        mean: mean score, with a normal interval over examples.
        quantiles: of the scores, by level.
        hardest: ids and scores of the most confusing examples.
        stability: of scores and ranking; None without standard errors.
        bands: error by band; None without labels.
        no_seed_right: fraction of the examples that every seed gets wrong at the last epoch; None without labels.
        label_issues: number of labels that look wrong; None without labels.
        sha256: of ids and scores.
        config: the settings.
        scores: of all examples (not in the JSON; ``scores.json`` beside it has them).
        signals: of all examples (not in the JSON).
        issues: labels that look wrong, of the split (not in the JSON).
        dataset: for the pictures (not in the JSON).
        subset: a hard subset to mention (not in the JSON).
    """

    source: str
    split: str
    examples: int
    with_train: bool
    seeds: tuple[int, ...]
    epochs: tuple[int, ...]
    base: float
    largest: float
    mean: Estimate
    quantiles: Mapping[str, float]
    hardest: tuple[tuple[str, float], ...]
    stability: Stability | None
    bands: Bands | None
    no_seed_right: Estimate | None
    label_issues: Estimate | None
    sha256: str
    config: ConfusionConfig = ConfusionConfig()
    scores: Scores | None = dataclasses.field(default=None, repr=False, metadata=TRANSIENT)
    signals: Signals | None = dataclasses.field(default=None, repr=False, metadata=TRANSIENT)
    issues: LabelIssues | None = dataclasses.field(default=None, repr=False, metadata=TRANSIENT)
    dataset: Dataset | None = dataclasses.field(default=None, repr=False, metadata=TRANSIENT)
    subset: Subset | None = dataclasses.field(default=None, repr=False, metadata=TRANSIENT)

    def save(self, folder: str | os.PathLike[str], **options: Any) -> Path:
        """Write the report, ``scores.csv`` and ``scores/scores.json``."""
        if self.scores is not None:
            self.scores.save(folder)
        return Report.save(self, folder, **options)


def summarize(
    scores: Scores,
    signals: Signals | None = None,
    dataset: Dataset | None = None,
    *,
    config: ConfusionConfig | None = None,
    subset: Subset | None = None,
) -> ScoreReport:
    """The report of scores: distribution, error by band, errors in the hardest tenth, labels that look wrong.

    Args:
        scores: confusion scores.
        signals: of the same predictions, for errors and label issues.
        dataset: the examples, for pictures; joined by id.
        config: the split that errors are counted on, and the confidence.
        subset: a hard subset to mention.

    Example:
        >>> from hardpan import confusion
        >>> probs = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 4, 30))
        >>> summarize(confusion.scores(probs)).examples
        30
    """
    config = config or ConfusionConfig()
    if not isinstance(scores, Scores):
        raise InputError(
            f"must be those of hardpan.confusion.scores; got {type(scores).__name__}", argument="scores"
        )
    if signals is not None and not np.array_equal(signals.ids, scores.ids):
        raise InputError("must be of the same examples in the same order", argument=("signals", "scores"))
    rows = split_rows(scores, config.split)
    own = scores.select(rows)
    values = own.values
    order = np.argsort(-values, kind="stable")[:HARDEST]
    result, missed, issues = None, None, None
    if signals is not None and signals.labels is not None:
        here = signals.select(rows)
        right = here.correct("seeds")
        result = bands(own.in_bits(), right, confidence=config.confidence)
        missed = stats.share(int((~right.any(axis=0)).sum()), len(rows), config.confidence)
        issues = dataclasses.replace(
            label_issues(here, confidence=config.confidence), class_names=scores.class_names, source=scores.source
        )
    return ScoreReport(
        source=scores.source,
        split=config.split,
        examples=len(own),
        with_train=own.split is not None and bool((own.split == "train").any()),
        seeds=scores.seeds,
        epochs=scores.epochs,
        base=scores.base,
        largest=scores.largest,
        mean=stats.mean(values, config.confidence, least=0.0),
        quantiles={f"{level:g}": float(np.quantile(values, level)) for level in QUANTILES},
        hardest=tuple((str(own.ids[row]), float(values[row])) for row in order),
        stability=None if own.stderr is None else stability(own.in_bits()),
        bands=result,
        no_seed_right=missed,
        label_issues=None if issues is None else issues.count,
        sha256=scores.sha256,
        config=config,
        scores=scores,
        signals=signals,
        issues=issues,
        dataset=dataset,
        subset=subset,
    )


@record(eq=False)
class BandsReport(Report):
    """Error by band for each split; ``scores`` is not in the JSON."""

    source: str
    splits: Mapping[str, Bands]
    of: str
    config: ConfusionConfig = ConfusionConfig()
    scores: Scores | None = dataclasses.field(default=None, repr=False, metadata=TRANSIENT)


def bands_by_split(scores: Scores, correct: ArrayLike, config: ConfusionConfig) -> BandsReport:
    """Error by band for every split that the scores have."""
    right = np.asarray(correct)
    names = ["all"] if scores.split is None else [str(name) for name in np.unique(scores.split)]
    results = {}
    for name in names:
        rows = split_rows(scores, name)
        results[name] = bands(
            scores.select(rows),
            right[..., rows],
            config.edges or None,
            confidence=config.confidence,
            seed=config.seed,
        )
    return BandsReport(scores.source, results, config.of, config, scores)


@record(eq=False)
class SubsetReport(Report):
    """A hard subset; ``scores`` (all that it was selected from) and ``dataset`` are not in the JSON."""

    subset: Subset
    config: ConfusionConfig = ConfusionConfig()
    scores: Scores | None = dataclasses.field(default=None, repr=False, metadata=TRANSIENT)
    dataset: Dataset | None = dataclasses.field(default=None, repr=False, metadata=TRANSIENT)

    def save(self, folder: str | os.PathLike[str], **options: Any) -> Path:
        """Write the report and ``subset.json``, or only the subset if ``folder`` is the name of a JSON file."""
        target = Path(folder)
        if is_manifest(target):
            return self.subset.save(target)
        page = Report.save(self, target, **options)
        self.subset.save(target / "subset.json")
        return page


def is_manifest(path: Path) -> bool:
    """Whether a path names the JSON file of a subset and not a folder for a report."""
    return path.suffix.lower() == ".json" and not path.is_dir()


@record(eq=False)
class TransferReport(Report):
    """All pairs of models, and the errors of each by band of the first one's scores.

    ``incomplete`` are models without an error by band, because they lack some of the first one's examples.
    """

    models: tuple[str, ...]
    pairs: tuple[Transfer, ...]
    targets: TargetErrors | None
    incomplete: tuple[str, ...] = ()
    config: ConfusionConfig = ConfusionConfig()


def transfer_between(
    scores: Mapping[str, Scores], correct: Mapping[str, NDArray[np.bool_]], config: ConfusionConfig
) -> TransferReport:
    """Compare the scores of every pair of models, and errors of all by band of the first one's scores."""
    names = tuple(scores)
    if len(names) < 2:
        raise InputError(f": transfer needs at least two models; got {len(names)}", argument="predictions")
    pairs = tuple(
        transfer(scores[a], scores[b], names=(a, b), confidence=config.confidence, seed=config.seed)
        for a, b in itertools.combinations(names, 2)
    )
    first = scores[names[0]]
    # Bands are of the first model's scores; another may have been recorded in another order.
    joined = {name: common_rows(first, scores[name], (names[0], name))[1] for name in correct}
    right = {name: correct[name][..., rows] for name, rows in joined.items() if len(rows) == len(first)}
    targets = target_errors(first, right, scored_by=names[0], confidence=config.confidence) if right else None
    return TransferReport(names, pairs, targets, tuple(name for name in correct if name not in right), config)


@record(eq=False)
class AblationReport(Report):
    """Scores from fewer seeds and epochs."""

    source: str
    ablation: Ablation
    config: ConfusionConfig = ConfusionConfig()


def ablation_of(
    predictions: Predictions,
    target: Predictions | None = None,
    *,
    config: ConfusionConfig | None = None,
    fractions: Sequence[float] = FRACTIONS,
    seeds: Sequence[int] | None = None,
    rows: ArrayLike | None = None,
    name: str = "",
    progress: Progress | None = None,
) -> AblationReport:
    """Ablate predictions, with the error by band of a target model (by default, of these predictions).

    Args:
        predictions: of several seeds and epochs.
        target: predictions of the model whose errors are shown.
        config: whose errors.
        fractions: fractions of the epochs.
        seeds: numbers of seeds (default: 1 and all).
        rows: only these examples.
        name: what to call the target.
        progress: called with a step and the fraction done.
    """
    config = config or ConfusionConfig()
    aligned = predictions
    if target is not None:
        if target.labels is None:
            raise InputError(
                f"target {target.where}: has no labels, so that its errors are unknown; give --data too"
            )
        aligned = target.align(predictions.ids, check=False)
        if len(aligned) != len(predictions):
            lacking = len(predictions) - len(aligned)
            raise InputError(f"target {target.where}: lacks {lacking:,} of the {len(predictions):,} examples")
    right = None if aligned.labels is None else signals(aligned).correct(config.of)
    if right is not None and rows is not None:
        right = right[..., np.asarray(rows)]
    result = ablate(
        predictions, fractions=fractions, seeds=seeds, rows=rows, correct=right, target=name, progress=progress
    )
    return AblationReport(predictions.where, result, config)


@record(eq=False)
class ComparisonReport(Report):
    """Difficulty scores as predictors of errors, and, with several models, mean confusion against accuracy."""

    source: str
    predictors: Predictors
    models: ConfusedModels | None
    config: ConfusionConfig = ConfusionConfig()


def compare_scores(
    predictions: Any, *, names: Sequence[str] = (), config: ConfusionConfig | None = None, labels: Any = None
) -> ComparisonReport:
    """The confusion score beside entropy, margin, AUM, forgetting and others: AUROC, AUPR, AURC for errors.

    Args:
        predictions: with labels; or several of them (or of the results of :func:`hardpan.confusion.signals`) by the
            name of the model. The first one's errors are predicted.
        names: the name of the model, for a single one.
        config: whose errors ("ensemble" or the first of the "seeds"), the confidence and the seed.
        labels: (N,) class numbers; by default those of the predictions.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> probs, labels = rng.dirichlet(np.ones(3), size=(2, 4, 60)), rng.integers(0, 3, 60)
        >>> compare_scores(probs, labels=labels).predictors.row("confusion score").uses_labels
        False
    """
    config = config or ConfusionConfig(of="ensemble")
    if not isinstance(predictions, Mapping):
        predictions = {(names or ("the model",))[0]: predictions}
    measured = {
        str(name): item if isinstance(item, Signals) else signals(item, labels=labels)
        for name, item in predictions.items()
    }
    called = next(iter(measured))
    first = measured[called]
    right = first.correct("ensemble") if config.of == "ensemble" else first.correct("seeds")[0]
    who = f"{called}'s {'ensemble' if config.of == 'ensemble' else 'first seed'}"
    table = predictors(first, right, target=who, confidence=config.confidence, seed=config.seed)
    models = None
    if len(measured) > 1:
        models = confused_models(
            {name: item.difficulties["confusion score"] for name, item in measured.items()},
            {name: item.correct("seeds") for name, item in measured.items()},
            confidence=config.confidence,
            seed=config.seed,
        )
    return ComparisonReport(called, table, models, config)
