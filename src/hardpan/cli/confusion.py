"""``hardpan confusion``: which examples are hard?"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hardpan import confusion
from hardpan.cli.common import ByOrder, JsonFlag, check_out, emit_report, progress_on_stderr
from hardpan.cli.data_options import GroupedDataFlags
from hardpan.cli.options import Flags, parallel_options, reporting, spread
from hardpan.confusion import summaries
from hardpan.confusion.difficulty import Signals
from hardpan.confusion.reading import select_epochs
from hardpan.confusion.scoring import split_rows
from hardpan.confusion.summaries import ConfusionConfig
from hardpan.data.dataset import Dataset
from hardpan.data.opening import parse_source, short_name
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.predictions import Predictions
from hardpan.report.base import Report
from hardpan.safe_files import read_npz

app = typer.Typer(
    help="Which examples are hard? Confusion scores, error by band, hard subsets, transfer, ablation.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

Source = Annotated[
    str,
    typer.Argument(
        metavar="PREDICTIONS",
        help="A store, npz, npy, CSV, JSONL or Parquet file (seeds × epochs × examples × classes), or scores.json.",
    ),
]
Sources = Annotated[
    list[str],
    typer.Argument(metavar="PREDICTIONS", help="One store or file of predictions per model, as for score."),
]
Names = Annotated[
    str | None, typer.Option("--names", help="Names of the models, separated by commas (default: paths).")
]
Correct = Annotated[
    Path | None,
    typer.Option(
        "--correct", metavar="FILE", help="correct.npz of train --scalars-only, if PREDICTIONS are scores."
    ),
]


@dataclass(frozen=True, slots=True)
class Inputs(GroupedDataFlags):
    """Options of every command: how predictions are read and joined to a dataset."""

    data: Annotated[
        str,
        typer.Option(
            "--data", metavar="DATA", help="The dataset that was predicted, for labels, split and images."
        ),
    ] = ""
    by_order: ByOrder = False
    subset: Annotated[
        Path | None,
        typer.Option(
            "--subset", metavar="FILE", help="Use only the examples of this subset (confusion subset --out FILE)."
        ),
    ] = None
    class_check: Annotated[
        bool,
        typer.Option(
            "--class-check/--no-class-check",
            help="Refuse predictions whose class columns look permuted or shifted.",
        ),
    ] = True
    outputs: Annotated[
        str,
        typer.Option(
            "--outputs", help="What the file contains: probabilities, logits, labels, or auto (by its values)."
        ),
    ] = "auto"
    normalize: Annotated[
        bool, typer.Option("--normalize", help="Divide rows by their sums (rounded rows, percentages).")
    ] = False

    def complete(self, config: ConfusionConfig) -> ConfusionConfig:
        """The settings with the dataset and the subset, which are saved with the result."""
        return replace(config, data=self.data, subset=str(self.subset or ""))

    def dataset(self) -> Dataset | None:
        """The dataset, if one is named."""
        return self.open(self.data) if self.data else None

    def predictions(self, path: str, dataset: Dataset | None, config: ConfusionConfig) -> Predictions:
        """Predictions with the selected seeds, epochs and examples, joined to the dataset."""
        _check_exists(path)
        opened = Predictions.open(path, outputs=self.outputs, normalize=self.normalize)
        if self.outputs == "auto" and getattr(opened, "outputs", "") == "logits":
            print(f"hardpan: {path} seems to contain logits; their softmax is used", file=sys.stderr)
        if dataset is not None:
            result = opened.align(dataset, by_order=self.by_order, check=self.class_check)
            if opened.labels is not None and dataset.labels is not None:
                _report_differing(path, opened, result, dataset)
            opened = result
        elif self.class_check:
            opened.check_classes()
        if config.seeds:
            opened = opened.select(seeds=config.seeds)
        opened = select_epochs(opened, config.epochs)
        return opened if self.subset is None else opened.select(confusion.load_subset(self.subset))

    def measured(
        self, path: str, dataset: Dataset | None, config: ConfusionConfig, progress: Progress
    ) -> tuple[confusion.Scores, Signals | None]:
        """Saved scores, or the scores and signals of predictions."""
        _check_exists(path)
        saved = confusion.load_scores(path)
        if saved is not None:
            return (saved if self.subset is None else saved.select(confusion.load_subset(self.subset))), None
        predictions = self.predictions(path, dataset, config)
        return confusion.measure(predictions, config.base, progress=_named(progress, "scoring"))

    def scores(
        self, path: str, dataset: Dataset | None, config: ConfusionConfig, *, stderr: bool, progress: Progress
    ) -> tuple[confusion.Scores, Predictions | None]:
        """Saved scores, or those of predictions (then with the predictions)."""
        _check_exists(path)
        saved = confusion.load_scores(path)
        if saved is not None:
            return (saved if self.subset is None else saved.select(confusion.load_subset(self.subset))), None
        predictions = self.predictions(path, dataset, config)
        result = confusion.scores(predictions, config.base, stderr=stderr, progress=_named(progress, "scoring"))
        return result, predictions


NONE = Inputs()
Scored = Annotated[ConfusionConfig, Flags(only=("epochs", "seeds", "base", "split", "confidence"))]
Banded = Annotated[ConfusionConfig, Flags(only=("edges", "of", "epochs", "seeds", "confidence", "seed"))]
Selected = Annotated[ConfusionConfig, Flags(only=("split", "epochs", "seeds", "base"))]
_ABLATED = ("target", "config", "rows", "name")
Compared = Flags(only=("split", "of", "epochs", "confidence", "seed"))


@app.command()
@reporting
@parallel_options
def score(predictions: Source, config: Scored, inputs: Inputs = NONE) -> Report:
    """Confusion score of every example, with standard errors; --out also writes scores.csv and scores.json.

    Example: [bold]hardpan confusion score runs/resnet18 --data cifar10 --split test --out scored[/bold]
    """
    config, dataset = inputs.complete(config), inputs.dataset()
    with progress_on_stderr() as progress:
        scores, signals = inputs.measured(predictions, dataset, config, progress)
        return confusion.summarize(scores, signals, dataset, config=config)


@app.command()
@reporting
@parallel_options
def bands(predictions: Source, config: Banded, inputs: Inputs = NONE, correct: Correct = None) -> Report:
    """Error by band of the score, for each split, with intervals and Pearson's ρ.

    Example: [bold]hardpan confusion bands runs/resnet18 --edges 0,0.5,1,2,3.4 --out banded[/bold]
    """
    config, dataset = inputs.complete(config), inputs.dataset()
    with progress_on_stderr() as progress:
        scores, source = inputs.scores(predictions, dataset, config, stderr=False, progress=progress)
        if source is None or correct is not None:
            right = _correct(correct, scores, config.of)
        else:
            right = confusion.signals(source, progress=_named(progress, "comparing")).correct(config.of)
        return summaries.bands_by_split(scores, right, config)


@app.command()
@parallel_options
@spread
def subset(
    predictions: Source,
    rule: Annotated[dict[str, Any], Flags(of=confusion.subset, without=("labels",))],
    config: Selected,
    inputs: Inputs = NONE,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="PATH", help="FILE.json for the subset alone, or a folder for the subset and a page."
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Select a hard subset and write it to a JSON file, which other commands take as --subset or DATA@FILE.

    Give one of --threshold, --quantile, --fraction and --count.

    Example: [bold]hardpan confusion subset runs/resnet18 --fraction 0.1 --balanced --out hard.json[/bold]
    """
    from hardpan.report.files import check_local

    if out is not None and summaries.is_manifest(out):
        check_local(out, "--out")
    else:
        check_out(out)
    config, dataset = inputs.complete(config), inputs.dataset()
    with progress_on_stderr() as progress:
        scores, _ = inputs.scores(predictions, dataset, config, stderr=False, progress=progress)
        scores = scores.select(split=config.split)
        result = confusion.subset(scores, **rule)
        emit_report(summaries.SubsetReport(result, config, scores, dataset), json=json, out=out)


