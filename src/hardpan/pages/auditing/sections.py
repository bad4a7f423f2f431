"""Sections that an audit makes while it has the data: hard examples, fresh data, labels, copies, models."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardpan import errors
from hardpan.auditing.evidence import USABLE, Evidence
from hardpan.auditing.hardness import Hardness
from hardpan.auditing.problems import BenchmarkProblem
from hardpan.bayes.floors.dataset_floor import Floor
from hardpan.bayes.floors.entries import MAY_HAVE_SEEN
from hardpan.bayes.floors.error_estimates import Labels
from hardpan.bayes.floors.inputs import FloorInputs
from hardpan.errors import counted
from hardpan.pages import floors, formatting
from hardpan.pages.confusion import METHOD as HARD_METHOD
from hardpan.pages.confusion import score_section
from hardpan.pages.confusion_charts import confusion_matrix_chart, error_by_band_chart, reliability_chart
from hardpan.pages.flow_charts import temperature_chart
from hardpan.pages.galleries import captioned_gallery
from hardpan.pages.sections import Chart, Section, Table

if TYPE_CHECKING:
    from hardpan.auditing.fresh import FreshScores
    from hardpan.confusion.label_noise import LabelIssues
    from hardpan.testbed import Comparison

GALLERY = 12
COLUMNS = 20  # classes that are drawn as upright bars
OPEN_ROWS = 8  # of a table that is open on the page
CLASS_BARS = 12  # classes with the largest errors
MOST_BARS, MOST_ROWS, MOST_LISTED = 60, 1000, 40
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
        parts.append(hard_section(evidence.hard, evidence.floor))
    if evidence.fresh is not None:
        parts.append(fresh_section(evidence, evidence.fresh))
    if evidence.issues is not None:
        parts.append(labels_section(evidence, evidence.issues, problems))
    if evidence.inputs is not None:
        parts.append(copies_section(evidence, problems))
    if evidence.probs:
        parts.append(models_section(evidence))
    return (*parts, contents_section(evidence), *flow_sections(evidence))


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


def fresh_section(evidence: Evidence, fresh: FreshScores) -> Section:
    """Whether the score holds: models of a table, or the networks, on both sets."""
    if fresh.comparison is not None:
        from hardpan.pages import testbed as testbed_page

        section = testbed_page.section(fresh.comparison)
        warnings = (*_other_test_set_warning(fresh.comparison, evidence), *section.warnings)
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


def _other_test_set_warning(comparison: Comparison, evidence: Evidence) -> tuple[str, ...]:
    """A warning where the table's original set cannot be the test set of this audit."""
    sizes, here = sorted({row.original.n for row in comparison.rows}), len(evidence.split.test)
    if here in sizes:
        return ()
    size = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    return (
        f"The table has models on an original set of {size} examples, and the test set of this audit has {here:,}: "
        "this section is about that set, not about this test set.",
    )


