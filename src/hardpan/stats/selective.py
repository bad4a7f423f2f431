"""Selective prediction: the error of what is kept as the hardest examples are left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.errors import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RiskCoverage:
    """The area under the risk–coverage curve of a difficulty score.

    Attributes:
        aurc: area of this score; lower is better.
        oracle: area of a score that ranks every error above every correct answer.
        chance: area of a score without information: the error itself.
    """

    aurc: float
    oracle: float
    chance: float


def risk_coverage(scores: ArrayLike, correct: ArrayLike) -> RiskCoverage:
    """Area under the risk–coverage curve: mean over k = 1..n of the error among the k easiest examples.

    Examples with equal scores are in random order, and the area is its expectation over that order.

    Args:
        scores: (n,) numbers, higher for harder.
        correct: (n,) right or wrong.

    Source: Geifman and El-Yaniv, "Selective classification for deep neural networks" (2017).

    Example:
        >>> found = risk_coverage([0.1, 0.2, 0.3, 0.4], [True, True, True, False])
        >>> found.aurc == found.oracle, found.aurc, found.chance
        (True, 0.0625, 0.25)
        >>> risk_coverage([0.5, 0.5, 0.5, 0.5], [True, True, True, False]).aurc
        0.25
    """
    values, right = np.asarray(scores, dtype=np.float64), np.asarray(correct)
    if values.ndim != 1 or not values.size or right.shape != values.shape:
        raise InputError(
            f"must be rows of one length; got {values.shape} and {right.shape}", argument=("scores", "correct")
        )
    wrong = (~right.astype(bool)).astype(np.float64)
    order = np.argsort(-values, kind="stable")
    ordered = values[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    size = np.diff([*first, len(values)]).astype(np.float64)[None]
    failed = np.add.reduceat(wrong[order], first)[None]
    return RiskCoverage(float(aurc(size, failed)[0]), oracle_aurc(wrong), float(wrong.mean()))


def aurc(size: Floats, wrong: Floats) -> Floats:
    """Expected area under the risk–coverage curve of b weightings of groups of equal scores, hardest group first.

    With E errors among K examples easier than a group of m examples with f errors, the group adds
    Σ_{j=1..m} (E + j f/m)/(K + j) = f + (E − K f/m) h, h = H_{K+m} − H_K with harmonic numbers H.

    Args:
        size: (b, g) whole numbers of examples by group.
        wrong: (b, g) how many of them are errors.
    """
    remaining = np.cumsum(size[:, ::-1], axis=1)[:, ::-1] - size
    failed = np.cumsum(wrong[:, ::-1], axis=1)[:, ::-1] - wrong
    n = size.sum(axis=1)
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1.0, float(n.max()) + 1.0))])
    below = remaining.astype(np.int64)
    h = np.where(size == 1, 1.0 / (remaining + 1.0), harmonic[below + size.astype(np.int64)] - harmonic[below])
    rate = np.divide(wrong, size, out=np.zeros(size.shape), where=size > 0)
    total: Floats = (wrong + (failed - remaining * rate) * h).sum(axis=1)
    return np.asarray(total / n)


def oracle_aurc(wrong: ArrayLike) -> float:
    """The area of a score that leaves out every error first.

    Example:
        >>> oracle_aurc([True, False, False, False])
        0.0625
    """
    ordered = np.sort(np.asarray(wrong, dtype=np.float64))
    return float((np.cumsum(ordered) / np.arange(1, len(ordered) + 1)).mean())
