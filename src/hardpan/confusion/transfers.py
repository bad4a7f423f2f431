"""Transfer: confusion scores of two models on the same examples."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import stats
from hardpan.confusion.banding import round_edges
from hardpan.confusion.reading import score_values
from hardpan.confusion.scoring import Scores, scores
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.predictions import Predictions
from hardpan.predictions.checks import ROW_ID

CELLS = 40


@record(eq=False)
class Transfer:
    """Two models' scores of the same examples.

    Attributes:
        first: name of the first model.
        second: name of the second.
        tau: Kendall's τ-b.
        rho: Pearson's ρ.
        below: fraction of examples, among those that differ, that confuse the second model less: below the
            diagonal.
        examples: number of examples that both have scored.
        edges: (k+1,) limits of the histogram's cells, on both axes.
        counts: (k, k) examples by cell; first index the first model's score.
    """

    first: str
    second: str
    tau: Estimate
    rho: Estimate
    below: Estimate
    examples: int
    edges: NDArray[np.float64]
    counts: NDArray[np.int64]


def transfer(
    first: Any,
    second: Any,
    *,
    names: tuple[str, str] = ("first", "second"),
    cells: int = CELLS,
    confidence: float = 0.95,
    seed: int = 0,
) -> Transfer:
    """Compare the scores of two models: rank correlation, correlation, histogram, and which model is less confused.

    Args:
        first: :class:`Scores`, :class:`hardpan.Predictions` or what its ``open`` opens, or (N,) numbers.
        second: likewise; scores and predictions are joined by id, numbers by position.
        names: of the models.
        cells: of the histogram on each axis, at most.
        confidence: level of the intervals.
        seed: of the bootstrap.

    Source: Albiero et al. (2023), section 3.2 and Figure 3.

    Example:
        >>> import numpy as np
        >>> one = np.linspace(0, 3, 50)
        >>> found = transfer(one, 0.8 * one)
        >>> round(found.tau.value, 6), found.below.value, int(found.counts.sum())
        (1.0, 1.0, 50)
    """
    first, second = (_scores_to_transfer(item) for item in (first, second))
    if isinstance(first, Scores) and isinstance(second, Scores):
        a_rows, b_rows = common_rows(first, second, names)
        a, b = first.values[a_rows], second.values[b_rows]
        if first.base != second.base:
            raise InputError(f"must have one base; got {first.base:g} and {second.base:g}", argument="scores")
    else:
        a, b = score_values(first), score_values(second)
    largest = [item.largest for item in (first, second) if isinstance(item, Scores)]
    top = max([float(a.max()), float(b.max()), 1e-9, *largest])
    edges = round_edges(top, cells)
    cells = len(edges) - 1
    inside = [np.clip(np.searchsorted(edges, row, side="right") - 1, 0, cells - 1) for row in (a, b)]
    counts = np.bincount(inside[0] * cells + inside[1], minlength=cells * cells).reshape(cells, cells)
    return Transfer(
        first=names[0],
        second=names[1],
        tau=stats.kendall_tau(a, b, confidence, resample=True, seed=seed),
        rho=stats.pearson(a, b, confidence=confidence, seed=seed),
        below=transfer_below_diagonal(a, b, confidence=confidence),
        examples=len(a),
        edges=edges,
        counts=counts,
    )


def _scores_to_transfer(item: Any) -> Any:
    """Scores of predictions, whatever form they have; (N,) numbers are scores already."""
    is_predictions = isinstance(item, (Predictions, str, os.PathLike)) or getattr(item, "ndim", 0) > 1
    return scores(item) if is_predictions else item


def transfer_below_diagonal(a: ArrayLike, b: ArrayLike, *, confidence: float = 0.95) -> Estimate:
    """Fraction of examples with a lower second than first score, among those that differ.

    Example:
        >>> transfer_below_diagonal([1.0, 2.0, 3.0, 4.0], [0.5, 1.0, 3.5, 4.0]).value.__round__(4)
        0.6667
    """
    x, y = score_values(a), score_values(b)
    below, above = int(np.count_nonzero(y < x)), int(np.count_nonzero(y > x))
    if below + above == 0:
        return Estimate(0.5, 0.0, 0.0, 1.0, confidence=confidence, method="no example differs", n=0)
    return stats.share(below, below + above, confidence)


def common_rows(
    first: Scores, second: Scores, names: tuple[str, str] = ("first", "second")
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row numbers of the examples that both have scored, joined by id; refuses two that share none."""
    unnamed = [ROW_ID.fullmatch(str(item.ids[0])) for item in (first, second)]
    if all(unnamed) and len(first) != len(second):
        raise InputError(
            f"{names[0]} and {names[1]}: have no ids, and {len(first):,} and {len(second):,} rows; "
            "record or import them with ids"
        )
    _, a, b = np.intersect1d(first.ids, second.ids, assume_unique=True, return_indices=True)
    if not len(a):
        raise InputError(f"{names[0]} and {names[1]}: share no example id; score both on the same dataset")
    order = np.argsort(a, kind="stable")
    return a[order].astype(np.int64), b[order].astype(np.int64)
