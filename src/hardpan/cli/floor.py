"""``hardpan floor``: how low can the error on real data go, and which estimators can be believed."""

from __future__ import annotations

import shlex
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from hardpan import numbers
from hardpan.cli.common import JsonFlag, OutFolder, Seed, emit, floats, progress_on_stderr, whole_numbers
from hardpan.errors import InputError

if TYPE_CHECKING:
    from hardpan.studies.floor_estimate import FloorReport

app = typer.Typer(
    help="How low can the error of real data go? Every estimate at once, and which survive.\n\n"
    "Example: [bold]hardpan floor estimate digits --out floor[/bold]",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

_ROLES = {"estimate": "estimate", "lower": "lower end", "upper": "ceiling", "classifier": "classifier"}


@app.command("estimate")
def estimate_command(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A dataset by name (digits, mnist, ...), file or folder.")
    ],
    flow: Annotated[str, typer.Option("--flow", help="A fitted flow: a folder, or a name of the zoo.")] = "",
    predictions: Annotated[
        list[str] | None,
        typer.Option("--predictions", help="Predictions of models: a store, npz or npy; repeat it for several."),
    ] = None,
    by_order: Annotated[
        bool, typer.Option("--by-order", help="Predictions without ids are in the order of the test part.")
    ] = False,
    votes: Annotated[
        str, typer.Option("--votes", help="Counts of annotators' votes (npz with votes), or soft_labels.")
    ] = "",
    estimators: Annotated[
        str, typer.Option("--estimators", help="Which look at the features, with commas; default all.")
    ] = "neighbours,tree,gaussian,bhattacharyya",
    calibrations: Annotated[
        str, typer.Option("--calibrations", help="How predictions are calibrated, with commas; default all.")
    ] = "temperature,vector,isotonic",
    confidence: Annotated[float, typer.Option("--confidence", help="Joint level of the verdict.")] = 0.95,
    out: OutFolder = None,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Every estimate of the floor side by side, what is refuted by what, and the bracket that survives.

    Example: [bold]hardpan floor estimate digits --out floor[/bold]
    """
    from hardpan.report.files import check_writable
    from hardpan.studies.floor_estimate import FloorConfig, estimate_floor

    if out is not None:
        check_writable(out)
    config = FloorConfig(
        flow=flow,
        predictions=tuple(predictions or ()),
        by_order=by_order,
        votes=votes,
        estimators=_words(estimators),
        calibrations=_words(calibrations),
        confidence=confidence,
        seed=seed,
    )
    with progress_on_stderr() as progress:
        command = shlex.join(["hardpan", *sys.argv[1:]])
        report = estimate_floor(data, config, progress=progress, command=command)
        page = None if out is None else report.save(out)
    emit(report, json, _shown(report, page))


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
    votes: Annotated[int, typer.Option("--votes", min=2, help="Votes a test example.")] = 3,
    confidence: Annotated[float, typer.Option("--confidence", help="Level of the intervals.")] = 0.95,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write the tables as a Markdown page, too.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Folder for cells, tables and report.json; a second run goes on."
        ),
    ] = None,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Every estimator on sets whose floor is known: error, bias, coverage, time. Add yours as module:function.

    Example: [bold]hardpan floor bench --sizes 500,2000 --runs 3 --out floor-bench[/bold]
    """
    from hardpan import files
    from hardpan.report.files import check_writable
    from hardpan.studies import floor_bench
    from hardpan.studies.floor_table import bench_markdown

    if out is not None:
        check_writable(out)
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
        found = floor_bench.run_bench(config, out, progress)
    if out is not None:
        floor_bench.save_bench(found, out)
    text = bench_markdown(found)
    if markdown is not None:
        try:
            markdown.parent.mkdir(parents=True, exist_ok=True)
            files.write_text(markdown, text)
        except OSError as error:
            raise InputError(f"--markdown {markdown}: cannot be written ({error.strerror})") from error
    emit(found, json, Text(text))
    silent = floor_bench.without_numbers(found)
    if silent:
        told = (f"estimator {name}: failed on every set (first: {reason})" for name, reason in silent.items())
        raise InputError(f"{', '.join(told)}; mend it and give the same command again")


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _shown(report: FloorReport, page: Path | None) -> RenderableType:
    from hardpan.bayes.floors.crossings import in_sentences
    from hardpan.flows.charts import unsettled_warning

    table = Table(box=None, pad_edge=False, title_justify="left")
    for name in ("estimate", "what it is", "value", "verdict"):
        table.add_column(name, overflow="fold")
    for entry in report.floor.entries:
        style = {"stands": "", "disputed": "yellow"}.get(entry.status, "strike dim")
        verdict = "" if entry.role == "classifier" else entry.status
        shown = numbers.unbroken(numbers.estimate(entry.estimate))
        table.add_row(
            f"[{style}]{escape(entry.name)}[/]" if style else escape(entry.name), _ROLES[entry.role], shown, verdict
        )
    lines: list[RenderableType] = [table, Text("")]
    lines += [
        Text(line) for line in textwrap.wrap(numbers.unbroken(report.floor.sentence), min(100, Console().width))
    ]
    lines += [Text(sentence, style="yellow") for sentence in in_sentences(report.floor.crossings)]
    lines += [Text(item.sentence) for item in report.floor.differences]
    moving = unsettled_warning(report.along)
    lines += [Text(moving, style="yellow")] if moving else []
    lines += [Text(f"Left out: {reason}", style="yellow") for reason in report.floor.left_out]
    if page is not None:
        lines.append(Text(f"Page: {page}"))
    return Group(*lines)
