"""What the results of :mod:`hardpan.confusion` say and show."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import numbers
from hardpan.confusion import charts
from hardpan.confusion.ablation import Variant
from hardpan.confusion.banding import FEWEST_ERRORS, Bands
from hardpan.confusion.charts import class_name, gallery, groups_by_class
from hardpan.confusion.difficulty import Signals
from hardpan.confusion.error_prediction import Predictors
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
from hardpan.files import versions_of
from hardpan.report.base import View
from hardpan.report.sections import Chart, Provenance, Section, Table

MOST_ISSUES = 24
MOST_ROWS = 40
PICTURES = 13  # of the most confusing examples
QUANTILE = 0.9
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


@singledispatch
def view(result: Any) -> View:
    """What a result says and shows."""
    raise TypeError(f"no view of {type(result).__name__}")


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
        size=f"{numbers.counted(result.examples, 'example')}, {numbers.counted(len(result.seeds), 'seed')}",
        terminal=(dataclasses.replace(_without_headline(section), estimates={}, tables=_band_tables(result)),),
    )


def score_section(result: ScoreReport) -> Section:
    """The section of a page: distribution, error by band, errors in the hardest tenth, and galleries."""
    if result.scores is None:  # read back from JSON: the arrays are in scores.json
        return Section("Which examples are hard?", _score_sentences(result), {}, (), _band_tables(result))
    scores = result.scores.in_bits()
    rows = split_rows(scores, result.split)
    part = scores.select(rows)
    here = None if result.signals is None else result.signals.select(rows)
    wrong = None if here is None or here.correct_seeds is None else ~here.correct_seeds
    start = float(np.quantile(part.values, QUANTILE))
    if result.subset is not None:
        start = result.subset.threshold * math.log2(result.subset.base)
    mean = None if wrong is None else wrong.mean(axis=0)
    figures: list[Chart] = []
    most = _most_confusing(part, here, result.dataset)
    if most is not None:
        figures.append(most)
    if scores.split is not None and len(np.unique(scores.split)) > 1:
        groups = {str(name): scores.values[scores.split == name] for name in np.unique(scores.split)}
        figures.append(charts.distribution(groups, scores.largest))
    estimates = {}
    if result.bands is not None:
        figures.append(charts.error_by_band({result.split if result.split != "all" else "error": result.bands}))
        tenth = result.bands.hardest_tenth
        estimates = {"Error": result.bands.error, "Fraction of the errors in the most confusing tenth": tenth}
    return Section(
        "Which examples are hard?",
        _score_sentences(result),
        estimates,
        tuple(figures),
        warnings=_warnings(result),
        folded=(
            *_band_tables(result),
            *_lists(part, here, result),
            charts.threshold(part.values, mean, part.largest, start),
            *_galleries(part, here, result.issues, result.dataset),
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
        f"{numbers.counted(result.examples, 'example')} scored by {numbers.counted(len(result.seeds), 'seed')} "
        "over "
        f"{numbers.counted(len(result.epochs), 'epoch')}: the median is {middle:.3g} bits, the 90 % quantile "
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


def band_sentences(found: Bands, whose: str = "") -> tuple[str, ...]:
    """Error, errors in the hardest tenth and correlation with the score, in two sentences."""
    tenth = found.hardest_tenth
    first = f"The error is {numbers.estimate(found.error)} on {numbers.counted(found.examples, 'example')}{whose}"
    if tenth.n >= FEWEST_ERRORS:
        first += f"; {numbers.estimate(tenth)} of the errors are in the most confusing tenth"
    return (
        f"{first}.",
        f"Pearson's ρ between score and error{whose} is {numbers.plain(found.rho)} by band and "
        f"{numbers.plain(found.by_example)} by example.",
    )


def band_table(found: Bands, name: str = "") -> Table:
    """One row per band, from the first to the last that has examples."""
    used = [band for band in found.bands if band.examples]
    first, last = used[0].low, used[-1].high
    rows = tuple(
        (f"{band.low:g} to {band.high:g}", band.examples, numbers.estimate(band.error) if band.error else None)
        for band in found.bands
        if band.low >= first and band.high <= last
    )
    title = f"Error by band of the confusion score{', ' + name if name else ''} ({found.error.method})"
    return Table(title, ("score, bits", "examples", "error"), rows)


def stability_sentence(found: Stability) -> str:
    """Standard error of a score, and how stable the ranking is."""
    text = (
        f"The mean standard error of a score is {found.mean_stderr:.3f} bits (standard deviation of the scores: "
        f"{found.spread:.3f})"
    )
    if found.tau is not None and math.isfinite(found.tau.value):
        text += (
            f"; without any one seed the ranking keeps Kendall's τ of at least {found.tau.value:.3f}, and at least "
            f"{100 * min(found.overlap):.0f} % of the hardest tenth stays the same"
        )
    return f"{text}."


def _issues_sentence(found: LabelIssues) -> str:
    verb = "looks" if len(found) == 1 else "look"
    return f"{len(found):,} of {found.examples:,} labels {verb} wrong; check before relabelling."


def _galleries(
    scores: Scores, signals: Signals | None, issues: LabelIssues | None, dataset: Dataset | None, each: int = 8
) -> list[Chart]:
    """Hardest and easiest of each class, labels that look wrong, and examples that no seed gets right."""
    if dataset is None:
        return []
    predicted = None if signals is None else signals.predicted
    found = [
        gallery(name, groups_by_class(scores, each=each, easiest=easiest), scores, dataset, predicted=predicted)
        for name, easiest in (("Most confusing of each class", False), ("Least confusing of each class", True))
    ]
    if issues is not None:
        groups: Mapping[str, NDArray[np.int64]] = {"label looks wrong": issues.row[:MOST_ISSUES]}
        found.append(gallery("Labels that look wrong", groups, scores, dataset, predicted=predicted))
    if signals is not None and signals.correct_seeds is not None:
        missed = np.flatnonzero(~signals.correct("seeds").any(axis=0))
        missed = missed[np.argsort(-scores.values[missed], kind="stable")]
        title = f"No seed right at the last epoch: {numbers.counted(len(missed), 'example')}"
        title += f", the {MOST_ISSUES} most confusing" if len(missed) > MOST_ISSUES else ""
        found.append(gallery(title, {"all wrong": missed[:MOST_ISSUES]}, scores, dataset, predicted=predicted))
    return [item for item in found if item is not None]


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


def issue_table(found: LabelIssues, most: int = MOST_ISSUES) -> Table:
    """Labels that look wrong, most suspicious first."""
    rows = tuple(
        (
            int(found.row[i]),
            found.class_name(int(found.label[i])),
            found.class_name(int(found.suggested[i])),
            round(float(found.probability[i]), 3),
            round(float(found.suggested_probability[i]), 3),
            str(found.id[i]),
        )
        for i in range(min(most, len(found)))
    )
    columns = ("row", "label", "suggested", "mean p(label)", "mean p(suggested)", "id")
    return Table("Labels that look wrong: check before relabelling", columns, rows)


def _warnings(result: ScoreReport) -> tuple[str, ...]:
    found = []
    if len(result.seeds) < 2:
        found.append("One seed only: disagreement between seeds is not measured, nor a standard error over seeds.")
    if len(result.epochs) < 5:
        epochs = numbers.counted(len(result.epochs), "epoch")
        found.append(f"{epochs} only: with few epochs the scores are unstable (Albiero et al., section 3.3).")
    return tuple(found)


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


def _without_headline(section: Section) -> Section:
    return dataclasses.replace(section, sentences=section.sentences[1:])


@view.register
def _(result: LabelIssues) -> View:
    return View(
        title=f"Label issues of {Path(result.source).name}" if result.source else "Label issues",
        headline=_issues_sentence(result) if len(result) else f"None of {result.examples:,} labels looks wrong.",
        sections=(Section("Most suspicious first", tables=(issue_table(result, 100),)),),
        provenance=_provenance(),
        columns={
            "row": result.row,
            "id": result.id,
            "label": result.label,
            "suggested": result.suggested,
            "probability": result.probability,
            "suggested_probability": result.suggested_probability,
        },
    )


@view.register
def _(result: BandsReport) -> View:
    several = len(result.splits) > 1
    sentences = [
        text
        for name, item in result.splits.items()
        for text in band_sentences(item, f" of the {name} split" if several else "")
    ]
    figures = [charts.error_by_band(result.splits)]
    if result.scores is not None:
        groups = {name: result.scores.values[split_rows(result.scores, name)] for name in result.splits}
        figures.insert(0, charts.distribution(groups, result.scores.largest))
    tables = tuple(band_table(item, name) for name, item in result.splits.items())
    section = Section("Error by band", tuple(sentences), {}, tuple(figures), folded=tables)
    rows = [(name, band) for name, item in result.splits.items() for band in item.bands]
    return View(
        title=f"Error by band: {Path(result.source).name}",
        headline=sentences[0],
        sections=(_without_headline(section),),
        provenance=_provenance(result.config.seed),
        columns={
            "split": [name for name, _ in rows],
            "low": [band.low for _, band in rows],
            "high": [band.high for _, band in rows],
            "examples": [band.examples for _, band in rows],
            "error": [math.nan if band.error is None else band.error.value for _, band in rows],
            "error_low": [math.nan if band.error is None else band.error.low for _, band in rows],
            "error_high": [math.nan if band.error is None else band.error.high for _, band in rows],
        },
    )


def subset_sentence(found: Subset) -> str:
    """What a subset contains."""
    kind = "least" if found.easiest else "most"
    whose = " of each class" if found.balanced else ""
    limit = "at most" if found.easiest else "at least"
    return (
        f"{len(found):,} of {found.examples:,} examples, the {kind} confusing{whose} ({found.rule} "
        f"{found.value:g}): scores of {limit} {found.threshold * math.log2(found.base):.3g} bits."
    )


@view.register
def _(result: SubsetReport) -> View:
    found = result.subset
    sentences = [f"Scores {found.scores_sha256[:16]}, ids {found.ids_sha256[:16]}."]
    if found.per_class:
        listed = ", ".join(f"{name} {count}" for name, count in list(found.per_class.items())[:20])
        sentences.insert(0, f"By class: {listed}.")
    figures: list[Chart] = []
    if result.scores is not None:
        scores = result.scores.in_bits()
        start = found.threshold * math.log2(found.base)
        figures.append(charts.threshold(scores.values, None, scores.largest, start))
        if result.dataset is not None:
            part = scores.select(found.rows(scores.ids))
            shown = gallery("Most confusing of each class", groups_by_class(part), part, result.dataset)
            figures += [] if shown is None else [shown]
    return View(
        title=f"A hard subset of {Path(found.source).name}",
        headline=subset_sentence(found),
        sections=(Section("Hard subset", tuple(sentences), {}, tuple(figures)),),
        provenance=_provenance(hashes={"scores, sha256": found.scores_sha256, "ids, sha256": found.ids_sha256}),
        columns={"id": found.ids},
    )


@view.register
def _(result: TransferReport) -> View:
    sentences = [
        f"{item.first} and {item.second} rank {numbers.counted(item.examples, 'example')} with Kendall's τ "
        f"{numbers.plain(item.tau)} and Pearson's ρ {numbers.plain(item.rho)}; {_below(item)}."
        for item in result.pairs[:6]
    ]
    taus, rhos = (numbers.aligned(getattr(item, name) for item in result.pairs) for name in ("tau", "rho"))
    rows = tuple(
        (item.first, item.second, item.examples, tau, rho, numbers.estimate(item.below) if item.below.n else None)
        for item, tau, rho in zip(result.pairs, taus, rhos, strict=True)
    )
    columns = ("first", "second", "examples", "Kendall τ", "Pearson ρ", "below the diagonal")
    figures = [charts.joint(item) for item in result.pairs[:6]]
    tables = [Table("Scores of two models on the same examples", columns, rows)]
    if result.targets is not None:
        title = f"Error of each model by band of {result.targets.scored_by}'s scores"
        figures.append(charts.error_by_band(result.targets.targets, title))
        errors = tuple(
            (
                name,
                numbers.estimate(item.error),
                numbers.plain(item.rho),
                numbers.plain(item.by_example),
                numbers.estimate(item.hardest_tenth),
            )
            for name, item in result.targets.targets.items()
        )
        names = ("model", "error", "ρ by band", "ρ by example", "errors in the hardest tenth")
        tables.append(Table(title, names, errors))
    warnings = tuple(
        f"{name} lacks some of {result.models[0]}'s examples, so its error by band is left out."
        for name in result.incomplete
    )
    section = Section("Transfer of confusion", tuple(sentences[1:]), {}, tuple(figures), tuple(tables), warnings)
    return View(
        title="Confusion of several models",
        headline=sentences[0],
        sections=(section,),
        provenance=_provenance(result.config.seed),
        columns={
            "first": [item.first for item in result.pairs],
            "second": [item.second for item in result.pairs],
            "examples": [item.examples for item in result.pairs],
            "tau": [item.tau.value for item in result.pairs],
            "rho": [item.rho.value for item in result.pairs],
            "below": [item.below.value for item in result.pairs],
        },
    )


def _below(item: Transfer) -> str:
    if not item.below.n:
        return "every example confuses both equally"
    return f"{numbers.estimate(item.below)} of the examples confuse {item.second} less"


@view.register
def _(result: AblationReport) -> View:
    found = result.ablation
    figures = [
        chart
        for seeds in sorted({item.seeds for item in found.variants})
        for chart in charts.variants(found, seeds)
    ]
    whole = found.variants[-1]
    used = f"{numbers.counted(whole.seeds, 'seed')} and {numbers.counted(len(whole.epochs), 'epoch')}"
    measures = (
        numbers.aligned(item.tau for item in found.variants),
        numbers.aligned(item.rho for item in found.variants),
        numbers.aligned(None if item.bands is None else item.bands.rho for item in found.variants),
    )
    rows = tuple(
        (item.seeds, len(item.epochs), round(item.mean, 4), round(item.deviation, 4), *cells)
        for item, *cells in zip(found.variants, *measures, strict=True)
    )
    columns = ("seeds", "epochs", "mean score", "deviation", "τ with all", "ρ with all", "ρ with error, by band")
    table = Table("Scores from fewer seeds and epochs", columns, rows)
    return View(
        title=f"Fewer seeds and epochs: {Path(result.source).name}",
        headline=f"{used} give a mean score of {whole.mean:.3f} bits; {_enough(found.variants)}.",
        sections=(Section("Seeds and epochs that are needed", (), {}, tuple(figures), (table,)),),
        provenance=_provenance(result.config.seed),
        columns={
            "seeds": [item.seeds for item in found.variants],
            "epochs": [len(item.epochs) for item in found.variants],
            "mean": [item.mean for item in found.variants],
            "deviation": [item.deviation for item in found.variants],
            "tau": [item.tau.value for item in found.variants],
            "rho": [item.rho.value for item in found.variants],
        },
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
    found, models = result.predictors, result.models
    ours = next((row for row in found.rows if row.name == "confusion score"), found.rows[0])
    free = next((row for row in found.rows if not row.uses_labels), found.rows[0])
    headline = (
        f"The confusion score predicts the errors of {found.target or 'the model'} with AUROC "
        f"{numbers.plain(ours.auroc)}; of the scores that need no labels, {free.name} is best with "
        f"{numbers.plain(free.auroc)}."
    )
    figures, tables, sentences = [charts.predictors(found)], [*_predictor_tables(found)], []
    if models is not None:
        figures.append(charts.confused(models))
        if len(models.models) > 2:
            sentences.append(
                f"Over {len(models.models)} models, Pearson's ρ between mean confusion and accuracy is "
                f"{numbers.plain(models.rho)}; the interval resamples examples, not models."
            )
        cells = tuple(
            (item.name, numbers.plain(item.mean_confusion), numbers.estimate(item.accuracy))
            for item in models.models
        )
        columns = ("model", "mean confusion, bits", "accuracy")
        tables.append(Table("Accuracy against mean confusion", columns, cells))
    measures = ("by_band", "by_example", "auroc", "aupr", "aurc")
    return View(
        title="Difficulty scores as predictors of errors",
        headline=headline,
        lede=("AUROC is the chance that an error has a higher score than a right answer; 0.5 is guessing.",),
        sections=(
            Section(
                "Prediction of errors",
                tuple(sentences),
                {},
                tuple(figures),
                (_short_table(found), *tables[2:]),
                folded=tuple(tables[:2]),
            ),
        ),
        provenance=_provenance(result.config.seed),
        columns={"score": [row.name for row in found.rows]}
        | {name: [getattr(row, name).value for row in found.rows] for name in measures},
        terminal=(Section("", tuple(sentences), {}, (), (_short_table(found), *tables[2:])),),
    )


def _predictor_tables(found: Predictors) -> tuple[Table, Table]:
    measures = [
        numbers.aligned(getattr(row, name) for row in found.rows)
        for name in ("by_band", "by_example", "auroc", "aupr", "aurc")
    ]
    measures.append(numbers.aligned((row.auroc_lead for row in found.rows), sign="+"))
    rows = tuple(
        (row.name, "yes" if row.uses_labels else "no", *cells)
        for row, *cells in zip(found.rows, *measures, strict=True)
    )
    columns = (
        "score",
        "needs labels",
        "ρ by band",
        "ρ by example",
        "AUROC",
        "AUPR",
        "AURC",
        "AUROC behind confusion",
    )
    title = (
        f"Difficulty scores as predictors of errors, {found.examples:,} examples, error "
        f"{numbers.estimate(found.error)}; oracle AURC {found.best_aurc:.4f}, chance {found.chance_aurc:.4f}"
    )
    meanings = tuple((row.name, row.meaning) for row in found.rows)
    return Table(title, columns, rows), Table("Definitions", ("score", "definition"), meanings)


def _short_table(found: Predictors) -> Table:
    """Values without intervals, except that of AUROC, to fit a terminal."""
    rows = tuple(
        (
            row.name,
            "yes" if row.uses_labels else "no",
            round(row.by_band.value, 3),
            round(row.by_example.value, 3),
            auroc,
            round(row.aupr.value, 3),
            round(row.aurc.value, 4),
        )
        for row, auroc in zip(found.rows, numbers.aligned(row.auroc for row in found.rows), strict=True)
    )
    columns = ("score", "labels", "ρ band", "ρ example", "AUROC", "AUPR", "AURC")
    title = "Difficulty scores as predictors of errors; the JSON and the page have an interval for every number"
    return Table(title, columns, rows)