def labels_section(evidence: Evidence, issues: LabelIssues, problems: Sequence[BenchmarkProblem]) -> Section:
    """Labels that differ from the prediction, with pictures where the examples are images."""
    problems = [item for item in problems if item.kind == "labels"]
    title = problems[0].title if problems else "Labels and predictions agree"
    sentences = [
        f"{issues.examples:,} labels are compared with predictions of models that did not see them: test by the "
        "mean of the good models, train and validation out of fold. The list has those that differ, first the "
        "labels with the least probability. All of them are in problems/labels.csv.",
        *(f"{item.title}. {item.advice}" for item in problems[1:]),
    ]
    names, some = np.array(evidence.dataset.class_names), slice(MOST_LISTED)
    rows = [
        (split, evidence.dataset.place(int(row)), names[label], names[other], round(float(p), 3))
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
        charts.append(_example_gallery(evidence, issues.row, captions, title_of, "all", suggested))
    columns = ("split", "example", "label", "predicted", "probability of the label")
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


def _example_gallery(
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
    sentences = [f"{item.title}. {item.advice}" for item in problems]
    if not problems:
        sentences.append("No row equals another one.")
    sentences += floors.population(evidence.floor) if evidence.floor is not None else ()
    if evidence.images is not None:
        found = [f"{name} {hits} of {of}" for name, (hits, of) in evidence.images.sensitivity.items()]
        sentences.append(
            f"Of {len(evidence.images.found.rows):,} test images altered copies in train were searched. Of "
            f"training images that were altered here, the search found: {formatting.listed(found)}."
        )
    ids, names, labels = evidence.dataset.ids, evidence.dataset.class_names, evidence.labels
    away = np.asarray(evidence.columns["duplicate_distance"], dtype=np.float64)
    order = np.argsort(np.where(np.isfinite(away), away, np.inf), kind="stable")[:MOST_LISTED]
    near = evidence.columns["duplicate"]
    position, row_of = evidence.dataset.place, {str(name): row for row, name in enumerate(ids)}
    rows = tuple(
        (position(int(row)), names[labels[row]], position(row_of[str(near[row])]), round(float(away[row]), 4))
        for row in order
        if np.isfinite(away[row])
    )
    pairs = Table(
        "Closest pairs across the split", ("test example", "label", "nearest training example", "distance"), rows
    )
    charts = []
    if evidence.is_images and len(order):
        both = np.array([r for row in order[: GALLERY // 2] for r in (row, row_of[str(near[row])])])
        captions = [
            f"{'train' if number % 2 else 'test'}, {formatting.number(away[both[number - number % 2]])} apart"
            for number in range(len(both))
        ]
        charts.append(
            _example_gallery(evidence, both, captions, "Closest pairs: test example, then training example", "test")
        )
    conflicts = [item for item in problems if item.kind == "conflicting-labels"]
    tables = [pairs]
    if conflicts:
        listed = tuple((position(row), names[labels[row]]) for row in conflicts[0].rows[:MOST_LISTED])
        tables.insert(0, Table("Equal rows with different labels", ("example", "label"), listed))
    title = problems[0].title if problems else "No equal rows"
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
    "Rows are equal when all their numbers are (−0 equals 0, missing equals missing). Of an official test set two "
    "tests decide whether there are more such rows across the split than in a test set that is drawn like train, "
    "each within classes: rows that were held back from train, as many as test has, equal one of the remaining "
    "training rows as often as test rows do (one-sided hypergeometric test; five parts, twice the median p-value); "
    "and random splits of the same rows are as similar (Σ (t − f n)²/n over groups of n equal rows, t of them in "
    "test, f the proportion of test; 1,999 permutations). The smaller p-value counts twice. "
    "The nearest training examples of "
    "each test example are found exactly (Euclidean distance). Whether an official test set has more examples with "
    "a near neighbour than one drawn like train: training rows are held back, as many as test has at most, and "
    "compared with test rows within each class by whether the rest of train has a different row at most δ away "
    "(one-sided hypergeometric test; δ at four quantiles of the distances within the rest, Bonferroni; five parts, "
    "twice the median p-value). Where the split was made here, rows nearer than half of the typical distance are "
    "listed. "
    "Of images, altered copies instead: descriptors of many views of each test image (shifted by up to 10 %, "
    "cropped or zoomed to 80 %, mirrored, turned, inverted) are compared with all training images, the best "
    "six pairs are aligned, and a pair is listed from a correlation of 0.93 without coarse structure; the test "
    "is the same.",
)


def _class_stands_out(inputs: FloorInputs, wrong: NDArray[np.bool_], worst: int, confidence: float) -> bool:
    """Whether a class chosen as the worst has a higher error than the others together: separate intervals."""
    own = inputs.labels[inputs.test] == worst
    if not (wrong & own).any() or own.all():
        return False
    level = 1 - (1 - confidence) / (2 * inputs.dataset.n_classes)  # the class was chosen among all; two intervals
    least, most = (inputs.share(wrong[part], inputs.test[part], level) for part in (own, ~own))
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
        "Where points lie on the dashed line, accuracy equals the stated confidence.",
    )
    return Section(
        title,
        said,
        charts=(*charts, _class_error_chart(rows), reliability),
        folded=(
            Table("Error by class", ("class", "error", "most often confused with"), rows, bars=("error",)),
            Table("All models with probabilities", ("model", "error", "note"), errors),
        ),
        key="models",
        short="Models",
    )


def _class_error_chart(rows: Sequence[tuple[Any, ...]]) -> Chart:
    """Error per class with its interval, worst first."""
    bars = tuple(
        {
            "name": name if other is None else f"{name} → {other}",
            "value": item.value,
            "low": item.low,
            "high": item.high,
        }
        for name, item, other in rows[:CLASS_BARS]
    )
    words = "; ".join(f"{name} {formatting.estimate(item)}" for name, item, _ in rows[:CLASS_BARS])
    return Chart("bars", "Error by class → the class it is most often taken for", bars, words, {"percent": True})


def contents_section(evidence: Evidence) -> Section:
    """How many examples each class has, in which split, and what was found per class."""
    dataset, split = evidence.dataset, evidence.split
    k = dataset.n_classes
    counts = {name: np.bincount(evidence.labels[rows], minlength=k) for name, rows in evidence.parts.items()}
    total = np.bincount(evidence.labels, minlength=k)
    kind = "images of " + " × ".join(map(str, dataset.x.shape[1:])) if evidence.is_images else "feature vectors"
    size = int(np.prod(dataset.x.shape[1:]))
    sentences = [
        f"{dataset.name} has {len(dataset):,} {kind} ({counted(size, 'number')} each) in {k:,} classes.",
        f"All numbers use one split: {len(split.train):,} train, {len(split.validation):,} validation, "
        f"{len(split.test):,} test ({split.method}, seed {split.seed}).",
        _class_balance(total, dataset.class_names),
    ]
    if dataset.feature_names:
        sentences.append(f"Features: {errors.few(dataset.feature_names, 50)}.")
    bars, which = _class_bars(total)
    chart = Chart(
        "columns" if len(bars) <= COLUMNS else "bars",
        f"Examples per class{which}",
        tuple({"name": dataset.class_names[c], "value": int(total[c])} for c in bars),
        f"Bars of class sizes{which}: from {int(total.min()):,} to {int(total.max()):,} examples.",
        {"x_title": "class" if len(bars) <= COLUMNS else "examples", "height": 110},
    )
    order = range(k) if k <= MOST_ROWS else np.argsort(-total, kind="stable")[:MOST_ROWS].tolist()
    columns = (total, *counts.values())
    more = _class_columns(evidence)
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


def _class_columns(evidence: Evidence) -> dict[str, list[Any]]:
    """Per class, on the test set: errors of the models, mean confusion."""
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
        columns["mean confusion, bits"] = [_mean_of_known(values[rows]) for rows in by_class]
    return columns


def _mean_of_known(values: NDArray[np.float64]) -> float | None:
    known = values[np.isfinite(values)]
    return round(float(known.mean()), 3) if len(known) else None


def _class_balance(total: NDArray[np.int64], names: tuple[str, ...]) -> str:
    small, large = int(total.argmin()), int(total.argmax())
    if total[small] == total[large]:
        return f"Every class has {int(total[small]):,} examples."
    return (
        f"The smallest class ({names[small]}) has {int(total[small]):,} examples, the largest ({names[large]}) "
        f"{int(total[large]):,}."
    )


def _class_bars(total: NDArray[np.int64]) -> tuple[list[int], str]:
    """The classes that a chart has room for, and which they are."""
    if len(total) <= MOST_BARS:
        return list(range(len(total))), ""
    order = np.argsort(-total, kind="stable").tolist()
    half = MOST_BARS // 2
    return order[:half] + order[-half:], f": the {half} largest and the {half} smallest of {len(total):,}"


def flow_sections(evidence: Evidence) -> tuple[Section, ...]:
    """Bayes error of the flow against temperature."""
    flow = evidence.flow
    if flow is None:
        return ()
    chart = temperature_chart(
        flow.temperatures, flow.curve, "Bayes error of the flow against temperature", at_one="as fitted"
    )
    words = (
        "The flow's exact Bayes error as its latents are scaled. It describes the flow; whether it describes the "
        "data is tested in the table of estimates under an assumption."
    )
    return (Section("A flow of this dataset", (words,), charts=(chart,), key="dial", short="Flow"),)
