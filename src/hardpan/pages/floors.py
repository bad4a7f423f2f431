"""What a floor says and shows: headline, chart and tables."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from hardpan import report
from hardpan.bayes.floors.dataset_floor import Floor
from hardpan.bayes.floors.entries import (
    GUESSING,
    HELD_OUT,
    MAY_HAVE_SEEN,
    NEIGHBOURS,
    NOT_SEEN,
    REPEATS,
    SOFT_LABELS,
    STATED_NOISE,
    VOTES,
    Entry,
)
from hardpan.bayes.floors.inputs import EQUAL, GROUPS
from hardpan.bayes.floors.votes import AnnotatorQuality
from hardpan.pages import formatting
from hardpan.pages.field_views import view
from hardpan.pages.flow_charts import flow_training_chart, flow_unsettled_warning
from hardpan.pages.sections import (
    Aligned,
    Cell,
    Chart,
    Section,
    Table,
    View,
    fields_of,
    table_of,
    table_of_columns,
)
from hardpan.report import Provenance
from hardpan.tables import columns_of, csv_text

ASSUMPTIONS = {
    HELD_OUT: "the test examples are independent draws that no classifier was tuned on",
    NOT_SEEN: "the model was not trained or tuned on the test examples",
    REPEATS: "inputs repeat regardless of their labels",
    VOTES: "labels are drawn as annotators vote",
    SOFT_LABELS: "the soft labels are the posteriors of the labels",
    STATED_NOISE: "labels are flipped at the stated rate, at random given the true class",
    NEIGHBOURS: "a test example and its nearest neighbours have the same posterior",
    "posterior": "the probabilities of {model} are the true posteriors",
    "flow": "{model} is the distribution of the data",
    "calibrated": "the calibration of {model} is exact",  # in files of earlier versions
}
"""What every assumption says, as the end of a sentence that begins with "if"."""

METHOD = (
    "The floor, or Bayes error, is the error of the best possible classifier: E = 1 − ∫ maxₖ πₖ pₖ(x) dx, with πₖ "
    "the proportion of class k and pₖ its density.",
    "Upper end: the smallest one-sided upper limit of a classifier's error (Clopper and Pearson, at level α/M for "
    "M classifiers) on the test examples. Where rows came in groups, the number of independent examples takes the "
    "place of theirs (Korn and Graubard). Where copies of training examples are claimed, or columns number the "
    "rows, it is the larger of the limits with and without them. It holds for classifiers that were not tuned on "
    "the test set.",
    "Lower end: without an assumption about how the posterior varies with x, finitely many labelled examples give "
    "none, unless inputs repeat. It is taken only from repeated inputs with conflicting labels (two labels of one "
    "input differ with probability d: the error there is at least (K−1)/K · (1 − √(1 − K/(K−1) · d))), from votes "
    "or soft labels that the labels follow, or from a noise rate that the user states. Where both ends are given, "
    "each has half of α.",
    "Estimates under an assumption (nearest neighbours, plug-ins, flows) never enter the bracket. "
    "With finitely many training examples the nearest-neighbour error lies above its limit, so its bound may be "
    "too high. "
    "An estimate above the upper end is refuted, the assumption of a model that makes more or fewer errors than it "
    "predicts is rejected, and two entries whose intervals exclude each other are contradicted.",
)
CITATIONS = (
    "Clopper and Pearson, “The use of confidence or fiducial limits illustrated in the case of the binomial”, "
    "1934.",
    "Korn and Graubard, “Confidence intervals for proportions with small expected number of positive counts "
    "estimated from survey data”, 1998.",
    "Cover and Hart, “Nearest neighbor pattern classification”, 1967.",
    "Antos, Devroye and Györfi, “Lower bounds for Bayes error estimation”, 1999.",
    "Guo, Pleiss, Sun and Weinberger, “On calibration of modern neural networks”, 2017.",
    "Ishida, Yamane, Charoenphakdee, Niu and Sugiyama, “Is the performance of my deep network too good to be "
    "true?”, 2023.",
    "Theisen, Wang, Varshney, Xiong and Socher, “Evaluating State-of-the-Art Classification Models Against Bayes "
    "Optimality”, 2021.",
)
VOTE_METHOD = (
    "Majority: the proportions of the votes; an annotator is right where the majority of the others agrees. "
    "Dawid–Skene: each annotator has a confusion matrix, estimated by maximum likelihood with the true classes "
    "unknown. CROWDLAB: a weighted mean of held-out predictions and votes. Each is also fitted without one answer "
    "of every example with three or more; the method that predicts most of these answers gives the consensus. "
    "Confidence is the probability of the consensus label by that method; it is not calibrated.",
    "Dawid and Skene, “Maximum likelihood estimation of observer error-rates using the EM algorithm”, 1979. Goh, "
    "Tkachenko and Mueller, “CROWDLAB”, 2022. Krippendorff, “Computing Krippendorff’s alpha-reliability”, 2011.",
)
MOST_ANNOTATORS, MOST_UNSURE = 20, 20
MOST_CLASSIFIERS = 6  # in the chart; the table has them all
FEW_TEST = 1000  # with fewer test examples a warning says that intervals are wide
UNDER_ASSUMPTION = "Estimates under an assumption (not part of the bracket)"


@view.register
def _(floor: Floor) -> View:
    everything = (*floor.entries, *floor.seen)
    whole, voted = floor_section(floor), consensus_section(floor)
    narrow = [
        _entry_table("Classifiers", "classifier", _table_entries(floor, "classifiers"), "error"),
        _entry_table("Evidence", "evidence", _table_entries(floor, "evidence"), "value", "status"),
        _entry_table(UNDER_ASSUMPTION, "estimate", _table_entries(floor, "assumed"), "value", "status"),
        _entry_table("Not part of the bracket", "classifier", floor.seen, "error", "status"),
    ]
    return View(
        title=f"The floor of {floor.dataset}",
        headline=floor_headline(floor),
        sections=(whole, *voted),
        provenance=Provenance(
            method=METHOD,
            citations=CITATIONS,
            seed=floor.config.seed,
            versions=report.versions_of("numpy", "scipy", "scikit-learn"),
            hashes=floor.hashes,
        ),
        columns={
            **columns_of(everything, "name", "role"),
            **columns_of([entry.estimate for entry in everything], "value", "low", "high"),
            **columns_of(everything, "status"),
            "assumption": [assumption(entry) for entry in everything],
        },
        name=floor.dataset,
        size=f"{floor.n_test:,} test examples, {floor.n_classes:,} classes" if floor.n_test else "",
        terminal=(dataclasses.replace(whole, tables=tuple(table for table in narrow if table.rows)), *voted),
        downloads=consensus_file(floor, "consensus.csv"),
        links={"Consensus labels (CSV)": "consensus.csv"} if consensus_file(floor, "") else {},
    )


def consensus_file(floor: Floor, name: str) -> dict[str, str]:
    """The consensus of annotators' votes as a file of corrections, under this name; empty where there is none."""
    consensus = floor.consensus
    return {} if consensus is None or not consensus.columns else {name: csv_text(consensus.columns)}


