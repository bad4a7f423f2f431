"""``hardpan testbed``: many models on two test sets."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hardpan import Outcomes, files, safe_files, tables, testbed
from hardpan.cli.common import Confidence, Seed, floats, name_and_value
from hardpan.cli.options import Flags, reporting
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.report.base import Report
from hardpan.safe_files import few
from hardpan.testbed import followups
from hardpan.testbed.comparison import FitReport
from hardpan.testbed.sets import TwoSets, open_outcomes

app = typer.Typer(
    help="Will the score hold? Many models on two test sets.", no_args_is_help=True, rich_markup_mode="rich"
)

Sources = Annotated[
    list[Path],
    typer.Argument(
        metavar="SCORES",
        help="One file with both test sets, or two: the original, then the new. Counts, accuracies, scores, "
        "predictions or logs; FILE@hard.json for a subset.",
    ),
]
OriginalSet = Annotated[
    str | None, typer.Option("--original", help="Name of the original set, if a file has several sets.")
]
NewSet = Annotated[str | None, typer.Option("--new", help="Name of the new set, if a file has several sets.")]
OriginalTotal = Annotated[
    int | None, typer.Option("--original-total", min=1, help="Size of the original set, for tables of accuracies.")
]
NewTotal = Annotated[
    int | None, typer.Option("--new-total", min=1, help="Size of the new set, for tables of accuracies.")
]
Scores = Annotated[
    Path,
    typer.Argument(
        metavar="SCORES", help="Scores of models by example, predictions or logs; FILE@hard.json for a subset."
    ),
]
_READING_NAMES = {
    "original_set": "--original",
    "new_set": "--new",
    "n_classes": "--classes",
    "check_classes": "--class-check",
}
Reading = Annotated[dict[str, Any], Flags(of=testbed.two_sets, without=("new",), names=_READING_NAMES)]
Line = Annotated[testbed.CompareConfig, Flags(without=("metric",))]
Models = Annotated[testbed.CompareConfig, Flags(without=("metric", "scale", "interval", "resample"))]
Fraction = Annotated[dict[str, Any], Flags(of=testbed.hardest_of, without=("new",))]
Which = Annotated[str | None, typer.Option("--set", help="Name of the test set, if the file has several.")]
Examples = Annotated[
    Path, typer.Option("--examples", help="Table with one row per example, in order or with id: CSV or Parquet.")
]


@app.command()
@reporting
def compare(scores: Sources, config: Line, reading: Reading) -> Report:
    """Accuracies, gaps and ranks of every model, and the line from the original to the new set.

    Example: [bold]hardpan testbed compare counts.csv --exclude 'fv_*' --out compared[/bold]
    """
    sets = _two_sets(scores, **reading)
    return testbed.compare(sets, config=replace(config, metric=reading["metric"]))


@app.command()
@reporting
def fit(
    scores: Sources,
    config: Line,
    reading: Reading,
    sigma: Annotated[
        float | None,
        typer.Option("--sigma", help="Spread of difficulty of the original set; also print that of the new set."),
    ] = None,
) -> Report:
    """Only the line from original to new accuracy, and how much it depends on each group of models.

    Example: [bold]hardpan testbed fit counts.csv --scale probit --sigma 1[/bold]
    """
    sets = _two_sets(scores, **reading)
    report = testbed.compare(sets, config=replace(config, metric=reading["metric"]))
    return FitReport(
        fit=report.fit.compact(),
        models=tuple(row.model for row in report.rows if row.in_fit),
        excluded=report.excluded,
        without_group=report.without_group,
        difficulty=None if sigma is None else testbed.difficulty(report.fit, sigma),
        notes=report.notes,
    )


@app.command()
@reporting
def pairs(
    scores: Sources,
    options: Annotated[
        dict[str, Any], Flags(of=testbed.pairs, without=("new", "resamples"), names={"test_set": "--test-set"})
    ],
    reading: Reading,
) -> Report:
    """Is one model better than another? McNemar's test, paired bootstrap, Holm's correction.

    Needs scores by example.

    Example: [bold]hardpan testbed pairs predictions.npz --neighbours[/bold]
    """
    return testbed.pairs(_two_sets(scores, **reading), **options)


@app.command()
@reporting
def strategies(
    sets: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=SCORES",
            help="A new test set: NAME=FILE, or NAME=ORIGINAL,NEW; FILE@hard.json for a subset.",
        ),
    ],
    frequency: Annotated[
        list[str] | None,
        typer.Option(
            "--frequency", metavar="NAME=0.73", help="Mean selection frequency of a set; can be repeated."
        ),
    ] = None,
    original_total: OriginalTotal = None,
    new_total: NewTotal = None,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
) -> Report:
    """Mean change of accuracy on several new test sets.

    Example: [bold]hardpan testbed strategies Matched=matched.csv Top=top.csv --frequency Top=0.93[/bold]
    """
    named = dict(name_and_value("NAME=SCORES", item, "NAME=SCORES") for item in sets)
    pairs = [name_and_value("--frequency", item, "NAME=0.73") for item in frequency or ()]
    files_of = {name: [Path(path) for path in text.split(",")] for name, text in named.items()}
    return testbed.strategies(
        {name: paths if len(paths) == 2 else paths[0] for name, paths in files_of.items()},
        frequencies={name: floats("--frequency", value)[0] for name, value in pairs},
        confidence=confidence,
        seed=seed,
        original_total=original_total,
        new_total=new_total,
    )


@app.command()
@reporting
def decompose(scores: Sources, config: Models, reading: Reading) -> Report:
    """How much of the drop can chance explain, do better models drop less, and what remains?

    Example: [bold]hardpan testbed decompose counts.csv --confidence 0.9999[/bold]
    """
    sets = _two_sets(scores, **reading)
    return testbed.decompose(sets, confidence=config.confidence, config=replace(config, metric=reading["metric"]))


@app.command()
@reporting
def humans(
    responses: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESPONSES", help="Tables with columns participant, set, and response and label, or correct."
        ),
    ],
    hardest: Fraction,
    options: Annotated[dict[str, Any], Flags(of=testbed.human_table, without=("only",))],
    predictions: Annotated[
        Path | None,
        typer.Option(
            "--predictions", help="Count only the examples on which the fewest of these models are right."
        ),
    ] = None,
    original: OriginalSet = None,
    new: NewSet = None,
) -> Report:
    """Accuracies of people on the original and the new images, or on the hardest of them.

    Example: [bold]hardpan testbed humans responses.csv[/bold]
    """
    only = None
    if predictions is not None:
        sets = testbed.two_sets(predictions, original_set=original, new_set=new)
        only = testbed.hardest_of(sets, **hardest)
    return testbed.human_table(responses, only=only, **options)


@app.command()
@reporting
def hardest(scores: Sources, options: Fraction, reading: Reading) -> Report:
    """The examples of each set that the fewest models get right, for an experiment with people.

    Example: [bold]hardpan testbed hardest predictions.npz --json[/bold]
    """
    return testbed.hardest_of(_two_sets(scores, **reading), **options)


@app.command()
@reporting
def crossval(
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="Table with the columns model, dataset, correct, total.")
    ],
    confidence: Confidence = 0.95,
) -> Report:
    """Accuracies on cross-validation splits, compared with the original and the new test set.

    Example: [bold]hardpan testbed crossval splits.csv[/bold]
    """
    return testbed.cross_validation(table, confidence)


@app.command()
@reporting
def discriminate(
    original: Annotated[str, typer.Argument(metavar="ORIGINAL", help="The original set: a dataset.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The new set: a dataset.")],
    options: Annotated[dict[str, Any], Flags(of=testbed.discriminate, without=("original_labels", "new_labels"))],
) -> Report:
    """Can a classifier distinguish new examples from original ones?

    Example: [bold]hardpan testbed discriminate original_images.npz new_images.npz[/bold]
    """
    first, second = _data(original), _data(new)
    labelled = first[1] is not None and second[1] is not None
    return testbed.discriminate(
        first[0],
        second[0],
        original_labels=first[1] if labelled else None,
        new_labels=second[1] if labelled else None,
        **options,
    )


@app.command()
@reporting
def duplicates(
    scores: Scores,
    examples: Examples,
    column: Annotated[str, typer.Option("--column", help="Column with 1 for near-duplicates.")] = "duplicate",
    new: Annotated[
        Path | None, typer.Option("--new", help="Scores of the same models on the new set, for the drop.")
    ] = None,
    new_set: Annotated[
        str | None, typer.Option("--new-set", help="Name of the test set in --new, if it has several.")
    ] = None,
    which: Which = None,
    confidence: Confidence = 0.95,
) -> Report:
    """Accuracy without near-duplicates, and how much of a drop they explain.

    Example: [bold]hardpan testbed duplicates original.csv --examples examples.csv --new new.csv[/bold]
    """
    outcomes = open_outcomes(scores, which)
    fresh: NDArray[np.float64] | None = None
    if new is not None:
        other = open_outcomes(new, new_set).align(outcomes)
        fresh = np.nanmean(other.item_scores(), axis=1)
    marked = _numbers(_column(examples, column, outcomes), column, examples)
    return followups.without_duplicates(outcomes, marked, fresh, confidence)


@app.command()
@reporting
def balanced(
    scores: Scores,
    examples: Examples,
    column: Annotated[str, typer.Option("--column", help="Column with the classes.")] = "label",
    which: Which = None,
    confidence: Confidence = 0.95,
) -> Report:
    """Accuracy with every class weighted equally.

    Example: [bold]hardpan testbed balanced new.csv --examples examples.csv[/bold]
    """
    outcomes = open_outcomes(scores, which)
    labels = np.array([str(value) for value in _column(examples, column, outcomes)])
    return followups.class_balanced(outcomes, labels, confidence)


@app.command()
@reporting
def breakdown(
    scores: Scores,
    examples: Annotated[
        Path | None,
        typer.Option("--examples", help="Table with one row per example, in order or with id: CSV or Parquet."),
    ] = None,
    column: Annotated[
        str, typer.Option("--by", help="Column of --examples; or brightness, contrast, grey or size of --images.")
    ] = "",
    images: Annotated[
        str | None,
        typer.Option(
            "--images", help="The images of the test set, a dataset, to group by one of their properties."
        ),
    ] = None,
    bins: Annotated[int, typer.Option("--bins", min=1, help="Number of quantile bins for columns of numbers.")] = 5,
    which: Which = None,
    confidence: Confidence = 0.95,
) -> Report:
    """Accuracy by a column of the examples, such as sub-class or selection frequency, or by an image property.

    Example: [bold]hardpan testbed breakdown new.csv --examples examples.csv --by frequency[/bold]
    """
    outcomes = open_outcomes(scores, which)
    if images is not None:
        attributes = followups.image_attributes(_data(images)[0])
        if column not in attributes:
            raise InputError(f"--by must be one of {', '.join(attributes)} with --images; got {column!r}")
        return followups.by_attribute(outcomes, attributes[column], bins, confidence, by=column)
    if examples is None or not column:
        raise InputError(
            "--by needs a table or images: --examples TABLE --by COLUMN, or --images DATA --by brightness"
        )
    values = _column(examples, column, outcomes)
    return followups.breakdown(outcomes, values, column, bins=bins, confidence=confidence)


@app.command("shared-errors")
@reporting
def shared_errors(
    scores: Scores,
    which: Which = None,
    images: Annotated[
        str | None, typer.Option("--images", help="The images of the test set, a dataset, for --gallery.")
    ] = None,
    gallery: Annotated[
        Path | None,
        typer.Option("--gallery", metavar="PNG", help="Write the images that no model gets right to this file."),
    ] = None,
    confidence: Confidence = 0.95,
) -> Report:
    """Errors that pairs of models share, with Cohen's κ, and the examples that no model gets right.

    Example: [bold]hardpan testbed shared-errors new.csv[/bold]
    """
    result = followups.shared_errors(open_outcomes(scores, which), confidence)
    if gallery is not None:
        _write_gallery(gallery, images, result)
    return result


@app.command()
@reporting
def items(
    scores: Scores,
    model: Annotated[str, typer.Option("--model", help="Item response model: rasch, 2pl or 3pl.")] = "2pl",
    which: Which = None,
    seed: Seed = 0,
) -> Report:
    """Item analysis as by leaderboard items, of one test set of a file with several, or of a subset.

    Example: [bold]hardpan testbed items matrix.parquet --model 2pl --out items[/bold]
    """
    from hardpan import leaderboard

    return leaderboard.items(open_outcomes(scores, which), model, seed=seed)


@app.command("scale")
@reporting
def one_scale(scores: Sources, original: OriginalSet = None, new: NewSet = None, seed: Seed = 0) -> Report:
    """Does one scale of skill explain both test sets?

    Example: [bold]hardpan testbed scale original.npz new.npz[/bold]
    """
    from hardpan.testbed.skill_scale import one_scale as fit_scale

    sets = _two_sets(scores, original_set=original, new_set=new)
    if sets.original.scores is None or sets.new.scores is None:
        raise InputError("must be right or wrong example by example; got counts", argument="SCORES")
    return fit_scale(sets.original.scores, sets.new.scores, models=sets.models, seed=seed)


def _two_sets(scores: list[Path], **reading: Any) -> TwoSets:
    if len(scores) > 2:
        raise InputError(
            f"must be one file with both test sets, or two files; got {len(scores)}", argument="SCORES"
        )
    return testbed.two_sets(*scores, **reading)


def _column(path: Path, column: str, outcomes: Outcomes) -> list[Any]:
    """A column of the table of examples, in the order of the items: by id where both have ids, else by position."""
    columns = tables.read_columns(path)
    if column not in columns:
        raise InputError(f"{path}: no column {column!r}; the columns are {few(list(columns))}")
    values, names = list(columns[column]), outcomes.items.tolist()
    if "id" in columns:
        row = {str(name): number for number, name in enumerate(columns["id"])}
        missing = [name for name in names if name not in row]
        if not missing:
            return [values[row[name]] for name in names]
        if len(missing) < len(names):
            raise InputError(f"{path}: {len(missing)} of the examples are missing, such as {missing[0]}")
    if len(values) != len(names):
        raise InputError(f"{path}: has {len(values)} rows for {len(names)} examples; give one each, or ids")
    return values


def _numbers(values: list[Any], column: str, path: Path) -> NDArray[np.float64]:
    try:
        return np.array([float(value) for value in values])
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: column {column!r} must hold numbers ({error})") from error


def _data(name: str) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Features and labels of a set: npz with ``x`` (and ``y``), npy, or the test split of a dataset."""
    path = Path(name)
    if path.suffix.lower() == ".npy" and path.is_file():
        return safe_files.read_npy(path), None
    if path.suffix.lower() == ".npz" and path.is_file():
        stored = safe_files.read_npz(path, ("x", "y"))
        if "x" in stored:
            return stored["x"], stored.get("y")
    data = Dataset.open(name)
    rows = data.split == "test" if data.split is not None else np.ones(len(data), dtype=bool)
    return data.x[rows], None if data.labels is None else data.labels[rows]


def _write_gallery(path: Path, images: str | None, result: followups.CommonErrors) -> None:
    from PIL import Image

    if images is None:
        raise InputError("--gallery needs --images, the images of the same test set in the same order")
    pixels = _data(images)[0]
    if len(pixels) != result.examples:
        raise InputError(f"--images {images} has {len(pixels)} images for {result.examples} examples")
    if not result.never_right_rows:
        raise InputError("--gallery: some model is right on every example, so there is no image to write")
    scale = max(1, 64 // max(pixels.shape[1:3]))
    sheet = followups.contact_sheet(pixels[list(result.never_right_rows[:100])], scale=scale)
    picture = io.BytesIO()
    Image.fromarray(sheet).save(picture, "PNG")
    try:
        files.write_bytes(path, picture.getvalue())
    except OSError as error:
        raise InputError(f"--gallery {path}: cannot be written ({error.strerror}); choose another path") from error
