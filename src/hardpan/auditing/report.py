"""What an audit and a comparison of audits say and show: problems, headline, tiles, sections."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import numbers, safe_files, stats
from hardpan.auditing import examples
from hardpan.auditing.comparison import AuditComparison, HardnessOrder, OrderStability, too_few
from hardpan.auditing.evidence import AuditStep, Evidence, FlowView
from hardpan.auditing.problems import CLUELESS, Problem, Suspects
from hardpan.auditing.running import Audit, DataCurve, ErrorBudget
from hardpan.bayes.floors import report as floors
from hardpan.bayes.floors.inputs import Floats, Labels
from hardpan.bayes.floors.verdict import MAY_HAVE_SEEN, Entry
from hardpan.estimates import Estimate
from hardpan.files import versions_of
from hardpan.report import sections as shown
from hardpan.report.base import View
from hardpan.report.figures import confusion_matrix, dial, reliability_chart
from hardpan.report.galleries import gallery_chart, thumbnails
from hardpan.report.sections import Chart, Provenance, Section, Table, Tile

GALLERY = 12
THUMBNAILS = 8  # under a problem on the first screen
COLUMNS = 20  # classes that are drawn as upright bars
OPEN_ROWS = 8  # of a table that is open on the page
CLASS_BARS = 12  # classes with the largest errors
MOST_BARS, MOST_ROWS, MOST_LISTED = 60, 1000, 40
SMALLEST_SHOWN = 1e-12
MEASURES = {
    "bracket": "bracket of the lowest error",
    "flow_floor": "Bayes error of the flow",
    "gaussian_floor": "Bayes error of the Gaussian model",
    "best_error": "error of the best model",
    "headroom": "headroom",
    "mean_confusion": "mean confusion (bits)",
    "tail_share": "errors in the confusing tenth",
    "drop": "drop on fresh data",
    "bits": "bits per dimension of the flow",
    "duplicated": "test examples with a copy in train",
}
"""What each measure is, in words."""
PLAIN = ("mean_confusion", "bits")  # measures that are no fractions
DIFFERENCES = ("headroom", "drop")  # measures in points
_SPLITS = {"test": "the test set", "train": "the training set", "all": "the data"}


@functools.singledispatch
def view(result: Any) -> View:
    """What a result of this package says and shows."""
    raise TypeError(f"no view of a {type(result).__name__}")


# Problems


def described(problem: Problem, evidence: Evidence) -> Problem:
    """The problem with its title and advice."""
    title, advice = _words(problem, evidence)
    return dataclasses.replace(problem, title=title, advice=advice)


def _words(problem: Problem, evidence: Evidence) -> tuple[str, str]:
    noun = "image" if evidence.is_images else "example"
    details, where = problem.details, _SPLITS[problem.of]
    count = 0 if problem.count is None else round(problem.count.value)
    proportion = "" if problem.proportion is None else numbers.estimate(problem.proportion)
    columns = numbers.listed(_few(details.get("columns", ()))) if details.get("columns") else ""
    if problem.kind == "one-class":
        return (
            f"All examples of {where} have one class",
            "Nothing can be learned or measured: check the label column and the split.",
        )
    if problem.kind == "test-copies":
        verb = "is a copy" if count == 1 else "are copies"
        return (
            f"{numbers.counted(count, f'test {noun}')} {verb} of training {noun}s",
            f"{proportion} of the test set. Remove them: their score says nothing about new data. All numbers "
            "here "
            "leave them out.",
        )
    if problem.kind == "near-copies":
        verb = "is nearly a copy" if count == 1 else "are nearly copies"
        turned = f" {details['turned']:,} of them turned or mirrored." if details.get("turned") else ""
        return (
            f"{numbers.counted(count, f'test {noun}')} {verb} of training {noun}s",
            f"{proportion} of {details['searched']:,} searched, closer than chance explains.{turned} Look at the "
            "pairs before removing any.",
        )
    if problem.kind == "conflicting-labels":
        return (
            f"{numbers.counted(details['groups'], 'input')} {'has' if details['groups'] == 1 else 'have'} copies "
            "with different labels",
            f"{numbers.counted(count, 'row')}. At least one label of each is wrong or the input is ambiguous.",
        )
    if problem.kind == "duplicates":
        verb = "repeats" if count == 1 else "repeat"
        return (
            f"{numbers.counted(count, 'row')} of {where} {verb} another one",
            f"{proportion}. Repeated test rows make intervals too narrow; repeated training rows count double.",
        )
    if problem.kind == "labels":
        return _label_words(problem, where)
    if problem.kind == "missing-classes":
        classes = numbers.listed(_few(details["classes"]))
        n = len(details["classes"])
        words = numbers.counted(n, "class", "classes")
        if problem.of == "all":
            return f"{words} {'has' if n == 1 else 'have'} no example", f"{classes}: remove the names, or add data."
        effect = {
            "train": "Every test example of these classes is an error",
            "test": "Scores say nothing about these classes",
        }[problem.of]
        return f"{words} {'is' if n == 1 else 'are'} missing from {where}", f"{classes}. {effect}."
    if problem.kind == "imbalance":
        few = details["classes"]
        more = f" Fewer than 5 test examples: {numbers.listed(_few(few))}." if few else ""
        return (
            f"The largest class has {details['ratio']:,.0f} times the examples of the smallest",
            f"Accuracy hides the small classes: report the error per class as well.{more}",
        )
    if problem.kind == "small-test":
        return (
            f"Models closer than {100 * details['smallest']:.2g} points cannot be ranked",
            f"{details['n']:,} test examples; to show a difference of a tenth of the error takes about "
            f"{numbers.round_up(details['needed'])}.",
        )
    if problem.kind == "index-feature" and details.get("dropped"):
        return (
            f"The file has a row index that is left out here: {columns}",
            "Drop it from the file: others would train on it.",
        )
    if problem.kind == "index-feature":
        tail = (
            "It predicts the label, so scores do not measure generalisation: drop it."
            if details["predicts"]
            else "If so, drop it."
        )
        return f"A row number or identifier is among the features: {columns}", tail
    if problem.kind == "constant-columns":
        return f"Constant features: {columns}", "They carry no information; check how they were exported."
    if problem.kind == "leak-feature":
        return (
            f"A feature is nearly the label: {columns}",
            "Check whether it is known before the label; if not, drop it.",
        )
    if problem.kind == "permuted-classes":
        return (
            f"The class columns of {details['model']} look permuted ({details['moved']} classes)",
            "Another order of its columns fits the labels far better: check the order of the class names.",
        )
    if problem.kind == "fresh":
        return (
            "Not measured: whether the score holds on fresh data",
            "Needs the scores of some models on this test set and on a fresh one: --testbed scores.csv.",
        )
    return floors.capital(str(details.get("message", problem.kind)).rstrip(".")), ""


def _label_words(problem: Problem, where: str) -> tuple[str, str]:
    assert problem.count is not None
    count = round(problem.count.value)
    low, high = int(np.floor(problem.count.low)), int(np.ceil(problem.count.high))
    precision, expected = (problem.details.get(name) for name in ("precision", "expected_precision"))
    if problem.severity == "note":
        error = problem.details["error"]
        title = f"No sign of wrong labels in {where}: the models' own errors explain {count:,} doubts"
        if error > CLUELESS * problem.details["guessing"]:
            title = f"Labels of {where} could not be checked: the models err on {numbers.percent(error, 0.1)}"
        return title, "Random mistakes would show where the models are most sure as well. problems/labels.csv."
    advice = (
        f"{numbers.estimate(problem.proportion)} of the labels that were checked. " if problem.proportion else ""
    )
    if precision is not None:
        advice += f"Annotators' votes confirm {numbers.estimate(precision)} of them. "
    elif expected is not None:
        advice += (
            f"About {numbers.estimate(expected)} of these are wrong if mistakes are as frequent on easy examples "
            "as on hard ones: look at the list before correcting. "
        )
    else:
        advice += "These are suspicions: look before you correct. "
    verb = "looks wrong" if count == 1 else "look wrong"
    return f"{numbers.counted(count, 'label')} of {where} {verb} ({low:,}–{high:,})", advice.strip()


def _few(names: Sequence[str], most: int = 6) -> list[str]:
    listed = list(names[:most])
    return [*listed, f"{len(names) - most} more"] if len(names) > most else listed


def shown_problems(audit: Audit) -> tuple[shown.Problem, ...]:
    """The problems for the first screen and the terminal."""
    links = {
        "labels": ("problems/labels.csv", "labels.csv"),
        "test-copies": ("#copies", "see them"),
        "near-copies": ("#copies", "see them"),
        "conflicting-labels": ("#copies", "see them"),
        "duplicates": ("#copies", "see them"),
        "missing-classes": ("#classes", "see them"),
        "imbalance": ("#classes", "see them"),
    }
    found = []
    for item in audit.problems:
        link, text = links.get(item.kind, ("", ""))
        found.append(
            shown.Problem(
                item.kind,
                item.severity,
                item.title,
                item.advice,
                item.count,
                link,
                text or "see them",
                _thumbnails(audit, item),
            )
        )
    return tuple(found)


def _thumbnails(audit: Audit, problem: Problem) -> Chart | None:
    """A few pictures of a problem: the first ones of its gallery."""
    key = {"labels": "labels", "test-copies": "copies", "near-copies": "copies"}.get(problem.kind)
    if problem.severity == "note":
        return None
    for part in audit.parts:
        if part.key == key:
            for chart in (*part.charts, *part.folded):
                if isinstance(chart, Chart) and chart.drawing == "gallery" and chart.options["of"] == problem.of:
                    return dataclasses.replace(chart, rows=chart.rows[:THUMBNAILS])
    return None


# The audit


@view.register
def _(audit: Audit) -> View:
    size = audit.size
    learning = [_learning_section(audit.learning)] if audit.learning is not None else []
    floor = [floors.section(audit.floor, bracket_in_title=True)] if audit.floor is not None else []
    first = [part for part in audit.parts if part.key in ("hard", "fresh", "labels", "models")]
    last = [part for part in audit.parts if part not in first]
    run = _run_section(audit)
    return View(
        title=f"Audit of {audit.dataset}",
        headline=headline(audit),
        sections=(*first, *learning, *floor, *last, *([run] if run is not None else [])),
        lede=_lede(audit),
        tiles=tiles(audit),
        provenance=audit.origin,
        columns={} if audit.examples is None else examples.columns(audit.examples),
        name=audit.dataset,
        size=f"{size['train']:,} train, {size['test']:,} test, {size['classes']:,} classes" if size else "",
        problems=shown_problems(audit),
        hero=tuple(_hero(audit)),
        links={"report.json": "report.json", "labels.csv": "problems/labels.csv"},
        terminal=(),
        downloads=audit.downloads,
    )


def headline(audit: Audit) -> str:
    """What is broken, or the best model's error and the bracket of the lowest possible error."""
    broken = [item for item in audit.problems if item.breaks]
    if broken:
        return f"{audit.dataset} is broken as a benchmark: {floors.lower_case(broken[0].title)}."
    best = audit.measures.get("best_error")
    if audit.floor is None or best is None:
        return f"On {audit.dataset} nothing could be measured."
    bracket = audit.floor.bracket
    words = floors.bracket_words(audit.floor)
    said = f"The best model here has {numbers.estimate(best)} error. {floors.capital(words)}"
    if not bracket.low_from:
        said += "; nothing in these data bounds it from below"
    return said + "." + floors.refused_words(audit.floor)


