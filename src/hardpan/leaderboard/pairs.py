"""Paired differences of models: of two, and of all against all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hardpan.arguments import check_confidence
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.leaderboard.item_groups import ItemGroups, item_group_counts, item_groups
from hardpan.outcomes import Outcomes
from hardpan.report import Report
from hardpan.stats.hypothesis_tests import mcnemar, smallest_difference, smallest_difference_by_t
from hardpan.stats.intervals import (
    FEW_EXAMPLES,
    bootstrap_t_limits,
    clopper_pearson,
    clustered_stderr,
    constant_limits,
    jackknife_stderr,
    normal,
    tango_limits,
)

Floats = NDArray[np.float64]
FLAT = 1e-12  # a standard error below this is rounding: all values are equal
_COLUMNS = 4096
_ROUNDING = 1e-10


@record(eq=False, dropped=("stderr_repeats",))
class PairedComparison(Report):
    """The scores of two models on the items that both have.

    Attributes:
        first: name of the first model.
        second: name of the second model.
        score_first: its mean on the shared items.
        score_second: likewise.
        difference: first − second with its interval; clustered where ``cluster`` is set.
        stderr: naive standard error of the difference, items as independent.
        stderr_clustered: by the group column ``cluster``; NaN without it.
        p_value: two-sided, that the difference is 0.
        mcnemar: McNemar's exact p-value where scores are 0 and 1, else NaN.
        only_first: how many items the first model scores higher on.
        only_second: how many items the second model scores higher on.
        items: number of shared items.
        missing: number of items that one of them lacks.
        cluster: the group column that the interval follows, or "".
        groups: number of groups among the shared items, 0 without groups.
        few_groups: whether there are fewer than 20 groups.
        large_group: whether one group has more than a tenth of the items.
        smallest_difference: the true difference that this test finds with a power of 0.8 where as many answers
            differ; NaN where it finds none.
        items_needed: how many items would detect a difference as large as this one with a power of 0.8.
        differing: ids of the items on which the scores differ, largest difference first.
        scores: (items that differ, 2) their scores.
        notes: what the reader of the scores reported.
    """

    first: str
    second: str
    score_first: float
    score_second: float
    difference: Estimate
    stderr: float
    stderr_clustered: float
    p_value: float
    mcnemar: float
    only_first: int
    only_second: int
    items: int
    missing: int
    cluster: str
    groups: int
    few_groups: bool
    large_group: bool
    smallest_difference: float
    items_needed: float
    differing: NDArray[np.str_]
    scores: Floats
    notes: tuple[str, ...] = ()


def compare(
    outcomes: object,
    first: str | int,
    second: str | int,
    *,
    group: str | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> PairedComparison:
    """The paired difference of two models, d̄ = mean over shared items of s_first,i − s_second,i.

    SE² = Σ_i (d_i − d̄)²/(n(n−1)); with ``group`` the same over groups of items, G/(G−1) Σ_g (Σ_{i∈g}(d_i −
    d̄))²/n², and an interval from Student's t with G − 1 degrees of freedom and the delete-a-group jackknife.
    Items that come in groups are clustered unless ``group`` is "".
    Right and wrong: McNemar's exact test, and Tango's score interval, widened so that it excludes 0 only where the
    test does. Fractions: Student's t, below 300 items joined with bootstrap-t.

    Args:
        outcomes: :class:`hardpan.Outcomes`, or what its ``open`` opens: scores of the models.
        first: a model, by name or row.
        second: another one.
        group: column of item groups by which the interval is clustered; by default the first with at least 5
            groups; "" for items as independent.
        confidence: level of the interval.
        seed: of the bootstrap.

    Source: Miller, "Adding error bars to evals" (2024); Tango, "Equivalence test and confidence interval for the
    difference in proportions for the paired-sample design" (1998).

    Example:
        >>> scores = [[1, 1, 1, 1, 1, 1, 1, 1, 0, 1], [1, 0, 0, 1, 0, 1, 0, 0, 0, 1]]
        >>> result = compare(Outcomes.from_arrays(scores, models=["a", "b"]), "a", "b")
        >>> result.difference.value, round(result.mcnemar, 4)
        (0.5, 0.0625)
    """
    outcomes = Outcomes.of_items(outcomes, models=2)
    level = check_confidence(confidence)
    rows = [outcomes.index(first), outcomes.index(second)]
    if rows[0] == rows[1]:
        raise InputError(
            f"must be two models; got {outcomes.models[rows[0]]!r} twice", argument=("first", "second")
        )
    pair = outcomes.select(models=rows)
    scores = pair.item_scores()
    shared = np.isfinite(scores).all(axis=0)
    n = int(shared.sum())
    names = pair.models
    if n < 2:
        raise InputError(f"{names[0]} and {names[1]} share {n} items; a paired comparison needs at least 2")
    pair, a = pair.select(items=shared), scores[:, shared]
    d = a[0] - a[1]
    value, stderr = float(d.mean()), float(d.std(ddof=1) / np.sqrt(n))
    binary = pair.n_repeats == 1 and bool(np.isin(a, (0.0, 1.0)).all())
    ahead, behind = int((d > 0).sum()), int((d < 0).sum())
    exact = float(mcnemar(ahead, behind)) if binary else float("nan")
    groups = item_groups(pair, group)
    interval, p = paired_difference(d, groups, level, binary=binary, seed=seed)
    clustered = float("nan")
    if groups is not None:
        sums = np.bincount(groups.codes, d - value, groups.count).astype(np.float64)
        clustered = float(clustered_stderr(sums, n))
        least = smallest_difference_by_t(float(jackknife_stderr(sums, groups.sizes)), groups.count - 1, 1 - level)
    elif binary:
        least = smallest_difference((ahead + behind) / n, n, 1 - level)
    else:
        least = smallest_difference_by_t(stderr, n - 1, 1 - level)
    differing = np.flatnonzero(d)
    differing = differing[np.argsort(-np.abs(d[differing]), kind="stable")]
    return PairedComparison(
        first=names[0],
        second=names[1],
        score_first=float(a[0].mean()),
        score_second=float(a[1].mean()),
        difference=interval,
        stderr=stderr,
        stderr_clustered=clustered,
        p_value=p,
        mcnemar=exact,
        only_first=ahead,
        only_second=behind,
        items=n,
        missing=outcomes.n_items - n,
        cluster="" if groups is None else groups.name,
        **item_group_counts(groups),
        smallest_difference=least,
        items_needed=float(np.ceil(n * (least / value) ** 2)) if value and least else float("nan"),
        differing=pair.items[differing],
        scores=a[:, differing].T,
        notes=outcomes.notes,
    )


def paired_difference(
    d: Floats, groups: ItemGroups | None, level: float, *, binary: bool, seed: int = 0
) -> tuple[Estimate, float]:
    """Interval of a mean paired difference, and the p-value that it is 0, as :func:`compare` states them.

    Args:
        d: (n,) differences of the scores of two models.
        groups: of the items, by which the interval is clustered, or None.
        level: of the interval.
        binary: whether the scores are 0 and 1.
        seed: of the bootstrap for few fractions.
    """
    if groups is not None:
        return _clustered_pair_difference(d, groups, level)
    return _binary_pair_difference(d, level) if binary else _fractional_pair_difference(d, level, seed)


def _clustered_pair_difference(d: Floats, groups: ItemGroups, level: float) -> tuple[Estimate, float]:
    """Student's t with the delete-a-group jackknife, from the sums of d − d̄ over groups of items."""
    n, value = len(d), float(d.mean())
    sums = np.bincount(groups.codes, d - value, groups.count).astype(np.float64)
    stderr = float(clustered_stderr(sums, n))
    error, degrees = float(jackknife_stderr(sums, groups.sizes)), groups.count - 1
    method = f"t with {degrees} degrees of freedom, delete-a-group jackknife by {groups.name}"
    made = normal(value, error, n, level, least=-1.0, most=1.0, method=method, df=degrees)
    ends = (made.low, made.high) if error > FLAT else constant_limits(value, groups.count, level, -1.0)
    interval = Estimate(value, stderr, float(ends[0]), float(ends[1]), level, method, n)
    return interval, float(2 * special.stdtr(degrees, -abs(value) / error)) if error > 0 else 1.0


