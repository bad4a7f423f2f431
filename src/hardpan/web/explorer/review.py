"""The review of labels, one at a time: a random sample that counts the wrong ones, or the most suspicious first.

Answers to the random sample are written at once to review.csv, and the page states the result. Answers to the queue
of suspicious labels are corrections and tags in corrections.csv.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardpan.auditing.contents import FEATURE
from hardpan.auditing.example_table import Examples
from hardpan.auditing.labels import label_issues
from hardpan.confusion.label_review import FILE, LabelReview, count_wrong
from hardpan.errors import InputError
from hardpan.pages.auditing.problems import review_problem_words
from hardpan.web.explorer.marks import Marks

MOST_QUEUED = 2000  # suspicious labels that one page has
MOST_AT_ONCE = 100  # suggestions that are accepted together
SHOWN = 12  # columns of a row
RIGHT, AMBIGUOUS = "label is right", "ambiguous"
"""Tags of labels that a person judged without correcting them."""


def row_words(examples: Examples, rows: Sequence[int]) -> list[list[list[str]]]:
    """Pairs of a name and a value of each row: its text, then its most telling columns."""
    names = [n for n in examples.table.column_names if n == "text" or n.startswith(FEATURE)][:SHOWN]
    columns = [examples.table[name].take(list(rows)).to_pylist() for name in names]
    titles = [name.removeprefix(FEATURE) for name in names]

    def word(value: Any) -> str:
        if value is None:
            return "missing"
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    return [
        [[title, word(value)] for title, value in zip(titles, values, strict=True)]
        for values in (zip(*columns, strict=True) if columns else ([] for _ in rows))
    ]


def row_places(examples: Examples, rows: Sequence[int], split: Sequence[str]) -> list[str]:
    """What a person finds an example by: its split with its file, its row, or its id."""
    column = next((name for name in ("path", "row") if name in examples.table.column_names), "id")
    positions = examples.table[column].take(list(rows)).to_pylist()
    return [f"{part} {row}".removeprefix(" ") for part, row in zip(split, positions, strict=True)]


class LabelQueue:
    """The labels that differ from the prediction, the least probable first; answers are marks.

    Args:
        examples: the audit's table, with ranked labels.
        marks: corrections and tags of the folder.
    """

    resumed = False

    def __init__(self, examples: Examples, marks: Marks) -> None:
        issues = label_issues(examples)
        some = slice(MOST_QUEUED)
        numbers = {str(name): row for row, name in enumerate(examples.table["id"].to_pylist())}
        self._index = [numbers[str(name)] for name in issues.id[some].tolist()]
        names = np.array(issues.class_names, dtype=object)
        self._label, self._suggested = names[issues.label[some]].tolist(), names[issues.suggested[some]].tolist()
        self._classes = sorted(set(map(str, examples.table["label"].to_pylist())))
        self._places = row_places(examples, self._index, issues.split[some].tolist())
        self._facts = [
            {
                name: examples.table[name][row].as_py()
                for name in ("id", "split", "row", "path", "label")
                if name in known
            }
            for known in [set(examples.table.column_names)]
            for row in self._index
        ]
        self._content = row_words(examples, self._index)
        self._near = self._neighbours(examples, numbers)
        self._probability, self._marks = issues.probability[some].tolist(), marks

    def _neighbours(self, examples: Examples, numbers: dict[str, int]) -> list[dict[str, Any] | None]:
        """Of each row that has one, the nearest training example: where it is, its label and its contents."""
        if "duplicate" not in examples.table.column_names:
            return [None] * len(self._index)
        near = [numbers.get(str(name)) for name in examples.table["duplicate"].take(self._index).to_pylist()]
        rows = [row for row in near if row is not None]
        split, label = (examples.table[name].take(rows).to_pylist() for name in ("split", "label"))
        places, words = row_places(examples, rows, split), row_words(examples, rows)
        nearest = iter(zip(places, label, words, strict=True))
        return [
            None if row is None else dict(zip(("where", "label", "content"), next(nearest), strict=True))
            for row in near
        ]

    def __len__(self) -> int:
        return len(self._index)

    def sample(self) -> dict[str, Any]:
        """Everything that the page shows."""
        items = [
            {
                "index": index,
                "where": self._places[at],
                "label": self._label[at],
                "suggested": self._suggested[at],
                "probability": self._probability[at],
                "content": self._content[at],
                "near": self._near[at],
                **self._answer(at),
            }
            for at, index in enumerate(self._index)
        ]
        return {"items": items, "classes": self._classes, "queue": True, **self._progress()}

    def judge(self, query: dict[str, Any]) -> dict[str, Any]:
        """Store the same answer to some labels, or take it back (an empty verdict), and write the file."""
        positions, verdict, right = (query.get(name) for name in ("positions", "verdict", "right_class"))
        known = isinstance(positions, list) and 0 < len(positions) <= MOST_AT_ONCE
        if not known or not all(type(at) is int and 0 <= at < len(self) for at in positions or []):
            raise InputError(
                f"must be 1 to {MOST_AT_ONCE} numbers from 0 to {len(self) - 1:,}", argument="positions"
            )
        if verdict not in ("", "right", "accepted", "wrong", "ambiguous"):
            raise InputError("must be right, accepted, wrong, ambiguous or empty", argument="verdict")
        if right not in ("", *self._classes) or (verdict == "wrong") != bool(right):
            raise InputError("must be a class of these data for a wrong label, else empty", argument="right_class")
        for at in positions or []:
            label = self._suggested[at] if verdict == "accepted" else right if verdict == "wrong" else ""
            tag = {"right": RIGHT, "ambiguous": AMBIGUOUS}.get(str(verdict), "")
            tags = [name for name in self._marks.of(self._facts[at]["id"]).tags if name not in (RIGHT, AMBIGUOUS)]
            self._marks.set([self._facts[at]], label=str(label), tags=[*tags, *([tag] if tag else [])])
        return {"answers": [self._answer(at) for at in positions or []], **self._progress()}

    def _answer(self, at: int) -> dict[str, str]:
        """What a person said of a label."""
        mark = self._marks.of(str(self._facts[at]["id"]))
        if mark.corrected_label:
            verdict = "accepted" if mark.corrected_label == self._suggested[at] else "wrong"
            return {"verdict": verdict, "right_class": mark.corrected_label}
        verdict = "right" if RIGHT in mark.tags else "ambiguous" if AMBIGUOUS in mark.tags else ""
        return {"verdict": verdict, "right_class": ""}

    def _progress(self) -> dict[str, Any]:
        return {"judged": sum(bool(self._answer(at)["verdict"]) for at in range(len(self))), "result": None}


class ReviewSite:
    """A review in an audit's folder: resumed if there is one, else drawn from the ranked labels.

    Args:
        examples: the audit's table.
        folder: where ``review.csv`` is.
        count: number of labels to draw.
    """

    def __init__(self, examples: Examples, folder: Path, count: int) -> None:
        self.path = folder / FILE
        self.resumed = self.path.is_file()
        if self.resumed:
            self.review = LabelReview.read(self.path)
        else:
            self.review = label_issues(examples).sample(count)
            self.review.save(self.path)
        numbers = {str(name): row for row, name in enumerate(examples.table["id"].to_pylist())}
        if not set(self.review.id.tolist()) <= set(numbers):
            raise InputError(f"{self.path}: has examples that this audit does not have; move it away")
        self._index = [numbers[name] for name in self.review.id.tolist()]
        self._labels = sorted(set(map(str, examples.table["label"].to_pylist())))
        self._lock = threading.Lock()
        self._where = row_places(examples, self._index, self.review.split.tolist())
        self._content = row_words(examples, self._index)

    def __len__(self) -> int:
        return len(self.review)

    def sample(self) -> dict[str, Any]:
        """Everything that the page shows; neither predictions nor strata, which would suggest an answer."""
        review = self.review
        texts = (self._where, *(values.tolist() for values in (review.label, review.verdict, review.right_class)))
        names = ("index", "where", "label", "verdict", "right_class", "content")
        values = zip(self._index, *texts, self._content, strict=True)
        items = [dict(zip(names, item, strict=True)) for item in values]
        return {"items": items, "classes": self._labels, "queue": False, **self._progress()}

    def judge(self, query: dict[str, Any]) -> dict[str, Any]:
        """Store one answer and write the file; where that fails, nothing changes."""
        position, verdict, right = (query.get(name) for name in ("position", "verdict", "right_class"))
        if type(position) is not int or not 0 <= position < len(self.review):
            raise InputError(f"must be a number from 0 to {len(self.review) - 1:,}", argument="position")
        if not isinstance(verdict, str) or right not in ("", *self._labels):
            raise InputError("must be a class of these data, or empty", argument="right_class")
        with self._lock:
            before = self.review.verdict[position], self.review.right_class[position]
            self.review.judge(position, verdict, str(right))
            try:
                self.review.save(self.path)
            except OSError:
                self.review.judge(position, *before)
                raise
            return self._progress()

    def _progress(self) -> dict[str, Any]:
        """How many labels are judged, and what follows from them once all are."""
        done = self.review.judged == len(self.review)
        count = count_wrong(self.review) if done else None
        details = {} if count is None else {f.name: getattr(count, f.name) for f in dataclasses.fields(count)}
        return {"judged": self.review.judged, "result": list(review_problem_words(details)) if details else None}
