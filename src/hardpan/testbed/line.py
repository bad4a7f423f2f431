"""New accuracy against original accuracy: the line through many models, and its uncertainty.

Which uncertainty depends on what the sentence claims. A slope of these models on fresh test sets varies with the
examples: it is estimated by S_xy/(S_xx − T), T being what sampling adds to S_xx, and its standard error is that of
the examples, drawn again for all models jointly. The paper's interval draws models again and takes the test sets as
they are (``resample="models"``).

Why a line? In the Gaussian difficulty model example i has difficulty τ_i ~ N(μ, σ²), model j has skill s_j and is
right with probability Φ(s_j − τ_i). Its accuracy is then Φ((s_j − μ)/√(σ² + 1)), so on the probit scale accuracies
on a second set are u times those on the first plus v: u = √(σ₁² + 1)/√(σ₂² + 1), v = (μ₁ − μ₂)/√(σ₂² + 1).
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.arguments import check_confidence, one_of, real_number, real_numbers, whole_number
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import TRANSIENT, record
from hardpan.outcomes import Outcomes
from hardpan.stats.intervals import normal_quantile
from hardpan.stats.lines import (
    Scale,
    bootstrap_lines,
    check_scale,
    fit_lines,
    from_scale,
    scale_derivative,
    to_scale,
)
from hardpan.stats.resampling import (
    Floats,
    bootstrap_standard_error,
    normal_draws,
    percentile_interval,
)
from hardpan.testbed.sets import TwoSets, two_sets

Resample = Literal["models", "examples", "both"]
RESAMPLES: tuple[Resample, ...] = ("models", "examples", "both")
LEAST_LEFT = 0.1  # of S_xx, once the noise in x is taken out
_BAND_POINTS_AT_ONCE = 64
BOUND = "bound from counts: the models' errors may be shared in any way"


@record(kind="LineFit", eq=False, dropped=("reliability",))
class AccuracyLine:
    """A line from original to new accuracies on a scale: new = offset + slope · original, both on that scale.

    Attributes:
        slope: with its interval.
        offset: with its interval, in the units of the scale (0..1 on the linear one).
        r2: proportion of the variance on the scale that the line explains.
        scale: "linear", "probit" or "logit".
        n: how many models.
        resample: what the intervals generalise over: "models", "examples" or "both".
        draws: (B, 2) slopes and offsets of resamples; not saved.
    """

    slope: Estimate
    offset: Estimate
    r2: float
    scale: Scale
    n: int
    resample: Resample = "models"
    draws: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 2)), metadata=TRANSIENT)

    @property
    def defined(self) -> bool:
        """Whether there is a line: it needs accuracies that differ by more than sampling noise."""
        return bool(np.isfinite(self.slope.value))

    def predict(self, x: ArrayLike) -> Floats:
        """The new accuracy the line gives for original accuracies x, any shape."""
        return from_scale(self.offset.value + self.slope.value * self._scaled(x), self.scale)

    def band(self, x: ArrayLike) -> tuple[Floats, Floats]:
        """Pointwise limits of the line at original accuracies x, at the level of the slope's interval."""
        if len(self.draws) == 0:
            raise InputError("this fit was read from a file, without its draws; fit again for a band")
        points = self._scaled(x)
        flat = points.ravel()
        limits = np.empty((2, flat.size))
        for start in range(0, flat.size, _BAND_POINTS_AT_ONCE):
            block = slice(start, start + _BAND_POINTS_AT_ONCE)
            lines = self.draws[:, 1:] + self.draws[:, :1] * flat[block]
            limits[:, block] = percentile_interval(lines, self.slope.confidence)
        low, high = from_scale(limits, self.scale).reshape(2, *points.shape)
        return low, high

    def prediction_error(self, x: ArrayLike) -> Floats:
        """Standard error of :meth:`predict`, from the covariance of slope and offset over the resamples."""
        points = self._scaled(x)
        usable = self.draws[np.isfinite(self.draws).all(axis=1)]
        if len(usable) < 2:
            return np.full(points.shape, np.nan)
        spread = np.cov(usable.T)
        variance = spread[0, 0] * points**2 + 2.0 * spread[0, 1] * points + spread[1, 1]
        at = self.offset.value + self.slope.value * points
        return np.asarray(scale_derivative(at, self.scale) * np.sqrt(np.maximum(variance, 0.0)))

    def __repr__(self) -> str:
        slope, offset = (
            f"{item.value:.4g} [{item.low:.4g}, {item.high:.4g}]" for item in (self.slope, self.offset)
        )
        return f"AccuracyLine({self.scale}: slope {slope}, offset {offset}, r2={self.r2:.4g}, n={self.n})"

    def _scaled(self, x: ArrayLike) -> Floats:
        return to_scale(_line_accuracies("x", x), self.scale)


