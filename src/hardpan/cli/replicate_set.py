"""From votes to the frozen set on the command line: sample, what-if, duplicates, review, assemble, verify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from hardpan import numbers, replicate
from hardpan.cli.common import JsonFlag, Seed, check_out, emit, progress_on_stderr
from hardpan.cli.replicate_shared import DatabaseUrl, ProjectFolder, opened, write_page
from hardpan.errors import InputError

PerClass = Annotated[int, typer.Option("--per-class", min=1, help="Images of each class.")]


def register(app: typer.Typer) -> None:
    """Add these commands to the group."""
    app.command()(sample)
    app.command("what-if")(what_if)
    app.command()(duplicates)
    app.command()(review)
    app.command()(assemble)
    app.command()(verify)


def sample(
    folder: ProjectFolder,
    strategy: Annotated[str, typer.Option("--strategy", help="matched, threshold or top.")] = "matched",
    per_class: PerClass = 10,
    threshold: Annotated[float, typer.Option("--threshold", help="Smallest frequency for threshold.")] = 0.7,
    min_votes: Annotated[int, typer.Option("--min-votes", min=0, help="Fewest votes an image needs.")] = 10,
    source: Annotated[
        str, typer.Option("--from", help="votes, or selection (first selector and reviewer).")
    ] = "votes",
    without_flagged: Annotated[
        bool, typer.Option("--without-flagged", help="Leave out workers who fail the controls.")
    ] = False,
    database_url: DatabaseUrl = "",
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Draw the new set.

    Example: [bold]hardpan replicate sample new-digits --strategy matched --per-class 10[/bold]
    """
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        progress("counting votes and drawing", 0.0)
        drawn = replicate.draw_sample(
            project,
            strategy=strategy,
            per_class=per_class,
            threshold=threshold,
            seed=seed,
            min_votes=min_votes,
            source=source,
            without_flagged=without_flagged,
        )
    lines = [
        f"{len(drawn.images):,} images, average selection frequency {numbers.plain(drawn.average_frequency)}; "
        f"{len(drawn.fills)} fills, "
        f"{sum(item.missing for item in drawn.shortfalls)} places empty",
        *(f"  {item.id} ({item.class_name}): {item.fill}" for item in drawn.fills[:20]),
        *(f"  {note}" for note in drawn.notes[:20]),
    ]
    emit(drawn, as_json, Text("\n".join(lines)))


def what_if(
    folder: ProjectFolder,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Folder for the page.")] = None,
    per_class: PerClass = 10,
    predictions: Annotated[
        Path | None,
        typer.Option(
            "--predictions", help="Table: id, a column a model, every candidate. Only after assemble; logged."
        ),
    ] = None,
    database_url: DatabaseUrl = "",
    as_json: JsonFlag = False,
) -> None:
    """Size and average frequency at every threshold.

    Example: [bold]hardpan replicate what-if new-digits --out what-if[/bold]
    """
    check_out(out)
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        progress("counting votes", 0.0)
        found = replicate.project_what_if(project, per_class, predictions=predictions)
        name = project.config.name
        progress("drawing the page", 0.5)
        section = replicate.what_if_section(found)
        told = ""
        if out is not None:
            told = f"Page: {write_page(out, section, found, f'What if: {name}', section.charts[0].title)}"
    table = RichTable(*section.tables[0].columns, title="Thresholds", title_justify="left")
    for row in section.tables[0].rows:
        table.add_row(*("" if value is None else str(value) for value in row))
    emit(found, as_json, Group(table, Text(told)))


