"""What a problem says: its title, its advice, and how the first screen shows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from hardpan import formatting
from hardpan.auditing.labels import TELLING
from hardpan.auditing.problems import BenchmarkProblem
from hardpan.pages import floors
from hardpan.report.sections import Chart, ProblemLine, Section

THUMBNAILS = 8  # under a problem on the first screen
_SPLITS = {"test": "the test set", "train": "the training set", "all": "the data"}


# Titles and advice that need no grammar; braces are filled from the problem.
_FIXED_TEXTS = {
    "one-class": (
        "All examples of {where} have one class",
        "Nothing can be learned or measured: check the label column and the split.",
    ),
    "constant-columns": (
        "Constant features: {columns}",
        "They carry no information; check how they were exported.",
    ),
    "leak-feature": (
        "A feature is nearly the label: {columns}",
        "Check whether it is known before the label; if not, drop it.",
    ),
    "permuted-classes": (
        "The class columns of {model} look permuted ({moved} classes)",
        "Another order of its columns fits the labels far better: check the order of the class names.",
    ),
    "fresh": (
        "Not measured: whether the score holds on fresh data",
        "Needs the scores of some models on this test set and on a fresh one: --set testbed=scores.csv.",
    ),
}


def title_and_advice(problem: BenchmarkProblem) -> tuple[str, str]:
    """What a problem is, in one line, and what to do about it."""
    where = _SPLITS[problem.of]
    if problem.kind in _FIXED_TEXTS:
        columns = formatting.listed(first_names(problem.details.get("columns", ())))
        fields = {**problem.details, "where": where, "columns": columns}
        title, advice = (text.format_map(fields) for text in _FIXED_TEXTS[problem.kind])
        return title, advice
    if problem.kind in _PROBLEM_WORDS:
        return _PROBLEM_WORDS[problem.kind](problem, where, problem.noun)
    return floors.capital(str(problem.details.get("message", problem.kind)).rstrip(".")), ""


def _copy_words(problem: BenchmarkProblem, where: str, noun: str) -> tuple[str, str]:
    verb = "is a copy" if _problem_count(problem) == 1 else "are copies"
    return (
        f"{formatting.counted(_problem_count(problem), f'test {noun}')} {verb} of training {noun}s",
        f"{_problem_proportion(problem)} of the test set. Remove them: their score says nothing about new data. "
        "All numbers here leave them out.",
    )


def _near_copy_words(problem: BenchmarkProblem, where: str, noun: str) -> tuple[str, str]:
    details = problem.details
    verb = "is nearly a copy" if _problem_count(problem) == 1 else "are nearly copies"
    turned = f" {details['turned']:,} of them turned or mirrored." if details.get("turned") else ""
    return (
        f"{formatting.counted(_problem_count(problem), f'test {noun}')} {verb} of training {noun}s",
        f"{_problem_proportion(problem)} of {details['searched']:,} searched, closer than chance explains.{turned} "
        "Look at the pairs before removing any.",
    )


def _conflict_words(problem: BenchmarkProblem, where: str, noun: str) -> tuple[str, str]:
    groups, rows = problem.details["groups"], formatting.counted(_problem_count(problem), "row")
    return (
        f"{formatting.counted(groups, 'input')} {'has' if groups == 1 else 'have'} copies with different labels",
        f"{rows}. At least one label of each is wrong or the input is ambiguous.",
    )


def _duplicate_words(problem: BenchmarkProblem, where: str, noun: str) -> tuple[str, str]:
    effect = {
        "test": "Intervals from all test rows are too narrow; those here use each input once",
        "train": "Models give such rows more weight",
    }[problem.of]
    verb = "repeats" if _problem_count(problem) == 1 else "repeat"
    return (
        f"{formatting.counted(_problem_count(problem), 'row')} of {where} {verb} another one",
        f"{_problem_proportion(problem)} of its rows. {effect}.",
    )


def _class_words(problem: BenchmarkProblem, where: str, noun: str) -> tuple[str, str]:
    n, classes = len(problem.details["classes"]), formatting.listed(first_names(problem.details["classes"]))
    words = formatting.counted(n, "class", "classes")
    if problem.of == "all":
        return f"{words} {'has' if n == 1 else 'have'} no example", f"{classes}: remove the names, or add data."
    effect = {
        "train": "Every test example of these classes is an error",
        "test": "Scores say nothing about these classes",
    }[problem.of]
    return f"{words} {'is' if n == 1 else 'are'} missing from {where}", f"{classes}. {effect}."


def _imbalance_words(problem: BenchmarkProblem, where: str, noun: str) -> tuple[str, str]:
    details, small = problem.details, problem.details["classes"]
    more = f" Fewer than 5 test examples: {formatting.listed(first_names(small))}." if small else ""
    always = ""
    if "guessing" in details:
        always = f"Always answering {details['largest']} has {formatting.percent(details['guessing'])} error. "
    return (
        f"The largest class has {formatting.fixed(details['ratio'], 0)} times the examples of the smallest",
        f"{always}Accuracy hides the small classes: report the error per class as well.{more}",
    )


def _small_test_words(problem: BenchmarkProblem, where: str, noun: str) -> tuple[str, str]:
    details = problem.details
    closer = f"Models closer than {formatting.rounded_points(details['smallest'])} cannot be ranked"
    return (
        closer if details["smallest"] < 0.995 else "The test set is too small to rank any two models",
        f"{details['n']:,} test examples, if models err independently; a paired test may separate closer ones. To "
        f"show a difference of a tenth of the error takes about {formatting.round_up(details['needed'])}.",
    )


def _index_words(problem: BenchmarkProblem, where: str, noun: str) -> tuple[str, str]:
    columns = formatting.listed(first_names(problem.details["columns"]))
    if problem.details.get("dropped"):
        return (
            f"The file has a row index that is left out here: {columns}",
            "Drop it from the file: others would train on it.",
        )
    advice = "If so, drop it."
    if problem.details["predicts"]:
        advice = "It predicts the label, so scores do not measure generalisation: drop it."
    return f"A row number or identifier is among the features: {columns}", advice


def _channel_words(problem: BenchmarkProblem, where: str, noun: str) -> tuple[str, str]:
    return "The images are stored with channels first", f"{str(problem.details['message']).rstrip('.')}."


def _problem_count(problem: BenchmarkProblem) -> int:
    return 0 if problem.count is None else round(problem.count.value)


def _problem_proportion(problem: BenchmarkProblem) -> str:
    return "" if problem.proportion is None else formatting.estimate(problem.proportion)


def _label_words(problem: BenchmarkProblem, where: str, noun: str) -> tuple[str, str]:
    assert problem.count is not None
    count = round(problem.count.value)
    if problem.severity == "note":
        return _label_doubts(problem, count, where)
    low, high = int(np.floor(problem.count.low)), int(np.ceil(problem.count.high))
    details = problem.details
    precision, expected, recall = (details.get(name) for name in ("precision", "expected_precision", "recall"))
    advice = (
        f"{formatting.estimate(problem.proportion)} of the labels that were checked. " if problem.proportion else ""
    )
    if precision is not None:
        advice += f"Annotators' votes confirm {formatting.estimate(precision)} of them. "
    elif expected is not None and recall is not None:
        advice += (
            f"At least {formatting.percent(expected.low, 0.05)} of these are wrong "
            f"({formatting.number(100 * expected.confidence, 6)} % "
            f"confidence; estimate {formatting.percent(expected.value, 0.05)}) if every input has one right "
            "class; where classes overlap, fewer. In a test on known labels the models found "
            f"{formatting.estimate(recall)} of those that were flipped. Look before you correct. "
        )
    elif expected is not None:
        advice += (
            f"About {formatting.estimate(expected)} of these are wrong if mistakes are as frequent on "
            "easy examples "
            "as on hard ones: look at the list before correcting. "
        )
    verb = "looks wrong" if count == 1 else "look wrong"
    return f"{formatting.counted(count, 'label')} of {where} {verb} ({low:,}–{high:,})", advice.strip()


def _label_doubts(problem: BenchmarkProblem, count: int, where: str) -> tuple[str, str]:
    """Doubts about labels that the models' own errors may explain."""
    details = problem.details
    false = details.get("expected_false")
    if details["clueless"]:
        title = f"Labels of {where} could not be checked: the models err on"
        return f"{title} {formatting.percent(details['error'], 0.1)}", "Doubts are in problems/labels.csv."
    if not details["comparable"]:
        return (
            f"Labels of {where} could not be checked in this time",
            "The models that were trained again on known labels, to see how often a right label looks wrong, are "
            "too weak to tell. A larger --budget may help; doubts are in problems/labels.csv.",
        )
    title = f"No sign of wrong labels in {where}: models' errors may explain {count:,} doubts"
    if false is None:
        return title, "Random mistakes would show where the models are most sure as well. problems/labels.csv."
    if false < count:
        title = (
            f"{formatting.counted(count, 'label')} of {where} may be wrong, too few to tell from the models' errors"
            if false <= (1 - TELLING) * count
            else f"Labels of {where} could not be judged: models' errors may explain most of {count:,} doubts"
        )
    return title, (
        f"If all labels were right, about {formatting.fixed(false, 0)} would still look wrong: that many did where "
        "models were trained again on known labels. All doubts: problems/labels.csv."
    )


