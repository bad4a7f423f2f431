"""``hardpan ledger``: sealed test sets that answer submissions by the Ladder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from hardpan import ledger, numbers
from hardpan.cli.common import JsonFlag, emit
from hardpan.errors import InputError
from hardpan.report.sections import Section

app = typer.Typer(help="Sealed test sets that answer submissions by the Ladder.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="LEDGER", help="Folder of the ledger.")]
Key = Annotated[
    Path | None, typer.Option("--key", help="The owner's key file (mode 0600); else HARDPAN_LEDGER_KEY is read.")
]


@app.command()
def init(
    folder: Folder,
    labels: Annotated[Path, typer.Option("--labels", help="Labels: npy, npz, CSV (id, label) or JSON.")],
    key: Annotated[Path, typer.Option("--key", help="New file for the owner's key; keep it away from the ledger.")],
    name: Annotated[str, typer.Option("--name", help="What to call the benchmark.")] = "benchmark",
    step: Annotated[
        str, typer.Option("--step", help="The Ladder's step, such as 0.01; 'auto' makes the worst case smallest.")
    ] = "0.01",
    submissions: Annotated[
        int, typer.Option("--submissions", min=1, help="Submissions planned for, used by --step auto.")
    ] = 1000,
    holdout: Annotated[float, typer.Option("--holdout", help="Fraction kept, in secret, as super hold-out.")] = 0.5,
    delta: Annotated[float, typer.Option("--delta", help="Probability with which the bound may fail.")] = 0.05,
    classes: Annotated[int | None, typer.Option("--classes", min=1, help="Number of classes.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Seal a test set: encrypt its labels, publish their commitment, begin the log.

    Example: [bold]hardpan ledger init book --labels labels.csv --key owner.key --step 0.01 --holdout 0.5[/bold]
    """
    answers = ledger.read_answers(labels, ("label", "labels", "y_test", "y"))
    if step == "auto":
        left = max(1, round((1 - holdout) * len(answers.values)))
        step = str(ledger.suggested_step(left, submissions, delta))
    if folder.exists():
        raise InputError(f"{folder} exists already; give a new folder for the ledger")
    owner = ledger.new_key()
    ledger.write_key(key, owner)  # before the ledger: a ledger whose key was lost would be of no use
    try:
        ledger.create(
            folder,
            answers.values,
            owner,
            name=name,
            ids=answers.ids,
            classes=classes,
            step=step,
            holdout=holdout,
            delta=delta,
        )
    except BaseException:
        if not folder.exists():
            key.unlink(missing_ok=True)
        raise
    state = ledger.status(folder)
    shown = (
        f"{state.name}: {state.examples:,} examples answer by the Ladder with step {state.step:g}, "
        f"{state.holdout_examples:,} are held out\ncommitment  {state.commitment}\nhead        {state.head}\n"
        f"key         {key} (keep it secret and apart; publish commitment and head)"
    )
    emit(state, as_json, Text(shown))


@app.command()
def submit(
    folder: Folder,
    predictions: Annotated[Path, typer.Argument(help="Predictions: npy, npz, CSV (id, prediction) or JSON.")],
    key: Key = None,
    name: Annotated[str, typer.Option("--name", help="What to call the submission.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Count a submission and answer it; the same predictions again give the recorded answer.

    Example: [bold]hardpan ledger submit book predictions.csv --key owner.key --name resnet[/bold]
    """
    owner = ledger.read_key(key)
    answer = ledger.submit(folder, ledger.read_predictions(folder, predictions), owner, name=name)
    verdict = "a new best" if answer.improved else "not better than the best by more than the step"
    counted = "counted before" if answer.repeated else f"submission {answer.submissions}"
    shown = (
        f"{counted}: {verdict}\nleaderboard error {100 * answer.error:g} % "
        f"± {100 * answer.bound:.1f} points (probability {1 - answer.delta:g})\nhead {answer.head}"
    )
    emit(answer, as_json, Text(shown))


@app.command()
def status(folder: Folder, as_json: JsonFlag = False) -> None:
    """Show the leaderboard's public state; needs no key.

    Example: [bold]hardpan ledger status book[/bold]
    """
    state = ledger.status(folder)
    table = RichTable(show_header=False, box=None, title=escape(state.name), title_justify="left")
    table.add_row("submissions", f"{state.submissions:,}, of which {state.improvements} improved the best")
    best = f"{100 * state.error:g} % ({escape(state.best)})" if state.submissions else "none yet"
    table.add_row("leaderboard error", best)
    table.add_row("bound on its error", f"{100 * state.bound:.1f} points with probability {1 - state.delta:g}")
    table.add_row("Blum and Hardt's bound", f"{100 * state.published_bound:.1f} points")
    table.add_row("examples", f"{state.examples:,}, step {state.step:g}")
    opened = f"opened {numbers.counted(state.openings, 'time')}" if state.openings else "never opened"
    table.add_row("super hold-out", f"{state.holdout_examples:,} examples, {opened}")
    table.add_row("labels", "revealed" if state.revealed else "sealed")
    table.add_row("log", numbers.counted(state.entries, "entry", "entries"))
    for warning in state.warnings:
        table.add_row("warning", warning)
    hashes = Text(f"commitment {state.commitment}\nhead       {state.head}", overflow="ignore", no_wrap=True)
    emit(state, as_json, Group(table, hashes))


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
    owner = ledger.read_key(key) if key is not None else None
    check = ledger.verify(folder, heads=head or (), key=owner, revealed=revealed)
    lines = [f"problem: {item}" for item in check.problems] + [f"note: {item}" for item in check.warnings]
    replay = ", every answer replayed" if check.replayed else ""
    lines.append(
        f"{'verified' if check.ok else 'NOT verified'}: {check.entries} entries{replay}\nhead {check.head}"
    )
    emit(check, as_json, Text("\n".join(lines)))
    if not check.ok:
        raise typer.Exit(2)


@app.command("open")
def open_(
    folder: Folder,
    key: Key = None,
    submission: Annotated[
        list[str] | None, typer.Option("--submission", help="Name or hash of one to score; else all.")
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="Why it is opened, for the record.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Score submissions on the super hold-out; the log records it for ever.

    Example: [bold]hardpan ledger open book --key owner.key --reason "end of the contest"[/bold]
    """
    scores = ledger.open_holdout(folder, ledger.read_key(key), names=submission or (), reason=reason)
    table = RichTable("submission", "hold-out error", title="Super hold-out", title_justify="left")
    for label, score in scores.items():
        table.add_row(escape(label), numbers.estimate(score))
    notes = next(iter(scores.values())).notes
    emit(Section("Super hold-out", estimates=scores, warnings=notes), as_json, table)


@app.command()
def reveal(
    folder: Folder,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write labels and salt (npz).")],
    key: Key = None,
    as_json: JsonFlag = False,
) -> None:
    """Publish the labels and close the leaderboard, so that anyone can replay it.

    Example: [bold]hardpan ledger reveal book --key owner.key --out labels.npz[/bold]
    """
    written = ledger.reveal(folder, ledger.read_key(key), out)
    shown = f"{written} written; check with: hardpan ledger verify {folder} --revealed {written}"
    emit(ledger.status(folder), as_json, Text(shown))
