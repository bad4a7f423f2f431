"""Labels that look wrong: another class is as probable as it is on examples that carry its label."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import stats
from hardpan.confusion.difficulty import UNLABELLED, Signals, signals
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import TRANSIENT, record
from hardpan.predictions import Predictions
from hardpan.predictions.opening import open_any
from hardpan.report.base import Report


@record(eq=False)
class LabelIssues(Report):
    """Examples whose label may be wrong, most suspicious first; some of them are hard examples with correct labels.

    Attributes:
        row: (n,) row numbers in the predictions.
        id: (n,) ids.
        label: (n,) the given classes.
        suggested: (n,) the classes that the models prefer.
        probability: (n,) mean probability of the given class over seeds and epochs.
        suggested_probability: (n,) mean probability of the suggested class.
        threshold: (n,) mean probability of the suggested class on examples labelled so: what it has to reach.
        count: number of such examples, with the interval over samples of examples like these.
        examples: number of examples that were examined.
        class_names: names of the classes; empty if unknown.
        source: the predictions.
        dataset: for the pictures (not in the JSON).
    """

    row: NDArray[np.int64]
    id: NDArray[np.str_]
    label: NDArray[np.int64]
    suggested: NDArray[np.int64]
    probability: NDArray[np.float64]
    suggested_probability: NDArray[np.float64]
    threshold: NDArray[np.float64]
    count: Estimate
    examples: int
    class_names: tuple[str, ...] = ()
    source: str = ""
    dataset: Dataset | None = dataclasses.field(default=None, repr=False, metadata=TRANSIENT)

    def __len__(self) -> int:
        return len(self.row)

    def __repr__(self) -> str:
        return f"LabelIssues({len(self):,} of {self.examples:,} labels look wrong)"


def label_issues(
    predictions: Predictions | Signals | Any,
    labels: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    dataset: Dataset | None = None,
) -> LabelIssues:
    """Find the examples that are most probably mislabelled, most suspicious first.

    With p̄_j(x) the mean probability of class j over seeds and epochs, and t_j the mean of p̄_j over examples
    labelled j, a label y looks wrong if the best other class has p̄_j ≥ t_j and p̄_j > p̄_y. Examples are sorted by
    p̄_j − p̄_y. A hard example with a correct label can look the same.

    Args:
        predictions: with labels; or the result of :func:`hardpan.confusion.signals`.
        labels: (N,) class numbers; by default those of the predictions.
        confidence: level of the interval of the count.
        dataset: the examples, for pictures; joined by id.

    Source: Northcutt, Jiang and Chuang, "Confident learning" (2021), for the thresholds by class.

    Example:
        >>> probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.2, 0.8], [0.05, 0.95]])
        >>> found = label_issues(probs, labels=[0, 0, 1, 1, 0])
        >>> found.row.tolist(), found.suggested.tolist(), found.count.value
        ([4], [1], 1.0)
    """
    names: tuple[str, ...] = ()
    source = ""
    if isinstance(predictions, Signals):
        result = predictions
    else:
        opened = predictions
        if not isinstance(predictions, np.ndarray):
            opened = open_any(predictions, name="predictions")
            names, source = opened.class_names, opened.where
        result = signals(opened, labels=labels)
    if result.labels is None or result.label_probability is None:
        raise InputError(UNLABELLED, argument="labels")
    labelled, own = result.labels, result.label_probability
    classes = int(max(labelled.max(), result.other.max())) + 1
    counts = np.bincount(labelled, minlength=classes)
    typical = np.divide(
        np.bincount(labelled, weights=own, minlength=classes), counts, out=np.ones(classes), where=counts > 0
    )
    needed = typical[result.other]
    lead = result.other_probability - own
    rows = np.flatnonzero((result.other_probability >= needed - 1e-6) & (lead > 0))  # equal up to rounding
    rows = rows[np.argsort(-lead[rows], kind="stable")]
    return LabelIssues(
        row=rows,
        id=result.ids[rows],
        label=labelled[rows],
        suggested=result.other[rows].astype(np.int64),
        probability=own[rows],
        suggested_probability=result.other_probability[rows],
        threshold=needed[rows],
        count=_count(len(rows), len(labelled), confidence),
        examples=len(labelled),
        class_names=names,
        source=source,
        dataset=dataset,
    )


def _count(count: int, examples: int, confidence: float) -> Estimate:
    rate = stats.share(count, examples, confidence)
    return Estimate(
        float(count),
        rate.stderr * examples,
        rate.low * examples,
        rate.high * examples,
        confidence=confidence,
        method="examples above the class thresholds, Clopper–Pearson",
        n=examples,
    )
