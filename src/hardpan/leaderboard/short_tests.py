"""Shorter tests: which items to keep, and how well they predict a new model's score on all items."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hardpan.arguments import one_of, whole_number
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.execution.mapping import between, no_progress
from hardpan.files import record
from hardpan.leaderboard import irt
from hardpan.leaderboard.item_analysis import FEW_MODELS, FEW_PRIOR, WEAK_PRIOR
from hardpan.leaderboard.pairs import Floats, column_blocks
from hardpan.outcomes import Outcomes
from hardpan.report.base import Report
from hardpan.stats.intervals import check_confidence

METHODS = ("random", "stratified", "information")
FOLDS = 5
MOST_HELD_OUT = 40  # models per fold
_DRAWS = 10
_SKILL_PRIOR = 4.0  # standard deviation of a new model's offset on the logit scale
_FEW_EVENTS = 5
_GRID = np.linspace(-5.0, 5.0, 201)


@record(eq=False)
class ShortTest(Report):
    """Items of a shorter test, and what it tells about a new model's score on all items.

    Attributes:
        method: "random", "stratified" or "information".
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
        slope: (N,) item slopes, for "information".
        intercept: (N,) item intercepts, for "information".
        misfit: standard deviation of the error on held-out models beyond sampling, for "information".
        strata: (N,) stratum of each item, for "stratified".
        binary: whether scores are 0 and 1.
        confidence: level.
        seed: of the selection.
        notes: what the reader of the scores reported.
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
    slope: Floats
    intercept: Floats
    misfit: float
    strata: NDArray[np.int64]
    binary: bool
    confidence: float
    seed: int
    notes: tuple[str, ...] = ()

    def estimate(self, scores: ArrayLike) -> Estimate:
        """The score on all items of a model with these scores on the chosen items, with its interval.

        Args:
            scores: (n,) scores in the order of ``items``.
        """
        x = np.asarray(scores, dtype=np.float64)
        if x.shape != self.rows.shape or not ((x >= 0) & (x <= 1)).all():
            raise InputError(
                f"must be {len(self.rows)} numbers in [0, 1], in the order of items", argument="scores"
            )
        (value,), (stderr,), (degrees,) = (
            entry.tolist() for entry in _estimate(self._plan(), x[None], self.rows[None])
        )
        reach = float(special.stdtrit(degrees, 0.5 + self.confidence / 2)) * stderr
        return Estimate(
            value, stderr, max(value - reach, 0.0), min(value + reach, 1.0), self.confidence, self.method, len(x)
        )

    def samples(self) -> str:
        """The items as JSON for ``--samples`` of lm-evaluation-harness: {"task": [doc_id, ...]}."""
        results: dict[str, list[int | str]] = {}
        for task, doc in zip(self.tasks.tolist(), self.doc_ids.tolist(), strict=True):
            results.setdefault(task or "items", []).append(int(doc) if doc.isdigit() else doc)
        return json.dumps(
            {task: sorted(docs, key=lambda doc: (str(type(doc)), doc)) for task, docs in results.items()}
        )

    def _plan(self) -> _Plan:
        return _Plan(self.method, self.ease, self.slope, self.intercept, self.misfit, self.strata, self.binary)


@dataclass(frozen=True, eq=False)
class _Plan:
    """What an estimate needs to know about the items, from the models that calibrate them."""

    method: str
    ease: Floats
    slope: Floats
    intercept: Floats
    misfit: float
    strata: NDArray[np.int64]
    binary: bool

    @cached_property
    def curves(self) -> Floats:
        """(2, G) Σ_i p and Σ_i p(1 − p) over all items at the skills of _GRID, for "information"."""
        return _curves(self.slope, self.intercept)


def _curves(slope: Floats, intercept: Floats) -> Floats:
    total = np.zeros((2, len(_GRID)))
    for columns in column_blocks(len(slope)):
        p = special.expit(_GRID[:, None] * slope[columns] + intercept[columns])
        total += np.stack([p.sum(axis=1), (p * (1 - p)).sum(axis=1)])
    return total


