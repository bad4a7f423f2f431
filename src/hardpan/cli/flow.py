"""``hardpan flow``: flows with an exactly known Bayes error, benchmarks drawn from them, classifiers on these."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hardpan.cli.common import (
    ByOrder,
    JsonFlag,
    OutFolder,
    Seed,
    check_out,
    emit_report,
    floats,
    progress_on_stderr,
)
from hardpan.cli.data_options import DATA_HELP, GROUPED_DATA_FLAGS, GroupedDataFlags
from hardpan.cli.options import Flags, parallel_options, reporting, spread
from hardpan.errors import InputError
from hardpan.flows.config import FlowConfig, SynthesizeConfig
from hardpan.predictions import Predictions
from hardpan.report.base import Report
from hardpan.studies.learning_curve import CurveConfig, grow

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Flows with an exactly known Bayes error.")

FLOW_NAMES = {
    "batch_size": "--batch",
    "learning_rate": "--rate",
    "least_scale": "--min-scale",
    "most_scale": "--max-scale",
}
FlowPath = Annotated[
    str, typer.Argument(metavar="FLOW", help="A flow: the folder of a fitted one, or a bundled name.")
]
BayesError = Annotated[
    float | None, typer.Option("--bayes-error", help="Target Bayes error, between 0 and 1; sets the temperature.")
]
Temperature = Annotated[
    float | None, typer.Option("--temperature", help="Temperature, instead of --bayes-error (default: 1).")
]


@app.callback()
def group() -> None:
    """Flows with an exactly known Bayes error: fit them, draw benchmarks of any difficulty, judge classifiers."""


@app.command()
@spread
def fit(
    data: Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP)],
    config: Annotated[FlowConfig, Flags(names=FLOW_NAMES)],
    reading: GroupedDataFlags = GROUPED_DATA_FLAGS,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Folder for the flow, its page and checkpoints (default: flow-DATA)."
        ),
    ] = None,
    sweep: Annotated[
        str,
        typer.Option(
            metavar="1,2,...",
            help="Try these values of --class-weight and keep the one with the best validation NLL.",
        ),
    ] = "",
    sweep_preset: Annotated[str, typer.Option(help="Preset of the fits that --sweep compares.")] = "small",
    card: Annotated[
        bool,
        typer.Option(
            "--card", help="Also write DIR/card, for sharing: weights in half precision, card.md, samples.png."
        ),
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Fit a class-conditional flow to a dataset: exact likelihoods, and the Bayes error of the fitted distribution.

    If interrupted, run the same command again to resume. Several GPUs:
    torchrun --nproc-per-node N -m hardpan flow fit ...

    Example: [bold]hardpan flow fit digits --preset tiny --out flows/digits[/bold]
    """
    from hardpan import flows
    from hardpan.data.opening import short_name
    from hardpan.engine import distributed

    out = out or Path(f"flow-{short_name(data)}")
    check_out(out)
    config.filled()  # refuse bad settings before the data is read
    weights = floats("--sweep", sweep) if sweep else ()
    if sweep and sweep_preset not in flows.PRESETS:
        raise InputError(f"--sweep-preset must be one of {', '.join(flows.PRESETS)}; got {sweep_preset!r}")
    dataset = reading.open(data)
    with progress_on_stderr() as progress:
        progress("preparing", 0.0)
        if weights:
            flow = flows.sweep(
                dataset, config, class_weights=weights, preset=sweep_preset, out=out, progress=progress
            )
        else:
            flow = flows.fit(dataset, config, out=out, progress=progress)
        if card and distributed.is_main():
            progress("card", 1.0)
            flows.write_card(flow, dataset, out / "card")
    emit_report(flow.record, json=json, out=out if distributed.is_main() else None)
    if not json:
        typer.echo(f"Flow: {out}" + (f"\nCard: {out / 'card'}" if card else ""))


