"""Bhattacharyya's bounds of the Bayes error, from one Gaussian fitted per class (QDA)."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from scipy.special import logsumexp, ndtri

from hardpan import arguments
from hardpan.bayes.floors.error_estimates import Floats, Labels, Moving, compare_with_half, held_out_error
from hardpan.bayes.floors.gaussian_fit import SharedGaussian, fit_shared, own_decisions_p_value
from hardpan.bayes.floors.inputs import FloorInputs, half_with_all_classes
from hardpan.bayes.floors.verdict import HELD_OUT, AssumptionTest, Entry
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record

MOST_WORK = 2e11  # pairs of classes × features³: about half a minute
MOST_PAIRS = 500_000  # ten seconds of pairs, however few the features
_ROWS_AT_ONCE = 2048


@record
class BhattacharyyaBounds:
    """Bhattacharyya's bounds of the Bayes error of fitted Gaussian classes.

    Attributes:
        lower: the lower end.
        upper: the upper end.
        classifier: held-out error of the fitted model's own decisions, or None without a test set.
    """

    lower: Estimate
    upper: Estimate
    classifier: Estimate | None


@dataclass(frozen=True, slots=True, eq=False)
class _ClassGaussians:
    """Gaussian classes: prior, mean, Cholesky factor, covariance, and the weight of the class's own covariance."""

    shared: SharedGaussian
    covs: list[Floats]
    factors: list[Floats]
    own_weight: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """For every pair of classes: which, log of the overlap ∫√(p_i p_j), and logs of the pair's two bounds."""

    i: Labels
    j: Labels
    log_overlap: Floats
    log_lower: Floats
    log_upper: Floats


def bhattacharyya(
    x_train: ArrayLike,
    y_train: ArrayLike,
    *,
    x_test: ArrayLike | None = None,
    y_test: ArrayLike | None = None,
    confidence: float = 0.95,
) -> BhattacharyyaBounds:
    """Bound the Bayes error by the overlaps of Gaussians fitted to the classes.

    With ρ_ij = ∫√(p_i p_j), the error that a pair of classes adds lies between
    l_ij = ½ (π_i + π_j − √((π_i + π_j)² − 4 π_i π_j ρ_ij²)) and u_ij = √(π_i π_j) ρ_ij. Over K classes
    max(max l_ij, (2/K) Σ_{i<j} l_ij) ≤ E ≤ Σ_{i<j} u_ij, because Σ_k q_k − max_k q_k lies between 2/K and 1 times
    Σ_{i<j} min(q_i, q_j). Covariances are (n_k S_k + d S)/(n_k + d): the class's own, shrunk towards the shared
    one of :func:`hardpan.bayes.floors.gaussian_fit.fit_shared`. Standard errors carry those of the class means and
    covariances over (delta method); they say nothing of how well Gaussians fit.

    Args:
        x_train: (n, ...) features or images.
        y_train: (n,) class numbers.
        x_test: (m, ...) to judge the fitted model's own decisions on, with ``y_test``.

    Source: Kailath, "The divergence and Bhattacharyya distance measures in signal selection" (1967); pairs as in
    Garber and Djouadi, "Bounds on the Bayes classification error based on pairwise risk functions" (1988).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 2, 4000)
        >>> found = bhattacharyya(rng.normal(2.0 * y, 1.0)[:, None], y)     # Bayes error 0.159
        >>> round(found.lower.value, 2), round(found.upper.value, 2)
        (0.09, 0.29)
    """
    rows = arguments.features("x_train", x_train)
    labels = arguments.labels("y_train", y_train, len(rows))
    arguments.class_count(None, labels)
    model = _fit_classes(rows, labels)
    pairs = _overlaps(model)
    weights = _slopes(model, pairs)
    spreads = _standard_errors(model, pairs, weights, rows, labels)
    k, n = len(model.covs), len(rows)
    whole, largest = float(logsumexp(pairs.log_lower)) + np.log(2 / k), float(pairs.log_lower.max())
    most = np.log1p(-float(model.shared.priors.max()))
    logs = (max(whole, largest), min(float(logsumexp(pairs.log_upper)), most))
    names = ("Bhattacharyya lower bound", "Bhattacharyya upper bound")
    ends = []
    for name, log, spread in zip(names, logs, spreads, strict=True):
        value = float(np.exp(log))
        ends.append(
            _bound_from_log(
                f"{name}, one Gaussian per class", log, min(spread / value, 1.0) if value else 1.0, n, confidence
            )
        )
    classifier = None
    if x_test is not None and y_test is not None:
        test = arguments.features("x_test", x_test)
        truth = arguments.labels("y_test", y_test, len(test))
        method = f"decisions of one Gaussian per class, {n:,} training examples"
        wrong = int((_decide(model, test) != truth).sum())
        classifier = held_out_error(wrong, len(truth), method=method, confidence=confidence)
    return BhattacharyyaBounds(ends[0], ends[1], classifier)


