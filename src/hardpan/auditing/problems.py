"""Problems of a benchmark: copies, conflicting and suspicious labels, classes, size, features, predictions.

Every detector is a function from :class:`Evidence` to problems; add a line to ``DETECTORS`` to add one. What a
problem says to people is written in :mod:`hardpan.pages.auditing`.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hardpan import stats
from hardpan.auditing.evidence import Evidence
from hardpan.auditing.labels import Suspects
from hardpan.auditing.near_copies import near_copies, turned_copies
from hardpan.bayes.floors.error_estimates import Floats, Labels
from hardpan.estimates import Estimate

MOST_ROWS = 200  # rows that a problem lists; the files beside the report have all of them
BROKEN_COPIES = 0.5  # of the test set
MANY_COPIES = 0.005
IMBALANCE = 30.0  # examples of the largest class per example of the smallest
FEW_PER_CLASS = 5
LEAK_ERROR = 0.01
LEAK_SPREAD = 0.1  # deviation within classes, relative to the distance between classes
BROKEN_CLASSES = 0.05  # of the test set, examples of classes that train lacks
INDEX_GAIN = 0.5  # an index column that halves the error of the most frequent class predicts the label
FEWEST_SUSPECTS = 3
POWER = 1.96 + 0.84  # two-sided 5 %, power 80 %

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
    "duplicates",
    "small-test",
    "imbalance",
    "constant-columns",
    "channels-first",
    "data",
    "fresh",
)
"""Kinds of problems, the gravest first among those of one severity."""
SEVERITIES = ("high", "medium", "low", "note")


@dataclass(frozen=True, eq=True)
class BenchmarkProblem(Mapping[str, Any]):
    """One problem of a benchmark; also a mapping of its fields, title and advice, as report.json has it.

    Attributes:
        kind: one of :data:`KINDS`.
        severity: "high", "medium", "low", or "note" for what was not measured.
        count: how many examples are affected, with an interval, where it can be counted.
        proportion: the same as a proportion of ``of``.
        of: the split that was searched: "test", "train" or "all".
        rows: row numbers of some of them in the dataset, worst first.
        ids: their ids.
        breaks: whether scores on this benchmark mean nothing until it is fixed.
        details: further numbers by name.
        noun: what an example is called: "image" or "example".
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

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> BenchmarkProblem:
        """The problem from its mapping in report.json, whose lists become tuples again."""
        return cls(**{name: _lists_as_tuples(value) for name, value in item.items() if name not in _PROBLEM_TEXTS})

    @property
    def title(self) -> str:
        """One line for people."""
        return self._title_and_advice()[0]

    @property
    def advice(self) -> str:
        """What to do about it."""
        return self._title_and_advice()[1]

    def _title_and_advice(self) -> tuple[str, str]:
        pages = importlib.import_module("hardpan.pages.auditing.problems")  # when it is first read
        texts: tuple[str, str] = pages.title_and_advice(self)
        return texts

    def __getitem__(self, name: str) -> Any:
        if name not in self.__dataclass_fields__ and name not in _PROBLEM_TEXTS:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(("kind", "severity", *_PROBLEM_TEXTS, *list(self.__dataclass_fields__)[2:]))

    def __len__(self) -> int:
        return len(_PROBLEM_TEXTS) + len(self.__dataclass_fields__)

    __hash__ = None  # type: ignore[assignment]


_PROBLEM_TEXTS = ("title", "advice")


def _lists_as_tuples(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _lists_as_tuples(item) for key, item in value.items()}
    return tuple(_lists_as_tuples(item) for item in value) if isinstance(value, (list, tuple)) else value


def find_problems(evidence: Evidence, error: Estimate | None) -> list[BenchmarkProblem]:
    """All problems, the most severe first.

    Args:
        evidence: after all training.
        error: of the best model, where there is one.
    """
    problems = [item for detect in DETECTORS for item in detect(evidence)]
    problems += _small_test_problems(evidence, None if error is None else error.value)
    noun = "image" if evidence.is_images else "example"
    return sorted(
        (dataclasses.replace(item, noun=noun) for item in problems),
        key=lambda item: (not item.breaks, SEVERITIES.index(item.severity), KINDS.index(item.kind)),
    )


