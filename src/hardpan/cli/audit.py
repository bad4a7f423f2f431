"""``hardpan audit``: one dataset in, one page out."""

from __future__ import annotations

import typer

app = typer.Typer()


@app.command()
def audit(data: str) -> None:
    """Audit a dataset."""