def _quality_cell(method: str, annotator: AnnotatorQuality) -> str | None:
    value = getattr(annotator, method)
    return None if value is None else formatting.percent(value)


def consensus_section(floor: Floor) -> list[Section]:
    """What annotators agree on: methods of consensus, annotators, and examples that need another vote."""
    consensus = floor.consensus
    if consensus is None:
        return []
    each = formatting.number(consensus.votes / consensus.examples)
    sentences = [f"{consensus.votes:,} votes on {consensus.examples:,} examples, {each} each."]
    if consensus.alpha is not None and consensus.alpha.value == consensus.alpha.value:
        low, high = formatting.number(consensus.alpha.low), formatting.number(consensus.alpha.high)
        sentences.append(
            f"Agreement: Krippendorff’s α {formatting.number(consensus.alpha.value)} ({low} to {high}; 1 is "
            "perfect)."
        )
    if consensus.differing is not None:
        sentences.append(
            f"Labels of the dataset that differ from the consensus by {consensus.method}: {consensus.differing:,}. "
            "consensus.csv is a file of corrections: DATA@consensus.csv."
        )
    else:
        sentences.append(f"Consensus labels by {consensus.method}, with confidence: consensus.csv.")
    methods = Table(
        "Methods on one answer per example that they did not see",
        ("method", "answers predicted"),
        tuple(
            (name, "no example has three answers" if item is None else formatting.estimate(item))
            for name, item in consensus.methods.items()
        ),
    )
    qualities = {"majority": "majority", "Dawid–Skene": "dawid_skene", "CROWDLAB": "crowdlab"}
    quality: dict[str, Cell | Aligned] = {
        name: functools.partial(_quality_cell, key) for name, key in qualities.items() if name in consensus.methods
    }
    annotators = table_of(
        "Annotators, worst first: how often right, by method",
        consensus.annotators[:MOST_ANNOTATORS],
        {"annotator": "name", "votes": "votes", **quality},
    )
    unsure = {name: values for name, values in consensus.columns.items() if name != "corrected_label"}
    needing = table_of_columns("Examples that need another vote most", unsure, MOST_UNSURE)
    return [
        Section(
            "What do the annotators agree on?",
            tuple(sentences),
            tables=(methods, annotators),
            key="votes",
            short="Votes",
            folded=(needing,) if needing.rows else (),
            methods=VOTE_METHOD,
        )
    ]


