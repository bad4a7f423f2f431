"""More from the same draws: errors by class, confusion matrix, pairs, top-k, and the slope in the temperature."""

from __future__ import annotations

import math
from dataclasses import field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from hardpan.arguments import real_number
from hardpan.bayes.gaussians.importance import ImportanceProposal, control_variate_slope
from hardpan.bayes.gaussians.methods import check_integration_options
from hardpan.bayes.gaussians.sampling import (
    MAX_DRAWS,
    ReplicatedMeans,
    ScaledError,
    replicated_means,
)
from hardpan.bayes.gaussians.shared_covariance import Float, Index, SharedClasses, shared_classes
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.report import Report


@record(eq=False)
class GaussianDetail(Report):
    """What the Bayes classifier of Gaussian classes gets wrong. Fractions; ``*_stderr`` has the same shape.

    Attributes:
        error: the Bayes error.
        class_error: (K,) P(decision ≠ k | class k); NaN for a class of prior 0.
        confusion: (K, K) P(decide j | class k); rows add up to 1.
        pairwise: (K, K) Bayes error of classes k and j alone, priors rescaled; a closed form. NaN on the diagonal.
        top_k: (K,) error of the best list of 1, 2, ..., K classes; the last is 0.
        slope: dE/dτ at the temperature of the classes.
    """

    HEADLINE = "The Bayes error is {error}."

    error: Estimate
    class_error: NDArray[np.float64]
    class_error_stderr: NDArray[np.float64]
    confusion: NDArray[np.float64]
    confusion_stderr: NDArray[np.float64]
    pairwise: NDArray[np.float64]
    top_k: NDArray[np.float64]
    top_k_stderr: NDArray[np.float64]
    slope: Estimate = field(metadata={"unit": ""})
    n: int
    seed: int


