"""``hardpan train``: classifiers, and the predictions of every example after every epoch."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from hardpan.cli.common import JsonFlag, emit_report, progress_on_stderr
from hardpan.cli.decorators import DATA_FLAGS, DATA_HELP, DataFlags, parallel_options
from hardpan.cli.options import Flags
from hardpan.training.config import TrainConfig

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command()
@parallel_options
def train(
    data: Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP)],
    out: Annotated[
        str,
        typer.Option(
            "--out",
            metavar="STORE",
            help="Store of predictions to create or resume: a folder or an fsspec address.",
        ),
    ],
    config: Annotated[TrainConfig, Flags(only=("model", "seeds", "epochs", "objective", "device"))],
    reading: Annotated[DataFlags, Flags(only=("label", "group", "encoder"))] = DATA_FLAGS,
    weights: Annotated[
        str | None,
        typer.Option("--weights", metavar="DIR", help="Folder for the trained models (default: STORE-models)."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Train classifiers and record their predictions for every example after every epoch.

    --objective takes the groups of --group: a column, or a subset (its examples against the rest).
    If interrupted, run the same command again to resume.

    Example: [bold]hardpan train digits --model mlp --seeds 3 --epochs 20 --out runs/digits[/bold]
    """
    # Imported here because torch takes longer to load than --help may take.
    from hardpan import training
    from hardpan.engine import distributed

    group = None
    if reading.group is not None and Path(reading.group).exists():
        group, reading = reading.group, dataclasses.replace(reading, group=None)
    # The main process of a run of several reports for all.
    with progress_on_stderr() if distributed.launched_as_main() else nullcontext() as progress:
        result = training.train(
            reading.apply(data, progress),
            config,
            out=out,
            weights=weights,
            group=group,
            progress=progress,
        )
    if distributed.launched_as_main():
        emit_report(result, json=as_json)
