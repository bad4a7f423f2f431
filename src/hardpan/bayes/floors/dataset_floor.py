"""The floor of a dataset: the bracket that evidence supports, and estimates under assumptions beside it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from hardpan import files
from hardpan.arguments import check_confidence, one_of, real_number
from hardpan.bayes.floors.classifiers import CLASSIFIERS, Fitted, fit_classifier
from hardpan.bayes.floors.entries import REPEATS, STATED_NOISE, Bracket, Entry, classifier_entry, weigh
from hardpan.bayes.floors.error_estimates import Floats, error_of_best_classifier
from hardpan.bayes.floors.flow import FloorFlow, FlowEvidence, flow_entries, flow_evidence
from hardpan.bayes.floors.inputs import ROWS, FloorInputs, prepare_floor_inputs
from hardpan.bayes.floors.model_predictions import ModelPredictions, Sources, model_entries, read_models
from hardpan.bayes.floors.neighbours import neighbour_entries
from hardpan.bayes.floors.repeats import repeat_floor
from hardpan.bayes.floors.votes import Annotations, VoteConsensus, read_votes, vote_consensus, vote_entries
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.execution.mapping import between, no_progress
from hardpan.files import record
from hardpan.report import Report

TABLE_CLASSIFIERS = ("boosted trees", "linear model")
IMAGE_CLASSIFIERS = ("linear model",)
NEIGHBOURS_SHARE = 0.5  # of the seconds for fitting classifiers, that the search for neighbours may take


@record(dropped=("estimators", "calibrations", "samples"))
class FloorConfig:
    """Settings of a floor, saved with it.

    Attributes:
        neighbours: also evaluate the nearest-neighbour classifiers, and bound the error by them.
        classifiers: classifiers to fit, for the upper bound: "auto", none, or some of "boosted trees", "linear
            model", "extra trees".
        by_order: join predictions by position if they have no ids.
        held_out: state that the models that were passed were not trained or tuned on the test examples.
        folds: cross-validate the estimators that were passed in this many folds; 0: use them as fitted.
        label_noise: rate of random label flips, if known; gives a lower bound of the error.
        budget: seconds for fitting classifiers; the nearest neighbours are searched among a sample where they would
            take more than half of it.
        confidence: joint level of the bracket.
        seed: of the split and of every random draw.
    """

    neighbours: bool = True
    classifiers: tuple[str, ...] = ("auto",)
    by_order: bool = False
    held_out: bool = False
    folds: int = 0
    label_noise: float = 0.0
    budget: float = 60.0
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        if not isinstance(self.held_out, bool):
            raise InputError(f"must be True or False; got {self.held_out!r}", argument="held_out")
        real_number("label_noise", self.label_noise, "[0, 1)")
        if not self.budget > 0:
            raise InputError(f"must be a positive number of seconds; got {self.budget!r}", argument="budget")


@record(dropped=("contradictions", "skipped", "differences"))
class Floor(Report):
    """How low the error on a dataset can go.

    Attributes:
        dataset: its name.
        config: the settings.
        bracket: lower and upper end, from evidence that needs no assumption about the features.
        entries: every number: evidence, estimates under an assumption, and classifiers.
        n_test: test examples on which classifiers were evaluated.
        n_copies: test examples that equal a training example.
        numbering: columns that rise or fall with the row number; the upper end holds without them, too.
        n_classes: K.
        unit: what was drawn independently: "rows", "equal inputs" or "groups".
        n_groups: groups of the test examples, where these were drawn.
        n_known_groups: of these, how many have training examples, too.
        along: of a flow, its Bayes error after each epoch of its fit.
        hashes: what was read, and its sha256.
        seen: errors of models that may have seen the test examples; they decide nothing.
        consensus: of annotators' votes, where it is known who voted.
    """

    dataset: str
    config: FloorConfig
    bracket: Bracket
    entries: tuple[Entry, ...]
    n_test: int = 0
    n_copies: int = 0
    numbering: tuple[str, ...] = ()
    n_classes: int = 2
    unit: str = ROWS
    n_groups: int = 0
    n_known_groups: int = 0
    along: tuple[Mapping[str, Any], ...] = ()
    hashes: Mapping[str, str] = field(default_factory=dict)
    seen: tuple[Entry, ...] = ()
    consensus: VoteConsensus | None = None

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
        return min(classifiers, key=lambda entry: (-entry.estimate.n, entry.estimate.value), default=None)

    @property
    def best_error(self) -> Estimate | None:
        """The error of the best classifier, with an interval that allows for its choice among all of them."""
        best = self.best
        return (
            None
            if best is None
            else error_of_best_classifier(best.estimate, self.bracket.n_classifiers, best.sample)
        )


def floor(
    dataset: Dataset | str | os.PathLike[str] | None = None,
    *,
    predictions: Sources | None = None,
    flow: FloorFlow | None = None,
    votes: Any = None,
    config: FloorConfig | None = None,
    progress: Progress | None = None,
    **changes: Any,
) -> Floor:
    """Bracket the lowest possible error on a dataset, and list every estimate under an assumption beside it.

    The upper end is the best classifier's one-sided Clopper–Pearson limit at level α/M for M classifiers, on all
    test examples; where some of an official test set equal training examples, the larger of the limits with and
    without these. A split that is made here keeps equal inputs on one side, and its intervals are by group of equal
    inputs; with groups of the dataset (``metadata["group"]``) split and intervals are by these. The lower end comes
    only from repeated inputs with conflicting labels, from votes or soft labels, or from a stated noise rate; it is
    0 otherwise.

    Args:
        dataset: a labelled dataset, or what :meth:`hardpan.Dataset.open` opens; None: from votes alone.
        predictions: of models: paths, arrays or :class:`hardpan.Predictions`, one or several, or by name. They
            enter the bracket if the dataset has an official test split, if they were recorded as held out, or with
            ``held_out=True``; else they are listed as models that may have seen these rows.
        flow: a fitted flow of this dataset.
        votes: annotators' votes or soft labels: an array (n, K) of counts or probabilities, or a table or file as
            :func:`hardpan.bayes.floors.votes.read_votes` describes. Where it is known who voted, the result has
            consensus labels.
        config: the settings; the defaults of :class:`FloorConfig` if None.
        progress: called with the current step and the fraction of the work that is done.
        changes: settings to be changed in ``config``, such as ``label_noise=0.1``.

    Returns:
        A :class:`Floor`: bracket and entries.

    Source: Clopper and Pearson (1934) for the upper end; Antos, Devroye and Györfi (1999) for why no lower end
    exists without further evidence; Theisen et al. (2021) for floors from flows.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 2, 3000)
        >>> data = Dataset.from_arrays(rng.normal(2.0 * y, 1.0)[:, None], y)
        >>> found = floor(data, classifiers=("linear model",))   # Bayes error 0.159
        >>> found.low, found.high > 0.159
        (0.0, True)
    """
    config = dataclasses.replace(config or FloorConfig(), **changes)
    # Not checked by FloorConfig: that of an earlier report may name classifiers that no longer exist.
    for name in config.classifiers:
        one_of("classifiers", name, ("auto", *CLASSIFIERS))
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
        group=inputs.group,
    )
    annotations = None
    votes = inputs.dataset.metadata.get("votes") if votes is None else votes
    if votes is not None:
        annotations = read_votes(
            votes,
            n_classes=inputs.dataset.n_classes,
            class_names=inputs.dataset.class_names,
            ids=inputs.dataset.ids,
            test=inputs.split.test,
        )
    evidence = None
    if flow is not None:
        evidence = flow_evidence(
            flow,
            inputs.dataset,
            inputs.labels,
            inputs.split,
            seed=config.seed,
            progress=between(report, 0.05, 0.25),
        )
    fitted = _fit_classifiers_of_floor(inputs, config, between(report, 0.25, 0.6))
    return floor_of(
        inputs,
        config,
        models=models,
        fitted=fitted,
        flow=evidence,
        annotations=annotations,
        progress=between(report, 0.6, 1.0),
    )


def _fit_classifiers_of_floor(inputs: FloorInputs, config: FloorConfig, report: Progress) -> list[Fitted]:
    """Fit the classifiers of the settings; probabilities are those of the test rows of ``inputs``."""
    dataset = inputs.dataset
    columns = not dataset.is_images and (dataset.x.shape[1] > 0 or not dataset.is_texts)
    auto = TABLE_CLASSIFIERS if columns else IMAGE_CLASSIFIERS
    names = list(dict.fromkeys(new for name in config.classifiers for new in (auto if name == "auto" else (name,))))
    fitted = []
    for number, name in enumerate(names if len(inputs.test) else ()):
        report(f"fitting {name}", number / len(names))
        rows = inputs.split.train, inputs.split.validation, inputs.test
        seconds = config.budget / len(names)
        fitted.append(fit_classifier(name, inputs.table, *rows, seconds=seconds, seed=config.seed))
    return fitted


def floor_of(
    inputs: FloorInputs,
    config: FloorConfig,
    *,
    models: Sequence[ModelPredictions] = (),
    fitted: Sequence[Fitted] = (),
    flow: FlowEvidence | None = None,
    annotations: Annotations | None = None,
    out_of_fold: Floats | None = None,
    progress: Progress | None = None,
) -> Floor:
    """The floor of a prepared dataset from models, fitted classifiers, a flow and votes.

    ``out_of_fold`` are (N, K) predictions of rows that are not in the test split by models that did not see their
    labels, 0 where there are none; the consensus of votes uses them.
    """
    report = progress or no_progress
    level, k = config.confidence, inputs.dataset.n_classes
    entries: list[Entry] = []
    seen: list[Entry] = []
    if len(inputs.test):
        if config.neighbours:
            report("floor: nearest neighbours", 0.0)
            entries += neighbour_entries(inputs, level, NEIGHBOURS_SHARE * config.budget, config.seed)
        report("floor: predictions", 0.8)
        if flow is not None:
            entries += flow_entries(flow, inputs, level)
        entries += [_fitted_entry(item, inputs, level) for item in fitted]
        for model in models:
            of_model = model_entries(model, inputs, level)
            (entries if model.held_out else seen).extend(of_model)
    repeats = repeat_floor(inputs.equal, inputs.labels, n_classes=k, confidence=level, seed=config.seed)
    if repeats is not None and repeats.value > 0:
        entries.append(Entry("Repeated inputs", "lower", repeats, REPEATS))
    if annotations is not None:
        entries += vote_entries(annotations, inputs.labels, confidence=level)
    if rate := config.label_noise:
        noise = Estimate(rate, 0.0, rate, rate, level, "stated noise rate", log10=float(np.log10(rate)))
        entries.append(Entry("Stated label noise", "lower", noise, STATED_NOISE))
    ranks = {"estimate": 0, "lower": 0, "upper": 1, "classifier": 2}
    ordered = sorted(entries, key=lambda item: (item.under_assumption, ranks[item.role]))
    if inputs.numbering and len(inputs.test):
        report("floor: without the columns that number the rows", 0.9)
        own = {model.name for model in models if not model.trained_here}
        ordered = _with_entries_apart(ordered, own, _entries_without_numbering(inputs, fitted, config))
    apart = inputs.apart or bool(inputs.numbering)
    weighed, bracket = weigh(ordered, n_classes=k, confidence=level, apart=apart)
    hashes = {
        "Examples, sha256": inputs.dataset.content_hash(),
        "Labels, sha256": files.array_hash(inputs.labels),
    }
    hashes |= {f"{model.name}, sha256": files.array_hash(model.probs) for model in models if not model.trained_here}
    return Floor(
        dataset=inputs.dataset.name,
        config=config,
        bracket=bracket,
        entries=weighed,
        n_test=len(inputs.test),
        n_copies=len(inputs.copied),
        numbering=inputs.numbering,
        n_classes=k,
        unit=inputs.unit,
        n_groups=0 if inputs.unit == ROWS else len(np.unique(inputs.group[inputs.test])),
        n_known_groups=0 if inputs.unit == ROWS else inputs.known_groups,
        along=flow.along if flow is not None else (),
        hashes=hashes,
        seen=tuple(seen),
        consensus=_consensus_of_votes(inputs, models, fitted, annotations, out_of_fold),
    )


def _consensus_of_votes(
    inputs: FloorInputs,
    models: Sequence[ModelPredictions],
    fitted: Sequence[Fitted],
    annotations: Annotations | None,
    out_of_fold: Floats | None,
) -> VoteConsensus | None:
    """The consensus of votes, with the mean prediction by models that did not see these examples' labels."""
    if annotations is None or annotations.rows is None:
        return None
    rows = annotations.rows
    probs = np.full((len(inputs.dataset), inputs.dataset.n_classes), np.nan)
    if out_of_fold is not None:
        probs[out_of_fold.sum(axis=1) > 0] = out_of_fold[out_of_fold.sum(axis=1) > 0]
    if fitted:
        probs[inputs.test] = np.mean([item.probs for item in fitted], axis=0)
    own = [model.probs for model in models if model.held_out and not model.trained_here and model.covers(rows)]
    probs = np.mean(own, axis=0) if own else probs
    predicted = probs[rows]
    return vote_consensus(annotations, inputs.labels[rows], predicted if np.isfinite(predicted).all() else None)


