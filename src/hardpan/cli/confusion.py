"""``hardpan confusion``: which examples are hard?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hardpan.cli.common import JsonFlag, check_local, check_out, emit_report, progress_on_stderr
from hardpan.cli.decorators import DataFlags, parallel_options, reporting, spread
from hardpan.cli.options import Flags
from hardpan.confusion.reports import ConfusionConfig, score_report, subset_report, transfer_report
from hardpan.confusion.subsets import is_subset_file
from hardpan.confusion.subsets import subset as select_subset
from hardpan.report import Report

app = typer.Typer(
    help="Which examples are hard, and which labels do models contradict? Scores, hard subsets, transfer.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

Source = Annotated[
    str,
    typer.Argument(
        metavar="PREDICTIONS",
        help="A store, npz, npy, CSV, JSONL or Parquet file (seeds × epochs × examples × classes), or scores.json.",
    ),
]
Sources = Annotated[
    list[str],
    typer.Argument(metavar="PREDICTIONS", help="One store or file of predictions per model, as for score."),
]
Data = Annotated[DataFlags, Flags(only=("label",))]


@app.command()
@reporting
@parallel_options
def score(
    predictions: Source,
    config: Annotated[
        ConfusionConfig, Flags(only=("data", "only", "split", "epochs", "seeds", "subset", "by_order"))
    ],
    data: Annotated[DataFlags, Flags(only=("label", "encoder"))],
) -> Report:
    """Confusion score of every example, error by band, labels unlike the prediction; --only names other sections.

    --out also writes scores.csv and scores.json.

    Example: [bold]hardpan confusion score runs/resnet18 --data cifar10 --split test --out scored[/bold]
    """
    with progress_on_stderr() as progress:
        return score_report(predictions, data.optional(config.data), config=config, progress=progress)


@app.command()
@parallel_options
@spread
def subset(
    predictions: Source,
    rule: Annotated[dict[str, Any], Flags(of=select_subset, without=("labels",))],
    config: Annotated[ConfusionConfig, Flags(only=("data", "split", "by_order"))],
    data: Data,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="PATH", help="FILE.json for the subset alone, or a folder for the subset and a page."
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Select a hard subset and write it to a JSON file, which other commands take as --subset or DATA@FILE.

    Give one of --threshold, --fraction and --count.

    Example: [bold]hardpan confusion subset runs/resnet18 --fraction 0.1 --balanced --out hard.json[/bold]
    """
    if out is not None and is_subset_file(out):
        check_local(out, "--out")
    else:
        check_out(out)
    with progress_on_stderr() as progress:
        report = subset_report(predictions, data.optional(config.data), rule=rule, config=config, progress=progress)
    emit_report(report, json=json, out=out)


@app.command()
@reporting
@parallel_options
def transfer(
    predictions: Sources,
    config: Annotated[ConfusionConfig, Flags(only=("data", "names", "split", "subset", "by_order"))],
    data: Data,
) -> Report:
    """Are examples that are hard for the first model hard for the others? Rank correlations, errors by band.

    Example: [bold]hardpan confusion transfer runs/resnet18 runs/resnet50 runs/vgg16 --split test --out
    transfer[/bold]
    """
    with progress_on_stderr() as progress:
        return transfer_report(predictions, data.optional(config.data), config=config, progress=progress)
