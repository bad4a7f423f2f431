"""Accuracies of people on the original and the new test set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import tables
from hardpan.arguments import one_of, whole_numbers
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.report import Report
from hardpan.stats.intervals import mean, share
from hardpan.testbed.subset_accuracies import Hardest


@record
class Participant:
    """One person: accuracies on both sets with Clopper–Pearson intervals, and original − new."""

    name: str
    original: Estimate
    new: Estimate
    gap: float = field(metadata={"unit": "points"})


@record
class Humans(Report):
    """What :func:`human_table` returns: people in the order of their original accuracy, and their mean gap."""

    rows: tuple[Participant, ...]
    mean_gap: Estimate = field(metadata={"unit": "points"})
    better_on_original: int
    better_on_new: int
    notes: tuple[str, ...] = ()


def human_table(responses: Any, *, only: Hardest | None = None, confidence: float = 0.95) -> Humans:
    """Accuracies of people on the two sets, from their responses.

    Args:
        responses: rows or columns, or files of them: participant, set ("original" or "new"), and either ``correct``
            (0 or 1) or ``response`` with ``label``; or counts, ``correct`` with ``total``, one row per person and
            set.
        only: count only answers on these examples, by the column ``example`` (row number in its set).
        confidence: level of the intervals.

    Source: Recht et al., Table 3.

    Example:
        >>> rows = [{"participant": "1", "set": "original", "correct": 425, "total": 500},
        ...         {"participant": "1", "set": "new", "correct": 83, "total": 100}]
        >>> round(human_table(rows).rows[0].gap, 2)
        0.02
    """
    counts: dict[tuple[str, str], NDArray[np.int64]] = {}
    files = isinstance(responses, (list, tuple)) and all(isinstance(item, (str, Path)) for item in responses)
    for source in responses if files and responses else [responses]:
        columns = tables.read_columns(source, required=("participant", "set"), name="responses")
        sides = zip(map(str, columns["participant"]), map(str, columns["set"]), strict=True)
        for key, added in zip(sides, _human_answer_counts(columns, only), strict=True):
            one_of("responses", key[1], ("original", "new"))
            counts[key] = counts.get(key, 0) + added
    rows = []
    for person in sorted({person for person, _ in counts}):
        answered = [counts.get((person, side), np.zeros(2, dtype=np.int64)) for side in ("original", "new")]
        if min(total for _, total in answered) == 0:
            raise InputError(f"must be on both sets; participant {person} lacks one", argument="responses")
        original, new = (share(int(right), int(total), confidence) for right, total in answered)
        rows.append(Participant(person, original, new, original.value - new.value))
    rows.sort(key=lambda row: (-row.original.value, row.name))
    gaps, df = np.array([row.gap for row in rows]), len(rows) - 1
    method = f"t with {df} degrees of freedom, over people"
    mean_gap = mean(gaps, confidence, least=-1.0, most=1.0, method=method, df=df)
    return Humans(tuple(rows), mean_gap, int(np.sum(gaps > 0)), int(np.sum(gaps < 0)))


def _human_answer_counts(columns: Mapping[str, list[Any]], only: Hardest | None) -> NDArray[np.int64]:
    """(rows, 2) right answers and all answers of each row; 0 where a row is not on one of the hardest examples."""
    if "correct" in columns:
        right = whole_numbers("responses: correct", columns["correct"])
        total = whole_numbers("responses: total", columns.get("total", [1] * len(right)))
    elif "response" in columns and "label" in columns:
        pairs = zip(columns["response"], columns["label"], strict=True)
        right = np.array([int(str(said) == str(truth)) for said, truth in pairs])
        total = np.ones_like(right)
    else:
        raise InputError("must have a column 'correct', or 'response' and 'label'", argument="responses")
    if (right > total).any():
        raise InputError(
            "must not have more right answers than 'total', which is 1 by default", argument="responses"
        )
    counts = np.stack([right, total], axis=1)
    if only is None:
        return counts
    if "example" not in columns:
        raise InputError("must have a column 'example', the row number in its set", argument="responses")
    rows = {"original": only.original, "new": only.new}
    examples = zip(whole_numbers("responses: example", columns["example"]), columns["set"], strict=True)
    return np.asarray(counts * np.array([[row in rows.get(str(side), ())] for row, side in examples]))
