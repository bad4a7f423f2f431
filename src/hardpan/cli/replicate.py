"""``hardpan replicate``: rebuild a test set, from candidate images to a frozen, documented set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from hardpan import replicate
from hardpan.cli.common import JsonFlag, Seed, emit, progress_on_stderr
from hardpan.cli.replicate_people import register as register_people
from hardpan.cli.replicate_set import register as register_set
from hardpan.cli.replicate_shared import DatabaseUrl, ProjectFolder, opened, plainly
from hardpan.cli.replicate_votes import register as register_votes
from hardpan.report.sections import Section, Table

app = typer.Typer(
    help="Rebuild a test set: pool, annotation, sampling, duplicates, assembly.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
# Help lists the commands in the order in which a project needs them.
ORDER = (
    *("init", "demo", "status", "add", "subclasses", "tasks", "serve", "votes", "frequencies", "sample", "what-if"),
    *("duplicates", "review", "assemble", "verify", "experiment"),
)


@app.command()
def init(
    folder: ProjectFolder,
    original: Annotated[str, typer.Option("--original", metavar="DATA", help="Data whose test set is rebuilt.")],
    classes: Annotated[
        Path | None, typer.Option("--classes", help="CSV: class, definition, link, nearby (names with ;).")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="What to call the new set.")] = "",
    grid: Annotated[int, typer.Option("--grid", min=3, help="Images a task.")] = 48,
    positives: Annotated[int, typer.Option("--positives", min=1, help="Hidden originals of the class a task.")] = 3,
    negatives: Annotated[int, typer.Option("--negatives", min=1, help="Hidden originals of a nearby class.")] = 3,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Workers wanted for each image.")] = 10,
    originals: Annotated[int, typer.Option("--originals", min=1, help="Originals of each class to annotate.")] = 20,
    lease: Annotated[float, typer.Option("--lease", min=1, help="Seconds a worker may hold a task.")] = 1800.0,
    database_url: DatabaseUrl = "",
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Begin a project.

    Example: [bold]hardpan replicate init new-digits --original digits[/bold]
    """
    with plainly(folder), progress_on_stderr() as progress:
        progress("reading the original data", 0.0)
        project, token = replicate.create_project(
            folder,
            original,
            classes,
            name=name,
            database_url=database_url,
            grid=grid,
            positives=positives,
            negatives=negatives,
            workers_per_image=workers,
            originals_per_class=originals,
            lease_seconds=lease,
            seed=seed,
        )
        status = replicate.project_status(project)
        project.close()
    told = f"\nowner's token (shown once; keep it): {token}" if token else ""
    shown = f"{folder}: {status.originals:,} originals in {status.classes} classes{told}\nnext: {status.next}"
    if as_json and token:
        typer.echo(f"owner's token (shown once; keep it): {token}", err=True)
    emit(status, as_json, Text(shown))


