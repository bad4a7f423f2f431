"""Accuracies on some of the examples: without near-duplicates, by class or group; and the hardest examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.arguments import real_number, real_numbers, right_or_wrong, whole_number
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.outcomes import Outcomes
from hardpan.report import Report
from hardpan.stats import normal, share
from hardpan.testbed.sets import two_sets

Booleans = NDArray[np.bool_]
FREQUENCY_COLUMNS = ("frequency", "selection_frequency")
FREQUENCY_EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # the bins of Figure 15
FEW_VALUES = 20  # numbers with at most this many values are groups, not bins


@record
class DuplicateCorrection:
    """One model's accuracy with and without the near-duplicates of the original test set.

    Attributes:
        accuracy: on the whole original set.
        without: on the examples that are not near-duplicates of training data.
        on_duplicates: on the near-duplicates.
        explained: ``accuracy − without``: how much of a drop the duplicates can explain.
        drop: ``accuracy`` less the accuracy on the new set; NaN where that is unknown.
        left: the drop that remains, ``without`` less the accuracy on the new set.
    """

    model: str
    accuracy: Estimate
    without: Estimate
    on_duplicates: Estimate
    explained: float = field(metadata={"unit": "points"})
    drop: float = field(metadata={"unit": "points"})
    left: float = field(metadata={"unit": "points"})


@record
class Duplicates(Report):
    """What :func:`accuracies_without_duplicates` returns: one row per model."""

    rows: tuple[DuplicateCorrection, ...]
    duplicates: int
    examples: int


def accuracies_without_duplicates(
    outcomes: Any, duplicate: ArrayLike, new_accuracy: ArrayLike | None = None, confidence: float = 0.95
) -> Duplicates:
    """Accuracies without near-duplicates, and how much of each model's drop they can explain.

    Args:
        outcomes: right or wrong on the original set: outcomes, or what :meth:`hardpan.Outcomes.open` opens.
        duplicate: (N,) 1 for near-duplicates of training examples, 0 for the others.
        new_accuracy: (M,) accuracies on the new set, for the drop.
        confidence: level of the intervals.

    Source: the replication paper, appendix B.2.2.

    Example:
        >>> right = Outcomes.from_arrays([[1, 1, 1, 0]])
        >>> row = accuracies_without_duplicates(right, [True, False, False, False], [0.5]).rows[0]
        >>> round(row.explained, 3), round(row.drop, 3), round(row.left, 3)
        (0.083, 0.25, 0.167)
    """
    models, right = _accuracy_inputs(outcomes)
    marked = right_or_wrong("duplicate", _example_column("duplicate", duplicate, right.shape[1]))
    if marked.all():
        raise InputError("must not mark every example; nothing is left to correct by", argument="duplicate")
    new = np.full(len(models), np.nan)
    if new_accuracy is not None:
        new = real_numbers("new_accuracy", new_accuracy, len(models))
    rows = []
    for name, row, on_new in zip(models, right, new.tolist(), strict=True):
        whole, rest = _accuracy_estimate(row, confidence), _accuracy_estimate(row[~marked], confidence)
        explained, drop, left = whole.value - rest.value, whole.value - on_new, rest.value - on_new
        rows.append(
            DuplicateCorrection(
                name, whole, rest, _accuracy_estimate(row[marked], confidence), explained, drop, left
            )
        )
    return Duplicates(tuple(rows), int(marked.sum()), len(marked))


@record
class Balanced:
    """Accuracy if every class counted the same, beside the plain one."""

    model: str
    accuracy: Estimate
    balanced: Estimate


@record
class ClassBalance(Report):
    """What :func:`class_balanced_accuracies` returns: one row per model."""

    rows: tuple[Balanced, ...]


def class_balanced_accuracies(outcomes: Any, labels: ArrayLike, confidence: float = 0.95) -> ClassBalance:
    """Accuracies with every class weighted alike: the mean of the accuracies by class.

    Standard error sqrt(Σ_c p_c (1 − p_c) / n_c) / C, normal interval; p_c is taken as (k + ½)/(n + 1) in the error
    alone, so that a class that is always right still counts with some.

    Example:
        >>> class_balanced_accuracies(Outcomes.from_arrays([[1, 1, 1, 0]]), [0, 0, 0, 1]).rows[0].balanced.value
        0.5
    """
    models, right = _accuracy_inputs(outcomes)
    classes, codes = np.unique(_example_column("labels", labels, right.shape[1]), return_inverse=True)
    sizes = np.bincount(codes)
    rows = []
    for name, row in zip(models, right, strict=True):
        hits = np.bincount(codes, weights=row)
        value = float((hits / sizes).mean())
        smooth = (hits + 0.5) / (sizes + 1)
        error = float(np.sqrt((smooth * (1 - smooth) / sizes).sum()) / len(classes))
        method = f"mean over {len(classes)} classes, normal interval"
        balanced = normal(value, error, len(row), confidence, least=0.0, most=1.0, method=method)
        rows.append(Balanced(name, _accuracy_estimate(row, confidence), balanced))
    return ClassBalance(tuple(rows))


@record
class Slice:
    """Accuracy of one model on the examples that share a property, with its exact interval."""

    model: str
    group: str
    accuracy: Estimate


@record
class Breakdown(Report):
    """Accuracies by model and group of examples, and the property that groups them."""

    by: str
    rows: tuple[Slice, ...]


def accuracy_breakdown(
    outcomes: Any, values: ArrayLike, by: str = "label", *, bins: int = 5, confidence: float = 0.95
) -> Breakdown:
    """Accuracy of every model on every group of examples, with exact intervals.

    Texts are groups, and so are numbers with at most 20 different values. Other numbers are cut into quantile bins,
    selection frequencies into the bins of the paper's Figure 15: [0, .2), [.2, .4), …, [.8, 1]. Empty bins are left
    out.

    Args:
        outcomes: right or wrong: outcomes, or what :meth:`hardpan.Outcomes.open` opens.
        values: (N,) a property of the examples: sub-class, source, selection frequency.
        by: its name; "frequency" for selection frequencies.
        bins: number of quantile bins.
        confidence: level of the intervals.

    Example:
        >>> right = Outcomes.from_arrays([[1, 1, 0]])
        >>> [(item.group, item.accuracy.value) for item in accuracy_breakdown(right, ["cat", "cat", "dog"]).rows]
        [('cat', 1.0), ('dog', 0.0)]
        >>> [item.group for item in accuracy_breakdown(right, [0.1, 0.2, 1.0], "frequency").rows]
        ['[0, 0.2)', '[0.2, 0.4)', '[0.8, 1]']
    """
    models, right = _accuracy_inputs(outcomes)
    whole_number("bins", bins, 1)
    column = _example_column(by, values, right.shape[1])
    try:
        numbers = real_numbers(by, column.astype(np.float64))
    except ValueError:
        numbers = None
    if numbers is not None and by in FREQUENCY_COLUMNS:
        if numbers.min() < 0 or numbers.max() > 1:
            raise InputError(f"must lie in 0..1; got {numbers.min():g} to {numbers.max():g}", argument=by)
        codes, names = _bins_of_values(numbers, FREQUENCY_EDGES)
    elif numbers is not None and len(np.unique(numbers)) > max(bins, FEW_VALUES):
        codes, names = _bins_of_values(
            numbers, np.unique(np.quantile(numbers, np.linspace(0, 1, bins + 1))).tolist()
        )
    else:
        texts, codes = np.unique((column if numbers is None else numbers).astype(np.str_), return_inverse=True)
        names = texts.tolist()
    groups = [(name, codes == code) for code, name in enumerate(names)]
    return Breakdown(
        by,
        tuple(
            Slice(model, name, _accuracy_estimate(row[members], confidence))
            for model, row in zip(models, right, strict=True)
            for name, members in groups
            if members.any()
        ),
    )


def _bins_of_values(values: NDArray[np.float64], edges: Sequence[float]) -> tuple[NDArray[np.int64], list[str]]:
    """The bin of each value, closed below and open above but for the last, and the names of the bins."""
    last = len(edges) - 2
    names = [f"[{edges[i]:g}, {edges[i + 1]:g}{']' if i == last else ')'}" for i in range(last + 1)]
    return np.clip(np.searchsorted(edges, values, side="right") - 1, 0, last), names


def _accuracy_estimate(right: Booleans, confidence: float) -> Estimate:
    return share(int(right.sum()), len(right), confidence)


def _accuracy_inputs(outcomes: Any) -> tuple[tuple[str, ...], Booleans]:
    """Names of the models, and right or wrong, (M, N)."""
    opened = Outcomes.open(outcomes)
    scores = opened.item_scores()
    if opened.totals is not None or not np.isin(scores, (0, 1)).all():
        raise InputError(
            "must be right or wrong example by example, without missing cells; got counts, fractions or gaps",
            argument="outcomes",
        )
    return opened.models, scores == 1.0


def _example_column(name: str, values: ArrayLike, n: int) -> NDArray[Any]:
    array: NDArray[Any] = np.asarray(values)
    if array.shape != (n,):
        raise InputError(f"must be ({n},), one for each example; got shape {array.shape}", argument=name)
    return array


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