def shorten(
    outcomes: object,
    items: int = 100,
    *,
    method: str = "random",
    confidence: float = 0.95,
    seed: int = 0,
    progress: Progress | None = None,
) -> ShortTest:
    """Choose fewer items, and estimate how well they predict a new model's score on all of them.

    "random" and "stratified" (by the first group column, else by difficulty) use the difference estimator
    mean_all P̂ + mean_S(x − P̂): P̂ is a logistic curve in the items' mean scores with the new model's offset, and the
    standard error is that of the sampling of items, √((1 − n/N) s²/n), so it holds even where P̂ is wrong.
    "information" keeps the items that are most informative at the models' skills and predicts the rest from a
    two-parameter model; its interval contains the errors of skill and of unseen answers and the misfit on held-out
    models, but it shrinks unusual models towards those it was calibrated on.

    The interval's coverage of the full score is measured on held-out models (5 folds, at most 200 models).

    Args:
        outcomes: scores of at least 5 models; items that some models lack are used where they have them.
            Also what :meth:`hardpan.Outcomes.open` opens.
        items: number of items to keep.
        method: how items are selected: "random", "stratified" or "information".
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
    scores = outcomes.item_scores()
    known = np.isfinite(scores)
    if not known.any(axis=0).all():
        raise InputError("must have a score of every item; select those items first", argument="outcomes")
    binary = outcomes.is_binary()
    strata = _strata(outcomes, scores) if method == "stratified" else np.zeros(n, dtype=np.int64)
    count = int(items)
    sizes = np.unique(np.geomspace(10, max(n // 2, 11), 8).round().astype(np.int64))
    sizes = sizes[(sizes >= 5) & (sizes < n)]
    tell = progress or no_progress
    fitted, plan = _calibrate(scores, method, strata, binary, between(tell, 0.0, 0.4))
    results = _held_out(scores, np.unique([*sizes, count]), plan, fitted, level, seed, between(tell, 0.4, 1.0))
    errors = results[count]
    if method == "information":
        plan = replace(plan, misfit=_misfit(errors))
    rows = np.sort(_select(plan, count, np.random.default_rng([seed, 0])))
    order = np.argsort(-errors[:, 4], kind="stable")
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
        held_out=len(errors),
        sizes=sizes,
        size_half_width=np.array([np.median(results[int(size)][:, 1]) for size in sizes]),
        size_error=np.array([np.abs(results[int(size)][:, 0]).mean() for size in sizes]),
        size_coverage=np.array([results[int(size)][:, 2].mean() for size in sizes]),
        ease=plan.ease,
        slope=plan.slope,
        intercept=plan.intercept,
        misfit=plan.misfit,
        strata=strata,
        binary=binary,
        confidence=level,
        seed=seed,
        notes=outcomes.notes,
    )


def _strata(outcomes: Outcomes, scores: Floats) -> NDArray[np.int64]:
    for values in outcomes.groups.values():
        labels, codes = np.unique(np.asarray(values).astype(np.str_), return_inverse=True)
        if 2 <= len(labels) <= outcomes.n_items // 5:
            return codes.astype(np.int64)
    ease = _ease(scores)
    edges = np.quantile(ease, np.arange(1, 5) / 5)
    return np.searchsorted(edges, ease, side="right").astype(np.int64)


def _ease(scores: Floats) -> Floats:
    known = np.isfinite(scores)
    mean = (np.where(known, scores, 0.0).sum(axis=0) + 0.5) / (known.sum(axis=0) + 1.0)
    return np.asarray(special.logit(mean))


def _calibrate(
    scores: Floats,
    method: str,
    strata: NDArray[np.int64],
    binary: bool,
    progress: Progress = no_progress,
    start: tuple[Floats, Floats, Floats] | None = None,
) -> tuple[irt.Fit | None, _Plan]:
    """The plan of these models, and for "information" the fit that it is from."""
    ease = _ease(scores)
    if method != "information":
        return None, _Plan(method, ease, np.zeros(0), np.zeros(0), 0.0, strata, binary)
    priors = FEW_PRIOR if len(scores) < FEW_MODELS else WEAK_PRIOR
    fitted = irt.fit(scores, priors=priors, start=start, progress=progress)
    return fitted, _Plan(method, ease, fitted.slope, fitted.intercept, 0.0, strata, binary)


def _select(plan: _Plan, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    n = len(plan.ease)
    if plan.method == "random":
        return rng.choice(n, count, replace=False).astype(np.int64)
    if plan.method == "stratified":
        sizes = np.bincount(plan.strata)
        quota = _allocate(sizes, count)
        samples = [rng.choice(np.flatnonzero(plan.strata == h), q, replace=False) for h, q in enumerate(quota) if q]
        return np.concatenate(samples).astype(np.int64)
    # Information averaged over skills from −2 to 2 in equal steps, so that the ends are not forgotten.
    skills = np.linspace(-2.0, 2.0, 9)[:, None]
    s = special.expit(skills * plan.slope + plan.intercept)
    value = plan.slope**2 * s * (1 - s)
    value = (value / np.maximum(value.sum(axis=1, keepdims=True), 1e-300)).sum(axis=0)
    best: NDArray[np.int64] = np.argsort(-value, kind="stable")[:count].astype(np.int64)
    return best


def _allocate(sizes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Proportional numbers that sum to ``count``, by largest remainder."""
    exact = count * sizes / sizes.sum()
    quota: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    order = np.argsort(-(exact - quota), kind="stable")
    quota[order[: count - quota.sum()]] += 1
    return quota


