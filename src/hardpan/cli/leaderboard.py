"""``hardpan leaderboard``: one test set."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from hardpan import leaderboard
from hardpan.cli.common import emit_report, progress_on_stderr
from hardpan.cli.decorators import Output, reporting, spread
from hardpan.cli.gate import ScoreReading
from hardpan.cli.options import Flags
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.files import read_npz_array
from hardpan.leaderboard.bradley_terry import is_battles
from hardpan.leaderboard.keys import read_errata
from hardpan.outcomes import Outcomes
from hardpan.predictions import Predictions
from hardpan.report import Report

app = typer.Typer(
    rich_markup_mode="rich",
    no_args_is_help=True,
    help="Which models are better? Ranks, items, suspect answer keys, short tests.\n\n"
    "Reads logs of lm-evaluation-harness, Inspect, HELM and 13 other harnesses, tables and matrices.\n\n"
    "Example: [bold]hardpan leaderboard report logs/ --out board[/bold]",
)

Logs = Annotated[list[Path], typer.Argument(metavar="LOGS", help="Logs, tables, matrices, or folders of them.")]


@contextmanager
def _scores(logs: Path | list[Path], reading: Mapping[str, Any]) -> Iterator[tuple[Outcomes, Progress]]:
    """The scores in logs, and progress on stderr; there also, once they are analysed, how they were read."""
    many = logs if isinstance(logs, list) else [logs]
    with progress_on_stderr() as progress:
        outcomes = Outcomes.open(many[0] if len(many) == 1 else many, **reading, progress=progress)
        yield outcomes, progress
    if outcomes.notes:
        print(*outcomes.notes, sep="\n", file=sys.stderr)


def _ranked(
    logs: list[Path],
    reading: Mapping[str, Any],
    options: Mapping[str, Any],
    analyse: Callable[[Outcomes, Progress], Report],
) -> Report:
    """The analysis of scores; the ranking of battles, or of scores without a range, where the logs hold these."""
    common = {"group": reading["group"], "confidence": options["confidence"]}
    try:
        with _scores(logs, reading) as (outcomes, progress):
            if outcomes.is_unbounded():
                return leaderboard.amounts(outcomes, **common, seed=options["seed"])
            if outcomes.totals is not None:
                return leaderboard.rank(outcomes, reading["group"], confidence=options["confidence"])
            return analyse(outcomes, progress)
    except InputError:
        if not is_battles(logs, reading["columns"]):
            raise
    return leaderboard.battles(logs, columns=reading["columns"], **common)


@app.command()
@reporting
def report(
    logs: Logs,
    options: Annotated[
        dict[str, Any],
        Flags(
            of=leaderboard.summarize,
            only=("model", "short_items", "seed"),
            without=("group",),
            names={"model": "--irt"},
        ),
    ],
    reading: ScoreReading,
) -> Report:
    """The whole leaderboard on one page: ranking, items, keys, groups, pairs, a shorter test.

    Example: [bold]hardpan leaderboard report logs/ --out board[/bold]
    """
    return _ranked(
        logs,
        reading,
        options,
        lambda outcomes, progress: leaderboard.summarize(
            outcomes, group=reading["group"], **options, progress=progress
        ),
    )


@app.command()
@reporting
def rank(
    logs: Logs,
    options: Annotated[dict[str, Any], Flags(of=leaderboard.rank, only=("seed",), without=("group",))],
    reading: ScoreReading,
) -> Report:
    """Scores, standard errors, simultaneous rank sets and tiers of all models.

    Example: [bold]hardpan leaderboard rank logs/ --group task[/bold]
    """
    return _ranked(
        logs,
        reading,
        options,
        lambda outcomes, progress: leaderboard.rank(outcomes, reading["group"], **options, progress=progress),
    )


@app.command()
@reporting
def items(
    logs: Logs,
    options: Annotated[
        dict[str, Any], Flags(of=leaderboard.items, only=("model", "choices", "seed"), names={"model": "--irt"})
    ],
    reading: ScoreReading,
) -> Report:
    """Item analysis: difficulty, discrimination, dead and broken items, information.

    Example: [bold]hardpan leaderboard items logs/ --irt 3pl --choices 4 --out items[/bold]
    """
    with _scores(logs, reading) as (outcomes, progress):
        return leaderboard.items(outcomes, **options, progress=progress)


@app.command()
@spread
def keys(
    logs: Logs,
    reading: ScoreReading,
    output: Output,
    reviewed: Annotated[
        Path | None,
        typer.Option(
            "--reviewed", metavar="CSV", help="Score again with the columns correct_key and drop of this sheet."
        ),
    ] = None,
) -> None:
    """Answer keys that look wrong, with a review sheet; after the review, corrected scores and ranks.

    Example: [bold]hardpan leaderboard keys logs/ --out keys[/bold]
    """
    new_keys, dropped = read_errata(reviewed) if reviewed else ({}, ())
    if reviewed and not new_keys and not dropped:
        raise InputError(f"{reviewed}: correct_key and drop are empty; fill one in", argument="--reviewed")
    with _scores(logs, reading) as (outcomes, _):
        if reviewed:
            result: Report = leaderboard.correct_keys(outcomes, new_keys, dropped)
        else:
            result = leaderboard.suspect_keys(outcomes)
    options = {"logs": logs, **reading, "reviewed": reviewed}
    emit_report(result, json=output.json, out=output.out, options=options)


@app.command()
@reporting
def shorten(
    logs: Logs,
    options: Annotated[dict[str, Any], Flags(of=leaderboard.shorten, only=("items", "method", "seed"))],
    reading: ScoreReading,
) -> Report:
    """A shorter test: which items to keep, and the interval of a full score that is estimated from them.

    --out also writes the items, of logs of lm-eval as samples.json for its --samples.

    Example: [bold]hardpan leaderboard shorten logs/ --items 100 --out short[/bold]
    """
    with _scores(logs, reading) as (outcomes, progress):
        return leaderboard.shorten(outcomes, **options, progress=progress)


@app.command()
@reporting
def predict(
    scores: Annotated[
        str, typer.Argument(metavar="SCORES", help="Logs; with --labels classes: a store, FILE or FILE.npz::ARRAY.")
    ],
    other: Annotated[
        str, typer.Argument(metavar="OTHER", help="The same models on a reference set, or on an unlabelled set.")
    ],
    options: Annotated[
        dict[str, Any], Flags(of=leaderboard.predict, only=("transfer_error",), without=("labels",))
    ],
    reading: ScoreReading,
    labels: Annotated[
        str | None,
        typer.Option("--labels", help="Labels of SCORES, to estimate accuracy on OTHER: FILE, or FILE.npz::ARRAY."),
    ] = None,
) -> Report:
    """Scores against what another set predicts; with --labels accuracy on an unlabelled set.

    An estimate without labels comes from how often models agree with each other. Arrays are models × examples.

    Example: [bold]hardpan leaderboard predict public/ private/[/bold]
    """
    if labels is None:
        with _scores(Path(scores), reading) as (outcomes, _), _scores(Path(other), reading) as (reference, _):
            return leaderboard.predict(outcomes, reference, **options)
    old, new = (Predictions.open(name) if Path(name).is_dir() else read_npz_array(name) for name in (scores, other))
    return leaderboard.predict(old, new, read_npz_array(labels), **options)
