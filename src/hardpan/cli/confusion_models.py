"""``hardpan confusion``: commands about several models, or several ways to score one."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from hardpan import confusion
from hardpan.cli import confusion_inputs as inputs
from hardpan.cli import confusion_views as views
from hardpan.cli.common import Confidence, JsonFlag, OutFolder, Seed, check_out, emit, floats, progress_on_stderr
from hardpan.cli.confusion_options import (
    ByOrder,
    Data,
    Epochs,
    Manifest,
    Many,
    Names,
    Of,
    Part,
    Predictions,
)
from hardpan.cli.confusion_pages import write_page
from hardpan.confusion import reports
from hardpan.confusion.reports import ConfusionConfig
from hardpan.confusion.shown import part_rows
from hardpan.confusion.transfers import common_rows
from hardpan.errors import InputError


def transfer(
    predictions: Many,
    names: Names = None,
    data: Data = None,
    part: Part = "all",
    of: Of = "seeds",
    epochs: Epochs = "all",
    subset: Manifest = None,
    confidence: Confidence = 0.95,
    out: OutFolder = None,
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Does what confuses the first model confuse the others? Rank correlations, and errors by band.

    Example: [bold]hardpan confusion transfer runs/resnet18 runs/resnet50 runs/vit --part test --out carried[/bold]
    """
    check_out(out)
    if len(predictions) < 2:
        raise InputError(f"transfer needs predictions of at least two models; got {len(predictions)}")
    called = inputs.model_names(predictions, names)
    config = ConfusionConfig(
        epochs=inputs.epochs_of(epochs),
        part=part,
        of=of,
        confidence=confidence,
        seed=seed,
        data=data or "",
        subset=str(subset or ""),
    )
    dataset = inputs.load_data(data)
    scores, answers = {}, {}
    with progress_on_stderr() as progress:
        for name, path in zip(called, predictions, strict=True):
            known, source = inputs.load_scores(path, config, progress, data=dataset, stderr=False)
            found = None if source is None else inputs.signalled(source, progress)
            known, found = inputs.restricted(known, found, subset)
            rows = part_rows(known, part)
            scores[name] = known.rows(rows)
            if found is not None and found.correct_seeds is not None:
                answers[name] = found.correct(of)[..., rows]
        progress("comparing the rankings and drawing", 0.9)
        pairs = tuple(
            confusion.transfer(scores[a], scores[b], names=(a, b), confidence=confidence, seed=seed)
            for a, b in itertools.combinations(called, 2)
        )
        first = scores[called[0]]
        targets, warnings = None, []
        if answers:
            # Bands are of the first model's scores; a target may have been recorded in another order.
            joined = {name: common_rows(first, scores[name], (called[0], name))[1] for name in answers}
            right = {name: answers[name][..., rows] for name, rows in joined.items() if len(rows) == len(first)}
            missing = [name for name in answers if name not in right]
            warnings = [
                f"{name} lacks some of {called[0]}'s examples, so its error by band is left out."
                for name in missing
            ]
            targets = (
                confusion.target_errors(first, right, scored_by=called[0], confidence=confidence) if right else None
            )
        report = reports.TransferReport(called, pairs, targets)
        shown = confusion.transfer_section(pairs, targets, warnings)
        page = None if out is None else write_page(out, shown, "Confusion of several models", report, config)
    emit(report, as_json, views.section(shown, page, tables=2))


