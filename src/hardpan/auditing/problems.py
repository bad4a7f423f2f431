"""Problems of a benchmark: copies, conflicting and suspicious labels, classes, size, features, predictions.

Every detector is a function from :class:`Evidence` to problems; add a line to ``DETECTORS`` to add one. What a
problem says to people is written in :mod:`hardpan.pages.auditing`.
"""

from __future__ import annotations

import dataclasses
import html
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from hardpan import stats, tables
from hardpan.auditing.columns import column_facts
from hardpan.auditing.evidence import EveryRow, Evidence
from hardpan.auditing.groups import group_facts
from hardpan.auditing.labels import outvoted_labels
from hardpan.auditing.near_copies import find_near_copies
from hardpan.auditing.shift import order_shift_facts, shift_facts
from hardpan.auditing.unusual import unusual_facts
from hardpan.bayes.floors.error_estimates import Labels
from hardpan.estimates import Estimate

ALPHA = 0.02  # probability that any tested claim of an audit is false, where all are
MOST_ROWS = 200  # rows that a problem lists; the files beside the report have all of them
BROKEN_COPIES = 0.5  # of the test set
IMBALANCE = 30.0  # examples of the largest class per example of the smallest
FEW_PER_CLASS = 5
BROKEN_CLASSES = 0.05  # of the test set, examples of classes that train lacks
MANY_LABELS = 0.05  # wrong ones that make the problem a severe one
LARGE_ENOUGH = 0.005  # a test set that shows smaller differences of independent models is not called small
TRIFLES = (
    "small-test",
    "fresh",
    "constant-columns",
    "channels-first",
    "data",
    "duplicates",
    "outliers",
    "image-quality",
)
"""Kinds whose notes say nothing about the error of a model on this test set."""

KINDS = (
    "one-class",
    "test-copies",
    "index-feature",
    "permuted-classes",
    "leak-feature",
    "labels",
    "conflicting-labels",
    "near-copies",
    "missing-classes",
    "shift",
    "groups",
    "order",
    "duplicates",
    "small-test",
    "imbalance",
    "label-words",
    "templates",
    "text-quality",
    "image-quality",
    "outliers",
    "constant-columns",
    "channels-first",
    "data",
    "fresh",
)
"""Kinds of problems, the gravest first among those of one severity."""
SEVERITIES = ("high", "medium", "low", "note")


