"""The floor of a dataset: features, flows, predictions and votes joined, weighed and shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hardpan import bayes, files
from hardpan.bayes.floors import FROM_FEATURES, Difference, Examples, Floor
from hardpan.bayes.floors.calibration import CALIBRATIONS
from hardpan.bayes.floors.inputs import Labels, standardised
from hardpan.data.arrays import checked_labels, checked_x
from hardpan.data.dataset import Dataset, Split
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.files import record
from hardpan.flows.charts import training_chart, unsettled_warning
from hardpan.report.notebook import framed
from hardpan.report.sections import Provenance
from hardpan.studies import floor_page
from hardpan.studies.floor_sources import FlowEvidence, Judged, flow_evidence, read_predictions, read_votes


@record
@dataclass(frozen=True, slots=True)
class FloorConfig:
    """Settings of an estimate of the floor, saved with it.

    Attributes:
        flow: a fitted flow: a folder, or a name of the zoo; empty for none.
        predictions: stores, npz or npy files with predictions of models.
        by_order: predictions without ids are in the order of the test part, or of the whole dataset.
        votes: npz file with counts of votes (key ``votes``) or soft labels (key ``soft_labels``); empty for none.
        estimators: which estimators look at the features.
        calibrations: how predictions are calibrated.
        samples: how many samples of the flow a discriminator compares with the data.
        confidence: level of every interval, and joint level of the verdict.
        seed: chooses the split and seeds every draw.
    """

    flow: str = ""
    predictions: tuple[str, ...] = ()
    by_order: bool = False
    votes: str = ""
    estimators: tuple[str, ...] = tuple(FROM_FEATURES)
    calibrations: tuple[str, ...] = tuple(CALIBRATIONS)
    samples: int = 5000
    confidence: float = 0.95
    seed: int = 0


@record
@dataclass(frozen=True, slots=True)
class FloorReport:
    """The floor of a dataset, with how it was made.

    Attributes:
        dataset: its name.
        config: the settings.
        floor: what was found.
        provenance: how to make it again.
        along: of a given flow, its Bayes error after each epoch of its fit.
    """

    dataset: str
    config: FloorConfig
    floor: Floor
    provenance: Provenance
    along: tuple[Mapping[str, Any], ...] = ()

    def to_html(self) -> str:
        """Give the report as one self-contained HTML file."""
        from hardpan.report import page

        drawn, moving = training_chart(self.along), unsettled_warning(self.along)
        section = floor_page.floor_section(
            self.floor, () if drawn is None else (drawn,), warnings=(moving,) if moving else ()
        )
        return page(
            [section],
            title=f"The floor of {self.dataset}",
            headline=floor_page.floor_headline(self.dataset, self.floor),
            tiles=floor_page.floor_tiles(self.floor),
            provenance=self.provenance,
        )

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write index.html, report.json and config.json into a folder, all or none; give the path of the page."""
        from hardpan.report.files import write_together

        target = Path(folder)
        config = files.dumps(files.to_json(self.config)) + "\n"
        report = files.dumps(files.to_json(self)) + "\n"
        write_together(target, {"index.html": self.to_html(), "config.json": config, "report.json": report})
        return target / "index.html"

    def _repr_html_(self) -> str:
        return framed(self.to_html())


@dataclass(slots=True)
class _Evidence:
    """What was gathered for :func:`hardpan.bayes.floor` besides the features."""

    exact: dict[str, Estimate] = field(default_factory=dict)
    predictions: dict[str, np.ndarray] = field(default_factory=dict)
    validation: dict[str, np.ndarray] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    hashes: dict[str, str] = field(default_factory=dict)
    along: tuple[Mapping[str, Any], ...] = ()


