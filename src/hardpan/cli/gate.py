"""``hardpan gate``: a gate for continuous integration."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hardpan.cli.common import emit_report
from hardpan.cli.decorators import Output, spread
from hardpan.cli.options import Flags
from hardpan.leaderboard.gating import gate as gate_of_runs
from hardpan.outcomes import Outcomes

app = typer.Typer(rich_markup_mode="rich")
ScoreReading = Annotated[
    dict[str, Any],
    Flags(
        of=Outcomes.open,
        only=("filter", "metric", "unparsed", "group", "columns"),
        without=("totals",),
        names={"columns": "--column"},
    ),
]
"""How scores are read: the options of all commands that take scores of models."""


@app.command()
@spread
def gate(
    baseline: Annotated[
        str,
        typer.Argument(metavar="BASELINE", help="Logs or table of one run; FILE::MODEL of a file with several."),
    ],
    candidate: Annotated[list[str], typer.Argument(metavar="CANDIDATE", help="Another run, or several of them.")],
    reading: ScoreReading,
    output: Output,
    margin: Annotated[float, typer.Option("--margin", help="The drop that is accepted, in points.")] = 1.0,
    history: Annotated[
        str | None,
        typer.Option(
            "--history", metavar="FOLDER", help="Past runs of the baseline, each in a file or folder of it."
        ),
    ] = None,
    cannot_tell: Annotated[
        str,
        typer.Option("--cannot-tell", metavar="fail|pass", help="Exit with 1 or 0, not 3, where it cannot tell."),
    ] = "",
) -> None:
    """Is a new run worse than the baseline? Exit code 0: pass, 1: fail, 3: cannot tell, 2: bad input.

    --out writes card.md (Markdown), junit.xml and report.json.

    Example: [bold]hardpan gate logs/main logs/candidate --margin 1 --history logs/nightly --out gate[/bold]
    """
    result = gate_of_runs(
        baseline,
        candidate,
        margin=margin / 100,
        history=history,
        group=reading["group"],
        cannot_tell=cannot_tell,
        reading=reading,
    )
    settings = {"baseline": baseline, "candidate": candidate, "margin": margin, "history": history, **reading}
    emit_report(result, json=output.json, out=output.out, options=settings | {"cannot_tell": cannot_tell})
    if result.exit_code:
        raise typer.Exit(result.exit_code)