def _count_and_proportion(evidence: Evidence, count: int, total: int) -> tuple[Estimate, Estimate]:
    """A count and a proportion with Clopper–Pearson intervals."""
    item = stats.share(count, total, evidence.config.confidence)
    whole = Estimate(
        float(count), item.stderr * total, item.low * total, item.high * total, item.confidence, item.method, total
    )
    return whole, item


def _listed_problem_rows(evidence: Evidence, rows: Labels) -> dict[str, Any]:
    some = rows[:MOST_ROWS]
    return {
        "rows": tuple(int(row) for row in some),
        "ids": tuple(str(name) for name in evidence.dataset.ids[some]),
    }


def _one_class_problems(evidence: Evidence) -> Iterator[BenchmarkProblem]:
    if len(np.unique(evidence.labels)) < 2:
        yield BenchmarkProblem("one-class", "high", of="all", breaks=True)
    elif len(np.unique(evidence.labels[evidence.split.train])) < 2:
        yield BenchmarkProblem("one-class", "high", of="train", breaks=True)


def _copy_problems(evidence: Evidence) -> Iterator[BenchmarkProblem]:
    inputs = evidence.inputs
    if inputs is None:
        return
    split, labels = evidence.split, evidence.labels
    if len(inputs.copied):
        count, proportion = _count_and_proportion(evidence, len(inputs.copied), len(split.test))
        severity = "high" if proportion.value > MANY_COPIES else "medium"
        broken = proportion.value >= BROKEN_COPIES
        yield BenchmarkProblem(
            "test-copies",
            severity,
            count=count,
            proportion=proportion,
            breaks=broken,
            **_listed_problem_rows(evidence, inputs.copied),
        )
    conflicts = [rows for rows in inputs.equal.copied_groups() if len(np.unique(labels[rows])) > 1]
    if conflicts:
        rows = np.concatenate(conflicts)
        count, proportion = _count_and_proportion(evidence, len(rows), len(labels))
        severity = "high" if proportion.value > 0.01 else "medium"
        yield BenchmarkProblem(
            "conflicting-labels",
            severity,
            count=count,
            proportion=proportion,
            of="all",
            details={"groups": len(conflicts)},
            **_listed_problem_rows(evidence, rows),
        )
    for part, members in evidence.parts.items():
        if part == "validation" or not len(members):
            continue
        again = np.setdiff1d(members, inputs.equal.without_repeats(members))
        if len(again):
            count, proportion = _count_and_proportion(evidence, len(again), len(members))
            severity = "medium" if proportion.value > 0.01 else "low"
            yield BenchmarkProblem(
                "duplicates",
                severity,
                count=count,
                proportion=proportion,
                of=part,
                **_listed_problem_rows(evidence, again),
            )


def _near_copy_problems(evidence: Evidence) -> Iterator[BenchmarkProblem]:
    inputs, nearest = evidence.inputs, evidence.nearest
    if inputs is None or inputs.equal.by_chance or nearest is None:
        return
    known = np.concatenate([evidence.split.train, evidence.split.validation])
    exact = inputs.equal.with_copy_in(nearest.rows, known)
    near = near_copies(nearest, exact)
    turned = turned_copies(evidence) if evidence.is_images else np.zeros(0, dtype=np.int64)
    rows = np.concatenate([turned, near[~np.isin(near, turned)]])
    if len(rows):
        searched = len(np.union1d(nearest.rows, turned))
        count, proportion = _count_and_proportion(evidence, len(rows), searched)
        severity = "medium" if proportion.value > MANY_COPIES else "low"
        yield BenchmarkProblem(
            "near-copies",
            severity,
            count=count,
            proportion=proportion,
            details={"searched": searched, "turned": len(turned)},
            **_listed_problem_rows(evidence, rows),
        )


