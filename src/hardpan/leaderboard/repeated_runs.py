"""Several runs per item: pass@k and pass^k, flaky items, effects of whole runs, noise of equal runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from hardpan.arguments import check_confidence
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.leaderboard.item_groups import ItemGroups, item_groups
from hardpan.leaderboard.pairs import Floats
from hardpan.outcomes import Outcomes
from hardpan.outcomes.outcomes import only_zero_or_one
from hardpan.report import Report
from hardpan.stats.intervals import bounded_mean_limits, jackknife_stderr


@record(eq=False)
class Runs(Report):
    """What several runs of the same items show, best model first.

    Attributes:
        models: names.
        runs: (M,) runs of every item, the fewest of an item that has any.
        k: (K,) numbers of runs.
        passed: (M, K) pass@k: probability that at least one of k runs of an item is right; NaN where k is above
            ``runs``, or scores are not right or wrong.
        passed_low: (M, K) lower ends of its intervals.
        passed_high: (M, K) upper ends.
        all_passed: (M, K) pass^k: probability that all of k runs of an item are right.
        all_passed_low: (M, K) lower ends of its intervals.
        all_passed_high: (M, K) upper ends.
        flaky: (M,) share of the items whose runs differ.
        differing: (M,) probability that two runs of an item differ.
        run_spread: (M,) standard deviation of the mean score over whole runs.
        run_effect: standard deviation of the effect of a whole run beyond what independent answers give; its
            interval; joined over the models.
        p_value: that whole runs have no effect.
        noise: two runs of one model differ by at most this in 95 % of pairs.
        confidence: level.
        notes: what the reader of the scores reported.
    """

    models: tuple[str, ...]
    runs: NDArray[np.int64]
    k: NDArray[np.int64]
    passed: Floats
    passed_low: Floats
    passed_high: Floats
    all_passed: Floats
    all_passed_low: Floats
    all_passed_high: Floats
    flaky: Floats
    differing: Floats
    run_spread: Floats
    run_effect: Estimate
    p_value: float
    noise: float
    confidence: float
    notes: tuple[str, ...] = ()


def pass_at_k(right: NDArray[np.int64], runs: NDArray[np.int64], k: int) -> Floats:
    """Unbiased estimates per item of the probability that at least one of k runs is right: 1 − C(n−c, k)/C(n, k).

    Args:
        right: (...) runs that are right, c.
        runs: (...) runs in all, n; fewer than k give NaN.
        k: number of runs.

    Source: Chen and others, "Evaluating large language models trained on code" (2021). That all k runs are right,
    C(c, k)/C(n, k), is 1 − pass_at_k(n − c, n, k) (Yao and others, "τ-bench", 2024).

    Example:
        >>> pass_at_k(np.array([0, 1, 2]), np.array([4, 4, 4]), 2).round(3).tolist()
        [0.0, 0.5, 0.833]
    """
    n, wrong = np.asarray(runs, dtype=np.float64), np.asarray(runs) - np.asarray(right)
    with np.errstate(invalid="ignore", divide="ignore"):
        none = np.where(wrong >= k, special.binom(wrong, k) / special.binom(n, k), 0.0)
    return np.where(n >= k, 1.0 - none, np.nan)


def runs(outcomes: object, *, group: str | None = None, confidence: float = 0.95, seed: int = 0) -> Runs:
    """Pass@k and pass^k, flaky items, and the effect of whole runs, from items that were run several times.

    Intervals of pass@k and pass^k are those of a mean of values between 0 and 1 over the items, or over groups of
    items (delete-a-group jackknife, Student's t). The effect of a whole run (seed, server, prompt) is the random
    effect of the two-way analysis of variance, σ²_run = (MS_run − MS_residual)/N, joined over the models, with the
    exact interval and test of its F ratio for normal scores; it counts runs of one number as one whole run.

    Args:
        outcomes: :class:`hardpan.Outcomes`, or what its ``open`` opens: scores with several runs.
        group: column of item groups, as in :func:`hardpan.leaderboard.rank`.
        confidence: level.
        seed: of the order of the items in intervals of fractions.

    Source: Searle, Casella and McCulloch, "Variance components" (1992).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> ease = rng.random((200, 1))
        >>> result = runs(Outcomes.from_arrays((rng.random((2, 200, 4)) < ease).astype(float)))
        >>> result.k.tolist(), bool(result.passed[0, 2] > result.passed[0, 0] > result.all_passed[0, 2])
        ([1, 2, 4], True)
    """
    level = check_confidence(confidence)
    outcomes = Outcomes.of_items(outcomes)
    if outcomes.n_repeats < 2:
        raise InputError(
            ": every item was run once, so that differences between runs are not known; give several (a column "
            "run, several logs of one model in a folder, or a third axis)",
            argument="outcomes",
        )
    scores, binary = outcomes.scores, only_zero_or_one(outcomes.scores)
    known = np.isfinite(scores)
    n, right = known.sum(axis=2), np.where(known, scores, 0.0).sum(axis=2)
    fewest = np.array([row[row > 0].min(initial=outcomes.n_repeats) for row in n], dtype=np.int64)
    most = int(fewest.max())
    k = np.array(
        [*(2 ** np.arange(int(np.log2(most)) + 1)), *([most] if most & (most - 1) else [])], dtype=np.int64
    )
    groups = item_groups(outcomes, group)
    order = np.argsort(-np.nanmean(outcomes.item_scores(), axis=1), kind="stable")
    passed, together = np.full((2, len(order), len(k), 3), np.nan)
    for at, row in enumerate(order):
        for column, count in enumerate(k.tolist() if binary else ()):
            if count <= fewest[row]:
                values = pass_at_k(right[row], n[row], count)
                passed[at, column] = _mean_and_limits(values, groups, level, seed)
                values = 1 - pass_at_k(n[row] - right[row], n[row], count)
                together[at, column] = _mean_and_limits(values, groups, level, seed)
    spread, effect, p_value, noise = _whole_runs(scores[order], known[order], level)
    mean = outcomes.item_scores()[..., None]
    squares = np.where(known, scores - np.where(np.isfinite(mean), mean, 0.0), 0.0) ** 2
    several = n > 1
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = 2 * squares.sum(axis=2) / (n - 1) if binary else (squares.max(axis=2) > 0).astype(np.float64)
        shares = [
            np.where(several, values, 0.0).sum(axis=1) / several.sum(axis=1)
            for values in ((squares > 0).any(axis=2), apart)
        ]
    return Runs(
        models=tuple(outcomes.models[row] for row in order),
        runs=fewest[order],
        k=k if binary else k[:0],
        passed=passed[:, : len(k) * binary, 0],
        passed_low=passed[:, : len(k) * binary, 1],
        passed_high=passed[:, : len(k) * binary, 2],
        all_passed=together[:, : len(k) * binary, 0],
        all_passed_low=together[:, : len(k) * binary, 1],
        all_passed_high=together[:, : len(k) * binary, 2],
        flaky=shares[0][order],
        differing=shares[1][order],
        run_spread=spread,
        run_effect=effect,
        p_value=p_value,
        noise=noise,
        confidence=level,
        notes=outcomes.notes,
    )


def _mean_and_limits(
    values: Floats, groups: ItemGroups | None, level: float, seed: int
) -> tuple[float, float, float]:
    at = np.isfinite(values)
    x = values[at]
    mean = float(x.mean())
    if groups is None:
        low, high = bounded_mean_limits(x[None], level, seed=seed)
        return mean, float(low[0]), float(high[0])
    codes = np.unique(groups.codes[at], return_inverse=True)[1]
    sums, sizes = (np.bincount(codes, weight).astype(np.float64) for weight in (x - mean, None))
    if len(sizes) < 2:
        return mean, 0.0, 1.0
    reach = float(special.stdtrit(len(sizes) - 1, 0.5 + level / 2) * jackknife_stderr(sums, sizes))
    return mean, max(mean - reach, 0.0), min(mean + reach, 1.0)


def _whole_runs(scores: Floats, known: NDArray[np.bool_], level: float) -> tuple[Floats, Estimate, float, float]:
    """Standard deviations of the runs' means, the effect of a run, its p-value, and the noise of two equal runs."""
    r = scores.shape[2]
    spread, squares, degrees, sizes = np.full(len(scores), np.nan), np.zeros(2), np.zeros(2), []
    means = 0.0
    for row in range(len(scores)):
        whole = known[row].any(axis=0) & (known[row].sum(axis=0) >= known[row].any(axis=1).sum() / 2)
        x = scores[row][:, whole]
        x = x[np.isfinite(x).all(axis=1)]
        n, count = x.shape
        if n < 2 or count < 2:
            continue
        by_run, by_item = x.mean(axis=0), x.mean(axis=1, keepdims=True)
        residual = ((x - by_item - by_run + x.mean()) ** 2).sum()
        spread[row] = by_run.std(ddof=1)
        means += (count - 1) * spread[row] ** 2
        squares += (n * (count - 1) * spread[row] ** 2, residual)
        degrees += (count - 1, (n - 1) * (count - 1))
        sizes.append(n)
    nan = float("nan")
    if not sizes or squares[1] <= 0:
        return spread, Estimate(nan, nan, nan, nan, level, "no runs that differ"), nan, 0.0 if sizes else nan
    by_run, residual = squares / degrees
    ratio, n = by_run / residual, float(np.mean(sizes))
    tails = stats.f.isf([0.5 - level / 2, 0.5 + level / 2], *degrees)
    value, low, high = (
        float(np.sqrt(max(factor - 1.0, 0.0) * residual / n)) for factor in (ratio, *(ratio / tails))
    )
    method = f"random effect of a run, {int(degrees[0])} degrees of freedom, exact F interval"
    effect = Estimate(value, nan, low, high, level, method, int(degrees[0] + len(sizes)))
    noise = float(special.stdtrit(degrees[0], 0.975) * np.sqrt(2 * means / degrees[0]))
    return spread, effect, float(stats.f.sf(ratio, *degrees)), noise if r > 1 else nan
