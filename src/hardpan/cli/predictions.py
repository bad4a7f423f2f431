"""``hardpan predictions``: stores of predictions: import, verify, merge, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hardpan.cli.common import JsonFlag, emit_report, progress_on_stderr, whole_numbers

app = typer.Typer(help="Predictions recorded while training: import, verify, merge, export.", no_args_is_help=True)

Store = Annotated[str, typer.Argument(metavar="STORE", help="A store: a folder or an fsspec address.")]
Source = Annotated[
    str,
    typer.Argument(metavar="PREDICTIONS", help="A store or a file; @hard.json after it selects a subset."),
]
NewStore = Annotated[str, typer.Option("--out", metavar="STORE", help="The store to create, or to add to.")]
Seeds = Annotated[str | None, typer.Option("--seeds", help="Numbers of the seeds, such as 0,1,2.")]
Epochs = Annotated[str | None, typer.Option("--epochs", help="Numbers of the epochs, such as 0,1,2.")]
Dtype = Annotated[str, typer.Option("--dtype", help="float16 or float32, for a new store.")]
Block = Annotated[int | None, typer.Option("--block", min=1, help="Rows per shard; by default 4 to 16 MiB.")]


@app.command("import")
def import_(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Predictions: npy, npz, Parquet or CSV.")],
    out: NewStore,
    labels: Annotated[Path | None, typer.Option("--labels", help="Labels: npy, npz, CSV or text.")] = None,
    ids: Annotated[Path | None, typer.Option("--ids", help="Ids of the examples, likewise.")] = None,
    split: Annotated[Path | None, typer.Option("--split", help="train, validation or test, likewise.")] = None,
    class_names: Annotated[
        str | None, typer.Option("--class-names", help="Names with commas, in the order of the columns, or a file.")
    ] = None,
    outputs: Annotated[
        str, typer.Option("--outputs", help="probabilities, logits, labels, or auto: look at the first rows.")
    ] = "auto",
    normalize: Annotated[
        bool, typer.Option("--normalize", help="Divide rows by their sums (rounded rows, percentages).")
    ] = False,
    model: Annotated[str, typer.Option("--model", help="Name of the model; it gets the next free seed.")] = "",
    held_out: Annotated[
        bool, typer.Option("--held-out", help="The model was not trained or tuned on any of these examples.")
    ] = False,
    seeds: Seeds = None,
    epochs: Epochs = None,
    dtype: Dtype = "float16",
    block: Block = None,
    json: JsonFlag = False,
) -> None:
    """Import predictions of a file into a store.

    Arrays have four axes (seeds × epochs × examples × classes), three (epochs × examples × classes) or two
    (examples × classes); an npz may have one array per model. Tables have one row per model or seed, epoch and
    example. Rows that are not probabilities are refused, with their ids.

    Example: [bold]hardpan predictions import probs.npy --labels labels.npy --out STORE[/bold]
    """
    from hardpan.predictions.importing import import_file, read_class_names, read_column

    with progress_on_stderr() as progress:
        report = import_file(
            path,
            out,
            ids=None if ids is None else read_column(ids, "ids"),
            labels=None if labels is None else read_column(labels, "labels"),
            split=None if split is None else read_column(split, "split"),
            class_names=() if class_names is None else read_class_names(class_names),
            outputs=outputs,
            normalize=normalize,
            model=model,
            held_out=held_out,
            seeds=None if seeds is None else whole_numbers("--seeds", seeds),
            epochs=None if epochs is None else whole_numbers("--epochs", epochs),
            dtype=dtype,
            block=block,
            progress=progress,
        )
    emit_report(report, json=json)


@app.command()
def verify(
    store: Store,
    drop: Annotated[
        bool, typer.Option("--drop", help="Uncommit damaged shards, so that the next run records them again.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Read every committed shard and compare it with its hash; exit code 2 if something was changed.

    Example: [bold]hardpan predictions verify STORE[/bold]
    """
    from hardpan import predictions

    with progress_on_stderr() as progress:
        report = predictions.verify(store, drop=drop, progress=progress)
    emit_report(report, json=json)
    if not report.ok:
        raise typer.Exit(2)


@app.command()
def info(predictions: Source, json: JsonFlag = False) -> None:
    """Show what a store contains: examples, classes, seeds and epochs, configuration.

    Example: [bold]hardpan predictions info STORE[/bold]
    """
    from hardpan.predictions.verification import describe

    emit_report(describe(predictions), json=json)


@app.command()
def merge(
    sources: Annotated[
        list[str], typer.Argument(metavar="PREDICTIONS...", help="Stores or files; or STORE@hard.json.")
    ],
    out: NewStore,
    renumber: Annotated[
        bool, typer.Option("--renumber", help="Renumber seeds that an earlier source has already.")
    ] = False,
    common: Annotated[
        bool, typer.Option("--common", help="Leave out seeds and epochs that not all examples have.")
    ] = False,
    dtype: Annotated[str | None, typer.Option("--dtype", help="float16 or float32; by default the wider.")] = None,
    block: Block = None,
    json: JsonFlag = False,
) -> None:
    """Merge stores of different seeds and epochs, of different examples, or both; each id must appear once.

    Example: [bold]hardpan predictions merge seeds-0-2 seeds-3-5 --out all-seeds[/bold]
    """
    from hardpan import predictions

    with progress_on_stderr() as progress:
        report = predictions.merge(
            sources, out, renumber=renumber, common=common, dtype=dtype, block=block, progress=progress
        )
    emit_report(report, json=json)


@app.command()
def export(
    predictions: Source,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="New file: .npz, .npy, .parquet or .csv.")],
    seeds: Seeds = None,
    epochs: Epochs = None,
    subset: Annotated[
        Path | None,
        typer.Option("--subset", metavar="FILE", help="Only the examples of a manifest (confusion subset)."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Write predictions to one file: of all seeds, the epochs that each of them has.

    Example: [bold]hardpan predictions export STORE predictions.parquet --epochs 19[/bold]
    """
    from hardpan.predictions import Predictions
    from hardpan.predictions.exporting import export as write
    from hardpan.report.files import check_local

    check_local(path, "FILE")
    opened = Predictions.open(predictions)
    with progress_on_stderr() as progress:
        report = write(
            opened if subset is None else opened.select(subset),
            path,
            seeds=None if seeds is None else whole_numbers("--seeds", seeds),
            epochs=None if epochs is None else whole_numbers("--epochs", epochs),
            progress=progress,
        )
    emit_report(report, json=json)
