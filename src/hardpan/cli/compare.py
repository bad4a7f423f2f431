"""``hardpan compare``: audits side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from hardpan.cli.decorators import reporting
from hardpan.report import Report

app = typer.Typer(rich_markup_mode="rich")


@app.command()
@reporting
def compare(
    folders: Annotated[
        list[str],
        typer.Argument(metavar="A B ...", help="Folders of two or more audits (hardpan audit --out DIR)."),
    ],
) -> Report:
    """Compare audits: two datasets, one dataset before and after cleaning, or several ranked by difficulty.

    Example: [bold]hardpan compare audits/mnist audits/fashion-mnist --out audits/compared[/bold]
    """
    from hardpan import auditing

    return auditing.compare([auditing.read_audit(folder) for folder in folders])
