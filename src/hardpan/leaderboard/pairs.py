"""Two models on the same items: the paired difference."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import brentq

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.leaderboard.sampling import (
    FEW_ITEMS,
    FLAT,
    Floats,
    Groups,
    as_outcomes,
    bootstrap_t,
    clustered_stderr,
    constant_limits,
    group_counts,
    item_groups,
    jackknife_stderr,
)
from hardpan.outcomes import Outcomes
from hardpan.report.base import Report
from hardpan.stats import clopper_pearson, mcnemar, normal, normal_quantile
from hardpan.stats.intervals import check_confidence

POWER = 0.8


@record(eq=False)
class PairedComparison(Report):
    """The scores of two models on the items that both have.

    Attributes:
        first: name of the first model.
        second: name of the second model.
        score_first: its mean on the shared items.
        score_second: likewise.
        difference: first − second with its interval; clustered where ``cluster`` is set.
        stderr: naive standard error of the difference, items as independent.
        stderr_clustered: by the group column ``cluster``; NaN without groups.
        stderr_repeats: the part of ``stderr`` that comes from repeated runs of an item; NaN with one run per cell.
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
        smallest_difference: the difference that a test of this size detects with a power of 0.8.
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
    stderr_repeats: float
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

    def __repr__(self) -> str:
        return f"PairedComparison({self.first} − {self.second}: {self.difference})"


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
    Right and wrong: McNemar's exact test, and Tango's score interval, widened so that it excludes 0 only where the
    test does. Fractions: Student's t, below 300 items joined with bootstrap-t.

    Args:
        outcomes: :class:`hardpan.Outcomes`, or what its ``open`` opens: scores of the models.
        first: a model, by name or row.
        second: another one.
        group: column of item groups by which the interval is clustered.
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
    outcomes = as_outcomes(outcomes, models=2)
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
    clustered = float("nan")
    if groups is not None:
        sums = np.bincount(groups.codes, d - value, groups.count).astype(np.float64)
        clustered = float(clustered_stderr(sums, n))
    if group is not None and groups is not None:
        interval, p, least = _clustered(value, sums, clustered, groups, n, level)
    else:
        interval, p = _exact(d, level) if binary else _fractions(d, level, seed)
        least = float((normal_quantile(level) + special.ndtri(POWER)) * stderr)
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
        stderr_repeats=_repeat_stderr(pair),
        p_value=p,
        mcnemar=exact,
        only_first=ahead,
        only_second=behind,
        items=n,
        missing=outcomes.n_items - n,
        cluster=group or "",
        **group_counts(groups),
        smallest_difference=least,
        items_needed=_needed(n, least, value),
        differing=pair.items[differing],
        scores=a[:, differing].T,
        notes=outcomes.notes,
    )


def _clustered(
    value: float, sums: Floats, stderr: float, groups: Groups, n: int, level: float
) -> tuple[Estimate, float, float]:
    """Interval, p-value and smallest detectable difference from the sums of d − d̄ over groups of items."""
    error, degrees = float(jackknife_stderr(sums, groups.sizes)), groups.count - 1
    method = f"t with {degrees} degrees of freedom, delete-a-group jackknife by {groups.name}"
    made = normal(value, error, n, level, least=-1.0, most=1.0, method=method, df=degrees)
    ends = (made.low, made.high) if error > FLAT else constant_limits(value, groups.count, level, -1.0)
    interval = Estimate(value, stderr, float(ends[0]), float(ends[1]), level, method, n)
    p = float(2 * special.stdtr(degrees, -abs(value) / error)) if error > 0 else 1.0
    return interval, p, float(special.stdtrit(degrees, 0.5 + level / 2) + special.stdtrit(degrees, POWER)) * error


def _exact(d: Floats, level: float) -> tuple[Estimate, float]:
    """Tango's interval, joined with that of McNemar's test given how many answers differ: both must exclude 0."""
    n, ahead, behind = len(d), int((d > 0).sum()), int((d < 0).sum())
    ends = np.array([tango(ahead, behind, n, level)])
    if apart := ahead + behind:
        conditional = 2 * np.array(clopper_pearson(ahead, apart, level)) - 1
        ends = np.vstack([ends, conditional * apart / n])
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    method = "Tango's score interval with McNemar's exact test"
    stderr = float(d.std(ddof=1) / np.sqrt(n))
    return Estimate(float(d.mean()), stderr, low, high, level, method, n), float(mcnemar(ahead, behind))


def _fractions(d: Floats, level: float, seed: int) -> tuple[Estimate, float]:
    """Student's t, for few items joined with bootstrap-t: one errs for skewed differences, one for rare ones."""
    n = len(d)
    value, stderr = float(d.mean()), float(d.std(ddof=1) / np.sqrt(n))
    if stderr <= FLAT:
        low, high = (float(end) for end in constant_limits(value, n, level, -1.0))
        return Estimate(value, stderr, low, high, level, "the same difference on all items", n), 1.0
    method = f"t with {n - 1} degrees of freedom"
    made = normal(value, stderr, n, level, least=-1.0, most=1.0, method=method, df=n - 1)
    p = float(2 * special.stdtr(n - 1, -abs(value) / stderr))
    if n >= FEW_ITEMS:
        return made, p
    lows, highs, resampled = bootstrap_t(d[None], level, seed=seed)
    low, high = (float(end) for end in np.clip([min(made.low, lows[0]), max(made.high, highs[0])], -1.0, 1.0))
    method = f"{method}, with bootstrap-t over the items"
    return Estimate(value, stderr, low, high, level, method, n, seed), max(p, float(resampled[0]))


def tango(ahead: int, behind: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Tango's score interval for the difference (b − c)/n of two paired proportions.

    The ends are the Δ at which |b − c − nΔ| / √(n(2q + Δ(1 − Δ))) equals the normal quantile, with q the
    estimate of the smaller discordant probability given Δ.

    Args:
        ahead: b, how many items only the first gets right.
        behind: c, how many only the second gets right.
        n: number of items.
        confidence: level of the interval.

    Example:
        >>> [round(end, 4) for end in tango(12, 2, 53)]
        [0.0577, 0.3272]
    """
    z = normal_quantile(confidence)
    b, c = float(ahead), float(behind)

    def score(delta: float) -> float:
        lead = b - c - n * delta
        if lead == 0.0:
            return 0.0
        linear = -b - c + (2 * n - b + c) * delta
        q = (np.sqrt(max(linear**2 + 8 * n * c * delta * (1 - delta), 0.0)) - linear) / (4 * n)
        return float(lead / np.sqrt(max(n * (2 * q + delta * (1 - delta)), 1e-300)))

    centre, edge = (b - c) / n, 1 - 1e-12
    low = float(brentq(lambda x: score(x) - z, -edge, centre)) if score(-edge) > z else -1.0
    high = float(brentq(lambda x: score(x) + z, centre, edge)) if score(edge) < -z else 1.0
    return low, high


def _needed(n: int, least: float, value: float) -> float:
    return float(np.ceil(n * (least / value) ** 2)) if value and least else float("nan")


def _repeat_stderr(pair: Outcomes) -> float:
    if pair.n_repeats == 1:
        return float("nan")
    known = np.isfinite(pair.scores).sum(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = pair.item_scores()[:, :, None]
        within = np.nansum((pair.scores - mean) ** 2, axis=2) / (known - 1) / known
    usable = (known > 1).all(axis=0)
    if not usable.any():
        return float("nan")
    return float(np.sqrt(within[:, usable].sum(axis=0).mean() / usable.size))
