"""Further commands of ``hardpan testbed``: item analysis, the discriminator, and the follow-up hypotheses."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Group
from rich.text import Text

from hardpan import files, numbers
from hardpan.cli.common import Confidence, JsonFlag, OutFolder, Seed, emit
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.report.files import check_writable, write_together
from hardpan.report.sections import Section, Table
from hardpan.report.terminal import FittedTable
from hardpan.testbed import columns as tables
from hardpan.testbed import discriminate as discrimination
from hardpan.testbed import followups, gallery, items, shared_errors

MatrixFile = Annotated[
    Path,
    typer.Argument(
        metavar="MATRIX",
        help="Models × examples of right and wrong, or predictions: npz, CSV, Parquet; or MATRIX@hard.json.",
    ),
]
Which = Annotated[str | None, typer.Option("--set", help="The test set, where the file holds several.")]
Examples = Annotated[
    Path, typer.Option("--examples", help="Table with one row an example, in order or with id: CSV, Parquet.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to the group ``testbed``."""
    app.command("items")(item_analysis)
    app.command("scale")(one_scale)
    app.command("discriminate")(discriminate)
    app.command("duplicates")(duplicates)
    app.command("balanced")(balanced)
    app.command("breakdown")(breakdown)
    app.command("shared-errors")(common_errors)


