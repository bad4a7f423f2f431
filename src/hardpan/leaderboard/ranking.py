"""Scores and ranks of all models of one test set, with their uncertainty."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hardpan.arguments import check_confidence
from hardpan.errors import InputError, few
from hardpan.estimates import Estimate, estimates_of_columns
from hardpan.execution import Progress
from hardpan.execution.mapping import no_progress
from hardpan.files import record
from hardpan.leaderboard.item_groups import ItemGroups, item_group_counts, item_groups
from hardpan.leaderboard.pairs import FLAT, Floats, PairTests, all_pairs, column_blocks, compare
from hardpan.outcomes import Outcomes
from hardpan.report import Report
from hardpan.stats.hypothesis_tests import (
    POWER,
    holm,
    smallest_difference,
    smallest_difference_by_t,
    unpaired_shares,
)
from hardpan.stats.intervals import (
    FEW_EVENTS,
    FEW_EXAMPLES,
    bounded_mean_limits,
    clopper_pearson,
    clustered_stderr,
    constant_limits,
    jackknife_stderr,
    normal_quantile,
    proportion_limits,
)

TOP = 12  # models whose paired differences are kept
FEW_SHARED = 30
SLOPE_PRIOR = 0.5  # standard deviation around 1 of the slope between logits on two sets of items
NEAR = 0.5  # logits within which models count fully for the line of a model
MOST_REPEATED = 0.8  # share of cells with several runs from which the variance between runs is estimated

Ints = NDArray[np.int64]


@record(eq=False)
class TopPairs:
    """Paired differences of the first models, each (T, T), row minus column; Holm over all pairs of the ranking."""

    models: tuple[str, ...]
    difference: Floats
    stderr: Floats
    p_holm: Floats
    shared: Ints


@record(eq=False, dropped=("group_column",))
class Ranking(Report):
    """Models of one test set, best first.

    Attributes:
        models: names.
        score: estimated mean score on all items. Where a model lacks items, its mean on those is predicted from its
            mean on the others by the line of the other models between the two sets (on the logit scale), so that
            lacking hard items is no advantage; of models that share no items with others, even indirectly, the mean
            over their own.
        raw_score: mean over the items that the model has.
        stderr: naive standard error of ``score``, items as independent.
        stderr_clustered: clustered by the column ``cluster``; NaN without it.
        low: lower end of the interval of ``score``, clustered where ``cluster`` is set.
        high: upper end of it.
        rank_low: best rank that the paired tests allow, all models together at level ``confidence``.
        rank_high: worst rank.
        tier: 1 for the first model and those not separated from it, and so on.
        items: how many items each model has.
        n_items: number of items that any model has.
        complete: number of models that have all items.
        cluster: the group column that intervals and ranks follow, or "".
        groups: number of groups.
        few_groups: whether there are fewer than 20.
        large_group: whether one group has more than a tenth of the items.
        repeats: runs per cell, at most.
        between_variance: variance of the items' expected scores, per model; NaN where most cells have one run.
        within_variance: variance between runs of one item, per model; NaN where most cells have one run.
        smallest_difference: the true difference that one planned paired test finds with power 0.8, for a pair with
            the median discordance (or standard error) of those of the best models; NaN where it finds none.
        smallest_difference_ranked: the same at the first step of Holm's procedure over all pairs; 1 where it
            finds none.
        lead: paired difference of the first two models.
        items_needed: items with which a lead as large as this one is significant among all pairs (Bonferroni) with
            power 0.8; NaN without a lead.
        separated: number of pairs that are separated.
        separated_at_top: those among the models at the top that are not separated from the first.
        few_shared: number of pairs with fewer than 30 shared items.
        unconnected: whether some models share no items with the others, directly or through other models.
        exact: whether the paired tests are McNemar's.
        confidence: level of the intervals, and of all rank sets together.
        pairs: paired differences of the first models.
        source: where the scores come from.
        notes: what the reader of the scores reported.
        failures: number of answers without a score (empty, timeout, not parsed) of each model; None without any.
        failed_as: what these count as, "wrong" or "missing"; "" without any.
        other_score: ``score`` if they counted as the other of the two; None without any.
        unpaired: whether only counts of right answers are known: models are compared as independent samples.
    """

    models: tuple[str, ...]
    score: Floats
    raw_score: Floats
    stderr: Floats
    stderr_clustered: Floats
    low: Floats
    high: Floats
    rank_low: Ints
    rank_high: Ints
    tier: Ints
    items: Ints
    n_items: int
    complete: int
    cluster: str
    groups: int
    few_groups: bool
    large_group: bool
    repeats: int
    between_variance: Floats
    within_variance: Floats
    smallest_difference: float
    lead: Estimate
    items_needed: float
    separated: int
    separated_at_top: int
    few_shared: int
    unconnected: bool
    exact: bool
    confidence: float
    pairs: TopPairs
    source: str = ""
    notes: tuple[str, ...] = ()
    smallest_difference_ranked: float = float("nan")
    failures: Ints | None = None
    failed_as: str = ""
    other_score: Floats | None = None
    unpaired: bool = False

    @property
    def estimates(self) -> list[Estimate]:
        """The scores with their intervals, best first."""
        return estimates_of_columns(self.score, self.stderr, self.low, self.high, self.confidence)

    @property
    def first_tier(self) -> int:
        """How many models from the top are in tier 1 before the first that is not."""
        other = np.flatnonzero(self.tier != 1)
        return int(other[0]) if other.size else len(self.models)


def rank(
    outcomes: object,
    group: str | None = None,
    *,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Progress | None = None,
) -> Ranking:
    """Scores, standard errors, simultaneous rank sets and tiers of all models.

    All pairs are tested on the items that both models have (McNemar's exact test for right and wrong, else
    Student's t; with groups of items the delete-a-group jackknife and t with G − 1 degrees of freedom) and
    corrected by Holm. Rank set of a model: [1 + number significantly better, M − number significantly worse]; all
    of them contain the true ranks together with probability ``confidence``. A tier is a model and those not
    separated from it; the next tier starts at the first model that is separated from it.

    Intervals of single scores: with groups Student's t on the delete-a-group jackknife; else, for right and wrong,
    Clopper–Pearson below 300 items, normal from there on; for fractions :func:`hardpan.stats.bounded_mean_limits`.

    Of counts of right answers (``model, correct, total``) the models are compared as independent samples:
    :func:`hardpan.stats.unpaired_shares`, Holm.

    Args:
        outcomes: scores, models × items (× repeats); cells may be missing. Also counts of right answers in one test
            set, and what :meth:`hardpan.Outcomes.open` opens.
        group: column of item groups by which intervals and ranks are clustered, as a sample of groups; by default
            the first column with at least 5 groups; "" for items as independent.
        confidence: level.
        seed: of the order of the items in intervals of fractions.
        progress: called with a step and the fraction done.

    Source: Miller, "Adding error bars to evals" (2024); Holm (1979); Mogstad et al., "Inference for ranks" (2024).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> scores = rng.random((3, 400)) < [[0.9], [0.6], [0.58]]
        >>> board = rank(Outcomes.from_arrays(scores, models=["a", "b", "c"]))
        >>> board.models[0], board.rank_low.tolist(), board.rank_high.tolist(), board.tier.tolist()
        ('a', [1, 2, 2], [1, 3, 3], [1, 2, 2])
    """
    level = check_confidence(confidence)
    outcomes = Outcomes.of_items(outcomes, counts=True)
    if outcomes.totals is not None:
        return _rank_counts(outcomes, outcomes.totals, level)
    scores = outcomes.item_scores()
    answered = np.isfinite(scores).any(axis=0)
    if not answered.all():
        outcomes, scores = outcomes.select(items=answered), scores[:, answered]
    groups = item_groups(outcomes, group)
    column = "" if groups is None else groups.name
    tell = progress or no_progress
    tell("estimating scores", 0.0)
    known = np.isfinite(scores)
    means = _complete_means(scores, groups) if known.all() else _adjusted_means(scores, known, groups)
    counts, binary = known.sum(axis=1).astype(np.int64), outcomes.is_binary()
    low, high = _ranked_score_limits(scores, means, counts, groups, binary, level, seed)
    if means.unconnected:
        means, low, high = _scores_on_own_items(outcomes, means, column, level, seed)
    tell("comparing all pairs", 0.3)
    tests = all_pairs(scores, groups, binary=binary)
    tell("ranking", 0.8)
    order = np.lexsort((np.arange(len(scores)), -means.raw, -np.nan_to_num(means.score, nan=-1.0)))
    between, within = _repeat_variances(outcomes)
    lead, needed = _lead_of_first(outcomes, order, column, level)
    least, least_ranked = _smallest_differences(tests, order, groups, 1 - level)
    return Ranking(
        **_ranks_of_models(outcomes, tests, order, level),
        score=means.score[order],
        raw_score=means.raw[order],
        stderr=means.stderr[order],
        stderr_clustered=means.clustered[order],
        low=low[order],
        high=high[order],
        items=counts[order],
        n_items=outcomes.n_items,
        complete=int((counts == outcomes.n_items).sum()),
        cluster=column,
        **item_group_counts(groups),
        repeats=outcomes.n_repeats,
        between_variance=between[order],
        within_variance=within[order],
        smallest_difference=least,
        smallest_difference_ranked=least_ranked,
        lead=lead,
        items_needed=needed,
        few_shared=int(np.triu(tests.shared < min(FEW_SHARED, outcomes.n_items), 1).sum()),
        unconnected=means.unconnected,
        exact=tests.exact,
        **_failed_answers(outcomes, order),
    )


def _ranks_of_models(outcomes: Outcomes, tests: PairTests, order: Ints, level: float) -> dict[str, Any]:
    """The fields of a ranking that follow from the tests of all pairs."""
    p_holm, separated = separated_pairs(tests, 1 - level)
    tier = tiers_of(separated, order)
    first = order[: np.argmax(tier != 1) if (tier != 1).any() else len(order)]
    top, models = np.ix_(order[:TOP], order[:TOP]), tuple(outcomes.models[row] for row in order)
    return rank_sets(tests.difference, separated, order) | {
        "models": models,
        "separated": int(np.triu(separated, 1).sum()),
        "separated_at_top": int(np.triu(separated[np.ix_(first, first)], 1).sum()),
        "pairs": TopPairs(models[:TOP], tests.difference[top], tests.stderr[top], p_holm[top], tests.shared[top]),
        "confidence": level,
        "source": outcomes.source,
        "notes": outcomes.notes,
    }


def _rank_counts(outcomes: Outcomes, totals: Ints, level: float) -> Ranking:
    """The ranking of models of which only the number of right answers in one test set is known."""
    if outcomes.n_items > 1 or not (totals > 0).all():
        raise InputError(
            f"must have the size of the test set, in a column total; {outcomes.source or 'the table'} lacks it"
            if outcomes.n_items == 1
            else f"must be counts of one test set; got {few(outcomes.items.tolist(), 3)}: rank each in a table "
            "of its own, or compare two with hardpan testbed compare",
            argument="outcomes",
        )
    score, n = outcomes.scores[:, 0], totals[:, 0]
    right, m, nothing = np.rint(score * n), len(score), np.full(len(score), np.nan)
    low, high = proportion_limits(right, n.astype(np.float64), level)
    error = np.sqrt(score * (1 - score) / np.maximum(n - 1, 1))
    tests = PairTests(
        score[:, None] - score,
        np.hypot(error[:, None], error),
        unpaired_shares(right[:, None], n[:, None], right, n),
        np.minimum(n[:, None], n),
        True,
    )
    order = np.lexsort((np.arange(m), -score))
    nan = float("nan")
    lead, needed = Estimate(nan, nan, nan, nan, level, "one model"), nan
    if m > 1:
        a, b = order[:2]
        d, down, up = (
            score[a] - score[b],
            (score[a] - low[a], high[b] - score[b]),
            (high[a] - score[a], score[b] - low[b]),
        )
        ends = float(d - np.hypot(*down)), float(d + np.hypot(*up))
        lead = Estimate(
            float(d), float(tests.stderr[a, b]), *ends, level, "unpaired, limits joined by squares", int(n[a])
        )
        z = special.ndtri(1 - (1 - level) / (m * (m - 1))) + special.ndtri(POWER)
        spread = score[[a, b]] * (1 - score[[a, b]])
        needed = float(np.ceil(z**2 * spread.sum() / d**2)) if d > 0 else needed
    least, least_ranked = _smallest_differences(replace(tests, exact=False), order, None, 1 - level)
    return Ranking(
        **_ranks_of_models(outcomes, tests, order, level),
        score=score[order],
        raw_score=score[order],
        stderr=error[order],
        stderr_clustered=nothing,
        low=low[order],
        high=high[order],
        items=n[order],
        n_items=int(n.max()),
        complete=m,
        cluster="",
        **item_group_counts(None),
        repeats=1,
        between_variance=nothing,
        within_variance=nothing,
        smallest_difference=least,
        smallest_difference_ranked=least_ranked,
        lead=lead,
        items_needed=needed,
        few_shared=0,
        unconnected=False,
        exact=False,
        unpaired=True,
    )


def _failed_answers(outcomes: Outcomes, order: Ints) -> dict[str, Any]:
    """Answers without a score by model, and the scores if they counted as the other of wrong and missing."""
    if outcomes.failed is None or not outcomes.failed.any():
        return {}
    missing = bool(np.isnan(outcomes.scores[outcomes.failed]).all())
    other = replace(outcomes, scores=np.where(outcomes.failed, 0.0 if missing else np.nan, outcomes.scores))
    scores = other.item_scores()
    scores = scores[:, np.isfinite(scores).any(axis=0)]
    known = np.isfinite(scores)
    means = _complete_means(scores, None) if known.all() else _adjusted_means(scores, known, None)
    return {
        "failures": outcomes.failed.reshape(outcomes.n_models, -1).sum(axis=1)[order],
        "failed_as": "missing" if missing else "wrong",
        "other_score": means.score[order],
    }


def separated_pairs(tests: PairTests, alpha: float) -> tuple[Floats, NDArray[np.bool_]]:
    """P-values of all pairs by Holm, and which pairs are separated."""
    m = len(tests.p_value)
    upper = np.triu_indices(m, 1)
    p_holm = np.ones((m, m))
    if m > 1:
        p_holm[upper] = holm(tests.p_value[upper])
    p_holm = np.minimum(p_holm, p_holm.T)
    # A standard error of 0 separates nobody; McNemar's test needs none, and all right against all wrong is apart.
    usable = (np.nan_to_num(tests.difference) != 0) & (tests.exact | (np.nan_to_num(tests.stderr) > 0))
    return p_holm, (p_holm <= alpha) & usable


@dataclass(frozen=True, slots=True, eq=False)
class _MeanScores:
    score: Floats
    raw: Floats
    stderr: Floats
    clustered: Floats
    jackknife: Floats
    unconnected: bool = False
    lacked: tuple[Floats, Floats] = (np.zeros(0), np.zeros(0))  # offset and slope of the predicted logits


def _complete_means(scores: Floats, groups: ItemGroups | None) -> _MeanScores:
    m, n = scores.shape
    mean = scores.mean(axis=1)
    square = np.zeros(m)
    for columns in column_blocks(n):
        square += ((scores[:, columns] - mean[:, None]) ** 2).sum(axis=1)
    stderr = np.sqrt(square / (n - 1) / n) if n > 1 else np.full(m, np.nan)
    if groups is None:
        return _MeanScores(mean, mean, stderr, np.full(m, np.nan), np.full(m, np.nan))
    sums = groups.deviations(scores, mean)
    return _MeanScores(mean, mean, stderr, clustered_stderr(sums, n), jackknife_stderr(sums, groups.sizes))


def _adjusted_means(scores: Floats, known: NDArray[np.bool_], groups: ItemGroups | None) -> _MeanScores:
    """Means over all items where models lack some: the mean on the lacked items is predicted on the logit scale.

    With A the items that model m has and L those that it lacks, logit p_m(L) follows from logit p_m(A) by the line
    of the other models (:func:`_lacked_logits`), whose own gaps are filled by an additive fit. So a model gains
    nothing by lacking hard items, and a score near 0 or 1 moves less than one in the middle. Errors are from the
    influence of each item on the mean (delta method); for a complete model that is (s_mi − s̄_m)/N.
    """
    m, n = scores.shape
    per_model = known.sum(axis=1).astype(np.float64)
    observed = np.where(known, scores, 0.0)
    alpha, beta, unconnected = _additive_ranking_fit(observed, known)
    completed = np.where(known, scores, np.clip(alpha[:, None] + beta, 0.0, 1.0))
    # Row: model m whose gaps are filled; column: model k that the prediction is taken from.
    has = known.astype(np.float64)
    shared, total = has @ has.T, completed @ has.T
    size_has, size_lacks = np.maximum(per_model, 1.0)[:, None], np.maximum(n - per_model, 1.0)[:, None]
    p_has = (total.T + 0.5) / (size_has + 1)
    p_lacks = (completed.sum(axis=1) - total.T + 0.5) / (size_lacks + 1)
    square_has, square = np.zeros((m, m)), np.zeros(m)
    for columns in column_blocks(n):
        residual = np.where(known[:, columns], scores[:, columns] - alpha[:, None] - beta[columns], 0.0) ** 2
        square_has += has[:, columns] @ residual.T
        square += residual.sum(axis=1)
    both = shared * (per_model - shared) / np.maximum(per_model, 1.0)
    np.fill_diagonal(both, 0.0)
    alone = ~both.any(axis=1)
    both[alone] = (per_model > 0) & ~np.eye(m, dtype=bool)[alone]
    # Derivatives of the logits by the sums that they are made of.
    per_has, per_lacks = 1 / (p_has * (1 - p_has) * size_has), 1 / (p_lacks * (1 - p_lacks) * size_lacks)
    line = _lacked_logits(
        special.logit(p_has),
        special.logit(p_lacks),
        per_has**2 * square_has,
        per_lacks**2 * (square - square_has),
        both,
    )
    own, lacked = np.diag(p_has), special.expit(line.logit)
    with np.errstate(invalid="ignore", divide="ignore"):
        raw = observed.sum(axis=1) / per_model
        score = np.where(per_model > 0, (observed.sum(axis=1) + (n - per_model) * lacked) / n, np.nan)
    # Derivatives of the sum over L; 0 for a complete model.
    slope = ((n - per_model) * lacked * (1 - lacked))[:, None]
    by_own = slope * line.slope[:, None] * np.diag(per_has)[:, None]
    by_has, by_lacks = slope * line.by_has * per_has, slope * line.by_lacks * per_lacks
    square, sums = np.zeros(m), np.zeros((m, groups.count if groups else 0))
    indicator = groups.indicator() if groups else None
    for columns in column_blocks(n):
        mask, block = known[:, columns], completed[:, columns]
        answered = (1 + by_own) * (block - raw[:, None]) + (raw - score)[:, None]
        answered += by_has @ block - (by_has * p_has).sum(axis=1)[:, None]
        other = (lacked - score)[:, None] + by_lacks @ block - (by_lacks * p_lacks).sum(axis=1)[:, None]
        influence = np.where(mask, answered, other) / n
        square += (influence**2).sum(axis=1)
        if indicator is not None:
            sums += np.asarray((indicator[columns].T @ influence.T).T)
    prior = slope[:, 0] * line.prior_error / n
    stderr = np.hypot(np.sqrt(square * n / (n - 1)), prior) if n > 1 else np.full(m, np.nan)
    ends = (line.logit - line.slope * special.logit(own), line.slope)
    clustered = jackknife = np.full(m, np.nan)
    if groups is not None:
        clustered = np.hypot(clustered_stderr(sums * n, n), prior)
        jackknife = np.hypot(jackknife_stderr(sums * n, groups.sizes), prior)
    return _MeanScores(score, raw, stderr, clustered, jackknife, unconnected, ends)


def _scores_on_own_items(
    outcomes: Outcomes, means: _MeanScores, column: str, level: float, seed: int
) -> tuple[_MeanScores, Floats, Floats]:
    """Every model alone: without common items nothing tells what it would score on those of the others."""
    m = len(means.raw)
    stderr, clustered, low, high = np.full(m, np.nan), np.full(m, np.nan), np.zeros(m), np.ones(m)
    for row in np.flatnonzero(np.isfinite(means.raw)):
        mask = np.arange(m) == row
        alone = outcomes.select(models=mask)
        own = alone.select(items=np.isfinite(alone.item_scores()).any(axis=0))
        several = column and len(np.unique(own.groups[column])) > 1
        board = rank(own, column if several else "", confidence=level, seed=seed)
        stderr[row], clustered[row] = board.stderr[0], board.stderr_clustered[0]
        low[row], high[row] = board.low[0], board.high[0]
    return replace(means, score=means.raw, stderr=stderr, clustered=clustered), low, high


@dataclass(frozen=True, slots=True, eq=False)
class _LackedLine:
    """Predicted logits (M,), the slopes of the lines (M,), derivatives by the other models' logits (M, M)."""

    logit: Floats
    slope: Floats
    by_has: Floats
    by_lacks: Floats
    prior_error: Floats


def _lacked_logits(x: Floats, y: Floats, noise_x: Floats, noise_y: Floats, weight: Floats) -> _LackedLine:
    """Logit of each model's mean on the items that it lacks, from a line y on x through the other models.

    Row m: x_k, y_k of model k on the items that m has and on those that m lacks, x_mm its own. The line is local:
    weights fall with the distance of x_k from x_mm, since with items of many discriminations it is a curve. Its
    slope, corrected for the noise in x, has the prior N(1, 0.5²): 1 where items discriminate alike, and where the
    models are too few or too close to show another.
    """
    own = np.diag(x)[:, None]
    weight = weight / (1 + ((x - own) / NEAR) ** 2)
    weight = weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)

    def mean(values: Floats) -> Floats:
        return np.asarray((weight * values).sum(axis=1, keepdims=True))

    dx, dy, ahead = x - mean(x), y - mean(y), own - mean(x)
    spread = np.maximum(mean(dx**2) - mean(noise_x), 0.1 * mean(dx**2)) + 1e-12
    fitted = mean(dx * dy) / spread
    noise = (weight**2 * dx**2 * (noise_x + noise_y)).sum(axis=1, keepdims=True)
    precision = np.where(noise > 0, spread**2 / np.maximum(noise, 1e-300), 0.0)
    trust = precision / (precision + SLOPE_PRIOR**-2)
    slope = 1 + trust * (fitted - 1)
    turn = ahead * trust / spread
    return _LackedLine(
        (mean(y) + slope * ahead)[:, 0],
        slope[:, 0],
        weight * (turn * (dy - 2 * fitted * dx) - slope),
        weight * (1 + turn * dx),
        ((1 - trust) * SLOPE_PRIOR * np.abs(ahead))[:, 0],
    )


