"""``hardpan replicate``: build a new test set, from candidate images to a frozen, documented set."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from hardpan.cli.common import Seed, emit_report, progress_on_stderr
from hardpan.cli.decorators import DATA_FLAGS, DataFlags, Output, printing, reporting, spread
from hardpan.cli.options import Flags
from hardpan.errors import InputError
from hardpan.replicate.folder import ProjectConfig
from hardpan.replicate.project import Project
from hardpan.report import Report

app = typer.Typer(
    help="Build a new test set: candidates, annotation, sampling, duplicates, assembly.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


_OF_THE_DATA = ("name", "original", "original_hash", "classes", "shape")
_NOT_READ = ("name", "encoder", "download", "encoder_device", "encoder_half", "encoder_batch")
_SERVE = ("port", "host", "workers_expected", "address", "new_owner_link", "json")
_SAMPLE = ("strategy", "per_class", "threshold", "source", "without_flagged", "seed")
ProjectFolder = Annotated[Path, typer.Argument(metavar="PROJECT", help="Folder of the project.")]
DatabaseUrl = Annotated[
    str,
    typer.Option(
        "--database-url",
        help="PostgreSQL address, such as postgresql://user@host/name (default: SQLite in the folder).",
    ),
]


@contextmanager
def opened(folder: Path, make: Callable[..., Project] = Project.open, **settings: Any) -> Iterator[Project]:
    """A project, closed at the end; a full disk or a failed database becomes one sentence."""
    again = "what was done before is kept; fix that and run the same command again to resume"
    try:
        with contextlib.closing(make(folder, **settings)) as project:
            yield project
    except OSError as error:
        reason = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
        raise InputError(f"{folder}: stopped ({reason}); {again}") from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "sqlalchemy":
            raise
        reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        raise InputError(f"{folder}: the database failed ({reason}); {again}") from error


@app.command()
@printing
def init(
    folder: ProjectFolder,
    original: Annotated[
        str, typer.Option("--original", metavar="DATA", help="The dataset whose test set is rebuilt.")
    ],
    settings: Annotated[dict[str, Any], Flags(of=ProjectConfig, only=("seed",), without=_OF_THE_DATA)],
    classes: Annotated[
        Path | None,
        typer.Option(
            "--classes", help="CSV with columns class, definition, link and nearby (classes separated by ;)."
        ),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Name of the new set.")] = "",
    database_url: DatabaseUrl = "",
    reading: Annotated[DataFlags, Flags(only=("label", "text"), without=_NOT_READ)] = DATA_FLAGS,
) -> Report:
    """Create a project for a new test set.

    Example: [bold]hardpan replicate init new-digits --original digits[/bold]
    """
    settings |= {
        "original": reading.apply(original),
        "classes": classes,
        "name": name,
        "database_url": database_url,
    }
    with progress_on_stderr() as progress:
        progress("reading the original data", 0.0)
        with opened(folder, Project.create, **settings) as project:
            return project.status()


@app.command()
@printing
def demo(
    folder: ProjectFolder,
    annotators: Annotated[
        int, typer.Option("--annotators", min=0, help="Number of simulated annotators; every sixth guesses.")
    ] = 0,
    seed: Seed = 0,
    database_url: DatabaseUrl = "",
) -> Report:
    """Create a small example project of digits.

    Example: [bold]hardpan replicate demo new-digits --annotators 24[/bold]
    """
    from hardpan.replicate import simulate

    with progress_on_stderr() as progress:
        progress("making a project of digits", 0.0)
        with opened(folder, simulate.demo_project, database_url=database_url, seed=seed) as project:
            if annotators and not project.status().votes:  # an existing project keeps its votes
                progress("annotating", 0.3)
                simulate.simulate_demo_annotation(project, annotators, seed=seed)
            return project.status()


@app.command()
@printing
def status(
    folder: ProjectFolder,
    options: Annotated[
        dict[str, Any], Flags(of=Project.status, only=("import_votes", "export_votes", "frequencies"))
    ],
) -> Report:
    """Show the state of a project, its votes and the next command; import and export votes.

    Example: [bold]hardpan replicate status new-digits --frequencies frequencies.csv[/bold]
    """
    with opened(folder) as project, progress_on_stderr() as progress:
        progress("counting votes", 0.0)
        return project.status(**options)


@app.command()
@printing
def add(
    folder: ProjectFolder,
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="Folder (CLASS/file or CLASS/KEYWORD/file), or a table (CSV, Parquet, JSONL)."
        ),
    ],
    options: Annotated[
        dict[str, Any],
        Flags(
            of=Project.add_candidates,
            only=("per_class", "keywords", "text"),
        ),
    ],
) -> Report:
    """Add candidates (images or texts), and find the keywords (sub-classes) of the originals and their quotas.

    Example: [bold]hardpan replicate add new-digits pictures/[/bold]
    """
    with opened(folder) as project, progress_on_stderr() as progress:
        return project.add_candidates(source, **options, progress=progress)


@app.command()
@printing
def tasks(
    folder: ProjectFolder,
    options: Annotated[dict[str, Any], Flags(of=Project.make_tasks, names={"replace_failing": "--top-up"})],
) -> Report:
    """Make annotation tasks for candidates that are in no task yet.

    Example: [bold]hardpan replicate tasks new-digits[/bold]
    """
    with opened(folder) as project, progress_on_stderr() as progress:
        progress("planning tasks", 0.0)
        return project.make_tasks(**options)


@app.command()
@spread
def serve(folder: ProjectFolder, options: Annotated[dict[str, Any], Flags(of=Project.serve, only=_SERVE)]) -> None:
    """Serve the pages of a project for annotators, reviewers and the owner, until Ctrl-C.

    Prints an invitation link for annotators and, at the first start, the owner's link. The owner's page makes
    further links, for selectors, reviewers and participants.

    Example: [bold]hardpan replicate serve new-digits --port 8000[/bold]
    """
    with opened(folder) as project:
        project.serve(**options)
    typer.echo("Stopped; every confirmed answer is stored.", err=options["json"])


@app.command()
@reporting
def sample(
    folder: ProjectFolder,
    options: Annotated[dict[str, Any], Flags(of=Project.sample, only=_SAMPLE, names={"source": "--from"})],
) -> Report:
    """Sample the images of the new set.

    Example: [bold]hardpan replicate sample new-digits --strategy matched --per-class 10[/bold]
    """
    with opened(folder) as project, progress_on_stderr() as progress:
        progress("counting votes", 0.0)
        return project.sample(**options)


@app.command()
@printing
def duplicates(
    folder: ProjectFolder, options: Annotated[dict[str, Any], Flags(of=Project.find_duplicates, names={"k": "-k"})]
) -> Report:
    """Queue possible near-duplicates of the sample for review; remove and replace what people decided to remove.

    Example: [bold]hardpan replicate duplicates new-digits[/bold]
    """
    with opened(folder) as project, progress_on_stderr() as progress:
        return project.find_duplicates(**options, progress=progress)


@app.command()
@printing
def assemble(
    folder: ProjectFolder,
    options: Annotated[dict[str, Any], Flags(of=Project.assemble, only=("author", "license_", "unreviewed_ok"))],
) -> Report:
    """Write the set with its datasheet, and freeze it.

    Example: [bold]hardpan replicate assemble new-digits[/bold]
    """
    with opened(folder) as project, progress_on_stderr() as progress:
        return project.assemble(**options, progress=progress)


@app.command()
@printing
def verify(folder: ProjectFolder) -> Report:
    """Replay every step of a project; exit code 2 if something differs.

    Example: [bold]hardpan replicate verify new-digits[/bold]
    """
    with opened(folder) as project, progress_on_stderr() as progress:
        return project.verify(progress=progress)


@app.command()
@spread
def experiment(
    folder: ProjectFolder,
    options: Annotated[dict[str, Any], Flags(of=Project.begin_experiment, repeated=("predictions",))],
    output: Output,
    results: Annotated[
        bool, typer.Option("--results", help="Show the accuracies of the participants so far.")
    ] = False,
) -> None:
    """Measure the accuracy of people on the hardest images of both sets.

    The hardest images are those that the fewest models of --predictions get right, or without it those that the
    fewest annotators selected. Participants enter by links that the owner's page makes; afterwards, --results shows
    their accuracies.

    Example: [bold]hardpan replicate experiment new-digits --fraction 0.1[/bold]
    """
    if output.out is not None and not results:
        raise InputError("--out needs --results: before people have answered there is nothing to show")
    with opened(folder) as project, progress_on_stderr() as progress:
        progress("counting answers" if results else "choosing the hardest images", 0.0)
        report: Report = project.experiment_results() if results else project.begin_experiment(**options)
    emit_report(report, json=output.json, out=output.out)
