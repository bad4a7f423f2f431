"""Does what confuses one model confuse another? Scores of two models; errors of many by band of one's scores."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.confusion.banding import Bands, bands, round_edges, score_values
from hardpan.confusion.orders import below_diagonal, kendall, pearson
from hardpan.confusion.scoring import Scores
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record

CELLS = 40


@record
@dataclass(frozen=True, slots=True, eq=False)
class Transfer:
    """Two models' scores of the same examples.

    Attributes:
        first: name of the first model.
        second: name of the second.
        tau: Kendall's τ-b.
        rho: Pearson's ρ.
        below: share of examples, among those that differ, that confuse the second model less: below the diagonal.
        examples: how many both have scored.
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
    """Compare two models' scores: rank correlation, correlation, histogram, and who is confused less.

    Args:
        first: :class:`Scores` or (N,) numbers.
        second: likewise; two :class:`Scores` are joined by id, two rows of numbers by place.
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
    if isinstance(first, Scores) and isinstance(second, Scores):
        a_rows, b_rows = common_rows(first, second, names)
        a, b = first.values[a_rows], second.values[b_rows]
        if first.base != second.base:
            raise InputError(f"scores must have one base; got {first.base:g} and {second.base:g}")
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
        tau=kendall(a, b, confidence=confidence, seed=seed),
        rho=pearson(a, b, confidence=confidence, seed=seed),
        below=below_diagonal(a, b, confidence=confidence),
        examples=len(a),
        edges=edges,
        counts=counts,
    )


def common_rows(
    first: Scores, second: Scores, names: tuple[str, str] = ("first", "second")
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row numbers of the examples that both have scored, joined by id; refuses two that share none."""
    made_up = [scores.ids[0].startswith("row-0") for scores in (first, second)]
    if all(made_up) and len(first) != len(second):
        raise InputError(
            f"{names[0]} and {names[1]}: have no ids of their own, {len(first):,} and {len(second):,} examples; "
            "their rows cannot be matched; record or import them with ids"
        )
    _, a, b = np.intersect1d(first.ids, second.ids, assume_unique=True, return_indices=True)
    if not len(a):
        raise InputError(f"{names[0]} and {names[1]}: share no example id; score both on the same dataset")
    order = np.argsort(a, kind="stable")
    return a[order].astype(np.int64), b[order].astype(np.int64)


@record
@dataclass(frozen=True, slots=True)
class TargetErrors:
    """Errors of many models by band of one model's scores; a :class:`Bands` each, lowest overall error first."""

    scored_by: str
    targets: Mapping[str, Bands]


def target_errors(
    scores: Any,
    correct: Mapping[str, ArrayLike],
    *,
    scored_by: str = "",
    edges: Any = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> TargetErrors:
    """Errors of many target models by band of one model's confusion scores.

    Args:
        scores: (N,) scores of the small model.
        correct: (N,) or (S, N) right or wrong of each target, by name.
        scored_by: name of the small model.
        edges: of the bands, as for :func:`hardpan.confusion.bands`.
        confidence: level of the intervals.
        seed: of the bootstrap.

    Source: Albiero et al. (2023), Figure 4.

    Example:
        >>> import numpy as np
        >>> s = np.linspace(0, 1, 100)
        >>> found = target_errors(s, {"a": s < 0.7, "b": s < 0.9})
        >>> list(found.targets)
        ['b', 'a']
    """
    if not correct:
        raise InputError("correct must name at least one target model")
    found = {name: bands(scores, right, edges, confidence=confidence, seed=seed) for name, right in correct.items()}
    ordered = sorted(found, key=lambda name: found[name].error.value)
    return TargetErrors(scored_by, {name: found[name] for name in ordered})


def compact(item: Transfer) -> Transfer:
    """The same without the histogram, for printing."""
    return dataclasses.replace(item, edges=np.zeros(0), counts=np.zeros((0, 0), dtype=np.int64))
