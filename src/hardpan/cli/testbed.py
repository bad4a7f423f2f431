"""``hardpan testbed``: many models on two test sets."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from hardpan import files, testbed
from hardpan.cli import testbed_items
from hardpan.cli import testbed_views as views
from hardpan.cli.common import Confidence, JsonFlag, OutFolder, Seed, emit
from hardpan.errors import InputError

app = typer.Typer(
    help="Will the score hold? Many models on two test sets.", no_args_is_help=True, rich_markup_mode="rich"
)

Sources = Annotated[
    list[Path],
    typer.Argument(
        metavar="TABLE",
        help="One file with both test sets, or two: the original, then the new. Counts, accuracies or predictions; "
        "TABLE@hard.json takes only a subset's examples.",
    ),
]
Metric = Annotated[str | None, typer.Option("--metric", help="top1, top5, ... (default: top1, or the only one).")]
OriginalSet = Annotated[str | None, typer.Option("--original", help="Name of the original set in the file.")]
NewSet = Annotated[str | None, typer.Option("--new", help="Name of the new set in the file.")]
OriginalTotal = Annotated[int | None, typer.Option("--original-total", min=1, help="Size of the original set.")]
NewTotal = Annotated[int | None, typer.Option("--new-total", min=1, help="Size of the new set.")]
Unchecked = Annotated[
    bool, typer.Option("--unchecked-classes", help="Do not check that classes are numbered alike.")
]
Classes = Annotated[int | None, typer.Option("--classes", min=2, help="Number of classes, if labels miss some.")]
Scale = Annotated[str, typer.Option("--scale", help="Scale of the line: linear, probit or logit.")]
Exclude = Annotated[
    list[str] | None, typer.Option("--exclude", help="Models that stay out of the line, such as 'fv_*,alexnet'.")
]
Groups = Annotated[str | None, typer.Option("--groups", help="Only these groups enter the line, with commas.")]
Bootstrap = Annotated[int, typer.Option("--bootstrap", min=2, help="Resamples for the line's intervals.")]
Interval = Annotated[str, typer.Option("--interval", help="percentile (as the paper) or bca.")]
Resample = Annotated[
    str, typer.Option("--resample", help="What is redrawn: models (as the paper), examples, both.")
]


@app.command()
def compare(
    table: Sources,
    scale: Scale = "linear",
    exclude: Exclude = None,
    groups: Groups = None,
    metric: Metric = None,
    original: OriginalSet = None,
    new: NewSet = None,
    original_total: OriginalTotal = None,
    new_total: NewTotal = None,
    bootstrap: Bootstrap = 100_000,
    interval: Interval = "percentile",
    resample: Resample = "models",
    confidence: Confidence = 0.95,
    unchecked_classes: Unchecked = False,
    classes: Classes = None,
    out: OutFolder = None,
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Accuracies, gaps and ranks of every model, and the line from the original to the new set.

    Example: [bold]hardpan testbed compare counts.csv --exclude 'fv_*' --out compared[/bold]
    """
    if out is not None:
        from hardpan.report.files import check_writable

        check_writable(out)
    source = _read(table, metric, original, new, original_total, new_total, unchecked_classes, classes)
    config = testbed.CompareConfig(
        scale=scale,
        exclude=_patterns(exclude),
        groups=_listed(groups),
        metric=metric,
        bootstrap=bootstrap,
        interval=interval,  # type: ignore[arg-type]  # checked by the library, which says what is allowed
        resample=resample,
        confidence=confidence,
        seed=seed,
    )
    report = testbed.compare(source, config)
    page = None if out is None else _write_page(out, report, original or "original", new or "new", table)
    emit(report.compact(), as_json, views.comparison(report, page))


