"""Least-squares lines on linear, probit and logit scales, many at a time, from closed-form sums."""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hardpan.arguments import one_of
from hardpan.stats.resampling import Floats, bootstrap_draws

Scale = Literal["linear", "probit", "logit"]
SCALES: tuple[Scale, ...] = ("linear", "probit", "logit")


def check_scale(scale: str) -> Scale:
    """Give the scale back, or refuse an unknown one."""
    one_of("scale", scale, SCALES)
    return cast("Scale", scale)


def to_scale(fractions: ArrayLike, scale: Scale) -> Floats:
    """Fractions on a scale: as they are, Φ⁻¹(p) or log(p/(1−p)).

    Example:
        >>> to_scale([0.5, 0.975], "probit").round(2).tolist()
        [0.0, 1.96]
    """
    p = np.asarray(fractions, dtype=np.float64)
    if scale == "probit":
        return special.ndtri(p)
    return special.logit(p) if scale == "logit" else p


def probit_of_shares(shares: ArrayLike, n: int) -> Floats:
    """Φ⁻¹ of shares of n examples; 0 and 1 are moved by half an example."""
    return np.asarray(special.ndtri(np.clip(np.asarray(shares, dtype=np.float64), 0.5 / n, 1 - 0.5 / n)))


def from_scale(values: ArrayLike, scale: Scale) -> Floats:
    """Back from a scale to fractions; the inverse of :func:`to_scale`."""
    z = np.asarray(values, dtype=np.float64)
    if scale == "probit":
        return special.ndtr(z)
    return special.expit(z) if scale == "logit" else z


def scale_derivative(values: ArrayLike, scale: Scale) -> Floats:
    """The derivative of :func:`from_scale` at values on the scale."""
    z = np.asarray(values, dtype=np.float64)
    if scale == "probit":
        return np.asarray(np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi))
    if scale == "logit":
        p = special.expit(z)
        return np.asarray(p * (1.0 - p))
    return np.ones_like(z)


def fit_lines(x: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> tuple[Floats, Floats, Floats]:
    """Least-squares lines y ≈ slope·x + offset along the last axis.

    slope = S_xy/S_xx, offset = ȳ − slope·x̄, r² = S_xy²/(S_xx S_yy), with weighted sums about the weighted means.
    Where all x of a line are equal, slope and offset are NaN; where all y are equal, r² is NaN.

    Args:
        x: (..., n).
        y: (..., n), broadcasts against x.
        weights: (..., n) nonnegative, or None for equal weights.

    Returns:
        (slope, offset, r2), each of the leading shape.

    Example:
        >>> slope, offset, r2 = fit_lines([0.0, 1.0, 2.0], [1.0, 3.0, 5.0])
        >>> float(slope), float(offset), float(r2)
        (2.0, 1.0, 1.0)
    """
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    w = np.ones(a.shape[-1]) if weights is None else np.asarray(weights, dtype=np.float64)
    # Centring on any fixed point first keeps the sums of products from cancelling.
    centre_x, centre_y = a.mean(axis=-1, keepdims=True), b.mean(axis=-1, keepdims=True)
    a, b = a - centre_x, b - centre_y
    total = w.sum(axis=-1)
    means = [np.sum(w * term, axis=-1) / total for term in (a, b, a * a, a * b, b * b)]
    slope, offset, r2 = _lines_from_means(*means)
    return slope, offset + centre_y[..., 0] - slope * centre_x[..., 0], r2


def bootstrap_lines(x: ArrayLike, y: ArrayLike, resamples: int = 100_000, seed: int = 0) -> NDArray[np.float64]:
    """Lines of resampled points, as (resamples, 2): slope and offset; NaN where a resample has one x only.

    A resample draws n of the n points with replacement; its line needs only five sums, so a block of resamples
    is one matrix product.

    Args:
        x: (n,) numbers.
        y: (n,) numbers.
        resamples: how many.
        seed: of the draws.

    Example:
        >>> draws = bootstrap_lines([0.0, 1.0, 2.0, 3.0], [1.0, 3.0, 5.0, 7.0], resamples=4)
        >>> np.nanmax(abs(draws - [2.0, 1.0])) < 1e-12
        np.True_
    """
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    centre_x, centre_y = float(a.mean()), float(b.mean())
    a, b = a - centre_x, b - centre_y

    def lines(means: Floats) -> Floats:
        slope, offset, _ = _lines_from_means(*means.T)
        return np.stack([slope, offset + centre_y - slope * centre_x], axis=1)

    return bootstrap_draws(np.stack([a, b, a * a, a * b, b * b], axis=1), lines, resamples, seed)


def _lines_from_means(x: Floats, y: Floats, xx: Floats, xy: Floats, yy: Floats) -> tuple[Floats, Floats, Floats]:
    spread_x, spread_y, joint = xx - x * x, yy - y * y, xy - x * y
    # Rounding leaves a spread of about 1e-16 of the square where the x are all equal.
    flat_x, flat_y = spread_x <= 1e-14 * xx, spread_y <= 1e-14 * yy
    slope = np.where(flat_x, np.nan, joint / np.where(flat_x, 1.0, spread_x))
    denominator = np.where(flat_x | flat_y, 1.0, spread_x * spread_y)
    r2 = np.where(flat_x | flat_y, np.nan, joint**2 / denominator)
    return slope, y - slope * x, r2