def _binary_pair_difference(d: Floats, level: float) -> tuple[Estimate, float]:
    """Tango's interval, joined with that of McNemar's test given how many answers differ: both must exclude 0."""
    n, ahead, behind = len(d), int((d > 0).sum()), int((d < 0).sum())
    ends = np.array([tango_limits(ahead, behind, n, level)])
    if apart := ahead + behind:
        conditional = 2 * np.array(clopper_pearson(ahead, apart, level)) - 1
        ends = np.vstack([ends, conditional * apart / n])
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    method = "Tango's score interval with McNemar's exact test"
    stderr = float(d.std(ddof=1) / np.sqrt(n))
    return Estimate(float(d.mean()), stderr, low, high, level, method, n), float(mcnemar(ahead, behind))


def _fractional_pair_difference(d: Floats, level: float, seed: int) -> tuple[Estimate, float]:
    """Student's t, for few items joined with bootstrap-t: one errs for skewed differences, one for rare ones."""
    n = len(d)
    value, stderr = float(d.mean()), float(d.std(ddof=1) / np.sqrt(n))
    if stderr <= FLAT:
        low, high = (float(end) for end in constant_limits(value, n, level, -1.0))
        return Estimate(value, stderr, low, high, level, "the same difference on all items", n), 1.0
    method = f"t with {n - 1} degrees of freedom"
    made = normal(value, stderr, n, level, least=-1.0, most=1.0, method=method, df=n - 1)
    p = float(2 * special.stdtr(n - 1, -abs(value) / stderr))
    if n >= FEW_EXAMPLES:
        return made, p
    lows, highs, resampled = bootstrap_t_limits(d[None], level, seed=seed)
    low, high = (float(end) for end in np.clip([min(made.low, lows[0]), max(made.high, highs[0])], -1.0, 1.0))
    method = f"{method}, with bootstrap-t over the items"
    return Estimate(value, stderr, low, high, level, method, n, seed), max(p, float(resampled[0]))