def _additive_ranking_fit(observed: Floats, known: NDArray[np.bool_]) -> tuple[Floats, Floats, bool]:
    """Least squares of s_mi = α_m + β_i on the known cells, and whether some models share no items with others."""
    per_item = known.sum(axis=0).astype(np.float64)
    item_mean = observed.sum(axis=0) / per_item
    normal_matrix, right = np.diag(known.sum(axis=1).astype(np.float64)), observed.sum(axis=1)
    for columns in column_blocks(observed.shape[1]):
        mask = known[:, columns].astype(np.float64)
        normal_matrix -= (mask / per_item[columns]) @ mask.T
        right -= mask @ item_mean[columns]
    values, vectors = np.linalg.eigh(normal_matrix)
    usable = values > 1e-9 * values[-1]
    alpha = (vectors[:, usable] / values[usable]) @ (vectors[:, usable].T @ right)
    return alpha, item_mean - (alpha @ known) / per_item, int((~usable).sum()) > 1


def _ranked_score_limits(
    scores: Floats,
    effect: _MeanScores,
    counts: Ints,
    groups: ItemGroups | None,
    binary: bool,
    level: float,
    seed: int,
) -> tuple[Floats, Floats]:
    n = scores.shape[1]
    if groups is not None:
        # Only the groups that a model has items of tell how it varies between groups.
        own = (np.isfinite(scores).astype(np.float64) @ groups.indicator() > 0).sum(axis=1)
        reach = np.where(own > 1, special.stdtrit(np.maximum(own - 1, 1), 0.5 + level / 2) * effect.jackknife, 1.0)
        low, high = effect.score - reach, effect.score + reach
        flat = constant_limits(effect.score, own, level)
        low, high = np.where(reach > FLAT, low, flat[0]), np.where(reach > FLAT, high, flat[1])
        return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
    degrees = np.maximum(counts - 1, 1)
    quantile = np.where(counts < FEW_EXAMPLES, special.stdtrit(degrees, 0.5 + level / 2), normal_quantile(level))
    low, high = effect.score - quantile * effect.stderr, effect.score + quantile * effect.stderr
    whole = counts == n
    if binary and whole.any():
        low[whole], high[whole] = proportion_limits(
            np.rint(n * effect.raw[whole]), np.full(int(whole.sum()), float(n)), level
        )
    few = ~whole & (counts > 0) & (np.minimum(counts * effect.raw, counts * (1 - effect.raw)) < FEW_EVENTS)
    if binary and few.any():
        # All right, or nearly: what the model has says less about its score than a standard error pretends.
        ends = clopper_pearson(np.rint(counts * effect.raw)[few], counts[few].astype(np.float64), level)
        offset, slope = (values[few] for values in effect.lacked)
        share = counts[few] / n
        mapped = [share * end + (1 - share) * special.expit(offset + slope * special.logit(end)) for end in ends]
        low[few], high[few] = np.minimum(low[few], mapped[0]), np.maximum(high[few], mapped[1])
    if not binary and whole.any():
        low[whole], high[whole] = bounded_mean_limits(scores[whole], level, seed=seed)
    return np.clip(np.nan_to_num(low), 0.0, 1.0), np.clip(np.nan_to_num(high, nan=1.0), 0.0, 1.0)


