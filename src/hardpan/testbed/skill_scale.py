"""Does one scale of skill explain two test sets? The probit Rasch model, fitted to each of them.

P(model j right on example i) = Φ(s_j − τ_i). Skills s_j are parameters; difficulties τ_i are normal and integrated
out: there are many more examples than models, and estimating all of them beside the skills would stretch these by
about M/(M − 1). Likelihood and gradient are products of matrices over the patterns of right and wrong that occur.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.special import chdtrc, log_ndtr, ndtri

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.report.base import Report

Floats = NDArray[np.float64]
MISSING = 2
VAGUE = 10.0  # standard deviation of a normal prior that keeps the skill of a faultless model finite
_Z = 1.959963984540054  # of a 95 % interval
_REACH, _COARSE, _FINE = 5.5, 241, 20001
_SPREADS = (np.log(0.02), np.log(30.0))
_BLOCK_CELLS = 4_000_000
_DOUBLE_CELLS = 500_000_000
_HESSIAN_WORK = 2e10
_FIRST_PATTERNS, _FIRST_CELLS = 5000, 1_000_000


@record
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
        models: names of the M models.
        skills_original, skills_new: their skills on the two sets, with mean 0 and 95 % intervals.
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
    models: tuple[str, ...] = ()
    skills_original: tuple[Estimate, ...] = ()
    skills_new: tuple[Estimate, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ScaleFit:
    """Skills (M,) with mean 0, their covariance, and the normal distribution of the difficulties."""

    skills: Floats
    covariance: Floats
    difficulty_mean: float
    difficulty_spread: float
    log_likelihood: float
    converged: bool


def one_scale(original: ArrayLike, new: ArrayLike, *, models: Sequence[str] = (), seed: int = 0) -> OneScale:
    """Test whether the same skills explain both test sets, each with its own normal distribution of difficulty.

    Rasch fits of the two sets give skills ŝ₁, ŝ₂ with covariances V₁, V₂, independent as the examples are. With d
    their difference, centred, dᵀ(V₁+V₂)⁻¹d is χ² with M − 1 degrees of freedom when one scale explains both. With
    many examples a small disagreement is significant: read ``disagreement`` and ``stretch`` beside the p-value.

    Args:
        original: (M, N₁) right or wrong of the models on the original set; NaN is missing.
        new: (M, N₂) of the same models on the new set.
        models: (M,) their names; default: their numbers from 1.
        seed: chooses the examples of the first stage; the optimum does not depend on it.

    Source: the replication paper, section 5.3; Bock and Aitkin (1981) with persons and items exchanged.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> def answers(shift, n):
        ...     difficulty = rng.normal(shift, 1.2, n)
        ...     return np.linspace(-1, 1, 6)[:, None] - difficulty + rng.standard_normal((6, n)) > 0
        >>> result = one_scale(answers(0.0, 1000), answers(0.8, 1000))
        >>> result.p_value > 0.01, 0.6 < result.shift < 1.0
        (True, True)
    """
    first, second = (fit_scale(name, right, seed=seed) for name, right in (("original", original), ("new", new)))
    size = len(first.skills)
    if size != len(second.skills) or size < 3:
        raise InputError(
            f"must have the same 3 or more models; got {size} and {len(second.skills)}",
            argument=("original", "new"),
        )
    names = tuple(map(str, models)) or tuple(str(number) for number in range(1, size + 1))
    if len(names) != size:
        raise InputError(f"must be the names of the {size} models; got {len(names)}", argument="models")
    a, b = first.skills[:-1], second.skills[:-1]  # skills have mean 0: the last follows from the others
    va, vb = first.covariance[:-1, :-1], second.covariance[:-1, :-1]

    def statistic(stretch: float) -> float:
        difference = b - stretch * a
        return float(difference @ np.linalg.solve(vb + stretch**2 * va, difference))

    whole = first.skills - second.skills
    noise = float(np.trace(first.covariance + second.covariance))
    mean_shift = second.difficulty_mean - first.difficulty_mean
    new_size, original_size = (np.sqrt(fit.difficulty_spread**2 + 1) for fit in (second, first))
    best, stretch = _stretch(statistic, size)
    return OneScale(
        statistic=statistic(1.0),
        degrees=size - 1,
        p_value=float(chdtrc(size - 1, statistic(1.0))),
        stretch=stretch,
        stretch_p_value=float(chdtrc(size - 2, best)),
        disagreement=float(np.sqrt(max(float(whole @ whole) - noise, 0.0) / (size - 1))),
        spread_original=first.difficulty_spread,
        spread_new=second.difficulty_spread,
        shift=mean_shift,
        slope=float(original_size / new_size),
        offset=float(-mean_shift / new_size),
        models=names,
        skills_original=_skills(first),
        skills_new=_skills(second),
    )


def _skills(fit: ScaleFit) -> tuple[Estimate, ...]:
    errors = np.sqrt(np.diag(fit.covariance))
    return tuple(
        Estimate(float(s), float(e), float(s - _Z * e), float(s + _Z * e), 0.95, "Rasch fit, normal interval")
        for s, e in zip(fit.skills, errors, strict=True)
    )


def _stretch(statistic: Callable[[float], float], models: int) -> tuple[float, Estimate]:
    result = minimize_scalar(lambda log_k: statistic(np.exp(log_k)), bounds=(-3.0, 3.0), method="bounded")
    best, centre = float(result.fun), float(result.x)

    def rise(log_k: float) -> float:
        return float(statistic(np.exp(log_k))) - best - 3.841458820694124

    low = brentq(rise, -6.0, centre) if rise(-6.0) > 0 else -np.inf
    high = brentq(rise, centre, 6.0) if rise(6.0) > 0 else np.inf
    ends = [float(np.exp(end)) for end in (low, centre, high)]
    return best, Estimate(
        ends[1], (ends[2] - ends[0]) / 3.92, ends[0], ends[2], 0.95, "profile of the Wald statistic", models
    )


def fit_scale(name: str, right: ArrayLike, *, seed: int = 0) -> ScaleFit:
    """Skills and the distribution of difficulty by marginal maximum likelihood, with the skills' covariance."""
    answers = _answer_matrix(name, right)
    models = len(answers)
    patterns = _Patterns.of(np.ascontiguousarray(answers.T))
    start = patterns.some(max(_FIRST_PATTERNS, _FIRST_CELLS // models), seed)
    vector = _first_guess(start)
    for _ in range(2):  # nodes follow the parameters, so a second round begins with better nodes
        nodes = _Nodes(vector[:-1], float(np.exp(vector[-1])), 0.7)
        vector, _ = _climb(start, vector, nodes, _rough_curvature(start, models), 1.0)
    step = 0.5 if start is patterns else 0.7
    nodes = _Nodes(vector[:-1], float(np.exp(vector[-1])), step)
    examples, begun = float(patterns.counts.sum()), float(start.counts.sum())
    curvature = _rough_curvature(patterns, models)
    if begun > 4 * len(vector):
        curvature = _score_products(start, vector, nodes) * (examples / begun)
    exact = patterns.precision(nodes) is np.float64
    vector, converged = _climb(patterns, vector, nodes, curvature, 1e-4 if exact else 0.1)
    if exact and 8.0 * len(vector) * patterns.answers.size * len(nodes.where) <= _HESSIAN_WORK:
        nodes = _Nodes(vector[:-1], float(np.exp(vector[-1])), step)
        covariance = _inverse(_hessian(patterns, vector, nodes))
    else:
        # The inverse of a sum of n outer products in p dimensions is too large by n / (n − p − 1) on average.
        products = _score_products(patterns, vector, nodes)
        covariance = _inverse(products) * max(examples - len(vector) - 1, 1.0) / examples
    centring = np.eye(models) - 1.0 / models
    shift = float(vector[:-1].mean())
    return ScaleFit(
        skills=vector[:-1] - shift,
        covariance=centring @ covariance[:models, :models] @ centring,
        difficulty_mean=-shift,
        difficulty_spread=float(np.exp(vector[-1])),
        log_likelihood=_value_and_gradient(patterns, vector, nodes)[0],
        converged=converged,
    )


def _answer_matrix(name: str, right: ArrayLike) -> NDArray[np.uint8]:
    """A matrix of right, wrong and missing as 1, 0 and 2, or an error."""
    matrix: NDArray[Any] = np.asarray(right)
    if matrix.ndim != 2 or min(matrix.shape) < 2 or matrix.shape[0] > matrix.shape[1]:
        raise InputError(
            f"must be models × examples, 2 or more models, no fewer examples than models; got {matrix.shape}",
            argument=name,
        )
    if matrix.dtype.kind not in "biuf":
        raise InputError(
            f"must have 0, 1 and NaN only; got {matrix.dtype}: compare predictions with labels", argument=name
        )
    tried = ~np.isnan(matrix) if matrix.dtype.kind == "f" else np.ones(matrix.shape, dtype=bool)
    wrong = tried & (matrix != 0) & (matrix != 1)
    if wrong.any():
        raise InputError(f"must have 0, 1 and NaN only; got {matrix[wrong][0]}", argument=name)
    answers = np.where(tried, matrix == 1, MISSING).astype(np.uint8)
    for axis, what in ((1, "model"), (0, "example")):
        empty = (answers == MISSING).all(axis=axis)
        if empty.any():
            raise InputError(f"must have answers; {what} {int(np.argmax(empty))} has none", argument=name)
    if not (answers == 1).any() or not (answers == 0).any():
        raise InputError("must differ; models that are all right or all wrong cannot be compared", argument=name)
    return answers


@dataclass(frozen=True, slots=True, eq=False)
class _Patterns:
    """The different columns of a matrix of right (1), wrong (0) and missing (2), (U, M), and their counts (U,)."""

    answers: NDArray[np.uint8]
    counts: Floats
    missing: bool

    @classmethod
    def of(cls, answers: NDArray[np.uint8]) -> _Patterns:
        missing = bool((answers == MISSING).any())
        packed = answers if missing else np.packbits(answers, axis=1)
        keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
        _, first, counts = np.unique(keys, return_index=True, return_counts=True)
        return cls(answers[first], counts.astype(np.float64), missing)

    def some(self, limit: int, seed: int) -> _Patterns:
        """A random part of the patterns, weighted as they are, to begin a fit with."""
        if len(self.counts) <= limit:
            return self
        rows = np.sort(np.random.default_rng(seed).choice(len(self.counts), limit, replace=False))
        return _Patterns(self.answers[rows], self.counts[rows], self.missing)

    def precision(self, nodes: _Nodes) -> type[np.floating[Any]]:
        """Small problems are computed in double precision, large ones in single."""
        return np.float64 if self.answers.size * len(nodes.where) <= _DOUBLE_CELLS else np.float32


class _Nodes:
    """Nodes of the integral over difficulty, spaced by information: a posterior is about 1/step of them wide.

    In the coordinate u = ∫ √(I(τ) + 1/σ²) dτ, I the Fisher information of the models, posteriors are about one wide
    everywhere, and the trapezoid rule converges geometrically.
    """

    def __init__(self, skills: Floats, spread: float, step: float) -> None:
        coarse = np.linspace(-_REACH * spread, _REACH * spread, _COARSE)
        x = skills - coarse[:, None]
        information = np.exp(-x * x - np.log(2 * np.pi) - log_ndtr(x) - log_ndtr(-x)).sum(axis=1)
        density = CubicSpline(coarse, np.log(np.sqrt(information + 1.0 / spread**2)))
        fine = np.linspace(coarse[0], coarse[-1], _FINE)
        height = np.exp(density(fine))
        steps = np.concatenate([[0.0], np.cumsum((height[1:] + height[:-1]) / 2)]) * (fine[1] - fine[0])
        own = np.linspace(0.0, steps[-1], int(np.ceil(steps[-1] / step)) + 1)
        self.where = np.interp(own, steps, fine)
        self.log_width = np.log((own[1] - own[0]) / np.exp(density(self.where)))


class _Tables:
    """What all blocks of patterns share: log Φ and its derivatives at the nodes, each (Q, M)."""

    def __init__(self, vector: Floats, nodes: _Nodes, kind: type[np.floating[Any]]) -> None:
        x = vector[:-1] - nodes.where[:, None]
        log_right, log_wrong = log_ndtr(x), log_ndtr(-x)
        log_density = -x * x / 2 - np.log(2 * np.pi) / 2
        self.pull_right, self.pull_wrong = np.exp(log_density - log_right), np.exp(log_density - log_wrong)
        self.z = nodes.where / np.exp(vector[-1])
        self.log_prior = (nodes.log_width - self.z**2 / 2 - vector[-1] - np.log(2 * np.pi) / 2).astype(kind)
        self.log_right, self.log_wrong = log_right.T.astype(kind), log_wrong.T.astype(kind)

    def blocks(self, patterns: _Patterns) -> Iterator[tuple[slice, Any, Any, Any, Floats]]:
        """Rows, right and wrong (B, M), posterior over the nodes (B, Q) and log-likelihoods, block by block."""
        count, models = patterns.answers.shape
        kind = self.log_prior.dtype
        size = max(64, _BLOCK_CELLS // max(len(self.log_prior), models))
        odds, base = self.log_right - self.log_wrong, self.log_wrong.sum(axis=0) + self.log_prior
        for start in range(0, count, size):
            rows = slice(start, min(start + size, count))
            right = (patterns.answers[rows] == 1).astype(kind)
            wrong = (patterns.answers[rows] == 0).astype(kind)
            if patterns.missing:
                joint = right @ self.log_right + wrong @ self.log_wrong + self.log_prior
            else:
                joint = right @ odds + base
            top = joint.max(axis=1, keepdims=True)
            weights = np.exp(joint - top)
            total = weights.sum(axis=1, keepdims=True)
            weights /= total
            yield rows, right, wrong, weights, (top + np.log(total)).ravel().astype(np.float64)


def _value_and_gradient(patterns: _Patterns, vector: Floats, nodes: _Nodes) -> tuple[float, Floats]:
    """Marginal log-likelihood with the vague prior of the skills, and its gradient by (skills, log spread)."""
    tables = _Tables(vector, nodes, patterns.precision(nodes))
    skills = vector[:-1]
    value = -float((skills**2).sum()) / (2 * VAGUE**2)
    mass = np.zeros(len(nodes.where))
    right, wrong = np.zeros((2, len(mass), len(skills)))
    for rows, hit, miss, weights, log_likelihood in tables.blocks(patterns):
        counts = patterns.counts[rows]
        value += float(counts @ log_likelihood)
        weighted = weights * counts[:, None].astype(weights.dtype)
        mass += weighted.sum(axis=0, dtype=np.float64)
        right += weighted.T @ hit
        wrong += weighted.T @ miss
    by_skill = (right * tables.pull_right - wrong * tables.pull_wrong).sum(axis=0) - skills / VAGUE**2
    return value, np.append(by_skill, mass @ (tables.z**2 - 1))


def _score_products(patterns: _Patterns, vector: Floats, nodes: _Nodes) -> Floats:
    """Sum over examples of the outer product of each one's score: an estimate of the information."""
    tables = _Tables(vector, nodes, patterns.precision(nodes))
    total = np.zeros((len(vector), len(vector)))
    for rows, hit, miss, weights, _ in tables.blocks(patterns):
        kind = weights.dtype
        scores = hit * (weights @ tables.pull_right.astype(kind)) - miss * (
            weights @ tables.pull_wrong.astype(kind)
        )
        scores = np.concatenate([scores, weights @ (tables.z**2 - 1).astype(kind)[:, None]], axis=1)
        total += (scores * patterns.counts[rows, None].astype(kind)).T @ scores
    total[np.diag_indices(len(vector) - 1)] += 1 / VAGUE**2
    return total


def _first_guess(patterns: _Patterns) -> Floats:
    right = ((patterns.answers == 1) * patterns.counts[:, None]).sum(axis=0)
    tried = ((patterns.answers != MISSING) * patterns.counts[:, None]).sum(axis=0)
    spread = 1.5
    return np.append(np.sqrt(1 + spread**2) * ndtri((right + 0.5) / (tried + 1.0)), np.log(spread))


def _rough_curvature(patterns: _Patterns, models: int) -> Floats:
    return np.diag(float(patterns.counts.sum()) * np.append(np.full(models, 0.15), 0.8))


def _climb(
    patterns: _Patterns, start: Floats, nodes: _Nodes, curvature: Floats, tolerance: float
) -> tuple[Floats, bool]:
    """Climb to the maximum by quasi-Newton in coordinates where ``curvature`` is the unit matrix.

    There one unit is about one standard error, and so ``tolerance`` is in standard errors.
    """
    values, vectors = np.linalg.eigh(curvature)
    unwhiten = vectors / np.sqrt(np.maximum(values, float(values[-1]) * 1e-10))
    low, high = np.full(len(start), -60.0), np.full(len(start), 60.0)
    low[-1], high[-1] = _SPREADS

    def negative(offset: Floats) -> tuple[float, Floats]:
        unbounded = start + unwhiten @ offset
        vector = np.clip(unbounded, low, high)
        value, gradient = _value_and_gradient(patterns, vector, nodes)
        gradient[unbounded != vector] = 0.0  # beyond a limit the function is flat
        return -value, -(unwhiten.T @ gradient)

    result = minimize(
        negative,
        np.zeros_like(start),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 100, "maxcor": 20, "ftol": 1e-15, "gtol": tolerance},
    )
    vector = np.clip(start + unwhiten @ np.asarray(result.x), low, high)
    return vector, bool(np.abs(result.jac).max() < max(3 * tolerance, 0.01))


def _hessian(patterns: _Patterns, vector: Floats, nodes: _Nodes) -> Floats:
    rows = []
    for offset in 1e-4 * np.eye(len(vector)):
        above = _value_and_gradient(patterns, vector + offset, nodes)[1]
        below = _value_and_gradient(patterns, vector - offset, nodes)[1]
        rows.append((below - above) / 2e-4)
    hessian = np.array(rows)
    return np.asarray((hessian + hessian.T) / 2)


def _inverse(information: Floats) -> Floats:
    values, vectors = np.linalg.eigh(information)
    # A direction without information (a spread at its bound) gets a wide error, not a negative one.
    bounded = np.maximum(values, max(float(values[-1]) * 1e-12, 1e-8))
    return np.asarray((vectors / bounded) @ vectors.T)
