"""Skills of models and difficulty of examples: the probit Rasch model and its two-parameter form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import ndtri

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.stats import normal, normal_quantile
from hardpan.testbed.items.likelihood import (
    MISSING,
    SLOPE_LIMITS,
    Parameters,
    Patterns,
    expected_information,
    posterior,
    precision,
    score_products,
    value_and_gradient,
)
from hardpan.testbed.items.quadrature import FloatArray, Nodes

ItemModel = Literal["rasch", "two-parameter"]
_FIRST_PATTERNS = 5000
_HESSIAN_WORK = 2e10
_FIRST_CELLS = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class ItemFit:
    """A fitted scale on which models have skills and examples have difficulties.

    P(model j right on example i) = Φ(a_i (s_j − τ_i)); skills have mean 0, log a has mean 0 over the examples
    (a = 1 in the Rasch model).

    Attributes:
        model: "rasch" or "two-parameter".
        skills: (M,) s_j, with ``skill_stderr`` and, for contrasts, ``skill_covariance`` (M, M).
        difficulty: (N,) posterior mean of τ_i, with its standard deviation as ``difficulty_stderr``.
        discrimination: (N,) exp of the posterior mean of log a_i, with ``discrimination_stderr``.
        difficulty_mean: μ of the normal distribution of difficulties.
        difficulty_spread: σ of it.
        discrimination_spread: standard deviation of log a over the examples, 0 in the Rasch model.
        log_likelihood: marginal log-likelihood at the optimum.
        parameters: how many parameters were estimated (examples are integrated out, they cost none).
        patterns: how many different patterns of right and wrong the examples show.
        converged: whether the optimum was reached (each direction within a tenth of its standard error).
        method: how it was computed.
    """

    model: str
    skills: FloatArray
    skill_stderr: FloatArray
    skill_covariance: FloatArray
    difficulty: FloatArray
    difficulty_stderr: FloatArray
    discrimination: FloatArray
    discrimination_stderr: FloatArray
    difficulty_mean: Estimate
    difficulty_spread: Estimate
    discrimination_spread: Estimate
    log_likelihood: float
    parameters: int
    patterns: int
    converged: bool
    method: str
    warnings: tuple[str, ...] = ()


def fit_items(right: ArrayLike, model: ItemModel = "rasch", *, seed: int = 0) -> ItemFit:
    r"""Fit skills and difficulties to a matrix of right and wrong by marginal maximum likelihood.

    Maximises Σ_i log ∫ Π_j Φ(±a (s_j − τ)) p(τ, a) dτ da over the skills and the normal distribution p of
    (τ, log a), by quasi-Newton on part of the examples, then on all; equal columns are computed once. Examples then
    get the posterior mean and standard deviation of their own τ and log a, which are finite also where every model
    is right. Where models outnumber examples, the Rasch model is fitted the other way round: skills are integrated
    out.

    Args:
        right: (M, N) models × examples; 1 or True for right, 0 for wrong, NaN for not tried.
        model: "rasch" (a = 1) or "two-parameter".
        seed: chooses the examples of the first stage; the optimum does not depend on it.

    Source: Bock and Aitkin (1981) with the roles of persons and items changed; the replication paper, section 5.3.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> skills, difficulty = np.linspace(-1, 1, 12), rng.normal(0.5, 1.5, 3000)
        >>> fit = fit_items(skills[:, None] - difficulty + rng.standard_normal((12, 3000)) > 0)
        >>> bool(np.abs((fit.skills - skills) / fit.skill_stderr).max() < 4)
        True
        >>> round(fit.difficulty_spread.value, 1)
        1.5
    """
    answers = check_matrix(right)
    models, examples = answers.shape
    if model not in ("rasch", "two-parameter"):
        raise InputError(f"model must be 'rasch' or 'two-parameter'; got {model!r}")
    if models > examples and model == "two-parameter":
        raise InputError(
            f"right has {models} models and {examples} examples; two-parameter needs at least as many examples as "
            "models; fit model 'rasch', or fewer models"
        )
    if models > examples:
        flipped = np.where(answers == MISSING, MISSING, 1 - np.minimum(answers, 1)).astype(np.uint8)
        return _models_integrated(Patterns.of(flipped), seed)
    return _examples_integrated(Patterns.of(answers.T), model, seed)


def check_matrix(right: ArrayLike) -> NDArray[np.uint8]:
    """Give a matrix of right, wrong and missing as 1, 0 and 2, or refuse it."""
    matrix: NDArray[Any] = np.asarray(right)
    if matrix.ndim != 2 or min(matrix.shape) < 2:
        raise InputError(f"right must be models × examples, at least 2 × 2; got shape {matrix.shape}")
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"right must hold 0, 1 and NaN; got {matrix.dtype}; compare predictions with labels first")
    tried = np.isfinite(matrix) if matrix.dtype.kind == "f" else np.ones(matrix.shape, dtype=bool)
    wrong_value = tried & (matrix != 0) & (matrix != 1)
    if matrix.dtype.kind == "f":
        wrong_value |= np.isinf(matrix)
    if wrong_value.any():
        raise InputError(
            f"right must hold 0, 1 and NaN; got {matrix[wrong_value][0]}; compare predictions with labels first"
        )
    answers = np.where(tried, matrix == 1, MISSING).astype(np.uint8)
    for axis, what in ((1, "model"), (0, "example")):
        empty = (answers == MISSING).all(axis=axis)
        if empty.any():
            raise InputError(f"{what} {int(np.argmax(empty))} has no answer at all; leave it out of right")
    rate = (answers == 1).sum(axis=1) / (answers != MISSING).sum(axis=1)
    if np.all(rate == rate[0]) and rate[0] in (0.0, 1.0):
        raise InputError("right is the same everywhere; there is nothing to tell models apart by")
    return answers


def _examples_integrated(patterns: Patterns, model: str, seed: int) -> ItemFit:
    found, nodes, covariance, converged, how = _optimise(patterns, model == "two-parameter", seed)
    mean, deviation = posterior(patterns, found, nodes)
    m, shift = len(found.skills), float(found.skills.mean())
    centring = np.eye(m) - 1.0 / m
    skill_covariance = centring @ covariance[:m, :m] @ centring
    slope = np.exp(mean[:, 1])
    examples = len(patterns.inverse)
    value = value_and_gradient(patterns, found, nodes)[0]
    zero = Estimate(0.0, 0.0, 0.0, 0.0, method="fixed")
    warnings = [] if converged else ["the fit did not converge; its standard errors may be wrong"]
    if found.sloped and found.slope_spread <= 1.01 * SLOPE_LIMITS[0]:
        warnings.append("discriminations do not differ measurably; the Rasch model says as much")
    never = np.flatnonzero(np.abs(found.skills - shift) > 8)
    if never.size:
        warnings.append(f"{never.size} models are right or wrong nearly everywhere; their skills are only bounded")
    return ItemFit(
        model=model,
        skills=found.skills - shift,
        skill_stderr=np.sqrt(np.diag(skill_covariance)),
        skill_covariance=skill_covariance,
        difficulty=mean[patterns.inverse, 0] - shift,
        difficulty_stderr=deviation[patterns.inverse, 0],
        discrimination=slope[patterns.inverse],
        discrimination_stderr=(slope * deviation[:, 1])[patterns.inverse],
        difficulty_mean=_normal(-shift, float(np.sqrt(covariance[:m, :m].mean())), examples),
        difficulty_spread=_log_normal(found.spread, float(np.sqrt(covariance[m, m])), examples),
        discrimination_spread=zero
        if not found.sloped
        else _log_normal(found.slope_spread, float(np.sqrt(covariance[m + 1, m + 1])), examples),
        log_likelihood=value,
        parameters=len(found.vector()),
        patterns=len(patterns.counts),
        converged=converged,
        method=f"marginal maximum likelihood, examples integrated out over {len(nodes)} nodes; {how}",
        warnings=tuple(warnings),
    )


def _models_integrated(patterns: Patterns, seed: int) -> ItemFit:
    """The Rasch model is the same with models and examples exchanged and right turned into wrong."""
    other = _examples_integrated(patterns, "rasch", seed)
    shift = float(other.difficulty.mean())
    n, models = len(other.skills), len(other.difficulty)
    spread = float(np.sqrt(max(other.skills.var(ddof=1) - (other.skill_stderr**2).mean(), 1e-6)))
    return replace(
        other,
        skills=other.difficulty - shift,
        skill_stderr=other.difficulty_stderr,
        skill_covariance=np.diag(other.difficulty_stderr**2),
        difficulty=other.skills - shift,
        difficulty_stderr=other.skill_stderr,
        discrimination=np.ones(n),
        discrimination_stderr=np.zeros(n),
        difficulty_mean=_normal(-shift, spread / np.sqrt(n), n),
        difficulty_spread=_log_normal(spread, float(1 / np.sqrt(2 * n)), n),
        method=other.method.replace("examples integrated", f"{models} models integrated"),
    )


def _optimise(patterns: Patterns, sloped: bool, seed: int) -> tuple[Parameters, Nodes, FloatArray, bool, str]:
    start = patterns.some(max(_FIRST_PATTERNS, _FIRST_CELLS // patterns.answers.shape[1]), seed)
    whole = start is patterns
    parameters = _first_guess(start)
    for _ in range(2):  # nodes follow the parameters, so a second round begins with better nodes
        parameters, _ = _climb(start, parameters, parameters.nodes(0.7), _rough_curvature(start, parameters), 1.0)
    if sloped:
        parameters = replace(parameters, slope_spread=0.4)
        nodes = parameters.nodes(1.0 if whole else 2.0)
        parameters, _ = _climb(start, parameters, nodes, _rough_curvature(start, parameters), 1.0)
    step = (0.8 if whole else 1.6) if sloped else (0.5 if whole else 0.7)
    nodes = parameters.nodes(step)
    size, examples = len(parameters.vector()), float(patterns.counts.sum())
    begun = float(start.counts.sum())
    curvature = _rough_curvature(patterns, parameters)
    if begun > 4 * size:
        curvature = score_products(start, parameters, nodes) * (examples / begun)
    exact = precision(patterns, nodes) is np.float64
    parameters, converged = _climb(patterns, parameters, nodes, curvature, 1e-4 if exact else 0.1)
    if exact and 8.0 * size * patterns.answers.size * len(nodes) <= _HESSIAN_WORK:
        nodes = parameters.nodes(step)
        covariance, how = _inverse(_hessian(patterns, parameters, nodes)), "the observed information"
    elif examples <= 2 * size:
        covariance = np.diag(1.0 / expected_information(patterns, parameters, nodes))
        how = "the expected information, as if the examples were known"
    else:
        # The inverse of a sum of n outer products in p dimensions is too large by n / (n − p − 1) on average.
        products = score_products(patterns, parameters, nodes)
        covariance, how = _inverse(products) * max(examples - size - 1, 1.0) / examples, "the products of scores"
    return parameters, nodes, covariance, converged, f"standard errors from {how}"


def _first_guess(patterns: Patterns) -> Parameters:
    counts = patterns.counts[:, None]
    right = ((patterns.answers == 1) * counts).sum(axis=0)
    tried = ((patterns.answers != MISSING) * counts).sum(axis=0)
    spread = 1.5
    return Parameters(np.sqrt(1 + spread**2) * ndtri((right + 0.5) / (tried + 1.0)), spread)


def _rough_curvature(patterns: Patterns, parameters: Parameters) -> FloatArray:
    vector, total = parameters.vector(), patterns.counts.sum()
    return np.diag(total * np.where(np.arange(len(vector)) < len(parameters.skills), 0.15, 0.8))


def _climb(
    patterns: Patterns, start: Parameters, nodes: Nodes, curvature: FloatArray, tolerance: float
) -> tuple[Parameters, bool]:
    """Climb to the maximum by quasi-Newton in coordinates where ``curvature`` is the unit matrix.

    There one unit is about one standard error, and so ``tolerance`` is in standard errors.
    """
    values, vectors = np.linalg.eigh(curvature)
    unwhiten = vectors / np.sqrt(np.maximum(values, float(values[-1]) * 1e-10))
    origin = start.vector()
    low, high = start.limits()

    def negative(offset: FloatArray) -> tuple[float, FloatArray]:
        wanted = origin + unwhiten @ offset
        vector = np.clip(wanted, low, high)
        value, gradient = value_and_gradient(patterns, start.replaced(vector), nodes)
        gradient[wanted != vector] = 0.0  # beyond a limit the function is flat
        return -value, -(unwhiten.T @ gradient)

    found = minimize(
        negative,
        np.zeros_like(origin),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 100, "maxcor": 20, "ftol": 1e-15, "gtol": tolerance},
    )
    vector = np.clip(origin + unwhiten @ np.asarray(found.x), low, high)
    # In single precision the last digits of the gradient are noise, a small part of a standard error.
    return start.replaced(vector), bool(np.abs(found.jac).max() < max(3 * tolerance, 0.01))


def _hessian(patterns: Patterns, parameters: Parameters, nodes: Nodes) -> FloatArray:
    vector = parameters.vector()
    rows = []
    for i in range(len(vector)):
        offset = np.zeros_like(vector)
        offset[i] = 1e-4
        above = value_and_gradient(patterns, parameters.replaced(vector + offset), nodes)[1]
        below = value_and_gradient(patterns, parameters.replaced(vector - offset), nodes)[1]
        rows.append((below - above) / 2e-4)
    hessian = np.array(rows)
    return (hessian + hessian.T) / 2


def _inverse(information: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(information)
    # A direction without information (a spread at its bound) gets a wide error, not a negative one.
    kept = np.maximum(values, max(float(values[-1]) * 1e-12, 1e-8))
    return np.asarray((vectors / kept) @ vectors.T)


def _normal(value: float, stderr: float, n: int) -> Estimate:
    return normal(value, stderr, n, method="marginal maximum likelihood")


def _log_normal(value: float, stderr: float, n: int) -> Estimate:
    reach = np.exp(min(normal_quantile(0.95) * stderr, 50.0))  # a spread without information has no upper end
    low, high = value / reach, value * reach
    return Estimate(value, value * stderr, float(low), float(high), method="marginal maximum likelihood", n=n)
