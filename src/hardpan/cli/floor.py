"""``hardpan floor``: how low can the error on real data go."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hardpan.cli.common import (
    JsonFlag,
    Seed,
    check_out,
    emit_report,
    floats,
    progress_on_stderr,
    whole_numbers,
)
from hardpan.cli.data_options import GROUPED_DATA_FLAGS, GroupedDataFlags
from hardpan.cli.groups import reporting
from hardpan.errors import InputError
from hardpan.report.base import Report

app = typer.Typer(
    help="How low can the error on real data go? A bracket from evidence, and estimates under assumptions.\n\n"
    "Example: [bold]hardpan floor estimate digits --out floor[/bold]",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.command("estimate")
@reporting
def estimate_command(
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
    by_order: Annotated[
        bool, typer.Option("--by-order", help="Join predictions without ids by position in the data.")
    ] = False,
    held_out: Annotated[
        bool,
        typer.Option(
            "--held-out", help="The models of --predictions were not trained or tuned on the test examples."
        ),
    ] = False,
    folds: Annotated[
        int,
        typer.Option("--folds", help="Cross-validate estimators given as module:name in this many folds; 0: not."),
    ] = 0,
    votes: Annotated[
        str, typer.Option("--votes", help="Annotators' votes (n, K) or soft_labels: an npz or npy file.")
    ] = "",
    label_noise: Annotated[
        float,
        typer.Option(
            "--label-noise", help="Rate of random label flips, if you know it: bounds the error from below."
        ),
    ] = 0.0,
    estimators: Annotated[
        str, typer.Option("--estimators", help="Estimators under an assumption, with commas; default all.")
    ] = "neighbours,tree,gaussian,bhattacharyya",
    classifiers: Annotated[
        str,
        typer.Option("--classifiers", help="auto, or boosted trees, linear model, extra trees, with commas; none."),
    ] = "auto",
    calibrations: Annotated[
        str, typer.Option("--calibrations", help="Calibrations of predictions, with commas; default all.")
    ] = "temperature,vector,isotonic",
    confidence: Annotated[float, typer.Option("--confidence", help="Joint level of the bracket.")] = 0.95,
    reading: GroupedDataFlags = GROUPED_DATA_FLAGS,
    seed: Seed = 0,
) -> Report:
    """Bracket the lowest possible error, and list estimates under an assumption with what is known against them.

    Example: [bold]hardpan floor estimate digits --out floor[/bold]
    """
    from hardpan import bayes

    config = bayes.FloorConfig(
        estimators=_words(estimators),
        classifiers=() if classifiers.strip() == "none" else _words(classifiers),
        calibrations=_words(calibrations),
        by_order=by_order,
        held_out=held_out,
        folds=folds,
        label_noise=label_noise,
        confidence=confidence,
        seed=seed,
    )
    loaded = None
    if flow:
        from hardpan import flows

        loaded = flows.load(flow)
    with progress_on_stderr() as progress:
        report = bayes.floor(
            None if data is None else reading.apply(data),
            predictions=list(predictions) if predictions else None,
            flow=loaded,
            votes=votes or None,
            config=config,
            progress=progress,
        )
    return report


@app.command("bench")
def bench_command(
    sources: Annotated[
        str, typer.Option("--sources", help="Where the sets come from, with commas; also flow:NAME.")
    ] = "two-gaussians,ten-gaussians,warped",
    floors: Annotated[str, typer.Option("--floors", help="Exact floors, with commas.")] = "0.001,0.01,0.05,0.2,0.4",
    sizes: Annotated[str, typer.Option("--sizes", help="Numbers of examples, with commas.")] = "500,2000,8000",
    estimators: Annotated[
        str, typer.Option("--estimators", help="Names or module:function, with commas; default all.")
    ] = "",
    runs: Annotated[int, typer.Option("--runs", min=1, help="Draws of each set.")] = 5,
    votes: Annotated[int, typer.Option("--votes", min=2, help="Votes per test example.")] = 3,
    confidence: Annotated[float, typer.Option("--confidence", help="Level of the intervals.")] = 0.95,
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
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Measure estimators on sets whose floor is known: error, bias, coverage, time; yours as module:function.

    Example: [bold]hardpan floor bench --sizes 500,2000 --runs 3 --out floor-bench[/bold]
    """
    from hardpan import files
    from hardpan.studies import floor_bench
    from hardpan.studies.report import bench_markdown

    check_out(out)
    if markdown is not None and markdown.is_dir():
        raise InputError(f"--markdown {markdown}: is a folder; name a file, such as {markdown / 'table.md'}")
    config = floor_bench.FloorBenchConfig(
        sources=_words(sources),
        floors=floats("--floors", floors),
        sizes=whole_numbers("--sizes", sizes),
        estimators=_words(estimators) or floor_bench.FloorBenchConfig().estimators,
        runs=runs,
        votes=votes,
        confidence=confidence,
        seed=seed,
    )
    with progress_on_stderr() as progress:
        result = floor_bench.run_bench(config, out, progress)
    if markdown is not None:
        try:
            markdown.parent.mkdir(parents=True, exist_ok=True)
            files.write_text(markdown, bench_markdown(result))
        except OSError as error:
            raise InputError(f"--markdown {markdown}: cannot be written ({error.strerror})") from error
    emit_report(result, json=json, out=out)
    silent = floor_bench.without_numbers(result)
    if silent:
        told = (f"estimator {name}: failed on every set (first: {reason})" for name, reason in silent.items())
        raise InputError(f"{', '.join(told)}; fix it and run the same command again")


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
