"""``hardpan experiments``: follow-up studies that need training."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from hardpan import files
from hardpan.cli import train as flags
from hardpan.cli.common import Confidence, JsonFlag, OutFolder, Seed, emit, floats, progress_on_stderr
from hardpan.cli.data_options import GROUPED_DATA_FLAGS, GroupedDataFlags
from hardpan.cli.groups import parallel_options
from hardpan.errors import InputError
from hardpan.report.sections import Provenance, Section
from hardpan.report.terminal import FittedTable
from hardpan.studies import crossval as crossval_study
from hardpan.studies import partial as partial_study
from hardpan.studies import retune as retune_study
from hardpan.studies import retune_page
from hardpan.studies.runs import Place
from hardpan.training.config import TrainConfig

app = typer.Typer(help="Follow-up studies that train models: re-tuning, training on part, cross-validation.")
DEFAULT = TrainConfig()
PAPER = "Recht, Roelofs, Schmidt, Shankar: Do ImageNet Classifiers Generalize to ImageNet? (2019)"
_MOST_SHOWN = 12
_MOST_COLUMNS = 7

New = Annotated[
    str | None,
    typer.Option("--new", metavar="DATA", help="The new test set; without it half of the test set stands in."),
]
Model = Annotated[str, typer.Option("--model", help="Architecture, or module:factory.")]
Folds = Annotated[int, typer.Option("--folds", min=2, help="Parts of the training set.")]
Splits = Annotated[int, typer.Option("--splits", min=1, help="Random halves of the new set that are tried.")]
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
    list[str] | None, typer.Option("--start", metavar="NAME=V", help="Where the comparison starts; repeat it.")
]
Choose = Annotated[str, typer.Option("--choose", help="Test set that chooses the best setting: new or original.")]
Extensions = Annotated[int, typer.Option("--extensions", min=0, help="How often a range may grow at either end.")]


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
    """Can other settings recover the drop? A grid that grows until its best is not at an edge.

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
    with progress_on_stderr() as progress:
        place = _place(out, progress)
        study = retune_study.search_settings(reading.apply(data), reading.other(new), config, place=place)
    method = (
        "Every combination of the grid is trained once on the training set. Where the most accurate one has a "
        "value at an end of its range, the range is continued and the new combinations are trained, until the best "
        "lies inside.",
        "Gains over the starting point are on the same examples: Agresti–Min intervals, exact McNemar p-values, "
        "Holm's correction. For the fair gain, each random half of the new set chooses a setting and the other "
        "half judges it.",
    )
    _finish(study, retune_page.section(study), config, method, out, as_json)


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
    with progress_on_stderr() as progress:
        place = _place(out, progress)
        study = partial_study.train_on_part(reading.apply(data), reading.other(new), config, place=place)
    method = (
        "A random, class-balanced half of the new test set is added to the training set; the model trained on that "
        "and the model trained without it are tested on the other half, on the same examples (Agresti–Min "
        "intervals, exact McNemar test). The control adds as many examples of the original test set instead.",
    )
    _finish(study, partial_study.section(study), config, method, out, as_json)


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
    """Could cross-validation on the original data have foreseen the new test set?

    Example: [bold]hardpan experiments crossval cifar10 --new cifar10.1 --model vgg16,resnet18 --out folds[/bold]
    """
    training = recipe.config(model=model, seeds=1, rate=rate, weight_decay=weight_decay)
    config = crossval_study.CrossvalConfig(training, folds, seed, confidence)
    with progress_on_stderr() as progress:
        place = _place(out, progress)
        study = crossval_study.cross_validate(reading.apply(data), reading.other(new), config, place=place)
    method = (
        "The training set is cut at random into class-balanced folds. For each fold a model is trained on the "
        "other folds and the original test set, and tested on the fold; one more model is trained on the training "
        "set and tested on the original and the new test set. Clopper–Pearson intervals.",
    )
    _finish(study, crossval_study.section(study), config, method, out, as_json)


def _named(flag: str, items: Sequence[str] | None, example: str) -> list[tuple[str, str]]:
    found = []
    for item in items or ():
        name, equals, text = item.partition("=")
        if not equals or not name or not text:
            raise InputError(f"{flag} must be like {example}; got {item!r}")
        found.append((name.strip().replace("-", "_"), text))
    return found


def _place(out: Path | None, progress: Any) -> Place:
    if out is not None:
        from hardpan.report.files import check_writable

        check_writable(out)
    return Place(out, progress)


def _finish(
    study: Any, part: Section, config: Any, method: tuple[str, ...], out: Path | None, as_json: bool
) -> None:
    """Write the page where there is a folder for it, and print the study."""
    page = None
    if out is not None:
        from hardpan import report
        from hardpan.report.files import write_together

        # The page's table of estimates is one of errors; these are accuracies, and the part's own table has them.
        html = report.page(
            [dataclasses.replace(part, sentences=part.sentences[1:], estimates={})],
            title=part.title,
            headline=part.sentences[0],
            provenance=Provenance(
                method=method,
                citations=(PAPER,),
                command=shlex.join(["hardpan", *sys.argv[1:]]),
                seed=config.seed,
                versions=files.versions_of("numpy", "torch"),
            ),
        )
        contents = {"index.html": html}
        contents["config.json"] = files.dumps(files.to_json(config)) + "\n"
        contents["report.json"] = files.dumps(files.to_json(study)) + "\n"
        write_together(out, contents)
        page = out / "index.html"
    emit(study, as_json, _shown(part, page))


def _shown(part: Section, page: Path | None) -> RenderableType:
    lines: list[RenderableType] = [Text(sentence) for sentence in part.sentences[:_MOST_SHOWN]]
    for table in part.tables:
        if len(table.columns) > _MOST_COLUMNS:  # the sentences say it too, and the page has room for the table
            continue
        lines += [Text(""), FittedTable(table.title, table.columns, table.rows[:_MOST_SHOWN])]
    lines += [Text(warning, style="yellow") for warning in part.warnings]
    if page is not None:
        lines.append(Text(f"Page: {page}"))
    return Group(*lines)
