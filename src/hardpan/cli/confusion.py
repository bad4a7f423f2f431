"""``hardpan confusion``: which examples are hard?"""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from hardpan import confusion
from hardpan.cli import confusion_inputs as inputs
from hardpan.cli import confusion_views as views
from hardpan.cli.common import JsonFlag, OutFolder, Seed, emit, floats, progress_on_stderr
from hardpan.cli.confusion_inputs import Where
from hardpan.cli.confusion_pages import check_out, write_page
from hardpan.confusion import pictures, reports
from hardpan.confusion.reports import ConfusionConfig
from hardpan.confusion.shown import band_sentences, band_table, galleries, part_rows, subset_sentence
from hardpan.confusion.transfers import common_rows
from hardpan.errors import InputError
from hardpan.records import Section

app = typer.Typer(
    help="Which examples are hard? Confusion scores, error by band, hard subsets, transfer, ablation.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

Predictions = Annotated[
    str,
    typer.Argument(
        metavar="PREDICTIONS", help="A store, an npz or npy file (seeds × epochs × examples × classes)."
    ),
]
Many = Annotated[
    list[str], typer.Argument(metavar="PREDICTIONS", help="Predictions of a model each, as for score.")
]
Data = Annotated[
    str | None, typer.Option("--data", metavar="DATA", help="Dataset that they are of: labels, thumbnails.")
]
ByRow = Annotated[
    bool, typer.Option("--by-row", help="Row i of the predictions is example i of DATA, whatever the ids.")
]
Epochs = Annotated[str, typer.Option("--epochs", help="all, a number k for every k-th, or a list such as 0,5,10.")]
Seeds = Annotated[str | None, typer.Option("--seeds", help="Seeds to use, such as 0,1,2 (default: all).")]
Base = Annotated[float, typer.Option("--base", help="Base of the logarithm; 2 gives bits.")]
Part = Annotated[
    str, typer.Option("--part", help="Part of the split that errors are of: all, train, validation, test.")
]
Of = Annotated[str, typer.Option("--of", help="Whose errors at the last epoch: seeds (their mean) or ensemble.")]
Manifest = Annotated[
    Path | None,
    typer.Option("--subset", metavar="FILE", help="Only the examples of a manifest (confusion subset)."),
]
Names = Annotated[
    str | None, typer.Option("--names", help="Names of the models, with commas (default: from the paths).")
]
Confidence = Annotated[float, typer.Option("--confidence", help="Level of the intervals.")]
Backend = Annotated[str, typer.Option("--backend", help="Where blocks run: threads, processes, dask or ray.")]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Blocks at a time (default: as many as cores).")
]
Address = Annotated[str, typer.Option("--address", help="Address of a Dask or Ray cluster.")]