def item_analysis(
    matrix: MatrixFile,
    model: Annotated[str, typer.Option("--model", help="rasch or two-parameter.")] = "rasch",
    which: Which = None,
    out: OutFolder = None,
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Skills of models and difficulty of examples, and which examples still tell models apart.

    Example: [bold]hardpan testbed items matrix.parquet --model two-parameter --out items[/bold]
    """
    if out is not None:
        check_writable(out)
    if model not in ("rasch", "two-parameter"):
        raise InputError(f"--model must be rasch or two-parameter; got {model!r}")
    data = items.read_matrix(matrix, which)
    fit, summary = items.analyse(data, model, seed=seed)  # type: ignore[arg-type]  # checked above
    part = items.section(summary)
    if out is not None:
        _write_items(out, data, fit, summary, part)
    lines = [Text(sentence) for sentence in part.sentences]
    shown = [_rich(part.tables[1]), _rich(Table("Best models", part.tables[0].columns, part.tables[0].rows[:10]))]
    notes = [Text(f"warning: {item}") for item in summary.warnings]
    if out is not None:
        notes += [Text(f"Page: {out / 'index.html'}"), Text(f"Every example: {out / 'items.csv'}")]
    emit(summary, as_json, Group(*lines, *shown, *notes))


def one_scale(
    original: Annotated[Path, typer.Argument(metavar="ORIGINAL", help="Models × examples of the original set.")],
    new: Annotated[
        Path,
        typer.Argument(metavar="NEW", help="The same models on the new set; may be the same file with two sets."),
    ],
    original_set: Annotated[str | None, typer.Option("--original", help="Set of the first file.")] = None,
    new_set: Annotated[str | None, typer.Option("--new", help="Set of the second file.")] = None,
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Does one scale of skill explain both test sets?

    Example: [bold]hardpan testbed scale original.npz new.npz[/bold]
    """
    first, second = items.read_matrix(original, original_set), items.read_matrix(new, new_set)
    common = [name for name in first.models if name in set(second.models)]
    if len(common) < 3:
        raise InputError(f"{original} and {new} have {len(common)} models in common; at least 3 are needed")
    rows = [[data.models.index(name) for name in common] for data in (first, second)]
    found = items.one_scale(first.right[rows[0]], second.right[rows[1]], seed=seed)
    verdict = "one scale explains both sets" if found.p_value >= 0.05 else "the two sets order skills differently"
    shown = (
        f"{verdict}: χ² = {found.statistic:.1f} with {found.degrees} degrees of freedom, p = {found.p_value:.2g}\n"
        f"skills disagree by {found.disagreement:.3f} beyond their errors (probit units, root mean square)\n"
        f"stretch of the new scale {numbers.plain(found.stretch)}, "
        f"p = {found.stretch_p_value:.2g} with it\n"
        f"difficulty: spread {found.spread_original:.2f} and {found.spread_new:.2f}, "
        f"new set harder by {found.shift:.2f}\n"
        f"predicted probit line: slope {found.slope:.3f}, offset {found.offset:.3f}"
    )
    emit(found, as_json, Text(shown))


def discriminate(
    original: Annotated[str, typer.Argument(metavar="ORIGINAL", help="Original set: a name, file or folder.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="New set: a name, file or folder.")],
    classifier: Annotated[str, typer.Option("--classifier", help="logistic or lda.")] = "logistic",
    test: Annotated[str, typer.Option("--test", help="split (exact binomial) or permutation.")] = "split",
    held_out: Annotated[float, typer.Option("--held-out", help="Part of the examples to judge on.")] = 0.2,
    permutations: Annotated[int, typer.Option("--permutations", min=1, help="For --test permutation.")] = 200,
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Can a classifier tell new examples from original ones? Balanced in set and class (B.2.8).

    Example: [bold]hardpan testbed discriminate original_images.npz new_images.npz[/bold]
    """
    first, second = _examples(original), _examples(new)
    labelled = first[1] is not None and second[1] is not None
    found = discrimination.discriminate(
        first[0],
        second[0],
        original_labels=first[1] if labelled else None,
        new_labels=second[1] if labelled else None,
        classifier=classifier,  # type: ignore[arg-type]  # the library says what is allowed
        test=test,  # type: ignore[arg-type]
        held_out=held_out,
        permutations=permutations,
        seed=seed,
    )
    verdict = "cannot tell them apart" if found.p_value >= 0.05 else "tells them apart"
    shown = (
        f"{found.classifier} {verdict}: {numbers.estimate(found.accuracy)} right of "
        f"{found.test} held-out examples, p = {found.p_value:.2g} ({found.p_method})\n"
        f"fitted on {found.train}, balanced over {found.classes or 'no'} classes; "
        f"total variation of the sets at least {found.variation_bound:.3f}"
    )
    emit(found, as_json, Text(shown))


def duplicates(
    matrix: MatrixFile,
    examples: Examples,
    column: Annotated[str, typer.Option("--column", help="Column with 1 for near-duplicates.")] = "duplicate",
    new: Annotated[Path | None, typer.Option("--new", help="The same models on the new set, for the drop.")] = None,
    new_set: Annotated[str | None, typer.Option("--new-set", help="The set of --new.")] = None,
    which: Which = None,
    confidence: Confidence = 0.95,
    as_json: JsonFlag = False,
) -> None:
    """Accuracy without near-duplicates, and how much of a drop they can explain (B.2.2).

    Example: [bold]hardpan testbed duplicates original.csv --examples examples.csv --new new.csv[/bold]
    """
    data = items.read_matrix(matrix, which)
    fresh: NDArray[np.float64] | None = None
    if new is not None:
        other = items.read_matrix(new, new_set)
        missing = [name for name in data.models if name not in other.models]
        if missing:
            raise InputError(f"{new} lacks {len(missing)} models of {matrix}, first {missing[0]}")
        means = dict(zip(other.models, np.nanmean(np.asarray(other.right, float), axis=1).tolist(), strict=True))
        fresh = np.array([means[name] for name in data.models])
    marked = np.array(tables.numbers(column, _column(examples, column, data), str(examples)))
    found = followups.without_duplicates(data.models, data.right, marked, fresh, confidence)
    shares = [_percents(r.accuracy for r in found), _percents(r.without for r in found)]
    shares.append(_percents(r.on_duplicates for r in found))
    rows = tuple(
        (r.model, *cells, _points(r.explained), _points(r.drop)) for r, *cells in zip(found, *shares, strict=True)
    )
    head = ("model", "accuracy", "without duplicates", "on duplicates", "explained", "drop")
    title = f"{int(marked.sum())} near-duplicates of {len(marked)}; accuracies in percent, the rest in points"
    _emit_table(Table(title, head, rows), found, as_json)


def balanced(
    matrix: MatrixFile,
    examples: Examples,
    column: Annotated[str, typer.Option("--column", help="Column with the classes.")] = "label",
    which: Which = None,
    confidence: Confidence = 0.95,
    as_json: JsonFlag = False,
) -> None:
    """Accuracy with every class counted alike.

    Example: [bold]hardpan testbed balanced new.csv --examples examples.csv[/bold]
    """
    data = items.read_matrix(matrix, which)
    found = followups.class_balanced(
        data.models, data.right, np.asarray(_column(examples, column, data)), confidence
    )
    shares = _percents(r.accuracy for r in found), _percents(r.balanced for r in found)
    rows = tuple(zip((r.model for r in found), *shares, strict=True))
    _emit_table(
        Table("Class-balanced accuracy in percent", ("model", "accuracy", "class-balanced"), rows), found, as_json
    )


def breakdown(
    matrix: MatrixFile,
    examples: Annotated[
        Path | None, typer.Option("--examples", help="Table with one row an example, in order or with id.")
    ] = None,
    column: Annotated[str, typer.Option("--by", help="Column to break down by, or an attribute of --images.")] = "",
    images: Annotated[
        str | None,
        typer.Option("--images", help="The set's images: breaks down by --by brightness, contrast, grey, size."),
    ] = None,
    bins: Annotated[int, typer.Option("--bins", min=1, help="Quantile bins for numbers.")] = 5,
    which: Which = None,
    confidence: Confidence = 0.95,
    as_json: JsonFlag = False,
) -> None:
    """Accuracy by sub-class, by selection frequency (Figure 15), or by brightness, contrast, grey, size.

    Example: [bold]hardpan testbed breakdown new.csv --examples examples.csv --by frequency[/bold]
    """
    data = items.read_matrix(matrix, which)
    if images is not None:
        attributes = followups.image_attributes(_examples(images)[0])
        if column not in attributes:
            raise InputError(f"--by must be one of {', '.join(attributes)} with --images; got {column!r}")
        found = followups.by_attribute(data.models, data.right, attributes[column], bins, confidence)
    elif examples is None or not column:
        raise InputError("give --examples TABLE --by COLUMN, or --images DATA --by brightness")
    else:
        found = _by_column(data, examples, column, bins, confidence)
    parts = list(dict.fromkeys(item.part for item in found))
    by_model: dict[str, dict[str, Estimate]] = {}
    for item in found:
        by_model.setdefault(item.model, {})[item.part] = item.accuracy
    shares = [_percents(cells[part] for cells in by_model.values()) for part in parts]
    rows = tuple(zip(by_model, *shares, strict=True))
    _emit_table(Table(f"Accuracy in percent by {column}", ("model", *parts), rows), found, as_json)


def common_errors(
    matrix: MatrixFile,
    which: Which = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Pairs to show, most alike first.")] = 20,
    images: Annotated[str | None, typer.Option("--images", help="The set's images, for --gallery.")] = None,
    sheet: Annotated[
        Path | None, typer.Option("--gallery", metavar="PNG", help="Write the images that no model gets right.")
    ] = None,
    confidence: Confidence = 0.95,
    as_json: JsonFlag = False,
) -> None:
    """Errors that pairs of models share, with κ, and the examples that no model gets right.

    Example: [bold]hardpan testbed shared-errors new.csv[/bold]
    """
    data = items.read_matrix(matrix, which)
    found = sorted(
        shared_errors.shared_errors(data.models, data.right, confidence=confidence),
        key=lambda pair: -np.nan_to_num(pair.kappa.value, nan=-2.0),
    )
    never = shared_errors.never_right(data.right)
    if sheet is not None:
        _write_gallery(sheet, images, never, len(data.ids))
    head = ("first", "second", "both wrong", "if independent", "κ")
    rows = tuple(
        (
            pair.first,
            pair.second,
            pair.both,
            round(pair.expected, 1),
            numbers.plain(pair.kappa),
        )
        for pair in found[:top]
    )
    names = ", ".join(data.ids[i] for i in never[:20])
    sentence = f"{len(never)} of {len(data.ids)} examples are right for no model" + (f": {names}" if names else "")
    listed = Table("Examples that no model gets right", ("example",), tuple((data.ids[i],) for i in never))
    estimates = {f"{pair.first} | {pair.second}": pair.kappa for pair in found}
    section = Section("Shared errors", (sentence,), estimates, tables=(Table("Pairs", head, rows), listed))
    emit(section, as_json, Group(_rich(section.tables[0]), Text(sentence)))


def _write_gallery(path: Path, images: str | None, rows: NDArray[np.int64], examples: int) -> None:
    if images is None:
        raise InputError("--gallery needs --images, the images of the same test set in the same order")
    pixels = _examples(images)[0]
    if len(pixels) != examples:
        raise InputError(
            f"--images {images} has {len(pixels)} images for {examples} examples; give the same test set"
        )
    if len(rows) == 0:
        raise InputError("some model is right on every example; there is no image for --gallery")
    scale = max(1, 64 // max(pixels.shape[1:3]))
    try:
        files.write_bytes(path, gallery.png(gallery.contact_sheet(pixels[rows[:100]], scale=scale)))
    except OSError as error:
        raise InputError(f"--gallery {path}: cannot be written ({error.strerror}); give another place") from error


def _by_column(
    data: items.Matrix, examples: Path, column: str, bins: int, confidence: float
) -> tuple[followups.Slice, ...]:
    values = _column(examples, column, data)
    try:
        measured = np.array([float(value) for value in values])
    except (TypeError, ValueError):
        return followups.by_part(data.models, data.right, np.asarray(values).astype(np.str_), confidence)
    if column in ("frequency", "selection_frequency"):
        return followups.by_frequency(data.models, data.right, measured, confidence=confidence)
    if len(np.unique(measured)) <= max(bins, 20):
        return followups.by_part(data.models, data.right, measured.astype(np.str_), confidence)
    return followups.by_attribute(data.models, data.right, measured, bins, confidence)


def _column(path: Path, column: str, data: items.Matrix) -> Sequence[Any]:
    found = tables.read_columns(path)
    if column not in found:
        raise InputError(f"{path}: no column {column!r}; it has {', '.join(found)}")
    values = list(found[column])
    if "id" in found and not data.ids[0].startswith("row-"):
        place = {str(name): row for row, name in enumerate(found["id"])}
        missing = [name for name in data.ids if name not in place]
        if missing:
            raise InputError(f"{path}: lacks {len(missing)} of the examples, first {missing[0]}")
        return [values[place[name]] for name in data.ids]
    if len(values) != len(data.ids):
        raise InputError(f"{path}: has {len(values)} rows for {len(data.ids)} examples; give one each, or ids")
    return values


def _examples(name: str) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Features and labels of a set: npz with ``x`` (and ``y``), npy, or a dataset, whose test part counts."""
    path = Path(name)
    if path.suffix.lower() == ".npy" and path.is_file():
        return np.load(path, allow_pickle=False), None
    if path.suffix.lower() == ".npz" and path.is_file():
        with np.load(path, allow_pickle=False) as stored:
            if "x" in stored:
                return stored["x"], stored.get("y")
    data = Dataset.open(name)
    rows = data.split == "test" if data.split is not None else np.ones(len(data), dtype=bool)
    return data.x[rows], None if data.labels is None else data.labels[rows]


def _write_items(
    out: Path, data: items.Matrix, fit: items.ItemFit, summary: items.ItemSummary, part: Section
) -> None:
    from hardpan import report

    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(
        ("id", "difficulty", "difficulty_stderr", "discrimination", "discrimination_stderr", "accuracy")
    )
    accuracy = np.nanmean(np.asarray(data.right, dtype=np.float64), axis=0)
    columns = (fit.difficulty, fit.difficulty_stderr, fit.discrimination, fit.discrimination_stderr, accuracy)
    for name, *values in zip(data.ids, *(column.tolist() for column in columns), strict=True):
        writer.writerow((name, *(f"{value:.6g}" for value in values)))
    title = f"{summary.models} models, {summary.examples} examples"
    config = {"model": summary.model, "method": summary.method, "hardpan": files.to_json(part)["hardpan"]}
    contents = {
        "items.csv": lines.getvalue(),
        "index.html": report.page([part], title=title, headline=part.sentences[0]),
        "config.json": files.dumps(config) + "\n",
        "report.json": files.dumps(files.to_json(summary)) + "\n",
    }
    write_together(out, contents)


def _emit_table(table: Table, found: Sequence[Any], as_json: bool) -> None:
    if as_json:
        print(files.dumps([files.to_json(item) for item in found]))
    else:
        emit(table, False, _rich(table))


def _rich(table: Table) -> FittedTable:
    return FittedTable(table.title, tuple(map(str, table.columns)), table.rows)


_percents = partial(numbers.aligned, scale=100)


def _points(value: float) -> str:
    return numbers.NOTHING if np.isnan(value) else f"{100 * value:z.1f}"
