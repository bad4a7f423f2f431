"""``hardpan floor``: how low can the error on real data go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from hardpan.arguments import seconds
from hardpan.bayes import FloorConfig, floor
from hardpan.cli.common import Budget, JsonFlag, check_out, emit_report, progress_on_stderr
from hardpan.cli.data_options import DATA_HELP, GROUPED_DATA_FLAGS, GroupedDataFlags
from hardpan.cli.options import Flags, reporting, spread
from hardpan.errors import InputError
from hardpan.report.base import Report
from hardpan.studies.floor_bench import FloorBenchConfig, run_bench, without_numbers

app = typer.Typer(
    help="How low can the error on real data go? A bracket from evidence, and estimates under assumptions.\n\n"
    "Example: [bold]hardpan floor estimate digits --out floor[/bold]",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.command("estimate")
@reporting
def estimate_command(
    config: Annotated[FloorConfig, Flags(without=("budget",))],
    data: Annotated[
        str | None, typer.Argument(metavar="DATA", help=f"{DATA_HELP} Leave it out to use --votes alone.")
    ] = None,
    flow: Annotated[
        str, typer.Option("--flow", help="A flow: the folder of a fitted one, or a bundled name.")
    ] = "",
    predictions: Annotated[
        list[str] | None,
        typer.Option(
            "--predictions",
            metavar="PREDICTIONS",
            help="Predictions of your models: a store, npz, npy, table, or module:function; can be repeated.",
        ),
    ] = None,
    votes: Annotated[
        str,
        typer.Option(
            "--votes",
            metavar="FILE",
            help="An npz or npy file with annotators' votes (examples × classes) or soft_labels, and ids.",
        ),
    ] = "",
    budget: Budget = "1m",
    reading: GroupedDataFlags = GROUPED_DATA_FLAGS,
) -> Report:
    """Bound the lowest possible error by evidence; list other estimates with their assumption and status.

    Example: [bold]hardpan floor estimate digits --out floor[/bold]
    """
    if data is None and not votes:
        raise InputError("DATA and --votes: give at least one of them; got neither")
    loaded = None
    if flow:
        from hardpan import flows

        loaded = flows.load(flow)
    with progress_on_stderr() as progress:
        return floor(
            None if data is None else reading.apply(data),
            predictions=list(predictions) if predictions else None,
            flow=loaded,
            votes=votes or None,
            config=replace(config, budget=seconds("--budget", budget)),
            progress=progress,
        )


@app.command("bench")
@spread
def bench_command(
    config: FloorBenchConfig,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Also write the tables as a Markdown page.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Write the page, table.md, report.json and finished cells to this folder, to resume from.",
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Measure estimators of the Bayes error on sets where it is known: error, bias, coverage, time.

    If interrupted, run the same command again to resume.

    Example: [bold]hardpan floor bench --sizes 500,2000 --runs 3 --out floor-bench[/bold]
    """
    from hardpan import files
    from hardpan.pages.studies import bench_markdown

    check_out(out)
    if markdown is not None and markdown.is_dir():
        raise InputError(f"--markdown {markdown}: is a folder; name a file, such as {markdown / 'table.md'}")
    with progress_on_stderr() as progress:
        result = run_bench(config, out, progress)
    if markdown is not None:
        try:
            markdown.parent.mkdir(parents=True, exist_ok=True)
            files.write_text(markdown, bench_markdown(result))
        except OSError as error:
            raise InputError(f"--markdown {markdown}: cannot be written ({error.strerror})") from error
    emit_report(result, json=json, out=out)
    silent = without_numbers(result)
    if silent:
        failures = (f"estimator {name}: failed on every set (first: {reason})" for name, reason in silent.items())
        raise InputError(f"{', '.join(failures)}; fix it and run the same command again")