@app.command()
@reporting
@parallel_options
def issues(
    predictions: Source,
    config: Annotated[ConfusionConfig, Flags(only=("split", "confidence"))],
    inputs: Inputs = NONE,
) -> Report:
    """List the labels that look wrong, most suspicious first.

    Example: [bold]hardpan confusion issues runs/resnet18 --data cifar10 --split test --out issues[/bold]
    """
    config = inputs.complete(config)
    dataset = inputs.dataset()
    result = _of_split(inputs.predictions(predictions, dataset, config), config.split)
    return confusion.label_issues(result, confidence=config.confidence, dataset=dataset)


@app.command()
@reporting
@parallel_options
def transfer(
    predictions: Sources, config: Annotated[ConfusionConfig, Compared], names: Names = None, inputs: Inputs = NONE
) -> Report:
    """Are examples that are hard for the first model hard for the others? Rank correlations, errors by band.

    Example: [bold]hardpan confusion transfer runs/resnet18 runs/resnet50 runs/vit --split test --out
    transfer[/bold]
    """
    config, dataset = inputs.complete(config), inputs.dataset()
    scores, correct = {}, {}
    with progress_on_stderr() as progress:
        for name, path in zip(_model_names(predictions, names), predictions, strict=True):
            result, source = inputs.scores(path, dataset, config, stderr=False, progress=progress)
            rows = split_rows(result, config.split)
            scores[name] = result.select(rows)
            if source is not None and source.labels is not None:
                signals = confusion.signals(source, progress=_named(progress, "comparing"))
                correct[name] = signals.correct(config.of)[..., rows]
        return summaries.transfer_between(scores, correct, config)


