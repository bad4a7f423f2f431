"""What a fitted scale tells of a test: information, reliability, dead examples, shorter tests, one scale or two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize_scalar
from scipy.special import chdtrc

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.report.base import Report
from hardpan.testbed.items.fit import fit_items


@record
@dataclass(frozen=True, slots=True)
class OneScale(Report):
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
