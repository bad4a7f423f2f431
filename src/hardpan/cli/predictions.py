"""``hardpan predictions``: stores of predictions: import, check, merge, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hardpan.cli.common import check_local, progress_on_stderr
from hardpan.cli.decorators import printing
from hardpan.cli.options import Flags
from hardpan.predictions.exporting import export as export_file
from hardpan.predictions.importing import import_file
from hardpan.predictions.importing import merge as merge_stores
from hardpan.predictions.verification import check as check_store
from hardpan.report import Report

app = typer.Typer(help="Stores of predictions: import, check, merge, export.", no_args_is_help=True)

Source = Annotated[
    str, typer.Argument(metavar="PREDICTIONS", help="A store or a file; STORE@hard.json for a subset.")
]
_IMPORT_OPTIONS = ("labels", "ids", "outputs", "model", "seeds", "held_out")
NewStore = Annotated[
    str, typer.Option("--out", metavar="STORE", help="Store to create or to add to: a folder or an fsspec address.")
]


@app.command("import")
@printing
def import_(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Predictions: npy, npz, Parquet or CSV.")],
    out: NewStore,
    options: Annotated[dict[str, Any], Flags(of=import_file, only=_IMPORT_OPTIONS)],
) -> Report:
    """Import predictions from a file into a store.

    Arrays have four axes (seeds × epochs × examples × classes), three (epochs × examples × classes) or two
    (examples × classes). Tables have one row per model or seed, epoch and example. Rows that are not probabilities
    are refused, with their ids.

    Example: [bold]hardpan predictions import probs.npy --labels labels.npy --out run[/bold]
    """
    with progress_on_stderr() as progress:
        return import_file(path, out, **options, progress=progress)


@app.command()
@printing
def check(store: Source, options: Annotated[dict[str, Any], Flags(of=check_store)]) -> Report:
    """Show what a store contains, and compare every shard with its hash; exit code 2 if one was changed.

    Example: [bold]hardpan predictions check run[/bold]
    """
    with progress_on_stderr() as progress:
        return check_store(store, **options, progress=progress)


@app.command()
@printing
def merge(
    paths: Annotated[
        list[str], typer.Argument(metavar="PREDICTIONS...", help="Stores or files; STORE@hard.json for a subset.")
    ],
    out: NewStore,
    options: Annotated[dict[str, Any], Flags(of=merge_stores, only=("renumber", "common"))],
) -> Report:
    """Merge stores of different seeds and epochs, of different examples, or both; each id must appear once.

    Example: [bold]hardpan predictions merge seeds-0-2 seeds-3-5 --out all-seeds[/bold]
    """
    with progress_on_stderr() as progress:
        return merge_stores(paths, out, **options, progress=progress)


@app.command()
@printing
def export(
    predictions: Source,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="New file: .npz, .parquet or .csv.")],
    options: Annotated[dict[str, Any], Flags(of=export_file)],
) -> Report:
    """Write predictions to one file: all seeds, and the epochs that all of them have.

    Example: [bold]hardpan predictions export run predictions.parquet[/bold]
    """
    check_local(path, "FILE")
    with progress_on_stderr() as progress:
        return export_file(predictions, path, **options, progress=progress)