@app.command()
@reporting
@parallel_options
def ablate(
    predictions: Source,
    config: Annotated[ConfusionConfig, Flags(only=("split", "of"), without=("seeds",))],
    options: Annotated[
        dict[str, Any],
        Flags(of=summaries.ablation_of, without=_ABLATED, names={"seeds": "--seed-counts"}),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            "--target", help="Predictions of the model whose error by band is shown (default: PREDICTIONS)."
        ),
    ] = None,
    inputs: Inputs = NONE,
) -> Report:
    """How many seeds and epochs are enough? Scores from fewer of each, compared with those from all.

    Example: [bold]hardpan confusion ablate runs/resnet18 --target runs/resnet50 --split test --out ablated[/bold]
    """
    config, dataset = inputs.complete(config), inputs.dataset()
    source = _of_split(inputs.predictions(predictions, dataset, config), config.split)
    aimed = None if target is None else inputs.predictions(target, dataset, config)
    with progress_on_stderr() as progress:
        return summaries.ablation_of(
            source,
            aimed,
            config=config,
            **options,
            name=Path(target or predictions).name,
            progress=_named(progress, "ablating"),
        )


@app.command()
@reporting
@parallel_options
def compare(
    predictions: Sources,
    config: Annotated[ConfusionConfig, replace(Compared, defaults={"of": "ensemble"})],
    names: Names = None,
    inputs: Inputs = NONE,
) -> Report:
    """Compare the confusion score with other difficulty scores as predictors of errors.

    With several models, also compare the mean confusion of each with its accuracy.

    Example: [bold]hardpan confusion compare runs/resnet18 --split test --out compared[/bold]
    """
    config, dataset = inputs.complete(config), inputs.dataset()
    with progress_on_stderr() as progress:
        measured = {
            name: confusion.signals(
                _of_split(inputs.predictions(path, dataset, config), config.split), progress=_named(progress, name)
            )
            for name, path in zip(_model_names(predictions, names), predictions, strict=True)
        }
        return confusion.compare_scores(measured, config=config)


def _named(progress: Progress, name: str) -> Progress:
    return lambda step, fraction: progress(f"{name}, {step}", fraction)


def _model_names(paths: Sequence[str], names: str | None) -> tuple[str, ...]:
    """Names of the models: as given, or from their paths, numbered if those are alike."""
    if names is not None:
        listed = tuple(name.strip() for name in names.split(","))
        if len(listed) != len(paths) or len(set(listed)) != len(listed) or not all(listed):
            raise InputError(f"--names must be {len(paths)} different names with commas; got {names!r}")
        return listed
    stems = [short_name(path) for path in paths]
    return tuple(
        stem if stems.count(stem) == 1 else f"{stem} {stems[: i + 1].count(stem)}" for i, stem in enumerate(stems)
    )


def _of_split(predictions: Predictions, split: str) -> Predictions:
    return predictions if split == "all" else predictions.select(split=split)


def _report_differing(path: str, opened: Predictions, aligned: Predictions, dataset: Dataset) -> None:
    own = opened.align(aligned.ids, check=False) if opened.has_ids else opened
    if own.labels is None or aligned.labels is None or len(own) != len(aligned):
        return
    differing = int(np.count_nonzero(own.labels != aligned.labels))
    if differing:
        print(
            f"hardpan: {dataset.name} has another label than {path} for {differing:,} of {len(aligned):,} "
            f"examples; those of {dataset.name} are used",
            file=sys.stderr,
        )


def _correct(path: Path | None, scores: confusion.Scores, of: str) -> NDArray[np.bool_]:
    """Right or wrong at the end of training, as ``hardpan train --scalars-only`` saves it, in the scores' order."""
    if path is None:
        raise InputError(
            "--correct: scores alone do not tell right from wrong; give correct.npz (beside the models that "
            "hardpan train --scalars-only wrote), or predictions"
        )
    try:
        stored = read_npz(path, ("ids", of))
        ids, right = stored["ids"], stored[of]
    except (InputError, KeyError) as error:
        raise InputError(
            f"--correct {path}: is not an npz with ids and {of}; give correct.npz of hardpan train --scalars-only"
        ) from error
    row_of = {name: row for row, name in enumerate(ids.tolist())}
    if right.dtype != np.bool_ or right.shape[-1:] != ids.shape or not set(scores.ids.tolist()) <= set(row_of):
        raise InputError(f"--correct {path}: is not of the examples that were scored; give their own file")
    result: NDArray[np.bool_] = right[..., [row_of[name] for name in scores.ids.tolist()]]
    return result


def _check_exists(path: str) -> None:
    if "://" in path:
        return
    if not os.path.exists(path) and not os.path.exists(parse_source(path)[0]):
        raise InputError(f"{path}: no such file or folder; give predictions, or scores.json")
    folder = Path(path)
    if folder.is_dir():
        from hardpan.predictions.store import is_store

        if not is_store(folder):
            inner = sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and is_store(entry))
            if inner:
                raise InputError(
                    f"{path}: contains stores ({', '.join(inner)}); give one, such as {path}/{inner[0]}"
                )