def _lede(audit: Audit) -> tuple[str, ...]:
    if audit.floor is None or not audit.floor.seen:
        return ()
    return (floors.seen_words([entry.name for entry in audit.floor.seen]),)


def tiles(audit: Audit) -> tuple[Tile, ...]:
    """The numbers of an audit; what was not measured is among the problems."""
    measures, floor = audit.measures, audit.floor
    broken = any(item.breaks for item in audit.problems)
    found = []
    if floor is not None and not broken:
        found += list(floors.tiles(floor)[:1])
        best, headroom = measures.get("best_error"), measures.get("headroom")
        if best is not None and floor.best is not None:
            detail = f"{floors.capital(floor.best.name)} on {best.n:,} test examples: {numbers.estimate(best)}."
            found.append(Tile("Best model", floors.value_words(best), detail))
        if headroom is not None and floor.bracket.low_from:
            detail = "From the best error down to the lower end of the lowest possible error."
            found.append(Tile("Headroom", f"at most {limit_in_points(headroom.high)}", detail))
        if audit.learning is not None and audit.learning.exponent.low > 0:
            double = audit.learning.at_double
            detail = f"{floors.capital(audit.learning.model)}, extrapolated: {numbers.estimate(double)}."
            found.append(Tile("With twice the data", f"about {floors.value_words(double)}", detail))
    tail = measures.get("tail_share")
    if tail is not None and not too_few("tail_share", tail):
        detail = f"Of the ensemble's errors: {numbers.estimate(tail)}."
        found.append(Tile("Errors in the confusing tenth", floors.value_words(tail), detail))
    drop = measures.get("drop")
    if drop is not None:
        found.append(Tile("Drop on fresh data", numbers.signed(drop, interval=False), numbers.signed(drop)))
    return tuple(found)