def estimate_floor(
    dataset: Dataset | str | os.PathLike[str],
    config: FloorConfig | None = None,
    *,
    progress: Progress | None = None,
    command: str = "",
) -> FloorReport:
    """Estimate how low the error on a dataset can go, by every means that is given, and say what survives.

    Args:
        dataset: a labelled dataset, or what :func:`hardpan.Dataset.open` loads.
        config: the settings; the defaults of :class:`FloorConfig` if None.
        progress: called with the step that begins and the fraction of the work that is done.
        command: the command to name as the one that makes the report again.

    Example:
        >>> report = estimate_floor("digits", FloorConfig(estimators=("neighbours",)))
        >>> report.floor.high_from, 0 < report.floor.low < report.floor.high < 0.03
        ('Nearest neighbour', True)
    """
    config = config or FloorConfig()
    tell = progress or (lambda step, fraction: None)
    tell("reading the data", 0.0)
    if not isinstance(dataset, Dataset):
        dataset = Dataset.open(dataset)
    labels = _checked(dataset)
    split = dataset.splits(config.seed)
    if not len(split.test) or len(np.unique(labels[split.train])) < 2:
        raise InputError(f"{dataset.name}: needs test examples, and training examples of two classes")
    gathered = _gather(dataset, labels, split, config, tell)
    given, soft = _votes(dataset, config, gathered)
    found = bayes.floor(
        examples=_examples(dataset, labels, split),
        exact=gathered.exact,
        predictions=gathered.predictions,
        validation=gathered.validation,
        votes=given,
        soft_labels=soft,
        differences=gathered.differences,
        n_classes=dataset.n_classes,
        estimators=config.estimators,
        calibrations=config.calibrations,
        confidence=config.confidence,
        seed=config.seed,
        progress=lambda step, fraction: tell(step, 0.3 + 0.65 * fraction),
    )
    made = _provenance(dataset, labels, config, gathered, command)
    return FloorReport(dataset.name, config, found, made, gathered.along)


def _gather(dataset: Dataset, labels: Labels, split: Split, config: FloorConfig, tell: Progress) -> _Evidence:
    gathered = _Evidence()
    if config.flow:
        tell("evaluating the flow", 0.05)
        found: FlowEvidence = flow_evidence(
            config.flow, dataset, labels, split, config.samples, config.confidence, config.seed
        )
        gathered.exact[found.name] = found.exact
        gathered.predictions[found.name] = found.test
        gathered.along = found.along
        if found.validation is not None:
            gathered.validation[found.name] = found.validation
        if found.difference is not None:
            gathered.differences.append(found.difference)
    for path in config.predictions:
        tell(f"reading {path}", 0.25)
        judged: Judged
        for judged in read_predictions(path, dataset, labels, split, by_order=config.by_order):
            if judged.name in gathered.predictions:
                raise InputError(f"--predictions {path}: a model named {judged.name!r} is there already; rename it")
            gathered.predictions[judged.name] = judged.test
            if judged.validation is not None:
                gathered.validation[judged.name] = judged.validation
    return gathered


def _votes(
    dataset: Dataset, config: FloorConfig, gathered: _Evidence
) -> tuple[np.ndarray | None, np.ndarray | None]:
    if not config.votes:
        return dataset.metadata.get("votes"), None
    found = read_votes(config.votes, dataset.n_classes)
    gathered.hashes["Votes, sha256"] = files.array_hash(next(item for item in found if item is not None))
    return found


def _checked(dataset: Dataset) -> Labels:
    if dataset.labels is None:
        raise InputError(f"{dataset.name}: has no labels; a floor needs a class number for every example")
    x = checked_x(f"{dataset.name}: x", dataset.x)
    return checked_labels(f"{dataset.name}: labels", dataset.labels, len(x))


def _examples(dataset: Dataset, labels: Labels, split: Split) -> Examples:
    features = standardised(dataset.x, split.train)
    held = split.validation if len(split.validation) else None
    return Examples(
        features[split.train],
        labels[split.train],
        features[split.test],
        labels[split.test],
        None if held is None else features[held],
        None if held is None else labels[held],
        dataset.n_classes,
    )


def _provenance(
    dataset: Dataset, labels: Labels, config: FloorConfig, gathered: _Evidence, command: str
) -> Provenance:
    return Provenance(
        method=floor_page.METHOD,
        citations=floor_page.CITATIONS,
        command=command,
        seed=config.seed,
        versions=files.versions_of("numpy", "scipy"),
        hashes={
            "Examples, sha256": files.array_hash(dataset.x),
            "Labels, sha256": files.array_hash(labels),
            **{f"{name}, sha256": files.array_hash(item) for name, item in gathered.predictions.items()},
            **gathered.hashes,
        },
    )