def _estimate(plan: _Plan, x: Floats, rows: NDArray[np.int64]) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Estimate, standard error and degrees of freedom by row of x: scores on the items in rows, both (D, n)."""
    if plan.method == "information":
        return _by_information(plan, x, rows[0])  # one selection, so the rows are equal
    (draws, n), total = x.shape, len(plan.ease)
    offset = _offsets(plan.ease[rows], x)[:, None]
    mean = np.stack([special.expit(plan.ease + t).mean() for t in offset[:, 0]])
    p = special.expit(plan.ease[rows] + offset)
    residual = x - p
    centred = residual - residual.mean(axis=1, keepdims=True)
    value, spread = mean + residual.mean(axis=1), (centred**2).sum(axis=1) / max(n - 2, 1)
    degrees = np.full(draws, max(n - 2, 1))
    if plan.method == "stratified":
        sizes = np.bincount(plan.strata)
        codes = plan.strata[rows] + len(sizes) * np.arange(draws)[:, None]
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
    if plan.binary:
        right = x.sum(axis=1)
        few = np.minimum(right, n - right) < _FEW_EVENTS
        spread = np.where(few, np.maximum(spread, (p * (1 - p)).mean(axis=1)), spread)
    return value, np.sqrt((1 - n / total) * spread / n), degrees


def _offsets(ease: Floats, x: Floats) -> Floats:
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


def _by_information(plan: _Plan, x: Floats, items: NDArray[np.int64]) -> tuple[Floats, Floats, NDArray[np.int64]]:
    total, slope, intercept = len(plan.slope), plan.slope[items], plan.intercept[items]
    z = _GRID[:, None] * slope + intercept
    joint = x @ z.T - np.logaddexp(0.0, z).sum(axis=1) - _GRID**2 / 2
    weights = np.exp(joint - joint.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    unseen, variance = (plan.curves - _curves(slope, intercept)) / total
    value = weights @ unseen
    skill = weights @ unseen**2 - value**2
    stderr = np.sqrt(np.maximum(skill, 0.0) + weights @ variance / total + plan.misfit**2)
    return value + x.sum(axis=1) / total, stderr, np.full(len(x), x.shape[1])


def _misfit(errors: Floats) -> float:
    """What is left of the squared errors on held-out models after the stated variances, as a standard deviation."""
    return float(np.sqrt(max(float((errors[:, 0] ** 2 - errors[:, 3] ** 2).mean()), 0.0)))


def _folds(count: int, seed: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    order = np.random.default_rng([seed, 1]).permutation(count)
    for test in np.array_split(order, FOLDS):
        yield np.setdiff1d(order, test), test


def _held_out(
    scores: Floats,
    sizes: NDArray[np.int64],
    whole: _Plan,
    fitted: irt.Fit | None,
    level: float,
    seed: int,
    progress: Progress,
) -> dict[int, Floats]:
    """For each size rows (error, half width, covered, stderr, score) of held-out models, several selections each.

    Of many models, some are held out: at most ``MOST_HELD_OUT`` in each fold.

    The truth is the model's mean over the items that it has; items that it lacks are no part of its test. Fits
    without the held-out models start from the fit of all, which saves steps and leaves the maximum where it is.
    """
    known, method = np.isfinite(scores), whole.method
    results: dict[int, list[Floats]] = {int(size): [] for size in sizes}
    draws = 1 if method == "information" else _DRAWS
    for fold, (train, test) in enumerate(_folds(len(scores), seed)):
        progress("holding out models", fold / FOLDS)
        columns = np.flatnonzero(known[train].any(axis=0))
        start = (fitted.slope[columns], fitted.intercept[columns], fitted.skill[train]) if fitted else None
        _, plan = _calibrate(
            scores[np.ix_(train, columns)], method, whole.strata[columns], whole.binary, start=start
        )
        selections = {
            int(size): np.stack(
                [
                    _select(plan, min(int(size), len(columns) - 1), np.random.default_rng([seed, 2, size, draw]))
                    for draw in range(draws)
                ]
            )
            for size in sizes
        }
        test = test[:MOST_HELD_OUT]
        complete = known[np.ix_(test, columns)].all(axis=1)
        # With one selection, models that have all items are estimated together.
        together = (
            [test[complete]] if draws == 1 and complete.any() else [test[[i]] for i in np.flatnonzero(complete)]
        )
        for models in (*together, *(test[[i]] for i in np.flatnonzero(~complete))):
            x = np.repeat(scores[np.ix_(models, columns)], draws, axis=0)
            answered = np.isfinite(x[0])
            own = plan if answered.all() else _restrict(plan, answered)
            position = np.cumsum(answered) - 1
            truth = x[:, answered].mean(axis=1) if answered.any() else np.zeros(len(x))
            for size, selected in selections.items():
                subsets = np.tile(selected, (len(models), 1))
                batches = [subsets] if answered.all() else [row[answered[row]][None] for row in subsets]
                for rows in batches:
                    if rows.shape[1] < 5:
                        continue
                    right = truth[: len(rows)]
                    value, stderr, degrees = _estimate(
                        own, np.take_along_axis(x[: len(rows)], rows, axis=1), position[rows]
                    )
                    reach = special.stdtrit(degrees, 0.5 + level / 2) * stderr
                    error = value - right
                    results[size].append(np.stack([error, reach, np.abs(error) <= reach, stderr, right], axis=1))
    if not all(results.values()):
        raise InputError(": models have too few of the items for a shorter test", argument="outcomes")
    tables = {size: np.concatenate(blocks) for size, blocks in results.items()}
    if method == "information":
        for table in tables.values():  # widen by the misfit, as the final interval is
            wider = np.sqrt(table[:, 3] ** 2 + _misfit(table) ** 2)
            table[:, 1] = float(special.ndtri(0.5 + level / 2)) * wider
            table[:, 2] = np.abs(table[:, 0]) <= table[:, 1]
    return tables


def _restrict(plan: _Plan, whole: NDArray[np.bool_]) -> _Plan:
    ease, slope, intercept = (
        values[whole] if len(values) else values for values in (plan.ease, plan.slope, plan.intercept)
    )
    return _Plan(plan.method, ease, slope, intercept, plan.misfit, plan.strata[whole], plan.binary)
