"""Scores by a judge, corrected by people's scores of a random sample of the answers."""

from __future__ import annotations

import numpy as np
from scipy import special

from hardpan.arguments import check_confidence
from hardpan.errors import InputError
from hardpan.estimates import Estimate, estimates_of_columns
from hardpan.files import record
from hardpan.leaderboard.item_groups import item_groups
from hardpan.leaderboard.pairs import Floats, PairTests
from hardpan.leaderboard.ranking import Ints, rank_sets, separated_pairs
from hardpan.outcomes import Outcomes
from hardpan.report import Report
from hardpan.stats.intervals import FEW_EVENTS, clopper_pearson, normal, normal_quantile

FEWEST = 10  # answers with both scores, of a model


@record(eq=False)
class JudgedScores(Report):
    """Mean scores as people would give them, estimated from a judge and a few scores by people, best model first.

    Attributes:
        models: names.
        score: the corrected mean.
        stderr: its standard error.
        low: lower end of its interval.
        high: upper end of it.
        rank_low: best rank that the tests of all pairs allow, all models together (Holm).
        rank_high: worst rank.
        tier: 1 for the first model and those not separated from it, and so on.
        judge: mean score by the judge over all answers.
        people: mean score by people over the answers that they scored.
        bias: judge − people on these answers, with its interval.
        weight: λ, how much the judge counts: 0 not at all, 1 as if it were right but for a constant.
        labelled: answers with a score by people.
        answers: answers with a score by the judge.
        gain: how many scores by people alone would give the same standard error, per score.
        same_bias: p-value that the judge has the same bias for all models (Holm over the models).
        confidence: level of the intervals, and of all rank sets together.
        notes: what the reader of the scores reported.
        cluster: the column of item groups that intervals and tests follow, or "".
    """

    models: tuple[str, ...]
    score: Floats
    stderr: Floats
    low: Floats
    high: Floats
    rank_low: Ints
    rank_high: Ints
    tier: Ints
    judge: Floats
    people: Floats
    bias: tuple[Estimate, ...]
    weight: Floats
    labelled: Ints
    answers: Ints
    gain: Floats
    same_bias: float
    confidence: float
    notes: tuple[str, ...] = ()
    cluster: str = ""

    @property
    def estimates(self) -> list[Estimate]:
        """The corrected means with their intervals, best first."""
        return estimates_of_columns(self.score, self.stderr, self.low, self.high, self.confidence)


def judge(outcomes: object, *, group: str | None = None, confidence: float = 0.95) -> JudgedScores:
    """Correct a judge's scores by people's scores of some answers: prediction-powered inference (PPI++).

    With n answers that have both scores y (people) and f (judge), and N that have f only: θ̂ = ȳ + λ(f̄_N − f̄_n),
    λ = Cov(y, f)/((1 + n/N) Var(f)) between 0 and 1, SE² = s²(y − λf)/n + λ² s²(f)/N with n − 2 in s², Student's t.
    It holds for any judge if the answers that people scored are a random sample of all answers; a judge that says
    nothing gets λ near 0. Pairs of models: the same on the differences of the items that both have, by Holm. Where
    fewer than 15 scores of right and wrong differ, the interval contains that of f̄ + P(y > f) − P(y < f) by exact
    limits of the two. With groups of items the influences of the answers, (y − λf − mean)/n and λ(f − f̄_N)/N, are
    summed within groups: SE² = G/(G−1) Σ_g (Σ_g)², Student's t with G − 1, G the groups with answers that people
    scored.

    Args:
        outcomes: scores by the judge, with the measure "human" (in tables the column human).
        group: column of item groups, as in :func:`hardpan.leaderboard.rank`.
        confidence: level.

    Source: Angelopoulos, Duchi and Zrnic, "PPI++: efficient prediction-powered inference" (2023).

    Example:
        >>> rows = [{"model": "a", "item": i, "score": i % 3 > 0, "human": i % 4 > 0 if i < 60 else None}
        ...         for i in range(600)]
        >>> result = judge(Outcomes.open(rows))
        >>> bool(result.low[0] < 0.75 < result.high[0]), result.labelled.tolist()
        (True, [60])
    """
    level = check_confidence(confidence)
    outcomes = Outcomes.of_items(outcomes)
    if "human" not in outcomes.measures:
        raise InputError(
            ": has no scores by people; give them in a column human",
            argument="outcomes",
        )
    people, scores = outcomes.measures["human"], outcomes.item_scores()
    if not ((people >= 0) & (people <= 1) | np.isnan(people)).all():
        raise InputError(": scores by people must have the range of the judge's", argument="outcomes")
    both = np.isfinite(people) & np.isfinite(scores)
    if few := [name for name, n in zip(outcomes.models, both.sum(axis=1), strict=True) if n < FEWEST]:
        raise InputError(
            f": {few[0]} has fewer than {FEWEST} answers with a score by people; score more, or leave it out",
            argument="outcomes",
        )
    m, groups = outcomes.n_models, item_groups(outcomes, group)
    codes = np.arange(outcomes.n_items) if groups is None else groups.codes
    own = [_powered_mean(people[row], scores[row], codes) for row in range(m)]
    value, stderr, degrees, weight = np.array(own).T
    reach = special.stdtrit(degrees, 0.5 + level / 2) * stderr
    low, high = value - reach, value + reach
    for row in range(m):
        ends = _limits_of_few(people[row], scores[row], level)
        low[row], high[row] = min(low[row], ends[0]), max(high[row], ends[1])
    difference, error, p = np.zeros((m, m)), np.zeros((m, m)), np.ones((m, m))
    for i in range(m):
        for j in range(i):
            y, f = people[i] - people[j], scores[i] - scores[j]
            if (np.isfinite(y) & np.isfinite(f)).sum() < FEWEST:
                continue
            d, se, df, _ = _powered_mean(y, f, codes)
            difference[i, j], error[i, j] = d, se
            p[i, j] = 2 * special.stdtr(df, -abs(d) / se) if se > 0 else 1.0
    difference, error, p = difference - difference.T, error + error.T, np.minimum(p, p.T)
    tests = PairTests(difference, error, p, (both.astype(float) @ both.T).astype(np.int64), False)
    order = np.lexsort((np.arange(m), -value))
    alone = np.array([people[row, both[row]].var(ddof=1) / both[row].sum() for row in range(m)])
    bias = [_bias((scores[row] - people[row])[both[row]], codes[both[row]], level) for row in range(m)]
    return JudgedScores(
        models=tuple(outcomes.models[row] for row in order),
        score=np.clip(value, 0.0, 1.0)[order],
        stderr=stderr[order],
        low=np.clip(low, 0.0, 1.0)[order],
        high=np.clip(high, 0.0, 1.0)[order],
        **rank_sets(difference, separated_pairs(tests, 1 - level)[1], order),
        judge=np.array([np.nanmean(scores[row]) for row in order]),
        people=np.array([people[row, both[row]].mean() for row in order]),
        bias=tuple(bias[row] for row in order),
        weight=weight[order],
        labelled=both.sum(axis=1)[order].astype(np.int64),
        answers=np.isfinite(scores).sum(axis=1)[order].astype(np.int64),
        gain=np.where(stderr > 0, alone / np.maximum(stderr, 1e-12) ** 2, np.nan)[order],
        same_bias=_same_bias(bias),
        confidence=level,
        notes=outcomes.notes,
        cluster="" if groups is None else groups.name,
    )


