"""What every part of an audit works on, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.auditing.progress import unheard
from hardpan.bayes.floors import Entry
from hardpan.bayes.floors.inputs import standardised
from hardpan.data.arrays import checked_labels, checked_x
from hardpan.data.dataset import Dataset, Split
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.files import record
from hardpan.predictions import Predictions
from hardpan.report.sections import Section, Tile
from hardpan.stats.intervals import check_confidence

FEWEST_EXAMPLES = 10


@record
@dataclass(frozen=True, slots=True)
class AuditConfig:
    """Settings of an audit, saved with every report.

    Attributes:
        seed: chooses the split and seeds every draw.
        confidence: level of all intervals.
        rtol: relative standard error asked of the Gaussian Bayes errors.
        temperatures: where the curve of the Gaussian Bayes error is drawn.
        testbed: one or two files with models on two test sets, as ``hardpan testbed compare`` takes them.
        testbed_new: name of the new test set in such a file, where it holds several.
        predictions: stores or arrays of the models' probabilities; the first is the ensemble that is scored.
        by_order: join predictions without ids to the examples by their order.
        flow: a fitted flow; "auto": fit a small one; "none": go without.
        new_test: a fresh dataset of the same classes, on which the ensemble is tried again.
        votes: an npz with annotators' votes (N, K) under ``votes``, and ``ids``, for the floor.
        ensemble: architecture of the small ensemble where no predictions are given; "auto", or "none".
        ensemble_epochs: its epochs; 0: as many as the budget holds.
        ensemble_rows: training rows that it sees; 0: as many as the budget holds.
        flow_epochs: epochs of the flow; 0: as many as the budget holds.
        flow_rows: training rows that the flow sees; 0: as many as the budget holds.
        seeds: runs of the ensemble.
        budget: seconds that training may take on this machine, the whole audit somewhat more.
        device: ``auto``, ``cpu``, ``cuda``.
    """

    seed: int = 0
    confidence: float = 0.95
    rtol: float = 1e-3
    temperatures: tuple[float, ...] = tuple(float(f"{t:.4g}") for t in np.geomspace(0.25, 4, 25))
    testbed: tuple[str, ...] = ()
    testbed_new: str = ""
    predictions: tuple[str, ...] = ()
    by_order: bool = False
    flow: str = "auto"
    new_test: str = ""
    votes: str = ""
    ensemble: str = "auto"
    ensemble_epochs: int = 0
    ensemble_rows: int = 0
    flow_epochs: int = 0
    flow_rows: int = 0
    seeds: int = 3
    budget: float = 180.0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        if not self.budget > 0:
            raise InputError(f"budget must be a positive number of seconds; got {self.budget!r}")
        for name, least in (
            ("ensemble_epochs", 0),
            ("ensemble_rows", 0),
            ("flow_epochs", 0),
            ("flow_rows", 0),
            ("seeds", 1),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}; got {value!r}")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What every part of the audit works on.

    Attributes:
        dataset: the examples.
        labels: (N,) class numbers.
        split: the one split.
        features: (N, d) numbers: pixels as they are, feature vectors each scaled to deviation 1 on train.
        config: the settings.
        models: whose predictions are known; the first is the ensemble that is scored.
        flow: what a flow says, where there is one.
        votes: (N, K) annotators' votes, NaN rows where there are none.
        notes: what could not be had, and why.
        columns: what the parts before found of each example.
        progress: told how far the part is that works on it.
    """

    dataset: Dataset
    labels: NDArray[np.int64]
    split: Split
    features: NDArray[Any]
    config: AuditConfig
    models: tuple[Model, ...] = ()
    flow: FlowEvidence | None = None
    votes: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    progress: Progress = unheard

    @property
    def parts(self) -> dict[str, NDArray[np.int64]]:
        """Row numbers by the name of the part."""
        return {"train": self.split.train, "validation": self.split.validation, "test": self.split.test}


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A model (or ensemble of seeds) whose predictions of this dataset are known.

    Attributes:
        name: what to call it.
        predictions: every seed, epoch and example that was recorded.
        rows: (n,) row of the dataset that each recorded example is.
        probs: (N, K) mean over seeds at the last epoch; NaN where an example was not recorded.
        trained_here: whether the audit trained it itself.
        weights: folders of its seeds' weights, where the audit trained it.
    """

    name: str
    predictions: Predictions
    rows: NDArray[np.int64]
    probs: NDArray[np.float64]
    trained_here: bool = False
    weights: tuple[str, ...] = ()

    def known(self, rows: NDArray[np.int64]) -> bool:
        """Whether every one of these rows was predicted."""
        return bool(np.isfinite(self.probs[rows]).all())


@dataclass(frozen=True, slots=True, eq=False)
class FlowEvidence:
    """What a flow says of this dataset: arrays and estimates, so that no part needs the flow itself.

    Attributes:
        name: what to call it.
        error: its exact Bayes error.
        curve: pairs of temperature and error.
        curve_estimates: the same as estimates.
        temperatures: where the curve was computed.
        posterior: (N, K) its posterior of every example.
        samples: (n, d) examples that it drew, as features, and ``sample_labels``, to be told from the data.
        nll: negative log-likelihood of the test part, nats an example.
        bits: the same in bits a dimension.
        floors: its Bayes error after each epoch of the fit: rows of epoch, bayes_error, validation_nll.
        fitted_rows: training rows that it saw.
        gallery: samples at several temperatures for a picture: temperature, error, images.
        fitted_here: whether the audit fitted it itself.
        sha256: of its weights, where it was given.
    """

    name: str
    error: Estimate
    curve_estimates: tuple[Estimate, ...]
    temperatures: tuple[float, ...]
    posterior: NDArray[np.float64]
    samples: NDArray[np.float32]
    nll: Estimate
    bits: Estimate
    floors: tuple[Mapping[str, Any], ...]
    fitted_rows: int
    gallery: tuple[tuple[float, Estimate, NDArray[np.float32]], ...] = ()
    fitted_here: bool = False
    sha256: str = ""

    @property
    def curve(self) -> tuple[tuple[float, float], ...]:
        """Pairs of temperature and error."""
        return tuple((t, item.value) for t, item in zip(self.temperatures, self.curve_estimates, strict=True))


@dataclass(frozen=True, slots=True)
class Finding:
    """What a part contributes.

    Attributes:
        section: its part of the page.
        tiles: numbers for the top of the page, by their slot.
        headline: words for the headline.
        lede: sentences under it.
        method: how it was done.
        citations: what it rests on.
        hashes: files that it read.
        measures: numbers by the names of :data:`hardpan.auditing.measures.MEASURES`.
        verdicts: of these numbers, how the weighing of the floor ended for them.
        curves: floors against temperature.
        columns: what it found of each example, for the joined table.
        files: further files for the folder, by name.
    """

    section: Section
    tiles: Mapping[str, Tile] = field(default_factory=dict)
    headline: str = ""
    lede: tuple[str, ...] = ()
    method: tuple[str, ...] = ()
    citations: tuple[str, ...] = ()
    hashes: Mapping[str, str] = field(default_factory=dict)
    measures: Mapping[str, Estimate] = field(default_factory=dict)
    verdicts: Mapping[str, Entry] = field(default_factory=dict)
    curves: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


def gather(dataset: Dataset, config: AuditConfig) -> Evidence:
    """Check that a dataset can be audited, split it and prepare its features; or refuse it in one sentence."""
    name = dataset.name
    if dataset.labels is None:
        raise InputError(
            f"{name}: has no labels; an audit needs a class number for every example (key y in an npz)"
        )
    x = checked_x(f"{name}: x", dataset.x)
    labels = checked_labels(f"{name}: labels", dataset.labels, len(x))
    if len(x) < FEWEST_EXAMPLES:
        raise InputError(f"{name}: has {len(x)} examples; an audit needs at least {FEWEST_EXAMPLES}")
    if len(np.unique(labels)) < 2:
        raise InputError(f"{name}: all examples are of one class; an audit needs at least two classes")
    split = dataset.splits(config.seed)
    if not len(split.test):
        raise InputError(f"{name}: nothing is left to test on; nearly all examples are copies of one another")
    if len(np.unique(labels[split.train])) < 2:
        raise InputError(
            f"{name}: the training part holds one class only; an audit needs examples of two classes in it"
        )
    return Evidence(dataset, labels, split, standardised(x, split.train), config)
