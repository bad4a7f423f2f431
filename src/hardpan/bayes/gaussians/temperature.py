"""The Bayes error along temperatures, and the temperature at which it has a target value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, isotonic_regression

from hardpan.arguments import real_number
from hardpan.bayes.gaussians.detail import GaussianDetail
from hardpan.bayes.gaussians.methods import check_options, gaussian, solve
from hardpan.bayes.gaussians.sampling import MAX_DRAWS
from hardpan.bayes.gaussians.shared import SharedClasses, shared_classes
from hardpan.bayes.gaussians.unequal import unequal_classes
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.report.base import Report

TEMPERATURES = tuple(float(t) for t in np.geomspace(0.1, 10.0, 21))

_FINE = 2e-4  # relative standard error of the evaluations that decide the temperature
_COARSE = 5e-3  # and of those that only find the neighbourhood
_COARSE_DRAWS = 2**14
_SCAN = np.geomspace(1e-3, 1e3, 61)


@record
class Curve(Report):
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
    line: Curve | None = None
    target: float | None = None
    detail: GaussianDetail | None = None

    @property
    def values(self) -> NDArray[np.float64]:
        """The errors, shape (T,)."""
        return np.array([e.value for e in self.estimates])

    @property
    def is_one_estimate(self) -> bool:
        """Whether it holds nothing but the error at one temperature."""
        return len(self.estimates) == 1 and self.target is None and self.detail is None


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
) -> Curve:
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
    check_options(method, rtol, seed, max_draws)
    options: dict[str, Any] = {"rtol": rtol, "seed": seed, "max_draws": max_draws}
    if covs is not None:
        options["method"] = method
        results = [gaussian(means, cov, priors, covs=covs, temperature=t, **options) for t in grid]
        return _curve_of(grid, results, means, seed)
    classes = shared_classes(means, cov, priors)
    results = [solve(classes.at(t), method, **options) for t in grid]
    if len(results) == 1 or all(e.n == 0 for e in results):
        return _curve_of(grid, results, means, seed)
    order = np.argsort(grid, kind="stable")
    risen = _isotonic([results[i] for i in order])
    return _curve_of(grid, [risen[i] for i in np.argsort(order)], means, seed)


def _curve_of(grid: list[float], estimates: list[Estimate], means: ArrayLike, seed: int) -> Curve:
    n_classes, dimension = np.shape(means)
    return Curve(tuple(grid), tuple(estimates), estimates[0].method, n_classes, dimension, seed)


def _isotonic(estimates: list[Estimate]) -> list[Estimate]:
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
    error: float,
    seed: int = 0,
) -> float:
    """The temperature τ at which classes N(means[k], τ²Σ) have the Bayes error ``error``, to 1e-3 relative in it.

    E(τ) rises from the error of classes with equal means (0 if there are none) to 1 − max prior; a wanted error
    outside of that range is refused. For covariances that differ by class see :func:`temperatures_for`.

    Example:
        >>> round(temperature_for([[0.0], [2.0]], error=0.15865525393145707), 6)
        1.0
    """
    check_options("auto", 1e-3, seed, MAX_DRAWS)
    classes = shared_classes(means, cov, priors)
    lowest, highest = _error_limits(classes)
    target = _log_of_error(error, lowest, highest)

    def log_error(log_tau: float, rtol: float) -> float:
        return _finite_log(solve(classes.at(math.exp(log_tau)), "auto", rtol=rtol, seed=seed))

    low, high = _sign_change(lambda x: log_error(x, _COARSE) - target)
    coarse = float(brentq(lambda x: log_error(x, _COARSE) - target, low, high, xtol=1e-13, rtol=1e-13))
    return math.exp(_refined(log_error, coarse, target))


def temperatures_for(
    means: ArrayLike,
    covs: ArrayLike,
    priors: ArrayLike | None = None,
    *,
    error: float,
    seed: int = 0,
) -> tuple[float, ...]:
    """Every temperature between 1e-3 and 1e3 at which classes N(means[k], τ²Σ_k) have the Bayes error ``error``.

    With a matrix for each class E(τ) can rise and fall: it is scanned at 10 temperatures a decade, and each
    crossing is refined to 1e-3 relative in the error. A pair of crossings closer than the scan is missed.

    With diagonal covariances E(τ) rises, as it does with a shared one, and there is one crossing: 1 − E is the
    integral over t of the volume where some π_k p_k > t; along an axis, each class holds an interval around its
    centre there, and intervals whose centres are drawn together (a higher τ, in units of τ) cover no more than
    before. One axis after another.

    Example:
        >>> temperatures_for([[0.0], [2.0]], covs=[1.0, 1.0], error=0.3)  # doctest: +ELLIPSIS
        (1.90...,)
    """
    check_options("auto", 1e-3, seed, MAX_DRAWS)
    target = _log_of_error(error, 0.0, 1.0)

    def log_error(log_tau: float, rtol: float) -> float:
        classes = unequal_classes(means, covs, priors, math.exp(log_tau))
        draws = MAX_DRAWS if rtol == _FINE else _COARSE_DRAWS
        return _finite_log(solve(classes, "chernoff", rtol=rtol, seed=seed, max_draws=draws))

    def gap(x: float) -> float:
        return log_error(x, _COARSE) - target

    grid = np.log(_SCAN)
    crossings, lowest, highest = _crossings(gap, grid, rising=np.ndim(covs) < 3)
    if not crossings:
        low, high = 10 ** (lowest + target), 10 ** (highest + target)
        raise InputError(
            f"must lie between {low:.4g} and {high:.4g} for these classes; got {error:g}", argument="error"
        )
    roots = []
    for i in crossings:
        coarse = float(brentq(gap, grid[i], grid[i + 1], xtol=1e-6))
        roots.append(math.exp(_refined(log_error, coarse, target)))
    return tuple(roots)


def _finite_log(error: Estimate) -> float:
    """log10 of an error, at least −1e300."""
    return -math.inf if error.log10 is None else max(error.log10, -1e300)


def _crossings(
    gap: Callable[[float], float], grid: NDArray[np.float64], rising: bool
) -> tuple[list[int], float, float]:
    """Where a function changes its sign between neighbours of a grid, and its lowest and highest value there.

    A point of the grid with the value 0 counts as below, so its crossing is seen once. A rising function is asked
    at the ends and at the middles of what is left.
    """
    if not rising:
        gaps = np.array([gap(x) for x in grid])
        above = gaps > 0
        return np.flatnonzero(above[:-1] != above[1:]).tolist(), float(gaps.min()), float(gaps.max())
    low, high = 0, len(grid) - 1
    lowest, highest = gap(grid[low]), gap(grid[high])
    if lowest > 0 or highest <= 0:
        return [], lowest, highest
    while high - low > 1:
        middle = (low + high) // 2
        if gap(grid[middle]) > 0:
            high = middle
        else:
            low = middle
    return [low], lowest, highest


def _error_limits(classes: SharedClasses) -> tuple[float, float]:
    """Limits of E(τ) for τ → 0 (only classes with equal means stay confused) and τ → ∞."""
    priors = np.exp(classes.log_priors)
    grid = 1e-10 * max(float(np.abs(classes.coordinates).max(initial=0.0)), 1e-300)  # equal means, but for rounding
    _, cell = np.unique(np.round(classes.coordinates / grid), axis=0, return_inverse=True)
    winners = sum(priors[cell.ravel() == i].max() for i in range(cell.max() + 1))
    return max(0.0, 1.0 - float(winners)), 1.0 - float(priors.max())


def _log_of_error(error: float, lowest: float, highest: float) -> float:
    """log10 of a wanted error inside the range."""
    if not (isinstance(error, (int, float, np.floating)) and lowest < error < highest):
        raise InputError(
            f"must lie strictly between {lowest:.6g} and {highest:.6g}, the range of these classes; got {error!r}",
            argument="error",
        )
    return math.log10(error)


def _sign_change(gap: Callable[[float], float]) -> tuple[float, float]:
    """Two log temperatures between which the rising function ``gap`` changes its sign."""
    low, high = -1.0, 1.0
    while gap(low) > 0:
        low -= 2.0
    while gap(high) < 0:
        high += 2.0
        if high > 60:
            raise InputError("must be smaller: it is too close to the upper end of its range", argument="error")
    return low, high


def _refined(log_error: Callable[[float, float], float], start: float, target: float) -> float:
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
