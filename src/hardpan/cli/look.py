"""``hardpan PATH``: what something is, and which command answers which question with it."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from hardpan.cli.common import JsonFlag, emit_report
from hardpan.cli.decorators import spread
from hardpan.errors import InputError
from hardpan.recognition import look as recognise

app = typer.Typer(rich_markup_mode="rich")


@app.command()
@spread
def look(
    source: Annotated[
        str, typer.Argument(metavar="PATH", help="Data, predictions, scores, votes, or a folder of hardpan.")
    ],
    go: Annotated[bool, typer.Option("--go", help="Run the first command that needs nothing further.")] = False,
    json: JsonFlag = False,
) -> None:
    """Say what a path is, what can be asked of it, and the command of each question.

    Example: [bold]hardpan results/ --go[/bold]
    """
    found = recognise(source)
    if not go:
        emit_report(found, json=json)
        return
    if not found.ready:
        raise InputError(f": every command for {source} needs a further argument; leave --go out", argument="--go")
    from hardpan.cli import main

    typer.echo(found.ready, err=True)
    main([*shlex.split(found.ready)[1:], *(["--json"] if json else [])])