@app.command()
def fit(
    table: Sources,
    scale: Scale = "linear",
    exclude: Exclude = None,
    groups: Groups = None,
    metric: Metric = None,
    original: OriginalSet = None,
    new: NewSet = None,
    original_total: OriginalTotal = None,
    new_total: NewTotal = None,
    bootstrap: Bootstrap = 100_000,
    interval: Interval = "percentile",
    resample: Resample = "models",
    confidence: Confidence = 0.95,
    sigma: Annotated[
        float | None,
        typer.Option("--sigma", help="Spread of difficulty of the original set: adds that of the new."),
    ] = None,
    unchecked_classes: Unchecked = False,
    classes: Classes = None,
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Only the line, the models it uses, and how much it depends on each group of them.

    Example: [bold]hardpan testbed fit counts.csv --scale probit --sigma 1[/bold]
    """
    source = _read(table, metric, original, new, original_total, new_total, unchecked_classes, classes)
    report = testbed.compare(
        source,
        scale=scale,
        exclude=_patterns(exclude),
        groups=_listed(groups),
        metric=metric,
        bootstrap=bootstrap,
        interval=interval,
        resample=resample,
        confidence=confidence,
        seed=seed,
    )
    difficulty = None if sigma is None else testbed.difficulty(report.fit, sigma)
    result = testbed.FitReport(
        fit=report.fit.compact(),
        models=tuple(row.model for row in report.rows if row.in_fit),
        excluded=report.excluded,
        without_group=report.without_group,
        difficulty=difficulty,
        notes=report.notes,
    )
    emit(result, as_json, views.fitted(result))


@app.command()
def pairs(
    table: Sources,
    test_set: Annotated[str, typer.Option("--set", help="original or new.")] = "new",
    models: Annotated[str | None, typer.Option("--models", help="Only these models, with commas.")] = None,
    neighbours: Annotated[
        bool, typer.Option("--neighbours", help="Only models next to each other in rank.")
    ] = False,
    metric: Metric = None,
    original: OriginalSet = None,
    new: NewSet = None,
    confidence: Confidence = 0.95,
    unchecked_classes: Unchecked = False,
    classes: Classes = None,
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Is one model better than another? McNemar, paired bootstrap, Holm; needs predictions.

    Example: [bold]hardpan testbed pairs predictions.npz --neighbours[/bold]
    """
    source = _read(table, metric, original, new, None, None, unchecked_classes, classes)
    result = testbed.pairs(
        source,
        test_set=test_set,
        models=_listed(models),
        neighbours=neighbours,
        confidence=confidence,
        seed=seed,
    )
    emit(result, as_json, views.paired(result))


@app.command()
def strategies(
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=TABLE", help="A new test set by name; NAME=ORIGINAL,NEW for pairs; TABLE@hard.json."
        ),
    ],
    frequency: Annotated[
        list[str] | None, typer.Option("--frequency", help="NAME=0.73: average selection frequency; repeat it.")
    ] = None,
    original_total: OriginalTotal = None,
    new_total: NewTotal = None,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Average change of accuracy on several new test sets at once.

    Example: [bold]hardpan testbed strategies Matched=matched.csv Top=top.csv --frequency Top=0.93[/bold]
    """
    named = dict(_named(item, "NAME=TABLE") for item in tables)
    sources = {
        name: testbed.read(*where.split(","), original_total=original_total, new_total=new_total)
        for name, where in named.items()
    }
    frequencies = {}
    for item in frequency or ():
        name, value = _named(item, "NAME=0.73")
        try:
            frequencies[name] = float(value)
        except ValueError:
            raise InputError(f"--frequency must be NAME=0.73; got {item!r}") from None
    result = testbed.strategies(sources, frequencies=frequencies, confidence=confidence, seed=seed)
    emit(result, as_json, views.sampled(result))


@app.command()
def decompose(
    table: Sources,
    exclude: Exclude = None,
    groups: Groups = None,
    metric: Metric = None,
    original: OriginalSet = None,
    new: NewSet = None,
    original_total: OriginalTotal = None,
    new_total: NewTotal = None,
    bootstrap: Bootstrap = 100_000,
    confidence: Confidence = 0.95,
    unchecked_classes: Unchecked = False,
    classes: Classes = None,
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """What can explain the drop: chance, diminishing returns, and the rest.

    Example: [bold]hardpan testbed decompose counts.csv --confidence 0.9999[/bold]
    """
    source = _read(table, metric, original, new, original_total, new_total, unchecked_classes, classes)
    result = testbed.decompose(
        source,
        confidence=confidence,
        exclude=_patterns(exclude),
        groups=_listed(groups),
        metric=metric,
        bootstrap=bootstrap,
        seed=seed,
    )
    emit(result, as_json, views.decomposed(result))


@app.command()
def humans(
    responses: Annotated[
        list[Path],
        typer.Argument(metavar="RESPONSES", help="Files with participant, set, and response or correct."),
    ],
    predictions: Annotated[
        Path | None, typer.Option("--predictions", help="Count only the examples that its models find hardest.")
    ] = None,
    fraction: Annotated[float, typer.Option("--fraction", help="How much of each set is hardest.")] = 0.05,
    original: OriginalSet = None,
    new: NewSet = None,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Accuracies of people on the original and the new images, or on the hardest of them.

    Example: [bold]hardpan testbed humans responses.csv[/bold]
    """
    only = None
    if predictions is not None:
        only = testbed.hardest_of(testbed.read(predictions, original=original, new=new), fraction)
    result = testbed.human_table(responses, only=only, confidence=confidence, seed=seed)
    emit(result, as_json, views.people(result))


