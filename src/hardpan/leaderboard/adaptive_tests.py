"""Adaptive tests: each next item is the one that says most about the skill seen so far; when to stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, expit, logsumexp

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.files import record
from hardpan.leaderboard.item_analysis import items as fit_items
from hardpan.leaderboard.pairs import Floats
from hardpan.outcomes import Outcomes
from hardpan.report import Report
from hardpan.stats.intervals import normal_quantile

FOLDS = 5
ALPHA = 0.05
MOST_HELD_OUT = 20  # models per fold
SKILLS = np.linspace(-6.0, 6.0, 121)
_PRIOR = 2.0  # standard deviation of a new model's skill: it may lie outside the models that calibrate


@record(eq=False)
class AdaptiveTest(Report):
    """A test that chooses each next item by its information, and what it tells about the score on all items.

    Attributes:
        items: (N,) ids of the items it chooses from.
        slope: (N,) discriminations, of all models.
        intercept: (N,) intercepts.
        stop: it stops where half the interval of the score is at most this, as far as the item model goes.
        longest: the most items that it asks.
        misfit: standard deviation of the errors on held-out models beyond what the item model explains; intervals
            include it.
        used: median number of items asked of a held-out model.
        half_width: median half width of their intervals.
        mean_error: mean absolute error of the estimate on held-out models.
        bias_best: mean error on the best fifth of them.
        coverage: share of held-out models whose full score lies in the interval.
        random_error: mean absolute error of the mean of as many random items.
        held_out: how many models were held out.
        confidence: level.
        contradicted: whether the coverage is below ``confidence`` beyond chance (exact binomial test, 5 %).
        notes: what the reader of the scores reported.
    """

    items: NDArray[np.str_]
    slope: Floats
    intercept: Floats
    stop: float
    longest: int
    misfit: float
    used: float
    half_width: float
    mean_error: float
    bias_best: float
    coverage: float
    random_error: float
    held_out: int
    confidence: float
    contradicted: bool = False
    notes: tuple[str, ...] = ()

    def next_item(self, answered: Mapping[str, float]) -> str:
        """The id of the item to ask next, "" where the test stops.

        Args:
            answered: scores of the items that were asked, by id.
        """
        bank, scores = self._bank_and_scores(answered)
        row = bank.next_row(scores, self.stop / normal_quantile(self.confidence), self.longest)
        return "" if row < 0 else str(self.items[row])

    def estimate(self, answered: Mapping[str, float]) -> Estimate:
        """The score on all items of a model with these scores, with its interval.

        Args:
            answered: scores of the items that were asked, by id.
        """
        bank, scores = self._bank_and_scores(answered)
        value, error = bank.full_score(scores)
        error = float(np.hypot(error, self.misfit))
        reach = normal_quantile(self.confidence) * error
        ends = max(value - reach, 0.0), min(value + reach, 1.0)
        return Estimate(value, error, *ends, self.confidence, "item response model with misfit", len(answered))

    def _bank_and_scores(self, answered: Mapping[str, float]) -> tuple[_ItemBank, Floats]:
        row_of, scores = {str(name): row for row, name in enumerate(self.items)}, np.full(len(self.items), np.nan)
        for name, score in answered.items():
            if str(name) not in row_of or not 0 <= score <= 1:
                raise InputError(
                    f"must be scores from 0 to 1 of its items; got {name!r}: {score!r}", argument="answered"
                )
            scores[row_of[str(name)]] = score
        return _ItemBank(self.slope, self.intercept), scores


@dataclass(frozen=True, slots=True, eq=False)
class _ItemBank:
    """Items of the two-parameter logistic model: P(right | θ) = σ(aθ + d)."""

    slope: Floats
    intercept: Floats

    def posterior(self, scores: Floats) -> Floats:
        """Weights of ``SKILLS`` given the scores of the items that were asked (NaN: not asked)."""
        answered = np.isfinite(scores)
        logit = SKILLS[:, None] * self.slope[answered] + self.intercept[answered]
        log = (scores[answered] * logit - np.logaddexp(0.0, logit)).sum(axis=1) - (SKILLS / _PRIOR) ** 2 / 2
        return np.asarray(np.exp(log - logsumexp(log)))

    def full_score(self, scores: Floats) -> tuple[float, float]:
        """Mean and standard deviation of the score on all items: skill, and answers that were not seen."""
        weights, answered = self.posterior(scores), np.isfinite(scores)
        p = expit(SKILLS[:, None] * self.slope[~answered] + self.intercept[~answered])
        n = len(scores)
        mean = (scores[answered].sum() + p.sum(axis=1)) / n
        value = float(weights @ mean)
        variance = weights @ (mean - value) ** 2 + weights @ (p * (1 - p)).sum(axis=1) / n**2
        return value, float(np.sqrt(variance))

    def next_row(self, scores: Floats, stop: float, longest: int, usable: NDArray[np.bool_] | None = None) -> int:
        """The row of the most informative item that was not asked, a² p(1 − p) at the mean skill; −1 to stop."""
        answered = np.isfinite(scores)
        free = ~answered if usable is None else ~answered & usable
        if answered.sum() >= longest or not free.any() or (answered.any() and self.full_score(scores)[1] <= stop):
            return -1
        p = expit(float(self.posterior(scores) @ SKILLS) * self.slope + self.intercept)
        return int(np.where(free, self.slope**2 * p * (1 - p), -1.0).argmax())


def adaptive_test(
    outcomes: Outcomes, stop: float, longest: int, level: float, seed: int, progress: Progress
) -> AdaptiveTest:
    """Fit the items, and run the test on models that were held out from the fit (5 folds)."""
    scores, m = outcomes.item_scores(), outcomes.n_models
    order = np.random.default_rng([seed, 3]).permutation(m)
    rows: list[tuple[float, ...]] = []
    for fold, test in enumerate(np.array_split(order, FOLDS)):
        progress("holding out models", fold / (FOLDS + 1))
        bank, columns = _item_bank(outcomes.select(models=np.sort(np.setdiff1d(order, test))))
        for model in test[:MOST_HELD_OUT].tolist():
            x = scores[model, columns]
            usable = np.isfinite(x)
            if usable.sum() < 6:
                continue
            answered = np.full(len(x), np.nan)
            while (row := bank.next_row(answered, stop / normal_quantile(level), longest, usable)) >= 0:
                answered[row] = x[row]
            value, error = bank.full_score(answered)
            count, truth = int(np.isfinite(answered).sum()), float(x[usable].mean())
            sample = np.random.default_rng([seed, 4, model]).choice(x[usable], min(count, int(usable.sum())), False)
            rows.append((value - truth, error, count, truth, float(sample.mean()) - truth, fold))
    if not rows:
        raise InputError(": models have too few of the items for an adaptive test", argument="outcomes")
    off, error, count, truth, at_random, folds = np.array(rows).T

    def misfit_of(these: NDArray[np.bool_]) -> float:
        return float(np.sqrt(max(np.mean(off[these] ** 2 - error[these] ** 2), 0.0))) if these.any() else 0.0

    # The misfit in an interval comes from models of other folds, as it does for a new model.
    reach = normal_quantile(level) * np.hypot(error, [misfit_of(folds != fold) for fold in folds])
    best = np.argsort(-truth, kind="stable")[: max(1, len(truth) // 5)]
    bank, columns = _item_bank(outcomes)
    return AdaptiveTest(
        items=outcomes.items[columns],
        slope=bank.slope,
        intercept=bank.intercept,
        stop=stop,
        longest=longest,
        misfit=misfit_of(np.ones(len(off), dtype=np.bool_)),
        used=float(np.median(count)),
        half_width=float(np.median(reach)),
        mean_error=float(np.abs(off).mean()),
        bias_best=float(off[best].mean()),
        coverage=float((np.abs(off) <= reach).mean()),
        random_error=float(np.abs(at_random).mean()),
        held_out=len(rows),
        confidence=level,
        contradicted=bool(bdtr(int((np.abs(off) <= reach).sum()), len(rows), level) <= ALPHA),
        notes=outcomes.notes,
    )


def _item_bank(outcomes: Outcomes) -> tuple[_ItemBank, NDArray[np.int64]]:
    """The fitted items, and their columns; items without scores of these models are left out."""
    known = np.flatnonzero(np.isfinite(outcomes.item_scores()).any(axis=0))
    fit = fit_items(outcomes.select(items=known))
    usable = np.isfinite(fit.slope)
    return _ItemBank(fit.slope[usable], fit.intercept[usable]), known[usable]
