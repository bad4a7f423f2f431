"""One contract for every stochastic estimator: right within its own standard error, and the same for a seed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.bayes.gaussians import truth

from hardpan import bayes
from hardpan.bayes.gaussians import importance
from hardpan.bayes.gaussians.shared_covariance import SharedClasses, shared_classes
from hardpan.estimates import Estimate

# Five standard errors: a right estimator fails one of these tests in a million.
SIGMAS = 5.0

LATTICE = (3.0, 2.0, 4.0), (0.5, 0.7, 0.9)
SHARED: dict[str, tuple[np.ndarray, np.ndarray | None, float]] = {
    "equidistant, easy": (8.5 * np.eye(5), None, truth.equidistant(5, 8.5)),
    "equidistant, ordinary": (4.0 * np.eye(10), None, truth.equidistant(10, 4.0)),
    "equidistant, hard": (1.0 * np.eye(10), None, truth.equidistant(10, 1.0)),
    "equidistant, wide": (3.0 * np.eye(30, 900), None, truth.equidistant(30, 3.0)),
    "lattice with priors": (*truth.lattice_problem(*LATTICE), truth.lattice(*LATTICE)),
}
REACH = {"importance": 1e-3, "hdr": 0.05}


def close(estimate: Estimate, expected: float) -> None:
    assert abs(estimate.value - expected) <= SIGMAS * estimate.stderr + 1e-12 * expected, (estimate, expected)
    assert estimate.low <= estimate.value <= estimate.high
    assert estimate.log10 == pytest.approx(math.log10(estimate.value), rel=1e-9)


@pytest.mark.parametrize("case", SHARED)
@pytest.mark.parametrize("method", REACH)
def test_shared_covariance(method: str, case: str) -> None:
    means, priors, expected = SHARED[case]
    estimate = bayes.gaussian(means, priors=priors, method=method, rtol=REACH[method], max_draws=2**19)
    assert estimate.method == method
    close(estimate, expected)


CONCENTRIC = [(1, 3.0), (2, 3.0), (50, 1.2), (784, 1.5), (3072, 1.2), (3072, 1.02)]


@pytest.mark.parametrize(("dimension", "scale"), CONCENTRIC)
@pytest.mark.parametrize("form", ["scalars", "diagonals", "matrices"])
def test_concentric_covariances(dimension: int, scale: float, form: str) -> None:
    covs: Any = np.array([1.0, scale**2])
    if form == "diagonals":
        covs = covs[:, None] * np.ones(dimension)
    if form == "matrices":
        dimension = min(dimension, 60)
        covs = covs[:, None, None] * np.eye(dimension)
    expected = truth.concentric(dimension, scale)
    estimate = bayes.gaussian(np.zeros((2, dimension)), covs=covs, method="chernoff")
    close(estimate, expected)
    assert estimate.stderr <= 1e-3 * estimate.value
    exact = bayes.gaussian(np.zeros((2, dimension)), covs=covs)
    assert (exact.method, exact.stderr) == ("contour", 0.0)
    assert exact.value == pytest.approx(float(expected), rel=1e-9)


def test_unequal_variances_on_a_line() -> None:
    means, variances, priors = (
        np.array([0.0, 1.0, 4.0, 4.0]),
        np.array([1.0, 9.0, 0.25, 1e-2]),
        np.array([3, 2, 4, 1]) / 10,
    )
    expected = truth.on_a_line(means, priors, variances)
    close(bayes.gaussian(means[:, None], covs=variances, priors=priors), expected)


def test_general_matrices_agree_with_plain_monte_carlo() -> None:
    rng = np.random.default_rng(1)
    roots = rng.normal(size=(4, 5, 5))
    covs = roots @ roots.transpose(0, 2, 1) + 0.3 * np.eye(5)
    means, priors = 1.5 * rng.normal(size=(4, 5)), [0.1, 0.2, 0.3, 0.4]
    labels = rng.choice(4, 200_000, p=priors)
    draws = means[labels] + np.einsum("nij,nj->ni", np.linalg.cholesky(covs)[labels], rng.normal(size=(200_000, 5)))
    risk = 1 - bayes.posterior(draws, means, covs=covs, priors=priors).max(axis=1)
    ours = bayes.gaussian(means, covs=covs, priors=priors)
    assert abs(ours.value - risk.mean()) <= SIGMAS * math.hypot(ours.stderr, risk.std() / math.sqrt(len(risk)))


def test_one_huge_and_one_tiny_covariance() -> None:
    # The tiny class is a needle in the huge one: the error is what the huge class has inside the needle.
    estimate = bayes.gaussian([[0.0], [0.5]], covs=[1e12, 1e-12])
    # Inside |x − 0.5| < r the needle wins, r² = 1e-12 log(1e24): the huge class loses 2r of its density at 0.
    radius = math.sqrt(1e-12 * math.log(1e24))
    needle = 0.5 * 2 * radius / math.sqrt(2 * math.pi * 1e12) + 0.5 * math.erfc(radius / 1e-6 / math.sqrt(2))
    assert abs(estimate.value - needle) <= SIGMAS * estimate.stderr + 1e-6 * needle


@pytest.mark.parametrize(
    "options",
    [
        {"method": "importance"},
        {"method": "hdr", "rtol": 0.1},
        {"covs": [1.0, 2.0, 3.0]},
    ],
    ids=lambda options: str(options.get("method", "chernoff")),
)
def test_same_seed_same_result(options: dict[str, Any]) -> None:
    means = 3.0 * np.eye(3)
    first, again = bayes.gaussian(means, **options, seed=7), bayes.gaussian(means, **options, seed=7)
    other = bayes.gaussian(means, **options, seed=8)
    assert first == again
    assert other.value != first.value


def test_affine_maps_change_nothing() -> None:
    rng = np.random.default_rng(2)
    means, root = rng.normal(size=(4, 6)), rng.normal(size=(6, 6))
    cov = root @ root.T + np.eye(6)
    matrix, shift = rng.normal(size=(6, 6)) + 3 * np.eye(6), rng.normal(size=6)
    plain = bayes.gaussian(means, cov)
    mapped = bayes.gaussian(means @ matrix.T + shift, matrix @ cov @ matrix.T)
    assert abs(plain.value - mapped.value) <= SIGMAS * math.hypot(plain.stderr, mapped.stderr)


def test_order_of_classes_changes_nothing() -> None:
    rng = np.random.default_rng(3)
    means, priors, order = rng.normal(size=(6, 4)), rng.dirichlet(np.ones(6)), rng.permutation(6)
    first, second = bayes.gaussian(means, priors=priors), bayes.gaussian(means[order], priors=priors[order])
    assert abs(first.value - second.value) <= SIGMAS * math.hypot(first.stderr, second.stderr)


def test_weights_stay_in_their_bounds() -> None:
    rng = np.random.default_rng(4)
    for scale in (0.1, 1.0, 5.0, 50.0):
        classes = shared_classes(scale * rng.normal(size=(7, 20)), None, rng.dirichlet(np.ones(7)))
        proposal = importance.ImportanceProposal(classes)
        _, _, log_joints = proposal.draw(rng.random((2000, 2)), rng.normal(size=(2000, proposal.n_normal)))
        log_joints.sort(axis=1)
        joints, ranked, _ = proposal.scaled(log_joints)
        weight = joints[:, :-1].sum(axis=1) / ranked
        assert weight.min() >= 2 / 7 - 1e-12
        assert weight.max() <= 1 + 1e-12


def test_reduction_keeps_all_distances() -> None:
    rng = np.random.default_rng(5)
    means = rng.normal(size=(8, 5000)).astype(np.float32)
    coordinates = shared_classes(means, None, None).coordinates
    assert coordinates.shape == (8, 7)
    wide = means.astype(np.float64)
    for k in range(8):
        expected = np.linalg.norm(wide - wide[k], axis=1)
        assert np.allclose(np.linalg.norm(coordinates - coordinates[k], axis=1), expected, rtol=1e-12, atol=1e-12)


def test_close_means_far_from_others_keep_their_distance() -> None:
    # A Gram matrix would lose this: the gap is 1e-9 of the spread.
    means = np.array([[0.0, 0.0], [1e-1, 0.0], [1e8, 0.0], [0.0, 1e8]])
    estimate = bayes.gaussian(means, priors=[0.25] * 4)
    expected = 0.5 * float(truth.two_classes(0.1, 0.5))
    assert estimate.value == pytest.approx(expected, rel=1e-6)


def test_rank_deficient_means() -> None:
    rng = np.random.default_rng(6)
    flat = rng.normal(size=(6, 2)) * 2
    basis = np.linalg.qr(rng.normal(size=(50, 2)))[0]
    classes: SharedClasses = shared_classes(flat @ basis.T, None, None)
    assert classes.coordinates.shape == (6, 2)
    assert bayes.gaussian(flat @ basis.T).value == pytest.approx(bayes.gaussian(flat).value, rel=5e-3)


def test_duplicate_means_among_others() -> None:
    means = np.array([[0.0, 0.0], [0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    estimate = bayes.gaussian(means, priors=[0.4, 0.1, 0.25, 0.25])
    single = bayes.gaussian(means[1:], priors=[0.5, 0.25, 0.25])
    # The smaller twin is always lost, and the larger one wins as if it had its own prior.
    assert estimate.value == pytest.approx(0.1, rel=1e-2)
    assert estimate.value > 0.1
    tied = bayes.gaussian(means, priors=[0.25] * 4)
    assert tied.value == pytest.approx(0.25, rel=1e-2)
    assert single.value < 1e-4


def test_classes_of_prior_zero_do_not_count() -> None:
    rng = np.random.default_rng(7)
    means = rng.normal(size=(5, 3))
    with_zero = bayes.gaussian(means, priors=[0.3, 0.0, 0.3, 0.4, 0.0])
    without = bayes.gaussian(means[[0, 2, 3]], priors=[0.3, 0.3, 0.4])
    assert with_zero.value == without.value


@pytest.mark.parametrize("temperature", [1e-3, 1e-2, 1e2, 1e3])
def test_extreme_temperatures(temperature: float) -> None:
    means = np.random.default_rng(8).normal(size=(5, 4))
    estimate = bayes.gaussian(means, priors=[0.3, 0.25, 0.2, 0.15, 0.1], temperature=temperature)
    assert estimate.log10 is not None
    if temperature >= 100:
        assert estimate.value == pytest.approx(0.7, abs=0.02)
        assert estimate.value < 0.7
    else:
        # Rare errors come from the closest pair alone, whose closed form is at most half of the bound.
        assert -1e7 < estimate.log10 < -50
        assert np.isfinite(estimate.log10)


def test_rare_errors_are_the_union_of_pairs() -> None:
    means = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 30.0]])
    estimate = bayes.gaussian(means)
    expected = sum(float(truth.two_classes(d, 0.5)) for d in (20.0, 30.0, math.hypot(20, 30))) * 2 / 3
    assert estimate.value == pytest.approx(expected, rel=1e-6)


def test_what_the_draws_cannot_show_is_in_the_interval() -> None:
    # Three classes meet so rarely (once in some 10⁸ draws) that all weights are equal; the truth is a little lower.
    lengths, priors = (11.0, 12.0), (0.7, 0.9)
    means, weights = truth.lattice_problem(lengths, priors)
    errors = [float(truth.two_classes(d, p)) for d, p in zip(lengths, priors, strict=True)]
    expected = errors[0] + errors[1] - errors[0] * errors[1]
    for seed in range(5):
        estimate = bayes.gaussian(means, priors=weights, seed=seed)
        assert estimate.stderr < 1e-9 * estimate.value
        assert estimate.low <= expected <= estimate.high * (1 + 1e-12)
        assert estimate.high - estimate.low < 1e-3 * estimate.value


@pytest.mark.parametrize("method", ["importance", "hdr", "chernoff"])
def test_the_cap_is_used_and_said(method: str) -> None:
    covs = np.tile([[1.0], [2.0], [1.0], [1.0]], 4) if method == "chernoff" else None
    estimate = bayes.gaussian(3 * np.eye(4), covs=covs, method=method, rtol=1e-6, max_draws=10_000)
    assert 5_000 < estimate.n <= 10_000
    assert any("cap" in note for note in estimate.notes)


def test_memory_mapped_means(tmp_path: Any) -> None:
    means = np.random.default_rng(9).normal(size=(4, 9000)).astype(np.float32) / 50
    np.save(tmp_path / "means.npy", means)
    mapped = np.load(tmp_path / "means.npy", mmap_mode="r")
    assert bayes.gaussian(mapped) == bayes.gaussian(means)
