"""What a floor says and shows: headline, sections, chart, tables."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hardpan import files, formatting
from hardpan.bayes.floors.bracketing import Floor
from hardpan.bayes.floors.flow import Difference
from hardpan.bayes.floors.verdict import (
    GUESSING,
    HELD_OUT,
    MAY_HAVE_SEEN,
    NOT_SEEN,
    REPEATS,
    SOFT_LABELS,
    STATED_NOISE,
    VOTES,
    Entry,
)
from hardpan.estimates import Estimate
from hardpan.report.base import View
from hardpan.report.generic import view
from hardpan.report.sections import Chart, Provenance, Section, Table, Tile, fields_of

ASSUMPTIONS = {
    HELD_OUT: "the test examples are independent draws that no classifier was tuned on",
    NOT_SEEN: "the model was not trained or tuned on the test examples",
    REPEATS: "inputs repeat regardless of their labels",
    VOTES: "labels are drawn as annotators vote",
    SOFT_LABELS: "the soft labels are the posteriors of the labels",
    STATED_NOISE: "labels are flipped at the stated rate, at random given the true class",
    "ordered-soft-labels": "the order of the soft labels is right",
    "neighbours": "a test example and its nearest neighbours have the same posterior",
    "tree": "neighbours in the spanning tree have the same posterior",
    "gaussian": "the classes are Gaussian with one covariance",
    "gaussian-as-fitted": "the classes are the Gaussians that were fitted",
    "gaussian-per-class": "each class is the Gaussian that was fitted to it",
    "posterior": "the probabilities of {model} are the true posteriors",
    "calibrated": "{calibration} scaling calibrates the probabilities of {model} exactly",
    "flow": "{model} is the distribution of the data",
}
"""What every assumption says, as the end of a sentence that begins with "if"."""

METHOD = (
    "The floor, or Bayes error, is the error of the best possible classifier: E = 1 − ∫ maxₖ πₖ pₖ(x) dx, with πₖ "
    "the proportion of class k and pₖ its density.",
    "Upper end: the floor is at most the error of any classifier. The smallest one-sided upper limit of a "
    "classifier's error (Clopper and Pearson, at level α/M for M classifiers) on test examples without a copy in "
    "train needs no assumption about the data. It holds for classifiers that were not tuned on the test set.",
    "Lower end: without an assumption about how the posterior varies with x, finitely many labelled examples give "
    "none, unless inputs repeat. It is taken only from repeated inputs with conflicting labels (two labels of one "
    "input differ with probability d: the error there is at least (K−1)/K · (1 − √(1 − K/(K−1) · d))), from votes "
    "or soft labels, or from a noise rate that the user states. Votes are not used where labels differ from the "
    "majority more rarely than labels drawn as votes would, soft labels where labels differ from the likeliest "
    "class more or less often than they state. Where both ends are given, each has half of α.",
    "Estimates under an assumption (nearest neighbours, spanning tree, Gaussian models, plug-ins, flows) are "
    "listed with the assumption, a test of it where there is one, and the value at half of the examples. An "
    "estimate above the upper end is refuted, the assumption of a model that makes more or fewer errors than it "
    "predicts is rejected, and two entries whose intervals exclude each other are marked as contradicted. None "
    "of them enters the bracket.",
)
CITATIONS = (
    "Clopper and Pearson, “The use of confidence or fiducial limits illustrated in the case of the binomial”, "
    "1934.",
    "Cover and Hart, “Nearest neighbor pattern classification”, 1967.",
    "Antos, Devroye and Györfi, “Lower bounds for Bayes error estimation”, 1999.",
    "Sekeh, Oselio and Hero, “Learning to bound the multi-class Bayes error”, 2020.",
    "Kailath, “The divergence and Bhattacharyya distance measures in signal selection”, 1967.",
    "Ledoit and Wolf, “A well-conditioned estimator for large-dimensional covariance matrices”, 2004.",
    "Guo, Pleiss, Sun and Weinberger, “On calibration of modern neural networks”, 2017.",
    "Ishida, Yamane, Charoenphakdee, Niu and Sugiyama, “Is the performance of my deep network too good to be "
    "true?”, 2023.",
    "Ushio, Ishida and Sugiyama, “Practical estimation of the optimal classification error with soft labels and "
    "calibration”, 2025.",
    "Theisen, Wang, Varshney, Xiong and Socher, “Evaluating State-of-the-Art Classification Models Against Bayes "
    "Optimality”, 2021.",
)
MOST_CLASSIFIERS = 6  # in the chart; the table has them all
WIDE = 30  # a logarithmic axis where the numbers span more than this
SHOWN_BELOW = 1e-3  # an estimate that is this much smaller than the upper end becomes an arrow at the edge
FEW_EXAMPLES = 5  # "one in 4 examples" is too coarse: 24 in 100
MOST_SENTENCES = 4
SENTENCES = 3  # of the section that are open; the others are under "How this is computed"
UNDER_ASSUMPTION = "Estimates under an assumption (not part of the bracket)"
_ROLES = {"estimate": "estimate", "lower": "lower bound", "upper": "upper bound", "classifier": "classifier"}


@view.register
def _(floor: Floor) -> View:
    everything = (*floor.entries, *floor.seen)
    return View(
        title=f"The floor of {floor.dataset}",
        headline=headline(floor),
        sections=(section(floor),),
        provenance=Provenance(
            method=METHOD,
            citations=CITATIONS,
            seed=floor.config.seed,
            versions=files.versions_of("numpy", "scipy", "scikit-learn"),
            hashes=floor.hashes,
        ),
        columns={
            **{name: [getattr(entry, name) for entry in everything] for name in ("name", "role")},
            **{name: [getattr(entry.estimate, name) for entry in everything] for name in ("value", "low", "high")},
            "status": [entry.status for entry in everything],
            "assumption": [assumption(entry) for entry in everything],
        },
        name=floor.dataset,
        size=f"{floor.n_test:,} test examples, {floor.n_classes:,} classes" if floor.n_test else "",
        terminal=(dataclasses.replace(section(floor), tables=tuple(_terminal_tables(floor))),),
    )


def _is_evidence(entry: Entry) -> bool:
    return entry.role != "classifier" and not entry.under_assumption


def headline(floor: Floor) -> str:
    """The bracket, and the best classifier's error."""
    # votes without a dataset
    alone = floor.entries and all(entry.trust > 0 and _is_evidence(entry) for entry in floor.entries)
    said = capital(bracket_words(floor)) if alone else f"On {floor.dataset}, {bracket_words(floor)}"
    if floor.best_error is not None:
        said += f"; the best classifier here has {formatting.estimate(floor.best_error)} error"
    return said + "." + refused_words(floor)


