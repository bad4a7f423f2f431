"""``hardpan replicate``: build a new test set, from candidate images to a frozen, documented set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hardpan.cli.common import JsonFlag, OutFolder, Seed, check_out, emit_report, progress_on_stderr
from hardpan.cli.options import reporting
from hardpan.errors import InputError
from hardpan.report.base import Report

if TYPE_CHECKING:
    from hardpan.replicate import Project

app = typer.Typer(
    help="Rebuild a test set: pool, annotation, sampling, duplicates, assembly.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
ProjectPath = Annotated[Path, typer.Argument(metavar="PROJECT", help="Folder of the project.")]
DatabaseUrl = Annotated[
    str,
    typer.Option(
        "--database-url", help="PostgreSQL address, such as postgresql://user@host/name; default: SQLite."
    ),
]
PerClass = Annotated[int, typer.Option("--per-class", min=1, help="Images of each class.")]


@contextmanager
def plainly(folder: Path) -> Iterator[None]:
    """Say in one sentence that the disk is full, that a file may not be written, or that the database failed."""
    again = "what was done before is kept; fix that and run the same command again to resume"
    try:
        yield
    except OSError as error:
        reason = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
        raise InputError(f"{folder}: stopped ({reason}); {again}") from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "sqlalchemy":
            raise
        reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        raise InputError(f"{folder}: the database failed ({reason}); {again}") from error


@contextmanager
def opened(folder: Path, database_url: str = "") -> Iterator[Project]:
    """Open a project, and close its database at the end."""
    from hardpan.replicate import Project

    with plainly(folder):
        project = Project.open(folder, database_url=database_url)
        try:
            yield project
        finally:
            project.close()


@app.command()
def init(
    folder: ProjectPath,
    original: Annotated[str, typer.Option("--original", metavar="DATA", help="Data whose test set is rebuilt.")],
    classes: Annotated[
        Path | None, typer.Option("--classes", help="CSV: class, definition, link, nearby (names separated by ;).")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Name of the new set.")] = "",
    grid: Annotated[int, typer.Option("--grid", min=3, help="Images per task.")] = 48,
    positives: Annotated[
        int, typer.Option("--positives", min=1, help="Hidden originals of the class per task.")
    ] = 3,
    negatives: Annotated[
        int, typer.Option("--negatives", min=1, help="Hidden originals of a nearby class per task.")
    ] = 3,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Workers per image.")] = 10,
    originals: Annotated[int, typer.Option("--originals", min=1, help="Originals of each class to annotate.")] = 20,
    lease: Annotated[float, typer.Option("--lease", min=1, help="Seconds that a worker may keep a task.")] = 1800.0,
    database_url: DatabaseUrl = "",
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Create a project.

    Example: [bold]hardpan replicate init new-digits --original digits[/bold]
    """
    from hardpan.replicate import Project

    with plainly(folder), progress_on_stderr() as progress:
        progress("reading the original data", 0.0)
        project = Project.create(
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
        status = project.status()
        project.close()
    emit_report(status, json=as_json)


@app.command()
def demo(
    folder: ProjectPath,
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
        project = simulate.demo_project(folder, database_url=database_url, seed=seed)
        if annotators and not project.status().votes:  # a project that was there already keeps its votes
            progress("annotating", 0.3)
            simulate.annotate_demo(project, annotators, seed=seed)
        status = project.status()
        project.close()
    emit_report(status, json=as_json)


@app.command()
def status(folder: ProjectPath, database_url: DatabaseUrl = "", as_json: JsonFlag = False) -> None:
    """Show the state of a project and the next command.

    Example: [bold]hardpan replicate status new-digits[/bold]
    """
    with opened(folder, database_url) as project:
        emit_report(project.status(), json=as_json)


@app.command()
def add(
    folder: ProjectPath,
    source: Annotated[Path, typer.Argument(help="Folder (CLASS/[KEYWORD/]picture), CSV or Parquet file.")],
    class_name: Annotated[str, typer.Option("--class", help="Class of pictures that have none.")] = "",
    keyword: Annotated[str, typer.Option("--keyword", help="Keyword of pictures that have none.")] = "",
    database_url: DatabaseUrl = "",
    as_json: JsonFlag = False,
) -> None:
    """Add candidates to the pool.

    Example: [bold]hardpan replicate add new-digits pictures/[/bold]
    """
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        added = project.add_candidates(source, class_name=class_name, keyword=keyword, progress=progress)
    emit_report(added, json=as_json)


@app.command()
def subclasses(
    folder: ProjectPath,
    per_class: Annotated[int, typer.Option("--per-class", min=1, help="New images needed of each class.")],
    source: Annotated[
        Path | None,
        typer.Option("--source", help="Labelled pictures: originals get the keyword of an exact match."),
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Keywords to keep per class.")] = 25,
    first_date: Annotated[str, typer.Option("--from", help="Set candidates before this date aside.")] = "",
    last_date: Annotated[str, typer.Option("--to", help="Set candidates after this date aside.")] = "",
    database_url: DatabaseUrl = "",
    as_json: JsonFlag = False,
) -> None:
    """Find the keywords of the originals and the quota of each.

    Example: [bold]hardpan replicate subclasses new-cats --per-class 200[/bold]
    """
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        result = project.find_subclasses(
            source, per_class=per_class, top=top, first_date=first_date, last_date=last_date, progress=progress
        )
    emit_report(result, json=as_json)


@app.command()
def tasks(
    folder: ProjectPath,
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
        made = project.make_tasks(similarity=similarity, hierarchy=hierarchy, replace_failing=top_up)
    emit_report(made, json=as_json)


@app.command()
def serve(
    folder: ProjectPath,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free port.")] = 8000,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 accepts other machines.")] = "127.0.0.1",
    database_url: DatabaseUrl = "",
    workers_expected: Annotated[
        int, typer.Option(min=1, help="How many annotators the printed invitation admits.")
    ] = 100,
    address: Annotated[
        str, typer.Option(help="What people type, if a proxy is in front: https://label.example.org.")
    ] = "",
    trusted_proxy: Annotated[
        str,
        typer.Option(help="Address of that proxy; X-Forwarded-For is accepted only from it. Default: from none."),
    ] = "",
    new_owner_link: Annotated[
        bool, typer.Option("--new-owner-link", help="Make and print a new owner's link; the old one ends.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print address and links as JSON, alone on stdout, at the start.")
    ] = False,
) -> None:
    """Serve the annotation, review and owner's pages of a project until Ctrl-C.

    The owner's link is printed at the first start. Annotators enter by the invitation link; more links, also for
    selectors, reviewers and participants, are made on the owner's page.

    Example: [bold]hardpan replicate serve PROJECT --port 8000[/bold]
    """
    with opened(folder, database_url) as project:
        project.serve(
            port=port,
            host=host,
            workers_expected=workers_expected,
            address=address,
            trusted_proxy=trusted_proxy,
            new_owner_link=new_owner_link,
            json=as_json,
        )
    typer.echo("Stopped; every confirmed answer is stored.", err=as_json)


@app.command()
def votes(
    folder: ProjectPath,
    export: Annotated[
        Path | None, typer.Option("--export", help="Write every vote to this .csv or .parquet file.")
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
    from hardpan.replicate.votes import VoteSummary

    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        progress("reading votes", 0.0)
        new, known = project.import_votes(import_, platform=platform) if import_ is not None else (0, 0)
        written = project.export_votes(export) if export is not None else 0
        state = project.status()
    emit_report(VoteSummary(new, known, written, state.votes, state.workers), json=as_json)


@app.command()
def frequencies(
    folder: ProjectPath,
    out: Annotated[Path | None, typer.Option("--out", metavar="CSV", help="Write every frequency here.")] = None,
    minimum: Annotated[
        float, typer.Option("--min-informedness", help="Workers whose upper limit is below it fail the controls.")
    ] = 0.5,
    database_url: DatabaseUrl = "",
    as_json: JsonFlag = False,
) -> None:
    """Selection frequencies, workers on controls, agreement.

    Example: [bold]hardpan replicate frequencies new-digits[/bold]
    """
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        progress("counting votes", 0.0)
        quality = project.quality(min_informedness=minimum)
        if out is not None:
            project.export_frequencies(out, quality)
    emit_report(quality, json=as_json)


@app.command()
def sample(
    folder: ProjectPath,
    strategy: Annotated[str, typer.Option("--strategy", help="matched, threshold or top.")] = "matched",
    per_class: PerClass = 10,
    threshold: Annotated[float, typer.Option("--threshold", help="Smallest frequency for threshold.")] = 0.7,
    min_votes: Annotated[int, typer.Option("--min-votes", min=0, help="Fewest votes that an image needs.")] = 10,
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
        result = project.sample(
            strategy=strategy,
            per_class=per_class,
            threshold=threshold,
            seed=seed,
            min_votes=min_votes,
            source=source,
            without_flagged=without_flagged,
        )
    emit_report(result, json=as_json)


@app.command("threshold-sweep")
@reporting
def threshold_sweep(
    folder: ProjectPath,
    per_class: PerClass = 10,
    predictions: Annotated[
        Path | None,
        typer.Option(
            "--predictions", help="Table: id, one column per model, every candidate. Only after assemble; logged."
        ),
    ] = None,
    database_url: DatabaseUrl = "",
) -> Report:
    """Size and average frequency of the set at every threshold.

    Example: [bold]hardpan replicate threshold-sweep new-digits --out sweep[/bold]
    """
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        progress("counting votes", 0.0)
        return project.threshold_sweep(per_class, predictions=predictions)


@app.command()
def duplicates(
    folder: ProjectPath,
    k: Annotated[int, typer.Option("-k", min=1, help="Nearest images to review, by each measure.")] = 10,
    database_url: DatabaseUrl = "",
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Queue possible near-duplicates of the sample for review.

    Example: [bold]hardpan replicate duplicates new-digits[/bold]
    """
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        result = project.find_duplicates(k=k, seed=seed, progress=progress)
    emit_report(result, json=as_json)


@app.command()
def review(
    folder: ProjectPath,
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
    """Import decisions, remove images, draw replacements.

    Example: [bold]hardpan replicate review new-digits --decisions decisions.csv[/bold]
    """
    if keep_rest and not learn:
        raise InputError("--keep-rest needs --learn: without a threshold there is no rest")
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        imported = project.import_decisions(decisions) if decisions is not None else None
        threshold = project.learn_threshold() if learn else None
        kept_pairs = project.keep_below(threshold) if keep_rest and threshold is not None else None
        progress("removing and drawing again", 0.5)
        result = project.resolve_duplicates()
        exported = project.export_pairs(export) if export is not None else None
    emit_report(
        replace(result, decisions=imported, threshold=threshold, kept=kept_pairs, exported=exported), json=as_json
    )


@app.command()
def assemble(
    folder: ProjectPath,
    formats: Annotated[str, typer.Option("--formats", help="Some of npz,folder,idx.")] = "npz,folder,idx",
    author: Annotated[str, typer.Option("--author", help="Who publishes the set.")] = "",
    license_: Annotated[str, typer.Option("--license", help="Its licence.")] = "",
    unreviewed_ok: Annotated[
        bool,
        typer.Option("--unreviewed-ok", help="Freeze it although possible near-duplicates wait; they are listed."),
    ] = False,
    database_url: DatabaseUrl = "",
    as_json: JsonFlag = False,
) -> None:
    """Write the set with its datasheet and freeze it.

    Example: [bold]hardpan replicate assemble new-digits[/bold]
    """
    names = tuple(word.strip() for word in formats.split(",") if word.strip())
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        made = project.assemble(
            formats=names, author=author, license_=license_, unreviewed_ok=unreviewed_ok, progress=progress
        )
    emit_report(made, json=as_json)


@app.command()
def verify(folder: ProjectPath, database_url: DatabaseUrl = "", as_json: JsonFlag = False) -> None:
    """Replay every step; exit code 2 when something differs.

    Example: [bold]hardpan replicate verify new-digits[/bold]
    """
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        result = project.verify(progress=progress)
    emit_report(result, json=as_json)
    if not result.ok:
        raise typer.Exit(2)


@app.command()
def experiment(
    folder: ProjectPath,
    predictions: Annotated[
        list[Path] | None,
        typer.Option(
            "--predictions",
            help="Predictions: id and one column per model, a store, or a testbed file. Repeatable; logged.",
        ),
    ] = None,
    fraction: Annotated[float, typer.Option("--fraction", help="Proportion of each set, hardest first.")] = 0.05,
    per_class: Annotated[
        int | None, typer.Option("--per-class", min=1, help="Images of each class and set, instead of --fraction.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="Images of each set, instead of --fraction.")
    ] = None,
    results: Annotated[bool, typer.Option("--results", help="Print what people answered.")] = False,
    out: OutFolder = None,
    database_url: DatabaseUrl = "",
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Measure the accuracy of people on the hardest images of both sets.

    Example: [bold]hardpan replicate experiment new-digits --per-class 2[/bold]

    Without --predictions the hardest images are those that the fewest annotators selected. Participants enter by
    links of the owner's page of serve; each sees one image at a time in an order of their own, and nothing shows
    which set it comes from. Then: hardpan replicate experiment new-digits --results
    """
    if out is not None and not results:
        raise InputError("--out needs --results: before people have answered there is nothing to show")
    check_out(out)
    with opened(folder, database_url) as project, progress_on_stderr() as progress:
        progress("counting answers" if results else "choosing the hardest images", 0.0)
        if results:
            emit_report(project.experiment_results(seed=seed), json=as_json, out=out)
            return
        begun = project.begin_experiment(
            predictions or (), fraction=fraction, per_class=per_class, count=count, seed=seed
        )
    emit_report(begun, json=as_json)
