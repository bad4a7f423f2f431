"""``hardpan floor``: how low can the error on real data go."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hardpan.bayes import FloorConfig, floor
from hardpan.cli.common import JsonFlag, check_out, emit_report, progress_on_stderr
from hardpan.cli.data_options import GROUPED_DATA_FLAGS, GroupedDataFlags
from hardpan.cli.options import reporting, spread
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
    config: FloorConfig,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA", help="A dataset by name, file or folder; leave it out to use --votes alone."
        ),
    ] = None,
    flow: Annotated[str, typer.Option("--flow", help="A fitted flow: a folder, or a bundled one by name.")] = "",
    predictions: Annotated[
        list[str] | None,
        typer.Option(
            "--predictions", help="Predictions of models: a store, npz, npy, table, or module:function; repeat it."
        ),
    ] = None,
    votes: Annotated[
        str, typer.Option("--votes", help="Annotators' votes (n, K) or soft_labels: an npz or npy file.")
    ] = "",
    reading: GroupedDataFlags = GROUPED_DATA_FLAGS,
) -> Report:
    """Bracket the lowest possible error, and list estimates under an assumption with what is known against them.

    Example: [bold]hardpan floor estimate digits --out floor[/bold]
    """
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
            config=config,
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
            help="Folder for the page, table.md, report.json and cells; a second run resumes.",
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Measure estimators on sets whose floor is known: error, bias, coverage, time; yours as module:function.

    Example: [bold]hardpan floor bench --sizes 500,2000 --runs 3 --out floor-bench[/bold]
    """
    from hardpan import files
    from hardpan.studies.report import bench_markdown

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