@app.command()
def demo(
    folder: ProjectFolder,
    annotators: Annotated[
        int, typer.Option("--annotators", min=0, help="Simulated annotators who do all tasks; every sixth guesses.")
    ] = 0,
    database_url: DatabaseUrl = "",
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Make a small project of digits to try things on.

    Example: [bold]hardpan replicate demo new-digits --annotators 24[/bold]
    """
    from hardpan.replicate import simulate

    with plainly(folder), progress_on_stderr() as progress:
        progress("making a project of digits", 0.0)
        project, token = simulate.demo_project(folder, database_url=database_url, seed=seed)
        if annotators and token:  # a project that was there already keeps its votes
            progress("annotating", 0.3)
            simulate.annotate_demo(project, annotators, seed=seed)
        status = replicate.project_status(project)
        project.close()
    told = f"owner's token (shown once; keep it): {token}" if token else "the project was there already"
    if as_json:
        typer.echo(told, err=True)
    emit(
        status,
        as_json,
        Text(f"{folder}: {status.votes:,} votes in {status.tasks} tasks\n{told}\nnext: {status.next}"),
    )


@app.command()
def add(
    folder: ProjectFolder,
    source: Annotated[Path, typer.Argument(help="Folder (CLASS/[KEYWORD/]picture), CSV or Parquet file.")],
    class_name: Annotated[str, typer.Option("--class", help="Class of pictures that have none.")] = "",
    keyword: Annotated[str, typer.Option("--keyword", help="Keyword of pictures that have none.")] = "",
    database_url: DatabaseUrl = "",
    as_json: JsonFlag = False,
) -> None:
    """Put candidates into the pool.

    Example: [bold]hardpan replicate add new-digits pictures/[/bold]
    """
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        report = replicate.add_candidates(
            project, source, class_name=class_name, keyword=keyword, progress=progress
        )
    lines = [
        f"{report.read:,} read, {report.added:,} added, {report.repeated:,} there already, "
        f"{report.in_original:,} copies of originals left out, {len(report.broken):,} not usable"
    ]
    lines += [f"  {item}" for item in report.broken[:20]]
    if len(report.broken) > 20:
        lines.append(f"  and {len(report.broken) - 20:,} more (--json lists all)")
    if report.without_class:
        lines.append(f"{report.without_class:,} have no class yet: give --class, or run subclasses")
    emit(report, as_json, Text("\n".join(lines)))


@app.command()
def subclasses(
    folder: ProjectFolder,
    per_class: Annotated[int, typer.Option("--per-class", min=1, help="New images wanted of each class.")],
    source: Annotated[
        Path | None,
        typer.Option("--source", help="Labelled pictures: originals get the keyword of an exact match."),
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Keywords kept a class.")] = 25,
    first_date: Annotated[str, typer.Option("--from", help="Set candidates before this date aside.")] = "",
    last_date: Annotated[str, typer.Option("--to", help="Set candidates after this date aside.")] = "",
    database_url: DatabaseUrl = "",
    as_json: JsonFlag = False,
) -> None:
    """Find originals' keywords and what each should give.

    Example: [bold]hardpan replicate subclasses new-cats --per-class 200[/bold]
    """
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        report = replicate.find_subclasses(
            project,
            source,
            per_class=per_class,
            top=top,
            first_date=first_date,
            last_date=last_date,
            progress=progress,
        )
    table = RichTable(
        "class", "keyword", "originals", "quota", "supply", "used", title="Keywords", title_justify="left"
    )
    for item in report.keywords:
        used = f"{100 * item.used:.0f} %" if item.supply else "none there"
        counts = (f"{item.originals:,}", f"{item.quota:,}", f"{item.supply:,}")
        table.add_row(escape(item.class_name), escape(item.keyword), *counts, used)
    covered = ", ".join(f"{name} {100 * share:.1f} %" for name, share in report.coverage.items())
    text = f"{report.matched:,} originals have a keyword, {report.unmatched:,} have none; covered: {covered}"
    text += f"\n{report.outside:,} candidates lie outside the dates" if report.outside else ""
    emit(report, as_json, Group(table, Text(text)))


@app.command()
def tasks(
    folder: ProjectFolder,
    similarity: Annotated[Path | None, typer.Option("--similarity", help="CSV: class, other, similarity.")] = None,
    hierarchy: Annotated[Path | None, typer.Option("--hierarchy", help="CSV: child, parent.")] = None,
    top_up: Annotated[
        bool, typer.Option("--top-up", help="Also ask for more workers where some fail the controls.")
    ] = False,
    database_url: DatabaseUrl = "",
    as_json: JsonFlag = False,
) -> None:
    """Make grid tasks for candidates that are in none.

    Example: [bold]hardpan replicate tasks new-digits[/bold]
    """
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        progress("planning tasks", 0.0)
        made = replicate.make_tasks(project, similarity=similarity, hierarchy=hierarchy)
        more = replicate.top_up(project) if top_up else 0
    rows = tuple((name, count) for name, count in made.annotated_originals.items())
    section = Section(
        "Tasks",
        (f"{made.tasks} new tasks with {made.candidates:,} candidates; {more} more workers asked for.",),
        tables=(Table("Originals to be annotated", ("class", "originals"), rows),),
        warnings=made.notes,
    )
    emit(section, as_json, Text("\n".join((*section.sentences, *made.notes))))


@app.command()
def status(folder: ProjectFolder, database_url: DatabaseUrl = "", as_json: JsonFlag = False) -> None:
    """Show where a project stands and what comes next.

    Example: [bold]hardpan replicate status new-digits[/bold]
    """
    with opened(folder, database_url) as project:
        found = replicate.project_status(project)
    table = RichTable(show_header=False, box=None, title=escape(found.name), title_justify="left")
    table.add_row("originals", f"{found.originals:,} in {found.classes} classes")
    table.add_row("candidates", f"{found.candidates:,}")
    if found.keywords_short:
        table.add_row("keywords left short", f"{found.keywords_short:,}")
    table.add_row("tasks", f"{found.tasks_complete:,} of {found.tasks:,} complete")
    table.add_row("votes", f"{found.votes:,} by {found.workers:,} workers")
    missing = f", {found.sample_missing} places empty" if found.sample_missing else ""
    table.add_row("sample", f"{found.sample:,} images{missing}" if found.sample or missing else "none yet")
    table.add_row("to review", f"{found.pairs_waiting:,} pairs, {found.reviews_waiting:,} images")
    table.add_row("set", "frozen" if found.frozen else "open")
    table.add_row("next", escape(found.next))
    emit(found, as_json, table)


def _add_serve() -> None:
    """The server's command lives apart, so that these commands work without its packages."""
    try:
        from hardpan.cli import replicate_serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("hardpan", "starlette", "uvicorn"):
            return
        raise
    replicate_serve.register(app)


def _name(command: typer.models.CommandInfo) -> str:
    return command.name or str(getattr(command.callback, "__name__", ""))


register_votes(app)
register_set(app)
register_people(app)
_add_serve()
app.registered_commands.sort(key=lambda command: ORDER.index(_name(command)))
