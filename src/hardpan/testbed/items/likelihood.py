"""The marginal likelihood of a matrix of right and wrong, with its gradient, as products of matrices.

P(model j right on example i) = Φ(a_i (s_j − τ_i)). Skills s_j are parameters; difficulty τ_i and log a_i of the
examples are drawn from a normal distribution and integrated out. There are many more examples than models, so it
is the examples that must not each cost a parameter: estimating all of them beside the skills would stretch these
by about M/(M − 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from hardpan.testbed.items.quadrature import FloatArray, Nodes, difficulty_nodes, probit_information, slope_nodes

MISSING = 2
_BLOCK_CELLS = 4_000_000
_DOUBLE_CELLS = 500_000_000
_SORTED_BLOCK = 1024
_MOST_NODES = 5000
_NEGLIGIBLE = 20.0  # e⁻²⁰ of the largest weight
VAGUE = 10.0
SPREAD_LIMITS = (0.02, 30.0)
SLOPE_LIMITS = (0.05, 1.5)


@dataclass(frozen=True, slots=True, eq=False)
class Patterns:
    """The different columns of a matrix of right (1), wrong (0) and missing (2), and how often each occurs.

    Attributes:
        answers: (U, M) one row a pattern.
        counts: (U,) examples with this pattern.
        inverse: (N,) the pattern of each example.
    """

    answers: NDArray[np.uint8]
    counts: FloatArray
    inverse: NDArray[np.intp]
    missing: bool

    @classmethod
    def of(cls, answers: NDArray[np.uint8]) -> Patterns:
        """Collapse the equal rows of an (N, M) matrix."""
        answers = np.ascontiguousarray(answers)
        missing = bool((answers == MISSING).any())
        packed = answers if missing else np.packbits(answers, axis=1)
        keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
        _, first, inverse, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        found = answers[first]
        order = np.argsort((found == 1).sum(axis=1), kind="stable")  # neighbours have posteriors in the same place
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return cls(found[order], counts[order].astype(np.float64), place[inverse], missing)

    def some(self, limit: int, seed: int) -> Patterns:
        """Give a random part of the patterns, weighted as they are, to begin a fit with."""
        if len(self.counts) <= limit:
            return self
        rows = np.sort(np.random.default_rng(seed).choice(len(self.counts), limit, replace=False))
        return Patterns(self.answers[rows], self.counts[rows], np.arange(limit), self.missing)


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """Skills (M,) and the distribution of the examples; ``slope_spread`` is 0 where all discriminations are 1."""

    skills: FloatArray
    spread: float
    slope_spread: float = 0.0
    tilt: float = 0.0

    @property
    def sloped(self) -> bool:
        """Whether examples differ in discrimination."""
        return self.slope_spread > 0.0

    def vector(self) -> FloatArray:
        """All parameters in one array; spreads as logarithms."""
        tail = [np.log(self.spread)] + ([np.log(self.slope_spread), self.tilt] if self.sloped else [])
        return np.concatenate([self.skills, tail])

    def replaced(self, vector: FloatArray) -> Parameters:
        """Undo :meth:`vector`."""
        m = len(self.skills)
        if not self.sloped:
            return Parameters(vector[:m], float(np.exp(vector[m])))
        return Parameters(vector[:m], float(np.exp(vector[m])), float(np.exp(vector[m + 1])), float(vector[m + 2]))

    def limits(self) -> tuple[FloatArray, FloatArray]:
        """Least and largest values of :meth:`vector` that a fit may reach."""
        ends = [(-60.0, 60.0)] * len(self.skills) + [(np.log(SPREAD_LIMITS[0]), np.log(SPREAD_LIMITS[1]))]
        if self.sloped:
            ends += [(np.log(SLOPE_LIMITS[0]), np.log(SLOPE_LIMITS[1])), (-20.0, 20.0)]
        low, high = np.array(ends).T
        return low, high

    def nodes(self, step: float) -> Nodes:
        """Nodes of the quadrature for these parameters."""
        while self.sloped:
            found = slope_nodes(self.skills, self.spread, self.slope_spread, self.tilt, step=step)
            if len(found) <= _MOST_NODES or step > 2.0:
                return found
            step *= 1.25
        return difficulty_nodes(self.skills, self.spread, step=step)

    def log_prior(self, nodes: Nodes) -> FloatArray:
        """Logarithm of the probability of each node's cell, (Q,)."""
        z = (nodes.difficulty - self.tilt * nodes.log_slope) / self.spread
        total = nodes.log_width - z * z / 2 - np.log(self.spread) - np.log(2 * np.pi) / 2
        if self.sloped:
            z = nodes.log_slope / self.slope_spread
            total = total - z * z / 2 - np.log(self.slope_spread) - np.log(2 * np.pi) / 2
        return np.asarray(total)

    def prior_gradient(self, nodes: Nodes, mass: FloatArray) -> FloatArray:
        """Derivative of Σ mass · log prior by log spread, log slope spread and tilt."""
        z = (nodes.difficulty - self.tilt * nodes.log_slope) / self.spread
        parts = [mass @ (z * z - 1)]
        if self.sloped:
            parts.append(mass @ ((nodes.log_slope / self.slope_spread) ** 2 - 1))
            parts.append(mass @ (z * nodes.log_slope) / self.spread)
        return np.array(parts)


