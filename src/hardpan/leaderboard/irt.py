r"""Item response models by marginal maximum likelihood: arrays in, arrays out.

P(model j right on item i) = c + (1 − c) σ(a_i θ_j + d_i), θ_j ~ N(0, 1), σ the logistic function. The items'
slopes a (of either sign) and intercepts d maximise Σ_j log ∫ Π_i P^x (1 − P)^{1−x} φ(θ) dθ, plus normal
priors. Scores x between 0 and 1 make it a quasi-likelihood with the same mean.

Two ways to compute it. :func:`fit_by_quadrature` integrates over nodes that all models share, dense where the test
is informative, and takes Newton steps. With W_jq the posterior of model j over nodes θ_q, s = σ(aθ + d), g = s/P:
the score of item i from model j is E_j[g (x − P)] (times θ for a), and by Louis' identity the information is
that of known skills minus Σ_j Cov_j(score). Each covariance is taken on the first two (four) orthonormal
polynomials of θ under the posterior of model j, so that it is a product of matrices of 2M rows; it serves the
steps and the standard errors, while the gradient, and so the optimum, are exact. The information is then B −
CᵀC with B of 2 × 2 blocks and C of 2M × 2N: it is solved as a matrix of size 2N, or of size 2M by Woodbury's
identity, whichever is smaller.

:func:`fit_by_modes` is for very many items. Then each skill is known almost exactly, the integral is its mode,
and items and skills are fitted in turn; standardising the skills after each turn removes the two slow directions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.special import expit, logsumexp

from hardpan.execution import Progress
from hardpan.execution.mapping import no_progress
from hardpan.leaderboard.pairs import column_blocks

Floats = NDArray[np.float64]
REACH = 6.0  # of the nodes, in standard deviations of skill
FEWEST_NODES = 41
STEP = 0.75  # distance of nodes in standard deviations of a posterior
MOST_STEPS = 100
LARGE = 4e9  # models × items × nodes from which skills are taken at their modes
DEGREE = 2  # of the polynomials of skill in Louis' identity
FEW_ITEMS, FEW_ITEM_DEGREE = 60, 4  # with few items posteriors are wide, and need more
_BLOCK = 256  # items at a time where skills are taken at their modes
_TOLERANCE = 3e-6  # of Newton's decrement before a step, per item; after the step it is a thousand times smaller


@dataclass(frozen=True, slots=True)
class Priors:
    """Normal priors of slopes and intercepts; an infinite spread is no prior.

    The weak defaults had the lowest error of slopes among four settings on planted items (300 to 3,000 models).
    """

    slope_mean: float = 1.0
    slope_spread: float = 3.0
    intercept_spread: float = 5.0

    def log(self, a: Floats, d: Floats) -> float:
        """Logarithm of the priors' density, up to a constant."""
        slope = (a - self.slope_mean) / self.slope_spread
        return -0.5 * float((slope**2).sum() + ((d / self.intercept_spread) ** 2).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A fitted model: slopes and intercepts (N,), skills (M,), each with standard errors, and how the fit ended."""

    slope: Floats
    slope_stderr: Floats
    intercept: Floats
    intercept_stderr: Floats
    skill: Floats
    skill_stderr: Floats
    log_likelihood: float
    converged: bool


@dataclass(frozen=True, eq=False)
class _ScoreData:
    right: Floats  # (M, N), 0 where missing
    known: Floats | None  # (M, N) of 0 and 1, None where no cell is missing
    floor: float
    shared_slope: bool
    priors: Priors

    @property
    def shape(self) -> tuple[int, int]:
        m, n = self.right.shape
        return m, n

    def centred(self, columns: slice, mean: Floats) -> tuple[Floats, Any]:
        """Scores of some items minus the items' means, 0 where missing, and how many models have each item."""
        block = self.right[:, columns] - mean[columns]
        if self.known is None:
            return block, float(len(block))
        return block * self.known[:, columns], self.known[:, columns].sum(axis=0)

    @cached_property
    def single(self) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Both matrices in single precision."""
        return self.right.astype(np.float32), None if self.known is None else self.known.astype(np.float32)


def fit(
    scores: Floats,
    *,
    floor: float = 0.0,
    shared_slope: bool = False,
    priors: Priors,
    robust: bool = False,
    progress: Progress = no_progress,
) -> Fit:
    """Fit the model to scores (M, N) in [0, 1], NaN missing; every model and item has a score.

    Args:
        scores: the matrix.
        floor: c, the probability of being right by guessing.
        shared_slope: one slope for all items (Rasch).
        priors: of slopes and intercepts.
        robust: standard errors from the scores' own spread (sandwich), for fractions.
        progress: called with a guess of the fraction done.
    """
    known = np.isfinite(scores)
    complete = bool(known.all())
    data = _ScoreData(
        scores if complete else np.where(known, scores, 0.0),
        None if complete else known.astype(np.float64),
        floor,
        shared_slope,
        priors,
    )
    a, d = _starting_parameters(data)
    m, n = data.shape
    if float(m) * n * FEWEST_NODES > LARGE or float(m) * n * len(_nodes(a, d, floor)[0]) > LARGE:
        return fit_by_modes(data, a, d, robust, progress)
    return fit_by_quadrature(data, a, d, robust, progress)


def information(skills: Floats, a: Floats, d: Floats, floor: float = 0.0) -> Floats:
    """Fisher information about skill of all items, (G,): Σ_i a_i² P'²/(P(1 − P)), P' = (1 − c) s(1 − s)."""
    total = np.zeros(len(skills))
    for start in range(0, len(a), 2000):
        columns = slice(start, start + 2000)
        s = expit(skills[:, None] * a[columns] + d[columns])
        total += ((1 - floor) * s * (1 - s) * s / (floor + (1 - floor) * s + 1e-300) * a[columns] ** 2).sum(axis=1)
    return total


def _nodes(a: Floats, d: Floats, floor: float) -> tuple[Floats, Floats]:
    """Nodes and the log of prior times cell width.

    They are spaced by √(information + 1), so that a posterior is about 1/STEP cells wide.
    """
    coarse = np.linspace(-REACH, REACH, 481)
    density = np.sqrt(information(coarse, a, d, floor) + 1.0)
    # Half the density of the neighbourhood at least: posteriors reach beyond their item's peak.
    near = np.convolve(np.pad(density, 12, mode="edge"), np.ones(25) / 25, "valid")
    density = np.maximum(density, near)
    steps = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)]) * (coarse[1] - coarse[0])
    count = max(FEWEST_NODES, math.ceil(steps[-1] / STEP) + 1)
    own = np.linspace(0.0, steps[-1], count)
    theta = np.interp(own, steps, coarse)
    edges = np.concatenate([[theta[0]], (theta[1:] + theta[:-1]) / 2, [theta[-1]]])
    log_weight = np.log(np.diff(edges)) - theta**2 / 2
    return theta, log_weight - logsumexp(log_weight)  # of sum 1: no likelihood is above that of the best skill


def _mean_skills(data: _ScoreData) -> tuple[Floats, Floats]:
    """Standardised mean scores of the models relative to the items' means, and these means."""
    known = data.known
    mean = data.right.sum(axis=0) / (len(data.right) if known is None else known.sum(axis=0))
    total, count = np.zeros((2, len(data.right)))
    for columns in column_blocks(len(mean)):
        total += data.centred(columns, mean)[0].sum(axis=1)
        count += mean[columns].size if known is None else known[:, columns].sum(axis=1)
    total /= count
    return (total - total.mean()) / (total.std() or 1.0), mean


def _starting_parameters(data: _ScoreData) -> tuple[Floats, Floats]:
    """Slopes from correlations with the mean score, intercepts from the items' means."""
    right = data.right
    skill, mean = _mean_skills(data)
    square, product, size = np.empty((3, len(mean)))
    for columns in column_blocks(len(mean)):
        centred, size[columns] = data.centred(columns, mean)
        square[columns], product[columns] = (centred**2).sum(axis=0), skill @ centred
    spread = np.sqrt(square / size)
    correlation = np.where(spread > 0, product / size / np.maximum(spread, 1e-12), 0.0)
    correlation = np.clip(correlation, -0.9, 0.9)
    a = np.clip(2.0 * correlation / np.sqrt(1 - correlation**2), -4.0, 4.0)
    if data.shared_slope:
        a = np.full_like(a, max(float(a.mean()), 0.3))
    share = (mean * len(right) + 0.5) / (len(right) + 1.0)
    share = np.clip((share - data.floor) / (1 - data.floor), 0.02 if data.floor else 1e-9, None)
    share = np.minimum(share, 1 - 0.5 / (len(right) + 1.0))
    return a, np.asarray(np.log(share / (1 - share)) * np.sqrt(1 + a**2 / 3))


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    """Everything at one point: objective, posteriors (M, Q), curves s and g at the nodes (N, Q)."""

    a: Floats
    d: Floats
    value: float
    log_likelihood: float
    weights: Floats
    s: Floats
    p: Floats
    g: Floats


def _evaluate(data: _ScoreData, theta: Floats, log_prior: Floats, a: Floats, d: Floats) -> _State:
    z = a[:, None] * theta + d[:, None]
    s = expit(z)
    c = data.floor
    if c:
        p = c + (1 - c) * s
        g = s / p
        log_right, log_wrong = np.log(p), np.log1p(-c) - np.logaddexp(0.0, z)
    else:
        p, g = s, np.ones((1, 1))
        log_wrong = -np.logaddexp(0.0, z)
        log_right = z + log_wrong
    if data.known is None:
        joint = data.right @ (log_right - log_wrong) + (log_wrong.sum(axis=0) + log_prior)
    else:
        joint = data.right @ log_right + (data.known - data.right) @ log_wrong + log_prior
    top = joint.max(axis=1, keepdims=True)
    weights = np.exp(joint - top)
    total = weights.sum(axis=1, keepdims=True)
    weights /= total
    log_likelihood = float((top + np.log(total)).sum())
    return _State(a, d, log_likelihood + data.priors.log(a, d), log_likelihood, weights, s, p, g)


def fit_by_quadrature(
    data: _ScoreData, a: Floats, d: Floats, robust: bool, progress: Progress = no_progress
) -> Fit:
    """Newton's method on the marginal likelihood; see the module's text."""
    theta, log_prior = _nodes(a, d, data.floor)
    state = _evaluate(data, theta, log_prior, a, d)
    decrement, steps, settled, converged = math.inf, 0, False, False
    while True:
        steps += 1
        gradient = _objective_gradient(data, theta, state)
        system = _ItemInformation(data, theta, state)
        state, decrement = _newton_step(data, theta, log_prior, state, gradient, system)
        if decrement < _TOLERANCE * max(1.0, data.right.shape[1]):
            converged = settled
            if settled:
                break
            settled = True  # once more on nodes made for this solution
        if steps == MOST_STEPS:
            break
        progress("fitting items", steps / (steps + 5))
        if settled or steps in (2, 4, 7, 12, 20):
            theta, log_prior = _nodes(state.a, state.d, data.floor)
            state = _evaluate(data, theta, log_prior, state.a, state.d)
    # The last step was too small to matter for the curvature, where it starts from.
    scores = _posterior_moments(data, theta, state, state.weights).astype(np.float64) if robust else None
    variance = system.variances(scores)
    n = len(state.a)
    mean = state.weights @ theta
    spread = np.sqrt(np.maximum(state.weights @ theta**2 - mean**2, 1e-300))
    if robust:
        spread = _robust_skill(data, state.a, state.d, mean, spread)
    total = data.right.sum(axis=1) / (n if data.known is None else data.known.sum(axis=1))
    sign = -1.0 if float(mean @ (total - total.mean())) < 0 else 1.0
    # Without priors the skills have mean 0 and mean square 1 at the optimum; priors of many items shift that.
    posterior = state.weights.mean(axis=0)
    centre = float(posterior @ theta)
    scale = math.sqrt(float(posterior @ (theta - centre) ** 2))
    return Fit(
        sign * scale * state.a,
        scale * np.sqrt(variance[:n]),
        state.d + centre * state.a,
        np.sqrt(variance[n:]),
        sign * (mean - centre) / scale,
        spread / scale,
        state.log_likelihood,
        converged,
    )


def _objective_gradient(data: _ScoreData, theta: Floats, state: _State) -> Floats:
    """Of the objective by (a, d), (2N,)."""
    expected = data.right.T @ state.weights
    tried = state.weights.sum(axis=0) if data.known is None else data.known.T @ state.weights
    pull = state.g * (expected - tried * state.p)
    prior = data.priors
    by_slope = pull @ theta - (state.a - prior.slope_mean) / prior.slope_spread**2
    by_intercept = pull.sum(axis=1) - state.d / prior.intercept_spread**2
    return np.concatenate([by_slope, by_intercept])


def _posterior_moments(
    data: _ScoreData, theta: Floats, state: _State, weights: NDArray[Any]
) -> NDArray[np.float32]:
    """E_j[w · score_ji] by (a, d) for weights (M, Q): (M, 2N), or (M, 1 + N) with one slope.

    In single precision: steps and standard errors need no more, and the gradient does not come from here.
    """
    n = len(state.a)
    right, known = data.single
    w = weights.astype(np.float32, copy=False)
    by_node = theta.astype(np.float32)
    curves = (state.s.astype(np.float32), state.g.astype(np.float32))

    def moment(weighted: NDArray[np.float32]) -> NDArray[np.float32]:
        product = weighted @ curves[0].T
        if known is not None:
            product *= known
        first = weighted @ curves[1].T if data.floor else weighted.sum(axis=1)[:, None]
        return np.asarray(right * first - product)

    result = np.empty((len(w), (1 if data.shared_slope else n) + n), dtype=np.float32)
    result[:, -n:] = moment(w)
    if data.shared_slope:
        result[:, 0] = moment(w * by_node).sum(axis=1)
    else:
        result[:, :n] = moment(w * by_node)
    return result


def _skill_polynomials(weights: NDArray[Any], theta: Floats, degree: int) -> list[NDArray[np.float32]]:
    """Orthonormal polynomials of skill under the posterior of each model, of degree 1 on, times it: (M, Q)."""
    mean = (weights @ theta)[:, None]
    spread = np.sqrt(np.maximum(weights @ theta**2 - mean[:, 0] ** 2, 1e-12))[:, None]
    t = ((theta - mean) / spread).astype(np.float32)
    weights = weights.astype(np.float32)
    basis = [np.ones_like(t)]
    for _ in range(degree):
        new = basis[-1] * t
        for old in basis:
            new = new - (weights * new * old).sum(axis=1, keepdims=True) * old
        size = (weights * new * new).sum(axis=1, keepdims=True)
        basis.append(new / np.sqrt(np.maximum(size, 1e-6)))
    return [weights * polynomial for polynomial in basis[1:]]


class _ItemInformation:
    """The information B − CᵀC of (a, d), solved densely or by Woodbury's identity, whichever is smaller."""

    def __init__(self, data: _ScoreData, theta: Floats, state: _State) -> None:
        tried = state.weights.sum(axis=0) if data.known is None else data.known.T @ state.weights
        weight = tried * (1 - data.floor) * state.s * (1 - state.s) * state.g
        if data.floor:  # the observed curvature; where it is negative, a little of the expected one
            bend = data.floor * state.s * (1 - state.s) / state.p**2
            weight = np.maximum(weight - bend * (data.right.T @ state.weights - tried * state.p), 0.05 * weight)
        prior = data.priors
        self.aa = weight @ theta**2 + prior.slope_spread**-2
        self.ad = weight @ theta
        self.dd = weight.sum(axis=1) + prior.intercept_spread**-2
        self.shared = data.shared_slope
        self.n = len(state.a)
        weighted = _skill_polynomials(state.weights, theta, FEW_ITEM_DEGREE if self.n <= FEW_ITEMS else DEGREE)
        self.rows = np.concatenate([_posterior_moments(data, theta, state, basis) for basis in weighted])
        self.dense = self.rows.shape[1] <= self.rows.shape[0]
        self._factor: Any = None
        self._fraction = -1.0

    def _block(self, vector: Floats) -> Floats:
        """B⁻¹ v for (2N, k)."""
        n = self.n
        if self.shared:  # an arrow: one slope against N intercepts
            aa, ad = self.aa.sum(), self.ad[:, None]
            inner = vector[1:] / self.dd[:, None]
            slope = (vector[:1] - (ad * inner).sum(axis=0)) / (aa - float((self.ad**2 / self.dd).sum()))
            return np.concatenate([slope, inner - ad / self.dd[:, None] * slope])
        determinant = (self.aa * self.dd - self.ad**2)[:, None]
        top, bottom = vector[:n], vector[n:]
        aa, ad, dd = self.aa[:, None], self.ad[:, None], self.dd[:, None]
        return np.concatenate([(dd * top - ad * bottom) / determinant, (aa * bottom - ad * top) / determinant])

    def factor(self, fraction: float) -> bool:
        """Prepare B − fraction · CᵀC; False where that is not positive definite."""
        if fraction == 0.0:
            self._fraction = 0.0
            return True
        n = self.n
        try:
            if self.dense:
                matrix = -fraction * (self.rows.T @ self.rows).astype(np.float64)
                if self.shared:
                    matrix[0, 0] += self.aa.sum()
                    matrix[0, 1:] += self.ad
                    matrix[1:, 0] += self.ad
                    matrix[np.arange(1, n + 1), np.arange(1, n + 1)] += self.dd
                else:
                    i = np.arange(n)
                    matrix[i, i] += self.aa
                    matrix[i + n, i + n] += self.dd
                    matrix[i, i + n] += self.ad
                    matrix[i + n, i] += self.ad
                self._factor = linalg.cho_factor(matrix, lower=True, overwrite_a=True)
            else:
                self._solved = self._block(self.rows.T.astype(np.float64))
                inner = np.eye(len(self.rows)) - fraction * (self.rows @ self._solved)
                self._factor = linalg.cho_factor(inner, lower=True, overwrite_a=True)
        except linalg.LinAlgError:
            return False
        self._fraction = fraction
        return True

    def solve(self, vector: Floats) -> Floats:
        """(B − fraction · CᵀC)⁻¹ v for (P,) or (P, k)."""
        v = vector if vector.ndim == 2 else vector[:, None]
        if self._fraction == 0.0:
            result = self._block(v)
        elif self.dense:
            result = linalg.cho_solve(self._factor, v)
        else:
            result = self._block(v)
            result = result + self._fraction * (self._solved @ linalg.cho_solve(self._factor, self.rows @ result))
        return np.asarray(result if vector.ndim == 2 else result[:, 0])

    def variances(self, scores: Floats | None) -> Floats:
        """Diagonal of the inverse, (2N,); with the models' scores, of the sandwich."""
        fraction = next(f for f in (1.0, 0.98, 0.9, 0.7, 0.0) if self.factor(f))
        n = self.n
        if scores is not None:
            m = len(scores)
            diagonal = (self.solve(scores.T) ** 2).sum(axis=1) * m / max(m - 1, 1)
        elif self.dense and fraction:
            diagonal = np.diag(linalg.cho_solve(self._factor, np.eye(self.rows.shape[1])))
        else:
            if self.shared:
                schur = 1 / (self.aa.sum() - float((self.ad**2 / self.dd).sum()))
                diagonal = np.concatenate([[schur], 1 / self.dd + (self.ad / self.dd) ** 2 * schur])
            else:
                determinant = self.aa * self.dd - self.ad**2
                diagonal = np.concatenate([self.dd / determinant, self.aa / determinant])
            if fraction:
                half = linalg.solve_triangular(self._factor[0], self._solved.T, lower=True)
                diagonal = diagonal + fraction * (half**2).sum(axis=0)
        if self.shared:
            diagonal = np.concatenate([np.full(n, diagonal[0]), diagonal[1:]])
        return np.asarray(np.maximum(diagonal, 0.0))


def _newton_step(
    data: _ScoreData, theta: Floats, log_prior: Floats, state: _State, gradient: Floats, system: _ItemInformation
) -> tuple[_State, float]:
    """One Newton step that raises the objective; the decrement is gᵀH⁻¹g/2 at the point where it starts."""
    n = system.n
    if system.shared:
        gradient = np.concatenate([[gradient[:n].sum()], gradient[n:]])
    decrement = math.inf
    for fraction in (1.0, 0.9, 0.0):
        if not system.factor(fraction):
            continue
        direction = system.solve(gradient)
        decrement = float(gradient @ direction) / 2
        if system.shared:
            direction = np.concatenate([np.full(n, direction[0]), direction[1:]])
        # Each item has its own limit: one extreme item must not hold up the others.
        longest = np.maximum(np.abs(direction[:n]), np.abs(direction[n:]))
        direction *= np.tile(np.minimum(1.0, 2.0 / np.maximum(longest, 1e-300)), 2)
        for scale in (1.0, 0.3, 0.1, 0.03):
            a = state.a + scale * direction[:n]
            if system.shared:
                a = np.full(n, max(float(a.mean()), 0.02))
            result = _evaluate(data, theta, log_prior, a, state.d + scale * direction[n:])
            if result.value >= state.value - 1e-9 * abs(state.value):
                return result, decrement
    return state, decrement


def _robust_skill(data: _ScoreData, a: Floats, d: Floats, skill: Floats, spread: Floats) -> Floats:
    """Standard error of a skill whose scores vary otherwise than right and wrong do.

    It is v √(J + 1), v the posterior variance and J the sum of the squared scores.
    """
    z = skill[:, None] * a + d
    s = expit(z)
    p = data.floor + (1 - data.floor) * s
    residual = (data.right - p) * (s / p if data.floor else 1.0)
    if data.known is not None:
        residual *= data.known
    result: Floats = spread**2 * np.sqrt((residual**2) @ a**2 + 1.0)
    return result


def fit_by_modes(data: _ScoreData, a: Floats, d: Floats, robust: bool, progress: Progress = no_progress) -> Fit:
    """Items given skills and skills given items in turn, skills standardised after each; for very many items."""
    m, _ = data.shape
    modes = _ItemModes(data, a.copy(), d.copy(), _mean_skills(data)[0])
    steps, change = 0, math.inf
    while steps < MOST_STEPS:
        steps += 1
        modes.move_items(2 if steps > 1 else 4)
        before = modes.skill
        errors = modes.move_skills()
        centre = float(modes.skill.mean())
        scale = float(np.sqrt(np.mean((modes.skill - centre) ** 2 + errors**2)))
        modes.skill = (modes.skill - centre) / scale
        errors /= scale
        modes.d += modes.a * centre
        modes.a *= scale
        change = float(np.abs((modes.skill - before) / errors).max())
        if change < 0.01:
            break
        progress("fitting items", steps / (steps + 5))
    variance = modes.move_items(2)
    a, d, skill = modes.a, modes.d, modes.skill
    # The skills' own mean and spread are those of a sample of M: location and scale vary by 1/M and 1/(2M).
    slope_error = np.sqrt(variance[0] + a**2 / (2 * m))
    intercept_error = np.sqrt(variance[1] + a**2 / m)
    log_likelihood = modes.log_posterior() + float(np.log(errors).sum())
    if robust:
        errors = _robust_skill(data, a, d, skill, errors)
    return Fit(a, slope_error, d, intercept_error, skill, errors, log_likelihood, change < 0.05)


class _ItemModes:
    """Slopes, intercepts and skills, each moved by Fisher scoring while the others stay.

    A few hundred items at a time, in single precision: the passes over the scores are nearly all of the time, and
    blocks that fit into the cache are several times as fast as the whole matrix.
    """

    def __init__(self, data: _ScoreData, a: Floats, d: Floats, skill: Floats) -> None:
        self.a, self.d, self.skill = a, d, skill
        self._floor, self._shared, self._priors = data.floor, data.shared_slope, data.priors
        self._right = np.ascontiguousarray(data.right.T, dtype=np.float32)
        self._known = None if data.known is None else np.ascontiguousarray(data.known.T, dtype=np.float32)
        self._blocks = [slice(first, first + _BLOCK) for first in range(0, len(a), _BLOCK)]

    def _curves(self, a: Floats, d: Floats) -> NDArray[np.float32]:
        """σ(aθ + d) of a block of items, (B, M)."""
        s = np.multiply.outer(-a.astype(np.float32), self.skill.astype(np.float32))
        s -= d.astype(np.float32)[:, None]
        with np.errstate(over="ignore"):
            np.exp(s, out=s)
        s += 1
        return np.asarray(np.reciprocal(s, out=s))

    def _residuals(self, columns: slice, a: Floats, d: Floats) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Residuals and weights of a block of items, (B, M): derivative of log P, and its expected curvature."""
        s = self._curves(a, d)
        weight = s - s * s
        if self._floor:
            p = self._floor + (1 - self._floor) * s
            s /= p
            weight *= (1 - self._floor) * s
            residual = s * (self._right[columns] - p)
        else:
            residual = np.subtract(self._right[columns], s, out=s)
        if self._known is not None:
            residual *= self._known[columns]
            weight *= self._known[columns]
        return residual, weight

    def move_items(self, moves: int) -> Floats:
        """Move slopes and intercepts; returns their variances given the skills, (2, N)."""
        prior = self._priors
        by_slope, by_intercept = prior.slope_spread**-2, prior.intercept_spread**-2
        powers = np.stack([self.skill**power for power in range(3)], axis=1).astype(np.float32)
        variance = np.empty((2, len(self.a)))
        moved = information = 0.0
        for columns in self._blocks:
            a, d = self.a[columns].copy(), self.d[columns].copy()
            for _ in range(moves):
                residual, weight = self._residuals(columns, a, d)
                gd, ga = (residual @ powers[:, :2]).astype(np.float64).T
                dd, ad, aa = (weight @ powers).astype(np.float64).T
                ga += by_slope * (prior.slope_mean - a)
                gd -= by_intercept * d
                aa, dd = aa + by_slope, dd + by_intercept
                if self._shared:
                    step = np.stack([np.zeros_like(ga), gd / dd])
                else:
                    step = np.stack([dd * ga - ad * gd, aa * gd - ad * ga]) / (aa * dd - ad * ad)
                step *= np.minimum(1.0, 1.5 / np.maximum(np.abs(step).max(axis=0), 1e-300))
                a, d = a + step[0], d + step[1]
            self.a[columns], self.d[columns] = a, d
            if self._shared:
                moved += float((ga - ad * gd / dd).sum())
                information += float((aa - ad * ad / dd).sum())
                variance[1, columns] = 1 / dd
            else:
                variance[:, columns] = np.stack([dd, aa]) / (aa * dd - ad * ad)
        if self._shared:
            self.a[:] = max(float(self.a.mean()) + moved / information, 0.02)
            variance[0] = 1 / information
        return variance

    def move_skills(self) -> Floats:
        """Move the skills twice; returns their standard errors given the items, (M,)."""
        for _ in range(2):
            gradient, information = -self.skill, np.ones(len(self.skill))
            for columns in self._blocks:
                a = self.a[columns]
                residual, weight = self._residuals(columns, a, self.d[columns])
                gradient += a.astype(np.float32) @ residual
                information += (a * a).astype(np.float32) @ weight
            self.skill = self.skill + np.clip(gradient / information, -1.0, 1.0)
        return np.asarray(1 / np.sqrt(information))

    def log_posterior(self) -> float:
        """Σ log P of all scores and of the skills' prior, up to its constant."""
        value = -0.5 * float((self.skill**2).sum())
        for columns in self._blocks:
            p = self._floor + (1 - self._floor) * self._curves(self.a[columns], self.d[columns])
            p = np.clip(p, 1e-30, 1 - 1e-7)
            wrong = 1 - self._right[columns] if self._known is None else self._known[columns] - self._right[columns]
            value += float((self._right[columns] * np.log(p) + wrong * np.log1p(-p)).sum(dtype=np.float64))
        return value
