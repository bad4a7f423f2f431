"""``hardpan leaderboard``: one test set."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from numpy.typing import NDArray

from hardpan import leaderboard, tables
from hardpan.cli.common import Confidence, JsonFlag, OutFolder, Seed, check_out, emit_report, progress_on_stderr
from hardpan.cli.options import reporting, spread
from hardpan.errors import InputError, MissingExtra
from hardpan.outcomes import Outcomes
from hardpan.predictions import Predictions
from hardpan.report.base import Report
from hardpan.safe_files import few, read_arrays

app = typer.Typer(
    rich_markup_mode="rich",
    no_args_is_help=True,
    help="One test set: who is ahead, which items work, which keys look wrong, how short the test could be.\n\n"
    "Reads logs of lm-evaluation-harness and Inspect, HELM runs, Every Eval Ever, tables and matrices.\n\n"
    "Example: [bold]hardpan leaderboard report logs/ --out board[/bold]",
)

Logs = Annotated[list[Path], typer.Argument(metavar="LOGS", help="Logs, tables, matrices, or folders of them.")]
OneLog = Annotated[Path, typer.Argument(metavar="LOGS", help="Logs, a table, a matrix, or a folder of them.")]
Cluster = Annotated[
    str, typer.Option("--cluster", metavar="COLUMN", help="Cluster by this group column (true: the first one).")
]
ItemModel = Annotated[str, typer.Option("--model", help="Model of the items: rasch, 2pl or 3pl.")]
Choices = Annotated[int, typer.Option("--choices", help="Answers to choose from, for 3pl.")]


@dataclass(frozen=True, slots=True)
class Reading:
    """How logs are read."""

    filter: Annotated[str | None, typer.Option("--filter", help="Filter of lm-eval logs (default: the first).")] = (
        None
    )
    metric: Annotated[str | None, typer.Option("--metric", help="Metric (default: the first of the task).")] = None
    scorer: Annotated[str | None, typer.Option("--scorer", help="Scorer of Inspect logs (default: the first).")] = (
        None
    )
    unparsed: Annotated[str, typer.Option("--unparsed", help="Answers not parsed count as wrong or missing.")] = (
        "wrong"
    )
    groups: Annotated[
        str | None, typer.Option("--groups", metavar="COLUMN", help="A further column of item groups to read.")
    ] = None
    max_score: Annotated[
        float | None, typer.Option("--max-score", help="Divide scores by this, the highest possible one.")
    ] = None
    rows: Annotated[
        str | None, typer.Option("--rows", help="Rows of a table or matrix without names: models or items.")
    ] = None
    by_order: Annotated[
        bool, typer.Option("--by-order", help="Items without ids are in the same order for every model.")
    ] = False


DEFAULT = Reading()


def _open(paths: Path | list[Path], reading: Reading) -> Outcomes:
    many = paths if isinstance(paths, list) else [paths]
    with progress_on_stderr() as progress:
        return Outcomes.open(many[0] if len(many) == 1 else many, **asdict(reading), progress=progress)


def _emit(context: typer.Context, result: Report, outcomes: Outcomes, json: bool, out: Path | None) -> None:
    """The report, and on stderr how the scores were read: metric and filter, rows dropped, answers not parsed."""
    emit_report(result, json=json, out=out, options=context.params)
    if outcomes.notes:
        print(*outcomes.notes, sep="\n", file=sys.stderr)


def _cluster(text: str) -> bool | str:
    return {"": False, "false": False, "true": True}.get(text, text)


def _command(function: Callable[..., None]) -> Callable[..., None]:
    """Register a command whose options of reading are spread out."""
    return app.command()(spread(function))


@_command
def rank(
    context: typer.Context,
    logs: Logs,
    cluster: Cluster = "",
    confidence: Confidence = 0.95,
    reading: Reading = DEFAULT,
    seed: Seed = 0,
    json: JsonFlag = False,
    out: OutFolder = None,
) -> None:
    """Scores, standard errors, simultaneous rank sets and tiers of all models.

    Example: [bold]hardpan leaderboard rank logs/ --cluster task[/bold]
    """
    check_out(out)
    data = _open(logs, reading)
    with progress_on_stderr() as progress:
        result = leaderboard.rank(data, _cluster(cluster), confidence=confidence, seed=seed, progress=progress)
    _emit(context, result, data, json, out)


@_command
def compare(
    context: typer.Context,
    logs: OneLog,
    first: Annotated[str, typer.Argument(help="A model, such as the one in use.")],
    second: Annotated[str, typer.Argument(help="Another model, such as a candidate.")],
    fail_if: Annotated[
        str, typer.Option("--fail-if", metavar="worse", help="Exit 1 if SECOND is worse beyond the interval.")
    ] = "",
    card: Annotated[
        Path | None, typer.Option("--card", metavar="DIR", help="Write card.md and badge.svg for a README.")
    ] = None,
    cluster: Cluster = "",
    confidence: Confidence = 0.95,
    reading: Reading = DEFAULT,
    seed: Seed = 0,
    json: JsonFlag = False,
    out: OutFolder = None,
) -> None:
    """The paired difference of two models; with --fail-if a gate for CI.

    Example: [bold]hardpan leaderboard compare logs/ main candidate --fail-if worse[/bold]
    """
    if fail_if not in ("", "worse"):
        raise InputError(f"--fail-if must be 'worse'; got {fail_if!r}")
    check_out(out)
    check_out(card)
    data = _open(logs, reading)
    result = leaderboard.compare(data, first, second, cluster=_cluster(cluster), confidence=confidence, seed=seed)
    if card is not None:
        from hardpan.leaderboard.card import write_card

        write_card(result, card)
    _emit(context, result, data, json, out)
    if fail_if and result.difference.low > 0:
        raise typer.Exit(1)


@_command
def items(
    context: typer.Context,
    logs: Logs,
    model: ItemModel = "2pl",
    choices: Choices = 4,
    reading: Reading = DEFAULT,
    seed: Seed = 0,
    json: JsonFlag = False,
    out: OutFolder = None,
) -> None:
    """Difficulty and discrimination of the items, dead and broken items, information along skill.

    Example: [bold]hardpan leaderboard items logs/ --model 3pl --choices 4 --out items[/bold]
    """
    check_out(out)
    data = _open(logs, reading)
    with progress_on_stderr() as progress:
        result = leaderboard.items(data, model, choices=choices, seed=seed, progress=progress)
    _emit(context, result, data, json, out)


@_command
def keys(
    context: typer.Context,
    logs: Logs,
    reviewed: Annotated[
        Path | None,
        typer.Option("--reviewed", metavar="CSV", help="A review sheet with correct_key filled in: score again."),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Review the keys in a browser; verdicts go to DIR/reviewed.csv.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of --serve; 0 takes any free port.")] = 8002,
    reading: Reading = DEFAULT,
    json: JsonFlag = False,
    out: OutFolder = None,
) -> None:
    """Answer keys that look wrong, with a review sheet; after the review, corrected scores and ranks.

    Example: [bold]hardpan leaderboard keys logs/ --out keys --serve[/bold]
    """
    if serve and (out is None or reviewed is not None or json):
        raise InputError("--serve needs --out DIR, where the verdicts go, and neither --reviewed nor --json")
    check_out(out)
    data = _open(logs, reading)
    if reviewed is None:
        result = leaderboard.suspect_keys(data)
        _emit(context, result, data, json, out)
        if serve and out is not None:
            _serve(result, out, port)
        return
    columns = tables.read_columns(reviewed, text=True, required=("item",))
    if "correct_key" not in columns:
        raise InputError(f"--reviewed {reviewed}: has no column correct_key; use the review sheet of --out")
    new_keys = {
        tables.stored_cell(item): tables.stored_cell(value)
        for item, value in zip(columns["item"], columns["correct_key"], strict=True)
        if value
    }
    if not new_keys:
        raise InputError(
            f"--reviewed {reviewed}: column correct_key is empty; fill it in for the items with a wrong key"
        )
    _emit(context, leaderboard.correct_keys(data, new_keys), data, json, out)


def _serve(suspects: leaderboard.keys.SuspectKeys, folder: Path, port: int) -> None:
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
    number: Annotated[int, typer.Option("--items", help="How many items to keep.")] = 100,
    method: Annotated[str, typer.Option("--method", help="random, stratified or information.")] = "random",
    confidence: Confidence = 0.95,
    reading: Reading = DEFAULT,
    seed: Seed = 0,
    json: JsonFlag = False,
    out: OutFolder = None,
) -> None:
    """Fewer items, with the interval that a new model's full score would have; lists for lm-eval's --samples.

    Example: [bold]hardpan leaderboard shorten logs/ --items 100 --out short[/bold]
    """
    check_out(out)
    data = _open(logs, reading)
    with progress_on_stderr() as progress:
        result = leaderboard.shorten(
            data, number, method=method, confidence=confidence, seed=seed, progress=progress
        )
    _emit(context, result, data, json, out)


@_command
def inflation(
    context: typer.Context,
    logs: OneLog,
    reference: Annotated[
        Path, typer.Argument(metavar="REFERENCE", help="Scores of the same models on another set.")
    ],
    confidence: Confidence = 0.95,
    reading: Reading = DEFAULT,
    json: JsonFlag = False,
    out: OutFolder = None,
) -> None:
    """Scores against what a reference set predicts, such as a private or newer test set.

    Example: [bold]hardpan leaderboard inflation public/ private/[/bold]
    """
    check_out(out)
    data = _open(logs, reading)
    result = leaderboard.inflation(data, _open(reference, reading), confidence=confidence)
    _emit(context, result, data, json, out)


@app.command()
@reporting
def agreement(
    old: Annotated[
        str, typer.Argument(metavar="OLD", help="Predictions on the labelled set: FILE, or FILE::ARRAY.")
    ],
    labels: Annotated[str, typer.Argument(metavar="LABELS", help="Its labels: FILE, or FILE::ARRAY.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Predictions on the unlabelled set, same models.")],
    transfer_error: Annotated[
        float, typer.Option("--transfer-error", help="Standard error added for the assumption, a fraction.")
    ] = 0.015,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
) -> Report:
    """Accuracy on an unlabelled set, estimated from how often models agree with each other.

    Files are npy, or npz with the name of the array: models × examples (predicted classes). Folders are recorded
    predictions.

    Example: [bold]hardpan leaderboard agreement all.npz::old all.npz::labels all.npz::new[/bold]
    """
    result = leaderboard.agreement(
        _predictions(old),
        _array(labels),
        _predictions(new),
        transfer_error=transfer_error,
        confidence=confidence,
        seed=seed,
    )
    return result


@_command
def report(
    context: typer.Context,
    logs: Logs,
    cluster: Cluster = "",
    model: ItemModel = "2pl",
    choices: Choices = 4,
    short_items: Annotated[
        int | None, typer.Option("--short-items", help="Items of the shorter test (default: 15 %).")
    ] = None,
    confidence: Confidence = 0.95,
    reading: Reading = DEFAULT,
    seed: Seed = 0,
    json: JsonFlag = False,
    out: OutFolder = None,
) -> None:
    """The whole leaderboard on one page: ranking, items, keys, groups, pairs, a shorter test.

    Example: [bold]hardpan leaderboard report logs/ --out board[/bold]
    """
    check_out(out)
    data = _open(logs, reading)
    with progress_on_stderr() as progress:
        result = leaderboard.summarize(
            data,
            cluster=_cluster(cluster),
            model=model,
            choices=choices,
            short_items=short_items,
            confidence=confidence,
            seed=seed,
            progress=progress,
        )
    _emit(context, result, data, json, out)


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
