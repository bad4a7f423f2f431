"""The items of a test set: difficulty and discrimination, dead and broken items, information along skill."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtr

from hardpan.arguments import one_of, whole_number
from hardpan.errors import InputError, counted
from hardpan.execution import Progress
from hardpan.execution.mapping import between, no_progress
from hardpan.files import record
from hardpan.files.reading import check_memory
from hardpan.leaderboard import irt
from hardpan.leaderboard.pairs import Floats, column_blocks
from hardpan.outcomes import Outcomes
from hardpan.report import Report
from hardpan.stats.hypothesis_tests import benjamini_hochberg

MODELS = ("rasch", "2pl", "3pl")
FEW_MODELS = 200
FEW_PRIOR = irt.Priors(slope_mean=1.0, slope_spread=0.5)
WEAK_PRIOR = irt.Priors()
ALPHA = 0.05
COHORTS = (5, 10, 25)
POWER_SLOPES = (-1.0, -2.0, -4.0)
COPIES = 1.5  # of the scores, that are in memory while they are fitted
_POWER_DRAWS = 400


@record
class Cohort:
    """Items that do not separate the best models.

    Attributes:
        size: how many of the best models.
        all_right: items that all of them get right.
        all_wrong: items that all of them get wrong.
        dead: items on which all of them have the same score.
        items: items with at least two scores of these models.
    """

    size: int
    all_right: int
    all_wrong: int
    dead: int
    items: int


@record(eq=False, dropped=("p_value", "steps", "by_modes"))
class ItemFit(Report):
    """A fitted item response model: P = c + (1 − c) σ(slope · skill + intercept), skills with mean 0 and
    variance 1.

    Attributes:
        model: model of the items: "rasch", "2pl" or "3pl".
        guessing: c, 0 unless the model is "3pl".
        items: (N,) ids.
        models: M names.
        slope: (N,) discrimination on the logit scale; negative where better models do worse. NaN without scores.
        slope_stderr: its standard error.
        intercept: (N,) on the logit scale.
        intercept_stderr: its standard error.
        skill: (M,) posterior means; NaN without scores.
        skill_stderr: (M,) posterior standard deviations.
        mean_score: (N,) mean over the models that have the item.
        flag: (N,) "broken" (better models do worse, by a rank test with Benjamini–Hochberg), "dead" (all models
            have the same score), or "".
        p_adjusted: (N,) of the one-sided rank test that better models do worse, after Benjamini–Hochberg.
        cohorts: dead items among the best 5, 10, 25 and all models.
        broken_slopes: slopes for which ``broken_power`` is computed.
        broken_power: probability that a broken item of this slope and medium difficulty is flagged.
        slope_prior: mean and standard deviation of the normal prior of the slopes.
        few_models: whether that prior is the tight one for few models.
        robust: whether standard errors are robust, as scores are fractions.
        log_likelihood: marginal log-likelihood.
        converged: whether it reached the maximum.
        source: where the scores come from.
        notes: what the reader of the scores reported.
    """

    model: str
    guessing: float
    items: NDArray[np.str_]
    models: tuple[str, ...]
    slope: Floats
    slope_stderr: Floats
    intercept: Floats
    intercept_stderr: Floats
    skill: Floats
    skill_stderr: Floats
    mean_score: Floats
    flag: NDArray[np.str_]
    p_adjusted: Floats
    cohorts: tuple[Cohort, ...]
    broken_slopes: tuple[float, ...]
    broken_power: tuple[float, ...]
    slope_prior: tuple[float, float]
    few_models: bool
    robust: bool
    log_likelihood: float
    converged: bool
    source: str = ""
    notes: tuple[str, ...] = ()

    def information(self, skills: ArrayLike) -> Floats:
        """Fisher information of the whole test about skill; 1/√ of it is the standard error of a skill there.

        I(θ) = Σ_i a_i² P'(θ)²/(P(1 − P)) with P' = (1 − c) s(1 − s), s = σ(a_i θ + d_i).

        Args:
            skills: where to evaluate it, of any shape.
        """
        where = np.asarray(skills, dtype=np.float64)
        known = np.isfinite(self.slope)
        result = irt.information(where.ravel(), self.slope[known], self.intercept[known], self.guessing)
        return result.reshape(where.shape)


def items(
    outcomes: object,
    model: str = "2pl",
    *,
    choices: int = 4,
    seed: int = 0,
    progress: Progress | None = None,
) -> ItemFit:
    """Fit slopes and intercepts of the items and skills of the models.

    P(right) = c + (1 − c) σ(a_i θ_j + d_i) with θ ~ N(0, 1) integrated out (marginal maximum likelihood, Newton's
    method; :mod:`hardpan.leaderboard.irt`). "rasch" has one slope for all items, "2pl" one slope per item of
    either sign, "3pl" besides a guessing floor c = 1/choices. Scores between 0 and 1 are fitted by quasi-likelihood
    with robust standard errors. Below 200 models slopes have the prior N(1, 0.5²), else the weak one N(1, 3²).

    A negative slope alone is no evidence: "broken" needs a one-sided rank test of the item's scores against
    the mean score on the other items to survive Benjamini–Hochberg at 5 %.

    Args:
        outcomes: :class:`hardpan.Outcomes`, or what its ``open`` opens: scores; cells may be missing.
        model: item response model: "rasch", "2pl" or "3pl".
        choices: number of choices per item, for "3pl".
        seed: of the simulation of the test's power.
        progress: called with a step and the fraction done.

    Source: Bock and Aitkin, "Marginal maximum likelihood estimation of item parameters" (1981); Louis (1982).

    Example:
        >>> from hardpan import Outcomes
        >>> rng = np.random.default_rng(0)
        >>> skill, intercept = rng.normal(size=400), np.linspace(-2, 2, 20)
        >>> p = 1 / (1 + np.exp(-(1.5 * skill[:, None] + intercept)))
        >>> fit = items(Outcomes.from_arrays(rng.random((400, 20)) < p))
        >>> bool(np.corrcoef(fit.skill, skill)[0, 1] > 0.9), fit.converged
        (True, True)
    """
    outcomes = Outcomes.of_items(outcomes, models=2)
    one_of("model", model, MODELS)
    whole_number("choices", choices, 2)
    scores = outcomes.item_scores()
    check_memory(f"fitting {counted(scores.size, 'score')}", COPIES * scores.nbytes, "select fewer models or items")
    rows, columns, used = _scored_cells(scores)
    few, rasch, robust = len(used) < FEW_MODELS, model == "rasch", not outcomes.is_binary()
    guessing = 1.0 / choices if model == "3pl" else 0.0
    priors = irt.Priors(1.0, 100.0) if rasch else FEW_PRIOR if few else WEAK_PRIOR
    tell = progress or no_progress
    fitted = irt.fit(
        used, floor=guessing, shared_slope=rasch, priors=priors, robust=robust, progress=between(tell, 0.0, 0.9)
    )
    tell("testing items", 0.9)
    adjusted = benjamini_hochberg(_broken_test(used, not robust))
    dead = np.nanmax(used, axis=0) == np.nanmin(used, axis=0)
    flag = np.full(len(columns), "", dtype="<U6")
    flag[columns] = np.where(adjusted <= ALPHA, "broken", np.where(dead, "dead", ""))
    return ItemFit(
        model=model,
        guessing=guessing,
        items=outcomes.items,
        models=outcomes.models,
        slope=_item_analysis_column(fitted.slope, columns),
        slope_stderr=_item_analysis_column(fitted.slope_stderr, columns),
        intercept=_item_analysis_column(fitted.intercept, columns),
        intercept_stderr=_item_analysis_column(fitted.intercept_stderr, columns),
        skill=_item_analysis_column(fitted.skill, rows),
        skill_stderr=_item_analysis_column(fitted.skill_stderr, rows),
        mean_score=_item_analysis_column(
            np.concatenate([item_means(used[:, block]) for block in column_blocks(used.shape[1])]), columns
        ),
        flag=flag,
        p_adjusted=_item_analysis_column(adjusted, columns),
        cohorts=_cohorts(used, fitted.skill),
        broken_slopes=POWER_SLOPES,
        broken_power=_flag_power(fitted.skill, used.shape[1], seed),
        slope_prior=(priors.slope_mean, priors.slope_spread),
        few_models=few and not rasch,
        robust=robust,
        log_likelihood=fitted.log_likelihood,
        converged=fitted.converged,
        source=outcomes.source,
        notes=outcomes.notes,
    )


def _scored_cells(scores: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Floats]:
    """Which models and items have scores, and these scores."""
    known = np.isfinite(scores)
    rows, columns = np.asarray(known.any(axis=1)), np.asarray(known.any(axis=0))
    used = scores if rows.all() and columns.all() else scores[np.ix_(rows, columns)]
    if min(used.shape) < 2:
        raise InputError(f"must have scores of at least 2 models on 2 items; got {used.shape}", argument="outcomes")
    if np.nanmin(used) == np.nanmax(used):
        raise InputError(": all scores are equal; items cannot be compared", argument="outcomes")
    return rows, columns, used


def _item_analysis_column(values: Floats, where: NDArray[np.bool_]) -> Floats:
    """The values at the places that are True, NaN at the others."""
    result = np.full(len(where), np.nan)
    result[where] = values
    return result


def item_means(scores: Floats) -> Floats:
    """(N,) mean scores of items over the models (M, N) that have them; 0 where none has."""
    return np.asarray(np.nansum(scores, axis=0) / np.maximum(np.isfinite(scores).sum(axis=0), 1))


def _broken_test(scores: Floats, binary: bool) -> Floats:
    """One-sided p-values that models with a higher mean on the other items score lower on an item.

    Mann–Whitney for right and wrong, Spearman for fractions, both in the normal approximation with the permutation
    variance (ties included). The other items' mean is relative to each item's mean, so that missing cells do
    no harm.
    """
    n = scores.shape[1]
    if binary and np.isfinite(scores).all():
        return _broken_test_of_complete(scores)
    blocks = list(column_blocks(n))
    means = np.concatenate([item_means(scores[:, columns]) for columns in blocks])
    sums, total, count = np.zeros((3, len(scores)))
    for columns in blocks:
        sums += np.nansum(scores[:, columns], axis=1)
        total += np.nansum(scores[:, columns] - means[columns], axis=1)
        count += np.isfinite(scores[:, columns]).sum(axis=1)
    # In order of the total the columns are nearly sorted, which makes ranking them several times faster.
    order = np.argsort(sums, kind="stable")
    total, count = total[order, None], count[order, None]
    result = np.ones(n)
    for columns in blocks:
        scored = scores[order, columns]
        mask = np.isfinite(scored)
        rest = (total - np.where(mask, scored - means[columns], 0.0)) / np.maximum(count - mask, 1)
        # Rounding must not break ties: equal totals give equal means only up to the last digits.
        ranks = _average_ranks(np.where(mask, rest.round(12), np.inf))
        values = scored if binary else _average_ranks(np.where(mask, scored, np.inf))
        size = mask.sum(axis=0)
        x = np.where(mask, values, 0.0)
        r = np.where(mask, ranks, 0.0)
        x = np.where(mask, x - x.sum(axis=0) / np.maximum(size, 1), 0.0)
        r = np.where(mask, r - r.sum(axis=0) / np.maximum(size, 1), 0.0)
        statistic = (x * r).sum(axis=0) + (0.5 if binary else 0.0)
        spread = np.sqrt((x**2).sum(axis=0) * (r**2).sum(axis=0) / np.maximum(size - 1, 1))
        usable = (size >= 3) & (spread > 0)
        result[columns] = np.where(usable, ndtr(statistic / np.where(usable, spread, 1.0)), 1.0)
    return result


def _broken_test_of_complete(scores: Floats) -> Floats:
    """:func:`_broken_test` of right and wrong without missing cells, from counts of pairs instead of ranks.

    On the other items a model that is right has one right answer fewer. With U the pairs of a right and a wrong
    model of which the right one has more there (ties count half), the statistic is U − R W/2, and its permutation
    variance R W/(M (M − 1)) (M³ − M − Σ(t³ − t))/12 with t the sizes of the ties.
    """
    m, n = scores.shape
    totals = scores.sum(axis=1)
    order = np.argsort(totals, kind="stable")
    totals = np.rint(totals[order])
    less, up_to = (np.searchsorted(totals, totals - 1, side) for side in ("left", "right"))
    values, starts, sizes = np.unique(totals, return_index=True, return_counts=True)
    above = np.minimum(np.searchsorted(values, values + 1), len(values) - 1)
    follows = values[above] == values + 1  # by distinct total: whether the next higher count occurs
    alone = np.ones(len(values), dtype=np.bool_)
    alone[above[follows]] = False
    result = np.ones(n)
    for columns in column_blocks(n):
        right = scores[order, columns].astype(np.float32)
        wrong = np.zeros((m + 1, right.shape[1]), dtype=np.float32)
        np.cumsum(1 - right, axis=0, out=wrong[1:])
        pairs = np.einsum("ij,ij->j", right, wrong[less] + wrong[up_to], dtype=np.float64) / 2
        r = right.sum(axis=0, dtype=np.float64)
        by_value = np.add.reduceat(right, starts, axis=0).astype(np.float64)
        ties = sizes[:, None] - by_value + np.where(follows[:, None], by_value[above], 0.0)
        tied = (ties**3 - ties).sum(axis=0) + (by_value[alone] ** 3 - by_value[alone]).sum(axis=0)
        spread = np.sqrt(r * (m - r) / (m * (m - 1.0)) * (m**3 - m - tied) / 12)
        usable = (m >= 3) & (spread > 0)
        statistic = pairs - r * (m - r) / 2 + 0.5
        result[columns] = np.where(usable, ndtr(statistic / np.where(usable, spread, 1.0)), 1.0)
    return result


def _flag_power(skill: Floats, count: int, seed: int) -> tuple[float, ...]:
    """How often an item of these slopes would have a p-value of at most α/N, by simulation at these skills."""
    rng = np.random.default_rng([seed, 0])
    skill = skill if len(skill) <= 1000 else np.quantile(skill, (np.arange(1000) + 0.5) / 1000)
    ranks = _average_ranks(skill) - (len(skill) + 1) / 2
    results = []
    for slope in POWER_SLOPES:
        x = (rng.random((_POWER_DRAWS, len(skill))) < expit(slope * skill)).astype(np.float64)
        x -= x.mean(axis=1, keepdims=True)
        spread = np.sqrt((x**2).sum(axis=1) * (ranks**2).sum() / (len(skill) - 1))
        p = ndtr((x @ ranks + 0.5) / np.where(spread > 0, spread, np.inf))
        results.append(float((p <= ALPHA / count).mean()))
    return tuple(results)


def _cohorts(scores: Floats, skill: Floats) -> tuple[Cohort, ...]:
    order = np.argsort(-skill, kind="stable")
    results = []
    for size in (*(size for size in COHORTS if size < len(order)), len(order)):
        best = scores[order[:size]] if size < len(order) else scores
        enough = np.isfinite(best).sum(axis=0) >= 2
        low, high = np.fmin.reduce(best, axis=0)[enough], np.fmax.reduce(best, axis=0)[enough]
        counts = ((low == 1).sum(), (high == 0).sum(), (low == high).sum(), enough.sum())
        results.append(Cohort(size, *(int(value) for value in counts)))
    return tuple(results)


def _average_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ascending ranks along the first axis; equal values get the mean of their ranks."""
    from scipy.stats import rankdata  # slow to import

    return np.asarray(rankdata(values, axis=0))
