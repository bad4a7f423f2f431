"""Where to evaluate the integral over an example's difficulty (and discrimination), spaced by information.

The posterior of an example's difficulty τ given many models is much narrower than its prior where models are, and
as wide as the prior where none are. In the coordinate u = ∫ sqrt(I(τ) + 1/σ²) dτ, with I the Fisher information of
the models, it is about one wide everywhere; the trapezoid rule with steps of about one in u then converges
geometrically.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.special import log_ndtr

FloatArray = NDArray[np.float64]

REACH = 5.5
REACH_SLOPE = 4.2
_COARSE, _FINE = 241, 20001


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Points of the quadrature: difficulty, log of discrimination, log of the cell's size, each (Q,)."""

    difficulty: FloatArray
    log_slope: FloatArray
    log_width: FloatArray

    def __len__(self) -> int:
        return len(self.difficulty)


def probit_information(x: FloatArray) -> FloatArray:
    """Fisher information about x of one answer that is right with probability Φ(x): φ² / (Φ (1 − Φ))."""
    return np.asarray(np.exp(-x * x - np.log(2 * np.pi) - log_ndtr(x) - log_ndtr(-x)))


def difficulty_nodes(skills: FloatArray, spread: float, *, step: float = 1.0) -> Nodes:
    """Give the nodes for a difficulty that is normal with mean 0 and standard deviation ``spread``.

    Args:
        skills: (M,) of the models.
        spread: σ.
        step: distance of the nodes in units of the posterior's standard deviation.

    Example:
        >>> nodes = difficulty_nodes(np.zeros(30), 1.0, step=0.5)
        >>> prior = np.exp(nodes.log_width - nodes.difficulty**2 / 2) / np.sqrt(2 * np.pi)
        >>> bool(abs(prior.sum() - 1) < 1e-4)
        True
    """
    difficulty, width = _line(skills, 0.0, spread, 0.0, step)
    return Nodes(difficulty, np.zeros_like(difficulty), np.log(width))


def slope_nodes(skills: FloatArray, spread: float, slope_spread: float, tilt: float, *, step: float = 1.0) -> Nodes:
    """Give the nodes for log a ~ N(0, ``slope_spread``²) and τ | a ~ N(``tilt`` · log a, ``spread``²)."""
    grid = np.linspace(skills.min() - 2.0, skills.max() + 2.0, 41)
    distance = skills - grid[:, None]
    sharpest = float((probit_information(distance) * distance**2).sum(axis=1).max())
    own_step = step / np.sqrt(sharpest + 1.0 / slope_spread**2)
    half = int(np.ceil(REACH_SLOPE * slope_spread / own_step))
    parts = []
    for log_slope in own_step * np.arange(-half, half + 1):
        # Corners where the prior of the slope is small already need less reach in difficulty.
        beyond = min(1.0, (log_slope / (REACH_SLOPE * slope_spread)) ** 2)
        reach = max(2.0, REACH * np.sqrt(1.0 - beyond))
        difficulty, width = _line(skills, tilt * log_slope, spread, float(log_slope), step, reach)
        parts.append((difficulty, np.full_like(difficulty, log_slope), np.log(width * own_step)))
    return Nodes(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _line(
    skills: FloatArray, centre: float, spread: float, log_slope: float, step: float, reach: float = REACH
) -> tuple[FloatArray, FloatArray]:
    slope = np.exp(log_slope)
    low, high = centre - reach * spread, centre + reach * spread
    coarse = np.linspace(low, high, _COARSE)
    information = slope**2 * probit_information(slope * (skills - coarse[:, None])).sum(axis=1)
    density = CubicSpline(coarse, np.log(np.sqrt(information + 1.0 / spread**2)))
    fine = np.linspace(low, high, _FINE)
    height = np.exp(density(fine))
    steps = np.concatenate([[0.0], np.cumsum((height[1:] + height[:-1]) / 2)]) * (fine[1] - fine[0])
    count = int(np.ceil(steps[-1] / step)) + 1
    own = np.linspace(0.0, steps[-1], count)
    difficulty = np.interp(own, steps, fine)
    return difficulty, (own[1] - own[0]) / np.exp(density(difficulty))
