"""The floor of a dataset: the bracket that evidence supports, and estimates under assumptions beside it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hardpan import files, stats
from hardpan.arguments import one_of, real_number
from hardpan.bayes.floors.classifiers import CLASSIFIERS, Fitted, fit_classifier
from hardpan.bayes.floors.flow import Difference, FlowEvidence, FlowModel, flow_entries, flow_evidence
from hardpan.bayes.floors.gaussian_fit import gaussian_entries
from hardpan.bayes.floors.inputs import FloorInputs, prepare_floor_inputs
from hardpan.bayes.floors.model_predictions import Model, Sources, model_entries, read_models
from hardpan.bayes.floors.neighbours import neighbours_entries
from hardpan.bayes.floors.overlap import bhattacharyya_entries
from hardpan.bayes.floors.plugin import CALIBRATIONS
from hardpan.bayes.floors.repeats import repeat_floor
from hardpan.bayes.floors.spanning_tree import spanning_tree_entries
from hardpan.bayes.floors.verdict import (
    REPEATS,
    STATED_NOISE,
    Bracket,
    Contradiction,
    Entry,
    classifier_entry,
    weigh,
)
from hardpan.bayes.floors.votes import Annotations, read_votes, vote_entries
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.execution.mapping import between, no_progress
from hardpan.files import record
from hardpan.report.base import Report
from hardpan.stats.intervals import check_confidence

TABLE_CLASSIFIERS = ("boosted trees", "linear model")
IMAGE_CLASSIFIERS = ("linear model",)

ESTIMATORS: dict[str, tuple[Callable[[FloorInputs, str, float, int], Iterator[Entry]], str]] = {
    "neighbours": (neighbours_entries, "neighbours"),
    "tree": (spanning_tree_entries, "tree"),
    "gaussian": (gaussian_entries, "gaussian"),
    "bhattacharyya": (bhattacharyya_entries, "gaussian-per-class"),
}
"""Estimators that use features and labels, by name: a generator of entries, and what they assume (a key of
:data:`hardpan.pages.floors.ASSUMPTIONS`). To add one, write the generator in its
module and its line here."""


@record
class FloorConfig:
    """Settings of a floor, saved with it.

    Attributes:
        estimators: estimators that need an assumption: "neighbours", "tree", "gaussian", "bhattacharyya".
        classifiers: classifiers to fit, for the upper bound: "auto", none, or some of "boosted trees", "linear
            model", "extra trees".
        calibrations: how predictions are calibrated: "temperature", "vector", "isotonic".
        by_order: join predictions by position if they have no ids.
        held_out: state that the models that were passed were not trained or tuned on the test examples.
        folds: cross-validate the estimators that were passed in this many folds; 0: use them as fitted.
        label_noise: rate of random label flips, if known; gives a lower bound of the error.
        samples: number of samples of the flow that are compared with the data.
        budget: seconds for fitting classifiers.
        confidence: joint level of the bracket.
        seed: of the split and of every random draw.
    """

    estimators: tuple[str, ...] = ("neighbours", "tree", "gaussian", "bhattacharyya")
    classifiers: tuple[str, ...] = ("auto",)
    calibrations: tuple[str, ...] = ("temperature", "vector", "isotonic")
    by_order: bool = False
    held_out: bool = False
    folds: int = 0
    label_noise: float = 0.0
    samples: int = 5000
    budget: float = 60.0
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        for argument, names, known in (
            ("estimators", self.estimators, tuple(ESTIMATORS)),
            ("classifiers", self.classifiers, ("auto", *CLASSIFIERS)),
            ("calibrations", self.calibrations, tuple(CALIBRATIONS)),
        ):
            for name in names:
                one_of(argument, name, known)
        if not isinstance(self.held_out, bool):
            raise InputError(f"must be True or False; got {self.held_out!r}", argument="held_out")
        real_number("label_noise", self.label_noise, "[0, 1)")
        if not self.budget > 0:
            raise InputError(f"must be a positive number of seconds; got {self.budget!r}", argument="budget")


@record
class Floor(Report):
    """How low the error on a dataset can go.

    Attributes:
        dataset: its name.
        config: the settings.
        bracket: lower and upper end, from evidence that needs no assumption about the features.
        entries: every number: evidence, estimates under an assumption, and classifiers.
        contradictions: pairs of entries that cannot both be true.
        n_test: test examples on which classifiers were evaluated.
        n_copies: test examples that were left out because train has a copy of them.
        n_classes: K.
        skipped: estimators that could not be computed, and why.
        differences: how far each flow's samples are from the data.
        along: of a flow, its Bayes error after each epoch of its fit.
        hashes: what was read, and its sha256.
        seen: errors of models that may have seen the test examples; they decide nothing.
    """

    dataset: str
    config: FloorConfig
    bracket: Bracket
    entries: tuple[Entry, ...]
    contradictions: tuple[Contradiction, ...] = ()
    n_test: int = 0
    n_copies: int = 0
    n_classes: int = 2
    skipped: Mapping[str, str] = field(default_factory=dict)
    differences: tuple[Difference, ...] = ()
    along: tuple[Mapping[str, Any], ...] = ()
    hashes: Mapping[str, str] = field(default_factory=dict)
    seen: tuple[Entry, ...] = ()

    def __getitem__(self, name: str) -> Entry:
        """The entry of that name."""
        return {entry.name: entry for entry in (*self.seen, *self.entries)}[name]

    @property
    def low(self) -> float:
        """Lower end of the bracket."""
        return self.bracket.low

    @property
    def high(self) -> float:
        """Upper end of the bracket."""
        return self.bracket.high

    @property
    def best(self) -> Entry | None:
        """The classifier with the lowest held-out error, None where there is none.

        One that was evaluated on some of the test examples only (a flow, for lack of time) is not compared with
        those that were evaluated on all of them.
        """
        classifiers = [entry for entry in self.entries if entry.role == "classifier"]
        most = max((entry.estimate.n or 0 for entry in classifiers), default=0)
        whole = [entry for entry in classifiers if (entry.estimate.n or 0) == most]
        return min(whole, key=lambda entry: entry.estimate.value, default=None)

    @property
    def best_error(self) -> Estimate | None:
        """The error of the best classifier, with an interval that allows for its choice among all of them."""
        return (
            None if self.best is None else error_of_best_classifier(self.best.estimate, self.bracket.n_classifiers)
        )


def error_of_best_classifier(error: Estimate, classifiers: int) -> Estimate:
    """The error of the best of several classifiers: chosen on the same examples, so they share the level."""
    if classifiers < 2 or not error.n:
        return error
    level = 1 - (1 - error.confidence) / classifiers
    low, high = (float(end) for end in stats.clopper_pearson(round(error.value * error.n), error.n, level))
    method = f"{error.method}; interval for the best of {classifiers} (Bonferroni)"
    return dataclasses.replace(error, low=low, high=high, method=method)


def floor(
    dataset: Dataset | str | os.PathLike[str] | None = None,
    *,
    predictions: Sources | None = None,
    flow: FlowModel | None = None,
    votes: ArrayLike | str | os.PathLike[str] | None = None,
    config: FloorConfig | None = None,
    progress: Progress | None = None,
    **changes: Any,
) -> Floor:
    """Bracket the lowest possible error on a dataset, and list every estimate under an assumption beside it.

    The upper end is the best classifier's one-sided Clopper–Pearson limit at level α/M for M classifiers, on test
    examples without a copy in train. The lower end comes only from repeated inputs with conflicting labels, from
    votes or soft labels, or from a stated noise rate; it is 0 otherwise.

    Args:
        dataset: a labelled dataset, or what :meth:`hardpan.Dataset.open` opens; None: from votes alone.
        predictions: of models: paths, arrays or :class:`hardpan.Predictions`, one or several, or by name. They
            enter the bracket if the dataset has an official test split, if they were recorded as held out, or with
            ``held_out=True``; else they are listed as models that may have seen these rows.
        flow: a fitted flow of this dataset.
        votes: (n, K) counts of annotators' votes, or soft labels; an array or the path of an npz or npy file.
        config: the settings; the defaults of :class:`FloorConfig` if None.
        progress: called with the current step and the fraction of the work that is done.
        changes: settings to be changed in ``config``, such as ``label_noise=0.1``.

    Returns:
        A :class:`Floor`: bracket, entries, contradictions.

    Source: Clopper and Pearson (1934) for the upper end; Antos, Devroye and Györfi (1999) for why no lower end
    exists without further evidence; Theisen et al. (2021) for floors from flows.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 2, 3000)
        >>> data = Dataset.from_arrays(rng.normal(2.0 * y, 1.0)[:, None], y)
        >>> found = floor(data, classifiers=("linear model",), estimators=("neighbours",))   # Bayes error 0.159
        >>> found.low, found.high > 0.159
        (0.0, True)
    """
    config = dataclasses.replace(config or FloorConfig(), **changes)
    report = progress or no_progress
    if dataset is None:
        return _floor_of_votes(votes, config)
    report("reading the data", 0.0)
    inputs = prepare_floor_inputs(Dataset.open(dataset), config.seed)
    models = read_models(
        predictions,
        inputs.dataset,
        inputs.labels,
        inputs.split,
        by_order=config.by_order,
        held_out=config.held_out,
        folds=config.folds,
    )
    annotations = None
    votes = inputs.dataset.metadata.get("votes") if votes is None else votes
    if votes is not None:
        annotations = read_votes(
            votes, n_classes=inputs.dataset.n_classes, ids=inputs.dataset.ids, test=inputs.split.test
        )
    evidence = None
    if flow is not None:
        evidence = flow_evidence(
            flow,
            inputs.dataset,
            inputs.labels,
            inputs.split,
            samples=config.samples,
            confidence=config.confidence,
            seed=config.seed,
            progress=between(report, 0.05, 0.25),
        )
    fitted = fit_classifiers(inputs, config, progress=between(report, 0.25, 0.6))
    return floor_of(
        inputs,
        config,
        models=models,
        fitted=fitted,
        flow=evidence,
        annotations=annotations,
        progress=between(report, 0.6, 1.0),
    )


def fit_classifiers(
    inputs: FloorInputs, config: FloorConfig, *, progress: Progress | None = None
) -> tuple[Fitted, ...]:
    """Fit the classifiers of the settings; probabilities are those of the test rows of ``inputs``."""
    names = config.classifiers
    if "auto" in names:
        auto = IMAGE_CLASSIFIERS if inputs.is_images else TABLE_CLASSIFIERS
        names = tuple(dict.fromkeys(new for name in names for new in (auto if name == "auto" else (name,))))
    report = progress or no_progress
    options: dict[str, Any] = {"seconds": config.budget / max(len(names), 1), "seed": config.seed}
    fitted = []
    for number, name in enumerate(names if len(inputs.test) else ()):
        report(f"fitting {name}", number / len(names))
        rows = inputs.split.train, inputs.split.validation, inputs.test
        fitted.append(fit_classifier(name, inputs.table, *rows, **options))
    return tuple(fitted)


def floor_of(
    inputs: FloorInputs,
    config: FloorConfig,
    *,
    models: Sequence[Model] = (),
    fitted: Sequence[Fitted] = (),
    flow: FlowEvidence | None = None,
    annotations: Annotations | None = None,
    progress: Progress | None = None,
) -> Floor:
    """The floor of a prepared dataset from models, fitted classifiers, a flow and votes."""
    report = progress or no_progress
    level, k = config.confidence, inputs.dataset.n_classes
    truth = inputs.labels[inputs.test]
    entries: list[Entry] = []
    seen: list[Entry] = []
    skipped: dict[str, str] = {}
    for number, name in enumerate(config.estimators if len(inputs.test) else ()):
        report(f"floor: {name}", 0.8 * number / len(config.estimators))
        try:
            entries_of, assumption = ESTIMATORS[name]
            entries += list(entries_of(inputs, assumption, level, config.seed))
        except InputError as reason:
            skipped[name] = str(reason)
    report("floor: predictions", 0.8)
    if len(inputs.test):
        if flow is not None:
            entries += flow_entries(flow, inputs, config.calibrations, level, config.seed)
        for item in fitted:
            wrong = int((item.probs.argmax(axis=1) != truth).sum())
            method = f"{item.name}, {item.settings}"
            entries.append(classifier_entry(item.name, wrong, len(truth), method, level))
        for model in models:
            of_model = model_entries(model, inputs, config.calibrations, level, config.seed)
            (entries if model.held_out else seen).extend(of_model)
    repeats = repeat_floor(inputs.equal, inputs.labels, n_classes=k, confidence=level, seed=config.seed)
    if repeats is not None and repeats.value > 0:
        entries.append(Entry("Repeated inputs", "lower", repeats, REPEATS))
    if annotations is not None:
        entries += vote_entries(annotations, inputs.labels, confidence=level, seed=config.seed)
    if config.label_noise:
        entries.append(_stated_noise_entry(config.label_noise, level))
    ranks = {"estimate": 0, "lower": 0, "upper": 1, "classifier": 2}
    ordered = sorted(entries, key=lambda item: (item.under_assumption, ranks[item.role]))
    weighed, bracket, contradictions = weigh(ordered, n_classes=k, confidence=level)
    return Floor(
        dataset=inputs.dataset.name,
        config=config,
        bracket=bracket,
        entries=weighed,
        contradictions=contradictions,
        n_test=len(inputs.test),
        n_copies=len(inputs.copied),
        n_classes=k,
        skipped=skipped,
        differences=(flow.difference,) if flow is not None and flow.difference is not None else (),
        along=flow.along if flow is not None else (),
        hashes={
            "Examples, sha256": files.array_hash(inputs.dataset.x),
            "Labels, sha256": files.array_hash(inputs.labels),
            **{
                f"{model.name}, sha256": files.array_hash(model.probs) for model in models if not model.trained_here
            },
        },
        seen=tuple(seen),
    )


def _floor_of_votes(votes: ArrayLike | str | os.PathLike[str] | None, config: FloorConfig) -> Floor:
    if votes is None:
        raise InputError(": a floor needs a dataset, or votes or soft labels; got neither", argument="dataset")
    annotations = read_votes(votes)
    table = annotations.votes if annotations.votes is not None else annotations.soft_labels
    assert table is not None
    entries = vote_entries(annotations, None, confidence=config.confidence, seed=config.seed)
    weighed, bracket, contradictions = weigh(entries, n_classes=table.shape[1], confidence=config.confidence)
    return Floor(
        "votes" if annotations.votes is not None else "soft labels",
        config,
        bracket,
        weighed,
        contradictions,
        n_classes=table.shape[1],
        hashes={"Votes, sha256": files.array_hash(table)},
    )


def _stated_noise_entry(rate: float, confidence: float) -> Entry:
    value = Estimate(rate, 0.0, rate, rate, confidence, "stated noise rate", log10=float(np.log10(rate)))
    return Entry("Stated label noise", "lower", value, STATED_NOISE)
