"""Shorter tests: which items to keep, and how well they predict a new model's score on all items."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hardpan.arguments import check_confidence, one_of, real_number, whole_number
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.execution.mapping import no_progress
from hardpan.files import record
from hardpan.leaderboard.adaptive_tests import AdaptiveTest, adaptive_test
from hardpan.leaderboard.pairs import Floats, column_blocks
from hardpan.outcomes import Outcomes
from hardpan.report import Report
from hardpan.stats.intervals import FEW_EVENTS, hypergeometric_limits

METHODS = ("random", "stratified")
FOLDS = 5
MOST_HELD_OUT = 40  # models per fold
MOST_ITEMS = 20_000  # of the numbers of items that are compared
_DRAWS = 10
_SKILL_PRIOR = 4.0  # standard deviation of a new model's offset on the logit scale
_FEW_EVENTS = 5


@record(eq=False, dropped=("slope", "intercept", "misfit"))
class ShortTest(Report):
    """Items of a shorter test, and what it tells about a new model's score on all items.

    Attributes:
        method: "random" or "stratified".
        items: (n,) ids of the items to keep.
        rows: (n,) their numbers in the full test.
        tasks: (n,) the task of each, or "" where logs name none.
        doc_ids: (n,) the document id of each in its task, or the item id.
        n_items: number of items of the full test.
        half_width: median over held-out models of half the width of the interval.
        mean_error: mean absolute error of the estimate on held-out models.
        bias_best: mean error (estimate − truth) on the best fifth of the held-out models.
        coverage: share of held-out models whose full score lies in the interval.
        held_out: how many pairs of held-out model and selection this rests on.
        sizes: (S,) other numbers of items.
        size_half_width: (S,) half widths with them.
        size_error: (S,) mean absolute errors with them.
        size_coverage: (S,) coverage with them.
        ease: (N,) logit of the items' smoothed mean scores.
        strata: (N,) stratum of each item, for "stratified".
        binary: whether scores are 0 and 1.
        confidence: level.
        seed: of the selection.
        notes: what the reader of the scores reported.
        contradicted: whether the coverage, as a mean over held-out models, is below ``confidence`` beyond chance
            (one-sided t-test over the models, 5 %).
        lm_eval: whether the items are documents of lm-evaluation-harness, which :meth:`samples` is for.
    """

    method: str
    items: NDArray[np.str_]
    rows: NDArray[np.int64]
    tasks: NDArray[np.str_]
    doc_ids: NDArray[np.str_]
    n_items: int
    half_width: float
    mean_error: float
    bias_best: float
    coverage: float
    held_out: int
    sizes: NDArray[np.int64]
    size_half_width: Floats
    size_error: Floats
    size_coverage: Floats
    ease: Floats
    strata: NDArray[np.int64]
    binary: bool
    confidence: float
    seed: int
    notes: tuple[str, ...] = ()
    contradicted: bool = False
    lm_eval: bool = True

    def estimate(self, scores: ArrayLike) -> Estimate:
        """The score on all items of a model with these scores on the chosen items, with its interval.

        Args:
            scores: (n,) scores in the order of ``items``.
        """
        one_of("method", self.method, METHODS)  # an older file may have another one
        x = np.asarray(scores, dtype=np.float64)
        if x.shape != self.rows.shape or not ((x >= 0) & (x <= 1)).all():
            raise InputError(
                f"must be {len(self.rows)} numbers in [0, 1], in the order of items", argument="scores"
            )
        strata = self.strata if self.method == "stratified" else None
        plan = _ShortTestPlan(self.ease, strata, self.binary)
        made = plan.full_scores(x[None], self.rows[None])
        (low,), (high,) = (ends.tolist() for ends in plan.full_score_limits(x[None], *made, self.confidence))
        return Estimate(float(made[0][0]), float(made[1][0]), low, high, self.confidence, self.method, len(x))

    def samples(self) -> str:
        """The items as JSON for ``--samples`` of lm-evaluation-harness: {"task": [doc_id, ...]}."""
        results: dict[str, list[int | str]] = {}
        for task, doc in zip(self.tasks.tolist(), self.doc_ids.tolist(), strict=True):
            results.setdefault(task or "items", []).append(int(doc) if doc.isdigit() else doc)
        return json.dumps(
            {task: sorted(docs, key=lambda doc: (str(type(doc)), doc)) for task, docs in results.items()}
        )


@dataclass(frozen=True, eq=False)
class _ShortTestPlan:
    """What an estimate needs to know about the items: ease by the models that calibrate them, strata if any."""

    ease: Floats
    strata: NDArray[np.int64] | None
    binary: bool

    @cached_property
    def members(self) -> list[NDArray[np.int64]]:
        """The items of each stratum."""
        assert self.strata is not None
        ends = np.cumsum(np.bincount(self.strata))[:-1]
        return np.split(np.argsort(self.strata, kind="stable"), ends)

    @cached_property
    def distinct(self) -> tuple[Floats, NDArray[np.int64]]:
        """The different values of ease, and how many items have each: few, as models are."""
        return np.unique(self.ease, return_counts=True)

    def of_items(self, subset: NDArray[Any]) -> _ShortTestPlan:
        return _ShortTestPlan(self.ease[subset], None if self.strata is None else self.strata[subset], self.binary)

    def sample(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Items drawn at random, from strata in proportion to their sizes by largest remainder."""
        if self.strata is None:
            return rng.choice(len(self.ease), count, replace=False).astype(np.int64)
        sizes = np.bincount(self.strata)
        exact = count * sizes / sizes.sum()
        quota = np.floor(exact).astype(np.int64)
        order = np.argsort(-(exact - quota), kind="stable")
        quota[order[: count - quota.sum()]] += 1
        samples = [rng.choice(self.members[h], q, replace=False) for h, q in enumerate(quota) if q]
        return np.concatenate(samples).astype(np.int64)

    def full_scores(self, x: Floats, rows: NDArray[np.int64]) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Estimate, standard error and degrees of freedom by row of x: scores on the items in rows, both (D, n)."""
        (draws, n), total = x.shape, len(self.ease)
        offset = _short_test_offsets(self.ease[rows], x)[:, None]
        eases, sizes = self.distinct
        mean = special.expit(eases + offset) @ sizes / total
        p = special.expit(self.ease[rows] + offset)
        residual = x - p
        centred = residual - residual.mean(axis=1, keepdims=True)
        value, spread = mean + residual.mean(axis=1), (centred**2).sum(axis=1) / max(n - 2, 1)
        degrees = np.full(draws, max(n - 2, 1))
        if self.strata is not None:
            sizes = np.bincount(self.strata)
            codes = self.strata[rows] + len(sizes) * np.arange(draws)[:, None]
            counts = np.bincount(codes.ravel(), minlength=draws * len(sizes))
            means = np.bincount(codes.ravel(), residual.ravel(), draws * len(sizes)) / np.maximum(counts, 1)
            present = counts.reshape(draws, -1) > 0
            weight = sizes * present
            value = mean + (weight * means.reshape(draws, -1)).sum(axis=1) / weight.sum(axis=1)
            within = np.maximum(n - present.sum(axis=1) - 1, 1)
            # With too few items per stratum the spread within cannot be seen: that of all is not smaller.
            enough = within >= n / 2
            spread = np.where(enough, ((residual - means[codes]) ** 2).sum(axis=1) / within, spread)
            degrees = np.where(enough, within, degrees)
        if self.binary:
            right = x.sum(axis=1)
            few = np.minimum(right, n - right) < _FEW_EVENTS
            spread = np.where(few, np.maximum(spread, (p * (1 - p)).mean(axis=1)), spread)
        return value, np.sqrt((1 - n / total) * spread / n), degrees

    def full_score_limits(
        self, x: Floats, value: Floats, stderr: Floats, degrees: NDArray[np.int64], level: float
    ) -> tuple[Floats, Floats]:
        """Student's t around the estimates; with few answers of one kind joined with exact limits of that count."""
        reach = special.stdtrit(degrees, 0.5 + level / 2) * stderr
        low, high = value - reach, value + reach
        n, total = x.shape[1], len(self.ease)
        if self.binary:
            right = np.rint(x.sum(axis=1)).astype(np.int64)
            for row in np.flatnonzero(np.minimum(right, n - right) < FEW_EVENTS):
                few = int(min(right[row], n - right[row]))
                ends = np.array(hypergeometric_limits(few, n, total, level))
                first, last = ends if few == right[row] else 1 - ends[::-1]
                low[row], high[row] = min(low[row], first), max(high[row], last)
        return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def shorten(
    outcomes: object,
    items: int = 100,
    *,
    method: str = "random",
    adaptive: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Progress | None = None,
) -> ShortTest | AdaptiveTest:
    """Choose fewer items, and estimate how well they predict a new model's score on all of them.

    "random" and "stratified" (by the first group column, else by difficulty) use the difference estimator
    mean_all P̂ + mean_S(x − P̂): P̂ is a logistic curve in the items' mean scores with the new model's offset, and the
    standard error is that of the sampling of items, √((1 − n/N) s²/n), so it holds even where P̂ is wrong.
    Where fewer than 15 answers are right, or wrong, the interval contains the exact one (hypergeometric).

    The interval's coverage of the full score is measured on held-out models (5 folds, at most 200 models).

    Args:
        outcomes: scores of at least 5 models; items that some models lack are used where they have them.
            Also what :meth:`hardpan.Outcomes.open` opens.
        items: number of items to keep.
        method: how items are selected: "random" or "stratified".
        adaptive: choose each next item by the answers before, and stop at this half width of the interval, such as
            0.03, or after ``items``; in Python also an :class:`AdaptiveTest`.
        confidence: level of the intervals.
        seed: of the selection.
        progress: called with a step and the fraction done.

    Source: Särndal, Swensson and Wretman, "Model assisted survey sampling" (1992).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p = 1 / (1 + np.exp(-(rng.normal(size=(40, 1)) + rng.normal(size=600))))
        >>> short = shorten(Outcomes.from_arrays(rng.random((40, 600)) < p), items=100)
        >>> len(short.items), bool(short.half_width < 0.1)
        (100, True)
    """
    outcomes = Outcomes.of_items(outcomes, models=FOLDS, items=6)
    level = check_confidence(confidence)
    n = outcomes.n_items
    whole_number("items", items, 5, n - 1)
    one_of("method", method, METHODS)
    if adaptive is not None:
        half_width = real_number("adaptive", adaptive, "(0, 0.5]")
        return adaptive_test(outcomes, half_width, int(items), level, seed, progress or no_progress)
    scores = outcomes.item_scores()
    known = np.isfinite(scores)
    if not known.any(axis=0).all():
        raise InputError("must have a score of every item; select those items first", argument="outcomes")
    binary = outcomes.is_binary()
    strata = _item_strata(outcomes, scores) if method == "stratified" else None
    count = int(items)
    longest = min(max(n // 2, 11), MOST_ITEMS)
    sizes = np.unique(np.geomspace(10, longest, 8).round().astype(np.int64))
    sizes = sizes[(sizes >= 5) & (sizes < n)]
    plan = _ShortTestPlan(_item_ease(scores), strata, binary)
    results = _held_out_errors(scores, np.unique([*sizes, count]), plan, level, seed, progress or no_progress)
    errors = results[count]
    rows = np.sort(plan.sample(count, np.random.default_rng([seed, 0])))
    order = np.argsort(-errors[:, 3], kind="stable")
    best = order[: max(1, len(order) // 5)]
    tasks = outcomes.groups.get("task")
    docs = outcomes.groups.get("doc_id", outcomes.items)
    return ShortTest(
        method=method,
        items=outcomes.items[rows],
        rows=rows,
        tasks=np.full(count, "", dtype=np.str_) if tasks is None else np.asarray(tasks)[rows].astype(np.str_),
        doc_ids=np.asarray(docs)[rows].astype(np.str_),
        n_items=n,
        half_width=float(np.median(errors[:, 1])),
        mean_error=float(np.abs(errors[:, 0]).mean()),
        bias_best=float(errors[best, 0].mean()),
        coverage=float(errors[:, 2].mean()),
        contradicted=_covers_too_seldom(errors, level),
        held_out=len(errors),
        sizes=sizes,
        size_half_width=np.array([np.median(results[int(size)][:, 1]) for size in sizes]),
        size_error=np.array([np.abs(results[int(size)][:, 0]).mean() for size in sizes]),
        size_coverage=np.array([results[int(size)][:, 2].mean() for size in sizes]),
        ease=plan.ease,
        strata=np.zeros(n, dtype=np.int64) if strata is None else strata,
        binary=binary,
        confidence=level,
        seed=seed,
        notes=outcomes.notes,
        lm_eval=tasks is not None and "doc_id" in outcomes.groups,
    )


def _item_strata(outcomes: Outcomes, scores: Floats) -> NDArray[np.int64]:
    for values in outcomes.groups.values():
        labels, codes = np.unique(np.asarray(values).astype(np.str_), return_inverse=True)
        if 2 <= len(labels) <= outcomes.n_items // 5:
            return codes.astype(np.int64)
    ease = _item_ease(scores)
    edges = np.quantile(ease, np.arange(1, 5) / 5)
    return np.searchsorted(edges, ease, side="right").astype(np.int64)


def _item_ease(scores: Floats) -> Floats:
    return np.concatenate([_ease_of(*_sums_of_items(scores[:, block])) for block in column_blocks(scores.shape[1])])


def _sums_of_items(scores: Floats) -> tuple[Floats, NDArray[np.int64]]:
    known = np.isfinite(scores)
    return np.where(known, scores, 0.0).sum(axis=0), known.sum(axis=0)


def _ease_of(right: Floats, count: NDArray[np.int64]) -> Floats:
    return np.asarray(special.logit((right + 0.5) / (count + 1.0)))


def _covers_too_seldom(errors: Floats, level: float) -> bool:
    """Whether the mean over models of their coverage is below the level beyond chance, t-test at 5 %, one-sided."""
    models, codes = np.unique(errors[:, 4], return_inverse=True)
    covered = np.bincount(codes, errors[:, 2]) / np.bincount(codes)
    m = len(models)
    error = float(covered.std(ddof=1) / np.sqrt(m)) if m > 1 else np.inf
    return bool(covered.mean() + float(special.stdtrit(max(m - 1, 1), 0.95)) * error < level)


def _held_out_errors(
    scores: Floats, sizes: NDArray[np.int64], whole: _ShortTestPlan, level: float, seed: int, progress: Progress
) -> dict[int, Floats]:
    """For each size rows (error, half width, covered, score, model) of held-out models, several draws each.

    Of many models, some are held out: at most ``MOST_HELD_OUT`` in each fold. The truth is the model's mean over
    the items that it has; items that it lacks are no part of its test.
    """
    known = np.isfinite(scores)
    results: dict[int, list[Floats]] = {int(size): [] for size in sizes}
    order = np.random.default_rng([seed, 1]).permutation(len(scores))
    for fold, test in enumerate(np.array_split(order, FOLDS)):
        progress("holding out models", fold / FOLDS)
        train = np.setdiff1d(order, test)
        right, count = (
            np.concatenate(parts)
            for parts in zip(
                *(_sums_of_items(scores[train, block]) for block in column_blocks(scores.shape[1])), strict=True
            )
        )
        columns = np.flatnonzero(count)
        plan = replace(whole.of_items(columns), ease=_ease_of(right[columns], count[columns]))
        selections = {}
        for size in sizes.tolist():
            draws = [np.random.default_rng([seed, 2, size, draw]) for draw in range(_DRAWS)]
            selections[size] = np.stack([plan.sample(min(size, len(columns) - 1), rng) for rng in draws])
        test = test[:MOST_HELD_OUT]
        complete = known[np.ix_(test, columns)].all(axis=1)
        for model in (*test[complete], *test[~complete]):
            x = scores[model, columns]
            answered = np.isfinite(x)
            own = plan if answered.all() else plan.of_items(answered)
            position = np.cumsum(answered) - 1
            truth = np.full(_DRAWS, x[answered].mean() if answered.any() else 0.0)
            for size, selected in selections.items():
                for rows in [selected] if answered.all() else [row[answered[row]][None] for row in selected]:
                    if rows.shape[1] < 5:
                        continue
                    right, scored = truth[: len(rows)], x[rows]
                    value, stderr, degrees = own.full_scores(scored, position[rows])
                    low, high = own.full_score_limits(scored, value, stderr, degrees, level)
                    covered = (low <= right + 1e-9) & (right - 1e-9 <= high)
                    models = np.full(len(right), model)
                    errors = (value - right, (high - low) / 2, covered, right, models)
                    results[size].append(np.stack(errors, axis=1))
    if not all(results.values()):
        raise InputError(": models have too few of the items for a shorter test", argument="outcomes")
    return {size: np.concatenate(blocks) for size, blocks in results.items()}


def _short_test_offsets(ease: Floats, x: Floats) -> Floats:
    """The offset t of each row that solves Σ(x − σ(ease + t)) = t/spread², by Newton's method."""
    t = np.zeros(len(x))
    for _ in range(50):
        p = special.expit(ease + t[:, None])
        step = (x - p).sum(axis=1) - t / _SKILL_PRIOR**2
        step /= (p * (1 - p)).sum(axis=1) + _SKILL_PRIOR**-2
        t += np.clip(step, -2.0, 2.0)
        if np.abs(step).max() < 1e-9:
            break
    return t
