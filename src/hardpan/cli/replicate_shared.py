"""What the commands of ``hardpan replicate`` share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from hardpan import files, replicate
from hardpan.errors import InputError
from hardpan.report.sections import Section

ProjectFolder = Annotated[Path, typer.Argument(metavar="PROJECT", help="Folder of the project.")]
DatabaseUrl = Annotated[
    str,
    typer.Option("--database-url", help="PostgreSQL address, such as postgresql://user@host/name; else SQLite."),
]


@contextmanager
def plainly(folder: Path) -> Iterator[None]:
    """Say in one sentence that the disk is full, that a file may not be written, or that the database gave up."""
    try:
        yield
    except OSError as error:
        reason = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
        raise InputError(
            f"{folder}: stopped ({reason}); what was done before is kept: mend that and run the same again"
        ) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "sqlalchemy":
            raise
        reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        raise InputError(
            f"{folder}: the database gave up ({reason}); what was done before is kept: mend that and run the "
            "same again"
        ) from error


@contextmanager
def opened(folder: Path, database_url: str = "") -> Iterator[replicate.Project]:
    """Open a project, and close its database at the end."""
    with plainly(folder):
        project = replicate.open_project(folder, database_url=database_url)
        try:
            yield project
        finally:
            project.close()


def write_page(out: Path, section: Section, found: Any, title: str, headline: str) -> Path:
    """Write ``index.html`` with one section and ``report.json``; gives the page's path."""
    from hardpan.report import page
    from hardpan.report.files import write_together

    contents = {
        "index.html": page([section], title=title, headline=headline),
        "report.json": files.dumps(files.to_json(found)) + "\n",
    }
    write_together(out, contents)
    return out / "index.html"
