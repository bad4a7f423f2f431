"""``hardpan leaderboard``: one test set."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from numpy.typing import NDArray

from hardpan import leaderboard, tables
from hardpan.cli.common import check_out, emit_report, progress_on_stderr
from hardpan.cli.options import Flags, Output, reporting, spread
from hardpan.errors import InputError, MissingExtra
from hardpan.execution import Progress
from hardpan.leaderboard.keys import SuspectKeys
from hardpan.leaderboard.pairs import PairedComparison
from hardpan.outcomes import Outcomes
from hardpan.predictions import Predictions
from hardpan.report.base import Report
from hardpan.safe_files import few, read_arrays

R = TypeVar("R", bound=Report)

app = typer.Typer(
    rich_markup_mode="rich",
    no_args_is_help=True,
    help="Which models are better? Ranks, paired tests, items, suspect answer keys, short tests.\n\n"
    "Reads logs of lm-evaluation-harness and Inspect, HELM runs, Every Eval Ever, tables and matrices.\n\n"
    "Example: [bold]hardpan leaderboard report logs/ --out board[/bold]",
)

Logs = Annotated[list[Path], typer.Argument(metavar="LOGS", help="Logs, tables, matrices, or folders of them.")]
OneLog = Annotated[Path, typer.Argument(metavar="LOGS", help="Logs, tables, matrices, or a folder of them.")]
Reading = Annotated[
    dict[str, Any],
    Flags(of=Outcomes.open, without=("totals", "check_classes", "n_classes"), names={"columns": "--column"}),
]


def _open(logs: Path | list[Path], reading: Mapping[str, Any]) -> Outcomes:
    many = logs if isinstance(logs, list) else [logs]
    with progress_on_stderr() as progress:
        return Outcomes.open(many[0] if len(many) == 1 else many, **reading, progress=progress)


def _emit(
    context: typer.Context,
    logs: Path | list[Path],
    reading: Mapping[str, Any],
    output: Output,
    analyse: Callable[[Outcomes, Progress], R],
) -> R:
    """Read logs, analyse them, save and print the report; on stderr how the scores were read."""
    check_out(output.out)
    outcomes = _open(logs, reading)
    with progress_on_stderr() as progress:
        report = analyse(outcomes, progress)
    emit_report(report, json=output.json, out=output.out, options=context.params)
    if outcomes.notes:
        print(*outcomes.notes, sep="\n", file=sys.stderr)
    return report


def _command(function: Callable[..., None]) -> Callable[..., None]:
    """Register a command whose options of reading are spread out."""
    return app.command()(spread(function))


@_command
def rank(
    context: typer.Context,
    logs: Logs,
    options: Annotated[dict[str, Any], Flags(of=leaderboard.rank, without=("group",))],
    reading: Reading,
    output: Output,
) -> None:
    """Scores, standard errors, simultaneous rank sets and tiers of all models.

    Example: [bold]hardpan leaderboard rank logs/ --group task[/bold]
    """

    def analyse(outcomes: Outcomes, progress: Progress) -> Report:
        return leaderboard.rank(outcomes, reading.get("group"), **options, progress=progress)

    _emit(context, logs, reading, output, analyse)


@_command
def compare(
    context: typer.Context,
    logs: OneLog,
    first: Annotated[str, typer.Argument(metavar="FIRST", help="A model, such as the one in use.")],
    second: Annotated[str, typer.Argument(metavar="SECOND", help="Another model, such as a candidate.")],
    options: Annotated[dict[str, Any], Flags(of=leaderboard.compare, without=("group",))],
    reading: Reading,
    output: Output,
    fail_if: Annotated[
        str, typer.Option("--fail-if", metavar="worse", help="Exit with code 1 if SECOND is significantly worse.")
    ] = "",
    card: Annotated[
        Path | None,
        typer.Option("--card", metavar="DIR", help="Write card.md and badge.svg, for a README, to this folder."),
    ] = None,
) -> None:
    """Paired difference between two models; with --fail-if a gate for CI.

    Example: [bold]hardpan leaderboard compare logs/ main candidate --fail-if worse[/bold]
    """
    if fail_if not in ("", "worse"):
        raise InputError(f"--fail-if must be 'worse'; got {fail_if!r}")
    check_out(card)

    def analyse(outcomes: Outcomes, _: Progress) -> PairedComparison:
        result = leaderboard.compare(outcomes, first, second, group=reading.get("group"), **options)
        if card is not None:
            from hardpan.leaderboard.card import write_card

            write_card(result, card)
        return result

    result = _emit(context, logs, reading, output, analyse)
    if fail_if and result.difference.low > 0:
        raise typer.Exit(1)


@_command
def items(
    context: typer.Context,
    logs: Logs,
    options: Annotated[dict[str, Any], Flags(of=leaderboard.items)],
    reading: Reading,
    output: Output,
) -> None:
    """Item analysis: difficulty, discrimination, dead and broken items, information.

    Example: [bold]hardpan leaderboard items logs/ --model 3pl --choices 4 --out items[/bold]
    """

    def analyse(outcomes: Outcomes, progress: Progress) -> Report:
        return leaderboard.items(outcomes, **options, progress=progress)

    _emit(context, logs, reading, output, analyse)


@_command
def keys(
    context: typer.Context,
    logs: Logs,
    reading: Reading,
    output: Output,
    reviewed: Annotated[
        Path | None,
        typer.Option(
            "--reviewed", metavar="CSV", help="Score again with the column correct_key of this review sheet."
        ),
    ] = None,
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Review the keys in a browser; writes reviewed.csv to the folder of --out."),
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of --serve; 0 takes any free port.")] = 8002,
) -> None:
    """Answer keys that look wrong, with a review sheet; after the review, corrected scores and ranks.

    Example: [bold]hardpan leaderboard keys logs/ --out keys[/bold]
    """
    if serve and (output.out is None or reviewed is not None or output.json):
        raise InputError("--serve needs --out DIR, where the verdicts go, and neither --reviewed nor --json")
    new_keys = None if reviewed is None else _reviewed(reviewed)

    def analyse(outcomes: Outcomes, _: Progress) -> Report:
        if new_keys is None:
            return leaderboard.suspect_keys(outcomes)
        return leaderboard.correct_keys(outcomes, new_keys)

    result = _emit(context, logs, reading, output, analyse)
    if serve and output.out is not None and isinstance(result, SuspectKeys):
        _serve(result, output.out, port)


def _reviewed(path: Path) -> dict[str, str]:
    """The corrected key of each item of a review sheet that has one."""
    columns = tables.read_columns(path, text=True, required=("item",))
    if "correct_key" not in columns:
        raise InputError(f"--reviewed {path}: has no column correct_key; use the review sheet of --out")
    new_keys = {
        tables.stored_cell(item): tables.stored_cell(value)
        for item, value in zip(columns["item"], columns["correct_key"], strict=True)
        if value
    }
    if not new_keys:
        raise InputError(
            f"--reviewed {path}: column correct_key is empty; fill it in for the items with a wrong key"
        )
    return new_keys


def _serve(suspects: SuspectKeys, folder: Path, port: int) -> None:
    try:
        from hardpan.web import key_review, serving
    except ModuleNotFoundError as error:
        raise MissingExtra(str(error.name), "web") from None
    review = key_review.KeyReview(suspects, folder)
    with serving.bind("127.0.0.1", port) as listener:
        typer.echo(
            f"{len(suspects.votes):,} keys to review at {serving.address(listener, '127.0.0.1')} (stop with Ctrl-C)"
        )
        serving.run(key_review.create_app(review), listener)


@_command
def shorten(
    context: typer.Context,
    logs: Logs,
    options: Annotated[dict[str, Any], Flags(of=leaderboard.shorten)],
    reading: Reading,
    output: Output,
) -> None:
    """A shorter test: which items to keep, and the interval of a full score that is estimated from them.

    --out also writes samples.json, for lm-eval's --samples.

    Example: [bold]hardpan leaderboard shorten logs/ --items 100 --out short[/bold]
    """

    def analyse(outcomes: Outcomes, progress: Progress) -> Report:
        return leaderboard.shorten(outcomes, **options, progress=progress)

    _emit(context, logs, reading, output, analyse)


@_command
def inflation(
    context: typer.Context,
    logs: OneLog,
    reference: Annotated[
        Path,
        typer.Argument(
            metavar="REFERENCE", help="Scores of the same models on a reference set, in the same formats."
        ),
    ],
    options: Annotated[dict[str, Any], Flags(of=leaderboard.inflation)],
    reading: Reading,
    output: Output,
) -> None:
    """Compare scores with what a reference set predicts, such as a private or newer test set.

    Example: [bold]hardpan leaderboard inflation public/ private/[/bold]
    """

    def analyse(outcomes: Outcomes, _: Progress) -> Report:
        return leaderboard.inflation(outcomes, _open(reference, reading), **options)

    _emit(context, logs, reading, output, analyse)


@app.command()
@reporting
def agreement(
    old: Annotated[
        str, typer.Argument(metavar="OLD", help="Predicted classes on a labelled set: FILE, or FILE.npz::ARRAY.")
    ],
    labels: Annotated[str, typer.Argument(metavar="LABELS", help="Labels of that set: FILE, or FILE.npz::ARRAY.")],
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="Predicted classes of the same models on an unlabelled set.")
    ],
    options: Annotated[dict[str, Any], Flags(of=leaderboard.agreement, without=("resamples",))],
) -> Report:
    """Accuracy on an unlabelled set, estimated from how often models agree with each other.

    Files are npy, or npz with the name of the array: models × examples. Folders are stores of predictions.

    Example: [bold]hardpan leaderboard agreement all.npz::old all.npz::labels all.npz::new[/bold]
    """
    return leaderboard.agreement(_predictions(old), _array(labels), _predictions(new), **options)


@_command
def report(
    context: typer.Context,
    logs: Logs,
    options: Annotated[dict[str, Any], Flags(of=leaderboard.summarize, without=("group",))],
    reading: Reading,
    output: Output,
) -> None:
    """The whole leaderboard on one page: ranking, items, keys, groups, pairs, a shorter test.

    Example: [bold]hardpan leaderboard report logs/ --out board[/bold]
    """

    def analyse(outcomes: Outcomes, progress: Progress) -> Report:
        return leaderboard.summarize(outcomes, group=reading.get("group"), **options, progress=progress)

    _emit(context, logs, reading, output, analyse)


def _predictions(name: str) -> Any:
    return Predictions.open(name) if Path(name).is_dir() else _array(name)


def _array(name: str) -> NDArray[Any]:
    """An array of an npy file, or of an npz file by its name behind ::."""
    file, _, array_name = name.partition("::")
    stored = read_arrays(file)
    names = list(stored)
    if not array_name and len(names) == 1:
        array_name = names[0]
    if array_name not in names:
        raise InputError(f"{file}: name one of its arrays, as in {file}::{names[0]}; it has {few(names)}")
    return stored[array_name]