def _bound_from_log(method: str, log: float, relative: float, n: int, confidence: float) -> Estimate:
    """A bound from its logarithm and relative standard error; its interval is normal in the logarithm."""
    value = float(np.exp(log))
    reach = float(ndtri(0.5 + confidence / 2)) * relative
    low, high = float(np.exp(log - reach)), min(1.0, float(np.exp(log + reach)))
    return Estimate(value, relative * value, low, high, confidence, method, n, log10=log / float(np.log(10)))


def _fit_classes(rows: NDArray[Any], labels: Labels) -> _ClassGaussians:
    classes = len(np.unique(labels))
    d = min(rows.shape[1], len(rows))
    pairs = classes * (classes - 1) / 2
    if pairs > MOST_PAIRS:
        raise InputError(
            f"must be smaller: {classes:,} classes make {pairs:,.0f} pairs; at most {MOST_PAIRS:,} are compared",
            argument="n_classes",
        )
    if pairs * d**3 > MOST_WORK:
        raise InputError(
            f"must be fewer: {classes:,} classes of {rows.shape[1]:,} are too many for one covariance each; "
            "give those of an encoder, for example",
            argument="features",
        )
    shared = fit_shared(rows, labels)
    d = shared.means.shape[1]
    covs, factors, weights = [], [], np.empty(classes)
    for number, z in _by_class(shared, rows, labels):
        centred = z - shared.means[number]
        weights[number] = len(z) / (len(z) + d)
        own = centred.T @ centred / len(z)
        covs.append(weights[number] * own + (1 - weights[number]) * shared.cov)
        factors.append(linalg.cholesky(covs[-1], lower=True))
    return _ClassGaussians(shared, covs, factors, weights)


def _by_class(shared: SharedGaussian, rows: NDArray[Any], labels: Labels) -> Iterator[tuple[int, Floats]]:
    for number, value in enumerate(shared.classes):
        yield number, shared.coordinates(rows[labels == value])


def _overlaps(model: _ClassGaussians) -> _Pairs:
    k = len(model.covs)
    i, j = np.triu_indices(k, 1)
    half_dets = np.array([np.log(np.diag(factor)).sum() for factor in model.factors])
    log = np.empty(len(i))
    for pair, (a, b) in enumerate(zip(i, j, strict=True)):
        factor = linalg.cholesky((model.covs[a] + model.covs[b]) / 2, lower=True)
        apart = linalg.solve_triangular(factor, model.shared.means[a] - model.shared.means[b], lower=True)
        det = np.log(np.diag(factor)).sum()
        log[pair] = -(apart @ apart / 8 + det - (half_dets[a] + half_dets[b]) / 2)
    priors = model.shared.priors
    both, product = priors[i] + priors[j], priors[i] * priors[j]
    root = np.sqrt(np.maximum(both**2 - 4 * product * np.exp(2 * log), 0.0))
    lower = np.log(2 * product) + 2 * log - np.log(both + root)
    return _Pairs(i, j, log, lower, np.log(product) / 2 + log)


def _slopes(model: _ClassGaussians, pairs: _Pairs) -> tuple[Floats, Floats]:
    """Derivatives of the lower and the upper bound in each pair's distance −log ρ."""
    priors, k = model.shared.priors, len(model.covs)
    both, product = priors[pairs.i] + priors[pairs.j], priors[pairs.i] * priors[pairs.j]
    squared = np.exp(2 * pairs.log_overlap)
    root = np.sqrt(np.maximum(both**2 - 4 * product * squared, 1e-6 * both**2))
    lower = -2 * product * squared / root
    if pairs.log_lower.max() > logsumexp(pairs.log_lower) + np.log(2 / k):
        lower = np.where(np.arange(len(lower)) == np.argmax(pairs.log_lower), lower, 0.0)
    else:
        lower = 2 / k * lower
    return lower, -np.exp(pairs.log_upper)