def rank_sets(difference: Floats, separated: NDArray[np.bool_], order: NDArray[np.int64]) -> dict[str, Any]:
    """Best and worst rank and the tier of each model, best first, as the fields of a result name them."""
    d = np.nan_to_num(difference)
    return {
        "rank_low": 1 + (separated & (d < 0)).sum(axis=1)[order],
        "rank_high": len(order) - (separated & (d > 0)).sum(axis=1)[order],
        "tier": tiers_of(separated, order),
    }


def tiers_of(separated: NDArray[np.bool_], order: NDArray[np.int64]) -> Ints:
    """The first tier whose head a model is not separated from, by rank; heads are found from the top."""
    heads: list[int] = []
    tiers = []
    for row in order:
        tier = next((i for i, head in enumerate(heads, 1) if not separated[row, head]), 0)
        if not tier:
            heads.append(int(row))
            tier = len(heads)
        tiers.append(tier)
    return np.array(tiers, dtype=np.int64)


def _smallest_differences(
    tests: PairTests, order: Ints, groups: ItemGroups | None, alpha: float
) -> tuple[float, float]:
    """The true difference found with power 0.8 by one planned test, and at the first step of Holm's procedure."""
    for count in (TOP, 100, len(order)):  # more models where the best have equal scores
        block = np.ix_(order[:count], order[:count])
        upper = np.triu_indices(len(order[:count]), 1)
        difference, errors, shared = (
            values[block][upper] for values in (tests.difference, tests.stderr, tests.shared)
        )
        apart = np.isfinite(errors) & (errors > 0)
        if apart.any():
            break
    else:
        return float("nan"), float("nan")
    error, n = float(np.median(errors[apart])), int(np.median(shared[apart]))
    levels = (alpha, alpha / (len(order) * (len(order) - 1) / 2))
    if tests.exact:
        squares = (errors**2 * (shared - 1) + difference**2)[apart]  # of differences of 0 and 1: the discordance
        first, second = (smallest_difference(float(np.median(squares)), n, at) for at in levels)
    else:
        degrees = n - 1 if groups is None else groups.count - 1
        first, second = (smallest_difference_by_t(error, degrees, at) for at in levels)
    return first, 1.0 if np.isnan(second) else second


