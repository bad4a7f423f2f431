"""Sections that an audit makes while it has the data: hard examples, fresh data, labels, copies, models."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardpan import errors
from hardpan.auditing.data_curve import DataCurve
from hardpan.auditing.evidence import SKIPPED, USABLE, AuditNote, Evidence, FlowView
from hardpan.auditing.hardness import Hardness
from hardpan.auditing.problems import BenchmarkProblem
from hardpan.bayes.floors.dataset_floor import Floor
from hardpan.bayes.floors.entries import MAY_HAVE_SEEN
from hardpan.bayes.floors.error_estimates import Labels
from hardpan.bayes.floors.inputs import FloorInputs
from hardpan.data.dataset import SPLITS
from hardpan.encoders import DESCRIPTORS
from hardpan.errors import counted
from hardpan.pages import floors, formatting
from hardpan.pages.auditing.first_screen import SEARCHED, sampled_words
from hardpan.pages.auditing.problems import problem_sentences, title_and_advice
from hardpan.pages.confusion import METHOD as HARD_METHOD
from hardpan.pages.confusion import score_section
from hardpan.pages.confusion_charts import confusion_matrix_chart, error_by_band_chart, reliability_chart
from hardpan.pages.flow_charts import temperature_chart
from hardpan.pages.galleries import captioned_gallery
from hardpan.pages.sections import Chart, Section, Table, fields_of, table_of, table_of_columns

if TYPE_CHECKING:
    from hardpan.auditing.fresh import FreshScores
    from hardpan.auditing.running import Audit
    from hardpan.auditing.slices import ErrorSlices
    from hardpan.confusion.label_noise import LabelIssues

GALLERY = 12
UNUSUAL = ("image-quality", "outliers")
PHOTOGRAPH = 32  # pixels a side, from which on an encoder is recommended for images in colour
COLUMNS = 20  # classes that are drawn as upright bars
OPEN_ROWS = 8  # of a table that is open on the page
CLASS_BARS = 12  # classes with the largest errors
MOST_BARS, MOST_ROWS, MOST_LISTED = 60, 1000, 40
SHOWN_COLUMNS, SHOWN_DIFFERENCES = 5, 3  # contents of a row in a table of the page
LONGEST_CELL = 160  # characters
MOST_CANDIDATES = 20_000  # training rows among which the nearest is sought for a table of the page
WIDEST = 0.5  # an interval of the proportion of errors that is wider says nothing
FRESH_METHOD = (
    "The networks of the ensemble are evaluated on the fresh set without change. The drop is accuracy on the "
    "original test set minus accuracy on the fresh one, mean over the networks; its interval combines the "
    "Clopper–Pearson intervals of the two mean accuracies (Zou and Donner's MOVER), so it contains the sampling "
    "of both test sets.",
)


def audit_sections(evidence: Evidence, problems: Sequence[BenchmarkProblem]) -> tuple[Section, ...]:
    """The sections of a page in their order; those of steps that were not possible are left out."""
    parts = []
    if evidence.hard is not None:
        hard = hard_section(evidence.hard, evidence.floor)
        table = _hard_rows(evidence)
        if table is not None and evidence.dataset.is_texts:  # what there is to look at
            hard = dataclasses.replace(hard, tables=(dataclasses.replace(table, rows=table.rows[:OPEN_ROWS]),))
        parts.append(dataclasses.replace(hard, folded=(*([table] if table else []), *hard.folded)))
    if evidence.fresh is not None:
        parts.append(fresh_section(evidence, evidence.fresh))
    if evidence.issues is not None:
        parts.append(labels_section(evidence, evidence.issues, problems))
    if evidence.inputs is not None:
        parts.append(copies_section(evidence, problems))
    if evidence.probs:
        parts.append(models_section(evidence))
    if evidence.slices is not None:
        parts.append(slices_section(evidence, evidence.slices))
    parts += [unusual_section(evidence, some)] if (some := [p for p in problems if p.kind in UNUSUAL]) else []
    parts.append(contents_section(evidence))
    if evidence.flow is not None:
        parts.append(flow_section(evidence.flow))
    return tuple(parts)


def hard_section(hard: Hardness, floor: Floor | None) -> Section:
    """The most confusing examples, and errors of the models on them; a warning where the floor has better ones."""
    recorded, tenth = hard.model.predictions, hard.measures.get("tail_share")
    section = score_section(dataclasses.replace(hard.summary, issues=None))  # labels have a section of their own
    title = "The most confusing examples"
    if tenth is not None and tenth.high - tenth.low <= WIDEST and tenth.low > 0.1:
        title = f"The most confusing tenth of the test set has {formatting.estimate(tenth)} of the errors"
    size = f"{counted(len(recorded.seeds), 'seed')}, {counted(len(recorded.epochs), 'epoch')}"
    source = "trained here" if hard.model.trained_here else "your predictions"
    sentence = (
        "An example is confusing if the mean prediction of the seeds stays spread over classes during training; "
        f"labels are not used. Scored model: {hard.model.name} ({source}; {size})."
    )
    warnings = list(section.warnings)
    errors = {} if floor is None else {e.name: e.estimate for e in floor.entries if e.role == "classifier"}
    own, best = errors.get(hard.model.name), None if floor is None else floor.best
    if own is not None and best is not None and own.low > USABLE * best.estimate.high:
        errs, least = formatting.estimate(own), formatting.estimate(best.estimate)
        warnings.append(
            f"{formatting.capital(hard.model.name)} errs on {errs}, the best model on {least}: confusion of a weak "
            "model says little about the examples."
        )
    others: tuple[Table | Chart, ...] = ()
    if hard.bands:
        rows = tuple(
            (
                name,
                bands.error,
                bands.hardest_tenth if np.isfinite(bands.hardest_tenth.value) else None,
                bands.rho.value,
            )
            for name, bands in hard.bands.items()
        )
        columns = ("model", "error", "errors in the confusing tenth", "ρ by band")
        others = (
            Table("Does confusion of one model predict the errors of the others?", columns, rows),
            error_by_band_chart(hard.bands, "Error of every model by band of the first one's scores"),
        )
    return dataclasses.replace(
        section,
        title=title,
        sentences=(sentence,),
        warnings=tuple(warnings),
        methods=(*section.sentences, *HARD_METHOD),
        folded=(*others, *section.folded),
        estimates={},
        key="hard",
        short="Hard examples",
    )


def _hard_rows(evidence: Evidence) -> Table | None:
    """The most confusing test rows with their contents; None for images, which have a gallery."""
    score = np.asarray(evidence.columns.get("confusion", ()), dtype=np.float64)
    if evidence.is_images or evidence.contents is None or not len(score):
        return None
    test = evidence.modelled.test
    rows = test[np.argsort(-np.nan_to_num(score[test], nan=-1.0), kind="stable")][:MOST_LISTED]
    names, answers = evidence.dataset.class_names, evidence.columns.get("predicted")
    contents, cells = _content_cells(evidence, rows)
    listed = tuple(
        (
            evidence.dataset.place(row),
            names[evidence.labels[row]],
            None if answers is None else answers[row],
            round(float(score[row]), 3),
            *cells[row],
        )
        for row in rows.tolist()
    )
    return Table("The most confusing rows", ("example", "label", "predicted", "confusion, bits", *contents), listed)


def fresh_section(evidence: Evidence, fresh: FreshScores) -> Section:
    """Whether the score holds: models of a table, or the networks, on both sets."""
    if fresh.comparison is not None:
        from hardpan.pages import testbed as testbed_page

        section = testbed_page.comparison_section(fresh.comparison)
        warnings = section.warnings
        sizes, here = sorted({row.original.n for row in fresh.comparison.rows}), len(evidence.split.test)
        if here not in sizes:
            size = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
            other = (
                f"The table has models on an original set of {size} examples, and the test set of this audit has "
                f"{here:,}: this section is about that set, not about this test set."
            )
            warnings = (other, *warnings)
        return dataclasses.replace(section, warnings=warnings, key="fresh", short="Fresh data")
    rows = tuple(
        (
            f"network {number}",
            *(f"{formatting.fixed(100 * share, 2)} %" for share in (a, b)),
            formatting.fixed(100 * (a - b), 2, "+"),
        )
        for number, (a, b) in enumerate(zip(fresh.before, fresh.after, strict=True))
    )
    first, second = (formatting.fixed(100 * float(np.mean(v)), 1) for v in (fresh.before, fresh.after))
    return Section(
        "Will the score hold?",
        (
            f"On {fresh.name} ({fresh.size:,} examples) the networks are right on {second} %, on the "
            f"original test set on {first} %: a drop of {formatting.signed(fresh.drop)}.",
            "One ensemble shows whether the two sets differ, not whether models were tuned to the first one: for "
            "that, compare many models (hardpan testbed compare).",
        ),
        tables=(Table("Networks on both sets", ("model", "original", "fresh", "drop, points"), rows),),
        key="fresh",
        short="Fresh data",
    )


def labels_section(evidence: Evidence, issues: LabelIssues, problems: Sequence[BenchmarkProblem]) -> Section:
    """Labels that differ from the prediction, with pictures where the examples are images."""
    problems = [item for item in problems if item.kind == "labels"]
    title = title_and_advice(problems[0])[0] if problems else "Labels and predictions agree"
    sentences = [
        f"{issues.examples:,} labels are compared with predictions of models that did not see them: test by the "
        "mean of the good models, train and validation out of fold. The list has those that differ, first the "
        "labels with the least probability. All of them are in problems/labels.csv.",
        *(problem_sentences(item) for item in problems[1:]),
    ]
    names, some = np.array(evidence.dataset.class_names), slice(MOST_LISTED)
    contents, cells = _content_cells(evidence, issues.row[some], near=True)
    made_here, place_of = evidence.dataset.split is None, evidence.dataset.place  # else the place says the split
    rows = [
        (
            f"{split} {place_of(int(row))}" if made_here else place_of(int(row)),
            names[label],
            names[other],
            round(float(p), 3),
            *cells[int(row)],
        )
        for split, row, label, other, p in zip(
            *(
                column[some]
                for column in (issues.split, issues.row, issues.label, issues.suggested, issues.probability)
            ),
            strict=True,
        )
    ]
    charts = []
    if evidence.is_images and len(issues):
        captions = [f"{formatting.fixed(100 * p, 0)} %" for p in issues.probability[:GALLERY]]
        suggested = names[issues.suggested[:GALLERY]].tolist()
        title_of = "Labels that differ from the prediction"
        charts.append(_section_gallery(evidence, issues.row, captions, title_of, "all", suggested))
    columns = ("example", "label", "predicted", "p of label", *contents)
    table = Table("Labels that differ from the prediction", columns, tuple(rows))
    # Without pictures the first rows of the table are what there is to look at.
    first = () if charts else (dataclasses.replace(table, rows=table.rows[:OPEN_ROWS]),)
    return Section(
        title,
        tuple(sentences),
        charts=tuple(charts),
        tables=first if rows else (),
        folded=(table,) if charts or len(rows) > OPEN_ROWS else (),
        key="labels",
        short="Labels",
    )


def _content_cells(
    evidence: Evidence, rows: Labels, *, near: bool = False
) -> tuple[tuple[str, ...], dict[int, tuple[Any, ...]]]:
    """Names of the most telling columns, and their cells by row: the text, the columns of the table, the metadata.

    With ``near`` a last cell has the nearest training row, its label, and the columns that differ most.
    """
    contents = evidence.contents
    if contents is None:
        return (), {int(row): () for row in rows}
    names = list(contents.columns)[:SHOWN_COLUMNS]
    cells = {int(row): tuple(_short_cell(contents.columns[name][row]) for name in names) for row in rows}
    candidates = evidence.training_rows()[:: max(1, len(evidence.training_rows()) // MOST_CANDIDATES)]
    if near and evidence.dataset.texts is not None and evidence.inputs is not None and len(candidates) > 1:
        directions = evidence.inputs.table.scaled[:, : evidence.inputs.table.directions]
        for row in rows.tolist():
            closeness = directions[candidates] @ directions[row]
            closeness[candidates == row] = -np.inf
            other = int(candidates[int(closeness.argmax())])
            label = evidence.dataset.class_names[evidence.labels[other]]
            first, *rest = cells[row]
            cells[row] = (first, f"{label}: {_short_cell(evidence.dataset.texts[other])}", *rest)
        return (names[0], "nearest training text", *names[1:]), cells
    if not near or not contents.compared or len(candidates) < 2 or not len(rows):
        return tuple(names), cells
    for row, other in zip(rows.tolist(), contents.nearest(rows, candidates).tolist(), strict=True):
        label = evidence.dataset.class_names[evidence.labels[other]]
        where = evidence.dataset.place(other)
        cells[row] = (*cells[row], f"{where}, {label}: {difference_words(evidence, other, row)}")
    return (*names, "nearest training example → this one"), cells


def difference_words(evidence: Evidence, row: int, other: int) -> str:
    """The columns in which two rows differ most, with both values: "age 41 → 43; smoker no → yes"."""
    contents = evidence.contents
    differing = contents.differences(row, other) if contents is not None else []
    if contents is None or not differing:
        return "no difference"
    known = [name for name in differing if name in contents.columns][:SHOWN_DIFFERENCES]
    words = [
        f"{name} {_short_cell(contents.columns[name][row])} → {_short_cell(contents.columns[name][other])}"
        for name in known
    ]
    return "; ".join(words)


def _short_cell(value: Any) -> Any:
    """A value as a cell of a table: long texts cut, numbers with four digits."""
    if isinstance(value, float):
        return formatting.number(value, 4)
    if isinstance(value, str) and len(value) > LONGEST_CELL:
        return value[: LONGEST_CELL - 1] + "…"
    return "missing" if value is None else value


def _section_gallery(
    evidence: Evidence, rows: Labels, captions: Sequence[str], title: str, of: str, suggested: Sequence[str] = ()
) -> Chart:
    dataset, some = evidence.dataset, rows[:GALLERY]
    labels = [dataset.class_names[evidence.labels[row]] for row in some]
    return captioned_gallery(title, dataset, some, labels, captions, suggested, of=of)


def copies_section(evidence: Evidence, problems: Sequence[BenchmarkProblem]) -> Section:
    """Copies, near-copies and conflicting labels."""
    kinds = ("test-copies", "near-copies", "conflicting-labels", "duplicates")
    problems = [item for item in problems if item.kind in kinds]
    inputs = evidence.inputs
    assert inputs is not None
    sentences = [problem_sentences(item) for item in problems]
    if not problems:
        sentences.append("No row equals another one.")
    sentences += floors.population(evidence.floor) if evidence.floor is not None else ()
    if evidence.altered is not None:
        by_alteration = [f"{name} {hits} of {of}" for name, (hits, of) in evidence.altered.sensitivity.items()]
        noun, searched = evidence.dataset.noun, len(evidence.altered.found.rows)
        sentences.append(f"Of {searched:,} test {noun}s altered copies in train were searched.")
        if by_alteration:
            sentences.append(
                f"Of training {noun}s that were altered here, the search found: {formatting.listed(by_alteration)}."
            )
    elif evidence.nearest is not None and not any("limit" in item.details for item in problems):
        excess = (
            "" if evidence.nearest.own is None else "no significant excess of near ones over rows held back, and "
        )
        tested = counted(len(evidence.nearest.rows), "test row")
        sentences.append(
            f"The nearest training rows of {tested} were searched: {excess}none far nearer than the next ones."
        )
    ids, names, labels = evidence.dataset.ids, evidence.dataset.class_names, evidence.labels
    away = np.asarray(evidence.columns["duplicate_distance"], dtype=np.float64)
    order = np.argsort(np.where(np.isfinite(away), away, np.inf), kind="stable")[:MOST_LISTED]
    near = evidence.columns["duplicate"]
    position, row_of = evidence.dataset.place, {str(name): row for row, name in enumerate(ids)}
    has_columns = evidence.contents is not None and bool(evidence.contents.compared)
    texts = evidence.dataset.texts
    if texts is not None:
        from hardpan.neighbors.text_copies import marked_difference
    rows = tuple(
        (
            position(int(row)),
            names[labels[row]],
            position(other := row_of[str(near[row])]),
            names[labels[other]],
            round(float(away[row]), 4),
            *([_short_cell(texts[row]), marked_difference(texts[other], texts[row])] if texts is not None else []),
            *([difference_words(evidence, other, int(row))] if has_columns else []),
        )
        for row in order.tolist()
        if np.isfinite(away[row])
    )
    columns: tuple[str, ...] = ("test example", "label", "nearest training example", "its label", "distance")
    columns += ("test text", "training → test") if texts is not None else ()
    columns += ("columns, training → test",) if texts is not None and has_columns else ()
    columns += ("training → test",) if texts is None and has_columns else ()
    pairs = Table("Closest pairs across the split", columns, rows)
    charts = []
    if evidence.is_images and len(order):
        both = np.array([r for row in order[: GALLERY // 2] for r in (row, row_of[str(near[row])])])
        captions = [
            f"{'train' if number % 2 else 'test'}, {formatting.number(away[both[number - number % 2]])} apart"
            for number in range(len(both))
        ]
        charts.append(
            _section_gallery(evidence, both, captions, "Closest pairs: test example, then training example", "test")
        )
    conflicts = [item for item in problems if item.kind == "conflicting-labels"]
    tables = [pairs]
    if conflicts:
        some = np.array(conflicts[0].rows[:MOST_LISTED])
        contents, cells = _content_cells(evidence, some)
        listed = tuple((position(row), names[labels[row]], *cells[row]) for row in some.tolist())
        tables.insert(0, Table("Equal rows with different labels", ("example", "label", *contents), listed))
    title = title_and_advice(problems[0])[0] if problems else "No equal rows"
    across = any(item.kind in ("test-copies", "near-copies") for item in problems)
    return Section(
        title,
        tuple(sentences),
        charts=tuple(charts) if across else (),
        folded=tuple(tables) if across else (*tables, *charts),
        key="copies",
        short="Copies",
        methods=_COPIES_METHOD,
    )


_COPIES_METHOD = (
    "Rows are equal when all their numbers and texts are (−0 equals 0, missing equals missing). Of an official "
    "test set two tests decide whether there are more such rows across the split than in a test set that is "
    "drawn like train, each within classes: rows that were held back from train, as many as test has, equal one "
    "of the remaining training rows as often as test rows do (one-sided hypergeometric test; five parts, twice "
    "the median p-value); and random splits of the same rows are as similar (Σ (t − f n)²/n over groups of n "
    "equal rows, t of them in test, f the proportion of test; 1,999 permutations). The smaller p-value counts "
    "twice. The nearest training examples of each test example are found exactly (Euclidean distance). Whether "
    "an official test set has more examples with a near neighbour than one drawn like train: training rows are "
    "held back, as many as test has at most, and compared with test rows within each class by whether the rest "
    "of train has a different row at most δ away (one-sided hypergeometric test; δ at four quantiles of the "
    "distances within the rest, Bonferroni; five parts, twice the median p-value). Without an excess, rows are "
    "listed that are far nearer to one training row than to the next ones (p-values in a locally uniform density "
    "of any dimension; Benjamini–Hochberg, 2 %). With an encoder, the distances are those of "
    "its vectors, less their mean on train and scaled to length 1. Of texts, altered copies instead (with an "
    "encoder, as well): training texts that share the rarest words of a test text are aligned with it, and a pair "
    "is listed if the shorter text has at least 80 % of its words, and four, in the same order in the other one. "
    "Of images, altered copies in the same way: descriptors of many views of each test image (shifted by up to "
    "10 %, cropped or zoomed to "
    "80 %, mirrored, turned, inverted) are compared with all training images, the best six pairs are aligned, "
    "and a pair is listed from a correlation of 0.93 without coarse structure; the test is the same.",
)


def _class_stands_out(inputs: FloorInputs, wrong: NDArray[np.bool_], worst: int, confidence: float) -> bool:
    """Whether a class chosen as the worst has a higher error than the others together: separate intervals."""
    own = inputs.labels[inputs.test] == worst
    if not (wrong & own).any() or own.all():
        return False
    level = 1 - (1 - confidence) / (2 * inputs.dataset.n_classes)  # the class was chosen among all; two intervals
    least, most = (inputs.share(wrong[members], inputs.test[members], level) for members in (own, ~own))
    return least.low > most.high


def models_section(evidence: Evidence) -> Section:
    """The best model's confusions and calibration."""
    assert evidence.inputs is not None
    test, names, probs = evidence.inputs.test, evidence.dataset.class_names, evidence.probs
    truth = evidence.labels[test]
    best = min(probs, key=lambda name: float((probs[name].argmax(axis=1) != truth).mean()))
    answers, k = probs[best].argmax(axis=1), len(names)
    counts = np.zeros((k, k))
    np.add.at(counts, (truth, answers), 1)
    wrong = counts.sum(axis=1) - np.diag(counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        rates = np.where(counts.sum(axis=1) >= 5, wrong / counts.sum(axis=1), 0.0)
    worst = int(np.argmax(rates))
    title = f"{formatting.capital(best)}: no errors on the test set"
    if wrong.sum():
        count = f"{int(wrong.sum())} of {len(truth)} test examples wrong"
        title = f"{formatting.capital(best)}: {count}, no class stands out"
    if _class_stands_out(evidence.inputs, answers != truth, worst, evidence.config.confidence):
        title = f"Class {names[worst]} is misclassified most often: {formatting.fixed(100 * rates[worst], 0)} %"
    others = counts - np.diag(np.diag(counts))
    rows = tuple(
        (
            names[c],
            evidence.inputs.share((answers != truth)[truth == c], test[truth == c], evidence.config.confidence),
            names[int(others[c].argmax())] if others[c].sum() else None,
        )
        for c in np.argsort(-rates, kind="stable")[:MOST_ROWS]
        if counts[c].sum()
    )
    charts = [confusion_matrix_chart(counts, names, "Confusion matrix, percent of each label")] if k > 1 else []
    reliability = reliability_chart(probs[best].max(axis=1), answers == truth, "Accuracy against stated confidence")
    errors = tuple(
        (name, evidence.inputs.share(p.argmax(axis=1) != truth, test, evidence.config.confidence), note)
        for group, note in ((probs, None), (evidence.seen_probs(), MAY_HAVE_SEEN))
        for name, p in group.items()
    )
    present = counts.sum(axis=1) > 0
    balanced = float(np.mean(np.diag(counts)[present] / counts.sum(axis=1)[present]))
    accuracy = evidence.inputs.share(answers == truth, test, evidence.config.confidence)
    said = (
        f"The best model with probabilities, {best}: accuracy {formatting.estimate(accuracy)} on "
        f"{len(test):,} test "
        "examples; balanced accuracy (every class weighted equally) "
        f"{formatting.percent(balanced, accuracy.stderr)}.",
        *encoder_sentences(evidence),
        "Where points lie on the dashed line, accuracy equals the stated confidence.",
    )
    return Section(
        title,
        said,
        charts=(*charts, _class_error_section_chart(rows), reliability),
        folded=(
            Table("Error by class", ("class", "error", "most often confused with"), rows, bars=("error",)),
            Table("All models with probabilities", ("model", "error", "note"), errors),
        ),
        key="models",
        short="Models",
    )


def _class_error_section_chart(rows: Sequence[tuple[Any, ...]]) -> Chart:
    """Error per class with its interval, worst first."""
    bars = tuple(
        {
            "name": name if other is None else f"{name} → {other}",
            **fields_of(item),
        }
        for name, item, other in rows[:CLASS_BARS]
    )
    words = "; ".join(f"{name} {formatting.estimate(item)}" for name, item, _ in rows[:CLASS_BARS])
    return Chart("bars", "Error by class → the class it is most often taken for", bars, words, {"percent": True})


def encoder_sentences(evidence: Evidence) -> list[str]:
    """Which encoder models were trained on, and what it may have seen; without one, how to name one."""
    dataset, before = evidence.dataset, "Models were trained on these images alone."
    if dataset.encoder == DESCRIPTORS:
        before = (
            "The images have more than 64 pixels a side: models are trained on oriented gradients and colours of "
            "their blocks, without an encoder."
        )
    elif dataset.vectors is not None:
        return [
            "Models, label checks, hard examples and nearest examples use vectors of the encoder "
            f"{dataset.encoder} ({counted(dataset.vectors.shape[1], 'number')} per example).",
            "The data that the encoder was trained on may contain these test examples. That cannot be tested here; "
            "if so, errors on new examples are higher.",
        ]
    colour = evidence.is_images and dataset.x.shape[3:] == (3,) and min(dataset.x.shape[1:3]) >= PHOTOGRAPH
    if dataset.is_texts:
        before = "Models were trained on n-grams of the texts, without an encoder."
    if colour or dataset.is_texts:
        return [
            f"{before} To train on vectors of a pretrained encoder: hardpan audit DATA --encoder NAME, with a "
            "folder or name of a model, an ONNX file, or module:function."
        ]
    return []


def slices_section(evidence: Evidence, slices: ErrorSlices) -> Section:
    """Where the best model errs more than elsewhere."""
    first = slices.found[0] if slices.found else None
    title = "No slice with a higher error is confirmed"
    if first is not None:
        error, others = (formatting.percent(item.value, item.stderr) for item in (first.error, first.elsewhere))
        where = f"{first.column} is {first.values.removeprefix('= ')}"
        title = f"The best model errs more where {where}: {error}, else {others}"
    said = (
        f"{counted(slices.searched, 'slice')} of {counted(slices.columns, 'column')} were searched on one half of "
        "the test rows (low and high fifths, values, missing values, clusters); the ten that looked worst were "
        "tested on the other half, whose errors are shown. Without any excess one is confirmed with a probability "
        "of 2 % at most.",
    )
    rows = tuple(
        (item.column, item.values, item.error.n, item.error, item.elsewhere, formatting.p_value(item.p_value))
        for item in slices.found
    )
    columns = ("column", "values", "rows", "error", "error elsewhere", "p (Holm)")
    charts, first_rows = [], first.rows[:GALLERY] if first is not None else ()
    if evidence.is_images and first is not None:
        captions = [f"{first.column} {first.values}"] * len(first_rows)
        charts.append(_section_gallery(evidence, np.array(first_rows), captions, "Rows of the first slice", "test"))
    return Section(
        title,
        said,
        charts=tuple(charts),
        tables=(Table("Slices with a higher error", columns, rows),) if rows else (),
        key="slices",
        short="Error slices",
    )


def unusual_section(evidence: Evidence, problems: Sequence[BenchmarkProblem]) -> Section:
    """Unusual images, and rows far from all others: pictures of them, or their contents."""
    (title, advice), charts, tables = title_and_advice(problems[0]), list[Chart](), list[Table]()
    for item in problems:
        rows, names = np.array(item.rows), evidence.dataset.class_names
        said = item.details.get("words") or [formatting.number(away) for away in item.details["distances"]]
        if evidence.is_images:
            heading = "Unusual images" if "words" in item.details else "Far from all others: mean distance"
            charts.append(_section_gallery(evidence, rows, said[:GALLERY], heading, "all"))
            continue
        shown, cells = _content_cells(evidence, rows[:MOST_LISTED])
        listed = (
            (evidence.dataset.place(row), names[evidence.labels[row]], away, *cells[row])
            for row, away in zip(rows[:MOST_LISTED].tolist(), said, strict=False)
        )
        columns = ("example", "label", "mean distance", *shown)
        tables.append(Table("Examples far from all others", columns, tuple(listed)))
    return Section(
        title,
        (advice, *map(problem_sentences, problems[1:])),
        charts=tuple(charts),
        tables=tuple(dataclasses.replace(table, rows=table.rows[:OPEN_ROWS]) for table in tables),
        folded=tuple(table for table in tables if len(table.rows) > OPEN_ROWS),
        key="unusual",
        short="Unusual examples",
    )


def contents_section(evidence: Evidence) -> Section:
    """How many examples each class has, in which split, and what was found per class."""
    dataset, split = evidence.dataset, evidence.split
    k = dataset.n_classes
    counts = {name: np.bincount(evidence.labels[getattr(split, name)], minlength=k) for name in SPLITS}
    total = np.bincount(evidence.labels, minlength=k)
    small, large = int(total.argmin()), int(total.argmax())
    by_size = np.argsort(-total, kind="stable").tolist()
    kind = "images of " + " × ".join(map(str, dataset.x.shape[1:])) if evidence.is_images else "feature vectors"
    size = int(np.prod(dataset.x.shape[1:]))
    each = f" ({counted(size, 'number')} each)"
    if dataset.is_texts:
        kind, each = "texts", f" and {each.strip(' ()')}" if size else ""
    sentences = [
        f"{dataset.name} has {len(dataset):,} {kind}{each} in {k:,} classes.",
        *encoder_sentences(evidence),
        f"All numbers use one split: {len(split.train):,} train, {len(split.validation):,} validation, "
        f"{len(split.test):,} test ({split.method}, seed {split.seed}).",
        f"Every class has {int(total[0]):,} examples."
        if total[small] == total[large]
        else f"The smallest class ({dataset.class_names[small]}) has {int(total[small]):,} examples, the largest "
        f"({dataset.class_names[large]}) {int(total[large]):,}.",
    ]
    if dataset.feature_names:
        sentences.append(f"Features: {errors.few(dataset.feature_names, 50)}.")
    bars, which, half = list(range(k)), "", MOST_BARS // 2
    if k > MOST_BARS:
        bars, which = by_size[:half] + by_size[-half:], f": the {half} largest and the {half} smallest of {k:,}"
    chart = Chart(
        "columns" if len(bars) <= COLUMNS else "bars",
        f"Examples per class{which}",
        tuple({"name": dataset.class_names[c], "value": int(total[c])} for c in bars),
        f"Bars of class sizes{which}: from {int(total.min()):,} to {int(total.max()):,} examples.",
        {"x_title": "class" if len(bars) <= COLUMNS else "examples", "height": 110},
    )
    order = range(k) if k <= MOST_ROWS else by_size[:MOST_ROWS]
    columns = (total, *counts.values())
    more = _contents_columns(evidence)
    rows = tuple(
        (dataset.class_names[c], *(int(column[c]) for column in columns), *(column[c] for column in more.values()))
        for c in order
    )
    title = "Per class" if k <= MOST_ROWS else f"Per class: the {MOST_ROWS:,} largest of {k:,}"
    table = Table(title, ("class", "examples", *counts, *more), rows, bars=("examples",))
    return Section(
        f"{len(dataset):,} examples in {k:,} classes",
        tuple(sentences),
        charts=(chart,),
        folded=(table,),
        key="classes",
        short="Dataset",
    )


def _contents_columns(evidence: Evidence) -> dict[str, list[Any]]:
    """Per class, on the test set: errors of the models, mean confusion."""
    if not evidence.models and "confusion" not in evidence.columns:
        return {}
    test, labels, k = evidence.modelled.test, evidence.labels, evidence.dataset.n_classes
    level = evidence.config.confidence
    by_class = [test[labels[test] == c] for c in range(k)]
    columns: dict[str, list[Any]] = {}
    inputs = evidence.inputs
    for model in evidence.models:
        if inputs is not None and model.covers(test):
            wrong = model.probs.argmax(axis=1) != labels
            columns[f"error of {model.name}"] = [
                inputs.share(wrong[rows], rows, level) if len(rows) else None for rows in by_class
            ]
    if "confusion" in evidence.columns:
        values = np.asarray(evidence.columns["confusion"], dtype=np.float64)
        known = [values[rows][np.isfinite(values[rows])] for rows in by_class]
        columns["mean confusion, bits"] = [round(float(v.mean()), 3) if len(v) else None for v in known]
    return columns


def flow_section(flow: FlowView) -> Section:
    """Bayes error of the flow against temperature."""
    chart = temperature_chart(
        flow.temperatures, flow.curve, "Bayes error of the flow against temperature", at_one="as fitted"
    )
    words = (
        "The flow's exact Bayes error as its latents are scaled. It describes the flow; whether it describes the "
        "data is tested in the table of estimates under an assumption."
    )
    return Section("A flow of this dataset", (words,), charts=(chart,), key="dial", short="Flow")


def learning_chart(curve: DataCurve, height: int = 260) -> Chart:
    """Error against the number of training examples."""
    pairs = list(zip(curve.sizes, curve.errors, strict=True))
    rows = tuple({"series": curve.model, "x": size, **fields_of(item, "y")} for size, item in pairs)
    words = "; ".join(f"{size:,} examples: {formatting.estimate(item)}" for size, item in pairs)
    options = {"x_title": "training examples", "y_title": "error", "log_x": True, "height": height}
    title = f"Learning curve of {curve.model}"
    if curve.promises:
        title += f"; with twice the data about {formatting.estimate(curve.at_double)} error"
    return Chart("lines", title, rows, words, options)


def learning_section(curve: DataCurve) -> Section:
    """What more data would bring."""
    double = formatting.estimate(curve.at_double)
    now, lowest, n = formatting.value_of(curve.errors[-1]), curve.lowest, curve.at_double.n
    fitted = (
        f"{formatting.capital(curve.model)} trained on {curve.sizes[0]:,} to {curve.sizes[-1]:,} examples; with "
        f"all of them the error is {now}. A power law fitted to these errors falls as n to the power −b, b = "
        f"{formatting.plain(curve.exponent)}."
    )
    if curve.promises:
        title = f"Twice the data: about {double} error"
        said = (
            f"Extrapolated to twice the training examples: {double}. The interval covers a law that falls to 0 and "
            "one that levels off, and the sampling of the test set; the true curve may be neither."
        )
    elif lowest * n < 0.5:  # no error, up to rounding
        faultless = formatting.capital(curve.model) if curve.errors[-1].value * n < 0.5 else "The best model"
        title = f"{faultless} makes no error on this test set: no room to measure more data"
        said = f"To measure what more data bring takes more test examples than these {n:,}."
    else:
        title = "These data do not show that more of them would help"
        said = (
            f"Extrapolated to twice the training examples the error is {double}, which is not measurably below the "
            f"lowest error here, {formatting.percent(lowest, curve.at_double.stderr)}. With {n:,} test "
            "examples a gain may go unseen."
        )
    table = table_of_columns("Error by training size", {"training examples": curve.sizes, "error": curve.errors})
    return Section(title, (fitted, said), folded=(learning_chart(curve), table), key="learning", short="More data")


def run_section(audit: Audit) -> Section | None:
    """What was trained, in which time."""
    if not audit.steps and not audit.notes:
        return None
    done = sum(step.seconds for step in audit.steps)
    taken, planned = (formatting.fixed(seconds, 0) for seconds in (done, audit.config.budget))
    said = f"Training took {taken} s of a budget of {planned} s of wall-clock time. "
    said += "The plan was revised as it went: each step got its part of the time that was left when it began."
    if not done:
        said = "Nothing was trained."
    elif done > audit.config.budget:
        said += " A step that has begun is finished, so a slow or busy machine exceeds a small budget."
    columns: dict[str, Any] = {"step": "name", "planned, s": lambda step: round(step.planned, 1)}
    columns["taken"] = lambda step: (
        f"skipped: {SKIPPED[step.skipped]}" if step.skipped else f"{formatting.fixed(step.seconds, 1)} s"
    )
    table = table_of("Steps", audit.steps, columns)
    notes = (note if isinstance(note, str) else _run_note(note) for note in audit.notes)
    return Section("What was trained", (said, *notes), folded=(table,), key="run", short="Run")


def _run_note(note: AuditNote) -> str:
    details = note.details
    if note.code == "skipped":
        return f"{formatting.capital(SEARCHED.get(details['step'], details['step']))}: {SKIPPED[details['why']]}."
    if note.code == "fewer-networks":
        counts = f"{details['trained']} of {details['planned']}"
        return f"{counts} networks were trained: the time of this step was used up."
    if note.code == "epochs":
        ends = [formatting.fixed(details[name], 1) for name in ("low", "high")]
        return (
            f"Networks stopped after {' to '.join(dict.fromkeys(ends))} epochs (time limit or early stopping); a "
            "rerun on another machine gives slightly different numbers."
        )
    if note.code == "sampled":
        return sampled_words(note)
    if note.code == "no-curve":
        return (
            f"No learning curve: {details['model']} would not reach the best model with twice the data, so it does "
            "not say what more data bring; a larger --budget may help."
        )
    return f"No flow of this dataset: {details['reason']}."
