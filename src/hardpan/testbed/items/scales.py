"""What a fitted scale tells of a test: information, reliability, dead examples, shorter tests, one scale or two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.special import chdtrc, fdtri

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.stats import rank_intervals
from hardpan.testbed.items.fit import ItemFit, check_matrix, fit_items
from hardpan.testbed.items.likelihood import MISSING
from hardpan.testbed.items.quadrature import FloatArray, probit_information


@record
@dataclass(frozen=True, slots=True)
class Cohort:
    """How many examples the best models all get right or all get wrong: these tell none of them apart."""

    size: int
    all_right: int
    all_wrong: int
    telling: int


@record
@dataclass(frozen=True, slots=True, eq=False)
class ShorterTest:
    """How few examples keep the ranking.

    Attributes:
        sizes: numbers of examples that were tried.
        random_share: for each, the share of models that stay within their rank interval, examples drawn at random.
        chosen_share: the same with the most informative examples.
        random: fewest examples drawn at random that keep ``share`` of the models, 0 if none did.
        chosen: fewest of the most informative ones; optimistic, since they were chosen by the same answers.
        share: the share asked for.
        low: (M,) best rank of each model on the whole test at ``confidence``.
        high: (M,) worst rank.
    """

    sizes: tuple[int, ...]
    random_share: tuple[float, ...]
    chosen_share: tuple[float, ...]
    random: int
    chosen: int
    share: float
    confidence: float
    low: NDArray[np.int64]
    high: NDArray[np.int64]


@record
@dataclass(frozen=True, slots=True)
class OneScale:
    """Whether one scale of skill explains two test sets.

    Attributes:
        statistic: Wald statistic of equal skills on both sets, χ² with ``degrees`` = M − 1 if one scale does.
        p_value: its upper tail.
        stretch: k of s_new = k s_original, with the interval where the statistic rises by 3.84 above its least.
        stretch_p_value: p-value of one scale up to that stretch, M − 2 degrees of freedom.
        disagreement: root mean square of the true difference of skills beyond their errors, in probit units.
        spread_original, spread_new: σ of difficulty on the two sets.
        shift: how much harder the new set is on average, μ_new − μ_original, were the skills equal.
        slope, offset: u and v of the probit line that section 5.3 then predicts.
    """

    statistic: float
    degrees: int
    p_value: float
    stretch: Estimate
    stretch_p_value: float
    disagreement: float
    spread_original: float
    spread_new: float
    shift: float
    slope: float
    offset: float


def kr20(right: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Reliability of the number right, by Kuder and Richardson's formula 20, with Feldt's interval.

    N/(N−1) · (1 − Σ_i p_i (1 − p_i) / Var_j(number right)); (1 − ρ)/(1 − ρ̂) follows F with M − 1 and (M−1)(N−1)
    degrees of freedom.

    Args:
        right: (M, N) models × examples, complete.

    Example:
        >>> kr20([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]).value
        0.8
    """
    answers = _complete(right)
    models, examples = answers.shape
    share = answers.mean(axis=0)
    total = answers.sum(axis=1, dtype=np.int64)
    if total.var() == 0:
        raise InputError("right gives every model the same number right; reliability is not defined then")
    value = examples / (examples - 1) * (1 - float((share * (1 - share)).sum()) / float(total.var()))
    tail, degrees = (1 - confidence) / 2, (models - 1, (models - 1) * (examples - 1))
    low = 1 - (1 - value) * float(fdtri(*degrees, 1 - tail))
    high = 1 - (1 - value) * float(fdtri(*degrees, tail))
    return Estimate(round(value, 15), (high - low) / 3.92, low, high, confidence, "KR-20, Feldt's interval", models)