def _label_problems(evidence: Evidence) -> Iterator[BenchmarkProblem]:
    for split, item in evidence.suspects.items():
        if len(item.rows) < FEWEST_SUSPECTS:
            continue
        count, proportion = _count_and_proportion(evidence, len(item.rows), item.searched)
        severity = "high" if proportion.value > 0.05 else "medium"
        details: dict[str, Any] = {"error": item.error, "clueless": item.clueless, "comparable": item.comparable}
        voted = _voted_precision(evidence, item)
        expected = item.precision(evidence.config.confidence)
        if item.trial is not None:
            details["expected_false"] = item.trial.false_rate * item.searched
            details["recall"] = item.trial.recall(evidence.config.confidence)
        if expected is not None:
            details["expected_precision"] = expected
        if voted is not None:
            details["precision"] = voted
        elif not item.telling:
            severity = "note"
        yield BenchmarkProblem(
            "labels",
            severity,
            count=count,
            proportion=proportion,
            of=split,
            details=details,
            **_listed_problem_rows(evidence, item.rows),
        )


def _voted_precision(evidence: Evidence, suspects: Suspects) -> Estimate | None:
    """Of the suspects with votes, how many have a majority against their label; None without votes."""
    annotations = evidence.annotations
    if annotations is None or annotations.votes is None or annotations.rows is None:
        return None
    votes = dict(zip(annotations.rows.tolist(), annotations.votes, strict=True))
    judged = [(row, votes[row]) for row in suspects.rows.tolist() if row in votes and votes[row].sum() > 0]
    if not judged:
        return None
    wrong = sum(int(row_votes.argmax()) != int(evidence.labels[row]) for row, row_votes in judged)
    return stats.share(wrong, len(judged), evidence.config.confidence)


def _class_problems(evidence: Evidence) -> Iterator[BenchmarkProblem]:
    k, names = evidence.dataset.n_classes, evidence.dataset.class_names
    counts = {split: np.bincount(evidence.labels[rows], minlength=k) for split, rows in evidence.parts.items()}
    total = np.bincount(evidence.labels, minlength=k)
    for split, severity in (("train", "high"), ("test", "medium")):
        missing = np.flatnonzero((counts[split] == 0) & (total > 0))
        if len(missing) and len(evidence.parts[split]):
            absent = tuple(names[c] for c in missing)
            unknown = counts["test"][missing].sum() / len(evidence.parts["test"]) if split == "train" else 0.0
            breaks = bool(unknown >= BROKEN_CLASSES)
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
        if len(evidence.parts["test"]):
            details["guessing"] = float((evidence.labels[evidence.parts["test"]] != largest).mean())
        yield BenchmarkProblem("imbalance", severity, of="all", details=details)


def _small_test_problems(evidence: Evidence, error: float | None) -> Iterator[BenchmarkProblem]:
    """The smallest difference between two models that the test set can show (5 % level, power 80 %)."""
    n = len(evidence.split.test) if evidence.inputs is None else len(evidence.inputs.test)
    if not n or error is None:
        return
    rate = max(error, 1 / n)
    smallest = min(1.0, POWER * float(np.sqrt(2 * rate * (1 - rate) / n)))
    if smallest < 0.005:
        return
    needed = int(np.ceil(POWER**2 * 2 * (1 - rate) / (0.1 * rate) / 0.1))
    severity = "medium" if smallest > 0.5 * rate else "low"
    yield BenchmarkProblem(
        "small-test", severity, details={"smallest": smallest, "n": n, "error": error, "needed": needed}
    )


