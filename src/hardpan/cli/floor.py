"""``hardpan floor``: how low can the error on real data go."""

from __future__ import annotations

from typing import Annotated

import typer

from hardpan.bayes import FloorConfig, floor
from hardpan.cli.common import progress_on_stderr
from hardpan.cli.decorators import DATA_FLAGS, DATA_HELP, Reading, reporting
from hardpan.cli.options import Flags
from hardpan.errors import InputError
from hardpan.report import Report

app = typer.Typer(rich_markup_mode="rich")


@app.command("floor")
@reporting
def floor_command(
    config: Annotated[FloorConfig, Flags(only=("by_order", "held_out", "label_noise", "budget", "seed"))],
    data: Annotated[
        str | None, typer.Argument(metavar="DATA", help=f"{DATA_HELP} Leave it out to use --votes alone.")
    ] = None,
    flow: Annotated[
        str, typer.Option("--flow", help="A flow: the folder of a fitted one, or a bundled name.")
    ] = "",
    predictions: Annotated[
        list[str] | None,
        typer.Option(
            "--predictions",
            metavar="PREDICTIONS",
            help="Predictions of your models: a store, npz, npy, table, or module:function; can be repeated.",
        ),
    ] = None,
    votes: Annotated[
        str,
        typer.Option(
            "--votes",
            metavar="FILE",
            help="Annotators' votes: a table of example, annotator and label, or with a column per annotator or "
            "class; or an npz or npy file with votes (examples × classes) or soft_labels, and ids.",
        ),
    ] = "",
    reading: Reading = DATA_FLAGS,
) -> Report:
    """Bound the lowest possible error by evidence; list other estimates with their assumption and status.

    Example: [bold]hardpan floor digits --out floor[/bold]
    """
    if data is None and not votes:
        raise InputError("give at least one of them; got neither", argument=("DATA", "--votes"))
    loaded = None
    if flow:
        from hardpan import flows

        loaded = flows.load(flow)
    with progress_on_stderr() as progress:
        return floor(
            None if data is None else reading.apply(data, progress),
            predictions=list(predictions) if predictions else None,
            flow=loaded,
            votes=votes or None,
            config=config,
            progress=progress,
        )
