"""New accuracy against original accuracy: the line through many models, and its uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.stats.intervals import check_confidence
from hardpan.stats.lines import (
    Scale,
    bootstrap_lines,
    check_scale,
    fit_lines,
    from_scale,
    jackknife_lines,
    scale_derivative,
    to_scale,
)
from hardpan.stats.resampling import (
    Floats,
    IntervalKind,
    bca_interval,
    check_interval,
    check_resamples,
    percentile_interval,
    standard_error,
)
from hardpan.testbed.redraw import RESAMPLES, Resample, Sampling, lines_of_redrawn

__all__ = ["RESAMPLES", "LineFit", "Resample", "Sampling", "fit_line", "fit_scales"]

_BAND_POINTS_AT_ONCE = 64
Side = Literal["original", "new"]


@record
@dataclass(frozen=True, slots=True, eq=False)
class LineFit:
    """A line from original to new accuracies on a scale: new = offset + slope · original, both on that scale.

    Attributes:
        slope: with its interval.
        offset: with its interval, in the units of the scale (0..1 on the linear one).
        r2: share of the variance on the scale that the line explains.
        scale: "linear", "probit" or "logit".
        n: how many models.
        resample: what the bootstrap redraws: "models", "examples" or "both".
        draws: (B, 2) slopes and offsets of the resamples; empty once dropped by :meth:`compact`.
    """

    slope: Estimate
    offset: Estimate
    r2: float
    scale: Scale
    n: int
    resample: Resample = "models"
    draws: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 2)))

    def predict(self, x: ArrayLike) -> Floats:
        """The new accuracy the line gives for original accuracies x, any shape."""
        return from_scale(self.offset.value + self.slope.value * self._scaled(x), self.scale)

    def band(self, x: ArrayLike) -> tuple[Floats, Floats]:
        """Pointwise limits of the line at original accuracies x, at the level of the slope's interval."""
        if len(self.draws) == 0:
            raise InputError("this fit was made compact and holds no bootstrap draws; fit again for a band")
        points = self._scaled(x)
        flat = points.ravel()
        limits = np.empty((2, flat.size))
        for start in range(0, flat.size, _BAND_POINTS_AT_ONCE):
            part = slice(start, start + _BAND_POINTS_AT_ONCE)
            limits[:, part] = percentile_interval(
                self.draws[:, 1:] + self.draws[:, :1] * flat[part], self.slope.confidence
            )
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

    def compact(self) -> LineFit:
        """The same fit without its bootstrap draws."""
        return replace(self, draws=np.empty((0, 2)))

    def __repr__(self) -> str:
        return (
            f"LineFit({self.scale}: slope {self.slope.value:.4g} [{self.slope.low:.4g}, {self.slope.high:.4g}], "
            f"offset {self.offset.value:.4g} [{self.offset.low:.4g}, {self.offset.high:.4g}], "
            f"r2={self.r2:.4g}, n={self.n})"
        )

    def _scaled(self, x: ArrayLike) -> Floats:
        return to_scale(_fractions("x", x), self.scale)


def fit_line(
    original: ArrayLike,
    new: ArrayLike,
    scale: str = "linear",
    bootstrap: int = 100_000,
    seed: int = 0,
    *,
    confidence: float = 0.95,
    interval: IntervalKind = "percentile",
    resample: str = "models",
    sampling: Sampling | None = None,
) -> LineFit:
    """Fit a least-squares line from original to new accuracies, with bootstrap intervals.

    Args:
        original: (n,) accuracies in 0..1 on the original set, n ≥ 3.
        new: (n,) accuracies in 0..1 on the new set.
        scale: "linear", "probit" or "logit"; on the last two, accuracies of exactly 0 or 1 have no place unless
            ``sampling`` gives the totals (they then count as half an example away from the end).
        bootstrap: how many resamples.
        seed: of the draws.
        confidence: the level.
        interval: "percentile" (as the paper) or "bca" (only for ``resample="models"``).
        resample: "models" redraws which models are in the table (as the paper) and takes the test sets as given:
            the error that models share because they share examples is not in it; "examples" redraws the examples
            behind each accuracy and keeps the models; "both" does both. The scatter about the line already holds
            the sampling error of the examples, so "both" counts that error twice and is wide.
        sampling: how the accuracies vary with the examples, needed for "examples" and "both".

    Source: Recht et al., "Do ImageNet Classifiers Generalize to ImageNet?", section 3.3 and appendix C.2.

    Example:
        >>> fit = fit_line([0.9, 0.8, 0.7, 0.6], [0.85, 0.69, 0.51, 0.35], bootstrap=1000)
        >>> round(fit.slope.value, 3), round(fit.offset.value, 3)
        (1.68, -0.66)
    """
    return fit_scales(
        original,
        new,
        scales=(scale,),
        bootstrap=bootstrap,
        seed=seed,
        confidence=confidence,
        interval=interval,
        resample=resample,
        sampling=sampling,
    )[0]