def _standard_errors(
    model: _ClassGaussians, pairs: _Pairs, weights: tuple[Floats, Floats], rows: NDArray[Any], labels: Labels
) -> tuple[float, float]:
    """Standard errors of both bounds from the influence of every example on its class's mean and covariance."""
    means, (k, d) = model.shared.means, model.shared.means.shape
    linear, quadratic = np.zeros((2, k, d)), np.zeros((2, k, d, d))
    inverses = [linalg.cho_solve((factor, True), np.eye(d)) for factor in model.factors]
    for pair, (a, b) in enumerate(zip(pairs.i, pairs.j, strict=True)):
        if not weights[0][pair] and not weights[1][pair]:
            continue
        middle = linalg.inv((model.covs[a] + model.covs[b]) / 2)
        towards = middle @ (means[a] - means[b])
        common = middle / 4 - np.outer(towards, towards) / 16
        for end in (0, 1):
            weight = weights[end][pair]
            linear[end, a] += weight * towards / 4
            linear[end, b] -= weight * towards / 4
            quadratic[end, a] += weight * (common - inverses[a] / 4)
            quadratic[end, b] += weight * (common - inverses[b] / 4)
    variances = np.zeros(2)
    for number, z in _by_class(model.shared, rows, labels):
        centred = z - means[number]
        for end in (0, 1):
            bent = np.einsum("ij,ij->i", centred @ quadratic[end, number], centred)
            influence = centred @ linear[end, number] + model.own_weight[number] * bent
            variances[end] += influence.var() / len(z)
    lower, upper = np.sqrt(variances)
    return float(lower), float(upper)


def qda_decisions(x_train: ArrayLike, y_train: ArrayLike, x_test: ArrayLike) -> Labels:
    """Classes (m,) that one Gaussian per class, as in :func:`bhattacharyya`, decides on (QDA).

    Example:
        >>> x = np.array([[-2.0], [-1.0], [0.0], [5.0], [6.0], [7.0]])
        >>> qda_decisions(x, [0, 0, 0, 1, 1, 1], [[-1.5], [6.5]]).tolist()
        [0, 1]
    """
    rows = arguments.features("x_train", x_train)
    return _decide(
        _fit_classes(rows, arguments.labels("y_train", y_train, len(rows))), arguments.features("x_test", x_test)
    )


def _decide(model: _ClassGaussians, test: NDArray[Any]) -> Labels:
    decided = np.empty(len(test), dtype=np.int64)
    constants = [
        np.log(prior) - np.log(np.diag(factor)).sum()
        for prior, factor in zip(model.shared.priors, model.factors, strict=True)
    ]
    for start in range(0, len(test), _ROWS_AT_ONCE):
        z = model.shared.coordinates(test[start : start + _ROWS_AT_ONCE])
        scores = np.empty((len(z), len(constants)))
        for number, factor in enumerate(model.factors):
            white = linalg.solve_triangular(factor, (z - model.shared.means[number]).T, lower=True)
            scores[:, number] = constants[number] - 0.5 * np.einsum("ij,ij->j", white, white)
        decided[start : start + _ROWS_AT_ONCE] = model.shared.classes[np.argmax(scores, axis=1)]
    return decided


def bhattacharyya_entries(inputs: FloorInputs, assumption: str, confidence: float, seed: int) -> Iterator[Entry]:
    """Bhattacharyya's bounds, one Gaussian per class, and that model's classifier (QDA)."""
    x, y, x_test, y_test = inputs.train_and_test()
    result = bhattacharyya(x, y, x_test=x_test, y_test=y_test, confidence=confidence)
    assert result.classifier is not None
    inputs.decisions["QDA"] = functools.partial(qda_decisions, x, y, x_test)
    made, most = result.classifier, result.upper
    # Under the assumption the errors made are at least E and E at most the upper bound: only an excess counts.
    p_value = own_decisions_p_value(most, made) if made.value > most.value else 1.0
    check = AssumptionTest(p_value, most.value, made.value)
    ends: tuple[Moving | None, Moving | None] = (None, None)
    rows = half_with_all_classes(y, seed)
    if rows is not None:
        half = bhattacharyya(x[rows], y[rows], confidence=confidence)
        ends = compare_with_half(half.lower, result.lower), compare_with_half(half.upper, result.upper)
    yield Entry("Bhattacharyya lower bound", "lower", result.lower, assumption, check=check, moving=ends[0])
    yield Entry("Bhattacharyya upper bound", "upper", result.upper, assumption, check=check, moving=ends[1])
    yield Entry("QDA", "classifier", made, HELD_OUT, "QDA")
