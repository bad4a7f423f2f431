"""Settings of an audit, and what every step of it works on."""

from __future__ import annotations

import importlib.util
import math
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardpan.arguments import check_confidence, one_of, real_number, whole_number
from hardpan.bayes.floors.classifiers import Fitted
from hardpan.bayes.floors.dataset_floor import Floor
from hardpan.bayes.floors.error_estimates import Floats, Labels
from hardpan.bayes.floors.inputs import FloorInputs
from hardpan.bayes.floors.model_predictions import ModelPredictions
from hardpan.bayes.floors.repeats import EqualInputs
from hardpan.bayes.floors.votes import Annotations
from hardpan.confusion.label_noise import LabelIssues
from hardpan.confusion.label_review import LabelCount
from hardpan.data.dataset import SPLITS, Dataset, Split
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record

if TYPE_CHECKING:
    from hardpan.auditing.contents import RowContents
    from hardpan.auditing.fresh import FreshScores
    from hardpan.auditing.hardness import Hardness
    from hardpan.auditing.metrics import ScoreMetrics
    from hardpan.auditing.near_copies import AlteredSearch
    from hardpan.auditing.networks import NetworkData
    from hardpan.auditing.slices import ErrorSlices

ENSEMBLES = ("auto", "none")
OPTIONS = ("predictions", "held_out", "votes", "ensemble", "flow", "budget", "seed")
"""Settings that are options of the command; the others are given by ``--set``."""
USABLE = 1.5  # a model whose error is at most this many times the best one's takes part in doubting labels


@record
class AuditConfig:
    """Settings of an audit, saved with every report.

    Attributes:
        seed: of the split and of every random draw.
        confidence: level of all intervals.
        testbed: scores of models on this test set and on a fresh one, as for ``hardpan testbed compare``: one or
            two files.
        testbed_new: name of the new test set, if the file has several.
        predictions: predictions of your models: a store, npz, npy, table, or module:function; the first is used for
            confusion scores.
        by_order: join predictions by position if they have no ids.
        held_out: state that the models that were passed were not trained or tuned on the test examples.
        folds: cross-validate the estimators that were passed in this many folds; 0: use them as fitted.
        flow: "bundled" (the bundled flow of this dataset, if there is one), "auto" (fit a small one), "none", or
            the folder of a fitted flow.
        new_test: a fresh dataset with the same classes, on which networks and models of texts are evaluated, too.
        votes: annotators' votes: a table (CSV, JSONL, ...) of example, annotator and label, or with a column per
            annotator or class; or an npz or npy file with ``votes`` (examples × classes) or ``soft_labels``, and
            ``ids``.
        label_noise: rate of random label flips, if known; gives a lower bound of the error.
        ensemble: "auto" to train classifiers, "none" to train nothing.
        seeds: number of networks in the ensemble.
        ensemble_epochs: train the networks for this many epochs, whatever the budget; 0: by the budget.
        flow_epochs: train the flow for this many epochs; 0: by the budget.
        budget: seconds of wall-clock time of the audit after reading; what does not fit is left out and named.
        device: "auto", "cpu", "cuda" or "cuda:N".
        temperatures: temperatures of the curve of the Bayes error of the flow.
    """

    seed: int = 0
    confidence: float = 0.95
    testbed: tuple[str, ...] = ()
    testbed_new: str = ""
    predictions: tuple[str, ...] = ()
    by_order: bool = False
    held_out: bool = False
    folds: int = 0
    flow: str = "bundled"
    new_test: str = ""
    votes: str = ""
    label_noise: float = 0.0
    ensemble: str = "auto"
    seeds: int = 3
    ensemble_epochs: int = 0
    flow_epochs: int = 0
    budget: float = 180.0
    device: str = "auto"
    temperatures: tuple[float, ...] = tuple(float(f"{t:.4g}") for t in np.geomspace(0.25, 4, 25))

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        if isinstance(self.budget, bool) or not isinstance(self.budget, (int, float)) or not self.budget > 0:
            raise InputError(f"must be a positive number of seconds; got {self.budget!r}", argument="budget")
        one_of("ensemble", self.ensemble, ENSEMBLES)
        if not isinstance(self.held_out, bool):
            raise InputError(f"must be True or False; got {self.held_out!r}", argument="held_out")
        real_number("label_noise", self.label_noise, "[0, 1)")
        for name, least in (("ensemble_epochs", 0), ("flow_epochs", 0), ("seeds", 1)):
            whole_number(name, getattr(self, name), least)

    def command(self, source: str, reading: Mapping[str, Any] = MappingProxyType({}), out: str = "") -> str:
        """The command that computes the audit again; a line of Python where data or predictions are in memory.

        Args:
            source: the name or path of the data; empty where they are in memory.
            reading: options of :meth:`hardpan.Dataset.open` that were set.
            out: the folder that was written.

        Example:
            >>> AuditConfig(seed=1, seeds=2).command("stroke.csv", {"label": "stroke"})
            'hardpan audit stroke.csv --label stroke --seed 1 --set seeds=2'
            >>> AuditConfig(seed=1).command("", {"label": "stroke"})
            "hardpan.audit(data, label='stroke', seed=1)"
        """
        default = AuditConfig()
        changed = {
            item.name: value
            for item in fields(self)
            if item.name != "temperatures" and (value := getattr(self, item.name)) != getattr(default, item.name)
        }
        options = {name: value for name, value in reading.items() if value not in (None, (), [], {})}
        if not source or not all(":" in path or Path(path).exists() for path in self.predictions):
            opening = {name: options.pop(name) for name in [*options] if name.startswith(("encoder_", "download"))}
            words = [f"{name}={value!r}" for name, value in (options | changed).items()]
            if opening:  # of the encoder, which has a function of its own for them
                given = [f"{name.removeprefix('encoder_')}={value!r}" for name, value in opening.items()]
                call = f"hardpan.encoders.open_encoder({', '.join([repr(options['encoder']), *given])})"
                words = [f"encoder={call}" if word.startswith("encoder=") else word for word in words]
            return f"hardpan.audit({', '.join([repr(source) if source else 'data', *words])})"
        words = ["hardpan", "audit", source]
        for name, value in options.items():
            option, values = _reading_option(name, value)
            words += [word for text in values for word in (option, text)]
        for name, value in changed.items():
            for one in value if isinstance(value, tuple) else (value,):
                text = f"{one:g}" if isinstance(one, float) else str(one)
                option = f"--{name.replace('_', '-')}"
                if value is True and name in OPTIONS:
                    words.append(option)
                else:
                    words += [option, text] if name in OPTIONS else ["--set", f"{name}={text}"]
        return shlex.join([*words, *(["--out", out] if out else [])])


