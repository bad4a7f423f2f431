"""``hardpan replicate experiment``: people on the hardest images of both sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table as RichTable
from rich.text import Text

from hardpan import replicate
from hardpan.cli.common import JsonFlag, Seed, check_out, emit, progress_on_stderr
from hardpan.cli.replicate_shared import DatabaseUrl, ProjectFolder, opened, write_page
from hardpan.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the command to the group."""
    app.command()(experiment)


def experiment(
    folder: ProjectFolder,
    predictions: Annotated[
        list[Path] | None,
        typer.Option(
            "--predictions",
            help="Models' predictions: id and a column a model, a store, or a testbed file. Repeatable; logged.",
        ),
    ] = None,
    fraction: Annotated[float, typer.Option("--fraction", help="Share of each set, hardest first.")] = 0.05,
    per_class: Annotated[
        int | None, typer.Option("--per-class", min=1, help="Instead: so many of each class and set.")
    ] = None,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Instead: so many of each set.")] = None,
    results: Annotated[bool, typer.Option("--results", help="Print what people answered (Table 3).")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="With --results: folder for the page.")
    ] = None,
    database_url: DatabaseUrl = "",
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Ask people about the hardest images of both sets.

    Example: [bold]hardpan replicate experiment new-digits --per-class 2[/bold]

    Without --predictions the hardest images are those that the fewest annotators selected. Participants come by
    links of the owner's page of serve; they see one image at a time, each in an order of their own, and nothing
    tells which set it comes from. Then: hardpan replicate experiment new-digits --results
    """
    if results:
        _results(folder, out, database_url, seed, as_json)
        return
    if out is not None:
        raise InputError("--out needs --results: before people have answered there is nothing to show")
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        progress("choosing the hardest images", 0.0)
        begun = replicate.begin_experiment(
            project, predictions or (), fraction=fraction, per_class=per_class, count=count, seed=seed
        )
    unit = f" of {len(begun.models)} models right" if begun.models else " selection frequency"
    table = RichTable("set", "questions", "out of", "hardest up to", title="Experiment", title_justify="left")
    for side, ids, total, edge in (
        ("original", begun.original, begun.original_total, begun.original_edge),
        ("new", begun.new, begun.new_total, begun.new_edge),
    ):
        table.add_row(
            side, f"{len(ids):,}", f"{total:,}", f"{edge:g}{unit}" if begun.models else f"{edge:.2f}{unit}"
        )
    told = "\n".join(
        (*begun.notes, f"next: invite participants on the owner's page: hardpan replicate serve {folder}")
    )
    emit(begun, as_json, Group(table, Text(told)))


def _results(folder: Path, out: Path | None, database_url: str, seed: int, as_json: bool) -> None:
    check_out(out)
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        progress("counting answers", 0.0)
        found = replicate.experiment_results(project, seed=seed)
        lines = list(found.notes)
        if out is not None:
            progress("drawing the page", 0.5)
            section, title = replicate.experiment_section(found), f"People: {project.config.name}"
            headline = "People on the hardest images of both sets"
            lines.append(f"Page: {write_page(out, section, found, title, headline)}")
    emit(found, as_json, Group(found, Text("\n".join(lines))))