def _hero(audit: Audit) -> list[Chart]:
    if any(item.breaks for item in audit.problems):
        return []
    charts = []
    budget = audit.budget
    if budget is not None and sum(item.value > 0 for item in (budget.labels, budget.agreed, budget.rest)) > 1:
        charts.append(_budget_chart(budget))
    if audit.learning is not None:
        charts.append(_learning_chart(audit.learning, height=150))
    elif audit.floor is not None:
        charts.append(floors.ceilings(audit.floor))
    return charts


def _budget_chart(budget: ErrorBudget) -> Chart:
    parts = (
        ("label looks wrong", budget.labels),
        ("all models predict the same other class", budget.agreed),
        ("models disagree", budget.rest),
    )
    rows = tuple(
        {"name": name, "value": item.value, "shown": f"{100 * item.value:.2g} points", "low": item.low}
        for name, item in parts
    )
    words = "; ".join(f"{name} {numbers.estimate(item)}" for name, item in parts)
    words = f"Errors of {budget.model}, the best model here: {words}"
    total = floors.value_words(budget.total)
    return Chart("composition", f"Where the {total} error of {budget.model} comes from", rows, words, {})


def _learning_chart(curve: DataCurve, height: int = 260) -> Chart:
    rows = tuple(
        {"series": curve.model, "x": size, "y": item.value, "low": item.low, "high": item.high}
        for size, item in zip(curve.sizes, curve.errors, strict=True)
    )
    words = "; ".join(
        f"{size:,} examples: {numbers.estimate(item)}" for size, item in zip(curve.sizes, curve.errors, strict=True)
    )
    options = {"x_title": "training examples", "y_title": "error", "log_x": True, "height": height}
    title = f"Learning curve: about {numbers.estimate(curve.at_double)} error with twice the data"
    return Chart("lines", title, rows, words, options)


