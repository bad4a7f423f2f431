"""Gaussian classes whose covariances differ: densities, and the Chernoff Gaussians that lie between two of them.

Between classes k and j, p_k^{1−s} p_j^s is a Gaussian up to a factor. In a basis that makes both covariances
diagonal it has, coordinate by coordinate, precision λ_k ((1−s) + s·a) with a = λ_j/λ_k, and

    log ∫ p_k^{1−s} p_j^s = ½ Σ [s log a − log((1−s) + s·a)] − ½ s(1−s) Σ δ² λ_k a / ((1−s) + s·a).

:class:`UnequalDiagonalClasses` has one such basis for all pairs, :class:`UnequalFullClasses` one for each pair.
Columns in which each class has one variance are taken together: the span of their means, and one squared radius
for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg
from scipy.special import gammaincinv

from hardpan import arguments
from hardpan.bayes.gaussians.shared_covariance import (
    Float,
    Index,
    check_means,
    check_priors,
    cholesky_of_covariance,
    covariance_of_shape,
    positive_variances,
    whitened_coordinates,
)

# Squares may be multiplied out, which is much quicker, while the parts that cancel stay below this: the log joints
# near a class then keep eight digits after the point.
_EXPANDABLE = 1e7


@dataclass(frozen=True, slots=True, eq=False)
class UnequalDiagonalClasses:
    """Classes N(means[k], diag(1 / precisions[k])), with further dimensions that differ in scale only.

    Attributes:
        means: (K, d).
        precisions: (K, d).
        log_priors: (K,).
        radii: (g,) sizes of groups of further dimensions; a draw holds their g squared radii as its last columns.
        radial_precisions: (K, g) precision of every dimension in a group.
    """

    means: Float
    precisions: Float
    log_priors: Float
    radii: Float
    radial_precisions: Float

    @property
    def n_normal(self) -> int:
        """Normals that one draw needs."""
        return int(self.means.shape[1])

    @property
    def n_uniform(self) -> int:
        """Uniforms that one draw needs."""
        return len(self.radii)

    def ratios_gaps_counts(self) -> tuple[Float, Float, Float]:
        """Of the first two classes: ratios of precisions, squared gaps of the means, and how often each occurs."""
        gap = np.square(self.means[1] - self.means[0]) * self.precisions[0]
        ratio = self.precisions[1] / self.precisions[0]
        radial = self.radial_precisions[1] / self.radial_precisions[0]
        times = np.concatenate([np.ones(len(ratio)), self.radii])
        return np.concatenate([ratio, radial]), np.concatenate([gap, np.zeros(len(radial))]), times

    def log_chernoff(self, k: Index, j: Index, s: Float) -> Float:
        """log of ∫ (π_k p_k)^{1−s} (π_j p_j)^s for each pair, shape (P,)."""
        ratio = self.precisions[j] / self.precisions[k]
        gap = np.square(self.means[j] - self.means[k]) * self.precisions[k]
        radial = self.radial_precisions[j] / self.radial_precisions[k]
        priors = (1 - s) * self.log_priors[k] + s * self.log_priors[j]
        return np.asarray(
            priors + log_unequal_integral(ratio, gap, s) + log_unequal_integral(radial, 0.0 * radial, s, self.radii)
        )

    def draw(self, k: Index, j: Index, s: Float, uniforms: Float, normals: Float) -> Float:
        """One draw from each Chernoff Gaussian (k, j, s); s = 0 or j = k is class k itself."""
        draws = np.empty((len(k), self.n_normal + self.n_uniform))
        for rows, first, second, share in _rows_by_component(k, j, s):
            precision = (1 - share) * self.precisions[first] + share * self.precisions[second]
            weight = share * self.precisions[second] / precision
            centre = self.means[first] + weight * (self.means[second] - self.means[first])
            draws[rows, : self.n_normal] = centre + normals[rows] / np.sqrt(precision)
            radial = (1 - share) * self.radial_precisions[first] + share * self.radial_precisions[second]
            draws[rows, self.n_normal :] = 2 * gammaincinv(self.radii / 2, uniforms[rows]) / radial
        return draws

    def log_joints(self, draws: Float) -> Float:
        """log π_k p_k at each draw, up to one constant that all classes share, shape (n, K)."""
        plain = draws[:, : self.n_normal]
        scale = np.log(self.precisions).sum(axis=1) + np.log(self.radial_precisions) @ self.radii
        radial = draws[:, self.n_normal :] @ self.radial_precisions.T
        return np.asarray(self.log_priors + 0.5 * (scale - radial - self._squared_distances(plain)))

    def _squared_distances(self, plain: Float) -> Float:
        """Σ λ_k (z − μ_k)², shape (n, K)."""
        weighted = self.precisions * self.means
        offset = np.einsum("kd,kd->k", weighted, self.means)
        if offset.max() < _EXPANDABLE:
            return np.asarray(np.square(plain) @ self.precisions.T - 2 * (plain @ weighted.T) + offset)
        result, gap = np.empty((len(plain), len(self.means))), np.empty_like(plain)
        for k, (mean, precision) in enumerate(zip(self.means, self.precisions, strict=True)):
            np.subtract(plain, mean, out=gap)
            gap *= np.sqrt(precision)
            result[:, k] = np.einsum("nd,nd->n", gap, gap)
        return result


class UnequalFullClasses:
    """Classes N(means[k], covs[k]) with covariance matrices of any form; a basis is kept for each pair used."""

    def __init__(self, means: Float, factors: list[Float], log_priors: Float) -> None:
        self.means = means
        self.log_priors = log_priors
        self.n_normal, self.n_uniform = means.shape[1], 0
        self._factors = factors
        self._log_scale = np.array([-np.log(np.diag(factor)).sum() for factor in self._factors])
        self._pairs: dict[tuple[int, int], tuple[Float, Float, Float]] = {}

    def pair_basis(self, k: int, j: int) -> tuple[Float, Float, Float]:
        """Basis (d, d), precision ratios (d,) and mean of j (d,) where class k is standard normal."""
        if (k, j) not in self._pairs:
            factor = self._factors[k]
            half = linalg.solve_triangular(factor, self._factors[j], lower=True, check_finite=False)
            left, spread, _ = linalg.svd(half, full_matrices=False, check_finite=False)
            shift = linalg.solve_triangular(factor, self.means[j] - self.means[k], lower=True, check_finite=False)
            self._pairs[k, j] = (factor @ left, spread**-2.0, left.T @ shift)
        return self._pairs[k, j]

    def ratios_gaps_counts(self) -> tuple[Float, Float, Float]:
        """As of :class:`UnequalDiagonalClasses`."""
        _, ratio, shift = self.pair_basis(0, 1)
        return ratio, np.square(shift), np.ones(len(ratio))

    def log_chernoff(self, k: Index, j: Index, s: Float) -> Float:
        """As of :class:`UnequalDiagonalClasses`."""
        parts = [self.pair_basis(int(a), int(b)) for a, b in zip(k, j, strict=True)]
        ratio = np.array([term[1] for term in parts])
        gap = np.square([term[2] for term in parts])
        return np.asarray(
            (1 - s) * self.log_priors[k] + s * self.log_priors[j] + log_unequal_integral(ratio, gap, s)
        )

    def draw(self, k: Index, j: Index, s: Float, uniforms: Float, normals: Float) -> Float:
        """As of :class:`UnequalDiagonalClasses`."""
        draws = np.empty_like(normals)
        for rows, first, second, share in _rows_by_component(k, j, s):
            if first == second:
                draws[rows] = self.means[first] + normals[rows] @ self._factors[first].T
                continue
            basis, ratio, shift = self.pair_basis(first, second)
            precision = (1 - share) + share * ratio
            inner = share * ratio * shift / precision + normals[rows] / np.sqrt(precision)
            draws[rows] = self.means[first] + inner @ basis.T
        return draws

    def log_joints(self, draws: Float) -> Float:
        """As of :class:`UnequalDiagonalClasses`."""
        result = np.empty((len(draws), len(self.means)))
        for k, (mean, factor) in enumerate(zip(self.means, self._factors, strict=True)):
            gap = linalg.solve_triangular(factor, (draws - mean).T, lower=True, check_finite=False)
            result[:, k] = -0.5 * np.einsum("dn,dn->n", gap, gap)
        return np.asarray(result + self._log_scale + self.log_priors)


def check_covs(covs: ArrayLike, n_classes: int, d: int) -> Float:
    """Give covs as (K,), (K, d) or (K, d, d) finite numbers."""
    return covariance_of_shape("covs", covs, (n_classes,), (n_classes, d), (n_classes, d, d))


UnequalClasses = UnequalDiagonalClasses | UnequalFullClasses


def log_unequal_integral(ratio: Float, gap: Float, s: Float, times: Float | float = 1.0) -> Float:
    """The formula at the top of this module for P pairs: ratio and gap δ²λ_k of shape (P, d), s of shape (P,)."""
    share = s[:, None]
    mixed = (1 - share) + share * ratio
    quadratic = share * (1 - share) * gap * ratio / mixed
    return np.asarray(0.5 * np.sum(times * (share * np.log(ratio) - np.log(mixed) - quadratic), axis=1))


def _rows_by_component(k: Index, j: Index, s: Float) -> Iterator[tuple[Index, int, int, float]]:
    """Rows that share a component (k, j, s), so that its parameters are computed once."""
    order = np.lexsort((s, j, k))
    code = np.stack([k, j, s])[:, order]
    starts = np.flatnonzero(np.append(True, np.any(code[:, 1:] != code[:, :-1], axis=0)))
    for rows in np.split(order, starts[1:]):
        yield rows, int(k[rows[0]]), int(j[rows[0]]), float(s[rows[0]])


def unequal_classes(
    means: ArrayLike, covs: ArrayLike, priors: ArrayLike | None, temperature: float
) -> UnequalClasses:
    """Check the arguments of a problem with one covariance per class, and reduce it where that can be done."""
    rows = arguments.real_numbers("means", check_means(means))
    array = check_covs(covs, *rows.shape)
    weights = check_priors(priors, len(rows))
    present = np.flatnonzero(weights > 0)
    rows, array, log_priors = rows[present] / temperature, array[present], np.log(weights[present])
    rows = rows - rows.mean(axis=0)
    if array.ndim == 3:
        factors = [cholesky_of_covariance(f"covs[{k}]", cov) for k, cov in zip(present, array, strict=True)]
        common = _diagonal_in_common_basis(rows, array, factors)
        if common is None:
            return UnequalFullClasses(rows, factors, log_priors)
        rows, array = common
    variances = positive_variances("covs", array)
    if variances.ndim == 1:
        return _diagonal_classes(log_priors, [(rows, variances)])
    profiles, group = np.unique(variances, axis=1, return_inverse=True)
    parts = [(rows[:, group.ravel() == g], profiles[:, g]) for g in range(profiles.shape[1])]
    return _diagonal_classes(log_priors, parts)


def _diagonal_classes(log_priors: Float, parts: list[tuple[Float, Float]]) -> UnequalDiagonalClasses:
    """Classes that are isotropic within each group of columns, given as (means (K, m), variances (K,)).

    A group of m columns keeps the r ≤ min(m, K − 1) dimensions that its means span; in the other m − r the classes
    differ in scale only, so that their squared radius says everything.
    """
    spans = [rows if rows.shape[1] == 1 else whitened_coordinates(rows, None) for rows, _ in parts]
    precisions = [
        np.repeat(1 / v[:, None], span.shape[1], axis=1) for span, (_, v) in zip(spans, parts, strict=True)
    ]
    left = np.array(
        [rows.shape[1] - span.shape[1] for span, (rows, _) in zip(spans, parts, strict=True)], dtype=float
    )
    radial = np.stack([1 / v for _, v in parts], axis=1)
    across = left > 0
    return UnequalDiagonalClasses(
        np.concatenate(spans, axis=1),
        np.concatenate(precisions, axis=1),
        log_priors,
        left[across],
        radial[:, across],
    )


def _diagonal_in_common_basis(means: Float, covs: Float, factors: list[Float]) -> tuple[Float, Float] | None:
    """Means and variances (K, d) in a basis where all covariances are diagonal, if there is one.

    Two covariances always have one; so have covariances that are multiples of each other or commute.
    """
    last = len(factors) - 1
    half = linalg.solve_triangular(factors[0], factors[last], lower=True, check_finite=False)
    left, _, _ = linalg.svd(half, full_matrices=False, check_finite=False)
    whiten = left.T @ linalg.solve_triangular(factors[0], np.eye(means.shape[1]), lower=True, check_finite=False)
    variances = np.empty(means.shape)
    for k, cov in enumerate(covs):
        rotated = whiten @ cov @ whiten.T
        variances[k] = np.diag(rotated)
        if np.abs(rotated - np.diag(variances[k])).max() > 1e-12 * np.sqrt(len(cov)) * variances[k].min():
            return None
    # Rounding would keep equal variances apart, and with them dimensions that could be taken together.
    digits = variances[0].mean() * 1e-12
    return means @ whiten.T, np.round(variances / digits) * digits if variances.max() < 1e3 else variances
