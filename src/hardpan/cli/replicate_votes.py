"""Votes on the command line: import, export, and what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table as RichTable
from rich.text import Text

from hardpan import numbers, replicate
from hardpan.cli.common import JsonFlag, emit, progress_on_stderr
from hardpan.cli.replicate_shared import DatabaseUrl, ProjectFolder, opened
from hardpan.estimates import Estimate
from hardpan.report.sections import Section


def register(app: typer.Typer) -> None:
    """Add these commands to the group."""
    app.command()(votes)
    app.command()(frequencies)


def votes(
    folder: ProjectFolder,
    export: Annotated[
        Path | None, typer.Option("--export", help="Write every vote to this .csv or .parquet.")
    ] = None,
    import_: Annotated[
        Path | None, typer.Option("--import", help="Add votes: image_id, class, worker, selected (CSV or Parquet).")
    ] = None,
    platform: Annotated[str, typer.Option("--platform", help="Where imported votes come from.")] = "",
    database_url: DatabaseUrl = "",
    as_json: JsonFlag = False,
) -> None:
    """Exchange votes with other platforms.

    Example: [bold]hardpan replicate votes new-digits --export votes.csv[/bold]
    """
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        progress("reading votes", 0.0)
        told = []
        if import_ is not None:
            new, known = replicate.read_votes(project, import_, platform=platform)
            told.append(f"{new:,} votes added, {known:,} there already")
        if export is not None:
            told.append(f"{replicate.export_votes(project, export):,} votes written to {export}")
        found = replicate.project_status(project)
    told.append(f"{found.votes:,} votes by {found.workers:,} workers")
    emit(Section("Votes", tuple(told)), as_json, Text("\n".join(told)))


def frequencies(
    folder: ProjectFolder,
    out: Annotated[Path | None, typer.Option("--out", metavar="CSV", help="Write every frequency here.")] = None,
    minimum: Annotated[
        float, typer.Option("--min-informedness", help="Workers whose upper limit lies below it are flagged.")
    ] = 0.5,
    database_url: DatabaseUrl = "",
    as_json: JsonFlag = False,
) -> None:
    """Selection frequencies, workers on controls, agreement.

    Example: [bold]hardpan replicate frequencies new-digits[/bold]
    """
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        progress("counting votes", 0.0)
        quality = replicate.annotation_quality(project, min_informedness=minimum)
        names = [item.name for item in project.classes]
        if out is not None:
            replicate.write_frequencies(quality, names, out)
    table = RichTable("images", "count", "average selection frequency", title="Frequencies", title_justify="left")
    for role, estimate in quality.average.items():
        table.add_row(role, f"{estimate.n:,}", _shown(estimate))
    lines = [
        f"{len(quality.workers)} workers, {len(quality.flagged)} fail the controls",
        f"Krippendorff's α on candidates: {_shown(quality.alpha)}; without flagged workers: "
        f"{_shown(quality.alpha_unflagged)}",
    ]
    lines += [
        f"  {item.worker_id}: {item.hits} of {item.positives} positive controls, "
        f"{item.false_alarms} of {item.negatives} negative ones selected"
        for item in [worker for worker in quality.workers if worker.flagged][:20]
    ]
    emit(quality, as_json, Group(table, Text("\n".join(lines))))


def _shown(item: Estimate | None) -> str:
    return "not known yet" if item is None else numbers.plain(item)