def fit_line(
    original: Any,
    new: Any = None,
    scale: str = "linear",
    bootstrap: int = 100_000,
    seed: int = 0,
    *,
    confidence: float = 0.95,
    resample: str | None = None,
) -> AccuracyLine:
    """Fit a line from original to new accuracies, with intervals.

    Args:
        original: (n,) accuracies in 0..1 on the original set, n ≥ 3; or outcomes on it, or anything that
            :func:`hardpan.testbed.compare` takes.
        new: the same on the new set.
        scale: "linear", "probit" or "logit"; on the last two, accuracies of exactly 0 or 1 are refused where the
            sizes of the sets are not known (else they are moved half an example inside).
        bootstrap: how many resamples.
        seed: of the draws.
        confidence: the level.
        resample: what the interval generalises over. "examples", the default with outcomes: fresh test sets of the
            same kind, the same models; the slope is corrected for the sampling noise in x. "models", the default
            with accuracies alone: other models, the same test sets, as the paper. "both" adds the two and is wide:
            the scatter about the line already contains the sampling error of the examples.

    Source: Recht et al., "Do ImageNet Classifiers Generalize to ImageNet?", section 3.3 and appendix C.2; the
    correction for noise in x: Fuller, "Measurement Error Models" (1987), chapter 1.

    Example:
        >>> fit = fit_line([0.9, 0.8, 0.7, 0.6], [0.85, 0.69, 0.51, 0.35], bootstrap=1000)
        >>> round(fit.slope.value, 3), round(fit.offset.value, 3)
        (1.68, -0.66)
    """
    options: dict[str, Any] = {"bootstrap": bootstrap, "seed": seed, "confidence": confidence}
    if isinstance(original, (Outcomes, TwoSets)) or isinstance(new, Outcomes):
        return line_of_sets(two_sets(original, new), scale, resample=resample or "examples", **options)
    if resample not in (None, "models"):
        raise InputError(
            f"must be 'models' for accuracies; got {resample!r}, which needs outcomes or counts",
            argument="resample",
        )
    kind = check_scale(scale)
    x, y = (_line_accuracies(name, values, kind) for name, values in (("original", original), ("new", new)))
    if x.shape != y.shape:
        raise InputError(f"must have the same models; got {len(x)} and {len(y)}", argument=("original", "new"))
    return _line_on_scale(to_scale(x, kind), to_scale(y, kind), kind, None, "models", **options)


class NoLine(InputError):
    """Sampling noise hides the differences between models, so that no line can be fitted."""


def line_of_sets(sets: TwoSets, scale: str, *, resample: str, **options: Any) -> AccuracyLine:
    """:func:`fit_line` of two sets; raises :class:`NoLine` where no line is defined."""
    kind, sides = check_scale(scale), (sets.original, sets.new)
    x, y = (to_scale(side.accuracy if kind == "linear" else side.inside(), kind) for side in sides)
    return _line_on_scale(x, y, kind, sets, resample, **options)


def _line_on_scale(
    x: Floats,
    y: Floats,
    scale: Scale,
    sets: TwoSets | None,
    resample: str,
    *,
    bootstrap: int,
    seed: int,
    confidence: float,
) -> AccuracyLine:
    level = check_confidence(confidence)
    whole_number("bootstrap", bootstrap, 2)
    one_of("resample", resample, RESAMPLES)
    if len(x) < 3:
        raise InputError(f"must have at least 3 models for a line; got {len(x)}", argument=("original", "new"))
    if np.ptp(x) == 0:
        raise InputError("must differ between models; all accuracies are equal: no line", argument="original")
    draws = bootstrap_lines(x, y, bootstrap, seed) if resample != "examples" else np.empty((0, 2))
    if sets is None or resample == "models":
        return _line_over_models(x, y, scale, draws, level, seed)
    return _line_over_examples(x, y, scale, sets, draws, bootstrap, level, seed)