def _column_problems(evidence: Evidence) -> Iterator[BenchmarkProblem]:
    """What the reader of the data noticed, and whether an index predicts the label."""
    dataset = evidence.dataset
    names = {name: j for j, name in enumerate(dataset.feature_names)} or {
        str(j): j for j in range(dataset.x.shape[1] if dataset.x.ndim == 2 else 0)
    }
    for item in dataset.warnings:
        details: dict[str, Any] = {"columns": item.columns, "message": item.message}
        if item.code == "constant":
            yield BenchmarkProblem("constant-columns", "low", of="all", details=details)
        elif item.code == "channels_first":
            yield BenchmarkProblem("channels-first", "low", of="all", details=details)
        elif item.code == "index_column":
            details |= {"predicts": False, "dropped": True}
            yield BenchmarkProblem("index-feature", "low", of="all", details=details)
        elif item.code == "identifier":
            columns = [names[name] for name in item.columns if name in names]
            predicts = [j for j in columns if _column_predicts_label(evidence, dataset.x[:, j].astype(np.float64))]
            severity = "high" if predicts else "medium"
            details["predicts"] = bool(predicts)
            yield BenchmarkProblem("index-feature", severity, of="all", breaks=bool(predicts), details=details)
        else:
            yield BenchmarkProblem("data", "note", of="all", details=details | {"code": item.code})


def _column_predicts_label(evidence: Evidence, column: Floats) -> bool:
    """Whether a single column halves the error of always answering the most frequent class."""
    split, labels = evidence.split, evidence.labels
    order = np.argsort(column[split.train], kind="stable")
    train = split.train[order]
    at = np.clip(np.searchsorted(column[train], column[split.test]), 1, len(train) - 1)
    left_closer = column[split.test] - column[train[at - 1]] <= column[train[at]] - column[split.test]
    nearest = train[np.where(left_closer, at - 1, at)]
    error = float((labels[nearest] != labels[split.test]).mean()) if len(split.test) else 1.0
    most = np.bincount(labels[split.train]).argmax()
    chance = float((labels[split.test] != most).mean()) if len(split.test) else 0.0
    return error < INDEX_GAIN * chance


def _leak_problems(evidence: Evidence) -> Iterator[BenchmarkProblem]:
    """Columns that are nearly the label: values that coincide with classes, up to a little noise."""
    dataset = evidence.dataset
    raw = dataset.x if dataset.table is None else dataset.table.values
    if raw.ndim != 2 or len(np.unique(evidence.labels)) < 2:
        return
    names = dataset.feature_names if dataset.table is None else dataset.table.names
    rows = np.sort(np.random.default_rng([evidence.config.seed, 71]).permutation(len(raw))[:5000])
    labels = evidence.labels[rows]
    columns = []
    for j in range(raw.shape[1]):
        column = np.asarray(raw[rows, j], dtype=np.float64)
        if np.isfinite(column).all() and _column_is_label(column, labels):
            columns.append(names[j] if names else str(j))
    if columns:
        yield BenchmarkProblem("leak-feature", "high", of="all", details={"columns": tuple(columns)})


def _column_is_label(column: Floats, labels: Labels) -> bool:
    """Whether the values of a column separate the classes as labels would.

    Discrete columns: at most two values per class, and the most frequent class of each value is wrong in at most 1
    %.
    Others: the deviation within classes is a tenth of the smallest distance between class medians, or less.
    """
    classes = np.unique(labels)
    values, index = np.unique(column, return_inverse=True)
    if len(values) <= 2 * len(classes):
        counts = np.zeros((len(values), len(classes)))
        np.add.at(counts, (index, np.searchsorted(classes, labels)), 1.0)
        covered = len(np.unique(counts.argmax(axis=1))) == len(classes)
        return bool(covered and 1 - counts.max(axis=1).sum() / len(labels) <= LEAK_ERROR)
    medians = np.array([np.median(column[labels == c]) for c in classes])
    gaps = np.diff(np.sort(medians))
    if not len(gaps) or gaps.min() <= 0:
        return False
    spread = np.median(np.abs(column - medians[np.searchsorted(classes, labels)]))
    return bool(spread <= LEAK_SPREAD * gaps.min() / 2)


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
    _near_copy_problems,
    _class_problems,
    _column_problems,
    _leak_problems,
    _permuted_class_problems,
    _fresh_data_note,
    _label_problems,
)
