"""Predictions of models, joined to the rows of a dataset."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.bayes.floors.entries import MAY_HAVE_SEEN, NOT_SEEN, Entry
from hardpan.bayes.floors.error_estimates import Floats, Labels
from hardpan.bayes.floors.inputs import FloorInputs
from hardpan.bayes.floors.plugin import plug_in_entries
from hardpan.data.dataset import Dataset, Split
from hardpan.data.opening import data_source_name
from hardpan.errors import InputError
from hardpan.lazy import is_import_name
from hardpan.outcomes.classes import find_renamed_classes
from hardpan.predictions import Predictions
from hardpan.predictions.checks import ClassNamesNeeded
from hardpan.predictions.opening import open_any

Source = Predictions | ArrayLike | str | os.PathLike[str] | Any  # Any: an estimator or a function
Sources = Source | Sequence[Source] | Mapping[str, Source]
UNNAMED = "predictions"


@dataclass(frozen=True, slots=True, eq=False)
class ModelPredictions:
    """A model (or ensemble of seeds) with predictions of a dataset.

    Attributes:
        name: what to call it.
        predictions: every seed, epoch and example that was recorded.
        rows: (n,) row of the dataset of each recorded example.
        probs: (N, K) mean over seeds at the last epoch; NaN where an example was not recorded.
        trained_here: whether hardpan trained it for this report.
        held_out: whether it is known that it was not trained or tuned on the test examples.
        permutation: the order of the class columns that fits the labels far better than the one passed; else None.
        weights: folders of its seeds' weights, where they were kept.
    """

    name: str
    predictions: Predictions
    rows: Labels
    probs: Floats
    trained_here: bool = False
    held_out: bool = False
    permutation: tuple[int, ...] | None = None
    weights: tuple[str, ...] = ()

    def covers(self, rows: Labels) -> bool:
        """Whether every one of these rows was predicted."""
        return bool(np.isfinite(self.probs[rows]).all())


def read_models(
    sources: Sources | None,
    dataset: Dataset,
    labels: Labels,
    split: Split,
    *,
    by_order: bool = False,
    held_out: bool = False,
    folds: int = 0,
    group: Labels | None = None,
) -> tuple[ModelPredictions, ...]:
    """Open predictions and join them to a dataset by id, or by order where that is requested.

    Args:
        sources: one or several of: a store or file, an array (N, K), (epochs, N, K) or (seeds, epochs, N, K) in the
            order of the dataset or of its test examples, :class:`hardpan.Predictions`, a fitted estimator, or
            ``module:function``; a mapping names them.
        dataset: the examples.
        labels: (N,) class numbers.
        split: predictions that were trained on test examples are refused.
        by_order: join predictions without ids by position.
        held_out: the user states that no model was trained or tuned on the test examples. An official test split
            and predictions that were recorded as held out say the same.
        folds: cross-validate estimators in this many folds; 0 applies them as they are.
        group: (N,) groups that no fold takes apart.
    """
    official = dataset.split is not None and bool(np.any(np.asarray(dataset.split) == "test"))
    models: list[ModelPredictions] = []
    for name, source in _named_model_sources(sources):
        opened = _open_model_predictions(source, dataset, folds, group)
        if name == UNNAMED:
            name = str(opened.config.get("model", UNNAMED))
        in_memory = not isinstance(source, (str, os.PathLike)) and not opened.has_ids
        each = opened.by_model() if opened.named else {name: opened}
        for title, one in each.items():
            aligned = one.align(dataset, by_order=by_order or in_memory, split=split, check=False)
            models.append(_model_of_aligned(title, aligned, len(dataset), labels, split, held_out or official))
    names: dict[str, int] = {}
    unique = []
    for model in models:
        names[model.name] = names.get(model.name, 0) + 1
        again = names[model.name]
        unique.append(model if again == 1 else dataclasses.replace(model, name=f"{model.name} ({again})"))
    return tuple(unique)


def _open_model_predictions(source: Any, dataset: Dataset, folds: int, group: Labels | None) -> Predictions:
    """Predictions of whatever a user passes for a model."""
    if isinstance(source, str) and is_import_name(source) and not os.path.exists(source):
        return Predictions.from_estimator(source, dataset, folds=folds, group=group)
    is_data = isinstance(source, (Predictions, str, os.PathLike)) or hasattr(source, "__array__")
    if not is_data and (hasattr(source, "predict") or callable(source)):
        if hasattr(source, "state_dict"):
            raise InputError(
                ": a PyTorch module needs a loader; give Predictions.from_torch(module, loader)",
                argument="predictions",
            )
        return Predictions.from_estimator(source, dataset, folds=folds, group=group)
    try:
        return open_any(source, name="predictions")
    except ClassNamesNeeded:  # classes as text: those of the dataset
        return Predictions.open(source, class_names=dataset.class_names)


def model_of(
    name: str, opened: Predictions, rows: Labels, n: int, n_classes: int, labels: Labels, **more: Any
) -> ModelPredictions:
    """The mean over seeds at the last epoch, on the rows of the dataset."""
    if not opened.seeds or not opened.epochs:
        raise InputError(
            f": {name}: no epoch is complete for all seeds; finish the recording first", argument="predictions"
        )
    total = np.zeros((len(rows), n_classes))
    for seed in opened.seeds:
        total += opened.read(seed, opened.epochs[-1]).astype(np.float64)
    probs = np.full((n, n_classes), np.nan)
    probs[rows] = total / np.maximum(total.sum(axis=1, keepdims=True), 1e-300)
    own = bool(more.get("trained_here"))  # columns cannot be permuted; a network without training may look so
    renamed = find_renamed_classes(probs[rows].argmax(axis=1), labels[rows]) if len(rows) and not own else None
    return ModelPredictions(
        name, opened, rows, probs, permutation=renamed.columns(n_classes) if renamed else None, **more
    )


def _named_model_sources(sources: Sources | None) -> list[tuple[str, Any]]:
    if sources is None:
        return []
    if isinstance(sources, Mapping):
        return [(str(name), source) for name, source in sources.items()]
    if isinstance(sources, (str, os.PathLike)):
        return [(data_source_name(os.fspath(sources)), sources)]
    if isinstance(sources, (np.ndarray, Predictions)) or not isinstance(sources, Sequence):
        return [(UNNAMED, sources)]
    if (
        sources
        and isinstance(sources[0], (Sequence, np.ndarray))
        and not isinstance(sources[0], (str, bytes, os.PathLike))
    ):
        first: NDArray[Any] = np.asarray(sources[0])
        if first.ndim < 2:  # a nested list of numbers is one array
            return [(UNNAMED, np.asarray(sources))]
    return [
        (
            data_source_name(os.fspath(source)) if isinstance(source, (str, os.PathLike)) else f"model {number}",
            source,
        )
        for number, source in enumerate(sources, 1)
    ]


def _model_of_aligned(
    name: str, aligned: Predictions, n: int, labels: Labels, split: Split, held_out: bool
) -> ModelPredictions:
    if aligned.split is not None:
        trained = int(np.isin(aligned.rows[aligned.split == "train"], split.test).sum())
        if trained:
            raise InputError(
                f": {name}: was trained on {trained:,} examples of the test split; pass the seed of its "
                "own split, or predictions of a model that never saw them",
                argument="predictions",
            )
    unseen = held_out or bool(aligned.held_out_rows[np.isin(aligned.rows, split.test)].all())
    return model_of(name, aligned, aligned.rows, n, aligned.n_classes, labels, held_out=unseen)


def model_entries(model: ModelPredictions, inputs: FloorInputs, confidence: float) -> list[Entry]:
    """A model's held-out error and its plug-ins; of one that may have seen the test examples, the error."""
    if not model.covers(inputs.test):
        if model.trained_here:
            return []
        missing = int((~np.isfinite(model.probs[inputs.test]).all(axis=1)).sum())
        raise InputError(
            f": {model.name}: lacks {missing:,} test examples; record all of them", argument="predictions"
        )
    probs, truth = model.probs[inputs.test], inputs.labels[inputs.test]
    seeds = len(model.predictions.seeds)
    entries = plug_in_entries(model.name, probs, truth, confidence, seeds, inputs.sampling)
    if model.held_out:
        return entries
    return [_seen_model_entry(entry) for entry in entries if entry.role == "classifier"]


def _seen_model_entry(made: Entry) -> Entry:
    """The error of a model that may have seen the test examples."""
    estimate = dataclasses.replace(made.estimate, method=f"errors of {made.name} on test examples")
    return dataclasses.replace(made, estimate=estimate, assumption=NOT_SEEN, status=MAY_HAVE_SEEN)