class Tables:
    """What all blocks of patterns share for given parameters and nodes: log Φ and its derivatives, each (Q, M)."""

    def __init__(self, parameters: Parameters, nodes: Nodes, kind: type[np.floating[Any]]) -> None:
        self.slope = np.exp(nodes.log_slope)[:, None]
        x = self.slope * (parameters.skills - nodes.difficulty[:, None])
        log_right, log_wrong = log_ndtr(x), log_ndtr(-x)
        log_density = -x * x / 2 - np.log(2 * np.pi) / 2
        self.pull_right = self.slope * np.exp(log_density - log_right)
        self.pull_wrong = self.slope * np.exp(log_density - log_wrong)
        self.order = (parameters.skills - parameters.skills.mean()).astype(kind)
        self.log_right = log_right.T.astype(kind)
        self.log_wrong = log_wrong.T.astype(kind)
        self.log_odds = (log_right - log_wrong).T.astype(kind)
        self.all_wrong = (log_wrong.sum(axis=1) + parameters.log_prior(nodes)).astype(kind)
        self.log_prior = parameters.log_prior(nodes).astype(kind)

    def joint(
        self, right: NDArray[Any], wrong: NDArray[Any], nodes: slice | NDArray[np.intp], missing: bool
    ) -> NDArray[Any]:
        """Logarithm of prior times likelihood, (B, ·); complete answers need one product instead of two."""
        if missing:
            product = right @ self.log_right[:, nodes] + wrong @ self.log_wrong[:, nodes]
            return np.asarray(product + self.log_prior[nodes])
        return np.asarray(right @ self.log_odds[:, nodes] + self.all_wrong[nodes])


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some patterns with the posterior over the nodes that matter to them: answers (B, M), weights (B, ·)."""

    rows: slice
    nodes: slice | NDArray[np.intp]
    right: NDArray[Any]
    wrong: NDArray[Any]
    weights: NDArray[Any]
    log_likelihood: FloatArray


def precision(patterns: Patterns, nodes: Nodes) -> type[np.floating[Any]]:
    """Small problems are computed in double precision, large ones in single."""
    return np.float64 if patterns.answers.size * len(nodes) <= _DOUBLE_CELLS else np.float32


def blocks(patterns: Patterns, tables: Tables) -> Iterator[Block]:
    """Go through the patterns a few thousand at a time: the posterior over nodes is never held whole."""
    patterns_count, models = patterns.answers.shape
    kind = tables.log_prior.dtype
    single = kind == np.float32
    size = _SORTED_BLOCK if single else max(64, _BLOCK_CELLS // max(len(tables.log_prior), models))
    for start in range(0, patterns_count, size):
        rows = slice(start, min(start + size, patterns_count))
        answers = patterns.answers[rows]
        right = (answers == 1).astype(kind)
        wrong = (answers == 0).astype(kind) if patterns.missing else 1 - right
        nodes: slice | NDArray[np.intp] = slice(None)
        if single:
            nodes = _nodes_that_matter(right, wrong, tables, patterns.missing)
        joint = tables.joint(right, wrong, nodes, patterns.missing)
        top = joint.max(axis=1, keepdims=True)
        weights = np.exp(joint - top)
        total = weights.sum(axis=1, keepdims=True)
        weights /= total
        yield Block(rows, nodes, right, wrong, weights, (top + np.log(total)).ravel().astype(np.float64))


def _nodes_that_matter(right: NDArray[Any], wrong: NDArray[Any], tables: Tables, missing: bool) -> NDArray[np.intp]:
    """Nodes that hold any of the posterior of a block of similar patterns, judged by some of them.

    Those judged are spread over the block, with the ones in it that follow the models' order least and most.
    """
    follows = right @ tables.order
    extreme = np.argsort(follows, kind="stable")
    chosen = np.unique(
        np.concatenate([np.linspace(0, len(right) - 1, 48).astype(np.intp), extreme[:12], extreme[-12:]])
    )
    joint = tables.joint(right[chosen], wrong[chosen], slice(None), missing)
    return np.flatnonzero((joint - joint.max(axis=1, keepdims=True)).max(axis=0) > -_NEGLIGIBLE)


def value_and_gradient(patterns: Patterns, parameters: Parameters, nodes: Nodes) -> tuple[float, FloatArray]:
    """Marginal log-likelihood and its gradient; a vague N(0, 10²) keeps the skill of a faultless model finite."""
    models, count = len(parameters.skills), len(nodes)
    value, mass = 0.0, np.zeros(count)
    right = np.zeros((count, models))
    wrong = np.zeros((count, models))
    tables = Tables(parameters, nodes, precision(patterns, nodes))
    for block in blocks(patterns, tables):
        counts = patterns.counts[block.rows]
        value += float(counts @ block.log_likelihood)
        weighted = block.weights * counts[:, None].astype(block.weights.dtype)
        mass[block.nodes] += weighted.sum(axis=0, dtype=np.float64)
        right[block.nodes] += weighted.T @ block.right
        if patterns.missing:
            wrong[block.nodes] += weighted.T @ block.wrong
    if not patterns.missing:
        wrong = mass[:, None] - right
    by_skill = (right * tables.pull_right - wrong * tables.pull_wrong).sum(axis=0)
    value -= float((parameters.skills**2).sum()) / (2 * VAGUE**2)
    by_skill -= parameters.skills / VAGUE**2
    return value, np.concatenate([by_skill, parameters.prior_gradient(nodes, mass)])


def score_products(patterns: Patterns, parameters: Parameters, nodes: Nodes) -> FloatArray:
    """Sum over examples of the outer product of each one's score: an estimate of the information, (P, P)."""
    size = len(parameters.vector())
    total = np.zeros((size, size))
    z = (nodes.difficulty - parameters.tilt * nodes.log_slope) / parameters.spread
    columns = [z * z - 1]
    if parameters.sloped:
        columns += [(nodes.log_slope / parameters.slope_spread) ** 2 - 1, z * nodes.log_slope / parameters.spread]
    prior = np.stack(columns, axis=1)
    tables = Tables(parameters, nodes, precision(patterns, nodes))
    for block in blocks(patterns, tables):
        kind = block.weights.dtype
        scores = block.right * (block.weights @ tables.pull_right[block.nodes].astype(kind))
        scores -= block.wrong * (block.weights @ tables.pull_wrong[block.nodes].astype(kind))
        scores = np.concatenate([scores, block.weights @ prior[block.nodes].astype(kind)], axis=1)
        total += (scores * patterns.counts[block.rows, None].astype(kind)).T @ scores
    total[np.diag_indices(len(parameters.skills))] += 1 / VAGUE**2
    return total