def refused_words(floor: Floor) -> str:
    """Sentences, after a space, on a stated noise rate, votes or soft labels that the data or others refute."""
    names = {STATED_NOISE: "stated noise rate", VOTES: "floor from votes", SOFT_LABELS: "floor from soft labels"}
    refused = [
        f"the {names[item.assumption]} ({formatting.estimate(item.estimate)})"
        for item in floor.entries
        if item.assumption in names and item.role in ("lower", "estimate") and item.status == "refuted"
    ]
    said = f" The error of “{floor.bracket.high_from}” refutes {formatting.listed(refused)}." if refused else ""
    for entry in [e for e in floor.entries if _is_evidence(e) and e.status == "assumption rejected"][:1]:
        said += f" The {names[entry.assumption]} is not used: {_rejected(entry)}."
    for low, high in [pair for pair in _pairs(floor) if all(_is_evidence(entry) for entry in pair)][:1]:
        said += f" “{low.name}” (at least {percent(low.estimate.low)}) contradicts “{high.name}” (at most "
        said += f"{percent(high.estimate.high)})."
    return said


def _rejected(entry: Entry) -> str:
    """Why the labels of a dataset do not follow its votes or soft labels."""
    assert entry.check is not None
    predicted, observed = percent(entry.check.predicted), percent(entry.check.observed)
    if entry.assumption == VOTES:
        would = f"{predicted} or more of the labels would differ from the majority"
        return f"if they were drawn as annotators vote, {would}; {observed} do"
    return f"by them {predicted} of the labels should differ from the likeliest class; {observed} do"