def information_curve(fit: ItemFit, skills: ArrayLike | None = None) -> tuple[FloatArray, FloatArray]:
    """Fisher information of the whole test along the skill scale; 1/sqrt of it is a skill's standard error there.

    I(s) = Σ_i a_i² φ(x)² / (Φ(x) (1 − Φ(x))) with x = a_i (s − τ_i), at the examples' estimates.

    Args:
        skills: where to evaluate, (G,); 41 points over the models' range and one beyond by default.

    Returns:
        (skills, information), each (G,).
    """
    grid = (
        np.linspace(fit.skills.min() - 1, fit.skills.max() + 1, 41) if skills is None else np.asarray(skills, float)
    )
    information = [
        float((fit.discrimination**2 * probit_information(fit.discrimination * (s - fit.difficulty))).sum())
        for s in grid.ravel()
    ]
    return grid, np.array(information).reshape(grid.shape)


def cohorts(right: ArrayLike, sizes: Sequence[int] = (5, 10, 25)) -> tuple[Cohort, ...]:
    """Count the examples that tell none of the best models apart, for several numbers of best models, and for all.

    Models are ordered by accuracy, equal ones by their place in the matrix.

    Example:
        >>> cohorts([[1, 1, 0, 1], [1, 1, 0, 0], [0, 1, 0, 0]], sizes=[2])[0]
        Cohort(size=2, all_right=2, all_wrong=1, telling=1)
    """
    answers = _complete(right)
    order = np.argsort(-answers.mean(axis=1), kind="stable")
    found = []
    for size in sorted({*(s for s in sizes if 1 < s < len(answers)), len(answers)}):
        hits = answers[order[:size]].sum(axis=0, dtype=np.int64)
        every, none = int((hits == size).sum()), int((hits == 0).sum())
        found.append(Cohort(size, every, none, answers.shape[1] - every - none))
    return tuple(found)


def fewest_items(
    right: ArrayLike, fit: ItemFit, *, share: float = 0.95, confidence: float = 0.95, draws: int = 20, seed: int = 0
) -> ShorterTest:
    """Find how few examples keep the models within their rank intervals of the whole test.

    Models are ranked by accuracy on the examples kept; a size counts as enough when it and all larger sizes tried
    keep ``share`` of the models, on average over ``draws`` random choices, or for the examples of most information
    at the models' skills.
    """
    answers = _complete(right)
    examples = answers.shape[1]
    accuracy = answers.mean(axis=1)
    low, high, _ = rank_intervals(
        accuracy, np.cov(answers.astype(np.float32)) / examples, confidence=confidence, seed=seed
    )
    by_information = np.argsort(-_mean_information(fit), kind="stable")
    sizes = np.unique(np.geomspace(min(10, examples), examples, 24).round().astype(int))
    at_random = np.zeros((draws, len(sizes)))
    for draw in range(draws):
        order = np.random.default_rng([seed, draw]).permutation(examples)
        at_random[draw] = _kept(answers, order, sizes, low, high)
    random_share = at_random.mean(axis=0)
    chosen_share = _kept(answers, by_information, sizes, low, high)
    return ShorterTest(
        sizes=tuple(int(n) for n in sizes),
        random_share=tuple(random_share.tolist()),
        chosen_share=tuple(chosen_share.tolist()),
        random=_smallest(sizes, random_share, share),
        chosen=_smallest(sizes, chosen_share, share),
        share=share,
        confidence=confidence,
        low=low,
        high=high,
    )