def _reading_option(name: str, value: Any) -> tuple[str, list[str]]:
    """The option of the command for an option of ``Dataset.open``, and its values."""
    if name == "columns":
        return "--column", [f"{role}={column}" for role, column in dict(value).items()]
    texts = [str(item) for item in value] if isinstance(value, (tuple, list)) else [str(value)]
    if name in ("label", "text", "group", "encoder"):
        return f"--{name}", texts
    return "--set", [f"{name}={','.join(texts)}"]


SKIPPED = {
    "not-requested": "not requested",
    "no-test": "models cannot be trained and evaluated on these data",
    "predictions": "predictions were passed",
    "no-torch": "torch is not installed; pip install 'hardpan[torch]' adds a network ensemble",
    "no-time": "the budget leaves no time for it",
}
"""Why a step of an audit was skipped: its codes, in words."""


@record
class AuditStep:
    """One step of an audit: seconds that were planned for it and that it took.

    ``skipped`` is one of :data:`SKIPPED`; empty where it was done.
    """

    name: str
    planned: float
    seconds: float = 0.0
    skipped: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class FlowView:
    """What a flow shows besides its evidence for the floor.

    Attributes:
        temperatures: at which the flow's Bayes error was computed.
        curve: Bayes errors at these temperatures.
        bits: negative log-likelihood of test examples in bits per dimension.
        sha256: of its weights.
    """

    temperatures: tuple[float, ...]
    curve: tuple[Estimate, ...]
    bits: Estimate | None
    sha256: str = ""


@record
class AuditNote:
    """Something that was not possible or differed from the plan; the page says it in words.

    Attributes:
        code: "skipped", "sampled", "fewer-networks", "epochs", "no-flow" or "no-curve".
        details: numbers and names by name.
    """

    code: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """Rows, their distances (m, k) to the k nearest different training inputs, and rows (m, k) with these inputs.

    ``own`` has the same of training rows, which find themselves, too; None where the test set is not official.
    """

    rows: Labels
    distances: Floats
    training: Labels
    own: Nearest | None = None


@dataclass(frozen=True, slots=True)
class CopyTest:
    """Whether more test rows equal a training row than if test were drawn like train.

    Attributes:
        p_value: of more equal rows than among rows held back from train (Bonferroni, of two tests).
        similarity: p-value of a more even division of equal rows than at random (Bonferroni, of two tests).
        expected: how many test rows would equal a training row if test were drawn like train.
    """

    p_value: float
    similarity: float
    expected: float