def ablate(
    predictions: Predictions,
    target: Annotated[
        str | None,
        typer.Option("--target", help="Predictions of a model whose error by band is shown (default: these)."),
    ] = None,
    fractions: Annotated[str, typer.Option("--fractions", help="Shares of the epochs.")] = "0.05,0.1,0.2,0.33,1",
    numbers: Annotated[
        str | None, typer.Option("--seed-counts", help="Numbers of seeds (default: 1 and all).")
    ] = None,
    data: Data = None,
    part: Part = "all",
    of: Of = "seeds",
    subset: Manifest = None,
    by_order: ByOrder = False,
    out: OutFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """How many seeds and epochs are enough? The same scores from fewer of each.

    Example: [bold]hardpan confusion ablate runs/resnet18 --target runs/resnet50 --part test --out ablated[/bold]
    """
    check_out(out)
    config = ConfusionConfig(part=part, of=of, data=data or "", subset=str(subset or ""))
    dataset = inputs.load_data(data)
    source = inputs.load_source(predictions, config, dataset, by_order)
    aimed = source if target is None else inputs.load_source(target, config, dataset, by_order)
    if target is not None and aimed.labels is None:
        raise InputError(f"--target {target}: has no labels, so that its errors are not known; give --data too")
    counts = inputs.whole("--seed-counts", numbers) or None
    with progress_on_stderr() as progress:
        right = None
        if aimed.labels is not None:
            answered = inputs.signalled(aimed, progress)
            _, a, b = np.intersect1d(source.ids, aimed.ids, assume_unique=True, return_indices=True)
            if len(a) != len(source):
                raise InputError(f"--target: lacks {len(source) - len(a):,} of the {len(source):,} examples")
            right = answered.correct(of)[..., b[np.argsort(a)]]
        rows = inputs.wanted_rows(source, predictions, part, subset)
        found = confusion.ablate(
            source,
            fractions=floats("--fractions", fractions),
            seeds=counts,
            rows=rows,
            correct=None if right is None else right[..., rows],
            target=Path(target or predictions).name,
            progress=lambda step, share: progress(f"ablating, {step}", share),
        )
        progress("drawing", 0.9)
        report = reports.AblationReport(predictions, found)
        shown = confusion.ablation_section(found)
        page = (
            None
            if out is None
            else write_page(out, shown, f"Fewer seeds and epochs: {Path(predictions).name}", report, config)
        )
    emit(report, as_json, views.section(shown, page))


def compare(
    predictions: Many,
    names: Names = None,
    data: Data = None,
    part: Part = "all",
    of: Of = "ensemble",
    epochs: Epochs = "all",
    subset: Manifest = None,
    by_order: ByOrder = False,
    confidence: Confidence = 0.95,
    out: OutFolder = None,
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """The confusion score beside other difficulty scores as predictors of errors.

    With several models, the mean confusion of each against its accuracy, too.

    Example: [bold]hardpan confusion compare runs/resnet18 --part test --out compared[/bold]
    """
    check_out(out)
    called = inputs.model_names(predictions, names)
    if of not in ("ensemble", "seeds"):
        raise InputError(f"--of must be ensemble or seeds; got {of!r}")
    config = ConfusionConfig(
        epochs=inputs.epochs_of(epochs),
        part=part,
        of=of,
        confidence=confidence,
        seed=seed,
        data=data or "",
        subset=str(subset or ""),
    )
    dataset = inputs.load_data(data)
    told = {}
    with progress_on_stderr() as progress:
        for name, path in zip(called, predictions, strict=True):
            source = inputs.load_source(path, config, dataset, by_order)
            found = inputs.signalled(source, progress)
            told[name] = found.rows(inputs.wanted_rows(source, path, part, subset))
        progress("resampling", 0.9)
        first = told[called[0]]
        right = first.correct("ensemble") if of == "ensemble" else first.correct("seeds")[0]
        who = f"{called[0]}'s {'ensemble' if of == 'ensemble' else 'first seed'}"
        table = confusion.predictors(first, right, target=who, confidence=confidence, seed=seed)
        models = None
        if len(told) > 1:
            scores = {name: item.difficulties["confusion score"] for name, item in told.items()}
            answers = {name: item.correct("seeds") for name, item in told.items()}
            models = confusion.confused_models(scores, answers, confidence=confidence, seed=seed)
        progress("drawing", 0.9)
        report = reports.ComparisonReport(predictions[0], table, models)
        shown = confusion.predictor_section(table, models)
        page = (
            None
            if out is None
            else write_page(out, shown, "Difficulty scores as predictors of errors", report, config)
        )
    emit(report, as_json, views.predictors(shown, report, page))