_PROBLEM_WORDS = {
    "test-copies": _copy_words,
    "near-copies": _near_copy_words,
    "conflicting-labels": _conflict_words,
    "duplicates": _duplicate_words,
    "labels": _label_words,
    "missing-classes": _class_words,
    "imbalance": _imbalance_words,
    "small-test": _small_test_words,
    "index-feature": _index_words,
    "channels-first": _channel_words,
}


def first_names(names: Sequence[str], most: int = 6) -> list[str]:
    """The first names, and how many more there are."""
    listed = list(names[:most])
    return [*listed, f"{len(names) - most} more"] if len(names) > most else listed


LINKS = {
    "labels": ("problems/labels.csv", "labels.csv"),
    "test-copies": ("#copies", "see them"),
    "near-copies": ("#copies", "see them"),
    "conflicting-labels": ("#copies", "see them"),
    "duplicates": ("#copies", "see them"),
    "missing-classes": ("#classes", "see them"),
    "imbalance": ("#classes", "see them"),
}
"""Where the examples of a problem are listed, and the words of the link."""


def problem_lines(problems: Sequence[BenchmarkProblem], sections: Sequence[Section]) -> tuple[ProblemLine, ...]:
    """The problems for the first screen and the terminal; their pictures are those of the sections."""
    return tuple(
        ProblemLine(
            item.kind,
            item.severity,
            *title_and_advice(item),
            item.count,
            *LINKS.get(item.kind, ("", "see them")),
            _problem_thumbnails(item, sections),
        )
        for item in problems
    )


def _problem_thumbnails(problem: BenchmarkProblem, sections: Sequence[Section]) -> Chart | None:
    """A few pictures of a problem: the first ones of its gallery."""
    key = {"labels": "labels", "test-copies": "copies", "near-copies": "copies"}.get(problem.kind)
    charts = [
        chart
        for section in sections
        if section.key == key and problem.severity != "note"
        for chart in (*section.charts, *section.folded)
        if isinstance(chart, Chart) and chart.drawing == "gallery"
        if chart.options.get("of") in (None, problem.of)
    ]
    return dataclasses.replace(charts[0], rows=charts[0].rows[:THUMBNAILS]) if charts else None
