"""``hardpan confusion``: which examples are hard?"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from hardpan import confusion
from hardpan.cli import confusion_inputs as inputs
from hardpan.cli import confusion_models as models
from hardpan.cli import confusion_views as views
from hardpan.cli.common import Confidence, JsonFlag, OutFolder, Seed, check_out, emit, floats, progress_on_stderr
from hardpan.cli.confusion_options import (
    Base,
    ByOrder,
    Correct,
    Data,
    Epochs,
    Manifest,
    Of,
    Part,
    Predictions,
    Seeds,
)
from hardpan.cli.confusion_pages import write_page
from hardpan.cli.groups import parallel_options
from hardpan.confusion import pictures, reports
from hardpan.confusion.reports import ConfusionConfig
from hardpan.confusion.shown import band_sentences, band_table, galleries, part_rows, subset_sentence
from hardpan.report.files import check_local
from hardpan.report.sections import Section

app = typer.Typer(
    help="Which examples are hard? Confusion scores, error by band, hard subsets, transfer, ablation.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.command()
@parallel_options
def score(
    predictions: Predictions,
    data: Data = None,
    epochs: Epochs = "all",
    seeds: Seeds = None,
    base: Base = 2.0,
    part: Part = "all",
    subset: Manifest = None,
    by_order: ByOrder = False,
    confidence: Confidence = 0.95,
    out: OutFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Score every example, with standard errors; with --out, a page, scores.csv and scores.json.

    Example: [bold]hardpan confusion score runs/resnet18 --data cifar10 --part test --out scored[/bold]
    """
    check_out(out)
    chosen = inputs.whole("--seeds", seeds)
    config = ConfusionConfig(
        epochs=inputs.epochs_of(epochs),
        seeds=chosen,
        base=base,
        part=part,
        confidence=confidence,
        data=data or "",
        subset=str(subset or ""),
    )
    dataset = inputs.load_data(data)
    with progress_on_stderr() as progress:
        scores, source = inputs.load_scores(predictions, config, progress, data=dataset, by_order=by_order)
        found = None if source is None else inputs.signalled(source, progress)
        progress("drawing", 0.9)
        scores, found = inputs.restricted(scores, found, subset)
        report = reports.score_report(scores, found, part=part, confidence=confidence)
        shown = confusion.section(scores, found, dataset if out else None, part=part, confidence=confidence)
        page = None
        if out is not None:
            confusion.save_scores(scores, out)
            title = f"Confusion scores of {Path(predictions).name}"
            page = write_page(out, shown, title, report, config, hashes={"scores, sha256": scores.sha256})
    emit(report, as_json, views.section(shown, page))


