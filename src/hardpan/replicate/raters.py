"""Agreement between many raters, and what is probably true given raters of unequal skill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.stats.intervals import check_confidence, whole_numbers


def krippendorff_alpha(
    counts: ArrayLike, *, confidence: float = 0.95, resamples: int = 1000, seed: int = 0
) -> Estimate:
    """Krippendorff's α for categories without order: 1 − observed / expected disagreement.

    With n_uc ratings of unit u in category c, m_u their sum, n the sum over units with m_u ≥ 2:
    observed = (1/n) Σ_u Σ_{c≠d} n_uc n_ud / (m_u − 1), expected = Σ_{c≠d} n_c n_d / (n (n − 1)).

    Args:
        counts: (units, categories), how many raters put each unit into each category.
        confidence: level of the percentile interval.
        resamples: bootstrap samples of units.
        seed: of them.

    Returns:
        α; NaN where every rating is the same.

    Source: Krippendorff, "Computing Krippendorff's alpha-reliability" (2011).

    Example:
        >>> krippendorff_alpha([[2, 0], [0, 2], [2, 0], [0, 2]]).value
        1.0
    """
    level = check_confidence(confidence)
    table = whole_numbers("counts", counts)
    if table.ndim != 2 or table.shape[1] < 2:
        raise InputError(f"counts must be (units, categories) with two categories or more; got shape {table.shape}")
    table = table[table.sum(axis=1) >= 2]
    if not len(table):
        raise InputError("counts: no unit has two ratings, so there is nothing to agree on")
    sizes = table.sum(axis=1)
    disagreements = (sizes**2 - (table**2).sum(axis=1)) / (sizes - 1.0)
    value = float(_alpha(disagreements.sum(), table.sum(axis=0)[None])[0])
    rng = np.random.default_rng([seed, 0])
    draws = np.empty(resamples)
    for start in range(0, resamples, 100):
        weights = rng.multinomial(len(table), np.full(len(table), 1 / len(table)), size=min(100, resamples - start))
        draws[start : start + 100] = _alpha(weights @ disagreements, weights @ table)
    good = draws[np.isfinite(draws)]
    error = float(good.std(ddof=1)) if len(good) > 1 else float("nan")
    low, high = np.quantile(good, [0.5 - level / 2, 0.5 + level / 2]) if len(good) > 1 else (np.nan, np.nan)
    return Estimate(
        value,
        error,
        float(low),
        float(high),
        confidence=level,
        method=f"Krippendorff α, {resamples:,} bootstrap samples of units",
        n=len(table),
        seed=seed,
    )


def beta_interval(
    selected: ArrayLike, votes: ArrayLike, confidence: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Equal-tailed limits of the Beta(k + ½, n − k + ½) posterior of a selection probability (Jeffreys' prior).

    The lower limit is 0 where k = 0 and the upper one 1 where k = n.

    Example:
        >>> low, high = beta_interval([7, 10], [10, 10])
        >>> low.round(3).tolist(), high.round(3).tolist()
        ([0.394, 0.783], [0.907, 1.0])
    """
    k, n = whole_numbers("selected", selected), whole_numbers("votes", votes)
    if (k > n).any():
        raise InputError("selected must not exceed votes")
    tail = (1.0 - check_confidence(confidence)) / 2.0
    low = np.where(k == 0, 0.0, special.betaincinv(k + 0.5, n - k + 0.5, tail))
    high = np.where(k == n, 1.0, special.betainccinv(k + 0.5, n - k + 0.5, tail))
    return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)


@record
@dataclass(frozen=True, slots=True, eq=False)
class DawidSkene:
    """What :func:`dawid_skene` returns.

    Attributes:
        probability: (items,) that the answer is yes.
        sensitivity: (workers,) probability of saying yes where it is.
        specificity: (workers,) probability of saying no where it is not.
        prevalence: share of items whose answer is yes.
        iterations: how many it took.
    """

    probability: NDArray[np.float64]
    sensitivity: NDArray[np.float64]
    specificity: NDArray[np.float64]
    prevalence: float
    iterations: int


def dawid_skene(
    items: ArrayLike, workers: ArrayLike, answers: ArrayLike, *, tolerance: float = 1e-7, most: int = 500
) -> DawidSkene:
    """Truth and skill from votes alone: each item is yes or no, each worker has a sensitivity and a specificity.

    Expectation–maximisation from the vote shares; rates get one imagined right and one wrong answer, so that none
    becomes 0 or 1.

    Args:
        items: (V,) item numbers 0..I−1 of the votes.
        workers: (V,) worker numbers 0..W−1.
        answers: (V,) yes or no.
        tolerance: the largest change of a probability at which it stops.
        most: iterations at the most.

    Source: Dawid and Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm" (1979).

    Example:
        >>> found = dawid_skene([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2], [1, 1, 0, 0, 0, 1])
        >>> found.probability.round().tolist()
        [1.0, 0.0]
    """
    i, w = np.asarray(items, dtype=np.int64), np.asarray(workers, dtype=np.int64)
    yes = np.asarray(answers, dtype=np.float64)
    if not (i.shape == w.shape == yes.shape) or i.ndim != 1 or not len(i):
        raise InputError("items, workers and answers must be rows of one length, not empty")
    size, crew = int(i.max()) + 1, int(w.max()) + 1
    probability = np.bincount(i, yes, size) / np.maximum(np.bincount(i, minlength=size), 1)
    sensitivity = specificity = np.zeros(crew)
    prevalence, count = 0.5, 0
    for count in range(1, most + 1):  # noqa: B007 - the last number is told
        p = probability[i]
        sensitivity = (np.bincount(w, p * yes, crew) + 1.0) / (np.bincount(w, p, crew) + 2.0)
        specificity = (np.bincount(w, (1 - p) * (1 - yes), crew) + 1.0) / (np.bincount(w, 1 - p, crew) + 2.0)
        prevalence = float((probability.sum() + 1.0) / (size + 2.0))
        a, b = sensitivity[w], specificity[w]
        odds = np.where(yes > 0, np.log(a) - np.log1p(-b), np.log1p(-a) - np.log(b))
        fresh = special.expit(np.bincount(i, odds, size) + special.logit(prevalence))
        change = float(np.abs(fresh - probability).max())
        probability = fresh
        if change < tolerance:
            break
    return DawidSkene(probability, sensitivity, specificity, prevalence, count)


def _alpha(disagreement: Any, totals: NDArray[np.float64]) -> NDArray[np.float64]:
    n = totals.sum(axis=1)
    expected = (n**2 - (totals**2).sum(axis=1)) / np.maximum(n - 1.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(expected > 0, 1.0 - disagreement / expected, np.nan), dtype=np.float64)
