"""``hardpan replicate``: build a new test set, from candidate images to a frozen, documented set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from hardpan.cli.common import JsonFlag, OutFolder, Seed, check_out, emit_report, progress_on_stderr
from hardpan.cli.options import Flags, printing, reporting, spread
from hardpan.errors import InputError
from hardpan.replicate.folder import ProjectConfig
from hardpan.replicate.project import Project
from hardpan.report.base import Report

app = typer.Typer(
    help="Build a new test set: candidates, annotation, sampling, duplicates, assembly.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
_SETTINGS = ("grid", "positives", "negatives", "workers_per_image", "originals_per_class", "lease_seconds", "seed")
_SETTING_NAMES = {
    "workers_per_image": "--workers",
    "originals_per_class": "--originals",
    "lease_seconds": "--lease",
}


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


@dataclass(frozen=True, slots=True)
class ProjectOptions:
    """Which project, and its database."""

    folder: Annotated[Path, typer.Argument(metavar="PROJECT", help="Folder of the project.")]
    database_url: Annotated[
        str,
        typer.Option(
            "--database-url", help="PostgreSQL address, such as postgresql://user@host/name (default: SQLite)."
        ),
    ] = ""

    @contextmanager
    def open(self) -> Iterator[Project]:
        """Open the project, and close its database at the end."""
        with plainly(self.folder):
            project = Project.open(self.folder, database_url=self.database_url)
            try:
                yield project
            finally:
                project.close()


@app.command()
@printing
def init(
    where: ProjectOptions,
    original: Annotated[
        str, typer.Option("--original", metavar="DATA", help="The dataset whose test set is rebuilt.")
    ],
    settings: Annotated[dict[str, Any], Flags(of=ProjectConfig, only=_SETTINGS, names=_SETTING_NAMES)],
    classes: Annotated[
        Path | None,
        typer.Option(
            "--classes", help="CSV with columns class, definition, link and nearby (classes separated by ;)."
        ),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Name of the new set.")] = "",
) -> Report:
    """Create a project for a new test set.

    Example: [bold]hardpan replicate init new-digits --original digits[/bold]
    """
    with plainly(where.folder), progress_on_stderr() as progress:
        progress("reading the original data", 0.0)
        project = Project.create(
            where.folder, original, classes, name=name, database_url=where.database_url, **settings
        )
        status = project.status()
        project.close()
    return status


@app.command()
@printing
def demo(
    where: ProjectOptions,
    annotators: Annotated[
        int, typer.Option("--annotators", min=0, help="Number of simulated annotators; every sixth guesses.")
    ] = 0,
    seed: Seed = 0,
) -> Report:
    """Create a small example project of digits.

    Example: [bold]hardpan replicate demo new-digits --annotators 24[/bold]
    """
    from hardpan.replicate import simulate

    with plainly(where.folder), progress_on_stderr() as progress:
        progress("making a project of digits", 0.0)
        project = simulate.demo_project(where.folder, database_url=where.database_url, seed=seed)
        if annotators and not project.status().votes:  # a project that was there already keeps its votes
            progress("annotating", 0.3)
            simulate.annotate_demo(project, annotators, seed=seed)
        status = project.status()
        project.close()
    return status


@app.command()
@printing
def status(where: ProjectOptions) -> Report:
    """Show the state of a project and the next command.

    Example: [bold]hardpan replicate status new-digits[/bold]
    """
    with where.open() as project:
        return project.status()


@app.command()
@printing
def add(
    where: ProjectOptions,
    source: Annotated[
        Path,
        typer.Argument(metavar="SOURCE", help="Folder (CLASS/image or CLASS/KEYWORD/image), CSV or Parquet file."),
    ],
    options: Annotated[dict[str, Any], Flags(of=Project.add_candidates, names={"class_name": "--class"})],
) -> Report:
    """Add candidate images.

    Example: [bold]hardpan replicate add new-digits pictures/[/bold]
    """
    with where.open() as project, progress_on_stderr() as progress:
        return project.add_candidates(source, **options, progress=progress)


@app.command()
@printing
def subclasses(
    where: ProjectOptions,
    options: Annotated[dict[str, Any], Flags(of=Project.find_subclasses)],
) -> Report:
    """Find the keywords (sub-classes) of the originals and how many new images each should get.

    Example: [bold]hardpan replicate subclasses new-cats --per-class 200[/bold]
    """
    with where.open() as project, progress_on_stderr() as progress:
        return project.find_subclasses(**options, progress=progress)


@app.command()
@printing
def tasks(
    where: ProjectOptions,
    options: Annotated[dict[str, Any], Flags(of=Project.make_tasks, names={"replace_failing": "--top-up"})],
) -> Report:
    """Make annotation tasks for candidates that are in no task yet.

    Example: [bold]hardpan replicate tasks new-digits[/bold]
    """
    with where.open() as project, progress_on_stderr() as progress:
        progress("planning tasks", 0.0)
        return project.make_tasks(**options)


@app.command()
@spread
def serve(where: ProjectOptions, options: Annotated[dict[str, Any], Flags(of=Project.serve)]) -> None:
    """Serve the pages of a project for annotators, reviewers and the owner, until Ctrl-C.

    Prints an invitation link for annotators and, at the first start, the owner's link. The owner's page makes
    further links, for selectors, reviewers and participants.

    Example: [bold]hardpan replicate serve new-digits --port 8000[/bold]
    """
    with where.open() as project:
        project.serve(**options)
    typer.echo("Stopped; every confirmed answer is stored.", err=options["json"])


@app.command()
@printing
def votes(where: ProjectOptions, options: Annotated[dict[str, Any], Flags(of=Project.exchange_votes)]) -> Report:
    """Export votes, or import those of another platform.

    Example: [bold]hardpan replicate votes new-digits --export votes.csv[/bold]
    """
    with where.open() as project, progress_on_stderr() as progress:
        progress("reading votes", 0.0)
        return project.exchange_votes(**options)


@app.command()
@printing
def frequencies(
    where: ProjectOptions,
    options: Annotated[dict[str, Any], Flags(of=Project.quality)],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="CSV", help="Write the selection frequency of every image to this file."),
    ] = None,
) -> Report:
    """Selection frequencies, results of workers on the hidden controls, and agreement.

    Example: [bold]hardpan replicate frequencies new-digits[/bold]
    """
    with where.open() as project, progress_on_stderr() as progress:
        progress("counting votes", 0.0)
        quality = project.quality(**options)
        return quality if out is None else project.export_frequencies(out, quality)


@app.command()
@printing
def sample(
    where: ProjectOptions, options: Annotated[dict[str, Any], Flags(of=Project.sample, names={"source": "--from"})]
) -> Report:
    """Sample the images of the new set.

    Example: [bold]hardpan replicate sample new-digits --strategy matched --per-class 10[/bold]
    """
    with where.open() as project, progress_on_stderr() as progress:
        progress("counting votes and drawing", 0.0)
        return project.sample(**options)


@app.command("threshold-sweep")
@reporting
def threshold_sweep(
    where: ProjectOptions, options: Annotated[dict[str, Any], Flags(of=Project.threshold_sweep, without=("actor",))]
) -> Report:
    """Size and average selection frequency of the set at every threshold.

    Example: [bold]hardpan replicate threshold-sweep new-digits --out sweep[/bold]
    """
    with where.open() as project, progress_on_stderr() as progress:
        progress("counting votes", 0.0)
        return project.threshold_sweep(**options)


@app.command()
@printing
def duplicates(
    where: ProjectOptions, options: Annotated[dict[str, Any], Flags(of=Project.find_duplicates, names={"k": "-k"})]
) -> Report:
    """Find possible near-duplicates in the sample and queue them for review.

    Example: [bold]hardpan replicate duplicates new-digits[/bold]
    """
    with where.open() as project, progress_on_stderr() as progress:
        return project.find_duplicates(**options, progress=progress)


@app.command()
@printing
def review(where: ProjectOptions, options: Annotated[dict[str, Any], Flags(of=Project.review)]) -> Report:
    """Apply decisions about near-duplicates: remove images and sample replacements.

    Example: [bold]hardpan replicate review new-digits --decisions decisions.csv[/bold]
    """
    with where.open() as project, progress_on_stderr() as progress:
        progress("removing and drawing again", 0.0)
        return project.review(**options)


@app.command()
@printing
def assemble(where: ProjectOptions, options: Annotated[dict[str, Any], Flags(of=Project.assemble)]) -> Report:
    """Write the set with its datasheet, and freeze it.

    Example: [bold]hardpan replicate assemble new-digits[/bold]
    """
    with where.open() as project, progress_on_stderr() as progress:
        return project.assemble(**options, progress=progress)


@app.command()
@printing
def verify(where: ProjectOptions) -> Report:
    """Replay every step of a project; exit code 2 if something differs.

    Example: [bold]hardpan replicate verify new-digits[/bold]
    """
    with where.open() as project, progress_on_stderr() as progress:
        return project.verify(progress=progress)


@app.command()
@spread
def experiment(
    where: ProjectOptions,
    options: Annotated[dict[str, Any], Flags(of=Project.begin_experiment, repeated=("predictions",))],
    results: Annotated[
        bool, typer.Option("--results", help="Show the accuracies of the participants so far.")
    ] = False,
    out: OutFolder = None,
    json: JsonFlag = False,
) -> None:
    """Measure the accuracy of people on the hardest images of both sets.

    The hardest images are those that the fewest models of --predictions get right, or without it those that the
    fewest annotators selected. Participants enter by links that the owner's page makes; afterwards, --results shows
    their accuracies.

    Example: [bold]hardpan replicate experiment new-digits --per-class 2[/bold]
    """
    if out is not None and not results:
        raise InputError("--out needs --results: before people have answered there is nothing to show")
    check_out(out)
    with where.open() as project, progress_on_stderr() as progress:
        progress("counting answers" if results else "choosing the hardest images", 0.0)
        report: Report = (
            project.experiment_results(seed=options["seed"]) if results else project.begin_experiment(**options)
        )
    emit_report(report, json=json, out=out)
