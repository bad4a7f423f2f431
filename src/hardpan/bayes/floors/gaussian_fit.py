"""Gaussian classes with one shrunk covariance: the fit, its Bayes error, and what the error of the fit does to it.

Fitted means lie further apart than the true ones, and a fitted covariance is too narrow where it matters, so the
Bayes error of a fitted model is too low, and its own decisions err more often than it predicts even where the
classes are Gaussian. Fits to data of such a model show how much of either is due to the fit: class means, priors
and covariance are drawn from the sampling distributions that n examples give them (normal, multinomial, Wishart),
so that no examples need to be drawn.

The planted means are the fitted ones times a factor c, chosen so that the refits predict on average what the fit
predicts: indirect inference (Gouriéroux, Monfort and Renault 1993) in one parameter. The Bayes error of that
planted model is then the corrected estimate.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.special import betainc, ndtri, stdtrit

from hardpan.bayes.floors.error_estimates import Floats, compare_with_half
from hardpan.bayes.floors.inputs import FloorInputs, half_with_all_classes
from hardpan.bayes.floors.verdict import AssumptionTest, Entry, classifier_entry
from hardpan.bayes.gaussians.importance import log_error_at
from hardpan.bayes.gaussians.methods import gaussian
from hardpan.bayes.gaussians.shared import shared_classes
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record

MINIMAL_SHRINKAGE = 1e-6
_ROWS_AT_ONCE = 2048
DRAWS = 24  # refits of the planted model that the interval rests on
SEARCH_DRAWS = 6  # refits that choose the factor c, the same ones at every c
SEARCH_STEPS = 8
LONGEST_STEP = 0.5  # of the logarithm of c
LEAST_LOG = 4.0  # c lies in e^-4..e^4
NARROWER = 0.95  # a second factor, times c, to see how the numbers move with it
DECIDED = 10_000  # draws that decisions are tried on
QUANTILES = 101  # of the distribution of errors that decisions make
POINTS = 2048  # at which integrals are taken, the same for all refits
NEAR = 0.02  # how near, relatively, what refits predict on average comes to what the fit predicts
REFIT_ROWS = 512  # of a covariance; beyond this, or REFIT_CLASSES classes, refits take more than a few seconds
REFIT_CLASSES = 200
MOST_CLASSES = 2000
MOST_COVARIANCE_ROWS = 8192
_TINY = 1e-300


@record(eq=False)
class SharedGaussian:
    """Classes as Gaussians with one covariance, in the coordinates where they differ.

    Attributes:
        means: (K, r) class means.
        cov: (r, r) the shrunk covariance inside each class.
        priors: (K,) shares of the classes in the training examples.
        classes: (K,) the class numbers that these rows stand for: those with a training example.
        centre: (d,) the point of the feature space that has coordinates 0.
        basis: (d, r) orthonormal directions of the coordinates, or None where they are the features themselves.
        shrinkage: weight of the spherical target in the covariance, 0..1.
        n: how many training examples it rests on.
    """

    means: NDArray[np.float64]
    cov: NDArray[np.float64]
    priors: NDArray[np.float64]
    classes: NDArray[np.int64]
    centre: NDArray[np.float64]
    basis: NDArray[np.float64] | None
    shrinkage: float
    n: int

    def coordinates(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Give examples (m, d) in the coordinates of the model, (m, r)."""
        centred: NDArray[np.float64] = np.asarray(x, dtype=np.float64) - self.centre
        return centred if self.basis is None else centred @ self.basis

    def decide(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """Give the most probable class of each example (m, d) under the model, shape (m,)."""
        weights = linalg.cho_solve(linalg.cho_factor(self.cov), self.means.T)
        offsets = np.log(self.priors) - 0.5 * np.einsum("kr,rk->k", self.means, weights)
        results = [np.argmax(self.coordinates(rows) @ weights + offsets, axis=1) for _, rows in _blocks(x)]
        classes: NDArray[np.int64] = self.classes[np.concatenate(results)]
        return classes


def fit_shared(x: NDArray[Any], labels: NDArray[np.int64]) -> SharedGaussian:
    """Fit class means, priors and one covariance, shrunk towards a multiple of the identity.

    The covariance inside the classes S = Σᵢ rᵢ rᵢᵀ / (n − K), with rᵢ example i minus its class mean, becomes
    (1 − s) S + s (tr S / d) I; Ledoit and Wolf's s minimises the expected squared distance from the truth.
    With more features than examples the model is fitted in the span of the examples: outside it all classes agree.

    Args:
        x: (n, d) features.
        labels: (n,) class numbers; classes without an example are left out.

    Source: Ledoit and Wolf, "A well-conditioned estimator for large-dimensional covariance matrices" (2004).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.integers(0, 2, 500)
        >>> x = rng.normal(size=(500, 3)) + 4 * labels[:, None]
        >>> model = fit_shared(x, labels)
        >>> model.means.shape, bool((model.decide(x) == labels).mean() > 0.99)
        ((2, 3), True)
    """
    classes, index, counts = np.unique(labels, return_inverse=True, return_counts=True)
    n, d = x.shape
    free = n - len(classes)
    if free < 1:
        raise InputError(
            f"must have some class twice for a covariance; got {n} examples of {len(classes)} classes",
            argument="labels",
        )
    means = _class_means(x, index, counts)
    centre = (counts / n) @ means
    basis, coordinates = _span(x - centre) if d > n else (None, x)
    if basis is not None:
        means = (means - centre) @ basis
        offset = np.zeros(means.shape[1])
    else:
        offset, means = centre, means - centre
    scatter, quartic = np.zeros((means.shape[1],) * 2), 0.0
    for start, rows in _blocks(coordinates):
        residuals = rows - offset - means[index[start : start + len(rows)]]
        scatter += residuals.T @ residuals
        quartic += float(np.sum(np.einsum("ij,ij->i", residuals, residuals) ** 2))
    cov = scatter / free
    size = float(np.trace(cov)) / d
    if not size > 0.0:
        raise InputError(
            "must vary inside the classes; all examples of each class are the same", argument="features"
        )
    shrinkage = max(MINIMAL_SHRINKAGE, ledoit_wolf_weight(cov, quartic * (n / free) ** 2, n, d))
    cov = (1 - shrinkage) * cov + shrinkage * size * np.eye(len(cov))
    return SharedGaussian(means, cov, counts / n, classes, centre, basis, shrinkage, n)


def ledoit_wolf_weight(cov: NDArray[np.float64], quartic: float, n: int, d: int) -> float:
    """Give Ledoit and Wolf's weight from the covariance and Σᵢ |rᵢ|⁴, without anything larger than ``cov``."""
    size, squares = float(np.trace(cov)) / d, float(np.sum(cov**2))
    noise = (quartic / n - squares) / (d * n)
    distance = squares / d - size**2
    return float(np.clip(noise / distance, 0.0, 1.0)) if distance > 0 else 1.0


def _class_means(x: NDArray[Any], index: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    sums = np.zeros((len(counts), x.shape[1]))
    for start, rows in _blocks(x):
        of = index[start : start + len(rows)]
        members = sparse.csr_array((np.ones(len(of)), (of, np.arange(len(of)))), shape=(len(counts), len(of)))
        sums += np.asarray(members @ rows)
    means: NDArray[np.float64] = sums / counts[:, None]
    return means


def _span(centred: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give an orthonormal basis (d, r) of the rows (n, d) and the rows in it (n, r), from the n × n Gram matrix."""
    values, vectors = linalg.eigh(centred @ centred.T)
    positive = values > values[-1] * len(values) * np.finfo(np.float64).eps
    if not positive.any():
        raise InputError("must vary; all training examples are the same", argument="features")
    lengths = np.sqrt(values[positive])
    basis, triangle = linalg.qr(centred.T @ (vectors[:, positive] / lengths), mode="economic")
    return basis, (vectors[:, positive] * lengths) @ triangle.T


def _blocks(x: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.float64]]]:
    for start in range(0, len(x), _ROWS_AT_ONCE):
        yield start, np.asarray(x[start : start + _ROWS_AT_ONCE], dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class FitError:
    """What a fit's own error does to its numbers.

    Attributes:
        error: the Bayes error, corrected, with an interval that covers the fit's error if the model is right.
        made: equally likely shares of errors that the fit's decisions make, if the model is right, (q,).
    """

    error: Estimate
    made: Floats

    def p_value(self, wrong: int, n: int) -> float:
        """Two-sided p-value of ``wrong`` errors in n test examples: binomial tails, averaged over ``made``."""
        tails = [binomial_tails(wrong, n, float(share)) for share in self.made]
        below, above = np.mean(tails, axis=0)
        return min(1.0, 2 * float(min(below, above)))


def binomial_tails(wrong: int, n: int, share: float) -> tuple[float, float]:
    """P(X ≤ wrong) and P(X ≥ wrong) for X binomial with n tries of that share.

    Example:
        >>> [round(p, 6) for p in binomial_tails(1, 2, 0.5)]
        [0.75, 0.75]
    """
    share = min(max(share, 0.0), 1.0)
    above = float(betainc(wrong, n - wrong + 1, share)) if wrong else 1.0
    below = 1.0 - float(betainc(wrong + 1, n - wrong, share)) if wrong < n else 1.0
    return below, above


def fit_error(
    model: SharedGaussian, predicted: Estimate, *, confidence: float = 0.95, seed: int = 0
) -> FitError | None:
    """Correct a fitted model's Bayes error for the error of the fit, and say what its decisions should make.

    Args:
        model: Gaussian classes with one covariance, as fitted.
        predicted: their Bayes error.
        confidence: of the interval.
        seed: same seed, same result.

    Returns:
        None where refits would take too long, or the predicted error is below the smallest number.

    Example:
        >>> from hardpan import bayes
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 2, 200)
        >>> x = rng.normal(size=(200, 40))
        >>> x[:, 0] += 2.0 * y                                         # Bayes error 0.159
        >>> model = fit_shared(x, y)
        >>> predicted = bayes.gaussian(model.means, model.cov, model.priors)
        >>> found = fit_error(model, predicted)
        >>> bool(predicted.value < found.error.value < found.made.mean())
        True
        >>> found.error.low < 0.159 < found.error.high
        True
    """
    if model.means.shape[1] > REFIT_ROWS or len(model.means) > REFIT_CLASSES or not predicted.value > _TINY:
        return None
    planted = _Planted(model, seed)
    target = math.log(predicted.value)
    factor = _matching(planted, target)
    at, near = (planted.scaled(scale) for scale in (factor, NARROWER * factor))
    refits = np.array([at.refit(b) for b in range(DRAWS)])
    step = np.mean([near.refit(b) for b in range(SEARCH_DRAWS)], axis=0) - refits[:SEARCH_DRAWS].mean(axis=0)
    truth, beside = at.log_error(), near.log_error()
    # How the truth and the decisions move with what the fit predicts, along c.
    slopes = ((beside - truth) / step[0], step[1] / step[0]) if abs(step[0]) > 1e-9 else (1.0, 1.0)
    # The factor was chosen on few refits: what is left of the difference, on all of them, is taken off here.
    said = refits[:, 0] - target
    truth -= slopes[0] * float(said.mean())
    spread = abs(slopes[0]) * float(said.std(ddof=1)) * math.sqrt(1 + 1 / DRAWS)
    reach = float(stdtrit(DRAWS - 1, 0.5 + confidence / 2)) * spread
    most = 1.0 - 1.0 / len(model.priors)
    error = Estimate(
        min(float(np.exp(truth)), most),
        float(np.exp(truth)) * spread,
        float(np.exp(truth - reach)),
        min(float(np.exp(truth + reach)), most),
        confidence=confidence,
        method=f"Bayes error of the model fitted on train, corrected for the error of the fit by {DRAWS} refits",
        n=model.n,
        seed=seed,
        notes=(f"As fitted it is {predicted.value:.3g}; the interval holds only if the classes are Gaussian.",),
        log10=truth / math.log(10),
    )
    expected = refits[:, 1] - slopes[1] * said
    likely = stdtrit(DRAWS - 1, (np.arange(QUANTILES) + 0.5) / QUANTILES) * math.sqrt(1 + 1 / DRAWS)
    made = np.minimum(np.exp(expected.mean() + expected.std(ddof=1) * likely), 1.0)
    return FitError(error, made)


def _matching(planted: _Planted, wanted: float) -> float:
    """The factor of the means at which refits predict, on average of the logarithm, the target: by secants."""

    def excess(place: float) -> float:
        scaled = planted.scaled(math.exp(place))
        return float(np.mean([scaled.refit_error(b) for b in range(SEARCH_DRAWS)])) - wanted

    before, here = 0.0, -0.1
    value_before, value = excess(before), excess(here)
    for _ in range(SEARCH_STEPS):
        if abs(value) < NEAR or abs(value - value_before) < 1e-9:
            break
        step = value * (here - before) / (value_before - value)
        before, value_before = here, value
        here = float(np.clip(here + np.clip(step, -LONGEST_STEP, LONGEST_STEP), -LEAST_LOG, LEAST_LOG))
        value = excess(here)
    return math.exp(here)


class _Planted:
    """Gaussian classes taken for the truth, and fits to n examples of them."""

    def __init__(self, model: SharedGaussian, seed: int, factor: float = 1.0, like: _Planted | None = None) -> None:
        self.model, self.seed, self.means = model, seed, factor * model.means
        self.root: Floats = linalg.cholesky(model.cov, lower=True) if like is None else like.root
        self.free = model.n - len(model.priors)
        if like is None:
            rng = np.random.default_rng([seed, 11])
            width = min(*model.means.shape)
            self.points = (rng.random((POINTS, 2)) * (1 - 1e-12) + 1e-13, rng.standard_normal((POINTS, width)))
        else:
            self.points = like.points

    def scaled(self, factor: float) -> _Planted:
        """The same with its means times a factor."""
        return _Planted(self.model, self.seed, factor, self)

    def log_error(self) -> float:
        """Logarithm of the Bayes error of the planted classes."""
        return self._log_error(self.means, self.model.cov, self.model.priors)

    def refit_error(self, number: int) -> float:
        """Logarithm of the Bayes error of one refit."""
        return self._log_error(*self._fitted(np.random.default_rng([self.seed, 12, number])))

    def refit(self, number: int) -> tuple[float, float]:
        """Logarithms of the Bayes error of one refit, and of the errors that its decisions make."""
        rng = np.random.default_rng([self.seed, 12, number])
        means, cov, priors = self._fitted(rng)
        weights = linalg.cho_solve(linalg.cho_factor(cov), means.T)
        offsets = np.log(priors) - 0.5 * np.einsum("kr,rk->k", means, weights)
        # Scores of an example of class k are normal: only as many numbers are drawn as there are scores.
        factor = linalg.qr(self.root.T @ weights, mode="r")[0][: len(priors)]
        wrong, n = 0.0, min(DECIDED, max(2000, 4_000_000 // len(priors)))
        for k, share in enumerate(self.model.priors):
            rows = max(1, round(n * share))
            scores = self.means[k] @ weights + offsets + rng.standard_normal((rows, len(factor))) @ factor
            wrong += share * float(np.mean(scores.argmax(axis=1) != k))
        return self._log_error(means, cov, priors), math.log(max(wrong, 0.1 / n))

    def _log_error(self, means: Floats, cov: Floats, priors: Floats) -> float:
        return max(log_error_at(shared_classes(means, cov, priors), *self.points), math.log(_TINY))

    def _fitted(self, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        """Means, covariance and priors of a fit to n examples, drawn from their sampling distributions."""
        model, (k, r) = self.model, self.means.shape
        counts = np.maximum(rng.multinomial(model.n, model.priors / model.priors.sum()), 1)
        means = self.means + rng.standard_normal((k, r)) @ self.root.T / np.sqrt(counts)[:, None]
        scatter = self.root @ _wishart_root(rng, r, self.free)
        cov = scatter @ scatter.T / self.free
        squares, size = float(np.sum(cov**2)), float(np.trace(cov))
        # Of Gaussian residuals the mean fourth power of the length is (tr Σ)² + 2 tr Σ².
        weight = ledoit_wolf_weight(cov, model.n * (size**2 + 2 * squares), model.n, len(model.centre))
        cov = (1 - weight) * cov + weight * size / len(model.centre) * np.eye(r)
        return means - (counts / counts.sum()) @ means, cov, counts / counts.sum()


def _wishart_root(rng: np.random.Generator, rows: int, free: int) -> Floats:
    """A with A Aᵀ ~ Wishart(free, I): Bartlett's triangle, or the normals themselves where they are fewer."""
    if free < rows:
        return rng.standard_normal((rows, free))
    triangle = np.tril(rng.standard_normal((rows, rows)), -1)
    triangle[np.diag_indices(rows)] = np.sqrt(rng.chisquare(free - np.arange(rows)))
    return triangle


def normal_mixture(value: float, stderr: float, points: int = 33) -> Floats:
    """Equally likely values of a number that is known with a normal error: its quantiles, cut to 0..1."""
    if not stderr > 0:
        return np.array([value])
    return np.clip(value + stderr * ndtri((np.arange(points) + 0.5) / points), 0.0, 1.0)


def gaussian_floor(
    model: SharedGaussian, *, confidence: float = 0.95, seed: int = 0
) -> tuple[Estimate, FitError | None]:
    """The Bayes error of fitted Gaussian classes: corrected for the error of the fit, or of the integral alone.

    Returns:
        The estimate, and the error of the fit, or None where refits would take too long: the estimate is then that
        of the fitted model itself, and its note says so.
    """
    exact = gaussian(model.means, model.cov, model.priors, seed=seed)
    corrected = fit_error(model, exact, confidence=confidence, seed=seed)
    if corrected is not None:
        return corrected.error, corrected
    method = f"Bayes error of the model fitted on train ({exact.method})"
    note = "The interval is that of the integral alone; it does not say how well the model fits these data."
    return dataclasses.replace(exact, method=method, notes=(*exact.notes, note)), None


def own_decisions_p_value(predicted: Estimate, made: Estimate) -> float:
    """Two-sided p-value that a model's own classifier errs as often as the model's Bayes error says.

    If the model were the data's distribution, the errors made on n test examples would be binomial with that
    proportion; the binomial tails are averaged over the standard error of the Bayes error. This tests the model as
    it is; to test a family of models, of which one was fitted, use :func:`fit_error`.

    Args:
        predicted: the model's Bayes error.
        made: held-out error of its decisions.

    Example:
        >>> exact = Estimate(0.008, 0.0, 0.008, 0.008)
        >>> own_decisions_p_value(exact, Estimate(0.109, 0.0, 0.1, 0.12, n=10_000)) < 1e-9
        True
    """
    wrong, n = round(made.value * made.n), made.n
    shares = normal_mixture(predicted.value, predicted.stderr)
    as_few, as_many = np.mean([binomial_tails(wrong, n, float(share)) for share in shares], axis=0)
    return min(1.0, 2 * float(min(as_many, as_few)))


def gaussian_entries(inputs: FloorInputs, assumption: str, confidence: float, seed: int) -> Iterator[Entry]:
    """The Bayes error of Gaussian classes with one shrunk covariance, and its classifier (LDA)."""
    x, y, x_test, y_test = inputs.train_and_test()
    n_classes, width = len(np.unique(y)), x.shape[1]
    if n_classes > MOST_CLASSES:
        raise InputError(f"computed for at most {MOST_CLASSES:,} classes; got {n_classes:,}")
    if min(width, len(x)) > MOST_COVARIANCE_ROWS:
        raise InputError(f"computed for at most {MOST_COVARIANCE_ROWS:,} features; got {width:,}")
    model = fit_shared(x, y)
    wrong, n = int((model.decide(x_test) != y_test).sum()), len(y_test)
    inputs.decisions["LDA"] = functools.partial(model.decide, x_test)
    method = f"LDA, {model.n:,} training examples, shrinkage {model.shrinkage:.2g}"
    made = classifier_entry("LDA", wrong, n, method, confidence)
    result, error = gaussian_floor(model, confidence=confidence, seed=seed)
    if error is None:
        check = AssumptionTest(own_decisions_p_value(result, made.estimate), result.value, made.estimate.value)
    else:
        check = AssumptionTest(error.p_value(wrong, n), float(error.made.mean()), made.estimate.value)
    rows, settled = half_with_all_classes(y, seed), None
    if rows is not None:
        settled = compare_with_half(gaussian_floor(fit_shared(x[rows], y[rows]), seed=seed)[0], result)
    assumption = assumption if error is not None else f"{assumption}-as-fitted"
    yield Entry("Gaussian model", "estimate", result, assumption, check=check, moving=settled)
    yield made