def one_scale(original: ArrayLike, new: ArrayLike, *, seed: int = 0) -> OneScale:
    """Test whether the same skills explain both test sets, each with its own normal distribution of difficulty.

    Rasch fits of the two sets give skills ŝ₁, ŝ₂ with covariances V₁, V₂, independent as the examples are. With d
    their difference, centred, dᵀ(V₁+V₂)⁻¹d is χ² with M − 1 degrees of freedom when one scale explains both. With
    many examples a small disagreement is significant: read ``disagreement`` and ``stretch`` beside the p-value.

    Args:
        original: (M, N₁) right or wrong of the models on the original set.
        new: (M, N₂) of the same models on the new set.

    Source: the replication paper, section 5.3.
    """
    first, second = fit_items(original, seed=seed), fit_items(new, seed=seed)
    models = len(first.skills)
    if models != len(second.skills) or models < 3:
        raise InputError(
            f"original and new must have the same 3 or more models; got {models} and {len(second.skills)}"
        )
    a, b = first.skills[:-1], second.skills[:-1]  # skills have mean 0: the last follows from the others
    va, vb = first.skill_covariance[:-1, :-1], second.skill_covariance[:-1, :-1]

    def statistic(stretch: float) -> float:
        difference = b - stretch * a
        return float(difference @ np.linalg.solve(vb + stretch**2 * va, difference))

    whole = first.skills - second.skills
    noise = float(np.trace(first.skill_covariance + second.skill_covariance))
    mean_shift = second.difficulty_mean.value - first.difficulty_mean.value
    new_size, original_size = (np.sqrt(fit.difficulty_spread.value**2 + 1) for fit in (second, first))
    best, stretch = _stretch(statistic, models)
    return OneScale(
        statistic=statistic(1.0),
        degrees=models - 1,
        p_value=float(chdtrc(models - 1, statistic(1.0))),
        stretch=stretch,
        stretch_p_value=float(chdtrc(models - 2, best)),
        disagreement=float(np.sqrt(max(float(whole @ whole) - noise, 0.0) / (models - 1))),
        spread_original=first.difficulty_spread.value,
        spread_new=second.difficulty_spread.value,
        shift=mean_shift,
        slope=float(original_size / new_size),
        offset=float(-mean_shift / new_size),
    )


def _stretch(statistic: Callable[[float], float], models: int) -> tuple[float, Estimate]:
    found = minimize_scalar(lambda log_k: statistic(np.exp(log_k)), bounds=(-3.0, 3.0), method="bounded")
    best, centre = float(found.fun), float(found.x)

    def rise(log_k: float) -> float:
        return float(statistic(np.exp(log_k))) - best - 3.841458820694124

    low = brentq(rise, -6.0, centre) if rise(-6.0) > 0 else -np.inf
    high = brentq(rise, centre, 6.0) if rise(6.0) > 0 else np.inf
    ends = [float(np.exp(end)) for end in (low, centre, high)]
    return best, Estimate(
        ends[1], (ends[2] - ends[0]) / 3.92, ends[0], ends[2], 0.95, "profile of the Wald statistic", models
    )


def _complete(right: ArrayLike) -> NDArray[np.uint8]:
    answers = check_matrix(right)
    if (answers == MISSING).any():
        raise InputError("right has examples that some models did not try; leave out those models or examples")
    return answers


def _mean_information(fit: ItemFit) -> FloatArray:
    total = np.zeros(len(fit.difficulty))
    # A few quantiles of the skills stand for all models: the information is smooth in skill.
    for skill in np.quantile(fit.skills, np.linspace(0.02, 0.98, 25)):
        total += fit.discrimination**2 * probit_information(fit.discrimination * (skill - fit.difficulty))
    return total


def _kept(
    answers: NDArray[np.uint8],
    order: NDArray[np.intp],
    sizes: NDArray[np.int64],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
) -> FloatArray:
    starts = np.concatenate([[0], sizes[:-1]])
    hits = np.cumsum(np.add.reduceat(answers[:, order], starts, axis=1, dtype=np.int64), axis=1)
    better = np.array([(column[:, None] < column).sum(axis=1) for column in hits.T])
    tied = np.array([(column[:, None] == column).sum(axis=1) - 1 for column in hits.T])
    # Equal models share their places; one of these must lie in the interval.
    return np.asarray(((better + 1 <= high) & (better + 1 + tied >= low)).mean(axis=1))


def _smallest(sizes: NDArray[np.int64], shares: FloatArray, share: float) -> int:
    enough = np.flatnonzero(np.minimum.accumulate(shares[::-1])[::-1] >= share)
    return int(sizes[enough[0]]) if enough.size else 0