def bracket_words(floor: Floor) -> str:
    """The bracket as a clause."""
    bracket, level = floor.bracket, f"{100 * floor.bracket.confidence:g} % confidence"
    if bracket.high_from == GUESSING and not bracket.low_from:
        return f"the lowest possible error is at most {formatting.limit(bracket.high)}, that of guessing"
    high = formatting.limit(bracket.high)
    if not bracket.low_from or bracket.low < 1e-4 * bracket.high:
        return f"the lowest possible error is at most {high} ({level})"
    condition = {
        STATED_NOISE: "given the stated noise rate, ",
        VOTES: "if labels are drawn as annotators vote, ",
        SOFT_LABELS: "if the soft labels are right, ",
    }.get(bracket.low_assumption, "")
    between = formatting.percent_range(bracket.low, bracket.high)
    return f"{condition}the lowest possible error is {between} ({level})"


def bracket_tile(floor: Floor) -> Tile:
    """The bracket, and what its ends rest on."""
    bracket = floor.bracket
    text = f"at most {formatting.limit(bracket.high)}"
    if bracket.low_from and bracket.low >= 1e-4 * bracket.high:
        text = formatting.percent_range(bracket.low, bracket.high)
    return Tile("Lowest possible error", text, " ".join(_sources_of_ends(floor)))


def _sources_of_ends(floor: Floor) -> list[str]:
    bracket = floor.bracket
    upper = f"Upper end: limit of “{bracket.high_from}”."
    if bracket.high_from == GUESSING:
        upper = "Upper end: the error of guessing."
    if not bracket.low_from:
        return [upper, "No evidence bounds it from below."]
    return [upper, f"Lower end: “{bracket.low_from}”, if {ASSUMPTIONS[bracket.low_assumption]}."]


def section(floor: Floor, *, bracket_in_title: bool = False) -> Section:
    """The floor as a section: bracket, chart, estimates under an assumption, classifiers."""
    along = training_chart(floor.along)
    evidence, assumed = [e for e in floor.entries if _is_evidence(e)], _assumed(floor)
    title = capital(bracket_words(floor)) if bracket_in_title else "How low can the error go?"
    said = sentences(floor)[1:]  # the first is the title, or the headline of the page
    settings = _entry_table(
        f"Classifiers on {floor.n_test:,} test examples",
        "classifier",
        [*_classifiers(floor), *floor.seen],
        "error",
        "settings",
    )
    folded: list[Table | Chart] = [settings]
    if assumed:
        names = ("what it is", "value", "status", "by", "assumption", "test of it", "at n/2 → n")
        folded += [_entry_table(UNDER_ASSUMPTION, "estimate", assumed, *names), chart(floor)]
    columns = ("what it is", "value", "status", "holds if")
    return Section(
        title,
        said[:SENTENCES],
        charts=(ceilings(floor),),
        tables=(_entry_table("Evidence", "evidence", evidence, *columns),) if evidence else (),
        warnings=tuple(_warnings(floor)),
        key="floor",
        short="Lowest error",
        folded=(*folded, *([along] if along is not None else [])),
        methods=(*said[SENTENCES:], *METHOD),
    )


def sentences(floor: Floor) -> tuple[str, ...]:
    """What the floor says, in a few sentences."""
    bracket = floor.bracket
    said = [f"{capital(bracket_words(floor))}."]
    if bracket.high_from != GUESSING:
        over = formatting.counted(bracket.n_classifiers, "classifier")
        limit = f"the upper limit of the error of “{bracket.high_from}”, corrected for {over}"
        if not bracket.n_classifiers:
            limit = f"the upper limit of “{bracket.high_from}”"
        said.append(f"The upper end is {limit}: at most {in_examples(bracket.high)}.")
    if bracket.low_from:
        rests = f"The lower end comes from “{bracket.low_from}”"
        said.append(f"{rests}, and holds if {ASSUMPTIONS[bracket.low_assumption]}.")
    elif any(_is_evidence(entry) for entry in floor.entries):
        said.append("What was stated about the labels does not hold here, so no evidence bounds it from below.")
    else:
        said.append("No evidence bounds it from below: no votes, no stated noise rate, no conflicting labels.")
    if floor.n_copies:
        said.append(f"{formatting.counted(floor.n_copies, 'test example')} with a copy in train were left out.")
    assumed = [entry for entry in _assumed(floor) if entry.role != "upper"]
    if assumed:
        said.append(_summary(assumed))
    said += [_contradiction(a, b) for a, b in _pairs(floor)[:MOST_SENTENCES]]
    if len(floor.contradictions) > MOST_SENTENCES:
        said.append(
            f"{len(floor.contradictions) - MOST_SENTENCES} more pairs contradict each other: see the table."
        )
    return (*said, *(difference_words(item) for item in floor.differences))


