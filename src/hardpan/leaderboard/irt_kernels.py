"""Compiled passes over a matrix of scores for :func:`hardpan.leaderboard.irt.fit_by_modes`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.execution.compiling import compiled

Floats = NDArray[np.float64]


@compiled(nogil=True, fastmath={"contract", "reassoc", "arcp"})
def item_pass(
    scores: NDArray[np.float32],
    skill: Floats,
    a: Floats,
    d: Floats,
    variance: Floats,
    steps: int,
    shared: bool,
    floor: float,
    slope_mean: float,
    slope_weight: float,
    intercept_weight: float,
) -> None:
    """Fisher-scoring steps of every item's slope and intercept given skills; scores is (N, M), NaN missing.

    Writes a, d and their variances (2, N). With ``shared`` only intercepts move; the mean of ``a`` after the
    pass is a step of the shared slope.
    """
    n, m = scores.shape
    moved = 0.0
    weight_sum = 0.0
    for i in range(n):
        slope, intercept = a[i], d[i]
        aa = ad = dd = 0.0
        for _ in range(steps + 1):
            ga = slope_weight * (slope_mean - slope)
            gd = -intercept_weight * intercept
            aa, ad, dd = slope_weight, 0.0, intercept_weight
            for j in range(m):
                x = scores[i, j]
                if x != x:
                    continue
                t = skill[j]
                s = 1.0 / (1.0 + math.exp(-(slope * t + intercept)))
                p = floor + (1.0 - floor) * s
                g = s / p if floor > 0 else 1.0
                e = g * (x - p)
                w = g * (1.0 - floor) * s * (1.0 - s)
                ga += e * t
                gd += e
                aa += w * t * t
                ad += w * t
                dd += w
            if shared:
                step_a = 0.0
                step_d = gd / dd
            else:
                determinant = aa * dd - ad * ad
                step_a = (dd * ga - ad * gd) / determinant
                step_d = (aa * gd - ad * ga) / determinant
            longest = max(abs(step_a), abs(step_d))
            if longest < 1e-6:
                break
            cut = 1.0 if longest < 1.5 else 1.5 / longest
            slope += cut * step_a
            intercept += cut * step_d
        if shared:
            moved += ga - ad * gd / dd
            weight_sum += aa - ad * ad / dd
            variance[1, i] = 1.0 / dd
        else:
            determinant = aa * dd - ad * ad
            variance[0, i] = dd / determinant
            variance[1, i] = aa / determinant
            a[i] = slope
        d[i] = intercept
    if shared:
        step = moved / weight_sum
        for i in range(n):
            a[i] += step
            variance[0, i] = 1.0 / weight_sum


@compiled(nogil=True, fastmath={"contract", "reassoc", "arcp"})
def skill_pass(
    scores: NDArray[np.float32], skill: Floats, errors: Floats, a: Floats, d: Floats, floor: float, steps: int
) -> Any:
    """Fisher-scoring steps of the skill of every model given items; scores is (M, N).

    Returns Σ log posterior at the modes.
    """
    m, n = scores.shape
    total = 0.0
    for j in range(m):
        theta = skill[j]
        information = 1.0
        for step in range(steps + 1):
            gradient = -theta
            information = 1.0
            value = -0.5 * theta * theta
            last = step == steps
            for i in range(n):
                x = scores[j, i]
                if x != x:
                    continue
                s = 1.0 / (1.0 + math.exp(-(a[i] * theta + d[i])))
                p = floor + (1.0 - floor) * s
                g = s / p if floor > 0 else 1.0
                if last:
                    if x > 0:
                        value += x * math.log(max(p, 1e-300))
                    if x < 1:
                        value += (1.0 - x) * math.log(max((1.0 - floor) * (1.0 - s), 1e-300))
                gradient += a[i] * g * (x - p)
                information += a[i] * a[i] * g * (1.0 - floor) * s * (1.0 - s)
            if last:
                total += value
                break
            theta += max(-1.0, min(1.0, gradient / information))
        skill[j] = theta
        errors[j] = 1.0 / math.sqrt(information)
    return total