@dataclass(frozen=True, eq=True)
class BenchmarkProblem(Mapping[str, Any]):
    """One problem of a benchmark; also a mapping of its fields, as report.json has it.

    Attributes:
        kind: one of :data:`KINDS`.
        severity: "high", "medium" or "low" for a claim that something is wrong; "note" for a fact, a request to
            look, or something that was not measured.
        count: how many examples are affected, with an interval, where it can be counted.
        proportion: the same as a proportion of ``of``.
        of: the split that was searched: "test", "train" or "all".
        rows: row numbers of some of them in the dataset, worst first.
        ids: their ids.
        breaks: whether scores on this benchmark mean nothing until it is fixed.
        details: further numbers by name.
        noun: what an example is called: "image" or "example".
        p_value: of the test that makes the fact a claim; None where there is no test.
        effect: by how much, as a fraction, the error of the best model can change when the problem is repaired;
            positive where the reported error is too low; of copies, what a model gains that remembers them. None
            where it is not known.
    """

    kind: str
    severity: str
    count: Estimate | None = None
    proportion: Estimate | None = None
    of: str = "test"
    rows: tuple[int, ...] = ()
    ids: tuple[str, ...] = ()
    breaks: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)
    noun: str = "example"
    p_value: float | None = None
    effect: Estimate | None = None

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> BenchmarkProblem:
        """The problem from its mapping in report.json, whose lists become tuples again.

        Files of earlier versions have title and advice; they stay, because their details have other names.
        """

        def tuples(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {key: tuples(item) for key, item in value.items()}
            return tuple(map(tuples, value)) if isinstance(value, (list, tuple)) else value

        texts = {"texts": (item["title"], item["advice"])} if "title" in item else {}
        fields = {name: tuples(item[name]) for name in item if name in cls.__dataclass_fields__}
        return cls(**fields | {"details": fields.get("details", {}) | texts})

    @property
    def reach(self) -> float:
        """By how much, as a fraction, the error of the best model can change at most when this is repaired.

        The size of the effect where it is known; of equal rows with different labels, the errors that they force;
        of a column that is as good as the best model, from that error to guessing; of a rule that changes, the
        difference; of labels and of rows of test, their proportion; else NaN.
        """
        if self.effect is not None:
            return abs(self.effect.value)
        if self.kind == "leak-feature" and self.details.get("alone"):
            return float(max(item["guessing"] - item["best"] for item in self.details["alone"]))
        if self.kind == "shift" and "error" in self.details:
            return abs(float(self.details["error"]["test"] - self.details["error"]["train"]))
        if self.kind == "order" and "error" in self.details.get("shown", ()):
            return float(self.details["late"] - self.details["early"])
        if self.kind == "conflicting-labels" and "least_error" in self.details:
            return float(self.details["least_error"])
        if self.kind == "labels" and self.count is not None and self.details.get("examples"):
            return self.count.value / float(self.details["examples"])
        if self.proportion is not None and self.of == "test":
            return self.proportion.value
        return float("nan")

    def trifling(self, error: Estimate | None) -> bool:
        """Whether this is a note that cannot move the score beyond the interval of ``error``, or is not about it.

        Example:
            >>> pair = BenchmarkProblem("conflicting-labels", "note", details={"least_error": 1 / 32_561})
            >>> pair.trifling(Estimate(0.13, 0.004, 0.122, 0.138))
            True
        """
        if self.breaks or self.severity != "note" or self.kind == "labels":
            return False
        small = error is not None and self.reach <= max(error.high - error.value, error.value - error.low)
        return small or self.kind in TRIFLES

    @property
    def title(self) -> str:
        """One line for people."""
        return self._title_and_advice()[0]

    @property
    def advice(self) -> str:
        """What to do about it."""
        return self._title_and_advice()[1]

    def _title_and_advice(self) -> tuple[str, str]:
        words = importlib.import_module("hardpan.pages.auditing.problems")  # when it is first read
        return cast(tuple[str, str], words.title_and_advice(self))

    def __getitem__(self, name: str) -> Any:
        if name not in self.__dataclass_fields__:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dataclass_fields__)

    def __len__(self) -> int:
        return len(self.__dataclass_fields__)

    __hash__ = None  # type: ignore[assignment]