def expected_information(patterns: Patterns, parameters: Parameters, nodes: Nodes) -> FloatArray:
    """Information about each skill and prior parameter if the examples were known, (P,)."""
    mass = np.zeros(len(nodes))
    tables = Tables(parameters, nodes, precision(patterns, nodes))
    for block in blocks(patterns, tables):
        mass[block.nodes] += patterns.counts[block.rows] @ block.weights.astype(np.float64)
    x = tables.slope * (parameters.skills - nodes.difficulty[:, None])
    by_skill = mass @ (tables.slope**2 * probit_information(x)) + 1 / VAGUE**2
    return np.concatenate([by_skill, np.full(len(parameters.vector()) - len(by_skill), 2.0 * mass.sum())])


def posterior(patterns: Patterns, parameters: Parameters, nodes: Nodes) -> tuple[FloatArray, FloatArray]:
    """Posterior means and standard deviations of (difficulty, log discrimination), each (U, 2)."""
    values = np.stack([nodes.difficulty, nodes.log_slope], axis=1)
    mean = np.empty((len(patterns.counts), 2))
    deviation = np.empty_like(mean)
    tables = Tables(parameters, nodes, precision(patterns, nodes))
    for block in blocks(patterns, tables):
        weights = block.weights.astype(np.float64)
        mean[block.rows] = weights @ values[block.nodes]
        second = weights @ values[block.nodes] ** 2
        deviation[block.rows] = np.sqrt(np.maximum(second - mean[block.rows] ** 2, 0.0))
    return mean, deviation
