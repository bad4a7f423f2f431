"""``hardpan ledger``: sealed test sets that answer submissions by the Ladder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hardpan import ledger
from hardpan.cli.decorators import printing
from hardpan.cli.options import Flags
from hardpan.ledger.sealing import read_owner_key
from hardpan.report import Report

app = typer.Typer(
    help="A sealed test set: score submissions without revealing labels (the Ladder).", no_args_is_help=True
)

LedgerFolder = Annotated[Path, typer.Argument(metavar="LEDGER", help="Folder of the ledger.")]
Key = Annotated[
    Path | None, typer.Option("--key", help="The owner's key file (default: the variable HARDPAN_LEDGER_KEY).")
]


@app.command()
@printing
def init(
    folder: LedgerFolder,
    labels: Annotated[Path, typer.Option("--labels", help="Labels: npy, npz, CSV (id, label) or JSON.")],
    key: Annotated[
        Path, typer.Option("--key", help="New file for the owner's key; do not keep it in the ledger's folder.")
    ],
    options: Annotated[
        dict[str, Any],
        Flags(of=ledger.create, only=("name", "step", "submissions", "holdout", "unsafe"), without=("ids",)),
    ],
) -> Report:
    """Seal a test set: encrypt its labels, commit to them, and start a signed log.

    Publish the commitment and the head that it prints; keep the key file secret.

    Example: [bold]hardpan ledger init book --labels labels.csv --key owner.key --holdout 0.5[/bold]
    """
    return ledger.create(folder, labels, key, **options).status()


@app.command()
@printing
def submit(
    folder: LedgerFolder,
    predictions: Annotated[Path, typer.Argument(help="Predictions: npy, npz, CSV (id, prediction) or JSON.")],
    options: Annotated[dict[str, Any], Flags(of=ledger.Ledger.submit)],
    key: Key = None,
) -> Report:
    """Score a submission by the Ladder and log the answer; the same predictions get the recorded answer again.

    Example: [bold]hardpan ledger submit book predictions.csv --key owner.key --name resnet[/bold]
    """
    return ledger.open(folder, read_owner_key(key)).submit(predictions, **options)


@app.command()
@printing
def verify(
    folder: LedgerFolder,
    options: Annotated[
        dict[str, Any], Flags(of=ledger.Ledger.verify, names={"heads": "--head"}, repeated=("heads",))
    ],
    key: Annotated[Path | None, typer.Option("--key", help="The owner's key file: replay every answer.")] = None,
) -> Report:
    """Check the log, its signatures and its rules; exit code 2 if something was changed.

    Example: [bold]hardpan ledger verify book[/bold]
    """
    owner = read_owner_key(key) if key is not None else None
    return ledger.Ledger(folder, owner).verify(**options)


@app.command("open")
@printing
def open_(
    folder: LedgerFolder,
    options: Annotated[
        dict[str, Any], Flags(of=ledger.Ledger.open_holdout, names={"names": "--submission"}, repeated=("names",))
    ],
    key: Key = None,
) -> Report:
    """Score submissions on the super hold-out; the opening is logged.

    Example: [bold]hardpan ledger open book --key owner.key --reason "end of the contest"[/bold]
    """
    return ledger.open(folder, read_owner_key(key)).open_holdout(**options)


@app.command()
@printing
def reveal(
    folder: LedgerFolder,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="New npz file for labels and salt.")],
    key: Key = None,
) -> Report:
    """Publish the labels and close the leaderboard, so that anyone can replay it.

    Then anyone can run: hardpan ledger verify LEDGER --revealed FILE

    Example: [bold]hardpan ledger reveal book --key owner.key --out labels.npz[/bold]
    """
    book = ledger.open(folder, read_owner_key(key))
    book.reveal(out)
    return book.status()