@app.command()
@parallel_options
def bands(
    predictions: Predictions,
    data: Data = None,
    edges: Annotated[str | None, typer.Option("--edges", help="Limits of the bands, such as 0,1,2,3.4.")] = None,
    of: Of = "seeds",
    correct: Correct = None,
    epochs: Epochs = "all",
    seeds: Seeds = None,
    subset: Manifest = None,
    by_order: ByOrder = False,
    confidence: Confidence = 0.95,
    out: OutFolder = None,
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Error by band of the score, for each part of the split, with intervals and Pearson's ρ.

    Example: [bold]hardpan confusion bands runs/resnet18 --edges 0,0.5,1,2,3.4 --out banded[/bold]
    """
    check_out(out)
    limits = floats("--edges", edges) if edges is not None else ()
    config = ConfusionConfig(
        epochs=inputs.epochs_of(epochs),
        seeds=inputs.whole("--seeds", seeds),
        of=of,
        edges=limits,
        confidence=confidence,
        seed=seed,
        data=data or "",
        subset=str(subset or ""),
    )
    dataset = inputs.load_data(data)
    with progress_on_stderr() as progress:
        scores, source = inputs.load_scores(
            predictions, config, progress, data=dataset, by_order=by_order, stderr=False
        )
        right = (
            inputs.load_correct(correct, scores, of)
            if source is None or correct is not None
            else inputs.signalled(source, progress).correct(of)
        )
        progress("drawing", 0.9)
        if subset is not None:
            kept = np.sort(confusion.load_subset(subset).rows(scores.ids))
            scores, right = scores.rows(kept), right[..., kept]
        names = ["all"] if scores.split is None else [str(name) for name in np.unique(scores.split)]
        parts = {
            name: confusion.bands(
                scores.rows(rows), right[..., rows], limits or None, confidence=confidence, seed=seed
            )
            for name in names
            for rows in [part_rows(scores, name)]
        }
        report = reports.BandsReport(predictions, parts, of)
        sentences = [
            f"{name}: {text}" if len(parts) > 1 else text for name in parts for text in band_sentences(parts[name])
        ]
        groups = {name: scores.values[part_rows(scores, name)] for name in parts}
        charts = (pictures.distribution(groups, scores.largest), pictures.error_by_band(parts))
        tables = tuple(band_table(item, name) for name, item in parts.items())
        shown = Section("Error by band", tuple(sentences), {}, charts, tables)
        page = (
            None
            if out is None
            else write_page(out, shown, f"Error by band: {Path(predictions).name}", report, config)
        )
    emit(report, as_json, views.section(shown, page, tables=len(tables)))


@app.command()
@parallel_options
def subset(
    predictions: Annotated[
        str, typer.Argument(metavar="PREDICTIONS", help="Predictions as for score, or scores.json that it wrote.")
    ],
    threshold: Annotated[
        float | None, typer.Option("--threshold", help="Scores of at least this many bits.")
    ] = None,
    quantile: Annotated[
        float | None, typer.Option("--quantile", help="From this quantile on: 0.9, the hardest tenth.")
    ] = None,
    count: Annotated[int | None, typer.Option("--count", help="So many, the most confusing first.")] = None,
    balanced: Annotated[bool, typer.Option("--balanced", help="From each class by itself.")] = False,
    easiest: Annotated[bool, typer.Option("--easiest", help="The least confusing instead.")] = False,
    part: Part = "all",
    within: Manifest = None,
    data: Data = None,
    epochs: Epochs = "all",
    seeds: Seeds = None,
    base: Base = 2.0,
    by_order: ByOrder = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="PATH", help="FILE.json for the manifest, or a folder: page and subset.json."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Cut a hard subset and write its manifest, which other commands take as --subset.

    Example: [bold]hardpan confusion subset runs/resnet18 --quantile 0.9 --balanced --out hard.json[/bold]
    """
    alone = out is not None and out.suffix.lower() == ".json" and not out.is_dir()
    folder = None if alone else out
    check_out(folder)
    if out is not None and alone:
        check_local(out, "--out")
    config = ConfusionConfig(
        epochs=inputs.epochs_of(epochs), seeds=inputs.whole("--seeds", seeds), base=base, part=part, data=data or ""
    )
    dataset = inputs.load_data(data)
    with progress_on_stderr() as progress:
        scores, _ = inputs.load_scores(predictions, config, progress, data=dataset, by_order=by_order, stderr=False)
        progress("drawing", 0.9)
        scores = inputs.restricted(scores, None, within)[0].part(part)
        cut = confusion.subset(
            scores, threshold=threshold, quantile=quantile, count=count, balanced=balanced, easiest=easiest
        )
        page, written = None, out
        if folder is not None:
            chosen = scores.rows(cut.rows(scores.ids))
            sentences = (subset_sentence(cut), f"Scores {cut.scores_sha256[:16]}, ids {cut.ids_sha256[:16]}.")
            start = cut.threshold * math.log2(cut.base)
            charts = (
                pictures.threshold(scores.in_bits().values, None, scores.in_bits().largest, start),
                *galleries(chosen.in_bits(), None, dataset)[:1],
            )
            shown = Section("Hard subset", sentences, {}, charts)
            page = write_page(folder, shown, f"A hard subset of {Path(predictions).name}", cut, config)
            written = folder / "subset.json"
        if written is not None:
            cut.save(written)
    emit(cut, as_json, views.subset(cut, written, page))


for command in (models.transfer, models.ablate, models.compare):
    app.command()(parallel_options(command))
