"""``hardpan leaderboard``: one test set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hardpan import leaderboard
from hardpan.cli.common import Confidence, JsonFlag, OutFolder, Seed, check_out, emit_report, progress_on_stderr
from hardpan.errors import InputError
from hardpan.outcomes import Outcomes

app = typer.Typer(
    rich_markup_mode="rich",
    no_args_is_help=True,
    help="One test set: who is ahead, which items work, which keys look wrong, how short the test could be.\n\n"
    "Reads logs of lm-evaluation-harness and Inspect, HELM runs, Every Eval Ever, tables and matrices.\n\n"
    "Example: [bold]hardpan leaderboard report logs/ --out board[/bold]",
)

Logs = Annotated[list[Path], typer.Argument(metavar="LOGS...", help="Logs, tables, matrices, or folders of them.")]
OneLog = Annotated[Path, typer.Argument(metavar="LOGS", help="Logs, a table, a matrix, or a folder of them.")]
Filter = Annotated[str | None, typer.Option("--filter", help="Filter of lm-eval logs (default: the first).")]
Metric = Annotated[str | None, typer.Option("--metric", help="Metric (default: the first of the task).")]
Scorer = Annotated[str | None, typer.Option("--scorer", help="Scorer of Inspect logs (default: the first).")]
Unparsed = Annotated[str, typer.Option("--unparsed", help="Answers that were not parsed: wrong or missing.")]
GroupColumn = Annotated[str | None, typer.Option("--groups", metavar="COLUMN", help="Column with the item groups.")]
Cluster = Annotated[
    str, typer.Option("--cluster", metavar="COLUMN", help="Cluster by this group column (true: the first one).")
]


def _open(paths: Path | list[Path], **options: Any) -> Outcomes:
    given = {name: value for name, value in options.items() if value is not None}
    many = paths if isinstance(paths, list) else [paths]
    with progress_on_stderr() as progress:
        return Outcomes.open(many[0] if len(many) == 1 else many, progress=progress, **given)


def _cluster(text: str) -> bool | str:
    return {"": False, "false": False, "true": True}.get(text, text)


@app.command()
def rank(
    logs: Logs,
    cluster: Cluster = "",
    confidence: Confidence = 0.95,
    filter: Filter = None,
    metric: Metric = None,
    scorer: Scorer = None,
    unparsed: Unparsed = "wrong",
    groups: GroupColumn = None,
    seed: Seed = 0,
    json: JsonFlag = False,
    out: OutFolder = None,
) -> None:
    """Scores, standard errors, simultaneous rank sets and tiers of all models.

    Example: [bold]hardpan leaderboard rank logs/ --cluster task[/bold]
    """
    check_out(out)
    data = _open(logs, filter=filter, metric=metric, scorer=scorer, unparsed=unparsed, groups=groups)
    emit_report(leaderboard.rank(data, _cluster(cluster), confidence=confidence, seed=seed), json=json, out=out)


@app.command()
def compare(
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
    filter: Filter = None,
    metric: Metric = None,
    scorer: Scorer = None,
    unparsed: Unparsed = "wrong",
    groups: GroupColumn = None,
    seed: Seed = 0,
    json: JsonFlag = False,
    out: OutFolder = None,
) -> None:
    """The paired difference of two models; a gate for CI.

    Example: [bold]hardpan leaderboard compare logs/ main candidate --fail-if worse[/bold]
    """
    if fail_if not in ("", "worse"):
        raise InputError(f"--fail-if must be 'worse'; got {fail_if!r}")
    check_out(out)
    check_out(card)
    data = _open(logs, filter=filter, metric=metric, scorer=scorer, unparsed=unparsed, groups=groups)
    result = leaderboard.compare(data, first, second, cluster=_cluster(cluster), confidence=confidence, seed=seed)
    if card is not None:
        from hardpan.leaderboard.card import write_card

        write_card(result, card)
    emit_report(result, json=json, out=out)
    if fail_if and result.difference.low > 0:
        raise typer.Exit(1)
