"""Shorter tests, inflated scores, accuracies without labels."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from hardpan import formatting
from hardpan.estimates import Estimate
from hardpan.files import versions_of
from hardpan.leaderboard.prediction import AgreementLine, Inflation
from hardpan.leaderboard.short_tests import ShortTest
from hardpan.pages.leaderboard.common import (
    CHART_ROWS,
    ROWS,
    input_sections,
    points,
    signed_points,
)
from hardpan.report.base import View
from hardpan.report.generic import view
from hardpan.report.sections import Chart, Provenance, Section, Table
from hardpan.tables import csv_text

SHORT_METHODS = (
    "Random or stratified items: mean_all P̂ + mean_S(x − P̂) with a design-based standard error; P̂ is a "
    "logistic curve in the items' mean scores with the new model's own offset. It stays nearly unbiased where "
    "P̂ is wrong.",
    "Coverage is measured on models that were held out of the calibration (5 folds, 10 selections each for "
    "random and stratified items).",
)
INFLATION_METHODS = (
    "Per model: the probit line of the others with the slope corrected for noise in the reference scores; "
    "SE² = scatter + Var(y) + slope² Var(x) + line, Student's t with M − 3 degrees of freedom, one-sided, "
    "Holm over the models.",
)


@view.register
def _(result: ShortTest) -> View:
    section = short_section(result)
    tables = tuple(item for item in section.folded if isinstance(item, Table))
    section = dataclasses.replace(section, title="How many items are enough", tables=tables, folded=())
    return View(
        title="A shorter test",
        headline=short_headline(result),
        sections=(section, *input_sections(result.notes)),
        terminal=(section,),
        provenance=Provenance(method=SHORT_METHODS, seed=result.seed, versions=versions_of("numpy", "scipy")),
        columns={"item": result.items, "row": result.rows, "task": result.tasks, "doc_id": result.doc_ids},
        size=f"{len(result.items):,} of {formatting.counted(result.n_items, 'item')}",
        links={"items for lm-eval --samples": "samples.json", "short_items.csv": "short_items.csv"},
        downloads=short_files(result),
    )


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def short_files(result: ShortTest) -> dict[str, str]:
    """The list of items: for lm-eval, as CSV, as JSON."""
    columns: dict[str, Any] = {
        "item": result.items,
        "row": result.rows,
        "task": result.tasks,
        "doc_id": result.doc_ids,
    }
    names = [str(name) for name in result.items]
    from hardpan.files import dumps

    return {
        "samples.json": result.samples() + "\n",
        "short_items.csv": csv_text(columns),
        "short_items.json": dumps(names) + "\n",
    }


def short_headline(result: ShortTest) -> str:
    """What the shorter test is good for."""
    return (
        f"{len(result.items):,} of {result.n_items:,} items estimate a new model's full score to "
        f"±{points(result.half_width)} points ({100 * result.confidence:g} %)."
    )


def short_section(result: ShortTest) -> Section:
    """Error against the number of items, coverage on held-out models."""
    selection = {
        "random": "chosen at random",
        "stratified": "chosen at random within groups",
        "information": "chosen for their information",
    }[result.method]
    sentences = [
        f"Items {selection}. On held-out models the interval contained the full score in "
        f"{100 * result.coverage:.0f} % of {result.held_out:,} trials; mean error {points(result.mean_error)} "
        f"points, on the best fifth of the models {signed_points(result.bias_best)} points on average."
    ]
    warnings = []
    if result.method == "information":
        warnings.append(
            "Items chosen for information shrink unusual models towards those it was calibrated on; use random "
            "or stratified items where the best models matter."
        )
    chance = math.sqrt(result.confidence * (1 - result.confidence) / result.held_out)
    if result.coverage < result.confidence - max(3 * chance, 0.02):
        warnings.append("The interval covered less often than stated; use more items.")
    rows = tuple(
        {"series": "half width of the interval", "x": int(size), "y": round(float(value), 5)}
        for size, value in zip(result.sizes, result.size_half_width, strict=True)
    ) + tuple(
        {"series": "mean error on held-out models", "x": int(size), "y": round(float(value), 5)}
        for size, value in zip(result.sizes, result.size_error, strict=True)
    )
    chart = Chart(
        "lines",
        "Error of the full score against the number of items",
        rows,
        f"With {len(result.items):,} items the interval is ±{points(result.half_width)} points wide.",
        {"x_title": "items", "y_title": "error of the full score", "log_x": True, "percent": True},
    )
    table = Table(
        "Other numbers of items",
        ("items", "± points", "mean error, points", "coverage, %"),
        tuple(
            (int(n), round(100 * float(w), 1), round(100 * float(e), 1), round(100 * float(c), 1))
            for n, w, e, c in zip(
                result.sizes, result.size_half_width, result.size_error, result.size_coverage, strict=True
            )
        ),
    )
    return Section(
        short_headline(result).removesuffix("."),
        tuple(sentences),
        charts=(chart,),
        folded=(table,),
        warnings=tuple(warnings),
        key="short",
        short="Short test",
        methods=SHORT_METHODS,
    )


@view.register
def _(result: Inflation) -> View:
    section = _inflation_section(result)
    arrays = (
        *("score", "reference_score", "predicted", "excess", "low", "high"),
        *("p_value", "p_holm", "inflated", "outside"),
    )
    return View(
        title="Scores against a reference set",
        headline=_inflation_headline(result),
        sections=(section, *input_sections(result.notes)),
        terminal=(section,),
        provenance=Provenance(method=INFLATION_METHODS, versions=versions_of("numpy", "scipy")),
        columns={"model": result.models, **{name: getattr(result, name) for name in arrays}},
        size=f"{len(result.models):,} models, {result.items:,} and {result.reference_items:,} items",
    )


def _inflation_headline(result: Inflation) -> str:
    flagged = [name for name, bad in zip(result.models, result.inflated, strict=True) if bad]
    if flagged:
        which = formatting.listed(flagged[:5]) + (f" and {len(flagged) - 5} more" if len(flagged) > 5 else "")
        return (
            f"{which} score{'s' if len(flagged) == 1 else ''} higher than the reference set predicts, beyond "
            f"chance ({100 * result.confidence:g} % confidence for all {len(result.models)} models together)."
        )
    return (
        f"No model of {len(result.models)} scores higher than the reference set predicts, beyond chance "
        f"({100 * result.confidence:g} % confidence for all together)."
    )


def _inflation_section(result: Inflation) -> Section:
    sentences = [
        f"Line on the probit scale: slope {result.slope:.2f} (uncorrected for noise "
        f"{result.slope_uncorrected:.2f}), offset {_signed(result.offset)}; {100 * result.noise_share:.0f} % of "
        "the spread of the reference scores is noise.",
        "An excess can mean contamination, tuning on this test set, or skills that the reference set does not "
        "measure.",
    ]
    outside = int(result.outside.sum())
    if outside:
        verb = "lies" if outside == 1 else "lie"
        sentences.append(
            f"{formatting.counted(outside, 'model')} {verb} outside the range of the others on the reference set "
            "and cannot be judged."
        )
    rows = tuple(
        (
            name,
            round(100 * float(result.score[i]), 1),
            round(100 * float(result.reference_score[i]), 1),
            round(100 * float(result.predicted[i]), 1),
            formatting.signed(
                Estimate(float(result.excess[i]), 0.0, float(result.low[i]), float(result.high[i])), unit=""
            ),
            float(f"{result.p_holm[i]:.2g}"),
            "outside" if result.outside[i] else "inflated" if result.inflated[i] else "",
        )
        for i, name in enumerate(result.models[:ROWS])
    )
    head = ("model", "score, %", "reference, %", "predicted, %", "excess, points", "p (Holm)", "verdict")
    chart = Chart(
        "deviations",
        "Score minus what the reference set predicts",
        tuple(
            {
                "name": name,
                "value": float(result.excess[i]),
                "low": float(result.low[i]),
                "high": float(result.high[i]),
                "role": "left out" if result.inflated[i] else "in the fit",
            }
            for i, name in enumerate(result.models[:CHART_ROWS])
        ),
        _inflation_headline(result),
        {"x_title": "excess"},
    )
    return Section(
        "Score against the reference set", tuple(sentences), charts=(chart,), tables=(Table("Models", head, rows),)
    )


@view.register
def _(result: AgreementLine) -> View:
    drop = float((result.accuracy - result.estimate).mean())
    word = "lower" if drop >= 0 else "higher"
    headline = (
        f"Estimate under an assumption: on the unlabelled set the {len(result.models)} models are "
        f"{points(abs(drop))} points {word} on average, if they share errors equally on both sets."
    )
    section = _agreement_section(result, headline)
    return View(
        title="Accuracy on an unlabelled set",
        headline=headline,
        sections=(section,),
        provenance=Provenance(
            method=section.sentences[1:],
            citations=("Baek, Jiang, Raghunathan and Kolter, Agreement-on-the-line (2022).",),
            seed=result.seed,
            versions=versions_of("numpy", "scipy"),
        ),
        columns={
            "model": result.models,
            **{name: getattr(result, name) for name in ("accuracy", "estimate", "stderr", "low", "high")},
        },
        size=f"{result.examples_old:,} labelled and {result.examples_new:,} unlabelled examples",
    )


def _agreement_section(result: AgreementLine, headline: str) -> Section:
    sentences = [
        f"Line of pairwise agreements on the probit scale: slope {result.slope:.2f} ± "
        f"{result.slope_stderr:.2f}, offset {_signed(result.offset)}, r² {result.r2:.3f}.",
        "Intervals contain the sampling of both sets' examples and a transfer error of "
        f"{points(result.transfer_error)} points (one standard error) for the assumption, which cannot be "
        "tested without labels.",
    ]
    warnings = []
    if result.r2 < 0.9:
        warnings.append("The agreements do not lie on a line (r² below 0.9): the method does not apply here.")
    estimates = formatting.aligned(
        (
            Estimate(float(e), 0.0, float(low), float(high))
            for e, low, high in zip(result.estimate, result.low, result.high, strict=True)
        ),
        scale=100,
    )
    rows = tuple(
        (name, round(100 * float(result.accuracy[i]), 1), estimates[i])
        for i, name in enumerate(result.models[:ROWS])
    )
    head = ("model", "labelled set, %", f"unlabelled set, % ({100 * result.confidence:g} % interval)")
    chart = Chart(
        "ranking",
        f"Estimated accuracy with {100 * result.confidence:g} % intervals; at the right the labelled set",
        tuple(
            {
                "name": name,
                "value": float(result.estimate[i]),
                "low": float(result.low[i]),
                "high": float(result.high[i]),
                "note": f"{100 * result.accuracy[i]:.1f}",
            }
            for i, name in enumerate(result.models[:CHART_ROWS])
        ),
        headline,
        {"x_title": "accuracy on the unlabelled set", "note_title": "labelled set, %"},
    )
    return Section(
        "Estimated accuracies",
        tuple(sentences),
        charts=(chart,),
        tables=(Table("Models", head, rows),),
        warnings=tuple(warnings),
    )
