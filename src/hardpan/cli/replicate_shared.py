"""What the commands of ``hardpan replicate`` share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from hardpan import replicate

ProjectFolder = Annotated[Path, typer.Argument(metavar="PROJECT", help="Folder of the project.")]
DatabaseUrl = Annotated[
    str,
    typer.Option("--database-url", help="PostgreSQL address, such as postgresql://user@host/name; else SQLite."),
]


@contextmanager
def opened(folder: Path, database_url: str = "") -> Iterator[replicate.Project]:
    """Open a project, and close its database at the end."""
    project = replicate.open_project(folder, database_url=database_url)
    try:
        yield project
    finally:
        project.close()
