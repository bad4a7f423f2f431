"""Reports of scores, subsets and transfer: predictions are opened, joined and checked, read once, and compared."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import stats
from hardpan.arguments import check_confidence, one_of, whole_number
from hardpan.confusion.ablation import FRACTIONS, Ablation, ablation_plan
from hardpan.confusion.banding import Bands, band_limits, bands_of
from hardpan.confusion.difficulty_signals import UNLABELLED, Signals, difficulty_signal_columns, signals_of
from hardpan.confusion.difficulty_signals import signals as measure_signals
from hardpan.confusion.error_prediction import Predictors, predictors
from hardpan.confusion.label_noise import LabelIssues, label_issues
from hardpan.confusion.scoring import Scores, Stability, load_scores, scores_of, stability
from hardpan.confusion.subsets import Subset, is_subset_file, load_subset
from hardpan.confusion.subsets import subset as select_subset
from hardpan.confusion.transfers import (
    ConfusedModels,
    TargetErrors,
    Transfer,
    common_rows,
    confused_models,
    target_errors_by_band,
    transfer,
)
from hardpan.data.dataset import Dataset
from hardpan.data.opening import data_source_name
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.files import TRANSIENT, record
from hardpan.predictions import Predictions
from hardpan.predictions.opening import open_selected
from hardpan.report import Report

HARDEST = 20
QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
SECTIONS = ("bands", "issues", "ablation", "comparison")
CHEAP = ("bands", "issues")  # sections that a report has unless others are named


@record(dropped=("correct",))
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
        data: the dataset that was predicted, for labels, split and images.
        subset: use only the examples of this subset (confusion subset --out FILE).
        only: sections: bands, issues (labels unlike the prediction), ablation (fewer seeds and epochs), comparison
            (other difficulty scores); default: bands,issues where labels are known.
        by_order: join predictions by position if they have no ids.
        class_check: refuse predictions whose class columns look permuted or shifted.
        outputs: what the file contains: probabilities, logits, labels, or auto (by its values).
        normalize: divide rows by their sums (rounded rows, percentages).
        fractions: fractions of the epochs for the ablation.
        seed_counts: numbers of seeds for the ablation; default: 1 and all.
        target: predictions of the model whose error by band the ablation has; default: the scored ones.
        names: names of the models, separated by commas; default: their paths.
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
    only: tuple[str, ...] = ()
    by_order: bool = False
    class_check: bool = True
    outputs: str = "auto"
    normalize: bool = False
    fractions: tuple[float, ...] = FRACTIONS
    seed_counts: tuple[int, ...] = ()
    target: str = ""
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        whole_number("seed", self.seed, 0)
        one_of("of", self.of, ("seeds", "ensemble"))
        for name in self.only:
            one_of("only", name, SECTIONS)


@record(eq=False)
class BandsReport(Report):
    """Error by band for each split; ``scores`` is not in the JSON."""

    source: str
    splits: Mapping[str, Bands]
    of: str
    config: ConfusionConfig = dataclasses.field(default_factory=ConfusionConfig)
    scores: Scores | None = dataclasses.field(default=None, repr=False, metadata=TRANSIENT)


@record(eq=False)
class AblationReport(Report):
    """Scores from fewer seeds and epochs."""

    source: str
    ablation: Ablation
    config: ConfusionConfig = dataclasses.field(default_factory=ConfusionConfig)


@record(eq=False)
class ComparisonReport(Report):
    """Difficulty scores as predictors of errors, and, with several models, mean confusion against accuracy."""

    source: str
    predictors: Predictors
    models: ConfusedModels | None
    config: ConfusionConfig = dataclasses.field(default_factory=ConfusionConfig)


@record(eq=False, dropped=("label_issues",))
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
        sha256: of ids and scores.
        config: the settings.
        by_split: error by band of each split, where there are several.
        ablation: scores from fewer seeds and epochs, if computed.
        comparison: other difficulty scores as predictors of errors, if computed.
        logits: whether the predictions were logits, as their values show.
        relabelled: number of examples whose label in the dataset is not that of the predictions.
        scores: of all examples (not in the JSON; ``scores.json`` beside it has them).
        signals: of all examples (not in the JSON).
        issues: labels that differ from the prediction, of the split without training rows (not in the JSON).
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
    sha256: str
    config: ConfusionConfig = dataclasses.field(default_factory=ConfusionConfig)
    by_split: BandsReport | None = None
    ablation: AblationReport | None = None
    comparison: ComparisonReport | None = None
    logits: bool = False
    relabelled: int = 0
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


def score_report(
    predictions: Any,
    dataset: Dataset | None = None,
    *,
    config: ConfusionConfig | None = None,
    progress: Progress | None = None,
) -> ScoreReport:
    """Confusion scores with the sections that the settings name, from one read of each seed and epoch.

    Args:
        predictions: :class:`hardpan.Predictions`, or the path of predictions or of saved scores.
        dataset: the examples, for labels, split and pictures; joined by id.
        config: the settings.
        progress: called with a step and the fraction done.

    Example:
        >>> probs = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 4, 30))
        >>> report = score_report(Predictions.from_arrays(probs, labels=np.arange(30) % 3))
        >>> report.examples, report.bands.examples, report.ablation
        (30, 30, None)
    """
    config = config or ConfusionConfig()
    scores = _scores_to_report(predictions, config)
    if scores is not None:
        if config.only:
            raise InputError(
                ": scores alone do not tell right from wrong; give predictions, or no sections",
                argument="only",
            )
        return summarize(scores, None, dataset, config=config)
    source = open_reported_predictions(predictions, dataset, config)
    if source.labels is None and {"bands", "issues", "comparison"} & set(config.only):
        raise InputError(UNLABELLED, argument="labels")
    target = open_reported_predictions(config.target, dataset, config) if config.target else None
    target = target.align(source.ids, check=False) if target is not None else None
    ablated = "ablation" in config.only
    plan = ablation_plan(source, config.fractions, config.seed_counts or None) if ablated else None
    columns = difficulty_signal_columns(source, stderr=True, signals=True, plan=plan, progress=progress)
    scores, signals = scores_of(source, columns, config.base), signals_of(source, columns)
    if config.class_check:
        source.check_classes(signals.answers)
    report = summarize(scores, signals, dataset, config=config)
    rows = scores.rows_of_split(config.split)
    ablation = comparison = None
    if plan is not None:
        if target is not None and (target.labels is None or len(target) != len(source)):
            lacking = "labels" if target.labels is None else f"{len(source) - len(target):,} of the examples"
            raise InputError(f"{target.where}: lacks {lacking}, so that its errors are unknown", argument="target")
        answers = signals if target is None else measure_signals(target)
        right = None if answers.labels is None else answers.correct(config.of)[..., rows]
        name = Path(config.target or source.where).name
        variants = plan.compare(columns["fewer"][..., rows], n_classes=source.n_classes, correct=right, target=name)
        ablation = AblationReport(source.where, variants, config)
    if "comparison" in config.only:
        settings = dataclasses.replace(config, of="ensemble")
        comparison = compare_scores({data_source_name(source.where): signals.select(rows)}, config=settings)
    is_logits = config.outputs == "auto" and source.outputs == "logits"
    return dataclasses.replace(
        report, ablation=ablation, comparison=comparison, logits=is_logits, relabelled=source.relabelled
    )


def open_reported_predictions(predictions: Any, dataset: Dataset | None, config: ConfusionConfig) -> Predictions:
    """Predictions with the selected seeds, epochs and examples, joined to the dataset; classes are not checked."""
    opened = Predictions.open(predictions, outputs=config.outputs, normalize=config.normalize)
    if dataset is not None:
        opened = opened.align(dataset, by_order=config.by_order, check=False)
    opened = open_selected(opened, epochs=config.epochs, seeds=config.seeds or None)
    return opened.select(load_subset(config.subset)) if config.subset else opened


def _scores_to_report(path: Any, config: ConfusionConfig) -> Scores | None:
    saved = load_scores(path) if isinstance(path, (str, os.PathLike)) else None
    return saved.select(load_subset(config.subset)) if saved is not None and config.subset else saved


def summarize(
    scores: Scores,
    signals: Signals | None = None,
    dataset: Dataset | None = None,
    *,
    config: ConfusionConfig | None = None,
    subset: Subset | None = None,
) -> ScoreReport:
    """The report of scores: distribution, error by band, errors in the hardest tenth, labels unlike the prediction.

    Args:
        scores: confusion scores.
        signals: of the same predictions, for errors and label issues.
        dataset: the examples, for pictures; joined by id.
        config: the split that errors are counted on, the sections, and the confidence.
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
    rows, bits = scores.rows_of_split(config.split), scores.in_bits()
    own = scores.select(rows)
    order = np.argsort(-own.values, kind="stable")[:HARDEST]
    sections = config.only or CHEAP
    by_split, missed, issues = {}, None, None
    if signals is not None and signals.labels is not None:
        correct = signals.correct(config.of)
        never_right = int((~signals.correct("seeds")[:, rows].any(axis=0)).sum())
        missed = stats.share(never_right, len(rows), config.confidence)
        if "bands" in sections:
            splits = [] if own.split is None or config.split != "all" else np.unique(own.split).tolist()
            for name in [config.split, *(splits if len(splits) > 1 else ())]:
                index = scores.rows_of_split(name)
                values, right = bits.values[index], np.atleast_2d(correct[..., index])
                limits = band_limits(values, config.edges or None, bits.largest)
                by_split[name] = bands_of(values, limits, right, config.confidence, config.seed)
        split = np.full(len(scores), "") if scores.split is None else np.asarray(scores.split).astype(np.str_)
        unseen = rows[split[rows] != "train"]  # the models have seen the training rows
        if "issues" in sections and len(unseen) and (ranked := label_issues(signals.select(unseen)).ranked):
            ranked = dataclasses.replace(ranked, row=unseen[ranked.row], split=split[unseen[ranked.row]])
            issues = LabelIssues.of(ranked, scores.class_names, scores.source)
    overall = by_split.pop(config.split, None)
    return ScoreReport(
        source=scores.source,
        split=config.split,
        examples=len(own),
        with_train=own.split is not None and bool((own.split == "train").any()),
        seeds=scores.seeds,
        epochs=scores.epochs,
        base=scores.base,
        largest=scores.largest,
        quantiles={f"{level:g}": float(np.quantile(own.values, level)) for level in QUANTILES},
        hardest=tuple((str(own.ids[row]), float(own.values[row])) for row in order),
        stability=None if own.stderr is None else stability(own.in_bits()),
        mean=stats.mean(own.values, config.confidence, least=0.0),
        bands=overall,
        no_seed_right=missed,
        sha256=scores.sha256,
        config=config,
        by_split=BandsReport(scores.source, by_split, config.of, config) if by_split else None,
        scores=scores,
        signals=signals,
        issues=issues,
        dataset=dataset,
        subset=subset,
    )


