"""Which examples are hard: confusion scores of the ensemble, errors by band, pictures, and the hard subset."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from hardpan import confusion, files, numbers, stats
from hardpan.auditing.evidence import Evidence, Finding, Model
from hardpan.auditing.measures import in_words
from hardpan.confusion.banding import FEWEST_ERRORS
from hardpan.confusion.charts import error_by_band
from hardpan.confusion.report import CITATIONS, METHOD, score_section
from hardpan.estimates import Estimate
from hardpan.report.sections import Chart, Section, Table, Tile

HARD_QUANTILE = 0.9
SUBSET = "hard-subset.json"
NEEDED = (
    "This part needs the predictions of several seeds, best of several epochs: record them from your own training "
    "loop, train a small ensemble, or let the audit train one.",
    "hardpan train DATA --model resnet18 --seeds 3 --epochs 20 --out STORE, and then: hardpan audit DATA "
    "--predictions STORE",
)


def find(evidence: Evidence) -> Finding:
    """Score every example by the first model, and hold the scores against its errors on the test part."""
    if not evidence.models:
        return Finding(Section("Which examples are hard?", NEEDED, warnings=evidence.notes))
    model = evidence.models[0]
    scores, signals = _scored(model, evidence)
    test = scores.select(np.flatnonzero(np.isin(model.rows, evidence.split.test)))
    hard = confusion.subset(test, quantile=HARD_QUANTILE)
    config = confusion.ConfusionConfig(split="test", confidence=evidence.config.confidence)
    found = confusion.summarize(scores, signals, evidence.dataset, config=config, subset=hard)
    section = score_section(found)
    section = dataclasses.replace(section, sentences=(_who(model, evidence), *section.sentences))
    if len(evidence.models) > 1:
        section = _with_others(section, test, evidence)
    tenth = None if found.bands is None else found.bands.hardest_tenth
    mean = stats.mean(test.values, evidence.config.confidence, least=0.0, method="mean score, bits")
    tiles, lede, measures = {}, [], {"mean_confusion": mean}
    if tenth is not None:
        tiles["hard"], told = _tail(tenth, model)
        lede.append(told)
        if np.isfinite(tenth.value):
            measures["tail_share"] = tenth
        if tenth.n < FEWEST_ERRORS:
            kept = {name: item for name, item in section.estimates.items() if item is not tenth}
            section = dataclasses.replace(section, estimates=kept)
    return Finding(
        section,
        tiles,
        lede=tuple(lede),
        method=METHOD,
        citations=CITATIONS,
        measures=measures,
        columns=_columns(scores, signals, model, evidence),
        files={SUBSET: files.dumps(files.to_json(hard)) + "\n"},
    )


def _tail(share: Estimate, model: Model) -> tuple[Tile, str]:
    """The tile and the sentence of the share of the errors in the most confusing tenth, where there are enough."""
    title = "Errors in the confusing tenth"
    if share.n < FEWEST_ERRORS:
        several = len(model.predictions.seeds) > 1
        who = f"A seed of {model.name}" if several else model.name[0].upper() + model.name[1:]
        count = numbers.counted(share.n, "error") if share.n else "no errors"
        told = f"{who} makes {'about ' if several and share.n else ''}{count} on the test part"
        tile = Tile(title, "too few errors to say", f"{told}.")
        return tile, f"{told}: too few to say whether they are the confusing ones."
    shown = in_words("tail_share", share)
    told = f"{shown} of the errors of {model.name} sit in the most confusing tenth of the test part."
    return Tile(title, shown.partition(" (")[0], f"Of {model.name}: {shown}."), told


def _scored(model: Model, evidence: Evidence) -> tuple[confusion.Scores, confusion.Signals]:
    held = model.predictions
    several = len(held.seeds) > 1 or len(held.epochs) > 1
    names = np.full(len(evidence.dataset), "validation")
    names[evidence.split.train], names[evidence.split.test] = "train", "test"
    labels = evidence.labels[model.rows]
    scores = confusion.scores(held, stderr=several)
    scores = dataclasses.replace(
        scores,
        ids=evidence.dataset.ids[model.rows],
        labels=labels,
        split=names[model.rows],
        class_names=evidence.dataset.class_names,
    )
    signals = confusion.signals(held, labels=labels)
    return scores, dataclasses.replace(signals, ids=scores.ids)


def _who(model: Model, evidence: Evidence) -> str:
    held = model.predictions
    seeds, epochs = len(held.seeds), len(held.epochs)
    made, train = "given", evidence.split.train
    if model.trained_here:
        seen = int(np.isin(train, model.rows).sum())
        made = (
            "trained here"
            if seen == len(train)
            else f"trained here on {seen:,} of {len(train):,} training examples"
        )
    recorded = f"{numbers.counted(seeds, 'seed')}, {numbers.counted(epochs, 'epoch')}"
    return (
        f"Scores come from {model.name} ({made}): {recorded}. An example is confusing where the seeds' mean "
        "prediction stays spread over classes while training goes on; no label is used."
    )


def _with_others(section: Section, test: confusion.Scores, evidence: Evidence) -> Section:
    """Add the error of every further model by band of the first one's scores."""
    rows_by_id = {str(name): row for row, name in enumerate(evidence.dataset.ids)}
    rows = np.array([rows_by_id[str(name)] for name in test.ids])
    found, table = {}, []
    for model in evidence.models:
        if not model.known(rows):
            continue
        correct = model.probs[rows].argmax(axis=1) == evidence.labels[rows]
        bands = confusion.bands(test, correct, confidence=evidence.config.confidence)
        found[model.name] = bands
        share = bands.hardest_tenth
        table.append(
            (model.name, numbers.estimate(bands.error), in_words("tail_share", share), round(bands.rho.value, 3))
        )
    chart: Chart = error_by_band(found, "Error of every model by band of the first one's scores")
    columns = ("model", "error", "share of its errors in the confusing tenth", "ρ by band")
    shown = Table("Does confusion of one model predict the errors of the others?", columns, tuple(table))
    return dataclasses.replace(section, charts=(*section.charts, chart), tables=(shown, *section.tables))


def _columns(
    scores: confusion.Scores, signals: confusion.Signals, model: Model, evidence: Evidence
) -> dict[str, NDArray[np.generic]]:
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
    columns: dict[str, NDArray[np.generic] | None] = {
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