def _summary(assumed: Sequence[Entry]) -> str:
    counts = {
        status: sum(entry.status == status for entry in assumed)
        for status in ("refuted", "assumption rejected", "contradicted", "not refuted")
    }
    words = {
        "refuted": "refuted by evidence",
        "assumption rejected": "built on an assumption that a test rejects",
        "contradicted": "contradicted by another",
        "not refuted": "not refuted",
    }
    phrases = [f"{count} {words[status]}" for status, count in counts.items() if count]
    total = formatting.counted(len(assumed), "estimate")
    return f"{total} under an assumption: {formatting.listed(phrases)}. They are not part of the bracket."


def _pairs(floor: Floor) -> list[tuple[Entry, Entry]]:
    return [(floor[item.lower], floor[item.upper]) for item in floor.contradictions]


def _contradiction(lower: Entry, upper: Entry) -> str:
    names = f"“{lower.name}” and “{upper.name}” cannot both be true"
    at_least, at_most = percent(lower.estimate.low), percent(upper.estimate.high)
    return f"{names}: at least {at_least} if {assumption(lower)}, at most {at_most} if {assumption(upper)}."


def difference_words(item: Difference) -> str:
    """What a two-sample test says about a model's Bayes error."""
    if item.variation.low <= 0:
        return f"No difference between the data and samples of {item.model} was detected; that is no proof."
    return (
        f"A classifier separates samples of {item.model} from the data (total variation at least "
        f"{100 * item.variation.low:.2g} %), so the flow's Bayes error may differ from the data's by at least "
        f"that much."
    )


def reason(entry: Entry) -> str:
    """Why an entry has its status, in one sentence."""
    if entry.role == "classifier":
        return "The lowest possible error is at most the upper end of this interval."
    others = formatting.listed([f"“{name}”" for name in entry.refuted_by]) if entry.refuted_by else ""
    if entry.status == "refuted":
        return f"Refuted by {others}."
    if entry.status == "assumption rejected" and entry.check is not None:
        if _is_evidence(entry):
            return f"{capital(_rejected(entry))}."
        predicted, observed = percent(entry.check.predicted), percent(entry.check.observed)
        return f"The model predicts {predicted} errors and makes {observed}: its assumption is rejected."
    if entry.status == "contradicted":
        return f"Contradicted by {others}."
    return f"Not refuted; holds if {assumption(entry)}."


def assumption(entry: Entry) -> str:
    """What an entry assumes."""
    return ASSUMPTIONS[entry.assumption].format(model=entry.model, calibration=entry.calibration)


def ceilings(floor: Floor) -> Chart:
    """The errors of the classifiers and the evidence, the bracket shaded: what needs no assumption."""
    evidence = [e for e in floor.entries if _is_evidence(e)]
    title = "Errors of classifiers; shaded: the lowest possible error"
    options: dict[str, Any] = {}
    if floor.bracket.n_classifiers > 1:
        options["note"] = (
            f"Each interval is of one classifier; the shaded range allows for the choice among "
            f"{floor.bracket.n_classifiers}."
        )
    return _interval_chart(floor, title, [*evidence, *_classifiers(floor)[:MOST_CLASSIFIERS]], options)


def chart(floor: Floor) -> Chart:
    """Every number as a dot with its interval on one error axis, the bracket shaded."""
    classifiers = _classifiers(floor)
    best_models = {entry.name for entry in classifiers[:MOST_CLASSIFIERS]}
    listed = [entry for entry in floor.entries if entry.role != "classifier" or entry.name in best_models]
    owners = [e.name for e in classifiers if any(o.model == e.name for o in listed if o is not e)]
    listed = [e for e in listed if e.role == "classifier" or e.model not in owners[2:]]
    smallest = SHOWN_BELOW * floor.bracket.high
    positive = [entry.estimate.value for entry in listed if entry.estimate.value > smallest]
    options = {"log": bool(positive) and max(positive) > WIDE * min(positive), "smallest": smallest}
    title = "Classifiers' errors, and estimates under an assumption"
    return _interval_chart(floor, title, listed, options, with_status=True)


