"""Suites: the average over tasks with stated weights, its error, and the tasks that decide the order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hardpan.arguments import check_confidence
from hardpan.errors import InputError, few
from hardpan.estimates import Estimate, estimates_of_columns
from hardpan.files import record
from hardpan.leaderboard.item_groups import ItemGroups, item_groups, task_column
from hardpan.leaderboard.pairs import Floats, PairTests, all_pairs
from hardpan.leaderboard.ranking import Ints, rank_sets, separated_pairs
from hardpan.outcomes import Outcomes
from hardpan.report import Report
from hardpan.stats.intervals import normal_quantile


@record(eq=False)
class Suite(Report):
    """The average over tasks of all models that have every task, best first.

    Attributes:
        models: names.
        score: Σ_t w_t · (mean score on task t).
        stderr: its standard error for further items (and runs) of these tasks.
        stderr_tasks: its standard error if the tasks are a sample of tasks, too.
        low: lower end of the interval of ``score``.
        high: upper end of it.
        rank_low: best rank that the paired tests of the averages allow, all models together.
        rank_high: worst rank.
        tier: 1 for the first model and those not separated from it, and so on.
        pooled: mean over all items, whatever their task.
        tasks: names of the tasks.
        weights: (T,) of the tasks; their sum is 1.
        sizes: (T,) items of the tasks.
        task_scores: (M, T) mean scores.
        task_stderr: (M, T) their standard errors.
        lead: (T,) what each task adds to the lead of the first model over the second: w_t · difference.
        moved: (T,) pairs of models whose order changes if a task is left out.
        first_without: the first model without each task.
        lacking: models that lack a task, so that they have no average.
        cluster: the group column within tasks that errors follow, or "".
        runs: runs per item, at most.
        run_stderr: standard deviation of the effect of a whole run on the average; NaN with one run.
        separated: number of pairs that are separated.
        confidence: level of the intervals, and of all rank sets together.
        notes: what the reader of the scores reported.
    """

    models: tuple[str, ...]
    score: Floats
    stderr: Floats
    stderr_tasks: Floats
    low: Floats
    high: Floats
    rank_low: Ints
    rank_high: Ints
    tier: Ints
    pooled: Floats
    tasks: tuple[str, ...]
    weights: Floats
    sizes: Ints
    task_scores: Floats
    task_stderr: Floats
    lead: Floats
    moved: Ints
    first_without: tuple[str, ...]
    lacking: tuple[str, ...]
    cluster: str
    runs: int
    run_stderr: float
    separated: int
    confidence: float
    notes: tuple[str, ...] = ()

    @property
    def estimates(self) -> list[Estimate]:
        """The averages with their intervals, best first."""
        return estimates_of_columns(self.score, self.stderr, self.low, self.high, self.confidence)


def suite(
    outcomes: object,
    *,
    task: str | None = None,
    weights: Mapping[str, float] | None = None,
    group: str | None = None,
    confidence: float = 0.95,
) -> Suite:
    """The average over tasks, A = Σ_t w_t s̄_t, with rank sets of the averages and the tasks that decide the order.

    Tasks are fixed, items (in clusters, where there are groups) are samples within them: Var(A) = Σ_t w_t² SE_t²,
    and the same on the paired differences of two models, with Student's t and Satterthwaite's degrees of freedom
    V²/Σ_t(V_t²/df_t), at most the number of items that differ minus 1. All pairs are corrected by Holm. Intervals
    of single averages are made likewise; of right and wrong a task has at least the variance p̃(1 − p̃)/n with
    p̃ = (right + 1)/(n + 2). With several runs, σ²_run/R is added: σ²_run is the variance of the average between
    whole runs beyond Σ_t w_t² W_t/n_t, what the variance W_t between runs of single items gives, joined over the
    models.

    Args:
        outcomes: :class:`hardpan.Outcomes`, or what its ``open`` opens: scores of the models.
        task: column that names the tasks; by default "task", or a synonym.
        weights: of every task, divided by their sum; by default equal. A weight of 0 leaves a task out.
        group: column of item groups within tasks, as in :func:`hardpan.leaderboard.rank`.
        confidence: level.

    Source: Satterthwaite, "An approximate distribution of estimates of variance components" (1946).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> tasks = ["small"] * 50 + ["large"] * 450
        >>> right = rng.random((2, 500)) < [[0.9], [0.5]]
        >>> result = suite(Outcomes.from_arrays(right, ["a", "b"], groups={"task": tasks}))
        >>> result.tasks, result.weights.tolist(), result.rank_high.tolist()
        (('small', 'large'), [0.5, 0.5], [1, 2])
    """
    level = check_confidence(confidence)
    outcomes = Outcomes.of_items(outcomes)
    name = task_column(outcomes) if task is None else task
    if name not in outcomes.groups:
        named = few(list(outcomes.groups)) or "none"
        raise InputError(
            f"must be the column that names the tasks (columns: {named}); got {task!r}", argument="task"
        )
    labels = np.asarray(outcomes.groups[name]).astype(np.str_)
    tasks = tuple(dict.fromkeys(labels.tolist()))
    w = _task_weights(tasks, weights)
    tasks, w = tuple(t for t, weight in zip(tasks, w, strict=True) if weight), w[w > 0]
    used = np.isin(labels, tasks)
    outcomes, labels = outcomes.select(items=used), labels[used]
    columns = [np.flatnonzero(labels == one) for one in tasks]
    known = np.isfinite(outcomes.item_scores())
    whole: NDArray[np.bool_] = np.asarray(np.stack([known[:, at].any(axis=1) for at in columns]).all(axis=0))
    if not whole.any():
        raise InputError(": no model has items of every task; give weights of 0 to some", argument="outcomes")
    lacking = tuple(model for model, has in zip(outcomes.models, whole, strict=True) if not has)
    outcomes = outcomes.select(models=whole)
    if small := [one for one, at in zip(tasks, columns, strict=True) if len(at) < 2]:
        raise InputError(
            f": tasks of one item have no error ({few(small)}); join them or give them a weight of 0",
            argument="outcomes",
        )
    groups = _groups_in_tasks(outcomes, columns, name, group)
    scores, binary = outcomes.item_scores(), outcomes.is_binary()
    m, t = outcomes.n_models, len(tasks)
    sums = _sums_over_tasks(scores, columns, w, groups)
    means, errors, difference, variance = sums.means, sums.errors, sums.difference, sums.variance
    run_variance = _whole_run_variance(outcomes, columns, w)
    between = np.nan_to_num(run_variance) / outcomes.n_repeats
    freedom = variance**2 / np.maximum(sums.by_degrees, 1e-300)
    if binary and groups is None:
        freedom = np.minimum(freedom, np.maximum(sums.apart - 1, 1.0))
    stderr = np.sqrt(variance + 2 * between)
    with np.errstate(invalid="ignore", divide="ignore"):
        p = np.where(stderr > 0, 2 * special.stdtr(np.maximum(freedom, 1.0), -np.abs(difference) / stderr), 1.0)
    tests = PairTests(difference, stderr, np.nan_to_num(p, nan=1.0), np.full((m, m), len(labels)), False)
    separated = separated_pairs(tests, 1 - level)[1]
    average, own_variance = means @ w, errors**2 @ w**2
    reach = _average_reach(means, errors, sums.degrees, known[whole], columns, w, level, binary and groups is None)
    reach = np.sqrt(reach**2 + normal_quantile(level) ** 2 * between)
    order = np.lexsort((np.arange(m), -average))
    without = (average[:, None] - w * means) / np.maximum(1 - w, 1e-12)
    best = tuple(outcomes.models[row] for row in without.argmax(axis=0))
    lead = w * (means[order[0]] - means[order[min(1, m - 1)]])
    return Suite(
        models=tuple(outcomes.models[row] for row in order),
        score=average[order],
        stderr=np.sqrt(own_variance + between)[order],
        stderr_tasks=np.sqrt(((w * (means - average[:, None])) ** 2).sum(axis=1) * t / (t - 1))[order]
        if t > 1
        else np.full(m, np.nan),
        low=np.clip(average - reach, 0.0, 1.0)[order],
        high=np.clip(average + reach, 0.0, 1.0)[order],
        **rank_sets(difference, separated, order),
        pooled=np.nanmean(scores, axis=1)[order],
        tasks=tasks,
        weights=w,
        sizes=np.array([len(at) for at in columns], dtype=np.int64),
        task_scores=means[order],
        task_stderr=errors[order],
        lead=lead,
        moved=np.array([_changed_pairs(average, left) for left in without.T], dtype=np.int64),
        first_without=best if t > 1 else ("",),
        lacking=lacking,
        cluster="" if groups is None else groups.name,
        runs=outcomes.n_repeats,
        run_stderr=float(np.sqrt(run_variance)),
        separated=int(np.triu(separated, 1).sum()),
        confidence=level,
        notes=outcomes.notes,
    )


@dataclass(frozen=True, slots=True)
class _TaskSums:
    """Means and errors by model and task, and the weighted sums over tasks of what compares two models."""

    means: Floats
    errors: Floats
    degrees: Floats
    difference: Floats
    variance: Floats
    by_degrees: Floats  # Σ_t V_t²/df_t
    apart: Floats  # sums of squared differences: for right and wrong, the items on which two models differ


def _sums_over_tasks(
    scores: Floats, columns: Sequence[NDArray[np.int64]], w: Floats, groups: ItemGroups | None
) -> _TaskSums:
    m, t = len(scores), len(columns)
    means, errors, degrees = np.zeros((m, t)), np.zeros((m, t)), np.zeros((m, t))
    difference, variance, by_degrees, apart = (np.zeros((m, m)) for _ in range(4))
    for k, at in enumerate(columns):
        own = None if groups is None else _only(groups, at)
        # A row of zeros beside the models: a model's difference from it is its mean, with the error of that mean.
        tests = all_pairs(
            np.vstack([scores[:, at], np.where(np.isfinite(scores[:, at]).any(axis=0), 0.0, np.nan)]),
            own,
            binary=False,
        )
        freedom = tests.shared - 1.0 if own is None else np.full((m + 1, m + 1), own.count - 1.0)
        means[:, k], errors[:, k], degrees[:, k] = tests.difference[:m, m], tests.stderr[:m, m], freedom[:m, m]
        pair = w[k] ** 2 * tests.stderr[:m, :m] ** 2
        difference += w[k] * tests.difference[:m, :m]
        variance += pair
        by_degrees += pair**2 / np.maximum(freedom[:m, :m], 1.0)
        shared = tests.shared[:m, :m]
        apart += shared * ((shared - 1) * tests.stderr[:m, :m] ** 2 + tests.difference[:m, :m] ** 2)
    return _TaskSums(means, errors, degrees, difference, variance, by_degrees, apart)


def _task_weights(tasks: tuple[str, ...], weights: Mapping[str, float] | None) -> Floats:
    if weights is None:
        return np.full(len(tasks), 1 / len(tasks))
    if not isinstance(weights, Mapping) or (missing := [name for name in tasks if name not in weights]):
        which = "a mapping of tasks to numbers" if not isinstance(weights, Mapping) else f"of {few(missing)}, too"
        raise InputError(f"must be {which}; 0 leaves a task out", argument="weights")
    if unknown := [name for name in weights if name not in tasks]:
        raise InputError(f"must be of tasks ({few(tasks)}); got {few(unknown)}", argument="weights")
    w = np.array([weights[name] for name in tasks], dtype=np.float64)
    if not (np.isfinite(w).all() and (w >= 0).all() and w.sum() > 0):
        raise InputError(f"must be at least 0, and one above it; got {few(w.tolist())}", argument="weights")
    return np.asarray(w / w.sum())


def _groups_in_tasks(
    outcomes: Outcomes, columns: list[NDArray[np.int64]], task: str, group: str | None
) -> ItemGroups | None:
    """The groups of the items within their tasks, where every task has at least two of them."""
    if group == task:
        return None
    others = {name: values for name, values in outcomes.groups.items() if name != task}
    groups = item_groups(replace(outcomes, groups=others), group)
    if groups is None or min(len(np.unique(groups.codes[at])) for at in columns) > 1:
        return groups
    if group is None:
        return None
    raise InputError(f"must have two or more groups in every task; {group!r} has one in some", argument="group")


def _only(groups: ItemGroups, at: NDArray[np.int64]) -> ItemGroups:
    codes = np.unique(groups.codes[at], return_inverse=True)[1].astype(np.int64)
    return ItemGroups(groups.name, codes, np.bincount(codes).astype(np.float64))


def _average_reach(
    means: Floats,
    errors: Floats,
    degrees: Floats,
    known: NDArray[np.bool_],
    columns: list[NDArray[np.int64]],
    w: Floats,
    level: float,
    binary: bool,
) -> Floats:
    """How far the interval of each average reaches: a task with few wrong answers has a variance above 0."""
    n = np.array([known[:, at].sum(axis=1) for at in columns]).T
    smooth = (n * means + 1) / (n + 2)
    variance = w**2 * (np.maximum(smooth * (1 - smooth) / n, errors**2) if binary else errors**2)
    freedom = variance.sum(axis=1) ** 2 / np.maximum((variance**2 / np.maximum(degrees, 1.0)).sum(axis=1), 1e-300)
    reach = special.stdtrit(np.maximum(freedom, 1.0), 0.5 + level / 2) * np.sqrt(variance.sum(axis=1))
    return np.asarray(reach)


def _changed_pairs(before: Floats, after: Floats) -> int:
    """Pairs whose order is another one."""
    first, then = np.sign(before[:, None] - before), np.sign(after[:, None] - after)
    return int(np.triu(first * then < 0, 1).sum())


def _whole_run_variance(outcomes: Outcomes, columns: list[NDArray[np.int64]], w: Floats) -> float:
    """σ²_run of the average, joined over models that have every item in every run; NaN without runs."""
    r = outcomes.n_repeats
    complete = np.isfinite(outcomes.scores).reshape(outcomes.n_models, -1).all(axis=1)
    if r < 2 or not complete.any():
        return float("nan")
    scores = outcomes.scores[complete]
    averages = sum(w[k] * scores[:, at].mean(axis=1) for k, at in enumerate(columns))
    noise = sum(
        w[k] ** 2 * scores[:, at].var(axis=2, ddof=1).mean(axis=1) / len(at) for k, at in enumerate(columns)
    )
    return float(max((np.var(averages, axis=1, ddof=1) - noise).mean(), 0.0))