@record(eq=False)
class SubsetReport(Report):
    """A hard subset; ``scores`` (all that it was selected from) and ``dataset`` are not in the JSON."""

    subset: Subset
    config: ConfusionConfig = dataclasses.field(default_factory=ConfusionConfig)
    scores: Scores | None = dataclasses.field(default=None, repr=False, metadata=TRANSIENT)
    dataset: Dataset | None = dataclasses.field(default=None, repr=False, metadata=TRANSIENT)

    def save(self, folder: str | os.PathLike[str], **options: Any) -> Path:
        """Write the report and ``subset.json``, or only the subset if ``folder`` is the name of a JSON file."""
        target = Path(folder)
        if is_subset_file(target):
            return self.subset.save(target)
        page = Report.save(self, target, **options)
        self.subset.save(target / "subset.json")
        return page


def subset_report(
    predictions: Any,
    dataset: Dataset | None = None,
    *,
    rule: Mapping[str, Any],
    config: ConfusionConfig | None = None,
    progress: Progress | None = None,
) -> SubsetReport:
    """A hard subset of predictions or saved scores.

    Args:
        predictions: as for :func:`score_report`.
        dataset: the examples, for labels, split and pictures; joined by id.
        rule: arguments of :func:`hardpan.confusion.subset`.
        config: the settings.
        progress: called with a step and the fraction done.
    """
    config = config or ConfusionConfig()
    scores = _scores_to_report(predictions, config)
    if scores is None:
        source = open_reported_predictions(predictions, dataset, config)
        if config.class_check:
            source.check_classes()
        scores = scores_of(source, difficulty_signal_columns(source, progress=progress), config.base)
    scores = scores.select(split=config.split)
    return SubsetReport(select_subset(scores, **rule), config, scores, dataset)


