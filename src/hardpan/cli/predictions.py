"""``hardpan predictions``: stores of predictions, made from files, checked, joined and written out again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from hardpan.cli.common import JsonFlag, emit, progress_on_stderr
from hardpan.errors import InputError
from hardpan.numbers import counted
from hardpan.predictions import importing
from hardpan.predictions.results import ImportSummary, StoreInfo, Verification

app = typer.Typer(help="Predictions recorded while training: import, verify, merge, export.", no_args_is_help=True)

Store = Annotated[str, typer.Argument(metavar="STORE", help="A store: a folder or an fsspec address.")]
Predictions = Annotated[
    str,
    typer.Argument(metavar="PREDICTIONS", help="A store, npz or npy file; @hard.json behind it takes a subset."),
]
NewStore = Annotated[str, typer.Option("--out", metavar="STORE", help="The store to make, or to add to.")]
Numbers = Annotated[str | None, typer.Option(help="Their numbers, such as 0,1,2.")]
Dtype = Annotated[str, typer.Option("--dtype", help="float16 or float32, for a new store.")]
Block = Annotated[int | None, typer.Option("--block", min=1, help="Rows in a shard; else 4 to 16 MiB.")]
MOST_SHOWN = 20


@app.command("import")
def import_(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Predictions: npy, npz, Parquet or CSV.")],
    out: NewStore,
    labels: Annotated[Path | None, typer.Option("--labels", help="Labels: npy, npz, CSV or text.")] = None,
    ids: Annotated[Path | None, typer.Option("--ids", help="Ids of the examples, likewise.")] = None,
    split: Annotated[Path | None, typer.Option("--split", help="train, validation or test, likewise.")] = None,
    class_names: Annotated[
        Path | None, typer.Option("--class-names", help="Names of the classes, likewise.")
    ] = None,
    outputs: Annotated[
        str, typer.Option("--outputs", help="probabilities, logits, or auto: look at the first rows.")
    ] = "auto",
    seeds: Numbers = None,
    epochs: Numbers = None,
    dtype: Dtype = "float16",
    block: Block = None,
    as_json: JsonFlag = False,
) -> None:
    """Put predictions of a file into a store.

    Arrays have four axes (seeds × epochs × examples × classes), three (epochs × examples × classes) or two
    (examples × classes); tables a row for each seed, epoch and example. Rows that are not probabilities are
    refused, with their ids.

    Example: [bold]hardpan predictions import probs.npy --labels labels.npy --out STORE[/bold]
    """
    from hardpan.predictions.importing import import_file

    with progress_on_stderr() as progress:
        found = import_file(
            path,
            out,
            ids=None if ids is None else importing.read_column(ids, "ids"),
            labels=None if labels is None else importing.read_column(labels, "labels"),
            split=None if split is None else importing.read_column(split, "split"),
            class_names=()
            if class_names is None
            else tuple(importing.read_column(class_names, "class_names").tolist()),
            outputs=outputs,
            seeds=_numbers("--seeds", seeds),
            epochs=_numbers("--epochs", epochs),
            dtype=dtype,
            block=block,
            progress=progress,
        )
    how = "detected: say --outputs if that is wrong" if found.detected else "as said"
    emit(found, as_json, _brought(found, f"the file held {found.outputs} ({how})"))


@app.command()
def verify(
    store: Store,
    drop: Annotated[
        bool, typer.Option("--drop", help="Take back damaged shards, so that a run records them again.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Read every committed shard and compare it with its hash; exit code 2 when something was changed.

    Example: [bold]hardpan predictions verify STORE[/bold]
    """
    from hardpan.predictions.verification import verify as verified

    with progress_on_stderr() as progress:
        found = verified(store, drop=drop, progress=progress)
    emit(found, as_json, _verified(found, drop))
    if not found.ok:
        raise typer.Exit(2)


@app.command()
def info(predictions: Predictions, as_json: JsonFlag = False) -> None:
    """Show what a store holds: examples, classes, seeds and epochs, configuration.

    Example: [bold]hardpan predictions info STORE[/bold]
    """
    from hardpan.predictions.verification import describe

    found = describe(predictions)
    emit(found, as_json, _information(found))


@app.command()
def merge(
    sources: Annotated[
        list[str], typer.Argument(metavar="PREDICTIONS...", help="Stores, npz or npy files; or STORE@hard.json.")
    ],
    out: NewStore,
    renumber: Annotated[
        bool, typer.Option("--renumber", help="Give seeds that an earlier source has, too, new numbers.")
    ] = False,
    common: Annotated[
        bool, typer.Option("--common", help="Leave out seeds and epochs that not all examples have.")
    ] = False,
    dtype: Annotated[str | None, typer.Option("--dtype", help="float16 or float32; else the wider.")] = None,
    block: Block = None,
    as_json: JsonFlag = False,
) -> None:
    """Join stores of other seeds and epochs, of other examples, or of both; each id must appear once.

    Example: [bold]hardpan predictions merge seeds-0-2 seeds-3-5 --out all-seeds[/bold]
    """
    from hardpan.predictions.merging import merge as merged

    with progress_on_stderr() as progress:
        found = merged(sources, out, renumber=renumber, common=common, dtype=dtype, block=block, progress=progress)
    emit(found, as_json, _brought(found))


