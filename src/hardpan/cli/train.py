"""``hardpan train``: classifiers, and the predictions of every example after every epoch."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hardpan.cli.common import JsonFlag, emit_report, progress_on_stderr
from hardpan.cli.data_options import DATA_FLAGS, DATA_HELP, DataFlags
from hardpan.cli.options import Flags, parallel_options
from hardpan.training.config import TrainConfig

app = typer.Typer(rich_markup_mode="rich", add_completion=False)

Data = Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP)]
NAMES = {"record_every": "--record", "model_options": "--option", "objective_options": "--objective-option"}


@app.command()
@parallel_options
def train(
    data: Data,
    out: Annotated[
        str,
        typer.Option(
            "--out",
            metavar="STORE",
            help="Store of predictions to create or resume: a folder or an fsspec address.",
        ),
    ],
    config: Annotated[TrainConfig, Flags(names=NAMES)],
    reading: DataFlags = DATA_FLAGS,
    weights: Annotated[
        str | None,
        typer.Option("--weights", metavar="DIR", help="Folder for the trained models (default: STORE-models)."),
    ] = None,
    groups: Annotated[
        Path | None,
        typer.Option(
            "--groups",
            metavar="FILE|COLUMN",
            help="Groups for --objective: a subset (its examples against the rest), an npz, or a column.",
        ),
    ] = None,
    scalars_only: Annotated[
        bool,
        typer.Option(
            "--scalars-only",
            help="Keep confusion scores and final weights only, no predictions; trains seeds in lockstep.",
        ),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Train classifiers and record their predictions for every example after every epoch.

    If interrupted, run the same command again to resume.

    Example: [bold]hardpan train digits --model mlp --seeds 3 --epochs 20 --out runs/digits[/bold]
    """
    # Imported here because torch takes longer to load than --help may take.
    from hardpan import training
    from hardpan.engine import distributed

    dataset: Any = reading.apply(data)
    group_numbers: Any = groups
    if groups is not None and not groups.exists():
        dataset = reading.open(data, group=str(groups))
        group_numbers = np.unique(dataset.metadata["group"], return_inverse=True)[1]
    # The main process of a run of several reports for all.
    with progress_on_stderr() if distributed.launched_as_main() else nullcontext() as progress:
        made = training.train(
            dataset,
            config,
            out=out,
            weights=weights,
            groups=group_numbers,
            scalars_only=scalars_only,
            progress=progress,
        )
    if distributed.launched_as_main():
        emit_report(made, json=as_json)