@dataclass(frozen=True, slots=True, eq=False)
class EveryRow:
    """All rows of the data, of which the dataset may have a sample.

    Attributes:
        labels: (M,) class numbers.
        equal: groups of equal rows.
        parts: rows of train, validation and test; where a sample was split here, rows of the sample.
        searched: rows among which repeats are searched: of each official split, or all rows as "all".
        sampled: (N,) which of the M rows the dataset has.
        row: (M,) 0-based row in the file.
    """

    labels: Labels
    equal: EqualInputs
    parts: Mapping[str, Labels]
    searched: Mapping[str, Labels]
    sampled: Labels
    row: Labels

    @classmethod
    def of(cls, inputs: FloorInputs) -> EveryRow:
        """The rows of a dataset, or those that it is a sample of."""
        dataset, split, known = inputs.dataset, inputs.split, inputs.dataset.all_rows
        parts = {"train": split.train, "validation": split.validation, "test": split.test}
        official, rows = dataset.split, np.arange(len(dataset))
        searched = {"all": rows}
        if known is None or known.labels is None:
            if official is not None:  # with the rows that were cut from train for validation
                searched = {str(name): np.flatnonzero(official == name) for name in np.unique(official)}
            return cls(inputs.labels, inputs.equal, parts, searched, rows, dataset.metadata.get("row", rows))
        _, group, sizes = np.unique(known.keys, return_inverse=True, return_counts=True)
        if known.split is None:
            parts = {name: known.sampled[members] for name, members in parts.items()}
            searched = {"all": np.arange(len(known.keys))}
        else:
            parts = searched = {name: np.flatnonzero(known.split == i) for i, name in enumerate(SPLITS)}
        return cls(known.labels, EqualInputs(group.ravel(), sizes), parts, searched, known.sampled, known.row)

    @property
    def training(self) -> Labels:
        """Rows of train and validation."""
        return np.concatenate([self.parts["train"], self.parts["validation"]])

    @property
    def copied(self) -> Labels:
        """Test rows that equal a row of train or validation."""
        return self.parts["test"][self.equal.occurs_in(self.parts["test"], self.training)]

    def in_dataset(self, rows: Labels) -> Labels:
        """Those of the rows that the dataset has, by its row numbers."""
        at = np.full(len(self.labels), -1)
        at[self.sampled] = np.arange(len(self.sampled))
        return at[rows][at[rows] >= 0]


