"""The floor of a dataset: the bracket that evidence supports, and estimates under assumptions beside it."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import arguments, files, stats
from hardpan.arguments import one_of, real_number
from hardpan.bayes.floors import neighbours, overlap, spanning_tree
from hardpan.bayes.floors.classifiers import CLASSIFIERS, Fitted, Table, fit_classifier
from hardpan.bayes.floors.flow import Difference, FlowEvidence, FlowModel, flow_evidence
from hardpan.bayes.floors.gaussian_fit import fit_shared, gaussian_floor, own_decisions_p_value
from hardpan.bayes.floors.inputs import Floats, Labels, Moving, held_out_error, moving, standardised
from hardpan.bayes.floors.models import Model, Sources, read_models
from hardpan.bayes.floors.plugin import CALIBRATIONS, calibrated_plug_in, plug_in, predicted_errors_test
from hardpan.bayes.floors.repeats import EqualInputs, equal_inputs, repeat_floor
from hardpan.bayes.floors.verdict import (
    HELD_OUT,
    MAY_HAVE_SEEN,
    NOT_SEEN,
    REPEATS,
    SOFT_LABELS,
    STATED_NOISE,
    VOTES,
    AssumptionTest,
    Bracket,
    Contradiction,
    Entry,
    weigh,
)
from hardpan.bayes.floors.votes import (
    Annotations,
    fewer_differences_p_value,
    isotonic_floor,
    read_votes,
    vote_floor,
)
from hardpan.data.dataset import Dataset, Split
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.execution.mapping import between, no_progress
from hardpan.files import record
from hardpan.report.base import Report
from hardpan.stats.intervals import check_confidence

MOST_CLASSES = 2000
MOST_COVARIANCE_ROWS = 8192
TABLE_CLASSIFIERS = ("boosted trees", "linear model")
IMAGE_CLASSIFIERS = ("linear model",)
CALIBRATION_ROWS = 10  # fewer held-out examples cannot calibrate anything
ISOTONIC_ROWS = 20


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
        return None if self.best is None else of_the_best(self.best.estimate, self.bracket.n_classifiers)


def of_the_best(error: Estimate, classifiers: int) -> Estimate:
    """The error of the best of several classifiers: chosen on the same examples, so they share the level."""
    if classifiers < 2 or not error.n:
        return error
    level = 1 - (1 - error.confidence) / classifiers
    low, high = (float(end) for end in stats.clopper_pearson(round(error.value * error.n), error.n, level))
    method = f"{error.method}; interval for the best of {classifiers} (Bonferroni)"
    return dataclasses.replace(error, low=low, high=high, method=method)


@dataclass(frozen=True, slots=True, eq=False)
class FloorInputs:
    """A dataset prepared for its floor.

    Attributes:
        dataset: the examples.
        labels: (N,) class numbers.
        split: row numbers of train, validation and test.
        table: features for trees and for distances.
        equal: groups of equal inputs.
        test: test rows on which classifiers are evaluated: of copies one, and none with a copy in train or
            validation.
        copied: test rows that have a copy in train or validation.
        decisions: of classifiers that the floor evaluated itself, by name: computes their classes of ``test``.
    """

    dataset: Dataset
    labels: Labels
    split: Split
    table: Table
    equal: EqualInputs
    test: Labels
    copied: Labels
    decisions: dict[str, Callable[[], Labels]] = field(default_factory=dict)

    @property
    def is_images(self) -> bool:
        """Whether the examples are images."""
        return self.dataset.x.ndim > 2

    def train_and_test(self) -> tuple[NDArray[Any], Labels, NDArray[Any], Labels]:
        """Scaled features and labels of train, and of the test rows."""
        x, y, train, test = self.table.scaled, self.labels, self.split.train, self.test
        return x[train], y[train], x[test], y[test]


def prepare(dataset: Dataset, seed: int = 0) -> FloorInputs:
    """Check labels, split, and find equal inputs.

    Rows that coincide by chance are split one by one; copies stay together.
    """
    if dataset.x.dtype.kind not in "biuf" or 0 in dataset.x.shape:
        raise InputError(f"{dataset.name}: x must be numbers; got shape {dataset.x.shape} of {dataset.x.dtype}")
    labels = arguments.labels(f"{dataset.name}: labels", dataset.require_labels(), len(dataset.x))
    equal = equal_inputs(dataset.x if dataset.table is None else dataset.table.values)
    split = split_of(dataset, equal, seed)
    if not len(split.test) or len(np.unique(labels[split.train])) < 2:
        raise InputError(f"{dataset.name}: needs test examples, and training examples of two classes")
    return floor_inputs(dataset, labels, equal, split)


def floor_inputs(dataset: Dataset, labels: Labels, equal: EqualInputs, split: Split) -> FloorInputs:
    """What the floor is computed from, of checked labels and a split with test examples."""
    raw = dataset.x if dataset.table is None else dataset.table.values
    categorical = np.zeros(raw[0].size, dtype=bool) if dataset.table is None else dataset.table.categorical
    scaled = standardised(dataset.x, split.train)
    table = Table(raw.reshape(len(raw), -1), scaled, labels, dataset.n_classes, categorical)
    has_copy = equal.with_copy_in(split.test, np.concatenate([split.train, split.validation]))
    test = equal.without_repeats(split.test[~has_copy])
    return FloorInputs(dataset, labels, split, table, equal, test, split.test[has_copy])


def split_of(dataset: Dataset, equal: EqualInputs, seed: int) -> Split:
    """The split of a dataset; rows that coincide by chance are split one by one."""
    if equal.by_chance and dataset.split is None:
        apart = ((equal.sizes > 1) & ~equal.copies)[equal.group]
        names = [f"{name}." if alone else str(name) for name, alone in zip(dataset.ids, apart, strict=True)]
        dataset = dataclasses.replace(dataset, ids=np.array(names))
    return dataset.splits(seed)


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
    inputs = prepare(Dataset.open(dataset), config.seed)
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
            entries += _flow_entries(flow, inputs, config)
        for item in fitted:
            wrong = int((item.probs.argmax(axis=1) != truth).sum())
            method = f"{item.name}, {item.settings}"
            entries.append(_classifier_entry(item.name, wrong, len(truth), method, level))
        for model in models:
            result = _model_entries(model, inputs, config)
            if model.held_out:
                entries += result
            else:
                seen += [_unweighed_entry(entry) for entry in result if entry.role == "classifier"]
    entries += _repeat_entries(inputs, config)
    if annotations is not None:
        entries += _vote_entries(annotations, inputs, config)
    if config.label_noise:
        entries.append(_noise_entry(config.label_noise, level))
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
    entries = _vote_entries(annotations, None, config)
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


def _classifier_entry(name: str, wrong: int, n: int, method: str, confidence: float) -> Entry:
    return Entry(name, "classifier", held_out_error(wrong, n, method=method, confidence=confidence), HELD_OUT, name)


def _half_of_rows(n: int, seed: int) -> Labels:
    return np.sort(np.random.default_rng([seed, 31]).permutation(n)[: n // 2])


def _half_with_all_classes(y: Labels, seed: int) -> Labels | None:
    """A random half of the rows, None where a class is not in it or no class is in it twice."""
    rows, classes = _half_of_rows(len(y), seed), len(np.unique(y))
    return rows if len(np.unique(y[rows])) == classes and len(rows) > classes else None


def _neighbours_entries(inputs: FloorInputs, assumption: str, confidence: float, seed: int) -> Iterator[Entry]:
    """1-NN, k-NN, and the bounds of Cover and Hart and of Devroye."""
    validation = inputs.split.validation
    x, y, x_test, y_test = inputs.train_and_test()
    result = neighbours.bracket(
        x,
        y,
        x_test,
        y_test,
        n_classes=inputs.dataset.n_classes,
        confidence=confidence,
        k=None,
        validation=(inputs.table.scaled[validation], inputs.labels[validation]) if len(validation) else None,
    )
    for k in {1, result.k}:
        inputs.decisions[f"{k}-NN"] = functools.partial(neighbours.decisions, x, y, x_test, k)
    yield Entry("1-NN bound", "lower", result.lower, assumption, moving=result.moving)
    yield Entry("1-NN", "classifier", result.error, HELD_OUT, "1-NN")
    if result.k > 1:
        yield Entry(f"{result.k}-NN", "classifier", result.upper, HELD_OUT, f"{result.k}-NN")
    if result.k_lower is not None:
        yield Entry(f"{result.k}-NN bound", "lower", result.k_lower, assumption, moving=result.moving)


def _tree_entries(inputs: FloorInputs, assumption: str, confidence: float, seed: int) -> Iterator[Entry]:
    """The Henze–Penrose bounds by the minimal spanning tree of the training examples."""
    x, y, _, _ = inputs.train_and_test()

    def bounds(rows: Labels) -> spanning_tree.TreeBounds:
        return spanning_tree.henze_penrose(
            x[rows], y[rows], n_classes=inputs.dataset.n_classes, confidence=confidence, seed=seed
        )

    full, half = bounds(np.arange(len(y))), bounds(_half_of_rows(len(y), seed))
    lower, upper = moving(half.lower, full.lower), moving(half.upper, full.upper)
    yield Entry("Spanning-tree lower bound", "lower", full.lower, assumption, moving=lower)
    yield Entry("Spanning-tree upper bound", "upper", full.upper, assumption, moving=upper)


def _gaussian_entries(inputs: FloorInputs, assumption: str, confidence: float, seed: int) -> Iterator[Entry]:
    """The Bayes error of Gaussian classes with one shrunk covariance, and its classifier (LDA)."""
    x, y, x_test, y_test = inputs.train_and_test()
    n_classes, width = len(np.unique(y)), x.shape[1]
    if n_classes > MOST_CLASSES:
        raise InputError(f"computed for at most {MOST_CLASSES:,} classes; got {n_classes:,}")
    if min(width, len(x)) > MOST_COVARIANCE_ROWS:
        raise InputError(f"computed for at most {MOST_COVARIANCE_ROWS:,} features; got {width:,}")
    model = fit_shared(x, y)
    wrong, n = int((model.decide(x_test) != y_test).sum()), len(y_test)
    inputs.decisions["LDA"] = functools.partial(model.decide, x_test)
    method = f"LDA, {model.n:,} training examples, shrinkage {model.shrinkage:.2g}"
    made = _classifier_entry("LDA", wrong, n, method, confidence)
    result, error = gaussian_floor(model, confidence=confidence, seed=seed)
    if error is None:
        check = AssumptionTest(own_decisions_p_value(result, made.estimate), result.value, made.estimate.value)
    else:
        check = AssumptionTest(error.p_value(wrong, n), float(error.made.mean()), made.estimate.value)
    rows, settled = _half_with_all_classes(y, seed), None
    if rows is not None:
        settled = moving(gaussian_floor(fit_shared(x[rows], y[rows]), seed=seed)[0], result)
    assumption = assumption if error is not None else f"{assumption}-as-fitted"
    yield Entry("Gaussian model", "estimate", result, assumption, check=check, moving=settled)
    yield made


def _bhattacharyya_entries(inputs: FloorInputs, assumption: str, confidence: float, seed: int) -> Iterator[Entry]:
    """Bhattacharyya's bounds, one Gaussian per class, and that model's classifier (QDA)."""
    x, y, x_test, y_test = inputs.train_and_test()
    result = overlap.bhattacharyya(x, y, x_test=x_test, y_test=y_test, confidence=confidence)
    assert result.classifier is not None
    inputs.decisions["QDA"] = functools.partial(overlap.decisions, x, y, x_test)
    made, most = result.classifier, result.upper
    # Under the assumption the errors made are at least E and E at most the upper bound: only an excess counts.
    p_value = own_decisions_p_value(most, made) if made.value > most.value else 1.0
    check = AssumptionTest(p_value, most.value, made.value)
    ends: tuple[Moving | None, Moving | None] = (None, None)
    rows = _half_with_all_classes(y, seed)
    if rows is not None:
        half = overlap.bhattacharyya(x[rows], y[rows], confidence=confidence)
        ends = moving(half.lower, result.lower), moving(half.upper, result.upper)
    yield Entry("Bhattacharyya lower bound", "lower", result.lower, assumption, check=check, moving=ends[0])
    yield Entry("Bhattacharyya upper bound", "upper", result.upper, assumption, check=check, moving=ends[1])
    yield Entry("QDA", "classifier", made, HELD_OUT, "QDA")


ESTIMATORS: dict[str, tuple[Callable[[FloorInputs, str, float, int], Iterator[Entry]], str]] = {
    "neighbours": (_neighbours_entries, "neighbours"),
    "tree": (_tree_entries, "tree"),
    "gaussian": (_gaussian_entries, "gaussian"),
    "bhattacharyya": (_bhattacharyya_entries, "gaussian-per-class"),
}
"""Estimators that use features and labels, by name: a generator of entries, and what they assume (a key of
:data:`hardpan.pages.floors.ASSUMPTIONS`). To add one, write the generator and its line."""


def _plug_in_entries(
    name: str,
    probs: Floats,
    labels: Labels,
    held: tuple[Floats, Labels] | None,
    config: FloorConfig,
    seeds: int = 1,
) -> list[Entry]:
    """A model's held-out error, and its plug-ins: raw, and calibrated; ``probs`` is the mean over ``seeds``."""
    level = config.confidence
    method = "held-out errors" if seeds < 2 else f"held-out errors of the mean prediction of {seeds} seeds"
    wrong, predicted, p_value = predicted_errors_test(probs, labels)
    made = _classifier_entry(name, wrong, len(labels), method, level)
    check = AssumptionTest(p_value, predicted / len(labels), made.estimate.value)
    raw = plug_in(probs, confidence=level, method="mean of 1 − max posterior, not calibrated")
    entries = [Entry(f"Raw plug-in of {name}", "estimate", raw, "posterior", name, check=check), made]
    if held is None and len(labels) < CALIBRATION_ROWS:
        return entries
    for calibration in config.calibrations:
        value = calibrated_plug_in(
            probs, labels, validation=held, calibration=calibration, confidence=level, seed=config.seed
        )
        title = f"{calibration.capitalize()} plug-in of {name}"
        entries.append(Entry(title, "upper", value, "calibrated", name, calibration=calibration))
    return entries


