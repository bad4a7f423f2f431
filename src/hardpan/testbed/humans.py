"""People on the hardest examples of both test sets (Table 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import tables
from hardpan.arguments import one_of, real_number
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.report.base import Report
from hardpan.stats import share
from hardpan.stats.agreement import right_or_wrong
from hardpan.testbed.comparison import over_models
from hardpan.testbed.sets import two_sets

Columns = dict[str, list[Any]]


@record
class Participant:
    """One person: accuracies on both sets with Clopper–Pearson intervals, and original − new."""

    name: str
    original: Estimate
    new: Estimate
    gap: float


@record
class Humans(Report):
    """What :func:`human_table` returns: people in the order of their original accuracy, and their mean gap."""

    rows: tuple[Participant, ...]
    mean_gap: Estimate
    better_on_original: int
    better_on_new: int
    notes: tuple[str, ...] = ()


def hardest(right: ArrayLike, fraction: float = 0.05) -> NDArray[np.int64]:
    """The examples that the fewest models get right: at least ``fraction`` of them, ties at the edge included.

    Args:
        right: (M, N) right or wrong.
        fraction: how much of the set, above 0.

    Returns:
        Example numbers, hardest first, equal ones in the order of the set.

    Source: Recht et al., appendix B.2.5.

    Example:
        >>> hardest([[1, 0, 1, 0], [1, 0, 1, 1]], fraction=0.5).tolist()
        [1, 3]
    """
    matrix = right_or_wrong("right", right)
    if matrix.ndim != 2 or matrix.size == 0:
        raise InputError(f"must be (models, examples); got shape {matrix.shape}", argument="right")
    real_number("fraction", fraction, "(0, 1]")
    by_models = matrix.sum(axis=0)
    order = np.argsort(by_models, kind="stable")
    size = int(np.ceil(fraction * len(order) - 1e-9))
    edge = by_models[order[size - 1]]
    return np.asarray(order[: np.searchsorted(by_models[order], edge, side="right")], dtype=np.int64)


@record(eq=False)
class Hardest(Report):
    """The hardest examples of both sets: row numbers, set sizes, and how many models are right on them at most."""

    fraction: float
    models: int
    original: NDArray[np.int64]
    original_total: int
    original_most: int
    new: NDArray[np.int64]
    new_total: int
    new_most: int


def hardest_of(original: Any, new: Any = None, fraction: float = 0.05) -> Hardest:
    """The :func:`hardest` examples of both sets; scores item by item are needed, as for :func:`compare`.

    Args:
        original: as for :func:`compare`.
        new: likewise.
        fraction: fraction of each set to take, hardest first, ties included.

    Example:
        >>> from hardpan.testbed import simulate
        >>> len(hardest_of(*simulate([0.0, 1.0, 2.0], examples=(100, 40))).original) >= 5
        True
    """
    sets = two_sets(original, new)
    parts: list[Any] = []
    for side in (sets.original, sets.new):
        if side.scores is None or not side.binary:
            raise InputError("the hardest examples need right or wrong example by example; got counts or fractions")
        right = side.scores == 1.0
        order = hardest(right, fraction)
        # Row numbers are those of the whole set, where people's answers are found, also for a subset of it.
        rows = order if side.rows is None else side.rows[order]
        parts += [rows, right.shape[1], int(right[:, order].sum(axis=0).max())]
    return Hardest(fraction, len(sets), *parts)


def human_table(responses: Any, *, only: Hardest | None = None, confidence: float = 0.95, seed: int = 0) -> Humans:
    """Accuracies of people on the two sets, from their responses.

    Args:
        responses: rows or columns, or files of them: participant, set ("original" or "new"), and either ``correct``
            (0 or 1) or ``response`` with ``label``; or counts, ``correct`` with ``total``, one row per person and
            set.
        only: count only answers on these examples, by the column ``example`` (row number in its set).
        confidence: level of the intervals.
        seed: of the bootstrap over people.

    Source: Recht et al., Table 3.

    Example:
        >>> rows = [{"participant": "1", "set": "original", "correct": 425, "total": 500},
        ...         {"participant": "1", "set": "new", "correct": 83, "total": 100}]
        >>> round(human_table(rows).rows[0].gap, 2)
        0.02
    """
    counts = _counts(_columns(responses), only)
    people = sorted({person for person, _ in counts})
    rows = []
    for person in people:
        if (person, "original") not in counts or (person, "new") not in counts:
            raise InputError(f"participant {person} answered on one of the two sets only; both are needed")
        sides = [_estimate(*counts[person, side], confidence) for side in ("original", "new")]
        rows.append(Participant(person, sides[0], sides[1], sides[0].value - sides[1].value))
    rows.sort(key=lambda row: (-row.original.value, row.name))
    gaps = np.array([row.gap for row in rows])
    mean = over_models(gaps, confidence, seed)
    mean = replace(
        mean, method="one person" if len(gaps) < 2 else mean.method.replace("over models", "over people")
    )
    return Humans(tuple(rows), mean, int(np.sum(gaps > 0)), int(np.sum(gaps < 0)))


def _columns(responses: Any) -> list[Columns]:
    several = isinstance(responses, Sequence) and all(isinstance(item, (str, Path)) for item in responses)
    sources = responses if several and responses and not isinstance(responses, str) else [responses]
    return [tables.read_columns(item) for item in sources]


def _counts(parts: Sequence[Columns], only: Hardest | None) -> dict[tuple[str, str], tuple[int, int]]:
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    for columns in parts:
        for name in ("participant", "set"):
            if name not in columns:
                raise InputError(
                    f": column {name!r} is missing; the columns are {', '.join(columns)}", argument="responses"
                )
        correct, total = _answers(columns)
        if only is not None:
            hard = _is_hard(columns, only)
            total = [size * inside for size, inside in zip(total, hard, strict=True)]
            correct = [right * inside for right, inside in zip(correct, hard, strict=True)]
        for person, side, right, size in zip(columns["participant"], columns["set"], correct, total, strict=True):
            one_of("responses: set", str(side), ("original", "new"))
            so_far = counts.get((str(person), str(side)), (0, 0))
            counts[str(person), str(side)] = (so_far[0] + right, so_far[1] + size)
    return counts


def _is_hard(columns: Columns, only: Hardest) -> list[bool]:
    if "example" not in columns:
        raise InputError(
            ": column 'example' (row number in its set) is needed to keep the hardest only", argument="responses"
        )
    rows = {"original": set(only.original.tolist()), "new": set(only.new.tolist())}
    examples = [int(float(value)) for value in columns["example"]]
    return [row in rows.get(str(side), ()) for row, side in zip(examples, columns["set"], strict=True)]


def _answers(columns: Columns) -> tuple[list[int], list[int]]:
    if "correct" in columns:
        correct = [int(float(value)) for value in columns["correct"]]
        if "total" in columns:
            return correct, [int(float(value)) for value in columns["total"]]
        if not set(correct) <= {0, 1}:
            raise InputError(
                ": column 'correct' must hold 0 and 1 where there is no column 'total'", argument="responses"
            )
        return correct, [1] * len(correct)
    if "response" in columns and "label" in columns:
        pairs = zip(columns["response"], columns["label"], strict=True)
        return [int(str(said) == str(truth)) for said, truth in pairs], [1] * len(columns["label"])
    raise InputError(": need a column 'correct', or 'response' and 'label'", argument="responses")


def _estimate(correct: int, total: int, confidence: float) -> Estimate:
    if total == 0:
        raise InputError(": a participant answered none of the hardest examples of a set", argument="responses")
    return share(correct, total, confidence)