@app.command()
def score(
    predictions: Predictions,
    data: Data = None,
    epochs: Epochs = "all",
    seeds: Seeds = None,
    base: Base = 2.0,
    part: Part = "all",
    subset: Manifest = None,
    by_row: ByRow = False,
    confidence: Confidence = 0.95,
    backend: Backend = "threads",
    workers: Workers = None,
    address: Address = "",
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
    dataset, where = inputs.load_data(data), Where(backend, workers, address)
    with progress_on_stderr() as progress:
        scores, source = inputs.load_scores(predictions, config, where, progress, data=dataset, by_row=by_row)
        found = None if source is None else inputs.signalled(source, where, progress)
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
def bands(
    predictions: Predictions,
    data: Data = None,
    edges: Annotated[str | None, typer.Option("--edges", help="Limits of the bands, such as 0,1,2,3.4.")] = None,
    of: Of = "seeds",
    epochs: Epochs = "all",
    seeds: Seeds = None,
    subset: Manifest = None,
    by_row: ByRow = False,
    confidence: Confidence = 0.95,
    backend: Backend = "threads",
    workers: Workers = None,
    address: Address = "",
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
    dataset, where = inputs.load_data(data), Where(backend, workers, address)
    source = inputs.load_source(predictions, config, dataset, by_row)
    with progress_on_stderr() as progress:
        scores = inputs.scored(source, config, where, progress, stderr=False)
        found = inputs.signalled(source, where, progress)
    scores, signals = inputs.restricted(scores, found, subset)
    right = (signals or found).correct(of)
    names = ["all"] if scores.split is None else [str(name) for name in np.unique(scores.split)]
    parts = {
        name: confusion.bands(scores.rows(rows), right[..., rows], limits or None, confidence=confidence, seed=seed)
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
        None if out is None else write_page(out, shown, f"Error by band: {Path(predictions).name}", report, config)
    )
    emit(report, as_json, views.section(shown, page, tables=len(tables)))


@app.command()
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
    to: Annotated[Path | None, typer.Option("--to", metavar="FILE", help="Where to write the manifest.")] = None,
    data: Data = None,
    epochs: Epochs = "all",
    seeds: Seeds = None,
    base: Base = 2.0,
    by_row: ByRow = False,
    backend: Backend = "threads",
    workers: Workers = None,
    address: Address = "",
    out: OutFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Cut a hard subset and write its manifest, which other commands take as --subset.

    Example: [bold]hardpan confusion subset runs/resnet18 --quantile 0.9 --balanced --to hard.json[/bold]
    """
    check_out(out)
    config = ConfusionConfig(
        epochs=inputs.epochs_of(epochs), seeds=inputs.whole("--seeds", seeds), base=base, part=part, data=data or ""
    )
    dataset, where = inputs.load_data(data), Where(backend, workers, address)
    with progress_on_stderr() as progress:
        scores, _ = inputs.load_scores(
            predictions, config, where, progress, data=dataset, by_row=by_row, stderr=False
        )
    scores = scores.part(part)
    cut = confusion.subset(
        scores, threshold=threshold, quantile=quantile, count=count, balanced=balanced, easiest=easiest
    )
    page, written = None, to
    if out is not None:
        chosen = scores.rows(cut.rows(scores.ids))
        sentences = (subset_sentence(cut), f"Scores {cut.scores_sha256[:16]}, ids {cut.ids_sha256[:16]}.")
        start = cut.threshold * math.log2(cut.base)
        charts = (
            pictures.threshold(scores.in_bits().values, None, scores.in_bits().largest, start),
            *galleries(chosen.in_bits(), None, dataset)[:1],
        )
        shown = Section("Hard subset", sentences, {}, charts)
        page = write_page(out, shown, f"A hard subset of {Path(predictions).name}", cut, config)
        written = to or out / "subset.json"
    if written is not None:
        cut.save(written)
    emit(cut, as_json, views.subset(cut, written, page))


@app.command()
def transfer(
    predictions: Many,
    names: Names = None,
    data: Data = None,
    part: Part = "all",
    of: Of = "seeds",
    epochs: Epochs = "all",
    subset: Manifest = None,
    confidence: Confidence = 0.95,
    backend: Backend = "threads",
    workers: Workers = None,
    address: Address = "",
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
        epochs=inputs.epochs_of(epochs), part=part, of=of, confidence=confidence, seed=seed, data=data or ""
    )
    dataset, where = inputs.load_data(data), Where(backend, workers, address)
    scores, answers = {}, {}
    with progress_on_stderr() as progress:
        for name, path in zip(called, predictions, strict=True):
            known, source = inputs.load_scores(path, config, where, progress, data=dataset, stderr=False)
            found = None if source is None else inputs.signalled(source, where, progress)
            known, found = inputs.restricted(known, found, subset)
            rows = part_rows(known, part)
            scores[name] = known.rows(rows)
            if found is not None and found.correct_seeds is not None:
                answers[name] = found.correct(of)[..., rows]
    pairs = tuple(
        confusion.transfer(scores[a], scores[b], names=(a, b), confidence=confidence, seed=seed)
        for a, b in itertools.combinations(called, 2)
    )
    first = scores[called[0]]
    targets, warnings = None, []
    if answers:
        # Bands are of the first model's scores; a target may have been recorded in another order of the examples.
        joined = {name: common_rows(first, scores[name], (called[0], name))[1] for name in answers}
        right = {name: answers[name][..., rows] for name, rows in joined.items() if len(rows) == len(first)}
        missing = [name for name in answers if name not in right]
        warnings = [
            f"{name} lacks some of {called[0]}'s examples, so its error by band is left out." for name in missing
        ]
        targets = (
            confusion.target_errors(first, right, scored_by=called[0], confidence=confidence) if right else None
        )
    report = reports.TransferReport(called, pairs, targets)
    shown = confusion.transfer_section(pairs, targets, warnings)
    page = None if out is None else write_page(out, shown, "Confusion of several models", report, config)
    emit(report, as_json, views.section(shown, page, tables=2))


@app.command()
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
    by_row: ByRow = False,
    backend: Backend = "threads",
    workers: Workers = None,
    address: Address = "",
    out: OutFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """How many seeds and epochs are enough? The same scores from fewer of each.

    Example: [bold]hardpan confusion ablate runs/resnet18 --target runs/resnet50 --part test --out ablated[/bold]
    """
    check_out(out)
    config = ConfusionConfig(part=part, of=of, data=data or "")
    dataset, where = inputs.load_data(data), Where(backend, workers, address)
    source = inputs.load_source(predictions, config, dataset, by_row)
    aimed = source if target is None else inputs.load_source(target, config, dataset, by_row)
    counts = inputs.whole("--seed-counts", numbers) or None
    with progress_on_stderr() as progress:
        right = None
        if aimed.labels is not None:
            answered = inputs.signalled(aimed, where, progress)
            _, a, b = np.intersect1d(source.ids, aimed.ids, assume_unique=True, return_indices=True)
            if len(a) != len(source):
                raise InputError(f"--target: lacks {len(source) - len(a):,} of the {len(source):,} examples")
            right = answered.correct(of)[..., b[np.argsort(a)]]
        rows = np.arange(len(source))
        if part != "all":
            if source.split is None or part not in source.split:
                raise InputError(f"--part {part}: the predictions have no such part of a split")
            rows = np.flatnonzero(source.split == part)
        found = confusion.ablate(
            source,
            fractions=floats("--fractions", fractions),
            seeds=counts,
            rows=rows,
            correct=None if right is None else right[..., rows],
            target=Path(target or predictions).name,
            backend=backend,
            workers=workers,
            address=address,
            progress=lambda step, share: progress(f"ablating, {step}", share),
        )
    report = reports.AblationReport(predictions, found)
    shown = confusion.ablation_section(found)
    page = (
        None
        if out is None
        else write_page(out, shown, f"Fewer seeds and epochs: {Path(predictions).name}", report, config)
    )
    emit(report, as_json, views.section(shown, page))


@app.command()
def compare(
    predictions: Many,
    names: Names = None,
    data: Data = None,
    part: Part = "all",
    of: Of = "ensemble",
    epochs: Epochs = "all",
    by_row: ByRow = False,
    confidence: Confidence = 0.95,
    backend: Backend = "threads",
    workers: Workers = None,
    address: Address = "",
    out: OutFolder = None,
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """The confusion score beside other difficulty scores as predictors of errors; with several models, each one's
    mean confusion against its accuracy.

    Example: [bold]hardpan confusion compare runs/resnet18 --part test --out compared[/bold]
    """
    check_out(out)
    called = inputs.model_names(predictions, names)
    config = ConfusionConfig(
        epochs=inputs.epochs_of(epochs), part=part, of=of, confidence=confidence, seed=seed, data=data or ""
    )
    dataset, where = inputs.load_data(data), Where(backend, workers, address)
    told = {}
    with progress_on_stderr() as progress:
        for name, path in zip(called, predictions, strict=True):
            source = inputs.load_source(path, config, dataset, by_row)
            found = inputs.signalled(source, where, progress)
            if part != "all":
                if source.split is None or part not in source.split:
                    raise InputError(f"--part {part}: {path} has no such part of a split")
                found = found.rows(np.flatnonzero(source.split == part))
            told[name] = found
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
    report = reports.ComparisonReport(predictions[0], table, models)
    shown = confusion.predictor_section(table, models)
    page = (
        None if out is None else write_page(out, shown, "Difficulty scores as predictors of errors", report, config)
    )
    emit(report, as_json, views.predictors(shown, report, page))
