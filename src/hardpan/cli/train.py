"""``hardpan train``: classifiers, and the predictions of every example after every epoch."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hardpan.cli.common import JsonFlag, emit_report, progress_on_stderr
from hardpan.cli.data_options import DATA_FLAGS, DataFlags
from hardpan.cli.groups import parallel_options
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.training.config import TrainConfig

app = typer.Typer(rich_markup_mode="rich", add_completion=False)
DEFAULT = TrainConfig()

Data = Annotated[str, typer.Argument(metavar="DATA", help="Name, file or folder of a dataset with labels.")]
Out = Annotated[
    str, typer.Option("--out", metavar="STORE", help="Store of predictions: a folder or an fsspec address.")
]
Weights = Annotated[str | None, typer.Option("--weights", metavar="DIR", help="Folder of models (STORE-models).")]
Model = Annotated[str, typer.Option("--model", help="Architecture, or several with commas; or module:factory.")]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Runs per architecture: seeds 0, 1, ...")]
Epochs = Annotated[int, typer.Option("--epochs", min=1, help="Passes over the training examples.")]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Examples per step, over all processes.")]
Optimizer = Annotated[str, typer.Option("--optimizer", help="sgd, adamw or adam (default: by architecture).")]
Rate = Annotated[
    float | None,
    typer.Option("--rate", show_default=False, help="Highest learning rate (default: by architecture)."),
]
Momentum = Annotated[float, typer.Option("--momentum", help="Of sgd.")]
Decay = Annotated[
    float | None,
    typer.Option("--weight-decay", show_default=False, help="Of matrices and filters (default: by optimiser)."),
]
Schedule = Annotated[str, typer.Option("--schedule", help="cosine, step or constant.")]
Warmup = Annotated[float, typer.Option("--warmup", help="Fraction of the run over which the rate rises.")]
Clip = Annotated[
    float | None,
    typer.Option(
        "--clip", show_default=False, help="Largest norm of the gradient; 0: no limit (default: by architecture)."
    ),
]
Smoothing = Annotated[float, typer.Option("--smoothing", help="Label smoothing, 0..1.")]
Average = Annotated[float, typer.Option("--average", help="Decay of averaged weights that predict; 0: none.")]
Augment = Annotated[str, typer.Option("--augment", help="auto, none, crop or crop-flip.")]
Objective = Annotated[
    str,
    typer.Option("--objective", help="erm, groupdro, reweight, upsample or subsample; all but erm need --groups."),
]
GroupsFile = Annotated[
    Path | None,
    typer.Option(
        "--groups",
        metavar="FILE|COLUMN",
        help="A subset's JSON (its examples against the rest), an npz with groups, or a column of the table.",
    ),
]
Options = Annotated[
    list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="Setting of the architecture; repeat it.")
]
ObjectiveOptions = Annotated[
    list[str] | None,
    typer.Option("--objective-option", metavar="NAME=VALUE", help="Setting of the objective; repeat it."),
]
RecordEvery = Annotated[
    int, typer.Option("--record", min=1, help="Record after every so many epochs, and the last.")
]
Patience = Annotated[int, typer.Option("--patience", min=0, help="Stop after so many epochs without a better one.")]
ScalarsOnly = Annotated[
    bool,
    typer.Option("--scalars-only", help="Seeds in lockstep; keep scores and final weights, no predictions."),
]
Precision = Annotated[str, typer.Option("--precision", help="auto, float32, tf32 or bf16.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")]
Threads = Annotated[int, typer.Option("--threads", min=1, help="CPU threads of a run.")]
Capture = Annotated[bool, typer.Option("--capture/--no-capture", help="On a GPU: replay steps as a CUDA graph.")]
Compile = Annotated[bool, typer.Option("--compile", help="Compile models with torch.compile.")]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings of training that every command that trains has."""

    epochs: Epochs = DEFAULT.epochs
    batch: Batch = DEFAULT.batch
    optimizer: Optimizer = DEFAULT.optimizer
    schedule: Schedule = DEFAULT.schedule
    augment: Augment = DEFAULT.augment
    option: Options = None
    precision: Precision = DEFAULT.precision
    device: Device = DEFAULT.device
    threads: Threads = DEFAULT.threads

    def config(self, **settings: Any) -> TrainConfig:
        """The settings of a run, with those that not every command has."""
        given = {item.name: getattr(self, item.name) for item in fields(self)}
        options = named_values("--option", given.pop("option"))
        return TrainConfig(**given, model_options=options, **settings)


