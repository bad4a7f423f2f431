"""Transfer, ablation and comparison as parts of a report."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hardpan import numbers
from hardpan.confusion import pictures
from hardpan.confusion.ablation import Ablation, Variant
from hardpan.confusion.foretelling import Predictors
from hardpan.confusion.models import ConfusedModels
from hardpan.confusion.transfers import TargetErrors, Transfer
from hardpan.report.sections import Section, Table


def transfer_section(
    found: Sequence[Transfer], targets: TargetErrors | None = None, warnings: Sequence[str] = ()
) -> Section:
    """Does what confuses one model confuse others? Pairs of models; errors of all by band of the first's scores."""
    sentences = [
        f"{item.first} and {item.second} rank {numbers.counted(item.examples, 'example')} with Kendall's τ "
        f"{numbers.plain(item.tau)}, Pearson's ρ {numbers.plain(item.rho)}; {_below(item)}."
        for item in found[:6]
    ]
    taus, rhos = numbers.aligned(item.tau for item in found), numbers.aligned(item.rho for item in found)
    rows = tuple(
        (item.first, item.second, item.examples, tau, rho, numbers.estimate(item.below) if item.below.n else None)
        for item, tau, rho in zip(found, taus, rhos, strict=True)
    )
    columns = ("first", "second", "examples", "Kendall τ", "Pearson ρ", "below the diagonal")
    charts = [pictures.joint(item) for item in found[:6]]
    tables = [Table("Scores of two models on the same examples", columns, rows)]
    if targets is not None:
        title = f"Error of each model by band of {targets.scored_by}'s scores"
        charts.append(pictures.error_by_band(targets.targets, title))
        errors = tuple(
            (
                name,
                numbers.estimate(item.error),
                numbers.plain(item.rho),
                numbers.plain(item.by_example),
                numbers.estimate(item.hardest_tenth),
            )
            for name, item in targets.targets.items()
        )
        names = ("model", "error", "ρ by band", "ρ by example", "errors in the hardest tenth")
        tables.append(Table(title, names, errors))
    return Section(
        "Does confusion carry over?", tuple(sentences), {}, tuple(charts), tuple(tables), tuple(warnings)
    )


def _below(item: Transfer) -> str:
    if not item.below.n:
        return "every example confuses both alike"
    return f"{numbers.estimate(item.below)} of the examples confuse {item.second} less"


def ablation_section(found: Ablation) -> Section:
    """How many seeds and epochs are enough."""
    charts = [
        chart
        for seeds in sorted({item.seeds for item in found.variants})
        for chart in pictures.variants(found, seeds)
    ]
    whole = found.variants[-1]
    given = f"{numbers.counted(whole.seeds, 'seed')} and {numbers.counted(len(whole.epochs), 'epoch')}"
    sentences = (f"{given} give a mean score of {whole.mean:.3f} bits; {_enough(found.variants)}.",)
    measures = (
        numbers.aligned(item.tau for item in found.variants),
        numbers.aligned(item.rho for item in found.variants),
        numbers.aligned(None if item.bands is None else item.bands.rho for item in found.variants),
    )
    rows = tuple(
        (
            item.seeds,
            len(item.epochs),
            round(item.mean, 4),
            round(item.deviation, 4),
            *cells,
        )
        for item, *cells in zip(found.variants, *measures, strict=True)
    )
    columns = ("seeds", "epochs", "mean score", "deviation", "τ with all", "ρ with all", "ρ with error, by band")
    table = Table("Scores from fewer seeds and epochs", columns, rows)
    return Section("How many seeds and epochs?", sentences, {}, tuple(charts), (table,))


def _enough(variants: Sequence[Variant]) -> str:
    """The fewest seeds and epochs that rank as all do; the last variant has all."""
    whole = variants[-1]
    if not math.isfinite(whole.tau.value):
        return "all examples score the same, so that there is no ranking to keep"
    close = [item for item in variants if item.tau.value >= 0.95]
    least = min(close, key=lambda item: item.seeds * len(item.epochs), default=whole)
    fewer = least.seeds * len(least.epochs) < whole.seeds * len(whole.epochs)
    enough = f"{least.seeds} × {len(least.epochs)} are enough" if fewer else "no fewer are enough"
    return f"{enough} to rank the examples with Kendall's τ of 0.95 with all"


def predictor_section(found: Predictors, models: ConfusedModels | None = None) -> Section:
    """The confusion score beside other difficulty scores, and, with several models, confusion against accuracy."""
    ours = (
        found.row("confusion score") if any(row.name == "confusion score" for row in found.rows) else found.rows[0]
    )
    best = found.rows[0]
    free = next((row for row in found.rows if not row.uses_labels), best)
    sentences = [
        f"The confusion score foretells errors of {found.target or 'the model'} with AUROC "
        f"{numbers.plain(ours.auroc)}; of the scores that need no labels, {free.name} does best with "
        f"{numbers.plain(free.auroc)}.",
    ]
    measures = [
        numbers.aligned(getattr(row, name) for row in found.rows)
        for name in ("by_band", "by_example", "auroc", "aupr", "aurc")
    ]
    measures.append(numbers.aligned((row.auroc_lead for row in found.rows), sign="+"))
    rows = tuple(
        (
            row.name,
            "yes" if row.uses_labels else "no",
            *cells,
        )
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
        "AUROC behind ours",
    )
    title = (
        f"Difficulty scores as predictors of errors, {found.examples:,} examples, error "
        f"{numbers.estimate(found.error)}; AURC: {found.best_aurc:.4f} is the best there can be, "
        f"{found.chance_aurc:.4f} chance"
    )
    charts, tables = [pictures.predictors(found)], [Table(title, columns, rows), _meanings(found)]
    if models is not None:
        charts.append(pictures.confused(models))
    if models is not None and len(models.models) > 2:
        sentences.append(
            f"Over {len(models.models)} models, Pearson's ρ between mean confusion and accuracy is "
            f"{numbers.plain(models.rho)}; the interval redraws examples, not models."
        )
    if models is not None:
        cells = tuple(
            (item.name, numbers.plain(item.mean_confusion), numbers.estimate(item.accuracy))
            for item in models.models
        )
        tables.append(Table("Mean confusion and accuracy", ("model", "mean confusion, bits", "accuracy"), cells))
    return Section("Does it foretell errors?", tuple(sentences), {}, tuple(charts), tuple(tables))


def _meanings(found: Predictors) -> Table:
    """What each score is: beside seven columns of numbers its words would have no room."""
    return Table("What each score is", ("score", "what"), tuple((row.name, row.meaning) for row in found.rows))