@app.command()
def export(
    predictions: Predictions,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="New file: .npz, .npy, .parquet or .csv.")],
    seeds: Numbers = None,
    epochs: Numbers = None,
    subset: Annotated[
        Path | None,
        typer.Option("--subset", metavar="FILE", help="Only the examples of a manifest (confusion subset)."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write predictions to one file: of all seeds the epochs that each of them has.

    Example: [bold]hardpan predictions export STORE predictions.parquet --epochs 19[/bold]
    """
    from hardpan.predictions import Predictions
    from hardpan.predictions.exporting import export as exported
    from hardpan.report.files import check_local

    check_local(path, "FILE")
    with progress_on_stderr() as progress:
        held = Predictions.open(predictions)
        found = exported(
            held if subset is None else held.select(subset),
            path,
            seeds=_numbers("--seeds", seeds),
            epochs=_numbers("--epochs", epochs),
            progress=progress,
        )
    if found.left_out:
        epochs_out, of = _count(found.left_out, "epoch"), _count(found.seeds, "seed")
        line = f"hardpan: left out: {epochs_out} that not all of {of} have; --seeds chooses those that have them"
        print(line, file=sys.stderr)
    emit(found, as_json, _brought(found))


def _numbers(option: str, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(piece) for piece in text.split(","))
    except ValueError:
        raise InputError(f"{option} must be whole numbers with commas between them; got {text!r}") from None


def _brought(found: ImportSummary, *lines: str) -> Text:
    what = f"{counted(found.examples, 'example')} × {found.classes} classes, {_count(found.seeds, 'seed')}"
    first = f"{found.target}: {what}, {_count(found.epochs, 'epoch')}"
    return Text("\n".join([first, *lines, *(f"note: {note}" for note in found.notes)]))


def _verified(found: Verification, dropped: bool) -> Text:
    lines = [f"{item.what}: {item.file} ({item.message})" for item in found.problems[:MOST_SHOWN]]
    if len(found.problems) > MOST_SHOWN:
        lines.append(f"and {len(found.problems) - MOST_SHOWN} more; --json lists all")
    if found.leftovers:
        lines.append(f"note: {_plural(len(found.leftovers), 'file')} of writers that were stopped; they do no harm")
    verdict = "verified" if found.ok else "NOT verified"
    shards, problems = _plural(found.shards, "shard"), _plural(len(found.problems), "problem")
    lines.append(f"{verdict}: {shards}, {_size(found.bytes)}, {problems}")
    if found.problems and dropped:
        lines.append("damaged shards were taken back; run the training or import again to record them")
    return Text("\n".join(lines))


def _plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _size(count: int) -> str:
    """Such as "16.8 MB".

    Example:
        >>> _size(999), _size(16_777_216), _size(768_000_000_000)
        ('999 bytes', '16.8 MB', '768.0 GB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} bytes"


def _count(numbers: tuple[int, ...], what: str) -> str:
    """Such as "3 seeds (0–2)".

    Example:
        >>> _count((0, 1, 2), "seed"), _count((4,), "epoch"), _count((1, 5), "epoch"), _count((), "seed")
        ('3 seeds (0–2)', '1 epoch (4)', '2 epochs (1, 5)', '0 seeds')
    """
    text = _plural(len(numbers), what)
    if not numbers:
        return text
    if len(numbers) > 2 and numbers == tuple(range(numbers[0], numbers[-1] + 1)):
        return f"{text} ({numbers[0]}–{numbers[-1]})"
    shown = ", ".join(map(str, numbers[:10])) + (", …" if len(numbers) > 10 else "")
    return f"{text} ({shown})"


def _information(found: StoreInfo) -> Group:
    table = RichTable(show_header=False, box=None, title=escape(found.store), title_justify="left")
    table.add_row("examples", f"{found.examples:,}" + ("" if found.labelled else ", without labels"))
    if found.split:
        table.add_row("split", ", ".join(f"{name} {count:,}" for name, count in found.split.items()))
    names = ", ".join(found.class_names[:10]) + (", …" if len(found.class_names) > 10 else "")
    table.add_row("classes", f"{found.classes}" + (f" ({escape(names)})" if names else ""))
    table.add_row("seeds", _count(found.seeds, "seed"))
    table.add_row("epochs", _count(found.epochs, "epoch") + (" of every seed" if found.epochs_of else ""))
    for seed, epochs in found.epochs_of.items():
        table.add_row("", f"seed {seed}: {_count(epochs, 'epoch')}")
    size = f"{_size(found.bytes_of_numbers)} of {found.dtype}"
    if found.bytes_stored is not None:
        size += f", {_size(found.bytes_stored)} on disk, {found.block:,} rows a shard"
    table.add_row("size", size)
    for name, value in found.config.items():
        table.add_row(f"config {escape(name)}", escape(str(value)))
    if found.versions:
        table.add_row("written by", ", ".join(f"{name} {version}" for name, version in found.versions.items()))
    return Group(table, *(Text(f"not whole yet: {item}") for item in found.partial[:MOST_SHOWN]))