def _table_entries(floor: Floor, kind: str) -> list[Entry]:
    """The entries under an assumption ("assumed"), other "evidence", or the "classifiers", lowest error first."""
    if kind == "classifiers":
        return sorted((e for e in floor.entries if e.role == "classifier"), key=lambda e: e.estimate.value)
    return [e for e in floor.entries if e.role != "classifier" and e.under_assumption == (kind == "assumed")]


def floor_headline(floor: Floor) -> str:
    """The bracket, and the best classifier's error."""
    words = bracket_words(floor)
    headline = (
        f"On {floor.dataset}, {words}"
        if floor.n_test or _table_entries(floor, "classifiers")
        else formatting.capital(words)
    )
    if floor.best_error is not None:
        headline += f"; the best classifier here has {formatting.estimate(floor.best_error)} error"
    return headline + "." + refused_words(floor)


def refused_words(floor: Floor) -> str:
    """Sentences, after a space, on a stated noise rate, votes or soft labels that the data or others refute."""
    words = ""
    for entry in _table_entries(floor, "evidence"):
        if entry.status == "refuted" and entry.role != "upper":
            words += f" “{entry.name}” ({formatting.estimate(entry.estimate)}) is refuted by the error of "
            words += f"“{entry.refuted_by[0]}”."
        elif entry.status == "contradicted":
            others = formatting.listed([f"“{name}”" for name in entry.refuted_by])
            words += f" “{entry.name}” ({formatting.estimate(entry.estimate)}) contradicts {others}."
    rejected = [entry for entry in _table_entries(floor, "evidence") if entry.status == "assumption rejected"]
    return words + (f" “{rejected[0].name}” is not used: {_rejected(rejected[0])}." if rejected else "")


def _rejected(entry: Entry) -> str:
    """Why the assumption of an entry is rejected."""
    assert entry.check is not None
    predicted, observed = (
        formatting.exact_percent(entry.check.predicted),
        formatting.exact_percent(entry.check.observed),
    )
    if entry.assumption == VOTES:
        would = f"{predicted} or more of the labels would differ from the majority"
        return f"if they were drawn as annotators vote, {would}; {observed} do"
    if entry.assumption == SOFT_LABELS:
        return f"by them {predicted} of the labels should differ from the likeliest class; {observed} do"
    return f"the model predicts {predicted} errors and makes {observed}"


def bracket_words(floor: Floor) -> str:
    """The bracket as a clause."""
    bracket, level = floor.bracket, f"{100 * floor.bracket.confidence:g} % confidence"
    if bracket.high_from == GUESSING and not bracket.low_from:
        limit = formatting.limit(bracket.high)
        return f"the lowest possible error{_population_words(floor)} is at most {limit}, that of guessing"
    condition = {
        STATED_NOISE: "given the stated noise rate, ",
        VOTES: "if labels are drawn as annotators vote, ",
        SOFT_LABELS: "if the soft labels are right, ",
        REPEATS: f"if {ASSUMPTIONS[REPEATS]}, ",
    }.get(bracket.low_assumption if _has_lower_end(floor) else "", "")
    said = f"the lowest possible error{_population_words(floor)} is"
    if not bracket.n_classifiers or not _has_lower_end(floor):  # of votes alone, both ends rest on the condition
        return f"{condition}{said} {_bracket_range(floor)} ({level})"
    low = formatting.exact_percent(bracket.low)
    return f"{said} at most {formatting.limit(bracket.high)} and, {condition}at least {low} ({level})"