@app.command()
@spread
def synthesize(
    flow: FlowPath,
    config: Annotated[SynthesizeConfig, Flags(without=("bayes_error", "temperature"), names={"n": "-n"})],
    bayes_error: BayesError = None,
    temperature: Temperature = None,
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
    from hardpan.data.opening import short_name

    out = out or Path(f"synthetic-{short_name(flow)}")
    check_out(out)
    temperature = _one_of(bayes_error, temperature)
    config = dataclasses.replace(config, bayes_error=bayes_error, temperature=temperature)
    with progress_on_stderr() as progress:
        benchmark = flows.synthesize(flows.load(flow), out, config, source=flow, progress=progress)
    emit_report(benchmark, json=json)
    if not json:
        typer.echo(f"Data: {out / benchmark.data}\nTrue posteriors: {out / 'manifest.json'}")


@app.command()
@reporting
def judge(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a benchmark (hardpan flow synthesize).")],
    predictions: Annotated[
        Path,
        typer.Argument(
            metavar="PREDICTIONS",
            help="Probabilities of the test examples: a store, npz (keys probs and ids), or npy with --by-order.",
        ),
    ],
    by_order: ByOrder = False,
    name: Annotated[str, typer.Option(help="Name of the classifier in the report.")] = "",
) -> Report:
    """Compare a classifier with the true posteriors: excess error, calibration error, difficulty by example.

    Example: [bold]hardpan flow judge synthetic predictions.npz --out judged[/bold]
    """
    from hardpan import flows

    benchmark = flows.read_benchmark(folder)
    probs = _test_probabilities(predictions, benchmark, by_order)
    return flows.judge(benchmark, probs, name=name or predictions.stem)


@app.command()
@parallel_options
def curve(
    flow: FlowPath,
    config: Annotated[CurveConfig, Flags(without=("bayes_error", "temperature"))],
    bayes_error: BayesError = None,
    temperature: Temperature = None,
    out: OutFolder = None,
    json: JsonFlag = False,
) -> None:
    """Learning curves above a known Bayes error: how the excess error falls with the size of the training set.

    With --out, finished training runs are kept; if interrupted, run the same command again to resume.

    Example: [bold]hardpan flow curve fashion-mnist --models linear,mlp --sizes 500,2000,8000 --out curve[/bold]
    """
    from hardpan import flows

    check_out(out)
    temperature = _one_of(bayes_error, temperature)
    config = dataclasses.replace(config, bayes_error=bayes_error, temperature=temperature)
    with progress_on_stderr() as progress:
        result = grow(flows.load(flow), config, name=flow, out=out, progress=progress)
    emit_report(result, json=json, out=out)


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
    temperatures = floats("--temperature", temperature)
    with progress_on_stderr() as progress:
        result = flows.sample_temperatures(
            flows.load(flow), temperatures, n, name=flow, seed=seed, progress=progress
        )
    emit_report(result, json=json, out=out)


def _one_of(bayes_error: float | None, temperature: float | None) -> float:
    if bayes_error is not None and temperature is not None:
        raise InputError(
            f"--bayes-error {bayes_error:g} sets the temperature; got --temperature {temperature:g} too: use one"
        )
    return 1.0 if temperature is None else temperature


def _test_probabilities(path: Path, benchmark: Any, by_order: bool) -> NDArray[Any]:
    """Probabilities of the test examples in the order of the benchmark; the mean over seeds, last epoch."""
    predictions = Predictions.open(path)
    if by_order and len(predictions) == len(benchmark.test):
        return np.asarray(predictions.align(benchmark.ids[benchmark.test], by_order=True).final_probs())
    aligned = predictions.align(benchmark.ids, by_order=by_order)
    row_of = np.full(len(benchmark.ids), -1, dtype=np.int64)
    row_of[aligned.rows] = np.arange(len(aligned))
    test = row_of[benchmark.test]
    if (test < 0).any():
        missing = benchmark.ids[benchmark.test[test < 0]]
        raise InputError(
            f"{path}: has no prediction for {len(missing):,} test examples, such as {str(missing[0])!r}"
        )
    return np.asarray(aligned.final_probs()[test])