def _learning_section(curve: DataCurve) -> Section:
    double = numbers.estimate(curve.at_double)
    now = floors.value_words(curve.errors[-1])
    unclear = curve.exponent.low <= 0
    title = (
        "These data do not show that more of them would help"
        if unclear
        else f"Twice the data: about {double} error"
    )
    sentences = (
        f"{floors.capital(curve.model)} trained on {curve.sizes[0]:,} to {curve.sizes[-1]:,} examples; with all of "
        f"them the error is {now}. Fitted to these errors, a power law falls as n to the power −b, b = "
        f"{numbers.plain(curve.exponent)}.",
        f"Extrapolated to twice the training examples: {double}. The interval contains the sampling of the test "
        "set, not the error of the power law itself.",
    )
    table = Table(
        "Error by training size",
        ("training examples", "error"),
        tuple(zip(curve.sizes, curve.errors, strict=True)),
    )
    return Section(title, sentences, folded=(_learning_chart(curve), table), key="learning", short="More data")


def _run_section(audit: Audit) -> Section | None:
    if not audit.steps and not audit.notes:
        return None
    rows = tuple((step.name, round(step.planned, 1), _taken(step)) for step in audit.steps)
    done = sum(step.seconds for step in audit.steps)
    said = f"Training took {done:.0f} s of a budget of {audit.config.budget:.0f} s of wall-clock time. "
    said += "Steps that finished early left their time to later ones."
    table = Table("Steps", ("step", "planned, s", "taken"), rows)
    return Section("What was trained", (said, *audit.notes), folded=(table,), key="run", short="Run")


def _taken(step: AuditStep) -> str:
    return f"skipped: {step.skipped}" if step.skipped else f"{step.seconds:.1f} s"


# Sections that the audit makes while it has the data


def labels_section(evidence: Evidence, suspects: Mapping[str, Suspects], found: Sequence[Problem]) -> Section:
    """Labels that look wrong, with pictures where the examples are images."""
    problems = [item for item in found if item.kind == "labels"]
    total = sum(len(item.rows) for item in suspects.values())
    title = problems[0].title if problems else f"{numbers.counted(total, 'label')} may be wrong"
    sentences = [
        "Models that did not see these examples prefer another class: in test by the mean of the good models, in "
        "train by out-of-fold predictions. All of them are in problems/labels.csv.",
        *(f"{item.title}. {item.advice}" for item in problems[1:]),
    ]
    charts, rows = [], []
    names = evidence.dataset.class_names
    for part, item in suspects.items():
        rows += [
            (part, evidence.dataset.place(int(row)), names[evidence.labels[row]], names[other], round(float(p), 3))
            for row, other, p in zip(item.rows, item.suggested, item.probability, strict=True)
        ][:MOST_LISTED]
        if evidence.is_images and len(item.rows):
            captions = [f"{100 * p:.0f} %" for p in item.probability]
            suggested = [names[other] for other in item.suggested]
            title_of = f"Suspicious labels in {part}"
            charts.append(_gallery(evidence, item.rows, captions, title_of, part, suggested))
    table = Table("Most suspicious labels", ("split", "example", "label", "suggested", "probability"), tuple(rows))
    # Without pictures the first rows of the table are what there is to look at.
    first = () if charts else (dataclasses.replace(table, rows=table.rows[:OPEN_ROWS]),)
    return Section(
        title,
        tuple(sentences),
        charts=tuple(charts[:1]),
        tables=first,
        folded=(table, *charts[1:]) if charts or len(rows) > OPEN_ROWS else (),
        key="labels",
        short="Labels",
    )


def _gallery(
    evidence: Evidence, rows: Labels, captions: Sequence[str], title: str, of: str, suggested: Sequence[str] = ()
) -> Chart:
    dataset, some = evidence.dataset, rows[:GALLERY]
    place = dataset.metadata.get("row", np.arange(len(dataset)))
    pictures = thumbnails(dataset.x[some], float(dataset.x.min()), float(dataset.x.max()))
    tiles = [
        {
            "group": "",
            "shown": captions[number],
            "label": dataset.class_names[evidence.labels[row]],
            "id": str(dataset.ids[row]),
            "row": int(place[row]),
            **({"suggested": suggested[number]} if suggested else {}),
            **({"path": str(dataset.metadata["path"][row])} if "path" in dataset.metadata else {}),
        }
        for number, row in enumerate(some.tolist())
    ]
    words = "Under each picture: its label"
    words += ", in orange the suggested class, its probability" if suggested else ""
    where = "file" if "path" in dataset.metadata else "row"
    return gallery_chart(title, pictures, tiles, f"{words}, and its {where}.", of=of)


