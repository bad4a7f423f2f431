"""Sampling errors of mean scores: groups of items, standard errors, intervals, tests of all pairs of models."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from hardpan.errors import InputError
from hardpan.outcomes import Outcomes
from hardpan.predictions.predictions import Predictions
from hardpan.safe_files import few
from hardpan.stats import clopper_pearson, normal_quantile
from hardpan.tables import is_frame

Floats = NDArray[np.float64]
FEW_ITEMS = 300  # below, intervals are exact or by bootstrap-t, not normal
FEW_EVENTS = 15  # likewise where fewer answers than this are right, or wrong
FEW_GROUPS = 20
LARGE_GROUP = 0.1
FLAT = 1e-12  # a standard error below this is rounding: all values are equal
_COLUMNS = 4096
_ROUNDING = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The groups of the items: the name of the column, (N,) codes 0..G−1, and their sizes (G,)."""

    name: str
    codes: NDArray[np.int64]
    sizes: Floats

    @property
    def count(self) -> int:
        """G, how many groups there are."""
        return len(self.sizes)

    def indicator(self) -> sparse.csr_array:
        """(N, G) with 1 where an item belongs to a group."""
        n = len(self.codes)
        return sparse.csr_array((np.ones(n), (np.arange(n), self.codes)), shape=(n, self.count))

    def deviations(self, scores: Floats, mean: Floats) -> Floats:
        """(M, G) sums over the items of a group of scores (M, N) minus the models' means (M,)."""
        return np.asarray((self.indicator().T @ scores.T).T) - mean[:, None] * self.sizes


def as_outcomes(source: object, *, models: int = 1, items: int = 1) -> Outcomes:
    """Outcomes, of predictions, or of what ``Outcomes.open`` opens, with at least so many models and items."""
    if isinstance(source, Predictions):
        source = source.outcomes()
    if not isinstance(source, (Outcomes, str, os.PathLike, list, tuple, Mapping, np.ndarray)) and not is_frame(
        source
    ):
        raise InputError(
            f"must be hardpan.Outcomes, a path, an array or a table; got {type(source).__name__}",
            argument="outcomes",
        )
    outcomes = source if isinstance(source, Outcomes) else Outcomes.open(source)
    if outcomes.totals is not None:
        raise InputError(
            "outcomes has accuracies of whole test sets, not scores item by item; models cannot be compared on "
            "shared items: read logs or a table of items, or compare two test sets with hardpan testbed compare"
        )
    for what, count, least in (("models", outcomes.n_models, models), ("items", outcomes.n_items, items)):
        if count < least:
            raise InputError(f"must have at least {least} {what}; got {count:,}", argument="outcomes")
    return outcomes


def item_groups(outcomes: Outcomes, group: str | None = None) -> Groups | None:
    """The groups of a column; without its name, those of the first column with fewer groups than items, or None."""
    if group is not None and group not in outcomes.groups:
        known = few(list(outcomes.groups)) if outcomes.groups else "none"
        raise InputError(f"must be a column of item groups (known: {known}); got {group!r}", argument="group")
    for name in outcomes.groups if group is None else (group,):
        labels, codes = np.unique(np.asarray(outcomes.groups[name]).astype(np.str_), return_inverse=True)
        if len(labels) >= 2 and (group is not None or len(labels) < outcomes.n_items):
            return Groups(name, codes.astype(np.int64), np.bincount(codes).astype(np.float64))
    if group is not None:
        raise InputError(f"must be a column with 2 or more groups; {group!r} has one", argument="group")
    return None


def group_counts(groups: Groups | None) -> dict[str, Any]:
    """The fields of a result on its groups: how many, whether they are few, and whether one is large."""
    if groups is None:
        return {"groups": 0, "few_groups": False, "large_group": False}
    large = bool(groups.sizes.max() > LARGE_GROUP * groups.sizes.sum())
    return {"groups": groups.count, "few_groups": groups.count < FEW_GROUPS, "large_group": large}


def column_blocks(count: int) -> Iterator[slice]:
    """Slices of the items, a few thousand at a time, so that no second matrix of the scores is held."""
    for start in range(0, count, _COLUMNS):
        yield slice(start, min(start + _COLUMNS, count))


def clustered_stderr(sums: Floats, total: float) -> Floats:
    """SE of a mean from sums of deviations per group: √(G/(G−1) Σ_g (Σ_{i∈g}(s_i − s̄))²)/n, along the last axis.

    Args:
        sums: (..., G) Σ_{i∈g} (s_i − s̄).
        total: n.
    """
    count = sums.shape[-1]
    return np.asarray(np.sqrt(count / (count - 1) * (sums**2).sum(axis=-1)) / total)


