"""``hardpan predictions``: stores of predictions: import, verify, merge, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hardpan.cli.common import progress_on_stderr
from hardpan.cli.options import Flags, printing
from hardpan.predictions import Predictions, verification
from hardpan.predictions.exporting import export as export_file
from hardpan.predictions.importing import import_file
from hardpan.predictions.merging import merge as merge_stores
from hardpan.report.base import Report

app = typer.Typer(help="Predictions recorded while training: import, verify, merge, export.", no_args_is_help=True)

Store = Annotated[str, typer.Argument(metavar="STORE", help="A store: a folder or an fsspec address.")]
Source = Annotated[
    str, typer.Argument(metavar="PREDICTIONS", help="A store or a file; @hard.json after it selects a subset.")
]
NewStore = Annotated[str, typer.Option("--out", metavar="STORE", help="The store to create, or to add to.")]


@app.command("import")
@printing
def import_(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Predictions: npy, npz, Parquet or CSV.")],
    out: NewStore,
    options: Annotated[dict[str, Any], Flags(of=import_file)],
) -> Report:
    """Import predictions of a file into a store.

    Arrays have four axes (seeds × epochs × examples × classes), three (epochs × examples × classes) or two
    (examples × classes); an npz may have one array per model. Tables have one row per model or seed, epoch and
    example. Rows that are not probabilities are refused, with their ids.

    Example: [bold]hardpan predictions import probs.npy --labels labels.npy --out STORE[/bold]
    """
    with progress_on_stderr() as progress:
        return import_file(path, out, **options, progress=progress)


@app.command()
@printing
def verify(store: Store, options: Annotated[dict[str, Any], Flags(of=verification.verify)]) -> Report:
    """Read every committed shard and compare it with its hash; exit code 2 if something was changed.

    Example: [bold]hardpan predictions verify STORE[/bold]
    """
    with progress_on_stderr() as progress:
        return verification.verify(store, **options, progress=progress)


@app.command()
@printing
def info(predictions: Source) -> Report:
    """Show what a store contains: examples, classes, seeds and epochs, configuration.

    Example: [bold]hardpan predictions info STORE[/bold]
    """
    return verification.describe(predictions)


@app.command()
@printing
def merge(
    sources: Annotated[
        list[str], typer.Argument(metavar="PREDICTIONS...", help="Stores or files; or STORE@hard.json.")
    ],
    out: NewStore,
    options: Annotated[dict[str, Any], Flags(of=merge_stores)],
) -> Report:
    """Merge stores of different seeds and epochs, of different examples, or both; each id must appear once.

    Example: [bold]hardpan predictions merge seeds-0-2 seeds-3-5 --out all-seeds[/bold]
    """
    with progress_on_stderr() as progress:
        return merge_stores(sources, out, **options, progress=progress)


@app.command()
@printing
def export(
    predictions: Source,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="New file: .npz, .npy, .parquet or .csv.")],
    options: Annotated[dict[str, Any], Flags(of=export_file)],
    subset: Annotated[
        Path | None,
        typer.Option("--subset", metavar="FILE", help="Only the examples of a manifest (confusion subset)."),
    ] = None,
) -> Report:
    """Write predictions to one file: of all seeds, the epochs that each of them has.

    Example: [bold]hardpan predictions export STORE predictions.parquet --epochs 19[/bold]
    """
    from hardpan.report.files import check_local

    check_local(path, "FILE")
    opened = Predictions.open(predictions)
    with progress_on_stderr() as progress:
        return export_file(opened if subset is None else opened.select(subset), path, **options, progress=progress)