def copies_section(evidence: Evidence, found: Sequence[Problem]) -> Section:
    """Copies, near-copies and conflicting labels."""
    kinds = ("test-copies", "near-copies", "conflicting-labels", "duplicates")
    problems = [item for item in found if item.kind in kinds]
    inputs = evidence.inputs
    assert inputs is not None
    sentences = [f"{item.title}. {item.advice}" for item in problems]
    if not problems:
        sentences.append("No test example has a copy or a near-copy in train, and no row repeats another.")
    if inputs.equal.by_chance:
        others = "Other rows" if problems else "Rows"
        sentences = sentences if problems else []
        sentences.append(
            f"{others} of this table coincide by chance, because its columns have few values: they are not called "
            "copies. They are split one by one, and their labels bound the lowest error from below."
        )
    ids, names, labels = evidence.dataset.ids, evidence.dataset.class_names, evidence.labels
    away = np.asarray(evidence.columns["duplicate_distance"], dtype=np.float64)
    order = np.argsort(np.where(np.isfinite(away), away, np.inf), kind="stable")[:MOST_LISTED]
    near = evidence.columns["duplicate"]
    place, row_of = evidence.dataset.place, {str(name): row for row, name in enumerate(ids)}
    rows = tuple(
        (place(int(row)), names[labels[row]], place(row_of[str(near[row])]), round(float(away[row]), 4))
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
            f"{'train' if number % 2 else 'test'}, {away[both[number - number % 2]]:.3g} apart"
            for number in range(len(both))
        ]
        charts.append(
            _gallery(evidence, both, captions, "Closest pairs: test example, then training example", "test")
        )
    conflicts = [item for item in problems if item.kind == "conflicting-labels"]
    tables = [pairs]
    if conflicts:
        listed = tuple((place(row), names[labels[row]]) for row in conflicts[0].rows[:MOST_LISTED])
        tables.insert(0, Table("Copies with different labels", ("example", "label"), listed))
    title = problems[0].title if problems else "No copies across the split"
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
    "Two examples are copies when all their numbers are equal. In a table whose columns have few values rows "
    "coincide by chance; up to 20 times as many coincidences as independent columns would give are not called "
    "copies (rows that share a rare value are judged apart from the others). The nearest training examples of "
    "each test example are found exactly (Euclidean distance). A near-copy is less than half as far from the "
    "nearest one as from the second nearest, where there are more of these than chance explains (0.1 %), or an "
    "image that equals a training image once turned or mirrored.",
)