def jackknife_stderr(sums: Floats, sizes: Floats) -> Floats:
    """SE of a mean by leaving out one group at a time: √((G−1)/G Σ_g (Σ_{i∈g}(s_i − s̄)/(n − n_g))²).

    Equal to :func:`clustered_stderr` for groups of one size, larger for unequal ones.
    """
    count = len(sizes)
    rest = np.maximum(sizes.sum() - sizes, 1.0)
    return np.asarray(np.sqrt((count - 1) / count * ((sums / rest) ** 2).sum(axis=-1)))


def bootstrap_t(
    values: Floats, confidence: float, *, resamples: int = 4000, seed: int = 0
) -> tuple[Floats, Floats, Floats]:
    """Bootstrap-t limits of row means: x̄ − q·SE with q the quantiles of t* = (x̄* − x̄)/SE* over resampled columns.

    Args:
        values: (M, n), resampled jointly.
        confidence: level of each interval.
        resamples: how many.
        seed: of the draws.

    Returns:
        (low, high, p), each (M,); p is the two-sided p-value that the mean is 0, from the share of |t*| above |t|.
    """
    n = values.shape[1]
    centre = values.mean(axis=1, keepdims=True)
    shifted = values - centre
    error = values.std(axis=1, ddof=1) / np.sqrt(n)
    counts = np.random.default_rng([seed, 0]).multinomial(n, np.full(n, 1 / n), size=resamples) / n
    mean = counts @ shifted.T
    variance = np.maximum(counts @ (shifted**2).T - mean**2, 0.0) * n / (n - 1)
    # A resample without spread says nothing about the tail; half of the smallest possible spread keeps it finite.
    spread = np.sqrt(np.maximum(variance, (error**2 * n / 100)[None, :]) / n)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(spread > 0, mean / spread, 0.0)
    tail = (1 - confidence) / 2
    upper, lower = np.quantile(t, [1 - tail, tail], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        beyond = np.abs(t) >= np.where(error > 0, np.abs(centre[:, 0]) / error, 0.0)
    p = (1 + beyond.sum(axis=0)) / (resamples + 1)
    return centre[:, 0] - upper * error, centre[:, 0] - lower * error, p


def proportion_limits(right: Floats, total: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Limits of shares: exact for few items or few events, else normal."""
    share = right / total
    reach = normal_quantile(confidence) * np.sqrt(share * (1 - share) / np.maximum(total - 1, 1))
    exact = clopper_pearson(right, total, confidence)
    few = (total < FEW_ITEMS) | (np.minimum(right, total - right) < FEW_EVENTS)
    return np.where(few, exact[0], share - reach), np.where(few, exact[1], share + reach)


def constant_limits(
    value: Floats | float, units: Floats | float, confidence: float, least: float = 0.0
) -> tuple[Floats, Floats]:
    """Limits of a mean between ``least`` and 1 where all of the units have the same value.

    At most 1 − ((1 − confidence)/2)^(1/units) of all units may have another one: Clopper–Pearson for 0 and 1.
    """
    other = 1 - ((1 - confidence) / 2) ** (1 / np.maximum(np.asarray(units, dtype=np.float64), 1.0))
    rest = np.asarray(value) * (1 - other)
    return rest + least * other, rest + other


@dataclass(frozen=True, slots=True, eq=False)
class PairTests:
    """Paired tests of all models against all, each (M, M), row minus column on the items that both have.

    Attributes:
        difference: mean difference; NaN where no item is shared.
        stderr: its standard error; 0 where all differences are equal.
        p_value: two-sided; 1 where the standard error is 0 or too few items are shared.
        shared: how many items both have.
        exact: whether the p-values are McNemar's.
    """

    difference: Floats
    stderr: Floats
    p_value: Floats
    shared: NDArray[np.int64]
    exact: bool


def all_pairs(scores: Floats, groups: Groups | None, *, binary: bool) -> PairTests:
    """Paired tests of all pairs by matrix products over the items, a few thousand items at a time.

    Without groups: t with n − 1 degrees of freedom on the shared items, or McNemar's exact test for right and
    wrong. With groups: the delete-a-group jackknife (:func:`jackknife_stderr`) and t with G − 1.

    Args:
        scores: (M, N), NaN missing.
        groups: of the items, or None.
        binary: whether scores are 0 and 1.
    """
    known = np.isfinite(scores)
    complete = bool(known.all())
    if groups is None:
        sums = _item_sums(scores, None if complete else known)
        difference, square, shared = sums
        with np.errstate(invalid="ignore", divide="ignore"):
            variance = np.maximum(square - shared * difference**2, 0.0) / (shared - 1) / shared
        noise = _ROUNDING * np.maximum(square, 1.0) / np.maximum(shared, 1.0) ** 2
        degrees = shared - 1
        if binary:
            apart = np.rint(square)
            fewer = np.rint((apart - np.abs(np.rint(shared * np.nan_to_num(difference)))) / 2)
            p = _mcnemar(fewer.astype(np.int64), apart.astype(np.int64))
            return PairTests(difference, _root(variance, noise), p, shared.astype(np.int64), True)
    else:
        difference, variance, shared, degrees, noise = (
            _group_sums(scores, groups) if complete else _group_sums_missing(scores, known, groups)
        )
    stderr = _root(variance, noise)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(stderr > 0, np.abs(difference) / stderr, 0.0)
        p = np.where((degrees >= 1) & (stderr > 0), 2 * special.stdtr(np.maximum(degrees, 1), -t), 1.0)
    return PairTests(difference, stderr, p, shared.astype(np.int64), False)


def _mcnemar(fewer: NDArray[np.int64], apart: NDArray[np.int64]) -> Floats:
    """McNemar's exact p-values; each pair of counts is computed once where a table of them is smaller."""
    size = int(apart.max()) + 1
    if size**2 > fewer.size:
        return np.asarray(np.minimum(1.0, 2 * special.bdtr(fewer.astype(np.float64), apart, 0.5)))
    table = special.bdtr(np.arange(size, dtype=np.float64)[:, None], np.arange(size), 0.5)
    return np.asarray(np.minimum(1.0, 2 * table[fewer, apart]))


def _root(variance: Floats, noise: Floats) -> Floats:
    return np.asarray(np.sqrt(np.where(variance > noise, variance, np.where(np.isnan(variance), np.nan, 0.0))))


def _item_sums(scores: Floats, known: NDArray[np.bool_] | None) -> tuple[Floats, Floats, Floats]:
    """Mean difference, sum of squared differences and number of shared items of all pairs."""
    m, n = scores.shape
    cross, totals = np.zeros((m, m)), np.zeros(m)
    if known is None:
        centre = scores.mean(axis=1, keepdims=True)
        for columns in column_blocks(n):
            block = scores[:, columns] - centre
            cross += block @ block.T
        own = np.diag(cross)
        difference = centre - centre.T
        return difference, own[:, None] + own - 2 * cross + n * difference**2, np.full((m, m), float(n))
    shared, first, square = np.zeros((m, m)), np.zeros((m, m)), np.zeros((m, m))
    for columns in column_blocks(n):
        mask = known[:, columns].astype(np.float64)
        block = np.where(known[:, columns], scores[:, columns], 0.0)
        shared += mask @ mask.T
        first += block @ mask.T
        square += (block * block) @ mask.T
        cross += block @ block.T
        totals += block.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        difference = np.where(shared > 0, (first - first.T) / shared, np.nan)
    return difference, square + square.T - 2 * cross, shared


def _group_sums(scores: Floats, groups: Groups) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    m, n = scores.shape
    centre = scores.mean(axis=1)
    weighted = groups.deviations(scores, centre) * np.sqrt((groups.count - 1) / groups.count) / (n - groups.sizes)
    cross = weighted @ weighted.T
    own = np.diag(cross)
    variance = np.maximum(own[:, None] + own - 2 * cross, 0.0)
    shape = (m, m)
    return (
        centre[:, None] - centre,
        variance,
        np.full(shape, float(n)),
        np.full(shape, groups.count - 1.0),
        _ROUNDING * (own[:, None] + own),
    )


def _group_sums_missing(
    scores: Floats, known: NDArray[np.bool_], groups: Groups
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """As :func:`_group_sums`, on the items that both models of a pair have; one pass, polynomial in the difference.

    Σ_g w_g (D_g − d n_g)² with D_g the sum of differences in group g and w_g = (G−1)/G/(n − n_g)² is a
    quadratic in d whose coefficients are sums over groups.
    """
    difference, square, shared = _item_sums(scores, known)
    m = len(scores)
    count, terms = np.zeros((m, m)), np.zeros((3, m, m))
    order = np.argsort(groups.codes, kind="stable")
    for columns in np.split(order, np.cumsum(groups.sizes.astype(np.int64))[:-1]):
        mask = known[:, columns].astype(np.float64)
        block = np.where(known[:, columns], scores[:, columns], 0.0)
        size, first = mask @ mask.T, block @ mask.T
        apart = first - first.T
        weight = 1.0 / np.maximum(shared - size, 1.0) ** 2
        count += size > 0
        terms += weight * np.stack([apart * apart, size * apart, size * size])
    d = np.nan_to_num(difference)
    factor = (count - 1) / np.maximum(count, 1)
    variance = np.maximum(factor * (terms[0] - 2 * d * terms[1] + d * d * terms[2]), 0.0)
    usable = (count >= 2) & np.isfinite(difference)
    noise = _ROUNDING * np.maximum(square, 1.0) / np.maximum(shared, 1.0) ** 2
    return difference, np.where(usable, variance, np.nan), shared, np.where(usable, count - 1, 0.0), noise