def _entries_without_numbering(
    inputs: FloorInputs, fitted: Sequence[Fitted], config: FloorConfig
) -> dict[str, Entry]:
    """Entries of the same classifiers, fitted without the columns that number the rows."""
    plain = inputs.without_numbering()
    names = tuple(item.name for item in fitted)
    again = _fit_classifiers_of_floor(plain, dataclasses.replace(config, classifiers=names), no_progress)
    seconds = NEIGHBOURS_SHARE * config.budget
    entries = neighbour_entries(plain, config.confidence, seconds, config.seed) if config.neighbours else []
    entries += [_fitted_entry(item, plain, config.confidence) for item in again]
    return {_kind_of(entry): entry for entry in entries if entry.role == "classifier"}


def _kind_of(entry: Entry) -> str:
    """The name of a classifier, whatever number of neighbours validation examples chose."""
    return "k-NN" if entry.name.endswith("-NN") and entry.name != "1-NN" else entry.name


def _with_entries_apart(entries: Sequence[Entry], own: set[str], again: Mapping[str, Entry]) -> list[Entry]:
    """The entries with what the bracket must hold for, too: ``again``; of the user's ``own`` models, themselves."""
    results = []
    for entry in entries:
        apart = again.get(_kind_of(entry), entry if entry.model in own else None)
        if apart is not None:  # without copies as well, where the bracket must hold without them
            apart = apart.apart or apart
        results.append(dataclasses.replace(entry, apart=apart) if entry.role == "classifier" else entry)
    return results


def _fitted_entry(item: Fitted, inputs: FloorInputs, confidence: float) -> Entry:
    wrong = item.probs.argmax(axis=1) != inputs.labels[inputs.test]
    return classifier_entry(item.name, wrong, f"{item.name}, {item.settings}", confidence, inputs.sampling)


def _floor_of_votes(votes: Any, config: FloorConfig) -> Floor:
    if votes is None:
        raise InputError(": a floor needs a dataset, or votes or soft labels; got neither", argument="dataset")
    annotations = read_votes(votes)
    name, table = "votes", annotations.votes
    if table is None:
        name, table = "soft labels", annotations.soft_labels
    assert table is not None
    entries = vote_entries(annotations, None, confidence=config.confidence)
    weighed, bracket = weigh(entries, n_classes=table.shape[1], confidence=config.confidence)
    hashes = {"Votes, sha256": files.array_hash(table)}
    consensus = vote_consensus(annotations)
    return Floor(name, config, bracket, weighed, n_classes=table.shape[1], hashes=hashes, consensus=consensus)
