"""Labels that the ensemble doubts: another class is, on the whole, as probable as it is on its own examples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardpan.confusion.answers import UNLABELLED, Signals
from hardpan.errors import InputError
from hardpan.files import record


@record
@dataclass(frozen=True, slots=True)
class Suspect:
    """An example whose label may be wrong.

    Attributes:
        id: of the example.
        row: its place.
        label: the given class.
        suggested: the class that the ensemble prefers.
        label_probability: mean probability of the given class over seeds and epochs.
        suggested_probability: that of the other class.
        typical: mean probability that the other class has on examples labelled so: what it takes to suspect.
    """

    id: str
    row: int
    label: int
    suggested: int
    label_probability: float
    suggested_probability: float
    typical: float


def suspects(signals: Signals, most: int | None = None) -> tuple[Suspect, ...]:
    """List the examples that are most probably mislabelled, most suspect first.

    With p̄_j(x) the mean probability of class j over seeds and epochs, and t_j the mean of p̄_j over examples
    labelled j, an example labelled y is suspect when the best other class has p̄_j ≥ t_j and p̄_j > p̄_y. They are
    sorted by p̄_j − p̄_y. A suspicion is a reason to look, not a verdict: an example may simply be hard.

    Args:
        signals: from :func:`hardpan.confusion.signals`, with labels.
        most: at most so many.

    Source: Northcutt, Jiang and Chuang, "Confident learning" (2021), for the thresholds by class.

    Example:
        >>> import numpy as np
        >>> from hardpan import confusion
        >>> probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.2, 0.8], [0.05, 0.95]])
        >>> [(s.row, s.suggested) for s in suspects(confusion.signals(probs, labels=[0, 0, 1, 1, 0]))]
        [(4, 1)]
    """
    if signals.labels is None or signals.label_probability is None:
        raise InputError(UNLABELLED)
    labels, own = signals.labels, signals.label_probability
    classes = int(max(labels.max(), signals.other.max())) + 1
    counts = np.bincount(labels, minlength=classes)
    typical = np.divide(
        np.bincount(labels, weights=own, minlength=classes), counts, out=np.ones(classes), where=counts > 0
    )
    needed = typical[signals.other]
    lead = signals.other_probability - own
    rows = np.flatnonzero((signals.other_probability >= needed) & (lead > 0))
    rows = rows[np.argsort(-lead[rows], kind="stable")][:most]
    return tuple(
        Suspect(
            id=str(signals.ids[row]),
            row=int(row),
            label=int(labels[row]),
            suggested=int(signals.other[row]),
            label_probability=float(own[row]),
            suggested_probability=float(signals.other_probability[row]),
            typical=float(needed[row]),
        )
        for row in rows
    )