@app.command()
def hardest(
    table: Sources,
    fraction: Annotated[float, typer.Option("--fraction", help="How much of each set, ties included.")] = 0.05,
    metric: Metric = None,
    original: OriginalSet = None,
    new: NewSet = None,
    unchecked_classes: Unchecked = False,
    classes: Classes = None,
    as_json: JsonFlag = False,
) -> None:
    """The examples of each set that the fewest models get right, for people to try.

    Example: [bold]hardpan testbed hardest predictions.npz --json[/bold]
    """
    source = _read(table, metric, original, new, None, None, unchecked_classes, classes)
    result = testbed.hardest_of(source, fraction)
    emit(result, as_json, views.hard(result))


@app.command()
def crossval(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="model, dataset, correct, total.")],
    confidence: Confidence = 0.95,
    as_json: JsonFlag = False,
) -> None:
    """Accuracies on cross-validation splits beside the original and the new test set.

    Example: [bold]hardpan testbed crossval splits.csv[/bold]
    """
    result = testbed.cross_validation(table, confidence)
    emit(result, as_json, views.cross_validated(result))


testbed_items.register(app)


def _read(
    table: list[Path],
    metric: str | None,
    original: str | None,
    new: str | None,
    original_total: int | None,
    new_total: int | None,
    unchecked: bool,
    classes: int | None,
) -> testbed.Counts | testbed.Outcomes:
    return testbed.read(
        *table,
        metric=metric or "top1",
        original=original,
        new=new,
        original_total=original_total,
        new_total=new_total,
        check_classes=not unchecked,
        n_classes=classes,
    )


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(piece.strip() for piece in text.split(",") if piece.strip()) if text else ()


def _patterns(items: list[str] | None) -> tuple[str, ...]:
    return tuple(pattern for item in items or () for pattern in _listed(item))


def _named(item: str, form: str) -> tuple[str, str]:
    name, equals, value = item.partition("=")
    if not equals or not name or not value:
        raise InputError(f"expected {form}; got {item!r}")
    return name, value


def _write_page(out: Path, report: testbed.Comparison, original: str, new: str, sources: list[Path]) -> Path:
    # Imported here because drawing takes longer to load than most commands take to run.
    from hardpan import report as reports
    from hardpan.report.files import write_together

    part = testbed.section(report, original=original, new=new)
    html = reports.page(
        [dataclasses.replace(part, sentences=part.sentences[1:])],
        title=f"{len(report.rows)} models on two test sets",
        headline=part.sentences[0],
        provenance=testbed.provenance(report, sources, shlex.join(["hardpan", *sys.argv[1:]])),
    )
    write_together(
        out,
        {
            "index.html": html,
            "config.json": files.dumps(files.to_json(report.config)) + "\n",
            "report.json": files.dumps(files.to_json(report.compact())) + "\n",
        },
    )
    return out / "index.html"