class ProblemList(tuple[BenchmarkProblem, ...]):
    """The problems of an audit; a notebook shows them as a table."""

    __slots__ = ()

    def to_frame(self, kind: str | None = None) -> Any:
        """One row per problem: kind, severity, title, count with its interval, reach, advice, rows.

        Args:
            kind: "pandas", "polars" or "pyarrow"; by default the first of these that is installed.
        """
        counts = [item.count for item in self]
        columns = {
            "kind": [item.kind for item in self],
            "severity": [item.severity for item in self],
            "title": [item.title for item in self],
            **{
                name: [None if count is None else getattr(count, end) for count in counts]
                for name, end in (("count", "value"), ("count_low", "low"), ("count_high", "high"))
            },
            "reach": [None if np.isnan(item.reach) else item.reach for item in self],
            "advice": [item.advice for item in self],
            "rows": [list(item.rows) for item in self],
        }
        return tables.to_frame(columns, kind)

    def _repr_html_(self) -> str:
        names = ("kind", "severity", "title", "advice")
        head = "".join(f"<th>{name}</th>" for name in names)
        body = "".join(
            f"<tr>{''.join(f'<td>{html.escape(str(getattr(item, name)))}</td>' for name in names)}</tr>"
            for item in self
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def find_problems(
    evidence: Evidence, error: Estimate | None, *, only_quick: bool = False
) -> list[BenchmarkProblem]:
    """All problems, the most severe first.

    Args:
        evidence: after all training, or what there is before.
        error: of the best model, where there is one.
        only_quick: leave out what takes seconds and was not searched before.
    """
    if not only_quick:
        search_shifts(evidence)
    detectors = [detect for detect in DETECTORS if not (only_quick and detect is _fact_problems)]
    problems = [item for detect in detectors for item in detect(evidence)] + list(evidence.shifts or ())
    problems += _small_test_problems(evidence, error)
    noun = evidence.dataset.noun
    return settle_claims([dataclasses.replace(item, noun=noun) for item in problems], error)


def search_shifts(evidence: Evidence) -> None:
    """Search what takes seconds and needs no model of the audit, if it was not searched before."""
    if evidence.shifts is None:
        evidence.shifts = tuple(_shift_problems(evidence))


def searched_kinds(evidence: Evidence) -> tuple[str, ...]:
    """Kinds of problems that were searched for with these data so far."""
    if evidence.inputs is None:
        return ("one-class",)
    official = evidence.dataset.split is not None
    grouped = official or {"group", "time"} & set(evidence.dataset.metadata)
    searched = evidence.shifts is not None
    tests = {
        "test-copies": official and bool(len(evidence.split.test)),
        "near-copies": evidence.nearest is not None or evidence.altered is not None,
        "leak-feature": evidence.best_answers() is not None,
        "shift": official and searched,
        "groups": not grouped and bool(len(evidence.inputs.test)) and searched,
        "order": searched,
        "labels": evidence.issues is not None,
    }
    return tuple(kind for kind, done in tests.items() if done and kind not in evidence.dropped)


def settle_claims(problems: Sequence[BenchmarkProblem], error: Estimate | None) -> list[BenchmarkProblem]:
    """Demote claims without sufficient evidence to notes, and order all problems.

    Holm's procedure at :data:`ALPHA` runs over all p-values of an audit, so that the probability of a false claim
    among the tested ones is at most that. A problem whose hypothesis is not rejected becomes a note; so does a
    tested one whose effect leaves the error of the best model within its interval. Problems without a p-value keep
    their severity.

    Args:
        problems: of one audit.
        error: of the best model, where there is one.

    Returns:
        Problems that break the benchmark first, then claims, then notes, trifles last; each by how far they can
        move the score.

    Source: Holm (1979), A simple sequentially rejective multiple test procedure.

    Example:
        >>> tested = [BenchmarkProblem("test-copies", "high", p_value=p) for p in (0.015, 0.001)]
        >>> [item.severity for item in settle_claims(tested, None)]
        ['high', 'high']
        >>> [(item.severity, item.p_value) for item in settle_claims([*tested, *tested], None)]
        [('high', 0.001), ('high', 0.001), ('note', 0.015), ('note', 0.015)]
    """
    adjusted = iter(stats.holm([item.p_value for item in problems if item.p_value is not None]))
    settled = []
    for item in problems:
        claimed = item.p_value is None or next(adjusted) <= ALPHA
        if claimed and item.p_value is not None and item.effect is not None and error is not None:
            claimed = not error.low <= error.value + item.effect.value <= error.high
            claimed &= item.effect.value > 0 or item.kind not in (
                "test-copies",
                "near-copies",
            )  # nobody gains by them
        settled.append(item if claimed else dataclasses.replace(item, severity="note", breaks=False))
    return sorted(
        settled,
        key=lambda item: (
            not item.breaks,
            SEVERITIES.index(item.severity),
            item.trifling(error),
            -np.nan_to_num(item.reach),
            KINDS.index(item.kind),
        ),
    )


def _counted_problem(
    evidence: Evidence,
    kind: str,
    rows: Labels,
    searched: int,
    severities: tuple[str, float, str],
    *,
    found: int | None = None,
    **fields: Any,
) -> BenchmarkProblem:
    """A problem of these rows among ``searched``; ``severities``: above a proportion, that proportion, below it.

    ``found``: how many rows have it, where ``rows`` are those that are in a sample.
    """
    found = len(rows) if found is None else found
    item = stats.share(found, searched, evidence.config.confidence)
    above, limit, below = severities
    count = Estimate(
        float(found),
        item.stderr * searched,
        item.low * searched,
        item.high * searched,
        item.confidence,
        item.method,
        searched,
    )
    some = rows[:MOST_ROWS]
    return BenchmarkProblem(
        kind,
        above if item.value > limit else below,
        count=count,
        proportion=item,
        rows=tuple(int(row) for row in some),
        ids=tuple(str(name) for name in evidence.dataset.ids[some]),
        **fields,
    )


def _one_class_problems(evidence: Evidence) -> Iterator[BenchmarkProblem]:
    if len(np.unique(evidence.labels)) < 2:
        yield BenchmarkProblem("one-class", "high", of="all", breaks=True)
    elif len(np.unique(evidence.labels[evidence.split.train])) < 2:
        yield BenchmarkProblem("one-class", "high", of="train", breaks=True)


def _copy_problems(evidence: Evidence) -> Iterator[BenchmarkProblem]:
    """Test rows that equal a training row: a claim where more do than rows held back from train.

    A more even division of equal rows than at random is stated as a fact: copies look so, and balanced designs.
    """
    every, inputs, test = evidence.every, evidence.inputs, evidence.copy_test
    if every is None or inputs is None or test is None:
        return
    n, found = len(every.parts["test"]), len(every.copied)
    problem = _counted_problem(evidence, "test-copies", inputs.copied, n, ("high", 0.0, "high"), found=found)
    natural = test.expected / n
    copied = (found / n - natural) / max(1 - natural, 1 / n)
    sampled = every if evidence.dataset.all_rows is not None else None
    gain, without = _effects_of_copies(evidence, inputs.copied, sampled)
    yield dataclasses.replace(
        problem,
        breaks=copied >= BROKEN_COPIES,
        p_value=test.p_value,
        effect=gain,
        details={
            "expected": test.expected,
            "p_value": test.p_value,
            "similarity_p_value": test.similarity,
            "without": without,
        },
    )


def _repeat_problems(evidence: Evidence) -> Iterator[BenchmarkProblem]:
    """Equal rows with different labels, and rows that repeat another one of their split: facts."""
    every, severities = evidence.every, ("note", 0.0, "note")
    if every is None or evidence.inputs is None:
        return

    def problem(kind: str, rows: Labels, searched: int, **fields: Any) -> BenchmarkProblem:
        shown = every.in_dataset(rows)
        return _counted_problem(evidence, kind, shown, searched, severities, found=len(rows), **fields)

    for part, members in every.searched.items():
        again = every.equal.repeats(members)
        if len(again):
            yield problem("duplicates", again, len(members), of=part)
    group, labels, n = every.equal.group, every.labels, len(every.labels)
    repeated = np.flatnonzero(every.equal.sizes[group] > 1)
    pairs, count = np.unique(group[repeated] * (labels.max() + 1) + labels[repeated], return_counts=True)
    of_pair = pairs // (labels.max() + 1)
    groups, first, labels_of = np.unique(of_pair, return_index=True, return_counts=True)
    conflicting = labels_of > 1
    if conflicting.any():
        right = int(np.maximum.reduceat(count, first)[conflicting].sum())
        rows = repeated[np.isin(group[repeated], groups[conflicting])]
        rows = rows[np.argsort(group[rows], kind="stable")]
        details = {
            "groups": int(conflicting.sum()),
            "most_right": right / len(rows),
            "least_error": (len(rows) - right) / n,
        }
        yield problem("conflicting-labels", rows, n, of="all", details=details)


def _near_copy_problems(evidence: Evidence) -> Iterator[BenchmarkProblem]:
    """Test rows near a training row: a claim where an official test set has more than one drawn like train."""
    if evidence.inputs is None:
        return
    for rows, p_value, details in find_near_copies(evidence):
        severity = "note" if p_value is None else "medium"
        tested: dict[str, Any] = {}
        if p_value is not None:
            gain, details["without"] = _effects_of_copies(evidence, rows)
            tested = {"p_value": p_value, "effect": gain}
        if len(rows):
            severities, searched = (severity, 0.0, severity), details["searched"]
            yield _counted_problem(evidence, "near-copies", rows, searched, severities, details=details, **tested)


def _effects_of_copies(
    evidence: Evidence, rows: Labels, every: EveryRow | None = None
) -> tuple[Estimate | None, Estimate | None]:
    """What a model gains that remembers these test rows, and what the best model gained; None where not known.

    s(e − c), with s the proportion of ``rows`` and e the best model's error on the others. The first is of a model
    that errs like the best one there and answers ``rows`` by the nearest training row: c is how often that row has
    another label. In the second c is the best model's error on ``rows``: so much its error rises without them. With
    ``every``, s and c of the first are those of all test rows that equal a training row.
    """
    best, inputs, nearest, labels = evidence.best_answers(), evidence.inputs, evidence.nearest, evidence.labels
    if best is None or inputs is None or nearest is None:
        return None, None
    inside = np.isin(inputs.test, rows)
    if (every is None and not inside.any()) or inside.all():
        return None, None
    answers = labels.copy()
    for found in (nearest, nearest if evidence.altered is None else evidence.altered.found):
        paired = np.isfinite(found.distances[:, 0])
        answers[found.rows[paired]] = labels[found.training[paired, 0]]
    errors, share = best != labels[inputs.test], float(inside.mean())
    remembered, of_all = (answers != labels)[inputs.test[inside]], share
    if every is not None:
        known = np.empty(len(every.equal.sizes), dtype=np.int64)
        known[every.equal.group[every.training]] = every.labels[every.training]
        remembered = known[every.equal.group[every.copied]] != every.labels[every.copied]
        of_all = len(remembered) / len(every.parts["test"])

    def effect(wrong: Any, s: float, method: str) -> Estimate | None:
        if not len(wrong):
            return None
        spread = s * float(np.hypot(*(part.std() / np.sqrt(len(part)) for part in (wrong, errors[~inside]))))
        gain = s * float(errors[~inside].mean() - wrong.mean())
        return stats.normal(gain, spread, len(inside), evidence.config.confidence, method=method)

    return (
        effect(remembered, of_all, "gain of a model that remembers these rows"),
        effect(errors[inside], share, "error without these rows"),
    )


def _label_problems(evidence: Evidence) -> Iterator[BenchmarkProblem]:
    """Labels that annotators outvoted; what a review says; else labels that differ from predictions, as a note."""
    voted, outvoted = outvoted_labels(evidence)
    if len(outvoted):
        of = "test" if np.isin(voted, evidence.split.test).all() else "all"
        details: dict[str, Any] = {"from": "votes", "examples": len(voted)}
        severities = ("high", MANY_LABELS, "medium")
        yield _counted_problem(evidence, "labels", outvoted, len(voted), severities, of=of, details=details)
    issues, reviewed = evidence.issues, evidence.label_count
    some = () if issues is None else issues.row[:MOST_ROWS]
    listed: dict[str, Any] = {
        "of": "all",
        "rows": tuple(int(row) for row in some),
        "ids": tuple(str(name) for name in evidence.dataset.ids[list(some)]),
    }
    if reviewed is not None:
        severity = "high" if reviewed.wrong.low > MANY_LABELS * reviewed.labels else "medium"
        details = {
            "from": "review",
            **{item.name: getattr(reviewed, item.name) for item in dataclasses.fields(reviewed)},
        }
        severity = severity if reviewed.found else "note"
        effect = None
        if (error := reviewed.test_error) is not None and (stated := reviewed.stated_error) is not None:
            shifted = (error.value - stated, error.stderr, error.low - stated, error.high - stated)
            effect = Estimate(*shifted, error.confidence, error.method, error.n)
        yield BenchmarkProblem("labels", severity, count=reviewed.wrong, details=details, effect=effect, **listed)
    elif issues is not None and len(issues):
        count = Estimate(float(len(issues)), 0.0, len(issues), len(issues), method="counted", n=issues.examples)
        details = {"from": "predictions", "examples": issues.examples}
        yield BenchmarkProblem("labels", "note", count=count, details=details, **listed)


def _class_problems(evidence: Evidence) -> Iterator[BenchmarkProblem]:
    k, names = evidence.dataset.n_classes, evidence.dataset.class_names
    every = evidence if evidence.every is None else evidence.every
    labels, parts = every.labels, every.parts
    counts = {split: np.bincount(labels[rows], minlength=k) for split, rows in parts.items()}
    total = np.bincount(labels, minlength=k)
    for split, severity in (("train", "high"), ("test", "medium")):
        missing = np.flatnonzero((counts[split] == 0) & (total > 0))
        if len(missing) and len(parts[split]):
            absent = tuple(names[c] for c in missing)
            unknown = counts["test"][missing].sum() / len(parts["test"]) if split == "train" else 0.0
            made_here = evidence.dataset.split is None
            severity, breaks = "note" if made_here else severity, bool(unknown >= BROKEN_CLASSES) and not made_here
            yield BenchmarkProblem(
                "missing-classes", severity, of=split, breaks=breaks, details={"classes": absent}
            )
    unused = np.flatnonzero(total == 0)
    if len(unused):
        yield BenchmarkProblem(
            "missing-classes", "low", of="all", details={"classes": tuple(names[c] for c in unused)}
        )
    used = total[total > 0]
    ratio = float(used.max() / used.min())
    if len(used) > 1 and ratio > IMBALANCE:
        few = tuple(names[c] for c in np.flatnonzero((total > 0) & (counts["test"] < FEW_PER_CLASS)))
        severity = "medium" if few else "low"
        largest = int(total.argmax())
        details = {"ratio": ratio, "classes": few, "largest": names[largest]}
        if len(parts["test"]):
            details["guessing"] = float((labels[parts["test"]] != largest).mean())
        yield BenchmarkProblem("imbalance", severity, of="all", details=details)


def _small_test_problems(evidence: Evidence, error: Estimate | None) -> Iterator[BenchmarkProblem]:
    """What one planned comparison with the best model can show: exact power of McNemar's test (5 %, power 80 %).

    The two ends are errors of which the better model's are among the other's (nested), and independent errors. How
    many examples show a tenth of the error depends on the error, which is known to its interval only.
    """
    n = len(evidence.split.test) if evidence.inputs is None else len(evidence.inputs.test)
    if not n or error is None or not error.value > 0:
        return
    rate = error.value
    independent = stats.smallest_difference(lambda x: 2 * rate * (1 - rate) + x * (1 - 2 * rate), n)
    if independent < LARGE_ENOUGH:
        return
    nested = stats.smallest_difference(0.0, n)
    details = {
        "independent": independent if independent <= 1 - rate else None,
        "nested": None if np.isnan(nested) else nested,
        "n": n,
        "error": rate,
        "needed": tuple(
            stats.mcnemar_sample_size(0.1 * e, 2 * e * (1 - e) - 0.1 * e * (1 - 2 * e)) if 0 < e < 1 else None
            for e in (error.high, error.low)
        ),
    }
    yield BenchmarkProblem("small-test", "note", details=details)


def _problems_of_columns(evidence: Evidence) -> Iterator[BenchmarkProblem]:
    """What the reader of the data noticed, and what single columns say."""
    for item in evidence.dataset.warnings:
        details: dict[str, Any] = {"columns": item.columns, "message": item.message}
        if item.code == "sampled":
            continue  # a note of the audit says so
        if item.code == "constant":
            yield BenchmarkProblem("constant-columns", "low", of="all", details=details)
        elif item.code == "channels_first":
            yield BenchmarkProblem("channels-first", "low", of="all", details=details)
        elif item.code == "index_column":
            yield BenchmarkProblem("index-feature", "note", of="all", details=details | {"dropped": True})
        elif item.code != "identifier":
            yield BenchmarkProblem("data", "note", of="all", details=details | {"code": item.code})
    for kind, facts in column_facts(evidence):
        yield BenchmarkProblem(kind, "note", of="all" if kind == "index-feature" else "test", details=facts)


def _shift_problems(evidence: Evidence) -> Iterator[BenchmarkProblem]:
    if evidence.dataset.split is not None and not evidence.is_late("shift"):
        for severity, p_value, change, details in shift_facts(evidence):
            yield BenchmarkProblem("shift", severity, p_value=p_value, effect=change, details=details)
    for effect, details in group_facts(evidence):
        yield BenchmarkProblem("groups", "note", of="all", effect=effect, details=details)
    for facts in () if evidence.is_late("order") else order_shift_facts(evidence):
        yield BenchmarkProblem("order", "note", of="train" if facts["split"] else "all", details=facts)


def _fact_problems(evidence: Evidence) -> Iterator[BenchmarkProblem]:
    """What texts, images and distances show by themselves: facts."""
    facts = list(unusual_facts(evidence))
    if evidence.dataset.is_texts:
        from hardpan.auditing.text_facts import text_facts

        facts = [*text_facts(evidence), *facts]
    for kind, rows, searched, details in facts:
        severities = ("note", 0.0, "note")
        yield _counted_problem(evidence, kind, rows, searched, severities, of="all", details=details)


def _permuted_class_problems(evidence: Evidence) -> Iterator[BenchmarkProblem]:
    for model in evidence.models:
        if model.permutation is not None:
            moved = sum(i != j for i, j in enumerate(model.permutation))
            details = {"model": model.name, "permutation": model.permutation, "moved": moved}
            yield BenchmarkProblem("permuted-classes", "high", details=details)


def _fresh_data_note(evidence: Evidence) -> Iterator[BenchmarkProblem]:
    if not evidence.config.testbed and not evidence.config.new_test:
        yield BenchmarkProblem("fresh", "note")


DETECTORS: tuple[Callable[[Evidence], Iterator[BenchmarkProblem]], ...] = (
    _one_class_problems,
    _copy_problems,
    _repeat_problems,
    _near_copy_problems,
    _class_problems,
    _problems_of_columns,
    _fact_problems,
    _permuted_class_problems,
    _fresh_data_note,
    _label_problems,
)
