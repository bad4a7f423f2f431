"""The review of a random sample of labels: every answer is written at once to review.csv; states the result."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

from hardpan.auditing.example_table import Examples
from hardpan.auditing.labels import label_issues
from hardpan.confusion.label_review import FILE, LabelReview, count_wrong
from hardpan.errors import InputError
from hardpan.pages.auditing.problems import review_problem_words


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
        # What a person finds an example by: its file, its row, or its id.
        column = next((name for name in ("path", "row") if name in examples.table.column_names), "id")
        found = examples.table[column].take(self._index).to_pylist()
        self._where = [
            f"{split} {row}".removeprefix(" ") for split, row in zip(self.review.split, found, strict=True)
        ]

    def sample(self) -> dict[str, Any]:
        """Everything that the page shows; neither predictions nor strata, which would suggest an answer."""
        review = self.review
        texts = (self._where, *(values.tolist() for values in (review.label, review.verdict, review.right_class)))
        names = ("index", "where", "label", "verdict", "right_class")
        items = [dict(zip(names, values, strict=True)) for values in zip(self._index, *texts, strict=True)]
        return {"items": items, "classes": self._labels, **self._progress()}

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
        found = count_wrong(self.review) if done else None
        details = {} if found is None else {f.name: getattr(found, f.name) for f in dataclasses.fields(found)}
        return {"judged": self.review.judged, "result": list(review_problem_words(details)) if details else None}
