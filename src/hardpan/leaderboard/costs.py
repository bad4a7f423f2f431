"""Numbers without a range beside or in place of scores: costs, times, tokens, losses; and what a score costs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from hardpan.arguments import check_confidence, real_number
from hardpan.errors import InputError
from hardpan.estimates import Estimate, estimates_of_columns
from hardpan.files import record
from hardpan.leaderboard.item_groups import item_groups
from hardpan.leaderboard.pairs import Floats, all_pairs
from hardpan.leaderboard.ranking import Ints, rank_sets, separated_pairs
from hardpan.outcomes import Outcomes
from hardpan.report import Report
from hardpan.stats.intervals import bootstrap_t_limits

PEOPLE = "human"  # scores by people are no amounts (leaderboard.judge)
TRIMMED = 0.1  # share of the items left out at each end


@record(eq=False)
class Amount:
    """One number per answer, of all models, best first.

    Attributes:
        name: cost, duration, tokens, loss or score.
        lower_is_better: whether it is; only of "score" it is not.
        models: names.
        mean: mean over the items that the model has.
        stderr: its standard error.
        low: lower end of its bootstrap-t interval, an approximation.
        high: upper end of it.
        median: median over these items.
        trimmed: mean without the highest and the lowest tenth.
        rank_low: best rank that the paired tests of the means allow, all models together.
        rank_high: worst rank.
        tier: 1 for the first model and those not separated from it, and so on.
        items: how many items each model has.
        confidence: level.
    """

    name: str
    lower_is_better: bool
    models: tuple[str, ...]
    mean: Floats
    stderr: Floats
    low: Floats
    high: Floats
    median: Floats
    trimmed: Floats
    rank_low: Ints
    rank_high: Ints
    tier: Ints
    items: Ints
    confidence: float

    @property
    def estimates(self) -> list[Estimate]:
        """The means with their intervals, best first."""
        return estimates_of_columns(self.mean, self.stderr, self.low, self.high, self.confidence)


@record
class TradeOff:
    """A model's score beside an amount.

    Attributes:
        amount: name of the amount.
        model: name of the model.
        score: mean score.
        mean: mean amount.
        ratio: to that of the model with the highest score, on the items that both have; approximate.
        on_front: whether no model has at least this score for less.
        as_good: whether its score is within ``margin`` of the highest one, all models together.
    """

    amount: str
    model: str
    score: float
    mean: float
    ratio: Estimate
    on_front: bool
    as_good: bool


@record(eq=False)
class Amounts(Report):
    """Costs, times, tokens or scores without a range, and what scores cost.

    Attributes:
        amounts: one by one.
        trade_offs: per amount and model, cheapest first; empty where the scores themselves have no range.
        best: the model with the highest score, or "".
        margin: the lower score that counts as as good.
        source: where the numbers come from.
        notes: what the reader reported.
    """

    amounts: tuple[Amount, ...]
    trade_offs: tuple[TradeOff, ...]
    best: str
    margin: float
    source: str = ""
    notes: tuple[str, ...] = ()


def amounts(
    outcomes: object, *, margin: float = 0.01, group: str | None = None, confidence: float = 0.95, seed: int = 0
) -> Amounts:
    """Means, medians and trimmed means of costs, times, tokens or losses, with rank sets; what scores cost.

    Intervals of means are bootstrap-t over the items. No interval is valid for every distribution without a range,
    so they are approximate, and a few extreme items can decide a mean: the median and the mean without the highest
    and lowest tenth are given beside it. Pairs of models: paired t-tests of the means, clustered where items come
    in groups, corrected by Holm.

    A model is as good as the one with the highest score if the one-sided lower limit of the paired difference of
    their scores, corrected for all models by Bonferroni, is above −margin.

    Args:
        outcomes: with ``measures``: columns cost, duration or tokens, or scores read with ``max_score=inf``.
        margin: how much lower a score may be to count as as good, as a fraction.
        group: column of item groups, as in :func:`hardpan.leaderboard.rank`.
        confidence: level.
        seed: of the bootstrap.

    Source: Hall, "Theoretical comparison of bootstrap confidence intervals" (1988), for bootstrap-t.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> rows = [{"model": m, "item": i, "score": rng.random() < 0.8, "cost": c * rng.gamma(2.0)}
        ...         for m, c in (("large", 3.0), ("small", 1.0)) for i in range(300)]
        >>> result = amounts(Outcomes.open(rows))
        >>> result.amounts[0].models, result.amounts[0].rank_high.tolist()
        (('small', 'large'), [1, 2])
    """
    level, accepted = check_confidence(confidence), real_number("margin", margin, "[0, 0.5]")
    try:
        opened = Outcomes.open(outcomes.outcomes() if hasattr(outcomes, "outcomes") else outcomes)
    except InputError as error:
        raise error.renamed({"source": "outcomes"}) from error.__cause__
    named = {name: values for name, values in opened.measures.items() if name != PEOPLE}
    if not named:
        raise InputError(
            ": has no costs, times or tokens; give a column cost, duration or tokens, or scores without a range "
            "with max_score=inf",
            argument="outcomes",
        )
    if opened.is_unbounded():
        results = tuple(_amount(opened, name, group, level, seed) for name in named)
        return Amounts(results, (), "", accepted, opened.source, opened.notes)
    scores = opened.item_scores()
    means = np.nanmean(scores, axis=1)
    best = int(means.argmax())
    as_good = _as_good(scores, best, accepted, level)
    trades: list[TradeOff] = []
    for name, values in named.items():
        known = np.isfinite(values)
        cost = np.where(known, values, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        rows = [row for row in np.argsort(cost, kind="stable").tolist() if known[row].any()]
        for row in rows:
            beaten = [
                other
                for other in rows
                if (means[other] >= means[row] and cost[other] < cost[row])
                or (means[other] > means[row] and cost[other] <= cost[row])
            ]
            ratio = _ratio(values[row], values[best], level)
            trades.append(
                TradeOff(
                    name,
                    opened.models[row],
                    float(means[row]),
                    float(cost[row]),
                    ratio,
                    not beaten,
                    bool(as_good[row]),
                )
            )
    results = tuple(_amount(opened, name, group, level, seed) for name in named)
    return Amounts(results, tuple(trades), opened.models[best], accepted, opened.source, opened.notes)


def _amount(outcomes: Outcomes, name: str, group: str | None, level: float, seed: int) -> Amount:
    values, lower = outcomes.measures[name], name != "score"
    rows = np.flatnonzero(np.isfinite(values).sum(axis=1) > 1)
    values = values[rows]
    m = len(rows)
    ends, middle, trimmed, error = np.full((m, 2), np.nan), np.zeros(m), np.zeros(m), np.zeros(m)
    means, items = np.zeros(m), np.zeros(m, dtype=np.int64)
    for k, row in enumerate(values):
        x = row[np.isfinite(row)]
        means[k], items[k], middle[k] = x.mean(), len(x), np.median(x)
        trimmed[k], error[k] = stats.trim_mean(x, TRIMMED), x.std(ddof=1) / np.sqrt(len(x))
        low, high, _ = bootstrap_t_limits(x[None], level, seed=seed)
        ends[k] = low[0], high[0]
    scale = float(np.nanstd(values)) or 1.0
    tests = all_pairs((-values if lower else values) / scale, item_groups(outcomes, group), binary=False)
    order = np.argsort(means if lower else -means, kind="stable")
    separated = separated_pairs(tests, 1 - level)[1]
    return Amount(
        name=name,
        lower_is_better=lower,
        models=tuple(outcomes.models[rows[k]] for k in order),
        mean=means[order],
        stderr=error[order],
        low=ends[order, 0],
        high=ends[order, 1],
        median=middle[order],
        trimmed=trimmed[order],
        **rank_sets(tests.difference, separated, order),
        items=items[order],
        confidence=level,
    )


def _as_good(scores: Floats, best: int, margin: float, level: float) -> NDArray[np.bool_]:
    """Whether each model's score is within the margin of the best one's, all of them together."""
    d = scores - scores[best]
    n = np.isfinite(d).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(d, axis=1) / n
        error = np.sqrt(np.nansum((d - mean[:, None]) ** 2, axis=1) / (n - 1) / n)
    alpha = (1 - level) / max(len(d) - 1, 1)
    reach = special.stdtrit(np.maximum(n - 1, 1), 1 - alpha) * error
    reach = np.where(error > 0, reach, -np.log(alpha) / np.maximum(n, 1))  # equal on n items: what they can miss
    result = np.nan_to_num(mean - reach, nan=-1.0) > -margin
    result[best] = True
    return np.asarray(result)


def _ratio(values: Floats, reference: Floats, level: float) -> Estimate:
    """Ratio of two means on shared items, by the delta method on its logarithm."""
    shared = np.isfinite(values) & np.isfinite(reference)
    n, a, b = int(shared.sum()), values[shared], reference[shared]
    if n < 2 or a.mean() <= 0 or b.mean() <= 0:
        nan = float("nan")
        return Estimate(nan, nan, nan, nan, level, "no shared items", n)
    value = float(a.mean() / b.mean())
    error = float((a / a.mean() - b / b.mean()).std(ddof=1) / np.sqrt(n))
    reach = float(special.stdtrit(n - 1, 0.5 + level / 2)) * error
    low, high = value * np.exp(-reach), value * np.exp(reach)
    return Estimate(value, value * error, float(low), float(high), level, "delta method on the logarithm", n)