RECIPE = Recipe()


@app.command()
@parallel_options
def train(
    data: Data,
    out: Out,
    reading: DataFlags = DATA_FLAGS,
    weights: Weights = None,
    model: Model = DEFAULT.model,
    seeds: Seeds = DEFAULT.seeds,
    recipe: Recipe = RECIPE,
    rate: Rate = None,
    momentum: Momentum = DEFAULT.momentum,
    weight_decay: Decay = None,
    warmup: Warmup = DEFAULT.warmup,
    clip: Clip = None,
    smoothing: Smoothing = DEFAULT.smoothing,
    average: Average = DEFAULT.average,
    objective: Objective = DEFAULT.objective,
    groups: GroupsFile = None,
    objective_option: ObjectiveOptions = None,
    record: RecordEvery = DEFAULT.record_every,
    patience: Patience = DEFAULT.patience,
    scalars_only: ScalarsOnly = False,
    capture: Capture = DEFAULT.capture,
    compile_models: Compile = DEFAULT.compile,
    as_json: JsonFlag = False,
) -> None:
    """Train classifiers and record their predictions of every example after every epoch.

    If interrupted, run the same command again to resume.

    Example: [bold]hardpan train digits --model mlp --seeds 3 --epochs 20 --out runs/digits[/bold]
    """
    config = recipe.config(
        model=model,
        seeds=seeds,
        rate=_given("--rate", rate, DEFAULT.rate, above=0.0),
        momentum=momentum,
        weight_decay=_given("--weight-decay", weight_decay, DEFAULT.weight_decay),
        warmup=warmup,
        clip=_given("--clip", clip, DEFAULT.clip),
        smoothing=smoothing,
        average=average,
        objective=objective,
        objective_options=named_values("--objective-option", objective_option),
        record_every=record,
        patience=patience,
        capture=capture,
        compile=compile_models,
    )
    # Imported here because torch takes longer to load than --help may take.
    from hardpan import training
    from hardpan.engine import distributed

    dataset: Any = reading.apply(data)
    group_numbers: Any = groups
    if groups is not None and not groups.exists():
        dataset = reading.open(data, groups=str(groups))
        group_numbers = np.unique(dataset.metadata["group"], return_inverse=True)[1]
    with _progress(distributed.launched_as_main()) as progress:
        made = training.train(
            dataset,
            config,
            out=out,
            weights=weights,
            groups=group_numbers,
            scalars_only=scalars_only,
            progress=progress,
        )
    if distributed.launched_as_main():
        emit_report(made, json=as_json)


def _given(option: str, value: float | None, default: float, above: float | None = None) -> float:
    """What was given; the settings have a number that stands for "nothing given", which nobody means by it."""
    if value is None:
        return default
    if math.isnan(value) or value < 0 or value == above:
        raise InputError(
            f"{option} must be {'above 0' if above == 0 else 'at least 0'}; got {value:g}: leave it out for the "
            "default of the architecture"
        )
    return value


@contextmanager
def _progress(wanted: bool) -> Iterator[Progress | None]:
    if not wanted:  # another process of the same run tells it
        yield None
        return
    with progress_on_stderr() as progress:
        yield progress


def named_values(option: str, items: Sequence[str] | None) -> dict[str, Any]:
    """Read NAME=VALUE settings; values are JSON where they can be, else text."""
    results: dict[str, Any] = {}
    for item in items or ():
        name, equals, value = item.partition("=")
        if not equals or not name or not value:
            raise InputError(f"{option} must be NAME=VALUE, such as width=64; got {item!r}")
        try:
            results[name] = json.loads(value)
        except ValueError:
            results[name] = value
    return results