def gaussian_detail(
    means: ArrayLike,
    cov: ArrayLike | None = None,
    priors: ArrayLike | None = None,
    *,
    temperature: float = 1.0,
    rtol: float = 1e-3,
    seed: int = 0,
    max_draws: int = MAX_DRAWS,
) -> GaussianDetail:
    """Errors by class, confusion matrix, pairwise and top-k errors, and dE/dτ, from one set of importance draws.

    A draw z of the proposal g adds q_k(z)/g(z) to the confusion of class k with the winner at z; the joints after
    the k-th largest, over g, add up to the top-k error. The slope is an integral over decision boundaries,

        dE/dτ = Σ_{k<j} π_k φ(t_kj) (δ_kj/τ) P(no third class wins | on the boundary of k and j),

    with δ_kj the distance of the whitened means at τ: every term is positive, so E rises with τ. Its draws are the
    same ones, moved onto the boundary.

    Args:
        means: (K, d); with cov, priors, seed and max_draws as in :func:`hardpan.bayes.gaussian`.
        temperature: the temperature.
        rtol: draw until the standard error of the Bayes error is below this fraction of it; the other numbers say
            how exact they are themselves.

    Example:
        >>> detail = gaussian_detail([[0.0], [2.0]], priors=[0.5, 0.5])
        >>> detail.confusion.round(4).tolist()  # Φ(−1) = 0.1587
        [[0.8413, 0.1587], [0.1587, 0.8413]]
        >>> round(detail.slope.value, 6)  # φ(1) · 1
        0.241971
    """
    tau = real_number("temperature", temperature, "(0, inf)")
    check_integration_options("importance", rtol, seed, max_draws)
    classes = shared_classes(means, cov, priors).at(tau)
    n_classes = len(classes.log_priors)
    if n_classes < 2:
        raise InputError(
            "must hold two classes with positive priors or more; one class has no errors to detail",
            argument="means",
        )
    proposal = ImportanceProposal(classes)
    if proposal.log_union < math.log(np.finfo(float).tiny):
        raise InputError(
            f"must be higher: at {tau:g} every error is below 1e-308, which a matrix cannot hold; "
            "bayes.gaussian gives its log10",
            argument="temperature",
        )
    tally = _DetailSums(proposal, control_variate_slope(proposal, seed), tau)
    result = replicated_means(
        tally.integrands,
        n_uniform=2,
        n_normal=proposal.n_normal,
        width=n_classes * max(1, n_classes // 64),
        seed=seed,
        rtol=rtol,
        max_draws=max_draws,
    )
    return _detail_of_replicates(classes, proposal, result, seed, rtol)


class _DetailSums:
    """Sums over draws, in units of W: error, slope, top-k errors (K), confusions (K × K), one after the other."""

    def __init__(self, proposal: ImportanceProposal, slope: float, tau: float) -> None:
        self._proposal = proposal
        self._slope = slope
        distance, threshold = proposal.distance, proposal.threshold
        with np.errstate(over="ignore", under="ignore"):
            log_density = -0.5 * np.square(threshold) - 0.5 * math.log(2 * math.pi) - log_ndtr(-threshold)
            # Each boundary is met from both sides, hence the half.
            self._rate = np.where(distance > 0, 0.5 * np.exp(log_density) * distance / tau, 0.0)

    def integrands(self, uniforms: Float, normals: Float) -> tuple[Float, Float]:
        """The error at each draw, and the sums of everything else."""
        proposal = self._proposal
        k, j, log_joints = proposal.draw(uniforms, normals)
        order = np.argsort(log_joints, axis=1)
        joints, ranked, density = proposal.scaled(np.take_along_axis(log_joints, order, axis=1))
        lost = joints / density[:, None]
        lost[:, -1] = 0.0
        up_to = np.cumsum(lost, axis=1)  # up_to[:, i] = the i + 1 smallest joints
        error = up_to[:, -1] - self._slope * (ranked / density - 1.0)
        by_class = np.empty_like(lost)
        np.put_along_axis(by_class, order, lost, axis=1)
        winners = np.zeros_like(lost)
        winners[np.arange(len(k)), order[:, -1]] = 1.0
        top = np.append(up_to[:, -2::-1].sum(axis=0), 0.0)
        confusion = by_class.T @ winners
        return error, np.concatenate([[self._boundary(k, j, normals)], top, confusion.ravel()])

    def _boundary(self, k: Index, j: Index, normals: Float) -> float:
        proposal = self._proposal
        pairs = k != j
        k, j = k[pairs], j[pairs]
        log_joints = proposal.log_joints(k, j, proposal.threshold[k, j], normals[pairs])
        both = log_joints[np.arange(len(k)), k]
        np.put_along_axis(log_joints, np.stack([k, j], axis=1), -np.inf, axis=1)
        first = log_joints.max(axis=1) <= both
        return float(np.sum(self._rate[k, j] * first) / (1 - proposal.class_share))


def _detail_of_replicates(
    classes: SharedClasses, proposal: ImportanceProposal, result: ReplicatedMeans, seed: int, rtol: float
) -> GaussianDetail:
    n_classes, union = len(classes.log_priors), math.exp(proposal.log_union)
    value, stderr = union * result.value, union * result.stderr
    outcome = ScaledError(proposal.log_union, result, bounds=proposal.bounds)
    error = outcome.estimate(method="importance", seed=seed, rtol=rtol)
    reach = result.interval_factor * stderr[1]
    slope = Estimate(
        float(value[1]),
        float(stderr[1]),
        float(value[1] - reach),
        float(value[1] + reach),
        method="importance",
        n=result.draws,
        seed=seed,
    )
    priors = np.exp(classes.log_priors)
    parts = union * result.means[:, 2 + n_classes :].reshape(len(result.means), n_classes, n_classes)
    parts = parts / priors[:, None]
    rows = parts.sum(axis=2)
    parts[:, np.arange(n_classes), np.arange(n_classes)] = 1.0 - rows
    root = math.sqrt(len(result.means))
    whole = classes.n_classes
    mass = np.exp(proposal.log_mass)
    pairwise = (mass + mass.T) / (priors[:, None] + priors[None, :])
    np.fill_diagonal(pairwise, np.nan)

    def placed(values: Float) -> Float:
        return _detail_at_class_numbers(values, classes.numbers, whole)

    return GaussianDetail(
        error=error,
        class_error=placed(rows.mean(axis=0)),
        class_error_stderr=placed(rows.std(axis=0, ddof=1) / root),
        confusion=placed(parts.mean(axis=0)),
        confusion_stderr=placed(parts.std(axis=0, ddof=1) / root),
        pairwise=placed(pairwise),
        top_k=np.append(value[2 : 2 + n_classes], np.zeros(whole - n_classes)),
        top_k_stderr=np.append(stderr[2 : 2 + n_classes], np.zeros(whole - n_classes)),
        slope=slope,
        n=result.draws,
        seed=seed,
    )


def _detail_at_class_numbers(values: Float, classes: Index, n_classes: int) -> Float:
    """Values of the classes that count, at their places among all; a class of prior 0 gets NaN, its column 0."""
    if len(classes) == n_classes:
        return values
    result = np.full((n_classes,) * values.ndim, np.nan)
    if values.ndim == 1:
        result[classes] = values
    else:
        result[classes] = 0.0
        result[np.ix_(classes, classes)] = values
    return result
