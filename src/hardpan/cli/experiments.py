"""``hardpan experiments``: follow-up studies that need training."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hardpan.cli.common import (
    JsonFlag,
    OutFolder,
    check_out,
    emit_report,
    floats,
    name_and_value,
    progress_on_stderr,
)
from hardpan.cli.data_options import GROUPED_DATA_FLAGS, GroupedDataFlags
from hardpan.cli.options import Flags, parallel_options
from hardpan.cli.train import NAMES, Data
from hardpan.studies.crossval import CrossvalConfig, cross_validate
from hardpan.studies.partial import PartialConfig, train_on_part
from hardpan.studies.retune import RetuneConfig, search_settings
from hardpan.training.config import TrainConfig

app = typer.Typer(
    help="Follow-up studies that train models: hyperparameters, training on half of the new set, cross-validation."
)

# What the grid of re-tuning varies, and what a study decides itself, is no option of the training.
_VARIED = ("rate", "weight_decay", "momentum", "smoothing", "ema", "warmup", "clip")
_DECIDED = ("seeds", "objective", "objective_options", "record_every", "patience")
Training = Annotated[TrainConfig, Flags(without=_DECIDED, names=NAMES, defaults={"model": "vgg16"})]
FixedTraining = Annotated[
    TrainConfig, Flags(without=(*_DECIDED, *_VARIED), names=NAMES, defaults={"model": "vgg16"})
]
New = Annotated[
    str | None,
    typer.Option(
        "--new", metavar="DATA", help="The new test set: a dataset (default: half of the test set, as a control)."
    ),
]
Grid = Annotated[
    list[str] | None,
    typer.Option(
        "--grid",
        metavar="NAME=V,V,...",
        help="Values of a setting to try; can be repeated (default: the paper's grid).",
    ),
]
Start = Annotated[
    list[str] | None, typer.Option("--start", metavar="NAME=V", help="Setting to compare with; can be repeated.")
]


@app.command()
@parallel_options
def retune(
    data: Data,
    training: FixedTraining,
    config: Annotated[RetuneConfig, Flags(without=("train", "grid", "start"))],
    new: New = None,
    reading: GroupedDataFlags = GROUPED_DATA_FLAGS,
    grid: Grid = None,
    start: Start = None,
    out: OutFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Can other hyperparameters recover the drop? A grid that is extended until its best setting is inside.

    Example: [bold]hardpan experiments retune cifar10 --new new_test_set.npz --out retuned[/bold]
    """
    config = dataclasses.replace(
        config,
        grid={name: floats("--grid", text) for name, text in _named("--grid", grid, "rate=0.05,0.1,0.2")},
        start={name: floats("--start", text)[0] for name, text in _named("--start", start, "rate=0.1")},
    )
    _run(search_settings, data, new, config, training, reading, out, as_json)


@app.command()
@parallel_options
def partial(
    data: Data,
    training: Training,
    config: Annotated[PartialConfig, Flags(without=("train",))],
    new: New = None,
    reading: GroupedDataFlags = GROUPED_DATA_FLAGS,
    out: OutFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Does training on half of the new set recover the drop on the other half?

    Example: [bold]hardpan experiments partial cifar10 --new new_test_set.npz --model vgg16 --out partial[/bold]
    """
    _run(train_on_part, data, new, config, training, reading, out, as_json)


@app.command()
@parallel_options
def crossval(
    data: Data,
    training: Training,
    config: Annotated[CrossvalConfig, Flags(without=("train",))],
    new: New = None,
    reading: GroupedDataFlags = GROUPED_DATA_FLAGS,
    out: OutFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Does cross-validation on the original data predict the new test set?

    Example: [bold]hardpan experiments crossval cifar10 --new new_test_set.npz --model vgg16 --out folds[/bold]
    """
    _run(cross_validate, data, new, config, training, reading, out, as_json)


def _run(
    study: Any,
    data: str,
    new: str | None,
    config: Any,
    training: TrainConfig,
    reading: GroupedDataFlags,
    out: Path | None,
    as_json: bool,
) -> None:
    check_out(out)
    config = dataclasses.replace(config, train=dataclasses.replace(training, seeds=1))
    with progress_on_stderr() as progress:
        result = study(reading.apply(data), reading.other(new), config, out=out, progress=progress)
    emit_report(result, json=as_json, out=out)


def _named(option: str, items: Sequence[str] | None, example: str) -> list[tuple[str, str]]:
    pairs = [name_and_value(option, item, example) for item in items or ()]
    return [(name.replace("-", "_"), text) for name, text in pairs]