def _model_entries(model: Model, inputs: FloorInputs, config: FloorConfig) -> list[Entry]:
    if not model.covers(inputs.test):
        if model.trained_here:
            return []
        missing = int((~np.isfinite(model.probs[inputs.test]).all(axis=1)).sum())
        raise InputError(
            f": {model.name}: lacks {missing:,} test examples; record all of them", argument="predictions"
        )
    if not model.held_out:
        config = dataclasses.replace(config, calibrations=())
    held_out, validation = None, inputs.split.validation
    if len(validation) and model.covers(validation) and (model.calibratable or model.trained_here):
        held_out = (model.probs[validation], inputs.labels[validation])
    probs, truth = model.probs[inputs.test], inputs.labels[inputs.test]
    return _plug_in_entries(model.name, probs, truth, held_out, config, seeds=len(model.predictions.seeds))


def _unweighed_entry(made: Entry) -> Entry:
    """The error of a model that may have seen the test examples."""
    estimate = dataclasses.replace(made.estimate, method=f"errors of {made.name} on test examples")
    return dataclasses.replace(made, estimate=estimate, assumption=NOT_SEEN, status=MAY_HAVE_SEEN)


def _flow_entries(flow: FlowEvidence, inputs: FloorInputs, config: FloorConfig) -> list[Entry]:
    test, validation = (
        rows[np.isfinite(flow.posterior[rows]).all(axis=1)] for rows in (inputs.test, inputs.split.validation)
    )
    if not len(test):
        return [Entry(f"Exact error of {flow.name}", "estimate", flow.error, "flow", flow.name)]
    if len(test) == len(inputs.test):
        inputs.decisions[flow.name] = lambda: flow.posterior[test].argmax(axis=1)
    held_out = (flow.posterior[validation], inputs.labels[validation]) if len(validation) else None
    entries = _plug_in_entries(flow.name, flow.posterior[test], inputs.labels[test], held_out, config)
    made = next(entry.estimate for entry in entries if entry.role == "classifier")
    check = AssumptionTest(own_decisions_p_value(flow.error, made), flow.error.value, made.value)
    along = [row["bayes_error"] for row in flow.along]
    settled = None
    if len(along) >= 4:
        earlier, last = float(along[round(0.75 * len(along)) - 1]), float(along[-1])
        settled = Moving(earlier, last, abs(earlier - last) > 0.1 * max(earlier, last))
    name = f"Exact error of {flow.name}"
    return [Entry(name, "estimate", flow.error, "flow", flow.name, check=check, moving=settled), *entries]