def models_section(evidence: Evidence, probs: Mapping[str, Floats]) -> Section:
    """The best model's confusions and calibration."""
    assert evidence.inputs is not None
    test, names = evidence.inputs.test, evidence.dataset.class_names
    truth = evidence.labels[test]
    best = min(probs, key=lambda name: float((probs[name].argmax(axis=1) != truth).mean()))
    answers, k = probs[best].argmax(axis=1), len(names)
    counts = np.zeros((k, k))
    np.add.at(counts, (truth, answers), 1)
    wrong = counts.sum(axis=1) - np.diag(counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        rates = np.where(counts.sum(axis=1) >= 5, wrong / counts.sum(axis=1), 0.0)
    worst = int(np.argmax(rates))
    title = f"{floors.capital(best)}: no errors on the test set"
    if wrong.sum():
        title = f"Class {names[worst]} is misclassified most often: {100 * rates[worst]:.0f} %"
    others = counts - np.diag(np.diag(counts))
    rows = tuple(
        (
            names[c],
            stats.share(int(wrong[c]), int(counts[c].sum()), evidence.config.confidence),
            names[int(others[c].argmax())] if others[c].sum() else None,
        )
        for c in np.argsort(-rates, kind="stable")[:MOST_ROWS]
        if counts[c].sum()
    )
    charts = [confusion_matrix(counts, names, "Confusion matrix, percent of each label")] if k > 1 else []
    reliability = reliability_chart(probs[best].max(axis=1), answers == truth, "Accuracy against stated confidence")
    errors = tuple(
        (name, stats.share(int((p.argmax(axis=1) != truth).sum()), len(truth), evidence.config.confidence), note)
        for group, note in ((probs, None), (evidence.seen_probs(), MAY_HAVE_SEEN))
        for name, p in group.items()
    )
    present = counts.sum(axis=1) > 0
    balanced = float(np.mean(np.diag(counts)[present] / counts.sum(axis=1)[present]))
    accuracy = stats.share(int(np.diag(counts).sum()), len(test), evidence.config.confidence)
    said = (
        f"The best model with probabilities, {best}: accuracy {numbers.estimate(accuracy)} on {len(test):,} test "
        f"examples; balanced accuracy (every class weighted equally) {numbers.percent(balanced, accuracy.stderr)}.",
        "Where points lie on the dashed line, stated confidence can be taken at its word.",
    )
    return Section(
        title,
        said,
        charts=(*charts, _class_errors(rows), reliability),
        folded=(
            Table("Error by class", ("class", "error", "most often confused with"), rows, bars=("error",)),
            Table("All models with probabilities", ("model", "error", "note"), errors),
        ),
        key="models",
        short="Models",
    )


def _class_errors(rows: Sequence[tuple[Any, ...]]) -> Chart:
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
    words = "; ".join(f"{name} {numbers.estimate(item)}" for name, item, _ in rows[:CLASS_BARS])
    return Chart("bars", "Error by class → the class it is most often taken for", bars, words, {"percent": True})


def contents_section(evidence: Evidence, verdicts: Mapping[str, Entry]) -> Section:
    """How many examples each class has, in which split, and what was found per class."""
    dataset, split = evidence.dataset, evidence.split
    k = dataset.n_classes
    counts = {name: np.bincount(evidence.labels[rows], minlength=k) for name, rows in evidence.parts.items()}
    total = np.bincount(evidence.labels, minlength=k)
    kind = "images of " + " × ".join(map(str, dataset.x.shape[1:])) if evidence.is_images else "feature vectors"
    size = int(np.prod(dataset.x.shape[1:]))
    sentences = [
        f"{dataset.name} has {len(dataset):,} {kind} ({size:,} numbers each) in {k:,} classes.",
        f"All numbers use one split: {len(split.train):,} train, {len(split.validation):,} validation, "
        f"{len(split.test):,} test ({split.method}, seed {split.seed}).",
        _balance(total, dataset.class_names),
    ]
    if dataset.feature_names:
        sentences.append(f"Features: {safe_files.few(dataset.feature_names, 50)}.")
    bars, which = _bars(total)
    chart = Chart(
        "columns" if len(bars) <= COLUMNS else "bars",
        f"Examples per class{which}",
        tuple({"name": dataset.class_names[c], "value": int(total[c])} for c in bars),
        f"Bars of class sizes{which}: from {int(total.min()):,} to {int(total.max()):,} examples.",
        {"x_title": "class" if len(bars) <= COLUMNS else "examples", "height": 110},
    )
    order = range(k) if k <= MOST_ROWS else np.argsort(-total, kind="stable")[:MOST_ROWS].tolist()
    columns = (total, *counts.values())
    more = _per_class(evidence, verdicts)
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


def _per_class(evidence: Evidence, verdicts: Mapping[str, Entry]) -> dict[str, list[Any]]:
    """Per class, on the test set: errors of the models, mean confusion."""
    test, labels, k = evidence.split.test, evidence.labels, evidence.dataset.n_classes
    level = evidence.config.confidence
    by_class = [test[labels[test] == c] for c in range(k)]
    found: dict[str, list[Any]] = {}
    for model in evidence.models:
        if model.covers(test):
            wrong = model.probs.argmax(axis=1) != labels
            found[f"error of {model.name}"] = [
                stats.share(int(wrong[rows].sum()), len(rows), level) if len(rows) else None for rows in by_class
            ]
    if "confusion" in evidence.columns:
        values = np.asarray(evidence.columns["confusion"], dtype=np.float64)
        found["mean confusion, bits"] = [_mean(values[rows]) for rows in by_class]
    return found


def _mean(values: NDArray[np.float64]) -> float | None:
    known = values[np.isfinite(values)]
    return round(float(known.mean()), 3) if len(known) else None


def _balance(total: NDArray[np.int64], names: tuple[str, ...]) -> str:
    small, large = int(total.argmin()), int(total.argmax())
    if total[small] == total[large]:
        return f"Every class has {int(total[small]):,} examples."
    return (
        f"The smallest class ({names[small]}) has {int(total[small]):,} examples, the largest ({names[large]}) "
        f"{int(total[large]):,}."
    )


def _bars(total: NDArray[np.int64]) -> tuple[list[int], str]:
    """The classes that a chart has room for, and which they are."""
    if len(total) <= MOST_BARS:
        return list(range(len(total))), ""
    order = np.argsort(-total, kind="stable").tolist()
    half = MOST_BARS // 2
    return order[:half] + order[-half:], f": the {half} largest and the {half} smallest of {len(total):,}"


def flow_sections(evidence: Evidence, flow: FlowView | None, curve: Any) -> tuple[Section, ...]:
    """The dial: Bayes error of the flow, or of the Gaussian model, against temperature."""
    if flow is None:
        if curve is None:
            return ()
        chart = dial(curve.temperatures, curve.estimates, "Bayes error of the Gaussian model", at_one="as fitted")
        words = "The Bayes error of the fitted Gaussian model as its spread is scaled: a model, not the data."
        return (
            Section(
                "How the Gaussian model's error depends on spread",
                (words,),
                folded=(chart,),
                key="dial",
                short="Gaussian model",
            ),
        )
    chart = dial(flow.temperatures, flow.curve, "Bayes error of the flow against temperature", at_one="as fitted")
    charts = [chart]
    if flow.gallery:
        charts.append(_samples(evidence, flow))
    words = (
        "The flow's exact Bayes error as its latents are scaled. It describes the flow; whether it describes the "
        "data is tested in the table of estimates under an assumption."
    )
    return (
        Section(
            "A flow of this dataset", (words,), charts=(chart,), folded=tuple(charts[1:]), key="dial", short="Flow"
        ),
    )


def _samples(evidence: Evidence, flow: FlowView) -> Chart:
    from hardpan.flows.charts import TemperatureSamples, sample_gallery

    samples = [TemperatureSamples(t, error, images, {}) for t, error, images in flow.gallery]
    words = "; ".join(
        f"{len(images)} samples at temperature {t:g}, Bayes error {numbers.percent(error.value, error.value / 20)}"
        for t, error, images in flow.gallery
    )
    low, high = float(evidence.dataset.x.min()), float(evidence.dataset.x.max())
    return sample_gallery(samples, low, high, "Samples of the flow by temperature", words)


# Measures in words


def in_words(measure: str, item: Estimate) -> str:
    """A measure as a person reads it, with its interval.

    Example:
        >>> in_words("tail_share", Estimate(1.0, 0.0, 0.16, 1.0, n=2))
        'too few errors (2)'
        >>> in_words("bracket", Estimate(0.02, 0.0, 0.005, 0.02)), in_words("bits", Estimate(2.3456, 0.0, 2.3, 2.4))
        ('0.5–2.0 %', '2.35 (2.30–2.40)')
    """
    if too_few(measure, item):
        return f"too few errors ({item.n})"
    if measure == "bracket":
        return numbers.percent_range(item.low, item.high)
    if measure in PLAIN:
        return numbers.plain(item)
    return numbers.plain(item, scale=100, unit="points") if measure in DIFFERENCES else numbers.estimate(item)


def limit_in_points(value: float) -> str:
    """An upper limit of a difference in points.

    Example:
        >>> limit_in_points(0.02708), limit_in_points(3.1e-6)
        ('2.7 points', '0.00031 points')
    """
    return f"{100 * value:.1f} points" if value >= 0.01 else f"{100 * value:.2g} points"


# Comparisons

COMPARISON_METHOD = (
    "Every number is read from the reports of the audits; nothing is computed again from the data. The interval "
    "of a difference combines the two intervals (Zou and Donner's MOVER), as for independent samples.",
    "A dataset is harder than another by a measure when its number is larger; two are not separated when the "
    "interval of their difference, corrected for the number of pairs, contains 0. Kendall's τ compares two "
    "orders: 1 is the same order, −1 the reverse.",
)
COMPARISON_CITATIONS = (
    "Theisen, Wang, Varshney, Xiong and Socher, “Evaluating State-of-the-Art Classification Models Against Bayes "
    "Optimality”, 2021, Table 1.",
    "Zou and Donner, “Construction of confidence limits about effect measures: a general approach”, 2008.",
)


@view.register
def _(found: AuditComparison) -> View:
    sections = [_measures(found)]
    if found.rankings:
        sections.append(_rankings(found))
    if found.stability:
        sections.append(_stability(found.stability))
    return View(
        title=f"Comparison of {numbers.listed(found.names)}",
        headline=comparison_headline(found),
        sections=tuple(sections),
        provenance=Provenance(COMPARISON_METHOD, COMPARISON_CITATIONS, versions=versions_of(), hashes=found.hashes),
        columns={
            "measure": [measure for measure, values in found.values.items() for _ in values],
            "dataset": [name for values in found.values.values() for name in values],
            "value": [item.value for values in found.values.values() for item in values.values()],
            "low": [item.low for values in found.values.values() for item in values.values()],
            "high": [item.high for values in found.values.values() for item in values.values()],
        },
        name=numbers.listed(found.names),
        terminal=tuple(sections[:2]),
    )


def comparison_headline(found: AuditComparison) -> str:
    """Which dataset is harder, or which ones are not separated."""
    ranking = _usable(found)
    if ranking is None:
        return f"{numbers.listed(found.names)} share no measure of hardness."
    words = MEASURES[ranking.measure]
    order = f"From hard to easy by the {words}: {', '.join(ranking.names)}"
    if len(ranking.names) > 2:
        return f"{order}{_not_separated(ranking)}."
    shown_values = " against ".join(
        in_words(ranking.measure, found.values[ranking.measure][name]) for name in ranking.names
    )
    if ranking.not_separated:
        return f"{numbers.listed(found.names)} are not separated by the {words}: {shown_values}."
    return f"{ranking.names[0]} is harder than {ranking.names[1]} by the {words}: {shown_values}."


def _not_separated(ranking: HardnessOrder) -> str:
    pairs = [f"{a} and {b}" for a, b in ranking.not_separated]
    return f"; not separated: {'; '.join(_few(pairs))}" if pairs else ""


def _usable(found: AuditComparison) -> HardnessOrder | None:
    """The first ranking without a refuted number; where there is none, the first."""
    for ranking in found.rankings:
        verdicts = found.verdicts.get(ranking.measure, {})
        if all(verdicts[name].status == "not refuted" for name in ranking.names if name in verdicts):
            return ranking
    return found.rankings[0] if found.rankings else None


def _measures(found: AuditComparison) -> Section:
    rows: list[tuple[Any, ...]] = []
    rejected: list[tuple[Any, ...]] = []
    for measure in found.values:
        cells = [_cell(found, measure, name) for name in found.names]
        change = _change(measure, found.differences.get(measure))
        row = (floors.capital(MEASURES[measure]), *cells, *([change] if found.differences else []))
        doubted = any(entry.status != "not refuted" for entry in found.verdicts.get(measure, {}).values())
        (rejected if doubted else rows).append(row)
    columns = ("measure", *found.names, *(["second minus first"] if found.differences else []))
    folded: list[Table | Chart] = []
    if rejected:
        folded.append(Table("Estimates that an audit rejects", columns, tuple(rejected)))
        folded.append(Table("Why they are rejected", ("measure", "dataset", "reason"), tuple(_doubts(found))))
    charts = [_chart(m, found) for m in ("best_error", "flow_floor") if len(found.values.get(m, {})) >= 2]
    if rejected:
        folded += [item for item in charts if any(row["status"] != "not refuted" for row in item.rows)]
        charts = [item for item in charts if item not in folded]
    return Section(
        "Side by side",
        tuple(_changes(found)) or ("Every number is from the audit's own report.",),
        charts=tuple(charts),
        tables=(Table("Measures", columns, tuple(rows)),),
        folded=tuple(folded),
        key="measures",
    )


def _changes(found: AuditComparison) -> list[str]:
    """For two audits: what differs, in words."""
    said = []
    for measure, change in found.differences.items():
        if change.low <= 0 <= change.high:
            continue
        way = "higher" if change.value > 0 else "lower"
        size = _change(measure, change)
        said.append(
            f"{floors.capital(MEASURES[measure])} is {way} on {found.names[1]} than on {found.names[0]}: {size}."
        )
    if found.differences and not said:
        said.append("No measure separates the two.")
    return said


def _chart(measure: str, found: AuditComparison) -> Chart:
    values = found.values[measure]
    ordered = sorted(values, key=lambda name: -values[name].value)
    rows = []
    for name in ordered:
        item, entry = values[name], found.verdicts.get(measure, {}).get(name)
        status = "not refuted" if entry is None else entry.status
        role = "refuted" if status in ("refuted", "assumption rejected") else "ceiling"
        reason = item.method if entry is None else floors.reason(entry)
        ends = {"value": item.value, "low": item.low, "high": item.high}
        rows.append({"name": name, **ends, "role": role, "status": status, "reason": reason})
    words = "; ".join(f"{name} {_cell(found, measure, name)}" for name in ordered)
    positive = [e.value for e in values.values() if e.value > 0]
    wide = bool(positive) and max(positive) > 30 * min(positive)
    options = {"x_title": MEASURES[measure], "log": wide}
    return Chart(
        "intervals",
        floors.capital(MEASURES[measure]),
        tuple(rows),
        f"{floors.capital(MEASURES[measure])}: {words}.",
        options,
    )


def _doubts(found: AuditComparison) -> list[tuple[str, str, str]]:
    """Numbers that their own audits reject: measure, dataset, reason."""
    return [
        (floors.capital(MEASURES[measure]), name, floors.reason(entry))
        for measure, entries in found.verdicts.items()
        for name, entry in entries.items()
        if entry.status != "not refuted"
    ]


def _rankings(found: AuditComparison) -> Section:
    rows = tuple(
        (
            floors.capital(MEASURES[item.measure]),
            " > ".join(item.names),
            "; ".join(f"{a} and {b}" for a, b in item.not_separated) or None,
        )
        for item in found.rankings
    )
    agreement = tuple(
        (f"{MEASURES[a.measure]} and {MEASURES[b.measure]}", round(tau.value, 3), tau.n)
        for a, b in itertools.combinations(found.rankings, 2)
        if (tau := found.agreement.get(f"{a.measure}, {b.measure}")) is not None
    )
    tables = [Table("The order by each measure", ("by", "from hard to easy", "not separated"), rows)]
    if agreement:
        tables.append(Table("Agreement of the orders", ("orders", "Kendall's τ", "datasets"), agreement))
    left_out = tuple(
        f"{name} is left out of the rankings: "
        + ("its audit has no flow." if bits is None else f"its flow needs {bits:.3g} bits per dimension.")
        for name, bits in found.left_out.items()
    )
    return Section("Which is harder?", tables=tuple(tables), warnings=left_out, key="order")


def _stability(items: Sequence[OrderStability]) -> Section:
    said = tuple(
        f"By the Bayes error of the {item.curve}, the order at temperature 1 ({' > '.join(item.names)}) is the "
        f"same from {item.low:.2g} to {item.high:.2g}."
        for item in items
    )
    return Section("Temperature", said, folded=(*(_curves(item) for item in items), _agreements(items, said)))


_AS_FITTED = ({"x": 1.0, "label": "as fitted"},)


def _curves(item: OrderStability) -> Chart:
    rows = tuple(
        {"series": name, "x": temperature, "y": error}
        for name in item.names
        for temperature, error in zip(item.temperatures, item.errors[name], strict=True)
        if error > SMALLEST_SHOWN
    )
    words = (
        f"Bayes errors of the {item.curve} of {numbers.listed(item.names)}: where lines cross, the order changes."
    )
    options = {
        "x_title": "temperature τ",
        "y_title": "Bayes error",
        "log_x": True,
        "log": True,
        "marks": _AS_FITTED,
    }
    return Chart("lines", f"Bayes error of the {item.curve} against temperature", rows, words, options)


def _agreements(items: Sequence[OrderStability], said: Sequence[str]) -> Chart:
    rows = tuple(
        {"series": item.curve, "x": temperature, "y": tau}
        for item in items
        for temperature, tau in zip(item.temperatures, item.agreement, strict=True)
    )
    options = {
        "x_title": "temperature τ",
        "y_title": "Kendall's τ with the order at temperature 1",
        "log_x": True,
        "percent": False,
        "domain": (-1.05, 1.05),
        "marks": _AS_FITTED,
    }
    return Chart("lines", "Does the order depend on the temperature?", rows, " ".join(said), options)


def _cell(found: AuditComparison, measure: str, name: str) -> str | None:
    item, entry = found.values[measure].get(name), found.verdicts.get(measure, {}).get(name)
    if item is None:
        return None
    doubt = f", {entry.status}" if entry is not None and entry.status != "not refuted" else ""
    return f"{in_words(measure, item)}{doubt}"


def _change(measure: str, item: Estimate | None) -> str | None:
    if item is None:
        return None
    return numbers.signed(item, 1.0, "") if measure in PLAIN else numbers.signed(item)