@dataclass(slots=True, eq=False)
class Evidence:
    """What the steps of an audit work on; each step fills in its own fields.

    Attributes:
        dataset: the examples.
        labels: (N,) class numbers.
        split: row numbers of train, validation and test.
        config: the settings.
        inputs: features, equal inputs and test rows for the floor; None where the benchmark is broken.
        every: all rows, of which the dataset may be a sample.
        copy_test: whether test rows that equal a training row are copies; None where no such row is in an official
            test set.
        models: models with predictions; the first is the ensemble that is scored.
        fitted: classifiers of scikit-learn that were fitted here, on the test rows of ``inputs``.
        out_of_fold: (N, K) predictions of training and validation rows by models that did not see them; else 0.
        annotations: votes or soft labels.
        correct_by_size: training sizes of the learning curve, and which test rows are right at each.
        curve_model: the model of the learning curve.
        nearest: the training examples that are nearest to test examples.
        turned: test images that equal a turned or mirrored training image.
        altered: test images or texts that are altered training examples.
        network_data: the examples as networks take them, once they are scaled.
        text_models: what the ensemble of text models predicts for rows of a table.
        encoder: what encoded the examples, to encode others; None where vectors came with the data.
        columns: per-example results by name, for the joined table.
        notes: what was not possible, and why.
        steps: what was done, and how long it took.
        floor: bracket and estimates of the lowest possible error.
        flow: the flow's own curve and likelihood.
        issues: labels ranked by predictions that did not see them.
        metrics: the best model beside guessing.
        contents: what the rows contain, as people read it.
        slices: where the best model errs more than elsewhere.
        deadline: time (of :func:`time.monotonic`) after which searches are left out, and said to be.
        label_count: what the review of a random sample of the labels says.
        probs: (m, K) probabilities of the test rows of ``inputs`` by held-out model.
        hard: confusion of every example.
        fresh: the same models on a fresh test set.
        shifts: differences between train and test, groups and changes along the file; None until they are searched.
        alone: class probabilities of the test rows by single column, and the number of columns; None until then.
    """

    dataset: Dataset
    labels: Labels
    split: Split
    config: AuditConfig
    inputs: FloorInputs | None = None
    every: EveryRow | None = None
    copy_test: CopyTest | None = None
    models: tuple[ModelPredictions, ...] = ()
    fitted: tuple[Fitted, ...] = ()
    out_of_fold: Floats | None = None
    annotations: Annotations | None = None
    correct_by_size: Mapping[int, NDArray[np.bool_]] = field(default_factory=dict)
    curve_model: str = ""
    nearest: Nearest | None = None
    turned: Labels = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    altered: AlteredSearch | None = None
    network_data: NetworkData | None = None
    text_models: tuple[Callable[..., Floats], ...] = ()
    encoder: Any = None
    columns: dict[str, NDArray[Any]] = field(default_factory=dict)
    notes: list[AuditNote] = field(default_factory=list)
    steps: list[AuditStep] = field(default_factory=list)
    floor: Floor | None = None
    flow: FlowView | None = None
    issues: LabelIssues | None = None
    label_count: LabelCount | None = None
    metrics: ScoreMetrics | None = None
    contents: RowContents | None = None
    slices: ErrorSlices | None = None
    deadline: float = math.inf
    probs: Mapping[str, Floats] = field(default_factory=dict)
    hard: Hardness | None = None
    fresh: FreshScores | None = None
    shifts: tuple[Any, ...] | None = None
    alone: tuple[dict[str, Floats], int] | None = None

    def is_late(self, step: str, deadline: float = math.inf) -> bool:
        """Whether the time is used up; then a note says that ``step``, a search, was left out or cut short."""
        late = time.monotonic() > min(deadline, self.deadline)
        note = AuditNote("skipped", {"step": step, "why": "no-time"})
        if late and note not in self.notes:
            self.notes.append(note)
        return late

    @property
    def dropped(self) -> tuple[str, ...]:
        """Steps that were left out because the time was used up."""
        return tuple(n.details["step"] for n in self.notes if n.code == "skipped" and n.details["why"] == "no-time")

    @property
    def parts(self) -> dict[str, Labels]:
        """Row numbers by the name of the split."""
        return {"train": self.split.train, "validation": self.split.validation, "test": self.split.test}

    @property
    def modelled(self) -> Split:
        """The rows that models are trained and evaluated on: ``split``, or a sample of it where there are many."""
        return self.split if self.inputs is None else self.inputs.split

    @property
    def is_images(self) -> bool:
        """Whether the examples are images."""
        return self.dataset.x.ndim > 2

    @property
    def on_pixels(self) -> bool:
        """Whether models are trained on pixels: images without an encoder."""
        return self.dataset.inputs.ndim > 2

    @property
    def has_torch(self) -> bool:
        """Whether networks and flows can be trained here."""
        return importlib.util.find_spec("torch") is not None

    def test_probs(self) -> dict[str, Floats]:
        """Probabilities (m, K) of the test rows of ``inputs`` by held-out model, the scored ensemble first."""
        assert self.inputs is not None
        test = self.inputs.test
        held_out = {model.name: model.probs[test] for model in self.models if model.held_out and model.covers(test)}
        return held_out | {item.name: item.probs for item in self.fitted}

    def seen_probs(self) -> dict[str, Floats]:
        """The same of models that may have seen the test examples."""
        assert self.inputs is not None
        test = self.inputs.test
        return {model.name: model.probs[test] for model in self.models if not model.held_out and model.covers(test)}

    def test_answers(self) -> dict[str, Labels]:
        """Classes of the test rows of ``inputs`` by model, where they are known those of the floor's best model."""
        answers = {name: probs.argmax(axis=1) for name, probs in self.probs.items()}
        best = None if self.floor is None else self.floor.best
        if self.inputs is not None and best is not None and best.name in self.inputs.decisions:
            answers.setdefault(best.name, self.inputs.decisions[best.name])
        return answers

    def best_answers(self) -> Labels | None:
        """Those of the best model of the floor; None where they are not known."""
        best = None if self.floor is None else self.floor.best
        return None if best is None else self.test_answers().get(best.name)

    def training_rows(self) -> Labels:
        """Rows of train, with those that were cut from it for validation."""
        split, official = self.modelled, self.dataset.split
        if official is not None and (official == "validation").any():
            return split.train
        return np.sort(np.concatenate([split.train, split.validation]))


def answers_by_seed(evidence: Evidence, model: ModelPredictions, rows: Labels) -> list[Labels]:
    """Classes of some rows by every seed of a model, at its last epoch."""
    recorded, at = model.predictions, np.full(len(evidence.dataset), -1)
    at[model.rows] = np.arange(len(model.rows))
    return [recorded.read(seed, recorded.epochs[-1]).argmax(axis=1)[at[rows]] for seed in recorded.seeds]
