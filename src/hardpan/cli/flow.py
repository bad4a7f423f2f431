"""``hardpan flow``: flows with an exactly known Bayes error; what is made from them is in ``flow_benchmark``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from hardpan import numbers
from hardpan.cli import flow_benchmark, flow_samples
from hardpan.cli.common import JsonFlag, Seed, emit, floats, progress_on_stderr
from hardpan.errors import InputError

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Flows with an exactly known Bayes error.")

SHOWN_FLOORS = 6  # of all epochs, in the table


@app.callback()
def group() -> None:
    """Flows with an exactly known Bayes error: fit them, draw benchmarks of any difficulty, judge classifiers."""


@app.command("fit")
def fit_command(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A name, file or folder: images or feature vectors.")],
    preset: Annotated[str, typer.Option(help="tiny (CPU, seconds), small, or paper (K=16, L=3, C=512).")] = "small",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for the flow and its checkpoints; default flow-DATA."),
    ] = None,
    class_weight: Annotated[float, typer.Option(help="λ, the weight of the classification loss.")] = 0.01,
    sweep: Annotated[
        str,
        typer.Option(help="Values of λ with commas, tried at --sweep-preset; the best by validation NLL is used."),
    ] = "",
    sweep_preset: Annotated[str, typer.Option(help="The preset of the trials.")] = "small",
    class_covariances: Annotated[
        bool, typer.Option("--class-covariances", help="One covariance a class instead of one for all.")
    ] = False,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training rows.")] = None,
    batch: Annotated[int | None, typer.Option("--batch", min=1, help="Rows a step.")] = None,
    rate: Annotated[float | None, typer.Option("--rate", help="Highest learning rate.")] = None,
    steps: Annotated[int | None, typer.Option(help="K, flow steps a level (images).")] = None,
    levels: Annotated[int | None, typer.Option(help="L, levels (images).")] = None,
    width: Annotated[int | None, typer.Option(help="C, channels of the coupling networks (images).")] = None,
    grey_levels: Annotated[int | None, typer.Option(help="Levels of integer images, where 256 is wrong.")] = None,
    pad_to: Annotated[int | None, typer.Option(help="Pad images to at least this height and width.")] = None,
    patience: Annotated[int, typer.Option(help="Stop after so many epochs without a better NLL (0: never).")] = 0,
    precision: Annotated[str, typer.Option(help="float32, or bf16 for the coupling networks.")] = "float32",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Fit a class-conditional flow to a dataset: exact likelihoods, and the Bayes error of what it learned.

    Killed, the same command goes on from its last checkpoint to the same numbers. Several GPUs:
    torchrun --nproc-per-node N -m hardpan flow fit ...

    Example: [bold]hardpan flow fit digits --preset tiny --out flows/digits[/bold]
    """
    from hardpan import flows
    from hardpan.data.dataset import Dataset
    from hardpan.data.opening import short_name
    from hardpan.report.files import check_writable

    out = out or Path(f"flow-{short_name(data)}")
    check_writable(out)
    if rate is not None and not 0 < rate < math.inf:
        raise InputError(f"--rate must be a positive number; got {rate}")
    config = flows.FlowConfig(
        preset=preset, class_weight=class_weight, class_covariances=class_covariances, epochs=epochs,
        batch_size=batch, learning_rate=rate, steps=steps, levels=levels, width=width,
        grey_levels=grey_levels, pad_to=pad_to, patience=patience, precision=precision, device=device, seed=seed,
    )  # fmt: skip
    config.filled()  # refuse bad settings before the data is read
    weights = floats("--sweep", sweep) if sweep else ()
    if sweep and sweep_preset not in flows.PRESETS:
        raise InputError(f"--sweep-preset must be one of {', '.join(flows.PRESETS)}; got {sweep_preset!r}")
    dataset = Dataset.open(data)
    with progress_on_stderr() as progress:
        progress("preparing", 0.0)
        if weights:
            flow = flows.sweep(
                dataset, config, class_weights=weights, preset=sweep_preset, out=out, progress=progress
            )
        else:
            flow = flows.fit(dataset, config, out=out, progress=progress)
    emit(flow.record, json, _table(flow, out))


def _table(flow: Any, out: Path) -> Table:
    fitted = flow.record.fitted
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    error = flow.bayes_error()
    table.add_row("flow", str(out))
    for part in ("validation", "test"):
        if f"{part}_nll" in fitted:
            nll, bits = fitted[f"{part}_nll"], fitted[f"{part}_bits_per_dim"]
            wrong = numbers.percent(fitted[f"{part}_error"])
            table.add_row(f"{part} NLL", f"{nll:,.2f} nats ({bits:.3f} bits a dimension); own error {wrong}")
    shown = f"{numbers.estimate(error)}, of the flow; of the data only if the flow is right"
    table.add_row("Bayes error at τ = 1", shown)
    floors = flow.record.floors
    chosen = sorted({round(i * (len(floors) - 1) / (SHOWN_FLOORS - 1)) for i in range(SHOWN_FLOORS)})
    along = ", ".join(f"{floors[i]['epoch']}: {numbers.percent(floors[i]['bayes_error'])}" for i in chosen)
    table.add_row("along training", f"epoch and Bayes error {along}")
    for trial in fitted.get("sweep", ()):
        table.add_row(f"λ = {trial['class_weight']:g}", f"validation NLL {trial['validation_nll']:,.2f} nats")
    table.add_row("best epoch", f"{fitted['best_epoch']} of {fitted['epochs']}, {fitted['seconds']:,.0f} s")
    return table


flow_benchmark.register(app)
flow_samples.register(app)
