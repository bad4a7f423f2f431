"""Gaussian classes with one covariance: checked, then reduced to the few dimensions that matter.

For one shared covariance only the differences of the whitened means matter, so K classes live in r ≤ K − 1
dimensions whatever the dimension d of the data is. :func:`shared_classes` finds those r coordinates in one pass
over blocks of columns: memory O(K²), nothing of size d × d, and accuracy of order machine precision times the
spread of the means (a triangular factorisation, where a Gram matrix would square the condition number).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from hardpan import arguments
from hardpan.errors import InputError

Float = NDArray[np.float64]
Index = NDArray[np.intp]

_BLOCK_ROWS = 4  # column blocks hold this many times K columns: a quarter more work than one factorisation
_BLOCK_NUMBERS = 4_000_000  # and at most this many numbers, so that a block takes 32 MB


@dataclass(frozen=True, slots=True, eq=False)
class SharedClasses:
    """Classes N(coordinates[k], I) with priors exp(log_priors): what is left of classes with one covariance.

    Attributes:
        coordinates: (K, r) whitened, centred means; the columns fall in spread.
        log_priors: (K,) logarithms of the positive priors.
        numbers: (K,) numbers that the classes had before those with prior 0 were left out.
        n_classes: how many classes there were.
    """

    coordinates: Float
    log_priors: Float
    numbers: Index
    n_classes: int

    def at(self, temperature: float) -> SharedClasses:
        """The classes with every covariance multiplied by temperature²."""
        return replace(self, coordinates=self.coordinates / temperature)


def shared_classes(means: ArrayLike, cov: ArrayLike | None, priors: ArrayLike | None) -> SharedClasses:
    """Check means, one covariance and priors, and reduce the classes to r ≤ K − 1 dimensions."""
    means = check_means(means)
    weights = check_priors(priors, len(means))
    present = np.flatnonzero(weights > 0)
    rows = means if len(present) == len(means) else means[present]
    return SharedClasses(whitened_coordinates(rows, cov), np.log(weights[present]), present, len(means))


def check_means(means: ArrayLike) -> NDArray[Any]:
    """Give means as a (K, d) array of real numbers, without copying what may be memory-mapped."""
    array = means if isinstance(means, np.ndarray) else arguments.real_numbers("means", means)
    if array.ndim != 2 or array.shape[0] < 1 or array.shape[1] < 1:
        raise InputError(f"must have shape (K, d) with K ≥ 1 and d ≥ 1; got shape {array.shape}", argument="means")
    if array.dtype.kind not in "fiub":
        raise InputError(f"must hold real numbers; got dtype {array.dtype}", argument="means")
    return array


def check_priors(priors: ArrayLike | None, n_classes: int) -> Float:
    """Give priors as (K,) nonnegative numbers of sum 1, uniform by default."""
    if priors is None:
        return np.full(n_classes, 1.0 / n_classes)
    array = arguments.real_numbers("priors", priors, n_classes)
    total = float(array.sum())
    if array.min() < 0 or abs(total - 1) > 1e-6:
        raise InputError(
            f"must be nonnegative and sum to 1; got minimum {array.min():.6g}, sum {total:.6g}", argument="priors"
        )
    return array / total


def check_cov(cov: ArrayLike | None, d: int) -> Float:
    """Give one covariance for all classes as (), (d,) or (d, d) finite numbers, 1 by default."""
    return covariance_of_shape("cov", 1.0 if cov is None else cov, (), (d,), (d, d))


def covariance_of_shape(name: str, values: ArrayLike, *shapes: tuple[int, ...]) -> Float:
    """Give finite numbers of one of the shapes."""
    array = arguments.real_numbers(name, values)
    if array.shape not in shapes:
        listed = ", ".join(map(str, shapes))
        raise InputError(f"must have one of the shapes {listed} for these means; got {array.shape}", argument=name)
    return array


def cholesky_of_covariance(name: str, cov: Float) -> Float:
    """Lower Cholesky factor of a covariance matrix, or an error that says what is wrong with it."""
    scale = float(np.abs(cov).max())
    if float(np.abs(cov - cov.T).max()) > 1e-8 * scale:
        raise InputError(
            f"must be symmetric; got entries that differ by {np.abs(cov - cov.T).max():.3g}", argument=name
        )
    try:
        return np.asarray(linalg.cholesky(cov, lower=True, check_finite=False))
    except linalg.LinAlgError:
        smallest = float(linalg.eigvalsh(cov, subset_by_index=[0, 0])[0])
        raise InputError(
            f"must be positive definite; got smallest eigenvalue {smallest:.3g}: add a ridge or shrink it",
            argument=name,
        ) from None


def positive_variances(name: str, variances: Float) -> Float:
    """Give variances, all of which must be positive."""
    if variances.min() <= 0:
        raise InputError(f"must be positive; got minimum {variances.min():.6g}", argument=name)
    return variances


def _whitened_column_blocks(means: NDArray[Any], cov: ArrayLike | None) -> Iterator[Float]:
    """Blocks (b, m) of whitened columns: the K centred means and their centre; of two classes the difference."""
    n_classes, d = means.shape
    scale = check_cov(cov, d)
    factor = cholesky_of_covariance("cov", scale) if scale.ndim == 2 else None
    deviations = np.broadcast_to(np.sqrt(positive_variances("cov", scale)), d) if factor is None else np.empty(0)
    step = max(1, min(max(_BLOCK_ROWS * n_classes, 1024), _BLOCK_NUMBERS // n_classes)) if factor is None else d
    for start in range(0, d, step):
        columns = np.array(means[:, start : start + step], dtype=np.float64)
        for row, column in np.argwhere(~np.isfinite(columns)):
            raise InputError(
                f"must be finite; got {columns[row, column]} at index [{row}, {start + column}]", argument="means"
            )
        # The closed form amplifies errors of a distance by its square: two classes give their difference itself.
        centre = columns.mean(axis=0, keepdims=True)
        contrasts = columns[1:] - columns[:1] if n_classes == 2 else np.append(columns - centre, centre, axis=0)
        if factor is not None:
            yield np.asarray(linalg.solve_triangular(factor, contrasts.T, lower=True, check_finite=False))
        else:
            yield contrasts.T / deviations[start : start + step, None]


def whitened_coordinates(means: NDArray[Any], cov: ArrayLike | None) -> Float:
    """Coordinates (K, r) of the whitened means about their centre, exact to rounding; columns fall in spread."""

    def norm(vector: Float) -> float:
        largest = float(np.abs(vector).max(initial=0.0))
        return largest * float(np.sqrt(np.sum((vector / largest) ** 2))) if largest > 0 else 0.0

    blocks = _whitened_column_blocks(means, cov)
    if len(means) == 2:
        half = norm(np.array([norm(block) for block in blocks])) / 2
        return np.array([[-half], [half]]) if half > 0 else np.empty((2, 0))
    factor = np.empty((0, len(means) + 1))
    for block in blocks:
        stacked = np.concatenate([factor, block])
        if len(stacked) > len(means) + 1:
            stacked = linalg.qr(stacked, mode="r", overwrite_a=True, check_finite=False)[0][: stacked.shape[1]]
        factor = np.asarray(stacked, dtype=np.float64)
    points = factor[:, :-1].T
    left, spread, _ = linalg.svd(points, full_matrices=False, check_finite=False)
    # Columns that are rounding are dropped: the means were rounded where they were given, at this distance from 0.
    floor = 4 * len(points) * np.finfo(float).eps * max(spread[0], norm(factor[:, -1]))
    rank = int(np.count_nonzero(spread > floor))
    return np.asarray(left[:, :rank] * spread[:rank])


def whitened_rows(name: str, cov: Float, rows: Float, tau: float) -> tuple[Float, float]:
    """Rows times (τ²Σ)^{-1/2}, and ½ log det Σ (τ adds the same to every class)."""
    if cov.ndim == 2:
        factor = cholesky_of_covariance(name, cov)
        white = linalg.solve_triangular(factor, rows.T, lower=True, check_finite=False).T / tau
        return np.asarray(white), float(np.log(np.diag(factor)).sum())
    variances = np.broadcast_to(positive_variances(name, cov), rows.shape[1])
    return rows / (tau * np.sqrt(variances)), 0.5 * float(np.log(variances).sum())