def column_blocks(count: int) -> Iterator[slice]:
    """Slices of the items, a few thousand at a time, so that no second matrix of the scores is held."""
    for start in range(0, count, _COLUMNS):
        yield slice(start, min(start + _COLUMNS, count))


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


def all_pairs(scores: Floats, groups: ItemGroups | None, *, binary: bool) -> PairTests:
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
        sums = _model_pair_sums(scores, None if complete else known, binary)
        difference, square, shared = sums
        with np.errstate(invalid="ignore", divide="ignore"):
            variance = np.maximum(square - shared * difference**2, 0.0) / (shared - 1) / shared
        noise = _ROUNDING * np.maximum(square, 1.0) / np.maximum(shared, 1.0) ** 2
        degrees = shared - 1
        if binary:
            apart = np.rint(square)
            fewer = np.rint((apart - np.abs(np.rint(shared * np.nan_to_num(difference)))) / 2)
            p, upper = np.ones(fewer.shape), np.triu_indices(len(fewer), 1)
            p[upper] = mcnemar(fewer[upper], (apart - fewer)[upper])
            np.minimum(p, p.T, out=p)
            return PairTests(difference, _stderr_or_zero(variance, noise), p, shared.astype(np.int64), True)
    else:
        difference, variance, shared, degrees, noise = (
            _pair_group_sums(scores, groups) if complete else _shared_pair_group_sums(scores, known, groups)
        )
    stderr = _stderr_or_zero(variance, noise)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(stderr > 0, np.abs(difference) / stderr, 0.0)
        p = np.where((degrees >= 1) & (stderr > 0), 2 * special.stdtr(np.maximum(degrees, 1), -t), 1.0)
    return PairTests(difference, stderr, p, shared.astype(np.int64), False)


def _stderr_or_zero(variance: Floats, noise: Floats) -> Floats:
    return np.asarray(np.sqrt(np.where(variance > noise, variance, np.where(np.isnan(variance), np.nan, 0.0))))


def _model_pair_sums(
    scores: Floats, known: NDArray[np.bool_] | None, binary: bool = False
) -> tuple[Floats, Floats, Floats]:
    """Mean difference, sum of squared differences and number of shared items of all pairs.

    Products of right and wrong are whole numbers, and exact in single precision within a block of items.
    """
    m, n = scores.shape
    cross, totals = np.zeros((m, m)), np.zeros(m)
    if known is None:
        centre = scores.mean(axis=1, keepdims=True)
        if binary:
            for columns in column_blocks(n):
                right = scores[:, columns].astype(np.float32)
                cross += right @ right.T
            own = np.diag(cross)
            return centre - centre.T, own[:, None] + own - 2 * cross, np.full((m, m), float(n))
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


def _pair_group_sums(scores: Floats, groups: ItemGroups) -> tuple[Floats, Floats, Floats, Floats, Floats]:
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


def _shared_pair_group_sums(
    scores: Floats, known: NDArray[np.bool_], groups: ItemGroups
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """As :func:`_pair_group_sums`, on the items that both models of a pair have, in one pass.

    Σ_g w_g (D_g − d n_g)² with D_g the sum of differences in group g and w_g = (G−1)/G/(n − n_g)² is a
    quadratic in d whose coefficients are sums over groups.
    """
    difference, square, shared = _model_pair_sums(scores, known)
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
