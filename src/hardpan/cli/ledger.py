"""``hardpan ledger``: sealed test sets that answer submissions by the Ladder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hardpan import ledger
from hardpan.cli.common import JsonFlag, emit_report
from hardpan.ledger.sealing import read_key

app = typer.Typer(help="Sealed test sets that answer submissions by the Ladder.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="LEDGER", help="Folder of the ledger.")]
Key = Annotated[
    Path | None, typer.Option("--key", help="The owner's key file (mode 0600); default: HARDPAN_LEDGER_KEY.")
]


@app.command()
def init(
    folder: Folder,
    labels: Annotated[Path, typer.Option("--labels", help="Labels: npy, npz, CSV (id, label) or JSON.")],
    key: Annotated[Path, typer.Option("--key", help="New file for the owner's key; keep it away from the ledger.")],
    name: Annotated[str, typer.Option("--name", help="Name of the benchmark.")] = "benchmark",
    step: Annotated[
        str,
        typer.Option("--step", help="The Ladder's step, such as 0.05; 'auto' follows from the labels."),
    ] = "auto",
    submissions: Annotated[
        int,
        typer.Option(min=1, help="Submissions to plan for; more are accepted while the bound of the plan holds."),
    ] = 1000,
    holdout: Annotated[
        float, typer.Option("--holdout", help="Fraction of the labels kept, in secret, as a super hold-out.")
    ] = 0.0,
    delta: Annotated[float, typer.Option("--delta", help="Probability with which the bound may fail.")] = 0.05,
    classes: Annotated[int | None, typer.Option("--classes", min=1, help="Number of classes.")] = None,
    unsafe: Annotated[
        bool,
        typer.Option("--unsafe", help="Accept a step that reveals single labels, or a bound of 1."),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Seal a test set: encrypt its labels, publish their commitment, begin the log.

    Publish the commitment and the head; keep the key file secret and apart from the ledger.

    Example: [bold]hardpan ledger init book --labels labels.csv --key owner.key[/bold]
    """
    book = ledger.create(
        folder,
        labels,
        key,
        name=name,
        classes=classes,
        step=None if step == "auto" else step,
        submissions=submissions,
        holdout=holdout,
        delta=delta,
        unsafe=unsafe,
    )
    emit_report(book.status(), json=as_json)


@app.command()
def submit(
    folder: Folder,
    predictions: Annotated[Path, typer.Argument(help="Predictions: npy, npz, CSV (id, prediction) or JSON.")],
    key: Key = None,
    name: Annotated[str, typer.Option("--name", help="Name of the submission.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Count a submission and answer it; the same predictions again give the recorded answer.

    Example: [bold]hardpan ledger submit book predictions.csv --key owner.key --name resnet[/bold]
    """
    emit_report(ledger.open(folder, read_key(key)).submit(predictions, name=name), json=as_json)


@app.command()
def status(folder: Folder, as_json: JsonFlag = False) -> None:
    """Show the leaderboard's public state; needs no key.

    Example: [bold]hardpan ledger status book[/bold]
    """
    emit_report(ledger.open(folder).status(), json=as_json)


@app.command()
def verify(
    folder: Folder,
    head: Annotated[
        list[str] | None, typer.Option("--head", help="A head published earlier; repeat for several.")
    ] = None,
    key: Annotated[Path | None, typer.Option("--key", help="Owner's key: replay every answer.")] = None,
    revealed: Annotated[Path | None, typer.Option("--revealed", help="File of ledger reveal: replay.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check the log, its signatures and its rules; exit code 2 when something was changed.

    Example: [bold]hardpan ledger verify book --head 4490244999b3[/bold]
    """
    owner = read_key(key) if key is not None else None
    check = ledger.Ledger(folder, owner).verify(heads=head or (), revealed=revealed)
    emit_report(check, json=as_json)
    if not check.ok:
        raise typer.Exit(2)


@app.command("open")
def open_(
    folder: Folder,
    key: Key = None,
    submission: Annotated[
        list[str] | None, typer.Option("--submission", help="Name or hash of one to score; default: all.")
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="Why it is opened, for the record.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Score submissions on the super hold-out; the log records it.

    Example: [bold]hardpan ledger open book --key owner.key --reason "end of the contest"[/bold]
    """
    scores = ledger.open(folder, read_key(key)).open_holdout(names=submission or (), reason=reason)
    emit_report(scores, json=as_json)


@app.command()
def reveal(
    folder: Folder,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write labels and salt (npz).")],
    key: Key = None,
    as_json: JsonFlag = False,
) -> None:
    """Publish the labels and close the leaderboard, so that anyone can replay it.

    Then anyone can run: hardpan ledger verify LEDGER --revealed FILE

    Example: [bold]hardpan ledger reveal book --key owner.key --out labels.npz[/bold]
    """
    book = ledger.open(folder, read_key(key))
    book.reveal(out)
    emit_report(book.status(), json=as_json)
