"""Which examples are hard: confusion scores of the ensemble, errors by band, pictures, and the hard subset."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import confusion, files, numbers, stats
from hardpan.auditing.evidence import Evidence, Part
from hardpan.bayes.floors.models import Model
from hardpan.confusion.charts import error_by_band
from hardpan.confusion.report import CITATIONS, METHOD, score_section
from hardpan.estimates import Estimate
from hardpan.report.sections import Chart, Section, Table

HARD_QUANTILE = 0.9
WIDEST = 0.5  # an interval of the proportion of errors that is wider says nothing
SUBSET = "hard-subset.json"


def find(evidence: Evidence) -> Part:
    """Score every example by the first model, and compare the scores with its errors on the test set."""
    model, level = evidence.models[0], evidence.config.confidence
    scores, signals = _scored(model, evidence)
    test = scores.select(np.flatnonzero(np.isin(model.rows, evidence.split.test)))
    hard = confusion.subset(test, quantile=HARD_QUANTILE)
    config = confusion.ConfusionConfig(split="test", confidence=level)
    found = confusion.summarize(scores, signals, evidence.dataset, config=config, subset=hard)
    section = score_section(dataclasses.replace(found, issues=None))  # labels have a section of their own
    measures = {"mean_confusion": stats.mean(test.values, level, least=0.0, method="mean score, bits")}
    tenth = None if found.bands is None else found.bands.hardest_tenth
    if tenth is not None and np.isfinite(tenth.value):
        measures["tail_share"] = tenth
    section = dataclasses.replace(
        section,
        title=_title(tenth),
        sentences=(_who(model),),
        methods=(*section.sentences, *METHOD),
        estimates={},
        key="hard",
        short="Hard examples",
    )
    if len(evidence.models) > 1:
        section = _with_others(section, test, evidence)
    evidence.columns |= _columns(scores, signals, model, evidence)
    subset = {SUBSET: files.dumps(files.to_json(hard)) + "\n"}
    return Part(section, measures, METHOD, CITATIONS, files=subset)


def _scored(model: Model, evidence: Evidence) -> tuple[confusion.Scores, confusion.Signals]:
    recorded = model.predictions
    several = len(recorded.seeds) > 1 or len(recorded.epochs) > 1
    names = np.full(len(evidence.dataset), "validation")
    names[evidence.split.train], names[evidence.split.test] = "train", "test"
    labels = evidence.labels[model.rows]
    scores = confusion.scores(recorded, stderr=several)
    scores = dataclasses.replace(
        scores,
        ids=evidence.dataset.ids[model.rows],
        labels=labels,
        split=names[model.rows],
        class_names=evidence.dataset.class_names,
    )
    signals = confusion.signals(recorded, labels=labels)
    return scores, dataclasses.replace(signals, ids=scores.ids)


def _title(tenth: Estimate | None) -> str:
    if tenth is None or not np.isfinite(tenth.value) or tenth.high - tenth.low > WIDEST:
        return "The most confusing examples"
    return f"The most confusing tenth of the test set has {numbers.estimate(tenth)} of the errors"


def _who(model: Model) -> str:
    recorded = model.predictions
    size = f"{numbers.counted(len(recorded.seeds), 'seed')}, {numbers.counted(len(recorded.epochs), 'epoch')}"
    source = "trained here" if model.trained_here else "your predictions"
    return (
        f"An example is confusing if the mean prediction of the seeds stays spread over classes during training; "
        f"labels are not used. Scores are from {model.name} ({source}; {size})."
    )


def _with_others(section: Section, test: confusion.Scores, evidence: Evidence) -> Section:
    """Add the error of every further model by band of the first one's scores."""
    rows_by_id = {str(name): row for row, name in enumerate(evidence.dataset.ids)}
    rows = np.array([rows_by_id[str(name)] for name in test.ids])
    found, table = {}, []
    for model in evidence.models:
        if not model.covers(rows):
            continue
        correct = model.probs[rows].argmax(axis=1) == evidence.labels[rows]
        bands = confusion.bands(test, correct, confidence=evidence.config.confidence)
        found[model.name] = bands
        tenth = bands.hardest_tenth
        table.append((model.name, bands.error, tenth if np.isfinite(tenth.value) else None, bands.rho.value))
    chart: Chart = error_by_band(found, "Error of every model by band of the first one's scores")
    columns = ("model", "error", "errors in the confusing tenth", "ρ by band")
    shown = Table("Does confusion of one model predict the errors of the others?", columns, tuple(table))
    return dataclasses.replace(section, folded=(shown, chart, *section.folded))


def _columns(
    scores: confusion.Scores, signals: confusion.Signals, model: Model, evidence: Evidence
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
    if signals.correct_seeds is not None and len(evidence.models) == 1:
        columns["share_correct"] = spread(signals.correct_seeds.mean(axis=0))
    else:
        with np.errstate(invalid="ignore"):
            columns["share_correct"] = np.mean(rights, axis=0)
    return {name: values for name, values in columns.items() if values is not None}