def _line_over_models(x: Floats, y: Floats, scale: Scale, draws: Floats, level: float, seed: int) -> AccuracyLine:
    slope, offset, r2 = fit_lines(x, y)
    method = f"least squares, percentile bootstrap over models, {len(draws):,} resamples"
    dropped = int(np.isnan(draws[:, 0]).sum())
    notes = (f"{dropped:,} resamples with one original accuracy only were left out",) if dropped else ()
    estimates = []
    for column, value in enumerate((float(slope), float(offset))):
        low, high = (float(limit) for limit in percentile_interval(draws[:, column], level))
        error = bootstrap_standard_error(draws[:, column])
        estimates.append(Estimate(value, error, low, high, level, method, len(x), seed, notes))
    return AccuracyLine(estimates[0], estimates[1], float(r2), scale, len(x), "models", draws)


def _line_over_examples(
    x: Floats,
    y: Floats,
    scale: Scale,
    sets: TwoSets,
    models: Floats,
    bootstrap: int,
    level: float,
    seed: int,
) -> AccuracyLine:
    """The line corrected for noise in x, with the sampling of both test sets in its interval.

    With b = S_xy/(S_xx − T): ∂b/∂y_m = (x_m − x̄)/(S_xx − T), ∂b/∂x_m = (y_m − ȳ − 2b(x_m − x̄))/(S_xx − T), and
    a = ȳ − b x̄. From counts T is only bounded (0 to that of independent models): the slope stays uncorrected, and
    its interval reaches from the one end to the other.
    """
    m, counts = len(x), sets.evidence == "counts"
    steep_x, steep_y = (1.0 / scale_derivative(values, scale) for values in (x, y))  # dx/dp, dy/dp
    xc, yc = x - x.mean(), y - y.mean()
    spread = float(xc @ xc)
    noise = sets.original.noise(steep_x)
    left = 1.0 - noise / spread
    if left < LEAST_LEFT:
        raise NoLine(
            f"no line: sampling noise makes up {100 * min(noise / spread, 1):.0f} % of the spread of the original "
            "accuracies; compare models that differ more, or on more examples"
        )
    corrected = spread if counts else spread - noise
    slope = float(xc @ yc) / corrected
    offset = float(y.mean() - slope * x.mean())
    by_y = np.stack([xc / corrected, 1.0 / m - x.mean() * xc / corrected])
    turn = (yc - 2.0 * slope * xc) / corrected
    by_x = np.stack([turn, -slope / m - x.mean() * turn])
    covariance = sets.original.combined(by_x * steep_x) + sets.new.combined(by_y * steep_y)
    draws = normal_draws(covariance, bootstrap, np.random.default_rng([seed, 7]))
    draws += models if len(models) else np.array([slope, offset])
    reach = normal_quantile(level) * np.sqrt(np.diag(covariance))
    (low, offset_low), (high, offset_high) = (np.array([slope, offset]) + sign * reach for sign in (-1, 1))
    if counts:
        method = f"least squares; {BOUND}"
        # Draws cover the possible corrections, 1 to 1/left, evenly.
        factor = 1.0 / (1.0 - (1.0 - left) * (np.arange(bootstrap) % 101) / 100.0)
        moved = draws[:, 0] * (factor - 1.0)
        draws = draws + np.stack([moved, -moved * x.mean()], axis=1)
        # The interval of the slope reaches over them, and that of the offset as far as the slope turns about x̄.
        most = 1.0 / left
        turned = -slope * (most - 1.0) * float(x.mean())
        low, high = min(low, low * most), max(high, high * most)
        offset_low, offset_high = offset_low + min(turned, 0.0), offset_high + max(turned, 0.0)
    else:
        words = "models and examples" if len(models) else "examples"
        method = f"least squares corrected for noise in x, {words} drawn jointly for all models"
    limits, errors = [(low, high), (offset_low, offset_high)], np.sqrt(np.diag(covariance))
    if len(models):
        limits = [percentile_interval(draws[:, k], level) for k in range(2)]
        errors = np.array([bootstrap_standard_error(draws[:, k]) for k in range(2)])
    noisy = counts and left < 0.9
    notes = (f"up to {100 * (1 - left):.0f} % of the spread of x may be sampling noise",) if noisy else ()
    slope_estimate, offset_estimate = (
        Estimate(value, float(error), float(ends[0]), float(ends[1]), level, method, m, seed, notes)
        for value, error, ends in zip((slope, offset), errors, limits, strict=True)
    )
    how: Resample = "both" if len(models) else "examples"
    return AccuracyLine(slope_estimate, offset_estimate, float(fit_lines(x, y)[2]), scale, m, how, draws)


