"""The Bayes error along temperatures, and the temperature at which it has a target value."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, isotonic_regression

from hardpan.arguments import real_number
from hardpan.bayes.gaussians.detail import GaussianDetail
from hardpan.bayes.gaussians.methods import check_integration_options, gaussian, solve_classes
from hardpan.bayes.gaussians.sampling import MAX_DRAWS
from hardpan.bayes.gaussians.shared_covariance import SharedClasses, shared_classes
from hardpan.bayes.gaussians.unequal_covariances import UnequalClasses, unequal_classes
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.report import Report

TEMPERATURES = tuple(float(t) for t in np.geomspace(0.1, 10.0, 21))

_FINE = 2e-4  # relative standard error of the evaluations that decide the temperature
_COARSE = 5e-3  # and of those that only find the neighbourhood
_COARSE_DRAWS = 2**14
_SCAN = np.geomspace(1e-3, 1e3, 61)


@record(kind="Curve")
class TemperatureCurve(Report):
    """The Bayes error at each of several temperatures.

    Attributes:
        temperatures: as passed.
        estimates: the Bayes error at each of them.
        method: how they were computed.
        n_classes: K.
        dimension: d.
        seed: of the draws.
        hashes: what was read, and its sha256.
        line: the same errors at closer temperatures, for a smooth line on the page.
        target: the Bayes error that the temperatures were found for, if any.
        detail: errors by class, confusions, top-k errors and slope, if they were computed.
    """

    temperatures: tuple[float, ...]
    estimates: tuple[Estimate, ...]
    method: str
    n_classes: int = 0
    dimension: int = 0
    seed: int = 0
    hashes: Mapping[str, str] = field(default_factory=dict)
    line: TemperatureCurve | None = None
    target: float | None = None
    detail: GaussianDetail | None = None

    @property
    def values(self) -> NDArray[np.float64]:
        """The errors, shape (T,)."""
        return np.array([e.value for e in self.estimates])


def gaussian_curve(
    means: ArrayLike,
    cov: ArrayLike | None = None,
    priors: ArrayLike | None = None,
    *,
    temperatures: Sequence[float] | NDArray[np.float64] = TEMPERATURES,
    covs: ArrayLike | None = None,
    method: str = "auto",
    rtol: float = 1e-3,
    seed: int = 0,
    max_draws: int = MAX_DRAWS,
) -> TemperatureCurve:
    """Bayes error E(τ) at several temperatures, all from common draws.

    With one covariance E rises with τ (Theisen et al. 2021, Proposition 2). The estimates share their draws, so
    they nearly do; isotonic regression of log E (weights: inverse squared relative standard errors) removes the
    last small falls, and ``method`` says so. With ``covs`` E need not rise, and nothing is done to it.

    Args:
        means: (K, d); with cov, priors, covs, method, rtol, seed and max_draws as in
            :func:`hardpan.bayes.gaussian`.
        temperatures: (T,) positive numbers, in any order.

    Example:
        >>> curve = gaussian_curve([[0.0], [2.0]], temperatures=[0.5, 1.0, 2.0])
        >>> [round(float(v), 4) for v in curve.values]  # Φ(−1/τ)
        [0.0228, 0.1587, 0.3085]
    """
    grid = [real_number("temperature", t, "(0, inf)") for t in temperatures]
    if not grid:
        raise InputError("must not be empty; give at least one positive number", argument="temperatures")
    check_integration_options(method, rtol, seed, max_draws)
    options: dict[str, Any] = {"rtol": rtol, "seed": seed, "max_draws": max_draws}
    if covs is not None:
        options["method"] = method
        results = [gaussian(means, cov, priors, covs=covs, temperature=t, **options) for t in grid]
        return _error_curve(grid, results, means, seed)
    classes = shared_classes(means, cov, priors)
    results = [solve_classes(classes.at(t), method, **options) for t in grid]
    if len(results) == 1 or all(e.n == 0 for e in results):
        return _error_curve(grid, results, means, seed)
    order = np.argsort(grid, kind="stable")
    risen = _non_decreasing_errors([results[i] for i in order])
    return _error_curve(grid, [risen[i] for i in np.argsort(order)], means, seed)


def _error_curve(grid: list[float], estimates: list[Estimate], means: ArrayLike, seed: int) -> TemperatureCurve:
    n_classes, dimension = np.shape(means)
    return TemperatureCurve(tuple(grid), tuple(estimates), estimates[0].method, n_classes, dimension, seed)


def _non_decreasing_errors(estimates: list[Estimate]) -> list[Estimate]:
    """Non-decreasing estimates: each moved, interval and all, by the factor that isotonic regression asks for."""
    logs = np.array([e.log10 if e.log10 is not None else -math.inf for e in estimates])
    usable = np.isfinite(logs)
    relative = np.array([e.stderr / e.value if e.value > 0 else 1e-6 for e in estimates])
    fitted = logs.copy()
    fitted[usable] = isotonic_regression(logs[usable], weights=np.maximum(relative[usable], 1e-8) ** -2.0).x
    moved = []
    for estimate, before, after in zip(estimates, logs, fitted, strict=True):
        factor = float(10 ** (after - before)) if np.isfinite(before) else 1.0
        moved.append(
            replace(
                estimate,
                value=estimate.value * factor,
                stderr=estimate.stderr * factor,
                low=estimate.low * factor,
                high=estimate.high * factor,
                log10=float(after),
                method=f"{estimate.method}, isotonic",
            )
        )
    return moved


def temperature_for(
    means: ArrayLike,
    cov: ArrayLike | None = None,
    priors: ArrayLike | None = None,
    *,
    covs: ArrayLike | None = None,
    error: float,
    seed: int = 0,
) -> float:
    """The temperature at which :func:`hardpan.bayes.gaussian` gives ``error``, to 1e-3 relative in the error.

    E(τ) rises from the error of classes with equal means (0 if there are none) to 1 − max prior; an error outside
    of that range is refused. With diagonal ``covs`` E(τ) rises, too: 1 − E is the integral over t of the volume
    where some π_k p_k > t; along an axis, each class holds an interval around its centre there, and intervals whose
    centres are drawn together (a higher τ, in units of τ) cover no more than before. One axis after another. With
    full matrices E(τ) can rise and fall, so they are refused.

    Args:
        means: (K, d); with cov, priors and seed as in :func:`hardpan.bayes.gaussian`.
        covs: one covariance per class instead: (K,) isotropic or (K, d) diagonal; τ between 1e-3 and 1e3.

    Example:
        >>> round(temperature_for([[0.0], [2.0]], error=0.15865525393145707), 6)
        1.0
        >>> temperature_for([[0.0], [2.0]], covs=[1.0, 1.0], error=0.3)  # doctest: +ELLIPSIS
        1.90...
    """
    check_integration_options("auto", 1e-3, seed, MAX_DRAWS)
    if covs is not None:
        return _temperature_for_unequal(means, cov, covs, priors, error, seed)
    classes = shared_classes(means, cov, priors)
    lowest, highest = _error_limits_of_temperatures(classes)
    target = _checked_log10_error(error, lowest, highest)

    def log_error(log_tau: float, rtol: float) -> float:
        return _log10_error_at_temperature(classes.at(math.exp(log_tau)), "auto", rtol, seed)

    low, high = _log_temperature_interval(lambda x: log_error(x, _COARSE) - target)
    coarse = float(brentq(lambda x: log_error(x, _COARSE) - target, low, high, xtol=1e-13, rtol=1e-13))
    return math.exp(_newton_temperature(log_error, coarse, target))


def _temperature_for_unequal(
    means: ArrayLike, cov: ArrayLike | None, covs: ArrayLike, priors: ArrayLike | None, error: float, seed: int
) -> float:
    if cov is not None:
        raise InputError("must not both be given; use covs for one covariance per class", argument=("cov", "covs"))
    if np.ndim(covs) > 2:
        raise InputError(
            "must be variances (K,) or (K, d): with matrices the error can rise and fall", argument="covs"
        )
    target = _checked_log10_error(error, 0.0, 1.0)

    def log_error(log_tau: float, rtol: float) -> float:
        classes = unequal_classes(means, covs, priors, math.exp(log_tau))
        draws = MAX_DRAWS if rtol == _FINE else _COARSE_DRAWS
        return _log10_error_at_temperature(classes, "chernoff", rtol, seed, draws)

    def gap(log_tau: float) -> float:
        return log_error(log_tau, _COARSE) - target

    grid = np.log(_SCAN)
    lowest, highest = gap(grid[0]), gap(grid[-1])
    if lowest > 0 or highest <= 0:
        low, high = 10 ** (lowest + target), 10 ** (highest + target)
        raise InputError(
            f"must lie between {low:.4g} and {high:.4g} for these classes; got {error:g}", argument="error"
        )
    above = bisect.bisect_right(grid, 0.0, 1, len(grid) - 1, key=gap)
    coarse = float(brentq(gap, grid[above - 1], grid[above], xtol=1e-6))
    return math.exp(_newton_temperature(log_error, coarse, target))


def _log10_error_at_temperature(
    classes: SharedClasses | UnequalClasses, method: str, rtol: float, seed: int, max_draws: int = MAX_DRAWS
) -> float:
    """log10 of the error of classes, at least −1e300."""
    error = solve_classes(classes, method, rtol=rtol, seed=seed, max_draws=max_draws)
    assert error.log10 is not None
    return max(error.log10, -1e300)


def _error_limits_of_temperatures(classes: SharedClasses) -> tuple[float, float]:
    """Limits of E(τ) for τ → 0 (only classes with equal means stay confused) and τ → ∞."""
    priors = np.exp(classes.log_priors)
    grid = 1e-10 * max(float(np.abs(classes.coordinates).max(initial=0.0)), 1e-300)  # equal means, but for rounding
    _, cell = np.unique(np.round(classes.coordinates / grid), axis=0, return_inverse=True)
    winners = sum(priors[cell.ravel() == i].max() for i in range(cell.max() + 1))
    return max(0.0, 1.0 - float(winners)), 1.0 - float(priors.max())


def _checked_log10_error(error: float, lowest: float, highest: float) -> float:
    """log10 of a wanted error inside the range."""
    if not (isinstance(error, (int, float, np.floating)) and lowest < error < highest):
        raise InputError(
            f"must lie strictly between {lowest:.6g} and {highest:.6g}, the range of these classes; got {error!r}",
            argument="error",
        )
    return math.log10(error)


def _log_temperature_interval(gap: Callable[[float], float]) -> tuple[float, float]:
    """Two log temperatures between which the rising function ``gap`` changes its sign."""
    low, high = -1.0, 1.0
    while gap(low) > 0:
        low -= 2.0
    while gap(high) < 0:
        high += 2.0
        if high > 60:
            raise InputError("must be smaller: it is too close to the upper end of its range", argument="error")
    return low, high


def _newton_temperature(log_error: Callable[[float, float], float], start: float, target: float) -> float:
    """Newton steps on the fine evaluation, with the slope of the coarse one, whose draws are common."""
    step = 1e-3
    slope = (log_error(start + step, _COARSE) - log_error(start - step, _COARSE)) / (2 * step)
    x = start
    for _ in range(6):
        gap = log_error(x, _FINE) - target
        if abs(gap) * math.log(10) <= _FINE or slope == 0:
            break
        x -= gap / slope
    return x
