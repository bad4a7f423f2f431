"""What the results of :mod:`hardpan.confusion` say and show."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.confusion.ablation import Variant
from hardpan.confusion.banding import FEWEST_ERRORS, Bands
from hardpan.confusion.difficulty_signals import Signals
from hardpan.confusion.label_noise import LabelIssues
from hardpan.confusion.reports import (
    AblationReport,
    ComparisonReport,
    ScoreReport,
    SubsetReport,
    TransferReport,
)
from hardpan.confusion.scoring import Scores, Stability
from hardpan.confusion.subsets import Subset
from hardpan.confusion.transfers import ConfusedModels
from hardpan.data.dataset import rows_of
from hardpan.errors import counted
from hardpan.pages import confusion_charts as charts
from hardpan.pages import formatting
from hardpan.pages.confusion_charts import class_name, rows_by_class, score_gallery
from hardpan.pages.field_views import view
from hardpan.pages.sections import Aligned, Chart, Section, Table, View, table_of, table_of_columns
from hardpan.report import Provenance, versions_of
from hardpan.tables import columns_of

__all__ = ["view"]

MOST_ISSUES = 24
MOST_ROWS = 40
PICTURES = 13  # of the most confusing examples
MEASURES = ("by_band", "by_example", "auroc", "aupr", "aurc")
ISSUE_COLUMNS = ("row", "id", "split", "label", "suggested", "probability")
METHOD = (
    "The confusion score of an example is s(x) = 1/T Σₜ H(1/M Σᵢ fₜ⁽ⁱ⁾(x)): probabilities are averaged "
    "over the M seeds, their entropy is taken in bits, and averaged over the T epochs. It needs no labels.",
    "Standard errors of scores are from the jackknife over seeds, with intervals by Student's t with M − 1 degrees "
    "of freedom (over epochs, the circular block bootstrap). Errors by band have Clopper–Pearson intervals; "
    "correlations have bootstrap intervals.",
)
CITATIONS = (
    "Albiero, Mehta, Evtimov, Bell, Sagun, Markosyan: Confusing Large Models by Confusing Small Models (2023)",
    "Simsek, Hall, Sagun: Understanding out-of-distribution accuracies through quantifying difficulty of test "
    "samples (2022)",
    "Northcutt, Jiang, Chuang: Confident learning (2021)",
)


def _confusion_view(
    title: str,
    section: Section,
    columns: Mapping[str, Any],
    seed: int = 0,
    hashes: Mapping[str, str] | None = None,
) -> View:
    """A page of one section, whose first sentence is the headline."""
    provenance = Provenance(METHOD, CITATIONS, seed=seed, versions=versions_of("numpy"), hashes=hashes or {})
    rest = dataclasses.replace(section, sentences=section.sentences[1:])
    return View(title, section.sentences[0], (rest,), provenance=provenance, columns=columns)


@view.register
def _(result: ScoreReport) -> View:
    section, name = score_section(result), Path(result.source).name
    bands = tuple(chart for chart in section.charts if chart.drawing == "error_by_band")
    others = tuple(chart for chart in section.charts if chart.drawing != "error_by_band")
    rest = section.sentences[1:]
    more: list[Section] = []
    if result.issues is not None and result.issues.row.size:
        more.append(issues_section(dataclasses.replace(result.issues, dataset=result.dataset)))
    more += [ablation_section(result.ablation)] if result.ablation is not None else []
    more += [comparison_section(result.comparison)] if result.comparison is not None else []
    columns = {} if result.scores is None else _score_columns(result.scores, result.signals)
    hashes = {"scores, sha256": result.sha256}
    made = _confusion_view(f"Confusion scores of {name}", section, columns, result.config.seed, hashes)
    return dataclasses.replace(
        made,
        lede=rest if bands else (),
        sections=(dataclasses.replace(section, charts=others, sentences=() if bands else rest), *more),
        hero=bands,
        name=name,
        size=f"{counted(result.examples, 'example')}, {counted(len(result.seeds), 'seed')}",
        terminal=(
            dataclasses.replace(
                section, sentences=() if bands else rest, estimates={}, tables=_band_tables(result)
            ),
            *(dataclasses.replace(item, charts=()) for item in more),
        ),
    )


def score_section(result: ScoreReport) -> Section:
    """The section of a page: distribution, error by band, errors in the hardest tenth, and galleries."""
    title, sentences, warnings = "Which examples are hard?", _score_sentences(result), _score_warnings(result)
    if result.scores is None:  # read back from JSON: the arrays are in scores.json
        return Section(title, sentences, tables=_band_tables(result), warnings=warnings)
    everything = result.scores.in_bits()
    rows = everything.rows_of_split(result.split)
    scores = everything.select(rows)
    signals = None if result.signals is None else result.signals.select(rows)
    hardest_table = _hardest_table(scores, signals, result)
    figures: list[Chart] = []
    if result.dataset is not None:
        hardest = np.argsort(-scores.values, kind="stable")[:PICTURES]
        predicted = None if signals is None else signals.predicted
        figures += score_gallery("", {"": hardest}, scores, result.dataset, predicted)
    if everything.split is not None and len(np.unique(everything.split)) > 1:
        groups = {str(name): everything.values[everything.split == name] for name in np.unique(everything.split)}
        figures.append(charts.score_distribution_chart(groups, everything.largest))
    estimates = {}
    if result.bands is not None:
        figures.append(charts.error_by_band_chart(_bands_by_name(result)))
        tenth = result.bands.hardest_tenth
        estimates = {"Error": result.bands.error, "Fraction of the errors in the most confusing tenth": tenth}
    return Section(
        title,
        sentences,
        estimates,
        tuple(figures),
        warnings=warnings,
        folded=(*_band_tables(result), hardest_table, *_folded_galleries(scores, signals, result)),
    )


def _bands_by_name(result: ScoreReport) -> Mapping[str, Bands]:
    """Error by band: of each split where there are several, else of the one that is shown."""
    if result.by_split is not None:
        return result.by_split.splits
    return {} if result.bands is None else {result.split if result.split != "all" else "error": result.bands}


def _band_tables(result: ScoreReport) -> tuple[Table, ...]:
    by_name = _bands_by_name(result)
    return tuple(band_table(bands, name if len(by_name) > 1 else "") for name, bands in by_name.items())


def _score_sentences(result: ScoreReport) -> tuple[str, ...]:
    sentences: list[str] = []
    if result.bands is not None:
        whose = f" of the {result.split} split" if result.split != "all" else ""
        if not whose and result.with_train:  # an error that includes training examples is not a test error
            whose = " (training examples included)"
        sentences += band_sentences(result.bands, whose)
    if result.by_split is not None:
        splits = result.by_split.splits.items()
        sentences += [band_sentences(bands, f" of the {name} split")[0] for name, bands in splits]
    scale = math.log2(result.base)
    middle, upper = (result.quantiles[level] * scale for level in ("0.5", "0.9"))
    sentences.append(
        f"{counted(result.examples, 'example')} scored by "
        f"{counted(len(result.seeds), 'seed')} over {counted(len(result.epochs), 'epoch')}: "
        f"the median is {middle:.3g} bits, the 90 % quantile {upper:.3g}, the largest possible score "
        f"{result.largest * scale:.3g}."
    )
    if result.stability is not None:
        sentences.append(stability_sentence(result.stability))
    if result.subset is not None:
        sentences.append(f"Hard subset: {subset_sentence(result.subset)}")
    return tuple(sentences)


def band_sentences(bands: Bands, whose: str = "") -> tuple[str, ...]:
    """Error, errors in the hardest tenth and correlation with the score, in two sentences."""
    tenth = bands.hardest_tenth
    first = f"The error is {formatting.estimate(bands.error)} on {counted(bands.examples, 'example')}{whose}"
    if tenth.n >= FEWEST_ERRORS:
        first += f"; {formatting.estimate(tenth)} of the errors are in the most confusing tenth"
    return (
        f"{first}.",
        f"Pearson's ρ between score and error{whose} is {formatting.plain(bands.rho)} by band and "
        f"{formatting.plain(bands.by_example)} by example.",
    )


def band_table(bands: Bands, name: str = "") -> Table:
    """One row per band, from the first to the last that has examples."""
    used = [position for position, band in enumerate(bands.bands) if band.examples]
    return table_of(
        f"Error by band of the confusion score{', ' + name if name else ''} ({bands.error.method})",
        bands.bands[used[0] : used[-1] + 1],
        {
            "score, bits": lambda band: f"{band.low:g} to {band.high:g}",
            "examples": "examples",
            "error": lambda band: formatting.estimate(band.error) if band.error else None,
        },
    )


def stability_sentence(stability: Stability) -> str:
    """Standard error of a score, and how stable the ranking is."""
    text = (
        f"The mean standard error of a score is {stability.mean_stderr:.3f} bits (standard deviation of the "
        f"scores: {stability.spread:.3f})"
    )
    tau = stability.tau
    if tau is not None and math.isfinite(tau.value):
        text += (
            f"; without any one seed the ranking keeps Kendall's τ of at least {tau.value:.3f}, and at least "
            f"{100 * min(stability.overlap):.0f} % of the hardest tenth stays the same"
        )
    return f"{text}."


def _folded_galleries(scores: Scores, signals: Signals | None, result: ScoreReport) -> list[Chart]:
    """Hardest of each class, and examples that no seed gets right."""
    dataset = result.dataset
    if dataset is None:
        return []
    galleries: dict[str, Mapping[str, NDArray[np.int64]]] = {"Most confusing of each class": rows_by_class(scores)}
    if signals is not None and signals.labels is not None:
        missed = np.flatnonzero(~signals.correct("seeds").any(axis=0))
        missed = missed[np.argsort(-scores.values[missed], kind="stable")]
        title = f"No seed right at the last epoch: {counted(len(missed), 'example')}"
        title += f", the {MOST_ISSUES} most confusing" if len(missed) > MOST_ISSUES else ""
        galleries[title] = {"all wrong": missed[:MOST_ISSUES]}
    predicted = None if signals is None else signals.predicted
    return [
        chart
        for title, groups in galleries.items()
        for chart in score_gallery(title, groups, scores, dataset, predicted)
    ]


def _hardest_table(scores: Scores, signals: Signals | None, result: ScoreReport) -> Table:
    order = np.argsort(-scores.values, kind="stable")[:MOST_ROWS]
    names = scores.ids[order].tolist()
    if result.dataset is not None:
        names = [result.dataset.place(int(row)) for row in rows_of(result.dataset.ids, scores.ids[order])]
    columns: dict[str, list[Any]] = {"example": names, "score, bits": np.round(scores.values[order], 4).tolist()}
    if scores.stderr is not None:
        low, high = (np.round(end[order], 4).tolist() for end in scores.interval(result.config.confidence))
        columns["standard error"] = np.round(scores.stderr[order], 4).tolist()
        columns |= {f"{100 * result.config.confidence:g} % from": low, "to": high}
    for name, labels in (("label", scores.labels), ("predicted", None if signals is None else signals.predicted)):
        if labels is not None:
            columns[name] = [class_name(scores, int(label)) for label in labels[order]]
    title = f"The {len(order)} most confusing examples" if len(order) < len(scores) else "All examples, by score"
    return table_of_columns(title, columns)


def _score_warnings(result: ScoreReport) -> tuple[str, ...]:
    warnings = []
    if len(result.seeds) < 2:
        warnings.append(
            "One seed only: disagreement between seeds is not measured, nor a standard error over seeds."
        )
    if len(result.epochs) < 5:
        epochs = counted(len(result.epochs), "epoch")
        warnings.append(f"{epochs} only: with few epochs the scores are unstable (Albiero et al., section 3.3).")
    if result.logits:
        warnings.append(f"{result.source} seems to contain logits; their softmax is used.")
    if result.relabelled:
        count = counted(result.relabelled, "label")
        warnings.append(f"{count} of the dataset differ from those of {result.source}; the dataset's are used.")
    return tuple(warnings)


def _score_columns(scores: Scores, signals: Signals | None) -> dict[str, Any]:
    columns: dict[str, Any] = {"id": scores.ids, "score": scores.values}
    if scores.stderr is not None:
        columns["stderr"] = scores.stderr
        columns["low"], columns["high"] = scores.interval()
    if scores.labels is not None:
        columns["label"] = scores.labels
    if scores.split is not None:
        columns["split"] = scores.split
    if signals is not None:
        columns["predicted"] = signals.predicted
    return columns


@view.register
def _(result: LabelIssues) -> View:
    title = f"Label issues of {Path(result.source).name}" if result.source else "Label issues"
    columns = {name: getattr(result, name) for name in ISSUE_COLUMNS}
    return _confusion_view(title, issues_section(result, 4 * MOST_ISSUES), columns)


def issues_section(issues: LabelIssues, most: int = MOST_ISSUES) -> Section:
    """Labels that differ from the prediction, the least probable first: table and pictures."""
    count = len(issues.row)
    verb = "differs" if count == 1 else "differ"
    table = table_of(
        "Labels that differ from the prediction, the least probable first",
        range(min(most, count)),
        {
            "row": lambda i: int(issues.row[i]),
            "label": lambda i: class_name(issues, int(issues.label[i])),
            "predicted": lambda i: class_name(issues, int(issues.suggested[i])),
            "mean p(label)": lambda i: round(float(issues.probability[i]), 3),
            "id": lambda i: str(issues.id[i]),
        },
    )
    return Section(
        "Labels that differ from the prediction",
        (f"{count:,} of {issues.examples:,} labels {verb} from the prediction: a wrong label or a model's error.",),
        charts=charts.label_gallery(issues, issues.dataset, min(most, 2 * MOST_ISSUES)),
        tables=(table,) if count else (),
    )


def subset_sentence(subset: Subset) -> str:
    """What a subset contains."""
    whose = " of each class" if subset.balanced else ""
    return (
        f"{len(subset):,} of {subset.examples:,} examples, the most confusing{whose} ({subset.rule} "
        f"{subset.value:g}): scores of at least {subset.threshold * math.log2(subset.base):.3g} bits."
    )


@view.register
def _(result: SubsetReport) -> View:
    subset = result.subset
    sentences = [subset_sentence(subset), f"Scores {subset.scores_sha256[:16]}, ids {subset.ids_sha256[:16]}."]
    if subset.per_class:
        listed = ", ".join(f"{name} {count}" for name, count in list(subset.per_class.items())[:20])
        sentences.insert(1, f"By class: {listed}.")
    figures: list[Chart] = []
    if result.scores is not None:
        scores = result.scores.in_bits()
        figures.append(charts.score_distribution_chart({"all": scores.values}, scores.largest))
        if result.dataset is not None:
            members = scores.select(subset.rows(scores.ids))
            figures += score_gallery(
                "Most confusing of each class", rows_by_class(members), members, result.dataset
            )
    return _confusion_view(
        f"A hard subset of {Path(subset.source).name}",
        Section("Hard subset", tuple(sentences), charts=tuple(figures)),
        {"id": subset.ids},
        hashes={"scores, sha256": subset.scores_sha256, "ids, sha256": subset.ids_sha256},
    )


@view.register
def _(result: TransferReport) -> View:
    figures = [charts.joint_scores_chart(item) for item in result.pairs[:6]]
    tables = [
        table_of(
            "Scores of two models on the same examples",
            result.pairs,
            {
                "first": "first",
                "second": "second",
                "examples": "examples",
                "Kendall τ": Aligned("tau"),
                "Pearson ρ": Aligned("rho"),
                "confuse the second less": lambda item: formatting.estimate(item.below) if item.below.n else None,
            },
        )
    ]
    if result.targets is not None:
        title = f"Error of each model by band of {result.targets.scored_by}'s scores"
        figures.append(charts.error_by_band_chart(result.targets.targets, title))
        columns = {
            "model": lambda item: item[0],
            "error": lambda item: formatting.estimate(item[1].error),
            "ρ by band": lambda item: formatting.plain(item[1].rho),
            "ρ by example": lambda item: formatting.plain(item[1].by_example),
            "errors in the hardest tenth": lambda item: formatting.estimate(item[1].hardest_tenth),
        }
        tables.append(table_of(title, result.targets.targets.items(), columns))
    sentences = [_transfer_headline(result)]
    models = result.accuracy
    if models is not None:
        chart, table, said = _mean_confusion(models)
        figures, tables, sentences = [*figures, chart], [*tables, table], [*sentences, *said]
    warnings = tuple(
        f"{name} lacks some of {result.models[0]}'s examples, so its error by band is left out."
        for name in result.incomplete
    )
    section = Section("Transfer of confusion", tuple(sentences), {}, tuple(figures), tuple(tables), warnings)
    frame = columns_of(result.pairs, "first", "second", "examples", "tau.value", "rho.value", "below.value")
    return _confusion_view("Confusion of several models", section, frame, result.config.seed)


def _mean_confusion(models: ConfusedModels) -> tuple[Chart, Table, list[str]]:
    """Accuracy against mean confusion of several models."""
    table = table_of(
        "Accuracy against mean confusion",
        models.models,
        {
            "model": "name",
            "mean confusion, bits": lambda item: formatting.plain(item.mean_confusion),
            "accuracy": lambda item: formatting.estimate(item.accuracy),
        },
    )
    sentence = (
        f"Over {len(models.models)} models, Pearson's ρ between mean confusion and accuracy is "
        f"{formatting.plain(models.rho)}; the interval resamples examples, not models."
    )
    return charts.mean_confusion_chart(models), table, [sentence] if len(models.models) >= 3 else []


def _transfer_headline(result: TransferReport) -> str:
    """Whether the first pair of models finds the same examples hard, and what that means for errors."""
    item = result.pairs[0]
    if item.tau.low > 0:
        verdict = f"What confuses {item.first} also confuses {item.second}"
    elif item.tau.high < 0:
        verdict = f"What confuses {item.first} confuses {item.second} less than other examples"
    else:
        verdict = f"It is not shown that what confuses {item.first} also confuses {item.second}"
    verdict += f": Kendall's τ is {formatting.plain(item.tau)} over {counted(item.examples, 'example')}"
    bands = None if result.targets is None else result.targets.targets.get(item.second)
    if bands is None or bands.hardest_tenth.n < FEWEST_ERRORS:
        return f"{verdict}."
    tenth = formatting.estimate(bands.hardest_tenth)
    return f"{verdict}, and the tenth that confuses {item.first} most has {tenth} of {item.second}'s errors."


def ablation_section(result: AblationReport) -> Section:
    """How far the scores depend on the numbers of seeds and epochs."""
    ablation, variants = result.ablation, result.ablation.variants
    whole = variants[-1]
    used = f"{counted(whole.seeds, 'seed')} and {counted(len(whole.epochs), 'epoch')}"
    sizes = sorted({item.seeds for item in variants})
    table = table_of(
        "Scores from fewer seeds and epochs",
        variants,
        {
            "seeds": "seeds",
            "epochs": lambda item: len(item.epochs),
            "mean score": lambda item: round(item.mean, 4),
            "deviation": lambda item: round(item.deviation, 4),
            "τ with all": Aligned("tau"),
            "ρ with all": Aligned("rho"),
            "ρ with error, by band": Aligned(lambda item: None if item.bands is None else item.bands.rho),
        },
    )
    return Section(
        "Seeds and epochs that are needed",
        (f"{used} give a mean score of {whole.mean:.3f} bits; {_ablation_sentence(variants)}.",),
        charts=tuple(chart for seeds in sizes for chart in charts.ablation_charts(ablation, seeds)),
        tables=(table,),
    )


def _ablation_sentence(variants: Sequence[Variant]) -> str:
    """The fewest seeds and epochs that rank as all do; the last variant has all."""
    whole = variants[-1]
    if not math.isfinite(whole.tau.value):
        return "all examples have the same score, so there is no ranking"
    close = [item for item in variants if item.tau.value >= 0.95]
    least = min(close, key=lambda item: item.seeds * len(item.epochs), default=whole)
    fewer = least.seeds * len(least.epochs) < whole.seeds * len(whole.epochs)
    enough = f"{least.seeds} × {len(least.epochs)} are enough" if fewer else "no fewer are enough"
    return f"{enough} to rank the examples with Kendall's τ of at least 0.95 to the ranking by all"


@view.register
def _(result: ComparisonReport) -> View:
    columns = columns_of(result.predictors.rows, score="name", **{name: f"{name}.value" for name in MEASURES})
    title = "Difficulty scores as predictors of errors"
    return _confusion_view(title, comparison_section(result), columns, result.config.seed)


def comparison_section(result: ComparisonReport) -> Section:
    """The confusion score beside other difficulty scores; with several models, accuracy against confusion."""
    predictors, models = result.predictors, result.models
    ours = next((row for row in predictors.rows if row.name == "confusion score"), predictors.rows[0])
    free = next((row for row in predictors.rows if not row.uses_labels), predictors.rows[0])
    sentences = [
        f"The confusion score predicts the errors of {predictors.target or 'the model'} with AUROC "
        f"{formatting.plain(ours.auroc)}; of the scores that need no labels, {free.name} is best with "
        f"{formatting.plain(free.auroc)}.",
        "AUROC is the chance that an error has a higher score than a right answer; 0.5 is guessing. The error is "
        f"{formatting.estimate(predictors.error)} on {counted(predictors.examples, 'example')}; oracle "
        f"AURC {predictors.best_aurc:.4f}, chance {predictors.chance_aurc:.4f}.",
    ]
    columns: dict[str, Any] = {"score": "name", "labels": lambda row: "yes" if row.uses_labels else "no"}
    columns |= {"ρ band": lambda row: round(row.by_band.value, 3)}
    columns |= {"ρ example": lambda row: round(row.by_example.value, 3), "AUROC": Aligned("auroc")}
    columns |= {"AUPR": lambda row: round(row.aupr.value, 3), "AURC": lambda row: round(row.aurc.value, 4)}
    table = table_of("Difficulty scores as predictors of errors", predictors.rows, columns)
    figures, tables = [charts.predictors_chart(predictors)], [table]
    if models is not None:
        chart, table, said = _mean_confusion(models)
        figures, tables, sentences = [*figures, chart], [*tables, table], [*sentences, *said]
    leads: dict[str, Any] = {
        "score": "name",
        "definition": "meaning",
        "AUROC behind confusion": Aligned("auroc_lead", sign="+"),
    }
    definitions = table_of("Definitions", predictors.rows, leads)
    charted, listed = tuple(figures), tuple(tables)
    return Section("Prediction of errors", tuple(sentences), {}, charted, listed, folded=(definitions,))
