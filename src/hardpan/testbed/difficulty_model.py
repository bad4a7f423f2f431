"""The Gaussian difficulty model: why accuracies on two test sets fall on a probit line, and what the line says.

Example i has difficulty τ_i ~ N(μ, σ²), model j has skill s_j and is right with probability Φ(s_j − τ_i). Its
accuracy is then Φ((s_j − μ)/√(σ² + 1)), so on the probit scale accuracies on a second set are u times those on
the first plus v, with u = √(σ₁² + 1)/√(σ₂² + 1) and v = (μ₁ − μ₂)/√(σ₂² + 1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from hardpan.arguments import real_number
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.outcomes import Outcomes
from hardpan.stats.resampling import Floats, percentile_interval, standard_error
from hardpan.testbed.line import LineFit


@record
class Difficulty:
    """Mean and spread of difficulty on the new set, for stated ones of the original set.

    Attributes:
        mu: mean difficulty of the new set.
        sigma: its standard deviation.
        mu_original: the stated mean of the original set; it only fixes the zero of the scale.
        sigma_original: the stated standard deviation of the original set.
        notes: what limits the reading.
    """

    mu: Estimate
    sigma: Estimate
    mu_original: float
    sigma_original: float
    notes: tuple[str, ...] = ()


def difficulty_from_line(u: ArrayLike, v: ArrayLike, sigma: float, mu: float = 0.0) -> tuple[Floats, Floats]:
    """(μ₂, σ₂) of the new set from a probit line: σ₂² = (σ₁² + 1)/u² − 1, μ₂ = μ₁ − v √(σ₂² + 1).

    Only u and v are identified by a testbed, so σ₁ has to be given (or come from a fit of the items). Where u
    exceeds √(σ₁² + 1) no σ₂ exists, and both come out NaN.

    Example:
        >>> mu, sigma = difficulty_from_line(*line_from_difficulty(0.0, 1.0, 0.5, 1.2), sigma=1.0)
        >>> round(float(mu), 12), round(float(sigma), 12)
        (0.5, 1.2)
    """
    real_number("sigma", sigma, "[0, inf)")
    real_number("mu", mu, "(-inf, inf)")
    slope, offset = np.asarray(u, dtype=np.float64), np.asarray(v, dtype=np.float64)
    if (slope <= 0).any():
        raise InputError(
            f"must be above 0 in the difficulty model; got {slope[slope <= 0].flat[0]:g}", argument="u"
        )
    variance = (sigma**2 + 1.0) / slope**2 - 1.0
    # A spread of exactly 0 may come back a rounding error below it.
    second = np.sqrt(np.where(variance < -1e-12, np.nan, np.maximum(variance, 0.0)))
    return np.asarray(mu - offset * np.sqrt(second**2 + 1.0)), np.asarray(second)


def line_from_difficulty(mu: float, sigma: float, new_mu: float, new_sigma: float) -> tuple[float, float]:
    """(u, v) of the probit line between sets with difficulties N(mu, sigma²) and N(new_mu, new_sigma²)."""
    real_number("sigma", min(sigma, new_sigma), "[0, inf)")
    width = float(np.sqrt(new_sigma**2 + 1.0))
    return float(np.sqrt(sigma**2 + 1.0)) / width, (mu - new_mu) / width


def difficulty(fit: LineFit, sigma: float = 1.0, mu: float = 0.0) -> Difficulty:
    """What a probit line says about the new set's difficulty, with intervals from the draws of the line.

    Args:
        fit: a line on the probit scale that still holds its draws.
        sigma: spread of difficulty of the original set; the line does not identify it.
        mu: mean difficulty of the original set; 0 fixes the scale.

    Source: Recht et al., section 5.3.
    """
    if fit.scale != "probit":
        raise InputError(f"the difficulty model needs a line on the probit scale; got {fit.scale!r}")
    if len(fit.draws) == 0:
        raise InputError("must hold its draws; this one was made compact: fit again", argument="fit")
    value_mu, value_sigma = difficulty_from_line(fit.slope.value, fit.offset.value, sigma, mu)
    if np.isnan(value_sigma):
        raise InputError(
            f"a probit slope of {fit.slope.value:.3g} needs a spread of the original set above "
            f"{np.sqrt(max(fit.slope.value**2 - 1.0, 0.0)):.3g}; got sigma={sigma:g}"
        )
    usable = fit.draws[fit.draws[:, 0] > 0]
    redrawn = difficulty_from_line(usable[:, 0], usable[:, 1], sigma, mu)
    lost = int(np.isnan(redrawn[1]).sum()) + len(fit.draws) - len(usable)
    notes = [f"given σ₁ = {sigma:g} and μ₁ = {mu:g}: only u and v are identified"]
    if lost:
        notes.append(f"{lost:,} of {len(fit.draws):,} resamples have no σ₂ and were left out")
    level = fit.slope.confidence
    estimates = []
    for value, draws in ((value_mu, redrawn[0]), (value_sigma, redrawn[1])):
        low, high = percentile_interval(draws, level)
        method = f"Gaussian difficulty model, {fit.slope.method}"
        error = standard_error(draws)
        estimates.append(
            Estimate(float(value), error, float(low), float(high), level, method, fit.n, fit.slope.seed)
        )
    return Difficulty(estimates[0], estimates[1], mu, sigma, tuple(notes))


def simulate(
    skills: ArrayLike,
    *,
    examples: tuple[int, int] = (10_000, 2_000),
    mu: tuple[float, float] = (0.0, 0.5),
    sigma: tuple[float, float] = (1.0, 1.2),
    seed: int = 0,
) -> tuple[Outcomes, Outcomes]:
    """Draw right and wrong of models with the given skills from the Gaussian difficulty model.

    All models share the examples of a set, as in a real testbed.

    Args:
        skills: (M,) skills s_j.
        examples: sizes of the original and the new set.
        mu: mean difficulty of the two sets.
        sigma: spread of difficulty of the two sets.
        seed: of the draws.

    Example:
        >>> simulate([0.0, 1.0, 2.0], examples=(50, 20))
        (Outcomes(3 models × 50 items), Outcomes(3 models × 20 items))
    """
    skill = _skills(skills)
    sets = []
    for side in range(2):
        rng = np.random.default_rng([seed, side])
        tau = rng.normal(mu[side], sigma[side], size=examples[side])
        right = np.empty((len(skill), len(tau)))
        for row, value in enumerate(skill):
            # Φ(s − τ) is the chance that standard normal noise stays below s − τ.
            right[row] = rng.standard_normal(len(tau)) < value - tau
        sets.append(Outcomes.from_arrays(right, models=_names(len(skill))))
    return sets[0], sets[1]


def simulate_counts(
    skills: ArrayLike,
    *,
    examples: tuple[int, int] = (10_000, 2_000),
    mu: tuple[float, float] = (0.0, 0.5),
    sigma: tuple[float, float] = (1.0, 1.2),
    seed: int = 0,
) -> Outcomes:
    """Counts from the same model where every model sees its own examples: independent binomials.

    Returns:
        Outcomes with the items "original" and "new", whole test sets with their ``totals``.
    """
    rng = np.random.default_rng([seed, 2])
    expected = expected_accuracies(skills, mu=mu, sigma=sigma)
    correct = [rng.binomial(examples[side], expected[side]) for side in range(2)]
    totals = np.broadcast_to(np.array(examples), (len(expected[0]), 2))
    return Outcomes(
        np.stack(correct, axis=1) / totals,
        _names(len(expected[0])),
        np.array(["original", "new"]),
        totals=totals.astype(np.int64),
    )


def expected_accuracies(
    skills: ArrayLike, *, mu: tuple[float, float] = (0.0, 0.5), sigma: tuple[float, float] = (1.0, 1.2)
) -> tuple[Floats, Floats]:
    """Accuracies on the two populations, Φ((s − μ)/√(σ² + 1)), for skills (M,)."""
    skill = _skills(skills)
    first, second = (special.ndtr((skill - mu[k]) / np.sqrt(sigma[k] ** 2 + 1.0)) for k in range(2))
    return first, second


def _skills(skills: ArrayLike) -> Floats:
    skill = np.asarray(skills, dtype=np.float64)
    if skill.ndim != 1 or skill.size == 0 or not np.isfinite(skill).all():
        raise InputError(f"must be one row of finite numbers; got shape {skill.shape}", argument="skills")
    return skill


def _names(count: int) -> tuple[str, ...]:
    return tuple(f"model-{index:0{len(str(count - 1))}d}" for index in range(count))