def fit_scales(
    original: ArrayLike,
    new: ArrayLike,
    *,
    scales: Sequence[str],
    bootstrap: int,
    seed: int,
    confidence: float,
    interval: IntervalKind,
    resample: str,
    sampling: Sampling | None,
) -> tuple[LineFit, ...]:
    """:func:`fit_line` on several scales from one set of resamples."""
    kinds, level = [check_scale(scale) for scale in scales], check_confidence(confidence)
    check_resamples(bootstrap)
    check_interval(interval)
    how = _check_resample(resample, interval, sampling)
    x = np.stack([_on_scale("original", original, kind, sampling) for kind in kinds])
    y = np.stack([_on_scale("new", new, kind, sampling) for kind in kinds])
    if x.shape != y.shape or x.shape[1] < 3:
        raise InputError(f"original and new must hold the same 3 or more models; got {x.shape[1]} and {y.shape[1]}")
    if np.ptp(x[0]) == 0:
        raise InputError("original accuracies must differ between models; all are equal, so no line is defined")
    if how == "models":
        draws = bootstrap_lines(x, y, bootstrap, seed)
    else:
        assert sampling is not None
        draws = lines_of_redrawn(sampling, kinds, how, bootstrap, seed)
    return tuple(_fitted(x[i], y[i], kind, how, draws[i], interval, level, seed) for i, kind in enumerate(kinds))


def _fitted(
    x: Floats,
    y: Floats,
    scale: Scale,
    how: Resample,
    draws: Floats,
    interval: IntervalKind,
    level: float,
    seed: int,
) -> LineFit:
    slope, offset, r2 = fit_lines(x, y)
    left_out = jackknife_lines(x, y) if interval == "bca" else None
    method = f"least squares, {interval} bootstrap over {_WORDS[how]}, {len(draws):,} resamples"
    estimates = []
    for column, value in enumerate((float(slope), float(offset))):
        if left_out is not None:
            low, high = bca_interval(draws[:, column], value, left_out[:, column], level)
        else:
            low, high = (float(limit) for limit in percentile_interval(draws[:, column], level))
        error = standard_error(draws[:, column])
        notes = _degenerate_note(draws)
        estimates.append(Estimate(value, error, low, high, level, method, len(x), seed, notes))
    return LineFit(estimates[0], estimates[1], float(r2), scale, len(x), how, draws)


_WORDS = {"models": "models", "examples": "examples", "both": "models and examples"}


def _degenerate_note(draws: Floats) -> tuple[str, ...]:
    dropped = int(np.isnan(draws[:, 0]).sum())
    return (f"{dropped:,} resamples drew one original accuracy only and were left out",) if dropped else ()


def _check_resample(resample: str, interval: str, sampling: Sampling | None) -> Resample:
    if resample not in RESAMPLES:
        raise InputError(f"resample must be one of {', '.join(RESAMPLES)}; got {resample!r}")
    if resample != "models" and interval == "bca":
        raise InputError("interval 'bca' is defined here for resample='models' only; use 'percentile'")
    if resample != "models" and sampling is None:
        raise InputError(f"resample={resample!r} needs the totals behind the accuracies; give sampling")
    return resample


def _on_scale(side: Side, values: ArrayLike, scale: Scale, sampling: Sampling | None) -> Floats:
    p = _fractions(side, values)
    if p.ndim != 1:
        raise InputError(f"{side} must be one row of accuracies; got shape {p.shape}")
    if scale == "linear":
        return p
    if sampling is not None:
        total = sampling.original_total if side == "original" else sampling.new_total
        return to_scale(np.clip(p, 0.5 / total, 1.0 - 0.5 / total), scale)
    if ((p <= 0) | (p >= 1)).any():
        raise InputError(
            f"{side} must lie strictly between 0 and 1 on the {scale} scale; got {p[(p <= 0) | (p >= 1)][0]:g}: "
            "use the linear scale, or give sampling with the totals"
        )
    return to_scale(p, scale)


def _fractions(name: str, values: ArrayLike) -> Floats:
    try:
        p = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers; got {values!r}") from error
    if not np.isfinite(p).all() or (p < 0).any() or (p > 1).any():
        wrong = p[~(np.isfinite(p) & (p >= 0) & (p <= 1))].flat[0]
        raise InputError(f"{name} must be accuracies in 0..1; got {wrong:g}: divide percentages by 100")
    return p