@record(eq=False)
class TransferReport(Report):
    """All pairs of models, the errors of each by band of the first one's scores, and accuracy against confusion.

    ``incomplete`` are models without an error by band, because they lack some of the first one's examples.
    """

    models: tuple[str, ...]
    pairs: tuple[Transfer, ...]
    targets: TargetErrors | None
    incomplete: tuple[str, ...] = ()
    config: ConfusionConfig = dataclasses.field(default_factory=ConfusionConfig)
    accuracy: ConfusedModels | None = None


def transfer_report(
    predictions: Sequence[Any],
    dataset: Dataset | None = None,
    *,
    config: ConfusionConfig | None = None,
    progress: Progress | None = None,
) -> TransferReport:
    """Compare the scores of every pair of models, and the errors of all by band of the first one's scores.

    Args:
        predictions: one per model, each as for :func:`score_report`.
        dataset: the examples that all of them predict; joined by id.
        config: the settings, with the names of the models.
        progress: called with a step and the fraction done.
    """
    config = config or ConfusionConfig()
    if len(predictions) < 2:
        raise InputError(f": transfer needs at least two models; got {len(predictions)}", argument="predictions")
    names = _names_of_reported_models(predictions, config.names)
    scores: dict[str, Scores] = {}
    correct: dict[str, NDArray[np.bool_]] = {}
    for name, item in zip(names, predictions, strict=True):
        saved = _scores_to_report(item, config)
        if saved is not None:
            scores[name] = saved.select(split=config.split)
            continue
        source = open_reported_predictions(item, dataset, config)
        columns = difficulty_signal_columns(source, signals=True, progress=progress)
        signals, whole = signals_of(source, columns), scores_of(source, columns, config.base)
        rows = whole.rows_of_split(config.split)
        scores[name] = whole.select(rows)
        if source.labels is not None:
            if config.class_check:
                source.check_classes(signals.answers)
            correct[name] = signals.correct(config.of)[..., rows]
    pairs = tuple(
        transfer(scores[a], scores[b], names=(a, b), confidence=config.confidence, seed=config.seed)
        for a, b in itertools.combinations(names, 2)
    )
    first = scores[names[0]]
    # Bands are of the first model's scores; another may have been recorded in another order.
    joined = {name: common_rows(first, scores[name], (names[0], name))[1] for name in correct}
    right = {name: correct[name][..., rows] for name, rows in joined.items() if len(rows) == len(first)}
    targets = (
        target_errors_by_band(first, right, scored_by=names[0], confidence=config.confidence) if right else None
    )
    accuracy = None
    if len(right) == len(names):
        values = {name: scores[name].in_bits().values[joined[name]] for name in names}
        accuracy = confused_models(values, right, confidence=config.confidence, seed=config.seed)
    incomplete = tuple(name for name in correct if name not in right)
    return TransferReport(names, pairs, targets, incomplete, config, accuracy)