def _repeat_entries(inputs: FloorInputs, config: FloorConfig) -> list[Entry]:
    lower = repeat_floor(
        inputs.equal,
        inputs.labels,
        n_classes=inputs.dataset.n_classes,
        confidence=config.confidence,
        seed=config.seed,
    )
    return [] if lower is None or lower.value == 0 else [Entry("Repeated inputs", "lower", lower, REPEATS)]


def _vote_entries(annotations: Annotations, inputs: FloorInputs | None, config: FloorConfig) -> list[Entry]:
    level, check = config.confidence, None
    truth = None if inputs is None or annotations.rows is None else inputs.labels[annotations.rows]
    if annotations.votes is not None:
        result = vote_floor(annotations.votes, confidence=level)
        if truth is not None:
            differ, p_value = fewer_differences_p_value(annotations.votes, truth, result)
            check = AssumptionTest(p_value, result.uncorrected.value, differ)
        entries = [
            Entry("Votes, uncorrected", "lower", result.uncorrected, VOTES, check=check),
            Entry("Votes, one left out", "upper", result.left_out, VOTES, check=check),
        ]
        if result.point is not None:
            entries.append(Entry("Votes, mixture", "estimate", result.point, VOTES, check=check))
        return entries
    soft = annotations.soft_labels
    assert soft is not None
    item = plug_in(soft, confidence=level, method="mean of 1 − largest soft label")
    if truth is not None:
        made, predicted, p_value = predicted_errors_test(soft, truth)
        check = AssumptionTest(p_value, predicted / len(soft), made / len(soft))
    entries = [Entry("Soft labels", "estimate", item, SOFT_LABELS, check=check)]
    if truth is not None and soft.shape[1] == 2 and len(soft) >= ISOTONIC_ROWS:
        isotonic = isotonic_floor(soft, truth, confidence=level, seed=config.seed)
        entries.append(Entry("Soft labels, isotonic", "estimate", isotonic, "ordered-soft-labels"))
    return entries


def _noise_entry(rate: float, confidence: float) -> Entry:
    value = Estimate(rate, 0.0, rate, rate, confidence, "stated noise rate", log10=float(np.log10(rate)))
    return Entry("Stated label noise", "lower", value, STATED_NOISE)
