"""A Gaussian model of labelled features with one shrunk covariance, fitted in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from hardpan.errors import InputError
from hardpan.files import record

MINIMAL_SHRINKAGE = 1e-6
_ROWS_AT_ONCE = 2048


@record
@dataclass(frozen=True, slots=True, eq=False)
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
        found = [np.argmax(self.coordinates(rows) @ weights + offsets, axis=1) for _, rows in _blocks(x)]
        classes: NDArray[np.int64] = self.classes[np.concatenate(found)]
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
            f"a covariance needs two training examples of some class; got {n} examples of {len(classes)} classes"
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
        raise InputError("features must vary inside the classes; all examples of each class are the same")
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
    kept = values > values[-1] * len(values) * np.finfo(np.float64).eps
    if not kept.any():
        raise InputError("features must vary; all training examples are the same")
    lengths = np.sqrt(values[kept])
    basis, triangle = linalg.qr(centred.T @ (vectors[:, kept] / lengths), mode="economic")
    return basis, (vectors[:, kept] * lengths) @ triangle.T


def _blocks(x: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.float64]]]:
    for start in range(0, len(x), _ROWS_AT_ONCE):
        yield start, np.asarray(x[start : start + _ROWS_AT_ONCE], dtype=np.float64)
