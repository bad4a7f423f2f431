"""What every part of an audit works on, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import datasets
from hardpan.datasets.checks import checked_labels, checked_x
from hardpan.errors import InputError
from hardpan.records import Dataset, Estimate, Section, Split, Tile, record

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
    """

    seed: int = 0
    confidence: float = 0.95
    rtol: float = 1e-3
    temperatures: tuple[float, ...] = tuple(float(f"{t:.4g}") for t in np.geomspace(0.25, 4, 25))
    testbed: tuple[str, ...] = ()
    testbed_new: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What every part of the audit works on.

    Attributes:
        dataset: the examples.
        labels: (N,) class numbers.
        split: the one split.
        features: (N, d) numbers: pixels as they are, feature vectors each scaled to deviation 1 on train.
        config: the settings.
    """

    dataset: Dataset
    labels: NDArray[np.int64]
    split: Split
    features: NDArray[Any]
    config: AuditConfig


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
        measures: numbers by the names of :data:`hardpan.audit.measures.MEASURES`.
        curves: floors against temperature.
        columns: what it found of each example, for the joined table.
    """

    section: Section
    tiles: Mapping[str, Tile] = field(default_factory=dict)
    headline: str = ""
    lede: tuple[str, ...] = ()
    method: tuple[str, ...] = ()
    citations: tuple[str, ...] = ()
    hashes: Mapping[str, str] = field(default_factory=dict)
    measures: Mapping[str, Estimate] = field(default_factory=dict)
    curves: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)


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
    split = datasets.split(dataset, config.seed)
    if not len(split.test):
        raise InputError(f"{name}: nothing is left to test on; nearly all examples are copies of one another")
    if len(np.unique(labels[split.train])) < 2:
        raise InputError(
            f"{name}: the training part holds one class only; an audit needs examples of two classes in it"
        )
    return Evidence(dataset, labels, split, _features(x, split.train), config)


def _features(x: NDArray[Any], train: NDArray[np.int64]) -> NDArray[Any]:
    flat = x.reshape(len(x), -1)
    if flat.dtype.kind != "f" and x.ndim > 2:
        return flat
    scaled = flat.astype(np.float64)
    # Dividing by the largest number first keeps squares of very large or very small ones representable.
    largest = np.abs(scaled).max(axis=0 if x.ndim == 2 else None)
    scaled /= np.where(largest > 0, largest, 1.0)
    if x.ndim == 2:
        deviation = scaled[train].std(axis=0)
        scaled -= scaled[train].mean(axis=0)
        # A feature that is constant up to rounding says nothing; dividing by its deviation would make it shout.
        scaled /= np.where(deviation > 1e-12, deviation, 1.0)
    return scaled