def _interval_chart(
    floor: Floor, title: str, entries: Sequence[Entry], options: Mapping[str, Any], with_status: bool = False
) -> Chart:
    rows = []
    for entry in entries:
        status = "" if entry.role == "classifier" or not with_status else entry.status
        status = "disputed" if status == "contradicted" else status
        role = {"role": _colour(entry), "status": status, "reason": reason(entry)}
        rows.append({"name": entry.name, **fields_of(entry.estimate), **role})
    described = "; ".join(f"{entry.name} {formatting.percent(entry.estimate.value)}" for entry in entries)
    axis = {"x_title": "error", "bracket": (floor.bracket.low, floor.bracket.high)}
    words = f"{described}. {capital(bracket_words(floor))}."
    return Chart("intervals", title, tuple(rows), words, {**axis, **options})


def _colour(entry: Entry) -> str:
    if entry.status in ("refuted", "assumption rejected"):
        return "refuted"
    return "ceiling" if entry.role in ("upper", "classifier") else "floor"


def _classifiers(floor: Floor) -> list[Entry]:
    """The classifiers' errors, lowest first."""
    return sorted((e for e in floor.entries if e.role == "classifier"), key=lambda e: e.estimate.value)


def _assumed(floor: Floor) -> list[Entry]:
    return [entry for entry in floor.entries if entry.under_assumption]


def _entry_table(title: str, first: str, entries: Sequence[Entry], *columns: str) -> Table:
    """A row per entry: its name, and the columns of that name."""
    cells: dict[str, Callable[[Entry], Any]] = {
        "what it is": lambda entry: _ROLES[entry.role],
        "value": lambda entry: formatting.estimate(entry.estimate),
        "error": lambda entry: formatting.estimate(entry.estimate),
        "status": lambda entry: entry.status,
        "by": lambda entry: ", ".join(entry.refuted_by) if entry.status in ("refuted", "contradicted") else None,
        "assumption": assumption,
        "holds if": assumption,
        "settings": lambda entry: MAY_HAVE_SEEN if entry.status == MAY_HAVE_SEEN else entry.estimate.method,
        "test of it": _test_words,
        "at n/2 → n": _moving_words,
    }
    rows = tuple((entry.name, *(cells[column](entry) for column in columns)) for entry in entries)
    return Table(title, (first, *columns), rows)


def _terminal_tables(floor: Floor) -> Iterator[Table]:
    """Every entry with its value and status, as narrow as a terminal."""
    classifiers = [e for e in floor.entries if e.role == "classifier"]
    evidence = [e for e in floor.entries if _is_evidence(e)]
    for title, first, entries, columns in (
        ("Classifiers", "classifier", classifiers, ("error",)),
        ("Evidence", "evidence", evidence, ("value", "status")),
        (UNDER_ASSUMPTION, "estimate", _assumed(floor), ("value", "status")),
        ("Not part of the bracket", "classifier", floor.seen, ("error", "status")),
    ):
        if entries:
            yield _entry_table(title, first, entries, *columns)


def _test_words(entry: Entry) -> str | None:
    if entry.check is None:
        return None
    predicted, observed = percent(entry.check.predicted), percent(entry.check.observed)
    return f"predicts {predicted}, makes {observed}, p {_p(entry.check.p_value)}"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.2g}"


def _moving_words(entry: Entry) -> str | None:
    if entry.moving is None:
        return None
    verdict = "still moving" if entry.moving.moving else "settled"
    return f"{percent(entry.moving.half)} → {percent(entry.moving.full)}, {verdict}"


def _warnings(floor: Floor) -> list[str]:
    said = [f"Not computed: {name} ({reason})." for name, reason in floor.skipped.items()]
    if floor.seen:
        said.append(seen_words([entry.name for entry in floor.seen]))
    if 0 < floor.n_test < 1000:
        said.append(f"The test set has only {floor.n_test:,} usable examples, so all intervals are wide.")
    moving = unsettled_warning(floor.along)
    return [*said, moving] if moving else said


def seen_words(names: Sequence[str]) -> str:
    """Which models may have seen the test examples, and how to state that they have not.

    Example:
        >>> seen_words(["forest"])[:54]
        'forest may have seen the test examples and is not part'
    """
    verb, unseen = ("is", "it was") if len(names) == 1 else ("are", "they were")
    return (
        f"{formatting.listed(list(names))} may have seen the test examples and {verb} not part of the bracket: "
        f"if {unseen} not trained or tuned on them, pass --held-out (in Python held_out=True)."
    )