def _names_of_reported_models(predictions: Sequence[Any], names: Sequence[str]) -> tuple[str, ...]:
    """Names of the models: as given, or from their paths, numbered if those are alike."""
    if names:
        listed = tuple(name.strip() for name in names)
        if len(listed) != len(predictions) or len(set(listed)) != len(listed) or not all(listed):
            raise InputError(f"must be {len(predictions)} different names; got {list(names)}", argument="names")
        return listed
    stems = [data_source_name(item.where if isinstance(item, Predictions) else str(item)) for item in predictions]
    return tuple(
        stem if stems.count(stem) == 1 else f"{stem} {stems[: i + 1].count(stem)}" for i, stem in enumerate(stems)
    )


def compare_scores(
    predictions: Any, *, config: ConfusionConfig | None = None, labels: Any = None
) -> ComparisonReport:
    """The confusion score beside entropy, margin, AUM, forgetting and others: AUROC, AUPR, AURC for errors.

    Args:
        predictions: with labels; or several of them (or of the results of :func:`hardpan.confusion.signals`) by the
            name of the model. The first one's errors are predicted.
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
        predictions = {"the model": predictions}
    measured = {
        str(name): item if isinstance(item, Signals) else measure_signals(item, labels=labels)
        for name, item in predictions.items()
    }
    called, first = next(iter(measured.items()))
    whole = config.of == "ensemble"
    right = first.correct("ensemble") if whole else first.correct("seeds")[0]
    who = f"{called}'s {'ensemble' if whole else 'first seed'}"
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