def duplicates(
    folder: ProjectFolder,
    k: Annotated[int, typer.Option("-k", min=1, help="Nearest images to review, by each measure.")] = 10,
    database_url: DatabaseUrl = "",
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Queue possible near-duplicates of the sample.

    Example: [bold]hardpan replicate duplicates new-digits[/bold]
    """
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        found = replicate.find_duplicates(project, k=k, seed=seed, progress=progress)
        queue = replicate.duplicate_queue(project, most=10)
    table = RichTable("image", "nearest", "where", "l2", "SSIM", title="Most similar pairs", title_justify="left")
    for item in queue:
        table.add_row(item.image_id, escape(item.other_id), item.place, f"{item.l2:.1f}", f"{item.ssim:.3f}")
    recall = (
        ""
        if found.recall is None
        else f"; the filter before SSIM finds {numbers.estimate(found.recall)} of the nearest"
    )
    if found.close_recall is not None:
        recall += f", and {numbers.estimate(found.close_recall)} of those above 0.6"
    text = f"{found.images:,} images against {found.references:,} originals: {found.new_pairs:,} new pairs{recall}"
    emit(found, as_json, Group(table, Text(text)))


def review(
    folder: ProjectFolder,
    decisions: Annotated[
        Path | None, typer.Option("--decisions", help="CSV: step, subject, verdict (duplicate, final-review, ...).")
    ] = None,
    learn: Annotated[
        bool, typer.Option("--learn", help="Learn a threshold from decisions, with its recall.")
    ] = False,
    keep_rest: Annotated[
        bool, typer.Option("--keep-rest", help="With --learn: keep undecided pairs below the threshold.")
    ] = False,
    export: Annotated[Path | None, typer.Option("--export", help="Write the waiting pairs to this CSV.")] = None,
    database_url: DatabaseUrl = "",
    as_json: JsonFlag = False,
) -> None:
    """Take decisions in, remove, draw again.

    Example: [bold]hardpan replicate review new-digits --decisions decisions.csv[/bold]
    """
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        lines = []
        if decisions is not None:
            lines.append(f"{replicate.read_decisions(project, decisions):,} decisions taken in")
        if learn:
            found = replicate.learn_threshold(project)
            lines.append(
                f"a threshold from {found.decisions} decisions finds {numbers.estimate(found.recall)} of the "
                f"removed pairs; "
                f"{found.undecided_above:,} undecided pairs lie above it, {found.undecided_below:,} below"
            )
            if keep_rest:
                lines.append(f"{replicate.keep_below(project, found):,} pairs below it kept")
        elif keep_rest:
            raise InputError("--keep-rest needs --learn: without a threshold there is no rest")
        progress("removing and drawing again", 0.5)
        resolved = replicate.resolve_duplicates(project)
        if export is not None:
            lines.append(f"{replicate.write_queue(project, export):,} pairs written to {export}")
    lines.append(
        f"{len(resolved.removed)} removed, {len(resolved.added)} drawn in their place, "
        f"{resolved.undecided:,} pairs wait" + ("; nothing left to change" if resolved.stable else "")
    )
    emit(resolved, as_json, Text("\n".join(lines)))


def assemble(
    folder: ProjectFolder,
    formats: Annotated[str, typer.Option("--formats", help="Some of npz,folder,idx.")] = "npz,folder,idx",
    author: Annotated[str, typer.Option("--author", help="Who publishes the set.")] = "",
    license_: Annotated[str, typer.Option("--license", help="Its licence.")] = "",
    unreviewed_ok: Annotated[
        bool,
        typer.Option("--unreviewed-ok", help="Freeze it although possible near-duplicates wait; they are named."),
    ] = False,
    database_url: DatabaseUrl = "",
    as_json: JsonFlag = False,
) -> None:
    """Write the set with its datasheet and freeze it.

    Example: [bold]hardpan replicate assemble new-digits[/bold]
    """
    wanted = tuple(part.strip() for part in formats.split(",") if part.strip())
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        made = replicate.assemble(
            project,
            formats=wanted,
            author=author,
            license_=license_,
            unreviewed_ok=unreviewed_ok,
            progress=progress,
        )
    lineage = made.lineage
    lines = [f"{lineage.images:,} images in {len(lineage.per_class)} classes: {made.folder} (frozen)"]
    lines += [f"  {warning}" for warning in made.warnings[:20]]
    emit(made, as_json, Text("\n".join(lines)))


def verify(folder: ProjectFolder, database_url: DatabaseUrl = "", as_json: JsonFlag = False) -> None:
    """Replay the lineage; exit code 2 when something differs.

    Example: [bold]hardpan replicate verify new-digits[/bold]
    """
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        found = replicate.verify(project, progress=progress)
    lines = [*found.checks, *(f"problem: {item}" for item in found.problems[:50])]
    lines.append("verified" if found.ok else "NOT verified")
    emit(found, as_json, Text("\n".join(lines)))
    if not found.ok:
        raise typer.Exit(2)