def _powered_mean(y: Floats, f: Floats, codes: Ints) -> tuple[float, float, float, float]:
    """θ̂, its standard error, degrees of freedom and λ; y is NaN where people gave no score."""
    has, only = np.isfinite(y) & np.isfinite(f), np.isnan(y) & np.isfinite(f)
    n, rest = int(has.sum()), int(only.sum())
    a, b = y[has], f[has]
    spread = float(f[np.isfinite(f)].var(ddof=1))
    weight = float(np.cov(a, b)[0, 1] / ((1 + n / rest) * spread)) if rest > 1 and spread > 0 else 0.0
    weight = min(max(weight, 0.0), 1.0)
    residual = a - weight * b
    value = float(residual.mean() + (weight * f[only].mean() if weight else 0.0))
    if (count := len(np.unique(codes[has]))) < n:
        influence = np.zeros(len(y))
        influence[has] = (residual - residual.mean()) / n
        influence[only] = weight * (f[only] - f[only].mean()) / rest if weight else 0.0
        sums = np.bincount(codes, influence)
        error = float(np.sqrt(count / (count - 1) * (sums**2).sum())) if count > 1 else float("inf")
        return value, error, float(max(count - 1, 1)), weight
    variance = ((residual - residual.mean()) ** 2).sum() / (n - 2) / n
    variance += weight**2 * float(f[only].var(ddof=1)) / rest if weight else 0.0
    return value, float(np.sqrt(variance)), float(n - 2), weight


def _limits_of_few(y: Floats, f: Floats, level: float) -> tuple[float, float]:
    """Where few scores of right and wrong differ: limits of f̄ + P(y > f) − P(y < f) by exact ones (MOVER)."""
    has = np.isfinite(y) & np.isfinite(f)
    d, known = y[has] - f[has], f[np.isfinite(f)]
    n, above, below = len(d), int((d > 0).sum()), int((d < 0).sum())
    if above + below >= FEW_EVENTS or not np.isin(d, (-1.0, 0.0, 1.0)).all():
        return 1.0, 0.0
    (more, most), (less, least) = (
        (above / n, clopper_pearson(above, n, level)),
        (below / n, clopper_pearson(below, n, level)),
    )
    noise, value = normal_quantile(level) ** 2 * known.var(ddof=1) / len(known), known.mean() + more - less
    down = np.sqrt((more - most[0]) ** 2 + (least[1] - less) ** 2 + noise)
    up = np.sqrt((most[1] - more) ** 2 + (less - least[0]) ** 2 + noise)
    return float(value - down), float(value + up)


def _bias(d: Floats, codes: Ints, level: float) -> Estimate:
    """The mean difference; its n are the groups, without any the answers."""
    groups, at = np.unique(codes, return_inverse=True)
    n = len(groups)
    sums = np.bincount(at, d - d.mean())
    error = float(np.sqrt(n / (n - 1) * (sums**2).sum()) / len(d)) if n > 1 else float("inf")
    return normal(float(d.mean()), error, n, level, least=-1.0, most=1.0, method="t", df=max(n - 1, 1))


def _same_bias(bias: list[Estimate]) -> float:
    """Welch's test that the means of the differences are equal."""
    value, variance, n = np.array([(b.value, b.stderr**2, b.n) for b in bias]).T
    k = len(bias)
    if k < 2:
        return float("nan")
    w = 1 / np.where(variance > 0, variance, 1 / (n + 2) / n)  # a judge that never erred here may err once
    centre = (w * value).sum() / w.sum()
    spread = ((1 - w / w.sum()) ** 2 / (n - 1)).sum()
    statistic = (w * (value - centre) ** 2).sum() / (k - 1) / (1 + 2 * (k - 2) / (k**2 - 1) * spread)
    return float(special.fdtrc(k - 1, (k**2 - 1) / (3 * spread), statistic))