def _population_words(floor: Floor) -> str:
    """The population, where it is not that of the test rows."""
    if floor.unit == GROUPS and not floor.n_known_groups:
        return " for new groups"
    return " for inputs not in train" if floor.unit == EQUAL else ""


def _has_lower_end(floor: Floor) -> bool:
    return bool(floor.bracket.low_from) and floor.bracket.low >= 1e-4 * floor.bracket.high


def _bracket_range(floor: Floor) -> str:
    low, high = floor.bracket.low, floor.bracket.high
    return formatting.percent_range(low, high) if _has_lower_end(floor) else f"at most {formatting.limit(high)}"


def _sources_of_ends(floor: Floor) -> tuple[str, str]:
    bracket = floor.bracket
    upper = f"Upper end: limit of “{bracket.high_from}”."
    if bracket.high_from == GUESSING:
        upper = "Upper end: the error of guessing."
    elif bracket.n_classifiers > 1:
        upper = f"Upper end: limit of “{bracket.high_from}”, corrected for {bracket.n_classifiers} classifiers."
    if not bracket.low_from:
        return upper, "No evidence bounds it from below."
    low, assumption = formatting.exact_percent(bracket.low), ASSUMPTIONS[bracket.low_assumption]
    return upper, f"If {assumption}, it is at least {low} (“{bracket.low_from}”)."


def floor_section(floor: Floor, *, bracket_in_title: bool = False) -> Section:
    """The floor as a section: bracket, chart, evidence, classifiers, estimates under an assumption."""
    sentences = list(_sources_of_ends(floor))
    sentences += population(floor)
    warnings = [may_have_seen_warning([entry.name for entry in floor.seen])] if floor.seen else []
    if 0 < floor.n_test < FEW_TEST:
        warnings.append(f"The test set has only {floor.n_test:,} usable examples, so all intervals are wide.")
    warnings += flow_unsettled_warning(floor.along)
    tested = [*_table_entries(floor, "classifiers"), *floor.seen]
    folded: list[Table | Chart] = [
        _entry_table(f"Classifiers on {floor.n_test:,} test examples", "classifier", tested, "error", "settings"),
        _entry_table(
            UNDER_ASSUMPTION,
            "estimate",
            _table_entries(floor, "assumed"),
            "what it is",
            "value",
            "status",
            "by",
            "holds if",
        ),
    ]
    evidence = _entry_table(
        "Evidence", "evidence", _table_entries(floor, "evidence"), "what it is", "value", "status", "holds if"
    )
    return Section(
        formatting.capital(bracket_words(floor)) if bracket_in_title else "How low can the error go?",
        tuple(sentences),
        charts=(ceilings_chart(floor),),
        tables=(evidence,) if evidence.rows else (),
        warnings=tuple(warnings),
        key="floor",
        short="Lowest error",
        folded=(*(table for table in folded if table.rows), *flow_training_chart(floor.along)),
        methods=METHOD,
    )


def population(floor: Floor) -> list[str]:
    """Which rows all numbers are of, and what was drawn independently."""
    n, groups = f"{floor.n_test:,} test examples", f"{floor.n_groups:,}"
    if not floor.n_test:
        return []
    sentences = []
    if floor.numbering:
        columns = formatting.listed(floor.numbering)
        limit = "is that without" if floor.bracket.apart else "also holds without"
        sentences.append(
            f"The row number follows from {columns}, which may tell new rows nothing: the upper end {limit} "
            f"{'it' if len(floor.numbering) == 1 else 'them'}."
        )
    if floor.unit == EQUAL:
        sentences.append(
            f"No input is in train and in test: errors are for inputs that are not in train. The {n} have "
            f"{groups} different inputs; each row counts, and intervals are by input."
        )
        return sentences
    if floor.unit == GROUPS and floor.n_known_groups:
        sentences.append(
            f"{floor.n_known_groups:,} of {groups} groups of the test set also have training examples, so errors "
            "are not those for new groups; intervals are by group."
        )
    elif floor.unit == GROUPS:
        sentences.append(
            f"No group is in train and in test: errors and intervals are for new groups. The {n} are of {groups}."
        )
    if floor.n_copies:
        equal = "equals" if floor.n_copies == 1 else "equal"
        said = f"All {n} count; {floor.n_copies:,} of them {equal} a training example"
        apart = floor.bracket.apart and not floor.numbering
        said += ", and the upper end is that without these." if apart else "."
        sentences.append(said)
    return sentences