def _lead_of_first(outcomes: Outcomes, order: Ints, group: str, level: float) -> tuple[Estimate, float]:
    first_two = order[:2]
    pair = np.isfinite(outcomes.item_scores()[first_two]).all(axis=0)
    if len(order) < 2 or pair.sum() < 2 or (group and len(np.unique(outcomes.groups[group][pair])) < 2):
        nan = float("nan")
        return Estimate(nan, nan, nan, nan, level, "one model"), nan
    first, second = map(int, first_two)
    result = compare(outcomes, first, second, group=group, confidence=level)
    pairs = len(order) * (len(order) - 1) / 2
    tails = [1 - (1 - level) / (2 * pairs), 0.5 + level / 2]
    if result.cluster:
        corrected, alone = special.stdtrit(result.groups - 1, tails) + special.stdtrit(result.groups - 1, POWER)
    else:
        corrected, alone = special.ndtri(tails) + special.ndtri(POWER)
    return result.difference, float(np.ceil(result.items_needed * float(corrected / alone) ** 2))


def _repeat_variances(outcomes: Outcomes) -> tuple[Floats, Floats]:
    """(between, within) per model: within is the mean sample variance of an item's runs, between what is left.

    between = max(B − mean(W/R), 0) with B the variance of the item means.
    """
    nothing = np.full(outcomes.n_models, np.nan)
    if outcomes.n_repeats == 1:
        return nothing, nothing
    scores, mean = outcomes.scores, outcomes.item_scores()
    count = np.isfinite(scores).sum(axis=2)
    deviations = np.where(np.isfinite(scores), scores - mean[:, :, None], 0.0)
    repeated = count > 1
    variance = np.where(repeated, (deviations**2).sum(axis=2) / np.maximum(count - 1, 1), 0.0)
    # Where only some cells were run again, those may be the disputed ones: they say little about the others.
    most = repeated.sum(axis=1) >= MOST_REPEATED * np.maximum((count > 0).sum(axis=1), 1)
    cells = np.where(most, repeated.sum(axis=1), 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        within = np.where(cells > 0, variance.sum(axis=1) / np.maximum(cells, 1), np.nan)
        runs = np.where(count > 0, 1.0 / np.maximum(count, 1), 0.0).sum(axis=1) / (count > 0).sum(axis=1)
    total = np.array(
        [np.var(row[np.isfinite(row)], ddof=1) if np.isfinite(row).sum() > 1 else np.nan for row in mean]
    )
    return np.maximum(total - within * runs, 0.0), within
