"""Labels ranked by how little predictions that did not see them agree: where to look for wrong labels."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.confusion.difficulty_signals import UNLABELLED, Signals, signals
from hardpan.confusion.label_review import LabelCount, LabelReview, count_wrong, draw_review
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.files import TRANSIENT, record
from hardpan.predictions import Predictions
from hardpan.predictions.opening import open_any
from hardpan.report import Report


@dataclass(frozen=True, slots=True, eq=False)
class RankedLabels:
    """All labels with a prediction, the first ``differing`` of them with another predicted class.

    Attributes:
        row: (N,) row numbers.
        id: (N,) ids.
        split: (N,) names of the splits; empty texts if unknown.
        label: (N,) the given classes.
        predicted: (N,) the predicted classes.
        probability: (N,) probability of the given class.
        differing: how many predictions differ from the label; these come first.
    """

    row: NDArray[np.int64]
    id: NDArray[np.str_]
    split: NDArray[np.str_]
    label: NDArray[np.int64]
    predicted: NDArray[np.int64]
    probability: NDArray[np.float64]
    differing: int

    @classmethod
    def of(
        cls,
        row: NDArray[np.int64],
        id: NDArray[np.str_],
        split: NDArray[np.str_],
        label: NDArray[np.int64],
        predicted: NDArray[np.int64],
        probability: NDArray[np.float64],
    ) -> RankedLabels:
        """Rank labels: predictions that differ from the label first, each part by the label's probability."""
        order = np.lexsort((probability, predicted == label))
        columns: list[Any] = [column[order] for column in (row, id, split, label, predicted, probability)]
        columns.append(int((predicted != label).sum()))
        return cls(*columns)


@record(eq=False, dropped=("suggested_probability", "threshold", "count"))
class LabelIssues(Report):
    """Labels that differ from the prediction, the least probable first: wrong labels and errors of the models.

    Which of them are wrong cannot be known from probabilities: :meth:`sample` draws labels for a person to review,
    and :meth:`count` estimates from the answers how many are wrong.

    Attributes:
        row: (n,) row numbers in the predictions.
        id: (n,) ids.
        label: (n,) the given classes.
        suggested: (n,) the predicted classes.
        probability: (n,) mean probability of the given class over seeds and epochs.
        examples: number of labels that were compared with predictions.
        class_names: names of the classes; empty if unknown.
        source: the predictions.
        split: (n,) names of the splits; empty texts if unknown.
        ranked: all labels that were compared (not in the JSON).
        dataset: for the pictures (not in the JSON).
    """

    row: NDArray[np.int64]
    id: NDArray[np.str_]
    label: NDArray[np.int64]
    suggested: NDArray[np.int64]
    probability: NDArray[np.float64]
    examples: int
    class_names: tuple[str, ...] = ()
    source: str = ""
    split: NDArray[np.str_] = dataclasses.field(default_factory=lambda: np.zeros(0, dtype=np.str_))
    ranked: RankedLabels | None = dataclasses.field(default=None, repr=False, metadata=TRANSIENT)
    dataset: Dataset | None = dataclasses.field(default=None, repr=False, metadata=TRANSIENT)

    @classmethod
    def of(cls, ranked: RankedLabels, class_names: Sequence[str] = (), source: str = "") -> LabelIssues:
        """The list of ranked labels."""
        n, same = ranked.differing, ("row", "id", "label", "probability", "split")
        return cls(
            suggested=ranked.predicted[:n],
            examples=len(ranked.row),
            class_names=tuple(class_names),
            source=source,
            ranked=ranked,
            **{name: getattr(ranked, name)[:n] for name in same},
        )

    def __len__(self) -> int:
        return len(self.row)

    def __repr__(self) -> str:
        return f"LabelIssues({len(self):,} of {self.examples:,} labels differ from the prediction)"

    def sample(self, count: int = 200, *, seed: int = 0) -> LabelReview:
        """Draw a random sample of labels for a person to review, stratified by rank.

        Args:
            count: number of labels; from 150 on the sample is stratified, below it is a simple random sample.
            seed: of the draw.

        Example:
            >>> p = np.random.default_rng(0).dirichlet([1.0, 1.0], 1000)
            >>> review = label_issues(p, labels=np.zeros(1000, dtype=int)).sample(200, seed=0)
            >>> len(review), len(set(review.id.tolist()))
            (200, 200)
        """
        if self.ranked is None:
            raise InputError(": a list that was read from a file has no other labels; compute it again")
        return draw_review(self.ranked, self.class_names, count, seed)

    def count(self, review: LabelReview | str | os.PathLike[str], *, confidence: float = 0.95) -> LabelCount:
        """Estimate from a review how many labels are wrong: :func:`hardpan.confusion.label_review.count_wrong`.

        Args:
            review: a sample of these labels with answers, or the file with it.
            confidence: level of the intervals.
        """
        if not isinstance(review, LabelReview):
            review = LabelReview.read(review)
        if self.ranked is not None and not np.isin(review.id, self.ranked.id).all():
            raise InputError(": has labels that are not among those that were ranked here", argument="review")
        return count_wrong(review, confidence=confidence)


def label_issues(
    predictions: Predictions | Signals | Any, labels: ArrayLike | None = None, *, dataset: Dataset | None = None
) -> LabelIssues:
    """Rank labels by predictions that did not see them, and list those that differ from the prediction.

    With p̄_j(x) the mean probability of class j over seeds and epochs, the prediction is argmax_j p̄_j. Rows whose
    prediction differs from their label y come first, then the others, each in the order of p̄_y. The list are the
    former; a model's error and a wrong label look the same in it.

    Args:
        predictions: with labels; or the result of :func:`hardpan.confusion.signals`. Rows of the training split are
            left out unless the predictions are stated to be held out (for example out of fold).
        labels: (N,) class numbers; by default those of the predictions.
        dataset: the examples, for pictures; joined by id.

    Example:
        >>> probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.4, 0.6], [0.05, 0.95]])
        >>> found = label_issues(probs, labels=[0, 0, 1, 0, 0])
        >>> found.row.tolist(), found.suggested.tolist(), [f"{p:.2f}" for p in found.probability]
        ([4, 3], [1, 1], ['0.05', '0.40'])
    """
    names: tuple[str, ...] = ()
    source, split, opened = "", None, predictions
    if not isinstance(predictions, (Signals, np.ndarray)):
        opened = open_any(predictions, name="predictions")
        names, source, split = opened.class_names, opened.where, opened.split
    result = opened if isinstance(opened, Signals) else signals(opened, labels=labels)
    if result.labels is None or result.label_probability is None:
        raise InputError(UNLABELLED, argument="labels")
    held_out = opened.held_out_rows if isinstance(opened, Predictions) else np.zeros(len(result), dtype=bool)
    rows = np.flatnonzero(held_out | ~held_out.any())
    differs = result.other_probability > result.label_probability
    ranked = RankedLabels.of(
        row=rows,
        id=result.ids[rows],
        split=np.full(len(rows), "") if split is None else np.asarray(split)[rows].astype(np.str_),
        label=result.labels[rows].astype(np.int64),
        predicted=np.where(differs, result.other, result.labels)[rows].astype(np.int64),
        probability=result.label_probability[rows].astype(np.float64),
    )
    return dataclasses.replace(LabelIssues.of(ranked, names, source), dataset=dataset)
