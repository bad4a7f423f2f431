"""``hardpan experiments``: follow-up studies that need training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from hardpan.cli import train as flags
from hardpan.cli.common import (
    Confidence,
    JsonFlag,
    OutFolder,
    Seed,
    check_out,
    emit_report,
    floats,
    progress_on_stderr,
)
from hardpan.cli.data_options import GROUPED_DATA_FLAGS, GroupedDataFlags
from hardpan.cli.groups import parallel_options
from hardpan.errors import InputError
from hardpan.studies import crossval as crossval_study
from hardpan.studies import partial as partial_study
from hardpan.studies import retune as retune_study
from hardpan.training.config import TrainConfig

app = typer.Typer(
    help="Follow-up studies that train models: re-tuning, training on part of the new set, cross-validation."
)
DEFAULT = TrainConfig()

New = Annotated[
    str | None,
    typer.Option("--new", metavar="DATA", help="The new test set (default: half of the test set, as a control)."),
]
Model = Annotated[str, typer.Option("--model", help="Architecture, or module:factory.")]
Folds = Annotated[int, typer.Option("--folds", min=2, help="Parts of the training set.")]
Splits = Annotated[int, typer.Option("--splits", min=1, help="Number of random halves of the new set.")]
Control = Annotated[
    bool, typer.Option("--control/--no-control", help="Also add as many original test examples instead.")
]
Grid = Annotated[
    list[str] | None,
    typer.Option(
        "--grid", metavar="NAME=V,V,...", help="Values of a setting; repeat it. Default: the paper's grid."
    ),
]
Start = Annotated[
    list[str] | None, typer.Option("--start", metavar="NAME=V", help="Starting point of the comparison; repeat it.")
]
Choose = Annotated[str, typer.Option("--choose", help="Test set that chooses the best setting: new or original.")]
Extensions = Annotated[
    int, typer.Option("--extensions", min=0, help="How often a range may be extended at either end.")
]


@app.command()
@parallel_options
def retune(
    data: flags.Data,
    new: New = None,
    reading: GroupedDataFlags = GROUPED_DATA_FLAGS,
    model: Model = "vgg16",
    grid: Grid = None,
    start: Start = None,
    choose: Choose = "new",
    extensions: Extensions = 3,
    recipe: flags.Recipe = flags.RECIPE,
    out: OutFolder = None,
    seed: Seed = 0,
    confidence: Confidence = 0.95,
    as_json: JsonFlag = False,
) -> None:
    """Can other settings recover the drop? A grid that is extended until its best setting is inside.

    Example: [bold]hardpan experiments retune cifar10 --new cifar10.1 --out retuned[/bold]
    """
    config = retune_study.RetuneConfig(
        train=recipe.config(model=model, seeds=1),
        grid={name: floats("--grid", text) for name, text in _named("--grid", grid, "rate=0.05,0.1,0.2")},
        start={name: floats("--start", text)[0] for name, text in _named("--start", start, "rate=0.1")},
        choose=choose,
        extensions=extensions,
        seed=seed,
        confidence=confidence,
    )
    check_out(out)
    with progress_on_stderr() as progress:
        study = retune_study.search_settings(
            reading.apply(data), reading.other(new), config, out=out, progress=progress
        )
    emit_report(study, json=as_json, out=out)


@app.command()
@parallel_options
def partial(
    data: flags.Data,
    new: New = None,
    reading: GroupedDataFlags = GROUPED_DATA_FLAGS,
    model: flags.Model = "vgg16",
    splits: Splits = 2,
    control: Control = True,
    recipe: flags.Recipe = flags.RECIPE,
    rate: flags.Rate = DEFAULT.rate,
    weight_decay: flags.Decay = DEFAULT.weight_decay,
    out: OutFolder = None,
    seed: Seed = 0,
    confidence: Confidence = 0.95,
    as_json: JsonFlag = False,
) -> None:
    """Does training on half of the new set recover the other half?

    Example: [bold]hardpan experiments partial cifar10 --new cifar10.1 --model vgg16 --out part[/bold]
    """
    training = recipe.config(model=model, seeds=1, rate=rate, weight_decay=weight_decay)
    config = partial_study.PartialConfig(training, splits, control, seed, confidence)
    check_out(out)
    with progress_on_stderr() as progress:
        study = partial_study.train_on_part(
            reading.apply(data), reading.other(new), config, out=out, progress=progress
        )
    emit_report(study, json=as_json, out=out)


@app.command()
@parallel_options
def crossval(
    data: flags.Data,
    new: New = None,
    reading: GroupedDataFlags = GROUPED_DATA_FLAGS,
    model: flags.Model = "vgg16",
    folds: Folds = 5,
    recipe: flags.Recipe = flags.RECIPE,
    rate: flags.Rate = DEFAULT.rate,
    weight_decay: flags.Decay = DEFAULT.weight_decay,
    out: OutFolder = None,
    seed: Seed = 0,
    confidence: Confidence = 0.95,
    as_json: JsonFlag = False,
) -> None:
    """Does cross-validation on the original data predict the new test set?

    Example: [bold]hardpan experiments crossval cifar10 --new cifar10.1 --model vgg16,resnet18 --out folds[/bold]
    """
    training = recipe.config(model=model, seeds=1, rate=rate, weight_decay=weight_decay)
    config = crossval_study.CrossvalConfig(training, folds, seed, confidence)
    check_out(out)
    with progress_on_stderr() as progress:
        study = crossval_study.cross_validate(
            reading.apply(data), reading.other(new), config, out=out, progress=progress
        )
    emit_report(study, json=as_json, out=out)


def _named(flag: str, items: Sequence[str] | None, example: str) -> list[tuple[str, str]]:
    results = []
    for item in items or ():
        name, equals, text = item.partition("=")
        if not equals or not name or not text:
            raise InputError(f"{flag} must be like {example}; got {item!r}")
        results.append((name.strip().replace("-", "_"), text))
    return results
