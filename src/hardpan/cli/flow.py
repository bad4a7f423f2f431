"""``hardpan flow``: flows with an exactly known Bayes error, benchmarks drawn from them, classifiers on these."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from hardpan.cli.common import (
    JsonFlag,
    Seed,
    check_out,
    emit_report,
    progress_on_stderr,
)
from hardpan.cli.decorators import DATA_FLAGS, DATA_HELP, DataFlags, Output, parallel_options, spread
from hardpan.cli.options import Flags, parse_option
from hardpan.errors import InputError
from hardpan.flows.config import FlowConfig, SynthesizeConfig
from hardpan.learning_curves import CurveConfig, measure_learning_curve
from hardpan.report import Report

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Flows with an exactly known Bayes error: fit them, draw benchmarks of any difficulty, judge classifiers.",
)

FlowPath = Annotated[
    str, typer.Argument(metavar="FLOW", help="A flow: the folder of a fitted one, or a bundled name.")
]


@app.command()
@spread
def fit(
    data: Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP)],
    config: Annotated[FlowConfig, Flags(only=("preset", "epochs", "class_weight", "seed", "device"))],
    reading: Annotated[DataFlags, Flags(only=("label", "encoder"))] = DATA_FLAGS,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Folder for the flow, its page and checkpoints (default: flow-DATA)."
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Fit a class-conditional flow to a dataset: exact likelihoods, and the Bayes error of the fitted distribution.

    If interrupted, run the same command again to resume. Several GPUs:
    torchrun --nproc-per-node N -m hardpan flow fit ...

    Example: [bold]hardpan flow fit digits --preset tiny --out flows/digits[/bold]
    """
    from hardpan import flows
    from hardpan.data.opening import data_source_name
    from hardpan.engine import distributed

    out = out or Path(f"flow-{data_source_name(data)}")
    check_out(out)
    config.filled()  # refuse bad settings before the data is read
    with progress_on_stderr() as progress:
        dataset = reading.open(data, progress)
        flow = flows.fit(dataset, config, out=out, progress=progress)
    emit_report(flow.record, json=json, out=out if distributed.is_main_process() else None)
    if not json:
        typer.echo(f"Flow: {out}")


@app.command()
@spread
def synthesize(
    flow: FlowPath,
    config: Annotated[SynthesizeConfig, Flags(names={"n": "-n"})],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Folder for the examples and manifest.json (default: synthetic-FLOW)."
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Write a synthetic benchmark with a given Bayes error and the true posterior of every example.

    If interrupted, run the same command again to resume.

    Example: [bold]hardpan flow synthesize fashion-mnist --bayes-error 0.10 -n 70000 --out synthetic[/bold]
    """
    from hardpan import flows
    from hardpan.data.opening import data_source_name

    out = out or Path(f"synthetic-{data_source_name(flow)}")
    check_out(out)
    with progress_on_stderr() as progress:
        benchmark = flows.synthesize(flows.load(flow), out, config, source=flow, progress=progress)
    emit_report(benchmark, json=json)
    if not json:
        typer.echo(f"Data: {out / benchmark.data}\nTrue posteriors: {out / 'manifest.json'}")


@app.command()
@parallel_options
def judge(
    source: Annotated[
        str,
        typer.Argument(
            metavar="DIR|FLOW", help="Folder of a benchmark (hardpan flow synthesize); with --sizes, a flow."
        ),
    ],
    config: Annotated[
        CurveConfig, Flags(only=("models", "bayes_error", "temperature", "seeds"), without=("sizes",))
    ],
    output: Output,
    predictions: Annotated[
        Path | None,
        typer.Argument(
            metavar="PREDICTIONS",
            help="Probabilities of the test examples: a store, npz (keys probs and ids), or npy with --by-order.",
        ),
    ] = None,
    by_order: Annotated[
        bool, typer.Option("--by-order", help="Join predictions by position if they have no ids.")
    ] = False,
    name: Annotated[str, typer.Option(help="Name of the classifier in the report.")] = "",
    sizes: Annotated[
        str,
        typer.Option(
            metavar="1,2,...", help="Train --models on this many examples of the flow instead: learning curves."
        ),
    ] = "",
) -> None:
    """Compare a classifier with the true posteriors: excess error, calibration error, difficulty by example.

    With --sizes: how the error above the known Bayes error falls with the size of the training set. Finished
    training runs are kept in --out; if interrupted, run the same command again to resume.

    Example: [bold]hardpan flow judge synthetic predictions.npz --out judged[/bold]
    Example: [bold]hardpan flow judge fashion-mnist --models linear,mlp --sizes 500,2000,8000 --out curve[/bold]
    """
    from hardpan import flows

    if bool(sizes) == (predictions is not None):
        raise InputError(
            "give one of them, PREDICTIONS of a benchmark or --sizes of training sets from a flow",
            argument=("PREDICTIONS", "--sizes"),
        )
    result: Report
    if predictions is not None:
        benchmark = flows.read_benchmark(source)
        probs = benchmark.test_probabilities(predictions, by_order=by_order)
        result = flows.judge(benchmark, probs, name=name or predictions.stem)
    else:
        config = dataclasses.replace(config, sizes=parse_option("--sizes", tuple[int, ...], [sizes]))
        with progress_on_stderr() as progress:
            result = measure_learning_curve(
                flows.load(source), config, name=name or source, out=output.out, progress=progress
            )
    emit_report(result, json=output.json, out=output.out)


@app.command()
@spread
def samples(
    flow: FlowPath,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Write index.html and report.json to this folder.")
    ],
    temperature: Annotated[str, typer.Option(help="Temperatures, separated by commas.")] = "0.2,0.5,1,1.4,3",
    n: Annotated[int, typer.Option("-n", min=1, max=400, help="Samples at each temperature.")] = 48,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Draw grids of samples at several temperatures, each with its exact Bayes error, on a page with a slider.

    Example: [bold]hardpan flow samples fashion-mnist --temperature 0.2,1,1.4,3 --out samples[/bold]
    """
    from hardpan import flows

    check_out(out)
    temperatures = parse_option("--temperature", tuple[float, ...], [temperature])
    with progress_on_stderr() as progress:
        result = flows.sample_temperatures(
            flows.load(flow), temperatures, n, name=flow, seed=seed, progress=progress
        )
    emit_report(result, json=json, out=out)
