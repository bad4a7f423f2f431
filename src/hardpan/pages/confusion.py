"""What the results of :mod:`hardpan.confusion` say and show."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import formatting
from hardpan.confusion.ablation import Variant
from hardpan.confusion.banding import FEWEST_ERRORS, Bands
from hardpan.confusion.difficulty import Signals
from hardpan.confusion.error_prediction import Predictor, Predictors
from hardpan.confusion.label_noise import LabelIssues
from hardpan.confusion.scoring import Scores, Stability, split_rows
from hardpan.confusion.subsets import Subset
from hardpan.confusion.summaries import (
    AblationReport,
    BandsReport,
    ComparisonReport,
    ScoreReport,
    SubsetReport,
    TransferReport,
)
from hardpan.confusion.transfers import Transfer
from hardpan.data.dataset import Dataset, rows_of
from hardpan.estimates import Estimate
from hardpan.files import versions_of
from hardpan.pages import confusion_charts as charts
from hardpan.pages.confusion_charts import class_name, gallery, groups_by_class
from hardpan.report.base import View
from hardpan.report.generic import view
from hardpan.report.sections import Aligned, Chart, Provenance, Section, Table, columns_of, table_of

MOST_ISSUES = 24
MOST_ROWS = 40
PICTURES = 13  # of the most confusing examples
QUANTILE = 0.9
MEASURES = {
    "by_band": "ρ by band",
    "by_example": "ρ by example",
    "auroc": "AUROC",
    "aupr": "AUPR",
    "aurc": "AURC",
}
ISSUE_COLUMNS = ("row", "id", "label", "suggested", "probability", "suggested_probability")
METHOD = (
    "The confusion score of an example is s(x) = 1/T Σₜ H(1/M Σᵢ fₜ⁽ⁱ⁾(x)): probabilities are averaged "
    "over the M seeds, their entropy is taken in bits, and averaged over the T epochs. It needs no labels.",
    "Standard errors of scores are from the jackknife over seeds, with intervals by Student's t with M − 1 degrees "
    "of freedom (over epochs, the circular block bootstrap). Errors by band have Clopper–Pearson intervals; "
    "correlations have bootstrap intervals.",
)
UNKNOWN = Estimate(math.nan, math.nan, math.nan, math.nan)  # the error of a band without examples
CITATIONS = (
    "Albiero, Mehta, Evtimov, Bell, Sagun, Markosyan: Confusing Large Models by Confusing Small Models (2023)",
    "Simsek, Hall, Sagun: Understanding out-of-distribution accuracies through quantifying difficulty of test "
    "samples (2022)",
    "Northcutt, Jiang, Chuang: Confident learning (2021)",
)


def _provenance(seed: int = 0, hashes: Mapping[str, str] | None = None) -> Provenance:
    return Provenance(
        method=METHOD, citations=CITATIONS, seed=seed, versions=versions_of("numpy"), hashes=dict(hashes or {})
    )


@view.register
def _(result: ScoreReport) -> View:
    section = score_section(result)
    bands = tuple(chart for chart in section.charts if chart.drawing == "error_by_band")
    others = tuple(chart for chart in section.charts if chart not in bands)
    return View(
        title=f"Confusion scores of {Path(result.source).name}",
        headline=section.sentences[0],
        lede=section.sentences[1:] if bands else (),
        sections=(dataclasses.replace(section, charts=others, sentences=() if bands else section.sentences[1:]),),
        hero=bands,
        provenance=_provenance(result.config.seed, {"scores, sha256": result.sha256}),
        columns={} if result.scores is None else _score_columns(result.scores, result.signals),
        name=Path(result.source).name,
        size=f"{formatting.counted(result.examples, 'example')}, {formatting.counted(len(result.seeds), 'seed')}",
        terminal=(
            dataclasses.replace(
                section, sentences=section.sentences[1:], estimates={}, tables=_band_tables(result)
            ),
        ),
    )


def score_section(result: ScoreReport) -> Section:
    """The section of a page: distribution, error by band, errors in the hardest tenth, and galleries."""
    if result.scores is None:  # read back from JSON: the arrays are in scores.json
        return Section("Which examples are hard?", _score_sentences(result), {}, (), _band_tables(result))
    everything = result.scores.in_bits()
    rows = split_rows(everything, result.split)
    scores = everything.select(rows)
    signals = None if result.signals is None else result.signals.select(rows)
    errors = None if signals is None or signals.labels is None else (~signals.correct("seeds")).mean(axis=0)
    start = float(np.quantile(scores.values, QUANTILE))
    if result.subset is not None:
        start = result.subset.threshold * math.log2(result.subset.base)
    figures = [_most_confusing(scores, signals, result.dataset)]
    if everything.split is not None and len(np.unique(everything.split)) > 1:
        groups = {str(name): everything.values[everything.split == name] for name in np.unique(everything.split)}
        figures.append(charts.distribution(groups, everything.largest))
    estimates = {}
    if result.bands is not None:
        figures.append(charts.error_by_band({result.split if result.split != "all" else "error": result.bands}))
        tenth = result.bands.hardest_tenth
        estimates = {"Error": result.bands.error, "Fraction of the errors in the most confusing tenth": tenth}
    return Section(
        "Which examples are hard?",
        _score_sentences(result),
        estimates,
        tuple(chart for chart in figures if chart is not None),
        warnings=_warnings(result),
        folded=(
            *_band_tables(result),
            *_lists(scores, signals, result),
            charts.threshold(scores.values, errors, scores.largest, start),
            *_galleries(scores, signals, result.issues, result.dataset),
        ),
    )


def _most_confusing(scores: Scores, signals: Signals | None, dataset: Dataset | None) -> Chart | None:
    """The most confusing examples, as one row of pictures."""
    if dataset is None:
        return None
    rows = np.argsort(-scores.values, kind="stable")[:PICTURES]
    return gallery("", {"": rows}, scores, dataset, predicted=None if signals is None else signals.predicted)


def _score_sentences(result: ScoreReport) -> tuple[str, ...]:
    sentences: list[str] = []
    if result.bands is not None:
        sentences += band_sentences(result.bands, _whose(result))
    scale = math.log2(result.base)
    middle, upper = (result.quantiles[level] * scale for level in ("0.5", "0.9"))
    sentences.append(
        f"{formatting.counted(result.examples, 'example')} scored by "
        f"{formatting.counted(len(result.seeds), 'seed')} "
        f"over {formatting.counted(len(result.epochs), 'epoch')}: the median is {middle:.3g} bits, the 90 "
        "% quantile "
        f"{upper:.3g}, the largest possible score {result.largest * scale:.3g}."
    )
    if result.stability is not None:
        sentences.append(stability_sentence(result.stability))
    if result.issues is not None and len(result.issues):
        sentences.append(_issues_sentence(result.issues))
    if result.subset is not None:
        sentences.append(f"Hard subset: {subset_sentence(result.subset)}")
    return tuple(sentences)


def _whose(result: ScoreReport) -> str:
    """Which examples an error is of: one that includes training examples is not a test error, and says so."""
    if result.split != "all":
        return f" of the {result.split} split"
    return " (training examples included)" if result.with_train else ""


def _band_tables(result: ScoreReport) -> tuple[Table, ...]:
    return () if result.bands is None else (band_table(result.bands),)


def band_sentences(bands: Bands, whose: str = "") -> tuple[str, ...]:
    """Error, errors in the hardest tenth and correlation with the score, in two sentences."""
    tenth = bands.hardest_tenth
    first = (
        f"The error is {formatting.estimate(bands.error)} on {formatting.counted(bands.examples, 'example')}{whose}"
    )
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


def _issues_sentence(issues: LabelIssues) -> str:
    verb = "looks" if len(issues) == 1 else "look"
    return f"{len(issues):,} of {issues.examples:,} labels {verb} wrong; check before relabelling."


def _galleries(
    scores: Scores, signals: Signals | None, issues: LabelIssues | None, dataset: Dataset | None
) -> list[Chart]:
    """Hardest and easiest of each class, labels that look wrong, and examples that no seed gets right."""
    if dataset is None:
        return []
    galleries: dict[str, Mapping[str, NDArray[np.int64]]] = {
        "Most confusing of each class": groups_by_class(scores),
        "Least confusing of each class": groups_by_class(scores, easiest=True),
    }
    if signals is not None and signals.labels is not None:
        missed = np.flatnonzero(~signals.correct("seeds").any(axis=0))
        missed = missed[np.argsort(-scores.values[missed], kind="stable")]
        title = f"No seed right at the last epoch: {formatting.counted(len(missed), 'example')}"
        title += f", the {MOST_ISSUES} most confusing" if len(missed) > MOST_ISSUES else ""
        galleries[title] = {"all wrong": missed[:MOST_ISSUES]}
    predicted = None if signals is None else signals.predicted
    made = (gallery(title, groups, scores, dataset, predicted=predicted) for title, groups in galleries.items())
    wrong = () if issues is None else charts.suspects(issues, dataset, MOST_ISSUES)
    return [*wrong, *(chart for chart in made if chart is not None)]


def _lists(scores: Scores, signals: Signals | None, result: ScoreReport) -> tuple[Table, ...]:
    order = np.argsort(-scores.values, kind="stable")[:MOST_ROWS]
    columns = ["example", "score, bits"]
    names = scores.ids[order].tolist()
    if result.dataset is not None:
        names = [result.dataset.place(int(row)) for row in rows_of(result.dataset.ids, scores.ids[order])]
    cells: list[list[object]] = [names, np.round(scores.values[order], 4).tolist()]
    if scores.stderr is not None:
        low, high = (np.round(end[order], 4).tolist() for end in scores.interval(result.config.confidence))
        columns += ["standard error", f"{100 * result.config.confidence:g} % from", "to"]
        cells += [np.round(scores.stderr[order], 4).tolist(), low, high]
    if scores.labels is not None:
        columns.append("label")
        cells.append([class_name(scores, int(label)) for label in scores.labels[order]])
    if signals is not None:
        columns.append("predicted")
        cells.append([class_name(scores, int(label)) for label in signals.predicted[order]])
    rows = tuple(zip(*cells, strict=True))
    title = f"The {len(order)} most confusing examples" if len(order) < len(scores) else "All examples, by score"
    tables = [Table(title, tuple(columns), rows)]
    if result.issues is not None and len(result.issues):
        tables.append(issue_table(result.issues))
    return tuple(tables)


def issue_table(issues: LabelIssues, most: int = MOST_ISSUES) -> Table:
    """Labels that look wrong, most suspicious first."""
    return table_of(
        "Labels that look wrong: check before relabelling",
        range(min(most, len(issues))),
        {
            "row": lambda i: int(issues.row[i]),
            "label": lambda i: issues.class_name(int(issues.label[i])),
            "suggested": lambda i: issues.class_name(int(issues.suggested[i])),
            "mean p(label)": lambda i: round(float(issues.probability[i]), 3),
            "mean p(suggested)": lambda i: round(float(issues.suggested_probability[i]), 3),
            "id": lambda i: str(issues.id[i]),
        },
    )


def _warnings(result: ScoreReport) -> tuple[str, ...]:
    warnings = []
    if len(result.seeds) < 2:
        warnings.append(
            "One seed only: disagreement between seeds is not measured, nor a standard error over seeds."
        )
    if len(result.epochs) < 5:
        epochs = formatting.counted(len(result.epochs), "epoch")
        warnings.append(f"{epochs} only: with few epochs the scores are unstable (Albiero et al., section 3.3).")
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
    return View(
        title=f"Label issues of {Path(result.source).name}" if result.source else "Label issues",
        headline=_issues_sentence(result) if len(result) else f"None of {result.examples:,} labels looks wrong.",
        sections=(
            Section(
                "Most suspicious first",
                charts=charts.suspects(result, result.dataset, 2 * MOST_ISSUES),
                tables=(issue_table(result, 100),),
            ),
        ),
        provenance=_provenance(),
        columns={name: getattr(result, name) for name in ISSUE_COLUMNS},
    )


@view.register
def _(result: BandsReport) -> View:
    several = len(result.splits) > 1
    sentences = tuple(
        text
        for name, bands in result.splits.items()
        for text in band_sentences(bands, f" of the {name} split" if several else "")
    )
    figures = [charts.error_by_band(result.splits)]
    if result.scores is not None:
        groups = {name: result.scores.values[split_rows(result.scores, name)] for name in result.splits}
        figures.append(charts.distribution(groups, result.scores.largest))
    tables = tuple(band_table(bands, name) for name, bands in result.splits.items())
    rows = [(name, band) for name, bands in result.splits.items() for band in bands.bands]
    return View(
        title=f"Error by band: {Path(result.source).name}",
        headline=sentences[0],
        sections=(Section("Error by band", sentences[1:], {}, tuple(figures), folded=tables),),
        provenance=_provenance(result.config.seed),
        columns={"split": [name for name, _ in rows]}
        | columns_of((band for _, band in rows), "low", "high", "examples")
        | columns_of(
            (band.error or UNKNOWN for _, band in rows), error="value", error_low="low", error_high="high"
        ),
    )


def subset_sentence(subset: Subset) -> str:
    """What a subset contains."""
    kind, limit = ("least", "at most") if subset.easiest else ("most", "at least")
    whose = " of each class" if subset.balanced else ""
    return (
        f"{len(subset):,} of {subset.examples:,} examples, the {kind} confusing{whose} ({subset.rule} "
        f"{subset.value:g}): scores of {limit} {subset.threshold * math.log2(subset.base):.3g} bits."
    )


@view.register
def _(result: SubsetReport) -> View:
    subset = result.subset
    sentences = [f"Scores {subset.scores_sha256[:16]}, ids {subset.ids_sha256[:16]}."]
    if subset.per_class:
        listed = ", ".join(f"{name} {count}" for name, count in list(subset.per_class.items())[:20])
        sentences.insert(0, f"By class: {listed}.")
    figures: list[Chart] = []
    if result.scores is not None:
        scores = result.scores.in_bits()
        start = subset.threshold * math.log2(subset.base)
        figures.append(charts.threshold(scores.values, None, scores.largest, start))
        if result.dataset is not None:
            members = scores.select(subset.rows(scores.ids))
            pictures = gallery("Most confusing of each class", groups_by_class(members), members, result.dataset)
            figures += [] if pictures is None else [pictures]
    return View(
        title=f"A hard subset of {Path(subset.source).name}",
        headline=subset_sentence(subset),
        sections=(Section("Hard subset", tuple(sentences), {}, tuple(figures)),),
        provenance=_provenance(hashes={"scores, sha256": subset.scores_sha256, "ids, sha256": subset.ids_sha256}),
        columns={"id": subset.ids},
    )


@view.register
def _(result: TransferReport) -> View:
    sentences = [
        f"{item.first} and {item.second}: Kendall's τ {formatting.plain(item.tau)}, Pearson's ρ "
        f"{formatting.plain(item.rho)}; {_below(item)}."
        for item in result.pairs[:6]
    ]
    figures = [charts.joint(item) for item in result.pairs[:6]]
    pairs = table_of(
        "Scores of two models on the same examples",
        result.pairs,
        {
            "first": "first",
            "second": "second",
            "examples": "examples",
            "Kendall τ": Aligned("tau"),
            "Pearson ρ": Aligned("rho"),
            "below the diagonal": lambda item: formatting.estimate(item.below) if item.below.n else None,
        },
    )
    tables = [pairs]
    if result.targets is not None:
        title = f"Error of each model by band of {result.targets.scored_by}'s scores"
        figures.append(charts.error_by_band(result.targets.targets, title))
        columns = {
            "model": lambda item: item[0],
            "error": lambda item: formatting.estimate(item[1].error),
            "ρ by band": lambda item: formatting.plain(item[1].rho),
            "ρ by example": lambda item: formatting.plain(item[1].by_example),
            "errors in the hardest tenth": lambda item: formatting.estimate(item[1].hardest_tenth),
        }
        tables.append(table_of(title, result.targets.targets.items(), columns))
    warnings = tuple(
        f"{name} lacks some of {result.models[0]}'s examples, so its error by band is left out."
        for name in result.incomplete
    )
    section = Section("Transfer of confusion", tuple(sentences), {}, tuple(figures), tuple(tables), warnings)
    return View(
        title="Confusion of several models",
        headline=_transfer_headline(result),
        sections=(section,),
        provenance=_provenance(result.config.seed),
        columns=columns_of(result.pairs, "first", "second", "examples", "tau.value", "rho.value", "below.value"),
    )


def _transfer_headline(result: TransferReport) -> str:
    """Whether the first pair of models finds the same examples hard, and what that means for errors."""
    item = result.pairs[0]
    if item.tau.low > 0:
        verdict = f"What confuses {item.first} also confuses {item.second}"
    elif item.tau.high < 0:
        verdict = f"What confuses {item.first} confuses {item.second} less than other examples"
    else:
        verdict = f"It is not shown that what confuses {item.first} also confuses {item.second}"
    verdict += f": Kendall's τ is {formatting.plain(item.tau)} over {formatting.counted(item.examples, 'example')}"
    bands = None if result.targets is None else result.targets.targets.get(item.second)
    if bands is None or bands.hardest_tenth.n < FEWEST_ERRORS:
        return f"{verdict}."
    tenth = formatting.estimate(bands.hardest_tenth)
    return f"{verdict}, and the tenth that confuses {item.first} most has {tenth} of {item.second}'s errors."


def _below(item: Transfer) -> str:
    if not item.below.n:
        return "every example confuses both equally"
    return f"{formatting.estimate(item.below)} of the examples confuse {item.second} less"


@view.register
def _(result: AblationReport) -> View:
    ablation, variants = result.ablation, result.ablation.variants
    figures = [
        chart for seeds in sorted({item.seeds for item in variants}) for chart in charts.variants(ablation, seeds)
    ]
    whole = variants[-1]
    used = f"{formatting.counted(whole.seeds, 'seed')} and {formatting.counted(len(whole.epochs), 'epoch')}"
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
    return View(
        title=f"Fewer seeds and epochs: {Path(result.source).name}",
        headline=f"{used} give a mean score of {whole.mean:.3f} bits; {_enough(variants)}.",
        sections=(Section("Seeds and epochs that are needed", (), {}, tuple(figures), (table,)),),
        provenance=_provenance(result.config.seed),
        columns=columns_of(variants, "seeds")
        | {"epochs": [len(item.epochs) for item in variants]}
        | columns_of(variants, "mean", "deviation", "tau.value", "rho.value"),
    )


def _enough(variants: Sequence[Variant]) -> str:
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
    predictors, models = result.predictors, result.models
    ours = next((row for row in predictors.rows if row.name == "confusion score"), predictors.rows[0])
    free = next((row for row in predictors.rows if not row.uses_labels), predictors.rows[0])
    headline = (
        f"The confusion score predicts the errors of {predictors.target or 'the model'} with AUROC "
        f"{formatting.plain(ours.auroc)}; of the scores that need no labels, {free.name} is best with "
        f"{formatting.plain(free.auroc)}."
    )
    figures, tables, sentences = [charts.predictors(predictors)], [_short_table(predictors)], []
    if models is not None:
        figures.append(charts.confused(models))
        if len(models.models) > 2:
            sentences.append(
                f"Over {len(models.models)} models, Pearson's ρ between mean confusion and accuracy is "
                f"{formatting.plain(models.rho)}; the interval resamples examples, not models."
            )
        cells = tuple(
            (item.name, formatting.plain(item.mean_confusion), formatting.estimate(item.accuracy))
            for item in models.models
        )
        columns = ("model", "mean confusion, bits", "accuracy")
        tables.append(Table("Accuracy against mean confusion", columns, cells))
    section = Section("Prediction of errors", tuple(sentences), {}, tuple(figures), tuple(tables))
    return View(
        title="Difficulty scores as predictors of errors",
        headline=headline,
        lede=("AUROC is the chance that an error has a higher score than a right answer; 0.5 is guessing.",),
        sections=(dataclasses.replace(section, folded=_predictor_tables(predictors)),),
        provenance=_provenance(result.config.seed),
        columns=columns_of(predictors.rows, score="name", **{name: f"{name}.value" for name in MEASURES}),
        terminal=(dataclasses.replace(section, title="", charts=()),),
    )


def _predictor_tables(predictors: Predictors) -> tuple[Table, Table]:
    title = (
        f"Difficulty scores as predictors of errors, {predictors.examples:,} examples, error "
        f"{formatting.estimate(predictors.error)}; oracle AURC {predictors.best_aurc:.4f}, chance "
        f"{predictors.chance_aurc:.4f}"
    )
    measures = table_of(
        title,
        predictors.rows,
        {
            "score": "name",
            "needs labels": _needs_labels,
            **{header: Aligned(name) for name, header in MEASURES.items()},
            "AUROC behind confusion": Aligned("auroc_lead", sign="+"),
        },
    )
    return measures, table_of("Definitions", predictors.rows, {"score": "name", "definition": "meaning"})


def _needs_labels(row: Predictor) -> str:
    return "yes" if row.uses_labels else "no"


def _short_table(predictors: Predictors) -> Table:
    """Values without intervals, except that of AUROC, to fit a terminal."""
    return table_of(
        "Difficulty scores as predictors of errors",
        predictors.rows,
        {
            "score": "name",
            "labels": _needs_labels,
            "ρ band": lambda row: round(row.by_band.value, 3),
            "ρ example": lambda row: round(row.by_example.value, 3),
            "AUROC": Aligned("auroc"),
            "AUPR": lambda row: round(row.aupr.value, 3),
            "AURC": lambda row: round(row.aurc.value, 4),
        },
    )
