"""What a problem says: its title, its advice, and how the first screen shows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from hardpan.auditing.problems import ALPHA, BenchmarkProblem
from hardpan.auditing.unusual import LIMIT
from hardpan.errors import counted
from hardpan.estimates import Estimate
from hardpan.pages import formatting
from hardpan.pages.sections import Chart, ProblemLine, Section

MOST_OPEN = 5  # problems and notes that the first screen shows without a click
MOST_NAMES = 6  # in a title
THUMBNAILS = 8  # under a problem on the first screen
_OF_TEXTS = ("the number of ", "the proportion of ", "the word “")  # how the names of text properties begin
LONGEST_WORDS = 80  # characters of a template in a title
_SPLITS = {
    "test": "the test set",
    "validation": "the validation set",
    "train": "the training set",
    "all": "the data",
}


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
    "channels-first": ("The images are stored with channels first", "{message}."),
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
    message = str(problem.details.get("message", problem.kind)).rstrip(".")
    if "texts" in problem.details:  # of an earlier version
        title, advice = problem.details["texts"]
        return title, advice
    if problem.kind in _FIXED_TEXTS:
        columns = formatting.listed(first_names(problem.details.get("columns", ())))
        fields = {**problem.details, "where": _SPLITS[problem.of], "columns": columns, "message": message}
        title, advice = (text.format_map(fields) for text in _FIXED_TEXTS[problem.kind])
        return title, advice
    if problem.kind in _PROBLEM_WORDS:
        return _PROBLEM_WORDS[problem.kind](problem)
    return formatting.capital(message), ""


def problem_sentences(problem: BenchmarkProblem) -> str:
    """Title and advice as sentences."""
    return "{}. {}".format(*title_and_advice(problem))


def _copy_words(problem: BenchmarkProblem) -> tuple[str, str]:
    count, expected = _problem_count(problem), float(problem.details["expected"])
    equal = "equals" if count == 1 else "equal"
    title = f"{counted(count, f'test {problem.noun}')} {equal} a training {problem.noun}"
    advice = f"{_problem_proportion(problem)} of the test set. "
    usual = f"about {formatting.fixed(expected, 0)}" if expected >= 0.5 else "none"
    advice += f"If test were drawn like train, {usual} would (p {formatting.p_value(problem.details['p_value'])}). "
    advice += _gain_words(problem)
    if problem.severity != "note":
        return title, advice + "So some are copies: their score says nothing about new data. Remove them."
    similarity = problem.details.get("similarity_p_value")
    if similarity is not None and similarity <= ALPHA < problem.details["p_value"]:
        return title, advice + (
            f"Equal rows are divided between train and test more evenly than at random "
            f"(p {formatting.p_value(similarity)}): rows of train were copied, or the split was balanced by input."
        )
    return title, advice + (
        f"{_unclaimed_words(problem)} All stay in the test set. Few copies among many natural repeats cannot be "
        "found."
    )


def _near_copy_words(problem: BenchmarkProblem) -> tuple[str, str]:
    details, count, noun = problem.details, _problem_count(problem), problem.noun
    rows = counted(count, f"test {noun}")
    if "limit" in details:
        title = f"{rows} at most {formatting.number(details['limit'])} from a training {noun}"
        title += f"; typical: {formatting.number(details['typical'])}"
        scaled = "columns scaled to deviation 1"
        if encoder := details.get("encoder"):
            title += f" (vectors of {encoder})"
            scaled = "vectors less their mean on train, scaled to length 1"
        advice = f"{_problem_proportion(problem)} of {details['searched']:,} searched, {scaled}; "
        advice += f"nearest: {formatting.number(details['nearest'])}. "
    else:
        verb = "looks" if count == 1 else "look"
        title = f"{rows} {verb} like an altered training {noun}"
        done = [f"{name}: {n:,}" for name, n in details.get("alterations", {}).items()]
        advice = f"{_problem_proportion(problem)} of {details['searched']:,} searched. "
        advice += f"{formatting.capital(formatting.listed(done))}. " if done else ""
    if details.get("p_value") is None:
        return title, advice + (
            "One subject or source on both sides looks like this, and so do copies: look at the pairs, the nearest "
            "first."
        )
    usual = f"about {formatting.fixed(details['expected'], 0)}" if details["expected"] >= 0.5 else "none"
    advice += f"If test were drawn like train, {usual} would be "
    advice += f"(p {formatting.p_value(details['p_value'])}). "
    advice += _gain_words(problem)
    if problem.severity == "note":
        return title, advice + _unclaimed_words(problem)
    return title, advice + "So some are nearly copies: look at the pairs, the nearest first."


def _unclaimed_words(problem: BenchmarkProblem) -> str:
    """Why copies are a note."""
    if problem.details["p_value"] > ALPHA:
        return "That is no evidence of copies."
    return (
        "A note, since that gain is within the interval of the error, or p too large among all tests of the audit."
    )


def _gain_words(problem: BenchmarkProblem) -> str:
    """What copies do to the score of a model that remembers, and to that of the best model."""
    words, without = "", problem.details.get("without", problem.effect)  # files of earlier versions lack it
    if without is not problem.effect and problem.effect is not None:
        gain = formatting.signed(problem.effect)
        words = f"A model that remembers them and else errs like the best one gains {gain} by them. "
    if without is not None:
        words += f"Without them the error of the best model changes by {formatting.signed(without)}. "
    return words


def _conflict_words(problem: BenchmarkProblem) -> tuple[str, str]:
    details, rows = problem.details, counted(_problem_count(problem), "row")
    groups = details["groups"]
    title = f"{counted(groups, 'input')} {'has' if groups == 1 else 'have'} equal rows with different labels"
    if "most_right" not in details:  # of an earlier version
        return title, f"{rows}."
    least = formatting.percent(details["least_error"])
    return title, (
        f"{rows}: no function of these columns gets more than {formatting.percent(details['most_right'])} of them "
        f"right, nor errs on less than {least} of all rows. Labels may be wrong, the inputs ambiguous, or a column "
        "may be missing. They bound the lowest possible error if whether an input repeats does not depend on its "
        "labels."
    )


def _duplicate_words(problem: BenchmarkProblem) -> tuple[str, str]:
    verb = "repeats" if _problem_count(problem) == 1 else "repeat"
    return (
        f"{counted(_problem_count(problem), 'row')} of {_SPLITS[problem.of]} {verb} another one",
        f"{_problem_proportion(problem)} of its rows. Rows with few possible values repeat naturally; if these "
        "were copied, they count more than once.",
    )


def _class_words(problem: BenchmarkProblem) -> tuple[str, str]:
    n, classes = len(problem.details["classes"]), formatting.listed(first_names(problem.details["classes"]))
    words = counted(n, "class", "classes")
    if problem.of == "all":
        return f"{words} {'has' if n == 1 else 'have'} no example", f"{classes}: remove the names, or add data."
    effect = {
        "train": "Every test example of these classes is an error",
        "test": "Scores say nothing about these classes",
    }[problem.of]
    return f"{words} {'is' if n == 1 else 'are'} missing from {_SPLITS[problem.of]}", f"{classes}. {effect}."


def _imbalance_words(problem: BenchmarkProblem) -> tuple[str, str]:
    details, small = problem.details, problem.details["classes"]
    more = f" Fewer than 5 test examples: {formatting.listed(first_names(small))}." if small else ""
    always = ""
    if "guessing" in details:
        always = f"Always answering {details['largest']} has {formatting.percent(details['guessing'])} error. "
    return (
        f"The largest class has {formatting.fixed(details['ratio'], 0)} times the examples of the smallest",
        f"{always}Accuracy hides the small classes: report the error per class as well.{more}",
    )


def _small_test_words(problem: BenchmarkProblem) -> tuple[str, str]:
    details = problem.details
    if "nested" not in details:  # of an earlier file, whose approximation was wrong both ways
        return f"The test set has {details['n']:,} examples", "Audit again for the differences that they can show."
    small, large = details["nested"], details["independent"]
    title = "No comparison of two models finds a difference"
    if small is not None:
        title = f"One comparison of two models finds differences of {formatting.rounded_points(small)} at best"
    if small is not None and large is not None:
        least = formatting.rounded_points(small).removesuffix(" points")
        title = f"One comparison of two models finds differences of {least} to {formatting.rounded_points(large)}"
    low, high = details["needed"]
    needed = ""
    if low is not None:
        most = f"to {formatting.round_up(high)}" if high is not None else "or many more"
        needed = (
            f" To show a tenth of the error takes about {formatting.round_up(low)} {most} examples, if errors are "
            "independent."
        )
    return (
        title,
        f"{details['n']:,} test examples, McNemar’s exact test at 5 % with 80 % power: the smaller difference if "
        f"the better model’s errors are among those of the other, the larger if errors are independent.{needed}",
    )


def _index_words(problem: BenchmarkProblem) -> tuple[str, str]:
    details = problem.details
    columns = formatting.listed(first_names(details["columns"]))
    if details.get("dropped"):
        return (
            f"The file has a row index that is left out here: {columns or 'the first column, without a name'}",
            "Drop it from the file: others would train on it.",
        )
    order = [f"{name} {word}" for name, word in zip(details["columns"], details["order"], strict=True)]
    errors = [
        f"{name} alone predicts the label with {formatting.percent(error)} error"
        for name, error in zip(details["columns"], details.get("errors", ()), strict=False)
        if error is not None
    ]
    beside = f"; guessing: {formatting.percent(details['guessing'])}" if errors else ""
    return (
        f"Numbers the rows: {columns}",
        f"Differs in every row, and {formatting.listed(first_names(order))} with the row number. "
        + (f"{formatting.listed(errors[:3])}{beside}. " if errors else "")
        + "If it is an index or an id, drop it; if it is a time, name it (--column time=NAME).",
    )


def _leak_words(problem: BenchmarkProblem) -> tuple[str, str]:
    details = problem.details
    first, *rest = details["alone"]
    also = formatting.listed(
        [f"{_column_of_class(item)} ({formatting.percent(item['error'].value)})" for item in rest]
    )
    more = f"{also}{' and ' + counted(details['more'], 'more') if details['more'] else ''}" if rest else ""
    error, subject = first["error"], formatting.capital(_column_of_class(first))
    return (
        f"{subject} with {formatting.percent(error.value, 0.01)} error; the best model: "
        f"{formatting.percent(first['best'], 0.01)}, guessing: {formatting.percent(first['guessing'], 0.01)}",
        f"{formatting.estimate(error)} on {error.n:,} test rows. "
        + (f"Also nearly as good as the best model: {more}. " if more else "")
        + (
            "If new texts lack it, a score on these says little about them; if"
            if str(first["column"]).startswith(_OF_TEXTS)
            else "If it is known only after the outcome, it is a leak: drop it. If"
        )
        + " not, one simple rule is enough here.",
    )


def _column_of_class(item: Mapping[str, Any]) -> str:
    name = str(item["column"])
    subject = f"a block of {name} alone" if name.startswith("pixels in ") else f"column {name} alone"
    if name.startswith(_OF_TEXTS):
        subject = f"{name} alone"
    target = "class {} against the rest".format(item["class"]) if item["class"] else "the label"
    return f"{subject} predicts {target}"


def _shift_words(problem: BenchmarkProblem) -> tuple[str, str]:
    details, kinds = problem.details, problem.details["shown"]
    facts = []
    if "columns" in kinds:
        listed = [_shifted_column_words(item) for item in details["columns"]["columns"][:3]]
        more = len(details["columns"]["columns"]) - len(listed)
        facts.append("; ".join(listed) + (f"; {counted(more, 'more column')}" if more else ""))
    if "labels" in kinds:
        item = details["labels"]
        train, test = (formatting.percent(item[name], 0.01) for name in ("train", "test"))
        facts.append(f"Class {details['class']}: {train} of train, {test} of test")
    if "rows" in kinds:
        area = formatting.fixed(details["rows"]["auc"], 2)
        facts.append(f"A model tells test rows from training rows with an AUC of {area} (0.5: not at all)")
    if "error" in details:
        item = details["error"]
        train, test = (formatting.percent(item[name], 0.01) for name in ("train", "test"))
        facts.append(f"A model fitted on train errs on {train} of unseen training rows and on {test} of test")
    title = "The test rows are not drawn like the training rows"
    if problem.severity == "note":
        title = "Differences between test and training rows"
    elif {*kinds} == {"error"}:
        title += ": what holds in train holds less in test"
    elif "labels" in kinds and {*kinds} <= {"labels", "error"}:
        title += ": classes have other frequencies"
    return title, (
        f"{'. '.join(facts)}.{_problem_units_words(details.get('unit', {}))} The score then mixes what was learned "
        "with the change; it stands for rows like those of test only."
    )


def _problem_units_words(unit: Mapping[str, Any]) -> str:
    """By what units the rows were compared; empty for single rows."""
    names = {"groups": "group", "inputs": "equal rows", "clusters": "cluster of near rows"}
    kind = f"value of {unit['column']}" if unit.get("by") == "values" else names.get(unit.get("by", ""), "")
    if not kind:
        return ""
    sizes = f"{unit['train']:,} in train, {unit['test']:,} in test"
    if unit["by"] == "groups":
        return f" Compared by group ({sizes})."
    together = "Equal rows are" if unit["by"] == "inputs" else f"Rows of one {kind} are"
    if unit["differ"]:
        result = "by these units the splits differ as well"
    elif unit["enough"]:
        result = "by these units the splits differ no more than by chance"
    else:
        result = "so few cannot show that the splits differ by more than chance"
    return f" {together} in one split ({sizes}); {result}."


def _shifted_column_words(item: Mapping[str, Any]) -> str:
    name = str(item["column"])
    words = (
        formatting.capital(name)
        if name.startswith(_OF_TEXTS) or " of the pixels" in name or name.startswith("pixels ")
        else f"Column {name}"
    )
    if "train" in item:
        words += (
            f": median {formatting.number(item['train'], 4)} in train, {formatting.number(item['test'], 4)} in test"
        )
    else:
        words += f": other categories ({formatting.percent(item['difference'], 0.01)} of the rows differ)"
    if item["missing_train"] != item["missing_test"]:
        train, test = (formatting.percent(item[f"missing_{name}"], 0.01) for name in ("train", "test"))
        words += f", missing in {train} and {test}"
    return words


def _group_words(problem: BenchmarkProblem) -> tuple[str, str]:
    details = problem.details
    columns = formatting.listed(first_names(details["columns"]))
    new, random = (formatting.percent(details[name], 0.01) for name in ("new", "random"))
    count = formatting.cell(details["clusters"])
    come, what, named = {
        "values": (
            f"Rows with one value of {columns} have one label",
            f"{count} values that repeat",
            f"--group {details['columns'][0]}" if columns else "",
        ),
        "clusters": (f"Rows come in about {count} clusters", "clusters of near rows", "--group COLUMN"),
        "blocks": (
            "Rows that follow one another are alike",
            f"{count} blocks of rows in the order of the file",
            "--group COLUMN, or by time: --column time=COLUMN",
        ),
    }[details["by"]]
    unit = details["by"]
    return (
        f"{come}: on rows of new {unit} the error is {new}, on a random split {random}",
        f"{formatting.capital(details['model'])} on {details['rows']:,} rows, {what}. If these are persons, places "
        f"or series of which new data will have others, split by them: {named}.",
    )


def _order_words(problem: BenchmarkProblem) -> tuple[str, str]:
    details, kinds = problem.details, problem.details["shown"]
    along = "over time" if details["time"] else "along the file"
    changing = {("labels",): "Labels change", ("error",): "The error rises"}.get(
        kinds, "Labels and the error change"
    )
    facts, title = [], f"{changing} {along}"
    if "error" in kinds:
        early, late = (formatting.percent(details[name], 0.01) for name in ("early", "late"))
        title += f": {early} on unseen early rows, {late} on the latest"
    if "labels" in kinds:
        facts.append(
            f"{formatting.percent(details['equal'], 0.01)} of the rows have the label of the row before them "
            f"({formatting.percent(details['expected'], 0.01)} in a random order)"
        )
    if "error" in kinds:
        facts.append(
            f"A model fitted on the first 80 % of the rows errs on {formatting.percent(details['early'], 0.01)} of "
            f"unseen rows among them and on {formatting.percent(details['late'], 0.01)} of the last 20 %"
        )
    advice = " Rows of another time, source or person look like this."
    if not details["time"]:
        advice += " If the order is that of time, split by time: --column time=COLUMN."
    return title, ". ".join(facts) + "." + advice


def _text_quality_words(problem: BenchmarkProblem) -> tuple[str, str]:
    counts, words = problem.details["counts"], []
    for kind, what in (
        ("empty", "without a word"),
        ("damaged", "with damaged letters, such as \ufffd or Ã©"),
        ("markup", "with HTML, such as <br> or &amp;"),
        ("cut", "of exactly {length} characters, the longest there are"),
    ):
        if kind in counts:
            words.append(f"{counts[kind]:,} {what.format(length=problem.details.get('length', 0))}")
    advice = "Check how they were exported; texts that were cut may lack what their label is about."
    return f"Texts: {formatting.listed(words)}", advice


def _image_quality_words(problem: BenchmarkProblem) -> tuple[str, str]:
    counts = problem.details["counts"]
    words = [f"{n:,} {'nearly of ' if word == 'one colour' else ''}{word}" for word, n in counts.items()]
    advice = "One colour: pixels deviate by at most 1 % of their range. " if "one colour" in counts else ""
    if {*counts} - {"one colour"}:
        advice += f"On a logarithmic scale {_unusual_words(problem)}. "
    return (
        f"Unusual images: {formatting.listed(words)}",
        advice + "Look at them: whether they belong is not tested.",
    )


def _outlier_words(problem: BenchmarkProblem) -> tuple[str, str]:
    count = _problem_count(problem)
    return (
        f"{counted(count, problem.noun)} {'is' if count == 1 else 'are'} far from all others",
        f"Mean distances to the five nearest of {problem.count.n if problem.count else 0:,} different "
        f"{problem.noun}s; on a logarithmic scale {_unusual_words(problem)}. Rare kinds look like this, and errors "
        "of measurement.",
    )


def _unusual_words(problem: BenchmarkProblem) -> str:
    """What makes a value unusual, and how many of a normal distribution would be."""
    expected = formatting.number(problem.details["expected"], 2)
    deviations = f"more than {LIMIT:g} deviations from the median, by the range from the 5 % to the 95 % quantile"
    return f"{deviations} (of as many normal values, {expected} on each side)"


def _label_word_words(problem: BenchmarkProblem) -> tuple[str, str]:
    details = problem.details
    classes = [f"{name} ({formatting.percent(share, 0.01)})" for name, share in details["classes"]]
    return (
        f"{counted(details['count'], 'text')} {'has' if details['count'] == 1 else 'have'} the name of "
        f"{'its' if details['count'] == 1 else 'their'} class in the text",
        f"{_problem_proportion(problem)} of the texts; about {formatting.fixed(details['expected'], 0)} would if "
        f"labels did not depend on the texts. Most often: {formatting.listed(classes)}. If labels were made from "
        "these words, or the words from labels, a model needs to learn nothing else.",
    )


def _template_words(problem: BenchmarkProblem) -> tuple[str, str]:
    details, count = problem.details, _problem_count(problem)
    shares = [f"{formatting.percent(share, 0.01)} of {name}" for name, share in details["classes"].items()]
    verb = {"beginning": "begin", "ending": "end"}[details["place"]]
    words = details["words"] if len(details["words"]) <= LONGEST_WORDS else details["words"][:LONGEST_WORDS] + "…"
    return (
        f"{counted(count, 'text')} {verb} with the same words: “{words}”",
        f"{_problem_proportion(problem)} of the texts; from {' to '.join(reversed(shares))}. A template tells "
        "nothing about new texts without it; where it is more frequent in one class, it predicts the label.",
    )


def _problem_count(problem: BenchmarkProblem) -> int:
    return 0 if problem.count is None else round(problem.count.value)


def _problem_proportion(problem: BenchmarkProblem) -> str:
    return "" if problem.proportion is None else formatting.estimate(problem.proportion)


def _label_words(problem: BenchmarkProblem) -> tuple[str, str]:
    count, details = _problem_count(problem), problem.details
    if details["from"] == "votes":
        return (
            f"Annotators outvote {counted(count, 'label')} of {_SPLITS[problem.of]}",
            f"{_problem_proportion(problem)} of {details['examples']:,} labels with votes: more annotators chose "
            "another class.",
        )
    if details["from"] == "review":
        return review_problem_words(details)
    verb = "differs" if count == 1 else "differ"
    return (
        f"{counted(count, 'label')} of {details['examples']:,} {verb} from what models predict",
        "The models did not see these labels; wrong labels and errors of the models look the same here. Look at "
        "the first ones; hardpan browse DIR --review 200 counts the wrong ones.",
    )


def review_problem_words(details: Mapping[str, Any]) -> tuple[str, str]:
    """What a review says: the number of wrong labels; precision of the list, the corrected error."""
    wrong, precision, error = (details[name] for name in ("wrong", "precision", "test_error"))
    ends = f"{round(wrong.low):,}–{round(wrong.high):,}"
    title = f"About {round(wrong.value):,} of {details['labels']:,} labels are wrong ({ends}), judged by a reviewer"
    if not details["found"]:
        title = (
            f"A review found no wrong label: at most {round(wrong.high):,} of {details['labels']:,} are wrong "
            f"({formatting.number(100 * wrong.confidence, 6)} % confidence)"
        )
    advice = f"{counted(details['judged'], 'label')} drawn at random were judged, {details['found']:,} are wrong. "
    if details["ambiguous"]:
        advice += (
            f"{details['ambiguous']:,} ambiguous or skipped: right in the lower limit, wrong in the upper one. "
        )
    if precision is not None:
        advice += f"Of the labels that differ from the prediction {formatting.estimate(precision)} are wrong. "
    if error is not None and details["stated_error"] is not None:
        advice += (
            f"By the given labels the predictions have {formatting.percent(details['stated_error'], 0.1)} error on "
            f"the test set, by the reviewer's {formatting.estimate(error)}. "
        )
    return title, advice.strip()


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
    "leak-feature": _leak_words,
    "shift": _shift_words,
    "groups": _group_words,
    "order": _order_words,
    "text-quality": _text_quality_words,
    "image-quality": _image_quality_words,
    "outliers": _outlier_words,
    "label-words": _label_word_words,
    "templates": _template_words,
}


def first_names(names: Sequence[str]) -> list[str]:
    """The first names, and how many more there are."""
    listed = list(names[:MOST_NAMES])
    return [*listed, f"{len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else listed


LINKS = {
    "labels": ("problems/labels.csv", "labels.csv"),
    **dict.fromkeys(("test-copies", "near-copies", "conflicting-labels", "duplicates"), ("#copies", "see them")),
    **dict.fromkeys(("missing-classes", "imbalance"), ("#classes", "see them")),
    **dict.fromkeys(("image-quality", "outliers"), ("#unusual", "see them")),
}
"""Where the examples of a problem are listed, and the words of the link."""


def problem_lines(
    problems: Sequence[BenchmarkProblem], sections: Sequence[Section], error: Estimate | None = None
) -> tuple[ProblemLine, ...]:
    """The problems for the first screen and the terminal; their pictures are those of the sections.

    Behind a click are notes that cannot move the score beyond the interval of ``error``, and what comes after the
    first five.
    """
    open_ = [item for item in problems if not item.trifling(error)][:MOST_OPEN]
    return tuple(
        ProblemLine(
            item.kind,
            item.severity,
            *title_and_advice(item),
            item.count,
            *LINKS.get(item.kind, ("", "see them")),
            _problem_thumbnails(item, sections),
            not any(item is other for other in open_),
        )
        for item in problems
    )


def _problem_thumbnails(problem: BenchmarkProblem, sections: Sequence[Section]) -> Chart | None:
    """A few pictures of a problem: the first ones of its gallery."""
    key = {"labels": "labels", "test-copies": "copies", "near-copies": "copies", "image-quality": "unusual"}
    charts = [
        chart
        for section in sections
        if section.key == key.get(problem.kind) and (problem.severity != "note" or section.key == "unusual")
        for chart in (*section.charts, *section.folded)
        if isinstance(chart, Chart) and chart.drawing == "gallery"
        if chart.options.get("of") in (None, problem.of)
    ]
    return dataclasses.replace(charts[0], rows=charts[0].rows[:THUMBNAILS]) if charts else None