def no_line(sets: TwoSets, scale: str, resample: str, level: float, reason: str) -> AccuracyLine:
    """A fit without a line, for comparisons that are worth making without one."""
    nan = float("nan")
    unknown = Estimate(nan, nan, nan, nan, level, "no line", len(sets), notes=(reason,))
    return AccuracyLine(unknown, unknown, nan, check_scale(scale), len(sets), cast("Resample", resample))


def _line_accuracies(name: str, values: Any, scale: Scale | None = None) -> Floats:
    """Accuracies 0 to 1; with a scale one row of them, on which they are finite."""
    p = real_numbers(name, values)
    outside = (p < 0) | (p > 1)
    if outside.any():
        first = p[outside].flat[0]
        raise InputError(f"must be accuracies in 0..1; got {first:g}: divide percentages by 100", argument=name)
    if scale is None:
        return p
    if p.ndim != 1:
        raise InputError(f"must be one row of accuracies; got shape {p.shape}", argument=name)
    ends = (p == 0) | (p == 1)
    if scale != "linear" and ends.any():
        raise InputError(
            f"must lie strictly between 0 and 1 on the {scale} scale; got {p[ends][0]:g}: use the linear scale, "
            "or give outcomes or counts",
            argument=name,
        )
    return p


@record(dropped=("mu_original", "sigma_original"))
class Difficulty:
    """Mean and spread of difficulty on the new set, if those of the original set are 0 and what was stated.

    Attributes:
        mu: mean difficulty of the new set.
        sigma: its standard deviation.
        notes: what limits the reading.
    """

    mu: Estimate
    sigma: Estimate
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


def difficulty(fit: AccuracyLine, sigma: float = 1.0) -> Difficulty:
    """What a probit line says about the new set's difficulty, with intervals from the draws of the line.

    Args:
        fit: a line on the probit scale that still holds its draws.
        sigma: spread of difficulty of the original set, whose mean is 0; the line does not identify it.

    Source: Recht et al., section 5.3.
    """
    if fit.scale != "probit":
        raise InputError(f"must be a line on the probit scale; got {fit.scale!r}", argument="fit")
    if len(fit.draws) == 0:
        raise InputError("must hold its draws, which are not saved; fit again", argument="fit")
    value_mu, value_sigma = difficulty_from_line(fit.slope.value, fit.offset.value, sigma)
    if np.isnan(value_sigma):
        raise InputError(
            f"must be above {np.sqrt(max(fit.slope.value**2 - 1.0, 0.0)):.3g} for a probit slope of "
            f"{fit.slope.value:.3g}; got {sigma:g}",
            argument="sigma",
        )
    usable = fit.draws[fit.draws[:, 0] > 0]
    redrawn = difficulty_from_line(usable[:, 0], usable[:, 1], sigma)
    lost = int(np.isnan(redrawn[1]).sum()) + len(fit.draws) - len(usable)
    notes = [f"given σ₁ = {sigma:g} and μ₁ = 0: only u and v are identified"]
    if lost:
        notes.append(f"{lost:,} of {len(fit.draws):,} resamples have no σ₂ and were left out")
    level = fit.slope.confidence
    estimates = []
    for value, draws in ((value_mu, redrawn[0]), (value_sigma, redrawn[1])):
        low, high = percentile_interval(draws, level)
        method = f"Gaussian difficulty model, {fit.slope.method}"
        error = bootstrap_standard_error(draws)
        estimates.append(
            Estimate(float(value), error, float(low), float(high), level, method, fit.n, fit.slope.seed)
        )
    return Difficulty(estimates[0], estimates[1], tuple(notes))


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
    skill = np.atleast_1d(real_numbers("skills", skills))
    if skill.size == 0:
        raise InputError("must have at least one skill; got none", argument="skills")
    names = [f"model-{index:0{len(str(len(skill) - 1))}d}" for index in range(len(skill))]
    sets = []
    for side in range(2):
        rng = np.random.default_rng([seed, side])
        tau = rng.normal(mu[side], sigma[side], size=examples[side])
        right = np.empty((len(skill), len(tau)))
        for row, value in enumerate(skill):
            # Φ(s − τ) is the chance that standard normal noise stays below s − τ.
            right[row] = rng.standard_normal(len(tau)) < value - tau
        sets.append(Outcomes.from_arrays(right, models=names))
    return sets[0], sets[1]