def training_chart(floors: Sequence[Mapping[str, Any]]) -> Chart | None:
    """A flow's Bayes error and its classifier's error after each epoch of its fit, or None below two epochs.

    Args:
        floors: rows of epoch, bayes_error and, where known, bayes_error_stderr and validation_error.

    Example:
        >>> rows = [{"epoch": n, "bayes_error": e} for n, e in enumerate((0.5, 0.2, 0.12, 0.1), 1)]
        >>> training_chart(rows).description
        'The Bayes error of the flow changed from 50.0 % after epoch 1 to 10.0 % after epoch 4.'
    """
    if len(floors) < 2:
        return None
    series = (("Bayes error of the flow", "bayes_error"), ("error of its classifier", "validation_error"))
    rows = tuple(
        {"series": name, "x": int(row["epoch"]), "y": float(row[key])}
        for name, key in series
        for row in floors
        if row.get(key) is not None
    )
    values = [float(row["bayes_error"]) for row in floors]
    first, last = (f"{_three(row['bayes_error'])} after epoch {row['epoch']}" for row in (floors[0], floors[-1]))
    options = {"x_title": "epoch", "y_title": "error", "log": min(values) > 0 and max(values) > WIDE * min(values)}
    words = f"The Bayes error of the flow changed from {first} to {last}."
    return Chart("lines", "The flow's Bayes error during its training", rows, words, options)


def unsettled_warning(floors: Sequence[Mapping[str, Any]]) -> str:
    """Say whether a flow's Bayes error still moved, by a tenth or more, over the last quarter of the epochs.

    Example:
        >>> unsettled_warning([{"epoch": n, "bayes_error": e} for n, e in enumerate((0.5, 0.2, 0.1, 0.099), 1)])
        ''
        >>> unsettled_warning([{"epoch": n, "bayes_error": e} for n, e in enumerate((0.5, 0.2, 0.12, 0.1), 1)])[:60]
        "The flow's Bayes error was still changing when its training "
    """
    if len(floors) < 4:
        return ""
    earlier, last = floors[round(0.75 * len(floors)) - 1], floors[-1]
    values = [float(row["bayes_error"]) for row in (earlier, last)]
    noise = 3 * float(last.get("bayes_error_stderr") or 0.0)
    if abs(values[1] - values[0]) <= max(0.1 * max(values), noise):
        return ""
    return (
        "The flow's Bayes error was still changing when its training ended: "
        f"{_three(values[0])} after epoch {earlier['epoch']} and {_three(values[1])} after epoch {last['epoch']}. "
        "Such a number depends on the length of training as well."
    )


def _three(value: float) -> str:
    return formatting.percent(value, value / 30)


def value_words(item: Estimate) -> str:
    """The value of an estimate without its interval, with the digits that the interval supports."""
    return formatting.percent(item.value, (item.high - item.low) / 2)


def percent(value: float) -> str:
    """A proportion in percent with three digits, or as a power of ten below 0.001 %.

    Example:
        >>> percent(0.0246), percent(0.0), percent(3e-27)
        ('2.46 %', '0 %', '3.00 × 10⁻²⁷')
    """
    return f"{100 * value:.3g} %" if value == 0 or value >= 1e-5 else formatting.percent(value)


def in_examples(proportion: float) -> str:
    """A proportion in whole examples, rounded up.

    Example:
        >>> in_examples(0.0271), in_examples(0.432)
        ('one in 36 examples', '44 in 100 examples')
    """
    whole = math.floor(1 / max(proportion, 1e-12))
    return (
        f"one in {whole:,} examples" if whole >= FEW_EXAMPLES else f"{math.ceil(100 * proportion)} in 100 examples"
    )


def capital(text: str) -> str:
    """A clause as the beginning of a sentence."""
    return text[0].upper() + text[1:]


def lower_case(text: str) -> str:
    """A sentence's first letter in lower case, unless the first word is a name or an abbreviation."""
    word = text.partition(" ")[0]
    return text if len(word) > 1 and word[1:] != word[1:].lower() else text[0].lower() + text[1:]
