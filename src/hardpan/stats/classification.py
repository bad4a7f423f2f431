"""Metrics of classifiers with intervals: paired gain, balanced error, AUROC, average precision."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hardpan.arguments import check_confidence
from hardpan.estimates import Estimate
from hardpan.stats.intervals import clustered_stderr, grouped_share, normal, share, tango_limits

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
AVERAGE_PRECISION_DRAWS = 400


def paired_gain(
    first: NDArray[np.bool_], second: NDArray[np.bool_], group: Labels | None = None, confidence: float = 0.95
) -> Estimate:
    """The error of the first minus that of the second on the same rows.

    Tango's score interval; of rows in groups, a normal one with the variance of group totals.

    Args:
        first: (n,) where the first is wrong.
        second: (n,) where the second is wrong.
        group: (n,) independent groups, if the rows come in groups.
        confidence: level of the interval.

    Example:
        >>> paired_gain(np.arange(50) < 20, np.arange(50) < 10).value
        0.2
    """
    difference, n = first.astype(np.float64) - second, len(first)
    value = float(difference.mean())
    if group is None:
        ahead, behind = int((first & ~second).sum()), int((second & ~first).sum())
        low, high = tango_limits(ahead, behind, n, confidence)
        spread = float(difference.std() / np.sqrt(n))
        return Estimate(value, spread, low, high, confidence, "paired difference (Tango)", n)
    number = np.unique(group, return_inverse=True)[1].ravel()
    sums = np.bincount(number, difference - value).astype(np.float64)
    spread = float(clustered_stderr(sums, n)) if len(sums) > 1 else 1.0
    return normal(value, spread, n, confidence, method="paired difference by group", df=max(1, len(sums) - 1))


def balanced_error(
    labels: Labels, answers: Labels, confidence: float = 0.95, *, group: Labels | None = None
) -> Estimate:
    """The mean over classes of the error within the class, Σ_c e_c/K.

    Its interval combines those of the K errors (Zou and Donner's MOVER):
    √(Σ_c (e_c − low_c)²)/K below the value, and likewise above it.

    Args:
        labels: (n,) class numbers; classes without rows are left out.
        answers: (n,) those that a model answers.
        confidence: level of the interval.
        group: (n,) independent groups, if the rows come in groups.

    Source: Zou and Donner (2008), Construction of confidence limits about effect measures.

    Example:
        >>> balanced_error(np.array([0] * 8 + [1, 1]), np.zeros(10, dtype=int)).value
        0.5
    """
    errors = [
        share(int((answers[rows] != c).sum()), len(rows), confidence)
        if group is None
        else grouped_share(answers[rows] != c, group[rows], confidence)
        for c in np.unique(labels)
        if len(rows := np.flatnonzero(labels == c))
    ]
    k, value = len(errors), float(np.mean([item.value for item in errors]))
    below, above, spread = (
        float(np.sqrt(sum(x**2 for x in parts))) / k
        for parts in (
            [item.value - item.low for item in errors],
            [item.high - item.value for item in errors],
            [item.stderr for item in errors],
        )
    )
    ends = max(0.0, value - below), min(1.0, value + above)
    return Estimate(value, spread, *ends, confidence, "mean of the errors by class (MOVER)", len(labels))


def auroc(
    positive: ArrayLike, score: ArrayLike, confidence: float = 0.95, *, group: Labels | None = None
) -> Estimate:
    """The area under the ROC curve: P(score of a positive > score of a negative) + P(equal)/2.

    The variance is the mean of DeLong's, of rows in groups Obuchowski's (that of Σ_i (V_i − A)/m + Σ_j (V_j − A)/n
    over groups with the placements V of the m positives and n negatives), and Hanley and McNeil's for exponential
    scores: of few positives near A = 1, DeLong's alone is too small in one of six draws. The interval is that of
    Clopper and Pearson for the number of rows A(1 − A)/variance; where all pairs are in order, min(m, n).

    Args:
        positive: (n,) booleans, of both kinds.
        score: (n,) numbers.
        confidence: level of the interval.
        group: (n,) independent groups, if the rows come in groups.

    Source: DeLong, DeLong and Clarke-Pearson (1988); Hanley and McNeil (1982); Obuchowski (1997), Nonparametric
    analysis of clustered ROC curve data.

    Example:
        >>> auroc([False, False, True, True], [0.1, 0.4, 0.35, 0.8]).value
        0.75
    """
    own, value = np.asarray(positive, dtype=bool), np.asarray(score, dtype=np.float64)
    m, n = int(own.sum()), int((~own).sum())
    high, low = np.sort(value[own]), np.sort(value[~own])
    rank = np.empty(len(own))
    rank[own] = (np.searchsorted(low, value[own], "left") + np.searchsorted(low, value[own], "right")) / (2 * n)
    below = np.searchsorted(high, value[~own], "left") + np.searchsorted(high, value[~own], "right")
    rank[~own] = 1 - below / (2 * m)
    area = float(rank[own].mean())
    if group is None:
        variance = sum(float(rank[side].var(ddof=1)) / size for side, size in ((own, m), (~own, n)) if size > 1)
    else:
        number = np.unique(group, return_inverse=True)[1].ravel()
        sums = np.bincount(number, (rank - area) / np.where(own, m, n))
        variance = len(sums) / max(1, len(sums) - 1) * float((sums**2).sum())
    both = area / (2 - area) - area**2, 2 * area**2 / (1 + area) - area**2
    smooth = (area * (1 - area) + (m - 1) * both[0] + (n - 1) * both[1]) / (m * n)
    size = float(min(m, n) if group is None else min(m, n, len(sums)))
    variance = (variance + smooth) / 2
    return _ratio_estimate(area, variance, size, float(max(m, n)), confidence, "DeLong", len(own))


def average_precision(
    positive: ArrayLike,
    score: ArrayLike,
    confidence: float = 0.95,
    *,
    group: Labels | None = None,
    seed: int = 0,
) -> Estimate:
    """The average precision Σ_t (R_t − R_{t−1}) P_t over the thresholds t, with R the recall and P the precision.

    The standard error is that of 400 bootstrap samples of the rows, or of the groups; the interval is that of
    Clopper and Pearson for as many rows as have this standard error, at most the number of positive rows.

    Args:
        positive: (n,) booleans, of both kinds.
        score: (n,) numbers.
        confidence: level of the interval.
        group: (n,) independent groups, if the rows come in groups.
        seed: of the bootstrap.

    Example:
        >>> round(average_precision([False, False, True, True], [0.1, 0.4, 0.35, 0.8]).value, 3)
        0.833
    """
    own, value = np.asarray(positive, dtype=bool), np.asarray(score, dtype=np.float64)
    order = np.argsort(-value, kind="stable")
    hits, ends = own[order].astype(np.float64), np.append(np.flatnonzero(np.diff(value[order])), len(own) - 1)

    def area(weight: Floats) -> float:
        hits_above, seen = np.cumsum(weight * hits)[ends], np.cumsum(weight)[ends]
        if not hits_above[-1]:
            return 0.0
        gained = np.diff(hits_above, prepend=0.0)
        return float((gained * hits_above / np.maximum(seen, 1e-300)).sum() / hits_above[-1])

    rng, n = np.random.default_rng([seed, 96]), len(own)
    number = np.arange(n) if group is None else np.unique(group, return_inverse=True)[1].ravel()
    number, groups = number[order], int(number.max()) + 1
    draws = [
        area(np.bincount(rng.integers(0, groups, groups), minlength=groups)[number].astype(np.float64))
        for _ in range(AVERAGE_PRECISION_DRAWS)
    ]
    most = float(own.sum())
    if group is not None:
        most = min(most, float(len(np.unique(np.asarray(group)[own]))))
    precision = area(np.ones(n))
    method = f"bootstrap of {AVERAGE_PRECISION_DRAWS} samples"
    return _ratio_estimate(precision, float(np.var(draws)), most, most, confidence, method, n)


def _ratio_estimate(
    value: float, variance: float, least: float, most: float, confidence: float, method: str, n: int
) -> Estimate:
    """A number in 0..1 with Clopper and Pearson's interval for the number of rows that has this variance."""
    size = least if variance <= 0 else min(most, max(1.0, value * (1 - value) / variance))
    if value in (0.0, 1.0):
        size = least
    tail, hits = (1 - check_confidence(confidence)) / 2, value * size
    low = 0.0 if value <= 0 else float(special.betaincinv(hits, size - hits + 1.0, tail))
    high = 1.0 if value >= 1 else float(special.betainccinv(hits + 1.0, size - hits, tail))
    return Estimate(value, float(np.sqrt(variance)), low, high, confidence, method, n)