def reason(entry: Entry) -> str:
    """Why an entry has its status, in one sentence."""
    if entry.role == "classifier":
        return "The lowest possible error is at most the upper end of this interval."
    if entry.status == "assumption rejected" and entry.check is not None:
        return f"Assumption rejected: {_rejected(entry)}."
    if entry.status in ("refuted", "contradicted"):
        others = formatting.listed([f"“{name}”" for name in entry.refuted_by])
        return f"{formatting.capital(entry.status)} by {others}."
    return f"Not refuted; holds if {assumption(entry)}."


def assumption(entry: Entry) -> str:
    """What an entry assumes; of one in an earlier report that is no longer computed, the name of the assumption."""
    return ASSUMPTIONS.get(entry.assumption, entry.assumption).format(model=entry.model)


def ceilings_chart(floor: Floor) -> Chart:
    """The errors of the classifiers and the evidence, the bracket shaded: what needs no assumption."""
    rows, described = [], []
    for entry in (
        *_table_entries(floor, "evidence"),
        *_table_entries(floor, "classifiers")[:MOST_CLASSIFIERS],
    ):
        role = "ceiling" if entry.role in ("upper", "classifier") else "floor"
        role = "refuted" if entry.status in ("refuted", "assumption rejected") else role
        rows.append(
            {"name": entry.name, **fields_of(entry.estimate), "role": role, "status": "", "reason": reason(entry)}
        )
        described.append(f"{entry.name} {formatting.percent(entry.estimate.value)}")
    options: dict[str, Any] = {"x_title": "error", "bracket": (floor.bracket.low, floor.bracket.high)}
    if floor.bracket.n_classifiers > 1:
        options["note"] = (
            f"Each interval is of one classifier; the shaded range allows for the choice among "
            f"{floor.bracket.n_classifiers}."
        )
    words = f"{'; '.join(described)}. {formatting.capital(bracket_words(floor))}."
    return Chart(
        "intervals", "Errors of classifiers; shaded: the lowest possible error", tuple(rows), words, options
    )


def _entry_table(title: str, first: str, entries: Sequence[Entry], *columns: str) -> Table:
    """A row per entry: its name, and the columns of that name."""
    roles = {"estimate": "estimate", "lower": "lower bound", "upper": "upper bound", "classifier": "classifier"}
    cells: dict[str, str | Callable[[Entry], Any]] = {
        "what it is": lambda entry: roles[entry.role],
        "value": lambda entry: formatting.estimate(entry.estimate),
        "error": lambda entry: formatting.estimate(entry.estimate),
        "status": "status",
        "by": _refuted_by_cell,
        "holds if": assumption,
        "settings": lambda entry: MAY_HAVE_SEEN if entry.status == MAY_HAVE_SEEN else entry.estimate.method,
    }
    return table_of(title, entries, {first: "name", **{column: cells[column] for column in columns}})


def _refuted_by_cell(entry: Entry) -> str | None:
    """What an entry is refuted by: other entries, or its own errors."""
    if entry.status == "assumption rejected" and entry.check is not None:
        return f"{_rejected(entry)} (p {formatting.p_value(entry.check.p_value)})"
    return ", ".join(entry.refuted_by) or None


def may_have_seen_warning(names: Sequence[str]) -> str:
    """Which models may have seen the test examples, and how to state that they have not.

    Example:
        >>> may_have_seen_warning(["forest"])[:54]
        'forest may have seen the test examples and is not part'
    """
    verb, unseen = ("is", "it was") if len(names) == 1 else ("are", "they were")
    return (
        f"{formatting.listed(list(names))} may have seen the test examples and {verb} not part of the bracket: "
        f"if {unseen} not trained or tuned on them, pass --held-out (in Python held_out=True)."
    )
