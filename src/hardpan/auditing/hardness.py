"""Which examples are hard: confusion scores of the ensemble, errors by band, and the hard subset."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import confusion, stats
from hardpan.auditing.evidence import Evidence
from hardpan.bayes.floors.model_predictions import ModelPredictions
from hardpan.confusion.difficulty_signals import Signals
from hardpan.confusion.reports import ScoreReport
from hardpan.estimates import Estimate

HARD_FRACTION = 0.1


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Hardness:
    """Confusion of every example, and errors by band of it.

    Attributes:
        model: that was scored.
        summary: scores, bands and pictures of it.
        subset: the most confusing tenth of the test set.
        bands: errors of every model by band of these scores, where there are several.
        measures: numbers of the audit by name.
        columns: per-example results for the joined table.
    """

    model: ModelPredictions
    summary: ScoreReport
    subset: confusion.Subset
    bands: Mapping[str, confusion.Bands]
    measures: Mapping[str, Estimate]
    columns: Mapping[str, NDArray[Any]]


def find_hardness(evidence: Evidence) -> Hardness:
    """Score every example by the first model, and compare the scores with its errors on the test set."""
    model, level = evidence.models[0], evidence.config.confidence
    scores, signals = _scored_model(model, evidence)
    test = scores.select(np.flatnonzero(np.isin(model.rows, evidence.split.test)))
    hard = confusion.subset(test, fraction=HARD_FRACTION)
    config = confusion.ConfusionConfig(split="test", confidence=level)
    summary = confusion.summarize(scores, signals, evidence.dataset, config=config, subset=hard)
    measures = {"mean_confusion": stats.mean(test.values, level, least=0.0, method="mean score, bits")}
    tenth = None if summary.bands is None else summary.bands.hardest_tenth
    if tenth is not None and np.isfinite(tenth.value):
        measures["tail_share"] = tenth
    bands = _errors_by_band(test, evidence) if len(evidence.models) > 1 else {}
    return Hardness(model, summary, hard, bands, measures, _hardness_columns(scores, signals, model, evidence))


def _scored_model(model: ModelPredictions, evidence: Evidence) -> tuple[confusion.Scores, Signals]:
    recorded = model.predictions
    several = len(recorded.seeds) > 1 or len(recorded.epochs) > 1
    names = np.full(len(evidence.dataset), "validation")
    names[evidence.split.train], names[evidence.split.test] = "train", "test"
    labels = evidence.labels[model.rows]
    scores, signals = confusion.measure(recorded, stderr=several, labels=labels)
    scores = dataclasses.replace(
        scores,
        ids=evidence.dataset.ids[model.rows],
        split=names[model.rows],
        class_names=evidence.dataset.class_names,
    )
    return scores, dataclasses.replace(signals, ids=scores.ids)


def _errors_by_band(test: confusion.Scores, evidence: Evidence) -> dict[str, confusion.Bands]:
    """The errors of every model by band of the first one's scores."""
    rows_by_id = {str(name): row for row, name in enumerate(evidence.dataset.ids)}
    rows = np.array([rows_by_id[str(name)] for name in test.ids])
    return {
        model.name: confusion.bands(
            test,
            model.probs[rows].argmax(axis=1) == evidence.labels[rows],
            confidence=evidence.config.confidence,
        )
        for model in evidence.models
        if model.covers(rows)
    }


def _hardness_columns(
    scores: confusion.Scores, signals: Signals, model: ModelPredictions, evidence: Evidence
) -> dict[str, NDArray[Any]]:
    n = len(evidence.dataset)

    def spread(values: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        if values is None:
            return None
        whole = np.full(n, np.nan)
        whole[model.rows] = values
        return whole

    names = np.array(evidence.dataset.class_names, dtype=object)
    predicted = np.full(n, None, dtype=object)
    predicted[model.rows] = names[signals.predicted]
    columns: dict[str, NDArray[Any] | None] = {
        "confusion": spread(scores.values),
        "confusion_stderr": spread(scores.stderr),
        "predicted": predicted,
        "p_label": spread(signals.label_probability),
    }
    rights = []
    for item in evidence.models:
        known = np.isfinite(item.probs).all(axis=1)
        right = np.full(n, None, dtype=object)
        right[known] = item.probs[known].argmax(axis=1) == evidence.labels[known]
        columns[f"correct: {item.name}"] = right
        rights.append(np.where(known, np.where(known, right, 0), np.nan).astype(np.float64))
    if len(evidence.models) == 1:
        columns["proportion_correct"] = spread(signals.correct("seeds").mean(axis=0))
    else:
        with np.errstate(invalid="ignore"):
            columns["proportion_correct"] = np.mean(rights, axis=0)
    return {name: values for name, values in columns.items() if values is not None}
